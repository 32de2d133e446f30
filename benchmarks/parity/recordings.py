"""Recorded runs of OpenHands for the comparison, in its own form, without what condensed them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from eventfold import Event, UnknownEvent, event_to_dict, read_runs
from eventfold.events import CondensationAction

Json = dict[str, Any]
_FEW = 4  # a log of fewer events is left out


def recorded(folder: Path, form: str) -> Iterator[tuple[str, list[Json]]]:
    """The runs in a folder that are in this form, by name."""
    found = _v0(folder) if form == "v0" else _v1(folder)
    return ((name, events) for name, events in found if len(events) >= _FEW)


def _v0(folder: Path) -> Iterator[tuple[str, list[Json]]]:
    for run in read_runs(folder):
        if run.format == "openhands_v0":
            yield run.name, [_numbered(event) for event in run.events if _is_read(event)]


def _is_read(event: Event) -> bool:
    return not isinstance(event, UnknownEvent | CondensationAction)


def _numbered(event: Event) -> Json:
    """The event with eventfold's ids, which are dense."""
    numbered = event_to_dict(event) | {"id": event.id}
    if event.cause is not None:
        numbered["cause"] = event.cause
    return numbered


def _v1(folder: Path) -> Iterator[tuple[str, list[Json]]]:
    stores = sorted({path.parent for path in folder.rglob("event-*.json")})
    for store in stores:
        files = sorted(store.glob("event-*.json"))
        yield store.parent.name, _events(json.loads(file.read_text("utf-8")) for file in files)
    for path in sorted(folder.rglob("*.json*")):
        if path.parent not in stores:
            for number, value in enumerate(_values(path.read_text("utf-8"))):
                history = value.get("history") if isinstance(value, dict) else value
                yield f"{path.name} {number}", _events(history if isinstance(history, list) else ())


def _values(text: str) -> list[Any]:
    """The JSON value of a file, or those of its lines; none if it is something else."""
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except ValueError:
        return []


def _events(values: Iterable[Any]) -> list[Json]:
    found = [
        value for value in values if isinstance(value, dict) and {"kind", "id"} <= value.keys()
    ]
    return [event for event in found if event["kind"] not in _LEFT_OUT]


_LEFT_OUT = ("Condensation", "SystemPromptUpdateEvent")  # the latter is none of the SDK's any more
