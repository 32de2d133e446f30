"""The provider rules about a message on its own: what they find in it depends on nothing around it.

:mod:`eventfold.memory.rules` has the numbers, the profiles, and the rules about the whole list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from .chat_reading import ChatMessage, Placed, is_marked, is_thinking, member, shown
from .images import image_problem, image_reference, is_image

__all__ = [
    "MESSAGE_RULES",
    "PLAIN_NAME",
    "Flaws",
    "MessageRule",
    "Model",
    "arguments_are_one_json_object",
    "call_ids_are_plain",
    "call_names_are_plain",
    "flaws_in",
    "images_are_usable",
    "images_where_they_are_seen",
    "markers_end_their_message",
    "message_can_be_sent",
    "nothing_is_empty",
    "thinking_is_whole_and_first",
    "unsendable",
]

PLAIN_NAME = "[A-Za-z0-9_-]{1,64}"

_NINE_CHARACTER_IDS = frozenset({"mistral"})  # R6
_EMPTY_TEXT_ALLOWED = frozenset({"openai"})  # R10
_IMAGES_IN_RESULTS_ALLOWED = frozenset({"anthropic"})  # R12


class Model(NamedTuple):
    """Whom messages are for."""

    profile: str
    has_vision: bool


MessageRule: TypeAlias = Callable[[ChatMessage, Model], Iterator[str]]
Flaws: TypeAlias = Mapping[MessageRule, tuple[str, ...]]
"""What is wrong with one message, by rule; only rules that it breaks."""


def flaws_in(messages: Iterable[Placed], model: Model) -> dict[int, Flaws]:
    """The flaws of the messages that have any, by index; worked out once for each message."""
    found: dict[int, Flaws] = {}
    for index, message in messages:
        flaws = message.memo.get(model)
        if flaws is None:
            flaws = message.memo[model] = _flaws(message, model)
        if flaws:
            found[index] = flaws
    return found


def _flaws(message: ChatMessage, model: Model) -> Flaws:
    flaws: dict[MessageRule, tuple[str, ...]] = {}
    for rule in MESSAGE_RULES:
        if problems := tuple(rule(message, model)):
            flaws[rule] = problems
    return flaws


def arguments_are_one_json_object(message: ChatMessage, _: Model) -> Iterator[str]:
    """R5. Tool arguments are one valid JSON object, as text. Many OpenAI-compatible servers parse
    them strictly and refuse the whole history for one raw control character."""
    for call in message.calls:
        if not isinstance(call.arguments, str):
            problem = f"must be JSON text, found {shown(call.arguments)}"
        else:
            try:
                if isinstance(_strict_json(call.arguments), dict):
                    continue
                problem = f"must be a JSON object, found {shown(call.arguments)}"
            except ValueError as error:
                problem = f"are not valid JSON ({error})"
        yield f"the arguments of {shown(call.name)} {problem}"


def call_ids_are_plain(message: ChatMessage, model: Model) -> Iterator[str]:
    """R6. Call ids are 1 to 64 letters, digits, ``_`` or ``-``, in calls and in results (OpenAI,
    Anthropic); for Mistral exactly nine letters or digits."""
    pattern = "[A-Za-z0-9]{9}" if model.profile in _NINE_CHARACTER_IDS else PLAIN_NAME
    ids = [call.id for call in message.calls]
    if message.role == "tool":
        ids.append(message.raw.get("tool_call_id"))
    for id_ in ids:
        if id_ is not None and not (isinstance(id_, str) and re.fullmatch(pattern, id_)):
            yield f"call id {shown(id_)} is not of the form {pattern}"


def nothing_is_empty(message: ChatMessage, model: Model) -> Iterator[str]:
    """R10. No empty text (whitespace alone is empty), neither as content nor as a text block; an
    assistant message has text or tool calls. Anthropic, Bedrock and Vertex refuse it. OpenAI takes
    the empty text but not a message without any content."""
    empty_text_allowed = model.profile in _EMPTY_TEXT_ALLOWED
    if not message.calls and all(map(is_thinking, message.blocks)):
        yield f"the {message.role} message has no content"
    for block in message.blocks:
        if _is_empty(block) and not (empty_text_allowed and block.get("text") is not None):
            yield f"empty text in the {message.role} message"


def images_where_they_are_seen(message: ChatMessage, model: Model) -> Iterator[str]:
    """R12. Images only where the model takes them: in user messages, and in tool results for
    profiles that allow it (Anthropic; OpenAI chat refuses them). Without vision: nowhere."""
    in_results = model.profile in _IMAGES_IN_RESULTS_ALLOWED
    for _ in filter(is_image, message.blocks):
        if not model.has_vision:
            yield "an image, but the model has no vision"
        elif message.role != "user" and not (in_results and message.role == "tool"):
            yield f"an image in a message of role {message.role}"


def images_are_usable(message: ChatMessage, _: Model) -> Iterator[str]:
    """R13. An image has a usable URL, or base64 data of a supported type (png, jpeg, gif, webp)
    with the right media type. Every provider refuses others."""
    for image in filter(is_image, message.blocks):
        url = image_reference(image)
        problem = "it has neither a URL nor data" if url is None else image_problem(url)
        if problem:
            yield f"the image cannot be used: {problem}"


def markers_end_their_message(message: ChatMessage, _: Model) -> Iterator[str]:
    """R14, of one message. A cache marker is never on an empty block or on thinking, but on the
    last non-empty block, or, for a tool message, on the message itself.

    A message whose content is a plain string may carry the marker itself: that string is its only
    block. In a list of tool calls, which follow the content, the last call may carry it.
    """
    if not message.markers:
        return
    filled = [block for block in message.blocks if not (_is_empty(block) or is_thinking(block))]
    last = filled[-1] if filled else None
    marked = [block for block in message.blocks if is_marked(block)]
    if message.role == "tool" and marked:
        yield "a cache marker on a block, expected on the tool message itself"
    elif any(block is not last for block in marked):
        yield "a cache marker that is not on the last non-empty block"
    is_plain = isinstance(message.raw.get("content"), str)
    if is_marked(message.raw) and last is None:
        yield "a cache marker on an empty message"
    elif is_marked(message.raw) and message.role != "tool" and not is_plain:
        yield "a cache marker beside the blocks, expected on the last of them"
    if any(call.is_marked for call in message.calls[:-1]):
        yield "a cache marker on a tool call that is not the last"


def thinking_is_whole_and_first(message: ChatMessage, _: Model) -> Iterator[str]:
    """R15, of one message. Thinking is passed back whole, and first in its assistant message."""
    in_content = list(map(is_thinking, message.blocks))
    if in_content != sorted(in_content, reverse=True):
        yield "thinking stands after other content"
    if message.role != "assistant" and message.thinks:
        yield f"thinking in a message of role {message.role}"
    beside = message.raw.get("thinking_blocks")
    if beside is not None and not isinstance(beside, list | tuple):
        yield f"thinking_blocks are {shown(beside)}, expected a list"
        beside = None
    for block in (*(beside or ()), *filter(is_thinking, message.blocks)):
        kind = member(block, "type")
        whole = (kind == "thinking" and isinstance(block.get("thinking"), str)) or (
            kind == "redacted_thinking" and isinstance(block.get("data"), str)
        )
        if not whole:
            yield f"a thinking block of type {shown(kind)} without what that type needs"


def message_can_be_sent(message: ChatMessage, _: Model) -> Iterator[str]:
    """R16, of one message. No text in it (keys, ids, and what tool arguments decode to included)
    holds a lone surrogate or NUL, and all of it can be written as UTF-8 JSON."""
    problem = unsendable(message.raw)
    if problem:
        yield problem
    for call in message.calls:
        if isinstance(call.arguments, str) and "\\u" in call.arguments:
            try:
                problem = unsendable(_strict_json(call.arguments))
            except ValueError:  # R5 says so
                continue
            if problem:
                yield f"the arguments of {shown(call.name)} decode to {problem}"


def call_names_are_plain(message: ChatMessage, _: Model) -> Iterator[str]:
    """R17, of one message. The tools that it calls have plain names."""
    for call in message.calls:
        if not (isinstance(call.name, str) and re.fullmatch(PLAIN_NAME, call.name)):
            yield f"tool name {shown(call.name)} is not of the form {PLAIN_NAME}"


MESSAGE_RULES: tuple[MessageRule, ...] = (
    arguments_are_one_json_object,
    call_ids_are_plain,
    nothing_is_empty,
    images_where_they_are_seen,
    images_are_usable,
    markers_end_their_message,
    thinking_is_whole_and_first,
    message_can_be_sent,
    call_names_are_plain,
)


def unsendable(value: object) -> str | None:
    """What in the value cannot be sent as UTF-8 JSON, or must not be (NUL); None if nothing."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        return "text with a lone surrogate"
    except (TypeError, ValueError, RecursionError) as error:
        return f"what JSON cannot hold ({error})"
    # A backslash of the text itself is doubled in JSON: an even number of them is no escape.
    nul = "\\u0000" in text and re.search(r"(?<!\\)(?:\\\\)*\\u0000", text)
    return "text with NUL" if nul else None


def _strict_json(text: str) -> object:
    """The value of JSON text; ValueError for anything that a strict parser refuses."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _is_empty(block: dict[str, Any]) -> bool:
    return block["type"] == "text" and not (block.get("text") or "").strip()
