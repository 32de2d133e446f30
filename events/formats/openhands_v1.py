"""OpenHands V1 (software-agent-sdk): conversation folders, event lists and evaluation rows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from .base import Format, Problem, Row, Run
from .event_lists import EventLists, Item, Log
from .json_rows import read_value
from .openhands_v1_logs import NAME, is_event, read_log

__all__ = ["FORMAT"]

_EVENT_FILE = re.compile(r"event-\d+-.+\.json")
# Folders between the events and the one that is named after the conversation.
_INNER = ("events", "event_service")
_BESIDE = ("base_state.json", "meta.json")


def _holds_events(values: Any) -> bool:
    return isinstance(values, list) and any(map(is_event, values))


_LISTS = EventLists("OpenHands V1", is_event, _holds_events, read_log)


def _recognises(value: Any) -> bool:
    return _is_state(value) or _LISTS.recognises(value)


def _is_state(value: Any) -> bool:
    """Whether it is a conversation's ``base_state.json``, which holds no events."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("agent"), dict)
        and "workspace" in value
        and not value.keys().isdisjoint({"execution_status", "agent_status"})
    )


def _read(path: Path, rows: Iterable[Row | Problem]) -> Iterator[Run | Problem]:
    rows = iter(rows)
    for row in rows:
        if isinstance(row, Row) and _is_state(row.value):
            yield Problem(
                str(path),
                row.line,
                "the state of an OpenHands V1 conversation, without its events: they are in the "
                "folder 'events' beside it; give the folder of the conversation",
            )
        elif isinstance(row, Problem):
            yield row
        else:
            yield from _LISTS.read(path, chain([row], rows))


# Conversation folders


def _store_in(folder: Path) -> Path | None:
    """The folder of event files: ``folder/events``, or ``folder`` itself."""
    return next((store for store in (folder / "events", folder) if _event_files(store)), None)


def _event_files(store: Path) -> list[Path]:
    """Its files named ``event-<number>-<id>.json``, by number."""
    try:
        names = os.listdir(store)
    except OSError:
        return []
    found = filter(_EVENT_FILE.fullmatch, names)
    return [store / name for name in sorted(found, key=lambda n: (_number_in(n), n))]


def _number_in(name: str) -> int:
    return int(name.split("-")[1])


def _read_folder(folder: Path) -> Iterator[Run | Problem]:
    store = _store_in(folder)
    if store is None:
        return
    session = Path(os.path.abspath(store))
    while session.name in _INNER:
        session = session.parent
    yield read_log(Log(session.name, folder, None, _stored(store)))


def _stored(store: Path) -> Iterator[Item | Problem]:
    files = _event_files(store)
    for file in files:
        try:
            yield Item(read_value(file), file.name, str(file), None)
        except (OSError, ValueError) as error:
            yield Problem(str(file), None, f"left out: {error}")
    numbers = {_number_in(file.name) for file in files}
    first, last = min(numbers), max(numbers)
    if first:
        yield Problem(str(store), None, f"the log begins late, at event {first}")
    if holes := last - first + 1 - len(numbers):
        yield Problem(str(store), None, f"the log has holes: files of {holes} events are missing")
    for other in sorted(set(store.iterdir()) - set(files)):
        if not other.name.startswith(".") and other.is_file() and other.name not in _BESIDE:
            yield Problem(str(other), None, "left out: an event's file is event-<number>-<id>.json")


FORMAT = Format(
    name=NAME,
    title="OpenHands V1 events",
    recognises=_recognises,
    read=_read,
    recognises_folder=lambda folder: _store_in(folder) is not None,
    read_folder=_read_folder,
)
