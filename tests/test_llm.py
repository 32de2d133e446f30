"""The language model: every way in which a provider fails, and what is made of it.

The provider is real HTTP on loopback, asked by litellm's own client.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from eventfold.condensers import LLM, LLMConfig
from eventfold.condensers.errors import ErrorKind, is_context_overflow
from eventfold.condensers.llm_call import LLMError
from eventfold.condensers.metrics import CallMetrics, Metrics, Spent
from eventfold.condensers.redaction import HIDDEN, hidden
from eventfold.events import InvalidArgument
from eventfold.memory import Reply
from eventfold.memory.message import ChatDict, Usage
from tests.providers import hostile
from tests.providers.hostile import OVERFLOWS, Fault, HostileProvider, answer, error, rate_limited

KEY = "kk-4f9a71c2-very-secret-e83b55d0"
HELLO: list[ChatDict] = [{"role": "user", "content": "hi"}]
SPENT = Usage(input_tokens=100, output_tokens=20, cache_read_tokens=40)


def model(provider: HostileProvider, **settings: Any) -> LLM:
    given = {
        "model": "openai/hostile",
        "api_base": provider.url,
        "api_key": KEY,
        "timeout": 10,
        "retry_min_wait": 0.01,
        "retry_max_wait": 0.02,
    }
    return LLM(given | settings)


Ask = Callable[..., Reply]


def ask(llm: LLM, messages: list[ChatDict] = HELLO, **settings: Any) -> Reply:
    return llm.completion(messages, **settings)


def ask_async(llm: LLM, messages: list[ChatDict] = HELLO, **settings: Any) -> Reply:
    return asyncio.run(llm.acompletion(messages, **settings))


@pytest.fixture(params=[ask, ask_async], ids=["sync", "async"])
def way(request: pytest.FixtureRequest) -> Ask:
    found: Ask = request.param
    return found


def failure(llm: LLM, way: Ask = ask, **settings: Any) -> LLMError:
    with pytest.raises(LLMError) as caught:
        way(llm, **settings)
    return caught.value


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """What litellm imports late is no part of the short times here."""
    with HostileProvider() as provider:
        for stream in (False, True):
            for one in (ask, ask_async):
                one(model(provider, timeout=60, stream=stream))


# ---------------------------------------------------------------------- faults that pass

PASSING: dict[str, Fault] = {
    "429 with Retry-After in seconds": rate_limited(0.05),
    "429 with a past date": rate_limited(hostile.http_date(-60)),
    "429 with a Retry-After of nonsense": rate_limited("soon"),
    "429 without Retry-After": rate_limited(),
    "500": error(500, "The server had an error"),
    "503": error(503, "Service unavailable"),
    "529": error(529, "Overloaded"),
    "reset in the body": hostile.reset_in_body,
    "closed in the body": hostile.cut_body,
    "garbage": hostile.garbage,
    "no choices": hostile.empty_choices(),
}

PASSING_STREAMS: dict[str, Fault] = {
    "429": rate_limited(0.05),
    "500": error(500, "The server had an error"),
    "no choices": hostile.empty_choices(),
    "dies in the middle": hostile.dying_stream,
    "ends too early": hostile.unfinished_stream,
    "error in the middle": hostile.error_in_stream,
    "garbage in the middle": hostile.garbage_stream,
    "no stream at all": hostile.garbage,
}


@pytest.mark.parametrize("name", PASSING)
def test_a_fault_that_passes_is_followed_by_another_try(name: str, way: Ask) -> None:
    with HostileProvider(PASSING[name]) as provider:
        llm = model(provider)
        assert way(llm).text == "hello"
        assert len(provider.requests) == 2
        (call,) = llm.metrics.calls
    assert (call.tries, call.error) == (2, None)


@pytest.mark.parametrize("fault", [hostile.hang, hostile.hang_in_body, hostile.drip])
def test_so_is_one_that_takes_too_long(fault: Fault, way: Ask) -> None:
    with HostileProvider(fault) as provider:
        assert way(model(provider, timeout=0.5)).text == "hello"
        assert len(provider.requests) >= 2


@pytest.mark.parametrize("name", PASSING_STREAMS)
def test_so_it_is_where_the_answer_is_streamed(name: str, way: Ask) -> None:
    with HostileProvider(PASSING_STREAMS[name]) as provider:
        llm = model(provider, stream=True)
        assert way(llm).text == "hello"
        assert len(provider.requests) == 2


@pytest.mark.parametrize("fault", [hostile.hang, hostile.slow_stream])
def test_and_a_stream_that_takes_too_long(fault: Fault, way: Ask) -> None:
    with HostileProvider(fault) as provider:
        assert way(model(provider, stream=True, timeout=0.5)).text == "hello"
        assert len(provider.requests) >= 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_timeout_holds_for_the_whole_try(stream: bool, way: Ask) -> None:
    with HostileProvider(hostile.slow_stream if stream else hostile.drip) as provider:
        started = time.monotonic()
        failed = failure(model(provider, tries=1, timeout=0.3, stream=stream), way)
        assert time.monotonic() - started < 2
    assert failed.kind is ErrorKind.TRANSIENT
    assert "timed out" in str(failed)


def test_tries_are_bounded(way: Ask) -> None:
    with HostileProvider(*[error(500, "boom")] * 9) as provider:
        llm = model(provider, tries=3)
        failed = failure(llm, way)
        assert len(provider.requests) == 3
    assert (failed.kind, failed.tries, failed.model) == (ErrorKind.TRANSIENT, 3, "openai/hostile")
    assert "3 tries" in str(failed)
    assert "boom" in str(failed)
    assert type(failed.__cause__).__name__ == "InternalServerError"
    total = llm.metrics.total
    assert (total.calls, total.failures, total.retries) == (1, 1, 2)


def test_so_is_their_total_time(way: Ask) -> None:
    with HostileProvider(*[hostile.hang] * 9) as provider:
        started = time.monotonic()
        failure(model(provider, tries=9, timeout=0.3, max_seconds=0.5), way)
        assert time.monotonic() - started < 2
        assert len(provider.requests) <= 4


@pytest.mark.parametrize("dated", [False, True])
def test_a_wait_that_the_provider_asks_for_is_kept(dated: bool, way: Ask) -> None:
    with HostileProvider(rate_limited(hostile.http_date(1.3) if dated else 0.3)) as provider:
        assert way(model(provider)).text == "hello"
        first, second = provider.requests
    assert second.at - first.at >= 0.25  # a date is in whole seconds


def test_a_wait_beyond_the_total_time_is_not_begun(way: Ask) -> None:
    with HostileProvider(rate_limited(3600)) as provider:
        started = time.monotonic()
        failed = failure(model(provider), way)
        assert time.monotonic() - started < 2
        assert len(provider.requests) == 1
    assert failed.kind is ErrorKind.RATE_LIMIT
    assert "it asks to wait 3600 s" in str(failed)


# ---------------------------------------------------------------------- faults that stay

STAYING: dict[str, tuple[Fault, ErrorKind]] = {
    "a wrong key": (error(401, "Invalid token", code="invalid_api_key"), ErrorKind.AUTH),
    "no permission": (error(403, "Not allowed"), ErrorKind.AUTH),
    "refused": (hostile.refused(), ErrorKind.REFUSED),
    "malformed": (hostile.malformed(), ErrorKind.MALFORMED_HISTORY),
    "no such model": (error(404, "no model of this name"), ErrorKind.OTHER),
}


@pytest.mark.parametrize("name", STAYING)
def test_what_cannot_succeed_is_not_tried_again(name: str, way: Ask) -> None:
    fault, kind = STAYING[name]
    with HostileProvider(fault) as provider:
        failed = failure(model(provider), way)
        assert len(provider.requests) == 1
    assert failed.kind is kind
    assert not is_context_overflow(failed)


@pytest.mark.parametrize("said", OVERFLOWS)
def test_an_overflow_stays_one(said: str) -> None:
    with HostileProvider(hostile.overflow(said)) as provider:
        failed = failure(model(provider, stream=len(said) % 2 == 0))
        assert len(provider.requests) == 1
    assert failed.kind is ErrorKind.CONTEXT_OVERFLOW
    assert is_context_overflow(failed)


def test_a_reserved_output_that_is_too_large_is_halved(way: Ask) -> None:
    said = "max_tokens is too large: {}. This model supports at most 4096 completion tokens."
    faults = [error(400, said.format(tokens)) for tokens in (16_000, 8_000)]
    with HostileProvider(*faults) as provider:
        assert way(model(provider, max_output_tokens=16_000)).text == "hello"
        assert [request.body["max_tokens"] for request in provider.requests] == [16000, 8000, 4000]


# ---------------------------------------------------------------------- answers

ANSWERS: dict[str, tuple[Fault, str, str]] = {
    "null content": (answer(None), "", "stop"),
    "no text": (answer(""), "", "stop"),
    "cut off": (hostile.cut_off(), "It was beg", "length"),
    "refused in the answer": (
        answer("I cannot", finish_reason="content_filter"),
        "I cannot",
        "content_filter",
    ),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_odd_answer_is_returned_as_it_is(name: str, stream: bool, way: Ask) -> None:
    fault, text, reason = ANSWERS[name]
    with HostileProvider(fault) as provider:
        reply = way(model(provider, stream=stream))
        assert len(provider.requests) == 1
    assert (reply.text, reply.finish_reason, reply.usage) == (text, reason, SPENT)
    assert reply.tool_calls == ()


@pytest.mark.parametrize("stream", [False, True])
def test_broken_arguments_of_a_tool_call_stay_as_the_model_wrote_them(
    stream: bool, way: Ask
) -> None:
    with HostileProvider(hostile.broken_arguments()) as provider:
        reply = way(model(provider, stream=stream))
    (call,) = reply.tool_calls
    assert (call.id, call.name, call.arguments) == ("call_1", "run", '{"command": "ls')
    assert reply.finish_reason == "tool_calls"
    assert reply.raw.choices[0].message.tool_calls[0].id == "call_1"


@pytest.mark.parametrize("stream", [False, True])
def test_parallel_calls_come_in_order_with_their_text(stream: bool, way: Ask) -> None:
    arguments = ['{"command": "ls"}', '{"command": "pwd"}']
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": "run", "arguments": one}}
        for at, one in enumerate(arguments)
    ]
    said = answer("Let me look.", finish_reason="tool_calls", tool_calls=calls)
    with HostileProvider(said) as provider:
        reply = way(model(provider, stream=stream))
    assert reply.text == "Let me look."
    assert [call.id for call in reply.tool_calls] == ["call_0", "call_1"]
    assert [call.arguments for call in reply.tool_calls] == arguments


def test_what_is_asked_arrives_and_is_not_changed(way: Ask) -> None:
    marked = {"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}
    messages: list[ChatDict] = [{"role": "system", "content": [marked]}, *HELLO]
    function = {"name": "run", "parameters": {"type": "object", "properties": {}}}
    tools: list[ChatDict] = [{"type": "function", "function": function}]
    before = json.dumps([messages, tools])
    with HostileProvider() as provider:
        llm = model(provider, temperature=0.5, extra={"top_p": 0.9, "seed": 7})
        settings = {"tool_choice": "auto", "response_format": {"type": "json_object"}}
        way(llm, messages, tools=tools, max_output_tokens=50, **settings)
        way(llm.replace(prompt_caching=False), messages)
        first, second = (request.body for request in provider.requests)
    assert json.dumps([messages, tools]) == before
    assert first["model"] == "hostile"
    assert first["tools"] == tools
    assert first["messages"][1] == HELLO[0]
    assert {name: first[name] for name in ("temperature", "top_p", "seed", "max_tokens")} == {
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "max_tokens": 50,
    }
    assert {name: first[name] for name in settings} == settings
    assert "cache_control" not in json.dumps(second)
    assert "tools" not in second


# ---------------------------------------------------------------------- fallbacks


def test_another_model_answers_where_this_one_failed(way: Ask) -> None:
    with HostileProvider(*[error(500, "boom")] * 2) as provider, HostileProvider() as other:
        fallback = {"model": "openai/other", "api_base": other.url, "api_key": "other-key-1234"}
        llm = model(provider, tries=2, fallbacks=[fallback])
        assert way(llm).text == "hello"
        assert (len(provider.requests), len(other.requests)) == (2, 1)
        assert other.requests[0].headers["Authorization"] == "Bearer other-key-1234"
    failed, answered = llm.metrics.calls
    assert (failed.model, failed.error) == ("openai/hostile", ErrorKind.TRANSIENT)
    assert (answered.model, answered.error) == ("openai/other", None)


def test_a_name_stands_for_another_model_of_the_same_provider(way: Ask) -> None:
    with HostileProvider(error(404, "no such model")) as provider:
        assert way(model(provider, fallbacks=["openai/other"])).text == "hello"
        asked = [request.body["model"] for request in provider.requests]
        keys = {request.headers["Authorization"] for request in provider.requests}
    assert asked == ["hostile", "other"]
    assert keys == {f"Bearer {KEY}"}


def test_a_key_is_not_sent_to_another_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    with HostileProvider(error(500, "boom")) as provider, HostileProvider() as other:
        monkeypatch.setenv("DEEPSEEK_API_BASE", other.url)
        monkeypatch.setenv("DEEPSEEK_API_KEY", "key-of-the-other")
        llm = model(provider, tries=1, fallbacks=["deepseek/deepseek-chat"])
        assert llm.completion(HELLO).text == "hello"
        assert other.requests[0].headers["Authorization"] == "Bearer key-of-the-other"


@pytest.mark.parametrize(
    ("fault", "window", "asked"),
    [
        (hostile.malformed(), 100_000, 0),
        (hostile.overflow(), 1_000, 0),
        (hostile.overflow(), None, 0),
        (hostile.overflow(), 100_000, 1),
        (hostile.refused(), None, 1),
        (error(401, "wrong key"), None, 1),
    ],
)
def test_another_model_is_asked_only_if_it_may_do_better(
    fault: Fault, window: int | None, asked: int
) -> None:
    with HostileProvider(fault) as provider, HostileProvider() as other:
        fallback = {"model": "openai/o", "api_base": other.url, "api_key": KEY}
        fallbacks = [fallback | {"context_window": window}]
        llm = model(provider, context_window=1_000, fallbacks=fallbacks)
        if asked:
            assert llm.completion(HELLO).text == "hello"
        else:
            failure(llm)
        assert len(other.requests) == asked


def test_where_all_fail_the_last_failure_is_raised_and_names_the_others() -> None:
    with HostileProvider(*[error(500, "boom")] * 2) as provider:
        failed = failure(model(provider, tries=1, fallbacks=["openai/other"]))
    assert failed.model == "openai/other"
    assert failed.__notes__ == ["before it, openai/hostile failed: transient"]


# ---------------------------------------------------------------------- what it costs


def test_tokens_of_each_response_are_counted_once(way: Ask) -> None:
    with HostileProvider(hostile.empty_choices(), rate_limited(), answer()) as provider:
        llm = model(provider)
        assert way(llm).usage == SPENT
        way(llm)
    both = Spent(Usage(200, 40, 80), 10, None)
    one = Spent(SPENT, 5, None)
    assert [call.spent for call in llm.metrics.calls] == [both, one]
    total = llm.metrics.total
    assert total.spent == Spent(Usage(300, 60, 120), 15, 0.0)
    assert (total.calls, total.retries, total.failures, total.unpriced) == (2, 2, 0, 2)
    assert total.seconds > 0


def test_so_are_those_of_a_stream_that_died(way: Ask) -> None:
    with HostileProvider(hostile.dying_stream) as provider:
        llm = model(provider, stream=True)
        way(llm)
        (call,) = llm.metrics.calls
    assert call.spent.usage == Usage(200, 21, 40)


@pytest.mark.parametrize("stream", [False, True])
def test_usage_that_is_not_reported_is_not_invented(stream: bool, way: Ask) -> None:
    with HostileProvider(answer(usage=None)) as provider:
        llm = model(provider, stream=stream)
        assert way(llm).usage is None
    assert llm.metrics.total.spent == Spent()


@pytest.mark.parametrize("stream", [False, True])
def test_dollars_come_from_the_price_map(stream: bool, way: Ask) -> None:
    with HostileProvider(answer(model="gpt-4o")) as provider:
        llm = model(provider, model="openai/gpt-4o", stream=stream)
        way(llm)
    (call,) = llm.metrics.calls
    # Input at 2.50, cached at 1.25, output at 10 dollars a million
    assert call.spent.dollars == pytest.approx((60 * 2.5 + 40 * 1.25 + 20 * 10) / 1e6)
    assert llm.metrics.total.unpriced == 0


def test_metrics_are_bounded_and_sum_from_several_threads() -> None:
    metrics = Metrics(keep=10)
    call = CallMetrics("m", Spent(Usage(1, 2, 3, 4), 5, 0.25), 0.5, 2)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(metrics.add, [call] * 400))
    total = metrics.total
    assert len(metrics.calls) == 10
    assert (total.calls, total.retries, total.seconds) == (400, 400, 200)
    assert total.spent == Spent(Usage(400, 800, 1200, 1600), 2000, 100.0)


def test_calls_of_one_model_from_many_threads() -> None:
    with HostileProvider(*[rate_limited(0.01)] * 4) as provider:
        llm = model(provider)
        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda _: llm.completion(HELLO), range(16)))
    assert {reply.text for reply in replies} == {"hello"}
    assert llm.metrics.total.spent.usage == Usage(1600, 320, 640)


def test_a_call_that_is_cancelled_ends_and_is_counted() -> None:
    async def cancelled(llm: LLM) -> None:
        async with asyncio.timeout(0.2):
            await llm.acompletion(HELLO)

    with HostileProvider(hostile.hang) as provider:
        llm = model(provider)
        with pytest.raises(TimeoutError):
            asyncio.run(cancelled(llm))
        assert len(provider.requests) == 1
    assert llm.metrics.total.failures == 1


# ---------------------------------------------------------------------- limits


def test_windows_come_from_the_map_or_from_the_configuration() -> None:
    known = LLM("anthropic/claude-sonnet-4-5")
    assert (known.context_window, known.output_limit) == (200_000, 64_000)
    assert LLM("openrouter/anthropic/claude-sonnet-4-5").context_window is not None
    given = known.replace(context_window=1_000, output_limit=100)
    assert (given.context_window, given.output_limit) == (1_000, 100)
    assert LLM("openai/nobody-knows").context_window is None


def test_a_budget_reserves_the_output() -> None:
    llm = LLM({"model": "openai/nobody-knows", "context_window": 8_000})
    assert (llm.budget().window, llm.budget().reserved_output) == (8_000, 2_000)
    assert llm.replace(output_limit=500).budget().reserved_output == 500
    assert llm.replace(max_output_tokens=1_000).budget().reserved_output == 1_000
    assert llm.replace(max_output_tokens=9_000).budget().reserved_output == 4_000
    tools: list[ChatDict] = [{"type": "function", "function": {"name": "run"}}]
    assert llm.budget(tools).overhead > 0
    with pytest.raises(InvalidArgument, match="context_window"):
        LLM("openai/nobody-knows").budget()


def test_no_more_output_is_asked_for_than_the_model_can_make() -> None:
    with HostileProvider() as provider:
        llm = model(provider, output_limit=300, max_output_tokens=200)
        llm.completion(HELLO)
        llm.completion(HELLO, max_output_tokens=9_999)
        assert [request.body["max_tokens"] for request in provider.requests] == [200, 300]


# ---------------------------------------------------------------------- configuration


def test_names_of_openhands_are_taken() -> None:
    config = LLMConfig.model_validate(
        {
            "model": "openai/m",
            "base_url": "http://127.0.0.1/v1",
            "num_retries": 3,
            "max_input_tokens": 9_000,
            "caching_prompt": False,
            "retry_min_wait": 2,
        }
    )
    assert (config.api_base, config.tries) == ("http://127.0.0.1/v1", 3)
    assert (config.context_window, config.prompt_caching) == (9_000, False)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"modle": "m"}, "modle"),
        ({"tries": 0}, "tries"),
        ({"timeout": 0}, "timeout"),
        ({"api_key": [KEY]}, "api_key"),
        ({"extra": {"max_retries": 3}}, "max_retries"),
    ],
)
def test_what_is_wrong_is_named_without_the_key(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as caught:
        LLM({"model": "m", "api_key": KEY, **wrong})
    assert KEY not in everything_said(caught.value)


def test_another_setting_shares_the_metrics() -> None:
    llm = LLM({"model": "m", "api_key": KEY, "stream": True, "extra": {"seed": 1}})
    other = llm.replace(stream=False, tries=2)
    assert (other.config.stream, other.config.tries) == (False, 2)
    assert other.config.api_key == llm.config.api_key
    assert other.config.extra == {"seed": 1}
    assert other.metrics is llm.metrics
    assert llm.config.stream is True
    with pytest.raises(InvalidArgument, match="tries"):
        llm.replace(tries=0)


# ---------------------------------------------------------------------- secrets


def everything_said(error: BaseException) -> str:
    """All that an error, and what it comes from, say of themselves."""
    said = traceback.format_exception(error)
    links: list[BaseException | None] = [error]
    while links:
        link = links.pop()
        if link is not None:
            said += [str(link), repr(link), repr(link.args), *map(str, vars(link).values())]
            links += [link.__cause__, link.__context__]
    return "\n".join(said)


def parts(key: str) -> Iterator[str]:
    return (key[at : at + 8] for at in range(len(key) - 7))


SECRETIVE: dict[str, Any] = {
    "model": "openai/m",
    "api_key": KEY,
    "extra": {"aws_secret_access_key": KEY, "extra_headers": {"X-Api-Key": KEY, "X-Title": "t"}},
}


def test_no_text_of_a_configuration_shows_a_key() -> None:
    config = LLMConfig.model_validate(SECRETIVE | {"fallbacks": [SECRETIVE]})
    texts = [repr(config), str(config), config.model_dump_json(), repr(LLM(config))]
    texts += [str(config.model_dump()), str(config.model_dump(mode="json"))]
    for text in texts:
        assert KEY not in text
        assert "openai/m" in text
    saved = LLMConfig.model_validate_json(config.model_dump_json())
    assert saved.api_key is None


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [400, 401, 500])
def test_no_error_and_no_log_shows_a_key(
    status: int, stream: bool, way: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even where the provider says it back."""
    for name in ("", "LiteLLM", "LiteLLM Router", "openai", "httpx", "httpcore", "eventfold"):
        caplog.set_level(logging.DEBUG, logger=name)
    with HostileProvider(*[hostile.echo_of_key(status)] * 2) as provider:
        llm = model(provider, tries=2, stream=stream)
        failed = failure(llm, way)
    said = everything_said(failed)
    assert "Incorrect API key provided" in said
    assert not [part for part in parts(KEY) if part in said]
    assert failed.__cause__ is not None
    assert failed.__cause__.__traceback__ is None  # its frames hold the key
    assert failed.__context__ is None
    assert caplog.text
    assert KEY not in caplog.text
    assert KEY not in repr(llm.metrics.calls)


def test_nor_do_they_show_one_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with HostileProvider(hostile.echo_of_key()) as provider:
        failed = failure(model(provider, api_key=None))
        assert provider.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    assert KEY not in everything_said(failed)


def test_without_any_key_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    failed = failure(LLM("anthropic/claude-sonnet-4-5"))
    assert (failed.kind, failed.tries) == (ErrorKind.AUTH, 1)
    assert "ANTHROPIC_API_KEY" in str(failed)


def test_a_reply_does_not_show_the_key() -> None:
    with HostileProvider() as provider:
        reply = model(provider).completion(HELLO)
    assert KEY not in repr(reply)
    assert KEY not in repr(vars(reply.raw))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"key {KEY}, bad", f"key {HIDDEN}, bad"),
        (f"key {KEY[:9]}...{KEY[-9:]}", f"key {HIDDEN}...{HIDDEN}"),
        ("key sk-ab***yz bad", f"key {HIDDEN} bad"),
        ("the very secret key", "the very secret key"),
        (f"{KEY}{KEY}", f"{HIDDEN}{HIDDEN}"),
        ("", ""),
    ],
)
def test_hidden(text: str, shown: str) -> None:
    assert hidden(text, [KEY]) == shown


def test_a_short_key_hides_no_other_words() -> None:
    assert hidden("an x in a box", ["x"]) == f"an {HIDDEN} in a box"


# ---------------------------------------------------------------------- import


def test_nothing_heavy_is_loaded_before_the_first_call() -> None:
    code = (
        "import sys; from eventfold.condensers import LLM; LLM('openai/m');"
        "print(sorted({'litellm', 'openai', 'tenacity', 'httpx'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_thread_of_a_call_is_left() -> None:
    with HostileProvider(*[hostile.drip] * 2) as provider:
        failure(model(provider, tries=2, timeout=0.3))
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if not [one for one in threading.enumerate() if one.name == "eventfold-llm"]:
            return
        time.sleep(0.02)
    raise AssertionError("a thread waits for a server that has gone")
