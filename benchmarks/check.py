"""Chat messages in files, checked against a provider's rules."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ..events.formats.base import Format, describe
from ..events.formats.detect import format_of
from ..events.formats.json_rows import parse
from ..memory import check_messages
from .report import CannotRun, print_json, printable

__all__ = ["Check"]


@dataclass(frozen=True, slots=True)
class Check:
    """How message files are checked. ``tools`` is a file with the tools of each request; without
    it, they are those beside the messages. ``window`` and ``max_output_tokens`` are tokens."""

    profile: str
    tools: Path | None
    window: int | None
    max_output_tokens: int
    as_json: bool

    def files(self, paths: Iterable[Path]) -> int:
        """Prints what is broken in each list of messages, then a line about it; counts the
        violations. Raises ``CannotRun`` for what holds no messages."""
        given = None
        if self.tools is not None:
            name = str(self.tools)
            given = _listed(name, _parsed(name, self.tools.read_bytes()), "tools")
        return sum(
            self._one(file, line, value, given)
            for file, line, value in chain.from_iterable(map(_values, paths))
        )

    def _one(self, file: str, line: int | None, value: Any, tools: list[Any] | None) -> int:
        where = file if line is None else f"{file}:{line}"
        messages = _messages(where, value, self.profile)
        violations = check_messages(
            messages,
            self.profile,
            tools=tools or (value.get("tools") if isinstance(value, dict) else None),
            window=self.window,
            max_output_tokens=self.max_output_tokens,
        )
        if self.as_json:
            place: dict[str, Any] = {"file": file, "line": line}
            numbers = {"messages": len(messages), "violations": len(violations)}
            for violation in violations:
                print_json({"kind": "violation", **place, **asdict(violation)})
            print_json({"kind": "summary", **place, "profile": self.profile, **numbers})
        else:
            said = f"{len(messages)} messages, violations of {self.profile}: {len(violations)}"
            for text in (*violations, said):
                print(printable(f"{where}: {text}"))
        return len(violations)


def _values(path: Path) -> Iterator[tuple[str, int | None, Any]]:
    """The JSON values of a file, with its name and their lines: one value, or one a line."""
    name = "stdin" if str(path) == "-" else str(path)
    if path.is_dir():
        raise CannotRun(
            f"{name} is a folder, and check takes files of chat messages; for a folder of "
            f"trajectories use: eventfold replay {name}"
        )
    data = sys.stdin.buffer.read() if name == "stdin" else path.read_bytes()
    lines = [(n, line) for n, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    if not lines:
        raise CannotRun(f"{name} is empty: it holds no JSON")
    try:
        yield name, None, _parsed(name, data)
        return
    except CannotRun:
        # Several lines, of which the first seems whole: a value a line.
        if len(lines) == 1 or not lines[0][1].rstrip().endswith((b"}", b"]")):
            raise
    for number, line in lines:
        yield name, number, _parsed(f"{name}:{number}", line)


def _parsed(where: str, data: bytes) -> Any:
    try:
        return parse(data.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise CannotRun(f"{where}: {error}") from error


def _messages(where: str, value: Any, profile: str) -> list[Any]:
    """The chat messages in a value."""
    found = value.get("messages") if isinstance(value, dict) else value
    items = found if isinstance(found, list) else []
    has_roles = any(isinstance(item, dict) and "role" in item for item in items)
    known = None if has_roles else format_of(value)
    if known is None:
        return _listed(where, value, "messages")
    raise CannotRun(
        f"{where} is a trajectory ({known.title if isinstance(known, Format) else known}), and "
        "check takes files of chat messages; to check what a model would have been sent, use: "
        f"eventfold replay FILE --profile {profile}"
    )


def _listed(where: str, value: Any, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else value
    if isinstance(found, list):
        return found
    raise CannotRun(
        f"{where}: expected a list of {key}, or an object that has it under {key!r}; found "
        f"{describe(value)}"
    )
