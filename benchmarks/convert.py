"""Recorded runs of any format, written in one that others read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from ..events.event import InvalidArgument
from ..events.formats.base import Problem, Run
from ..events.formats.runs import read_runs
from ..memory.writing import WRITTEN, write_run

__all__ = ["Converted", "convert"]


@dataclass(frozen=True, slots=True)
class Converted:
    """A run that was written: to which file, how many events it has, what was odd in it."""

    name: str
    path: Path
    events: int
    problems: list[Problem]


def convert(
    paths: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    format: str,  # noqa: A002
) -> list[Converted]:
    """Writes the runs in files and folders, in one of the formats of :func:`write_run`.

    A single run goes to the file ``out``. Several, or a single one if ``out`` is a folder, go to
    files in the folder ``out``, named after the runs; files of these names are replaced. One run at
    a time is in memory.

    Raises :class:`InvalidArgument` for a format that cannot be written, and where ``out`` is a file
    but the runs are several, or lies in a folder that is read; otherwise what :func:`read_runs` and
    :func:`write_run` raise.
    """
    sources = [Path(path) for path in paths]
    target = Path(out)
    _check(sources, target, format)
    runs = chain.from_iterable(map(read_runs, sources))
    first = list(islice(runs, 2))
    if len(first) == 1 and not target.is_dir():
        return [_written(first[0], target, format)]
    if target.exists() and not target.is_dir():
        raise InvalidArgument(
            f"{target} is a file, but there are several runs to write; give a folder"
        )
    target.mkdir(parents=True, exist_ok=True)
    names = _FileNames()
    suffix = _SUFFIXES.get(format, ".json")
    return [
        _written(run, target / f"{names.of(run)}{suffix}", format) for run in chain(first, runs)
    ]


_SUFFIXES = {"eventfold": ".jsonl"}


def _check(sources: list[Path], target: Path, format: str) -> None:  # noqa: A002
    if format not in WRITTEN:
        raise InvalidArgument(f"no format {format!r} to write; there is {', '.join(WRITTEN)}")
    for source in sources:
        if source.is_dir() and target.resolve().is_relative_to(source.resolve()):
            raise InvalidArgument(
                f"{target} lies in {source}, which is read: what is written would be read again; "
                "give another place to write to"
            )


def _written(run: Run, path: Path, format: str) -> Converted:  # noqa: A002
    write_run(run, path, format)
    return Converted(run.name, path, len(run.events), run.problems)


class _FileNames:
    """A file name for each run: of plain characters, and no two the same on any file system."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def of(self, run: Run) -> str:
        plain = re.sub(r"[^\w.-]+", "_", run.name).strip("._")[:100] or "run"
        name, count = plain, 1
        while name.lower() in self._used:
            count += 1
            name = f"{plain}-{count}"
        self._used.add(name.lower())
        return name
