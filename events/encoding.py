"""Text that can be stored and sent: every string of it has a UTF-8 form."""

from __future__ import annotations

from typing import Any

from .event import Event, Wire, field_names

__all__ = ["storable", "visible"]


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

    Tool call metadata is left alone: the LLM response in it is kept as ASCII, as the model said it.
    """
    changes: dict[str, Any] = {}
    for name in field_names(type(event)):
        value = getattr(event, name)
        if isinstance(value, str | list | dict):
            clean = _visible_all(value)
            if clean is not value:
                changes[name] = clean
    wire = None if event.wire is None else _visible_wire(event.wire)
    if changes or wire is not event.wire:
        return event.replace(**changes, wire=wire)
    return event


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
