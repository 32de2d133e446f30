"""What the command line prints: rows, tables, a progress bar, and a step as the model saw it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..events import (
    AgentCondensationObservation,
    CondensationAction,
    CondensationRequestAction,
    Event,
    Run,
    event_to_dict,
)
from ..events.actions import MessageAction, SystemMessageAction
from ..memory import ImageContent, Message, View, Violation
from ..memory.rendering import action_text, result_text
from ..memory.turns import TurnKind, is_observation, protected
from .engine import Step

__all__ = [
    "Shown",
    "StepRow",
    "Summary",
    "comparison_table",
    "log_so_far",
    "printable",
    "shown_as_json",
    "shown_as_text",
    "step_table",
    "summary_table",
    "watched",
]


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
            step.events_so_far,
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
    return _table(
        list(_STEP_COLUMNS.values()),
        ([getattr(row, name) for name in _STEP_COLUMNS] for row in rows),
    )


def summary_table(summaries: Iterable[Summary]) -> str:
    """A line for each replay."""
    return _table(
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
    return _table(
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


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]], wide: str = "text") -> str:
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
    console = Console(force_terminal=on_terminal)
    console.width = max(console.width, _LEAST_WIDTH) if on_terminal else 100_000
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else printable(str(value)).replace("\n", " ")


# ---------------------------------------------------------------------- text and progress


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
            progress.update(task, completed=step.events_so_far)
            yield step


# ---------------------------------------------------------------------- a step as it was seen


class Shown(StrEnum):
    """What of a step is shown."""

    MESSAGES = "messages"
    VIEW = "view"
    EVENTS = "events"


def log_so_far(run: Run, made: Iterable[CondensationAction], size: int) -> list[Event]:
    """The replay's log when it had ``size`` events: the recorded ones, and the condensations that
    were made, with the ids that replay gives them."""
    by_id = {event.id: event for event in made}
    recorded = (
        event
        for event in run.events
        if not isinstance(event, CondensationAction | CondensationRequestAction)
    )
    log: list[Event] = []
    new_ids: dict[int, int] = {}
    for place in range(size):
        event: Event | None = by_id.get(place)
        if event is None:
            event = next(recorded)
            new_ids[event.id] = place
            cause = None if event.cause is None else new_ids.get(event.cause)
            event = event.replace(id=place, cause=cause)
        log.append(event)
    return log


def shown_as_json(what: Shown, step: Step, log: Iterable[Event]) -> list[dict[str, Any]]:
    """The chat messages, the view's events in short, or the whole events of the log."""
    if what is Shown.MESSAGES:
        return [message.to_dict() for message in step.messages]
    if what is Shown.VIEW:
        return list(_view_rows(step.view))
    return [event_to_dict(event) for event in log]


def shown_as_text(what: Shown, step: Step, log: Iterable[Event]) -> str:
    """The same to read: messages in full, otherwise a line for each event."""
    if what is Shown.MESSAGES:
        lines: list[str] = []
        for place, message in enumerate(step.messages):
            lines += ["", *_message_lines(place, message)]
        return printable("\n".join(lines[1:]))
    if what is Shown.VIEW:
        return _table(
            ("id", "kind", "turn", "source", "characters", "is", "text"),
            (
                [
                    *(row["id"], row["kind"], f"{row['turn']} {row['turn_kind']}", row["source"]),
                    *(row["size"], _marks(row), _beginning(event)),
                ]
                for row, event in zip(_view_rows(step.view), step.view, strict=True)
            ),
        )
    return _table(
        ("id", "kind", "source", "cause", "characters", "text"),
        ([e.id, e.kind, e.source, e.cause, len(_text_of(e)), _beginning(e)] for e in log),
    )


def _view_rows(view: View) -> Iterator[dict[str, Any]]:
    turns = view.turns
    kept: Collection[int] = protected(turns, view.newest_response, view.task)
    turn_of = {id(event): place for place, turn in enumerate(turns) for event in turn.events}
    for event in view:
        place = turn_of[id(event)]
        is_summary = turns[place].kind is TurnKind.SUMMARY
        yield {
            "id": event.id,
            "kind": event.kind,
            "turn": place,
            "turn_kind": turns[place].kind.value,
            "source": event.source,
            "size": len(_text_of(event)),
            "protected": place in kept,
            "summary": is_summary,
            "stub": isinstance(event, AgentCondensationObservation) and not is_summary,
        }


def _marks(row: Mapping[str, Any]) -> str:
    return ", ".join(mark for mark in ("protected", "summary", "stub") if row[mark])


def _text_of(event: Event) -> str:
    """What an event says, in full."""
    if is_observation(event):
        return result_text(event)
    if isinstance(event, MessageAction | SystemMessageAction):
        return event.content
    if isinstance(event, CondensationAction):
        return event.summary or ""
    return action_text(event)


def _beginning(event: Event) -> str:
    text = " ".join(_text_of(event)[:400].split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _message_lines(place: int, message: Message) -> Iterator[str]:
    answers = f" to {message.tool_call_id}" if message.tool_call_id is not None else ""
    name = f" ({message.name})" if message.name is not None else ""
    yield f"--- {place} {message.role}{answers}{name}"
    for key, value in {**message.provider_fields, **message.thinking}.items():
        yield f"[{key}] {json.dumps(value, ensure_ascii=False)}"
    for part in message.content:
        yield _image(part.url) if isinstance(part, ImageContent) else part.text
    for call in message.tool_calls:
        yield f"-> {call.name} {call.arguments} ({call.id})"
        if call.provider_fields:
            yield f"   {json.dumps(call.provider_fields, ensure_ascii=False)}"


def _image(url: str) -> str:
    kind, is_data, data = url.partition(";base64,")
    return f"[image] {kind}, {len(data):,} characters of base64" if is_data else f"[image] {url}"
