"""OpenHands V0: event lists, evaluation rows, pairs, event stores and flattened data set rows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .base import Format, Problem, Run
from .event_lists import EventLists, Item, Log
from .json_rows import read_value
from .openhands_v0_logs import NAME, is_event, is_whole_event, read_log

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


# Event stores


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


_LISTS = EventLists("OpenHands V0", is_whole_event, _holds_events, read_log)
FORMAT = Format(
    name=NAME,
    title="OpenHands V0 events",
    recognises=_LISTS.recognises,
    read=_LISTS.read,
    recognises_folder=_recognises_folder,
    read_folder=_read_folder,
)
