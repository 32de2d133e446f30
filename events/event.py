"""What happened: the immutable event, its two families, and the registry of kinds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from enum import StrEnum
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, dataclass_transform

from .tool_calls import Response, ToolCallMetadata
from .validated import (
    CheckedBy,
    Validated,
    copier,
    field_names as field_names,
    per_class as per_class,
    validated,
)

if TYPE_CHECKING:
    from pydantic import ConfigDict, GetCoreSchemaHandler
    from pydantic_core import CoreSchema

__all__ = [
    "Action",
    "Event",
    "EventSource",
    "EventfoldError",
    "InvalidArgument",
    "InvalidEvent",
    "Json",
    "JsonObject",
    "Observation",
    "Text",
    "UnknownEvent",
    "Wire",
    "register_event",
]


class EventfoldError(Exception):
    """The root of every error that eventfold raises on purpose."""


class InvalidArgument(EventfoldError, ValueError):
    """A caller's argument is out of its range; the message names the value and the range."""


class InvalidEvent(EventfoldError, ValueError):
    """Something is not an event; the message names the kind, the field and the value found."""


class EventSource(StrEnum):
    """Who caused an event."""

    AGENT = "agent"
    USER = "user"
    ENVIRONMENT = "environment"


# How pydantic checks a field where its type does not say it; called when the first event is made.


def _any_text(_: Any, __: GetCoreSchemaHandler) -> CoreSchema:
    """A ``str`` taken as it is: unlike pydantic's own, one with lone surrogates is accepted."""
    from pydantic_core import core_schema

    return core_schema.is_instance_schema(str)


def _owned_json(_: Any, __: GetCoreSchemaHandler) -> CoreSchema:
    """JSON data, copied: what the caller does to its containers later cannot change the log."""
    from pydantic_core import core_schema

    return core_schema.no_info_plain_validator_function(own_json)


def _owned_object(_: Any, __: GetCoreSchemaHandler) -> CoreSchema:
    from pydantic_core import core_schema

    return core_schema.no_info_plain_validator_function(_own_object)


def _lax(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """Also what can be read as the type: text as a time or a source."""
    from pydantic import Strict

    return handler.generate_schema(Annotated[source, Strict(False)])


def _instance(source: Any, _: GetCoreSchemaHandler) -> CoreSchema:
    from pydantic_core import core_schema

    return core_schema.is_instance_schema(source)


Text = Annotated[str, CheckedBy(_any_text)]
Json = Annotated[Any, CheckedBy(_owned_json)]
JsonObject = Annotated[dict[str, Any], CheckedBy(_owned_object)]


_Class = TypeVar("_Class", bound="type[Event]")


_SCALARS = frozenset({str, int, float, bool, NoneType})


def own_json(value: Any) -> Any:
    """A copy of JSON data (tuples become lists, keys text). Raises ``ValueError`` for other
    data."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, (dict, Mapping)):  # a class of its own is slower to ask
        return {
            str(key): item if type(item) in _SCALARS else own_json(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [own_json(item) for item in value]
    if isinstance(value, str | int | float):
        return value
    raise ValueError(f"expected JSON data (text, number, list, object), found {type(value)!r}")


def _own_object(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected a JSON object, found {type(value).__name__}")
    return own_json(value)


@dataclasses.dataclass(frozen=True, slots=True)
class Wire:
    """How an event was written where it was read, beyond what its fields say.

    ``keys`` and ``payload_keys`` are the recorded key orders (of the event, and of its ``args`` or
    ``extras``); ``rest`` and ``payload_rest`` hold the recorded values that no field gives back.
    """

    keys: tuple[str, ...]
    payload_keys: tuple[str, ...] | None
    rest: Mapping[str, Any]
    payload_rest: Mapping[str, Any]

    def without(self, changed: Mapping[str, Any], of: Event) -> Wire:
        """The same, for a copy of the event ``of`` in which some fields were changed: their new
        values are written, under the names that were recorded."""
        inside = {name for name in changed if name in (*of.payload_fields, "hidden")}
        if self.payload_keys is None:  # all stands at the top level
            inside = set()
        outside = [name for name in changed if name not in inside]

        def with_new(keys: tuple[str, ...], names: Collection[str]) -> tuple[str, ...]:
            written = {of.wire_aliases.get(key, key) for key in keys}
            return keys + tuple(name for name in changed if name in names and name not in written)

        def without_old(rest: Mapping[str, Any], names: Collection[str]) -> Mapping[str, Any]:
            return {key: rest[key] for key in rest if of.wire_aliases.get(key, key) not in names}

        return Wire(
            with_new(self.keys, outside),
            None if self.payload_keys is None else with_new(self.payload_keys, inside),
            without_old(self.rest, outside),
            without_old(self.payload_rest, inside),
        )


_CONFIG: ConfigDict = {"arbitrary_types_allowed": True, "extra": "forbid", "strict": True}


@validated(_CONFIG, kw_only=True)
class Event(Validated):
    """One thing that happened. Immutable; a changed copy is made with :meth:`replace`.

    ``id`` is dense from 0 within a stream and -1 before the event is appended. ``cause`` is the id
    of the event that this one answers. A ``hidden`` event is kept in the log and never shown to an
    LLM.
    """

    kind: ClassVar[str] = ""
    payload_fields: ClassVar[tuple[str, ...]] = ()
    wire_aliases: ClassVar[dict[str, str]] = {}

    id: int = -1
    timestamp: Annotated[datetime | None, CheckedBy(_lax)] = None
    source: Annotated[EventSource | None, CheckedBy(_lax)] = None
    cause: int | None = None
    tool_call_metadata: ToolCallMetadata | None = None
    llm_metrics: JsonObject | None = None
    hidden: bool = False
    wire: Annotated[Wire, CheckedBy(_instance)] | None = None

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed. The values are taken as valid; they are not checked."""
        if self.wire is not None and "wire" not in changes:
            changes["wire"] = self.wire.without(changes, self)
        copy: Callable[[Self, Mapping[str, Any]], Self] = copier(type(self))
        return copy(self, changes)

    def wire_payload(self) -> dict[str, Any]:
        """The fields of ``args`` (of ``extras``) as JSON, for an event that was not read from
        any."""
        return {name: getattr(self, name) for name in self.payload_fields}

    def llm_text(self) -> str | None:
        """The text that an LLM is shown for this event; None leaves it to the kind's default."""
        return None

    def __eq__(self, other: object) -> bool:
        """Equal kinds with equal fields; how they were written (``wire``) does not count."""
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        return all(
            getattr(self, name) == getattr(other, name)
            for name in field_names(type(self))
            if name != "wire"
        )

    def __hash__(self) -> int:
        return hash((type(self), self.id, self.cause))

    def __repr__(self) -> str:
        fields = (type(self).__dataclass_fields__[name] for name in field_names(type(self)))
        said = (
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields
            if f.name != "wire" and getattr(self, f.name) != f.default
        )
        return f"{type(self).__name__}({', '.join(said)})"


ACTIONS: dict[str, type[Action]] = {}
OBSERVATIONS: dict[str, type[Observation]] = {}


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def register_event(kind: str) -> Callable[[_Class], _Class]:
    """Class decorator: makes a frozen event class of an annotated class and gives it its JSON tag.

    The class derives from :class:`Action` (tag in ``action``, fields in ``args``) or from
    :class:`Observation` (tag in ``observation``, ``content``, further fields in ``extras``). It may
    define ``llm_text()``. Raises :class:`InvalidArgument` for a tag that is taken.

    >>> @register_event("deploy")
    ... class DeployAction(Action):
    ...     target: str
    """

    def register(cls: _Class) -> _Class:
        family: dict[str, Any]
        above: type[Event]
        if issubclass(cls, Action):
            family, above = ACTIONS, Action
        elif issubclass(cls, Observation):
            family, above = OBSERVATIONS, Observation
        else:
            raise InvalidArgument(f"{cls.__name__} must derive from Action or Observation")
        if kind in family:
            raise InvalidArgument(
                f"the kind {kind!r} is taken by {family[kind].__name__}; choose another tag"
            )
        made: Any = validated(_CONFIG)(cls)
        made.kind = kind
        made.payload_fields = tuple(
            name for name in field_names(made) if name not in field_names(above)
        )
        family[kind] = made
        return made  # type: ignore[no-any-return]

    return register


@validated(_CONFIG, kw_only=True)
class Action(Event):
    """Something that the agent (or the user) does.

    ``model_response`` is the LLM response behind it where no tool call holds that: of an answer in
    text. It keeps what the text does not say, such as the model's reasoning.
    """

    model_response: Response = None


@validated(_CONFIG)
class Observation(Event):
    """Something that came back: a result, an error, a change of the world."""

    content: Text = ""


@validated(_CONFIG)
class UnknownEvent(Event):
    """An event of a kind that is not registered, kept as it came.

    ``name`` is its recorded tag, ``data`` the recorded JSON object without what the fields of every
    event say. It reaches an LLM only if it belongs to a tool call.
    """

    name: Text = ""
    data: JsonObject = dataclasses.field(default_factory=dict)

    @property
    def is_observation(self) -> bool:
        """True for what came back, False for what was done."""
        return self.data.get("observation") is not None

    @property
    def content(self) -> str:
        """The recorded text: ``content``, or an action's ``args.content``; empty if there is
        none."""
        args = self.data.get("args")
        for holder in (self.data, args if isinstance(args, dict) else {}):
            if isinstance(text := holder.get("content"), str):
                return text
        return ""
