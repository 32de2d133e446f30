"""No condensing."""

from __future__ import annotations

from typing import Literal

from ..memory.tokens import Budget
from ..memory.view import View
from .base import Condensation, Condenser
from .config import CondenserConfig, Parts, register_condenser

__all__ = ["NoOpCondenser", "NoOpCondenserConfig"]


class NoOpCondenser(Condenser):
    """Leaves every view as it is."""

    may_block = False

    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        return view


@register_condenser
class NoOpCondenserConfig(CondenserConfig):
    """``type: noop``"""

    type: Literal["noop"] = "noop"

    def build(self, parts: Parts) -> Condenser:
        return NoOpCondenser()
