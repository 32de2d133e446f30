"""What a step costs in eventfold: append two events, fold, condense, messages, dicts, tokens."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from typing import Any

from workload import (  # type: ignore[import-not-found]  # beside this script when it runs
    LONG,
    MAX_SIZE,
    SUMMARY,
    SYSTEM,
    TASK,
    command,
    import_time,
    loaded,
    memory,
    once,
    output,
    report,
    response,
    rolling,
    step_without_condensing,
    thought,
    timed,
)

import eventfold
from eventfold import (
    AgentContext,
    Budget,
    CmdOutputObservation,
    CmdRunAction,
    Condenser,
    Event,
    EventStream,
    MessageAction,
    ModelResponse,
    Reply,
    SystemMessageAction,
    TokenCounter,
    ToolCallMetadata,
    View,
    condenser_from_config,
    event_from_dict,
)

NAMES_OF_A_LOOP = """\
from eventfold import (
    AgentContext, CmdOutputObservation, CmdRunAction, ConversationMemory, EventStream,
    MessageAction, State, SystemMessageAction, ToolCallMetadata, View, condenser_from_config,
)"""
GROWTH = (100, 1_000, 10_000, 100_000)


class InstantModel:
    """A chat model that answers at once."""

    def completion(self, messages: Sequence[dict[str, Any]], **_: Any) -> Reply:
        return Reply(SUMMARY)

    async def acompletion(self, messages: Sequence[dict[str, Any]], **_: Any) -> Reply:
        return Reply(SUMMARY)


class EventfoldLoop:
    budget: Budget | None = None

    def __init__(self, condenser: Condenser) -> None:
        self.stream = EventStream("micro")
        self.stream.append(SystemMessageAction(SYSTEM))
        self.stream.append(MessageAction(TASK), "user")
        self.context = AgentContext(self.stream, condenser, budget=self.budget)

    def append(self, number: int) -> None:
        metadata = ToolCallMetadata("bash", f"call_{number}", 1, ModelResponse.of(response(number)))
        action = self.stream.append(
            CmdRunAction(command(number), thought=thought(number), tool_call_metadata=metadata)
        )
        self.stream.append(
            CmdOutputObservation(
                output(number),
                command(number),
                exit_code=0,
                cause=action.id,
                tool_call_metadata=metadata,
            )
        )

    def prompt(self) -> list[dict[str, Any]]:
        return self.context.messages()

    def count(self) -> int:
        """Done already: with a budget each prompt is counted."""
        return 0


class CountingLoop(EventfoldLoop):
    """Counts its tokens at every step, by estimate, as a loop with a budget does far from the
    limit."""

    budget = Budget(10_000_000, counter=TokenCounter(exact=False))


class RecordingLoop(CountingLoop):
    """As a loop that leaves it to the context what becomes of answers and results."""

    def append(self, number: int) -> None:
        for action in self.context.record(response(number)):
            self.context.observe(output(number), action)


def built(config: str) -> Condenser:
    return condenser_from_config(config)


def summarizing(**more: int) -> Condenser:
    return condenser_from_config({"type": "llm", "max_size": MAX_SIZE, **more}, llm=InstantModel())


def rolling_step(loop: EventfoldLoop) -> float:
    figures: dict[str, float] = rolling(loop, points=(LONG,))
    return figures[f"rolling_{LONG}"]


def events(steps: int) -> list[Event]:
    loop = EventfoldLoop(built("noop"))
    for number in range(steps):
        loop.append(number)
    return list(loop.stream)


def folded(log: Sequence[Event]) -> object:
    return View.from_events(log).turns


def at_length(config: str) -> float:
    """A step at 6,000 events with a view condenser or a pipeline."""
    loop = CountingLoop(built(config))
    for number in range(LONG):
        loop.append(number)
    for number in range(LONG, LONG + 5):  # whatever is condensed at once is not the step
        loop.append(number)
        loop.prompt()

    def step(number: int) -> None:
        loop.append(number)
        loop.prompt()

    milliseconds: float = timed(step, LONG + 5, 20)
    return milliseconds


def growth() -> dict[str, float]:
    figures: dict[str, float] = rolling(
        CountingLoop(summarizing()), "growth", points=GROWTH, count=500
    )
    return figures


def main() -> None:
    if "--growth" in sys.argv[1:]:
        report(growth(), {})
        return
    log = events(LONG)
    figures = {
        **step_without_condensing(EventfoldLoop(built("noop")), count=50, counted=50),
        "step_counted": at_length("noop"),
        **rolling(CountingLoop(summarizing())),
        "recorded": rolling_step(RecordingLoop(summarizing())),
        "without_ledger": rolling_step(CountingLoop(summarizing(ledger_chars=0))),
        "fold": once(lambda: folded(log)),
        "load": loaded(event_from_dict),
        "memory": memory(events),
        "import": import_time(NAMES_OF_A_LOOP),
        "import_pydantic": import_time("import pydantic"),
        "import_model": import_time("from pydantic import BaseModel"),
        "with_masking": at_length("observation_masking"),
        "with_default": at_length("default"),
    }
    versions = {"eventfold": eventfold.__version__, "Python": platform.python_version()}
    report(figures, versions)


if __name__ == "__main__":
    main()
