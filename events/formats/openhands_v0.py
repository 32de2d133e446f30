"""OpenHands V0: event lists, evaluation rows, pairs, event stores and flattened data set rows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from .base import Format, Problem, Row, Run, describe
from .json_rows import read_value
from .openhands_v0_logs import NAME, Item, Log, is_event, is_whole_event, read_log

__all__ = ["FORMAT"]

_EVENT_FILE = re.compile(r"(\d+)\.json")


# Recognising


def _holds_events(values: Any) -> bool:
    if not isinstance(values, list):
        return False
    return any(
        is_event(value) or (isinstance(value, list) and any(map(is_event, value)))
        for value in values
    )


def _events_key(row: Any) -> str | None:
    """Under which key a row has its events."""
    if not isinstance(row, dict):
        return None
    return next((key for key in ("history", "trajectory") if _holds_events(row.get(key))), None)


def _recognises(value: Any) -> bool:
    if isinstance(value, list):
        return _holds_events(value) or any(_events_key(item) for item in value)
    return is_whole_event(value) or _events_key(value) is not None


def _recognises_folder(folder: Path) -> bool:
    return _store_in(folder) is not None


def _store_in(folder: Path) -> Path | None:
    """The folder of event files: ``folder/events``, or ``folder`` itself."""
    for store in (folder / "events", folder):
        for file in _event_files(store)[:5]:  # the first may be cut off
            try:
                if is_whole_event(read_value(file)):
                    return store
            except (OSError, ValueError):
                continue
    return None


def _event_files(store: Path) -> list[Path]:
    """Its files named ``<id>.json``, sorted by id: 10 comes after 9."""
    try:
        names = os.listdir(store)
    except OSError:
        return []
    return [store / name for name in sorted(filter(_EVENT_FILE.fullmatch, names), key=_id_in)]


def _id_in(name: str) -> int:
    return int(name.removesuffix(".json"))


# Containers


def _read(path: Path, rows: Iterable[Row | Problem]) -> Iterator[Run | Problem]:
    rows = iter(rows)
    first = next(rows, None)
    if isinstance(first, Row) and is_whole_event(first.value):  # an event a line, one run in all
        yield read_log(Log(path.stem, path, None, _lone_events(path, chain([first], rows))))
        return
    for row in chain([first] if first is not None else [], rows):
        if isinstance(row, Problem):
            yield row
        else:
            yield from _runs_in(row.value, path, row.line, "")


def _runs_in(value: Any, path: Path, line: int | None, place: str) -> Iterator[Run | Problem]:
    """The runs in a JSON value: a list of events, a row that has one, or a list of such rows."""
    if isinstance(value, list) and not _holds_events(value) and any(map(_events_key, value)):
        for n, row in enumerate(value):
            yield from _runs_in(row, path, line, f"{place}[{n}]")
        return
    row = value if isinstance(value, dict) else {}
    key = _events_key(row) or next((k for k in ("history", "trajectory") if row.get(k) == []), None)
    events: Any = row[key] if key is not None else value
    if not _holds_events(events) and events != []:
        left_out = f"left out, this is no run of OpenHands V0: {describe(value)}"
        yield Problem(str(path), line, f"{place}: {left_out}" if place else left_out)
        return
    instruction = row.get("instruction")
    yield read_log(
        Log(
            name=_name_of(row) or f"{path.stem}{'' if line is None else f':{line}'}{place}",
            path=path,
            line=line,
            items=_listed(events, path, line, f"{place}.{key}".lstrip(".") if key else place),
            is_pairs=any(isinstance(event, list) for event in events),
            instruction=instruction if isinstance(instruction, str) and instruction else None,
        )
    )


def _name_of(row: dict[str, Any]) -> str | None:
    instance, issue = row.get("instance"), row.get("issue")
    for holder in (row, instance if isinstance(instance, dict) else {}):
        for key in ("instance_id", "id", "conversation_id"):
            if isinstance(name := holder.get(key), str | int) and name != "":
                return str(name)
    if isinstance(issue, dict) and isinstance(number := issue.get("number"), int):
        return f"{issue.get('owner', '')}/{issue.get('repo', '')}#{number}".lstrip("/")
    return None


def _listed(values: list[Any], path: Path, line: int | None, place: str) -> Iterator[Item]:
    for n, value in enumerate(values):
        if isinstance(value, list) and value:  # a pair
            for m, part in enumerate(value):
                yield Item(part, f"{place}[{n}][{m}]", str(path), line)
        else:
            yield Item(value, f"{place}[{n}]", str(path), line)


def _lone_events(path: Path, rows: Iterable[Row | Problem]) -> Iterator[Item | Problem]:
    for row in rows:
        if isinstance(row, Problem):
            yield row
        else:
            place = "the event" if row.line is None else f"line {row.line}"
            yield Item(row.value, place, str(path), row.line)


def _read_folder(folder: Path) -> Iterator[Run | Problem]:
    store = _store_in(folder)
    if store is None:
        return
    session = store.parent if store.name == "events" else store
    yield read_log(Log(Path(os.path.abspath(session)).name, folder, None, _stored(store)))


def _stored(store: Path) -> Iterator[Item | Problem]:
    files = _event_files(store)
    for file in files:
        event_id = _id_in(file.name)
        try:
            value = read_value(file)
        except (OSError, ValueError) as error:
            yield Problem(str(file), None, f"left out: {error}")
            continue
        if isinstance(value, dict):
            if value.get("id", event_id) != event_id:
                yield Problem(
                    str(file), None, f"the id inside is {value['id']!r:.40}: the file name's counts"
                )
            value = {**value, "id": event_id}
        yield Item(value, file.name, str(file), None)
    for other in sorted(set(store.iterdir()) - set(files)):
        if not other.name.startswith("."):
            yield Problem(str(other), None, "left out: an event's file is named <id>.json")


FORMAT = Format(
    name=NAME,
    title="OpenHands V0 events",
    recognises=_recognises,
    read=_read,
    recognises_folder=_recognises_folder,
    read_folder=_read_folder,
)
