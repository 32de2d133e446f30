"""A store that lives as long as its process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from ..event import Event
from .base import IdTaken

__all__ = ["InMemoryEventStore"]


class InMemoryEventStore:
    """An :class:`EventStore` in memory; safe to share between threads."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[Event]] = {}
        self._lock = threading.Lock()

    def append(self, session_id: str, events: Sequence[Event]) -> None:
        with self._lock:
            stored = self._sessions.setdefault(session_id, [])
            if events and events[0].id != len(stored):
                raise IdTaken(
                    f"session {session_id!r}: the next id is {len(stored)}, found {events[0].id}"
                )
            stored.extend(events)

    def read(
        self, session_id: str, start: int = 0, stop: int | None = None, *, reverse: bool = False
    ) -> Iterator[Event]:
        stored = self._sessions.get(session_id, [])
        stop = len(stored) if stop is None else min(stop, len(stored))
        ids = range(max(start, 0), stop)
        # Append-only: the places up to `stop` never change while this is read.
        return (stored[index] for index in (reversed(ids) if reverse else ids))

    def count(self, session_id: str) -> int:
        return len(self._sessions.get(session_id, ()))
