"""Forgetting the older half when the prompt did not fit."""

from __future__ import annotations

from typing import Literal

from ..memory.tokens import Budget
from ..memory.turns import Turn, TurnKind
from ..memory.view import View
from .base import Condenser, RollingCondenser, down_to, forgettable
from .config import CondenserConfig, Parts, register_condenser

__all__ = ["ConversationWindowCondenser", "ConversationWindowCondenserConfig"]


class ConversationWindowCondenser(RollingCondenser):
    """Acts on request only: keeps the system message, the task with what was recalled for it, the
    newest user message, and the newer half of the rest. No summary, no LLM."""

    def __init__(self) -> None:
        super().__init__(when=_never, which=_older_half)


def _never(view: View, budget: Budget | None, /) -> None:
    return None


def _older_half(view: View, requested: bool, budget: Budget | None, /) -> list[Turn]:
    turns = view.turns
    with_task: list[Turn] = []
    for place, turn in enumerate(turns):
        if turn.kind is TurnKind.USER:
            if place + 1 < len(turns) and turns[place + 1].kind is TurnKind.RECALL:
                with_task = [turns[place + 1]]
            break
    candidates = forgettable(view, budget=budget, keep=with_task)
    events = sum(len(turn.events) for turn in candidates)
    kept = len(view) - events
    return down_to(view, candidates, kept + events // 2, budget)


@register_condenser
class ConversationWindowCondenserConfig(CondenserConfig):
    """``type: conversation_window``"""

    type: Literal["conversation_window"] = "conversation_window"

    def build(self, parts: Parts) -> Condenser:
        return ConversationWindowCondenser()
