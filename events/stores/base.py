"""Where a stream keeps its events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from ..event import Event, EventfoldError

__all__ = ["EventStore", "IdTaken"]


class IdTaken(EventfoldError):
    """Another writer has stored an event under this id."""


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
