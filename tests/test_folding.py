"""Sub-tasks that an agent opens and closes itself, and condensations that are asked for."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from eventfold.benchmarks.verify import prompts_of
from eventfold.condensers import (
    CONDENSE_TOOL,
    FOLD_TOOL,
    AgentContext,
    CannotCondense,
    Condenser,
    ConversationWindowCondenser,
    DigestCondenser,
    LLMSummarizingCondenser,
    NoOpCondenser,
)
from eventfold.condensers.folding import Folds
from eventfold.events import (
    Action,
    AgentDelegateAction,
    AgentDelegateObservation,
    CondensationAction,
    CondensationRequestAction,
    ErrorObservation,
    Event,
    EventStream,
    InMemoryEventStore,
    InvalidArgument,
    JsonlEventStore,
    MCPAction,
    MCPObservation,
    MessageAction,
    SystemMessageAction,
    ToolCall,
    event_from_dict,
    event_to_dict,
)
from eventfold.memory import (
    Budget,
    ConversationMemory,
    NothingToSend,
    Reply,
    TokenCounter,
    View,
    check_messages,
)
from eventfold.memory.rules import PROFILES
from eventfold.memory.turns import TurnKind
from tests.logs import event_logs
from tests.models import MadeUpModel

BASH = {
    "type": "function",
    "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}},
}
TOOLS = [BASH, FOLD_TOOL, CONDENSE_TOOL]
OPENED = (
    "The sub-task is open, 1 deep. When it is done, close it with a summary: all else of it will "
    "leave your history."
)
TOO_LONG = "prompt is too long: 9 tokens > 3 maximum"

Asked = tuple[str, Any]
RUN: Asked = ("bash", {"command": "ls"})
OPEN: Asked = ("fold", {"command": "open", "task": "look"})
CLOSE: Asked = ("fold", {"command": "close", "summary": "seen"})
CONDENSE: Asked = ("condense", {})


def started(
    condenser: Condenser | None = None, stream: EventStream | None = None, **more: Any
) -> AgentContext:
    stream = EventStream("s") if stream is None else stream
    if not len(stream):
        stream.append(MessageAction("Fix it."), "user")
    return AgentContext(stream, condenser or NoOpCondenser(), tools=TOOLS, **more)


def asks(context: AgentContext, *calls: Asked) -> list[Action]:
    """One response with these calls; those that are to be carried out."""
    at = len(context.stream)
    made = (
        ToolCall(f"call_{at}_{n}", name, given if isinstance(given, str) else json.dumps(given))
        for n, (name, given) in enumerate(calls)
    )
    return context.record(Reply("", tuple(made)))


def does(context: AgentContext, *responses: Asked) -> None:
    """So many responses of one call each, with their results."""
    for call in responses:
        for action in asks(context, call):
            context.observe("done", action)


def shown(context: AgentContext) -> list[int]:
    return [event.id for event in context.state.view]


def said(context: AgentContext, event_id: int) -> str:
    return str(getattr(context.stream[event_id], "content", ""))


# ---------------------------------------------------------------------- one sub-task


def test_closing_leaves_the_two_calls_and_the_summary() -> None:
    context = started()
    does(context, RUN, OPEN, RUN, RUN, CLOSE)
    assert [event.kind for event in context.stream] == [
        *("message", "run", "run", "call_tool_mcp", "mcp", "run", "run", "run", "run"),
        *("call_tool_mcp", "mcp", "condensation"),
    ]
    folded = context.stream[11]
    assert isinstance(folded, CondensationAction)
    assert (folded.forgotten, folded.summary, folded.source) == ([5, 6, 7, 8], None, "agent")
    assert folded.details == {
        "condenser": "fold",
        "reason": "the agent closed a sub-task",
        "opened": 3,
        "closed": 9,
        "events_before": 10,
        "events_after": 6,
    }
    assert shown(context) == [0, 1, 2, 3, 4, 9, 10]
    assert said(context, 10) == "The sub-task is closed, with 4 events of it folded away."
    messages = context.messages()
    assert check_messages(messages, tools=TOOLS) == []
    calls = [call["function"] for m in messages for call in m.get("tool_calls", ())]
    assert calls == [
        {"name": "bash", "arguments": '{"command": "ls"}'},
        {"name": "fold", "arguments": '{"command": "open", "task": "look"}'},
        {"name": "fold", "arguments": '{"command": "close", "summary": "seen"}'},
    ]


def test_the_calls_are_not_returned_and_their_results_link_to_them() -> None:
    context = started()
    assert asks(context, OPEN) == []
    opened, result = context.stream[1], context.stream[2]
    assert isinstance(opened, MCPAction)
    assert isinstance(result, MCPObservation)
    assert (result.cause, result.tool_call_metadata) == (1, opened.tool_call_metadata)
    assert (result.source, result.content) == (
        "environment",
        OPENED,
    )


def test_where_nothing_was_done_nothing_is_forgotten() -> None:
    context = started()
    does(context, OPEN, CLOSE)
    assert len(context.stream) == 5
    assert said(context, 4) == "The sub-task is closed, with 0 events of it folded away."


def test_one_event_is_one_event() -> None:
    context = started()
    does(context, OPEN)
    asks(context, RUN)  # 3, which still waits
    asks(context, CLOSE)
    assert said(context, 5) == "The sub-task is closed, with 1 event of it folded away."


def test_a_sub_task_left_open_changes_nothing() -> None:
    context = started()
    does(context, OPEN, RUN, RUN)
    assert shown(context) == list(range(7))


def test_what_the_user_said_a_system_message_and_a_summary_stay() -> None:
    context = started()
    does(context, OPEN, RUN)
    context.stream.append(MessageAction("And mind the docs."), "user")  # 5
    context.stream.append(SystemMessageAction("Be brief."))  # 6
    context.stream.append(CondensationAction([3], summary="ran it", summary_offset=2))  # 7
    does(context, RUN, CLOSE)  # 8 to 11
    assert shown(context) == [6, 0, 7, 1, 2, 5, 10, 11]


def test_a_late_result_of_what_was_asked_before_stays() -> None:
    context = started()
    (before,) = asks(context, RUN)  # 1
    beside = asks(context, RUN, OPEN, RUN)  # 2 to 5
    (within,) = asks(context, RUN)  # 6
    asks(context, RUN)  # 7
    late = [context.observe("late", action).id for action in (before, *beside, within)]
    assert late == [8, 9, 10, 11]
    does(context, CLOSE)  # 12, 13
    assert shown(context) == [0, 1, 2, 3, 4, 5, 8, 9, 10, 12, 13]


# ---------------------------------------------------------------------- nested and parallel


def test_the_innermost_is_closed_first_and_the_outer_one_folds_what_is_left_of_it() -> None:
    context = started()
    does(context, OPEN, RUN, OPEN, RUN, CLOSE)
    assert said(context, 6).startswith("The sub-task is open, 2 deep.")
    assert said(context, 10) == (
        "The sub-task is closed, with 2 events of it folded away. 1 more still open."
    )
    assert shown(context) == [0, 1, 2, 3, 4, 5, 6, 9, 10]
    does(context, RUN, CLOSE)
    assert shown(context) == [0, 1, 2, 14, 15]
    assert said(context, 15).startswith("The sub-task is closed, with 8 events")


def test_two_are_closed_by_one_response() -> None:
    context = started()
    does(context, OPEN, RUN, OPEN, RUN)
    asks(context, CLOSE, CLOSE)  # 9 and 10
    assert [e.id for e in context.stream if isinstance(e, CondensationAction)] == [12, 14]
    assert shown(context) == [0, 1, 2, 9, 10, 11, 13]
    assert check_messages(context.messages()) == []


def test_one_response_opens_and_closes() -> None:
    context = started()
    (action,) = asks(context, OPEN, RUN, CLOSE)
    context.observe("done", action)
    assert shown(context) == list(range(7))
    assert Folds(context.stream).open == ()
    asks(context, OPEN)
    does(context, RUN)
    asks(context, CLOSE, OPEN)  # 11 and 12
    does(context, RUN)
    assert shown(context) == [*range(7), 7, 8, 11, 12, 13, 15, 16, 17]
    assert Folds(context.stream).open == (12,)


def test_calls_beside_the_closing_one_go_on_to_wait() -> None:
    context = started()
    does(context, OPEN, RUN)
    (action,) = asks(context, CLOSE, RUN)  # 5 and 6
    assert shown(context) == [0, 1, 2, 5, 6, 7]
    assert context.state.waiting == [action]
    context.observe("done", action)
    assert shown(context) == [0, 1, 2, 5, 6, 7, 9]


def test_a_call_that_still_waits_goes_with_its_sub_task_and_its_result_comes_late() -> None:
    context = started()
    does(context, OPEN)
    (action,) = asks(context, RUN)
    does(context, CLOSE)
    assert shown(context) == [0, 1, 2, 4, 5]
    context.observe("at last", action)
    assert shown(context) == [0, 1, 2, 4, 5, 7]
    messages = context.messages()
    assert check_messages(messages) == []
    assert "Late result" in json.dumps(messages[-1])


# ---------------------------------------------------------------------- what cannot be done


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, 'The command is "open" or "close"; found null.'),
        ({"command": ["open"]}, 'The command is "open" or "close"; found ["open"].'),
        ({"command": "shut"}, 'The command is "open" or "close"; found "shut".'),
        ({"command": "open"}, "To open a sub-task, its task is needed, as text."),
        ({"command": "open", "task": 3}, "To open a sub-task, its task is needed, as text."),
        ({"command": "close"}, "To close a sub-task, its summary is needed, as text."),
        (
            {"command": "close", "summary": " \n"},
            "To close a sub-task, its summary is needed, as text.",
        ),
        ("[", "The arguments of this call are no JSON object: "),
    ],
)
def test_a_malformed_call_is_answered_with_an_error_and_does_nothing(given: Any, says: str) -> None:
    context = started()
    does(context, OPEN, RUN)
    assert asks(context, ("fold", given)) == []
    error = context.stream[6]
    assert isinstance(error, ErrorObservation)
    assert error.content.startswith(says)
    assert error.content.endswith("Nothing was done.")
    assert len(context.stream) == 7
    assert Folds(context.stream).open == (1,)


def test_closing_without_an_open_sub_task_is_an_error() -> None:
    context = started()
    does(context, RUN, CLOSE)
    assert said(context, 4) == "No sub-task is open. Nothing was done."
    does(context, OPEN, CLOSE, RUN, CLOSE)
    assert said(context, 12) == "No sub-task is open. Nothing was done."
    assert shown(context) == list(range(13))


def test_a_call_that_was_interrupted_or_rejected_does_not_count() -> None:
    """A loop that resumes may answer what waits with an error: the model is told so."""
    context = started()
    stream = context.stream
    foreign = AgentContext(stream, NoOpCondenser())  # leaves the calls to its loop
    (opening,) = asks(foreign, OPEN)
    foreign.observe(ErrorObservation("The agent was stopped here."), opening)
    does(context, RUN, CLOSE)
    assert said(context, 6) == "No sub-task is open. Nothing was done."


# ---------------------------------------------------------------------- whose tool it is


def test_a_tool_of_the_users_own_with_the_same_name_is_returned() -> None:
    own = {"type": "function", "function": {"name": "fold", "description": "Folds paper."}}
    bare = {"name": "condense"}
    context = AgentContext(EventStream("s"), NoOpCondenser(), tools=[own, bare])
    calls = asks(context, OPEN, CONDENSE)
    assert [getattr(action, "name", "") for action in calls] == ["fold", "condense"]
    assert len(context.stream) == 2


@pytest.mark.parametrize(
    "tool",
    [
        {**FOLD_TOOL, "cache_control": {"type": "ephemeral"}},
        {
            "name": "fold",
            "description": FOLD_TOOL["function"]["description"],
            "input_schema": FOLD_TOOL["function"]["parameters"],
        },
        json.loads(json.dumps(FOLD_TOOL)),
    ],
)
def test_the_tool_is_known_in_other_clothes(tool: dict[str, Any]) -> None:
    context = AgentContext(EventStream("s"), NoOpCondenser(), tools=[tool])
    assert asks(context, OPEN) == []


def test_a_loop_can_carry_out_the_calls_itself() -> None:
    context = AgentContext(EventStream("s"), NoOpCondenser())
    context.stream.append(MessageAction("Fix it."), "user")
    (opening,) = asks(context, OPEN)
    assert context.fold(opening).cause == opening.id
    (run,) = asks(context, RUN)
    with pytest.raises(InvalidArgument, match=r"event 3 \(run\) is no call of the tool fold"):
        context.fold(run)
    with pytest.raises(InvalidArgument, match=r"event 1 .* that waits for its result"):
        context.fold(opening)
    with pytest.raises(InvalidArgument, match="none of this stream"):
        context.fold(opening.replace(id=0))
    context.observe("done", run)
    (closing,) = asks(context, CLOSE)
    context.fold(closing)
    assert shown(context) == [0, 1, 2, 5, 6]
    (condense,) = asks(context, CONDENSE)
    request = context.request_condensation(condense)
    assert (request.cause, request.source) == (condense.id, "agent")
    assert context.state.waiting == []


def test_only_a_call_of_condense_that_waits_asks_for_a_condensation() -> None:
    context = AgentContext(EventStream("s"), NoOpCondenser())
    task = context.stream.append(MessageAction("Fix it."), "user")
    run, opening, condense = asks(context, RUN, OPEN, CONDENSE)  # 1, 2, 3
    with pytest.raises(InvalidArgument, match=r"event 3 .* no call of the tool fold that waits"):
        context.fold(condense)
    context.fold(opening)  # 4
    context.request_condensation(condense)  # 5, 6
    for action in (task, run, opening, condense):
        with pytest.raises(InvalidArgument, match=r"no call of the tool condense that waits"):
            context.request_condensation(action)
    with pytest.raises(InvalidArgument, match="none of this stream"):
        context.request_condensation(condense.replace(id=0))
    assert len(context.stream) == 7
    assert context.state.waiting == [run]
    assert Folds(context.stream).open == (2,)


# ---------------------------------------------------------------------- other condensations


def test_an_overflow_within_a_sub_task_may_forget_its_opening_and_the_rest_is_folded() -> None:
    context = started(LLMSummarizingCondenser(MadeUpModel("s"), 100))
    does(context, OPEN, *[("bash", {"command": "echo " + "word " * 50})] * 8)
    context.messages()
    assert context.overflowed(TOO_LONG)
    context.messages()
    summary = len(context.stream) - 1
    assert isinstance(context.stream[summary], CondensationAction)
    assert 1 not in shown(context)
    assert len(shown(context)) > 3
    does(context, CLOSE)
    closed = summary + 1
    assert shown(context) == [0, summary, closed, closed + 1]
    assert context.stream[closed + 2].replace(details=None) == CondensationAction(
        [*range(context.stream[summary].forgotten[-1] + 1, summary - 1)],  # type: ignore[attr-defined]
        id=closed + 2,
        timestamp=context.stream[closed + 2].timestamp,
        source="agent",  # type: ignore[arg-type]
    )
    assert check_messages(context.messages()) == []


def test_a_summary_of_what_was_before_and_within_stays() -> None:
    context = started()
    does(context, RUN, RUN, OPEN, RUN, RUN)  # 1 to 10
    context.stream.append(CondensationAction([3, 5, 7], summary="much", summary_offset=3))
    does(context, RUN, CLOSE)  # 12 to 15
    assert shown(context) == [0, 1, 2, 11, 14, 15]


def test_what_a_delegate_opened_ends_with_it() -> None:
    context = started()
    stream = context.stream
    does(context, OPEN)  # 1, 2
    delegation = stream.append(AgentDelegateAction("Other", {}))  # 3
    does(context, OPEN, RUN)  # 4 to 7
    stream.append(AgentDelegateObservation("found", cause=delegation.id))  # 8
    assert Folds(stream).open == (1,)
    does(context, RUN)  # 9, 10
    assert shown(context) == [0, 1, 2, 3, 8, 9, 10]
    does(context, CLOSE)
    assert shown(context) == [0, 1, 2, 11, 12]


def test_what_a_delegate_closed_is_open_again_after_it() -> None:
    context = started()
    stream = context.stream
    does(context, OPEN, RUN)  # 1 to 4
    first, second = (stream.append(AgentDelegateAction("Other", {})) for _ in range(2))  # 5, 6
    does(context, CLOSE)  # 7, 8, 9
    assert Folds(stream).open == ()
    stream.append(AgentDelegateObservation("found", cause=first.id))
    assert Folds(stream).open == (1,)
    does(context, OPEN)  # 11, 12
    stream.append(AgentDelegateObservation("found", cause=second.id))  # it ended with the first
    stream.append(AgentDelegateObservation("nobody's", cause=0))
    assert Folds(stream).open == (1, 11)


# ---------------------------------------------------------------------- restarts


def test_a_sub_task_is_closed_by_another_process(tmp_path: Path) -> None:
    does(started(stream=EventStream("s", JsonlEventStore(tmp_path))), OPEN, RUN)
    context = started(stream=EventStream("s", JsonlEventStore(tmp_path)))
    does(context, CLOSE)
    assert shown(context) == [0, 1, 2, 5, 6]
    again = started(stream=EventStream("s", JsonlEventStore(tmp_path)))
    assert shown(again) == shown(context)
    assert Folds(again.stream).open == ()


def test_a_call_that_was_killed_before_its_result_is_carried_out_at_the_next_step() -> None:
    context = started()
    does(context, OPEN, RUN)
    asks(context, CLOSE, CONDENSE)
    whole = list(context.stream)
    assert [event.kind for event in whole[5:]] == [
        *("call_tool_mcp", "call_tool_mcp", "mcp", "condensation", "mcp", "condensation_request"),
    ]
    for killed_at in (7, 9):  # result and condensation are stored together: there is no 8
        resumed = started(stream=copy_of(whole[:killed_at]))
        resumed.messages()
        assert [plain(event) for event in resumed.stream] == [plain(event) for event in whole]


def test_killed_anywhere_in_a_fold_a_session_goes_on_as_if_it_had_not_been() -> None:
    whole = [*_played_fold().stream]
    assert [event.kind for event in whole] == [
        *("message", "call_tool_mcp", "mcp", "run", "run", "call_tool_mcp", "mcp", "condensation"),
    ]
    for killed_at in (1, 2, 3, 5, 6, 8):  # 4: its loop answers the call; 7: stored with 6
        resumed = started(stream=copy_of(whole[:killed_at]))
        resumed.messages()
        responses = sum(isinstance(event, Action) for event in whole[1:killed_at])
        does(resumed, *(OPEN, RUN, CLOSE)[responses:])
        assert [event.kind for event in resumed.stream] == [event.kind for event in whole]
        assert shown(resumed) == [0, 1, 2, 5, 6]
        assert Folds(resumed.stream).open == ()


def _played_fold() -> AgentContext:
    context = started()
    does(context, OPEN, RUN, CLOSE)
    return context


@pytest.mark.parametrize("killed_at", [2, 6])  # after a call of fold
def test_the_user_may_speak_before_a_killed_call_is_carried_out(killed_at: int) -> None:
    stream = copy_of([*_played_fold().stream][:killed_at])
    stream.append(MessageAction("Are you there?"), "user")
    resumed = started(stream=stream)
    assert check_messages(resumed.messages()) == []
    does(resumed, *(RUN, CLOSE)[: 6 - killed_at])
    assert Folds(stream).open == ()
    spoken, closing = killed_at, len(stream) - 3
    if killed_at == 2:  # 3: the result, 4 and 5: RUN, 6: CLOSE
        assert shown(resumed) == [0, 1, spoken, 3, closing, closing + 1]
    else:  # 5: CLOSE, 6: the user, 7: the result
        assert shown(resumed) == [0, 1, 2, 5, spoken, 7]


def copy_of(events: list[Event]) -> EventStream:
    stream = EventStream("s")
    stream.extend(event_from_dict(json.loads(json.dumps(event_to_dict(e)))) for e in events)
    return stream


def plain(event: Event) -> Event:
    return event.replace(timestamp=None)


# ---------------------------------------------------------------------- requests


def test_the_agent_asks_that_its_history_be_condensed() -> None:
    context = started(ConversationWindowCondenser())
    does(context, *[RUN] * 6)
    assert asks(context, CONDENSE) == []
    result, request = context.stream[14], context.stream[15]
    assert getattr(result, "content", "") == "A condensation of the history is requested."
    assert isinstance(request, CondensationRequestAction)
    assert (request.cause, request.source, request.is_voluntary) == (13, "agent", True)
    assert event_from_dict(event_to_dict(request)) == request
    context.messages()
    (condensed,) = context.condensations
    assert set(condensed.forgotten) <= set(range(1, 13))
    assert not context.state.view.unhandled_condensation_request


def test_the_user_asks_for_it() -> None:
    context = started(ConversationWindowCondenser())
    does(context, *[RUN] * 6)
    request = context.request_condensation()
    assert isinstance(request, CondensationRequestAction)
    assert (request.source, request.cause, request.is_voluntary) == ("user", None, True)
    assert len(context.messages()) < 13
    assert len(context.condensations) == 1


@pytest.mark.parametrize("condenser", [NoOpCondenser, ConversationWindowCondenser])
@pytest.mark.parametrize("budget", [None, Budget(8_000)])
def test_where_nothing_can_be_condensed_the_prompt_is_sent_as_it_is(
    condenser: type[Condenser], budget: Budget | None
) -> None:
    context = started(condenser(), budget=budget)
    before = context.messages()
    context.request_condensation()
    assert context.messages() == before
    (note,) = context.state.extra_data["condenser_meta"]
    assert note["reason"] == "a condensation was asked for"
    assert "cannot be made smaller" in note["not_done"]
    assert context.condensations == []
    context.record(Reply("Done."))
    assert not context.state.view.unhandled_condensation_request


def test_it_is_sent_as_it_is_also_if_a_prompt_was_too_long_long_ago() -> None:
    context = started()
    assert context.overflowed(TOO_LONG)
    asks(context, CONDENSE)  # so it was not too long after all
    assert len(context.messages()) == 3


def test_after_a_refusal_the_user_can_go_on_and_ask_for_a_condensation() -> None:
    context = started()
    assert context.overflowed(TOO_LONG)
    context.stream.append(MessageAction("I have chosen a larger model."), "user")
    context.request_condensation()
    assert len(context.messages()) == 1


def test_a_refused_prompt_ends_the_session_also_if_a_condensation_was_asked_for() -> None:
    context = started()
    context.request_condensation()
    context.messages()
    assert context.overflowed(TOO_LONG)
    for _ in range(2):
        with pytest.raises(CannotCondense):
            context.messages()
        context.request_condensation()


def test_what_was_asked_for_does_not_count_as_an_overflow() -> None:
    context = started()
    for _ in range(9):
        context.request_condensation()
    assert [context.overflowed(TOO_LONG) for _ in range(6)] == [True] * 5 + [False]


def test_a_prompt_that_does_not_fit_is_shortened_also_if_a_condensation_was_asked_for() -> None:
    budget = Budget(700, counter=TokenCounter(exact=False))
    context = started(budget=budget)
    (action,) = asks(context, RUN)
    context.observe("word " * 2_000, action)
    context.request_condensation()
    messages = context.messages()
    assert context.budget is not None
    assert context.budget.counter.count(messages) + context.budget.overhead <= 700
    assert check_messages(messages) == []


# ---------------------------------------------------------------------- laws

_MALFORMED: tuple[Asked, ...] = (
    ("fold", {"command": "close", "summary": ""}),
    ("fold", {"command": "shut"}),
    ("fold", "["),
)
_CALLS = st.sampled_from((RUN, RUN, OPEN, OPEN, CLOSE, CLOSE, CONDENSE, *_MALFORMED))
_RESPONSES = st.lists(_CALLS, min_size=1, max_size=3).map(tuple)
Beat = Event | tuple[Asked, ...]


@st.composite
def sessions(draw: st.DrawFn, *, condensations: bool = True) -> list[Beat]:
    """A drawn log, with responses of an agent that folds at random places of it."""
    beats: list[Beat] = [*draw(event_logs(max_size=30, condensations=condensations))]
    for response in draw(st.lists(_RESPONSES, max_size=8)):
        beats.insert(draw(st.integers(0, len(beats))), response)
    return beats


def own_sessions() -> st.SearchStrategy[list[Beat]]:
    """Without foreign events but for what the user says."""
    return st.lists(st.builds(_user) | _RESPONSES | _RESPONSES, max_size=12)


def _user() -> Event:
    return MessageAction("And this.", source="user")  # type: ignore[arg-type]


def played(
    context: AgentContext,
    session: list[Beat],
    renewed: Callable[[AgentContext], AgentContext] = lambda context: context,
) -> Iterator[tuple[AgentContext, Beat]]:
    """Plays a session, and yields before each beat of it. A third of the results never comes."""
    for beat in session:
        context = renewed(context)
        yield context, beat
        if isinstance(beat, Event):
            context.stream.append(beat.replace(id=-1))
            continue
        for action in asks(context, *beat):
            if action.id % 3:
                context.observe("done", action)


def sent(context: AgentContext) -> list[dict[str, Any]]:
    try:
        return context.messages()
    except NothingToSend:
        return []


CONDENSERS: dict[str, Any] = {
    "noop": NoOpCondenser,
    "window": ConversationWindowCondenser,
    "digest": lambda: DigestCondenser(12, 800),
    "llm": lambda: LLMSummarizingCondenser(MadeUpModel("s"), 12),
}


@given(sessions(), st.sampled_from(sorted(CONDENSERS)), st.sampled_from(sorted(PROFILES)))
def test_whatever_is_folded_the_next_prompt_is_valid(
    session: list[Beat], name: str, profile: str
) -> None:
    memory = ConversationMemory(profile)
    context = started(CONDENSERS[name](), memory=memory)
    for _ in played(context, session):
        try:
            messages = sent(context)
        except CannotCondense:  # a drawn request that nobody can answer
            continue
        assert messages == [] or check_messages(messages, profile, tools=TOOLS) == []
    assert context.state.view == View.from_events(context.stream)


@given(sessions())
@example([(OPEN, RUN), (OPEN,), (RUN,), (CLOSE,), (CLOSE, RUN)])
def test_a_fold_forgets_the_agents_own_turns_of_its_branch_and_nothing_else(
    session: list[Beat],
) -> None:
    context = started()
    for _ in played(context, session):
        pass
    view = View()
    newest = -1
    for event in context.stream:
        before = view.turns
        view.append(event)
        if not isinstance(event, CondensationAction) or event.details is None:
            continue
        opened, closed = event.details["opened"], event.details["closed"]
        kept = {turn.serial for turn in view.turns}
        gone = [turn for turn in before if turn.serial not in kept]
        assert sorted(e.id for turn in gone for e in turn.events) == event.forgotten
        assert gone
        for turn in gone:
            assert turn.kind not in (TurnKind.USER, TurnKind.SUMMARY, TurnKind.SYSTEM)
            ids = [e.id for e in turn.events]
            assert opened not in ids
            assert closed not in ids
            assert opened < ids[0] < closed
        assert event.details["events_after"] == len(view) - 1  # it was made before its result
        assert event.details["events_before"] == len(view) - 1 + len(event.forgotten)
        assert closed > newest, "no call closes twice"
        newest = closed
        assert any(closed in [e.id for e in turn.events] for turn in view.turns)


@given(sessions(condensations=False), st.sampled_from(sorted(PROFILES)))
def test_all_up_to_the_opening_call_is_as_it_was(session: list[Beat], profile: str) -> None:
    """So the prompt cache holds for it."""
    context = started()
    for _ in played(context, session):
        pass
    view = View()
    for event in context.stream:
        before = view.copy()
        view.append(event)
        if not isinstance(event, CondensationAction) or event.details is None:
            continue
        opened = [t for t in view.turns if event.details["opened"] in [e.id for e in t.events]]
        if not opened:
            continue  # a delegate's, which has gone with it
        later = [
            turn
            for turn in view.turns
            if turn.serial > opened[0].serial and turn.kind is not TurnKind.SYSTEM
        ]
        first, second, head = (
            ConversationMemory(profile).process_events(v)
            for v in (before, view, view.without(later))
        )
        same = len(head) - 1  # its last message may be joined by another one
        assert first[:same] == second[:same] == head[:same]


@given(own_sessions())
def test_each_answered_prompt_is_extended_by_the_next_but_after_a_fold(
    session: list[Beat],
) -> None:
    context = started()
    before: list[Any] = []
    folds = 0
    for _, beat in played(context, session):
        if isinstance(beat, Event):
            continue
        messages = context.messages()
        now = sum(isinstance(event, CondensationAction) for event in context.stream)
        if now == folds:
            assert messages[: len(before)] == before
        else:
            summary = json.dumps(CLOSE[1])
            calls = [c["function"] for m in messages for c in m.get("tool_calls", ())]
            assert summary in [call["arguments"] for call in calls]
        before, folds = messages, now


@given(own_sessions())
def test_each_prompt_of_an_agent_that_folds_is_proved_by_its_log(session: list[Beat]) -> None:
    context = started(DigestCondenser(10, 800))
    for _ in played(context, session):
        sent(context)
    proofs = list(prompts_of(context.stream, DigestCondenser(10, 800)))
    assert len(proofs) == sum(isinstance(beat, tuple) for beat in session)
    assert all(proof.holds for proof in proofs)


@given(sessions())
def test_what_is_open_is_the_same_read_step_by_step_and_at_once(session: list[Beat]) -> None:
    context = started()
    followed = Folds(context.stream)
    for _ in played(context, session):
        assert followed.open == Folds(context.stream).open
        assert followed.open == Folds(copy_of(list(context.stream))).open


@given(sessions(), st.sampled_from(["noop", "window", "digest"]))
def test_a_restart_at_any_beat_changes_nothing(session: list[Beat], name: str) -> None:
    """But for the pause after a summary that failed, which one that pays for them makes."""

    def restarted(context: AgentContext) -> AgentContext:
        return started(CONDENSERS[name](), stream=copy_of(list(context.stream)))

    logs = []
    for renewed in (lambda context: context, restarted):
        context = started(CONDENSERS[name]())
        for now, _ in played(context, session, renewed):
            context = now
            with contextlib.suppress(CannotCondense):
                sent(context)
        logs.append([plain(event) for event in context.stream])
    assert logs[0] == logs[1]


@given(own_sessions(), st.lists(st.sampled_from((OPEN, CLOSE, CONDENSE)), min_size=1, max_size=4))
def test_killed_before_any_of_its_results_a_response_is_completed(
    session: list[Beat], calls: list[Asked]
) -> None:
    context = started()
    for _ in played(context, session):
        pass
    begin = len(context.stream)
    asks(context, *calls)
    whole = [plain(event) for event in context.stream]
    results = [e.id for e in whole[begin + len(calls) :] if e.kind in ("mcp", "error")]
    for killed_at in results:
        resumed = started(stream=copy_of(list(context.stream)[:killed_at]))
        resumed.messages()
        assert [plain(event) for event in resumed.stream] == whole


class Counting(InMemoryEventStore):
    """Counts the events that are read from it."""

    handed_out = 0

    def read(self, *args: Any, **more: Any) -> Iterator[Event]:
        for event in super().read(*args, **more):
            self.handed_out += 1
            yield event


def test_a_step_does_not_cost_more_the_longer_the_history_is() -> None:
    store = Counting()
    context = started(stream=EventStream("s", store))
    costs = []
    for _ in range(60):
        before = store.handed_out
        does(context, OPEN, RUN, RUN, CLOSE, CONDENSE)
        context.messages()
        costs.append(store.handed_out - before)
    assert max(costs[1:]) == min(costs[1:]) <= 5 * 9
