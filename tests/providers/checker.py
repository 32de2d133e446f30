"""What providers refuse, checked a second time: :func:`faults`.

Written from the rules' wording alone and without any code of eventfold, so that a fault in its
``check_messages`` cannot hide behind itself. It sees what comes over the wire: JSON data.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

__all__ = ["PROFILES", "Fault", "faults"]

_EVERYONE = frozenset(f"R{number}" for number in (1, 2, 3, 5, 6, 10, 12, 13, 15, 16, 17, 19))
_STRICT = _EVERYONE | {"R4", "R7", "R8", "R9", "R11"}

PROFILES: Mapping[str, frozenset[str]] = {
    "openai": _EVERYONE,
    "anthropic": _STRICT | {"R14"},
    "gemini": _STRICT - {"R6"},
    "mistral": _STRICT | {"R14", "R20"},
    "portable": _STRICT | {"R14"},
}
"""The rules that each profile enforces; R18, the window, is the server's own."""


class Fault(NamedTuple):
    """A broken rule, the index of the message (None: the whole list, or the tools), and why."""

    rule: str
    at: int | None
    problem: str

    def __str__(self) -> str:
        place = "" if self.at is None else f" at message {self.at}"
        return f"{self.rule}{place}: {self.problem}"


Found = Iterator[Fault]
Chat = list[dict[str, Any]]


def faults(messages: Any, tools: Any, profile: str, *, vision: bool = True) -> list[Fault]:
    """Every fault of a request, in no particular order."""
    found = list(_shape(messages, tools))
    if not found:
        chat = [{k: v for k, v in message.items() if v is not None} for message in messages]
        for message in chat:
            if message["role"] == "developer":
                message["role"] = "system"
        found += [fault for check in _CHECKS for fault in check(chat, profile)]
        found += _tools(tools or [])
        found += _marker_limit(chat, tools or [])
        if not vision:
            found += [
                Fault("R12", at, "no vision") for at, message in enumerate(chat) if _images(message)
            ]
    return [fault for fault in found if fault.rule in PROFILES[profile]]


# What the JSON must look like: without it the rest cannot be asked.


def _shape(messages: Any, tools: Any) -> Found:
    if not isinstance(messages, list):
        yield Fault("R16", None, "messages are not a list")
        return
    if tools is not None and not isinstance(tools, list):
        yield Fault("R16", None, "tools are not a list")
    for at, message in enumerate(messages):
        for problem in _misshapen(message):
            yield Fault("R16", at, problem)


def _misshapen(message: Any) -> Iterator[str]:
    if not isinstance(message, dict):
        yield "not an object"
        return
    if message.get("role") not in ("system", "developer", "user", "assistant", "tool"):
        yield f"role {message.get('role')!r}"
    content = message.get("content")
    if not isinstance(content, str | list | None):
        yield "content is neither text nor a list"
    for block in content if isinstance(content, list) else ():
        if not (isinstance(block, dict) and isinstance(block.get("type"), str)):
            yield "a block without a type"
        elif block["type"] == "text" and not isinstance(block.get("text"), str):
            yield "a text block without text"
    calls = message.get("tool_calls")
    if calls is None or calls == []:
        return
    if not isinstance(calls, list) or message.get("role") != "assistant":
        yield "tool_calls are no list of an assistant"
    elif not all(
        isinstance(call, dict) and isinstance(call.get("function"), dict) for call in calls
    ):
        yield "a tool call without a function"


# Pairing


def _pairing(chat: Chat, profile: str) -> Found:
    """R1 to R4: after an assistant message with calls come its results and nothing else."""
    used: set[str] = set()
    for at, message in enumerate(chat):
        if message["role"] == "tool":
            continue
        ids = [call.get("id") for call in message.get("tool_calls", ())]
        for id_ in ids:
            if not isinstance(id_, str):
                yield Fault("R1", at, "a call without an id")
            elif id_ in used:
                yield Fault("R3", at, f"call id {id_!r} a second time")
            else:
                used.add(id_)
        answers = [(place, chat[place].get("tool_call_id")) for place in _run_after(chat, at)]
        yield from _answered(at, ids, answers)
    for place in _run_after(chat, -1):
        yield Fault("R2", place, "a result at the beginning")


def _run_after(chat: Chat, at: int) -> list[int]:
    """The places of the tool results directly after a message."""
    end = at + 1
    while end < len(chat) and chat[end]["role"] == "tool":
        end += 1
    return list(range(at + 1, end))


def _answered(at: int, ids: list[Any], answers: list[tuple[int, Any]]) -> Found:
    given = [id_ for _, id_ in answers]
    for place, id_ in answers:
        if id_ not in ids:
            yield Fault("R2", place, f"{id_!r} answers no call of the message before")
        elif given.count(id_) > 1:
            yield Fault("R3", place, f"{id_!r} is answered more than once")
    for id_ in ids:
        if id_ not in given:
            yield Fault("R1", at, f"{id_!r} is not answered")
    if given != ids and sorted(map(str, given)) == sorted(map(str, ids)):
        yield Fault("R4", at, "the results are not in the order of the calls")


# Order


def _order(chat: Chat, profile: str) -> Found:
    """R7, R8, R9, R11, R19, R20: who may speak when."""
    roles = [message["role"] for message in chat]
    if "user" not in roles:
        yield Fault("R19", None, "nobody speaks")
    if "system" in roles[1:]:
        yield Fault("R7", roles.index("system", 1), "a system message that is not first")
    speakers = [role for role in roles if role != "system"]
    if speakers and speakers[0] != "user":
        yield Fault("R8", None, f"{speakers[0]} opens")
    if roles and roles[-1] in ("assistant", "system"):
        yield Fault("R11", len(roles) - 1, f"{roles[-1]} has the last word")
    for at in range(1, len(roles)):
        pair = roles[at - 1], roles[at]
        if pair in (("user", "user"), ("assistant", "assistant")):
            yield Fault("R9", at, f"{pair[0]} twice")
        if pair == ("tool", "user"):
            yield Fault("R20", at, "a user directly after a result")


# Each message


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content", [])
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _is_thinking(block: dict[str, Any]) -> bool:
    return block["type"] in ("thinking", "redacted_thinking")


def _calls(chat: Chat, profile: str) -> Found:
    """R5, R6, R17, of calls and of the ids of results."""
    form = r"[0-9A-Za-z]{9}" if profile == "mistral" else r"[0-9A-Za-z_-]{1,64}"
    for at, message in enumerate(chat):
        calls = message.get("tool_calls", ())
        answers = message.get("tool_call_id") if message["role"] == "tool" else None
        for id_ in [*(call.get("id") for call in calls), answers]:
            if isinstance(id_, str) and not re.fullmatch(form, id_):
                yield Fault("R6", at, f"id {id_!r}")
        for call in calls:
            if not _is_plain_name(call["function"].get("name")):
                yield Fault("R17", at, f"name {call['function'].get('name')!r}")
            arguments = _json_object(call["function"].get("arguments"))
            if arguments is None:
                yield Fault("R5", at, "arguments that are not one JSON object")
            elif not _can_be_sent(arguments):
                yield Fault("R16", at, "arguments with NUL or a lone surrogate")


def _is_plain_name(name: Any) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[\w-]{1,64}", name, re.ASCII) is not None


def _json_object(text: Any) -> dict[str, Any] | None:
    try:
        value = json.loads(text, parse_constant=_refuse) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _content(chat: Chat, profile: str) -> Found:
    """R10: nothing is empty, but OpenAI takes text without a character."""
    for at, message in enumerate(chat):
        blocks = _blocks(message)
        spoken = [block for block in blocks if not _is_thinking(block)]
        if not spoken and not message.get("tool_calls"):
            yield Fault("R10", at, "no content")
        if profile != "openai" and any(map(_is_blank, blocks)):
            yield Fault("R10", at, "empty text")


def _is_blank(block: dict[str, Any]) -> bool:
    return block["type"] == "text" and not block["text"].strip()


def _images(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in _blocks(message) if block["type"] in ("image", "image_url")]


def _pictures(chat: Chat, profile: str) -> Found:
    """R12, R13."""
    takers = {"user", "tool"} if profile == "anthropic" else {"user"}
    for at, message in enumerate(chat):
        for block in _images(message):
            if message["role"] not in takers:
                yield Fault("R12", at, f"an image from {message['role']}")
            if not _is_usable(block):
                yield Fault("R13", at, "an image that cannot be used")


def _is_usable(block: dict[str, Any]) -> bool:
    held = block.get("image_url" if block["type"] == "image_url" else "source")
    if isinstance(held, str):
        held = {"url": held}
    if not isinstance(held, dict):
        return False
    if isinstance(held.get("url"), str):
        url = held["url"]
    else:
        url = f"data:{held.get('media_type')};base64,{held.get('data')}"
    return _is_image_data(url) if url.startswith("data:") else _is_web_address(url)


_FIRST_BYTES = {
    "image/png": rb"\x89PNG\r\n\x1a\n",
    "image/jpeg": rb"\xff\xd8\xff",
    "image/gif": rb"GIF8[79]a",
    "image/webp": rb"RIFF....WEBP",
}


def _is_image_data(url: str) -> bool:
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    try:
        decoded = base64.b64decode(data, validate=True)
    except (ValueError, binascii.Error):
        return False
    if base64.b64encode(decoded).decode()[:-4] != data[:-4]:  # as strict as the strictest
        return False
    first = _FIRST_BYTES.get(kind)
    return first is not None and re.match(first, decoded, re.DOTALL) is not None


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    clean = not re.search(r"[\s\x00-\x1f\x7f]", url)
    return parts.scheme in ("http", "https") and bool(host) and port != 0 and clean


def _markers(chat: Chat, profile: str) -> Found:
    """R14, but for how many there are."""
    for at, message in enumerate(chat):
        blocks = _blocks(message)
        sound = [block for block in blocks if not (_is_blank(block) or _is_thinking(block))]
        marked = [block for block in blocks if _is_marked(block)]
        if message["role"] == "tool" and marked:
            yield Fault("R14", at, "a marker on a block of a result")
        if any(block is not sound[-1] for block in marked) if sound else marked:
            yield Fault("R14", at, "a marker that is not on the last block")
        if _is_marked(message):
            is_text = isinstance(message.get("content"), str)
            if not sound or not (is_text or message["role"] == "tool"):
                yield Fault("R14", at, "a marker beside the content")
        if any(map(_call_is_marked, message.get("tool_calls", ())[:-1])):
            yield Fault("R14", at, "a marker that is not on the last call")


def _is_marked(value: Any) -> bool:
    return isinstance(value, dict) and value.get("cache_control") is not None


def _call_is_marked(call: dict[str, Any]) -> bool:
    return _is_marked(call) or _is_marked(call["function"])


def _marker_limit(chat: Chat, tools: list[Any]) -> Found:
    count = sum(map(_marker_count, chat))
    for tool in tools:
        count += _is_marked(tool) or (isinstance(tool, dict) and _is_marked(tool.get("function")))
    if count > 4:
        yield Fault("R14", None, f"{count} markers")


def _marker_count(message: dict[str, Any]) -> int:
    return (
        _is_marked(message)
        + sum(map(_is_marked, _blocks(message)))
        + sum(map(_call_is_marked, message.get("tool_calls", ())))
    )


def _thinking(chat: Chat, profile: str) -> Found:
    """R15: whole, first in its message, and a loop starts with it or has none."""
    loop: list[tuple[int, bool]] = []
    for at, message in enumerate(chat):
        blocks = _blocks(message)
        kinds = [_is_thinking(block) for block in blocks]
        beside = message.get("thinking_blocks", [])
        inside = [block for block in blocks if _is_thinking(block)]
        if True in kinds[kinds.count(True) :]:
            yield Fault("R15", at, "thinking after something else")
        if not isinstance(beside, list) or not all(map(_is_whole, [*beside, *inside])):
            yield Fault("R15", at, "thinking that is not whole")
        thinks = bool(inside or _thinks_beside(message))
        if thinks and message["role"] != "assistant":
            yield Fault("R15", at, f"{message['role']} thinks")
        if message["role"] == "user":
            loop = []
        elif message["role"] == "assistant":
            loop.append((at, thinks))
            if thinks and not loop[0][1]:
                yield Fault("R15", loop[0][0], "its loop goes on with thinking")


def _thinks_beside(message: dict[str, Any]) -> bool:
    names = ("thinking_blocks", "reasoning_items", "reasoning_content")
    return any(isinstance(message.get(n), str | list) and len(message[n]) > 0 for n in names)


def _is_whole(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    holder = {"thinking": "thinking", "redacted_thinking": "data"}.get(block.get("type", ""), "")
    return isinstance(block.get(holder), str)


# All of it


def _sendable(chat: Chat, profile: str) -> Found:
    """R16."""
    for at, message in enumerate(chat):
        if not _can_be_sent(message):
            yield Fault("R16", at, "text with NUL or a lone surrogate")


def _can_be_sent(value: Any) -> bool:
    return not any(re.search("[\0\ud800-\udfff]", text) for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _tools(tools: list[Any]) -> Found:
    """R16 and R17."""
    if not _can_be_sent(tools):
        yield Fault("R16", None, "a tool with NUL or a lone surrogate")
    for tool in tools:
        named = tool.get("function", tool) if isinstance(tool, dict) else {}
        is_own_kind = named is tool and tool.get("type") != "function" and "name" not in tool
        if not is_own_kind and not (isinstance(named, dict) and _is_plain_name(named.get("name"))):
            yield Fault("R17", None, "a tool without a plain name")


_CHECKS: tuple[Callable[[Chat, str], Found], ...] = (
    _pairing,
    _order,
    _calls,
    _content,
    _pictures,
    _markers,
    _thinking,
    _sendable,
)
