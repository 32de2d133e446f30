"""Logs written by hand, in the notation of fault reports.

``[S, U, A(r1:a), U("wait"), O(a), C{2..4}]``, with S a system message, U a user message, M text of
the agent, A(r1:a) the call ``a`` of LLM response ``r1``, O(a) its result, E(a) an error that stands
in for one, C a condensation and R a request for one, is::

    log(S(), U(), A("r1", "a"), U("wait"), O("a"), C(range(2, 5)))
"""
# ruff: noqa: N802

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from eventfold.events import (
    Action,
    AgentDelegateAction,
    AgentFinishAction,
    AgentThinkAction,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    CondensationAction,
    CondensationRequestAction,
    ErrorObservation,
    Event,
    EventSource,
    FileEditAction,
    FileReadAction,
    IPythonRunCellAction,
    MCPAction,
    MessageAction,
    ModelResponse,
    SuccessObservation,
    SystemMessageAction,
    TaskTrackingAction,
    ToolCallMetadata,
)
from eventfold.memory import View
from tests.samples import RESULTS

Name = int | str
"""An event of the log that is written: its index, or the label of the newest one before."""

Links = Literal["both", "cause", "metadata", "none"]
"""By what a result says which action it answers."""

LINKED: Mapping[Links, tuple[str, ...]] = {
    "both": ("cause", "tool_call_metadata"),
    "cause": ("cause",),
    "metadata": ("tool_call_metadata",),
    "none": (),
}

_START = datetime(2025, 1, 1, tzinfo=UTC)

_TOOLS: Mapping[type[Event], tuple[str, tuple[str, ...]]] = {
    AgentDelegateAction: ("delegate_to_browsing_agent", ("inputs",)),
    AgentFinishAction: ("finish", ("final_thought",)),
    AgentThinkAction: ("think", ("thought",)),
    BrowseInteractiveAction: ("browser", ("browser_actions",)),
    BrowseURLAction: ("browser", ("url",)),
    CmdRunAction: ("execute_bash", ("command",)),
    FileEditAction: ("str_replace_editor", ("command", "path", "old_str", "new_str")),
    FileReadAction: ("str_replace_editor", ("path", "view_range")),
    IPythonRunCellAction: ("execute_ipython_cell", ("code",)),
    TaskTrackingAction: ("task_tracker", ("command", "task_list")),
}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as a response lists it: ``arguments`` is text, or something odd."""

    id: str
    name: str = "execute_bash"
    arguments: object = "{}"
    fields: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        function = {"arguments": self.arguments, "name": self.name}
        return {"function": function, "id": self.id, "type": "function", **self.fields}


@dataclass(frozen=True, slots=True)
class Response:
    """An LLM response in litellm's shape; ``fields`` are further ones of its message."""

    id: str | None
    calls: tuple[Call, ...] = ()
    text: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def joined(self, other: Response) -> Response:
        """The response that both are parts of."""
        more = tuple(call for call in other.calls if call not in self.calls)
        return Response(
            self.id, self.calls + more, self.text or other.text, {**self.fields, **other.fields}
        )

    def to_dict(self) -> dict[str, Any]:
        message = {
            "content": self.text or None,
            "role": "assistant",
            "tool_calls": [call.to_dict() for call in self.calls],
            "function_call": None,
            **self.fields,
        }
        return {
            **({} if self.id is None else {"id": self.id}),
            "created": 1735689600,
            "model": "some/model-1",
            "object": "chat.completion",
            "system_fingerprint": None,
            "choices": [{"finish_reason": "tool_calls", "index": 0, "message": message}],
            "usage": {"completion_tokens": 10, "prompt_tokens": 100, "total_tokens": 110},
        }


@dataclass(frozen=True, slots=True)
class Item:
    """An event to be, and how it hangs together with others of its log.

    Without an ``event`` it is the result, saying ``text``, that fits the action it answers.
    """

    event: Event | None
    label: str = ""
    text: str = ""
    response: Response | None = None
    call: Call | None = None
    answers: Name | None = None
    links: Links = "both"
    forgets: Sequence[Name] | None = None


def S(text: str = "You are a coding agent.", *, label: str = "S") -> Item:
    """A system message."""
    return Item(SystemMessageAction(content=text), label)


def U(text: str = "Fix the bug.", *images: str, label: str | None = None) -> Item:
    """A user message; its label is its text."""
    event = MessageAction(content=text, image_urls=[*images] or None, source=EventSource.USER)
    return Item(event, text if label is None else label)


def M(text: str = "Done.", *, label: str | None = None) -> Item:
    """A message of the agent; its label is its text."""
    event = MessageAction(content=text, source=EventSource.AGENT)
    return Item(event, text if label is None else label)


def A(
    response: str | None,
    call: str,
    *,
    thought: str = "",
    thinking: str | list[Any] | None = None,
    name: str | None = None,
    arguments: object = None,
    action: Event | None = None,
    label: str | None = None,
    **fields: Any,
) -> Item:
    """The action of one call; its label is the call's id.

    Actions of one ``response`` id in a log are one response, which lists their calls in the order
    of the log. ``arguments`` is the model's text, or what it is made of. ``thinking`` is a text (it
    gets a signature) or the blocks; ``fields`` are further ones of the response's message.
    """
    action = thinking_aloud(action or CmdRunAction(command=f"run {call}"), thought)
    tool, given = tool_of(action)
    if arguments is not None:
        given = arguments
    said = given if isinstance(given, str) else json.dumps(given)
    made = Call(call, tool if name is None else name, said)
    of = Response(response, (made,), thought, _thinking_fields(thinking) | fields)
    return Item(action, call if label is None else label, response=of, call=made)


def batch(
    response: str | None,
    *calls: str,
    thought: str = "",
    thinking: str | list[Any] | None = None,
    **fields: Any,
) -> list[Item]:
    """The actions of parallel calls. Each knows the whole response: some may be left out."""
    items = [A(response, call, thought="" if n else thought) for n, call in enumerate(calls)]
    made = tuple(item.call for item in items if item.call is not None)
    whole = Response(response, made, thought, _thinking_fields(thinking) | fields)
    return [replace(item, response=whole) for item in items]


def O(  # noqa: E743
    of: Name,
    text: str = "ok",
    *,
    observation: Event | None = None,
    links: Links = "both",
    label: str | None = None,
) -> Item:
    """The result of the action ``of``, labelled ``"O(a)"``; an orphan if there is none."""
    name = f"O({of})" if label is None else label
    return Item(observation, name, text, answers=of, links=links)


def E(
    of: Name, text: str = "The tool was interrupted.", *, links: Links = "both", label: str = ""
) -> Item:
    """An error that stands in for the result of ``of``, labelled ``"E(a)"``."""
    error = ErrorObservation(content=text)
    return O(of, observation=error, links=links, label=label or f"E({of})")


def C(
    forgotten: Sequence[Name],
    summary: str | None = None,
    offset: int | None = None,
    *,
    label: str = "C",
) -> Item:
    """A condensation. A ``range`` is written as its two ends; a summary goes to 1 by default."""
    if summary is not None and offset is None:
        offset = 1
    event = CondensationAction(forgotten_event_ids=[], summary=summary, summary_offset=offset)
    return Item(event, label, forgets=forgotten)


def R(*, label: str = "R") -> Item:
    """A condensation request."""
    return Item(CondensationRequestAction(), label)


def named(label: str, event: Event) -> Item:
    """Any event, with a label."""
    return Item(event, label)


def log(*items: Item | Event | Sequence[Item | Event]) -> list[Event]:
    """The events as a stream would have stored them: ids from 0, times, sources, causes.

    Raises ``ValueError`` if a condensation names a label that no event before it has.
    """
    flat = [item if isinstance(item, Item) else Item(item) for item in _flat(items)]
    responses = _responses(flat)
    labels: dict[str, int] = {}
    events: list[Event] = []
    for index, item in enumerate(flat):
        event = item.event
        changes: dict[str, Any] = {}
        if item.call is not None and item.response is not None:
            changes["tool_call_metadata"] = metadata_of(item.call, *responses[_key(item.response)])
        if item.answers is not None:
            event, changes = _answer(item, labels, events)
        if item.forgets is not None:
            changes = _forgotten(item.forgets, labels)
        assert event is not None, f"an item without an event answers something: {item}"
        events.append(stored(event, index, **changes))
        labels[item.label] = index
    return events


def numbered(events: Iterable[Event]) -> list[Event]:
    """The events with dense ids from 0, and a time and a source where they have none."""
    return [stored(event, index) for index, event in enumerate(events)]


def stored(event: Event, index: int, **changes: Any) -> Event:
    """The event with an id, and with a time and a source if it has none."""
    changes["id"] = index
    if event.timestamp is None:
        changes["timestamp"] = _START + timedelta(seconds=index)
    if event.source is None:
        is_action = isinstance(event, Action)
        changes["source"] = EventSource.AGENT if is_action else EventSource.ENVIRONMENT
    return event.replace(**changes)


def metadata_of(call: Call, response: ModelResponse | None, total: int = 1) -> ToolCallMetadata:
    """Which call of which response this is; ``total`` is the number of its calls."""
    return ToolCallMetadata(call.name, call.id, total, response)


def tool_of(action: Event) -> tuple[str, object]:
    """The tool and the arguments by which a model would have asked for an action."""
    if isinstance(action, MCPAction):
        return action.name, action.arguments
    name, fields = _TOOLS.get(type(action), ("some_tool", ()))
    return name, {field: getattr(action, field) for field in fields}


def result_of(action: Event, text: str) -> Event:
    """The observation that a runtime would have made for an action."""
    template, shared = RESULTS.get(type(action), (SuccessObservation(), ()))
    return template.replace(content=text, **{name: getattr(action, name) for name in shared})


def thinking_aloud(action: Event, thought: str) -> Event:
    """The action with a thought, if its kind has one."""
    if thought and hasattr(action, "thought"):
        return action.replace(thought=thought)
    return action


def _flat(items: Iterable[Item | Event | Sequence[Item | Event]]) -> Iterator[Item | Event]:
    for item in items:
        if isinstance(item, Item | Event):
            yield item
        else:
            yield from item


def _key(response: Response) -> str | int:
    """Parts with one id are one response; a response without an id is its own."""
    return id(response) if response.id is None else response.id


def _responses(items: Iterable[Item]) -> dict[str | int, tuple[ModelResponse, int]]:
    joined: dict[str | int, Response] = {}
    for item in items:
        if (part := item.response) is not None:
            key = _key(part)
            joined[key] = joined[key].joined(part) if key in joined else part
    return {
        key: (ModelResponse.of(response.to_dict()), len(response.calls))
        for key, response in joined.items()
    }


def _answer(
    item: Item, labels: Mapping[str, int], events: Sequence[Event]
) -> tuple[Event, dict[str, Any]]:
    of = item.answers
    index = labels.get(of) if isinstance(of, str) else of
    links: dict[str, Any]
    if index is not None and index < len(events):
        action = events[index]
        links = {"cause": index, "tool_call_metadata": action.tool_call_metadata}
    else:
        action = CmdRunAction(command=f"run {of}")
        call = Call(str(of))
        response = ModelResponse.of(Response("gone", (call,)).to_dict())
        links = {"tool_call_metadata": metadata_of(call, response)}
    event = result_of(action, item.text) if item.event is None else item.event
    return event, {name: value for name, value in links.items() if name in LINKED[item.links]}


def _forgotten(names: Sequence[Name], labels: Mapping[str, int]) -> dict[str, Any]:
    if isinstance(names, range) and names.step == 1 and len(names):
        ends = {"forgotten_events_start_id": names[0], "forgotten_events_end_id": names[-1]}
        return {"forgotten_event_ids": None, **ends}
    missing = [name for name in names if isinstance(name, str) and name not in labels]
    if missing:
        raise ValueError(f"no event before is called {missing}; there are {[*labels]}")
    return {
        "forgotten_event_ids": [labels[n] if isinstance(n, str) else n for n in names],
    }


def _thinking_fields(thinking: str | list[Any] | None) -> dict[str, Any]:
    if thinking is None:
        return {}
    if isinstance(thinking, str):
        signed = f"signed({thinking})"
        thinking = [{"type": "thinking", "thinking": thinking, "signature": signed}]
    return {"thinking_blocks": thinking}


def pairs(count: int, text: str = "out", first: int = 0) -> list[Item]:
    """So many calls with their results: r0 asks for c0 ..."""
    numbers = range(first, first + count)
    return [item for n in numbers for item in (A(f"r{n}", f"c{n}"), O(f"c{n}", text=text))]


def view_of(*items: Any, requested: bool = False) -> View:
    """The view of a log, with a request to condense at its end if that is ``requested``."""
    view = View.from_events(log(*items))
    if requested:
        view.append(CondensationRequestAction(id=len(view)))
    return view
