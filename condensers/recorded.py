"""The condensations that were recorded: for replaying a run as it was."""

from __future__ import annotations

from typing import Literal

from ..memory.tokens import Budget
from ..memory.view import View
from .base import Condensation, Condenser
from .config import CondenserConfig, Parts, register_condenser
from .pipeline import CondenserPipeline

__all__ = ["RecordedCondenser", "RecordedCondenserConfig", "keeps_recorded"]


class RecordedCondenser(Condenser):
    """Leaves every view as the log's own condensations have made it, and proposes none.

    A replay with it keeps the recorded condensations, which it leaves out otherwise. It answers no
    request: in a live loop one ends in :class:`~eventfold.condensers.CannotCondense`.
    """

    may_block = False

    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        return view


def keeps_recorded(condenser: Condenser) -> bool:
    """True for a :class:`RecordedCondenser`, and for a pipeline that has one."""
    if isinstance(condenser, CondenserPipeline):
        return any(keeps_recorded(part) for part in condenser.condensers)
    return isinstance(condenser, RecordedCondenser)


@register_condenser
class RecordedCondenserConfig(CondenserConfig):
    """``type: recorded``"""

    type: Literal["recorded"] = "recorded"

    def build(self, parts: Parts) -> Condenser:
        return RecordedCondenser()
