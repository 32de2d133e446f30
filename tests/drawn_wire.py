"""JSON objects drawn by Hypothesis, as recordings hold them: :func:`wire_events`."""

from __future__ import annotations

import functools
import inspect
import json
import typing
from collections.abc import Mapping
from types import UnionType
from typing import Any

from hypothesis import strategies as st

from eventfold.events import CondensationAction, Event
from eventfold.events.event import ACTIONS, OBSERVATIONS
from tests.drawn_logs import pick, texts
from tests.notation import Call, Response
from tests.samples import ARGUMENTS, CALL_IDS, MESSAGE_FIELDS, TOOL_NAMES


@functools.cache
def json_values() -> st.SearchStrategy[Any]:
    """JSON data; without NaN, which is not equal to itself."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats(allow_nan=False)
        | texts()
    )
    return st.recursive(leaves, lambda inner: _lists(inner) | _objects(inner), max_leaves=5)


@functools.cache
def json_objects() -> st.SearchStrategy[dict[str, Any]]:
    """JSON objects."""
    return _objects(json_values())


def _lists(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(texts().map(lambda key: key[:20]), inner, max_size=3)


@st.composite
def wire_events(draw: st.DrawFn) -> dict[str, Any]:
    """JSON objects in OpenHands' wire shape that are events: known and unknown kinds, old shapes,
    keys that are missing, null, unknown or in another order, odd values beside the payload.

    A known kind's own fields hold what they can hold; ``event_from_dict`` refuses anything else.
    """
    known = [(tag, kind) for tag, family in _FAMILIES.items() for kind in family]
    tag, kind = draw(pick((*known, *known, ("", "unknown"), ("", "unknown"), ("", "any"))))
    if tag:
        return draw(_known(tag, kind))
    return unregistered(draw(_unknown_wire() if kind == "unknown" else json_objects()))


_FAMILIES: Mapping[str, Mapping[str, type[Event]]] = {
    "action": ACTIONS,
    "observation": OBSERVATIONS,
}


@functools.cache
def _known(tag: str, kind: str) -> st.SearchStrategy[dict[str, Any]]:
    required = {tag: st.just(kind)}
    optional = dict(_top())
    if tag == "observation":
        optional["content"] = st.none() | texts()
    fields = _payloads(_FAMILIES[tag][kind])
    payload = "args" if tag == "action" else "extras"
    flat = st.builds(
        lambda top, fields: {**fields, **top},
        _fields(required, optional | {payload: st.none()}),
        fields,
    )
    nested = _fields(required | {payload: fields}, optional)
    return _shuffled(nested) | _shuffled(nested) | _shuffled(flat)


def _payloads(cls: type[Event]) -> st.SearchStrategy[dict[str, Any]]:
    """Values for the fields of a kind: all that it needs, some of the others."""
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {"hidden": st.booleans(), "odd": json_values()}
    if cls is CondensationAction:
        pairs = st.builds(lambda named, summary: named | summary, pick(_NAMED), pick(_SUMMARIES))
        return st.builds(lambda pair, more: pair | more, pairs, _fields(required, optional))
    hints = typing.get_type_hints(cls)
    arguments = inspect.signature(cls).parameters
    for name in cls.payload_fields:
        if arguments[name].default is inspect.Parameter.empty:
            required[name] = _values(hints[name])
        else:
            optional[name] = st.none() | _values(hints[name])
    for alias, name in cls.wire_aliases.items():
        optional[alias] = st.none() | _values(hints[name])
    return _shuffled(_fields(required, optional))


_NAMED: tuple[dict[str, Any], ...] = (
    {"forgotten_event_ids": []},
    {"forgotten_event_ids": [1, 2, 99]},
    {"forgotten_events_start_id": 1, "forgotten_events_end_id": 3},
    {
        "forgotten_event_ids": None,
        "forgotten_events_start_id": 1,
        "forgotten_events_end_id": 1,
    },
)
_SUMMARIES: tuple[dict[str, Any], ...] = (
    {},
    {"summary": None, "summary_offset": None},
    {"summary": "What was done.", "summary_offset": 1},
)


def _values(hint: Any) -> st.SearchStrategy[Any]:
    """What a field with this annotation can hold on the wire."""
    if typing.get_origin(hint) in (typing.Union, UnionType):
        return st.one_of([_values(part) for part in typing.get_args(hint)])
    if typing.get_origin(hint) is list:
        return st.lists(_values(typing.get_args(hint)[0]), max_size=3)
    if typing.get_origin(hint) is dict:
        return json_objects()
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: texts(),
        int: st.integers(-3, 10**6),
        bool: st.booleans(),
        type(None): st.none(),
        Any: json_values(),
    }
    return simple[hint]


def _fields(
    required: Mapping[str, st.SearchStrategy[Any]], optional: Mapping[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(dict(required), optional=dict(optional))


def _shuffled(objects: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """With the keys in another order: turned round, or from somewhere in the middle on."""

    def turned(data: dict[str, Any], by: int) -> dict[str, Any]:
        keys = list(data)
        keys = keys[::-1] if by < 0 else keys[by:] + keys[:by]
        return {key: data[key] for key in keys}

    return st.builds(turned, objects, st.integers(-1, 4))


_ODD: st.SearchStrategy[Any] = pick((None, "7", -1, -5, 1.5, True, [], {"a": 1}, "", 10**30))


@functools.cache
def _metadata_wire() -> st.SearchStrategy[Any]:
    response = st.builds(
        lambda calls, fields: Response("chatcmpl-1", tuple(calls), "Hm.", fields).to_dict(),
        st.lists(st.builds(Call, pick(CALL_IDS), arguments=pick(ARGUMENTS))),
        pick(MESSAGE_FIELDS),
    )
    usual = _fields(
        {
            "function_name": pick(TOOL_NAMES),
            "tool_call_id": pick(CALL_IDS),
            "model_response": response,
            "total_calls_in_response": st.integers(0, 5),
        },
        {},
    )
    odd = _fields(
        {"function_name": pick(TOOL_NAMES), "tool_call_id": pick(CALL_IDS)},
        {
            "total_calls_in_response": st.integers(0, 5),
            "model_response": st.none() | response | json_objects(),
            "odd": json_values(),
        },
    )
    return st.none() | _shuffled(usual) | _shuffled(odd)


@functools.cache
def _top() -> dict[str, st.SearchStrategy[Any]]:
    return {
        "id": st.integers(0, 100) | _ODD,
        "timestamp": pick(
            (
                "2025-01-01T10:00:00.123456",
                "2025-01-01T10:00:00",
                "2025-01-01T10:00:00+02:00",
                "2025-01-01T10:00:00Z",
                "2025-01-01 10:00",
                "20250101T100000",
                "2025-W01-1",
                "yesterday",
                1735689600,
            )
        )
        | _ODD,
        "source": pick(("agent", "user", "environment", "AGENT", "tool")) | _ODD,
        "message": st.none() | texts(),
        "cause": st.integers(0, 100) | _ODD,
        "tool_call_metadata": _metadata_wire(),
        "llm_metrics": st.none() | json_objects() | pick(([], "odd", 3)),
        "model_response": st.none() | json_objects().map(_as_read) | pick(([], "odd", 3)),
        "success": st.booleans(),
        "timeout": pick((120, 1.5, None)),
    }


def _as_read(data: dict[str, Any]) -> dict[str, Any]:
    """As JSON text gives it: two halves of a character, written apart, are one character."""
    read: dict[str, Any] = json.loads(json.dumps(data))
    return read


@functools.cache
def _unknown_wire() -> st.SearchStrategy[dict[str, Any]]:
    kind = pick(("teleport", "", "Run", 7, None, ["run"])) | texts()
    optional = _top() | {
        "tool_call_metadata": _metadata_wire() | _ODD,
        "args": json_values(),
        "extras": json_values(),
        "content": json_values(),
    }
    tagged = st.builds(
        lambda tag, kind, rest: {tag: kind, **rest},
        pick(("action", "observation")),
        kind,
        _fields({}, optional),
    )
    return _shuffled(tagged)


def unregistered(data: dict[str, Any]) -> dict[str, Any]:
    """The object with another tag, should text that was drawn happen to be the tag of a kind."""
    return {
        key: f"{value}?" if isinstance(value, str) and value in _FAMILIES.get(key, ()) else value
        for key, value in data.items()
    }
