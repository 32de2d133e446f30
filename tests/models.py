"""A summarizer that is made up: a function of what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eventfold.memory import Reply
from eventfold.memory.message import ChatDict

__all__ = ["MadeUpModel"]


class MadeUpModel:
    """Answers with a text, or with what a function makes of the request's text. It takes what a
    chat model has to take, and nothing more, and keeps what it was asked."""

    def __init__(
        self,
        answer: str | Callable[[str], Reply] = "in short",
        *,
        context_window: int | None = None,
    ) -> None:
        self.answer = answer
        self.context_window = context_window
        self.messages: list[list[ChatDict]] = []
        self.requests: list[str] = []
        """The texts of the messages."""
        self.settings: list[tuple[Any, Any]] = []
        """The tools, and the limit of the output."""

    def completion(
        self,
        messages: Sequence[ChatDict],
        *,
        tools: Sequence[ChatDict] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        assert tools is None  # no summary needs any
        self.messages.append(list(messages))
        request = "\n".join(str(message["content"]) for message in messages)
        self.requests.append(request)
        self.settings.append((tools, max_output_tokens))
        if isinstance(self.answer, str):
            return Reply(self.answer, finish_reason="stop")
        return self.answer(request)  # others may have been asked in the meantime

    async def acompletion(
        self,
        messages: Sequence[ChatDict],
        *,
        tools: Sequence[ChatDict] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        return self.completion(messages, tools=tools, max_output_tokens=max_output_tokens)
