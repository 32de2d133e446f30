"""OpenAI chat messages: request logs, bare lists, data set rows, request and response lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .base import Format, Problem, Row, Run, describe
from .event_lists import name_of
from .openai_chat_messages import NAME, ChatLog, is_message, read_chat

__all__ = ["FORMAT"]

Json = dict[str, Any]

# Where a row has its messages. An SDK log of a model without function calling has them twice; the
# raw ones are those with tool calls.
_KEYS = ("raw_messages", "messages", "traj")


def _is_messages(value: Any) -> bool:
    return isinstance(value, list) and any(map(is_message, value))


def _messages_key(row: Any) -> str | None:
    """Under which key a row has its messages. mini-swe-agent's rows, and others', are no chat."""
    if not isinstance(row, dict) or not row.keys().isdisjoint(_OTHER_FORMATS):
        return None
    info = row.get("info")
    if isinstance(info, dict) and "mini_version" in info:
        return None
    return next((key for key in _KEYS if _is_messages(row.get(key))), None)


_OTHER_FORMATS = {"trajectory_format", "schema_version", "history", "sessionId", "payload"}


def _request(row: Any) -> Json | None:
    """The request in a line of a request log."""
    if not isinstance(row, dict) or row.get("type") != "request":
        return None
    params = row.get("request_params", row)
    return params if isinstance(params, dict) and _is_messages(params.get("messages")) else None


def _recognises(value: Any) -> bool:
    if isinstance(value, list):
        return _is_messages(value) or any(_messages_key(item) for item in value)
    return _request(value) is not None or _messages_key(value) is not None


def _read(path: Path, rows: Iterable[Row | Problem]) -> Iterator[Run | Problem]:
    exchange: _Exchange | None = None
    for row in rows:
        if isinstance(row, Problem):
            yield row
        elif (request := _request(row.value)) is not None:
            exchange = exchange or _Exchange(path)
            exchange.ask(request)
        elif exchange is not None and isinstance(row.value, dict):
            exchange.answer = _response_in(row.value)
        else:
            yield from _runs_in(row.value, path, row.line, "")
    if exchange is not None:
        yield from exchange.run()


class _Exchange:
    """A log of requests and responses. Each request repeats the whole prompt: the last one
    counts, and the response to it."""

    def __init__(self, path: Path) -> None:
        self.answer: Json | None = None
        self._path = path
        self._request: Json = {}
        self._again = 0

    def ask(self, request: Json) -> None:
        if self._request and len(request["messages"]) <= len(self._request["messages"]):
            self._again += 1
        self._request = request
        self.answer = None

    def run(self) -> Iterator[Run | Problem]:
        path = self._path
        log = ChatLog(
            path.stem,
            path,
            None,
            self._request["messages"],
            "messages of the last request",
            tools=_tools_in(self._request),
            response=self.answer,
        )
        yield read_chat(log)
        if self._again:
            yield Problem(
                str(path),
                None,
                f"{self._again} requests are no longer than the one before: the responses between "
                "them were rejected, and are left out",
            )


def _runs_in(value: Any, path: Path, line: int | None, place: str) -> Iterator[Run | Problem]:
    """The runs in a JSON value: a list of messages, a row that has one, or a list of such rows."""
    if isinstance(value, list) and not _is_messages(value) and any(map(_messages_key, value)):
        for n, row in enumerate(value):
            yield from _runs_in(row, path, line, f"{place}[{n}]")
        return
    row = value if isinstance(value, dict) else {}
    key = _messages_key(row)
    messages: Any = row[key] if key is not None else value
    if not _is_messages(messages):
        left_out = f"left out, these are no chat messages: {describe(value)}"
        yield Problem(str(path), line, f"{place}: {left_out}" if place else left_out)
        return
    yield read_chat(
        ChatLog(
            _name_of(row) or f"{path.stem}{'' if line is None else f':{line}'}{place}",
            path,
            line,
            messages,
            f"{place}.{key}".lstrip(".") if key else place,
            tools=_tools_in(row),
            response=_response_in(row),
        )
    )


def _name_of(row: Json) -> str | None:
    named = name_of(row)
    task, trial = row.get("task_id"), row.get("trial")
    if named is None and isinstance(task, str | int):
        return f"task {task}" if trial is None else f"task {task}, trial {trial}"
    return named


def _tools_in(row: Json) -> list[Any] | None:
    kwargs = row.get("kwargs")
    for holder in (row, kwargs if isinstance(kwargs, dict) else {}):
        if isinstance(tools := holder.get("tools"), list):
            return tools
    return None


def _response_in(row: Json) -> Json | None:
    """The response beside the messages, as a chat completion."""
    response = row.get("response")
    if isinstance(response, dict) and isinstance(response.get("choices"), list):
        return response
    if isinstance(response, dict) and response.get("role") == "assistant":
        return {"choices": [{"message": response}]}
    outputs = row.get("outputs")  # as SWE-agent logs them
    first = outputs[0] if isinstance(outputs, list) and outputs else None
    if not isinstance(first, dict):
        return None
    message = {"role": "assistant", "content": first.get("message")}
    if first.get("tool_calls"):
        message["tool_calls"] = first["tool_calls"]
    return {"choices": [{"message": message}]}


FORMAT = Format(name=NAME, title="OpenAI chat messages", recognises=_recognises, read=_read)
