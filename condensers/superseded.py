"""What a later event has overtaken: old states of files, commands, pages and the todo list."""

from __future__ import annotations

import json
import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from ..events.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
    TaskTrackingAction,
)
from ..events.event import Event, InvalidArgument, UnknownEvent
from ..events.observations import (
    BrowserOutputObservation,
    CmdOutputObservation,
    ErrorObservation,
    FileReadObservation,
    UserRejectObservation,
)
from ..memory.rendering import result_text
from ..memory.tokens import Budget
from ..memory.view import View
from .base import Condensation, Condenser
from .config import CondenserConfig, Parts, register_condenser
from .stubs import Result, Stubs, size_of, stub_of, unseen_from

__all__ = ["SupersededCondenser", "SupersededCondenserConfig"]


class SupersededCondenser(Condenser):
    """Masks results that a later event has overtaken; each stub names that event by its id.

    Overtaken are: what was read of a file that was read again (lines by a reading that covers
    them), or edited since if it was read whole, or written anew; an edit's echo of a whole file
    that was edited or read since; the output of a command that was run again in the same place; an
    older todo list; an older state of the same page. Other tools count by their arguments ``path``
    and ``command``.

    Never masked are errors and rejections, the newest state of each thing, the results of the
    newest ``keep_recent`` turns, and what came back since the newest LLM response began.

    A published study of coding agents found that 40 to 60 % of a run's input tokens are such waste:
    useless, redundant or expired (arXiv 2509.23586). A result that is overtaken changes a prompt at
    its place, so that the prompt cache is lost from there on.

    Raises :class:`InvalidArgument` for a negative ``keep_recent``.
    """

    may_block = False

    def __init__(self, keep_recent: int = 1) -> None:
        if keep_recent < 0:
            raise InvalidArgument(
                f"keep_recent is a number of turns, 0 or more; found {keep_recent}"
            )
        super().__init__()
        self.keep_recent = keep_recent
        self._states: dict[int, tuple[Event, Event, _State | None]] = {}
        self._stubs = Stubs()

    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        known, self._states = self._states, {}
        recent = set(view.turns[-self.keep_recent :]) if self.keep_recent else set()
        seen = unseen_from(view, len(view))
        current: dict[_Subject, list[tuple[Result, _State]]] = {}
        overtaken: list[Result] = []
        by: list[_Overtaken] = []
        for result in self._stubs.results(view):
            if result.action is None:
                continue
            entry = known.get(id(result.event))
            if entry is None or entry[1] is not result.action:
                entry = (result.event, result.action, _state_of(result.action, result.event))
            self._states[id(result.event)] = entry
            state = entry[2]
            if state is None:
                continue
            stays = []
            for past, older in current.get(state.subject, ()):
                if state.outdates(older):
                    overtaken.append(past)
                    by.append((older.what, state.changes, result.event.id))
                else:
                    stays.append((past, older))
            if state.shows is not None:
                # One that may not be masked still outdates others.
                may_go = result.place < seen and result.turn not in recent
                stays += [(result, state)] if may_go else []
            current[state.subject] = stays
        masked = self._stubs.put(view, overtaken, by, _stub)
        self.metadata = {"superseded": self._stubs.count} if self._stubs.count else {}
        return masked


_Overtaken = tuple[str, bool, int]  # what it was, whether it was changed, by which event


def _stub(event: Event, by: _Overtaken) -> Event | None:
    what, is_changed, newer = by
    why = "changed it since" if is_changed else "has its newer state"
    return stub_of(event, f"[Left out: {size_of(event)} of {what}. Event {newer} {why}.]")


# ---------------------------------------------------------------------- what results tell of

_Subject = tuple[str, ...]
_Lines = tuple[float, float]  # first and last

_WHOLE: _Lines = (1, math.inf)


@dataclass(frozen=True, slots=True)
class _State:
    """What a result tells of something that can change.

    ``shows`` are the lines that it shows (None: nothing that could be overtaken). ``changes`` says
    that it tells of a change, ``renews`` that nothing shown before holds any more.
    """

    subject: _Subject
    what: str
    shows: _Lines | None = _WHOLE
    changes: bool = False
    renews: bool = False

    def outdates(self, older: _State) -> bool:
        if self.renews or (self.changes and older.shows == _WHOLE):
            return True
        if self.shows is None or older.shows is None:
            return False
        return self.shows[0] <= older.shows[0] and older.shows[1] <= self.shows[1]


def _state_of(action: Event, result: Event) -> _State | None:
    """None if the result tells of nothing that can be overtaken, or is an error."""
    if isinstance(result, ErrorObservation | UserRejectObservation):
        return None
    match action:
        case FileReadAction():
            return _read(action.path, _read_lines(action), result)
        case FileWriteAction():
            is_whole = action.start <= 1 and action.end == -1
            return _edited(action.path, result, action.content, renews=is_whole)
        case FileEditAction():
            if action.command == "view":
                rest = {} if action.wire is None else action.wire.payload_rest
                return _read(action.path, _lines(rest.get("view_range")), result)
            new = getattr(result, "new_content", None) or action.file_text or ""
            return _edited(action.path, result, new, renews=action.command == "create")
        case CmdRunAction():
            return None if action.is_input else _command("", action.command, action.cwd, result)
        case IPythonRunCellAction():
            return _command("python", action.code, None, result)
        case TaskTrackingAction():
            return _State(("todo list",), "the todo list")
        case BrowseURLAction() | BrowseInteractiveAction():
            return _page(result)
        case MCPAction():
            return _tool_state(action.name, action.arguments, result)
        case UnknownEvent():
            args = action.data.get("args")
            metadata = action.tool_call_metadata
            name = action.name if metadata is None else metadata.function_name
            return _tool_state(name, args if isinstance(args, dict) else {}, result)
    return None


def _read_lines(action: FileReadAction) -> _Lines | None:
    if action.view_range is not None:
        return _lines(action.view_range)
    # Lines from 0, the last one not included.
    return (max(action.start, 0) + 1, math.inf if action.end < 0 else action.end)


def _lines(view_range: Any) -> _Lines | None:
    """First and last line, counted from 1; -1 is the end."""
    match view_range:
        case None:
            return _WHOLE
        case [int() as first, int() as last]:
            return (max(first, 1), math.inf if last < 0 else last)
    return None


def _read(path: str, lines: _Lines | None, result: Event) -> _State | None:
    if lines is None:
        return None
    if not isinstance(result, FileReadObservation) and _says_error(result_text(result)):
        return None
    return _State(("file", posixpath.normpath(path)), "this file", lines)


def _edited(path: str, result: Event, new: str, *, renews: bool) -> _State | None:
    text = result_text(result)
    if _says_error(text):
        return None
    shows = _WHOLE if _echoes(text, new) else None
    subject = ("file", posixpath.normpath(path))
    return _State(subject, "this file", shows, changes=True, renews=renews or shows is not None)


def _echoes(text: str, content: str) -> bool:
    """True if a result repeats the whole of a file, with or without line numbers."""
    content = content.strip()
    return bool(content) and (content in text or content in _LINE_NUMBERS.sub("", text))


_LINE_NUMBERS = re.compile(r"^[ ]*\d+\t", re.MULTILINE)


def _command(tool: str, command: str, place: str | None, result: Event) -> _State | None:
    if not command.strip():
        return None
    if isinstance(result, CmdOutputObservation):
        if result.exit_code == -1:  # still running: neither the newest state nor an old one
            return None
        place = place or str(result.metadata.get("working_dir") or "")
    return _State(("command", tool, place or "", command.strip()), "this command's output")


def _page(result: Event) -> _State | None:
    if not isinstance(result, BrowserOutputObservation) or result.error or not result.url:
        return None
    return _State(("page", result.url), "this page")


# ---------------------------------------------------------------------- other tools

_READING = re.compile(r"view|read|open|cat\b", re.IGNORECASE)
_WRITING = re.compile(
    r"create|write|edit|replace|insert|append|patch|undo|delete|remove", re.IGNORECASE
)
_RENEWING = re.compile(r"create|write", re.IGNORECASE)
_SAYS_NOTHING = {"is_input", "security_risk", "summary", "timeout"}  # of what is read or run


def _tool_state(tool: str, arguments: Mapping[str, Any], result: Event) -> _State | None:
    """A call of any tool, by its arguments ``path`` and ``command``."""
    path, command = arguments.get("path"), arguments.get("command")
    text = result_text(result)
    if _says_error(text):
        return None
    if isinstance(path, str) and path:
        does = command if isinstance(command, str) else tool
        if _WRITING.search(does):
            new = arguments.get("file_text") or arguments.get("content")
            is_new = _RENEWING.match(does) is not None
            return _edited(path, result, new if isinstance(new, str) else "", renews=is_new)
        if not _READING.search(does):
            return None
        if more := _others(arguments, {"path", "command", "view_range"}):
            # Only the same call shows the same: what else is given may say which lines.
            return _State(("read", tool, path, str(command), more), "this file")
        return _read(path, _lines(arguments.get("view_range")), result)
    if isinstance(command, str) and arguments.get("is_input") not in (True, "true"):
        return _command(tool, command, _others(arguments, {"command"}), result)
    return None


def _others(arguments: Mapping[str, Any], known: set[str]) -> str:
    """What else a call was given, as text; empty if nothing."""
    given = {
        key: value
        for key, value in sorted(arguments.items())
        if value is not None and key not in known and key not in _SAYS_NOTHING
    }
    return json.dumps(given) if given else ""


def _says_error(text: str) -> bool:
    return text.lstrip().lower().startswith(("error", "[error", "traceback"))


# ---------------------------------------------------------------------- configuration


@register_condenser
class SupersededCondenserConfig(CondenserConfig):
    """``type: superseded``"""

    type: Literal["superseded"] = "superseded"
    keep_recent: int = Field(default=1, ge=0)
    """How many of the newest turns keep their results, overtaken or not."""

    def build(self, parts: Parts) -> Condenser:
        return SupersededCondenser(self.keep_recent)
