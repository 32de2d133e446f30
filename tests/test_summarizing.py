"""Summaries by an LLM: what it is asked, what is made of the answer, what happens without one."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import re
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from eventfold.condensers import (
    LLM,
    AgentContext,
    CannotCondense,
    Condensation,
    Condenser,
    DigestCondenser,
    LLMSummarizingCondenser,
    condenser_from_config,
    told_of,
)
from eventfold.condensers.base import Summary, SummaryFailed
from eventfold.condensers.config import InvalidConfig
from eventfold.condensers.ledger import ArtifactLedger
from eventfold.condensers.llm_summary import INSTRUCTIONS, LEDGER_LINE, LLMSummary
from eventfold.condensers.parallel import acall_each, call_each
from eventfold.condensers.steps import Ask, Steps, arun, run
from eventfold.condensers.summary_record import fenced, record_of
from eventfold.events import (
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    CondensationRequestAction,
    Event,
    EventSource,
    EventStream,
    InvalidArgument,
    event_from_dict,
    event_to_dict,
)
from eventfold.memory import Reply, TokenCounter, Turn, View
from tests.logs import event_logs
from tests.models import MadeUpModel
from tests.notation import M, S, U, log, pairs, view_of
from tests.providers.hostile import USAGE, HostileProvider, answer, cut_body, rate_limited


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

    for parallel in (1, 4):
        model = MadeUpModel(answer)
        view = view_of(S(), U(), pairs(60))
        assert LLMSummarizingCondenser(model, 100, parallel=parallel).condense(view) is view
        assert len(model.requests) <= 8 * parallel


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


# ---------------------------------------------------------------------- more than one call takes

BLOCK = re.compile(r"<record-(\w{8}) ([^\n>]*)>\n(.*?)\n</record-\1>", re.DOTALL)
MARK = re.compile(r"\[m\d+\]")
OVERFLOW = RuntimeError("prompt is too long: 9000 tokens > 3000 maximum")


def blocks_in(request: str) -> list[tuple[str, str]]:
    """The titles and texts that a summarizer is given."""
    return [(title, text) for _, title, text in BLOCK.findall(request)]


def said(text: str) -> Reply:
    return Reply(text, finish_reason="stop")


def echoed(request: str) -> Reply:
    """The marks in a request: a summary that leaves out no fact."""
    texts = "".join(text for _, text in blocks_in(request))
    return said("".join(dict.fromkeys(MARK.findall(texts))) or "nothing")


def marked(count: int, words: int = 60) -> list[Turn]:
    """Turns that each tell a fact of their own."""
    filler = " word" * words
    events = log([M(f"[m{n}]{filler}", label=str(n)) for n in range(count)])
    return list(View.from_events(events).turns)


class Watched(MadeUpModel):
    """Takes its time for each answer, and knows how many it was asked for at once."""

    def __init__(self, answer: Callable[[str], Reply], seconds: Callable[[], float]) -> None:
        super().__init__(answer)
        self.seconds = seconds
        self.running = self.most = self.cancelled = 0
        self._lock = threading.Lock()

    def _begins(self) -> None:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)

    def completion(self, messages: Any, **settings: Any) -> Reply:
        self._begins()
        try:
            time.sleep(self.seconds())
            return super().completion(messages, **settings)
        finally:
            with self._lock:
                self.running -= 1

    async def acompletion(self, messages: Any, **settings: Any) -> Reply:
        self._begins()
        try:
            await asyncio.sleep(self.seconds())
            return super().completion(messages, **settings)
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # what is cancelled may take its time to end
            self.cancelled += 1
            raise
        finally:
            self.running -= 1


Summarize = Callable[[LLMSummary, Sequence[Turn], str | None], Summary]


def in_threads(stand_in: LLMSummary, turns: Sequence[Turn], previous: str | None) -> Summary:
    return stand_in.summarize(turns, previous)


def in_a_loop(stand_in: LLMSummary, turns: Sequence[Turn], previous: str | None) -> Summary:
    return asyncio.run(stand_in.asummarize(turns, previous), debug=True)


both = pytest.mark.parametrize("summarize", [in_threads, in_a_loop])


@given(
    event_logs(condensations=False),
    st.integers(500, 3_000),
    st.none() | st.integers(0, 6_000),
    st.sampled_from([1, 4]),
)
def test_nothing_is_left_out_and_nothing_told_twice(
    log: list[Event], limit: int, length: int | None, parallel: int
) -> None:
    """Each character of the events and of the previous summary is in one request, and each answer
    in one later one: for any log and any window."""
    turns = View.from_events(log).turns
    assume(any(turn.events for turn in turns))
    previous = None if length is None else "".join(f"<{n}>" for n in range(length))[:length]
    model = MadeUpModel(lambda request: said(f"answer {zlib.crc32(request.encode())}"))
    stand_in = LLMSummary(model, max_input_tokens=limit, ledger_chars=0, parallel=parallel)
    words = stand_in.summarize(turns, previous).text
    given = [block for request in model.requests for block in blocks_in(request)]
    for block in record_of(turns):
        ((title, text),) = blocks_in(fenced([block]))
        assert whole(given, title) == text
    assert whole(given, "previous summary") == (previous or "")
    told = Counter(text for title, text in given if title.startswith("summary of "))
    answers = Counter(f"answer {zlib.crc32(request.encode())}" for request in model.requests)
    assert answers == told + Counter([words])


def whole(given: list[tuple[str, str]], title: str) -> str:
    """A text that was given in pieces, or in one."""
    pieces = {}
    for one, text in given:
        name, _, place = one.partition(", part ") if one != title else (title, "", "1")
        if name.strip() == title:
            number = int(place.split()[0])
            assert number not in pieces
            pieces[number] = text
    return "".join(pieces[number] for number in sorted(pieces))


@both
@pytest.mark.parametrize("limit", [800, 1_000, 2_000, 4_000, 100_000])
@pytest.mark.parametrize("known", [0, 1, 40])
def test_no_fact_is_lost_on_the_way(summarize: Summarize, limit: int, known: int) -> None:
    """Also where the previous summary alone is more than one call takes."""
    model = MadeUpModel(echoed)
    previous = "".join(f"[m{1000 + n}]" + " word" * 30 for n in range(known)) or None
    stand_in = LLMSummary(model, max_input_tokens=limit, ledger_chars=0)
    facts = [f"[m{n}]" for n in (*range(1000, 1000 + known), *range(20))]
    words = summarize(stand_in, marked(20), previous).text
    assert sorted(MARK.findall(words)) == sorted(facts)
    assert all(len(request) < 6 * limit for request in model.requests)


def test_what_fits_is_asked_in_one_call() -> None:
    model = MadeUpModel()
    LLMSummary(model).summarize(marked(20), "so far")
    ((instructions, record),) = model.messages
    assert instructions["content"] == INSTRUCTIONS
    assert record["content"].startswith("<record-")
    titles = [title for title, _ in blocks_in(record["content"])]
    assert titles == ["previous summary", *(f"event {n}, agent, message" for n in range(20))]


def test_a_part_says_which_it_is_and_the_last_call_has_the_whole_previous_summary() -> None:
    model = MadeUpModel(echoed)
    stand_in = LLMSummary(model, max_input_tokens=1_500, ledger_chars=0, parallel=1)
    summary = stand_in.summarize(marked(30), "[m99] was done")
    *maps, last = model.requests
    for place, request in enumerate(maps, 1):
        assert f"This is part {place} of {len(maps)} of the record." in request
        assert "previous summary" not in [title for title, _ in blocks_in(request)]
    (before, text), *parts = blocks_in(last)
    assert (before, text) == ("previous summary", "[m99] was done")
    assert [text for _, text in parts] == [echoed(request).text for request in maps]
    told = summary.details["parts"]
    assert [title for title, _ in parts] == [
        f"summary of events {part['first']} to {part['last']}, part {n} of {len(maps)}"
        for n, part in enumerate(told, 1)
    ]
    for part in told:  # the events that it names, and no other
        marks = MARK.findall(part["summary"])
        assert marks == [f"[m{n}]" for n in range(part["first"], part["last"] + 1)]


def test_a_condensation_keeps_the_summaries_of_the_parts() -> None:
    model = MadeUpModel(lambda request: said("It went on. " * 40))
    condenser = LLMSummarizingCondenser(model, 100, max_input_tokens=1_500)
    outcome = condenser.condense(view_of(S(), U(), pairs(60, "word " * 100)))
    assert isinstance(outcome, Condensation)
    parts = (outcome.action.details or {})["parts"]
    assert parts == condenser.metadata["parts"]
    assert parts[0]["first"] == min(outcome.action.forgotten)
    assert parts[-1]["last"] == max(outcome.action.forgotten)
    assert {part["summary"] for part in parts} == {("It went on. " * 40).strip()}
    restored = event_from_dict(event_to_dict(outcome.action))
    assert isinstance(restored, CondensationAction)
    assert restored.details == outcome.action.details
    model.answer = lambda request: said("It went on. " * 400)
    outcome = LLMSummarizingCondenser(model, 100, max_input_tokens=9_000).condense(
        view_of(S(), U(), pairs(600, "word " * 100))
    )
    assert isinstance(outcome, Condensation)
    parts = (outcome.action.details or {})["parts"]
    assert 20_000 < sum(len(part["summary"]) for part in parts) <= 32_000


def test_a_template_is_rendered_for_each_part_and_for_the_whole() -> None:
    model = MadeUpModel(echoed)
    own = "{{ record }}\nBefore: {{ previous_summary }}"
    stand_in = LLMSummary(model, prompt=own, max_input_tokens=1_500, ledger_chars=0, parallel=1)
    stand_in.summarize(marked(30), "[m99] was done")
    *maps, last = (str(message["content"]) for (message,) in model.messages)
    assert len(maps) > 1
    for place, prompt in enumerate(maps, 1):
        assert prompt.startswith(f"This is part {place} of {len(maps)} of the record.")
        assert prompt.endswith("\nBefore: None")
    assert blocks_in(last)[1][0].startswith("summary of events 0 to ")
    assert last.endswith("\nBefore: [m99] was done")


@both
@pytest.mark.parametrize("seed", range(5))
def test_the_order_in_which_calls_end_makes_no_difference(summarize: Summarize, seed: int) -> None:
    turns = marked(60)
    one_by_one = MadeUpModel(echoed)
    expected = LLMSummary(one_by_one, max_input_tokens=1_000, parallel=1).summarize(turns, "[m99]")
    chance = random.Random(seed)
    model = Watched(echoed, lambda: chance.uniform(0, 0.004))
    stand_in = LLMSummary(model, max_input_tokens=1_000, parallel=3)
    assert summarize(stand_in, turns, "[m99]") == expected
    assert sorted(model.requests) == sorted(one_by_one.requests)
    assert len(model.requests) > 8
    assert model.most <= 3


@both
@pytest.mark.parametrize("parallel", [1, 2, 5])
def test_never_more_calls_at_once_than_allowed(summarize: Summarize, parallel: int) -> None:
    model = Watched(echoed, lambda: 0.01)
    summarize(LLMSummary(model, max_input_tokens=1_000, parallel=parallel), marked(60), None)
    assert model.most == parallel if summarize is in_a_loop else 1 <= model.most <= parallel
    assert model.most > 1 or parallel == 1
    assert _no_thread_is_left()


def _no_thread_is_left() -> bool:
    return not [t for t in threading.enumerate() if t.name.startswith("eventfold-calls")]


def test_one_after_the_other_needs_no_thread() -> None:
    callers = set()

    def answer(request: str) -> Reply:
        callers.add(threading.current_thread())
        return echoed(request)

    LLMSummary(MadeUpModel(answer), max_input_tokens=1_000, parallel=1).summarize(marked(60), None)
    assert callers == {threading.current_thread()}


def test_a_previous_summary_too_long_for_one_call_is_summarized_in_parts_as_well() -> None:
    model = MadeUpModel(echoed)
    stand_in = LLMSummary(model, max_input_tokens=1_500, ledger_chars=0, parallel=1)
    stand_in.summarize(marked(5), "[m99]" + " word" * 3_000)
    *maps, last = model.requests
    titles = [title for request in maps for title, _ in blocks_in(request)]
    assert titles[0].startswith("previous summary, part 1 of ")
    assert titles[-1] == "event 4, agent, message"
    assert blocks_in(last)[0][0] == f"summary of the previous summary, part 1 of {len(maps)}"


def test_long_summaries_end_in_one_call_all_the_same() -> None:
    """A previous summary, and summaries of parts, that each take more than half of a call."""
    for words in (400, 500):
        long = ("word " * words).strip()
        model = MadeUpModel(long)
        stand_in = LLMSummary(model, max_input_tokens=1_500, ledger_chars=0)
        assert stand_in.summarize(marked(60), long).text == long
        for messages in model.messages:
            assert TokenCounter(exact=False).count(messages) <= 1_500


def test_long_instructions_leave_some_room_for_a_record() -> None:
    """They alone are more than a call may have: it is tried all the same, in small parts."""
    model = MadeUpModel(echoed)
    stand_in = LLMSummary(model, prompt="Be short. " * 600, max_input_tokens=1_000, ledger_chars=0)
    assert len(MARK.findall(stand_in.summarize(marked(30), None).text)) == 30
    assert len(model.requests) < 20


FAULTS: dict[str, Exception | Reply] = {
    "error": RuntimeError("no credit"),
    "empty": said(" "),
    "cut off": Reply("It was beg", finish_reason="length"),
}


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@both
def test_a_failed_call_fails_the_summary_and_none_begins_after_it(
    summarize: Summarize, fault: Exception | Reply, parallel: int
) -> None:
    turns = marked(30, words=100)
    fine = MadeUpModel(echoed)
    LLMSummary(fine, max_input_tokens=1_200, parallel=1).summarize(turns, "[m99]")
    assert len(fine.requests) > 6
    for failing in fine.requests:

        def answer(request: str, failing: str = failing) -> Reply:
            if request != failing:
                return echoed(request)
            if isinstance(fault, Exception):
                raise fault
            return fault

        model = Watched(answer, lambda: 0)
        stand_in = LLMSummary(model, max_input_tokens=1_200, parallel=parallel)
        with pytest.raises(SummaryFailed, match=r"^the model('s answer is| failed: RuntimeError)"):
            summarize(stand_in, turns, "[m99]")
        assert failing in model.requests
        if parallel == 1:
            assert model.requests == fine.requests[: fine.requests.index(failing) + 1]
        assert model.running == 0
        assert _no_thread_is_left()


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize("at", range(5))
def test_where_a_part_fails_nothing_is_forgotten(fault: Exception | Reply, at: int) -> None:
    view = view_of(S(), U(), pairs(60, "word " * 100))

    def answer(request: str) -> Reply:
        if f"part {at + 1} of " not in request:
            return said("in short")
        if isinstance(fault, Exception):
            raise fault
        return fault

    condenser = LLMSummarizingCondenser(MadeUpModel(answer), 100, max_input_tokens=1_500)
    assert condenser.condense(view) is view
    assert asyncio.run(condenser.acondense(view)) is view
    assert view == view_of(S(), U(), pairs(60, "word " * 100))


def test_no_call_begins_once_another_has_failed() -> None:
    """The thread in which one has failed begins no other; the one that runs is waited for."""

    def answer(request: str) -> Reply:
        if "This is part 1 of " in request:
            raise RuntimeError("no credit")
        time.sleep(0.05)
        ended.append(request)
        return echoed(request)

    ended: list[str] = []
    model = MadeUpModel(answer)
    with pytest.raises(SummaryFailed, match="no credit"):
        LLMSummary(model, max_input_tokens=1_000, parallel=2).summarize(marked(60), None)
    assert len(model.requests) <= 2
    assert len(ended) == len(model.requests) - 1


def test_running_calls_are_cancelled_and_have_ended_when_one_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def failing() -> None:
        loop_errors: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: loop_errors.append(told))

        class Hanging(Watched):
            async def acompletion(self, messages: Any, **settings: Any) -> Reply:
                if "part 1 of " in str(messages):
                    await asyncio.sleep(0.005)
                    raise RuntimeError("no credit")
                return await super().acompletion(messages, **settings)

        model = Hanging(echoed, lambda: 60)
        stand_in = LLMSummary(model, max_input_tokens=1_000, parallel=4)
        with pytest.raises(SummaryFailed, match="no credit"):
            await stand_in.asummarize(marked(60), None)
        assert (model.running, model.most, model.cancelled) == (0, 3, 3)
        waiting = Watched(echoed, lambda: 60)
        stand_in = LLMSummary(waiting, max_input_tokens=1_000, parallel=4)
        task = asyncio.create_task(stand_in.asummarize(marked(60), None))
        await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (waiting.running, waiting.most, waiting.cancelled) == (0, 4, 4)
        gc.collect()
        assert loop_errors == []

    asyncio.run(failing(), debug=True)
    assert "never retrieved" not in caplog.text


@both
def test_of_several_failures_the_first_in_order_counts(summarize: Summarize) -> None:
    """Whichever is known first: an overflow is answered by smaller parts, any other is final."""

    def answer(request: str) -> Reply:
        if "part 2 of " in request:
            raise RuntimeError("no credit")
        raise OVERFLOW if "part 3 of " in request else AssertionError

    slow_first = iter([0.02, 0.02, 0.0, 0.02])
    model = Watched(
        lambda request: echoed(request) if "part 1 of " in request else answer(request),
        lambda: next(slow_first) if summarize is in_threads else 0,
    )
    stand_in = LLMSummary(model, max_input_tokens=1_000, parallel=3)
    with pytest.raises(SummaryFailed, match="no credit"):
        summarize(stand_in, marked(60), None)


@both
def test_a_slow_refusal_counts_before_a_quick_failure_of_a_later_call(summarize: Summarize) -> None:
    """Part 2 is refused as too long while part 3 has long failed: all is given anew."""

    def answer(request: str) -> Reply:
        if len(request) > 2_500 and "part 2 of " in request:
            raise OVERFLOW
        if len(request) > 2_500 and "part 3 of " in request:
            raise RuntimeError("no credit")
        return echoed(request)

    class SlowSecond(MadeUpModel):
        def completion(self, messages: Any, **settings: Any) -> Reply:
            if "part 2 of " in str(messages):
                time.sleep(0.05)
            return super().completion(messages, **settings)

        async def acompletion(self, messages: Any, **settings: Any) -> Reply:
            if "part 2 of " in str(messages):
                await asyncio.sleep(0.05)
            return super().completion(messages, **settings)

    model = SlowSecond(answer)
    stand_in = LLMSummary(model, max_input_tokens=1_600, ledger_chars=0, parallel=3)
    words = summarize(stand_in, marked(60), None).text
    assert len(MARK.findall(words)) == 60
    assert any(len(r) > 2_500 and "part 3 of " in r for r in model.requests)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=6), st.integers(1, 6))
def test_the_first_failure_in_order_is_raised_whichever_comes_first(
    calls: list[tuple[int, bool]], parallel: int
) -> None:
    """Each call takes so many rounds of the loop, or milliseconds of a thread."""
    places = range(len(calls))
    expected = next((str(place) for place in places if calls[place][1]), None)

    def outcome(place: int) -> int:
        if calls[place][1]:
            raise RuntimeError(place)
        return place

    def call(place: int) -> int:
        time.sleep(calls[place][0] / 1_000)
        return outcome(place)

    async def acall(place: int) -> int:
        for _ in range(calls[place][0]):
            await asyncio.sleep(0)
        return outcome(place)

    both_ways: list[Callable[[], list[int]]] = [
        lambda: call_each(call, places, parallel),
        lambda: asyncio.run(acall_each(acall, places, parallel)),
    ]
    for each in both_ways:
        if expected is None:
            assert each() == list(places)
            continue
        with pytest.raises(RuntimeError) as failure:
            each()
        assert str(failure.value) == expected


def test_a_cancelled_call_is_left_to_end() -> None:
    """Two earlier calls fail one after the other: the third is cancelled only once."""
    ended: list[int] = []

    async def acall(place: int) -> None:
        if place < 2:
            await asyncio.sleep(0.03 - 0.02 * place)
            raise RuntimeError(place)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.append(place)

    with pytest.raises(RuntimeError, match="0"):
        asyncio.run(acall_each(acall, range(3), 3))
    assert ended == [2]


@both
def test_a_call_refused_as_too_long_is_made_anew_with_half_the_limit(summarize: Summarize) -> None:
    """Whichever call it is: of a part, or of the summaries of parts."""
    for refused in ("This is part 2 of ", "summaries of its parts"):

        def answer(request: str, refused: str = refused) -> Reply:
            if refused in request and len(request) > 16_000:
                raise OVERFLOW
            return echoed(request)

        model = MadeUpModel(answer)
        previous = "[m1000]" + " word" * 4_000
        stand_in = LLMSummary(model, max_input_tokens=8_000, ledger_chars=0)
        words = summarize(stand_in, marked(200), previous).text
        assert len(MARK.findall(words)) == 201
        too_long = [r for r in model.requests if refused in r and len(r) > 16_000]
        assert len(too_long) == 1


@both
def test_summaries_that_do_not_get_shorter_are_given_up(summarize: Summarize) -> None:
    """It ends, whatever a model says; and the reason is told."""
    for says in (said, lambda request: said("word " * 5_000)):
        model = MadeUpModel(says)
        with pytest.raises(SummaryFailed, match="do not get short enough for one call"):
            summarize(LLMSummary(model, max_input_tokens=1_000), marked(60), None)
        assert len(model.requests) < 1_000


@given(
    st.integers(500, 2_000),
    st.integers(1, 900),
    st.integers(0, 900),
    st.integers(1, 30),
)
def test_it_ends_whatever_the_length_of_the_answers(
    limit: int, words: int, before: int, turns: int
) -> None:
    model = MadeUpModel(("word " * words).strip())
    stand_in = LLMSummary(model, max_input_tokens=limit, ledger_chars=0, parallel=1)
    with contextlib.suppress(SummaryFailed):
        summary = stand_in.summarize(marked(turns), "word " * before or None)
        assert summary.text == model.answer
    assert len(model.requests) < 1_000


@both
def test_a_very_long_history_is_summarized_in_few_levels(summarize: Summarize) -> None:
    """400,000 tokens, with a window of 32,000."""
    turns = marked(800, words=450)
    tokens = TokenCounter().count(
        [{"role": "user", "content": block.text} for block in record_of(turns)]
    )
    assert tokens > 360_000
    model = MadeUpModel(
        lambda request: said(echoed(request).text + " and so on" * 100), context_window=32_000
    )
    words = summarize(LLMSummary(model, ledger_chars=0), turns, None).text
    assert len(MARK.findall(words)) == 800
    assert len(model.requests) < 40
    levels = {re.sub(r"part \d+", "", line) for line in _notes(model.requests)}
    assert len(levels) <= 3
    assert all(TokenCounter().count(request) < 32_000 for request in model.messages)


def _notes(requests: list[str]) -> list[str]:
    """What stands before the records."""
    return [request.removeprefix(INSTRUCTIONS).partition("<record-")[0] for request in requests]


@both
def test_each_call_of_an_llm_is_counted_once(summarize: Summarize) -> None:
    """Over HTTP, with failures that pass."""
    with HostileProvider(rate_limited(0.01), cut_body, *[answer("in short")] * 100) as provider:
        config = {"model": "openai/m", "api_base": provider.url, "api_key": "k"}
        llm = LLM({**config, "retry_min_wait": 0.01, "retry_max_wait": 0.02})
        summarize(LLMSummary(llm, max_input_tokens=1_000, parallel=4), marked(60), None)
        total = llm.metrics.total
        each: dict[str, Any] = USAGE
        assert total.calls + total.retries == len(provider.requests)
        assert total.retries == 2
        assert total.calls > 10
        assert total.spent.usage.input_tokens == total.calls * each["prompt_tokens"]


@pytest.mark.parametrize("parallel", [0, -1])
def test_parallel_is_a_number_of_calls(parallel: int) -> None:
    with pytest.raises(InvalidArgument, match="parallel is a number of calls"):
        LLMSummary(MadeUpModel(), parallel=parallel)
    with pytest.raises(InvalidConfig, match="parallel"):
        condenser_from_config({"type": "llm", "parallel": parallel}, llm=MadeUpModel())


def test_parallel_is_configured() -> None:
    condenser = condenser_from_config({"type": "llm", "parallel": 2}, llm=MadeUpModel())
    assert isinstance(condenser, LLMSummarizingCondenser)
    assert isinstance(condenser.stand_in, LLMSummary)
    assert condenser.stand_in.parallel == 2


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


def test_a_model_that_only_blocks_is_enough_where_nothing_is_awaited() -> None:
    class Blocking:
        context_window = None

        def completion(self, messages: Any, **settings: Any) -> Reply:
            return said("in short")

    class Short:
        def summarize(self, forgotten: Sequence[Turn], previous: str | None) -> str:
            return "shorter"

    blocking: Any = Blocking()
    view = view_of(S(), U(), pairs(6, "word " * 40))
    condenser = LLMSummarizingCondenser(blocking, 10, ledger_chars=0)
    assert summary(condenser.condense(view)) == "in short"
    short: Any = Short()
    condenser.stand_in = short
    assert summary(condenser.condense(view)) == "shorter"


def test_steps_end_where_an_interrupt_breaks_them_off() -> None:
    def steps(ended: list[str]) -> Steps[None]:
        try:
            yield Ask(interrupted, cancelled)
        finally:
            ended.append("closed")

    def interrupted() -> None:
        raise KeyboardInterrupt

    async def cancelled() -> None:
        raise asyncio.CancelledError

    async def awaited(steps: Steps[None]) -> None:
        with pytest.raises(asyncio.CancelledError):
            await arun(steps)

    at_once: list[str] = []
    later: list[str] = []
    blocking, awaiting = (
        steps(at_once),
        steps(later),
    )  # as long as they are held, none else ends them
    with pytest.raises(KeyboardInterrupt):
        run(blocking)
    asyncio.run(awaited(awaiting))
    assert at_once == later == ["closed"]


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


def test_what_a_model_thought_before_it_answered_is_no_part_of_the_summary() -> None:
    model = MadeUpModel("<think>Let me see: much.</think>\nin short")
    condenser = LLMSummarizingCondenser(model, 10, ledger_chars=0)
    assert summary(condenser.condense(view_of(S(), U(), pairs(6)))) == "in short"


# ---------------------------------------------------------------------- looking it up


def test_what_tells_of_a_forgotten_event_is_found_by_its_id() -> None:
    """In parts: its part, then the summary of the whole, then the one that took its place."""
    events = log(S(), U(), pairs(30, "word " * 100))
    model = MadeUpModel(lambda request: Reply(f"said {len(model.requests)}", finish_reason="stop"))
    condenser = LLMSummarizingCondenser(
        model, 20, ledger_chars=0, max_input_tokens=1_500, parallel=1
    )
    stream = EventStream("s")
    stream.extend(events)
    context = AgentContext(stream, condenser)
    context.messages()
    (first,) = context.condensations
    assert first.details is not None
    parts = first.details["parts"]
    assert len(parts) > 1
    whole = f"said {len(model.requests)}"
    for number, part in enumerate(parts, 1):
        assert told_of(part["first"], stream) == [f"said {number}", whole]
        assert told_of(part["last"], stream) == [f"said {number}", whole]
    assert told_of(0, stream) == told_of(1, stream) == told_of(61, stream) == []
    stream.append(CondensationRequestAction())
    context.messages()
    newest = f"said {len(model.requests)}"
    assert told_of(parts[0]["first"], stream) == ["said 1", whole, newest]
