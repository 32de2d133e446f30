"""Summaries by an LLM: what it is asked, what is made of the answer, what happens without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eventfold.condensers import (
    CannotCondense,
    Condensation,
    Condenser,
    DigestCondenser,
    LLMSummarizingCondenser,
    condenser_from_config,
)
from eventfold.condensers.config import InvalidConfig
from eventfold.condensers.ledger import ArtifactLedger
from eventfold.condensers.llm_summary import LEDGER_LINE, LLMSummary
from eventfold.events import (
    CmdOutputObservation,
    CmdRunAction,
    CondensationRequestAction,
    Event,
    EventSource,
    InvalidArgument,
)
from eventfold.memory import Reply, View
from tests.logs import event_logs
from tests.models import MadeUpModel
from tests.notation import A, Item, O, S, U, log


def pairs(count: int, text: str = "out") -> list[Item]:
    return [i for n in range(count) for i in (A(f"r{n}", f"c{n}"), O(f"c{n}", text=text))]


def view_of(*items: Any, requested: bool = False) -> View:
    view = View.from_events(log(*items))
    if requested:
        view.append(CondensationRequestAction(id=len(view)))
    return view


def summary(outcome: View | Condensation) -> str:
    assert isinstance(outcome, Condensation)
    assert outcome.action.summary is not None
    return outcome.action.summary


# ---------------------------------------------------------------------- the ledger below it


@given(
    event_logs(condensations=False), st.sampled_from(["x", LEDGER_LINE, "## Files changed\n- no"])
)
def test_whatever_the_model_says_each_changed_file_is_named(log: list[Event], says: str) -> None:
    """Also over several condensations: the ledger is carried on."""
    condenser = LLMSummarizingCondenser(MadeUpModel(says), 4, 0, minimum_progress=0)
    view, changed = View(), ArtifactLedger()
    for n, event in enumerate(log):
        view.append(event)
        outcome = condenser.condense(view)
        if isinstance(outcome, Condensation):
            gone = set(outcome.action.forgotten)
            turns = [t for t in view.turns if t.events[0].id in gone and t.kind != "summary"]
            changed = changed.merge(ArtifactLedger.from_turns(turns))
            told = ArtifactLedger.parse(summary(outcome).rpartition(LEDGER_LINE)[2])
            assert set(changed.changed) <= set(told.changed)
            view.append(outcome.action.replace(id=10_000 + n))


def test_what_still_holds_is_not_lost_because_less_is_forgotten_later() -> None:
    """The room of a ledger is a share of what is forgotten, and never less than before."""
    condenser = LLMSummarizingCondenser(MadeUpModel(), 20, minimum_progress=0)
    large = [f"FAILED tests/test_{n}.py::test_a\n" + "line\n" * 400 for n in range(5)]
    view, told = View(), ArtifactLedger()
    for text in [*large, *["ok"] * 60]:
        n = view._serial
        command = f"pytest tests/test_{n}.py" if text != "ok" else f"echo {n}"
        action = CmdRunAction(command, id=n, source=EventSource.AGENT)
        code = 0 if text == "ok" else 1
        for event in (
            action,
            CmdOutputObservation(text, command, id=n + 1, cause=n, exit_code=code),
        ):
            view.append(event)
        outcome = condenser.condense(view)
        if isinstance(outcome, Condensation):
            view.append(outcome.action.replace(id=view._serial))
            told = ArtifactLedger.parse(summary(outcome).rpartition(LEDGER_LINE)[2])
    assert "tests/test_0.py::test_a" in told.failing


def test_a_ledger_of_zero_characters_is_none() -> None:
    condenser = LLMSummarizingCondenser(MadeUpModel(), 10, ledger_chars=0)
    assert summary(condenser.condense(view_of(S(), U(), pairs(6)))) == "in short"


def test_the_models_own_words_are_not_taken_for_the_ledger() -> None:
    said = f"did it\n{LEDGER_LINE}\n## Files changed\n- edited /invented"
    condenser = LLMSummarizingCondenser(MadeUpModel(said), 10)
    view = view_of(S(), U(), pairs(6))
    outcome = condenser.condense(view)
    text = summary(outcome)
    assert text.count(LEDGER_LINE) == 1
    assert text.startswith("did it\n## Files changed\n- edited /invented\n\n" + LEDGER_LINE)
    assert ArtifactLedger.parse(text.rpartition(LEDGER_LINE)[2]).changed == []


# ---------------------------------------------------------------------- what the model is asked


def test_a_model_that_refuses_a_call_as_too_long_is_given_smaller_parts() -> None:
    """The window that it says it has is wrong; nothing is left out all the same."""

    def answer(text: str) -> Reply:
        if len(text) > 9_000:
            raise RuntimeError("prompt is too long: 9000 tokens > 3000 maximum")
        return Reply("in short", finish_reason="stop")

    model = MadeUpModel(answer, context_window=100_000)
    condenser = LLMSummarizingCondenser(model, 100, ledger_chars=0)
    view = view_of(S(), U(), pairs(60, "word " * 100))
    outcome = condenser.condense(view)
    assert summary(outcome) == "in short"
    answered = [r for r in model.messages if len(str(r[1]["content"])) <= 9_000 - 1_500]
    asked = "\n".join(str(request[1]["content"]) for request in answered)
    assert isinstance(outcome, Condensation)
    for event_id in set(outcome.action.forgotten):
        assert f" event {event_id}," in asked


def test_a_model_that_refuses_everything_as_too_long_is_given_up() -> None:
    def answer(text: str) -> Reply:
        raise RuntimeError("prompt is too long: 9000 tokens > 3000 maximum")

    model = MadeUpModel(answer)
    view = view_of(S(), U(), pairs(60))
    assert LLMSummarizingCondenser(model, 100).condense(view) is view
    assert len(model.requests) <= 8


def test_a_part_is_fitted_to_the_models_window() -> None:
    model = MadeUpModel(context_window=4_000)
    LLMSummarizingCondenser(model, 100).condense(view_of(S(), U(), pairs(60, "word " * 100)))
    assert len(model.requests) > 1
    for n, request in enumerate(model.messages):
        assert len(str(request)) < 4_000 * 4
        assert ("previous summary" in str(request[1]["content"])) == (n > 0)


def test_a_template_takes_the_place_of_the_instructions() -> None:
    model = MadeUpModel()
    own = "{% if previous_summary %}Go on from: {{ previous_summary }}{% else %}Begin.{% endif %}"
    condenser = LLMSummarizingCondenser(model, 10, prompt=own, ledger_chars=0)
    view = view_of(S(), U(), pairs(6))
    outcome = condenser.condense(view)
    assert model.messages[0][0] == {"role": "system", "content": "Begin."}
    assert " event 2," in str(model.messages[0][1]["content"])
    assert isinstance(outcome, Condensation)
    view.append(outcome.action.replace(id=14))
    for event in log(pairs(20))[6:]:
        view.append(event.replace(id=event.id + 20))
    condenser.condense(view)
    assert model.messages[1][0]["content"] == "Go on from: in short"


def test_a_template_may_hold_the_record_itself() -> None:
    model = MadeUpModel()
    condenser = LLMSummarizingCondenser(model, 10, prompt="Here:\n{{ record }}\nShort, please.")
    condenser.condense(view_of(S(), U(), pairs(6)))
    ((message,),) = model.messages
    assert message["role"] == "user"
    assert message["content"].startswith("Here:\n<record-")
    assert message["content"].endswith(">\nShort, please.")


@pytest.mark.parametrize(
    ("template", "says"),
    [("{{ events }}", "events"), ("{% if %}", "no jinja2 template"), ("{{ a.b }}", "found a")],
)
def test_a_template_with_faults_is_refused_at_once(template: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        LLMSummary(MadeUpModel(), prompt=template)
    with pytest.raises(InvalidConfig, match=says):
        condenser_from_config({"type": "llm", "prompt": template})


# ---------------------------------------------------------------------- when and which


def test_more_tokens_than_allowed_are_condensed_to_half_of_them() -> None:
    condenser = LLMSummarizingCondenser(MadeUpModel(), 1_000, max_tokens=3_000)
    short = view_of(S(), U(), pairs(10, "word " * 50))
    assert condenser.condense(short) is short
    view = view_of(S(), U(), pairs(40, "word " * 50))
    outcome = condenser.condense(view)
    assert isinstance(outcome, Condensation)
    details = outcome.action.details or {}
    assert details["tokens_before"] > 3_000
    assert 1_000 < details["tokens_after"] < 1_700
    assert "tokens are more than 3000" in details["reason"]


def test_the_users_newest_messages_stay() -> None:
    view = view_of(S(), U("task"), U("a"), pairs(3), U("b"), U("c"), pairs(6)[6:], pairs(3))
    for keep, stays in ((0, ["task", "c"]), (1, ["task", "c"]), (3, ["task", "a", "b", "c"])):
        outcome = LLMSummarizingCondenser(MadeUpModel(), 10, keep_user_messages=keep).condense(view)
        assert isinstance(outcome, Condensation)
        after = view.copy()
        after.append(outcome.action.replace(id=50))
        told = [getattr(e, "content", "") for e in after if e.kind == "message"]
        assert told == stays


# ---------------------------------------------------------------------- where the model fails


def test_a_failing_model_is_not_asked_at_each_step() -> None:
    model = MadeUpModel("")
    condenser = LLMSummarizingCondenser(model, 100)
    asked_at = []
    for count in range(50, 80):
        view = view_of(S(), U(), pairs(count))
        before = len(model.requests)
        assert condenser.condense(view) is view
        if len(model.requests) > before:
            asked_at.append(len(view))
    assert asked_at == [102, 114, 126, 140, 154]  # a tenth more each time
    model.answer = "in short"
    assert isinstance(condenser.condense(view_of(S(), U(), pairs(90))), Condensation)


def test_a_request_is_answered_by_the_configured_fallback() -> None:
    view = view_of(S(), U(), pairs(20), requested=True)
    for config, kind in ((None, None), ({"type": "digest"}, "Digest of ")):
        condenser = condenser_from_config(
            {"type": "llm", "fallback": config} if config else {"type": "llm"}, llm=MadeUpModel("")
        )
        outcome = condenser.condense(view)
        assert isinstance(outcome, Condensation)
        text = outcome.action.summary
        assert (text is None) if kind is None else str(text).startswith(kind)


def test_a_fallback_that_cannot_help_either_says_so() -> None:
    condenser = LLMSummarizingCondenser(MadeUpModel(""), 10, fallback=DigestCondenser(10))
    with pytest.raises(CannotCondense):
        condenser.condense(view_of(S(), U(), requested=True))


@given(event_logs(), st.sampled_from(["in short", "", " "]))
def test_async_does_the_same(log: list[Event], says: str) -> None:
    view = View.from_events(log)

    def made() -> Condenser:
        return LLMSummarizingCondenser(MadeUpModel(says), 6, minimum_progress=0)

    def result(call: Callable[[], View | Condensation]) -> object:
        try:
            return call()
        except CannotCondense as error:
            return str(error)

    at_once = result(lambda: made().condense(view))
    later = result(lambda: asyncio.run(made().acondense(view)))
    assert at_once == later


def test_max_events_is_another_name_for_max_size() -> None:
    condenser = condenser_from_config({"type": "llm", "max_events": 7}, llm=MadeUpModel())
    assert isinstance(condenser, LLMSummarizingCondenser)
    assert condenser.max_size == 7
