"""The step loop's side: what an LLM answered becomes events, and results find their calls."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eventfold.condensers import (
    AgentContext,
    CannotCondense,
    NoOpCondenser,
    condenser_from_config,
)
from eventfold.events import (
    AgentFinishAction,
    CmdOutputObservation,
    CmdRunAction,
    ErrorObservation,
    EventStream,
    InvalidArgument,
    MCPAction,
    MCPObservation,
    MessageAction,
    ToolCall,
    event_from_dict,
    event_to_dict,
)
from eventfold.memory import (
    Budget,
    ConversationMemory,
    Message,
    Reply,
    TokenCounter,
    check_messages,
)
from eventfold.memory.message import Usage

BASH = {
    "type": "function",
    "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}},
}


def started(**more: Any) -> AgentContext:
    stream = EventStream("s")
    stream.append(MessageAction("Fix it."), "user")
    return AgentContext(stream, NoOpCondenser(), **more)


def call(number: int, name: str = "bash", arguments: str = '{"command": "ls"}') -> ToolCall:
    return ToolCall(f"call_{number}", name, arguments)


def kinds(context: AgentContext) -> list[str]:
    return [event.kind for event in context.stream]


def test_a_reply_with_parallel_calls_becomes_one_action_for_each() -> None:
    context = started()
    context.messages()
    actions = context.record(Reply("Two looks.", (call(1), call(2, "grep", '{"pattern": "x"}'))))
    ls, grep = actions
    assert isinstance(ls, CmdRunAction)
    assert isinstance(grep, MCPAction)
    assert (ls.command, ls.thought, ls.id) == ("ls", "Two looks.", 1)
    assert (grep.name, grep.arguments, grep.thought) == ("grep", {"pattern": "x"}, "")
    context.observe("a.py", ls)
    context.observe("found")  # the oldest one that waits
    assert [type(event) for event in context.stream][3:] == [CmdOutputObservation, MCPObservation]
    assert [event.cause for event in context.stream][3:] == [1, 2]
    assert context.messages() == [
        {"role": "user", "content": "Fix it."},
        {
            "role": "assistant",
            "content": "Two looks.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "bash", "arguments": '{"command": "ls"}'},
                },
                {
                    "id": "call_2",
                    "type": "function",
                    "function": {"name": "grep", "arguments": '{"pattern": "x"}'},
                },
            ],
        },
        {"role": "tool", "content": "a.py", "tool_call_id": "call_1", "name": "bash"},
        {"role": "tool", "content": "found", "tool_call_id": "call_2", "name": "grep"},
    ]


def test_results_may_come_in_any_order() -> None:
    context = started()
    first, second = context.record(Reply("", (call(1), call(2))))
    context.observe("two", second)
    assert context.state.waiting == [first]
    context.observe("one")
    assert context.state.waiting == []
    assert [m["content"] for m in context.messages() if m["role"] == "tool"] == ["one", "two"]


def test_an_answer_without_calls_is_a_message_and_a_finish_is_not_waited_for() -> None:
    context = started()
    (said,) = context.record(Reply("Which test?"))
    assert isinstance(said, MessageAction)
    assert (said.content, said.source) == ("Which test?", "agent")
    context.stream.append(MessageAction("All."), "user")
    (finish,) = context.record(Reply("", (call(1, "finish", '{"message": "Done."}'),)))
    assert isinstance(finish, AgentFinishAction)
    assert context.state.waiting == []
    assert check_messages(context.messages()) == []


def test_what_a_text_answer_does_not_say_is_kept_and_not_sent() -> None:
    """Providers want reasoning back within a tool loop only, and a text answer ends one."""
    message = {"role": "assistant", "content": "Which test?", "reasoning_content": "Not clear."}
    response = {"id": "r", "choices": [{"message": message, "finish_reason": "stop"}]}
    context = started()
    (said,) = context.record(response)
    read = event_from_dict(json.loads(json.dumps(event_to_dict(said))))
    for event in (said, read):
        assert isinstance(event, MessageAction)
        assert event.model_response is not None
        assert event.model_response.to_dict() == response
    assert context.messages()[1] == {"role": "assistant", "content": "Which test?"}


def test_an_empty_answer_is_kept_and_says_nothing() -> None:
    context = started()
    before = context.messages()
    (said,) = context.record(Reply(""))
    assert isinstance(said, MessageAction)
    assert said.content == ""
    assert context.messages() == before


def test_a_refusal_is_said_as_the_model_said_it() -> None:
    message = {"role": "assistant", "content": None, "refusal": "I will not."}
    response = {"id": "r", "choices": [{"message": message, "finish_reason": "stop"}]}
    (said,) = started().record(response)
    assert isinstance(said, MessageAction)
    assert said.content == "I will not."


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"command": "l', "Unterminated string"),
        ("[1]", "they are [1]"),
        ("null", "they are null"),
        ("x", "Expecting value"),
    ],
)
def test_malformed_arguments_are_answered_at_once(arguments: str, why: str) -> None:
    context = started()
    (good,) = context.record(Reply("", (call(1, arguments=arguments), call(2))))
    assert isinstance(good, CmdRunAction)
    error = context.stream[3]
    assert isinstance(error, ErrorObservation)
    assert error.cause == 1
    assert error.content.startswith("The arguments of this call are no JSON object: ")
    assert why in error.content
    assert context.state.waiting == [good]
    context.observe("fine")
    messages = context.messages()
    assert check_messages(messages) == []
    assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == ["call_1", "call_2"]


def test_arguments_that_were_cut_off_are_told_so() -> None:
    context = started()
    cut = Reply("", (call(1, arguments='{"command": "l'),), finish_reason="length")
    assert context.record(cut) == []
    assert "cut off at its token limit" in getattr(context.stream[2], "content", "")


def test_no_arguments_at_all_are_an_empty_object() -> None:
    (action,) = started().record(Reply("", (call(1, "status", ""),)))
    assert isinstance(action, MCPAction)
    assert action.arguments == {}


def test_a_tool_that_there_is_not_is_answered_with_those_that_there_are() -> None:
    context = started(tools=[BASH])
    assert context.record(Reply("", (call(1, "shell"),))) == []
    error = context.stream[2]
    assert getattr(error, "content", "") == "There is no tool 'shell'. The tools are: bash."
    anthropic = {"name": "bash", "input_schema": {"type": "object"}}
    assert started(tools=[anthropic]).record(Reply("", (call(1),)))


def test_a_litellm_response_is_recorded_as_it_came() -> None:
    function = {"name": "bash", "arguments": '{"command": "ls"}'}
    message = {
        "role": "assistant",
        "content": "See.",
        "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
    response = {"id": "r1", "model": "m", "choices": [{"message": message}], "usage": {"x": 1}}

    class Response:
        def model_dump(self, mode: str) -> dict[str, Any]:
            return response

    for given_response in (response, Response(), Reply("", raw=response)):
        context = started(memory=ConversationMemory("anthropic"))
        (action,) = context.record(given_response)
        context.observe("a.py")
        metadata = action.tool_call_metadata
        assert metadata is not None
        assert metadata.model_response is not None
        assert metadata.model_response.to_dict() == response
        assert action.llm_metrics == {"model": "m", "usage": {"x": 1}}
        assert context.messages()[1]["thinking_blocks"] == message["thinking_blocks"]


@pytest.mark.parametrize("response", ["text", 3, None, ["x"]])
def test_what_is_no_response_is_refused_and_nothing_is_appended(response: Any) -> None:
    context = started()
    with pytest.raises(InvalidArgument, match="chat completion"):
        context.record(response)
    assert len(context.stream) == 1


def test_results_of_other_kinds() -> None:
    context = started()
    context.record(Reply("", tuple(call(n, "tool", "{}") for n in range(4))))
    context.observe(ValueError("no"))
    context.observe({"a": [1]})
    context.observe(CmdOutputObservation("own kind", "ls"))
    with pytest.raises(InvalidArgument, match="found set"):
        context.observe({1})
    context.observe("last")
    with pytest.raises(InvalidArgument, match="no call of the newest response waits"):
        context.observe("one more")
    shown = [m["content"] for m in context.messages() if m["role"] == "tool"]
    assert shown == ["Error: ValueError: no", '{"a": [1]}', "own kind", "last"]


def test_an_observation_that_names_its_call_answers_that_one() -> None:
    context = started()
    context.record(Reply("", (call(1), call(2))))
    context.observe(CmdOutputObservation("two", "ls", cause=2))
    assert [action.id for action in context.state.waiting] == [1]


def test_an_action_of_another_stream_is_refused() -> None:
    (other,) = started().record(Reply("", (call(9, "other"),)))
    context = started()
    context.record(Reply("", (call(1),)))
    with pytest.raises(InvalidArgument, match="none of this stream"):
        context.observe("x", other)
    with pytest.raises(InvalidArgument, match="none of this stream"):
        context.observe("x", CmdRunAction("ls"))


@pytest.mark.parametrize(
    ("response", "says"),
    [
        ({"role": "assistant", "content": "hi"}, "not its message.*keys role, content"),
        ({"error": {"message": "no"}}, "the keys error"),
        ({}, "no keys"),
        ({"choices": []}, "the keys choices"),
        ({"choices": ["hi"]}, "the keys choices"),
        ({"choices": [{"message": None}]}, "the keys choices"),
        ({"choices": [{"message": {"function_call": {"name": "ls"}}}]}, "found function_call"),
        ({"choices": [{"message": {"tool_calls": [{"type": "custom"}]}}]}, "found tool_calls"),
    ],
)
def test_what_would_be_lost_is_refused(response: Any, says: str) -> None:
    context = started()
    with pytest.raises(InvalidArgument, match=says):
        context.record(response)
    assert len(context.stream) == 1


def test_a_cause_that_there_is_not_is_refused_and_an_unknown_one_is_none() -> None:
    context = started()
    (action,) = context.record(Reply("", (call(1),)))
    with pytest.raises(InvalidArgument, match="event 99 as its cause"):
        context.observe(ErrorObservation("x", cause=99))
    context.observe(ErrorObservation("x", cause=-1))
    assert context.stream[2].cause == action.id


# ---------------------------------------------------------------------- refused prompts

TOO_LONG = "prompt is too long: 9 tokens > 3 maximum"


def test_after_a_refusal_that_nothing_helps_against_the_user_can_go_on() -> None:
    context = started()
    context.messages()
    assert context.overflowed(TOO_LONG)
    with pytest.raises(CannotCondense, match="a new message of the user"):
        context.messages()
    with pytest.raises(CannotCondense):  # also in a new process
        AgentContext(context.stream, NoOpCondenser()).messages()
    context.stream.append(MessageAction("I have chosen a larger model."), "user")
    assert context.messages()[-1]["content"][-1]["text"] == "I have chosen a larger model."
    assert context.overflowed(TOO_LONG)
    with pytest.raises(CannotCondense):
        context.messages()


def test_an_answer_ends_the_request_before_it() -> None:
    context = started()
    context.messages()
    assert context.overflowed(TOO_LONG)
    context.record(Reply("It was not too long after all."))
    assert not context.state.view.unhandled_condensation_request
    context.stream.append(MessageAction("Good."), "user")
    assert len(context.messages()) == 3


# ---------------------------------------------------------------------- the prompt's hash


def test_the_first_action_keeps_what_a_replay_needs_to_prove_the_prompt() -> None:
    context = started()
    prompt = context.prepare()
    first, second = context.record(Reply("", (call(1), call(2))))
    assert first.llm_metrics == {
        "prompt": {
            "sha256": Message.sha256(prompt),
            "after": 0,
            "profile": "portable",
            "prompt_caching": False,
            "max_message_chars": None,
            "vision": False,
            "condenser": "NoOpCondenser",
        }
    }
    assert second.llm_metrics is None
    assert event_from_dict(event_to_dict(first)) == first
    # Another process, from the events alone.
    log = [event_to_dict(event) for event in context.stream]
    code = (
        "import json, sys\n"
        "from eventfold import ConversationMemory, Message, View, event_from_dict\n"
        "events = [event_from_dict(d) for d in json.load(sys.stdin)]\n"
        "prompt = events[1].llm_metrics['prompt']\n"
        "view = View.from_events(events[: prompt['after'] + 1])\n"
        "print(Message.sha256(ConversationMemory().process_events(view)) == prompt['sha256'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(log), capture_output=True, text=True
    )
    assert done.stdout == "True\n", done.stderr


@given(st.lists(st.text(), min_size=1, max_size=4), st.integers(0, 3))
def test_equal_prompts_and_no_others_have_equal_hashes(texts: list[str], place: int) -> None:
    messages = [Message.user_message(text) for text in texts]
    assert Message.sha256(messages) == Message.sha256([Message.user_message(t) for t in texts])
    place %= len(texts)
    other = [*messages]
    other[place] = Message.user_message(texts[place] + "x")
    assert Message.sha256(messages) != Message.sha256(other)
    assert Message.sha256(messages) != Message.sha256([*messages, messages[0]])
    assert Message.sha256(messages) != Message.sha256([m.replace(role="system") for m in messages])


# ---------------------------------------------------------------------- calibration


def test_a_budget_is_calibrated_by_the_log_also_after_a_restart() -> None:
    budget = Budget(100_000, counter=TokenCounter(exact=False))
    context = started(budget=budget, tools=[BASH])
    context.stream.append(MessageAction("word " * 8_000), "user")
    counted = budget.count(context.prepare()) + (context.budget or budget).overhead
    context.record(Reply("", (call(1),), usage=Usage(input_tokens=2 * counted)))
    assert context.budget is not None
    assert 1.9 < context.budget.counter.calibration < 2.0
    again = AgentContext(context.stream, NoOpCondenser(), budget=budget, tools=[BASH])
    assert again.budget == context.budget
    # The limit of a result is as before: what was sent does not change.
    assert again.messages()[:1] == context.messages()[:1]


def test_a_context_learns_from_what_another_one_has_recorded() -> None:
    budget = Budget(100_000, counter=TokenCounter(exact=False))
    one = started(budget=budget)
    one.messages()
    two = AgentContext(one.stream, NoOpCondenser(), budget=budget)
    counted = budget.count(two.prepare())
    two.record(Reply("", (call(1),), usage=Usage(input_tokens=counted + 5_000)))
    one.messages()
    assert one.budget is not None
    assert two.budget is not None
    assert one.budget.counter.calibration == two.budget.counter.calibration > 1


def test_far_from_its_limit_an_exact_counter_is_not_calibrated() -> None:
    context = started(budget=Budget(100_000))
    context.messages()
    context.record(Reply("", (call(1),), usage=Usage(input_tokens=50)))
    assert context.budget is not None
    assert context.budget.counter.calibration == 1.0


# ---------------------------------------------------------------------- laws

_ARGUMENTS = st.sampled_from(['{"command": "ls"}', "{}", "", "{", "[1]", '{"path": "a"}'])
_CALLS = st.builds(
    ToolCall,
    st.sampled_from(["a", "b", "", "a b"]),
    st.sampled_from(["bash", "finish", "think", "x y", ""]),
    _ARGUMENTS,
)
_REPLIES = st.builds(
    Reply, st.sampled_from(["", " ", "text", "\ud800"]), st.lists(_CALLS).map(tuple)
)


@given(replies=st.lists(_REPLIES, max_size=6), data=st.data())
def test_whatever_is_answered_and_observed_the_next_prompt_is_valid(
    replies: list[Reply], data: st.DataObject
) -> None:
    context = started()
    for reply in replies:
        context.record(reply)
        for _ in range(data.draw(st.integers(0, 3))):
            if waiting := context.state.waiting:
                context.observe("done", data.draw(st.sampled_from(waiting)))
        told: bool = data.draw(st.booleans())
        if told:
            context.stream.append(MessageAction("Go on."), "user")
        assert check_messages(context.messages()) == []


def test_a_resumed_context_goes_on_where_the_last_one_stopped() -> None:
    context = AgentContext(EventStream("s"), condenser_from_config("default"))
    context.stream.append(MessageAction("Fix it."), "user")
    context.record(Reply("", (call(1), call(2))))
    context.observe("one")
    resumed = AgentContext(context.stream, condenser_from_config("default"))
    (waiting,) = resumed.state.waiting
    resumed.observe(ErrorObservation("The run was interrupted here."), waiting)
    assert resumed.messages() == context.messages()
