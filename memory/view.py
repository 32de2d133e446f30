"""The view: what is left of the log for the LLM."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import overload

from ..events.actions import AgentDelegateAction, MessageAction, RecallAction
from ..events.condensation import AgentCondensationObservation, CondensationAction
from ..events.event import Event, EventSource
from ..events.observations import AgentDelegateObservation, RecallObservation
from .turns import Role, Turn, TurnKind, is_observation, is_response, role_of

__all__ = ["View", "answers"]


class View(Sequence[Event]):
    """The events that the LLM is to see, grouped into turns: a fold over the log.

    ``View.from_events(log)`` is the same as appending the events of ``log`` one by one to an empty
    view. A view behaves as a sequence of its events, and ``case View(events=events)`` matches it.
    """

    __match_args__ = ("events",)
    __slots__ = (
        "_calls",
        "_delegates",
        "_events",
        "_hidden",
        "_newest",
        "_requested",
        "_serial",
        "_serials",
        "_systems",
        "_task",
        "_turns",
    )

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self._serials: list[
            int
        ] = []  # of each event of these turns, in order: its place in the log
        self._events: list[Event] | None = []  # the same, gathered when someone asks for them
        self._requested = False
        self._serial = 0  # how many events were appended
        self._newest = -1  # serial of the newest LLM response's turn
        self._task = -1  # serial of the log's first user message
        # Which open action a result answers: keys of the action -> (serial of its turn, place in
        # it).
        self._calls: dict[_Key, tuple[int, int]] = {}
        self._hidden: set[_Key] = set()  # keys of actions that are not shown
        self._delegates: list[tuple[int, Event]] = []  # not yet returned: (serial, action)
        self._systems: list[tuple[int, Event]] = []  # oldest first

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> View:
        """Folds a log into a view."""
        view = cls()
        for event in events:
            view.append(event)
        return view

    # ------------------------------------------------------------------ reading

    @property
    def events(self) -> list[Event]:
        """The events, in log order, the system message first. The list is the caller's own."""
        return list(self._gathered())

    @property
    def serials(self) -> list[int]:
        """Of each event its place in the log. The list is the caller's own."""
        return list(self._serials)

    @property
    def turns(self) -> list[Turn]:
        """The turns, by their first event. The list is the caller's own."""
        return list(self._turns)

    @property
    def unhandled_condensation_request(self) -> bool:
        """True if a condensation was asked for, and neither one nor an LLM response has come
        since."""
        return self._requested

    @property
    def newest_response(self) -> Turn | None:
        """The turn of the newest LLM response, if it is still here: the only one that can
        change."""
        return self._turn(self._newest)

    @property
    def waiting(self) -> list[Event]:
        """The actions of the newest LLM response that wait for their results, in their order."""
        turn = self.newest_response
        return [] if turn is None else [call.action for call in turn.calls if call.waits]

    @property
    def task(self) -> Turn | None:
        """The first user message, unless a summary tells of what the user said before it."""
        for turn in self._turns:
            if turn.kind is TurnKind.USER:
                return turn
            if turn.kind is TurnKind.SUMMARY:
                return self._turn(self._task)
        return None

    def begins_response(self, event: Event) -> bool:
        """True if this event, as the next one of the log, would begin a new LLM response."""
        if not is_response(event):
            return False
        turn = self._turn(self._newest)
        return turn is None or not _same_response(turn, event)

    def __len__(self) -> int:
        return len(self._serials)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return self._gathered()[index]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._gathered())

    def _gathered(self) -> list[Event]:
        if self._events is None:
            events = {n: e for t in self._turns for n, e in zip(t.serials, t.events, strict=True)}
            self._events = [events[serial] for serial in self._serials]
        return self._events

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View):
            return NotImplemented
        return (
            self._gathered() == other._gathered()
            and self._requested == other._requested
            and [(t.kind, t.events, t.answers) for t in self._turns]
            == [(t.kind, t.events, t.answers) for t in other._turns]
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        asked = ", condensation requested" if self._requested else ""
        return f"View({len(self)} events in {len(self._turns)} turns{asked})"

    # ------------------------------------------------------------------ smaller views

    def copy(self) -> View:
        """A view of the same events; appending to one does not change the other."""
        copy = View()
        copy._events = self._events  # which is never changed, only made anew
        copy._serials = self._serials.copy()
        copy._turns = self._turns.copy()
        copy._requested = self._requested
        copy._serial = self._serial
        copy._newest = self._newest
        copy._task = self._task
        copy._calls = self._calls.copy()
        copy._hidden = self._hidden.copy()
        copy._delegates = self._delegates.copy()
        copy._systems = self._systems.copy()
        return copy

    def without(self, turns: Collection[Turn]) -> View:
        """A view without these turns; the same view if there are none to leave out."""
        if not turns:
            return self
        view = self.copy()
        view._drop({turn.serial for turn in turns})
        return view

    def replacing(self, turns: Mapping[Turn, Turn]) -> View:
        """A view in which some turns are replaced by others: by turns of the same places, with
        other events of their kinds, such as results whose content is masked. The same view if there
        are none to replace."""
        if not turns:
            return self
        view = self.copy()
        view._turns = list(map(turns.get, self._turns, self._turns))
        view._events = None
        return view

    # ------------------------------------------------------------------ the fold

    def append(self, event: Event) -> None:
        """Takes the next event of the log into account. For the view's owner only."""
        self._serial += 1
        self._events = None
        role = role_of(event)
        if event.hidden and role is not Role.CONDENSATION and role is not Role.REQUEST:
            role = Role.NOT_SHOWN
        _TAKE[role](self, event)

    def _take_request(self, _: Event) -> None:
        self._requested = True

    def _take_unseen(self, event: Event) -> None:
        if not is_observation(event):  # nor is shown what comes back for it
            self._hidden.update(_keys_of(event))
        if self.begins_response(event):  # a response all the same: it ends the one before
            self._calls.clear()
            self._newest = -1

    def _take_system_message(self, event: Event) -> None:
        self._systems.append((self._serial, event))
        self._show_newest_system_message()

    def _take_action(self, event: Event) -> None:
        if not is_response(event):
            kind = _kind_of(event)
            if kind is TurnKind.USER and self._task < 0:
                self._task = self._serial
            self._add_turn(kind, event)
            self._open(event, self._serial, 0)
            return
        turn = self._turn(self._newest)
        if turn is None or not _same_response(turn, event):
            # Whatever came back so far is what the older ones will have; and a prompt that was
            # answered needs no condensation any more.
            self._calls.clear()
            self._requested = False
            self._newest = self._serial
            self._add_turn(TurnKind.RESPONSE, event)
            self._open(event, self._serial, 0)
        else:
            self._join(turn.serial, event, -1)
            self._open(event, turn.serial, len(turn.events))
        if isinstance(event, AgentDelegateAction):
            self._delegates.append((self._serial, event))

    def _add_turn(self, kind: TurnKind, event: Event) -> None:
        self._turns.append(Turn(kind, (event,), (self._serial,), _NO_ANSWER))
        self._serials.append(self._serial)

    def _join(self, serial: int, event: Event, answers: int, at: int | None = None) -> None:
        """Adds an event to a turn; ``at`` is its place in the log, if it is not the newest."""
        place = self._place(serial)
        assert place is not None  # what leaves the view leaves _calls, too
        at = self._serial if at is None else at
        self._turns[place] = self._turns[place].joined(event, at, answers)
        self._serials.append(at)

    def _place(self, serial: int) -> int | None:
        # The turns that can still change are the newest: look from the end.
        place = len(self._turns)
        for turn in reversed(self._turns):
            place -= 1
            if turn.serials[0] == serial:
                return place
        return None

    def _turn(self, serial: int) -> Turn | None:
        place = self._place(serial)
        return None if place is None else self._turns[place]

    # ---------------------------------------------------------------- responses and results

    def _open(self, action: Event, serial: int, place: int) -> None:
        """From now on, results may answer this action."""
        at = (serial, place)
        for key in _keys_of(action):
            self._hidden.discard(key)
            self._calls.setdefault(key, at)
        if action.tool_call_metadata is None and not isinstance(action, MessageAction):
            self._calls[_UNLINKED] = at

    def _take_observation(self, event: Event) -> None:
        if isinstance(event, AgentDelegateObservation):
            self._return_from_delegate(event)
        key = self._answered_key(event)
        if key is not None:
            serial, place = self._calls[key]
            self._join(serial, event, place)
            self._calls.pop(_UNLINKED, None)
        elif self._hidden.isdisjoint(links := _keys_of_result(event)):
            linked = bool(links)
            if isinstance(event, RecallObservation):
                kind = TurnKind.RECALL
            elif isinstance(event, AgentCondensationObservation) and not linked:
                kind = TurnKind.SUMMARY
            else:
                kind = TurnKind.LATE if linked else TurnKind.OTHER
            self._add_turn(kind, event)

    def _answered_key(self, event: Event) -> _Key | None:
        """The key under which the action that this observation answers is open, if it is."""
        cause, metadata, calls = event.cause, event.tool_call_metadata, self._calls
        if cause is not None and cause in calls:
            return cause
        if metadata is not None:
            key = metadata.tool_call_id
            if key in calls:
                # A reused call id: the cause says that an earlier call is meant.
                action = self._event_at(*calls[key])
                if cause is None or action is None or action.id < 0:
                    return key
        elif cause is None and _UNLINKED in calls:
            action = self._event_at(*calls[_UNLINKED])
            if action is not None and _fits(action, event):
                return _UNLINKED
        return None

    def _event_at(self, serial: int, place: int) -> Event | None:
        turn = self._turn(serial)
        return None if turn is None else turn.events[place]

    # ------------------------------------------------------------------ system and delegates

    def _show_newest_system_message(self) -> None:
        if self._turns and self._turns[0].kind is TurnKind.SYSTEM:
            del self._turns[0], self._serials[0]
        if self._systems:
            serial, event = self._systems[-1]
            self._turns.insert(0, Turn(TurnKind.SYSTEM, (event,), (serial,), (-1,)))
            self._serials.insert(0, serial)

    def _return_from_delegate(self, event: AgentDelegateObservation) -> None:
        """Takes out what the delegate did, so that its result follows its call."""
        for place in range(len(self._delegates) - 1, -1, -1):
            serial, action = self._delegates[place]
            if answers(event, action):
                break
        else:
            return
        del self._delegates[place:]
        self._systems = [(at, system) for at, system in self._systems if at < serial]
        # What came back meanwhile: for the delegate, or for calls beside the delegation.
        came_back = [
            (turn.serial, turn.events[0])
            for turn in self._turns
            if turn.serial > serial and is_observation(turn.events[0])
        ]
        self._drop(
            {
                turn.serial
                for turn in self._turns
                if turn.serial > serial and turn.kind not in (TurnKind.SUMMARY, TurnKind.SYSTEM)
            }
        )
        self._show_newest_system_message()
        self._calls.clear()
        self._newest = -1
        for turn in reversed(self._turns):
            if serial in turn.serials:
                self._newest = turn.serial
                for at, other in enumerate(turn.events):
                    if turn.answers[at] < 0:
                        self._open(other, turn.serial, at)
                break
        if self._task > serial:
            self._task = -1
        for at, other in came_back:
            key = self._answered_key(other)
            if key is not None and key != _UNLINKED:
                answered, place = self._calls[key]
                self._join(answered, other, place, at)

    # ------------------------------------------------------------------ condensations

    def _take_condensation(self, condensation: Event) -> None:
        assert isinstance(condensation, CondensationAction)  # so says its role
        self._requested = False
        named = condensation.forgotten
        if not isinstance(named, range):
            named = frozenset(named)  # type: ignore[assignment]
        dropped = {
            turn.serial
            for turn in self._turns
            if turn.kind is not TurnKind.SYSTEM
            and any(event.id >= 0 and event.id in named for event in turn.events)
        }
        if condensation.summary is not None:
            dropped |= {turn.serial for turn in self._turns if turn.kind is TurnKind.SUMMARY}
        self._drop(dropped)
        if condensation.summary is not None and condensation.summary_offset is not None:
            summary = AgentCondensationObservation(
                content=condensation.summary,
                id=condensation.id,
                timestamp=condensation.timestamp,
                source=EventSource.ENVIRONMENT,
            )
            self._insert_summary(summary, condensation.summary_offset)

    def _drop(self, turns: Collection[int]) -> None:
        """Takes turns out, named by their serials."""
        if not turns:
            return
        gone = {n for turn in self._turns if turn.serial in turns for n in turn.serials}
        self._serials = [serial for serial in self._serials if serial not in gone]
        self._events = None
        self._turns = [turn for turn in self._turns if turn.serial not in turns]
        self._calls = {key: at for key, at in self._calls.items() if at[0] not in turns}

    def _insert_summary(self, summary: Event, offset: int) -> None:
        first = 1 if self._turns and self._turns[0].kind is TurnKind.SYSTEM else 0
        offset = self._next_border(max(first, min(offset, len(self._serials))))
        behind = set(self._serials[offset:])
        place = next((n for n, t in enumerate(self._turns) if t.serial in behind), len(self._turns))
        self._serials.insert(offset, self._serial)
        self._turns.insert(place, Turn(TurnKind.SUMMARY, (summary,), (self._serial,), (-1,)))

    def _next_border(self, offset: int) -> int:
        """The first place at or behind ``offset`` that lies inside no turn."""
        at = {serial: place for place, serial in enumerate(self._serials)}
        for turn in self._turns:  # by their first events: a later turn can only begin later
            begin, end = at[turn.serials[0]], at[turn.serials[-1]]
            if begin < offset <= end:
                offset = end + 1
        return offset


_TAKE: dict[Role, Callable[[View, Event], None]] = {
    Role.CONDENSATION: View._take_condensation,
    Role.REQUEST: View._take_request,
    Role.NOT_SHOWN: View._take_unseen,
    Role.SYSTEM: View._take_system_message,
    Role.OBSERVATION: View._take_observation,
    Role.RECALL: View._take_action,
    Role.OTHER: View._take_action,
    Role.ACTION: View._take_action,
}


# ---------------------------------------------------------------------- links

_Key = int | str | tuple[()]  # an event's id, a tool call's, or:
_UNLINKED: _Key = ()  # the newest action without a tool call
_NO_ANSWER = (-1,)


def _keys_of(action: Event) -> list[_Key]:
    """What a result may name to say that it answers this action."""
    keys: list[_Key] = [] if action.id < 0 else [action.id]
    if action.tool_call_metadata is not None:
        keys.append(action.tool_call_metadata.tool_call_id)
    return keys


def _keys_of_result(event: Event) -> list[_Key]:
    keys: list[_Key] = [] if event.cause is None else [event.cause]
    if event.tool_call_metadata is not None:
        keys.append(event.tool_call_metadata.tool_call_id)
    return keys


def answers(observation: Event, action: Event) -> bool:
    """True if an observation names this action as the one it answers, or names none."""
    keys = _keys_of_result(observation)
    return not keys or not set(_keys_of(action)).isdisjoint(keys)


# Old logs link an action and its observation by nothing but their order.
_RESULT_KINDS = {"browse_interactive": "browse", "call_tool_mcp": "mcp"}
_ANY_ACTION = ("error", "success", "user_rejected")


def _fits(action: Event, observation: Event) -> bool:
    expected = _RESULT_KINDS.get(action.kind, action.kind)
    return observation.kind == expected or observation.kind in _ANY_ACTION


def _same_response(turn: Turn, event: Event) -> bool:
    """True if an action comes from the LLM response that the turn holds."""
    new = event.tool_call_metadata
    old = turn.events[0].tool_call_metadata
    if new is None or old is None or new.response_id != old.response_id:
        return False
    own = [
        e.tool_call_metadata
        for e, answers in zip(turn.events, turn.answers, strict=True)
        if answers < 0
    ]
    calls = [metadata.tool_call_id for metadata in own if metadata is not None]
    more_to_come = len(calls) < old.total_calls_in_response
    if new.response_id is None:
        return more_to_come and new.tool_call_id not in calls
    # Some servers give all responses the same id: the rest of the response tells them apart.
    return new.model_response == old.model_response or more_to_come


def _kind_of(event: Event) -> TurnKind:
    if isinstance(event, MessageAction) and event.source == EventSource.USER:
        return TurnKind.USER
    return TurnKind.RECALL if isinstance(event, RecallAction) else TurnKind.OTHER
