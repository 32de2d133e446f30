"""Fields that a language model fills in: what is asked for is strict, what is taken is not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, PlainSerializer

from ..memory.rendering import clean

__all__ = ["Notes", "Text", "Texts", "as_text", "objects_in"]

_TRIES = 200  # places in a text at which a JSON object may begin
_DECODER = json.JSONDecoder(strict=False)
_BULLET = re.compile(r"\s*[-*•]\s+")
_NAME_KEYS = ("path", "name", "file", "function")


def as_text(value: Any, joint: str = "\n") -> str:
    """Any JSON value as a text: null is none, the items of a list or an object are joined."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value).strip()
    if isinstance(value, Mapping):
        value = [f"{key}: {as_text(item, '; ')}" for key, item in value.items()]
    if isinstance(value, list | tuple):
        return joint.join(filter(None, (as_text(item, joint) for item in value)))
    return json.dumps(value)


def objects_in(
    text: str, is_wanted: Callable[[dict[str, Any]], object]
) -> Iterator[tuple[dict[str, Any], int]]:
    """The JSON objects in a text that are wanted, and the length of each, in order; none of those
    that a wanted one holds."""
    at = text.find("{")
    for _ in range(_TRIES):
        if at < 0:
            return
        try:
            found, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            found, end = {}, at
        if found and is_wanted(found):
            yield found, end - at
        else:
            end = at + 1
        at = text.find("{", end)


def _texts(value: Any) -> tuple[str, ...]:
    """A list of texts; of a text its lines, of an object a text for each key."""
    value = _unpacked(value)
    if isinstance(value, str):
        value = [_BULLET.sub("", line, count=1) for line in value.split("\n")]
    elif isinstance(value, Mapping):
        value = [{key: item} for key, item in value.items()]
    elif not isinstance(value, list | tuple):
        value = [value]
    return tuple(dict.fromkeys(filter(None, (as_text(item, "; ") for item in _flat(value)))))


def _notes(value: Any) -> dict[str, str]:
    """Notes by name: from a list of objects or of texts ("name: note"), an object, or lines."""
    value = _unpacked(value)
    if isinstance(value, str):
        value = _texts(value)
    elif not isinstance(value, list | tuple):
        value = [value]
    notes: dict[str, str] = {}
    for item in _flat(value):
        for name, note in _named(item):
            if note or name not in notes:
                notes[name] = note
    return notes


def _named(item: Any) -> Iterator[tuple[str, str]]:
    """The names and notes that an item of a list tells."""
    pairs: Any = []
    if isinstance(item, Mapping):
        key = next((key for key in _NAME_KEYS if isinstance(item.get(key), str)), None)
        rest = {name: text for name, text in item.items() if name != key}
        pairs = rest.items() if key is None else [(item[key], _only(rest))]
    elif isinstance(item, str):
        name, _, note = item.partition(": ")
        pairs = [(name, note)]
    elif item is not None:
        pairs = [(item, "")]
    for name, note in pairs:
        texts = [text for text in (as_text(name, "; "), as_text(note)) if text]
        if texts:
            yield texts[0], "\n".join(texts[1:])


def _only(rest: dict[str, Any]) -> Any:
    """The one value of an object, without its key; or the object."""
    return next(iter(rest.values())) if len(rest) == 1 else rest


def _unpacked(value: Any) -> Any:
    """A list or an object of texts that was given as a text of JSON, as some models do."""
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            found = json.loads(value, strict=False)
        except (ValueError, RecursionError):
            return value
        items = found if isinstance(found, list) else [found]
        return found if all(map(_is_plain, items)) else value
    return [] if value is None else value


def _is_plain(item: Any) -> bool:
    texts = item.values() if isinstance(item, dict) else [item]
    return all(isinstance(text, str) for text in texts)


def _flat(value: Any) -> Iterator[Any]:
    for item in value:
        if isinstance(item, list | tuple):
            yield from _flat(item)
        else:
            yield item


def _listed(notes: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "note": note} for name, note in notes.items()]


Text: TypeAlias = Annotated[str, BeforeValidator(as_text)]
Texts: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Notes: TypeAlias = Annotated[dict[str, str], BeforeValidator(_notes), PlainSerializer(_listed)]
