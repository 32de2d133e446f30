"""A made-up run in which facts are planted: for :func:`~eventfold.benchmarks.retention_of`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime

from ..condensers.context import AgentContext
from ..condensers.noop import NoOpCondenser
from ..events.actions import MessageAction
from ..events.event import Event, EventSource, InvalidArgument
from ..events.stream import EventStream
from ..events.tool_calls import ToolCall
from ..memory.message import Reply
from .retention import Fact

__all__ = ["KINDS", "PLACES", "planted_run"]

KINDS = ("id", "number", "path", "requirement")
PLACES = ("user", "call", "result", "thought")

_TASK = "Look through the project, and note what I tell you on the way."
_FILLER = "\n".join(f"{n:02} nothing here that anybody would have to remember" for n in range(18))


def planted_run(
    facts: int | Iterable[tuple[str, str, str]] = 2,
) -> tuple[list[Event], list[Fact]]:
    """A run with facts, and where they are: so many of each kind at each place, or those given, as
    (text, kind, where), in their order.

    ``where`` is "user", "call", "result" or "thought". Each fact has a response of its own, with a
    result of 900 characters that tell nothing; in a result it stands at any depth. Raises
    :class:`InvalidArgument` for any other place.
    """
    told = _made_up(facts) if isinstance(facts, int) else facts
    stream = EventStream("planted", clock=lambda: datetime(2025, 1, 1, tzinfo=UTC))
    context = AgentContext(stream, NoOpCondenser())
    stream.append(MessageAction(_TASK), EventSource.USER)
    found = []
    for number, (text, kind, where) in enumerate(told):
        if where not in PLACES:
            raise InvalidArgument(f"a fact is told by one of {', '.join(PLACES)}; found {where!r}")
        if where == "user":
            stream.append(MessageAction(f"Mind this: {text}"), EventSource.USER)
        arguments = {"command": f"./look --step {number}"}
        name = "execute_bash"
        if where == "call" and kind == "path":
            name = "str_replace_editor"
            arguments = {"command": "create", "path": text, "file_text": _FILLER}
        elif where == "call":
            arguments = {"command": f"./look --step {number} --for {text}"}
        thought = text if where == "thought" else f"Step {number}."
        call = ToolCall(f"call-{number}", name, json.dumps(arguments))
        (action,) = context.record(Reply(thought, (call,)))
        before, after = _FILLER[: number * 97 % 900], _FILLER[number * 97 % 900 :]
        middle = f"\n{text}\n" if where == "result" else ""
        result = context.observe(f"{before}{middle}{after}", action)
        place = {"user": action.id - 1, "result": result.id}.get(where, action.id)
        found.append(Fact(text, kind, where, place))
    context.record(Reply("It is done."))
    return list(stream), found


def _made_up(count: int) -> Iterable[tuple[str, str, str]]:
    """Facts of each kind at each place in turn, the same ones each time."""
    for n in range(count):
        for kind in KINDS:
            for where in PLACES:
                digits = hashlib.sha256(f"{n} {kind} {where}".encode()).hexdigest()
                number = int(digits[:8], 16) % 900_000 + 100_000
                text = {
                    "id": digits[:12],
                    "number": str(number),
                    "path": f"src/{digits[:4]}/{digits[4:8]}.py",
                    "requirement": f"Requests of {digits[:5]} end within {number} ms.",
                }[kind]
                yield text, kind, where
