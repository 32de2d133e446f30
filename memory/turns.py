"""Turns: the smallest groups of events that are kept or forgotten together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import compress, count
from operator import is_not
from typing import Any, TypeVar

from ..events.actions import (
    AgentFinishAction,
    AgentRejectAction,
    ChangeAgentStateAction,
    LoopRecoveryAction,
    MessageAction,
    NullAction,
    RecallAction,
    SystemMessageAction,
)
from ..events.condensation import CondensationAction, CondensationRequestAction
from ..events.event import Action, Event, EventSource, Observation, UnknownEvent
from ..events.observations import ErrorObservation

__all__ = [
    "Call",
    "Turn",
    "TurnKind",
    "first_difference",
    "is_observation",
    "is_response",
    "protected",
]

_T = TypeVar("_T")


class TurnKind(StrEnum):
    """What a turn is."""

    SYSTEM = "system"
    USER = "user"  # a message of the user
    RESPONSE = "response"  # one LLM response, with its calls and their results
    SUMMARY = "summary"  # what stands for forgotten turns
    RECALL = "recall"  # a recall that no tool call asked for, with what it brought
    LATE = "late"  # a result that came too late, or whose call is not in the view
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Call:
    """An action of a turn and the result that counts, if any has come."""

    action: Event
    result: Event | None

    @property
    def waits(self) -> bool:
        """True while a result is missing that the agent has to wait for."""
        return self.result is None and not isinstance(self.action, _ENDING)


# They end the agent's turn: mostly nothing comes back, and nobody waits for it.
_ENDING = (AgentFinishAction, AgentRejectAction, MessageAction)


@dataclass(slots=True, eq=False)  # not frozen: that would make the fold half as slow again
class Turn:
    """Events that belong together. Never changed once it is made; compared by identity.

    ``events`` are in log order (there may be events of other turns between them in the log), and
    ``serials`` are their places in the log. ``answers[i]`` is the place in ``events`` of the action
    that ``events[i]`` answers, or -1.
    """

    kind: TurnKind
    events: tuple[Event, ...]
    serials: tuple[int, ...]
    answers: tuple[int, ...]
    _memo: dict[object, Any] | None = field(default=None, init=False, repr=False)

    def joined(self, event: Event, serial: int, answers: int) -> Turn:
        """The turn with one more event, which answers the action at this place (-1: none)."""
        return Turn(
            self.kind,
            (*self.events, event),
            (*self.serials, serial),
            (*self.answers, answers),
        )

    def remembered(self, make: Callable[[Turn], _T]) -> _T:
        """``make`` of this turn, made once for each ``make`` and kept as long as the turn is."""
        memo = self._memo
        if memo is None:
            memo = self._memo = {}
        elif make in memo:
            found: _T = memo[make]
            return found
        made = memo[make] = make(self)
        return made

    @property
    def serial(self) -> int:
        """Where in the log the turn began; no two turns of a view have the same."""
        return self.serials[0]

    @property
    def calls(self) -> list[Call]:
        """The turn's actions with their results.

        Of several results the last one counts, a real one before an error that stood in for it.
        """
        results: dict[int, Event] = {}
        for event, action in zip(self.events, self.answers, strict=True):
            if action >= 0 and not (
                action in results
                and isinstance(event, ErrorObservation)
                and not isinstance(results[action], ErrorObservation)
            ):
                results[action] = event
        return [
            Call(event, results.get(place))
            for place, event in enumerate(self.events)
            if self.answers[place] < 0
        ]

    @property
    def waits(self) -> bool:
        """True if some call of the turn has no result."""
        return any(call.waits for call in self.calls)


def first_difference(before: list[Turn], now: list[Turn]) -> int:
    """The first place at which two lists do not hold the very same object, or the shorter one
    ends. Quick above all where the second list only goes on from the first."""
    if now[: len(before)] == before:
        return len(before)
    differs = compress(count(), map(is_not, before, now))
    return next(differs, min(len(before), len(now)))


def is_observation(event: Event) -> bool:
    """True for what came back, False for what was done."""
    if isinstance(event, UnknownEvent):
        return event.is_observation
    return isinstance(event, Observation)


# Kinds that no view shows as what the model did, whoever asked for them.
_NO_RESPONSES = (
    SystemMessageAction,
    NullAction,
    ChangeAgentStateAction,
    LoopRecoveryAction,
    CondensationAction,
    CondensationRequestAction,
)


def is_response(event: Event) -> bool:
    """True for an action that an LLM response asked for: it begins or continues a response."""
    if is_observation(event) or isinstance(event, _NO_RESPONSES):
        return False
    if event.tool_call_metadata is not None:
        return True
    return (
        isinstance(event, Action)
        and event.source in (EventSource.AGENT, None)
        and not isinstance(event, RecallAction)
    )


def protected(
    turns: Sequence[Turn],
    newest_response: Turn | None,
    task: Turn | None,
    keep_first: int | None = None,
) -> set[int]:
    """The places of the turns that a proposal of ours never forgets.

    Always: the system message, the newest user message, and the newest LLM response while one of
    its calls waits for a result. With ``keep_first=None`` also the ``task``; otherwise the turns of
    the view's first ``keep_first`` events. A summary is protected by none of them.
    """
    kept: set[int] = set()
    users = [place for place, turn in enumerate(turns) if turn.kind is TurnKind.USER]
    kept.update(users[-1:])
    for place, turn in enumerate(turns):
        if (
            turn.kind is TurnKind.SYSTEM
            or (turn is newest_response and turn.waits)
            or (keep_first is None and turn is task)
        ):
            kept.add(place)
    if keep_first is not None:
        first = _places_of_first_events(turns, keep_first)
        kept.update(place for place in first if turns[place].kind is not TurnKind.SUMMARY)
    return kept


def _places_of_first_events(turns: Sequence[Turn], count: int) -> set[int]:
    """The places of the turns that hold the view's first ``count`` events.

    Between a response and its results the view may have events of other turns.
    """
    order: list[tuple[int, int, int]] = []
    part = 0
    for place, turn in enumerate(turns):
        # Events stand in log order, but for these two, which lie between turns.
        alone = turn.kind in (TurnKind.SYSTEM, TurnKind.SUMMARY)
        part += alone
        order += [(part, serial, place) for serial in turn.serials]
        part += alone
    return {place for _, _, place in sorted(order)[:count]}
