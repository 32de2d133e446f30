"""Turns: the smallest groups of events that are kept or forgotten together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
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
from ..events.observations import (
    AgentStateChangedObservation,
    ErrorObservation,
    NullObservation,
)
from ..events.tool_calls import AssistantTurn

__all__ = [
    "Call",
    "Role",
    "Turn",
    "TurnKind",
    "first_difference",
    "head",
    "is_observation",
    "is_response",
    "protected",
    "response_of",
    "role_of",
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
        events, serials = (*self.events, event), (*self.serials, serial)
        return Turn(self.kind, events, serials, (*self.answers, answers))

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


def response_of(turn: Turn) -> AssistantTurn:
    """What the LLM response of a turn says: the first action's that is known speaks for all. Read
    once for each turn, with ``turn.remembered(response_of)``."""
    for event, answers in zip(turn.events, turn.answers, strict=True):
        metadata = event.tool_call_metadata
        if answers < 0 and metadata is not None and metadata.model_response is not None:
            return metadata.model_response.message()
    return AssistantTurn()


def first_difference(before: list[Turn], now: list[Turn]) -> int:
    """The first place at which two lists do not hold the very same object, or the shorter one
    ends. Quick above all where the second list only goes on from the first."""
    if now[: len(before)] == before:
        return len(before)
    differs = compress(count(), map(is_not, before, now))
    return next(differs, min(len(before), len(now)))


class Role(Enum):
    """What an event is to the view, by its class."""

    CONDENSATION = auto()
    REQUEST = auto()
    NOT_SHOWN = auto()
    SYSTEM = auto()
    OBSERVATION = auto()
    RECALL = auto()
    OTHER = auto()
    ACTION = auto()

    __hash__ = object.__hash__  # each member is there once, and this is the quicker one


_ROLES: tuple[tuple[tuple[type[Event], ...], Role], ...] = (
    ((CondensationAction,), Role.CONDENSATION),
    ((CondensationRequestAction,), Role.REQUEST),
    (
        (NullAction, NullObservation, ChangeAgentStateAction, AgentStateChangedObservation),
        Role.NOT_SHOWN,
    ),
    ((SystemMessageAction,), Role.SYSTEM),
    ((Observation,), Role.OBSERVATION),
    ((LoopRecoveryAction,), Role.OTHER),
    ((RecallAction,), Role.RECALL),
    ((Action,), Role.ACTION),
)


class _Roles(dict[type[Event], Role | None]):
    """The role of each class, found once; None for classes whose events differ in it."""

    def __missing__(self, cls: type[Event]) -> Role | None:
        self[cls] = next((role for classes, role in _ROLES if issubclass(cls, classes)), None)
        return self[cls]


_role_of_class = _Roles()


def role_of(event: Event) -> Role:
    """What an event is to the view, if it is not hidden. One of an unknown kind is an action or an
    observation."""
    role = _role_of_class[type(event)]
    if role is not None:
        return role
    is_result = isinstance(event, UnknownEvent) and event.is_observation
    return Role.OBSERVATION if is_result else Role.ACTION


def is_observation(event: Event) -> bool:
    """True for what came back, False for what was done."""
    if isinstance(event, UnknownEvent):
        return event.is_observation
    return isinstance(event, Observation)


def is_response(event: Event) -> bool:
    """True for an action that an LLM response asked for: it begins or continues a response."""
    role = role_of(event)
    if event.tool_call_metadata is not None:
        return role is Role.ACTION or role is Role.RECALL
    return (
        role is Role.ACTION
        and event.source in _OF_THE_AGENT
        and not isinstance(event, UnknownEvent)
    )


_OF_THE_AGENT = (EventSource.AGENT, None)


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
    kept = head(turns, task, keep_first)
    users = [place for place, turn in enumerate(turns) if turn.kind is TurnKind.USER]
    kept.update(users[-1:])
    for place, turn in enumerate(turns):
        if turn is newest_response and turn.waits:
            kept.add(place)
    return kept


def head(turns: Sequence[Turn], task: Turn | None, keep_first: int | None) -> set[int]:
    """Of the protected turns the places of those that stay for good, whatever comes: the system
    message, and the ``task`` or the turns of the first ``keep_first`` events, but for a summary."""
    kept = {place for place, turn in enumerate(turns) if turn.kind is TurnKind.SYSTEM}
    if keep_first is None:
        kept.update(place for place, turn in enumerate(turns) if turn is task)
    else:
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
