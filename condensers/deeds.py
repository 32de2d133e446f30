"""What single tool calls did: files read or changed, tests failed or passed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..events.actions import (
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    MCPAction,
)
from ..events.event import Action, Event, UnknownEvent
from ..events.observations import (
    CmdOutputObservation,
    ErrorObservation,
    FileDownloadObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    MCPObservation,
    UserRejectObservation,
)

__all__ = ["CHANGED", "failed_tests", "file_deeds", "passed_tests", "succeeded"]

CHANGED = ("created", "edited", "deleted")

Deed = tuple[str, str]  # what was done, the path


def succeeded(result: Event | None) -> bool:
    """False where an error or the user's refusal came back."""
    return not isinstance(result, ErrorObservation | UserRejectObservation)


def file_deeds(action: Event, result: Event | None) -> Iterator[Deed]:
    """What a call did to which files: ``read``, ``used``, or one of ``CHANGED``.

    A call that failed did nothing; one whose result is not known is taken to have done what it was
    asked for. Shell commands are known for patches, for ``cat`` or ``tee`` into a file, and for
    ``rm`` and ``mv`` of named files; what else they do to files is not known.
    """
    if not succeeded(result):
        return
    found = dict.fromkeys(_asked(action, result))
    if result is not None:
        found |= dict.fromkeys(_observed(result, {path for _, path in found}))
    for deed, path in found:
        if path.strip():
            yield deed, path


def _asked(action: Event, result: Event | None) -> Iterator[Deed]:
    match action:
        case FileReadAction():
            yield "read", action.path
        case FileWriteAction():
            yield "edited", action.path
        case FileEditAction():
            yield _edit(action, result), action.path
        case CmdRunAction():
            yield from _patched(action.command)
            yield from _redirected(action.command)
            if isinstance(result, CmdOutputObservation) and result.exit_code == 0:
                yield from _removed(action.command)
        case MCPAction():
            yield from _by_tool(action.name, action.arguments)
            for value in action.arguments.values():
                if isinstance(value, str):
                    yield from _patched(value)
        case UnknownEvent():
            yield from _of_unknown(action)
        case Action():
            fields = {name: getattr(action, name) for name in action.payload_fields}
            yield from _by_tool(action.kind, fields)
        case _:
            yield from _observed(action, set())


def _edit(action: FileEditAction, result: Event | None) -> str:
    if action.command == "view":
        return "read"
    new = isinstance(result, FileEditObservation) and not result.prev_exist
    if action.command == "create" and (new or not isinstance(result, FileEditObservation)):
        return "created"
    return "created" if new and not action.command else "edited"


def _observed(result: Event, known: set[str]) -> Iterator[Deed]:
    """What a result says by itself; what is ``known`` from its action is known better there."""
    match result:
        case FileReadObservation():
            deed, path = "read", result.path
        case FileWriteObservation():
            deed, path = "edited", result.path
        case FileEditObservation():
            deed, path = "edited" if result.prev_exist else "created", result.path
        case FileDownloadObservation():
            deed, path = "created", result.file_path
        case MCPObservation():
            yield from (d for d in _by_tool(result.name, result.arguments) if d[1] not in known)
            return
        case _:
            return
    if path not in known:
        yield deed, path


def _of_unknown(event: UnknownEvent) -> Iterator[Deed]:
    arguments = event.data.get("args") or event.data.get("extras")
    if isinstance(arguments, Mapping):
        yield from _by_tool(event.name, arguments)


# ---------------------------------------------------------------------- tools

_PATHS = (
    "path",
    "file_path",
    "filepath",
    "absolute_path",
    "relative_path",
    "notebook_path",
    "target_file",
    "file_name",
    "filename",
    "file",
    "paths",
    "file_paths",
)
_FROM = ("source", "source_path", "old_path", "src", "from")
_TO = ("destination", "destination_path", "new_path", "dest", "dst", "to")
_DEEDS = {
    "moved": {"move", "mv", "rename"},
    "deleted": {"delete", "remove", "rm", "unlink"},
    "edited": {
        *("edit", "write", "replace", "insert", "update", "append", "modify", "save", "undo"),
        *("patch", "multiedit", "overwrite", "rewrite", "prepend", "copy", "cp"),
    },
    "created": {"create", "touch", "new"},
    "read": {"read", "view", "cat", "open", "show", "get"},
    "": {"list", "ls", "search", "find", "grep", "glob", "mkdir"},  # of folders
}


def _by_tool(name: str, arguments: Mapping[str, Any]) -> Iterator[Deed]:
    """A call of any tool: its name, or its ``command``, says what it does to the paths in its
    arguments."""
    commands = [arguments.get(key) for key in ("command", "operation", "action", "mode")]
    said = [text for text in (*commands, name) if isinstance(text, str) and len(text) < 100]
    deed = next((found for text in said if (found := _deed(text)) is not None), "used")
    if deed == "moved":
        yield from (("deleted", path) for path in _paths(arguments, (*_FROM, *_PATHS)))
        yield from (("created", path) for path in _paths(arguments, _TO))
    elif deed:
        yield from ((deed, path) for path in _paths(arguments, _PATHS))
        if deed in CHANGED:
            yield from ((deed, path) for path in _paths(arguments, _TO))


def _deed(text: str) -> str | None:
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()))
    return next((deed for deed, verbs in _DEEDS.items() if verbs & words), None)


def _paths(arguments: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[str]:
    for key in keys:
        value = arguments.get(key)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str) and len(path) <= 1000 and "\n" not in path:
                yield path


# ---------------------------------------------------------------------- commands

_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete|Move) (?:File|to): *(.+?) *$", re.MULTILINE)
_BY_PATCH = {"Add": "created", "Move": "created", "Update": "edited", "Delete": "deleted"}
_WORD = r"(?P<{}>'[^'\n]+'|\"[^\"$`\n]+\"|[\w./~+@%-][\w./~+@%:-]*)"
_REDIRECTED = re.compile(
    r"(?:^|&&|;)[ \t]*(?:"
    rf"cat[ \t]*>>?[ \t]*{_WORD.format('a')}[ \t]*<<"
    rf"|cat[ \t]*<<-?[ \t]*['\"]?\w+['\"]?[ \t]*>>?[ \t]*{_WORD.format('b')}"
    rf"|tee[ \t]+(?:-a[ \t]+)?{_WORD.format('c')}[ \t]*(?:>[ \t]*/dev/null[ \t]*)?<<"
    r")"
)


def _patched(text: str) -> Iterator[Deed]:
    """The files of a patch in the form ``*** Update File: path``."""
    if "*** Begin Patch" in text:
        for kind, path in _PATCHED.findall(text):
            yield _BY_PATCH[kind], path


def _redirected(command: str) -> Iterator[Deed]:
    """A file that a command's first line writes from what follows: ``cat > path << EOF``."""
    first = command.lstrip().split("\n", 1)[0]
    if "<<" not in first:
        return
    for found in _REDIRECTED.finditer(first):
        path = next(word for word in found.groups() if word).strip("'\"")
        if not path.startswith("/dev/"):
            yield "edited", path


_REMOVING = re.compile(r"(?:git[ \t]+)?(rm|mv)[ \t]+([^|&;<>()$`*?\[\]{}\n]+)$")


def _removed(command: str) -> Iterator[Deed]:
    """What ``rm`` and ``mv`` did to files that are named in full, in a command that went well."""
    for part in re.split(r"&&|[;\n]", command):
        if found := _REMOVING.match(part.strip()):
            try:
                paths = [word for word in shlex.split(found[2]) if not word.startswith("-")]
            except ValueError:
                continue
            if found[1] == "rm":
                yield from (("deleted", path) for path in paths)
            elif len(paths) == 2 and not paths[1].endswith("/"):
                yield "deleted", paths[0]
                yield "created", paths[1]


# ---------------------------------------------------------------------- tests

_UNITTEST = re.compile(r"^(?:FAIL|ERROR): (\S+ \([\w.]+\))", re.MULTILINE)
# Each with a text that stands wherever it matches: most outputs hold none, and a look is quick.
_FAILED = (
    ("::", re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.MULTILINE)),  # pytest
    ("FAIL: ", _UNITTEST),
    ("ERROR: ", _UNITTEST),
    ("--- FAIL: ", re.compile(r"^\s*--- FAIL: (\S+)", re.MULTILINE)),  # go
)
_PASSED = (
    ("PASSED ", re.compile(r"^PASSED (\S+?::.+?)$", re.MULTILINE)),
    (" PASSED", re.compile(r"^(\S+?::.+?) PASSED\b", re.MULTILINE)),
    (" ... ok", re.compile(r"^(\S+ \([\w.]+\))(?:\n.*)? \.\.\. ok$", re.MULTILINE)),  # unittest
    ("--- PASS: ", re.compile(r"^\s*--- PASS: (\S+)", re.MULTILINE)),
)


def failed_tests(output: str) -> list[str]:
    """The tests that a command's output calls failed: pytest's, unittest's, go's."""
    return list(dict.fromkeys(_found(_FAILED, output)))


def passed_tests(output: str) -> set[str]:
    """The tests that a command's output calls passed."""
    return set(_found(_PASSED, output))


def _found(rules: Iterable[tuple[str, re.Pattern[str]]], output: str) -> Iterator[str]:
    for sign, rule in rules:
        if sign in output:
            yield from rule.findall(output)
