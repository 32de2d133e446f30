"""Condensing when it pays: the account, what is done about it, and what a run costs."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eventfold.benchmarks import replay, run_cost
from eventfold.condensers import (
    CannotCondense,
    Condensation,
    CostAwareCondenser,
    NoOpCondenser,
    Prices,
    condenser_from_config,
)
from eventfold.condensers.account import Account, Terms
from eventfold.condensers.config import InvalidConfig
from eventfold.condensers.llm_summary import LLMSummary
from eventfold.condensers.tool_uses import Use, Weight
from eventfold.events import CondensationRequestAction, Event, InvalidArgument, Run, read_runs
from eventfold.memory import TokenCounter, Turn, View
from eventfold.memory.turns import TurnKind
from tests.logs import event_logs
from tests.models import MadeUpModel
from tests.notation import A, M, O, S, U, log, pairs, view_of

DEAR = Prices(input=9)
EVENT = A("r", "c")


# ---------------------------------------------------------------------- the account

PRICES = Prices(input=10, output=50, cache_read=1, cache_write=12)


def terms(*options: str, steps: int | None = 1000, free: bool = False) -> Terms:
    return Terms(PRICES, None if free else PRICES, 1000, steps, frozenset(options))


def turn(kind: TurnKind, serial: int) -> Turn:
    (event,) = log(U("x"))
    return Turn(kind, (event,), (serial,), (-1,))


def grown(account: Account, responses: int, weight: Weight | None = None) -> Account:
    """The account before response ``responses + 1``: system and user of 50 tokens each, then
    responses of 1,000 tokens each."""
    account.add(turn(TurnKind.SYSTEM, 0), Weight(50, 0, ()))
    account.add(turn(TurnKind.USER, 1), Weight(50, 0, ()))
    for number in range(responses):
        account.add(turn(TurnKind.RESPONSE, number + 2), weight or Weight(1000, 0, ()))
    return account.settled()


def test_a_summary_is_due_when_carrying_on_has_cost_as_much() -> None:
    """Before response k, k - 2 of 1,000 tokens are old, and a summary of 1,000 saves
    1,000 * (k - 3) of them: together 1,000 * n (n + 1) / 2 with n = k - 3. At once it costs 1,000 *
    50 for the answer, 300 * 10 for the instructions, and 11 for each of the 2,000 tokens behind it:
    75,000. So n is 12: 78,000."""
    assert grown(Account(terms("summarize"), None), 13).choice is None
    account = grown(Account(terms("summarize"), None), 14)
    choice = account.choice
    assert choice is not None
    assert (choice.option, choice.saved, choice.rent) == ("summarize", 12_000, 78_000)
    assert (choice.lost, choice.own) == (22_000, 53_000 + 13_000 * 10)
    assert choice.steps == 1000 - 15
    assert choice.worth == 12_000 * 985 - 22_000 - 183_000
    assert [t.serial for t in account.old] == list(range(15))  # system, user, 13 responses
    figures = choice.figures()
    assert (figures["rent"], figures["own"], figures["expected_steps"]) == (0.078, 0.183, 985)


def test_it_is_not_paid_for_if_the_run_is_likely_to_end_before_it_pays() -> None:
    """After 14 steps (15 events in the log), 7 are expected to come: they would save 84,000."""
    assert grown(Account(terms("summarize", steps=None), None), 14).choice is None
    assert grown(Account(terms("summarize", steps=15 + 18), None), 14).choice is not None
    assert grown(Account(terms("summarize", steps=15 + 17), None), 14).choice is None  # 204,000


def test_the_summary_that_stands_there_says_how_long_the_next_one_will_be() -> None:
    """It is given to the summarizer, too, and its place is taken."""
    account = Account(terms("summarize"), 400)
    account.add(turn(TurnKind.SUMMARY, 0), Weight(400, 0, ()))
    for number in range(8):
        account.add(turn(TurnKind.RESPONSE, number + 1), Weight(1000, 0, ()))
    # Old: 7 responses. Rent: 1,000 * (1 + ... + 7). At once: 400 * 50 + 700 * 10 + 1,400 * 11.
    assert account.settled().choice is None
    account.add(turn(TurnKind.RESPONSE, 9), Weight(1000, 0, ()))
    assert account.settled().choice is None  # 36,000 of 42,400
    account.add(turn(TurnKind.RESPONSE, 10), Weight(1000, 0, ()))
    choice = account.settled().choice
    assert choice is not None
    assert (choice.rent, choice.saved) == (45_000, 9_000)
    assert choice.own == 27_000 + 90_000


def used(result: int, given: int = 0) -> Weight:
    use = Use(EVENT_ACTION, EVENT_RESULT, result, "{}" if given else None, given)
    return Weight(1000, 0, (use,))


EVENT_ACTION, EVENT_RESULT = log(A("r", "c"), O("c"))


def test_what_is_masked_stays_masked_and_the_border_moves_in_jumps() -> None:
    """Each result frees 500 of a response's 1,000 tokens. Old before response k: k - 2. Rent:
    500 * n (n + 1) / 2; at once: 11 for each token behind the first of them that stays, which
    are 500 * n + 1,000."""
    borders = [
        grown(Account(terms("mask"), None), count, used(500)).cleared.results for count in range(40)
    ]
    # n (n + 1) / 2 * 500 >= 11 * (500 n + 1,000), that is n (n + 1) >= 22 n + 44, first at n = 23
    assert borders[:24] == [0] * 24
    assert borders[24:28] == [23] * 4
    jumps = [place for place in range(1, 40) if borders[place] != borders[place - 1]]
    assert jumps[0] == 24
    assert all(later - sooner > 1 for sooner, later in pairwise(jumps))
    assert sorted(borders) == borders


def test_the_gentlest_option_is_taken_that_brings_about_as_much_as_the_best() -> None:
    """Inputs of 50 tokens bring an eleventh of what can be saved, those of 400 four ninths. With n
    old responses, 275 n (n + 1) >= 11 (450 n + 1,000) holds first for n = 20."""
    little = grown(Account(terms("mask", "clear"), None), 21, used(500, 50))
    assert (little.cleared.results, little.cleared.inputs) == (20, 0)
    much = next(
        account
        for count in range(40)
        if (
            account := grown(Account(terms("mask", "clear"), None), count, used(500, 400))
        ).cleared.results
    )
    assert much.cleared.results == much.cleared.inputs > 0


def test_a_free_summary_needs_no_rent_but_for_the_cache() -> None:
    account = grown(Account(terms("summarize", free=True), None), 9)
    # Rent of n = 7: 28,000; at once 22,000. With n = 6 it is 21,000.
    assert account.choice is not None
    assert account.choice.own == 0
    assert grown(Account(terms("summarize", free=True), None), 8).choice is None


def test_what_is_masked_before_the_inputs_is_no_longer_sent_before_them() -> None:
    """After 21 of 23 responses are masked (of 500 tokens each), the inputs of the first are behind
    100 tokens, those of the newest old one behind 100 + 20 * 500 + 1,000 and so on: what a clearing
    breaks is all that is sent behind the first inputs that are still there."""
    account = Account(terms("mask", "clear"), None)
    account.add(turn(TurnKind.SYSTEM, 0), Weight(100, 0, ()))
    for number in range(24):
        given = 50 if number >= 10 else 0
        account.add(turn(TurnKind.RESPONSE, number + 1), used(500, given))
    settled = account.settled()
    assert settled.cleared.results > 10
    assert settled.cleared.inputs == 0
    masked = settled.cleared.results
    # Sent before the inputs of response 10: the system message, and 10 responses, masked.
    assert settled._pending["inputs"].before == 100 + 10 * 500
    assert settled._tokens == 100 + 24 * 1000 - masked * 500


def test_a_copy_goes_on_apart() -> None:
    account = grown(Account(terms("mask"), None), 20, used(500))
    copy = account.copy()
    for number in range(10):
        copy.add(turn(TurnKind.RESPONSE, 30 + number), used(500))
    assert account.cleared.results == 0
    assert copy.cleared.results > 0
    for number in range(10):
        account.add(turn(TurnKind.RESPONSE, 30 + number), used(500))
    assert account.cleared.results == copy.cleared.results


# ---------------------------------------------------------------------- the condenser


def dear(**more: Any) -> CostAwareCondenser:
    """One to which tokens are so dear, and runs so long, that it acts in short histories."""
    settings: dict[str, Any] = {"keep_recent": 100, "expected_steps": 1000, "minimum_progress": 0}
    return CostAwareCondenser(**{"prices": DEAR, **settings, **more})


def test_a_condensation_tells_its_figures() -> None:
    view = view_of(S(), U(), pairs(30, "word " * 100))
    outcome = dear(options=["summarize"]).condense(view)
    assert isinstance(outcome, Condensation)
    details = outcome.action.details
    assert details is not None
    account = details["account"]
    assert account["option"] == "summarize"
    assert account["tokens_saved"] > 0
    assert account["worth"] > 0
    assert f"{account['expected_steps']} steps" in details["reason"]
    newest = {event.id for turn in view.turns[-1:] for event in turn.events}
    assert not newest & set(outcome.action.forgotten)


def test_results_are_masked_and_the_newest_stay() -> None:
    view = view_of(S(), U(), pairs(30, "word " * 100))
    condenser = dear(options=["mask"])
    shown = condenser.condense(view)
    assert isinstance(shown, View)
    assert len(shown) == len(view)
    masked = [event.id for event, was in zip(shown, view, strict=True) if event is not was]
    assert masked[:2] == [3, 5]
    assert masked[-1] < view[-1].id
    assert condenser.metadata["masked"] == len(masked)


def test_turns_that_stay_in_any_case_bring_nothing() -> None:
    """A long head is not paid for again and again: each summary saves what it is said to save."""
    view, condenser = View(), dear(keep_first=30, options=["summarize"], keep_recent=200)
    claimed: list[tuple[int, int]] = []
    for number, event in enumerate(log(S(), U(), pairs(15, "word " * 1000), pairs(100, "few", 15))):
        view.append(event)
        outcome = condenser.condense(view.copy())
        if isinstance(outcome, Condensation):
            details = outcome.action.details or {}
            real = details["tokens_before"] - details["tokens_after"]
            claimed.append((details["account"]["tokens_saved"], real))
            view.append(outcome.action.replace(id=10_000 + number))
    assert 0 < len(claimed) < 20
    assert all(said < 2 * real for said, real in claimed)


def test_a_history_of_user_messages_is_condensed_too() -> None:
    """As agents have it that get their results as messages of the user."""
    events = log(S(), U("the task"), [i for n in range(60) for i in (M(f"{n}"), U("word " * 300))])
    config = {"type": "cost_aware", "prices": {"input": 3}}
    assert run_cost(events, config).condensations > 0
    assert run_cost(events, config).longest_prompt < run_cost(events, "noop").longest_prompt / 2


def test_what_is_let_go_is_as_much_as_what_is_left_alone() -> None:
    """Where it costs nothing, with a digest and without a cache, it would be let go in crumbs."""
    events = log(S(), U(), pairs(60, "word " * 100))
    config = {"type": "cost_aware", "prices": {"input": 3}, "keep_recent": 1_000}
    cost = run_cost(events, {**config, "options": ["summarize"]})
    assert 0 < cost.condensations < 10


def test_what_costs_little_is_carried_on() -> None:
    view = view_of(S(), U(), pairs(30, "word " * 100))
    assert CostAwareCondenser().condense(view) is view


def test_a_request_is_answered_at_any_price() -> None:
    view = view_of(S(), U(), pairs(30, "word " * 100))
    view.append(CondensationRequestAction(id=len(view)))
    outcome = CostAwareCondenser().condense(view)
    assert isinstance(outcome, Condensation)
    assert outcome.action.details is not None
    assert "account" not in outcome.action.details


def test_where_the_summarizer_fails_nothing_is_forgotten_and_something_gentler_is_done() -> None:
    view = View()
    condenser = dear(
        stand_in=LLMSummary(MadeUpModel("")), summary_prices=Prices(input=0.01), keep_recent=300
    )
    asked = 0
    for event in log(S(), U(), pairs(60, "word " * 100)):
        view.append(event)
        outcome = condenser.condense(view)
        assert isinstance(outcome, View)
        asked += "failed" in condenser.metadata.get("not_done", "")
    assert len(view) == 122
    assert condenser.metadata["masked"] > 0


@given(event_logs(), st.sampled_from(["mask", "clear", "summarize", "all"]), st.integers(0, 60))
def test_going_on_from_the_view_before_decides_as_beginning_anew(
    log: list[Event], what: str, keep: int
) -> None:
    options = ["mask", "clear", "summarize"] if what == "all" else [what]
    condenser = dear(options=options, keep_recent=keep)
    view = View()
    for number, event in enumerate(log):
        view.append(event)
        snapshot = view.copy()
        outcome = _outcome(condenser, snapshot)
        fresh = _outcome(dear(options=options, keep_recent=keep), snapshot)
        assert _told(outcome) == _told(fresh)
        if isinstance(outcome, Condensation) and number % 3:
            view.append(outcome.action.replace(id=10_000 + number))


def _outcome(condenser: CostAwareCondenser, view: View) -> View | Condensation | str:
    try:
        return condenser.condense(view)
    except CannotCondense as refusal:
        return str(refusal)


def _told(outcome: View | Condensation | str) -> object:
    return outcome.events if isinstance(outcome, View) else outcome


@given(event_logs(condensations=False), st.integers(0, 60))
def test_what_was_masked_when_the_llm_was_asked_stays_masked(log: list[Event], keep: int) -> None:
    condenser = dear(options=["mask", "clear"], keep_recent=keep)
    before: set[int] = set()
    for step in replay(log, condenser):
        masked = {event.id for event in step.view if event.kind == "condense"}
        shown = {event.id for event in step.view}
        assert before & shown <= masked
        before = masked


@given(event_logs())
def test_awaited_it_does_the_same(log: list[Event]) -> None:
    view = View.from_events(log)
    try:
        awaited: View | Condensation | str = asyncio.run(dear().acondense(view))
    except CannotCondense as refusal:
        awaited = str(refusal)
    assert _told(awaited) == _told(_outcome(dear(), view))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"keep_recent": -1}, "keep_recent is a number of tokens, 0 or more; found -1"),
        ({"keep_first": -1}, "keep_first is a number of events, 0 or more; found -1"),
        ({"expected_steps": 0}, "expected_steps is a number of steps, 1 or more; found 0"),
        ({"options": []}, r"options are one or more of mask, clear, summarize; found \[\]"),
        ({"options": ["forget"]}, r"found \['forget'\]"),
    ],
)
def test_numbers_out_of_range_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        CostAwareCondenser(**settings)


# ---------------------------------------------------------------------- configuration and prices


def test_it_is_configured_by_the_name_of_a_model() -> None:
    config = {"type": "cost_aware", "prices": "gpt-4o", "options": ["summarize"]}
    condenser = condenser_from_config(config)
    assert isinstance(condenser, CostAwareCondenser)
    assert condenser.terms.prices == Prices(input=2.5, output=10, cache_read=1.25, cache_write=2.5)
    assert condenser.terms.summary_prices is None  # a digest costs nothing
    model = {"model": "extractive"}
    condenser = condenser_from_config({"type": "cost_aware", "llm_config": model, "prices": {}})
    assert isinstance(condenser, CostAwareCondenser)
    assert condenser.terms.summary_prices == Prices()
    with pytest.raises(InvalidArgument, match="no price of 'no-such-model'"):
        condenser_from_config({"type": "cost_aware", "prices": "no-such-model"})
    with pytest.raises(InvalidConfig, match="options"):
        condenser_from_config({"type": "cost_aware", "options": ["forget"]})


def test_without_a_cache_all_tokens_cost_the_same() -> None:
    assert Prices(input=2) == Prices(input=2, output=10, cache_read=2, cache_write=2)


# ---------------------------------------------------------------------- what a run costs


def test_a_prompt_is_read_from_the_cache_as_far_as_it_was_sent_before() -> None:
    events = log(S("system"), U("task"), pairs(2))
    first, second = (step.messages for step in replay(events, NoOpCondenser()))
    count = TokenCounter(exact=False).count
    assert second[: len(first)] == first
    cost = run_cost(events, "noop", Prices(input=1, output=0, cache_read=0.1, cache_write=2))
    expected = 2 * count(first) + 0.1 * count(first) + 2 * count(second[len(first) :])
    assert cost.prompts == pytest.approx(expected / 1e6)
    assert (cost.summaries, cost.condensations, cost.steps) == (0, 0, 2)
    assert cost.total == cost.prompts
    assert cost.longest_prompt == count(second)


def test_a_summary_is_paid_for() -> None:
    model = MadeUpModel("in short")
    events = log(S(), U(), pairs(10, "word " * 100))
    cost = run_cost(
        events,
        {"type": "llm", "max_size": 10, "ledger_chars": 0},
        summary_prices=Prices(input=1, output=1000),
        llm=model,
    )
    count = TokenCounter(exact=False).count
    answer = count([{"role": "assistant", "content": "in short"}])
    expected = sum(map(count, model.messages)) + 1000 * answer * len(model.messages)
    assert cost.condensations == len(model.messages) > 0
    assert cost.summaries == pytest.approx(expected / 1e6)


THRESHOLDS = (8_000, 12_000, 16_000, 24_000, 32_000, 48_000, 64_000, 96_000, 128_000)
PROVIDERS = {
    "cache at a tenth": Prices(),
    "cache at a half": Prices(input=2.5, output=10, cache_read=1.25, cache_write=2.5),
    "no cache": Prices(input=1),
}


@pytest.mark.slow
@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_no_fixed_threshold_chosen_in_hindsight_is_much_cheaper(
    corpus: Path, provider: str
) -> None:
    """On every recorded run of more than 60 steps: at most 1.3 times the best threshold, with the
    same summarizer, and less than the average one."""
    prices = PROVIDERS[provider]
    long = 0
    for run in _runs(corpus):
        never = run_cost(run, "noop", prices)
        if never.steps <= 60:
            continue
        long += 1
        fixed = [
            run_cost(run, {"type": "llm", "max_size": 10**6, "max_tokens": limit}, prices).total
            for limit in THRESHOLDS
        ]
        fixed.append(never.total)
        config = {"type": "cost_aware", "llm_config": {"model": "extractive"}}
        cost = run_cost(run, config, prices).total
        assert cost <= 1.3 * min(fixed), run.name
        assert cost < mean(fixed), run.name
    assert long >= 10


def _runs(corpus: Path) -> list[Run]:
    folders = ("1_openhands_v0", "2_openhands_v1", "5_openai_chat")
    return [run for folder in folders for run in read_runs(corpus / folder)]
