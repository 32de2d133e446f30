"""Whole runs against a provider that fails in every way that passes: agent and summarizer alike."""

from __future__ import annotations

import json
import logging
import random
from typing import Any

import pytest

from eventfold.condensers import (
    LLM,
    AgentContext,
    LLMSummarizingCondenser,
    condenser_from_config,
)
from eventfold.events import (
    AgentFinishAction,
    CondensationAction,
    EventStream,
    MessageAction,
    SystemMessageAction,
)
from eventfold.memory import Budget, check_messages
from tests.providers import hostile
from tests.providers.hostile import USAGE, Fault, Handler, HostileProvider

STEPS = 30
KEY = "kk-11aa22bb33cc-not-to-be-seen"

# Each passes: the next try may succeed. With what the provider has charged for it, in answers.
PASSING: tuple[tuple[Fault, int], ...] = (
    (hostile.rate_limited(0.01), 0),
    (hostile.rate_limited(), 0),
    (hostile.error(500, "Internal error"), 0),
    (hostile.error(503, "The model is overloaded"), 0),
    (hostile.reset_in_body, 0),
    (hostile.cut_body, 0),
    (hostile.garbage, 0),
    (hostile.hang, 0),
    (hostile.empty_choices(), 1),
)

_REFUSED = hostile.refused()


class Model:
    """The provider's side of a run: an agent that works for so many steps, and a summarizer."""

    def __init__(self, seed: int, summary: Fault) -> None:
        self.chance = random.Random(seed)
        self.summary = summary
        self.steps = 0
        self.charged = 0
        self.tasks: list[bool] = []

    def __call__(self, handler: Handler) -> None:
        asked = handler.provider.requests[-1].body
        if self.chance.random() < 0.25:
            fault, charged = self.chance.choice(PASSING)
            self.charged += charged
            fault(handler)
            return
        if "tools" not in asked:
            self.charged += self.summary is not _REFUSED
            self.summary(handler)
            return
        self.charged += 1
        assert check_messages(asked["messages"]) == []
        self.tasks.append("The task: count to thirty." in json.dumps(asked["messages"]))
        self.steps += 1
        name, arguments = "bash", {"command": f"echo {self.steps}"}
        if self.steps == STEPS:
            name, arguments = "finish", {"message": "thirty"}
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call_{self.steps}", "type": "function", "function": function}
        hostile.answer(None, tool_calls=[call], finish_reason="tool_calls")(handler)


class Endless(list[Fault]):
    """A script that is never over."""

    def __init__(self, fault: Fault) -> None:
        super().__init__([fault])

    def pop(self, _: Any = 0) -> Fault:
        return self[0]


def tool(name: str, argument: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {argument: {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [tool("bash", "command"), tool("finish", "message")]


@pytest.mark.parametrize(
    ("seed", "summary", "works"),
    [
        (1, hostile.answer("So far it has counted. " * 3), True),
        (2, hostile.answer(""), False),
        (3, hostile.cut_off(), False),
        (4, _REFUSED, False),
    ],
    ids=["works", "empty", "cut off", "refused"],
)
def test_a_run_survives_whatever_passes(
    seed: int, summary: Fault, works: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server = Model(seed, summary)
    with HostileProvider() as provider:
        provider._script = Endless(server)
        llm = LLM(
            {
                "model": "openai/hostile",
                "api_base": provider.url,
                "api_key": KEY,
                "timeout": 0.3,
                "tries": 12,
                "max_seconds": 30,
                "retry_min_wait": 0.01,
                "retry_max_wait": 0.02,
            }
        )
        condenser = condenser_from_config({"type": "llm", "max_size": 20}, llm=llm)
        assert isinstance(condenser, LLMSummarizingCondenser)
        stream = EventStream("hostile")
        stream.append(SystemMessageAction("You count."))
        stream.append(MessageAction("The task: count to thirty."), "user")
        context = AgentContext(stream, condenser, tools=TOOLS, budget=Budget(4_000))
        finished = False
        while not finished:
            for action in context.record(llm.completion(context.messages(), tools=TOOLS)):
                finished = isinstance(action, AgentFinishAction)
                if not finished:
                    context.observe(f"{action.id}\n" * 60, action)
    assert server.steps == STEPS
    assert all(server.tasks)  # the task was in every prompt
    condensations = [e for e in stream if isinstance(e, CondensationAction)]
    assert condensations
    if works:
        assert all("So far it has counted." in str(c.summary) for c in condensations)
    else:  # nothing was forgotten for a bad summary: on request, the fallback forgot
        assert all(c.summary is None for c in condensations)
    total = llm.metrics.total
    each: dict[str, Any] = USAGE
    assert total.spent.usage.input_tokens == server.charged * each["prompt_tokens"]
    assert total.spent.usage.output_tokens == server.charged * each["completion_tokens"]
    assert total.retries > 5
    shown = caplog.text + repr(llm) + repr(context) + "".join(map(repr, stream))
    assert KEY not in shown
