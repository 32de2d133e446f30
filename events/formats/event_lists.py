"""Files that hold lists of events: a bare list, a list in a row, rows in JSONL, an event a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ..event import Event
from .base import Problem, Row, Run, describe
from .numbering import Draft, number
from .openhands_v0_repairs import add_instruction

__all__ = ["EventLists", "Item", "Log", "name_of", "numbered"]


@dataclass(frozen=True, slots=True)
class Item:
    """An event as JSON. ``place`` is where it stands in its file, or the name of its own file."""

    value: Any
    place: str
    file: str
    line: int | None


@dataclass(frozen=True, slots=True)
class Log:
    """The events of one run, not read yet, and what is said beside them."""

    name: str
    path: Path
    line: int | None
    items: Iterable[Item | Problem]
    is_pairs: bool = False
    instruction: str | None = None


@dataclass(frozen=True, slots=True)
class EventLists:
    """How one format's lists of events are found in files, and read.

    ``is_event`` tells an event that stands alone on its line, ``holds_events`` a list of events.
    """

    title: str
    is_event: Callable[[Any], bool]
    holds_events: Callable[[Any], bool]
    read_log: Callable[[Log], Run]

    def recognises(self, value: Any) -> bool:
        if isinstance(value, list):
            return self.holds_events(value) or any(self._events_key(item) for item in value)
        return self.is_event(value) or self._events_key(value) is not None

    def read(self, path: Path, rows: Iterable[Row | Problem]) -> Iterator[Run | Problem]:
        rows = iter(rows)
        first = next(rows, None)
        if isinstance(first, Row) and self.is_event(first.value):  # an event a line, one run in all
            items = _lone_events(path, chain([first], rows))
            yield self.read_log(Log(path.stem, path, None, items))
            return
        for row in chain([first] if first is not None else [], rows):
            if isinstance(row, Problem):
                yield row
            else:
                yield from self._runs_in(row.value, path, row.line, "")

    def _runs_in(
        self, value: Any, path: Path, line: int | None, place: str
    ) -> Iterator[Run | Problem]:
        """The runs in a JSON value: a list of events, a row with one, or a list of such rows."""
        if (
            isinstance(value, list)
            and not self.holds_events(value)
            and any(map(self._events_key, value))
        ):
            for n, row in enumerate(value):
                yield from self._runs_in(row, path, line, f"{place}[{n}]")
            return
        row = value if isinstance(value, dict) else {}
        key = self._events_key(row) or next((k for k in _KEYS if row.get(k) == []), None)
        events: Any = row[key] if key is not None else value
        if not self.holds_events(events) and events != []:
            left_out = f"left out, this is no run of {self.title}: {describe(value)}"
            yield Problem(str(path), line, f"{place}: {left_out}" if place else left_out)
            return
        instruction = row.get("instruction")
        yield self.read_log(
            Log(
                name=name_of(row) or f"{path.stem}{'' if line is None else f':{line}'}{place}",
                path=path,
                line=line,
                items=_listed(events, path, line, f"{place}.{key}".lstrip(".") if key else place),
                is_pairs=any(isinstance(event, list) for event in events),
                instruction=instruction if isinstance(instruction, str) and instruction else None,
            )
        )

    def _events_key(self, row: Any) -> str | None:
        """Under which key a row has its events."""
        if not isinstance(row, dict):
            return None
        return next((key for key in _KEYS if self.holds_events(row.get(key))), None)


_KEYS = ("history", "trajectory")


def numbered(
    log: Log, drafts: list[Draft], odd: Iterable[str]
) -> tuple[list[Event], list[Problem]]:
    """The events of a log with dense ids, with the row's instruction in front where no user speaks
    first; and, as problems, what was ``odd`` before and in that."""
    told = list(odd)
    if log.instruction is not None and add_instruction(drafts, log.instruction):
        told.append(
            "no user message before the agent's first action: the row's instruction became one"
        )
    if not drafts:
        told.append("there are no events in it")
    events, odd_numbers = number(drafts)
    return events, [Problem(str(log.path), log.line, text) for text in (*told, *odd_numbers)]


def name_of(row: dict[str, Any]) -> str | None:
    """What a row says that its run is called."""
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
