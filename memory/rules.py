"""What LLM providers refuse in a list of chat messages, as rules with names: R1 to R20.

``check_messages`` names every violation of a profile. Each rule is a function whose docstring says
the rule and who refuses otherwise: here those about the whole list, in the order of the numbers, in
:mod:`eventfold.memory.message_rules` those about a message on its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeAlias

from ..events.event import InvalidArgument
from .chat_reading import (
    Batch,
    Finding,
    Placed,
    is_marked,
    member,
    read_list,
    read_messages,
    shown,
    unpaired_batches,
)
from .message_rules import (
    PLAIN_NAME,
    Flaws,
    MessageRule,
    Model,
    arguments_are_one_json_object,
    call_ids_are_plain,
    call_names_are_plain,
    flaws_in,
    images_are_usable,
    images_where_they_are_seen,
    markers_end_their_message,
    message_can_be_sent,
    nothing_is_empty,
    thinking_is_whole_and_first,
    unsendable,
)

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
    is a violation. A ``Message`` is frozen and remembers what was found in it, so that the next
    check of it costs little. ``tools`` are OpenAI or Anthropic tool definitions (R14, R16, R17,
    R18). ``window`` and ``max_output_tokens`` are tokens; without a window R18 is not checked.
    ``vision``: False makes every image a violation of R12, None or True only misplaced ones.

    Raises ``UnknownProfile`` for a profile that is not in ``PROFILES``.
    """
    if profile not in PROFILES:
        raise UnknownProfile(f"unknown profile {profile!r}; there are: {', '.join(PROFILES)}")
    malformed: list[Finding] = []
    read = read_messages(messages, malformed)
    chat = _Chat(
        messages=read,
        tools=read_list(tools, "tools", malformed),
        malformed=malformed,
        unpaired=unpaired_batches(read),
        flaws=flaws_in(read, Model(profile, has_vision=vision is not False)),
        window=window,
        max_output_tokens=max_output_tokens,
    )
    return [
        Violation(rule, index, problem)
        for rule, findings in RULES.items()
        if rule in PROFILES[profile]
        for index, problem in findings(chat)
    ]


def every_call_has_its_result(chat: _Chat) -> _Findings:
    """R1. Each tool call of an assistant message gets exactly one result, in the messages directly
    after it. OpenAI, Anthropic, Moonshot and Gemini refuse a call without. (One too many: R3.)"""
    for (index, owner), results in chat.unpaired:
        answered = {result.answers for _, result in results}
        for call in owner.calls:
            if not isinstance(call.id, str):
                yield index, f"the call of {shown(call.name)} has no id to answer"
            elif call.id not in answered:
                yield index, f"call {shown(call.id)} has no result directly after it"


def every_result_has_its_call(chat: _Chat) -> _Findings:
    """R2. Each tool result answers a call of the assistant message that its run of results follows.
    Every provider refuses an orphan."""
    for (_, owner), results in chat.unpaired:
        ids = set(owner.call_ids)
        for index, result in results:
            if result.answers is None:
                yield index, "the result names no call (tool_call_id)"
            elif result.answers not in ids:
                yield index, f"{shown(result.answers)} is no call of the message before"


def no_id_twice(chat: _Chat) -> _Findings:
    """R3. No tool call id is used twice in the list, and no call is answered twice. OpenAI and
    Anthropic refuse both; a doubled result also breaks Gemini's count."""
    calls = [id_ for _, message in chat.messages for id_ in message.call_ids]
    answers = [message.answers for _, message in chat.messages if message.answers is not None]
    if len(set(calls)) == len(calls) and len(set(answers)) == len(answers):
        return  # the usual case, told fast
    called: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    for index, message in chat.messages:
        for id_ in message.call_ids:
            called[id_] += 1
            if called[id_] > 1:
                yield index, f"call id {shown(id_)} was used before"
        if message.answers is not None:
            answered[message.answers] += 1
            if answered[message.answers] > called[message.answers] > 0:
                yield index, f"call {shown(message.answers)} was answered before"


def results_in_order_of_calls(chat: _Chat) -> _Findings:
    """R4. The results of parallel calls stand together (R1, R2) and in the order of the calls.
    Gemini pairs them by position; Anthropic wants them in one user message."""
    for (_, owner), results in chat.unpaired:
        places = {id_: place for place, id_ in enumerate(owner.call_ids)}
        latest = -1
        for index, result in results:
            place = places.pop(result.answers or "", latest)  # orphans (R2) and repeats (R3) aside
            if place < latest:
                yield index, f"{shown(result.answers)} is answered after a later call"
            latest = max(latest, place)


def system_comes_first(chat: _Chat) -> _Findings:
    """R7. At most one system message, and it is first. Anthropic and Gemini have one place for it;
    many chat templates raise on another."""
    for index, message in chat.messages[1:]:
        if message.role == "system":
            yield index, "a system message that is not the first message"


def user_opens(chat: _Chat) -> _Findings:
    """R8. The first message after the system message is a user message. Anthropic, Gemini and chat
    templates refuse a conversation that the assistant opens."""
    first = next((placed for placed in chat.messages if placed[1].role != "system"), None)
    if first is not None and first[1].role != "user":
        yield first[0], f"the conversation opens with role {first[1].role}, expected user"


def roles_alternate(chat: _Chat) -> _Findings:
    """R9. User and assistant alternate; tool results count as the user's side. Strict chat
    templates, older Anthropic endpoints and Gemini refuse two user or two assistant messages in a
    row. Results before a user message are one side's blocks and may stand together (but R20)."""
    for (_, before), (index, message) in pairwise(chat.messages):
        if before.role == message.role and message.role in ("user", "assistant"):
            yield index, f"two {message.role} messages in a row"


def user_side_has_the_last_word(chat: _Chat) -> _Findings:
    """R11. The last message is from the user or a tool result. Anthropic, Mistral, Bedrock and
    Gemini take another for an assistant prefill, or refuse it."""
    for index, last in chat.messages[-1:]:
        if last.role not in ("user", "tool"):
            yield index, f"the last message has role {last.role}, expected user or tool"


def cache_markers_are_placed(chat: _Chat) -> _Findings:
    """R14. At most four cache markers (``cache_control``), in messages and tools together, each at
    the end of its message. Anthropic refuses a fifth one, and one on empty text or on thinking."""
    yield from chat.each(markers_end_their_message)
    count = sum(is_marked(tool) or is_marked(member(tool, "function")) for tool in chat.tools)
    count += sum(message.markers for _, message in chat.messages)
    if count > 4:
        yield None, f"{count} cache markers, at most 4 are allowed"


def thinking_opens_its_loop(chat: _Chat) -> _Findings:
    """R15. Thinking is passed back whole and first in its assistant message; a tool loop (the
    assistant messages since the last user message) that has thinking starts with it, or has none.
    Anthropic, Gemini (thought signatures) and OpenAI Responses refuse a loop without its start."""
    opener: int | None = None
    opener_thinks = False
    for index, message in chat.messages:
        if index in chat.flaws:
            for problem in chat.flaws[index].get(thinking_is_whole_and_first, ()):
                yield index, problem
        if message.role == "user":
            opener = None
        elif message.role == "assistant":
            if opener is None:
                opener, opener_thinks = index, message.thinks
            elif message.thinks and not opener_thinks:
                opener_thinks = True  # one violation a loop
                yield opener, f"its tool loop has thinking (message {index}), it not"


def everything_can_be_sent(chat: _Chat) -> _Findings:
    """R16. Every item is a chat message, no text (keys, ids, and what tool arguments decode to
    included) holds a lone surrogate or NUL, and all of it can be written as UTF-8 JSON. Else no
    request can be made, or every provider refuses it."""
    yield from chat.malformed
    yield from chat.each(message_can_be_sent)
    problem = unsendable(chat.tools)
    if problem:
        yield None, f"in the tools: {problem}"


def tool_names_are_plain(chat: _Chat) -> _Findings:
    """R17. Tool names, in calls and in the tools, are 1 to 64 letters, digits, ``_`` or ``-``.
    OpenAI and Anthropic refuse others, and so do Mistral and, but for dots, Gemini."""
    yield from chat.each(call_names_are_plain)
    for tool in chat.tools:
        function, name = member(tool, "function"), member(tool, "name")
        if function is not None or member(tool, "type") == "function":
            name = member(function, "name")
        elif name is None and isinstance(tool, dict):
            continue  # a provider's own tools may have no name
        if not (isinstance(name, str) and re.fullmatch(PLAIN_NAME, name)):
            yield None, f"tool name {shown(name)} is not of the form {PLAIN_NAME}"


def all_fits_the_window(chat: _Chat) -> _Findings:
    """R18. Input tokens (messages, tools, images; estimated) and the reserved output fit the window
    together. Every provider refuses more. A count that fails is a violation, never a zero."""
    if chat.window is None:
        return
    from .tokens import TokenCounter

    try:
        tokens = TokenCounter().count(
            [message.raw for _, message in chat.messages], tools=chat.tools or None
        )
    except Exception as error:  # malformed messages must not raise; R16 and others name the cause
        yield None, f"the tokens could not be counted ({type(error).__name__}: {error})"
        return
    if tokens + chat.max_output_tokens > chat.window:
        sum_ = f"{tokens} input and {chat.max_output_tokens} reserved output tokens"
        yield None, f"{sum_} exceed the window of {chat.window}"


def a_user_speaks(chat: _Chat) -> _Findings:
    """R19. The list is not empty and holds at least one user message. All providers."""
    if not any(message.role == "user" for _, message in chat.messages):
        yield None, "the list holds no user message" if chat.messages else "the list is empty"


def assistant_between_result_and_user(chat: _Chat) -> _Findings:
    """R20. An assistant message stands between a tool result and a user message. Only Mistral's
    chat template refuses otherwise."""
    for (_, before), (index, message) in pairwise(chat.messages):
        if (before.role, message.role) == ("tool", "user"):
            yield index, "a user message directly after a tool result"


@dataclass(frozen=True, slots=True)
class _Chat:
    """A request, as the rules see it."""

    messages: list[Placed]
    tools: list[Any]
    malformed: list[Finding]
    flaws: dict[int, Flaws]
    """What is wrong with single messages, by index."""
    unpaired: list[Batch]
    """Those batches whose results do not answer their calls one by one."""
    window: int | None
    max_output_tokens: int

    def each(self, rule: MessageRule) -> _Findings:
        """What a rule finds in each message on its own."""
        for index, flaws in self.flaws.items():
            for problem in flaws.get(rule, ()):
                yield index, problem


def _in_each_message(rule: MessageRule) -> Callable[[_Chat], _Findings]:
    return lambda chat: chat.each(rule)


_Findings: TypeAlias = Iterator[Finding]

RULES: Mapping[str, Callable[[_Chat], _Findings]] = MappingProxyType(
    {
        "R1": every_call_has_its_result,
        "R2": every_result_has_its_call,
        "R3": no_id_twice,
        "R4": results_in_order_of_calls,
        "R5": _in_each_message(arguments_are_one_json_object),
        "R6": _in_each_message(call_ids_are_plain),
        "R7": system_comes_first,
        "R8": user_opens,
        "R9": roles_alternate,
        "R10": _in_each_message(nothing_is_empty),
        "R11": user_side_has_the_last_word,
        "R12": _in_each_message(images_where_they_are_seen),
        "R13": _in_each_message(images_are_usable),
        "R14": cache_markers_are_placed,
        "R15": thinking_opens_its_loop,
        "R16": everything_can_be_sent,
        "R17": tool_names_are_plain,
        "R18": all_fits_the_window,
        "R19": a_user_speaks,
        "R20": assistant_between_result_and_user,
    }
)
