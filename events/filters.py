"""Choosing events from a log."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from datetime import UTC, datetime

from .event import Event, EventSource, InvalidArgument, UnknownEvent
from .serialization import event_to_dict

__all__ = ["EventFilter"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events to read: all conditions that are set must hold.

    ``kinds`` are event classes (subclasses included) or JSON tags; ``sources`` as in events;
    ``hidden`` True or False picks hidden or shown events, None both. ``since`` and ``until`` are
    inclusive times (one without a zone counts as UTC, as an event's does; an event without a time
    lies in no time range). ``text`` is looked for in all of an event's text, ignoring case.
    ``start_id`` and ``end_id`` are inclusive; at most ``limit`` events are given.

    Raises :class:`InvalidArgument` for a negative limit or id and for ranges that are upside down.
    """

    kinds: Collection[type[Event] | str] = ()
    sources: Collection[EventSource | str] = ()
    hidden: bool | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    start_id: int = 0
    end_id: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        for name in ("kinds", "sources"):
            if isinstance(alone := getattr(self, name), str):
                raise InvalidArgument(f"{name} is a collection, found {alone!r}: pass [{alone!r}]")
        for name in ("start_id", "end_id", "limit"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InvalidArgument(f"{name} is 0 or more, found {value}")
        if self.end_id is not None and self.end_id < self.start_id:
            raise InvalidArgument(f"end_id {self.end_id} lies before start_id {self.start_id}")
        if self.since and self.until and _in_utc(self.until) < _in_utc(self.since):
            raise InvalidArgument(f"until {self.until} lies before since {self.since}")
        unknown = {str(source) for source in self.sources} - {*EventSource}
        if unknown:
            raise InvalidArgument(f"sources are {', '.join(EventSource)}; found {sorted(unknown)}")

    def matches(self, event: Event) -> bool:
        """True if the event meets all conditions but ``limit``, which is the reader's to count."""
        if event.id < self.start_id or (self.end_id is not None and event.id > self.end_id):
            return False
        if self.kinds and not any(_is_kind(event, kind) for kind in self.kinds):
            return False
        if self.sources and event.source not in self.sources:
            return False
        if self.hidden is not None and event.hidden is not self.hidden:
            return False
        if (self.since or self.until) and not self._in_time(event.timestamp):
            return False
        return self.text is None or _says(event, self.text.casefold())

    def _in_time(self, time: datetime | None) -> bool:
        if time is None:
            return False
        time = _in_utc(time)
        return not (
            (self.since is not None and time < _in_utc(self.since))
            or (self.until is not None and time > _in_utc(self.until))
        )


def _is_kind(event: Event, kind: type[Event] | str) -> bool:
    if isinstance(kind, type):
        return isinstance(event, kind)
    return kind == (event.name if isinstance(event, UnknownEvent) else event.kind)


def _in_utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def _says(event: Event, text: str) -> bool:
    data = event_to_dict(event)
    return any(_holds(value, text) for key, value in data.items() if key not in _NOT_SEARCHED)


def _holds(value: object, text: str) -> bool:
    if isinstance(value, str):
        return text in value.casefold()
    if isinstance(value, dict):
        return any(_holds(item, text) for item in value.values())
    return isinstance(value, list) and any(_holds(item, text) for item in value)


# Ids, tags and the whole LLM response (its text is in the actions) are no text of an event.
_NOT_SEARCHED = {
    "tool_call_metadata",
    "model_response",
    "llm_metrics",
    "action",
    "observation",
    "source",
    "timestamp",
}
