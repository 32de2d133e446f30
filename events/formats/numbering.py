"""Dense ids for recorded events: what causes and condensations name is named by the new ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..condensation import CondensationAction
from ..event import Event

__all__ = ["Draft", "number"]


@dataclass(slots=True)
class Draft:
    """An event as it was read, before it has its place among the others.

    ``place`` says where it stands in the file, for people; it is empty for an event that the file
    does not hold. ``recorded_id`` is None where the file has no usable one. ``answers`` is the
    draft of its cause, where the file names none. ``lost`` collects recorded values, by key, that
    the numbered event does not give back (``...`` for a key that was not there).
    """

    event: Event
    place: str
    recorded_id: int | None = None
    answers: Draft | None = None
    lost: dict[str, Any] = field(default_factory=dict)
    id: int = -1


def number(drafts: Sequence[Draft]) -> tuple[list[Event], list[str]]:
    """Numbers events from 0, in the order in which they are listed; also says what was odd.

    A recorded id names the nearest earlier event that has it in the same numbering: where ids start
    anew, earlier events cannot be named any more. A cause that names nothing becomes None.
    """
    events: list[Event] = []
    recorded = _Recorded(drafts)
    strays: list[str] = []
    condensation: int | None = None
    following = _next_recorded(drafts)
    for new_id, draft in enumerate(drafts):
        event, draft.id = draft.event, new_id
        recorded.restart_before(draft, following[new_id])
        changes: dict[str, Any] = {} if event.id == new_id else {"id": new_id}
        cause = event.cause
        if draft.answers is not None:
            cause = draft.answers.id
        elif cause is not None:
            cause = recorded.newest.get(cause)
            if cause is None:
                strays.append(f"{draft.place} ({event.cause})")
                draft.lost["cause"] = event.cause
        if cause != event.cause:
            changes["cause"] = cause
        if isinstance(event, CondensationAction):
            for name, value in recorded.forgotten_by(event, draft, condensation).items():
                named = getattr(event, name)
                if value != named:
                    changes[name] = value
                    draft.lost[name] = named if _was_written(event, name) else ...
            condensation = new_id
        recorded.add(draft)
        events.append(event.replace(**changes) if changes else event)
    odd = recorded.oddities()
    if strays:
        odd.append(
            f"{_count(len(strays), 'cause')} that no earlier event has as its id, None now "
            f"({_some(strays)})"
        )
    return events, odd


class _Recorded:
    """The recorded ids, as far as they were read."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self.everywhere = {draft.recorded_id for draft in drafts}
        self.newest: dict[int, int] = {}  # recorded id to new id, in the present numbering
        self._members: list[tuple[int, int]] = []  # the same, with ids that came twice
        self._highest = -1
        self._holes = 0
        self._without: list[str] = []
        self._restarts: list[str] = []
        self._repeated: list[str] = []
        self._out_of_order: list[str] = []
        self._begin: int | None = None
        self._about_condensations: list[str] = []

    def restart_before(self, draft: Draft, following: int | None) -> None:
        """Forgets the ids so far if those from this event on are counted anew.

        They are if they fall below the first one, or back to one that was there and go on from it;
        an event that merely came twice or late is followed by the next new id.
        """
        new = draft.recorded_id
        if new is None or new >= self._highest:
            return
        goes_on = following is not None and following <= self._highest
        if new < min(self.newest) or (new in self.newest and goes_on):
            self._restarts.append(draft.place)
            self._holes += self._missing()
            self.newest.clear()
            self._members.clear()
            self._highest = -1
        elif new not in self.newest:
            self._out_of_order.append(draft.place)

    def add(self, draft: Draft) -> None:
        new = draft.recorded_id
        if new is None:
            if draft.place:
                self._without.append(draft.place)
            return
        if new in self.newest:
            self._repeated.append(f"{draft.place} ({new})")
        if self._begin is None:
            self._begin = new
        self.newest[new] = draft.id
        self._members.append((new, draft.id))
        self._highest = max(self._highest, new)

    def forgotten_by(
        self, event: CondensationAction, draft: Draft, previous: int | None
    ) -> dict[str, Any]:
        """The events that a condensation names, by their new ids.

        A range stays one where the new ids allow it. In a list, an id that no event has is that of
        the summary before, the one thing in a view that is no event of the log. An id below the
        condensation's own is none: an event had it that was not saved.
        """
        ids: list[int] = []
        if event.forgotten_event_ids is None:
            low, high = event.forgotten_events_start_id, event.forgotten_events_end_id
            assert low is not None  # CondensationAction sees to it
            assert high is not None
            ids = [new for old, new in self._members if low <= old <= high]
            if ids and ids[-1] - ids[0] == len(ids) - 1:
                return {"forgotten_events_start_id": ids[0], "forgotten_events_end_id": ids[-1]}
            if not ids:
                self._about_condensations.append(
                    f"{draft.place} forgets the events {low} to {high}, none of which is here"
                )
        else:
            ids = self._named(event.forgotten_event_ids, draft, previous)
        return {
            "forgotten_event_ids": ids,
            "forgotten_events_start_id": None,
            "forgotten_events_end_id": None,
        }

    def _named(self, ids: Sequence[int], draft: Draft, previous: int | None) -> list[int]:
        own = draft.recorded_id if draft.recorded_id is not None else self._highest + 1
        by_id: dict[int, list[int]] = {}
        for old, new in self._members:
            by_id.setdefault(old, []).append(new)
        named: dict[int, None] = {}
        absent: list[str] = []
        for old in ids:
            if old in by_id:
                named |= dict.fromkeys(by_id[old])
            elif previous is None or old in self.everywhere or 0 <= old < own:
                absent.append(str(old))
            else:
                named[previous] = None
        if absent:
            self._about_condensations.append(
                f"{draft.place} forgets {_count(len(absent), 'event')} not to be found before it: "
                f"left out ({_some(absent)})"
            )
        return list(named)

    def oddities(self) -> list[str]:
        said = []
        if self._begin:
            said.append(f"the recorded ids begin at {self._begin}")
        if holes := self._holes + self._missing():
            said.append(f"the recorded ids have holes: {_count(holes, 'id')} missing")
        if self._without:
            said.append(
                f"{_count(len(self._without), 'event')} without an id ({_some(self._without)})"
            )
        if self._restarts:
            said.append(
                f"the recorded ids start anew {_count(len(self._restarts), 'time')} "
                f"({_some(self._restarts)})"
            )
        if self._repeated:
            said.append(f"recorded ids that an earlier event has ({_some(self._repeated)})")
        if self._out_of_order:
            said.append(f"the recorded ids are not in order ({_some(self._out_of_order)})")
        return said + self._about_condensations

    def _missing(self) -> int:
        seen = self.newest
        return max(seen) - min(seen) + 1 - len(seen) if seen else 0


def _was_written(event: Event, name: str) -> bool:
    wire = event.wire
    return wire is not None and name in (*wire.keys, *(wire.payload_keys or ()))


def _next_recorded(drafts: Sequence[Draft]) -> list[int | None]:
    """For each event, the recorded id of the next event that has one."""
    following: list[int | None] = []
    ahead: int | None = None
    for draft in reversed(drafts):
        following.append(ahead)
        ahead = draft.recorded_id if draft.recorded_id is not None else ahead
    return following[::-1]


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _some(things: Sequence[str]) -> str:
    return ", ".join(things[:5]) + (", ..." if len(things) > 5 else "")
