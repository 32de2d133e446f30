"""What the command line prints: numbers as rows and tables, a progress bar, and single lines."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..events import EventfoldError
from ..memory import Violation
from .engine import Step

__all__ = [
    "CannotRun",
    "StepRow",
    "Summary",
    "comparison_table",
    "plain_table",
    "print_json",
    "printable",
    "say",
    "step_table",
    "summary_table",
    "watched",
]


class CannotRun(EventfoldError):
    """What was asked for cannot be done; the message says why, and what can be."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step in numbers. Sizes: ``events`` of the log so far, ``view`` in events."""

    run: str
    condenser: str
    step: int
    events: int
    view: int
    turns: int
    messages: int
    tokens: int
    condensations: int
    violations: int
    broken: tuple[Violation, ...]

    @classmethod
    def of(cls, run: str, condenser: str, step: Step, broken: Sequence[Violation]) -> StepRow:
        return cls(
            run,
            condenser,
            step.index,
            len(step.events_so_far),
            len(step.view),
            len(step.view.turns),
            len(step.messages),
            step.tokens,
            len(step.condensations),
            len(broken),
            tuple(broken),
        )

    def to_json(self) -> dict[str, Any]:
        return {"kind": "step", **asdict(self)}


@dataclass(slots=True)
class Summary:
    """A replay in numbers: ``events`` were recorded in the run; ``view``, ``turns``, ``messages``
    and ``tokens`` are those of the last step; ``sum_tokens`` are those of all steps."""

    run: str
    condenser: str
    steps: int = 0
    events: int = 0
    view: int = 0
    max_view: int = 0
    turns: int = 0
    messages: int = 0
    tokens: int = 0
    sum_tokens: int = 0
    condensations: int = 0
    violations: int = 0

    def add(self, row: StepRow) -> None:
        self.steps += 1
        self.view, self.turns, self.messages = row.view, row.turns, row.messages
        self.max_view = max(self.max_view, row.view)
        self.tokens = row.tokens
        self.sum_tokens += row.tokens
        self.condensations += row.condensations
        self.violations += row.violations

    def to_json(self) -> dict[str, Any]:
        return {"kind": "summary", **asdict(self)}


# ---------------------------------------------------------------------- tables

_STEP_COLUMNS = {
    "step": "step",
    "events": "events",
    "view": "view",
    "turns": "turns",
    "messages": "messages",
    "tokens": "tokens",
    "condensations": "condensed",
    "violations": "violations",
}
_SUMMARY_COLUMNS = {
    "run": "run",
    "condenser": "condenser",
    "steps": "steps",
    "events": "events",
    "view": "view",
    "max_view": "max view",
    "turns": "turns",
    "messages": "messages",
    "tokens": "tokens",
    "sum_tokens": "all tokens",
    "condensations": "condensed",
    "violations": "violations",
}
_COMPARISON = (
    *("condenser", "runs", "steps", "max view", "tokens", "all tokens", "to noop"),
    *("condensed", "violations"),
)


def step_table(rows: Iterable[StepRow]) -> str:
    """A line for each step of one replay."""
    return plain_table(
        list(_STEP_COLUMNS.values()),
        ([getattr(row, name) for name in _STEP_COLUMNS] for row in rows),
    )


def summary_table(summaries: Iterable[Summary]) -> str:
    """A line for each replay."""
    return plain_table(
        list(_SUMMARY_COLUMNS.values()),
        ([getattr(summary, name) for name in _SUMMARY_COLUMNS] for summary in summaries),
        wide="run",
    )


def comparison_table(summaries: Iterable[Summary]) -> str:
    """A line for each condenser over all runs, with its tokens relative to those of ``noop``."""
    of: dict[str, list[Summary]] = {}
    for summary in summaries:
        of.setdefault(summary.condenser, []).append(summary)
    paid = {name: sum(summary.sum_tokens for summary in own) for name, own in of.items()}
    unit = paid.get("noop", 0)
    return plain_table(
        _COMPARISON,
        (
            [
                name,
                len(own),
                sum(summary.steps for summary in own),
                max(summary.max_view for summary in own),
                sum(summary.tokens for summary in own),
                paid[name],
                f"{paid[name] / unit:.2f}x" if unit else "-",
                sum(summary.condensations for summary in own),
                sum(summary.violations for summary in own),
            ]
            for name, own in of.items()
        ),
        wide="condenser",
    )


_LEAST_WIDTH = 120  # characters: below it numbers would be cut
_LEFT = frozenset({"run", "condenser", "kind", "turn", "source", "is", "text"})


def plain_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], wide: str = "text"
) -> str:
    """A plain table. On a terminal that is too narrow the column ``wide`` gives way: ``text`` is
    cut, others take several lines. All else is never cut."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(
            column,
            justify="left" if column in _LEFT else "right",
            no_wrap=column != wide,
            overflow="fold",
            min_width=10 if column == wide else None,
        )
    for row in rows:
        cells = [Text(_cell(value), overflow="fold") for value in row]
        if columns[-1] == "text":
            cells[-1] = Text(_cell(row[-1]), no_wrap=True, overflow="ellipsis")
        table.add_row(*cells)
    on_terminal = sys.stdout.isatty()
    drawn = io.StringIO()  # not stdout itself: rich would end the process if that is closed
    console = Console(file=drawn, force_terminal=on_terminal)
    console.width = max(console.width, _LEAST_WIDTH) if on_terminal else 100_000
    console.print(table)
    return "\n".join(line.rstrip() for line in drawn.getvalue().splitlines())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else printable(str(value)).replace("\n", " ")


# ---------------------------------------------------------------------- lines and progress


def say(text: str) -> None:
    """A line on stderr."""
    print(f"eventfold: {printable(text)}", file=sys.stderr)


def print_json(row: dict[str, Any]) -> None:
    """A line of JSON on stdout."""
    print(json.dumps(row))


def printable(text: str) -> str:
    """The text with control characters as visible escapes: recorded output steers no terminal."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def watched(steps: Iterable[Step], title: str, events: int) -> Iterator[Step]:
    """The steps, with a progress bar on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        yield from steps
        return
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    # What is printed meanwhile must not go to stderr, where the bar is.
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        task = progress.add_task(printable(title)[:60], total=events)
        for step in steps:
            progress.update(task, completed=len(step.events_so_far))
            yield step
