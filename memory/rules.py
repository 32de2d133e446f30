"""What LLM providers refuse in a list of chat messages, as rules with names: R1 to R20.

``check_messages`` names every violation of a profile; each rule is one function, in the order of
the numbers, whose docstring says the rule and who refuses otherwise.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from ..events.event import InvalidArgument
from .images import image_problem, image_reference, is_image

__all__ = ["PROFILES", "RULES", "UnknownProfile", "Violation", "check_messages"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: its id (``"R1"`` to ``"R20"``), the message's index in the list (None when
    it is about the whole list or the tools), and what was found and what is expected."""

    rule: str
    index: int | None
    problem: str

    def __str__(self) -> str:
        place = "" if self.index is None else f" at message {self.index}"
        return f"{self.rule}{place}: {self.problem}"


class UnknownProfile(InvalidArgument):
    """A provider profile was asked for that does not exist; the message names those that do."""


_ALL = frozenset(f"R{number}" for number in range(1, 21))

PROFILES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        # OpenAI chat pairs calls strictly, but takes any order of roles and results, empty text
        # (R10 then only asks that there is content at all), and has no cache markers.
        "openai": _ALL - {"R4", "R7", "R8", "R9", "R11", "R14", "R20"},
        # Claude, also on Bedrock and Vertex: everything, except that results may hold images.
        "anthropic": _ALL - {"R20"},
        # Gemini pairs by count, order and name: it never sees call ids or cache markers.
        "gemini": _ALL - {"R6", "R14", "R20"},
        # Mistral has the strictest chat template: R20, and call ids of exactly nine characters.
        "mistral": _ALL,
        # One history for nearly everyone: all but what only Mistral asks for.
        "portable": _ALL - {"R20"},
    }
)

_NINE_CHARACTER_IDS = frozenset({"mistral"})  # R6
_EMPTY_TEXT_ALLOWED = frozenset({"openai"})  # R10
_IMAGES_IN_RESULTS_ALLOWED = frozenset({"anthropic"})  # R12


def check_messages(
    messages: Sequence[Any],
    profile: str = "portable",
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    window: int | None = None,
    max_output_tokens: int = 0,
    vision: bool | None = None,
) -> list[Violation]:
    """Every violation of ``profile``'s rules, in the order of the rules; empty if all hold.

    ``messages`` are OpenAI/litellm chat dicts, objects with a ``to_dict()``, or a mixture; a key
    whose value is None counts as absent. Nothing is changed. Malformed messages never raise: each
    is a violation. ``tools`` are OpenAI or Anthropic tool definitions (R14, R16, R17, R18).
    ``window`` and ``max_output_tokens`` are tokens; without a window R18 is not checked.
    ``vision``: False makes every image a violation of R12, None or True only misplaced ones.

    Raises ``UnknownProfile`` for a profile that is not in ``PROFILES``.
    """
    if profile not in PROFILES:
        raise UnknownProfile(f"unknown profile {profile!r}; there are: {', '.join(PROFILES)}")
    chat = _read(messages, tools, _Chat(profile, vision, window, max_output_tokens))
    return [
        Violation(rule, index, problem)
        for rule, findings in RULES.items()
        if rule in PROFILES[profile]
        for index, problem in findings(chat)
    ]


def every_call_has_its_result(chat: _Chat) -> _Findings:
    """R1. Each tool call of an assistant message gets exactly one result, in the messages directly
    after it. OpenAI, Anthropic, Moonshot and Gemini refuse a call without. (One too many: R3.)"""
    for owner, results in chat.batches:
        answered = {result.answers for result in results}
        for call in owner.calls:
            if not isinstance(call.id, str):
                yield owner.index, f"the call of {_shown(call.name)} has no id to answer"
            elif call.id not in answered:
                yield owner.index, f"call {_shown(call.id)} has no result directly after it"


def every_result_has_its_call(chat: _Chat) -> _Findings:
    """R2. Each tool result answers a call of the assistant message that its run of results follows.
    Every provider refuses an orphan."""
    for owner, results in chat.batches:
        ids = set(owner.call_ids)
        for result in results:
            if result.answers is None:
                yield result.index, "the result names no call (tool_call_id)"
            elif result.answers not in ids:
                yield result.index, f"{_shown(result.answers)} is no call of the message before"


def no_id_twice(chat: _Chat) -> _Findings:
    """R3. No tool call id is used twice in the list, and no call is answered twice. OpenAI and
    Anthropic refuse both; a doubled result also breaks Gemini's count."""
    called: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    for message in chat.messages:
        for id_ in message.call_ids:
            called[id_] += 1
            if called[id_] > 1:
                yield message.index, f"call id {_shown(id_)} was used before"
        if message.answers is not None:
            answered[message.answers] += 1
            if answered[message.answers] > called[message.answers] > 0:
                yield message.index, f"call {_shown(message.answers)} was answered before"


def results_in_order_of_calls(chat: _Chat) -> _Findings:
    """R4. The results of parallel calls stand together (R1, R2) and in the order of the calls.
    Gemini pairs them by position; Anthropic wants them in one user message."""
    for owner, results in chat.batches:
        places = {id_: place for place, id_ in enumerate(owner.call_ids)}
        latest = -1
        for result in results:
            place = places.pop(result.answers or "", latest)  # orphans (R2) and repeats (R3) aside
            if place < latest:
                yield result.index, f"{_shown(result.answers)} is answered after a later call"
            latest = max(latest, place)


def arguments_are_one_json_object(chat: _Chat) -> _Findings:
    """R5. Tool arguments are one valid JSON object, as text. Many OpenAI-compatible servers parse
    them strictly and refuse the whole history for one raw control character."""
    for message in chat.messages:
        for call in message.calls:
            if not isinstance(call.arguments, str):
                problem = f"must be JSON text, found {_shown(call.arguments)}"
            else:
                try:
                    if isinstance(_strict_json(call.arguments), dict):
                        continue
                    problem = f"must be a JSON object, found {_shown(call.arguments)}"
                except ValueError as error:
                    problem = f"are not valid JSON ({error})"
            yield message.index, f"the arguments of {_shown(call.name)} {problem}"


def call_ids_are_plain(chat: _Chat) -> _Findings:
    """R6. Call ids are 1 to 64 letters, digits, ``_`` or ``-``, in calls and in results (OpenAI,
    Anthropic); for Mistral exactly nine letters or digits."""
    nine = chat.profile in _NINE_CHARACTER_IDS
    pattern = r"[A-Za-z0-9]{9}" if nine else r"[A-Za-z0-9_-]{1,64}"
    for message in chat.messages:
        ids = [call.id for call in message.calls]
        if message.role == "tool":
            ids.append(message.raw.get("tool_call_id"))
        for id_ in ids:
            if id_ is not None and not (isinstance(id_, str) and re.fullmatch(pattern, id_)):
                yield message.index, f"call id {_shown(id_)} is not of the form {pattern}"


def system_comes_first(chat: _Chat) -> _Findings:
    """R7. At most one system message, and it is first. Anthropic and Gemini have one place for it;
    many chat templates raise on another."""
    for message in chat.messages[1:]:
        if message.role == "system":
            yield message.index, "a system message that is not the first message"


def user_opens(chat: _Chat) -> _Findings:
    """R8. The first message after the system message is a user message. Anthropic, Gemini and chat
    templates refuse a conversation that the assistant opens."""
    first = next((message for message in chat.messages if message.role != "system"), None)
    if first is not None and first.role != "user":
        yield first.index, f"the conversation opens with role {first.role}, expected user"


def roles_alternate(chat: _Chat) -> _Findings:
    """R9. User and assistant alternate; tool results count as the user's side. Strict chat
    templates, older Anthropic endpoints and Gemini refuse two user or two assistant messages in a
    row. Results before a user message are one side's blocks and may stand together (but R20)."""
    for before, message in chat.neighbours:
        if before.role == message.role and message.role in ("user", "assistant"):
            yield message.index, f"two {message.role} messages in a row"


def nothing_is_empty(chat: _Chat) -> _Findings:
    """R10. No empty text (whitespace alone is empty), neither as content nor as a text block; an
    assistant message has text or tool calls. Anthropic, Bedrock and Vertex refuse it. OpenAI takes
    the empty text but not a message without any content."""
    empty_text_allowed = chat.profile in _EMPTY_TEXT_ALLOWED
    for message in chat.messages:
        if not message.calls and all(_is_thinking(block) for block in message.blocks):
            yield message.index, f"the {message.role} message has no content"
        for block in message.blocks:
            if _is_empty(block) and not (empty_text_allowed and block.get("text") is not None):
                yield message.index, f"empty text in the {message.role} message"


def user_side_has_the_last_word(chat: _Chat) -> _Findings:
    """R11. The last message is from the user or a tool result. Anthropic, Mistral, Bedrock and
    Gemini take another for an assistant prefill, or refuse it."""
    if chat.messages and chat.messages[-1].role not in ("user", "tool"):
        last = chat.messages[-1]
        yield last.index, f"the last message has role {last.role}, expected user or tool"


def images_where_they_are_seen(chat: _Chat) -> _Findings:
    """R12. Images only where the model takes them: in user messages, and in tool results for
    profiles that allow it (Anthropic; OpenAI chat refuses them). Without vision: nowhere."""
    allowed = {"user", "tool"} if chat.profile in _IMAGES_IN_RESULTS_ALLOWED else {"user"}
    for message in chat.messages:
        for _ in filter(is_image, message.blocks):
            if chat.vision is False:
                yield message.index, "an image, but the model has no vision"
            elif message.role not in allowed:
                yield message.index, f"an image in a message of role {message.role}"


def images_are_usable(chat: _Chat) -> _Findings:
    """R13. An image has a usable URL, or base64 data of a supported type (png, jpeg, gif, webp)
    with the right media type. Every provider refuses others."""
    for message in chat.messages:
        for image in filter(is_image, message.blocks):
            url = image_reference(image)
            problem = "it has neither a URL nor data" if url is None else image_problem(url)
            if problem:
                yield message.index, f"the image cannot be used: {problem}"


def cache_markers_are_placed(chat: _Chat) -> _Findings:
    """R14. At most four cache markers (``cache_control``), in messages and tools together, never on
    an empty block; each on the last non-empty block of its message, or, for a tool message, on the
    message itself. Anthropic refuses a fifth one, and one on empty text or on thinking.

    A message whose content is a plain string may carry the marker itself: that string is its only
    block. In a list of tool calls, which follow the content, the last call may carry it.
    """
    count = sum(_is_marked(tool) or _is_marked(_member(tool, "function")) for tool in chat.tools)
    for message in chat.messages:
        count += sum(map(_is_marked, (message.raw, *message.blocks)))
        count += sum(call.is_marked for call in message.calls)
        for problem in _marker_problems(message):
            yield message.index, problem
    if count > 4:
        yield None, f"{count} cache markers, at most 4 are allowed"


def thinking_opens_its_loop(chat: _Chat) -> _Findings:
    """R15. Thinking is passed back whole and first in its assistant message; a tool loop (the
    assistant messages since the last user message) that has thinking starts with it, or has none.
    Anthropic, Gemini (thought signatures) and OpenAI Responses refuse a loop without its start."""
    opener: _Message | None = None
    opener_thinks = False
    for message in chat.messages:
        for problem in _thinking_problems(message):
            yield message.index, problem
        if message.role == "user":
            opener = None
        elif message.role == "assistant":
            if opener is None:
                opener, opener_thinks = message, _has_thinking(message)
            elif not opener_thinks and _has_thinking(message):
                opener_thinks = True  # one violation a loop
                yield opener.index, f"its tool loop has thinking (message {message.index}), it not"


def everything_can_be_sent(chat: _Chat) -> _Findings:
    """R16. Every item is a chat message, no text (keys, ids, and what tool arguments decode to
    included) holds a lone surrogate or NUL, and all of it can be written as UTF-8 JSON. Else no
    request can be made, or every provider refuses it."""
    yield from chat.malformed
    for message in chat.messages:
        problem = _unsendable(message.raw)
        if problem:
            yield message.index, problem
        for call in message.calls:
            if isinstance(call.arguments, str) and "\\u" in call.arguments:
                try:
                    problem = _unsendable(_strict_json(call.arguments))
                except ValueError:  # R5 says so
                    continue
                if problem:
                    yield message.index, f"the arguments of {_shown(call.name)} decode to {problem}"
    problem = _unsendable(chat.tools)
    if problem:
        yield None, f"in the tools: {problem}"


def tool_names_are_plain(chat: _Chat) -> _Findings:
    """R17. Tool names, in calls and in the tools, are 1 to 64 letters, digits, ``_`` or ``-``.
    OpenAI and Anthropic refuse others, and so do Mistral and, but for dots, Gemini."""
    names: list[tuple[int | None, Any]]
    names = [(message.index, call.name) for message in chat.messages for call in message.calls]
    for tool in chat.tools:
        function, name = _member(tool, "function"), _member(tool, "name")
        if function is not None or _member(tool, "type") == "function":
            names.append((None, _member(function, "name")))
        elif name is not None or not isinstance(tool, dict):  # a provider's own tools may have none
            names.append((None, name))
    for index, name in names:
        if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)):
            yield index, f"tool name {_shown(name)} is not of the form [A-Za-z0-9_-]{{1,64}}"


def all_fits_the_window(chat: _Chat) -> _Findings:
    """R18. Input tokens (messages, tools, images; estimated) and the reserved output fit the window
    together. Every provider refuses more. A count that fails is a violation, never a zero."""
    if chat.window is None:
        return
    from .tokens import TokenCounter

    try:
        tokens = TokenCounter().count(
            [message.raw for message in chat.messages], tools=chat.tools or None
        )
    except Exception as error:  # malformed messages must not raise; R16 and others name the cause
        yield None, f"the tokens could not be counted ({type(error).__name__}: {error})"
        return
    if tokens + chat.max_output_tokens > chat.window:
        sum_ = f"{tokens} input and {chat.max_output_tokens} reserved output tokens"
        yield None, f"{sum_} exceed the window of {chat.window}"


def a_user_speaks(chat: _Chat) -> _Findings:
    """R19. The list is not empty and holds at least one user message. All providers."""
    if not any(message.role == "user" for message in chat.messages):
        yield None, "the list holds no user message" if chat.messages else "the list is empty"


def assistant_between_result_and_user(chat: _Chat) -> _Findings:
    """R20. An assistant message stands between a tool result and a user message. Only Mistral's
    chat template refuses otherwise."""
    for before, message in chat.neighbours:
        if (before.role, message.role) == ("tool", "user"):
            yield message.index, "a user message directly after a tool result"


_Findings = Iterator[tuple[int | None, str]]  # index of the message or None, and the problem

RULES: Mapping[str, Callable[[_Chat], _Findings]] = MappingProxyType(
    {
        "R1": every_call_has_its_result,
        "R2": every_result_has_its_call,
        "R3": no_id_twice,
        "R4": results_in_order_of_calls,
        "R5": arguments_are_one_json_object,
        "R6": call_ids_are_plain,
        "R7": system_comes_first,
        "R8": user_opens,
        "R9": roles_alternate,
        "R10": nothing_is_empty,
        "R11": user_side_has_the_last_word,
        "R12": images_where_they_are_seen,
        "R13": images_are_usable,
        "R14": cache_markers_are_placed,
        "R15": thinking_opens_its_loop,
        "R16": everything_can_be_sent,
        "R17": tool_names_are_plain,
        "R18": all_fits_the_window,
        "R19": a_user_speaks,
        "R20": assistant_between_result_and_user,
    }
)


# How a list is read: once, into messages that the rules can rely on. What cannot be read is noted
# for R16, and stands in no other rule's way.

_ROLES = ("system", "developer", "user", "assistant", "tool")
_UNREADABLE: dict[str, Any] = {"type": "unreadable"}  # stands where a content part was


@dataclass(frozen=True, slots=True)
class _Call:
    id: Any
    name: Any
    arguments: Any
    is_marked: bool


@dataclass(frozen=True, slots=True)
class _Message:
    index: int
    role: str  # one of _ROLES; "developer" is read as "system"
    raw: dict[str, Any]
    blocks: list[dict[str, Any]]  # each has a "type"; string content is one text block
    calls: list[_Call]  # of an assistant message

    @property
    def answers(self) -> str | None:
        """The id of the call that this tool result answers; None if it names none."""
        id_ = self.raw.get("tool_call_id") if self.role == "tool" else None
        return id_ if isinstance(id_, str) else None

    @property
    def call_ids(self) -> list[str]:
        return [call.id for call in self.calls if isinstance(call.id, str)]


@dataclass(slots=True)
class _Chat:
    profile: str
    vision: bool | None
    window: int | None
    max_output_tokens: int
    tools: list[Any] = field(default_factory=list[Any])
    messages: list[_Message] = field(default_factory=list[_Message])
    malformed: list[tuple[int | None, str]] = field(default_factory=list[tuple[int | None, str]])

    @property
    def neighbours(self) -> Iterator[tuple[_Message, _Message]]:
        return pairwise(self.messages)

    @property
    def batches(self) -> Iterator[tuple[_Message, list[_Message]]]:
        """Each message that is no tool result, with the run of results directly after it. A list
        that begins with results has a message without calls before them."""
        owner, results = _Message(-1, "", {}, [], []), list[_Message]()
        for message in self.messages:
            if message.role == "tool":
                results.append(message)
            else:
                yield owner, results
                owner, results = message, []
        yield owner, results


def _read(messages: object, tools: object, chat: _Chat) -> _Chat:
    for index, item in enumerate(_listed(messages, "messages", chat)):
        raw = _as_dict(item)
        role = raw.get("role") if raw is not None else None
        if raw is None:
            chat.malformed.append((index, f"expected a chat message, found {_shown(item)}"))
        elif not isinstance(role, str) or role not in _ROLES:
            chat.malformed.append((index, f"role {_shown(role)} is none of {', '.join(_ROLES)}"))
        else:
            role = "system" if role == "developer" else role
            blocks, odd_parts = _blocks(raw.get("content"))
            calls, odd_calls = _calls(raw.get("tool_calls"), role)
            chat.messages.append(_Message(index, role, raw, blocks, calls))
            chat.malformed += [(index, problem) for problem in odd_parts + odd_calls]
    chat.tools = _listed(tools, "tools", chat)
    return chat


def _listed(value: object, what: str, chat: _Chat) -> list[Any]:
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return list(value)
    if value is not None:
        chat.malformed.append((None, f"{what}: expected a list, found {_shown(value)}"))
    return []


def _as_dict(item: Any) -> dict[str, Any] | None:
    if not isinstance(item, dict):
        try:
            item = item.to_dict()
        except Exception:  # whatever it is, it is not a message
            return None
    return item if isinstance(item, dict) else None


def _blocks(content: object) -> tuple[list[dict[str, Any]], list[str]]:
    """The content as blocks, and what is odd about it."""
    if content is None:
        return [], []
    if isinstance(content, str):
        return [{"type": "text", "text": content}], []
    if not isinstance(content, list | tuple):
        return [_UNREADABLE], [f"content is {_shown(content)}, expected text or a list of parts"]
    blocks = [part if _is_block(part) else _UNREADABLE for part in content]
    return blocks, ["a content part without a type, or of type text without text"] * sum(
        block is _UNREADABLE for block in blocks
    )


def _calls(calls: object, role: str) -> tuple[list[_Call], list[str]]:
    """The tool calls, and what is odd about them."""
    if calls is None or calls == []:  # an empty list says what null says
        return [], []
    if not isinstance(calls, list | tuple) or role != "assistant":
        return [], [f"tool_calls of role {role} are {_shown(calls)}, expected an assistant's list"]
    found = [
        _Call(
            call.get("id"),
            _member(call.get("function"), "name"),
            _member(call.get("function"), "arguments"),
            _is_marked(call) or _is_marked(call.get("function")),
        )
        for call in calls
        if isinstance(call, dict)
    ]
    return found, ["a tool call is not a dict"] * (len(calls) - len(found))


def _is_block(part: object) -> bool:
    kind, text = _member(part, "type"), _member(part, "text")
    return isinstance(kind, str) and (kind != "text" or text is None or isinstance(text, str))


def _is_empty(block: dict[str, Any]) -> bool:
    return block["type"] == "text" and not (block.get("text") or "").strip()


def _is_thinking(block: dict[str, Any]) -> bool:
    return block["type"] in ("thinking", "redacted_thinking")


def _has_thinking(message: _Message) -> bool:
    kept = (message.raw.get(k) for k in ("thinking_blocks", "reasoning_items", "reasoning_content"))
    return any(map(_is_thinking, message.blocks)) or any(
        isinstance(value, str | list | tuple) and len(value) > 0 for value in kept
    )


def _thinking_problems(message: _Message) -> Iterator[str]:
    in_content = list(map(_is_thinking, message.blocks))
    if in_content != sorted(in_content, reverse=True):
        yield "thinking stands after other content"
    if message.role != "assistant" and _has_thinking(message):
        yield f"thinking in a message of role {message.role}"
    beside = message.raw.get("thinking_blocks")
    if beside is not None and not isinstance(beside, list | tuple):
        yield f"thinking_blocks are {_shown(beside)}, expected a list"
        beside = None
    for block in (*(beside or ()), *filter(_is_thinking, message.blocks)):
        kind = _member(block, "type")
        whole = (kind == "thinking" and isinstance(block.get("thinking"), str)) or (
            kind == "redacted_thinking" and isinstance(block.get("data"), str)
        )
        if not whole:
            yield f"a thinking block of type {_shown(kind)} without what that type needs"


def _marker_problems(message: _Message) -> Iterator[str]:
    filled = [b for b in message.blocks if not (_is_empty(b) or _is_thinking(b))]
    last = filled[-1] if filled else None
    marked = [b for b in message.blocks if _is_marked(b)]
    if message.role == "tool" and marked:
        yield "a cache marker on a block, expected on the tool message itself"
    elif any(block is not last for block in marked):
        yield "a cache marker that is not on the last non-empty block"
    is_plain = isinstance(message.raw.get("content"), str)
    if _is_marked(message.raw) and last is None:
        yield "a cache marker on an empty message"
    elif _is_marked(message.raw) and message.role != "tool" and not is_plain:
        yield "a cache marker beside the blocks, expected on the last of them"
    if any(call.is_marked for call in message.calls[:-1]):
        yield "a cache marker on a tool call that is not the last"


def _is_marked(holder: object) -> bool:
    return _member(holder, "cache_control") is not None


def _strict_json(text: str) -> object:
    """The value of JSON text; ValueError for anything that a strict parser refuses."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _unsendable(value: object) -> str | None:
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


def _member(holder: object, key: str) -> Any:
    return holder.get(key) if isinstance(holder, dict) else None


def _shown(value: object) -> str:
    """The value, short enough for a message."""
    if value is None:
        return "nothing"
    return repr(value[:60]) if isinstance(value, str) else type(value).__name__
