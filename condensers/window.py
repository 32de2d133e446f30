"""Forgetting the older half when the prompt did not fit."""

from __future__ import annotations

from typing import Literal

from ..memory.tokens import Budget
from ..memory.turns import Turn, TurnKind
from ..memory.view import View
from .base import Condenser, RollingCondenser, down_to, events_summed_up, forgettable
from .config import CondenserConfig, Parts, register_condenser

__all__ = ["ConversationWindowCondenser", "ConversationWindowCondenserConfig"]


class ConversationWindowCondenser(RollingCondenser):
    """Acts on request only: keeps the system message, the task with what was recalled for it, and
    of the rest the newer half, the newest user message in any case. No summary, no LLM."""

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
    beginning = [turn for turn in turns if turn.kind is TurnKind.SYSTEM or turn is view.task]
    stays = sum(len(turn.events) for turn in (*beginning, *with_task))
    half = stays + events_summed_up(view) + (len(view) - stays) // 2
    return down_to(view, forgettable(view, budget=budget, keep=with_task), half, budget)


@register_condenser
class ConversationWindowCondenserConfig(CondenserConfig):
    """``type: conversation_window``"""

    type: Literal["conversation_window"] = "conversation_window"

    def build(self, parts: Parts) -> Condenser:
        return ConversationWindowCondenser()
