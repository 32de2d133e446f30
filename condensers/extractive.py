"""A chat model that is none: it answers a request for a summary with the first words of each event.

Deterministic, offline and free: for replays, tests and benchmarks without a language model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..memory.message import ChatDict, Reply

__all__ = ["ExtractiveModel"]

_WORDS = 160  # characters taken of each event
_LENGTH = 4_000  # characters of a whole summary: beyond it the oldest lines give way


class ExtractiveModel:
    """A :class:`~eventfold.memory.ChatModel` without an LLM."""

    def completion(
        self,
        messages: Sequence[ChatDict],
        *,
        tools: Sequence[ChatDict] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        """A line for each event of the request, and the lines of the summaries in it."""
        request = str(messages[-1]["content"]) if messages else ""
        blocks = _BLOCK.findall(request)
        lines: list[str] = []
        for _, attributes, text in blocks:
            if attributes.strip().startswith(("previous summary", "summary of ")):
                lines += text.strip().split("\n")
            else:
                lines.append(f"- {attributes.strip()}: {' '.join(text.split())[:_WORDS]}")
        while len(lines) > 1 and sum(len(line) + 1 for line in lines) > _LENGTH:
            del lines[0]
        return Reply(text="\n".join(lines), finish_reason="stop")

    async def acompletion(
        self,
        messages: Sequence[ChatDict],
        *,
        tools: Sequence[ChatDict] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        return self.completion(messages, tools=tools, max_output_tokens=max_output_tokens)


_BLOCK = re.compile(r"<(\w+-[0-9a-f]{8})( [^\n>]*)?>\n(.*?)\n</\1>", re.DOTALL)
