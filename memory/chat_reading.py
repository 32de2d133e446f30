"""Reads chat messages, whatever they hold, into messages that the provider rules can rely on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .message import Message

__all__ = [
    "Batch",
    "ChatCall",
    "ChatMessage",
    "Finding",
    "Placed",
    "is_marked",
    "is_thinking",
    "member",
    "read_list",
    "read_messages",
    "shown",
    "unpaired_batches",
]

Finding: TypeAlias = tuple[int | None, str]
"""A problem, with the index of its message; None if it is about the whole list or the tools."""

_ROLES = ("system", "developer", "user", "assistant", "tool")
_UNREADABLE: dict[str, Any] = {"type": "unreadable"}  # stands where a content part was


@dataclass(frozen=True, slots=True)
class ChatCall:
    """A tool call. Its parts are as they were found: of any type, or None."""

    id: Any
    name: Any
    arguments: Any
    is_marked: bool


@dataclass(frozen=True, slots=True, eq=False)
class ChatMessage:
    """A message of a known role. What in it cannot be read is left out, and said in ``odd``."""

    raw: dict[str, Any]
    role: str
    """``system``, ``user``, ``assistant`` or ``tool``; ``developer`` is read as ``system``."""
    blocks: tuple[dict[str, Any], ...]
    """Each has a ``type``; string content is one text block."""
    calls: tuple[ChatCall, ...]
    """Of an assistant message."""
    call_ids: tuple[str, ...]
    """Those of ``calls`` that are text."""
    answers: str | None
    """The id of the call that this tool result answers; None if it names none."""
    thinks: bool
    markers: int
    """Cache markers, on whatever part of it."""
    odd: tuple[str, ...]
    memo: dict[object, Any] = field(default_factory=dict[object, Any])
    """What has been worked out about this message alone."""


Placed: TypeAlias = tuple[int, ChatMessage]
"""A message with its index in the list."""
Batch: TypeAlias = tuple[Placed, list[Placed]]
"""A message that is no tool result, and the run of results directly after it. A list that begins
with results has a message without calls before them."""


def read_messages(messages: object, malformed: list[Finding]) -> list[Placed]:
    """The messages with their indexes. What is none is left out; what is odd about a message, or
    why it is none, is added to ``malformed``.

    ``messages`` are chat dicts, or objects with a ``to_dict()``. A :class:`Message` cannot change:
    it is read once, and remembers it.
    """
    found: list[Placed] = []
    for index, item in enumerate(read_list(messages, "messages", malformed)):
        message = _read(item)
        if isinstance(message, str):
            malformed.append((index, message))
            continue
        found.append((index, message))
        if message.odd:
            malformed += [(index, problem) for problem in message.odd]
    return found


def read_list(value: object, what: str, malformed: list[Finding]) -> list[Any]:
    """The items of a list; none, and a finding, for what is no list. None is an empty one."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return list(value)
    if value is not None:
        malformed.append((None, f"{what}: expected a list, found {shown(value)}"))
    return []


def unpaired_batches(messages: Iterable[Placed]) -> list[Batch]:
    """The batches but for those whose results answer their calls one by one, in the same order."""
    return [batch for batch in _batches(messages) if not _is_paired(batch)]


def _batches(messages: Iterable[Placed]) -> Iterator[Batch]:
    owner, results = (-1, _NOBODY), list[Placed]()
    for placed in messages:
        if placed[1].role == "tool":
            results.append(placed)
        else:
            yield owner, results
            owner, results = placed, []
    yield owner, results


_NOBODY = ChatMessage({}, "", (), (), (), None, thinks=False, markers=0, odd=())


def _is_paired(batch: Batch) -> bool:
    (_, owner), results = batch
    if len(owner.calls) != len(results):
        return False
    return not results or owner.call_ids == tuple([result.answers for _, result in results])


def _read(item: Any) -> ChatMessage | str:
    """The message, or why it is none."""
    try:
        if type(item) is Message:
            return item.remembered(_read_dict, _read_dict)
        raw = item if isinstance(item, dict) else item.to_dict()
    except Exception:  # whatever it is, it is not a message
        raw = None
    if not isinstance(raw, dict):
        return f"expected a chat message, found {shown(item)}"
    return _read_dict(raw)


def _read_dict(raw: dict[str, Any]) -> ChatMessage | str:
    role = raw.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        return f"role {shown(role)} is none of {', '.join(_ROLES)}"
    role = "system" if role == "developer" else role
    blocks, odd_parts = _blocks(raw.get("content"))
    calls, odd_calls = _calls(raw.get("tool_calls"), role)
    answers = raw.get("tool_call_id") if role == "tool" else None
    return ChatMessage(
        raw,
        role,
        tuple(blocks),
        tuple(calls),
        call_ids=tuple(call.id for call in calls if isinstance(call.id, str)),
        answers=answers if isinstance(answers, str) else None,
        thinks=_has_thinking(raw, blocks),
        markers=sum(map(is_marked, (raw, *blocks))) + sum(call.is_marked for call in calls),
        odd=(*odd_parts, *odd_calls),
    )


def _blocks(content: object) -> tuple[list[dict[str, Any]], list[str]]:
    """The content as blocks, and what is odd about it."""
    if content is None:
        return [], []
    if isinstance(content, str):
        return [{"type": "text", "text": content}], []
    if not isinstance(content, list | tuple):
        return [_UNREADABLE], [f"content is {shown(content)}, expected text or a list of parts"]
    blocks = [part if _is_block(part) else _UNREADABLE for part in content]
    return blocks, ["a content part without a type, or of type text without text"] * sum(
        block is _UNREADABLE for block in blocks
    )


def _is_block(part: object) -> bool:
    kind, text = member(part, "type"), member(part, "text")
    return isinstance(kind, str) and (kind != "text" or text is None or isinstance(text, str))


def _calls(calls: object, role: str) -> tuple[list[ChatCall], list[str]]:
    """The tool calls, and what is odd about them."""
    if calls is None or calls == []:  # an empty list says what null says
        return [], []
    if not isinstance(calls, list | tuple) or role != "assistant":
        return [], [f"tool_calls of role {role} are {shown(calls)}, expected an assistant's list"]
    found = [
        ChatCall(
            call.get("id"),
            member(call.get("function"), "name"),
            member(call.get("function"), "arguments"),
            is_marked(call) or is_marked(call.get("function")),
        )
        for call in calls
        if isinstance(call, dict)
    ]
    return found, ["a tool call is not a dict"] * (len(calls) - len(found))


def _has_thinking(raw: dict[str, Any], blocks: Iterable[dict[str, Any]]) -> bool:
    kept = (raw.get(key) for key in ("thinking_blocks", "reasoning_items", "reasoning_content"))
    return any(map(is_thinking, blocks)) or any(
        isinstance(value, str | list | tuple) and len(value) > 0 for value in kept
    )


def is_thinking(block: dict[str, Any]) -> bool:
    """Whether a content block is thinking."""
    return block["type"] in ("thinking", "redacted_thinking")


def is_marked(holder: object) -> bool:
    """Whether there is a cache marker on a message, a block, a call or a tool."""
    return member(holder, "cache_control") is not None


def member(holder: object, key: str) -> Any:
    """What a dict has under ``key``; None for anything else."""
    return holder.get(key) if isinstance(holder, dict) else None


def shown(value: object) -> str:
    """The value, short enough for a message."""
    if value is None:
        return "nothing"
    return repr(value[:60]) if isinstance(value, str) else type(value).__name__
