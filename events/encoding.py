"""Text that can be stored and sent: every string of it has a UTF-8 form."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from operator import attrgetter
from types import NoneType
from typing import Any

from .event import Event, Wire, per_class

__all__ = ["storable", "text_fields", "values_getter", "visible"]


def visible(text: str) -> str:
    """The text with each lone surrogate as a visible escape such as ``\\udc80``."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def storable(event: Event) -> Event:
    """The event with all of its own text made visible; the same one if nothing was to be done.

    The LLM response in it is left alone: it is kept as ASCII, as the model said it.
    """
    found = _values(type(event))(event)
    wire, metrics = event.wire, event.llm_metrics
    if (
        _is_ascii(found)
        and (metrics is None or _is_written_in_ascii(metrics))
        and (wire is None or _is_wire_ascii(wire))
    ):
        return event
    changes: dict[str, Any] = {}
    for name, value in zip(
        (*text_fields(type(event)), "llm_metrics"), (*found, metrics), strict=True
    ):
        clean = _visible_all(value)
        if clean is not value:
            changes[name] = clean
    wire = None if wire is None else _visible_wire(wire)
    if changes or wire is not event.wire:
        return event.replace(**changes, wire=wire)
    return event


_SCALARS = {NoneType, bool, int, float}
_NO_TEXT_IN = {
    "timestamp",
    "source",
    "tool_call_metadata",
    "llm_metrics",
    "model_response",
    "wire",
}
_NO_TEXT = ("bool", "float", "int", "int | None", "list[int] | None", bool, float, int)


@per_class
def text_fields(cls: type[Event]) -> tuple[str, ...]:
    """The names of a class's own fields that can hold text, by their annotations."""
    return tuple(
        field.name
        for field in dataclasses.fields(cls)
        if field.name not in _NO_TEXT_IN and field.type not in _NO_TEXT
    )


def values_getter(names: tuple[str, ...]) -> Callable[[Event], tuple[Any, ...]]:
    """What gives the values of an event's fields."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda event: tuple(getattr(event, name) for name in names)  # attrgetter: no tuple


@per_class
def _values(cls: type[Event]) -> Callable[[Event], tuple[Any, ...]]:
    return values_getter(text_fields(cls))


def _is_ascii(values: Iterable[Any]) -> bool:
    """Whether all text in JSON data is ASCII: it mostly is, that is quickly known, and then it is
    visible."""
    for value in values:
        if isinstance(value, str):
            if not value.isascii():
                return False
        elif type(value) in _SCALARS:
            continue
        elif isinstance(value, dict):
            if not (_is_ascii(value) and _is_ascii(value.values())):
                return False
        elif isinstance(value, list | tuple) and not _is_ascii(value):
            return False
    return True


def _is_written_in_ascii(data: Any) -> bool:
    """The same for data with little text and many numbers: quicker, unless the text is long."""
    import pydantic_core

    try:
        return pydantic_core.to_json(data).isascii()
    except ValueError:  # a lone surrogate, say
        return False


def _is_wire_ascii(wire: Wire) -> bool:
    keys_are_ascii = _are_keys_ascii(wire.keys, wire.payload_keys)
    return keys_are_ascii and _is_ascii((wire.rest, wire.payload_rest))


@functools.lru_cache(maxsize=256)
def _are_keys_ascii(*keys: tuple[str, ...] | None) -> bool:
    """The same for recorded keys, of which few occur on the wire."""
    return _is_ascii(keys)


def _visible_wire(wire: Wire) -> Wire:
    payload_keys = wire.payload_keys
    clean = Wire(
        tuple(map(visible, wire.keys)),
        payload_keys if payload_keys is None else tuple(map(visible, payload_keys)),
        {
            visible(key): value if key == "tool_call_metadata" else _visible_all(value)
            for key, value in wire.rest.items()
        },
        _visible_all(wire.payload_rest),
    )
    return wire if clean == wire else clean


def _visible_all(value: Any) -> Any:
    """Makes the strings in JSON data visible; the very same object if nothing was to be done."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        items = [_visible_all(item) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else items
    if isinstance(value, dict):
        pairs = {visible(key): _visible_all(item) for key, item in value.items()}
        same = all(
            new_key is key and pairs[new_key] is item
            for (key, item), new_key in zip(value.items(), pairs, strict=False)
        )
        return value if same and len(pairs) == len(value) else pairs
    return value
