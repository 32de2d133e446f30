"""Public fault reports, each as a small case whose right outcome was worked out by hand.

The number in a test's docstring names the report: OpenHands is OpenHands/OpenHands, SDK is
OpenHands/software-agent-sdk. See ``tests.notation`` for how the logs are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from eventfold.condensers import (
    AgentContext,
    BrowserOutputCondenser,
    CannotCondense,
    Condensation,
    Condenser,
    CondenserPipeline,
    ConversationWindowCondenser,
    LLMSummarizingCondenser,
    NoOpCondenser,
    RollingCondenser,
    condenser_from_config,
)
from eventfold.condensers.config import presets
from eventfold.condensers.errors import is_context_overflow
from eventfold.condensers.llm_summary import LLMSummary
from eventfold.events import (
    AgentCondensationObservation,
    BrowserOutputObservation,
    BrowseURLAction,
    CondensationAction,
    CondensationRequestAction,
    ErrorObservation,
    Event,
    EventSource,
    EventStream,
    FileEditAction,
    MessageAction,
    RecallAction,
    RecallObservation,
    SuccessObservation,
    event_to_dict,
)
from eventfold.memory import (
    Budget,
    ConversationMemory,
    ImageContent,
    Message,
    Reply,
    State,
    TextContent,
    TokenCounter,
    View,
    check_messages,
)
from eventfold.memory.rules import PROFILES
from eventfold.memory.speech import PENDING
from eventfold.memory.turns import Turn
from tests.models import MadeUpModel
from tests.notation import A, C, E, Item, M, O, R, S, U, batch, log, named
from tests.samples import PNG

USER = EventSource.USER
SYSTEM = ("system", "You are a coding agent.")
TASK = "Fix the bug."


def result(of: str, text: str, **more: Any) -> Item:
    """A result of which the model is shown the text and nothing else."""
    return O(of, observation=SuccessObservation(content=text), **more)


def pair(response: str, call: str, **more: Any) -> list[Item]:
    """A response with one call, and its result."""
    return [A(response, call, **more), result(call, f"out of {call}")]


def pairs(count: int) -> list[Item]:
    """So many pairs: calls c0, c1 and so on."""
    return [item for n in range(count) for item in pair(f"r{n}", f"c{n}")]


def ids(view: Iterable[Event]) -> list[int]:
    return [event.id for event in view]


def shape(message: Message) -> tuple[str, ...]:
    """Role and text, block by block; of an assistant message its text and the ids of its calls; of
    a result its text and the id of its call."""
    if message.role == "assistant":
        return ("assistant", message.text, *(call.id for call in message.tool_calls))
    if message.role == "tool":
        return ("tool", message.text, str(message.tool_call_id))
    return (message.role, *(part.text for part in message.content if isinstance(part, TextContent)))


def projected(history: View | Sequence[Event], profile: str = "portable") -> list[Message]:
    """The messages, after a look that they keep every rule of every profile."""
    view = history if isinstance(history, View) else View.from_events(history)
    for other in PROFILES:
        assert check_messages(ConversationMemory(other).process_events(view), other) == []
    return ConversationMemory(profile).process_events(view)


def said(history: View | Sequence[Event]) -> list[tuple[str, ...]]:
    return [shape(message) for message in projected(history)]


def after(view: View, *events: Event) -> View:
    """The view with more of the log."""
    grown = view.copy()
    for event in events:
        grown.append(event)
    return grown


def asked(events: Sequence[Event]) -> View:
    """The view of a log that ends with a request to condense."""
    return after(View.from_events(events), CondensationRequestAction(id=len(events)))


def carried_out(view: View, outcome: View | Condensation, at: int) -> View:
    assert isinstance(outcome, Condensation), outcome
    return after(view, outcome.action.replace(id=at))


def forgotten(outcome: View | Condensation) -> list[int]:
    assert isinstance(outcome, Condensation), outcome
    return list(outcome.action.forgotten)


class Model(MadeUpModel):
    """A summarizer that gives its answers in turn, the last one for ever."""

    def __init__(self, *answers: str | Reply | Exception, window: int | None = None) -> None:
        super().__init__(self._next)
        self.answers = list(answers) or ["in short"]
        self.window = window  # characters

    def _next(self, request: str) -> Reply:
        if self.window is not None and len(request) > self.window:
            raise ValueError("prompt is too long")
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return Reply(text=answer, finish_reason="stop") if isinstance(answer, str) else answer


def always(view: View, budget: Budget | None, /) -> str:
    return "always"


def never(view: View, budget: Budget | None, /) -> None:
    return None


def oldest(view: View, requested: bool, budget: Budget | None, /) -> list[Turn]:
    """Behind the system message and the task."""
    return view.turns[2:3]


# ---------------------------------------------------------------------- calls and their results

FOUR_PAIRS = [S(), U(), *pair("r1", "a"), *pair("r2", "b"), *pair("r3", "c"), *pair("r4", "d")]


@pytest.mark.parametrize(
    ("last", "kept"),
    [
        (2, [0, 1, 4, 5, 6, 7, 8, 9]),
        (3, [0, 1, 4, 5, 6, 7, 8, 9]),
        (4, [0, 1, 6, 7, 8, 9]),
        (5, [0, 1, 6, 7, 8, 9]),
        (6, [0, 1, 8, 9]),
        (7, [0, 1, 8, 9]),
        (8, [0, 1]),
        (9, [0, 1]),
    ],
)
def test_a_cut_between_a_call_and_its_result_takes_both(last: int, kept: list[int]) -> None:
    """OpenHands 7512: forgetting the first half left a call without its result."""
    view = View.from_events(log(*FOUR_PAIRS, R(), C(range(2, last + 1))))
    assert ids(view) == kept
    calls = ["abcd"[(event_id - 2) // 2] for event_id in kept[2::2]]
    assert said(view) == [
        SYSTEM,
        ("user", TASK),
        *(
            message
            for call in calls
            for message in (("assistant", "", call), ("tool", f"out of {call}", call))
        ),
    ]


@pytest.mark.parametrize(
    ("offset", "view"),
    [
        (-1, [0, 4, 1, 2, 3]),
        (0, [0, 4, 1, 2, 3]),
        (2, [0, 1, 4, 2, 3]),
        (3, [0, 1, 2, 3, 4]),
        (4, [0, 1, 2, 3, 4]),
        (90, [0, 1, 2, 3, 4]),
    ],
)
def test_a_summary_does_not_part_a_call_from_its_result(offset: int, view: list[int]) -> None:
    """OpenHands 7512: nor the system message from the beginning."""
    events = log(S(), U(), pair("r1", "a"), C([], "in short", offset))
    assert ids(View.from_events(events)) == view
    assert ("assistant", "", "a") in said(events)
    assert said(events)[0] == SYSTEM


def test_half_of_the_history_goes_in_whole_pairs() -> None:
    """OpenHands 7512, by our own proposals: the window forgets half of the four pairs; the
    summarizer keeps half of the ten events, its summary among them."""
    view = asked(log(*FOUR_PAIRS))
    assert forgotten(ConversationWindowCondenser().condense(view)) == [2, 3, 4, 5]
    outcome = LLMSummarizingCondenser(Model()).condense(view)
    assert forgotten(outcome) == [2, 3, 4, 5, 6, 7]
    assert ids(carried_out(view, outcome, 11)) == [0, 1, 11, 8, 9]


def test_a_half_that_ends_inside_a_batch_moves_to_its_end() -> None:
    """cline 7225, OpenManus 1393, langchain 33245, pydantic-ai 2050: a cut inside a pair."""
    events = log(
        *(S(), U(), pair("r1", "a")),  # 0 to 3
        *(batch("r2", "b", "c"), result("b", "B"), result("c", "C")),  # 4 to 7
        pair("r3", "d"),
    )
    outcome = ConversationWindowCondenser().condense(asked(events))
    assert forgotten(outcome) == [2, 3, 4, 5, 6, 7]  # four of eight would end between b and c


BATCHES = {
    "in parallel": [
        *(S(), U(), *batch("r1", "a", "b"), result("a", "A"), result("b", "B"), U("next")),
    ],
    "one by one": [
        *(S(), U(), A("r1", "a"), result("a", "A"), A("r1", "b"), result("b", "B"), U("next")),
    ],
}


@pytest.mark.parametrize("order", BATCHES)
@pytest.mark.parametrize("named_ids", [[2], [3], [4], [5], [2, 3], [3, 4], [5, 2]])
def test_naming_a_part_of_a_response_takes_all_of_it(order: str, named_ids: list[int]) -> None:
    """SDK 1450, langmem 126, Roo 9714: one result was forgotten, the sibling call stayed."""
    events = log(*BATCHES[order], C(named_ids))
    assert ids(View.from_events(events)) == [0, 1, 6]
    assert said(events) == [SYSTEM, ("user", TASK, "next")]


@pytest.mark.parametrize("order", BATCHES)
def test_the_calls_of_a_response_are_one_message_wherever_they_were_logged(order: str) -> None:
    """SDK 1450: the assistant turn is rebuilt from the whole batch."""
    assert said(log(*BATCHES[order])) == [
        SYSTEM,
        ("user", TASK),
        ("assistant", "", "a", "b"),
        ("tool", "A", "a"),
        ("tool", "B", "b"),
        ("user", "next"),
    ]


def test_calls_stand_in_the_order_of_the_response() -> None:
    """SDK 1450: whichever was logged, and answered, first."""
    first, second = batch("r1", "a", "b")
    events = log(S(), U(), second, result("b", "B"), first, result("a", "A"))
    assert said(events)[2:] == [("assistant", "", "a", "b"), ("tool", "A", "a"), ("tool", "B", "b")]


def test_a_result_that_comes_after_its_call_was_forgotten_is_no_result() -> None:
    """langchain 38352: a run of results of two turns was taken as safe, since one had its call."""
    forgotten_call = [A("r1", "x"), C(["x"], "x was begun", 2), result("x", "X")]
    events = log(S(), U(), forgotten_call, pair("r2", "b"))
    assert ids(View.from_events(events)) == [0, 1, 3, 4, 5, 6]
    assert said(events) == [
        SYSTEM,
        ("user", TASK, "x was begun", "Late result of execute_bash:\nX"),
        ("assistant", "", "b"),
        ("tool", "out of b", "b"),
    ]


TWO_TURNS_RESULTS = [
    *(S(), U(), *batch("r1", "a", "b"), result("a", "A")),  # 0 to 4
    *(A("r2", "c"), result("b", "B"), result("c", "C")),  # 5 to 7
]


def test_a_run_of_results_of_two_turns_is_told_apart() -> None:
    """langchain 38352: the late one is said where it came, as the user's side."""
    assert said(log(*TWO_TURNS_RESULTS)) == [
        SYSTEM,
        ("user", TASK),
        ("assistant", "", "a", "b"),
        ("tool", "A", "a"),
        ("tool", PENDING, "b"),
        ("assistant", "", "c"),
        ("tool", "C", "c"),
        ("user", "Late result of execute_bash:\nB"),
    ]
    assert said(log(*TWO_TURNS_RESULTS, C(["O(a)"]))) == [
        SYSTEM,
        ("user", TASK),
        ("assistant", "", "c"),
        ("tool", "C", "c"),
        ("user", "Late result of execute_bash:\nB"),
    ]


@pytest.mark.parametrize("first", range(2, 12))
@pytest.mark.parametrize("last", range(2, 12))
def test_every_result_that_is_kept_has_its_call_kept(first: int, last: int) -> None:
    """langchain 38352, autogen 7955: any cut, at the beginning or in the middle."""
    events = log(*TWO_TURNS_RESULTS, batch("r3", "d", "e"), result("e", "E"), result("d", "D"))
    messages = projected(log(*events, C(list(range(first, last + 1)))))
    calls = [call.id for message in messages for call in message.tool_calls]
    assert calls == [m.tool_call_id for m in messages if m.role == "tool"]
    assert [len(message.tool_calls) for message in messages if message.tool_calls] == [
        size
        for size, own in ((2, {2, 3, 4}), (1, {5, 7}), (2, {8, 9, 10, 11}))
        if own.isdisjoint(range(first, last + 1))
    ]


# ---------------------------------------------------------------------- log order, late, twice


def test_what_the_user_says_while_a_call_runs_stands_behind_its_result() -> None:
    """SDK 1841, OpenHands 11871: the message was logged between call and result."""
    events = log(S(), U(), A("r1", "a"), U("wait"), result("a", "A"))
    assert ids(View.from_events(events)) == [0, 1, 2, 3, 4]  # as it happened
    assert said(events) == [
        SYSTEM,
        ("user", TASK),
        ("assistant", "", "a"),
        ("tool", "A", "a"),
        ("user", "wait"),
    ]
    assert said(events[:4]) == [
        SYSTEM,
        ("user", TASK),
        ("assistant", "", "a"),
        ("tool", PENDING, "a"),
        ("user", "wait"),
    ]


def test_what_the_user_says_inside_a_batch_stands_behind_all_of_its_results() -> None:
    """SDK 1841: between the calls of one response, and between their results."""
    events = log(
        *(S(), U(), A("r1", "a"), U("one"), A("r1", "b")),
        *(U("two"), result("b", "B"), U("three"), result("a", "A"), M("So.")),
    )
    assert said(events) == [
        SYSTEM,
        ("user", TASK),
        ("assistant", "", "a", "b"),
        ("tool", "A", "a"),
        ("tool", "B", "b"),
        ("user", "one", "two", "three"),
        ("assistant", "So."),
        ("user", "Continue."),
    ]


def test_the_real_result_is_worth_more_than_a_stand_in() -> None:
    """SDK 3045, SDK 2298: an error stood in for a running call, then the real result came."""
    expected = [SYSTEM, ("user", TASK), ("assistant", "", "a"), ("tool", "A", "a"), ("user", "go")]
    assert said(log(S(), U(), A("r1", "a"), E("a"), result("a", "A"), U("go"))) == expected
    assert said(log(S(), U(), A("r1", "a"), result("a", "A"), E("a"), U("go"))) == expected


def test_the_final_result_is_worth_more_than_an_interim_one() -> None:
    """adk 5602: "pending" and the final result share an id."""
    events = log(S(), U(), A("r1", "a"), result("a", "pending"), result("a", "final"))
    assert said(events)[2:] == [("assistant", "", "a"), ("tool", "final", "a")]


def test_a_stand_in_that_the_model_has_seen_stays() -> None:
    """SDK 3045, after an answer: the prompt is extended, the real result is said where it came."""
    seen = [S(), U(), A("r1", "a"), E("a", "It was interrupted.")]
    before = said(log(*seen))
    assert before[3][0] == "tool"
    assert "It was interrupted." in before[3][1]
    assert said(log(*seen, M("I wait."), result("a", "A"))) == [
        *before,
        ("assistant", "I wait."),
        ("user", "Late result of execute_bash:\nA"),
    ]


def _forgetting() -> dict[str, Condenser]:
    """Every condenser by name that can answer a request."""
    every = {name: condenser_from_config(name) for name in presets()}
    return {name: condenser for name, condenser in every.items() if condenser.answers_requests}


@pytest.mark.parametrize("name", _forgetting())
def test_two_results_of_one_call_leave_together(name: str) -> None:
    """SDK 3045: condensing died of the second result and never recovered."""
    events = log(
        *(S(), U(), A("r1", "a"), E("a"), result("a", "A " * 900), U("go")),
        *(M("word " * 900), U("and now")),
    )
    outcome = _forgetting()[name].condense(asked(events))
    gone = {2, 3, 4} & set(forgotten(outcome))
    assert gone in (set(), {2, 3, 4})
    projected(carried_out(View.from_events(events), outcome, 9))


@pytest.mark.parametrize("links", ["cause", "metadata"])
def test_an_error_for_a_call_that_is_nowhere_is_told_as_text(links: str) -> None:
    """SDK 4487, letta 3250, pydantic-ai 4728: an orphan made every later turn fail."""
    orphan = E("zz", "lost", links="metadata")
    if links == "cause":
        orphan = named("orphan", ErrorObservation(content="lost", cause=99))
    events = log(S(), U(), orphan, U("more"))
    assert ids(View.from_events(events)) == [0, 1, 2, 3]
    system, user = said(events)
    assert (system, user[0], user[1], user[3]) == (SYSTEM, "user", TASK, "more")
    assert "lost" in user[2]
    assert links == "cause" or user[2].startswith("Late result of execute_bash")
    # and the turn goes on
    assert said(log(*events, pair("r1", "a"))) == [
        *(system, user, ("assistant", "", "a"), ("tool", "out of a", "a")),
    ]
    for condenser in (ConversationWindowCondenser(), LLMSummarizingCondenser(Model())):
        long = log(*events, M("word " * 900), pair("r1", "a"))
        projected(carried_out(View.from_events(long), condenser.condense(asked(long)), 9))


# ---------------------------------------------------------------------- thinking


def thinking(messages: Iterable[Message]) -> list[str | None]:
    """The thinking of each assistant message that has calls."""
    return [
        message.thinking["thinking_blocks"][0]["thinking"] if message.thinking else None
        for message in messages
        if message.tool_calls
    ]


def _loop(*thoughts: str | None) -> list[Item]:
    """A tool loop: a response with one call for each thought (None: without thinking)."""
    return [
        item
        for place, thought in enumerate(thoughts)
        for item in pair(f"r{place}", f"call{place}", thinking=thought)
    ]


@pytest.mark.parametrize(
    ("thoughts", "kept"),
    [
        (("one", None, None), [None, None]),
        (("one", None, "three"), [None, None]),
        (("one", "two", "three"), ["two", "three"]),
        (("one", "two", None), ["two", None]),
    ],
)
def test_a_loop_whose_beginning_is_forgotten_has_all_of_its_thinking_or_none(
    thoughts: tuple[str | None, ...], kept: list[str | None]
) -> None:
    """SDK 1438, langchain 34794: the first kept response of a loop had no thinking block."""
    whole = [S(), U(), *_loop(*thoughts)]
    assert thinking(projected(log(*whole))) == list(thoughts)
    messages = projected(log(*whole, C(range(2, 4))))
    assert thinking(messages) == kept
    assert [shape(m) for m in messages][2:] == [
        ("assistant", "", "call1"),
        ("tool", "out of call1", "call1"),
        ("assistant", "", "call2"),
        ("tool", "out of call2", "call2"),
    ]


def test_a_loop_that_is_whole_keeps_its_thinking_unchanged() -> None:
    """SDK 1438: thinking blocks go back as they came, each with its own loop."""
    signed = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
    ]
    later = [A("q", "z", thinking=signed), result("z", "Z")]
    messages = projected(log(S(), U(), _loop("one", None), U("next"), later, C(["call0"])))
    first, second = (message.to_dict() for message in messages if message.role == "assistant")
    assert "thinking_blocks" not in first
    assert second["thinking_blocks"] == signed


def test_a_summary_inside_a_loop_leaves_no_thinking_without_its_beginning() -> None:
    """kilocode 5149: the summary was written by another model, inside a thinking loop."""
    messages = projected(log(S(), U(), _loop("one", "two", None), C(["call1"], "two was done", 4)))
    assert thinking(messages) == ["one", None]
    assert [shape(message) for message in messages][2:] == [
        ("assistant", "", "call0"),
        ("tool", "out of call0", "call0"),
        ("user", "two was done"),
        ("assistant", "", "call2"),
        ("tool", "out of call2", "call2"),
    ]


FIELDS: dict[str, dict[str, Any]] = {
    "reasoning items": {"reasoning_items": [{"id": "rs_1", "type": "reasoning", "content": "e"}]},
    "reasoning text": {"reasoning_content": "Hm."},
    "thinking blocks": {
        "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]
    },
    "provider fields": {"provider_specific_fields": {"thought_signatures": ["c2ln"]}},
}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("carrier", ["a", "b"])
def test_a_turn_of_two_calls_keeps_what_a_turn_of_one_call_keeps(field: str, carrier: str) -> None:
    """SDK 4526: a reasoning item survived with one call in the turn and vanished with two."""
    fields = FIELDS[field]
    alone = projected(log(S(), U(), A("r1", "a", thought="So.", **fields), result("a", "A")))
    calls = [A("r1", c, thought="So.", **(fields if c == carrier else {})) for c in ("a", "b")]
    both = projected(log(S(), U(), calls, result("a", "A"), result("b", "B")))
    one, two = alone[2].to_dict(), both[2].to_dict()
    assert {name: one[name] for name in fields} == fields
    assert [call["id"] for call in two.pop("tool_calls")] == ["a", "b"]
    del one["tool_calls"]
    assert two == one


def test_a_response_that_loses_its_reasoning_loses_what_points_at_it() -> None:
    """openai-agents 2727: kept message ids named reasoning items that were gone."""
    fields: dict[str, Any] = dict(FIELDS["reasoning items"])
    fields["provider_specific_fields"] = {"message_id": "msg_1"}
    events = log(S(), U(), pair("r0", "a"), A("r1", "b", **fields), result("b", "B"))
    assert projected(events)[4].to_dict() == {
        "role": "assistant",
        "content": None,
        "tool_calls": projected(events)[4].to_dict()["tool_calls"],
    }
    assert "msg_1" not in json.dumps([message.to_dict() for message in projected(events)])


# ---------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("arguments", "meaning"),
    [
        ('{"command": "echo a\nb"}', {"command": "echo a\nb"}),
        ('{"command": "a\tb\x1b[0m\r"}', {"command": "a\tb\x1b[0m\r"}),
        ('{"command": "ls"', {"unparsed": '{"command": "ls"'}),
        ('["ls"]', {"unparsed": '["ls"]'}),
        ("ls\n-l", {"unparsed": "ls\n-l"}),
    ],
)
def test_arguments_are_sent_as_valid_json_and_logged_as_they_came(
    arguments: str, meaning: dict[str, str]
) -> None:
    """SDK 2384: a raw control character in stored arguments made every replay be refused."""
    stream = EventStream("s")
    stream.extend(log(S(), U(), A("r1", "a", arguments=arguments), result("a", "A"), U("go")))
    for view in (State(stream).view, View.from_events(stream)):  # and after it is resumed
        (call,) = projected(view)[2].to_dict()["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == meaning
    kept = event_to_dict(stream[2])["tool_call_metadata"]["model_response"]
    (logged,) = kept["choices"][0]["message"]["tool_calls"]
    assert logged["function"]["arguments"] == arguments


# ---------------------------------------------------------------------- requests and progress

RECALLED = [
    named("recall", RecallAction(recall_type="workspace_context", source=USER)),
    O("recall", observation=RecallObservation(repo_name="o/r"), links="cause"),
]
OVERFLOW = ValueError("This model's maximum context length is 4096 tokens")


@pytest.mark.parametrize(
    "beginning",
    [
        [S(), U()],
        [S(), U(), *RECALLED],
        [S(), U(), *RECALLED, R(), C([]), R(), C([])],
        [S()],
        [U()],
    ],
)
@pytest.mark.parametrize("name", ["conversation_window", "openhands-v0"])
def test_a_request_that_cannot_help_ends_with_the_floor(beginning: list[Item], name: str) -> None:
    """OpenHands 10873, 8630, 9023, 10030, SDK 1073: request and empty answer, until the limit."""
    stream = EventStream("s")
    stream.extend(log(*beginning))
    context = AgentContext(stream, condenser_from_config(name))
    assert context.overflowed(OVERFLOW)
    before = len(stream)
    for _ in range(3):
        with pytest.raises(CannotCondense, match=r"Irreducible are \d+ tokens of system message"):
            context.messages()
    assert len(stream) == before


def test_overflows_end_although_each_is_answered() -> None:
    """OpenHands 10873: a provider that refuses whatever is sent."""
    stream = EventStream("s")
    stream.extend(log(S(), U(), pairs(50)))
    context = AgentContext(stream, RollingCondenser(never, oldest))
    refusals = 0
    while context.overflowed(OVERFLOW):
        refusals += 1
        context.messages()
    assert 1 < refusals < 10
    stream.extend(event.replace(id=-1, cause=None) for event in log(pair("s", "z")))
    assert context.overflowed(OVERFLOW)  # after an answer they are counted anew


FIVE = [M(f"{n} is done. " * 60) for n in range(5)]


@pytest.mark.parametrize("name", _forgetting())
def test_a_request_makes_every_forgetting_condenser_act(name: str) -> None:
    """OpenHands 11332: only one condenser understood requests; others waited for their size."""
    view = asked(log(S(), U(), FIVE))
    gone = forgotten(_forgetting()[name].condense(view))
    assert gone == [2, 3, 4, 5, 6][: len(gone)]
    assert len(gone) >= 2


def test_a_pending_request_passes_through_a_condenser_that_forgets_nothing() -> None:
    """OpenHands 11332: masking before summarizing."""
    view = asked(log(S(), U(), FIVE))
    masked = BrowserOutputCondenser().condense(view)
    assert isinstance(masked, View)
    assert masked.unhandled_condensation_request
    pipeline = CondenserPipeline(
        BrowserOutputCondenser(), NoOpCondenser(), LLMSummarizingCondenser(Model(), 100)
    )
    outcome = pipeline.condense(view)
    assert forgotten(outcome) == [2, 3, 4, 5, 6]  # half of seven, the summary among them
    assert not carried_out(view, outcome, 8).unhandled_condensation_request


def test_a_request_that_one_condenser_cannot_answer_is_left_to_the_next() -> None:
    """OpenHands 11332: the window keeps the task, which the summarizer may forget."""
    view = asked(log(S(), U("word " * 300), U("go on")))
    with pytest.raises(CannotCondense):
        ConversationWindowCondenser().condense(view)
    pipeline = CondenserPipeline(
        ConversationWindowCondenser(), LLMSummarizingCondenser(Model(), 10, 0)
    )
    assert forgotten(pipeline.condense(view)) == [1]


def test_a_pipeline_in_which_nobody_answers_says_so_when_it_is_built() -> None:
    """OpenHands 11332: the request would be lost each time."""
    with pytest.warns(UserWarning, match="request"):
        pipeline = CondenserPipeline(BrowserOutputCondenser(), NoOpCondenser())
    stream = EventStream("s")
    stream.extend(log(S(), U(), FIVE, R()))
    with pytest.raises(CannotCondense):
        AgentContext(stream, pipeline).messages()


def test_a_tool_loop_that_fills_the_view_is_cut_between_its_turns() -> None:
    """SDK 1518: one loop of 60 pairs, of which half stays, the summary among it."""
    loop = [*pair("r0", "c0", thinking="Hm."), *pairs(60)[2:]]
    view = View.from_events(log(S(), U(), loop))
    model = Model()
    outcome = LLMSummarizingCondenser(model, 120, 2, ledger_chars=0).condense(view)
    assert forgotten(outcome) == list(range(2, 66))
    assert len(model.requests) == 1
    after_it = carried_out(view, outcome, 122)
    assert ids(after_it) == [0, 1, 122, *range(66, 122)]
    assert said(after_it)[1:4] == [
        ("user", TASK, "in short"),
        ("assistant", "", "c32"),
        ("tool", "out of c32", "c32"),
    ]


def test_nothing_to_forget_asks_no_model_and_makes_no_condensation() -> None:
    """SDK 1518: the summarizer was called with no events, and its answer became the summary."""
    calls = [f"c{n}" for n in range(60)]
    done = [result(call, "out") for call in calls[:-1]]  # one is waited for
    events = log(S(), U(), batch("r1", *calls), done)
    model = Model("Please send me the events.")
    condenser = LLMSummarizingCondenser(model, 100, 2)
    view = View.from_events(events)
    assert len(view) == 121
    assert condenser.condense(view) is view  # the soft trigger: go on
    with pytest.raises(CannotCondense):
        condenser.condense(asked(events))
    assert model.requests == []


@pytest.mark.parametrize(
    "events",
    [
        [S("word " * 200), U()],
        [S(), U("word " * 200), *pair("r1", "a")],
        [S(), U(), *pair("r1", "a"), U("word " * 200)],
    ],
)
def test_a_floor_above_the_window_ends_with_an_error_that_names_it(events: list[Item]) -> None:
    """opencode 27924, 48828, codex 31351: compaction after every step, which could never help."""
    stream = EventStream("s")
    stream.extend(log(*events))
    budget = Budget(90, counter=TokenCounter(exact=False))
    context = AgentContext(stream, ConversationWindowCondenser(), budget=budget)
    for _ in range(2):
        with pytest.raises(CannotCondense):
            context.messages()
    with pytest.raises(CannotCondense) as failure:
        context.messages()
    floor = int(str(failure.value).partition("Irreducible are ")[2].split()[0])
    assert floor > 90
    assert "the window has 90 tokens" in str(failure.value)
    asked_for = [event for event in stream if isinstance(event, CondensationRequestAction)]
    assert len(asked_for) <= 2


def test_tools_count_from_the_start() -> None:
    """opencode 27924: system prompt and tools of 100 units in a window of 90."""
    stream = EventStream("s")
    stream.extend(log(S(), U()))
    counter = TokenCounter(exact=False)
    tool = {"type": "function", "function": {"name": "t", "description": "word " * 300}}
    alone = AgentContext(stream, NoOpCondenser(), budget=Budget(90, counter=counter))
    assert len(alone.messages()) == 2
    budget = Budget(90, tools=[tool], counter=counter)
    for context in (
        AgentContext(stream, ConversationWindowCondenser(), budget=budget),
        AgentContext(
            stream, ConversationWindowCondenser(), tools=[tool], budget=Budget(90, counter=counter)
        ),
    ):
        with pytest.raises(CannotCondense, match=f"{budget.overhead} tokens of tools"):
            context.messages()


def test_a_huge_newest_answer_gives_way_where_nothing_else_helps() -> None:
    """opencode 27924, the other way round: what is not protected is no floor."""
    stream = EventStream("s")
    stream.extend(log(S(), U(), M("word " * 2000), U("go on")))
    budget = Budget(300, counter=TokenCounter(exact=False))
    context = AgentContext(stream, ConversationWindowCondenser(), budget=budget)
    assert [shape(message) for message in context.prepare()] == [SYSTEM, ("user", TASK, "go on")]


def test_a_result_larger_than_the_window_is_shortened() -> None:
    """xagent 2072: one result of ten windows."""
    stream = EventStream("s")
    stream.extend(log(S(), U(), A("r1", "a"), result("a", "begin " + "word " * 2000 + "end")))
    budget = Budget(1000, counter=TokenCounter(exact=False))
    context = AgentContext(stream, ConversationWindowCondenser(), budget=budget)
    messages = context.prepare()
    assert budget.fits(messages)
    assert [message.role for message in messages] == ["system", "user", "assistant", "tool"]
    assert messages[3].text.startswith("begin ")
    assert messages[3].text.endswith("end")


def test_many_large_results_of_one_response_are_shortened_together() -> None:
    """xagent 2072: each alone would fit."""
    calls = "abcdefgh"
    huge = [result(call, f"{call} begins " + "word " * 2000 + "and ends") for call in calls]
    stream = EventStream("s")
    stream.extend(log(S(), U(), batch("r1", *calls), huge))
    budget = Budget(1000, counter=TokenCounter(exact=False))
    messages = AgentContext(stream, ConversationWindowCondenser(), budget=budget).prepare()
    assert budget.fits(messages)
    assert shape(messages[2]) == ("assistant", "", *calls)
    for call, message in zip(calls, messages[3:], strict=True):
        assert message.tool_call_id == call
        assert message.text.startswith(f"{call} begins")
        assert message.text.endswith("and ends")


# ---------------------------------------------------------------------- overflows, by their words


def refusals(text: str) -> list[str]:
    """One for each paragraph."""
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


OVERFLOWS = refusals("""
    prompt is too long: 201234 tokens > 200000 maximum

    input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000

    This model's maximum context length is 128000 tokens. However, your messages resulted in
    130001 tokens. Please reduce the length of the messages.

    context_length_exceeded

    Error code: 400 - the context length is exceeded

    Your input exceeds the context window of this model. Please adjust your input.

    the request exceeds the available context size, try increasing it

    The input (40000 tokens) is longer than the model's context length (32768 tokens).

    Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum
    context length

    Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in
    290000 tokens.

    The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).

    Please reduce the length of the messages or completion.

    tokens in the prompt and in the completion: reduce the length of either one

    Request too large: it is longer than the context of the model

    Requested token count exceeds the model's maximum context length of 32768 tokens. You
    requested a total of 48192 tokens: 40000 tokens from the input messages and 8192 tokens
    for the completion.

    This model's maximum context length is 8192 tokens, however you requested 9500 tokens
    (9000 in your prompt; 500 for the completion).

    Given: 40000 `inputs` tokens and 512 `max_new_tokens`; `inputs` tokens +
    `max_new_tokens` must be <= 32768

    Input is too long for requested model.

    This model's maximum prompt length is 131072 but the request contains 537812 tokens.

    PROMPT IS TOO LONG
""")

HUGE_OUTPUTS = refusals("""
    This endpoint's maximum context length is 131072 tokens. However, you requested about
    138972 tokens (7900 of text input, 131072 in the output). Please reduce the length of
    either one.

    This model's maximum context length is 131072 tokens. However, you requested 138972
    tokens (7900 in the messages, 131072 in the completion). Please reduce the length of the
    messages or completion.

    'max_tokens' or 'max_completion_tokens' is too large: 131072. This model's maximum
    context length is 131072 tokens and your request has 7900 input tokens (131072 > 131072
    - 7900).

    This model's maximum context length is 131072 tokens. However, you requested 131072
    output tokens and your prompt contains at least 7900 input tokens, for a total of at
    least 138972 tokens. Please reduce the length of the input prompt or the number of
    requested output tokens.

    input length and `max_tokens` exceed context limit: 7900 + 131072 > 131072

    `inputs` tokens + `max_new_tokens` must be <= 131072. Given: 7900 `inputs` tokens and
    131072 `max_new_tokens`

    Requested token count exceeds the model's maximum context length of 131072 tokens. You
    requested a total of 138972 tokens: 7900 tokens from the input messages and 131072
    tokens for the completion.

    This model's maximum context length is 8192 tokens, however you requested 8692 tokens
    (500 in your prompt; 8192 for the completion).
""")

OTHERS = refusals("""
    Rate limit reached: 30000 tokens per minute (TPM). Limit 30000, requested 31000

    Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000. The
    input or output tokens must be reduced in order to run successfully.

    messages.3: tool_use ids were found without tool_result blocks immediately after

    Request exceeds the maximum allowed number of bytes. The maximum request size is 32 MB.

    The prompt is below the minimum of 1024 tokens for prompt caching

    Tokens per minute (TPM) exceeded: reduce the length of the messages, or try again in 20s

    Invalid API key

    max_tokens: 131072 > 8192, which is the maximum allowed number of output tokens
""")


@pytest.mark.parametrize("refusal", OVERFLOWS)
def test_an_overflow_is_known_by_each_providers_words(refusal: str) -> None:
    """litellm 28063, 10793, 21558, 15968, OpenHands 7023: most come as a plain bad request."""
    assert is_context_overflow(refusal)
    assert is_context_overflow(ValueError(f"litellm.BadRequestError: {refusal}"))


@pytest.mark.parametrize("refusal", HUGE_OUTPUTS)
def test_a_small_input_with_a_huge_output_is_no_overflow(refusal: str) -> None:
    """OpenHands 9937, 9677, SDK 1073: a tiny history was condensed in a loop."""
    stream = EventStream("s")
    stream.extend(log(S(), U()))
    context = AgentContext(stream, ConversationWindowCondenser())
    assert not context.overflowed(ValueError(refusal))
    assert len(stream) == 2


@pytest.mark.parametrize("refusal", ["", *OTHERS])
def test_other_refusals_are_no_overflow(refusal: str) -> None:
    """litellm 28063, the other direction: condensing would not help."""
    assert not is_context_overflow(refusal)


# ---------------------------------------------------------------------- summaries


def test_the_request_for_a_summary_fits_the_summarizers_window() -> None:
    """claude-code 26317, codex 4813, 11641, letta 3279: the rescue was itself too long.
    wuu 142: and a retry left out messages. Here 60 messages of 450 characters, a window of 6,000.
    """
    marks = [f"m{n:02}" for n in range(60)]
    texts = [mark + " abcd" * 89 + "." + mark for mark in marks]
    events = log(S(), U(), [M(text, label=mark) for text, mark in zip(texts, marks, strict=True)])
    assert len(texts[0]) == 452
    model = Model(window=6000)
    outcome = LLMSummarizingCondenser(model, 100, max_input_tokens=1500).condense(asked(events))
    gone = forgotten(outcome)
    assert gone[:30] == list(range(2, 32))
    assert isinstance(outcome, Condensation)
    assert outcome.action.summary == "in short"
    assert len(model.requests) > 1
    for place, text in enumerate(texts):
        holding = [request for request in model.requests if text in request]
        assert len(holding) == (place + 2 in gone), "each forgotten event, and no other, once"
    # the last call is given what all others said
    said = [request.count("\nin short\n") for request in model.requests]
    assert said == [0] * (len(said) - 1) + [len(said) - 1]


def test_many_tiny_events_fit_the_summarizers_window() -> None:
    """claude-code 26317: what is written around the events counts as well."""
    events = log(S(), U(), pairs(300))
    model = Model(window=6000)
    outcome = LLMSummarizingCondenser(model, 100, max_input_tokens=1500).condense(asked(events))
    assert isinstance(outcome, Condensation)
    assert str(outcome.action.summary).startswith("in short\n")


def test_long_summaries_of_parts_are_merged_in_calls_that_fit() -> None:
    """claude-code 26317, codex 11641: what one call says is part of a later call's input."""
    events = log(S(), U(), [M(f"step {n} " + "abcd " * 88, label=f"{n}") for n in range(60)])
    model = Model("done so far " * 200, window=6000)  # 2,400 characters
    outcome = LLMSummarizingCondenser(model, 100, max_input_tokens=1500).condense(asked(events))
    assert isinstance(outcome, Condensation)
    assert outcome.action.summary == ("done so far " * 200).strip()
    assert max(len(request) for request in model.requests) <= 6000


def test_a_summarizer_that_refuses_everything_leaves_the_history_unchanged() -> None:
    """claude-code 26317: neither work nor compaction was possible."""
    model = Model(OVERFLOW)
    which = lambda view, requested, budget, /: view.turns[2:4]  # noqa: E731
    condenser = RollingCondenser(always, which, LLMSummary(model))
    stream = EventStream("s")
    stream.extend(log(S(), U(), FIVE))
    context = AgentContext(stream, condenser)
    whole = [shape(message) for message in context.prepare()]
    assert len(whole) == 12  # "Continue." stands behind each of the five
    stream.append(CondensationRequestAction())
    with pytest.raises(CannotCondense):
        context.messages()
    assert ids(context.state.view) == list(range(7))
    assert not any(isinstance(event, CondensationAction) for event in stream)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " \n\t",
        Reply(text="It was beg", finish_reason="length"),
        Reply(text="I cannot", finish_reason="content_filter"),
        Reply(text="", finish_reason="stop", thinking={"reasoning_content": "Hm."}),
        RuntimeError("stream is not supported"),
    ],
)
def test_an_answer_that_is_no_summary_forgets_nothing(answer: str | Reply | Exception) -> None:
    """SDK 3901, 3902, opencode 37871: an empty compaction, and the agent read everything again."""
    model = Model(answer)
    view = View.from_events(log(S(), U(), FIVE))
    assert LLMSummarizingCondenser(model, 6).condense(view) is view
    assert len(model.requests) == 1
    # On request the fallback takes over, which needs no summary: the agent goes on.
    outcome = LLMSummarizingCondenser(model, 6).condense(asked(log(S(), U(), FIVE)))
    assert isinstance(outcome, Condensation)
    assert outcome.action.summary is None


def test_the_summarizer_has_settings_of_its_own() -> None:
    """SDK 3901, 3902: it inherited the agent's; it is asked without tools, with its own limit."""
    model = Model()
    condenser = LLMSummarizingCondenser(model, 6, max_output_tokens=700)
    assert isinstance(condenser.condense(View.from_events(log(S(), U(), FIVE))), Condensation)
    assert model.settings == [(None, 700)]


FACT = "The port is 48213."


def test_the_summarizer_reads_arguments_and_whole_results() -> None:
    """SDK 2744, picoclaw 829: it read a display form, cut at 500 characters, without arguments."""
    edit = FileEditAction(
        path="/w/app.py", command="str_replace", old_str="port = 1", new_str="port = load('cfg')"
    )
    long = "word " * 600 + FACT
    events = log(
        *(S(), U(), A("r1", "a", action=edit, thought="I change the port."), result("a", long)),
        *(M("word " * 300), M("Done."), U("next")),
    )
    model = Model()
    outcome = LLMSummarizingCondenser(model, 6).condense(View.from_events(events))
    assert {2, 3} <= set(forgotten(outcome))
    (request,) = model.requests
    for part in ("str_replace_editor", "/w/app.py", "port = 1", "port = load('cfg')", long):
        assert part in request
    assert "I change the port." in request


def test_a_result_too_long_for_one_request_is_given_in_parts_that_say_so() -> None:
    """SDK 2744: where something is cut, the request says it, and no part is lost."""
    long = "".join(f"<{n:04}>" for n in range(1500)) + FACT
    events = log(S(), U(), A("r1", "a"), result("a", long), M("word " * 300), U("next"))
    model = Model(window=6000)
    outcome = LLMSummarizingCondenser(model, 5, max_input_tokens=1500).condense(
        View.from_events(events)
    )
    assert {2, 3} <= set(forgotten(outcome))
    assert any("event 3, result of execute_bash (success), part 1 of" in r for r in model.requests)
    everything = "".join(model.requests)
    assert FACT in everything
    cut = [n for n in range(1500) if f"<{n:04}>" not in everything]
    assert len(cut) < 20  # a number on a border is in two parts


@pytest.mark.parametrize("keep_first", [None, 0, 1, 4])
def test_a_new_summary_is_made_from_the_whole_old_one_and_replaces_it(
    keep_first: int | None,
) -> None:
    """langmem 118: the second summary knew nothing of the first, and work was done again."""
    first = "Summary one. " + "word " * 400 + FACT
    model = Model(first, "Summary two.")
    steps = [M(f"step {n}. " * 100, label=str(n)) for n in range(24)]
    view = View.from_events(log(S(), U(), steps[:12]))
    view = carried_out(view, LLMSummarizingCondenser(model, 10).condense(view), 14)
    assert [e.content for e in view if isinstance(e, AgentCondensationObservation)] == [first]
    view = after(view, *log(S(), U(), M(), steps[:12], steps[12:])[15:])
    outcome = LLMSummarizingCondenser(model, 10, keep_first).condense(view)
    assert 14 in forgotten(outcome)  # what leaves the view is named
    view = carried_out(view, outcome, 27)
    assert first in model.requests[1]
    summaries = [e for e in view if isinstance(e, AgentCondensationObservation)]
    assert [(e.content, e.id) for e in summaries] == [("Summary two.", 27)]
    assert FACT not in str(said(view))


def test_a_summary_in_the_log_replaces_the_one_before() -> None:
    """langmem 118: also one that does not name it; without a summary the old one stays."""
    done = [S(), U(), M("one"), M("two"), M("three"), C([2], "one is done", 2)]  # 5
    assert ids(View.from_events(log(*done, C([3], label="C6")))) == [0, 1, 5, 4]
    events = log(*done, C([3], "one and two are done", 2, label="C6"))
    assert ids(View.from_events(events)) == [0, 1, 6, 4]
    assert said(events)[1] == ("user", TASK, "one and two are done")


def test_a_summary_that_is_its_own_input_does_not_grow() -> None:
    """opencrabs 1649: a summary not smaller than what it replaces is a failed one."""

    class Echo(Model):
        def completion(self, messages: Any, **settings: Any) -> Reply:
            return Reply(text=str(messages), finish_reason="stop")

    view = View.from_events(log(S(), U(), FIVE))
    assert LLMSummarizingCondenser(Echo(), 6).condense(view) is view


def test_what_is_not_summarized_is_kept() -> None:
    """letta 2601, 3270, opensre 4085: the recent part was removed without being summarized."""
    long = "out " * 200  # a summary has to be smaller than what it replaces
    first = [A("r1", "a"), result("a", long), A("r2", "b"), result("b", long)]
    events = log(S(), first, pair("r3", "c"), pair("r4", "d"))
    model = Model("a and b were done")

    def first_two(view: View, requested: bool, budget: Budget | None, /) -> list[Turn]:
        return view.turns[1:3]

    view = View.from_events(events)
    outcome = RollingCondenser(always, first_two, LLMSummary(model, ledger_chars=0)).condense(view)
    assert forgotten(outcome) == [1, 2, 3, 4]
    assert [n for n in range(9) if f" event {n}," in model.requests[0]] == [1, 2, 3, 4]
    view = carried_out(view, outcome, 9)
    assert ids(view) == [0, 9, 5, 6, 7, 8]
    assert said(view) == [
        SYSTEM,
        ("user", "a and b were done"),
        ("assistant", "", "c"),
        ("tool", "out of c", "c"),
        ("assistant", "", "d"),
        ("tool", "out of d", "d"),
    ]


# ---------------------------------------------------------------------- what is protected

LONG = " word" * 100
DIALOGUE = [item for n in range(1, 13) for item in (U(f"ask {n}{LONG}"), M(f"say {n}{LONG}"))]


def test_the_system_message_stays_whatever_keep_first_says() -> None:
    """SDK 5148: with keep_first=0 the request began with the summary."""
    view = View.from_events(log(S(), U(), DIALOGUE))
    outcome = LLMSummarizingCondenser(Model(), 10, 0).condense(view)
    # Half of ten stays: the system message, the summary, and the newest three; the newest user
    # message (24) is among them.
    assert forgotten(outcome) == list(range(1, 23))
    view = carried_out(view, outcome, 26)
    assert ids(view) == [0, 26, 23, 24, 25]
    assert said(view) == [
        SYSTEM,
        ("user", "in short"),
        ("assistant", f"say 11{LONG}"),
        ("user", f"ask 12{LONG}"),
        ("assistant", f"say 12{LONG}"),
        ("user", "Continue."),
    ]


@pytest.mark.parametrize("keep_first", [None, 0, 1, 2, 5])
def test_the_system_message_outlives_a_request(keep_first: int | None) -> None:
    """SDK 5148: the hard reset, with any keep_first, again and again."""
    condenser = LLMSummarizingCondenser(Model(), 10, keep_first)
    view = View.from_events(log(S(), U(), DIALOGUE))
    for n in range(26, 32, 2):
        view = after(view, CondensationRequestAction(id=n))
        try:
            view = carried_out(view, condenser.condense(view), n + 1)
        except CannotCondense:
            break
        assert view[0].id == 0
        assert said(view)[0] == SYSTEM
    assert len(view) < 26


def test_a_condensation_in_the_log_cannot_take_the_system_message() -> None:
    """SDK 5148: not even one that names it."""
    events = log(S(), U(), M("one"), C(range(4), "in short", 0))
    assert ids(View.from_events(events)) == [0, 3]
    assert said(events) == [SYSTEM, ("user", "in short")]


@pytest.mark.parametrize(
    ("beginning", "keep_first", "kept"),
    [
        ([S(), U(), *pair("r1", "a")], 3, [0, 1, 2, 3]),
        ([S(), U(), *RECALLED, *pair("r1", "a")], 5, [0, 1, 2, 3, 4, 5]),
        ([S(), U(), *RECALLED, *pair("r1", "a")], 3, [0, 1, 2, 3]),
        # An event of the user stands between the call and its result.
        ([S(), A("r1", "a"), U(), result("a", "A")], 3, [0, 1, 2, 3]),
        ([S(), A("r1", "a"), U(), result("a", "A")], 2, [0, 1, 3]),
    ],
)
def test_keep_first_counts_events_and_never_splits_a_turn(
    beginning: list[Item], keep_first: int, kept: list[int]
) -> None:
    """OpenHands 7300: keep_first=3 split a pair, once another kind of event stood at the start."""
    rest = [M(f"{n} is done. " * 60) for n in range(12)]
    events = log(*beginning, rest, U("newest"))
    outcome = LLMSummarizingCondenser(Model(), 10, keep_first).condense(View.from_events(events))
    gone = forgotten(outcome)
    assert [n for n in range(len(beginning)) if n not in gone] == kept
    assert len(events) - 1 not in gone


def test_the_newest_user_message_stays_and_the_huge_result_is_shortened() -> None:
    """langmem 111, 77: the newest question was summarized away after a large result."""
    stream = EventStream("s")
    question = "And why is the second test slow?"
    stream.extend(
        log(
            *(S(), U(), A("r1", "a"), result("a", "out " * 1000), U(question)),
            *(A("r2", "b"), result("b", "begin " + "word " * 4000 + "end")),
        )
    )
    budget = Budget(1500, counter=TokenCounter(exact=False))
    context = AgentContext(stream, LLMSummarizingCondenser(Model()), budget=budget)
    messages = context.prepare()
    assert budget.fits(messages)
    assert check_messages(messages) == []
    assert question in [text for m in messages if m.role == "user" for text in shape(m)[1:]]
    assert messages[-2].tool_calls[0].id == messages[-1].tool_call_id == "b"
    assert messages[-1].text.startswith("begin ")
    assert messages[-1].text.endswith("end")


@pytest.mark.parametrize("name", _forgetting())
def test_the_newest_user_message_survives_every_condenser(name: str) -> None:
    """langmem 111: asked again and again, until nothing can be forgotten."""
    events = log(S(), U(), FIVE, U("the newest"), pair("r1", "a"), M("word " * 300))
    view = View.from_events(events)
    for n in range(len(events), len(events) + 20, 2):
        view = after(view, CondensationRequestAction(id=n))
        try:
            view = carried_out(view, _forgetting()[name].condense(view), n + 1)
        except CannotCondense:
            break
        assert "the newest" in [text for m in projected(view) for text in shape(m)[1:]]
    else:
        pytest.fail("each of ten requests was answered")


@pytest.mark.parametrize("initial", [None, MessageAction("delete X", source=USER)])
def test_what_was_forgotten_is_not_put_back(initial: MessageAction | None) -> None:
    """OpenHands 11910: the first instruction, long finished, stood again beside the summary."""
    turns = [i for n in range(1, 11) for i in (M(f"say {n}{LONG}"), U(f"ask {n}{LONG}"))]
    view = View.from_events(log(S(), U("delete X"), turns))
    # Half of ten stays: system message, summary, and the newest three.
    outcome = LLMSummarizingCondenser(Model("X was deleted"), 10, 1).condense(view)
    assert forgotten(outcome) == list(range(1, 19))
    view = carried_out(view, outcome, 22)
    messages = ConversationMemory().process_events(view, initial)
    assert [shape(message) for message in messages] == [
        SYSTEM,
        ("user", "X was deleted", f"ask 9{LONG}"),
        ("assistant", f"say 10{LONG}"),
        ("user", f"ask 10{LONG}"),
    ]
    assert "delete X" not in str(messages)


def test_a_summary_stands_for_the_forgotten_task_where_no_user_message_is_left() -> None:
    """OpenHands 11910: the start message was restored because none was there."""
    events = log(S(), U("delete X"), C([1], "X was deleted", 1), M("Done."))
    messages = ConversationMemory().process_events(events, MessageAction("delete X", source=USER))
    assert [shape(message) for message in messages] == [
        SYSTEM,
        ("user", "X was deleted"),
        ("assistant", "Done."),
        ("user", "Continue."),
    ]


# ---------------------------------------------------------------------- masking


def test_a_masked_page_keeps_its_call_and_says_what_was_left_out() -> None:
    """OpenHands 8282: pages became a stub, and the agent opened the same ones again and again."""
    pages = [f"page {n} " * 100 for n in range(3)]
    urls = [f"http://localhost/{n}" for n in range(3)]
    browsing = [
        item
        for n in range(3)
        for item in (
            A(f"r{n}", f"c{n}", action=BrowseURLAction(url=urls[n]), arguments={"url": urls[n]}),
            O(f"c{n}", observation=BrowserOutputObservation(content=pages[n], url=urls[n])),
        )
    ]
    view = View.from_events(log(S(), U(), browsing))
    whole = projected(view)
    masked = BrowserOutputCondenser(1).condense(view)
    assert isinstance(masked, View)
    assert ids(masked) == ids(view)
    messages = projected(masked)
    assert [(m.role, m.tool_call_id, m.tool_calls) for m in messages] == [
        (m.role, m.tool_call_id, m.tool_calls) for m in whole
    ]
    for n in (0, 1):
        stub = messages[3 + 2 * n].text
        assert "page" in stub
        assert pages[n].strip() not in stub
        assert str(len(pages[n])) in stub, "how large it was"
        assert urls[n] in stub, "what it was"
        assert "again" in stub, "how to get it back"
    assert messages[7] == whole[7]
    assert pages[2].strip() in messages[7].text
    for place in (2, 3, 4):  # a stub is what it replaces, but for its content
        if isinstance(stub_event := masked[place], AgentCondensationObservation):
            replaced = view[place]
            assert stub_event.id == replaced.id
            assert stub_event.cause == replaced.cause
            assert stub_event.tool_call_metadata == replaced.tool_call_metadata


def test_a_masked_page_loses_its_screenshot_and_says_so() -> None:
    """OpenHands 8282: a picture is content, too."""
    text = "hello " * 100
    page = BrowserOutputObservation(content=text, url="http://localhost/", screenshot=PNG)
    browse = BrowseURLAction(url="http://localhost/")
    seen = [A("r1", "a", action=browse), O("a", observation=page)]
    newest = [A("r2", "b", action=browse), O("b", observation=page)]
    masked = BrowserOutputCondenser(1).condense(View.from_events(log(S(), U(), seen, newest)))
    assert isinstance(masked, View)
    messages = ConversationMemory().process_events(masked, vision_is_active=True)
    assert [m.role for m in messages[2:]] == ["assistant", "tool", "assistant", "tool", "user"]
    assert "hello" not in messages[3].text
    assert "screenshot" in messages[3].text
    assert [type(part) for part in messages[6].content] == [ImageContent]
