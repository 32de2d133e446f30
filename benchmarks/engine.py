"""Replay: a recorded run through a condenser, exactly as a live loop would have used it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import overload

from ..condensers.base import Condenser
from ..condensers.context import AgentContext
from ..condensers.recorded import keeps_recorded
from ..events.actions import AgentDelegateAction
from ..events.condensation import CondensationAction, CondensationRequestAction
from ..events.event import Event
from ..events.formats.runs import Run
from ..events.observations import AgentDelegateObservation
from ..events.stream import EventStream
from ..memory.conversation_memory import ConversationMemory, NothingToSend
from ..memory.message import Message
from ..memory.tokens import TokenCounter
from ..memory.turns import is_response
from ..memory.view import View, answers

__all__ = ["Step", "replay"]


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One LLM turn of a replayed run: what the LLM would have been sent before it answered."""

    index: int
    """The number of the step, from 0."""
    view: View
    """The condensed view."""
    messages: list[Message]
    tokens: int
    """Estimated tokens of the messages."""
    condensations: list[CondensationAction]
    """What was condensed at this step; in a replay as it was recorded, since the step before."""
    events_so_far: Sequence[Event]
    """The log at this step, its condensations included; read from the stream when asked."""


def replay(
    run: Run | Iterable[Event],
    condenser: Condenser,
    *,
    memory: ConversationMemory | None = None,
    max_message_chars: int | None = None,
    vision: bool = False,
) -> Iterator[Step]:
    """Replays a run: at every recorded LLM turn it folds, condenses and makes the messages.

    The recorded events go into a fresh stream, with new ids and mapped causes. Recorded
    condensations and requests are left out, unless the condenser is a
    :class:`~eventfold.condensers.RecordedCondenser`: then all stay but the requests that nobody
    answered before the next LLM turn. An LLM turn before which there is nothing to send, or which a
    delegate took, yields no step. The clock of the replay is that of the recorded events.
    Raises :class:`~eventfold.condensers.CannotCondense` as a live loop would.
    """
    events = list(run.events if isinstance(run, Run) else run)
    now = [_BEGINNING]
    stream = EventStream(run.name if isinstance(run, Run) else "replay", clock=lambda: now[0])
    context = AgentContext(
        stream, condenser, memory, max_message_chars=max_message_chars, vision=vision
    )
    counter = TokenCounter(exact=False)
    delegated = _delegated(events)
    left_out = _left_out(events, keeps_recorded(condenser))
    recorded: list[CondensationAction] = []
    new_ids: dict[int, int] = {}
    index = 0
    for place, event in enumerate(events):
        if place in left_out:
            continue
        if place not in delegated and context.state.begins_response(event):
            try:
                messages = context.prepare()
            except NothingToSend:
                pass
            else:
                yield Step(
                    index,
                    context.condensed,
                    messages,
                    counter.count(messages),
                    recorded + context.condensations,
                    _Log(stream, len(stream)),
                )
                index += 1
                recorded = []
        now[0] = event.timestamp or now[0]
        cause = None if event.cause is None else new_ids.get(event.cause)
        if isinstance(event, CondensationAction):
            event = _with_new_ids(event, new_ids)
        stored = stream.append(event.replace(id=-1, cause=cause))
        if isinstance(stored, CondensationAction):
            recorded.append(stored)
        if event.id >= 0:
            new_ids[event.id] = stored.id


_BEGINNING = datetime.fromtimestamp(0, UTC)  # for logs without times


class _Log(Sequence[Event]):
    """The first events of a stream."""

    def __init__(self, stream: EventStream, length: int) -> None:
        self._stream = stream
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Event]:
        return self._stream.events(limit=self._length)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return list(self)[index]
        return self._stream[range(self._length)[index]]


def _left_out(events: Sequence[Event], recorded: bool) -> set[int]:
    """The places of condensations and requests that a replay leaves out; where it keeps what was
    ``recorded``, those of the requests that had no answer when the LLM was asked again."""
    if not recorded:
        kinds = (CondensationAction, CondensationRequestAction)
        return {place for place, event in enumerate(events) if isinstance(event, kinds)}
    unanswered: set[int] = set()
    asked: set[int] = set()
    for place, event in enumerate(events):
        if isinstance(event, CondensationRequestAction):
            asked.add(place)
        elif isinstance(event, CondensationAction):
            asked.clear()
        elif is_response(event):
            unanswered |= asked
            asked.clear()
    return unanswered


def _with_new_ids(event: CondensationAction, new_ids: Mapping[int, int]) -> CondensationAction:
    """The condensation, naming the events by the ids that they have in the replay's stream."""
    named = event.forgotten
    if isinstance(named, range):
        ids = [new for old, new in new_ids.items() if old in named]
    else:
        ids = [new_ids[old] for old in named if old in new_ids]
    return event.replace(
        forgotten_event_ids=ids, forgotten_events_start_id=None, forgotten_events_end_id=None
    )


def _delegated(events: Sequence[Event]) -> set[int]:
    """The places of what delegates did: between the action and its observation, if one came."""
    places: set[int] = set()
    open_ones: list[int] = []
    for place, event in enumerate(events):
        if isinstance(event, AgentDelegateAction):
            open_ones.append(place)
        elif isinstance(event, AgentDelegateObservation) and open_ones:
            began = next((at for at in reversed(open_ones) if answers(event, events[at])), None)
            if began is None:
                continue
            places.update(range(began + 1, place))
            open_ones = [at for at in open_ones if at < began]
    return places
