"""Writing a run to a file: in a format that holds events, or as the chat that they make."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from ..events.actions import SystemMessageAction
from ..events.condensation import CondensationAction, CondensationRequestAction
from ..events.event import InvalidArgument
from ..events.formats.base import Run
from ..events.formats.eventfold_jsonl import NAME as EVENTFOLD, lines_of
from ..events.formats.openai_chat_messages import NAME as OPENAI_CHAT, recorded_messages
from ..events.formats.openhands_v0_logs import NAME as OPENHANDS_V0, recorded_dicts
from .conversation_memory import ConversationMemory
from .joining import CONTINUE, NothingToSend
from .message import ChatDict, Message
from .view import View

__all__ = ["WRITTEN", "write_run"]


def write_run(
    run: Run,
    path: str | os.PathLike[str],
    format: str = OPENHANDS_V0,  # noqa: A002
) -> None:
    """Writes a run to a file, whole or not at all: until it is whole, an old file stays.

    * ``openhands_v0`` is a JSON array of events, one a line, as OpenHands saves and replays it; it
      has the recorded ids if the run was read from such a log.
    * ``eventfold`` is JSONL: a line that says so, then the events, one a line, numbered from 0.
    * ``openai_chat`` is a JSON array of messages: those that the run was read from, or all that its
      events say, in the form that :class:`ConversationMemory` gives them, condensations left out.

    Raises :class:`InvalidArgument` for a format that cannot be written, and ``OSError``.
    """
    writer = _WRITERS.get(format)
    if writer is None:
        raise InvalidArgument(f"no format {format!r} to write; there is {', '.join(WRITTEN)}")
    _write_whole(Path(path), writer(run))


def _eventfold(run: Run) -> Iterator[bytes]:
    for line in lines_of(run):
        yield _json(line) + b"\n"


def _openai_chat(run: Run) -> Iterator[bytes]:
    recorded = recorded_messages(run)
    yield from _array(recorded if recorded is not None else _said(run))


def _said(run: Run) -> list[ChatDict]:
    view = View.from_events(
        event
        for event in run.events
        if not isinstance(event, CondensationAction | CondensationRequestAction)
    )
    try:
        messages = ConversationMemory("openai").process_events(view, vision_is_active=True)
    except NothingToSend:  # nothing, or only a system message
        prompts = [event for event in view if isinstance(event, SystemMessageAction)]
        return [Message.system_message(prompt.content).to_dict() for prompt in prompts]
    if messages[-1] == Message.user_message(CONTINUE):  # asks for an answer; nobody said it
        del messages[-1]
    return [message.to_dict() for message in messages]


def _openhands_v0(run: Run) -> Iterator[bytes]:
    yield from _array(recorded_dicts(run))


def _array(values: Iterable[Any]) -> Iterator[bytes]:
    yield b"["
    for n, value in enumerate(values):
        yield (b",\n" if n else b"\n") + _json(value)
    yield b"\n]\n"


_WRITERS: dict[str, Callable[[Run], Iterable[bytes]]] = {
    EVENTFOLD: _eventfold,
    OPENAI_CHAT: _openai_chat,
    OPENHANDS_V0: _openhands_v0,
}
WRITTEN = tuple(sorted(_WRITERS))
"""The formats that :func:`write_run` can write."""


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8 form, only an escape
        return json.dumps(value).encode()


def _write_whole(path: Path, parts: Iterable[bytes]) -> None:
    target = Path(os.path.realpath(path))  # a link stays one
    beside = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
    try:
        with beside.open("xb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
