"""The beginning and the newest turns; what lies between them is left out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from ..events.event import InvalidArgument
from ..memory.tokens import Budget
from ..memory.turns import Turn, TurnKind, protected
from ..memory.view import View
from .base import Condensation, Condenser
from .config import CondenserConfig, Parts, register_condenser
from .stubs import Window

__all__ = ["RecentEventsCondenser", "RecentEventsCondenserConfig"]


class RecentEventsCondenser(Condenser):
    """Shows the beginning and the newest whole turns: together at most ``max_events`` events.

    ``keep_first`` events at the beginning stay (rounded up to whole turns; None: the task). So do,
    whatever the bound, the system message, the newest user message, a summary, and the newest LLM
    response while its calls wait for results. A turn is never cut: choose a bound above the largest
    one, or the agent does not see what it has just done.

    With a ``stride`` above 1 turns leave in jumps of that many events, so that the prompt cache
    survives between them.

    Raises :class:`InvalidArgument` for a negative ``keep_first``, a bound below 1, or a stride that
    is not from 1 to the bound.
    """

    may_block = False

    def __init__(self, keep_first: int | None = 1, max_events: int = 100, stride: int = 1) -> None:
        super().__init__()
        self._window = _checked(keep_first, max_events, stride)
        self.keep_first = keep_first
        self.max_events = max_events
        self.stride = stride

    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        self.metadata = {}
        over = self._window.outside(len(view))
        if not over:
            return view
        turns = view.turns
        # What left at the last jump, seen as it was then: what was protected is left alone since.
        then = _as_of(view, self._window.since(len(view)))
        responses = [turn for turn in then if turn.kind is TurnKind.RESPONSE]
        stayed = self._protected(then, responses[-1] if responses else None, view.task)
        gone = set(_oldest(then, stayed, over))
        # What is protected now stays. If that breaks the bound, more must leave.
        stays = self._protected(turns, view.newest_response, view.task)
        gone -= stays
        left = len(view) - sum(len(turns[place].events) for place in gone)
        more = _oldest(turns, stays | gone, left - self.max_events)
        result = view.without([turns[place] for place in sorted(gone.union(more))])
        if result is not view:
            border = over + sum(len(turns[place].events) for place in more)
            self.metadata = {"left_out": len(view) - len(result), "border": border}
        return result

    def _protected(
        self, turns: Sequence[Turn], newest_response: Turn | None, task: Turn | None
    ) -> set[int]:
        summaries = {n for n, turn in enumerate(turns) if turn.kind is TurnKind.SUMMARY}
        return summaries | protected(turns, newest_response, task, self.keep_first)


def _as_of(view: View, count: int) -> list[Turn]:
    """The turns of a view as they were when it had ``count`` events."""
    turns = view.turns
    if count >= len(view):
        return turns
    there = {id(event) for event in view[:count]}
    then = []
    for turn in turns:
        size = sum(id(event) in there for event in turn.events)
        if size == len(turn.events):
            then.append(turn)
        elif size:
            then.append(
                Turn(turn.kind, turn.events[:size], turn.serials[:size], turn.answers[:size])
            )
    return then


def _oldest(turns: Sequence[Turn], stay: Collection[int], events: int) -> list[int]:
    """The places of the oldest turns that may go, as many as hold so many events."""
    found = []
    for place, turn in enumerate(turns):
        if events <= 0:
            break
        if place not in stay:
            found.append(place)
            events -= len(turn.events)
    return found


def _checked(keep_first: int | None, max_events: int, stride: int) -> Window:
    if keep_first is not None and keep_first < 0:
        raise InvalidArgument(
            f"keep_first is a number of events, 0 or more, or None for the task; found {keep_first}"
        )
    if max_events < 1:
        raise InvalidArgument(f"max_events is a number of events, 1 or more; found {max_events}")
    return Window(max_events, stride, "events")


@register_condenser
class RecentEventsCondenserConfig(CondenserConfig):
    """``type: recent``"""

    type: Literal["recent"] = "recent"
    keep_first: int | None = Field(default=1, ge=0)
    """Events at the beginning that stay; null: the task."""
    max_events: int = Field(default=100, ge=1)
    """Events that are shown at most, those at the beginning included."""
    stride: int = Field(default=1, ge=1)
    """By how many events the border moves at a time; at most ``max_events``."""

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        _checked(self.keep_first, self.max_events, self.stride)
        return self

    def build(self, parts: Parts) -> Condenser:
        return RecentEventsCondenser(self.keep_first, self.max_events, self.stride)
