"""eventfold's own files: JSONL, a head line and then the events of one run, one a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..event import Event
from ..serialization import event_from_dict, event_to_dict
from .base import Format, Problem, Row, Run, describe
from .json_rows import paused_gc
from .numbering import Draft, number

__all__ = ["FORMAT", "NAME", "head_line", "is_head_line", "lines_of"]

NAME = "eventfold"
_VERSION = 1


def lines_of(run: Run) -> Iterator[dict[str, Any]]:
    """The lines of a run's file. Events that are not numbered from 0 are numbered anew."""
    yield head_line(run.name)
    events = run.events
    if any(event.id != n for n, event in enumerate(events)):
        events = _numbered(events)
    for event in events:
        yield event_to_dict(event)


def _numbered(events: Iterable[Event]) -> list[Event]:
    drafts = [
        Draft(event, f"line {n}", recorded_id=event.id if event.id >= 0 else None)
        for n, event in enumerate(events, start=2)
    ]
    return number(drafts)[0]


def head_line(name: str) -> dict[str, Any]:
    """What a file of a run begins with."""
    return {"eventfold": _VERSION, "name": name}


def is_head_line(value: Any) -> bool:
    """Whether a line is one that a file begins with."""
    return isinstance(value, dict) and type(value.get("eventfold")) is int


def _read(path: Path, rows: Iterable[Row | Problem]) -> Iterator[Run | Problem]:
    """The one run of a file. Appended logs, each with its head, are runs of their own.

    The last line may be torn: the process that wrote it was killed. It is told and set aside.
    """
    run: Run | None = None
    for row in rows:
        if isinstance(row, Row) and is_head_line(row.value):
            if run is not None:
                yield _finished(run)
            run = _opened(path, row)
        elif run is None:
            yield row if isinstance(row, Problem) else _left_out(path, row, "before the head line")
        elif isinstance(row, Problem):
            run.problems.append(Problem(row.file, row.line, f"left out: {row.text}"))
        else:
            _add(run, path, row)
    if run is not None:
        yield _finished(run)


def _opened(path: Path, row: Row) -> Run:
    head = row.value
    name = head.get("name")
    run = Run(name if isinstance(name, str) and name else path.stem, NAME, [], path=path)
    if head["eventfold"] > _VERSION:
        said = f"written by a newer eventfold (version {head['eventfold']} of the format)"
        run.problems.append(Problem(str(path), row.line, said))
    return run


def _add(run: Run, path: Path, row: Row) -> None:
    try:
        with paused_gc():
            run.events.append(event_from_dict(row.value))
    except ValueError as error:
        run.problems.append(_left_out(path, row, str(error)))


def _left_out(path: Path, row: Row, why: str) -> Problem:
    return Problem(str(path), row.line, f"left out: {why}; this is {describe(row.value)}")


def _finished(run: Run) -> Run:
    """The run, its events numbered from 0 also where a line was lost."""
    run.recorded_ids = [event.id if event.id >= 0 else None for event in run.events]
    if run.recorded_ids != list(range(len(run.events))):
        said = "the ids are not 0, 1, 2, ...: numbered anew"
        run.problems.append(Problem(str(run.path), None, said))
        run.events = _numbered(run.events)
    return run


FORMAT = Format(name=NAME, title="eventfold JSONL", recognises=is_head_line, read=_read)
