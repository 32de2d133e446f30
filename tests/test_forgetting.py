"""Forgetting without a language model: what is left, and that it stays left alone."""

from __future__ import annotations

from typing import Any

import pytest

from eventfold.benchmarks import replay
from eventfold.condensers import (
    AmortizedForgettingCondenser,
    CannotCondense,
    Condensation,
    Condenser,
    CondenserPipeline,
    DigestCondenser,
    InvalidConfig,
    MessageLimitCondenser,
    NoOpCondenser,
    RecordedCondenser,
    RoundsCondenser,
    TokenLimitCondenser,
    condenser_from_config,
)
from eventfold.events import (
    AgentCondensationObservation,
    BrowserOutputObservation,
    CondensationAction,
    Event,
    InvalidArgument,
)
from eventfold.memory import Budget, ConversationMemory, TokenCounter, View
from tests.logs import A, C, Item, M, O, R, S, U, log
from tests.samples import PNG

COUNTER = TokenCounter(exact=False)
LONG = "some words of a long result " * 40


def pairs(count: int, first: int = 0, text: str = "ok") -> list[Item]:
    """So many calls with their results: r0 asks for c0 ..."""
    items = []
    for n in range(first, first + count):
        items += [A(f"r{n}", f"c{n}"), O(f"c{n}", text)]
    return items


def view_of(*items: Any) -> View:
    return View.from_events(log(*items))


def after(view: View, condenser: Condenser, budget: Budget | None = None) -> View:
    """The view once more, with what the condenser proposes."""
    result = condenser.condense(view, budget)
    assert isinstance(result, Condensation), condenser.metadata
    smaller = view.copy()
    smaller.append(result.action.replace(id=1000 + len(view)))
    return smaller


def ids(view: View) -> list[int]:
    return [event.id for event in view]


def tokens(view: View, vision: bool = True) -> int:
    return COUNTER.count(ConversationMemory().process_events(view, vision_is_active=vision))


# ------------------------------------------------------------------ events


def test_amortized_forgets_down_to_half_of_its_size() -> None:
    condenser = AmortizedForgettingCondenser(10)
    full = view_of(S(), U(), pairs(4))
    assert len(full) == 10
    assert condenser.condense(full) is full  # it meets its limit exactly
    # 11 events; without two pairs 7, without three 5.
    assert ids(after(view_of(S(), U(), pairs(4), M("Done.")), condenser)) == [0, 1, 8, 9, 10]


def test_amortized_with_a_number_keeps_so_many_first_events_and_not_the_task() -> None:
    view = view_of(S(), U("task"), pairs(4), U("more"))
    # The task goes, then three pairs: 6 would be left without the third.
    assert ids(after(view, AmortizedForgettingCondenser(10, 0))) == [0, 8, 9, 10]
    # The third event is a call, its result stays with it; the newest response is not forgotten.
    assert ids(after(view, AmortizedForgettingCondenser(10, 3))) == [0, 1, 2, 3, 8, 9, 10]


def test_amortized_says_what_it_did() -> None:
    condenser = AmortizedForgettingCondenser(10)
    after(view_of(S(), U(), pairs(4), M("Done.")), condenser)
    assert condenser.metadata["reason"] == "11 events are more than 10"
    assert (condenser.metadata["events_before"], condenser.metadata["events_after"]) == (11, 5)


# ------------------------------------------------------------------ rounds


def test_rounds_keeps_the_first_and_the_newest() -> None:
    #            0    1        2         3        4         5        6         7        8
    view = view_of(S(), U("u1"), M("a1"), U("u2"), M("a2"), U("u3"), M("a3"), U("u4"), M("a4"))
    full = view_of(S(), U("u1"), M("a1"), U("u2"), M("a2"))
    assert RoundsCondenser(2).condense(full) is full
    assert ids(after(view, RoundsCondenser(2, 1))) == [0, 1, 2, 5, 6, 7, 8]
    # Without first rounds the task stays all the same, but not what was said to it.
    assert ids(after(view, RoundsCondenser(2))) == [0, 1, 5, 6, 7, 8]
    assert ids(after(view, RoundsCondenser(1))) == [0, 1, 7, 8]
    assert ids(after(view, RoundsCondenser(3, stride=3))) == [0, 1, 7, 8]


def test_a_round_is_all_from_a_user_message_to_the_next() -> None:
    view = view_of(S(), M("Hello."), U("u1"), pairs(2), U("u2"), pairs(1, 2), U("u3"))
    assert ids(after(view, RoundsCondenser(2))) == [0, 2, 7, 8, 9, 10]
    assert ids(after(view, RoundsCondenser(1))) == [0, 2, 10]


def test_rounds_with_more_first_rounds_than_there_are_does_nothing() -> None:
    view = view_of(S(), U("u1"), M(), U("u2"), M())
    assert RoundsCondenser(1, 9).condense(view) is view


def test_on_request_the_older_half_of_a_single_round_goes() -> None:
    view = view_of(S(), U(), pairs(4), R())
    assert ids(after(view, RoundsCondenser(5))) == [0, 1, 6, 7, 8, 9]


# ------------------------------------------------------------------ messages


def test_message_limit_counts_messages_and_halves_them() -> None:
    # system, user, 4 x (call, result): 10 messages
    full = view_of(S(), U(), pairs(4))
    assert len(ConversationMemory().process_events(full)) == 10
    assert MessageLimitCondenser(10).condense(full) is full
    # 4 messages are the goal, and without three pairs it is met: the newest response stays.
    assert ids(after(full, MessageLimitCondenser(9))) == [0, 1, 8, 9]


def test_message_limit_counts_what_is_sent_and_not_events() -> None:
    # Two user messages in a row are sent as one.
    view = view_of(S(), U("a"), U("b"), U("c"), M())
    assert len(ConversationMemory().process_events(view)) == 4  # it ends in "Continue."
    assert MessageLimitCondenser(4).condense(view) is view


# ------------------------------------------------------------------ tokens


def test_token_limit_forgets_down_to_a_fraction() -> None:
    view = view_of(S(), U(), pairs(6, text=LONG))
    size = tokens(view)
    assert TokenLimitCondenser(size).condense(view) is view
    smaller = after(view, TokenLimitCondenser(size - 1))
    assert tokens(smaller) <= (size - 1) // 2 < tokens(view_of(S(), U(), pairs(3, text=LONG)))
    assert ids(smaller) == [0, 1, 10, 11, 12, 13]
    little = after(view, TokenLimitCondenser(size - 1, target_fraction=0.9))
    assert ids(little) == [0, 1, *range(4, 14)]


def test_images_count() -> None:
    shot = BrowserOutputObservation(content="page", url="http://x/", screenshot=PNG)
    items = [x for n in range(4) for x in (A(f"r{n}", f"c{n}"), O(f"c{n}", observation=shot))]
    view = view_of(S(), U(), items)
    limit = tokens(view, vision=False) + 2500  # the four images take 1,120 each
    assert tokens(view) > limit
    assert isinstance(TokenLimitCondenser(limit).condense(view), Condensation)
    assert TokenLimitCondenser(limit, vision=False).condense(view) is view


def test_the_budgets_counter_counts() -> None:
    view = view_of(S(), U(), pairs(6, text=LONG))
    condenser = TokenLimitCondenser(tokens(view))
    assert condenser.condense(view) is view
    high = Budget(10**6, counter=TokenCounter(exact=False, calibration=2.0))
    assert isinstance(condenser.condense(view, high), Condensation)


def test_the_newest_user_message_and_what_was_just_done_stay_beside_a_huge_result() -> None:
    view = view_of(S(), U("u1"), pairs(1), U("u2"), A("r9", "huge"), O("huge", LONG * 20))
    condenser = TokenLimitCondenser(500)
    assert condenser.condense(view) is view  # what must stay is above the limit: no use
    assert "not_done" in condenser.metadata


# ------------------------------------------------------------------ what all share

SOFT: dict[str, Condenser] = {
    "amortized": AmortizedForgettingCondenser(20),
    "digest": DigestCondenser(20, 1000),
    "message limit": MessageLimitCondenser(20),
    "rounds": RoundsCondenser(4, 1),
    "token limit": TokenLimitCondenser(3000),
}
NONE: dict[str, Condenser] = {
    "amortized": AmortizedForgettingCondenser(1),
    "digest": DigestCondenser(1),
    "message limit": MessageLimitCondenser(1),
    "rounds": RoundsCondenser(1),
    "token limit": TokenLimitCondenser(1),
}


@pytest.mark.parametrize("name", SOFT)
def test_a_condensation_leaves_room(name: str) -> None:
    condenser = SOFT[name]
    view = view_of(S(), *([U(f"u{n}"), *pairs(2, 2 * n, LONG)] for n in range(8)))
    smaller = after(view, condenser)
    assert condenser.condense(smaller) is smaller
    grown = smaller.copy()
    for event in log(S(), pairs(1, 90))[1:]:  # one step more
        grown.append(event.replace(id=500 + event.id, cause=event.cause and 500 + event.cause))
    assert condenser.condense(grown) is grown


@pytest.mark.parametrize("name", NONE)
def test_a_limit_below_what_must_stay_acts_on_request_only(name: str) -> None:
    condenser = NONE[name]
    items: list[Any] = [S(), U(), pairs(5, text=LONG)]
    view = view_of(*items)
    assert condenser.condense(view) is view
    asked = view_of(*items, R())
    assert len(after(asked, condenser)) < len(view)


@pytest.mark.parametrize("name", NONE)
def test_a_request_that_nothing_can_be_forgotten_for_is_refused(name: str) -> None:
    with pytest.raises(CannotCondense, match="Irreducible"):
        NONE[name].condense(view_of(S(), U(), R()))
    with pytest.raises(CannotCondense):
        NONE[name].condense(view_of(R()))


@pytest.mark.parametrize("name", SOFT)
def test_a_request_is_sized_from_what_is_there(name: str) -> None:
    view = view_of(S(), U(), pairs(3, text=LONG), R())  # far below every limit
    smaller = after(view, SOFT[name])
    assert not smaller.unhandled_condensation_request
    assert ids(smaller)[:2] == [0, 1]
    assert tokens(smaller) < tokens(view)


@pytest.mark.parametrize("name", SOFT)
def test_with_a_budget_a_request_fits_half_of_it(name: str) -> None:
    view = view_of(S(), U(), pairs(20, text=LONG), R())
    budget = Budget(4000, counter=COUNTER)
    smaller = after(view, SOFT[name], budget)
    texts = [e.content for e in smaller if isinstance(e, AgentCondensationObservation)]
    summary = COUNTER.count({"role": "user", "content": text} for text in texts)
    assert tokens(smaller) - summary <= 2000
    assert tokens(smaller) <= 3000


@pytest.mark.parametrize("name", SOFT)
@pytest.mark.parametrize("items", [[], [S()], [U()], [S(), U()]])
def test_a_view_shorter_than_its_head_is_left_alone(name: str, items: list[Item]) -> None:
    view = view_of(*items)
    assert SOFT[name].condense(view) is view


def test_condensing_stops_where_what_must_stay_fills_the_limit() -> None:
    condenser = AmortizedForgettingCondenser(8, 4)
    view = View()
    count = 0
    for event in log(S(), [U(f"u{n}") for n in range(3)], pairs(30)):
        view.append(event)
        result = condenser.condense(view)
        if isinstance(result, Condensation):
            count += 1
            view.append(result.action.replace(id=1000 + count))
    assert len(view) <= 8
    assert count <= 30


# ------------------------------------------------------------------ options


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"type": "amortized", "max_size": 0}, "max_size"),
        ({"type": "amortized", "max_size": 10, "keep_first": 6}, "between 0 and half of max_size"),
        ({"type": "rounds"}, "max_rounds"),
        ({"type": "rounds", "max_rounds": 0}, "max_rounds"),
        ({"type": "rounds", "max_rounds": 2, "stride": 3}, "stride"),
        ({"type": "message_limit", "max_messages": 0}, "max_messages"),
        ({"type": "token_limit", "max_tokens": 0}, "max_tokens"),
        ({"type": "token_limit", "max_tokens": 9, "target_fraction": 1}, "target_fraction"),
        ({"type": "digest", "max_chars": 499}, "max_chars"),
        ({"type": "digest", "max_events": 4, "keep_first": 3}, "between 0 and half of max_events"),
        ({"type": "recorded", "x": 1}, "unknown key 'x'"),
    ],
)
def test_a_wrong_configuration_is_named(config: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        condenser_from_config(config)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: AmortizedForgettingCondenser(0), "max_size is a number of events"),
        (lambda: AmortizedForgettingCondenser(3, 2), "keep_first"),
        (lambda: AmortizedForgettingCondenser(minimum_progress=2), "minimum_progress"),
        (lambda: RoundsCondenser(0), "max_rounds is a number of rounds"),
        (lambda: RoundsCondenser(1, -1), "keep_first_rounds"),
        (lambda: RoundsCondenser(2, stride=0), "stride"),
        (lambda: MessageLimitCondenser(0), "max_messages is a number of messages"),
        (lambda: TokenLimitCondenser(0), "max_tokens is a number of tokens"),
        (lambda: TokenLimitCondenser(9, target_fraction=0), "target_fraction"),
        (lambda: DigestCondenser(0), "max_events"),
        (lambda: DigestCondenser(max_chars=10), "max_chars"),
    ],
)
def test_a_wrong_argument_is_named(build: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        build()


def test_configurations_build_what_they_say() -> None:
    amortized = condenser_from_config({"type": "amortized", "max_size": 30, "keep_first": 3})
    assert isinstance(amortized, AmortizedForgettingCondenser)
    assert (amortized.max_size, amortized.keep_first) == (30, 3)
    rounds = condenser_from_config({"type": "rounds", "max_rounds": 5, "keep_first_rounds": 1})
    assert isinstance(rounds, RoundsCondenser)
    assert (rounds.max_rounds, rounds.keep_first_rounds, rounds.stride) == (5, 1, 1)
    messages = condenser_from_config({"type": "message_limit", "max_messages": 40})
    assert isinstance(messages, MessageLimitCondenser)
    assert messages.max_messages == 40
    limit = condenser_from_config({"type": "token_limit", "max_tokens": 9000})
    assert isinstance(limit, TokenLimitCondenser)
    assert limit.max_tokens == 9000
    digest = condenser_from_config({"type": "digest", "max_events": 60, "max_chars": 3000})
    assert isinstance(digest, DigestCondenser)
    assert (digest.max_events, digest.max_chars, digest.keep_first) == (60, 3000, None)
    assert isinstance(condenser_from_config("recorded"), RecordedCondenser)


# ------------------------------------------------------------------ recorded

RECORDED = [
    S(),
    U("task"),
    *pairs(2),  # 2 to 5
    R(),
    C(range(2, 4), "two are gone"),  # 7
    *pairs(1, 2),  # 8, 9
    R(label="nobody answers"),
    *pairs(1, 3),  # 11, 12
    C([7, 8, 9]),
    M("Done."),
]


def shown(events: list[Event], condenser: Condenser) -> list[list[str]]:
    steps = list(replay(events, condenser))
    return [[getattr(e, "content", "") or getattr(e, "command", "") for e in s.view] for s in steps]


def test_a_replay_with_recorded_shows_what_was_shown() -> None:
    events = log(*RECORDED)
    system = "You are a coding agent."
    kept = ["run c1", "ok"]
    want = [
        [system, "task"],
        [system, "task", "run c0", "ok"],
        [system, "two are gone", "task", *kept],
        [system, "two are gone", "task", *kept, "run c2", "ok"],
        [system, "task", *kept, "run c3", "ok"],
    ]
    assert shown(events, RecordedCondenser()) == want
    with pytest.warns(UserWarning, match="can answer"):
        both = CondenserPipeline(NoOpCondenser(), RecordedCondenser())
    assert shown(events, both) == want
    # Also where the ids are not those of the replay's stream.
    apart = [
        e.replace(
            id=10 * e.id,
            cause=None if e.cause is None else 10 * e.cause,
            **(
                {
                    "forgotten_event_ids": [10 * n for n in e.forgotten],
                    "forgotten_events_start_id": None,
                    "forgotten_events_end_id": None,
                }
                if isinstance(e, CondensationAction)
                else {}
            ),
        )
        for e in events
    ]
    assert shown(apart, RecordedCondenser()) == want


def test_a_replay_tells_what_was_recorded_since_the_step_before() -> None:
    steps = list(replay(log(*RECORDED), RecordedCondenser()))
    assert [[c.summary for c in step.condensations] for step in steps] == [
        [],
        [],
        ["two are gone"],
        [],
        [None],
    ]


def test_a_replay_with_another_condenser_leaves_recorded_condensations_out() -> None:
    assert shown(log(*RECORDED), NoOpCondenser())[-1] == [
        "You are a coding agent.",
        "task",
        *(text for n in range(4) for text in (f"run c{n}", "ok")),
    ]
