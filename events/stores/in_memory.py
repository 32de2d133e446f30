"""A store that lives as long as its process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from ..event import Event
from .base import between, check_next

__all__ = ["InMemoryEventStore"]


class InMemoryEventStore:
    """An :class:`EventStore` in memory; safe to share between threads."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[Event]] = {}
        self._lock = threading.Lock()

    def append(self, session_id: str, events: Sequence[Event]) -> None:
        with self._lock:
            stored = self._sessions.setdefault(session_id, [])
            check_next(session_id, len(stored), events)
            stored.extend(events)

    def read(
        self, session_id: str, start: int = 0, stop: int | None = None, *, reverse: bool = False
    ) -> Iterator[Event]:
        return between(self._sessions.get(session_id, []), start, stop, reverse=reverse)

    def count(self, session_id: str) -> int:
        return len(self._sessions.get(session_id, ()))
