"""A real model behind eventfold: real refusals, real token counts, real streams.

What the model says is never asked, only what becomes of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventfold.condensers import (
    AgentContext,
    Condenser,
    ConversationWindowCondenser,
    LLMSummarizingCondenser,
)
from eventfold.condensers.llm import LLM, LLMError
from eventfold.events import CondensationAction, EventSource, EventStream, MessageAction
from eventfold.memory import Budget, Reply, TokenCounter
from eventfold.memory.message import ChatDict
from tests.logs import A, O, S, U, log
from tests.real_llm import config, real_llm, real_llm_python

pytestmark = pytest.mark.real_llm

WINDOW = 512  # tokens
USER = EventSource.USER


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with real_llm(real_llm_python(), WINDOW) as address:
        yield address


def says(content: str) -> list[ChatDict]:
    return [{"role": "user", "content": content}]


def session(*messages: str) -> EventStream:
    stream = EventStream("s")
    stream.extend(MessageAction(text, source=USER) for text in messages)
    return stream


def condensations(stream: EventStream) -> list[CondensationAction]:
    return [event for event in stream if isinstance(event, CondensationAction)]


# What takes seconds


def test_a_summary_takes_the_place_of_what_is_forgotten(url: str) -> None:
    llm = LLM(config(url))
    turns = [A("r1", "a"), O("a", "slug.py"), A("r2", "b"), O("b", "1 failed")]
    stream = EventStream("s")
    stream.extend(
        event.replace(id=-1) for event in log(S(), U("Fix the test."), *turns, U("Go on."))
    )
    context = AgentContext(stream, LLMSummarizingCondenser(llm, max_size=4))
    messages = context.messages()
    (condensed,) = condensations(stream)
    assert condensed.summary
    assert any(condensed.summary.split("\n")[0] in str(message) for message in messages)
    assert "slug.py" not in str(messages[-1])
    used = llm.metrics.total.spent.usage
    assert 200 < used.input_tokens < WINDOW
    assert used.output_tokens > 0


def test_an_overflow_is_condensed_away(url: str) -> None:
    llm = LLM(config(url))
    stream = session(*(f"{n}: nothing new here. " * 5 for n in range(16)))
    context = AgentContext(stream, ConversationWindowCondenser())
    with pytest.raises(LLMError) as refusal:
        llm.completion(context.messages())
    assert context.overflowed(refusal.value)
    reply = llm.completion(context.messages())
    assert len(condensations(stream)) == 1
    assert reply.text
    assert reply.usage is not None
    assert 100 < reply.usage.input_tokens < WINDOW
    (action,) = context.record(reply)
    assert isinstance(action, MessageAction)
    assert action.content == reply.text
    assert action.llm_metrics is not None
    assert action.llm_metrics["usage"]["prompt_tokens"] == reply.usage.input_tokens


def test_a_stream_ends_in_a_reply_and_may_be_refused(url: str) -> None:
    llm = LLM(config(url, stream=True))
    reply = llm.completion(says("Count to ten."))
    assert reply.text
    assert reply.finish_reason == "stop"
    assert reply.usage is not None
    assert reply.usage.output_tokens > 0
    context = AgentContext(session("Count."), ConversationWindowCondenser())
    with pytest.raises(LLMError) as refusal:
        llm.completion(says("word " * 1000))
    assert context.overflowed(refusal.value)


def test_an_answer_that_is_cut_off_says_so(url: str) -> None:
    reply = LLM(config(url, max_output_tokens=2)).completion(says("Count to ten."))
    assert reply.finish_reason == "length"
    assert reply.text


def test_an_answer_keeps_a_schema(url: str) -> None:
    schema = {
        "type": "object",
        "properties": {"done": {"type": "boolean"}, "left": {"enum": [1, 2, 3]}},
        "required": ["done", "left"],
        "additionalProperties": False,
    }
    reply = LLM(config(url, extra={})).completion(
        says("Is it done, and how many tasks are left?"),
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "state", "schema": schema, "strict": True},
        },
    )
    answer = json.loads(reply.text)
    assert type(answer["done"]) is bool
    assert answer["left"] in (1, 2, 3)


def test_the_server_ends_with_the_tests_however_they_end() -> None:
    code = f"""
import time
from real_llm import real_llm
with real_llm({real_llm_python()!r}, 256) as address:
    print(address, flush=True)
    time.sleep(60)
"""
    command = [sys.executable, "-c", code]
    folder = Path(__file__).parent
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as tests:
        assert tests.stdout is not None
        address = tests.stdout.readline().strip()
        assert answers(address)
        tests.kill()
    until = time.monotonic() + 10
    while answers(address):
        assert time.monotonic() < until, "the server is still there"
        time.sleep(0.05)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address + "/health", timeout=5):
            return True
    except OSError:
        return False


# What takes minutes

LONG_WINDOW = 1024


@pytest.fixture
def long_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Skips but where the mark is asked for."""
    if "real_llm_long" not in str(request.config.getoption("-m")):
        pytest.skip("takes minutes: ask for it with `-m real_llm_long`")
    with real_llm(real_llm_python(), LONG_WINDOW) as address:
        yield address


def converse(llm: LLM, context: AgentContext, answers: int) -> tuple[list[Reply], int]:
    """A conversation of so many answers: these, and how many prompts were refused on the way."""
    refused = 0
    replies: list[Reply] = []
    while len(replies) < answers:
        try:
            reply = llm.completion(context.messages())
        except LLMError as error:
            if not context.overflowed(error):
                raise
            refused += 1
            continue
        replies.append(reply)
        context.record(reply)
        step = len(replies)
        shown = "".join(f"src/part_{n}.py:{step * n}: E501 too long\n" for n in range(4))
        context.stream.append(MessageAction(f"Step {step}.\n{shown}Go on.", source=USER))
    return replies, refused


@pytest.mark.real_llm_long
@pytest.mark.parametrize("summarizes", [False, True])
def test_overflows_alone_drive_condensation(long_url: str, summarizes: bool) -> None:
    summarizer = LLM(config(long_url))
    condenser: Condenser = ConversationWindowCondenser()
    if summarizes:
        condenser = LLMSummarizingCondenser(summarizer, max_input_tokens=600)
    context = AgentContext(session("Name each line that is too long."), condenser)
    replies, refused = converse(LLM(config(long_url)), context, 60)
    assert refused > 2
    assert len(condensations(context.stream)) == refused
    assert all(reply.usage and reply.usage.input_tokens < LONG_WINDOW for reply in replies)
    assert (summarizer.metrics.total.calls > 0) == summarizes


@pytest.mark.real_llm_long
def test_a_calibrated_counter_comes_near_what_the_model_counts(long_url: str) -> None:
    """The counter is OpenAI's and counts less than this model: until it is calibrated."""
    llm = LLM(config(long_url, context_window=LONG_WINDOW, max_output_tokens=30))
    context = AgentContext(
        session("Name each line that is too long."),
        ConversationWindowCondenser(),
        budget=Budget(LONG_WINDOW, reserved_output=30),
    )
    _, refused = converse(llm, context, 30)
    assert refused <= 1
    assert len(condensations(context.stream)) > 2
    messages = context.messages()
    reply = llm.completion(messages)
    assert reply.usage is not None
    assert context.budget is not None
    counter, reported = context.budget.counter, reply.usage.input_tokens
    assert counter.calibration > 1
    assert abs(counter.count(messages) - reported) < abs(TokenCounter().count(messages) - reported)
