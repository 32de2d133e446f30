"""What a trajectory format is, and the run that reading one gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..event import Event, EventfoldError

__all__ = ["Format", "Problem", "Row", "Run", "UnreadableRun", "describe"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something odd in a file: what was left out, repaired, or taken for something else.

    ``file`` is the path as it was given; ``line`` counts from 1 and is None where the file is one
    JSON value. The text names an item by its position, counted from 0: ``history[5]``.
    """

    file: str
    line: int | None
    text: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.text}"


@dataclass(slots=True)
class Run:
    """One recorded run of an agent.

    ``events`` are numbered densely from 0; every ``cause`` and every id in a condensation means
    these numbers. ``recorded_ids`` are the ids that the file had for them, numbers or texts, None
    where it had none. ``as_recorded`` has more of what the file said, by event id: recorded values
    that were mapped, derived or dropped, by key (``...`` for a key that was not there). A writer
    restores the file from both. Both are empty for events that were never read from a file.
    """

    name: str
    format: str
    events: list[Event]
    problems: list[Problem] = field(default_factory=list)
    recorded_ids: list[int | str | None] = field(default_factory=list)
    as_recorded: dict[int, dict[str, Any]] = field(default_factory=dict)
    path: Path | None = None


class UnreadableRun(EventfoldError):
    """Nothing at all could be read. ``problems`` says why, file by file."""

    def __init__(self, message: str, problems: Iterable[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = list(problems)


@dataclass(frozen=True, slots=True)
class Row:
    """A JSON value in a file; ``line`` is None if it is the only one there."""

    value: Any
    line: int | None


@dataclass(frozen=True, slots=True)
class Format:
    """A trajectory format: how it is recognised and how it is read.

    ``name`` is what :attr:`Run.format` says, ``title`` is for people. ``recognises`` gets one JSON
    value, a whole file or a line of one, and must not claim a value of another format. ``read``
    gets the path of a file and its rows, from the first that was recognised on, and gives runs, and
    problems between them; what it cannot read it tells and passes over. Formats that keep a run in
    a folder of files have the last two as well.
    """

    name: str
    title: str
    recognises: Callable[[Any], bool]
    read: Callable[[Path, Iterable[Row | Problem]], Iterator[Run | Problem]]
    recognises_folder: Callable[[Path], bool] = lambda folder: False
    read_folder: Callable[[Path], Iterator[Run | Problem]] = lambda folder: iter(())


def describe(value: Any) -> str:
    """What a JSON value is, in a few words."""
    if isinstance(value, dict):
        if not value:
            return "an empty object"
        names = ", ".join(repr(key)[:40] for key in list(value)[:8])
        more = f" and {len(value) - 8} more" if len(value) > 8 else ""
        return f"an object with the keys {names}{more}"
    if isinstance(value, list):
        return f"a list of {len(value)}, first {describe(value[0])}" if value else "an empty list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"the text {value[:40]!r}" if isinstance(value, str) else f"the number {value!r:.40}"
