"""Events to JSON and back, in OpenHands' wire shape, without losing anything.

``event_to_dict(event_from_dict(d)) == d`` for every event ``d``, key order included: a field that
was absent stays absent, an unknown field stays, and a value that a field cannot give back to the
letter (a timestamp written with a blank, say) is kept beside the event.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping
from datetime import datetime
from types import NoneType
from typing import Any, NamedTuple, get_args

from . import actions, condensation, observations  # noqa: F401  (a kind is known once imported)
from .event import (
    ACTIONS,
    OBSERVATIONS,
    Action,
    Event,
    EventSource,
    InvalidEvent,
    Observation,
    UnknownEvent,
    Wire,
    own_json,
    per_class,
)
from .tool_calls import ModelResponse, ToolCallMetadata

__all__ = ["event_from_dict", "event_to_dict"]


def event_from_dict(data: Mapping[str, Any]) -> Event:
    """The event that a JSON object describes; an :class:`UnknownEvent` if its kind is not known.

    ``data`` is not changed and not shared. Raises :class:`InvalidEvent` if it is no JSON object, or
    if a known kind's field holds something that it cannot be.
    """
    if not isinstance(data, (dict, Mapping)):  # dict first: it is faster to tell
        raise InvalidEvent(f"an event is a JSON object, found {type(data).__name__}")
    cls = _class_of(data)
    if cls is None:
        return unknown_event(data)
    fields: dict[str, Any] = {}
    payload_rest: dict[str, Any] = {}
    payload = data.get(_payload_name(cls))
    try:
        if isinstance(payload, (dict, Mapping)):
            shape = _shapes(cls)(tuple(data), tuple(payload))
            rest = _read(data, shape.top, fields)
            payload_rest = _read(payload, shape.payload, fields)
        else:  # the oldest files have an action's arguments beside its name
            shape = _shapes(cls)(tuple(data), None)
            rest = _read(data, shape.top, fields)
        fields["wire"] = shape.wire_with(rest, payload_rest)
        return cls(**fields)
    except (ValueError, TypeError, RecursionError) as error:
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
    wire = _shapes(UnknownEvent)(tuple(data), None).wire_with(odd, {})
    return UnknownEvent(**fields, name=str(name), data=own, wire=wire)


def event_to_dict(event: Event) -> dict[str, Any]:
    """The event as a JSON object in OpenHands' shape; as it was recorded if it was read from one.

    The object is the caller's: nothing in it is shared with the event.
    """
    wire = event.wire
    if isinstance(event, UnknownEvent):
        return _unknown_to_dict(event)
    if wire is None:
        return _fresh_to_dict(event)
    cls = type(event)
    shape = _shapes(cls)(wire.keys, wire.payload_keys)
    result = _write(event, wire.keys, shape.top, wire.rest)
    result[_tag_name(cls)] = cls.kind
    if wire.payload_keys is not None:
        payload = _write(event, wire.payload_keys, shape.payload, wire.payload_rest)
        result[_payload_name(cls)] = payload
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
    result[_tag_name(type(event))] = event.kind
    result |= _base_values(event, "tool_call_metadata", "llm_metrics")
    if isinstance(event, Observation):
        result["content"] = event.content
    elif isinstance(event, Action):
        result |= _base_values(event, "model_response")
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
    if type(value) in _SCALARS:
        return value
    if name == "timestamp":
        return value.isoformat()
    if name == "source":
        return value.value
    if name == "model_response":
        return value.to_dict()
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
_Keys = tuple[str, ...]


class _Level(NamedTuple):
    """What the keys of an event's JSON object, or of its payload, mean."""

    plain: _Keys  # fields of the same name that hold the value as it is
    others: tuple[tuple[str, str, Reader | None], ...]  # key, field and reader; None: unknown


class _Shape(NamedTuple):
    """What the events of a class that were recorded with the same keys have in common."""

    wire: Wire
    top: _Level
    payload: _Level

    def wire_with(self, rest: Mapping[str, Any], payload_rest: Mapping[str, Any]) -> Wire:
        if not rest and not payload_rest:
            return self.wire
        keys, payload_keys = self.wire.keys, self.wire.payload_keys
        return Wire(keys, payload_keys, rest, payload_rest or self.wire.payload_rest)


# Values that need no copy.
_SCALARS = frozenset({str, int, float, bool, NoneType})


def _read(data: Mapping[str, Any], level: _Level, into: dict[str, Any]) -> dict[str, Any]:
    """Puts what is known into ``into``; returns what must be kept beside the fields."""
    rest: dict[str, Any] = {}
    for key in level.plain:
        value = data[key]
        if value is None:
            rest[key] = None
        else:
            into[key] = value
    for key, name, reader in level.others:
        value = data[key]
        exact = False
        if value is None:  # as if absent, unless the field can be None; written back as null
            if reader is _read_nullable:
                into.setdefault(name, None)
        elif reader is not None and into.get(name) is None:  # of two names, the first counts
            into[name], exact = reader(value)
        if not exact:
            rest[key] = value if type(value) in _SCALARS else own_json(value)
    return rest


def _write(event: Event, keys: _Keys, level: _Level, rest: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = dict.fromkeys(keys)
    for key in level.plain:
        value = rest[key] if key in rest else getattr(event, key)
        result[key] = value if type(value) in _SCALARS else own_json(value)
    for key, name, _ in level.others:
        result[key] = own_json(rest[key]) if key in rest else _base_value(event, name)
    return result


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


_SOURCES = {source.value: source for source in EventSource}


def _read_source(value: Any) -> tuple[EventSource | None, bool]:
    source = _SOURCES.get(value) if isinstance(value, str) else None
    return source, source is not None


def _read_object(value: Any) -> tuple[Any, bool]:
    exact = isinstance(value, Mapping)
    return (value if exact else None), exact


def _read_response(value: Any) -> tuple[ModelResponse | None, bool]:
    exact = isinstance(value, Mapping)
    return (ModelResponse.of(value) if exact else None), exact


# In the order in which OpenHands writes them.
_METADATA_KEYS = ("function_name", "tool_call_id", "model_response", "total_calls_in_response")


def _read_metadata(value: Any) -> tuple[ToolCallMetadata, bool]:
    global _newest
    try:
        usual = tuple(value) == _METADATA_KEYS
        name, call, response, calls = value.values() if usual else map(value.get, _METADATA_KEYS)
        exact = usual and type(calls) is int
        if response is not None:
            response = ModelResponse.of(response)
        # An observation has the metadata of its action, mostly the event before: they share it.
        metadata = _newest
        if (
            not exact
            or metadata is None
            or metadata.model_response is not response
            or metadata.tool_call_id != call
            or metadata.function_name != name
            or metadata.total_calls_in_response != calls
        ):
            calls = 1 if calls is None else calls
            _newest = metadata = ToolCallMetadata(name, call, calls, response)
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidEvent(
            "tool_call_metadata needs function_name and tool_call_id (text), and may have "
            "total_calls_in_response (a number) and model_response (an object); found "
            f"{value!r:.200}"
        ) from error
    return metadata, exact


_newest: ToolCallMetadata | None = None


_BASE_READERS: dict[str, tuple[str, Reader]] = {
    "id": ("id", _read_id),
    "timestamp": ("timestamp", _read_time),
    "source": ("source", _read_source),
    "cause": ("cause", _read_cause),
    "tool_call_metadata": ("tool_call_metadata", _read_metadata),
    "llm_metrics": ("llm_metrics", _read_object),
}


@per_class
def _shapes(cls: type[Event]) -> Callable[[_Keys, _Keys | None], _Shape]:
    """What finds the shape of recorded keys; few occur on the wire, and the latest are kept."""
    tag, payload_name = _tag_name(cls), _payload_name(cls)
    readers = dict(_BASE_READERS)
    if issubclass(cls, Observation):
        readers["content"] = ("content", _as_it_is)
    else:
        readers["model_response"] = ("model_response", _read_response)
    payload_readers = _payload_readers(cls)

    @functools.lru_cache(maxsize=256)
    def shape(keys: _Keys, payload_keys: _Keys | None) -> _Shape:
        apart = (tag,) if payload_keys is None else (tag, payload_name)  # read on their own
        top = _level(
            tuple(key for key in keys if key not in apart),
            payload_readers | readers if payload_keys is None else readers,
        )
        payload = _level(payload_keys or (), payload_readers)
        return _Shape(Wire(keys, payload_keys, {}, {}), top, payload)

    return shape


def _level(keys: _Keys, readers: Mapping[str, tuple[str, Reader]]) -> _Level:
    found = {key: readers.get(key, (key, None)) for key in keys}
    names = [name for name, reader in found.values() if reader is not None]
    plain = tuple(
        key for key, known in found.items() if known == (key, _as_it_is) and names.count(key) == 1
    )
    others = ((key, name, reader) for key, (name, reader) in found.items() if key not in plain)
    return _Level(plain, tuple(others))


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


def _class_of(data: Mapping[str, Any]) -> type[Event] | None:
    action, observation = data.get("action"), data.get("observation")
    if isinstance(action, str):
        return ACTIONS.get(action)
    return OBSERVATIONS.get(observation) if isinstance(observation, str) else None


def _tag_name(cls: type[Event]) -> str:
    return "action" if issubclass(cls, Action) else "observation"


def _payload_name(cls: type[Event]) -> str:
    return "args" if issubclass(cls, Action) else "extras"


def _explain(cls: type[Event], error: Exception) -> str:
    from pydantic import ValidationError  # late, as everywhere: importing it takes long

    said = str(error)
    if isinstance(error, ValidationError):
        said = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'event'}: {e['msg']}"
            + ("" if e["type"] == "missing" else f", found {e['input']!r:.120}")
            for e in error.errors(include_url=False)
        )
    return f"not a valid {cls.__name__} ({cls.kind!r}): {said}"
