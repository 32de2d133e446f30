"""What is said to an LLM, and what comes back: messages, replies, and the model behind them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from ..events.event import InvalidArgument
from ..events.tool_calls import ToolCall, json_bytes

__all__ = [
    "ChatDict",
    "ChatModel",
    "Content",
    "ImageContent",
    "Message",
    "Reply",
    "Role",
    "TextContent",
    "Usage",
]

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
ChatDict: TypeAlias = dict[str, Any]
_T = TypeVar("_T")
_ROLES = ("system", "user", "assistant", "tool")
_CACHE_MARKER = {"type": "ephemeral"}


@dataclass(frozen=True, slots=True)
class TextContent:
    """A block of text."""

    text: str

    def to_dict(self) -> ChatDict:
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class ImageContent:
    """A picture, by its URL (http, or a data URL with base64 data)."""

    url: str

    def to_dict(self) -> ChatDict:
        return {"type": "image_url", "image_url": {"url": self.url}}


Content: TypeAlias = TextContent | ImageContent


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. Frozen and shared between calls; :meth:`to_dict` gives what is sent.

    ``content`` may be given as text. ``thinking`` holds thinking blocks and the like, and
    ``provider_fields`` other fields of the response, as the provider sent them. With
    ``cache_marker`` the provider is asked to cache the prompt up to here; with ``as_parts`` a
    single text is sent as a list of one part, so that a marker which comes or goes changes nothing
    else.

    Raises :class:`InvalidArgument` for an unknown role.
    """

    role: Role
    content: tuple[Content, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    thinking: Mapping[str, Any] = field(default_factory=dict)
    provider_fields: Mapping[str, Any] = field(default_factory=dict)
    cache_marker: bool = False
    as_parts: bool = False
    # Made once: the dict that is sent, and what others have worked out about it.
    _dict: ChatDict | None = field(default=None, init=False, repr=False, compare=False)
    _memo: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __init__(
        self,
        role: Role,
        content: str | Iterable[Content] = (),
        tool_calls: Iterable[ToolCall] = (),
        tool_call_id: str | None = None,
        name: str | None = None,
        thinking: Mapping[str, Any] | None = None,
        provider_fields: Mapping[str, Any] | None = None,
        cache_marker: bool = False,
        as_parts: bool = False,
    ) -> None:
        if role not in _ROLES:
            raise InvalidArgument(f"a role is one of {', '.join(_ROLES)}; found {role!r}")
        if isinstance(content, str):
            content = (TextContent(content),) if content else ()
        set_field = object.__setattr__
        set_field(self, "role", role)
        set_field(self, "content", tuple(content))
        set_field(self, "tool_calls", tuple(tool_calls))
        set_field(self, "tool_call_id", tool_call_id)
        set_field(self, "name", name)
        set_field(self, "thinking", thinking or {})
        set_field(self, "provider_fields", provider_fields or {})
        set_field(self, "cache_marker", cache_marker)
        set_field(self, "as_parts", as_parts)
        set_field(self, "_dict", None)
        set_field(self, "_memo", {})

    @classmethod
    def system_message(cls, content: str | Iterable[Content]) -> Message:
        """Instructions."""
        return cls("system", content)

    @classmethod
    def user_message(cls, content: str | Iterable[Content]) -> Message:
        """What the user says."""
        return cls("user", content)

    @classmethod
    def assistant_message(cls, content: str | Iterable[Content]) -> Message:
        """What the model said, without tool calls."""
        return cls("assistant", content)

    @classmethod
    def from_tool_calls(
        cls, tool_calls: Iterable[ToolCall], content: str | Iterable[Content] = ()
    ) -> Message:
        """What the model said when it called tools."""
        return cls("assistant", content, tool_calls)

    @classmethod
    def tool_message(
        cls, content: str | Iterable[Content], tool_call_id: str, name: str | None = None
    ) -> Message:
        """The result of a tool call."""
        return cls("tool", content, tool_call_id=tool_call_id, name=name)

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return "\n".join(part.text for part in self.content if isinstance(part, TextContent))

    def replace(self, **changes: Any) -> Message:
        """A copy with some fields changed."""
        return Message(**{name: getattr(self, name) for name in _FIELDS} | changes)

    def to_dict(self) -> ChatDict:
        """The message as an OpenAI or litellm chat dict.

        The dict is the caller's own; what is nested in it is shared between calls: do not change
        it.
        """
        return (self._dict or self._as_dict()).copy()

    def _as_dict(self) -> ChatDict:
        result: ChatDict = {"role": self.role, "content": self._content()}
        if self.tool_calls:
            result["tool_calls"] = [_call_to_dict(call) for call in self.tool_calls]
        if self.tool_call_id is not None:
            result["tool_call_id"] = self.tool_call_id
        if self.name is not None:
            result["name"] = self.name
        if self.role == "tool" and self.cache_marker:
            result["cache_control"] = _CACHE_MARKER
        made = {**self.provider_fields, **self.thinking, **result}
        object.__setattr__(self, "_dict", made)
        return made

    def _content(self) -> str | list[ChatDict] | None:
        if not self.content:
            return None
        marked = self.cache_marker and self.role != "tool"
        only = self.content[0] if len(self.content) == 1 else None
        if isinstance(only, TextContent) and not marked and not self.as_parts:
            return only.text
        parts = [part.to_dict() for part in self.content]
        if marked:
            parts[-1]["cache_control"] = _CACHE_MARKER
        return parts

    def remembered(self, key: object, make: Callable[[ChatDict], _T]) -> _T:
        """``make`` of the dict that is sent, made once for each ``key`` and remembered."""
        try:
            found: _T = self._memo[key]
        except KeyError:
            found = self._memo[key] = make(self.to_dict())
        return found

    def recalled(self, key: object) -> Any:
        """What is remembered under ``key``; None if nothing is."""
        return self._memo.get(key)

    @staticmethod
    def all_remembered(
        messages: Sequence[Message | Mapping[str, Any]],
        key: object,
        make: Callable[[ChatDict], _T],
    ) -> list[_T]:
        """:meth:`remembered` for each message, as quick as a list is made where all but the newest
        few are remembered. There may be chat dicts among the messages."""
        for message in reversed(messages):
            if not isinstance(message, Message) or key in message._memo:
                break
            message.remembered(key, make)
        try:
            return [message._memo[key] for message in messages]  # type: ignore[union-attr]
        except (AttributeError, KeyError):
            pass
        known: list[Any] = [m._memo.get(key) if isinstance(m, Message) else None for m in messages]
        for place in [place for place, made in enumerate(known) if made is None]:
            one = messages[place]
            if isinstance(one, Message):
                known[place] = one.remembered(key, make)
            else:
                known[place] = make(dict(one))
        return known

    @staticmethod
    def sha256(messages: Sequence[Message]) -> str:
        """A hash of messages as they are sent: of each one's own hash, which is made once."""
        digests = Message.all_remembered(messages, "sha256", _digest)
        return hashlib.sha256(b"".join(digests)).hexdigest()

    @staticmethod
    def to_dicts(messages: Iterable[Message]) -> list[ChatDict]:
        """:meth:`to_dict` of each, without the cost of a call."""
        return [(message._dict or message._as_dict()).copy() for message in messages]

    def __add__(self, other: object) -> list[Message]:
        if isinstance(other, Message):
            return [self, other]
        return [self, *other] if isinstance(other, list) else NotImplemented

    def __radd__(self, other: object) -> list[Message]:
        return [*other, self] if isinstance(other, list) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.role, self.content, self.tool_call_id))


_FIELDS = tuple(field.name for field in dataclasses.fields(Message) if field.init)


def _digest(message: ChatDict) -> bytes:
    return hashlib.sha256(json_bytes(message)).digest()


def _call_to_dict(call: ToolCall) -> ChatDict:
    result: ChatDict = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    if call.provider_fields:
        result["provider_specific_fields"] = call.provider_fields
    return result


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a provider counted for one call."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What an LLM answered. ``raw`` is the client's own response object."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage | None = None
    finish_reason: str | None = None
    raw: Any = None


class ChatModel(Protocol):
    """A language model that answers chat messages (dicts in the OpenAI shape)."""

    def completion(
        self,
        messages: Sequence[ChatDict],
        *,
        tools: Sequence[ChatDict] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        """The model's answer. Raises whatever the model's client raises."""
        ...

    async def acompletion(
        self,
        messages: Sequence[ChatDict],
        *,
        tools: Sequence[ChatDict] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        """The same without blocking."""
        ...
