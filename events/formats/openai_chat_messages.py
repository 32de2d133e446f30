"""One list of chat messages: from JSON to a run, and back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..actions import MessageAction, SystemMessageAction, tool_action
from ..event import Event, EventSource, Observation, UnknownEvent
from ..serialization import unknown_event
from ..tool_calls import ModelResponse, ToolCallMetadata
from .base import Problem, Run, describe
from .json_rows import paused_gc
from .tool_results import arguments_in, tool_result

__all__ = ["NAME", "ChatLog", "is_message", "read_chat", "recorded_messages"]

NAME = "openai_chat"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChatLog:
    """The messages of one run, not read yet, and what is said beside them.

    ``place`` is where in the file they stand; ``response`` is the chat completion that follows
    them.
    """

    name: str
    path: Path
    line: int | None
    messages: list[Any]
    place: str
    tools: list[Any] | None = None
    response: Json | None = None


_SYSTEM = ("system", "developer")
_ROLES = (*_SYSTEM, "user", "assistant", "tool", "function")


def is_message(value: Any) -> bool:
    """Whether it is a chat message. What it says may be missing: it can consist of tool calls."""
    if not isinstance(value, dict) or value.get("role") not in _ROLES:
        return False
    return not value.keys().isdisjoint({"content", "tool_calls", "function_call"})


def read_chat(log: ChatLog) -> Run:
    with paused_gc():
        reader = _Reader(log)
        for n, message in enumerate(log.messages):
            reader.add(f"{log.place}[{n}]", message, None)
        for choice in (log.response or {}).get("choices", [])[:1]:
            if isinstance(choice, dict) and isinstance(choice.get("message"), dict):
                reader.add("the response", {"role": "assistant", **choice["message"]}, log.response)
    return Run(
        name=log.name,
        format=NAME,
        events=reader.events,
        problems=reader.problems,
        recorded_ids=[None] * len(reader.events),
        as_recorded=reader.as_recorded,
        path=log.path,
    )


class _Reader:
    """Reads messages one by one; nothing in them stops it.

    ``as_recorded`` has, by the event's id, what of a message its event does not give back.
    """

    def __init__(self, log: ChatLog) -> None:
        self.events: list[Event] = []
        self.problems: list[Problem] = []
        self.as_recorded: dict[int, Json] = {}
        self._log = log
        self._calls: dict[str, Event] = {}  # by id: the newest action with this call
        self._waiting: list[Event] = []  # the newest response's actions without a result

    def add(self, place: str, message: Any, response: Json | None) -> None:
        if not isinstance(message, dict):
            self._tell(place, f"left out: a message is an object, this is {describe(message)}")
            return
        try:
            self._read(place, message, response)
        except (ValueError, TypeError, RecursionError) as error:
            self._tell(place, f"left out: {error}")

    def _read(self, place: str, message: Json, response: Json | None) -> None:
        role = message.get("role")
        content = _Content(message.get("content"))
        if content.others:
            kinds = ", ".join(sorted(content.others))
            self._tell(place, f"parts that are not shown to an LLM, kept as they are: {kinds}")
        if role in _SYSTEM:
            self._keep(self._system(content), message)
        elif role == "user":
            urls = content.images or None
            event = MessageAction(content.text, image_urls=urls, source=EventSource.USER)
            self._keep(event, message)
        elif role == "assistant":
            if not self._calls_in(message, response, content.text):
                text = content.text or _text_of(message.get("refusal"))
                self._keep(MessageAction(text, source=EventSource.AGENT), message)
        elif role in ("tool", "function"):
            self._keep(self._result(place, message, content), message)
        else:
            self._tell(place, f"of an unknown role, kept and never shown to an LLM: {role!r:.40}")
            args = {"message": message, "hidden": True}
            self._keep(unknown_event({"action": "chat_message", "args": args}), message)

    def _system(self, content: _Content) -> Event:
        """The first system message is the prompt; what is said by a later one comes in its turn."""
        if any(isinstance(event, SystemMessageAction) for event in self.events):
            return MessageAction(content.text, source=EventSource.ENVIRONMENT)
        return SystemMessageAction(content.text, tools=self._log.tools, source=EventSource.AGENT)

    def _keep(self, event: Event, message: Json) -> None:
        event = event.replace(id=len(self.events))
        given = _said_by(event)
        rest = {key: value for key, value in message.items() if given.get(key, ...) != value}
        rest |= {key: ... for key in given if key not in message}
        if rest:
            self.as_recorded[event.id] = rest
        self.events.append(event)

    # ------------------------------------------------------------ calls and results

    def _calls_in(self, message: Json, response: Json | None, text: str) -> bool:
        """Adds the actions that a message calls for, if it calls for any."""
        asked = _with_calls(message, f"call_{len(self.events)}")
        calls = asked.get("tool_calls")
        if not isinstance(calls, list) or not any(map(_function_in, calls)):
            return False
        first = len(self.events)
        if asked is not message:
            self.as_recorded[first] = {"message": message}
        whole = response if response is not None and asked is message else None
        made = ModelResponse.of(whole or {"choices": [{"message": asked}]})
        functions = [(call["id"], _function_in(call)) for call in calls if _function_in(call)]
        self._waiting = []
        for call_id, function in functions:
            name = _text_of(function.get("name"))
            action = tool_action(name, arguments_in(function.get("arguments")) or {}, text)
            action = action.replace(
                id=len(self.events),
                source=EventSource.AGENT,
                tool_call_metadata=ToolCallMetadata(name, call_id, len(functions), made),
            )
            text = ""
            self.events.append(action)
            self._waiting.append(action)
            self._calls[call_id] = action
        return True

    def _result(self, place: str, message: Json, content: _Content) -> Observation:
        call_id = message.get("tool_call_id")
        if isinstance(call_id, str) and call_id:
            action = self._calls.get(call_id)
        else:  # no id: the next call that waits, of this name if there is one
            call_id = None
            named = [a for a in self._waiting if _called(a) == message.get("name")]
            action = next(iter(named or self._waiting), None)
        metadata: ToolCallMetadata | None = None
        if action is not None:
            metadata = action.tool_call_metadata
            self._waiting = [other for other in self._waiting if other is not action]
        else:
            self._tell(place, "a result of a call that is not to be found before it")
            if call_id is not None:
                metadata = ToolCallMetadata(_text_of(message.get("name")), call_id)
        name = _text_of(message.get("name")) if metadata is None else metadata.function_name
        return tool_result(action, name, content.text, content.images).replace(
            source=EventSource.ENVIRONMENT,
            cause=None if action is None else action.id,
            tool_call_metadata=metadata,
        )

    def _tell(self, place: str, text: str) -> None:
        log = self._log
        self.problems.append(Problem(str(log.path), log.line, f"{place}: {text}"))


class _Content:
    """A message's content in its five forms, of which four can be empty."""

    def __init__(self, content: Any) -> None:
        self.images: list[str] = []
        self.others: Counter[str] = Counter()
        texts: list[str] = []
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                texts.append(part)
            elif isinstance(part, dict):
                self._add(part, texts)
            elif part is not None:
                texts.append(json.dumps(part))
        self.text = "\n".join(texts)

    def _add(self, part: Json, texts: list[str]) -> None:
        image = part.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        if isinstance(url, str):
            self.images.append(url)
        elif isinstance(text := part.get("text"), str):
            texts.append(text)
        else:
            self.others[_text_of(part.get("type")) or "unknown"] += 1


def _with_calls(message: Json, spare: str) -> Json:
    """The message with its calls in today's form, each with an id; the same one if they are."""
    calls, old = message.get("tool_calls"), message.get("function_call")
    if not calls and isinstance(old, dict):
        made = {"id": spare, "type": "function", "function": old}
        rest = {key: message[key] for key in message if key != "function_call"}
        return {**rest, "tool_calls": [made]}
    if not isinstance(calls, list) or all(
        isinstance(call, dict) and isinstance(call.get("id"), str) and call["id"] for call in calls
    ):
        return message
    named = [
        {**call, "id": call.get("id") if _text_of(call.get("id")) else f"{spare}_{n}"}
        for n, call in enumerate(calls)
        if isinstance(call, dict)
    ]
    return {**message, "tool_calls": named}


def _function_in(call: Any) -> Json:
    function = call.get("function") if isinstance(call, dict) else None
    return function if isinstance(function, dict) else {}


def _called(action: Event) -> str | None:
    metadata = action.tool_call_metadata
    return None if metadata is None else metadata.function_name


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


# Back to messages


def recorded_messages(run: Run) -> Iterator[Json] | None:
    """The messages that a run was read from; None if it was not, or was changed since."""
    events = run.events
    if run.format != NAME or len(run.recorded_ids) != len(events):
        return None
    if any(event.id != n for n, event in enumerate(events)):
        return None
    return _messages(run)


def _messages(run: Run) -> Iterator[Json]:
    skipped = 0  # further calls of a response whose message was given
    for event in run.events:
        if skipped:
            skipped -= 1
            continue
        recorded = run.as_recorded.get(event.id, {})
        metadata = event.tool_call_metadata
        if metadata is not None and not isinstance(event, Observation):
            skipped = metadata.total_calls_in_response - 1
            if "message" in recorded:
                yield recorded["message"]
            elif metadata.model_response is not None:
                response = metadata.model_response.to_dict()
                yield {"role": "assistant", **response["choices"][0]["message"]}
            continue
        message = {**_said_by(event), **recorded}
        yield {key: value for key, value in message.items() if value is not ...}


def _said_by(event: Event) -> Json:
    """The message that an event gives back by itself."""
    if isinstance(event, UnknownEvent):
        args = event.data.get("args")
        return dict(args["message"]) if isinstance(args, dict) and "message" in args else {}
    text = getattr(event, "content", "")
    if isinstance(event, SystemMessageAction):
        return {"role": "system", "content": text}
    if isinstance(event, MessageAction):
        roles = {EventSource.USER: "user", EventSource.AGENT: "assistant"}
        role = "system" if event.source is None else roles.get(event.source, "system")
        return {"role": role, "content": text}
    metadata = event.tool_call_metadata
    call_id = {} if metadata is None else {"tool_call_id": metadata.tool_call_id}
    return {"role": "tool", **call_id, "content": text}
