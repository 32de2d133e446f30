"""Where a stream keeps its events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from ..event import Event, EventfoldError

__all__ = ["EventStore", "IdTaken", "between", "check_next"]


class IdTaken(EventfoldError):
    """Another writer has stored an event under this id."""


def check_next(session_id: str, next_id: int, events: Sequence[Event]) -> None:
    """Raises :class:`IdTaken` if events that are to be appended do not begin with this id."""
    if events and events[0].id != next_id:
        raise IdTaken(f"session {session_id!r}: the next id is {next_id}, found {events[0].id}")


def between(
    events: Sequence[Event], start: int, stop: int | None, *, reverse: bool
) -> Iterator[Event]:
    """What a store of lists reads. Events that are appended meanwhile are not among them."""
    ids = range(max(start, 0), len(events) if stop is None else min(stop, len(events)))
    return (events[index] for index in (reversed(ids) if reverse else ids))


class EventStore(Protocol):
    """Keeps the events of many sessions. Ids are dense: a session's first event has the id 0."""

    def append(self, session_id: str, events: Sequence[Event]) -> None:
        """Adds events whose ids follow the newest stored one; all of them or none.

        Raises :class:`IdTaken` if another writer was faster: the caller numbers them anew.
        """

    def read(
        self, session_id: str, start: int = 0, stop: int | None = None, *, reverse: bool = False
    ) -> Iterator[Event]:
        """The events with ``start <= id < stop``, oldest first, or newest first with
        ``reverse``."""
        ...

    def count(self, session_id: str) -> int:
        """How many events the session has: the next id."""
        ...
