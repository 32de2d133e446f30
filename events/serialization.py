"""Events to JSON and back, in OpenHands' wire shape, without losing anything.

``event_to_dict(event_from_dict(d)) == d`` for every event ``d``, key order included: a field that
was
absent stays absent, an unknown field stays, and a value that a field cannot give back to the letter
(a timestamp written with a blank, say) is kept beside the event.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, get_args

from pydantic import ValidationError

from . import actions, condensation, observations  # noqa: F401  (a kind is known once imported)
from .event import (
    ACTIONS,
    OBSERVATIONS,
    Action,
    Event,
    InvalidEvent,
    Observation,
    UnknownEvent,
    Wire,
    own_json,
    per_class,
)
from .tool_calls import ToolCallMetadata

__all__ = ["event_from_dict", "event_to_dict"]


def event_from_dict(data: Mapping[str, Any]) -> Event:
    """The event that a JSON object describes; an :class:`UnknownEvent` if its kind is not known.

    ``data`` is not changed and not shared. Raises :class:`InvalidEvent` if it is no JSON object, or
    if a known kind's field holds something that it cannot be.
    """
    if not isinstance(data, Mapping):
        raise InvalidEvent(f"an event is a JSON object, found {type(data).__name__}")
    cls = _class_of(data)
    if cls is None:
        return unknown_event(data)
    fields: dict[str, Any] = {}
    payload = data.get(_payload_name(cls))
    try:
        if isinstance(payload, Mapping):
            rest = _read(data, _top_readers(cls), fields)
            payload_rest = _read(payload, _payload_readers(cls), fields)
            fields["wire"] = _wire(tuple(data), tuple(payload), rest, payload_rest)
        else:  # the oldest files have an action's arguments beside its name
            rest = _read(data, _flat_readers(cls), fields)
            fields["wire"] = _wire(tuple(data), None, rest, {})
        return cls(**fields)
    except (ValidationError, ValueError, TypeError, RecursionError) as error:
        raise InvalidEvent(_explain(cls, error)) from error


def unknown_event(data: Mapping[str, Any]) -> UnknownEvent:
    """Keeps a JSON object as an event of an unknown kind, whatever it holds."""
    fields: dict[str, Any] = {"hidden": _is_hidden(data)}
    odd: dict[str, Any] = {}
    for key, (_, reader) in _BASE_READERS.items():
        exact = key not in data
        with contextlib.suppress(InvalidEvent):  # metadata of a shape of its own is data
            if data.get(key) is not None:
                fields[key], exact = reader(data[key])
        if not exact:
            odd[key] = own_json(data[key])
    name = data.get("action") or data.get("observation") or ""
    own = {key: value for key, value in data.items() if key not in _BASE_READERS}
    return UnknownEvent(**fields, name=str(name), data=own, wire=_wire(tuple(data), None, odd, {}))


def event_to_dict(event: Event) -> dict[str, Any]:
    """The event as a JSON object in OpenHands' shape; as it was recorded if it was read from one.

    The object is the caller's: nothing in it is shared with the event.
    """
    wire = event.wire
    if isinstance(event, UnknownEvent):
        return _unknown_to_dict(event)
    if wire is None:
        return _fresh_to_dict(event)
    payload_name = _payload_name(type(event))
    tag = "action" if isinstance(event, Action) else "observation"
    aliases = event.wire_aliases
    result: dict[str, Any] = {}
    for key in wire.keys:
        if key in wire.rest:
            result[key] = own_json(wire.rest[key])
        elif key == payload_name and wire.payload_keys is not None:
            result[key] = {
                name: own_json(
                    wire.payload_rest[name]
                    if name in wire.payload_rest
                    else getattr(event, aliases.get(name, name))
                )
                for name in wire.payload_keys
            }
        elif key == tag:
            result[key] = event.kind
        else:
            result[key] = _base_value(event, aliases.get(key, key))
    return result


def _unknown_to_dict(event: UnknownEvent) -> dict[str, Any]:
    wire = event.wire
    if wire is None:
        result = _base_values(event, *_BASE_READERS)
        if "action" not in event.data and "observation" not in event.data:
            result["action"] = event.name
    else:
        result = {
            key: own_json(wire.rest[key] if key in wire.rest else event.data[key])
            if key in wire.rest or key in event.data
            else _base_value(event, key)
            for key in wire.keys
            if key in _BASE_READERS or key in event.data
        }
    result |= {key: own_json(event.data[key]) for key in event.data if key not in result}
    if event.hidden != _is_hidden(result):
        payload = "extras" if event.is_observation else "args"
        held = result.get(payload)
        result[payload] = {**(held if isinstance(held, dict) else {}), "hidden": event.hidden}
    return result


def _is_hidden(data: Mapping[str, Any]) -> bool:
    payload = data.get("extras" if data.get("observation") is not None else "args")
    return isinstance(payload, Mapping) and payload.get("hidden") is True


def _fresh_to_dict(event: Event) -> dict[str, Any]:
    result = _base_values(event, "id", "timestamp", "source", "cause")
    result["action" if isinstance(event, Action) else "observation"] = event.kind
    result |= _base_values(event, "tool_call_metadata", "llm_metrics")
    if isinstance(event, Observation):
        result["content"] = event.content
    payload = event.wire_payload()
    if event.hidden or event.kind == "run":
        payload["hidden"] = event.hidden
    result[_payload_name(type(event))] = own_json(payload)
    return result


def _base_values(event: Event, *names: str) -> dict[str, Any]:
    """Those of the fields that every event has which say something."""
    values = {name: _base_value(event, name) for name in names}
    return {
        name: value
        for name, value in values.items()
        if value is not None and (name != "id" or value >= 0)
    }


def _base_value(event: Event, name: str) -> Any:
    value = getattr(event, name)
    if value is None:
        return None
    if name == "timestamp":
        return value.isoformat()
    if name == "source":
        return value.value
    if name == "tool_call_metadata":
        response = value.model_response
        return {
            "function_name": value.function_name,
            "tool_call_id": value.tool_call_id,
            "model_response": None if response is None else response.to_dict(),
            "total_calls_in_response": value.total_calls_in_response,
        }
    return own_json(value)


# A reader turns a recorded value into a field's value and says whether the field gives the recorded
# value back exactly; where it does not, the recorded value is kept beside the event.
Reader = Callable[[Any], tuple[Any, bool]]


def _read(
    data: Mapping[str, Any], readers: Mapping[str, tuple[str, Reader]], into: dict[str, Any]
) -> dict[str, Any]:
    """Puts what ``readers`` know into ``into``; returns what must be kept beside the fields."""
    rest: dict[str, Any] = {}
    for key, value in data.items():
        known = readers.get(key)
        if known is None:
            rest[key] = own_json(value)
            continue
        name, reader = known
        if name == "wire":  # the kind and the payload, which are read on their own
            continue
        if value is None:  # as if absent, unless the field can be None; written back as null
            rest[key] = None
            if reader is _read_nullable:
                into.setdefault(name, None)
            continue
        if into.get(name) is not None:  # said under its old name too: the first one counts
            rest[key] = own_json(value)
            continue
        into[name], exact = reader(value)
        if not exact:
            rest[key] = own_json(value)
    return rest


def _as_it_is(value: Any) -> tuple[Any, bool]:
    return value, True


def _read_nullable(value: Any) -> tuple[Any, bool]:
    return value, True


def _read_id(value: Any) -> tuple[int, bool]:
    exact = type(value) is int and value >= 0
    return (value if exact else -1), exact


def _read_cause(value: Any) -> tuple[int | None, bool]:
    exact = type(value) is int
    return (value if exact else None), exact


def _read_time(value: Any) -> tuple[datetime | None, bool]:
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None, False
    return time, time.isoformat() == value


def _read_source(value: Any) -> tuple[str | None, bool]:
    exact = value in ("agent", "user", "environment")
    return (value if exact else None), exact


def _read_object(value: Any) -> tuple[Any, bool]:
    exact = isinstance(value, Mapping)
    return (value if exact else None), exact


# In the order in which OpenHands writes them.
_METADATA_KEYS = ("function_name", "tool_call_id", "model_response", "total_calls_in_response")


def _read_metadata(value: Any) -> tuple[ToolCallMetadata, bool]:
    try:
        given = {key: value[key] for key in _METADATA_KEYS if value.get(key) is not None}
        metadata = ToolCallMetadata(**given)
    except (ValidationError, ValueError, TypeError, AttributeError) as error:
        raise InvalidEvent(
            "tool_call_metadata needs function_name and tool_call_id (text), and may have "
            "total_calls_in_response (a number) and model_response (an object); found "
            f"{value!r:.200}"
        ) from error
    exact = tuple(value) == _METADATA_KEYS and type(value["total_calls_in_response"]) is int
    return metadata, exact


_BASE_READERS: dict[str, tuple[str, Reader]] = {
    "id": ("id", _read_id),
    "timestamp": ("timestamp", _read_time),
    "source": ("source", _read_source),
    "cause": ("cause", _read_cause),
    "tool_call_metadata": ("tool_call_metadata", _read_metadata),
    "llm_metrics": ("llm_metrics", _read_object),
}


@per_class
def _payload_readers(cls: type[Event]) -> dict[str, tuple[str, Reader]]:
    names = {name: name for name in (*cls.payload_fields, "hidden")} | cls.wire_aliases
    nullable = {field.name for field in dataclasses.fields(cls) if _can_be_none(field.type)}
    return {
        key: (name, _read_nullable if name in nullable else _as_it_is)
        for key, name in names.items()
    }


def _can_be_none(annotation: Any) -> bool:
    """Whether a field says that it may be None; annotations may be text, not yet evaluated."""
    if isinstance(annotation, str):
        return annotation.endswith("| None") or annotation.startswith("Optional[")
    return type(None) in get_args(annotation)


@per_class
def _top_readers(cls: type[Event]) -> dict[str, tuple[str, Reader]]:
    """Readers of the top level where the payload has a level of its own."""
    # "wire" is what the class says, and what is read on its own.
    skipped = ("action" if issubclass(cls, Action) else "observation", _payload_name(cls))
    readers = _BASE_READERS | dict.fromkeys(skipped, ("wire", _as_it_is))
    return readers | ({"content": ("content", _as_it_is)} if issubclass(cls, Observation) else {})


@per_class
def _flat_readers(cls: type[Event]) -> dict[str, tuple[str, Reader]]:
    """Readers where the payload's fields stand at the top level."""
    readers = _payload_readers(cls) | _top_readers(cls)
    del readers[_payload_name(cls)]
    return readers


@functools.cache
def _interned(keys: tuple[str, ...], payload_keys: tuple[str, ...] | None) -> Wire:
    return Wire(keys, payload_keys, {}, {})


def _wire(
    keys: tuple[str, ...],
    payload_keys: tuple[str, ...] | None,
    rest: dict[str, Any],
    payload_rest: dict[str, Any],
) -> Wire:
    shape = _interned(keys, payload_keys)  # the key sets on the wire are few
    if not rest and not payload_rest:
        return shape
    return Wire(shape.keys, shape.payload_keys, rest, payload_rest)


def _class_of(data: Mapping[str, Any]) -> type[Event] | None:
    action, observation = data.get("action"), data.get("observation")
    if isinstance(action, str):
        return ACTIONS.get(action)
    return OBSERVATIONS.get(observation) if isinstance(observation, str) else None


def _payload_name(cls: type[Event]) -> str:
    return "args" if issubclass(cls, Action) else "extras"


def _explain(cls: type[Event], error: Exception) -> str:
    said = str(error)
    if isinstance(error, ValidationError):
        said = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'event'}: {e['msg']}"
            + ("" if e["type"] == "missing" else f", found {e['input']!r:.120}")
            for e in error.errors(include_url=False)
        )
    return f"not a valid {cls.__name__} ({cls.kind!r}): {said}"
