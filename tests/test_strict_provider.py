"""The strict provider: it takes what is valid, refuses what is not, and both of its checkers agree.

The lists that break a rule alone, and those next to them that keep all, are those of
``test_rules``.
"""

from __future__ import annotations

import http.client
import json
import random
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eventfold.condensers import AgentContext, ConversationWindowCondenser
from eventfold.condensers.errors import is_context_overflow
from eventfold.condensers.llm import LLM, LLMError
from eventfold.events import Event, EventSource, EventStream, MessageAction, SystemMessageAction
from eventfold.memory import Budget, ConversationMemory, Message, NothingToSend, TokenCounter
from eventfold.memory.rules import check_messages
from tests.logs import event_logs
from tests.providers.checker import PROFILES, faults
from tests.providers.policies import ODD, Answer, Policy, call, scripted, seeded
from tests.providers.strict import StrictProvider
from tests.test_rules import CASES, KEPT, MARK, THOUGHT, user

Chat = list[dict[str, Any]]

TOOL = {
    "type": "function",
    "function": {
        "name": "execute_bash",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
        },
    },
}


USER = EventSource.USER


class Client:
    """As thin as a client can be, with a connection that it keeps."""

    def __init__(self, provider: StrictProvider) -> None:
        self._connection = http.client.HTTPConnection(provider.url.removeprefix("http://"))

    def send(self, data: bytes, path: str = "/v1/chat/completions") -> tuple[int, bytes]:
        self._connection.request("POST", path, data, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def ask(self, messages: Any, **more: Any) -> tuple[int, dict[str, Any]]:
        body = {"model": "m", "messages": messages, **more}
        status, data = self.send(json.dumps(body).encode())
        found: dict[str, Any] = json.loads(data)
        return status, found

    def stream(self, messages: Any, **more: Any) -> list[dict[str, Any]]:
        body = {"model": "m", "messages": messages, "stream": True, **more}
        status, data = self.send(json.dumps(body).encode())
        assert status == 200, data
        *events, end = data.decode().strip().split("\n\n")
        assert end == "data: [DONE]"
        return [json.loads(event.removeprefix("data: ")) for event in events]


# Rules


def as_json(messages: Any) -> Any:
    """The messages as they arrive; None if they are no JSON."""
    try:
        return json.loads(json.dumps(messages, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return None


BROKEN = [
    (profile, rule, broken)
    for rule, broken, _ in CASES
    for profile in PROFILES
    if as_json(broken) is not None and rule in {v.rule for v in check_messages(broken, profile)}
]


def test_what_breaks_a_rule_is_refused_in_the_words_of_the_provider() -> None:
    for profile in PROFILES:
        broken = [case for case in BROKEN if case[0] == profile]
        assert len(broken) > 30
        with StrictProvider(profile) as provider:
            client = Client(provider)
            for _, rule, messages in broken:
                status, body = client.ask(messages)
                assert status == 400
                assert not is_context_overflow(body["error"]["message"])
                verdict = provider.requests[-1].verdict
                assert any(re.match(rf"{rule}\b", said) for said in verdict)
                assert any("own checker" in said for said in verdict), verdict
        assert provider.disagreements == []
        assert len(provider.refused) == len(broken)


def test_what_keeps_every_rule_is_taken() -> None:
    for profile in PROFILES:
        kept = [as_json(kept) for _, _, kept in CASES if not check_messages(kept, profile)]
        kept = [messages for messages in kept if messages is not None]
        assert len(kept) > 30
        with StrictProvider(profile) as provider:
            client = Client(provider)
            for messages in kept:
                assert client.ask(messages) == (200, provider.requests[-1].response)
        assert provider.refused == []


@pytest.mark.parametrize(
    ("profile", "messages", "words"),
    [
        ("openai", [user(), *KEPT[2:4], user()], "did not have response messages"),
        (
            "anthropic",
            [user(), *KEPT[2:4], user()],
            "messages.1: `tool_use` ids were found without",
        ),
        ("anthropic", [*KEPT[:4], user()], "messages.1: `tool_use` ids were found without"),
        ("anthropic", [user(), user()], "roles must alternate"),
        ("gemini", [user(), *KEPT[2:4], user()], "number of function response parts is equal"),
        ("mistral", [user(), *KEPT[2:4], user()], "Not the same number of function calls"),
        ("openai", [], "empty array"),
        ("openai", "Hello", "could not parse"),
        ("openai", None, "empty array"),
        (
            "openai",
            [user(), {"role": "tool", "content": "x"}],
            "must be a response to a preceeding",
        ),
    ],
)
def test_refusals_are_worded_as_providers_word_them(
    profile: str, messages: Any, words: str
) -> None:
    with StrictProvider(profile) as provider:
        status, body = Client(provider).ask(messages)
    assert status == 400
    assert words in body["error"]["message"]


def test_mistral_wants_short_ids_and_an_assistant_after_results() -> None:
    made = {"role": "assistant", "tool_calls": [call("a1b2c3d4e", "x", {})]}
    result = {"role": "tool", "tool_call_id": "a1b2c3d4e", "content": "ok"}
    understood = {"role": "assistant", "content": "Understood."}
    with StrictProvider("mistral") as provider:
        client = Client(provider)
        assert client.ask([user(), made, result])[0] == 200
        assert client.ask([user(), made, result, understood, user()])[0] == 200
        status, body = client.ask([user(), made, result, user()])
    assert status == 400
    assert body["error"]["message"] == "Unexpected role 'user' after role 'tool'"
    assert provider.disagreements == []


def test_tools_are_checked() -> None:
    with StrictProvider("anthropic") as provider:
        client = Client(provider)
        assert client.ask([user()], tools=[TOOL])[0] == 200
        assert client.ask([user()], tools=[{"type": "function", "function": {}}])[0] == 400
        assert client.ask([user()], tools=[TOOL, {**TOOL, **MARK}] * 5)[0] == 400
        assert client.ask([user()], tools="none")[0] == 400
    assert provider.disagreements == []


def test_images_are_refused_without_vision() -> None:
    with StrictProvider(vision=False) as provider:
        assert Client(provider).ask(KEPT)[0] == 400
    assert provider.disagreements == []


def test_what_is_no_request_is_refused() -> None:
    with StrictProvider() as provider:
        client = Client(provider)
        assert client.send(b"{")[0] == 400
        assert client.send(b"[]")[0] == 400
        assert client.send(b'{"messages": [{"role": "user", "content": "x", "n": NaN}]}')[0] == 400
        assert client.send(b"{}", "/v1/embeddings")[0] == 404
    assert provider.requests == []


# The two checkers

SOUND = [KEPT, *(kept for _, _, kept in CASES if as_json(kept) is not None)]

_TEXTS = st.sampled_from(["", " ", "x", "a\0", "\ud800"])
_IDS = st.sampled_from(["a", "b", "c", "zz", "", "a b", "x" * 65, "abcdefghi", None, 7])
_ARGUMENTS: st.SearchStrategy[Any] = st.sampled_from(
    ["{}", "[1]", "", "{", '{"a": "\\u0000"}', '{"a": NaN}', None, {}]
)
_ROLES = st.sampled_from(["system", "developer", "user", "assistant", "tool", "other", None])
_BLOCKS = st.sampled_from([{"type": "text", "text": " "}, THOUGHT, {"type": "thinking"}, {}, "x"])


@st.composite
def spoiled(draw: st.DrawFn) -> Chat:
    """A valid list that some changes have been made to, or none."""
    chat: Chat = as_json(draw(st.sampled_from(SOUND)))
    for _ in range(draw(st.integers(0, 2))):
        if chat:
            _spoil(draw, chat, draw(st.integers(0, len(chat) - 1)))
    return chat


def _spoil(draw: st.DrawFn, chat: Chat, at: int) -> None:
    message = chat[at]
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not calls:
        calls = [{"id": "a", "function": {"name": "x", "arguments": "{}"}}]
    match draw(st.integers(0, 9)):
        case 0:
            del chat[at]
        case 1:
            chat.insert(draw(st.integers(0, len(chat))), message)
        case 2:
            message["role"] = draw(_ROLES)
        case 3:
            message["content"] = draw(_TEXTS)
        case 4:
            message["content"] = draw(st.lists(_BLOCKS, max_size=2) | st.sampled_from([None, 7]))
        case 5:
            message["tool_call_id"] = draw(_IDS)
        case 6:
            changed = {**calls[-1], "id": draw(_IDS)}
            message["tool_calls"] = [*calls[:-1], changed]
        case 7:
            function = {"name": draw(st.sampled_from(["x", "", "a b", None]))}
            changed = {**calls[0], "function": {**function, "arguments": draw(_ARGUMENTS)}}
            message["tool_calls"] = draw(st.sampled_from([[changed, *calls[1:]], [changed], [], 1]))
        case 8:
            message.update(draw(st.sampled_from([MARK, {"thinking_blocks": [THOUGHT]}])))
        case _:
            chat[at] = draw(st.sampled_from(chat))


@given(spoiled(), st.sampled_from(sorted(PROFILES)))
def test_both_checkers_find_fault_with_the_same_lists(chat: Chat, profile: str) -> None:
    found = {violation.rule for violation in check_messages(chat, profile)}
    own = {fault.rule for fault in faults(chat, None, profile)}
    assert bool(found) == bool(own), (found, own)


@given(event_logs(), st.sampled_from(sorted(PROFILES)))
def test_what_any_log_becomes_has_no_fault(events: list[Event], profile: str) -> None:
    try:
        messages = ConversationMemory(profile=profile).process_events(events)
    except NothingToSend:
        return
    assert faults(json.loads(json.dumps(Message.to_dicts(messages))), None, profile) == []


# The window


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_an_overflow_is_refused_in_words_that_are_recognised(profile: str) -> None:
    with StrictProvider(profile, window=100) as provider:
        client = Client(provider)
        assert client.ask([user("word " * 80)])[0] == 200
        status, body = client.ask([user("word " * 200)])
    assert status == 400
    assert is_context_overflow(json.dumps(body))
    assert [request.input_tokens for request in provider.overflows] == [209]
    assert provider.refused == []


def test_the_reserved_output_counts_and_is_told_apart() -> None:
    with StrictProvider("openai", window=100) as provider:
        client = Client(provider)
        assert client.ask([user()], max_tokens=80)[0] == 200
        status, body = client.ask([user()], max_completion_tokens=99)
        assert status == 400
        assert not is_context_overflow(json.dumps(body))
        status, body = client.ask([user("word " * 80)], max_tokens=90)
    assert status == 400
    assert is_context_overflow(json.dumps(body))


def test_usage_is_what_the_provider_counts() -> None:
    with StrictProvider(tokens=lambda messages, tools: 10 * len(messages)) as provider:
        usage = Client(provider).ask(KEPT)[1]["usage"]
    assert usage == {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}


# Answers


def test_answers_are_scripted() -> None:
    thought = {"thinking_blocks": [THOUGHT], "reasoning_content": "Hm."}
    made = call("c1", "execute_bash", {"command": "ls"}, extra=1)
    policy = scripted(Answer("Hm.", (made,), fields=thought), Answer("Done."))
    with StrictProvider(policy=policy) as provider:
        client = Client(provider)
        first, *others = [client.ask([user()])[1]["choices"][0] for _ in range(3)]
    assert first["finish_reason"] == "tool_calls"
    assert first["message"] == {
        "role": "assistant",
        "content": "Hm.",
        "tool_calls": [made],
        **thought,
    }
    done = {"role": "assistant", "content": "Done."}
    assert others == [{"index": 0, "message": done, "finish_reason": "stop"}] * 2


def test_a_stream_says_the_same_in_pieces() -> None:
    calls = (call("c1", "a", {"long": "x" * 50}), call("c2", "b", {}))
    answer = Answer("Two calls, one of them long.", calls, fields={"reasoning_content": "Hm."})
    with StrictProvider(policy=scripted(answer)) as provider:
        chunks = Client(provider).stream([user()], stream_options={"include_usage": True})
    assert len(chunks) > 10
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == provider.requests[0].response["usage"]
    choices = [chunk["choices"][0] for chunk in chunks[:-1]]
    assert [c["finish_reason"] for c in choices if c["finish_reason"]] == ["tool_calls"]
    deltas = [choice["delta"] for choice in choices]
    assert "".join(delta.get("content", "") for delta in deltas) == answer.text
    assert deltas[0]["reasoning_content"] == "Hm."
    arguments = {0: "", 1: ""}
    for delta in deltas:
        for piece in delta.get("tool_calls", ()):
            arguments[piece["index"]] += piece["function"]["arguments"]
    assert [*arguments.values()] == [made["function"]["arguments"] for made in calls]


def test_a_seed_says_the_same_twice() -> None:
    def answers(seed: int) -> list[Answer | None]:
        with StrictProvider(policy=seeded(odd=0.5), seed=seed) as provider:
            client = Client(provider)
            for _ in range(20):
                client.ask([user()], tools=[TOOL])
        return [request.answer for request in provider.requests]

    assert answers(1) == answers(1)
    assert answers(1) != answers(2)


def test_each_oddity_changes_an_answer() -> None:
    history = [user(), {"role": "assistant", "tool_calls": [call("old", "x", {})]}]
    for name in ODD:
        plain, odd = seeded(odd={}), seeded(odd={name: 1})
        pairs = [
            (plain(history, [TOOL], random.Random(n)), odd(history, [TOOL], random.Random(n)))
            for n in range(20)
        ]
        assert sum(a != b for a, b in pairs) > 10, name


def test_a_policy_that_fails_fails_the_test() -> None:
    def policy(*_: object) -> Answer:
        raise LookupError("no such answer")

    with pytest.raises(LookupError, match="no such answer"), StrictProvider(policy=policy) as it:
        assert Client(it).ask([user()])[0] == 500


def test_many_may_ask_at_once() -> None:
    with StrictProvider() as provider:

        def ask(number: int) -> int:
            client = Client(provider)
            return sum(client.ask([user(f"{number} {n}")])[0] == 200 for n in range(100))

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(ask, range(8))) == 800
    assert len({request.messages[0]["content"] for request in provider.requests}) == 800


# An agent's loop


def agent(provider: StrictProvider, budget: Budget | None = None) -> AgentContext:
    stream = EventStream("s")
    stream.extend([SystemMessageAction("You are an agent."), MessageAction("Go.", source=USER)])
    memory = ConversationMemory(profile=provider.profile)
    return AgentContext(stream, ConversationWindowCondenser(), memory, [TOOL], budget)


def carry_out(context: AgentContext, response: Any, step: int) -> None:
    """Records the answer, and results of many lengths."""
    for action in context.record(response):
        if action.tool_call_metadata is not None:
            context.observe(f"result {step} " * (step % 50), action)
        else:
            context.stream.append(MessageAction("Go on.", source=USER))


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_an_agent_whose_model_is_odd_is_never_refused(profile: str) -> None:
    """The provider has the only window: each condensation is for an overflow that it refused."""
    policy: Policy = seeded(odd=0.6, words=60)
    with StrictProvider(profile, policy=policy, seed=3, window=3000) as provider:
        client, context = Client(provider), agent(provider)
        for step in range(60):
            status, body = client.ask(context.messages(), tools=[TOOL])
            if status == 200:
                carry_out(context, body, step)
            else:
                assert context.overflowed(json.dumps(body)), provider.requests[-1].verdict
    assert provider.refused == []
    assert len(provider.overflows) > 2


@pytest.mark.parametrize("stream", [False, True])
def test_what_litellm_makes_of_odd_answers_is_never_refused(stream: bool) -> None:
    with StrictProvider("anthropic", policy=seeded(odd=0.6), seed=5, window=3000) as provider:
        where = {"model": "openai/strict", "api_base": provider.url + "/v1", "api_key": "none"}
        llm, context = LLM({**where, "tries": 1, "stream": stream}), agent(provider)
        for step in range(30):
            try:
                reply = llm.completion(context.messages(), tools=[TOOL])
            except LLMError as error:
                if not context.overflowed(error):
                    raise
            else:
                carry_out(context, reply, step)
    assert provider.refused == []
    assert len(provider.overflows) > 0


def test_a_budget_learns_how_the_provider_counts() -> None:
    """It counts a third more than the budget does: that overflows once or twice, not always."""

    def tokens(messages: Any, tools: Any) -> int:
        return TokenCounter().count(messages, tools=tools) * 4 // 3

    with StrictProvider(policy=seeded(odd={}), window=2000, tokens=tokens) as provider:
        client, context = Client(provider), agent(provider, Budget(2000))
        for step in range(80):
            status, body = client.ask(context.messages(), tools=[TOOL])
            if status == 200:
                carry_out(context, body, step)
            else:
                assert context.overflowed(json.dumps(body))
    assert context.budget is not None
    assert context.budget.counter.calibration == pytest.approx(4 / 3, abs=0.1)
    assert len(provider.overflows) <= 2
