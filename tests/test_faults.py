"""Whatever happens to whichever call of a language model: nothing is lost, and the agent goes on.

For all condensers that ask one, by their configuration, and for pipelines of them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eventfold.condensers import (
    AgentContext,
    CannotCondense,
    Condensation,
    Condenser,
    condenser_from_config,
)
from eventfold.condensers.base import prompt_of
from eventfold.condensers.config import known_types
from eventfold.condensers.extractive import ExtractiveModel
from eventfold.events import (
    CondensationAction,
    CondensationRequestAction,
    Event,
    EventStream,
    event_to_dict,
)
from eventfold.memory import (
    ConversationMemory,
    NothingToSend,
    Reply,
    TokenCounter,
    View,
    check_messages,
)
from eventfold.memory.message import ChatDict
from eventfold.memory.rules import PROFILES
from eventfold.memory.turns import TurnKind, protected
from tests.logs import event_logs
from tests.notation import A, O, S, U, log

# ---------------------------------------------------------------------- who asks


def config(kind: str) -> dict[str, Any]:
    """A condenser that acts early, and makes its calls one after the other: they are numbered."""
    # Half of the events stay: a ranking needs room for more than what is protected.
    size = 12 if kind == "llm_attention" else 6
    options = {"max_size": size, "minimum_progress": 0, "parallel": 1}
    fields = known_types()[kind].model_fields
    return {"type": kind, **{name: value for name, value in options.items() if name in fields}}


ASKING = sorted(kind for kind, one in known_types().items() if "llm_config" in one.model_fields)
EAGER = {"type": "digest", "max_events": 8, "max_chars": 500, "minimum_progress": 0}
CONFIGS: dict[str, dict[str, Any]] = {
    **{kind: config(kind) for kind in ASKING},
    **{f"{kind}, digest": {**config(kind), "fallback": EAGER} for kind in ASKING},
    "pipeline": {
        "type": "pipeline",
        "condensers": [
            {"type": "browser_output_masking", "attention_window": 1},
            config("llm"),
            {"type": "conversation_window"},
        ],
    },
    "pipeline of all": {
        "type": "pipeline",
        "condensers": [{"type": "observation_masking", "attention_window": 6}]
        + [config(kind) for kind in ASKING],
    },
    "pipeline with one as a fallback": {
        "type": "pipeline",
        "condensers": [{**config("llm_attention"), "fallback": config("llm")}],
    },
}
names = st.sampled_from(sorted(CONFIGS))
windows = st.sampled_from([None, 1_000, 3_000])  # tokens; the smallest needs many calls


# ---------------------------------------------------------------------- what happens


class RateLimitError(Exception):
    pass


FAULTS: dict[str, Exception | Reply] = {
    "rate limit": RateLimitError("Rate limit reached for requests"),
    "auth": RuntimeError("Incorrect API key provided: sk-..."),
    "timeout": TimeoutError(),
    "empty": Reply(" \n", finish_reason="stop"),
    "no text": Reply(finish_reason="stop"),
    "cut off": Reply('{"ids": [2, 4', finish_reason="length"),
}
# What a condenser may make something of: smaller calls, or a summary that says little.
ODD: dict[str, Exception | Reply] = {
    "overflow": RuntimeError("prompt is too long: 9000 tokens > 3000 maximum"),
    "garbage": Reply("\x00[[{]}, 7 </record-00000000>\ud800 12", finish_reason="stop"),
    "very long": Reply("word " * 5_000, finish_reason="stop"),
}
faults = st.sampled_from(sorted({**FAULTS, **ODD}))


class Faulty(ExtractiveModel):
    """A model whose calls are numbered from 0, and met by the fault of their number, if any."""

    def __init__(
        self, window: int | None, fault_of: Callable[[int], str | None] = lambda number: None
    ) -> None:
        self.context_window = window
        self.fault_of = fault_of
        self.calls = 0

    def completion(self, messages: Sequence[ChatDict], **more: Any) -> Reply:
        fault = self.fault_of(self.calls)
        self.calls += 1
        if fault is None:
            return super().completion(messages, **more)
        outcome = {**FAULTS, **ODD}[fault]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def acompletion(self, messages: Sequence[ChatDict], **more: Any) -> Reply:
        await asyncio.sleep(0)
        return self.completion(messages, **more)


def only(number: int, fault: str) -> Callable[[int], str | None]:
    return {number: fault}.get


def made(name: str, model: Faulty) -> Condenser:
    return condenser_from_config(CONFIGS[name], llm=model)


# ---------------------------------------------------------------------- one condensation

Outcome = View | Condensation | str
"""A view, a condensation, or why there is none."""


def at_once(condenser: Condenser, view: View) -> Outcome:
    try:
        return condenser.condense(view)
    except CannotCondense as error:
        return str(error)


def awaited(condenser: Condenser, view: View) -> Outcome:
    async def later() -> Outcome:
        try:
            return await condenser.acondense(view)
        except CannotCondense as error:
            return str(error)

    return asyncio.run(later())


def check(view: View, outcome: Outcome) -> None:
    """Nothing is lost, or only what may go; a request makes the prompt smaller or is refused."""
    requested = view.unhandled_condensation_request
    if isinstance(outcome, str):
        assert requested
        return
    if isinstance(outcome, View):
        assert not requested
        assert [event.id for event in outcome] == [event.id for event in view]
        return
    after = view.copy()
    after.append(outcome.action.replace(id=10_000))
    gone = set(outcome.action.forgotten)
    assert gone
    assert [e for e in after if e.id != 10_000] == [e for e in view if e.id not in gone]
    for turn in view.turns:
        ids = {event.id for event in turn.events}
        assert ids <= gone or not ids & gone
    for place in protected(view.turns, view.newest_response, view.task, 0):
        assert not gone & {event.id for event in view.turns[place].events}
    old = {e.id for t in view.turns if t.kind is TurnKind.SUMMARY for e in t.events}
    assert outcome.action.summary is None or old <= gone
    if requested:
        before, now = (
            TokenCounter(exact=False).count(prompt_of(one, ConversationMemory()))
            for one in (view, after)
        )
        assert now < before


@given(event_logs(), names, windows, faults, st.booleans())
def test_a_fault_at_any_call_loses_nothing(
    log: list[Event], name: str, window: int | None, fault: str, requested: bool
) -> None:
    """Of very many calls, the first and the last dozen are tried."""
    view = View.from_events(log)
    if requested:
        view.append(CondensationRequestAction(id=len(log)))
    requested = view.unhandled_condensation_request
    twin, events = view.copy(), [event_to_dict(event) for event in log]
    fine = Faulty(window)
    check(view, at_once(made(name, fine), view))
    calls = range(fine.calls)
    for number in sorted({*calls[:12], *calls[-12:]}):
        condensers = [made(name, Faulty(window, only(number, fault))) for _ in range(2)]
        outcomes = [call(c, view) for call, c in zip((at_once, awaited), condensers, strict=True)]
        assert outcomes[0] == outcomes[1]
        assert condensers[0].metadata == condensers[1].metadata
        check(view, outcomes[0])
        if fault in FAULTS and not requested and not name.startswith("pipeline"):
            assert isinstance(outcomes[0], View)
    assert view == twin
    assert [event_to_dict(event) for event in log] == events


def pairs(count: int) -> list[Event]:
    text = "a line of what came back\n" * 20
    return log(S(), U(), [i for n in range(count) for i in (A(f"r{n}", f"c{n}"), O(f"c{n}", text))])


@pytest.mark.parametrize("requested", [False, True])
@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_each_of_many_calls_is_met_by_each_fault(name: str, requested: bool) -> None:
    """So that the law above is not kept for want of calls."""
    view = View.from_events(pairs(24))
    if requested:
        view.append(CondensationRequestAction(id=1_000))
    # The stand-in's summaries are long: in a small window they do not fit into one call.
    window = 1_500 if CONFIGS[name]["type"] == "llm_attention" or "fallback" in name else 3_000
    fine = Faulty(window)
    outcome = at_once(made(name, fine), view)
    if not requested and name.startswith("cost_aware"):
        return  # a run this short is not worth a summary
    assert isinstance(outcome, Condensation)
    assert fine.calls > (name != "pipeline of all")  # in which few events are left to the later
    for number in range(fine.calls):
        for fault in FAULTS:
            model = Faulty(window, only(number, fault))
            outcome = at_once(made(name, model), view)
            check(view, outcome)
            if requested or not name.startswith("pipeline"):
                assert isinstance(outcome, Condensation) == requested
            assert model.calls > number


# ---------------------------------------------------------------------- whole runs


def run(
    log: list[Event],
    name: str,
    model: Faulty,
    profile: str,
    seed: int,
    messages_of: Callable[[AgentContext], list[ChatDict]],
) -> list[object]:
    """Sends prompts while the log grows, with requests now and then; what was sent and logged."""
    chance = random.Random(seed)
    stream = EventStream("s")
    context = AgentContext(stream, made(name, model), ConversationMemory(profile))
    seen: list[object] = []
    for event in log:
        stream.append(event.replace(id=-1))
        if chance.random() < 0.2:
            stream.append(CondensationRequestAction())
        if chance.random() < 0.5:
            try:
                messages = messages_of(context)
            except (NothingToSend, CannotCondense) as error:
                seen.append(str(error))
            else:
                assert check_messages(messages, profile) == []
                seen.append(messages)
    assert context.state.view == View.from_events(stream)
    mine = (CondensationAction, CondensationRequestAction)
    theirs = [type(one) for one in stream if not isinstance(one, mine)]
    assert theirs == [type(one) for one in log if not isinstance(one, mine)]
    condensations = [one for one in stream if isinstance(one, CondensationAction)]
    return [*seen, *((one.id, one.forgotten, one.summary) for one in condensations)]


@given(
    event_logs(),
    names,
    windows,
    st.sampled_from(sorted(PROFILES)),
    st.integers(0, 1_000),
    st.lists(st.none() | faults, min_size=1, max_size=12),
)
def test_a_run_with_faults_sends_only_valid_messages_and_ends(
    log: list[Event],
    name: str,
    window: int | None,
    profile: str,
    seed: int,
    met: list[str | None],
) -> None:
    """And the same ones, whether the loop awaits or not."""

    def later(context: AgentContext) -> list[ChatDict]:
        return asyncio.run(context.amessages())

    models = [Faulty(window, lambda number: met[number % len(met)]) for _ in range(2)]
    blocking = run(log, name, models[0], profile, seed, AgentContext.messages)
    assert run(log, name, models[1], profile, seed, later) == blocking
    assert models[0].calls == models[1].calls
