"""What a view holds, turn by turn: small logs whose view was worked out by hand."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable
from typing import Any

import pytest

from eventfold.condensers import LLMSummarizingCondenser
from eventfold.condensers.base import forgettable
from eventfold.condensers.extractive import ExtractiveModel
from eventfold.events import (
    Action,
    AgentDelegateAction,
    AgentDelegateObservation,
    AgentStateChangedObservation,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    ErrorObservation,
    Event,
    EventSource,
    EventStream,
    FileReadObservation,
    InvalidArgument,
    MessageAction,
    NullAction,
    SuccessObservation,
    SystemMessageAction,
    event_from_dict,
    register_event,
)
from eventfold.memory import ConversationMemory, ImageContent, NothingToSend, State, Turn, View
from eventfold.memory.rendering import cut
from eventfold.memory.turns import TurnKind, head
from tests.notation import A, C, Item, M, O, R, S, U, batch, log, named, pairs

DELEGATE = AgentDelegateAction(agent="BrowsingAgent", inputs={"task": "look"})


def result(of: str, text: str = "ok", **more: Any) -> Item:
    return O(of, observation=SuccessObservation(content=text), **more)


def back(of: str) -> Item:
    return O(of, observation=AgentDelegateObservation(content="found"))


def ids(events: Iterable[Event]) -> list[int]:
    return [event.id for event in events]


def turns(view: View) -> list[list[int]]:
    return [ids(turn.events) for turn in view.turns]


def said(view: View) -> list[tuple[str, str]]:
    return [(m.role, m.text) for m in ConversationMemory().process_events(view)]


# ---------------------------------------------------------------------- a list of events


def test_a_view_behaves_as_a_list_and_hands_out_lists_of_its_own() -> None:
    events = log(S(), U(), A("r1", "a"), result("a"))
    view = View.from_events(events)
    match view:
        case View(events=matched):
            assert matched == events
    assert len(view) == 4
    assert [view[0], view[-1]] == [events[0], events[3]]
    assert list(view[1:3]) == events[1:3]
    assert events[2] in view
    assert list(reversed(view)) == events[::-1]
    view.events.clear()
    view.turns.clear()
    assert ids(view) == [0, 1, 2, 3]
    assert turns(view) == [[0], [1], [2, 3]]


def test_a_snapshot_of_a_state_is_the_callers_own() -> None:
    stream = EventStream("s")
    state = State(stream)
    stream.extend(log(S(), U()))
    old = state.view
    stream.append(MessageAction("later", source=EventSource.USER))
    assert ids(old) == [0, 1]
    newer = state.view
    newer.append(MessageAction("not in the log", id=3, source=EventSource.USER))
    assert ids(state.view) == [0, 1, 2]
    stream.append(MessageAction("in the log"))
    assert ids(state.view) == [0, 1, 2, 3]
    assert state.view == View.from_events(stream)


# ---------------------------------------------------------------------- what is not shown


def test_what_an_llm_has_no_use_for_is_not_in_the_view() -> None:
    hidden = MessageAction("psst", hidden=True, source=EventSource.USER)
    events = log(
        *(S(), U(), named("null", NullAction()), named("hidden", hidden), R(), C([])),
        named("state", AgentStateChangedObservation(agent_state="running")),
        M("on it"),
    )
    assert ids(View.from_events(events)) == [0, 1, 7]


def test_a_call_beside_a_hidden_one_keeps_its_result() -> None:
    hidden = A("r1", "a", action=CmdRunAction(command="env", hidden=True))
    view = View.from_events(log(S(), U(), hidden, A("r1", "b"), result("a"), result("b", "B")))
    assert turns(view) == [[0], [1], [3, 5]]
    assert said(view)[2:] == [("assistant", ""), ("tool", "B")]


def test_a_hidden_response_ends_the_one_before_all_the_same() -> None:
    """What comes back later for the older one is late, as behind any other response."""
    hidden = A("r2", "b", action=CmdRunAction(command="env", hidden=True))
    view = View.from_events(log(S(), U(), A("r1", "a"), hidden, result("a", "A")))
    assert turns(view) == [[0], [1], [2], [4]]
    assert [turn.kind for turn in view.turns][2:] == [TurnKind.RESPONSE, TurnKind.LATE]


def test_the_newest_system_message_wins_and_stands_first() -> None:
    events = log(U(), S("one"), M("hello"), S("two", label="S2"), U("go"))
    assert ids(View.from_events(events)) == [3, 0, 2, 4]
    assert ids(View.from_events(log(*events, C([1, 3])))) == [3, 0, 2, 4]


def test_an_unknown_kind_is_told_only_by_its_call() -> None:
    unknown = event_from_dict({"observation": "teleport", "content": "arrived", "extras": {}})
    events = log(S(), U(), A("r1", "a"), O("a", observation=unknown, links="metadata"))
    assert said(View.from_events(events))[3] == ("tool", "arrived")
    for cause in (None, 1, 99):
        events = log(S(), U(), named("unknown", unknown.replace(cause=cause)))
        assert "arrived" not in str(said(View.from_events(events)))


def test_calls_that_share_an_id_keep_their_own_arguments() -> None:
    """Some servers give every call of a response the same id, or none."""
    calls = [A("r1", "", arguments={"n": n}, label=str(n)) for n in range(3)]
    view = View.from_events(log(S(), U(), calls, [result(str(n), f"out {n}") for n in range(3)]))
    _, _, assistant, *results = ConversationMemory().process_events(view)
    assert [call.arguments for call in assistant.tool_calls] == ['{"n": 0}', '{"n": 1}', '{"n": 2}']
    assert len({call.id for call in assistant.tool_calls}) == 3
    assert [m.tool_call_id for m in results] == [call.id for call in assistant.tool_calls]
    assert [m.text for m in results] == ["out 0", "out 1", "out 2"]


# ---------------------------------------------------------------------- delegates


def test_what_a_delegate_did_goes_when_it_returns() -> None:
    inside = [S("a delegate", label="S2"), U("look"), A("x1", "x"), result("x")]
    events = log(S(), U(), A("r1", "d", action=DELEGATE), inside, back("d"), M("So."))
    assert ids(View.from_events(events[:7])) == [3, 1, 2, 4, 5, 6]
    view = View.from_events(events)
    assert turns(view) == [[0], [1], [2, 7], [8]]
    assert said(view)[2:5] == [("assistant", ""), ("tool", "found"), ("assistant", "So.")]


def test_a_delegate_that_never_returned_hides_nothing() -> None:
    events = log(S(), U(), A("r1", "d", action=DELEGATE), U("look"), A("x1", "x"), result("x"))
    assert ids(View.from_events(events)) == [0, 1, 2, 3, 4, 5]


def test_results_of_calls_beside_a_delegation_are_not_what_the_delegate_did() -> None:
    """The delegate's own responses must not make them late, nor must its return take them."""
    delegation, call = A("r1", "d", action=DELEGATE), A("r1", "a")
    events = log(S(), U(), delegation, call, A("x1", "x"), result("x"), result("a", "A"), back("d"))
    view = View.from_events(events)
    assert turns(view) == [[0], [1], [2, 3, 6, 7]]
    assert said(view)[2:] == [("assistant", ""), ("tool", "found"), ("tool", "A")]


def test_a_delegates_message_is_not_the_task() -> None:
    delegated = [A("r1", "d", action=DELEGATE), U("sub-task"), back("d")]
    events = log(S(), M("hello"), delegated, U("the task"), M("x"), C([1], "in short", 1))
    view = View.from_events(events)
    assert ids(view) == [0, 7, 2, 4, 5, 6]
    assert view.task is not None
    assert ids(view.task.events) == [5]


# ---------------------------------------------------------------------- what is protected


def test_the_task_stays_protected_behind_a_summary_of_what_was_before_it() -> None:
    before = [M(f"{n} " + "word " * 300) for n in range(2)]
    events = log(S(), before, U("the task"), M("a"), U("b"), C([1, 2], "in short", 1))
    view = View.from_events(events)
    assert ids(view) == [0, 6, 3, 4, 5]
    assert [ids(turn.events) for turn in forgettable(view)] == [[4]]


def test_a_younger_message_is_not_the_task_once_a_summary_stands_for_it() -> None:
    view = View.from_events(log(S(), U("the task"), M("a"), U("b"), U("c"), C([1, 2], "short", 1)))
    assert view.task is None
    assert [ids(turn.events) for turn in forgettable(view)] == [[3]]


def test_a_call_that_waits_is_protected_only_in_the_newest_response() -> None:
    view = View.from_events(log(S(), U(), A("r1", "a"), batch("r2", "b", "c"), result("b")))
    assert [ids(turn.events) for turn in forgettable(view)] == [[2]]


@pytest.mark.parametrize(
    "limits",
    [{"max_input_tokens": 0}, {"max_output_tokens": -1}, {"minimum_progress": 1.5}],
)
def test_limits_out_of_their_range_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(limits))):
        LLMSummarizingCondenser(ExtractiveModel(), 10, **limits)


# ---------------------------------------------------------------------- condensations, cutting


def test_a_condensation_is_obeyed_as_written() -> None:
    events = log(S(), U(), M("a"), M("b"), R())
    view = View.from_events(events)
    assert view.unhandled_condensation_request
    view.append(CondensationAction(forgotten_event_ids=[2, 77], id=5))
    assert ids(view) == [0, 1, 3]
    assert not view.unhandled_condensation_request
    view.append(CondensationAction(forgotten_event_ids=[1, 3], id=6))
    assert ids(view) == [0]  # protection is a matter of our own proposals


@pytest.mark.parametrize("length", [61, 100, 130, 1_050, 10_050, 100_100])
@pytest.mark.parametrize("limit", [60, 61, 64, 99, 100])
def test_a_cut_text_says_how_many_characters_are_left_out(length: int, limit: int) -> None:
    if length <= limit:
        return
    text = cut("x" * length, limit)
    assert len(text) <= limit
    assert f"[... {length - text.count('x')} characters left out ...]" in text


@pytest.mark.parametrize("limit", range(1, 100))
def test_a_limit_is_never_exceeded(limit: int) -> None:
    assert 0 < len(cut("long text " * 50, limit)) <= limit


def test_a_memory_keeps_nothing_of_turns_that_have_changed() -> None:
    stream, memory = EventStream("s"), ConversationMemory()
    state = State(stream)
    calls = [f"c{n}" for n in range(50)]
    for event in log(S(), U(), batch("r", *calls), [O(call) for call in calls], M("So.")):
        stream.append(event.replace(id=-1))
        with contextlib.suppress(NothingToSend):
            memory.process_events(state.view)
    gc.collect()
    stored = {id(event) for event in stream}
    turns = [each for each in gc.get_objects() if isinstance(each, Turn)]
    alive = [turn for turn in turns if id(turn.events[0]) in stored]
    assert len(alive) == len(state.view.turns) == 4


# ---------------------------------------------------------------------- links by order alone


def told(view: View) -> list[list[str]]:
    return [[event.kind for event in turn.events] for turn in view.turns]


def test_where_nothing_links_them_a_result_answers_the_action_before_it() -> None:
    view = View.from_events(
        [
            MessageAction("do it", id=0, source=EventSource.USER),
            CmdRunAction("ls", id=1, source=EventSource.AGENT),
            CmdOutputObservation("a.py", "ls", id=2),
            CmdOutputObservation("more", "ls", id=3),  # the action is answered already
        ]
    )
    assert told(view) == [["message"], ["run", "run"], ["run"]]
    assert view.turns[1].answers == (-1, 0)


def test_without_a_link_a_result_of_another_kind_answers_nothing() -> None:
    read = FileReadObservation("text", "a.py", id=2)
    run = CmdRunAction("ls", id=1, source=EventSource.AGENT)
    assert told(View.from_events([run, read])) == [["run"], ["read"]]
    error = ErrorObservation("no shell", id=2)  # which can come back for any action
    assert told(View.from_events([run, error])) == [["run", "error"]]


def test_a_result_that_names_another_action_does_not_answer_the_one_before_it() -> None:
    run = CmdRunAction("ls", id=1, source=EventSource.AGENT)
    for cause in (0, -1):
        late = CmdOutputObservation("a.py", "ls", id=2, cause=cause)
        assert told(View.from_events([run, late])) == [["run"], ["run"]]


def test_a_kind_whose_text_fails_once_leaves_nothing_behind() -> None:
    failing = True

    @register_event("test_flaky")
    class FlakyAction(Action):
        def llm_text(self) -> str | None:
            if failing:
                raise TimeoutError("a look-up failed")
            return "flaky"

    events: list[Event] = [
        MessageAction("task", id=0, source=EventSource.USER),
        MessageAction("I see", id=1, source=EventSource.AGENT),
        FlakyAction(id=2, source=EventSource.AGENT),
    ]
    used, view = ConversationMemory(), View.from_events(events)
    with pytest.raises(TimeoutError):
        used.process_events(view)
    failing = False
    more = [
        MessageAction("one", id=3, source=EventSource.USER),
        MessageAction("answer", id=4, source=EventSource.AGENT),
        MessageAction("two", id=5, source=EventSource.USER),
        CondensationAction(forgotten_event_ids=[5], id=6),
        MessageAction("three", id=7, source=EventSource.USER),
    ]
    for event in more:
        view.append(event)
        assert used.process_events(view) == ConversationMemory().process_events(view)


# ---------------------------------------------------------------------- what is remembered


def anew(view: View) -> View:
    """The view with turns that remember nothing."""
    return view.copy().replacing(
        {t: Turn(t.kind, t.events, t.serials, t.answers) for t in view.turns}
    )


def test_what_a_turn_says_is_remembered_for_each_limit_and_vision_apart() -> None:
    url = "https://example.com/a.png"
    asked = [MessageAction("see", image_urls=[url], id=0, source=EventSource.USER)]
    events = log(named("u", asked[0]), A("r", "a"), result("a", "x" * 500), M("So."))
    view, memory = View.from_events(events), ConversationMemory()
    for limit, vision in (
        *((60, False), (None, False), (0, False), (None, True)),
        *((None, False), (100, True), (60, True)),
    ):
        shown = memory.process_events(view, None, limit, vision)
        assert vision == any(isinstance(p, ImageContent) for m in shown for p in m.content)
        (told,) = [m.text for m in shown if m.role == "tool"]
        assert len(told) <= max(1, 600 if limit is None else limit)
        assert shown == ConversationMemory().process_events(anew(view), None, limit, vision)


def test_what_happens_to_a_copy_does_not_happen_to_the_original() -> None:
    task = MessageAction("task", id=0, source=EventSource.USER)
    view = View.from_events([task])
    view.copy().append(NullAction(id=1))
    view.append(ErrorObservation("x", id=2, cause=1))  # hidden in the copy, not here
    assert ids(view) == [0, 2]

    go = DELEGATE.replace(id=1, source=EventSource.AGENT)
    back_at = AgentDelegateObservation(content="done", cause=1)
    view = View.from_events([task, go])
    view.copy().append(back_at.replace(id=2))
    view.append(MessageAction("work", id=2, source=EventSource.AGENT))
    view.append(back_at.replace(id=3))  # it is still away here
    assert ids(view) == [0, 1, 3]

    view = View.from_events([SystemMessageAction("one", id=0), task.replace(id=1)])
    view.copy().append(SystemMessageAction("two", id=2))
    for event in (task.replace(id=2), go.replace(id=3), back_at.replace(id=4, cause=3)):
        view.append(event)
    assert getattr(view[0], "content", "") == "one"


@pytest.mark.parametrize(
    ("keep_first", "places"),
    [(None, {0, 1}), (0, {0}), (2, {0, 1}), (3, {0, 1, 2}), (5, {0, 1, 2, 3})],
)
def test_the_head_is_counted_in_events_and_rounded_up_to_whole_turns(
    keep_first: int | None, places: set[int]
) -> None:
    """System message and task are the events 0 and 1, then come pairs: two events a turn."""
    view = View.from_events(log(S(), U(), pairs(3)))
    assert head(view.turns, view.task, keep_first) == places
