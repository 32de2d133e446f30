"""Each provider rule: a list that breaks it alone, and its neighbour that keeps every rule."""

import base64
import copy
import json
import pickle
import re
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eventfold.events import Event, ToolCall
from eventfold.events.event import EventfoldError
from eventfold.memory import (
    ConversationMemory,
    ImageContent,
    Message,
    NothingToSend,
    TextContent,
    message_rules,
)
from eventfold.memory.images import as_image_url, image_problem
from eventfold.memory.rules import PROFILES, RULES, UnknownProfile, Violation, check_messages
from tests.logs import event_logs

Chat = list[dict[str, Any]]


def system(content: Any = "You fix bugs.", **more: Any) -> dict[str, Any]:
    return {"role": "system", "content": content, **more}


def user(content: Any = "Fix it.", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def agent(content: Any = "Done.", **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def call(id_: Any, arguments: Any = "{}", name: Any = "run", **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": id_, "type": "function", "function": function, **more}


def calls(*ids: Any, content: Any = None, **more: Any) -> dict[str, Any]:
    return agent(content, tool_calls=[call(id_) for id_ in ids], **more)


def result(id_: Any, content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": content, **more}


def said(value: Any) -> Chat:
    """A list whose one tool call has these arguments."""
    return [user(), agent(None, tool_calls=[call("a", value)]), result("a")]


def text(value: Any, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def image(url: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


MAGIC = {
    "png": b"\x89PNG\r\n\x1a\n....",
    "jpeg": b"\xff\xd8\xff\xe0....",
    "gif": b"GIF89a....",
    "webp": b"RIFF\x04\0\0\0WEBPVP8 ",
}
PNG = "data:image/png;base64," + b64(MAGIC["png"])
PICTURE = image(PNG)
MARK = {"cache_control": {"type": "ephemeral"}}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
SECRET = {"type": "redacted_thinking", "data": "b3BhcXVl"}
KEPT: Chat = [
    system(),
    user(),
    calls("a", "b", thinking_blocks=[THOUGHT]),
    result("a"),
    result("b"),
    agent([THOUGHT, SECRET, text("One more.")], tool_calls=[call("c", '{"q": "\\ud83d\\ude00"}')]),
    result("c", [text("a picture")]),
    agent("Which of them?"),
    user([text("This one."), PICTURE]),
]
REVERSED = [user(), calls("a", "b"), result("b"), result("a")]

# Rule, list that breaks it and no other, list next to it that keeps all.
CASES: list[tuple[str, Chat, Chat]] = [
    ("R1", [user(), calls("a", "b"), result("a")], [user(), calls("a"), result("a")]),
    ("R1", [user(), calls("a"), user("wait")], [user(), calls("a"), result("a"), user("wait")]),
    ("R1", [user(), calls(None), user()], [user(), agent("Hm."), user()]),
    (
        "R2",
        [user(), calls("a"), result("a"), result("zz")],
        [user(), calls("a", "zz"), result("a"), result("zz")],
    ),
    ("R2", [user(), result("zz"), user()], [user(), agent(), user()]),
    ("R2", [user(), agent(), result("zz")], [user(), calls("zz"), result("zz")]),
    ("R2", [user(), calls("a"), result("a"), result(None)], [user(), calls("a"), result("a")]),
    ("R3", [user(), calls("a"), result("a"), result("a", "later")], said("{}")),
    (
        "R3",
        [user(), calls("a"), result("a"), calls("a"), result("a")],
        [user(), calls("a"), result("a"), calls("b"), result("b")],
    ),
    ("R3", [user(), calls("a", "a"), result("a"), result("a")], said("{}")),
    ("R4", REVERSED, [user(), calls("a", "b"), result("a"), result("b")]),
    ("R5", said('{"a": "raw\nnewline"}'), said('{"a": "escaped\\nnewline"}')),
    ("R5", said("[1]"), said('{"a": [1]}')),
    ("R5", said('{"a": 1} {"b": 2}'), said(' {"a": 1} ')),
    ("R5", said('{"a": NaN}'), said('{"a": "NaN"}')),
    ("R5", said('{"a": -Infinity}'), said('{"a": -1}')),
    ("R5", said(""), said("{}")),
    ("R5", said(None), said("{}")),
    ("R5", said({"a": 1}), said('{"a": 1}')),
    ("R5", said("[" * 100_000), said("{}")),
    (
        "R6",
        [user(), calls("a.b"), result("a.b")],
        [user(), calls("a_-B9"), result("a_-B9")],
    ),
    (
        "R6",
        [user(), calls("x" * 65), result("x" * 65)],
        [user(), calls("x" * 64), result("x" * 64)],
    ),
    ("R6", [user(), calls("a\n"), result("a\n")], said("{}")),
    ("R6", [user(), calls("é"), result("é")], said("{}")),
    ("R7", [system(), system("More."), user()], [system(), user()]),
    ("R7", [user(), agent(), system(), user()], [system(), user(), agent(), user()]),
    ("R8", [system(), agent(), user()], [system(), user("Continue."), agent(), user()]),
    ("R9", [user(), user("And?")], [user(), agent(), user("And?")]),
    (
        "R9",
        [user(), agent(), agent(), user()],
        [user(), agent(), user("Continue."), agent(), user()],
    ),
    (
        "R9",
        [user(), calls("a"), result("a"), agent(), agent(), user()],
        [user(), calls("a"), result("a"), agent(), user()],
    ),
    ("R10", [user("")], [user("-")]),
    ("R10", [user(" \n\t")], [user(" - ")]),
    ("R10", [user(None)], [user()]),
    ("R10", [user([])], [user([PICTURE])]),
    ("R10", [user([text("Look."), text(" ")])], [user([text("Look."), text("There.")])]),
    ("R10", [user([text(None), PICTURE])], [user([text("Look."), PICTURE])]),
    ("R10", [system(""), user()], [system(), user()]),
    ("R10", [user(), calls("a"), result("a", "")], [user(), calls("a"), result("a", "(none)")]),
    ("R10", [user(), calls("a"), result("a", None)], said("{}")),
    ("R10", [user(), calls("a", content=""), result("a")], said("{}")),
    ("R10", [user(), agent(None), user()], [user(), agent(), user()]),
    ("R10", [user(), agent([THOUGHT]), user()], [user(), agent([THOUGHT, text("So.")]), user()]),
    ("R11", [user(), agent()], [user(), agent(), user()]),
    (
        "R12",
        [user(), calls("a"), result("a", [PICTURE])],
        [user(), calls("a"), result("a"), user([PICTURE])],
    ),
    ("R12", [user(), agent([PICTURE]), user()], [user(), agent(), user([PICTURE])]),
    ("R12", [system([PICTURE]), user()], [system([text("Look.")]), user()]),
    ("R13", [user([image("media://sha256")])], [user([image("https://example.org/a.png")])]),
    ("R13", [user([image(None)])], [user([image(PNG)])]),
    (
        "R13",
        [user([{"type": "image_url", "image_url": "a.png"}])],
        [user([{"type": "image_url", "image_url": PNG}])],
    ),
    (
        "R13",
        [user([{"type": "image", "source": {"media_type": "image/gif", "data": PNG[22:]}}])],
        [user([{"type": "image", "source": {"media_type": "image/png", "data": PNG[22:]}}])],
    ),
    (
        "R13",
        [user([{"type": "image", "source": {"type": "url"}}])],
        [user([{"type": "image", "source": {"type": "url", "url": "https://example.org/"}}])],
    ),
    ("R14", [user([text("a", **MARK), text("b")])], [user([text("a"), text("b", **MARK)])]),
    (
        "R14",
        [user(), calls("a"), result("a", [text("ok", **MARK)])],
        [user(), calls("a"), result("a", [text("ok")], **MARK)],
    ),
    ("R14", [user([text("a")], **MARK)], [user("a", **MARK)]),
    (
        "R14",
        [user(), calls("a", **MARK), result("a")],
        [user(), calls("a", content="Hm.", **MARK), result("a")],
    ),
    (
        "R14",
        [user(), agent([{**THOUGHT, **MARK}, text("So.")]), user()],
        [user(), agent([THOUGHT, text("So.", **MARK)]), user()],
    ),
    (
        "R14",
        [user(), agent(None, tool_calls=[call("a", **MARK), call("b")]), result("a"), result("b")],
        [user(), agent(None, tool_calls=[call("a"), call("b", **MARK)]), result("a"), result("b")],
    ),
    (
        "R14",
        [system(**MARK), *[user(**MARK), agent(**MARK)] * 2, user()],
        [system(**MARK), *[user(**MARK), agent()] * 2, user(**MARK)],
    ),
    (
        "R15",
        [user(), calls("a"), result("a"), calls("b", thinking_blocks=[THOUGHT]), result("b")],
        [user(), calls("a", thinking_blocks=[SECRET]), result("a"), calls("b"), result("b")],
    ),
    (
        "R15",
        [user(), calls("a"), result("a"), calls("b", reasoning_items=[{"id": "rs"}]), result("b")],
        [user(), calls("a"), result("a"), calls("b", reasoning_items=[]), result("b")],
    ),
    (
        "R15",
        [user(), calls("a"), result("a"), calls("b", reasoning_content="Hm."), result("b")],
        [user(), calls("a"), result("a"), calls("b", reasoning_content=None), result("b")],
    ),
    (
        "R15",
        [user(), calls("a"), result("a"), agent([THOUGHT, text("So.")]), user()],
        [user(), calls("a"), result("a"), user("Go on."), agent([THOUGHT, text("So.")]), user()],
    ),
    (
        "R15",
        [user(), agent([text("So."), THOUGHT]), user()],
        [user(), agent([THOUGHT, text("So.")]), user()],
    ),
    (
        "R15",
        [user(), agent(thinking_blocks=[{"type": "thinking", "signature": "c2ln"}]), user()],
        [user(), agent(thinking_blocks=[THOUGHT]), user()],
    ),
    (
        "R15",
        [user(), agent(thinking_blocks=[{**SECRET, "data": None}]), user()],
        [user(), agent(thinking_blocks=[SECRET]), user()],
    ),
    (
        "R15",
        [user(), agent(thinking_blocks=[{**THOUGHT, "type": "musing"}]), user()],
        [user(), agent(thinking_blocks=[]), user()],
    ),
    ("R15", [user(thinking_blocks=[THOUGHT])], [user(thinking_blocks=None)]),
    ("R16", [user("half \ud83d")], [user("whole \U0001f600")]),
    ("R16", [user("a\0b")], [user("a\\u0000b, a\\\\u0000b")]),
    ("R16", [user("\\\0")], [user("\\\\u0000\\")]),
    ("R16", [user(name="\0")], [user(name="Ann")]),
    ("R16", [user(**{"k\0": "v"})], [user(k="v")]),
    ("R16", said('{"a": "\\ud83d"}'), said('{"a": "\\ud83d\\ude00"}')),
    ("R16", said('{"\\u0000": 1}'), said('{"\\\\u0000": 1}')),
    ("R16", [user(extra={1, 2})], [user(extra=[1, 2])]),
    ("R16", [user(extra=float("nan"))], [user(extra=0.5)]),
    ("R16", [user(5)], [user("5")]),
    ("R16", [user(["Look."])], [user([text("Look.")])]),
    ("R16", [user([{"text": "Look."}])], [user([{"type": "of tomorrow"}])]),
    ("R16", [user([text(5)])], [user([text("5"), {"type": "of tomorrow", "text": 5}])]),
    ("R16", [user(), agent(tool_calls="run"), user()], [user(), agent(tool_calls=None), user()]),
    ("R16", [user(), agent(tool_calls=5), user()], [user(), agent(), user()]),
    ("R16", [user(), agent(tool_calls=[None]), user()], [user(), agent(tool_calls=[]), user()]),
    ("R16", [user(tool_calls=[call("a")])], [user(tool_calls=[])]),
    (
        "R16",
        [user(), {"role": "function", "content": "ok"}],
        [system() | {"role": "developer"}, user()],
    ),
    ("R16", [user(), {"content": "Hello"}], [user(), agent(), user()]),
    (
        "R17",
        [user(), agent(None, tool_calls=[call("a", name="run it")]), result("a")],
        [user(), agent(None, tool_calls=[call("a", name="run-it_2")]), result("a")],
    ),
    (
        "R17",
        [user(), agent(None, tool_calls=[call("a", name="x" * 65)]), result("a")],
        [user(), agent(None, tool_calls=[call("a", name="x" * 64)]), result("a")],
    ),
    ("R17", [user(), agent(None, tool_calls=[call("a", name=None)]), result("a")], said("{}")),
    ("R19", [], [user()]),
]


def rules(messages: Any, profile: str = "portable", **more: Any) -> set[str]:
    return {violation.rule for violation in check_messages(messages, profile, **more)}


@pytest.mark.parametrize(("rule", "broken", "kept"), CASES)
def test_a_list_breaks_just_its_rule_and_its_neighbour_none(
    rule: str, broken: Chat, kept: Chat
) -> None:
    assert rules(broken) == {rule}
    assert check_messages(kept) == []


def test_every_rule_has_a_case_here() -> None:
    apart = {"R18", "R20"}  # a window and a profile: below
    assert {rule for rule, _, _ in CASES} | apart == set(RULES) == PROFILES["mistral"]


def test_a_list_with_a_bit_of_everything_keeps_all_rules() -> None:
    assert check_messages(KEPT, vision=True) == []
    filled = [{"tool_calls": None, "thinking_blocks": None, "name": None} | m for m in KEPT]
    assert check_messages(filled) == []


def test_violations_come_by_rule_number_and_name_their_message() -> None:
    found = check_messages([system(), user(""), calls("a"), user(), result("a"), agent("\0")])
    places = [(violation.rule, violation.index) for violation in found]
    assert places == [("R1", 2), ("R2", 4), ("R10", 1), ("R11", 5), ("R16", 5)]
    assert str(found[0]) == "R1 at message 2: call 'a' has no result directly after it"
    assert str(Violation("R19", None, "the list is empty")) == "R19: the list is empty"


def test_each_of_several_faults_is_named() -> None:
    found = check_messages([user(), calls("a", "b", "c"), result("b"), result("x"), result("y")])
    assert [(v.rule, v.index) for v in found] == [("R1", 1), ("R1", 1), ("R2", 3), ("R2", 4)]


def test_ids_are_checked_in_calls_and_in_results() -> None:
    found = check_messages([user(), calls("a.b"), result("c.d")])
    assert [(v.rule, v.index) for v in found] == [("R1", 1), ("R2", 2), ("R6", 1), ("R6", 2)]


def test_an_empty_or_thinking_block_neither_carries_a_marker_nor_is_the_last() -> None:
    assert rules([user([text("a", **MARK), text(" ")])]) == {"R10"}
    assert rules([user([text("a"), text(" ", **MARK)])]) == {"R10", "R14"}
    assert rules([user(" ", **MARK)]) == {"R10", "R14"}
    assert rules([user(), calls("a"), result("a", "", **MARK)]) == {"R10", "R14"}
    thinking = [text("So."), {**THOUGHT, **MARK}]
    assert rules([user(), agent(thinking), user()]) == {"R14", "R15"}


def test_what_cannot_be_read_hides_no_fault_beside_it() -> None:
    places = [
        (v.rule, v.index) for v in check_messages([user(), None, agent(), 5, agent(), user()])
    ]
    assert places == [("R9", 4), ("R16", 1), ("R16", 3)]


@pytest.mark.parametrize("junk", [None, 5, "text", {"role": "user"}, b"bytes"])
def test_what_is_no_list_is_a_violation(junk: Any) -> None:
    assert rules(junk) >= {"R19"}
    assert rules([user()], tools=junk) == (set() if junk is None else {"R16"})


def test_objects_are_read_by_their_to_dict() -> None:
    class Message:
        def __init__(self, told: object) -> None:
            self.told = told

        def to_dict(self) -> object:
            if isinstance(self.told, Exception):
                raise self.told
            return self.told

    assert check_messages([system(), Message(user())]) == []
    assert rules([system(), Message(user(""))]) == {"R10"}
    assert rules([user(), Message(RuntimeError("no"))]) == {"R16"}
    assert rules([user(), Message(["no dict"])]) == {"R16"}


def test_circular_and_deeply_nested_messages_are_violations() -> None:
    circle = user()
    circle["self"] = circle
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert rules([circle]) == {"R16"}
    assert rules([user(extra=deep)]) == {"R16"}
    assert rules([user(), agent(thinking_blocks=[{"type": deep}]), user()]) == {"R15", "R16"}
    del deep


# What a Message remembers


def test_a_message_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[object] = []
    monkeypatch.setattr(message_rules, "unsendable", looked_at.append)
    messages = [Message.user_message("Fix it."), Message.assistant_message("Done.")]
    for _ in range(3):
        assert rules([*messages, user("And?")]) == set()
    assert looked_at == [
        *(messages[0].to_dict(), messages[1].to_dict(), user("And?")),
        *(user("And?"), user("And?")),
    ]


def test_what_is_remembered_is_told_apart_by_profile_and_vision() -> None:
    pictures = [
        Message.user_message("Look."),
        Message.from_tool_calls([ToolCall("a", "look", "{}")]),
        Message.tool_message([TextContent("Here."), ImageContent(PNG)], "a"),
    ]
    for _ in range(2):
        assert rules(pictures, "anthropic") == set()
        assert rules(pictures, "anthropic", vision=False) == {"R12"}
        assert rules(pictures, "openai", vision=True) == {"R12"}
        assert rules(pictures, "mistral", vision=False) == {"R6", "R12"}


def test_dicts_and_other_objects_are_read_again() -> None:
    class Said(Message):
        def to_dict(self) -> dict[str, Any]:
            return message

    message = user()
    assert rules([message]) == rules([Said("user")]) == set()
    message["content"] = ""
    assert rules([message]) == rules([Said("user")]) == {"R10"}


def test_a_message_that_cannot_be_told_is_a_violation() -> None:
    broken: Any = [5]
    for _ in range(2):
        assert rules([user(), Message("user", broken)]) == {"R16"}


def test_a_checked_message_can_be_copied() -> None:
    message = Message.user_message("")
    found = check_messages([message])
    for copied in (copy.deepcopy(message), pickle.loads(pickle.dumps(message)), message.replace()):
        assert copied == message
        assert check_messages([copied]) == found


# Tools, window, vision


def test_names_of_tools_are_checked_in_both_forms() -> None:
    def named(name: Any) -> list[dict[str, Any]]:
        return [
            {"type": "function", "function": {"name": name}},
            {"name": name, "input_schema": {}},
        ]

    assert rules([user()], tools=named("run")) == set()
    places = [(v.rule, v.index) for v in check_messages([user()], tools=named("run it"))]
    assert places == [("R17", None), ("R17", None)]
    nameless: list[Any] = [{"type": "function"}, {"type": "function", "function": {}}, "run"]
    assert [v.rule for v in check_messages([user()], tools=nameless)] == ["R17"] * 3
    assert rules([user()], tools=[{"function": {"name": "run it"}}]) == {"R17"}
    assert rules([user()], tools=[{"google_search": {}}]) == set()  # a provider's own


def test_tools_must_be_sendable_and_their_markers_count() -> None:
    tool = {"type": "function", "function": {"name": "run", "description": "\0"}}
    assert rules([user()], tools=[tool]) == {"R16"}
    marked = [system(**MARK), user(**MARK), agent(**MARK), user()]
    tools = [{"type": "function", "function": {"name": f"t{n}"}, **MARK} for n in range(2)]
    assert rules(marked, tools=tools[:1]) == set()
    assert rules(marked, tools=tools) == {"R14"}
    inside = [{"type": "function", "function": {"name": f"t{n}", **MARK}} for n in range(2)]
    assert rules(marked, tools=inside[:1]) == set()
    assert rules(marked, tools=inside) == {"R14"}


def test_input_and_reserved_output_fit_the_window_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    class TokenCounter:
        def count(self, messages: Any, *, tools: Any = None) -> int:
            asked.append((messages, tools))
            return 90

    monkeypatch.setitem(sys.modules, "eventfold.memory.tokens", ModuleType("tokens"))
    monkeypatch.setattr(sys.modules["eventfold.memory.tokens"], "TokenCounter", TokenCounter, False)
    tools = [{"name": "run"}]
    assert check_messages([user()], tools=tools, window=100, max_output_tokens=10) == []
    assert asked == [([user()], tools)]
    [violation] = check_messages([user()], tools=tools, window=100, max_output_tokens=11)
    assert (violation.rule, violation.index) == ("R18", None)
    assert re.findall(r"\d+", violation.problem) == ["90", "11", "100"]


def test_a_count_that_fails_is_a_violation_and_never_a_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class TokenCounter:
        def count(self, messages: Any, *, tools: Any = None) -> int:
            raise KeyError("image")

    monkeypatch.setitem(sys.modules, "eventfold.memory.tokens", ModuleType("tokens"))
    monkeypatch.setattr(sys.modules["eventfold.memory.tokens"], "TokenCounter", TokenCounter, False)
    assert rules([user()], window=10**9) == {"R18"}


def test_the_real_counter_is_asked_about_messages_tools_and_images() -> None:
    words = [user("word " * 1000)]
    assert rules(words, window=10_000) == set()
    assert rules(words, window=500) == {"R18"}
    tools = [{"type": "function", "function": {"name": "run", "description": "word " * 1000}}]
    assert rules([user()], window=500) == set()
    assert rules([user()], window=500, tools=tools) == {"R18"}
    assert rules([user([image("https://example.org/a.png")] * 4)], window=500) == {"R18"}


def test_without_vision_no_image_may_be_sent() -> None:
    assert rules([user([PICTURE])], vision=None) == rules([user([PICTURE])], vision=True) == set()
    for profile in PROFILES:
        assert rules([user([PICTURE])], profile, vision=False) == {"R12"}
    misplaced = [user(), agent([PICTURE]), user()]
    assert len(check_messages(misplaced, vision=False)) == 1
    assert rules(misplaced, vision=True) == {"R12"}


# Profiles


def test_an_unknown_profile_is_an_error_that_names_the_others() -> None:
    with pytest.raises(UnknownProfile, match=r"'opnai'.*openai, anthropic, gemini, mistral"):
        check_messages([user()], "opnai")
    assert issubclass(UnknownProfile, EventfoldError)
    assert issubclass(UnknownProfile, ValueError)


def test_every_profile_keeps_the_rules_that_all_providers_share() -> None:
    shared = {"R1", "R2", "R3", "R5", "R10", "R12", "R13", "R15", "R16", "R17", "R18", "R19"}
    for profile, ids in PROFILES.items():
        assert shared <= ids <= set(RULES), profile


@pytest.mark.parametrize(
    ("rule", "messages", "accepted_by"),
    [
        ("R4", REVERSED, {"openai"}),
        ("R6", [user(), calls("a.b"), result("a.b")], {"gemini"}),
        ("R7", [user(), agent(), system(), user()], {"openai"}),
        ("R8", [agent(), user()], {"openai"}),
        ("R9", [user(), user()], {"openai"}),
        ("R10", [user("")], {"openai"}),
        ("R10", [user(), calls("a23456789", content=""), result("a23456789")], {"openai"}),
        ("R10", [user(None)], set()),
        ("R10", [user([text(None), PICTURE])], set()),
        ("R10", [user(), agent(None), user()], set()),
        ("R11", [user(), agent()], {"openai"}),
        (
            "R12",
            [user(), calls("a23456789"), result("a23456789", [PICTURE])],
            {"anthropic"},
        ),
        ("R12", [user(), agent([PICTURE]), user()], set()),
        ("R14", [user([text("a", **MARK), text("b")])], {"openai", "gemini"}),
        ("R19", [calls("a23456789"), result("a23456789")], set()),
        (
            "R20",
            [user(), calls("a23456789"), result("a23456789"), user()],
            {"openai", "anthropic", "gemini", "portable"},
        ),
    ],
)
def test_profiles_differ_where_providers_do(
    rule: str, messages: Chat, accepted_by: set[str]
) -> None:
    assert {profile for profile in PROFILES if rule not in rules(messages, profile)} == accepted_by
    assert all(rules(messages, profile) == set() for profile in accepted_by)


def test_mistral_wants_an_assistant_between_a_result_and_a_user() -> None:
    start = [user(), calls("a23456789"), result("a23456789")]
    assert rules([*start, user()], "mistral") == {"R20"}
    assert rules([*start, agent("Understood."), user()], "mistral") == set()


@pytest.mark.parametrize("id_", ["a2345678", "a234567890", "a2345678_", "a2345678-"])
def test_mistral_wants_ids_of_nine_letters_or_digits(id_: str) -> None:
    assert rules([user(), calls(id_), result(id_)], "mistral") == {"R6"}
    assert rules([user(), calls(id_), result(id_)], "portable") == set()


# Images


@pytest.mark.parametrize("kind", MAGIC)
def test_images_of_every_supported_type_are_usable(kind: str) -> None:
    url = f"data:image/{kind};base64,{b64(MAGIC[kind])}"
    assert image_problem(url) is None
    assert as_image_url(url) == url
    assert as_image_url(b64(MAGIC[kind])) == url
    for other in MAGIC.keys() - {kind}:
        problem = image_problem(f"data:image/{other};base64,{b64(MAGIC[kind])}")
        assert problem == f"it is called image/{other}, but its bytes are image/{kind}"


@pytest.mark.parametrize("url", ["https://example.org/a.png", "HTTP://[::1]:8080/?q=1#f"])
def test_web_images_are_usable(url: str) -> None:
    assert image_problem(url) is None
    assert as_image_url(f" {url}\n") == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.png",
        "https://",
        "https:///a.png",
        "http://exa mple.org/",
        "https://example.org/\n",
        "http://[::1",
        "http://example.org:port/",
        "ftp://example.org/a.png",
        "file:///a.png",
        "media://sha256",
        "data:image/png;base64,",
        "data:image/png," + b64(MAGIC["png"]),
        "data:image/svg+xml;base64," + b64(b"<svg/>"),
        "data:image/png;base64," + b64(b"GIF86a"),
        "data:image/webp;base64," + b64(b"RIFF\x04\0\0\0WAVEfmt "),
        "data:image/webp;base64," + b64(b"RIFX\x04\0\0\0WEBPVP8 "),
        "data:image/png;base64,\ud83d",
        PNG + "=",
        PNG + "====",
        PNG[:-1],
        b64(b"no image at all"),
    ],
)
def test_other_images_are_not_usable(url: str) -> None:
    assert image_problem(url)
    assert as_image_url(url) is None or url.startswith("https://example.org/")


def test_the_bytes_of_an_image_say_its_type() -> None:
    jpeg = "data:image/jpeg;base64," + b64(MAGIC["jpeg"])
    for label in ("image/jpg", "image/png", "application/octet-stream", "image/jpeg;name=a"):
        mislabelled = jpeg.replace("image/jpeg", label)
        assert image_problem(mislabelled)
        assert as_image_url(mislabelled) == jpeg
    problem = image_problem("data:image/png;base64," + b64(b"BM......"))
    assert problem == "it is called image/png, but its bytes are of no supported type"
    wrapped = PNG[:40] + "\n" + PNG[40:]
    assert image_problem(wrapped)
    assert as_image_url(wrapped) == PNG


@given(st.text() | st.binary().map(b64))
def test_as_image_url_gives_usable_urls_or_none(value: str) -> None:
    url = as_image_url(value)
    assert url is None or image_problem(url) is None


# Laws

WORDS = st.sampled_from(["", " ", "a", "b", "{}", "{", "\0", "\ud800", PNG, "https://a/", "x" * 65])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=5)
KEYS = st.sampled_from(
    [
        *("role", "content", "tool_calls", "tool_call_id", "id", "type", "function", "name"),
        *("arguments", "text", "image_url", "url", "source", "data", "media_type", "thinking"),
        *("thinking_blocks", "reasoning_items", "reasoning_content", "cache_control"),
    ]
)
ROLES = st.sampled_from(["system", "developer", "user", "assistant", "tool"])
TYPES = st.sampled_from(["text", "image_url", "image", "thinking", "redacted_thinking", "function"])
JUNK = st.recursive(
    SCALARS | ROLES | TYPES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(), inner, max_size=5)
    ),
    max_leaves=12,
)
PARTS = st.fixed_dictionaries(
    {"type": TYPES | JUNK},
    optional={
        "text": JUNK,
        "image_url": JUNK | st.fixed_dictionaries({"url": JUNK}),
        "source": JUNK,
        "cache_control": JUNK,
    },
)
CALLS = st.fixed_dictionaries(
    {"id": JUNK},
    optional={"function": JUNK | st.fixed_dictionaries({"name": JUNK, "arguments": JUNK})},
)
MESSAGES = st.fixed_dictionaries(
    {"role": ROLES | JUNK},
    optional={
        "content": WORDS | st.lists(PARTS | JUNK, max_size=3) | JUNK,
        "tool_calls": st.lists(CALLS | JUNK, max_size=3) | JUNK,
        "tool_call_id": JUNK,
        "thinking_blocks": st.lists(PARTS, max_size=2) | JUNK,
        "cache_control": JUNK,
    },
)


@given(
    messages=st.lists(MESSAGES | JUNK, max_size=6) | JUNK,
    tools=st.lists(CALLS | JUNK, max_size=2) | JUNK,
    profile=st.sampled_from(sorted(PROFILES)),
    vision=st.sampled_from([None, False, True]),
    window=st.sampled_from([None, 100]),
)
def test_checking_is_total_and_changes_nothing(
    messages: Any, tools: Any, profile: str, vision: bool | None, window: int | None
) -> None:
    before = copy.deepcopy((messages, tools))
    found = check_messages(messages, profile, tools=tools, vision=vision, window=window)
    assert repr((messages, tools)) == repr(before)
    assert found == check_messages(messages, profile, tools=tools, vision=vision, window=window)
    assert {violation.rule for violation in found} <= PROFILES[profile]
    numbers = [int(violation.rule[1:]) for violation in found]
    assert numbers == sorted(numbers)
    for violation in found:
        assert violation.index is None or 0 <= violation.index < len(messages)
        assert str(violation).encode()


FROZEN = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.lists(st.builds(TextContent, WORDS) | st.builds(ImageContent, WORDS), max_size=3),
    st.lists(st.builds(ToolCall, WORDS, WORDS, WORDS), max_size=2),
    tool_call_id=st.none() | WORDS,
    thinking=st.fixed_dictionaries({}, optional={"thinking_blocks": st.lists(PARTS, max_size=2)}),
    cache_marker=st.booleans(),
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """What a memory says, with a few messages left out and a few odd ones put in."""
    memory = ConversationMemory(draw(st.sampled_from(sorted(PROFILES))))
    log: list[Event] = draw(event_logs(max_size=30))
    try:
        messages = memory.process_events(log, vision_is_active=True)
    except NothingToSend:
        messages = []
    places = st.integers(0, len(messages))
    for place in draw(st.lists(places, max_size=3)):
        del messages[place : place + 1]
    for message in draw(st.lists(FROZEN, max_size=3)):
        messages.insert(draw(places), message)
    return messages


@given(conversations())
def test_a_remembered_check_equals_a_fresh_one(messages: list[Message]) -> None:
    for _ in range(2):
        for profile in PROFILES:
            for vision in (None, False):
                fresh: list[Any] = [copy.deepcopy(message.to_dict()) for message in messages]
                found = check_messages(messages, profile, vision=vision)
                assert found == check_messages(fresh, profile, vision=vision)
                found = check_messages(messages[1:], profile, vision=vision)
                assert found == check_messages(fresh[1:], profile, vision=vision)


@given(st.lists(MESSAGES | JUNK, max_size=6), st.sampled_from(sorted(PROFILES)))
def test_what_keeps_all_rules_can_be_written_as_json(messages: Chat, profile: str) -> None:
    if not any(violation.rule == "R16" for violation in check_messages(messages, profile)):
        written = json.dumps(messages, allow_nan=False, ensure_ascii=False).encode()
        assert json.loads(written) == messages


@given(
    st.sampled_from(range(len(KEPT))),
    st.sampled_from(["content", "tool_calls", "tool_call_id", "role", "thinking_blocks"]),
    JUNK,
)
def test_one_odd_value_in_a_good_list_never_raises(place: int, key: str, value: Any) -> None:
    messages = copy.deepcopy(KEPT)
    messages[place][key] = value
    before = repr(messages)
    check_messages(messages)
    assert repr(messages) == before
    if key == "role" and value not in ("system", "developer", "user", "assistant", "tool"):
        assert "R16" in rules(messages)


@given(st.permutations(KEPT), st.sampled_from(sorted(PROFILES)))
def test_calls_are_answered_only_in_their_own_place(messages: Chat, profile: str) -> None:
    """The pairing rules hold exactly if each call is directly followed by its results."""
    paired = all(
        [m.get("tool_call_id") for m in messages[place + 1 : place + 1 + len(ids)]] == ids
        for place, message in enumerate(messages)
        if (ids := [c["id"] for c in message.get("tool_calls") or ()])
    )
    broken = rules(messages, profile) & {"R1", "R2", "R3", "R4"}
    assert paired <= (not broken)
    assert broken or paired or profile == "openai"
