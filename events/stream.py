"""The append-only log of one session."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from .encoding import storable
from .event import Action, Event, EventSource, InvalidArgument
from .filters import EventFilter
from .redaction import Redaction, Secrets
from .stores.base import EventStore, IdTaken
from .stores.in_memory import InMemoryEventStore

__all__ = ["EventStream"]

_AGENT, _ENVIRONMENT = EventSource.AGENT, EventSource.ENVIRONMENT
_log = logging.getLogger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


class EventStream:
    """The history of one session: events are added at its end and never changed.

    ``store`` keeps the events (in memory if none is given); several streams may share one.
    Appending is safe from several threads. ``clock`` gives the time of events that have none.
    ``secrets`` are hidden in what is appended from now on, see :meth:`hide`; events that the store
    has already stay as they are.
    """

    def __init__(
        self,
        session_id: str,
        store: EventStore | None = None,
        *,
        clock: Callable[[], datetime] = _now,
        secrets: Secrets | None = None,
    ) -> None:
        self.session_id = session_id
        self._clock = clock
        self.store: EventStore = store if store is not None else InMemoryEventStore()
        self._subscribers: dict[object, Callable[[Event], object]] = {}
        self._untold: deque[Event] = deque()
        self._telling = False
        self._lock = threading.RLock()
        self._redaction: Redaction | None = None
        if secrets is not None:
            self.hide(secrets)

    def append(self, event: Event, source: EventSource | str | None = None) -> Event:
        """Adds an event and returns the stored one, with its id, time and source.

        ``source`` overrides the event's own; without either, an action is the agent's and an
        observation the environment's. Lone surrogates, which no file or database can hold, are
        stored as visible escapes, and secrets are hidden: the stored event may differ from the
        given one. Raises :class:`InvalidArgument` for what is no event or source, or for an event
        that has another place (an id that is not the next one) already.
        """
        return self._keep([event], source)[0]

    def extend(
        self, events: Iterable[Event], source: EventSource | str | None = None
    ) -> list[Event]:
        """Adds several events, all or none of them, and returns the stored ones."""
        return self._keep(list(events), source)

    def events(
        self,
        start_id: int = 0,
        end_id: int | None = None,
        *,
        filter: EventFilter | None = None,  # noqa: A002
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Event]:
        """The events, oldest first or with ``reverse`` newest first.

        ``start_id`` and ``end_id`` are inclusive; ``filter`` adds conditions of its own. Raises
        :class:`InvalidArgument` for a negative id or limit.
        """
        if filter is None and end_id is None and limit is None and start_id >= 0:  # as at each step
            return self.store.read(self.session_id, start_id, reverse=reverse)
        bounds = EventFilter(start_id=start_id, end_id=end_id, limit=limit)  # checks them
        low, high = bounds.start_id, bounds.end_id
        if filter is not None:
            low = max(low, filter.start_id)
            ends = [end for end in (high, filter.end_id) if end is not None]
            high = min(ends) if ends else None
            limits = [count for count in (limit, filter.limit) if count is not None]
            limit = min(limits) if limits else None
        found = self.store.read(
            self.session_id, low, None if high is None else high + 1, reverse=reverse
        )
        return _limited(found, filter, limit)

    def __iter__(self) -> Iterator[Event]:
        return self.events()

    def __len__(self) -> int:
        return self.store.count(self.session_id)

    def __getitem__(self, event_id: int) -> Event:
        """The event with this id. Raises :class:`InvalidArgument` if there is none."""
        if 0 <= event_id < len(self):
            return next(self.store.read(self.session_id, event_id, event_id + 1))
        raise InvalidArgument(
            f"no event {event_id} in session {self.session_id!r}: it has "
            + (f"the ids 0 to {len(self) - 1}" if len(self) else "no events")
        )

    def subscribe(self, subscriber: Callable[[Event], object]) -> Callable[[], None]:
        """Calls ``subscriber`` with each event once it is stored; returns how to end that.

        A subscriber that raises is logged; the append and the other subscribers are not disturbed.
        """
        subscription = object()
        with self._lock:
            self._subscribers[subscription] = subscriber

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers.pop(subscription, None)

        return unsubscribe

    def hide(self, secrets: Secrets) -> None:
        """From now on, hides these secrets, too, in each event before it is stored or told of.

        ``secrets`` are values by name, or values alone: text, or pydantic's ``SecretStr``. In all
        text of an event, the tool calls of its LLM response included, ``**********`` stands where
        a secret was, whether it was written as it is or as JSON writes it; ids, times, tags and
        the names of tools stay as they are, and so do numbers. What :meth:`append` returns is the
        event without the secrets: a tool that needs one takes it from where it is kept, not from
        the action.

        Values that would be hidden everywhere are not hidden: those below 6 characters, and
        everyday words such as ``localhost`` or ``password``. A warning names them by their names.
        Events that the store has already stay as they are: nothing in a log is changed. Raises
        :class:`InvalidArgument` for secrets that are not text.
        """
        with self._lock:
            redaction = Redaction(secrets, self._redaction)
            self._redaction = redaction if len(redaction) else None

    def _keep(self, given: list[Event], source: EventSource | str | None) -> list[Event]:
        """Stores events and tells of them."""
        said_by = None if source is None else _checked_source(source)
        with self._lock:
            while True:
                event_id = self.store.count(self.session_id)
                stored = []
                for event in given:
                    stored.append(self._stored(event, event_id, said_by))
                    event_id += 1
                try:
                    self.store.append(self.session_id, stored)
                    break
                except IdTaken:  # another writer came first: number anew
                    continue
            self._untold.extend(stored)
            self._tell()
        return stored

    def _stored(self, event: Event, event_id: int, source: EventSource | None) -> Event:
        if not isinstance(event, Event):
            raise InvalidArgument(f"only events are appended, found {type(event).__name__}")
        if event.id != -1 and event.id != event_id:
            raise InvalidArgument(
                f"the event has the id {event.id} and would get {event_id}: it belongs to another "
                "place; append a copy made with event.replace(id=-1), its cause mapped"
            )
        changes: dict[str, Any] = {"id": event_id}
        if event.timestamp is None:
            changes["timestamp"] = self._clock()
        if source is not None:
            changes["source"] = source
        elif event.source is None:
            changes["source"] = _AGENT if isinstance(event, Action) else _ENVIRONMENT
        if self._redaction is not None:
            event = self._redaction.event(event)
        return storable(event).replace(**changes)

    def _tell(self) -> None:
        """Tells subscribers of stored events, in order, also when one of them appends more."""
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                event = self._untold.popleft()
                for subscriber in tuple(self._subscribers.values()):
                    try:
                        subscriber(event)
                    except Exception:
                        _log.exception(
                            "session %s: a subscriber failed on event %d", self.session_id, event.id
                        )
        finally:
            self._telling = False


def _checked_source(source: EventSource | str) -> EventSource:
    try:
        return EventSource(source)
    except ValueError:
        raise InvalidArgument(
            f"a source is one of {', '.join(EventSource)}; found {source!r}"
        ) from None


def _limited(
    events: Iterator[Event], condition: EventFilter | None, limit: int | None
) -> Iterator[Event]:
    given = 0
    for event in events:
        if limit is not None and given >= limit:
            return
        if condition is None or condition.matches(event):
            given += 1
            yield event
