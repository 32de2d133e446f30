"""The state of work, told from the forgotten events themselves; and its form as text."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..events.actions import (
    AgentDelegateAction,
    AgentFinishAction,
    AgentThinkAction,
    MCPAction,
    MessageAction,
    TaskTrackingAction,
)
from ..events.condensation import AgentCondensationObservation
from ..events.event import Event
from ..events.observations import TaskTrackingObservation
from ..memory.rendering import action_text, clean, result_text, thought_of
from ..memory.turns import Call, Turn, TurnKind, response_of
from .deeds import succeeded
from .folding import FOLD
from .ledger import ArtifactLedger
from .sections import Section, fitted, quoted, read_sections, shortened, unquoted, written

__all__ = ["LEAST_CHARS", "StateOfWork"]

LEAST_CHARS = 500  # of a digest: its first line and its last one always have room

_USER = "What the user said"
_SUB_TASKS = "What sub-tasks came to"
_TODO = "Todo list"
_THOUGHTS = "What the agent thought and said"
_CARRIED = "From an earlier summary"
_FIRST_LINE = re.compile(
    r"Digest of (\d{1,12}) earlier events that are no longer shown, made without a language model:"
)
_CHARS = (8000, 4000, 2000, 1000, 500, 250, 120)  # of a message or summary, as room allows
_THOUGHT = 250  # characters
_LINE = 500  # characters of a line of an earlier summary
_ALL = 10**9


@dataclasses.dataclass(frozen=True)
class StateOfWork:
    """What a digest tells. ``parse(render())`` gives the same one back, as far as it fits."""

    events: int = 0
    """How many events it stands for."""
    user: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """What the user said, by event id."""
    ledger: ArtifactLedger = dataclasses.field(default_factory=ArtifactLedger)
    todo: Sequence[tuple[str, str]] = ()
    """The newest todo list: (status, title)."""
    thoughts: Sequence[str] = ()
    carried: Sequence[str] = ()
    """The lines of earlier summaries that are no digest."""
    sub_tasks: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """What the agent said when it closed a sub-task, by event id."""
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """How many of each kind had no room."""

    @classmethod
    def from_turns(cls, turns: Sequence[Turn]) -> StateOfWork:
        """What these turns tell, in their order."""
        calls = [call for turn in turns for call in turn.calls]
        lists = [found for call in calls if (found := _todo(call)) is not None]
        return cls(
            sum(len(turn.events) for turn in turns),
            {
                event.id: clean(event.content).strip()
                for turn in turns
                if turn.kind is TurnKind.USER
                for event in turn.events
                if isinstance(event, MessageAction) and event.content.strip()
            },
            ArtifactLedger.from_turns(turns),
            lists[-1] if lists else (),
            list(dict.fromkeys(said for turn in turns for said in _thoughts(turn))),
            [line for call in calls for line in _summary_lines(call.action)],
            {call.action.id: said for call in calls if (said := _fold_summary(call))},
        )

    def merge(self, newer: StateOfWork) -> StateOfWork:
        """This state, brought up to date by one of later events, field by field."""
        left_out = dict(self.left_out)
        for noun, count in newer.left_out.items():
            left_out[noun] = left_out.get(noun, 0) + count
        return StateOfWork(
            self.events + newer.events,
            {**self.user, **newer.user},
            self.ledger.merge(newer.ledger),
            newer.todo or self.todo,
            list(dict.fromkeys((*self.thoughts, *newer.thoughts))),
            [*self.carried, *newer.carried],
            {**self.sub_tasks, **newer.sub_tasks},
            left_out,
        )

    def render(self, max_chars: int | None = None) -> str:
        """The digest as text of at most ``max_chars`` characters: from 500 on the limit holds."""
        first = (
            f"Digest of {self.events} earlier events that are no longer shown, made without a "
            "language model:"
        )
        room = (_ALL if max_chars is None else max_chars) - len(first) - 2
        left_out = {**self.left_out, **self.ledger.left_out}
        text, _ = fitted(self._sections(), room, left_out)
        return f"{first}\n\n{text}" if text else first

    def needed(self) -> int:
        """The characters of a digest that names every changed file."""
        return LEAST_CHARS + self.ledger.needed()

    def _sections(self) -> list[Section]:
        todo = [f"[{status}] {written(title)}" for status, title in self.todo]
        thoughts = [quoted(thought) for thought in self.thoughts]
        carried = [written(line) for line in self.carried]
        return [
            Section(_USER, "user messages", _by_event(self.user), 4, keep="both"),
            Section(_CARRIED, "lines of an earlier summary", [carried], 3, keep="first"),
            Section(_SUB_TASKS, "fold summaries", _by_event(self.sub_tasks), 3),
            *self.ledger.sections(),
            Section(_TODO, "todo items", [todo], 2, keep="first"),
            Section(_THOUGHTS, "thoughts", [thoughts], 2),
        ]

    @classmethod
    def parse(cls, text: str) -> StateOfWork:
        """The state that a text tells. A text that is no digest is carried over line by line; so
        is what stands before one, or behind its end."""
        state, digest = cls(), None
        for line in text.split("\n"):
            found = _FIRST_LINE.fullmatch(line)
            if found is not None:
                state = state.merge(_parsed(digest))
                digest = [line]
            elif digest is not None and _is_part(line):
                digest.append(line)
            else:
                state, digest = state.merge(_parsed(digest)), None
                state = state.merge(cls(carried=list(_lines(line))))
        return state.merge(_parsed(digest))


def _by_event(texts: Mapping[int, str]) -> list[list[str]]:
    """The variants of a section of texts by event id."""
    return [
        [f"[event {n}] {quoted(shortened(said, limit))}" for n, said in texts.items()]
        for limit in (_ALL, *_CHARS)
    ]


# ---------------------------------------------------------------------- reading


def _is_part(line: str) -> bool:
    return not line or line.startswith(("## ", "- ", "Left out for lack of room: "))


_TODO_ITEM = re.compile(r"\[([\w ?-]*)\] (.+)")
_SAID = re.compile(r"\[event (-?\d{1,12})\] (\".*)")


def _parsed(digest: Sequence[str] | None) -> StateOfWork:
    if digest is None:
        return StateOfWork()
    header = _FIRST_LINE.fullmatch(digest[0])
    assert header is not None
    entries, left_out = read_sections("\n".join(digest[1:]))
    by_event: dict[str, dict[int, str]] = {_USER: {}, _SUB_TASKS: {}}
    todo: list[tuple[str, str]] = []
    texts: dict[str, list[str]] = {_THOUGHTS: [], _CARRIED: []}
    for title, entry in entries:
        try:
            if title in by_event and (said := _SAID.fullmatch(entry)):
                by_event[title][int(said[1])] = unquoted(said[2])[0]
            elif title == _TODO and (item := _TODO_ITEM.fullmatch(entry)):
                todo.append((item[1], unquoted(item[2])[0]))
            elif title in texts:
                texts[title].append(unquoted(entry)[0])
        except ValueError:  # a broken quotation is no entry of ours
            continue
    return StateOfWork(
        int(header[1]),
        by_event[_USER],
        ArtifactLedger.from_entries(entries),
        todo,
        texts[_THOUGHTS],
        texts[_CARRIED],
        by_event[_SUB_TASKS],
        left_out,
    )


# ---------------------------------------------------------------------- what events tell


def _lines(text: str) -> Iterator[str]:
    for line in clean(text).split("\n"):
        for start in range(0, len(line), _LINE):
            if part := line[start : start + _LINE].strip():
                yield part


def _summary_lines(event: Event) -> Iterator[str]:
    if isinstance(event, AgentCondensationObservation) and event.tool_call_metadata is None:
        yield from _lines(event.content)


def _fold_summary(call: Call) -> str | None:
    """The agent's own summary of the sub-task that a call closed, if it did."""
    match call.action:
        case MCPAction(name=name, arguments={"command": "close", "summary": str(summary)}):
            return clean(summary).strip() if name == FOLD and succeeded(call.result) else None
    return None


def _thoughts(turn: Turn) -> Iterator[str]:
    if turn.kind is not TurnKind.RESPONSE:
        return
    said: list[str] = []
    for call in turn.calls:
        action = call.action
        if isinstance(action, MessageAction | AgentFinishAction | AgentThinkAction):
            said.append(action_text(action))
        said.append(thought_of(action))
        if isinstance(action, AgentDelegateAction) and call.result is not None:
            said.append(f"{action.agent} came back with: {result_text(call.result)}")
    said.append(turn.remembered(response_of).text)
    for text in said:
        if text := shortened(" ".join(clean(text).split()), _THOUGHT):
            yield text


def _todo(call: Call) -> list[tuple[str, str]] | None:
    """The todo list that a call wrote or read, if it did."""
    for event in (call.result, call.action):
        items: Any = None
        if isinstance(event, TaskTrackingAction | TaskTrackingObservation):
            items = event.task_list
        elif isinstance(event, MCPAction):
            items = event.arguments.get("todos")
        if isinstance(items, list) and items:
            return [_item(item) for item in items]
    return None


def _item(item: Any) -> tuple[str, str]:
    if not isinstance(item, dict):
        return "?", shortened(_text(item), _THOUGHT)
    title = next((item[key] for key in ("title", "content", "task") if item.get(key)), item)
    status = re.sub(r"[^\w -]", "", clean(_text(item.get("status") or "?")))[:40].strip()
    return status or "?", shortened(_text(title), _THOUGHT)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
