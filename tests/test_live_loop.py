"""The live loop against a strict provider: whatever the model answers and the tools return, no
request is refused but for its length, and after each such refusal a smaller one comes."""

from __future__ import annotations

import http.client
import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from eventfold.condensers import (
    CONDENSE_TOOL,
    FOLD_TOOL,
    AgentContext,
    AmortizedForgettingCondenser,
    CannotCondense,
    Condenser,
    CondenserPipeline,
    ConversationWindowCondenser,
    CostAwareCondenser,
    DigestCondenser,
    LLMAttentionCondenser,
    LLMSummarizingCondenser,
    ObservationMaskingCondenser,
    Prices,
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
    Action,
    CondensationRequestAction,
    ErrorObservation,
    Event,
    EventStream,
    MCPObservation,
    MessageAction,
    SystemMessageAction,
)
from eventfold.memory import Budget, ConversationMemory, Reply, TokenCounter
from eventfold.memory.rules import PROFILES
from tests.providers.policies import Answer, Policy, call, seeded
from tests.providers.strict import StrictProvider
from tests.samples import PNG

RUNS = int(os.environ.get("EVENTFOLD_LIVE_RUNS", "24"))
STEPS = int(os.environ.get("EVENTFOLD_LIVE_STEPS", "60"))


def tool(name: str, **properties: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {key: {"type": t} for key, t in properties.items()}}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [
    tool("bash", command="string"),
    tool("str_replace_editor", command="string", path="string", file_text="string"),
    tool("search", query="string", limit="integer"),
    tool("think", thought="string"),
]


class Failing(ExtractiveModel):
    """A summarizer that mostly fails, in one way or another."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def completion(self, messages: Any, **more: Any) -> Reply:
        match self.chance.randrange(5):
            case 0:
                raise TimeoutError("no answer")
            case 1:
                return Reply(" ", finish_reason="stop")
            case 2:
                return Reply("half a", finish_reason="length")
            case 3:
                return Reply("word " * 5_000, finish_reason="stop")
        return super().completion(messages, **more)


CONDENSERS: list[Callable[[random.Random], Condenser]] = [
    lambda _: ConversationWindowCondenser(),
    lambda _: AmortizedForgettingCondenser(20),
    lambda _: DigestCondenser(16, 800),
    lambda _: RoundsCondenser(2),
    lambda _: TokenLimitCondenser(1_500),
    lambda _: LLMSummarizingCondenser(ExtractiveModel(), 20),
    lambda _: LLMSummarizingCondenser(ExtractiveModel(), 1_000, max_tokens=1_200),
    lambda chance: LLMSummarizingCondenser(Failing(chance), 12, 0),
    lambda _: LLMAttentionCondenser(ExtractiveModel(), 14),
    lambda chance: LLMAttentionCondenser(Failing(chance), 12, 0),
    lambda _: StructuredSummaryCondenser(ExtractiveModel(), 18, max_chars=2_000),
    lambda chance: StructuredSummaryCondenser(Failing(chance), 12, 0),
    lambda _: CostAwareCondenser(keep_recent=300, expected_steps=2_000),
    lambda chance: CostAwareCondenser(
        LLMSummary(Failing(chance)), Prices(input=9), keep_recent=200, options=["summarize"]
    ),
    lambda _: condenser_from_config("default"),
    lambda _: condenser_from_config("openhands-v0"),
    lambda _: CondenserPipeline(
        TruncationCondenser(600),
        SupersededCondenser(),
        ObservationMaskingCondenser(12, 4),
        ToolClearingCondenser(1_000, 1, keep_thinking=1),
        ConversationWindowCondenser(),
    ),
]


def folding(policy: Policy) -> Policy:
    """The same model, which now and then opens a sub-task, closes one, or asks to condense."""

    def folds(
        messages: list[dict[str, Any]], tools: list[dict[str, Any]], chance: random.Random
    ) -> Answer:
        answer = policy(messages, tools, chance)
        if chance.random() > 0.4:
            return answer
        name, arguments = chance.choice(
            (
                ("fold", {"command": "open", "task": "a part of it"}),
                ("fold", {"command": "close", "summary": "what came of it"}),
                ("condense", {}),
            )
        )
        made = call(f"own_{chance.getrandbits(96):024x}", name, arguments)
        return replace(answer, calls=chance.choice(((made,), (*answer.calls, made))))

    return folds


class Refused(Exception):
    """A 400."""


class Client:
    def __init__(self, provider: StrictProvider, tools: list[dict[str, Any]]) -> None:
        self._connection = http.client.HTTPConnection(provider.url.removeprefix("http://"))
        self._tools = tools

    def ask(self, messages: list[dict[str, Any]]) -> dict[str, Any] | Refused:
        body = json.dumps(
            {"model": "m", "messages": messages, "tools": self._tools, "max_tokens": 200}
        )
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", "/v1/chat/completions", body, headers)
        answer = self._connection.getresponse()
        data: dict[str, Any] = json.loads(answer.read())
        if answer.status != 200:
            return Refused(f"Error code: {answer.status} - {data}")
        return data


def result_of(action: Action, chance: random.Random) -> object:
    size = chance.choice((0, 1, 20, 200, 200, 1_000, 4_000))
    text = "".join(chance.choice("ab c\n日\0\ud800é9{") for _ in range(min(size, 300)))
    text = (text + "output of a command\n" * 200)[:size]
    match chance.randrange(12):
        case 0:
            return OSError(text[:100])
        case 1:
            return ErrorObservation(text)
        case 2:
            return MCPObservation(text, name="search", image_urls=[PNG])
    return text


def user_speaks(context: AgentContext, chance: random.Random, text: str) -> str:
    said = f"{text} {chance.getrandbits(40):x}"
    context.stream.append(MessageAction(said), "user")
    return said


def live(seed: int, steps: int) -> tuple[int, int]:
    """A random run; how many prompts were answered, and how many were refused as too long."""
    chance = random.Random(seed)
    profile = sorted(PROFILES)[seed % len(PROFILES)]
    window = chance.choice((2_000, 3_000, 5_000, 9_000))
    condenser = CONDENSERS[seed % len(CONDENSERS)](chance)
    budget = None
    if chance.random() < 0.4:  # of a counter that may be wrong about this provider
        counter = TokenCounter(exact=chance.random() < 0.5, calibration=chance.choice((0.5, 1.0)))
        budget = Budget(window, 200, counter=counter)
    stream = EventStream(f"run-{seed}")
    memory = ConversationMemory(profile, prompt_caching=chance.random() < 0.3)
    folds = seed % 3 == 0
    tools = [*TOOLS, FOLD_TOOL, CONDENSE_TOOL] if folds else TOOLS
    context = AgentContext(
        stream, condenser, memory, tools, budget, max_message_chars=chance.choice((None, None, 500))
    )
    if chance.random() < 0.8:
        stream.append(SystemMessageAction("You are a coding agent."))
    newest = user_speaks(context, chance, "The task:")
    policy = seeded(odd=chance.choice((0.0, 0.3, 1.5)), finish=0.01)
    policy = folding(policy) if folds else policy
    refused: list[int] = []  # tokens of the prompts that were too long, since the newest answer
    answered = overflows = 0
    with StrictProvider(profile, window=window, policy=policy, seed=seed) as provider:
        client = Client(provider, tools)
        for _ in range(steps):
            try:
                messages = context.messages()
            except CannotCondense:  # the end, and an answer, too
                break
            texts = json.dumps(messages, ensure_ascii=False)
            assert newest in texts
            response = client.ask(messages)
            asked = provider.requests[-1]
            assert asked.verdict == (), f"{seed}: {messages}"
            assert not refused or asked.input_tokens < refused[-1], f"{seed}: no smaller prompt"
            if isinstance(response, Refused):
                assert asked.overflowed
                overflows += 1
                refused.append(asked.input_tokens)
                if not context.overflowed(response):
                    break  # several in a row: the loop is told that it is of no use
                assert isinstance(newest_event(stream), CondensationRequestAction)
                continue
            refused.clear()
            answered += 1
            for action in context.record(response):
                if isinstance(action, MessageAction) or not action.tool_call_metadata:
                    newest = user_speaks(context, chance, "Go on.")
                    continue
                if chance.random() < 0.1:  # the user does not wait
                    newest = user_speaks(context, chance, "By the way:")
                if chance.random() < 0.95:  # or else it never comes
                    context.observe(result_of(action, chance), action)
        assert provider.refused == []
        assert provider.disagreements == []
    return answered, overflows


def newest_event(stream: EventStream) -> Event:
    return next(stream.events(reverse=True))


@pytest.mark.parametrize("first", range(0, RUNS, 12))
def test_no_request_is_refused_but_for_its_length(first: int) -> None:
    """`EVENTFOLD_LIVE_RUNS` and `EVENTFOLD_LIVE_STEPS` make it longer."""
    runs = [live(seed, STEPS) for seed in range(first, min(first + 12, RUNS))]
    answered, overflows = map(sum, zip(*runs, strict=True))
    assert answered > 5 * len(runs)
    assert overflows > len(runs) / 4
