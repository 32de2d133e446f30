"""What must hold for every log, every condenser and every provider profile."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eventfold.condensers import (
    AgentContext,
    AmortizedForgettingCondenser,
    BrowserOutputCondenser,
    CannotCondense,
    Condensation,
    Condenser,
    CondenserPipeline,
    ConversationWindowCondenser,
    CostAwareCondenser,
    DigestCondenser,
    LLMAttentionCondenser,
    LLMSummarizingCondenser,
    MessageLimitCondenser,
    NoOpCondenser,
    ObservationMaskingCondenser,
    Prices,
    RecentEventsCondenser,
    RecordedCondenser,
    RoundsCondenser,
    StructuredSummaryCondenser,
    SupersededCondenser,
    TokenLimitCondenser,
    ToolClearingCondenser,
    TruncationCondenser,
    condenser_from_config,
)
from eventfold.condensers.extractive import ExtractiveModel
from eventfold.condensers.llm_summary import LLMSummary
from eventfold.events import (
    AgentDelegateObservation,
    CondensationAction,
    CondensationRequestAction,
    Event,
    EventStream,
    MessageAction,
    SystemMessageAction,
    event_to_dict,
)
from eventfold.memory import (
    Budget,
    ConversationMemory,
    Message,
    NothingToSend,
    State,
    TokenCounter,
    View,
    check_messages,
)
from eventfold.memory.rules import PROFILES
from eventfold.memory.turns import TurnKind, protected
from tests.logs import event_logs
from tests.models import MadeUpModel

DEAR, CHEAP = Prices(input=9), Prices(input=0.001)


def _failing() -> MadeUpModel:
    return MadeUpModel("")


CONDENSERS: dict[str, Callable[[], Condenser]] = {
    "amortized 1": lambda: AmortizedForgettingCondenser(1),
    "amortized 6, keep 0": lambda: AmortizedForgettingCondenser(6, 0),
    "digest 6": lambda: DigestCondenser(6, 500, minimum_progress=0),
    "digest 12, keep 0": lambda: DigestCondenser(12, 1000, 0),
    "message limit 1": lambda: MessageLimitCondenser(1),
    "message limit 7": lambda: MessageLimitCondenser(7),
    "recorded": RecordedCondenser,
    "rounds 1": lambda: RoundsCondenser(1),
    "rounds 3, first 1": lambda: RoundsCondenser(3, 1, stride=2),
    "token limit 1": lambda: TokenLimitCondenser(1),
    "token limit 300": lambda: TokenLimitCondenser(300, vision=False),
    "noop": NoOpCondenser,
    "window": ConversationWindowCondenser,
    "browser 0": lambda: BrowserOutputCondenser(0),
    "browser 1": lambda: BrowserOutputCondenser(1),
    "browser 3, stride 2": lambda: BrowserOutputCondenser(3, 2),
    "observations 0": lambda: ObservationMaskingCondenser(0),
    "observations 6, stride 4": lambda: ObservationMaskingCondenser(6, 4),
    "recent 1": lambda: RecentEventsCondenser(0, 1),
    "recent 6, the task": lambda: RecentEventsCondenser(None, 6),
    "recent 9, stride 4": lambda: RecentEventsCondenser(3, 9, 4),
    "superseded": lambda: SupersededCondenser(0),
    "superseded, keep 3": lambda: SupersededCondenser(3),
    "tool clearing, all": lambda: ToolClearingCondenser(0, 0, clear_inputs=True, keep_thinking=1),
    "tool clearing": lambda: ToolClearingCondenser(
        1500, 2, 600, ["search"], clear_inputs=True, keep_thinking=2
    ),
    "truncation 100": lambda: TruncationCondenser(100),
    "view condensers": lambda: CondenserPipeline(
        TruncationCondenser(400),
        SupersededCondenser(),
        ObservationMaskingCondenser(12, 4),
        ToolClearingCondenser(1000, 1, keep_thinking=1),
        RecentEventsCondenser(None, 20, 5),
        ConversationWindowCondenser(),
    ),
    "llm 4": lambda: LLMSummarizingCondenser(MadeUpModel("what happened, in short"), 4),
    "llm 9, keep 0": lambda: LLMSummarizingCondenser(MadeUpModel("what happened, in short"), 9, 0),
    "llm 12, keep 3": lambda: LLMSummarizingCondenser(ExtractiveModel(), 12, 3),
    "llm that fails": lambda: LLMSummarizingCondenser(_failing(), 6),
    "attention 10": lambda: LLMAttentionCondenser(ExtractiveModel(), 10),
    "attention 12, keep 2": lambda: LLMAttentionCondenser(MadeUpModel("7, 2, 12, 3"), 12, 2),
    "attention that fails": lambda: LLMAttentionCondenser(_failing(), 10),
    "structured 4": lambda: StructuredSummaryCondenser(ExtractiveModel(), 4),
    "structured 10, keep 2": lambda: StructuredSummaryCondenser(
        ExtractiveModel(), 10, 2, max_chars=1_000, max_input_tokens=1_500, minimum_progress=0
    ),
    # Tokens so dear, and runs so long, that it acts in short histories.
    "cost aware": lambda: CostAwareCondenser(
        prices=DEAR, keep_recent=40, expected_steps=1000, minimum_progress=0
    ),
    "cost aware, masks": lambda: CostAwareCondenser(
        prices=DEAR, keep_recent=0, expected_steps=1000, options=["mask", "clear"]
    ),
    "cost aware, summaries": lambda: CostAwareCondenser(
        LLMSummary(MadeUpModel("in short"), ledger_chars=0),
        DEAR,
        summary_prices=CHEAP,
        keep_recent=20,
        expected_steps=1000,
        options=["summarize"],
    ),
    "openhands-v0": lambda: condenser_from_config("openhands-v0"),
    "small pipeline": lambda: CondenserPipeline(
        BrowserOutputCondenser(1),
        LLMSummarizingCondenser(MadeUpModel("what happened, in short"), 8, minimum_progress=0),
        ConversationWindowCondenser(),
    ),
}
condensers = st.sampled_from(sorted(CONDENSERS))
profiles = st.sampled_from(sorted(PROFILES))
limits = st.sampled_from([None, 0, 1, 59, 60, 100])


def plain(event: Event) -> Event:
    return event.replace(id=-1)


def said(message: Message) -> Message:
    """The message without its cache marker."""
    return message.replace(cache_marker=False)


# ------------------------------------------------------------------ law 1


@given(event_logs(), profiles, limits, st.booleans(), st.booleans())
def test_any_log_makes_valid_messages(
    log: list[Event], profile: str, limit: int | None, vision: bool, caching: bool
) -> None:
    memory = ConversationMemory(profile, prompt_caching=caching)
    try:
        messages = memory.process_events(
            View.from_events(log), max_message_chars=limit, vision_is_active=vision
        )
    except NothingToSend:
        return
    assert check_messages(messages, profile, vision=vision) == []


@given(event_logs(), condensers, profiles, st.data())
def test_any_condenser_in_a_live_loop_sends_valid_messages(
    log: list[Event], name: str, profile: str, data: st.DataObject
) -> None:
    stream = EventStream("s")
    context = AgentContext(stream, CONDENSERS[name](), ConversationMemory(profile))
    for event in log:
        if data.draw(st.integers(0, 3)) == 0:
            try:
                messages = context.messages()
            except (NothingToSend, CannotCondense):
                pass
            else:
                assert check_messages(messages, profile) == []
        # ids of the log are not those of the stream, which has condensations of its own
        stream.append(plain(event))


@given(event_logs(), condensers, st.integers(1, 4000), st.integers(0, 300))
def test_with_a_budget_each_prompt_fits_or_cannot_condense(
    log: list[Event], name: str, window: int, output: int
) -> None:
    budget = Budget(window, reserved_output=output, counter=TokenCounter(exact=False))
    stream = EventStream("s")
    context = AgentContext(stream, CONDENSERS[name](), budget=budget)
    for event in log:
        stream.append(plain(event))
    try:
        messages = context.messages()
    except (CannotCondense, NothingToSend):
        return
    assert check_messages(messages) == []
    assert budget.counter.count(messages) + output <= window
    users = [turn for turn in context.state.view.turns if turn.kind is TurnKind.USER]
    shown = context.condensed.turns
    assert not users or users[-1].events[0] in [turn.events[0] for turn in shown]


# ------------------------------------------------------------------ law 2


@given(event_logs(), st.integers(0, 60))
def test_rebuilt_view_equals_incremental_view(log: list[Event], at: int) -> None:
    stream = EventStream("s")
    state = State(stream)
    snapshots = []
    for event in log:
        stream.append(event)
        if event.id % 3 == at % 3:
            snapshots.append((event.id, state.view))
    assert state.view == View.from_events(stream)
    for event_id, snapshot in snapshots:  # and later events did not change what was handed out
        assert snapshot == View.from_events(stream.events(0, event_id))


def fold(log: list[Event]) -> tuple[object, ...]:
    """All that a view says of a log."""
    view = View.from_events(log)
    return all_of(view)


def all_of(view: View) -> tuple[object, ...]:
    newest, task = view.newest_response, view.task
    return (
        view.copy(),
        view.serials,
        None if newest is None else newest.events,
        None if task is None else task.events,
        view.waiting,
        view.unhandled_condensation_request,
    )


@given(event_logs(), st.integers(0, 60))
def test_a_copy_and_its_original_go_on_apart(log: list[Event], at: int) -> None:
    begin, rest = log[:at], log[at:]
    original = View.from_events(begin)
    copy = original.copy()
    assert all_of(copy) == fold(begin)
    for event in rest:
        copy.append(event)
    assert all_of(copy) == fold(log)
    assert all_of(original) == fold(begin)
    again = original.copy()
    for event in rest:  # what the copy took into account is not taken into account here
        original.append(event)
    assert all_of(original) == fold(log)
    assert all_of(again) == fold(begin)
    original.serials.clear()
    assert original.serials == View.from_events(log).serials


@given(event_logs())
def test_each_event_of_a_view_is_in_exactly_one_turn(log: list[Event]) -> None:
    view = View.from_events(log)
    in_turns = sorted((e.id, type(e).__name__) for turn in view.turns for e in turn.events)
    assert in_turns == sorted((e.id, type(e).__name__) for e in view)
    order = {id(event): place for place, event in enumerate(view)}
    firsts = [order[id(turn.events[0])] for turn in view.turns]
    assert firsts == sorted(firsts)


# ------------------------------------------------------------------ laws 3, 4 and 9


def check_smaller_view(view: View, smaller: View) -> None:
    """Turns that were left in are whole and in order; all that are protected are there."""
    before = {turn.serial: turn for turn in view.turns}
    kept = {turn.serial: turn for turn in smaller.turns}
    assert [*kept] == [serial for serial in before if serial in kept]
    for serial, turn in kept.items():
        old = before[serial]
        assert (turn.kind, turn.serials, turn.answers) == (old.kind, old.serials, old.answers)
        for new, event in zip(turn.events, old.events, strict=True):
            assert (new.id, new.cause) == (event.id, event.cause)
    assert sorted(map(id, smaller)) == sorted(id(e) for t in kept.values() for e in t.events)
    ids = {event.id for turn in kept.values() for event in turn.events}
    assert [e.id for e in smaller] == [e.id for e in view if e.id in ids]
    turns = view.turns
    for place in protected(turns, view.newest_response, view.task, 0):
        assert turns[place].serial in kept
    assert smaller.unhandled_condensation_request == view.unhandled_condensation_request


@given(event_logs(), condensers, st.booleans())
def test_what_we_forget_and_keep_is_everything(
    log: list[Event], name: str, requested: bool
) -> None:
    view = View.from_events(log)
    if requested:
        view.append(CondensationRequestAction(id=len(log)))
    condenser = CONDENSERS[name]()
    try:
        result = condenser.condense(view)
    except CannotCondense:
        assert requested or view.unhandled_condensation_request
        return
    if isinstance(result, View):
        check_smaller_view(view, result)
        return
    before = view.events
    after = view.copy()
    after.append(result.action.replace(id=len(log) + 1))
    forgotten = set(result.action.forgotten)
    summaries = [turn for turn in view.turns if turn.kind is TurnKind.SUMMARY]
    old = {event.id for turn in summaries for event in turn.events}
    kept = [event for event in after if event.id != len(log) + 1]
    assert forgotten, "a condensation that forgets nothing is no answer"
    assert kept == [event for event in before if event.id not in forgotten]
    assert result.action.summary is None or old <= forgotten
    whole = [turn for turn in view.turns if forgotten & {e.id for e in turn.events}]
    assert all({e.id for e in turn.events} <= forgotten for turn in whole)
    # Protected by meaning:
    users = [turn for turn in view.turns if turn.kind is TurnKind.USER]
    systems = [turn for turn in view.turns if turn.kind is TurnKind.SYSTEM]
    for turn in users[-1:] + systems:
        assert turn.events[0] in kept
    newest = view.newest_response
    if newest is not None and newest.waits:
        assert all(event in kept for event in newest.events)
    assert not after.unhandled_condensation_request
    if result.action.details is not None:
        sizes = result.action.details
        assert requested is False or sizes["tokens_after"] < sizes["tokens_before"]


@given(event_logs(condensations=False), st.integers(4, 12))
def test_a_summary_is_made_from_exactly_the_forgotten_events_and_the_old_summary(
    log: list[Event], size: int
) -> None:
    model = MadeUpModel("the old summary")
    view = View.from_events(log)
    condenser = LLMSummarizingCondenser(model, size)
    for n in range(4):
        model.requests.clear()
        result = condenser.condense(view)
        if isinstance(result, View):
            break
        request = "\n".join(model.requests)
        forgotten = {e.id for t in view.turns for e in t.events if t.kind is not TurnKind.SUMMARY}
        forgotten &= set(result.action.forgotten)
        for event in view:
            named = f" event {event.id}," in request
            assert named == (event.id in forgotten)
        assert (n > 0) == ("\nthe old summary\n" in request)
        action = result.action.replace(id=1000 + n)
        view = view.copy()
        view.append(action)
        said = {e.id: str(getattr(e, "content", "")) for e in view if e.id >= 1000}
        assert {at: text.split("\n")[0] for at, text in said.items()} == {
            1000 + n: "the old summary"
        }


@given(event_logs(), condensers)
def test_condensing_ends_and_shrinks(log: list[Event], name: str) -> None:
    condenser = CONDENSERS[name]()
    view = View.from_events(log)
    sizes = [len(view)]
    for n in range(len(log) + 2):
        if n % 2:
            view = view.copy()
            view.append(CondensationRequestAction(id=1000 + 2 * n))
        try:
            result = condenser.condense(view)
        except CannotCondense:
            return
        if isinstance(result, Condensation):
            view = view.copy()
            view.append(result.action.replace(id=1001 + 2 * n))
            sizes.append(len(view))
        elif n % 2:
            assert not condenser.answers_requests
            return
    assert len(sizes) < len(log) + 2


# ------------------------------------------------------------------ laws 6 and 8


@given(event_logs(), condensers, profiles, st.booleans())
def test_nothing_that_is_passed_in_is_changed(
    log: list[Event], name: str, profile: str, vision: bool
) -> None:
    view = View.from_events(log)
    before = copy.deepcopy([event_to_dict(event) for event in log])
    twin = View.from_events(log)
    with contextlib.suppress(CannotCondense):
        CONDENSERS[name]().condense(view)
    with contextlib.suppress(NothingToSend):
        ConversationMemory(profile).process_events(view, vision_is_active=vision)
    assert [event_to_dict(event) for event in log] == before
    assert view == twin


@given(event_logs(), profiles, limits, st.booleans())
def test_the_same_log_makes_the_same_messages(
    log: list[Event], profile: str, limit: int | None, vision: bool
) -> None:
    view = View.from_events(log)
    used = ConversationMemory(profile)

    def messages(memory: ConversationMemory, history: View) -> str:
        try:
            said = memory.process_events(history, None, limit, vision)
        except NothingToSend:
            return "nothing"
        return json.dumps([message.to_dict() for message in said], default=dict)

    first = messages(used, view)
    assert messages(used, view) == first  # remembered
    assert messages(ConversationMemory(profile), View.from_events(log)) == first  # made anew


@given(event_logs(), profiles, st.booleans(), st.booleans())
def test_a_used_memory_says_what_a_fresh_one_says(
    log: list[Event], profile: str, caching: bool, vision: bool
) -> None:
    used = ConversationMemory(profile, prompt_caching=caching)
    view = View()
    for event in log:
        view.append(event)
        if event.id % 3:
            continue
        fresh = ConversationMemory(profile, prompt_caching=caching)
        try:
            expected = fresh.process_events(view, vision_is_active=vision)
        except NothingToSend:
            with pytest.raises(NothingToSend):
                used.process_events(view, vision_is_active=vision)
        else:
            assert used.process_events(view, vision_is_active=vision) == expected


@given(event_logs(), profiles, st.lists(st.tuples(limits, st.booleans()), min_size=2, max_size=5))
def test_a_memory_may_be_asked_for_something_else_each_time(
    log: list[Event], profile: str, asked: list[tuple[int | None, bool]]
) -> None:
    """Other limits, other vision, another task, another view: nothing of the last time stays."""
    used = ConversationMemory(profile)
    views = [View.from_events(log), View.from_events(log[: len(log) // 2])]
    for n, (limit, vision) in enumerate(asked * 2):
        task = MessageAction(f"task {n % 3}")
        view = views[n // 2 % 2]
        expected = result_of(ConversationMemory(profile), view, task, limit, vision)
        assert result_of(used, view, task, limit, vision) == expected
        assert result_of(used, view, task, limit, vision) == expected


def result_of(memory: ConversationMemory, view: View, *more: Any) -> object:
    try:
        return memory.process_events(view, *more)
    except NothingToSend as error:
        return str(error)


# ------------------------------------------------------------------ law 9


@given(event_logs())
def test_the_newest_system_message_is_first(log: list[Event]) -> None:
    view = View.from_events(log)
    systems = [event for event in view if isinstance(event, SystemMessageAction)]
    assert len(systems) <= 1
    assert not systems or view[0] is systems[0]


# ------------------------------------------------------------------ law 10


@given(event_logs(condensations=False, delegates=False), profiles, st.booleans())
def test_each_answered_prompt_is_extended_by_the_next(
    log: list[Event], profile: str, caching: bool
) -> None:
    memory = ConversationMemory(profile, prompt_caching=caching)
    view = View()
    prompt: list[Message] = []
    system: object = None
    for event in log:
        if view.begins_response(event):
            try:
                new = memory.process_events(view, vision_is_active=True)
            except NothingToSend:
                new = []
            newest = view[0] if len(view) and isinstance(view[0], SystemMessageAction) else None
            answered = any(m.role == "assistant" for m in new[len(prompt) :])
            if newest is system and answered:
                assert [said(m) for m in new[: len(prompt)]] == [said(m) for m in prompt]
            prompt, system = new, newest
        view.append(event)
        if isinstance(event, AgentDelegateObservation):  # takes out what the delegate did
            prompt = []


# ------------------------------------------------------------------ requests


@given(event_logs(condensations=False), condensers)
def test_a_request_is_answered_or_refused_but_never_ignored(log: list[Event], name: str) -> None:
    stream = EventStream("s")
    for event in log:
        stream.append(plain(event))
    stream.append(CondensationRequestAction())
    context = AgentContext(stream, CONDENSERS[name]())
    try:
        context.messages()
    except (CannotCondense, NothingToSend):
        return
    assert not context.state.view.unhandled_condensation_request
    assert any(isinstance(event, CondensationAction) for event in stream)


def test_initial_user_action_is_put_back_only_where_nothing_stands_for_it() -> None:
    task = MessageAction("delete X", source="user")  # type: ignore[arg-type]
    memory = ConversationMemory()
    assert [m.text for m in memory.process_events([], task)] == ["delete X"]
    summary = View.from_events(
        [
            task.replace(id=0),
            CondensationAction(forgotten_event_ids=[0], summary="done", summary_offset=0, id=1),
        ]
    )
    assert [m.text for m in memory.process_events(summary, task)] == ["done"]
    with pytest.raises(NothingToSend):
        memory.process_events([])
