"""Condensers that need no LLM and leave no event: what they show of a view, worked out by hand."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eventfold.condensers import (
    AgentContext,
    BrowserOutputCondenser,
    Condenser,
    CondenserPipeline,
    InvalidConfig,
    ObservationMaskingCondenser,
    RecentEventsCondenser,
    SupersededCondenser,
    ToolClearingCondenser,
    TruncationCondenser,
    condenser_from_config,
)
from eventfold.condensers.stubs import Window
from eventfold.events import (
    AgentCondensationObservation,
    AgentDelegateAction,
    AgentDelegateObservation,
    BrowserOutputObservation,
    BrowseURLAction,
    CmdOutputObservation,
    CmdRunAction,
    CondensationRequestAction,
    ErrorObservation,
    Event,
    EventStream,
    FileEditAction,
    FileEditObservation,
    FileReadAction,
    FileReadObservation,
    FileWriteAction,
    InvalidArgument,
    MCPAction,
    MCPObservation,
    Observation,
    SystemMessageAction,
    TaskTrackingAction,
    UserRejectObservation,
    register_event,
)
from eventfold.memory import (
    ConversationMemory,
    Message,
    NothingToSend,
    TokenCounter,
    Turn,
    View,
    check_messages,
)
from tests.logs import A, C, E, Item, M, O, R, S, U, batch, event_logs, log
from tests.samples import PNG

LONG = "word " * 200  # 1000 characters
COUNTER = TokenCounter(exact=False)


def view_of(*items: Any) -> View:
    return View.from_events(log(*items))


def pairs(count: int, text: str = LONG) -> list[Item]:
    """``count`` calls with their results: c0, O(c0), c1 ..."""
    return [item for n in range(count) for item in (A(f"r{n}", f"c{n}"), O(f"c{n}", text))]


def condensed(condenser: Condenser, view: View) -> View:
    result = condenser.condense(view)
    assert isinstance(result, View)
    return result


def changed(condenser: Condenser, view: View) -> list[int]:
    """The ids of the events that are shown otherwise."""
    result = condensed(condenser, view)
    assert len(result) == len(view)
    return [old.id for old, new in zip(view, result, strict=True) if old is not new]


def kept(condenser: Condenser, view: View) -> list[int]:
    return [event.id for event in condensed(condenser, view)]


def content(view: View, place: int) -> str:
    text = getattr(view[place], "content", None)
    assert isinstance(text, str)
    return text


def tokens(view: View) -> int:
    try:
        return COUNTER.count(ConversationMemory().process_events(view))
    except NothingToSend:
        return 0


# ---------------------------------------------------------------------- windows


@pytest.mark.parametrize(
    ("size", "stride", "outside"),
    [
        (0, 1, [0, 1, 2, 3, 4, 5, 6]),
        (1, 1, [0, 0, 1, 2, 3, 4, 5]),
        (3, 1, [0, 0, 0, 0, 1, 2, 3]),
        (3, 2, [0, 0, 0, 0, 2, 2, 4]),
        (3, 3, [0, 0, 0, 0, 3, 3, 3]),
    ],
)
def test_the_border_of_a_window_moves_in_jumps(size: int, stride: int, outside: list[int]) -> None:
    window = Window(size, stride, "events")
    assert [window.outside(count) for count in range(7)] == outside
    for count in range(7):
        jumped = window.since(count)
        assert window.outside(jumped) == outside[count]
        assert jumped == count or window.outside(jumped - 1) < outside[count] or not outside[count]


# ---------------------------------------------------------------------- observation masking


@pytest.mark.parametrize(
    ("window", "masked"),
    [
        # S U c0 O(c0) c1 O(c1) c2 O(c2): ids 0 to 7
        (0, [3, 5, 7]),
        (1, [3, 5]),
        (2, [3, 5]),
        (3, [3]),
        (4, [3]),
        (5, []),
        (100, []),
    ],
)
def test_results_outside_the_window_are_masked(window: int, masked: list[int]) -> None:
    view = view_of(S(), U(), pairs(3))
    condenser = ObservationMaskingCondenser(window)
    assert changed(condenser, view) == masked
    assert condenser.metadata.get("masked", 0) == len(masked)


def test_a_stub_has_the_links_of_its_result_and_says_what_is_missing() -> None:
    view = view_of(S(), U(), pairs(2))
    stub = condensed(ObservationMaskingCondenser(0), view)[3]
    assert isinstance(stub, AgentCondensationObservation)
    assert (stub.id, stub.cause, stub.timestamp) == (3, 2, view[3].timestamp)
    assert stub.tool_call_metadata is view[3].tool_call_metadata
    # an exit code stands below the output: "\n[The command ended with exit code 0.]"
    assert "1038 characters" in stub.content
    assert "event 3" in stub.content
    assert "Repeat the call" in stub.content


def test_parallel_results_are_masked_each_by_its_place() -> None:
    view = view_of(S(), U(), pairs(1), batch("s", "a", "b"), U("wait"), O("a", LONG), O("b", LONG))
    assert changed(ObservationMaskingCondenser(1), view) == [3, 7]
    assert changed(ObservationMaskingCondenser(0), view) == [3, 7, 8]


def test_a_result_that_is_no_larger_than_its_stub_stays() -> None:
    view = view_of(S(), U(), pairs(3, "ok"))
    assert condensed(ObservationMaskingCondenser(0), view) is view


def test_summaries_messages_and_actions_are_never_masked() -> None:
    view = view_of(
        S(LONG), U(LONG), pairs(1), M(LONG, label="m"), C([2, 3], LONG), U(LONG), pairs(1), M("So.")
    )
    assert [event.id for event in view] == [0, 5, 1, 4, 6, 7, 8, 9]
    assert changed(ObservationMaskingCondenser(0), view) == [8]


def test_late_results_and_those_that_no_call_asked_for_are_masked_too() -> None:
    lone = CmdOutputObservation(content=LONG, command="top")
    view = view_of(U(), A("r", "a"), M("Meanwhile."), O("a", LONG), O("gone", LONG), lone, M("So."))
    assert changed(ObservationMaskingCondenser(0), view) == [3, 4, 5]


def test_of_two_results_the_one_that_counts_is_masked() -> None:
    """A stand-in error that is ignored stays one: as a stub it would hide the real result."""
    view = view_of(U(), A("r", "a"), O("a", LONG), E("a", LONG), M("So."))
    masked = condensed(ObservationMaskingCondenser(0), view)
    assert [type(event) for event in masked[2:4]] == [
        AgentCondensationObservation,
        ErrorObservation,
    ]
    (call,) = masked.turns[1].calls
    assert call.result is masked[2]


def test_a_stride_keeps_the_border_where_it_is_for_a_while() -> None:
    condenser = ObservationMaskingCondenser(6, 4)
    events = log(S(), U(), pairs(8))
    masked = [changed(condenser, View.from_events(events[: 2 + 2 * n])) for n in range(9)]
    # sizes 2, 4, ... 18: the border is at 4 from size 7 on, at 8 from 11, at 12 from 15
    assert masked == [[], [], [], [3], [3], [3, 5, 7], [3, 5, 7], [3, 5, 7, 9, 11], masked[7]]


def test_pictures_go_where_the_text_of_a_result_is_small() -> None:
    page = BrowserOutputObservation("ok", url="http://a/", screenshot=PNG)
    view = view_of(U(), A("r", "a", action=BrowseURLAction("http://a/")), O("a", observation=page))
    masked = condensed(ObservationMaskingCondenser(0), view)
    assert content(masked, 2) == "[Page: http://a/]\nok\n(1 image left out)"
    assert tokens(masked) < tokens(view)


# ---------------------------------------------------------------------- browser output


def pages(count: int, text: str = LONG) -> list[Item]:
    return [
        item
        for n in range(count)
        for item in (
            A(f"r{n}", f"p{n}", action=BrowseURLAction(f"http://a/{n}")),
            O(f"p{n}", observation=BrowserOutputObservation(text, url=f"http://a/{n}")),
        )
    ]


@pytest.mark.parametrize(("window", "masked"), [(0, [2, 4, 6]), (1, [2, 4]), (2, [2]), (3, [])])
def test_pages_outside_the_window_are_masked(window: int, masked: list[int]) -> None:
    view = view_of(U(), pages(3))
    assert changed(BrowserOutputCondenser(window), view) == masked
    if masked:
        stub = content(condensed(BrowserOutputCondenser(window), view), 2)
        assert "1000 characters of the page http://a/0" in stub
        assert "event 2" in stub


def test_small_pages_are_masked_too() -> None:
    view = view_of(U(), pages(3, "a small page"))
    assert changed(BrowserOutputCondenser(1), view) == [2, 4]


def test_pages_leave_in_strides() -> None:
    condenser = BrowserOutputCondenser(3, 3)
    events = log(U(), pages(8))
    masked = [len(changed(condenser, View.from_events(events[: 1 + 2 * n]))) for n in range(9)]
    assert masked == [0, 0, 0, 0, 3, 3, 3, 6, 6]


# ---------------------------------------------------------------------- recent events

TEN = (S(), U(), *pairs(4))  # ids 0 to 9


@pytest.mark.parametrize(
    ("keep_first", "max_events", "ids"),
    [
        (1, 100, range(10)),
        (1, 10, range(10)),  # the limit met exactly
        (1, 9, [0, 1, 4, 5, 6, 7, 8, 9]),
        (1, 8, [0, 1, 4, 5, 6, 7, 8, 9]),
        (1, 4, [0, 1, 8, 9]),
        (1, 3, [0, 1]),  # system and newest user message, whatever the bound
        (1, 1, [0, 1]),
        (0, 1, [0, 1]),
        (None, 4, [0, 1, 8, 9]),
        (3, 6, [0, 1, 2, 3, 8, 9]),  # three events are two and a half turns: the third is whole
        (4, 1, [0, 1, 2, 3]),  # a head that is longer than the bound
        (99, 5, range(10)),  # a history that is shorter than its head
    ],
)
def test_the_head_and_the_newest_turns_stay(
    keep_first: int | None, max_events: int, ids: list[int]
) -> None:
    view = view_of(*TEN)
    assert kept(RecentEventsCondenser(keep_first, max_events), view) == [*ids]


def test_the_task_stays_only_where_it_is_asked_for() -> None:
    view = view_of(S(), U("first"), pairs(2), U("second"), M("a"), M("b"))
    assert kept(RecentEventsCondenser(1, 4), view) == [0, 6, 7, 8]
    assert kept(RecentEventsCondenser(None, 5), view) == [0, 1, 6, 7, 8]
    assert kept(RecentEventsCondenser(0, 1), view) == [0, 6]


def test_a_waiting_call_and_a_summary_stay_whatever_the_bound() -> None:
    view = view_of(S(), U(), pairs(1), C([2, 3], "It began."), M("a"), batch("s", "a", "b"), O("b"))
    assert kept(RecentEventsCondenser(0, 1), view) == [0, 4, 1, 6, 7, 8]


def test_nothing_changes_within_the_bound() -> None:
    view = view_of(*TEN)
    condenser = RecentEventsCondenser(1, 10)
    assert condensed(condenser, view) is view
    assert condenser.metadata == {}


def test_turns_leave_in_strides() -> None:
    condenser = RecentEventsCondenser(1, 8, 4)
    events = log(S(), U(), pairs(10))
    sizes = [len(condensed(condenser, View.from_events(events[: 2 + 2 * n]))) for n in range(11)]
    assert sizes == [2, 4, 6, 8, 6, 8, 6, 8, 6, 8, 6]


def test_a_user_message_that_was_the_newest_stays_until_the_next_jump() -> None:
    events = log(S(), U("a"), U("b"), pairs(3), U("c"), M("1"), M("2"), M("3"))
    condenser = RecentEventsCondenser(1, 8, 4)
    assert kept(condenser, View.from_events(events[:9])) == [0, 2, 7, 8]
    assert kept(condenser, View.from_events(events[:12])) == [0, 2, 7, 8, 9, 10, 11]
    assert kept(condenser, View.from_events(events)) == [0, 9, 10, 11, 12]


# ---------------------------------------------------------------------- truncation


def test_only_results_over_the_limit_are_cut() -> None:
    lone = AgentDelegateObservation(outputs={"found": "x" * 300})
    text = "a" * 100 + "b" * 100
    view = view_of(
        S("s" * 300),
        U("u" * 300),
        A("r", "a"),
        O("a", observation=MCPObservation(text[:-1])),
        A("q", "b"),
        O("b", observation=MCPObservation(text)),
        A("p", "c"),
        O("c", observation=MCPObservation(text * 2 + "c")),
        A("o", "d", action=AgentDelegateAction("helper")),
        O("d", observation=lone),
        M("m" * 300),
    )
    cut = condensed(TruncationCondenser(200), view)
    assert changed(TruncationCondenser(200), view) == [7, 9]
    assert isinstance(cut[7], MCPObservation)  # its kind, with all the rest
    assert cut[7].tool_call_metadata is view[7].tool_call_metadata
    said = content(cut, 7)
    assert len(said) == 200
    assert said.startswith("aaa")
    assert said.endswith("bc")
    # the note has 46 characters, so that 154 of 401 are kept
    note = "\n[... 247 characters of event 7 left out ...]\n"
    assert said == "a" * 77 + note + text[-76:] + "c"


def test_a_result_that_is_hardly_over_the_limit_does_not_grow_in_tokens() -> None:
    view = view_of(U(), A("r", "a"), O("a", observation=MCPObservation("word " * 200 + "!")))
    cut = condensed(TruncationCondenser(1000), view)
    assert 900 < len(content(cut, 2)) <= 1000
    assert tokens(cut) < tokens(view)


def test_what_stands_beside_a_content_counts_and_stays() -> None:
    output = CmdOutputObservation("x" * 1000, command="run", exit_code=1)
    view = view_of(U(), A("r", "a"), O("a", observation=output))
    cut = condensed(TruncationCondenser(200), view)
    messages = ConversationMemory().process_events(cut)
    assert len(messages[-1].text) <= 200
    assert messages[-1].text.endswith("x\n[The command ended with exit code 1.]")
    short = cut[2]
    assert isinstance(short, CmdOutputObservation)
    assert (short.id, short.cause, short.exit_code, short.command) == (2, 1, 1, "run")


def test_a_newest_result_that_alone_is_too_large_is_cut() -> None:
    """langmem 111: the newest question stays, the huge result shrinks."""
    view = view_of(S(), U("one"), pairs(1), U("two"), A("r", "a"), O("a", LONG * 50))
    messages = ConversationMemory().process_events(condensed(TruncationCondenser(500), view))
    assert [m.text for m in messages if m.role == "user"] == ["one", "two"]
    assert len(messages[-1].text) <= 500


# ---------------------------------------------------------------------- tool clearing


def test_nothing_is_cleared_up_to_the_trigger_and_all_but_the_newest_above() -> None:
    view = view_of(S(), U(), pairs(6))
    whole = ToolClearingCondenser(10**6)
    assert condensed(whole, view) is view
    size = sum(whole._uses.weight(turn).tokens for turn in view.turns)
    assert condensed(ToolClearingCondenser(size), view) is view
    condenser = ToolClearingCondenser(size - 1)
    assert changed(condenser, view) == [3, 5, 7]
    assert condenser.metadata["tool_uses_cleared"] == 3
    assert condenser.metadata["clearings"] == 1
    gained = condenser.metadata["tokens_gained"]
    assert tokens(view) - tokens(condensed(condenser, view)) == pytest.approx(gained, abs=3)


@pytest.mark.parametrize(("keep", "masked"), [(0, [3, 5, 7]), (1, [3, 5, 7]), (2, [3, 5])])
def test_the_newest_uses_and_those_of_the_newest_response_stay(
    keep: int, masked: list[int]
) -> None:
    view = view_of(S(), U(), pairs(4))
    condenser = ToolClearingCondenser(0, keep)
    assert changed(condenser, view) == masked
    assert "event 3" in content(condensed(condenser, view), 3)


def test_a_gain_that_is_too_small_is_not_worth_the_cache() -> None:
    view = view_of(S(), U(), pairs(4))
    condenser = ToolClearingCondenser(0, 1)
    condensed(condenser, view)
    gained = sum(use.result_gain for _, use in _uses(condenser, view)[:3])
    assert changed(ToolClearingCondenser(0, 1, gained), view) == [3, 5, 7]
    assert condensed(ToolClearingCondenser(0, 1, gained + 1), view) is view


def _uses(condenser: ToolClearingCondenser, view: View) -> list[Any]:
    return [(turn, use) for turn in view.turns for use in condenser._uses.weight(turn).uses]


def test_excluded_tools_stay() -> None:
    search = MCPAction("search", {"query": "x"})
    view = view_of(U(), pairs(1), A("r", "a", action=search), O("a", LONG), pairs(1), M("So."))
    assert changed(ToolClearingCondenser(0, 0, exclude_tools=["search"]), view) == [2, 6]
    assert changed(ToolClearingCondenser(0, 0, exclude_tools=["execute_bash"]), view) == [4]


def test_cleared_inputs_are_valid_arguments_of_the_same_calls() -> None:
    write = FileEditAction("/a", command="str_replace", old_str=LONG, new_str=LONG)
    view = view_of(U(), A("r", "a", action=write, thinking="Hm."), O("a", "done"), M("So."))
    assert condensed(ToolClearingCondenser(0, 0), view) is view
    condenser = ToolClearingCondenser(0, 0, clear_inputs=True)
    assert changed(condenser, view) == [1]
    messages = ConversationMemory().process_events(condensed(condenser, view))
    assert check_messages(messages) == []
    (call,) = messages[1].tool_calls
    before = ConversationMemory().process_events(view)[1]
    assert (call.id, call.name) == (before.tool_calls[0].id, before.tool_calls[0].name)
    size = len(before.tool_calls[0].arguments)
    assert json.loads(call.arguments) == {"cleared": f"{size} characters of event 1"}
    assert messages[1].thinking == before.thinking  # and nothing else of it changed
    assert messages[2:] == ConversationMemory().process_events(view)[2:]


def test_the_summary_of_a_closed_sub_task_is_never_cleared() -> None:
    """It stands nowhere else: what it tells of is forgotten."""
    close = MCPAction("fold", {"command": "close", "summary": LONG})
    other = MCPAction("note", {"text": LONG})
    calls = [A("r", "a", action=close), O("a", "1"), A("s", "b", action=other), O("b", "2")]
    view = view_of(U(), calls, M("So."))
    condenser = ToolClearingCondenser(0, 0, clear_inputs=True)
    assert changed(condenser, view) == [3]
    assert [use.input_gain > 0 for _, use in _uses(condenser, view)] == [False, True]


def test_of_a_batch_only_the_inputs_of_old_calls_are_cleared() -> None:
    long = json.dumps({"command": LONG})
    view = view_of(
        U(),
        A("r", "a", arguments=long),
        A("r", "b", arguments=long),
        O("a", LONG),
        O("b", LONG),
        M("So."),
    )
    condenser = ToolClearingCondenser(0, 1, clear_inputs=True)
    assert changed(condenser, view) == [1, 2, 3]  # b's action knows the response of both
    messages = ConversationMemory().process_events(condensed(condenser, view))
    assert [call.arguments == long for call in messages[1].tool_calls] == [False, True]


def test_old_thinking_goes_by_whole_loops() -> None:
    def loop(name: str) -> list[Item]:
        return [
            item
            for n in range(2)
            for item in (A(f"{name}{n}", f"{name}{n}", thinking=LONG), O(f"{name}{n}"))
        ]

    view = view_of(U("1"), loop("a"), U("2"), loop("b"), U("3"), loop("c"))
    for keep, thinks in [(1, "000011"), (2, "000011"), (3, "001111"), (4, "001111"), (5, "111111")]:
        condenser = ToolClearingCondenser(0, 99, keep_thinking=keep)
        messages = ConversationMemory().process_events(condensed(condenser, view))
        assert check_messages(messages, "anthropic") == []
        assert "".join(str(int(bool(m.thinking))) for m in messages if m.tool_calls) == thinks
    assert condensed(ToolClearingCondenser(0, 99), view) is view


def test_what_was_cleared_stays_cleared_until_it_is_worth_clearing_more() -> None:
    events = log(S(), U(), pairs(12))
    condenser = ToolClearingCondenser(2000, 1)
    cleared = [len(changed(condenser, View.from_events(events[: 2 + 2 * n]))) for n in range(13)]
    assert cleared == sorted(cleared)
    assert 2 <= len(set(cleared)) <= 5  # in jumps
    afresh = [
        len(changed(ToolClearingCondenser(2000, 1), View.from_events(events[: 2 + 2 * n])))
        for n in range(13)
    ]
    assert afresh == cleared  # a restart decides the same


# ---------------------------------------------------------------------- superseded


def act(name: str, action: Event, result: Event | None = None, text: str = LONG) -> list[Item]:
    return [A(f"r-{name}", name, action=action), O(name, text, observation=result)]


def read(name: str, path: str = "/a.py", view_range: list[int] | None = None) -> list[Item]:
    return act(name, FileReadAction(path, view_range=view_range))


def edit(name: str, path: str = "/a.py", text: str = "done", **result: Any) -> list[Item]:
    action = FileEditAction(path, command="str_replace", old_str="a", new_str="b")
    return act(name, action, FileEditObservation(text, path=path, **result))


def tool(name: str, text: str = LONG, tool_name: str = "editor", **arguments: Any) -> list[Item]:
    return act(name, MCPAction(tool_name, arguments), MCPObservation(text))


def run(name: str, command: str = "pytest", **fields: Any) -> list[Item]:
    action = CmdRunAction(command, is_input=fields.pop("is_input", False))
    return act(name, action, CmdOutputObservation(LONG, command=command, **fields))


TODO = TaskTrackingAction("view")
IN_W: dict[str, Any] = {"metadata": {"working_dir": "/w"}}
WROTE = FileWriteAction("/a.py", content=LONG)


# U; each step is a call and its result: results have the ids 2, 4, 6, ...
@pytest.mark.parametrize(
    ("steps", "masked"),
    [
        pytest.param([read("a"), read("b")], [2], id="read again"),
        pytest.param([read("a"), read("b", "/b.py")], [], id="another file"),
        pytest.param([read("a"), read("b", "/x/../a.py")], [2], id="the same file"),
        pytest.param([read("a"), edit("b")], [2], id="read, then edited"),
        pytest.param([read("a"), edit("b"), read("c")], [2], id="a short edit stays"),
        pytest.param(
            [read("a", view_range=[5, 9]), read("b", view_range=[5, 9])], [2], id="same lines"
        ),
        pytest.param(
            [read("a", view_range=[5, 9]), read("b", view_range=[1, 8])], [], id="fewer lines"
        ),
        pytest.param(
            [read("a", view_range=[5, 9]), read("b", view_range=[4, -1])], [2], id="to the end"
        ),
        pytest.param([read("a", view_range=[5, 9]), read("b")], [2], id="lines, then all"),
        pytest.param([read("a"), read("b", view_range=[1, 9])], [], id="all, then lines"),
        pytest.param([read("a"), read("b", view_range=[1, -1])], [2], id="all, then 1 to -1"),
        pytest.param([read("a", view_range=[5, 9]), edit("b")], [], id="lines, then edited"),
        pytest.param(
            [read("a", view_range=[5, 9]), act("b", WROTE, text="done")], [2], id="written anew"
        ),
        pytest.param([read("a"), act("b", FileEditAction("/a.py"), ErrorObservation("no"))], []),
        pytest.param([read("a"), act("b", FileEditAction("/a.py"), UserRejectObservation())], []),
        pytest.param([read("a"), edit("b", text="ERROR: no such text")], [], id="a failed edit"),
        pytest.param([read("a"), act("b", FileReadAction("/a.py"), ErrorObservation("no"))], []),
        pytest.param(
            [edit("a", text=LONG, new_content=LONG), edit("b")], [2], id="an edit that echoes all"
        ),
        pytest.param(
            [edit("a", text="1\t" + LONG, new_content=LONG), read("b")], [2], id="with line numbers"
        ),
        pytest.param([edit("a", text=LONG, new_content="other"), edit("b")], [], id="a snippet"),
        pytest.param([run("a"), run("b")], [2], id="run again"),
        pytest.param([run("a"), run("b"), run("c")], [2, 4], id="run three times"),
        pytest.param([run("a"), run("b", "pytest -x")], [], id="another command"),
        pytest.param([run("a", **IN_W), run("b", **IN_W)], [2], id="in the same place"),
        pytest.param([run("a", **IN_W), run("b")], [], id="in another place"),
        pytest.param([run("a", exit_code=1), run("b", exit_code=1)], [2], id="fails again"),
        pytest.param([run("a", exit_code=1), run("b", "ls")], [], id="an open error"),
        pytest.param([run("a"), run("b", exit_code=-1)], [], id="still running"),
        pytest.param([run("a", is_input=True), run("b", is_input=True)], [], id="input"),
        pytest.param([run("a"), act("b", CmdRunAction("pytest"), ErrorObservation(LONG))], []),
        pytest.param([act("a", CmdRunAction("pytest"), ErrorObservation(LONG)), run("b")], []),
        pytest.param([act("a", TODO), act("b", TaskTrackingAction("plan"))], [2], id="todo lists"),
        pytest.param([pages(1), pages(1)], [2], id="the same page"),
        pytest.param([pages(2)], [], id="other pages"),
        pytest.param(
            [
                tool("a", command="view", path="/a.py"),
                tool("b", "done", command="str_replace", path="/a.py", old_str="a"),
            ],
            [2],
            id="a tool that views and edits",
        ),
        pytest.param(
            [
                tool("a", command="view", path="/a.py", view_range=[2, 5]),
                tool("b", command="view", path="/a.py"),
                tool("c", command="view", path="/a.py", view_range=[2, 5]),
            ],
            [2],
            id="a tool that views lines",
        ),
        pytest.param(
            [
                tool("a", tool_name="read_file", path="/a.py"),
                tool("b", tool_name="read_file", path="/a.py", offset=100),
            ],
            [],
            id="a tool that reads a part",
        ),
        pytest.param(
            [tool("a", tool_name="read_file", path="/a.py"), read("b")], [2], id="two tools"
        ),
        pytest.param(
            [tool("a", tool_name="search", path="/a"), tool("b", tool_name="search", path="/a")],
            [],
            id="a tool that does something else",
        ),
        pytest.param(
            [tool("a", tool_name="bash", command="ls"), tool("b", tool_name="bash", command="ls")],
            [2],
            id="a tool that runs",
        ),
        pytest.param([read("a"), tool("b", "ERROR: no", command="create", path="/a.py")], []),
    ],
)
def test_what_is_overtaken_is_masked(steps: list[Any], masked: list[int]) -> None:
    flat = [item for step in steps for item in step]
    view = view_of(U(), flat, M("So."))
    condenser = SupersededCondenser(0)
    assert changed(condenser, view) == masked
    assert condenser.metadata == ({"superseded": len(masked)} if masked else {})


def test_a_stub_names_the_event_that_has_overtaken_it() -> None:
    view = view_of(U(), read("a"), edit("b"), read("c"), edit("d"), M("So."))
    masked = condensed(SupersededCondenser(0), view)
    assert content(masked, 2) == (
        "[Left out: 1000 characters of this file. Event 4 changed it since.]"
    )
    assert "Event 8 changed it since" in content(masked, 6)
    again = condensed(SupersededCondenser(0), view_of(U(), run("a"), run("b"), run("c"), M("So.")))
    assert "Event 4 has its newer state" in content(again, 2)
    assert "Event 6 has its newer state" in content(again, 4)


@pytest.mark.parametrize(("keep", "masked"), [(0, [2, 4]), (4, [2, 4]), (5, [2]), (6, [])])
def test_recent_turns_are_not_touched(keep: int, masked: list[int]) -> None:
    # turns: U, a, b, c, U, M, and M at last; a is the sixth from the end, b the fifth
    view = view_of(U(), run("a"), run("b"), run("c"), U("so?"), M("1"), M("2"))
    assert changed(SupersededCondenser(keep), view) == masked


def test_the_results_of_the_newest_response_are_not_touched() -> None:
    twice = [
        *(A("r", name, action=FileReadAction("/a.py")) for name in "ab"),
        *(O(name, observation=FileReadObservation(LONG, path="/a.py")) for name in "ab"),
    ]
    assert changed(SupersededCondenser(0), view_of(U(), twice)) == []
    assert changed(SupersededCondenser(0), view_of(U(), twice, M("So."))) == [3]


def test_what_is_masked_already_overtakes_nothing() -> None:
    view = view_of(U(), pages(1), pages(1), M("So."))
    masked = condensed(BrowserOutputCondenser(0), view)
    assert condensed(SupersededCondenser(0), masked) is masked


# ---------------------------------------------------------------------- what is given, and errors


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ObservationMaskingCondenser(-1), "events, 0 or more; found -1"),
        (lambda: ObservationMaskingCondenser(5, 0), "from 1 to the window's 5.*found 0"),
        (lambda: ObservationMaskingCondenser(5, 6), "from 1 to the window's 5.*found 6"),
        (lambda: BrowserOutputCondenser(-1), "pages, 0 or more; found -1"),
        (lambda: BrowserOutputCondenser(1, 2), "from 1 to the window's 1.*found 2"),
        (lambda: RecentEventsCondenser(-1), "keep_first .*found -1"),
        (lambda: RecentEventsCondenser(1, 0), "max_events .*found 0"),
        (lambda: RecentEventsCondenser(1, 5, 6), "from 1 to the window's 5.*found 6"),
        (lambda: TruncationCondenser(99), "max_chars .*100 or more; found 99"),
        (lambda: ToolClearingCondenser(-1), "trigger_tokens .*found -1"),
        (lambda: ToolClearingCondenser(keep=-1), "keep .*found -1"),
        (lambda: ToolClearingCondenser(clear_at_least=-1), "clear_at_least .*found -1"),
        (lambda: ToolClearingCondenser(keep_thinking=0), "keep_thinking .*found 0"),
        (lambda: SupersededCondenser(-1), "keep_recent .*found -1"),
    ],
)
def test_a_bad_value_is_named(make: Callable[[], Condenser], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        make()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"type": "observation_masking"}, {"attention_window": 100, "stride": 1}),
        ({"type": "observation_masking", "attention_window": 9, "stride": 3}, {"stride": 3}),
        ({"type": "browser_output_masking", "attention_window": 4, "stride": 2}, {"stride": 2}),
        ({"type": "recent"}, {"keep_first": 1, "max_events": 100, "stride": 1}),
        ({"type": "recent", "keep_first": None, "max_events": 7}, {"keep_first": None}),
        ({"type": "truncation", "max_chars": 500}, {"max_chars": 500}),
        ({"type": "tool_clearing"}, {"trigger_tokens": 100_000, "keep": 3, "clear_at_least": 0}),
        (
            {"type": "tool_clearing", "exclude_tools": ["a"], "keep_thinking": 2},
            {"exclude_tools": {"a"}, "keep_thinking": 2, "clear_inputs": False},
        ),
        ({"type": "superseded", "keep_recent": 3}, {"keep_recent": 3}),
    ],
)
def test_a_configuration_builds_its_condenser(
    config: dict[str, Any], expected: dict[str, Any]
) -> None:
    condenser = condenser_from_config(config)
    assert {name: getattr(condenser, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"type": "observation_masking", "attention_window": 2, "stride": 3}, "stride"),
        ({"type": "browser_output_masking", "stride": 2}, "stride"),
        ({"type": "recent", "max_events": 0}, "max_events"),
        ({"type": "recent", "max_events": 3, "stride": 4}, "stride"),
        ({"type": "truncation", "max_chars": 1}, "max_chars"),
        ({"type": "tool_clearing", "keep_thinking": 0}, "keep_thinking"),
        ({"type": "superseded", "keep": 1}, "keep_recent, type"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        condenser_from_config(config)


# ---------------------------------------------------------------------- what holds for all

MASKS: dict[str, Callable[[], Condenser]] = {
    "observations 0": lambda: ObservationMaskingCondenser(0),
    "observations 7": lambda: ObservationMaskingCondenser(7),
    "observations 6, stride 4": lambda: ObservationMaskingCondenser(6, 4),
    "browser 0": lambda: BrowserOutputCondenser(0),
    "browser 1": lambda: BrowserOutputCondenser(1),
    "truncation": lambda: TruncationCondenser(100),
    "clearing all": lambda: ToolClearingCondenser(0, 0, clear_inputs=True, keep_thinking=1),
    "clearing": lambda: ToolClearingCondenser(1500, 2, 600, ["search"], clear_inputs=True),
    "superseded": lambda: SupersededCondenser(0),
    "superseded, keep 2": lambda: SupersededCondenser(2),
}
RECENT: dict[str, Callable[[], Condenser]] = {
    "recent 1": lambda: RecentEventsCondenser(0, 1),
    "recent 7": lambda: RecentEventsCondenser(1, 7),
    "recent 8, stride 4": lambda: RecentEventsCondenser(None, 8, 4),
}
ALL = {**MASKS, **RECENT}


@given(event_logs(), st.sampled_from(sorted(MASKS)))
def test_masking_keeps_turns_and_calls_and_makes_no_view_larger(
    events: list[Event], name: str
) -> None:
    view = View.from_events(events)
    masked = condensed(MASKS[name](), view)
    assert len(masked) == len(view)
    for old, new in zip(view.turns, masked.turns, strict=True):
        assert (old.kind, old.serials, old.answers) == (new.kind, new.serials, new.answers)
    for event, stub in zip(view, masked, strict=True):
        assert (event.id, event.cause) == (stub.id, stub.cause)
        links = [e.tool_call_metadata and e.tool_call_metadata.tool_call_id for e in (event, stub)]
        assert links[0] == links[1]
    if name.startswith("browser"):  # pages of any size
        return
    assert tokens(masked) <= tokens(view)
    if masked != view and name != "clearing all":  # the thinking that it drops may not be sent
        assert tokens(masked) < tokens(view)


@given(event_logs(), st.sampled_from(sorted(ALL)))
def test_condensing_again_changes_nothing(events: list[Event], name: str) -> None:
    condenser = ALL[name]()
    once = condensed(condenser, View.from_events(events))
    assert condensed(condenser, once) is once
    assert condensed(ALL[name](), once) is once


@given(event_logs(), st.sampled_from(sorted(ALL)))
def test_what_is_unchanged_is_the_same_object(events: list[Event], name: str) -> None:
    """So that what memories know of a turn stays valid from step to step."""
    condenser = ALL[name]()
    view = View()
    known: dict[Turn, Turn] = {}
    for event in events:
        view.append(event)
        result = condensed(condenser, view.copy())
        fresh = condensed(ALL[name](), view)
        assert result == fresh  # nothing is remembered that steers it
        shown = {turn.serial: turn for turn in result.turns}
        now = {turn: shown[turn.serial] for turn in view.turns if turn.serial in shown}
        for turn in known.keys() & now.keys():
            pairs = zip(known[turn].events, now[turn].events, strict=True)
            assert known[turn] is now[turn] or not all(a is b for a, b in pairs)
        known = now


# How often the border has moved, or what was cleared: between, the prompt cache survives.
STEADY: dict[str, tuple[Callable[[], Condenser], str]] = {
    "observations": (lambda: ObservationMaskingCondenser(6, 4), "border"),
    "browser": (lambda: BrowserOutputCondenser(2, 2), "border"),
    "recent": (lambda: RecentEventsCondenser(None, 16, 6), "border"),
    "clearing": (
        lambda: ToolClearingCondenser(1500, 1, clear_inputs=True, keep_thinking=1),
        "clearings",
    ),
    "truncation": (lambda: TruncationCondenser(100), "none"),
}


@given(event_logs(condensations=False, delegates=False), st.sampled_from(sorted(STEADY)))
def test_between_two_jumps_each_prompt_extends_the_one_before(
    events: list[Event], name: str
) -> None:
    condenser, key = STEADY[name][0](), STEADY[name][1]
    memory = ConversationMemory()
    view = View()
    prompt: list[Message] = []
    before: object = None
    for event in events:
        if view.begins_response(event):
            result = condensed(condenser, view)
            try:
                new = memory.process_events(result)
            except NothingToSend:
                new = []
            system = view[0] if len(view) and isinstance(view[0], SystemMessageAction) else None
            now = (condenser.metadata.get(key, 0), id(system))
            if now == before and any(m.role == "assistant" for m in new[len(prompt) :]):
                assert new[: len(prompt)] == prompt
            prompt, before = new, now
        view.append(event)
        if isinstance(event, AgentDelegateObservation):  # takes out what the delegate did
            prompt = []


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_pending_request_is_passed_on(name: str) -> None:
    view = view_of(S(), U(), run("a"), run("b"), pages(3), run("c"), M("So."), R())
    result = condensed(ALL[name](), view)
    assert result.unhandled_condensation_request
    assert view.unhandled_condensation_request


def test_view_condensers_work_one_after_the_other_in_a_live_loop() -> None:
    with pytest.warns(UserWarning, match="no condenser of this pipeline"):
        pipeline = CondenserPipeline(
            TruncationCondenser(500),
            SupersededCondenser(),
            ObservationMaskingCondenser(12, 6),
            RecentEventsCondenser(None, 20, 6),
        )
    stream = EventStream("s")
    context = AgentContext(stream, pipeline)
    runs = [item for n in range(30) for item in run(f"{n}", "pytest" if n % 2 else "ls")]
    for event in log(U(), S(), runs):
        stream.append(event.replace(id=-1))
        assert check_messages(context.messages()) == []
    assert len(context.condensed) <= 20
    assert not any(isinstance(event, CondensationRequestAction) for event in stream)


def test_a_turn_that_comes_back_between_the_events_of_another_is_masked_at_its_place() -> None:
    """Its place is in the midst of what was seen before, though its turn stands behind it."""
    results = [
        O("a", text="x" * 400),
        E("zz", text="y" * 400, links="cause"),
        O("b", text="z" * 400),
    ]
    view = View.from_events(log(S(), U(), batch("r", "a", "b"), results))
    late = view.turns[-1]
    assert late.kind == "other" or late.kind == "late"
    condenser = ObservationMaskingCondenser(0)
    condenser.condense(view.without([late]))
    assert condenser.condense(view) == ObservationMaskingCondenser(0).condense(view)
    assert condenser.condense(view.without([late])) == ObservationMaskingCondenser(0).condense(
        view.without([late])
    )


@given(event_logs(), st.lists(st.sets(st.integers(0, 20), max_size=4), min_size=2, max_size=6))
def test_one_condenser_may_be_given_any_views_in_any_order(
    log: list[Event], without: list[set[int]]
) -> None:
    view = View.from_events(log)
    views = [view.without([t for n, t in enumerate(view.turns) if n in gone]) for gone in without]
    for name in ("observations", "superseded", "truncation", "clearing"):
        used = SOME[name]()
        for one in (view, *views, view):
            assert used.condense(one) == SOME[name]().condense(one)


SOME: dict[str, Callable[[], Condenser]] = {
    "observations": lambda: ObservationMaskingCondenser(3),
    "superseded": lambda: SupersededCondenser(0),
    "truncation": lambda: TruncationCondenser(100),
    "clearing": lambda: ToolClearingCondenser(50, 1, clear_inputs=True, keep_thinking=1),
}


def test_a_stub_that_fails_leaves_nothing_half_done() -> None:
    failing = True

    @register_event("test_failing_result")
    class FailingObservation(Observation):
        def llm_text(self) -> str | None:
            if failing:
                raise TimeoutError("a look-up failed")
            return self.content

    first = [A("r1", "a"), O("a", text="x" * 400)]
    whole = View.from_events(log(U(), first, A("r2", "b"), O("b", text="y" * 400)))
    other = View.from_events(
        log(U(), A("r1", "a"), O("a", observation=FailingObservation("z" * 400)))
    )
    used = ObservationMaskingCondenser(0)
    expected = used.condense(whole)
    with pytest.raises(TimeoutError):
        used.condense(other)
    assert used.condense(whole) == expected
    assert used.metadata == {"masked": 2, "border": 5}


def test_a_view_condenser_needs_no_thread_that_could_outlive_its_caller() -> None:
    threads: set[int] = set()

    @register_event("test_seen_in")
    class SeenObservation(Observation):
        def llm_text(self) -> str | None:
            threads.add(threading.get_ident())
            return self.content

    view = View.from_events(log(U(), A("r1", "a"), O("a", observation=SeenObservation("z" * 400))))
    for make in (ObservationMaskingCondenser, TruncationCondenser, ToolClearingCondenser):
        asyncio.run(make().acondense(view))
    asyncio.run(ObservationMaskingCondenser(0).acondense(view))
    assert threads == {threading.get_ident()}


def test_a_stub_names_what_has_overtaken_its_result_now() -> None:
    read = FileReadAction(path="/a")
    first = [A("r1", "a", action=read), O("a", text="x" * 400)]
    second = [A("r2", "b", action=read), O("b", text="x" * 400)]
    later = [A("r4", "d", action=read), O("d", text="x" * 400), A("r5", "e"), M("k")]
    events = log(U(), first, second, A("r3", "c"), O("c"), M("k"), C([3, 4]), later)
    used, stubs = SupersededCondenser(0), []
    view = View()
    for place, event in enumerate(events, 1):
        view.append(event)
        if place not in (8, len(events)):  # nobody asks in between
            continue
        shown = used.condense(view)
        assert isinstance(shown, View)
        assert shown == SupersededCondenser(0).condense(view)
        stubs += [getattr(e, "content", "") for e in shown if e.id == 2]
    assert "Event 4 has" in stubs[0]
    assert "Event 10 has" in stubs[1]
