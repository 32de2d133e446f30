"""OpenHands V0: event lists, evaluation rows, pairs, event stores and flattened data set rows."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ..event import Event, UnknownEvent
from ..serialization import event_from_dict, event_to_dict, unknown_event
from .base import Format, Problem, Row, Run, describe
from .json_rows import paused_gc, read_value
from .numbering import Draft, number
from .openhands_v0_repairs import (
    add_causes,
    add_instruction,
    add_sources,
    is_flattened,
    unflattened,
)

__all__ = ["FORMAT", "recorded_dicts"]

_NAME = "openhands_v0"
_EVENT_FILE = re.compile(r"(\d+)\.json")


@dataclass(frozen=True, slots=True)
class _Item:
    """An event as JSON; ``place`` is where it stands in its file, or the name of a file of its own."""

    value: Any
    place: str
    file: str
    line: int | None


@dataclass(frozen=True, slots=True)
class _Log:
    """The events of one run, not yet read, and what is said beside them."""

    name: str
    path: Path
    line: int | None
    items: Iterable[_Item | Problem]
    is_pairs: bool = False
    instruction: str | None = None


# Recognising


def _is_event(value: Any) -> bool:
    """An action or an observation. SWE-agent's steps are both, its messages have a role."""
    if not isinstance(value, dict) or "role" in value or "response" in value:
        return False
    return isinstance(value.get("action"), str) != isinstance(value.get("observation"), str)


def _is_lone_event(value: Any) -> bool:
    """An event that must be known as one without others around it."""
    return _is_event(value) and any(isinstance(value.get(key), dict) for key in ("args", "extras"))


def _holds_events(values: Any) -> bool:
    if not isinstance(values, list):
        return False
    return any(
        _is_event(value) or (isinstance(value, list) and any(map(_is_event, value)))
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
    return _is_lone_event(value) or _events_key(value) is not None


def _recognises_folder(folder: Path) -> bool:
    return _store_in(folder) is not None


def _store_in(folder: Path) -> Path | None:
    """The folder of event files: ``folder/events``, or ``folder`` itself."""
    for store in (folder / "events", folder):
        for file in _event_files(store)[:5]:  # the first may be cut off
            try:
                if _is_lone_event(read_value(file)):
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
    if isinstance(first, Row) and _is_lone_event(first.value):  # an event a line, one run in all
        yield _run(_Log(path.stem, path, None, _lone_events(path, chain([first], rows))))
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
    events = row[key] if key is not None else value
    if not _holds_events(events) and events != []:
        left_out = f"left out, this is no run of OpenHands V0: {describe(value)}"
        yield Problem(str(path), line, f"{place}: {left_out}" if place else left_out)
        return
    instruction = row.get("instruction")
    yield _run(
        _Log(
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


def _listed(values: list[Any], path: Path, line: int | None, place: str) -> Iterator[_Item]:
    for n, value in enumerate(values):
        if isinstance(value, list) and value:  # a pair
            for m, part in enumerate(value):
                yield _Item(part, f"{place}[{n}][{m}]", str(path), line)
        else:
            yield _Item(value, f"{place}[{n}]", str(path), line)


def _lone_events(path: Path, rows: Iterable[Row | Problem]) -> Iterator[_Item | Problem]:
    for row in rows:
        if isinstance(row, Problem):
            yield row
        else:
            place = "the event" if row.line is None else f"line {row.line}"
            yield _Item(row.value, place, str(path), row.line)


def _read_folder(folder: Path) -> Iterator[Run | Problem]:
    store = _store_in(folder)
    if store is None:
        return
    session = store.parent if store.name == "events" else store
    yield _run(_Log(Path(os.path.abspath(session)).name, folder, None, _stored(store)))


def _stored(store: Path) -> Iterator[_Item | Problem]:
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
        yield _Item(value, file.name, str(file), None)
    for other in sorted(set(store.iterdir()) - set(files)):
        if not other.name.startswith("."):
            yield Problem(str(other), None, "left out: an event's file is named <id>.json")


# From JSON to a run


def _run(log: _Log) -> Run:
    with paused_gc():
        reader = _Reader(log)
        drafts = reader.drafts
        add_sources(drafts)
        if reader.needs_repair:
            add_causes(drafts)
        if log.instruction is not None and add_instruction(drafts, log.instruction):
            reader.odd.append(
                "no user message before the agent's first action: the row's instruction became one"
            )
        if not drafts:
            reader.odd.append("there are no events in it")
        events, odd = number(drafts)
    told = (Problem(str(log.path), log.line, text) for text in chain(reader.odd, odd))
    return Run(
        name=log.name,
        format=_NAME,
        events=events,
        problems=[*reader.problems, *told],
        recorded_ids=[draft.recorded_id for draft in drafts],
        as_recorded={}
        if reader.needs_repair
        else {draft.id: draft.lost for draft in drafts if draft.lost},
        path=log.path,
    )


class _Reader:
    """Reads a log's events one by one; nothing in them stops it.

    A log ``needs_repair`` if its events are not in the shape that OpenHands itself reads: pairs,
    flattened rows, or arguments that stand beside the action's name.
    """

    def __init__(self, log: _Log) -> None:
        self.drafts: list[Draft] = []
        self.problems: list[Problem] = []
        self.odd: list[str] = []
        self.needs_repair = log.is_pairs
        self._unknown: Counter[str] = Counter()
        for item in log.items:
            if isinstance(item, Problem):
                self.problems.append(item)
            elif isinstance(item.value, dict):
                self._add(item, item.value)
            else:
                self._tell(item, f"left out: an event is an object, this is {describe(item.value)}")
        if self._unknown:
            kinds = ", ".join(f"{kind} ({n})" for kind, n in sorted(self._unknown.items()))
            self.odd.append(f"events of unknown kinds, kept as they are: {kinds}")

    def _add(self, item: _Item, value: dict[str, Any]) -> None:
        if is_flattened(value):
            value = unflattened(value)
            self.needs_repair = True
        elif _is_event(value) and not _is_lone_event(value):
            self.needs_repair = True
        try:
            event = event_from_dict(value)
            if isinstance(event, UnknownEvent):
                self._unknown[event.name or "none"] += 1
        except ValueError as invalid:
            try:
                event = unknown_event(value)
            except (ValueError, RecursionError) as error:
                self._tell(item, f"left out: {error}")
                return
            self._tell(item, f"kept as an event of an unknown kind: {invalid}")
        if event.cause is None and value.get("cause") is not None:
            self._tell(item, f"the cause {value['cause']!r:.40} is no id")
        recorded = value.get("id")
        draft = Draft(event, item.place)
        if type(recorded) is int and recorded >= 0:
            draft.recorded_id = recorded
        else:
            draft.lost["id"] = value.get("id", ...)
        if event.source is None:
            draft.lost["source"] = value.get("source", ...)
        self.drafts.append(draft)

    def _tell(self, item: _Item, text: str) -> None:
        self.problems.append(Problem(item.file, item.line, f"{item.place}: {text}"))


# And back


def recorded_dicts(run: Run) -> Iterator[dict[str, Any]]:
    """The events of a run as JSON objects, with the ids that they were recorded with.

    A run that was not read from a plain V0 log, or whose list of events was changed since, has the
    ids of its events.
    """
    ids = run.recorded_ids
    restore = (
        run.format == _NAME
        and len(ids) == len(run.events)
        and all(event.id == n for n, event in enumerate(run.events))
        and all(known is not None or n in run.as_recorded for n, known in enumerate(ids))
    )
    for event in run.events:
        data = event_to_dict(event)
        if restore:
            _restore(data, event, ids, run.as_recorded.get(event.id, {}))
        yield data


def _restore(
    data: dict[str, Any], event: Event, ids: Sequence[int | None], as_recorded: dict[str, Any]
) -> None:
    data["id"] = ids[event.id]
    if event.cause is not None and 0 <= event.cause < len(ids):
        data["cause"] = ids[event.cause]
    args = data.get("args")
    for key, value in as_recorded.items():
        holder = args if key.startswith("forgotten_") and isinstance(args, dict) else data
        if value is ...:
            holder.pop(key, None)
        else:
            holder[key] = value


FORMAT = Format(
    name=_NAME,
    title="OpenHands V0 events",
    recognises=_recognises,
    read=_read,
    recognises_folder=_recognises_folder,
    read_folder=_read_folder,
)
