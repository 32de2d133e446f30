"""Folding by the agent itself: it opens a sub-task, and closes it with a summary of its own.

The idea is that of Context-Folding (arXiv 2510.11967). The calls are ordinary ones in the log, and
what a sub-task leaves behind is let go by an ordinary condensation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..events.actions import AgentDelegateAction, MCPAction
from ..events.condensation import CondensationAction
from ..events.event import Event, EventSource, InvalidArgument, Observation
from ..events.observations import AgentDelegateObservation, ErrorObservation, MCPObservation
from ..events.stream import EventStream
from ..memory.message import ChatDict
from ..memory.turns import Turn, TurnKind, is_observation
from ..memory.view import View, answers
from .recording import observation_of
from .stubs import counted

__all__ = [
    "CONDENSE",
    "CONDENSE_TOOL",
    "FOLD",
    "FOLD_TOOL",
    "Folds",
    "branch",
    "own_tools",
    "tool_name",
]

FOLD = "fold"
CONDENSE = "condense"

FOLD_TOOL: ChatDict = {
    "type": "function",
    "function": {
        "name": FOLD,
        "description": (
            "Sets a sub-task apart, so that its details do not fill your history. Open it (with "
            "its task), do it with your other tools, and close it with a summary. Then all that "
            "was done in between is taken out of your history, and your summary is what is left: "
            "say in it what you found, changed and decided, and what is still to be done. "
            "Sub-tasks may be nested; the one that was opened last is closed first."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "command": {"type": "string", "enum": ["open", "close"]},
                "task": {"type": "string", "description": "To open: what is to be done."},
                "summary": {"type": "string", "description": "To close: all that is to be kept."},
            },
            "required": ["command"],
        },
    },
}
"""Opens a sub-task, or closes the innermost open one with a summary: for ``tools``."""

CONDENSE_TOOL: ChatDict = {
    "type": "function",
    "function": {
        "name": CONDENSE,
        "description": (
            "Asks that the older part of your history be condensed before your next step. Use it "
            "between two parts of the work, when you need the details of the last one no longer."
        ),
        "parameters": {"type": "object", "properties": {}},
    },
}
"""Asks that the history be condensed: for ``tools``."""

_NEEDED = {"open": "task", "close": "summary"}


def own_tools(tools: Sequence[ChatDict]) -> frozenset[str]:
    """Which of these two are among ``tools``, by name. A user's own tool of the same name, which
    describes itself in another way, is none of them."""
    own = {tool_name(tool): _function(tool)["description"] for tool in (FOLD_TOOL, CONDENSE_TOOL)}
    return frozenset(
        name
        for tool in tools
        if (name := tool_name(tool)) and own.get(name, ()) == _function(tool).get("description")
    )


def tool_name(tool: ChatDict) -> str | None:
    """The name of a tool definition, in OpenAI's form or in Anthropic's."""
    name = _function(tool).get("name")
    return name if isinstance(name, str) else None


def _function(tool: ChatDict) -> Mapping[str, Any]:
    function = tool.get("function")
    return function if isinstance(function, Mapping) else tool


class Folds:
    """The sub-tasks of a session that are open, as its log says: a call counts once its result has
    come and is no error. What a delegate opened or closed ends with the delegate. Also the calls of
    these two tools that wait for their results."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._read = 0  # how many events of the stream are taken into account
        self._open: tuple[int, ...] = ()
        self._waiting: dict[int, MCPAction] = {}  # by id
        self._delegates: list[tuple[Event, tuple[int, ...]]] = []  # with what was open before

    @property
    def open(self) -> tuple[int, ...]:
        """The ids of the calls that opened them, the outermost first."""
        self._catch_up()
        return self._open

    def _catch_up(self) -> None:
        for event in self._stream.events(self._read):
            self._read += 1
            self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case MCPAction() if event.name in (FOLD, CONDENSE):
                self._waiting[event.id] = event
            case AgentDelegateAction():
                self._delegates.append((event, self._open))
            case AgentDelegateObservation():
                for place in reversed(range(len(self._delegates))):
                    action, before = self._delegates[place]
                    if answers(event, action):
                        del self._delegates[place:]
                        self._open = before
                        break
            case Observation(cause=int(call)) if call in self._waiting:
                action = self._waiting.pop(call)
                if action.name == FOLD and isinstance(event, MCPObservation):
                    opens = action.arguments.get("command") == "open"
                    self._open = (*self._open, call) if opens else self._open[:-1]

    def waiting(self, action: Event, tool: str) -> MCPAction:
        """The action, if it is a call of this tool that waits for its result, or else
        :class:`InvalidArgument`."""
        self._catch_up()
        call = self._waiting.get(action.id)
        if call is None or call.name != tool:
            raise InvalidArgument(
                f"the event {action.id} ({action.kind}) is no call of the tool {tool} that waits "
                "for its result"
            )
        return call

    def answer(self, action: Event, view: View) -> list[Event]:
        """What answers a call of the tool: its result and, if anything is folded away, the
        condensation that does it. To be appended together.

        Raises :class:`InvalidArgument` for what is no call of it that waits for its result.
        """
        arguments = self.waiting(action, FOLD).arguments
        opened = self.open
        problem = _problem(arguments, opened)
        if problem is not None:
            return [observation_of(ErrorObservation(f"{problem} Nothing was done."), action)]
        if arguments["command"] == "open":
            said = (
                f"The sub-task is open, {len(opened) + 1} deep. When it is done, close it with a "
                "summary: all else of it will leave your history."
            )
            return [observation_of(said, action)]
        return _closed(action, opened, view)


def _closed(action: Event, opened: Sequence[int], view: View) -> list[Event]:
    *outer, innermost = opened
    ids = sorted(e.id for turn in branch(view, innermost, action.id) for e in turn.events)
    said = f"The sub-task is closed, with {counted(len(ids), 'event')} of it folded away."
    if outer:
        said += f" {len(outer)} more still open."
    result = observation_of(said, action)
    if not ids:
        return [result]
    details = {
        "condenser": FOLD,
        "reason": "the agent closed a sub-task",
        "opened": innermost,
        "closed": action.id,
        "events_before": len(view),
        "events_after": len(view) - len(ids),
    }
    return [result, CondensationAction(ids, details=details, source=EventSource.AGENT)]


def branch(view: View, opened: int, closed: int) -> list[Turn]:
    """The turns that lie between the calls with these ids: those of the calls are none of them, nor
    is what the user said, a summary, the system message, or the late result of an older call.

    A call that is no longer in the view still has its place in the log.
    """
    begin, end = opened, closed
    for turn in view.turns:
        ids = [event.id for event in turn.events]
        if opened in ids:
            begin = max(event.id for event in turn.events if not is_observation(event))
        if closed in ids:
            end = ids[0]
    return [
        turn
        for turn in view.turns
        if turn.kind not in _STAYING and begin < _asked_at(turn) and turn.events[0].id < end
    ]


_STAYING = (TurnKind.SYSTEM, TurnKind.USER, TurnKind.SUMMARY)


def _asked_at(turn: Turn) -> int:
    """The place in the log of a turn, or of the call whose late result it is."""
    first = turn.events[0]
    if turn.kind is not TurnKind.LATE or first.cause is None:
        return first.id
    return min(first.id, first.cause)


def _problem(arguments: Mapping[str, Any], opened: Sequence[int]) -> str | None:
    command = arguments.get("command")
    needed = _NEEDED.get(command) if isinstance(command, str) else None
    if needed is None:
        return f'The command is "open" or "close"; found {json.dumps(command)[:100]}.'
    text = arguments.get(needed)
    if not isinstance(text, str) or not text.strip():
        return f"To {command} a sub-task, its {needed} is needed, as text."
    return "No sub-task is open." if command == "close" and not opened else None
