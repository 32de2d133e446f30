"""Keeping secrets out of events: each one is replaced by :data:`HIDDEN`, however JSON writes it."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from .encoding import text_fields, values_getter, visible
from .event import Action, Event, InvalidArgument, UnknownEvent, Wire, field_names, per_class
from .tool_calls import ModelResponse, ToolCallMetadata

if TYPE_CHECKING:
    from pydantic import SecretStr

__all__ = ["HIDDEN", "Redaction", "Secrets"]

HIDDEN = "**********"
"""What stands where a secret was."""

Secrets: TypeAlias = "Mapping[str, str | SecretStr] | Iterable[str | SecretStr]"
"""The values of secrets, with or without their names."""

_log = logging.getLogger(__name__)

_SHORTEST = 6  # characters that a value must have to be hidden
_EVERYDAY = frozenset(  # values that hide nothing, in lower case
    """0.0.0.0 127.0.0.1 administrator changeme database default development disabled enabled
    example localhost password postgres private production public secret staging string system
    testing undefined unknown username""".split()  # noqa: SIM905
)


class Redaction:
    """Takes secrets out of events.

    A value below 6 characters, an everyday word (``localhost``, ``password``, ``production`` ...),
    or nothing but asterisks is not hidden, as it would be everywhere; a warning in the log names
    it by its name, never by its value. Empty values are ignored, and blanks around a value. Of
    two secrets, one within the other, the longer one is hidden.

    Hidden are the value as it is, and as JSON writes it, also in JSON within JSON. Left alone are
    numbers, ids, times, sources, tags, and the names of fields and tools. No way of showing,
    copying or pickling this object shows a secret.
    """

    def __init__(self, secrets: Secrets, more_than: Redaction | None = None) -> None:
        """``more_than``: hides the secrets of that one, too.

        Raises :class:`InvalidArgument` for secrets that are not text.
        """
        import pydantic_core

        values = {*_worth_hiding(secrets), *(() if more_than is None else more_than._values)}
        self._values: list[str] = sorted(values, key=lambda value: (-len(value), value))
        self._patterns = [re.compile(_pattern(value)) for value in self._values]
        self._any = re.compile("|".join(p.pattern for p in self._patterns) or "(?!)")
        self._cores = [_core(value).encode() for value in self._values]
        self._to_json = pydantic_core.to_json
        # The newest response with its clean form: an action and its observation share one.
        self._newest: tuple[ModelResponse | None, ModelResponse | None] = (None, None)

    def __len__(self) -> int:
        """How many secrets are hidden."""
        return len(self._values)

    def __repr__(self) -> str:
        return f"<Redaction of {len(self)} secrets>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets are not copied or pickled")

    def event(self, event: Event) -> Event:
        """The event without the secrets; the same one if it holds none."""
        names, values_of = _fields(type(event))
        found = values_of(event)
        changes = self._responses(event)
        wire = event.wire
        written = wire and (wire.keys, wire.payload_keys, wire.rest, wire.payload_rest)
        if not changes and not self._may_be_in((found, written) if written else found):
            return event
        for name, value in zip(names, found, strict=True):
            is_whole = name == "data" and isinstance(event, UnknownEvent)
            clean = self._top(value, type(event)) if is_whole else self.json(value)
            if clean != value:
                changes[name] = clean
        clean_wire = None if wire is None else self._wire(wire, type(event))
        if not changes and clean_wire == wire:
            return event
        return event.replace(**changes, wire=clean_wire)

    def _responses(self, event: Event) -> dict[str, Any]:
        """What changes where an event holds an LLM response with a secret in it."""
        changes: dict[str, Any] = {}
        metadata = event.tool_call_metadata
        if metadata is not None and metadata.model_response is not None:
            response = self.response(metadata.model_response)
            if response is not metadata.model_response:
                changes["tool_call_metadata"] = ToolCallMetadata(
                    metadata.function_name,
                    metadata.tool_call_id,
                    metadata.total_calls_in_response,
                    response,
                )
        if isinstance(event, Action) and event.model_response is not None:
            response = self.response(event.model_response)
            if response is not event.model_response:
                changes["model_response"] = response
        return changes

    def response(self, response: ModelResponse) -> ModelResponse:
        """An LLM response without the secrets; the same one if it holds none.

        Call arguments stay JSON. Thinking blocks that hold a secret are left out as a whole: a
        provider refuses signed thinking that was changed.
        """
        given, clean = self._newest
        if clean is not None and (response is given or response is clean):
            return clean
        clean = response
        # A model may write any letter of its arguments as an escape.
        if b"\\u00" in response.json or self._are_in(response.json):
            data = response.to_dict()
            said = self._said(data)
            if said != data:
                clean = ModelResponse.of(said)
        self._newest = response, clean
        return clean

    def json(self, value: Any) -> Any:
        """A copy of JSON data without the secrets in its text, keys included."""
        if isinstance(value, str):
            return value if isinstance(value, Enum) else self.text(value)
        if isinstance(value, list):
            return [self.json(item) for item in value]
        if isinstance(value, tuple):
            return tuple(self.json(item) for item in value)
        if not isinstance(value, Mapping):
            return value
        result: dict[str, Any] = {}
        for key, item in value.items():
            name = self.json(key)
            while name in result:  # another secret was a key
                name += "*"
            result[name] = self.json(item)
        return result

    def text(self, text: str) -> str:
        """The text without the secrets."""
        while self._any.search(text):  # hiding one may put the parts of another together
            for pattern in self._patterns:
                text = pattern.sub(HIDDEN, text)
        return text

    def _may_be_in(self, values: object) -> bool:
        try:
            return self._are_in(self._to_json(values))
        except ValueError:  # lone surrogates, say: worth a closer look
            return True

    def _are_in(self, json_text: bytes) -> bool:
        """False if certainly no secret is in a JSON text: a part of each is never escaped."""
        for core in self._cores:  # noqa: SIM110  (half the time of any())
            if core in json_text:
                return True
        return False

    # ------------------------------------------------------------------ what has names in it

    def _top(self, data: Mapping[str, Any], cls: type[Event]) -> dict[str, Any]:
        """What stands at the top of an event's JSON: the names of its kind stay."""
        names = _names(cls)
        return {
            key if key in names else self.text(key): value
            if key in _STAYS
            else self._said(value)
            if key in ("tool_call_metadata", "model_response")
            else self.json(value)
            for key, value in data.items()
        }

    def _wire(self, wire: Wire, cls: type[Event]) -> Wire:
        names = _names(cls)

        def hidden(keys: Iterable[str]) -> tuple[str, ...]:
            return tuple(key if key in names else self.text(key) for key in keys)

        return Wire(
            hidden(wire.keys),
            None if wire.payload_keys is None else hidden(wire.payload_keys),
            self._top(wire.rest, cls),
            dict(
                zip(
                    hidden(wire.payload_rest),
                    map(self.json, wire.payload_rest.values()),
                    strict=True,
                )
            ),
        )

    def _said(self, value: Any) -> Any:
        """A part of a response, or of metadata of a shape of its own, in which names are known."""
        if isinstance(value, list):
            return [self._said(item) for item in value]
        if not isinstance(value, dict):
            return self.json(value)
        result: dict[str, Any] = {}
        for key, item in value.items():
            if key in _STAYS_SAID and isinstance(item, str):
                result[key] = item
            elif key in _WITHIN:
                result[key] = self._said(item)
            elif key == "arguments" and isinstance(item, str):
                result[key] = self._arguments(item)
            else:
                clean = self.json(item)
                if key != "thinking_blocks" or clean == item:
                    result[key] = clean
        return result

    def _arguments(self, text: str) -> str:
        """The arguments of a call as the model wrote them; if it wrote JSON, JSON again."""
        found = self._any.search(text) is not None
        if not found and "\\u00" not in text:
            return text
        try:
            data = json.loads(text, strict=False)
            clean = self.json(data)
            if not found and clean == data:
                return text
            return visible(json.dumps(clean, ensure_ascii=False))
        except (ValueError, RecursionError):
            return self.text(text)


_STAYS = frozenset({"id", "timestamp", "source", "cause", "action", "observation"})
# In a response: what stays as well, and what such names are in.
_STAYS_SAID = frozenset(
    {"id", "type", "role", "object", "name", "finish_reason", "function_name", "tool_call_id"}
)
_WITHIN = frozenset(
    {
        "choices",
        "function",
        "function_call",
        "message",
        "model_response",
        "provider_specific_fields",
        "tool_calls",
    }
)
_NAMED_AS_THEIR_TOOL = ("call_tool_mcp", "mcp")  # the kinds whose `name` is a tool's


@per_class
def _fields(cls: type[Event]) -> tuple[tuple[str, ...], Callable[[Event], tuple[Any, ...]]]:
    """The fields of a class that can hold a secret, and how to get all their values."""
    stays = {field.name for field in dataclasses.fields(cls) if "Literal[" in str(field.type)}
    if cls is UnknownEvent or cls.kind in _NAMED_AS_THEIR_TOOL:
        stays.add("name")
    names = (*(name for name in text_fields(cls) if name not in stays), "llm_metrics")
    return names, values_getter(names)


@per_class
def _names(cls: type[Event]) -> frozenset[str]:
    """The names under which an event of the class is written."""
    tops = ("action", "args", "observation", "extras", "content", "message")
    return frozenset((*field_names(cls), *cls.wire_aliases, *tops))


def _worth_hiding(secrets: Secrets) -> Iterator[str]:
    if isinstance(secrets, str | bytes) or not isinstance(secrets, Iterable):
        raise InvalidArgument(
            "secrets are a mapping of names to values, or an iterable of values; found "
            f"{type(secrets).__name__}"
        )
    named = (
        secrets.items()
        if isinstance(secrets, Mapping)
        else ((f"number {place}", value) for place, value in enumerate(secrets, 1))
    )
    for name, given in named:
        value = given if isinstance(given, str) else _revealed(given)
        if value is None:
            raise InvalidArgument(
                f"the value of a secret is text; that of {name!r} is {type(given).__name__}"
            )
        value = value.strip()
        if len(value) >= _SHORTEST and value.casefold() not in _EVERYDAY and value.strip("*"):
            yield value
        elif value:
            _log.warning(
                "the secret %r is not hidden: its value is shorter than %d characters, or too "
                "common a word",
                name,
                _SHORTEST,
            )


def _revealed(secret: Any) -> str | None:
    reveal = getattr(secret, "get_secret_value", None)
    value = reveal() if callable(reveal) else None
    return value if isinstance(value, str) else None


def _core(secret: str) -> str:
    """The longest part of a secret that JSON never writes in another way."""
    return max(re.findall(r"[A-Za-z0-9]+", secret), key=len, default="")


def _pattern(secret: str) -> str:
    """A regular expression that finds a secret as it is, and as JSON (in JSON ...) writes it."""
    parts = re.findall(r"(\\*)([^\\]?)", secret, re.DOTALL)
    return "".join(_written(len(backslashes), char) for backslashes, char in parts)


_SHORT = {"\b": "b", "\t": "t", "\n": "n", "\f": "f", "\r": "r"}


def _written(backslashes: int, char: str) -> str:
    """The same for a character (or the end) and the backslashes before it.

    At each level JSON doubles backslashes and adds some, so that of a row of them only the least
    length is known. A row is taken from its start and as a whole: otherwise one of a thousand
    would be tried from a thousand places.
    """
    row = rf"(?<!\\)\\{{{backslashes or 1},}}+"
    if not char or (char.isascii() and char.isalnum()):
        return (row if backslashes else "") + char
    plain = re.escape(char)
    units = char.encode("utf-16-be", "surrogatepass").hex()
    code = r"\\++".join(f"u{units[at : at + 4]}" for at in range(0, len(units), 4))
    escaped = f"{row}(?:{plain}|{_SHORT.get(char, plain)}|(?i:{code}))"
    return escaped if backslashes else f"(?:{plain}|{escaped})"
