"""An LLM's summary in the place of what is forgotten."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import AliasChoices, Field, field_validator, model_validator

from ..events.event import InvalidArgument
from ..memory.message import ChatModel
from ..memory.tokens import Budget
from ..memory.turns import Turn, TurnKind
from ..memory.view import View
from .base import (
    Condenser,
    RollingCondenser,
    StandIn,
    check_sizes,
    down_to,
    events_summed_up,
    forgettable,
)
from .config import (
    CondenserConfig,
    InvalidConfig,
    Parts,
    SomeConfig,
    built,
    register_condenser,
)
from .extractive import ExtractiveModel
from .llm import LLM, LLMConfig
from .llm_summary import LLMSummary
from .summary_prompt import SummaryPrompt
from .window import ConversationWindowCondenser

__all__ = [
    "LLMSummarizingCondenser",
    "LLMSummarizingCondenserConfig",
    "SummarizingCondenser",
    "SummarizingCondenserConfig",
    "SummaryConfig",
    "chat_model",
]


class SummarizingCondenser(RollingCondenser):
    """Puts a summary in the place of the older half when the view has more than ``max_size``
    events, or its prompt more than ``max_tokens`` (estimated; None: any number).

    ``keep_first`` events at the beginning are kept (None: the task), and the newest
    ``keep_user_messages`` messages of the user (one at least). On request it acts at any size.
    Where there is no summary, nothing is forgotten, and none is tried again before the view has
    grown by a tenth; a request is then answered by ``fallback`` (a
    :class:`ConversationWindowCondenser` if none is given).

    Raises :class:`InvalidArgument` for sizes that leave no room.
    """

    pays_for_summaries = True

    def __init__(
        self,
        stand_in: StandIn,
        max_size: int = 100,
        keep_first: int | None = None,
        *,
        max_tokens: int | None = None,
        keep_user_messages: int = 1,
        minimum_progress: float = 0.1,
        fallback: Condenser | None = None,
    ) -> None:
        check_sizes("max_size", max_size, keep_first)
        if max_tokens is not None and max_tokens < 1:
            raise InvalidArgument(
                f"max_tokens is a number of tokens, 1 or more; found {max_tokens}"
            )
        if keep_user_messages < 0:
            raise InvalidArgument(
                f"keep_user_messages is a number of messages, 0 or more; found {keep_user_messages}"
            )
        self.max_size = max_size
        self.max_tokens = max_tokens
        self.keep_first = keep_first
        self.keep_user_messages = keep_user_messages
        super().__init__(
            self._too_many,
            self._older,
            stand_in,
            minimum_progress=minimum_progress,
            fallback=fallback if fallback is not None else ConversationWindowCondenser(),
        )

    def _too_many(self, view: View, budget: Budget | None, /) -> str | None:
        if len(view) > self.max_size:
            return f"{len(view)} events are more than {self.max_size}"
        if self.max_tokens is not None:
            tokens = self._tokens(view, budget)
            if tokens > self.max_tokens:
                return f"{tokens} tokens are more than {self.max_tokens}"
        return None

    def _older(self, view: View, requested: bool, budget: Budget | None, /) -> list[Turn]:
        users = [turn for turn in view.turns if turn.kind is TurnKind.USER]
        keep = users[-self.keep_user_messages :] if self.keep_user_messages else []
        if not requested and view.newest_response is not None:
            keep = [*keep, view.newest_response]
        size = min(len(view), self.max_size) if requested else self.max_size
        window = budget if requested else None
        candidates = forgettable(view, self.keep_first, budget=window, keep=keep)
        by_size = len(view)
        if requested or len(view) > self.max_size:
            by_size = size // 2 - 1 + events_summed_up(view)  # the new summary is an event, too
        forgotten = down_to(view, candidates, by_size, window)
        if self.max_tokens is None or self._tokens(view, budget) <= self.max_tokens:
            return forgotten
        limit = Budget(self.max_tokens, counter=self._counter)
        return max(forgotten, down_to(view, candidates, len(view), limit), key=len)


class LLMSummarizingCondenser(SummarizingCondenser):
    """Lets an LLM summarize the older half, in its own words: a :class:`SummarizingCondenser` with
    an :class:`LLMSummary`, whose arguments it takes."""

    def __init__(
        self,
        llm: ChatModel,
        max_size: int = 100,
        keep_first: int | None = None,
        *,
        max_tokens: int | None = None,
        keep_user_messages: int = 1,
        prompt: str | None = None,
        max_input_tokens: int | None = None,
        max_output_tokens: int | None = None,
        max_event_length: int | None = None,
        ledger_chars: int = 2_000,
        parallel: int = 4,
        minimum_progress: float = 0.1,
        fallback: Condenser | None = None,
    ) -> None:
        summary = LLMSummary(
            llm,
            prompt=prompt,
            max_input_tokens=max_input_tokens,
            max_output_tokens=max_output_tokens,
            max_event_length=max_event_length,
            ledger_chars=ledger_chars,
            parallel=parallel,
        )
        super().__init__(
            summary,
            max_size,
            keep_first,
            max_tokens=max_tokens,
            keep_user_messages=keep_user_messages,
            minimum_progress=minimum_progress,
            fallback=fallback,
        )


class SummaryConfig(CondenserConfig):
    """The options of summaries by a language model."""

    llm_config: LLMConfig | None = None
    """The language model; ``{model: "extractive"}`` is a stand-in that needs none."""
    prompt: str | None = None
    """A jinja2 template in the place of the instructions."""
    max_input_tokens: int | None = Field(None, ge=1000)
    """Tokens that one call of the summarizer may be given; without it, what fits its window."""
    max_output_tokens: int | None = Field(None, ge=1)
    """Tokens that a summary may have."""
    max_event_length: int | None = Field(None, ge=1)
    """Characters of one event that the model is given; without it, all of them."""
    ledger_chars: int = Field(2_000, ge=0)
    """Characters of the ledger of files, commands and errors below the summary; 0: none."""
    parallel: int = Field(4, ge=1)
    """Calls of the summarizer at the same time, where one is not enough; 1: one after the other."""
    minimum_progress: float = Field(0.1, ge=0, le=1)
    """The fraction of the view's events that must go before a summary is paid for."""
    fallback: SomeConfig | None = None
    """Who answers a request where the LLM fails; without it, ``conversation_window``."""

    @field_validator("prompt")
    @classmethod
    def _template(cls, prompt: str | None) -> str | None:
        if prompt is not None:
            SummaryPrompt(prompt)
        return prompt


class SummarizingCondenserConfig(SummaryConfig):
    """The options of condensers that let a language model summarize the older half."""

    max_size: int = Field(100, ge=1, validation_alias=AliasChoices("max_size", "max_events"))
    """Events in the view above which it is condensed."""
    max_tokens: int | None = Field(None, ge=1)
    """Tokens of the prompt above which it is condensed; without it, any number."""
    keep_first: int | None = Field(None, ge=0)
    """Events at the beginning that stay; without it, the task."""
    keep_user_messages: int = Field(1, ge=0)
    """How many of the user's newest messages stay; one at least."""

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        check_sizes("max_size", self.max_size, self.keep_first)
        return self

    def settings(self, parts: Parts) -> dict[str, Any]:
        """The arguments of the condenser, the language model among them. Raises
        :class:`InvalidConfig` without one."""
        settings = {name: getattr(self, name) for name in type(self).model_fields}
        del settings["type"], settings["llm_config"]
        settings["llm"] = parts.llm if parts.llm is not None else chat_model(self.llm_config)
        if self.fallback is not None:
            settings["fallback"] = built(self.fallback, parts)
        return settings


@register_condenser
class LLMSummarizingCondenserConfig(SummarizingCondenserConfig):
    """``type: llm``"""

    type: Literal["llm"] = "llm"

    def build(self, parts: Parts) -> Condenser:
        return LLMSummarizingCondenser(**self.settings(parts))


def chat_model(config: LLMConfig | None) -> ChatModel:
    """The model of a configuration. Raises :class:`InvalidConfig` for none."""
    if config is None:
        raise InvalidConfig(
            "a language model is needed: give one to condenser_from_config(..., llm=...), or "
            'llm_config: {model: ..., api_base: ..., ...}; {model: "extractive"} is a stand-in '
            "that needs none"
        )
    return ExtractiveModel() if config.model == "extractive" else LLM(config)
