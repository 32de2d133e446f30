"""A structured summary in the place of what is forgotten: fields that code merges."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..memory.message import ChatModel
from .base import Condenser
from .config import Parts, register_condenser
from .state_summary import LEAST_CHARS
from .structured_summary import StructuredSummary
from .summarizing import SummarizingCondenser, SummarizingCondenserConfig

__all__ = ["StructuredSummaryCondenser", "StructuredSummaryCondenserConfig"]


class StructuredSummaryCondenser(SummarizingCondenser):
    """Lets an LLM tell of the older half in typed fields, and merges them with those of the
    previous summary: a :class:`~eventfold.condensers.summarizing.SummarizingCondenser` with a
    :class:`~eventfold.condensers.structured_summary.StructuredSummary`, whose arguments it
    takes."""

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
        max_chars: int = 12_000,
        ledger_chars: int = 2_000,
        parallel: int = 4,
        minimum_progress: float = 0.1,
        fallback: Condenser | None = None,
    ) -> None:
        summary = StructuredSummary(
            llm,
            max_chars=max_chars,
            max_event_length=max_event_length,
            prompt=prompt,
            max_input_tokens=max_input_tokens,
            max_output_tokens=max_output_tokens,
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


@register_condenser
class StructuredSummaryCondenserConfig(SummarizingCondenserConfig):
    """``type: structured``"""

    type: Literal["structured"] = "structured"
    max_chars: int = Field(12_000, ge=LEAST_CHARS)
    """Characters that the fields may have, without the ledger below them."""

    def build(self, parts: Parts) -> Condenser:
        return StructuredSummaryCondenser(**self.settings(parts))
