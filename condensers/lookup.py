"""What stands for an event that was forgotten."""

from __future__ import annotations

from collections.abc import Iterable

from ..events.condensation import CondensationAction
from ..events.event import Event

__all__ = ["told_of"]


def told_of(event_id: int, events: Iterable[Event]) -> list[str]:
    """The texts that tell of a forgotten event, in the order of the log: the summary of the part of
    the history that it was in, if that was summarized in parts; the summary that took its place;
    and each later one that took the place of that. Empty if it was not forgotten, or wordlessly.

    ``events`` are those of the log. To find the event itself, read the log: it is still there.
    """
    told: list[str] = []
    stands = False  # whether a summary that tells of it stands in the view
    for event in events:
        if not isinstance(event, CondensationAction):
            continue
        is_named = event_id in event.forgotten
        if is_named:
            parts = (event.details or {}).get("parts", ())
            told += [p["summary"] for p in parts if p["first"] <= event_id <= p["last"]]
        if event.summary is not None and (is_named or stands):
            told.append(event.summary)
            stands = True
    return told
