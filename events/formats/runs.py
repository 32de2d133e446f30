"""Recorded runs of agents, read from files and folders of any known format."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from .base import Format, Problem, Row, Run, UnreadableRun, describe
from .detect import FORMATS, format_of, format_of_folder, holds_no_events
from .json_rows import rows

__all__ = ["Problem", "Run", "UnreadableRun", "read_runs"]

# Other files in a folder are not looked at; a file that is named itself is, whatever its name.
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".traj")
# So many values of no known format may come before the first of a known one.
_PATIENCE = 1000
# Of a file that is not recognised, so many lines are told.
_SAID = 3


def read_runs(path: str | os.PathLike[str]) -> Iterator[Run]:
    """The recorded runs in a file, in a session's folder, or in all that is below a folder.

    Formats are told apart by what is in the files. Folders are read in the order of their names,
    hidden files (``.git``) are passed over. Runs are read as they are asked for: of a JSONL file,
    only a few lines are in memory. What is odd, and each file or line that could not be read, is in
    the ``problems`` of the run before it, or of the first one. Raises :class:`UnreadableRun` if
    there is no run at all.
    """
    start = Path(path)
    if not start.exists():
        raise UnreadableRun(f"{start}: there is no such file or folder; check the path")
    return _with_problems(start, _in_folder(start) if start.is_dir() else _in_file(start))


def _with_problems(start: Path, found: Iterable[Run | Problem]) -> Iterator[Run]:
    """The runs, each with the problems that were found after it; the first also with those before.

    So a run is given when the next one has been read: only then are its problems complete.
    """
    held: Run | None = None
    early: list[Problem] = []
    for item in found:
        if isinstance(item, Problem):
            (held.problems if held is not None else early).append(item)
            continue
        if held is not None:
            yield held
        elif early:
            item.problems[:0] = early
        held = item
    if held is None:
        raise _nothing_read(start, early)
    yield held


def _in_folder(folder: Path) -> Iterator[Run | Problem]:
    found = format_of_folder(folder)
    try:
        if found is not None:
            yield from found.read_folder(folder)
            return
        entries = sorted(folder.iterdir())
    except OSError as error:
        yield Problem(str(folder), None, f"cannot be read: {error.strerror or error}")
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            if entry.is_symlink():  # it may lead back up
                yield Problem(str(entry), None, "a link to a folder: not followed")
            else:
                yield from _in_folder(entry)
        elif entry.suffix.lower() in _SUFFIXES:
            yield from _in_file(entry)


def _in_file(path: Path) -> Iterator[Run | Problem]:
    try:
        if not path.is_file():
            yield Problem(str(path), None, "neither a file nor a folder")
            return
        yield from _recognised(path, rows(path))
    except OSError as error:
        yield Problem(str(path), None, f"cannot be read: {error.strerror or error}")


def _recognised(path: Path, found: Iterator[Row | Problem]) -> Iterator[Run | Problem]:
    """What the format of the first row that has one makes of the file."""
    left_out: list[Problem] = []
    of_any_format: list[Row | Problem] = []
    known: str | None = None
    for row in islice(found, _PATIENCE):
        if isinstance(row, Problem):
            left_out.append(row)
            continue
        recognised = format_of(row.value)
        if isinstance(recognised, Format):
            yield from left_out
            yield from recognised.read(path, chain(of_any_format, [row], found))
            return
        if holds_no_events(row.value):
            of_any_format.append(row)
            continue
        known = known or recognised
        said = _not_read(recognised) if recognised else f"of no known format: {describe(row.value)}"
        left_out.append(Problem(str(path), row.line, said))
    if known is not None:
        yield Problem(str(path), None, _not_read(known))
    elif of_any_format:
        yield Problem(str(path), None, "holds no events: every list of them is empty")
    else:
        yield from left_out[:_SAID]


def _not_read(title: str) -> str:
    return f"recognised as {title}, which this version cannot read"


def _nothing_read(start: Path, problems: list[Problem]) -> UnreadableRun:
    known = ", ".join(f"{known.title} ({known.name})" for known in FORMATS)
    advice = f"Formats that can be read: {known}. Give a file of one of them, or a folder of such."
    if not problems:
        return UnreadableRun(f"{start}: the folder holds no files to read. {advice}")
    if len(problems) == 1:
        return UnreadableRun(f"{problems[0]}. {advice}", problems)
    listed = "".join(f"\n  {problem}" for problem in problems[:10])
    more = f"\n  and {len(problems) - 10} more" if len(problems) > 10 else ""
    return UnreadableRun(
        f"{start}: nothing in it could be read. {advice} Found:{listed}{more}", problems
    )
