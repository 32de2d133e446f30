"""Events to JSON and back, in OpenHands' wire shape, without losing anything.

``event_to_dict(event_from_dict(d)) == d`` for every event ``d``, key order included: a field that
was
absent stays absent, an unknown field stays, and a value that a field cannot give back to the letter
(a timestamp written with a blank, say) is kept beside the event.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

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
    fields: dict[str, Any] = {}
    for key, (name, reader) in _BASE_READERS.items():
        with contextlib.suppress(InvalidEvent):  # what is no metadata is data like any other
            if data.get(key) is not None:
                fields[name] = reader(data[key])[0]
    args = data.get("args") if data.get("action") is not None else data.get("extras")
    fields["hidden"] = isinstance(args, Mapping) and args.get("hidden") is True
    name = data.get("action") or data.get("observation") or ""
    fields["wire"] = _interned((), None)  # replace() adds what is changed after the reading
    return UnknownEvent(**fields, name=str(name), data=dict(data))


def event_to_dict(event: Event) -> dict[str, Any]:
    """The event as a JSON object in OpenHands' shape; as it was recorded, if it was read from
    one."""
    wire = event.wire
    if isinstance(event, UnknownEvent):
        return own_json(event.data) | _unknown_changes(event)
    if wire is None:
        return _fresh_to_dict(event)
    payload_name = _payload_name(type(event))
    tag = "action" if isinstance(event, Action) else "observation"
    aliases = event.wire_aliases
    result: dict[str, Any] = {}
    for key in wire.keys:
        if key in wire.rest:
            result[key] = wire.rest[key]
        elif key == payload_name and wire.payload_keys is not None:
            result[key] = {
                name: wire.payload_rest[name]
                if name in wire.payload_rest
                else getattr(event, aliases.get(name, name))
                for name in wire.payload_keys
            }
        elif key == tag:
            result[key] = event.kind
        else:
            result[key] = _base_value(event, aliases.get(key, key))
    return result


def _unknown_changes(event: UnknownEvent) -> dict[str, Any]:
    """What an event of an unknown kind says beyond its data: all of it, or what was changed."""
    if event.wire is not None:
        return {key: _base_value(event, key) for key in event.wire.keys if key in _BASE_READERS}
    tagged = "action" in event.data or "observation" in event.data
    said = {"id": event.id} if event.id >= 0 else {}
    said |= {
        key: _base_value(event, key)
        for key in _BASE_READERS
        if key != "id" and getattr(event, key) is not None
    }
    return said if tagged else said | {"action": event.name}


def _fresh_to_dict(event: Event) -> dict[str, Any]:
    result: dict[str, Any] = {"id": event.id} if event.id >= 0 else {}
    for name in ("timestamp", "source", "cause"):
        if getattr(event, name) is not None:
            result[name] = _base_value(event, name)
    result["action" if isinstance(event, Action) else "observation"] = event.kind
    for name in ("tool_call_metadata", "llm_metrics"):
        if getattr(event, name) is not None:
            result[name] = _base_value(event, name)
    if isinstance(event, Observation):
        result["content"] = event.content
    payload = event.wire_payload()
    if event.hidden or event.kind == "run":
        payload["hidden"] = event.hidden
    result[_payload_name(type(event))] = payload
    return result


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
    return value


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
        if value is None or name in into:  # null: an absent field; twice: under its old name too
            rest[key] = own_json(value)
            continue
        into[name], exact = reader(value)
        if not exact:
            rest[key] = own_json(value)
    return rest


def _as_it_is(value: Any) -> tuple[Any, bool]:
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
    return {key: (name, _as_it_is) for key, name in names.items()}


@per_class
def _top_readers(cls: type[Event]) -> dict[str, tuple[str, Reader]]:
    """Readers of the top level where the payload has a level of its own."""
    # What the class says, and what is read on its own, is put under "wire", which is set last.
    skipped = ("action" if issubclass(cls, Action) else "observation", _payload_name(cls))
    readers = _BASE_READERS | {key: ("wire", _as_it_is) for key in skipped}
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
