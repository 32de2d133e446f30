"""What a step costs in the OpenHands SDK: a conversation state, its cached view and its condenser.

As ``Agent.step`` does it: events go into the ``ConversationState`` (with its in-memory file store),
``prepare_llm_messages`` condenses the cached view and makes messages, and the LLM client makes
dicts of them. With ``everything`` the other work on the history is done too, as in a real run:
the search for pending actions, and the count of tokens that the condenser makes at every step
where the window of the model is known.
"""

# The SDK is not installed where this is checked.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import logging
import os
import platform
from importlib.metadata import version
from typing import Any
from uuid import uuid4

os.environ.setdefault("LOG_LEVEL", "ERROR")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from openhands.sdk import LLM, Agent, LocalWorkspace, Message, TextContent
from openhands.sdk.agent.utils import prepare_llm_messages
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.context.view import View
from openhands.sdk.conversation.state import ConversationState
from openhands.sdk.event import (
    ActionEvent,
    Condensation,
    Event,
    MessageEvent,
    ObservationEvent,
    SystemPromptEvent,
)
from openhands.sdk.io import InMemoryFileStore
from openhands.sdk.llm import LLMResponse, MessageToolCall
from openhands.sdk.llm.utils.metrics import MetricsSnapshot
from openhands.sdk.tool import Action, Observation
from workload import (
    LONG,
    MAX_SIZE,
    SUMMARY,
    SYSTEM,
    TASK,
    command,
    import_time,
    memory,
    once,
    output,
    report,
    rolling,
    step_without_condensing,
    thought,
    timed,
)

NAMES_OF_A_LOOP = """\
from openhands.sdk import LLM, Agent, Conversation, Message, TextContent
from openhands.sdk.context.condenser import LLMSummarizingCondenser"""


class BashAction(Action):
    command: str


class BashObservation(Observation):
    pass


class InstantLLM(LLM):
    """A model that answers at once."""

    def generate(self, messages: list[Message], **_: Any) -> LLMResponse:
        return LLMResponse(
            message=Message(role="assistant", content=[TextContent(text=SUMMARY)]),
            metrics=MetricsSnapshot(),
            raw_response=_RAW,
        )


class SDKLoop:
    def __init__(self, *, condensing: bool) -> None:
        self.llm = LLM(model="gpt-4o", api_key="none", usage_id="agent")
        self.everything = False
        self.condenser = None
        if condensing:
            summarizer = InstantLLM(model="gpt-4o", api_key="none", usage_id="condenser")
            self.condenser = LLMSummarizingCondenser(llm=summarizer, max_size=MAX_SIZE)
        self.state = ConversationState.create(
            id=uuid4(),
            agent=Agent(llm=self.llm, tools=[], condenser=self.condenser),
            workspace=LocalWorkspace(working_dir="."),
            file_store=InMemoryFileStore(),
        )
        self.messages: list[Message] = []
        for event in beginning():
            self._record(event)

    def append(self, number: int) -> None:
        for event in happened(number):
            self._record(event)

    def prompt(self) -> list[dict[str, Any]]:
        # A model whose window is unknown makes the condenser count no tokens.
        llm = self.llm if self.everything else None
        while True:
            if self.everything:
                ConversationState.get_unmatched_actions(self.state.active_branch())
            prepared = prepare_llm_messages(self.state.view, condenser=self.condenser, llm=llm)
            if not isinstance(prepared, Condensation):
                break
            self._record(prepared)
        self.messages = prepared
        return self.llm.format_messages_for_llm(prepared)

    def count(self) -> int:
        return self.llm.get_token_count(self.messages)

    def _record(self, event: Event) -> None:
        with self.state:
            self.state.append_event(event)


def beginning() -> list[Event]:
    task = Message(role="user", content=[TextContent(text=TASK)])
    return [
        SystemPromptEvent(source="agent", system_prompt=TextContent(text=SYSTEM), tools=[]),
        MessageEvent(source="user", llm_message=task),
    ]


def happened(number: int) -> list[Event]:
    call = MessageToolCall(
        id=f"call_{number}",
        name="bash",
        arguments=json.dumps({"command": command(number)}),
        origin="completion",
    )
    action = ActionEvent(
        source="agent",
        thought=[TextContent(text=thought(number))],
        action=BashAction(command=command(number)),
        tool_name="bash",
        tool_call_id=call.id,
        tool_call=call,
        llm_response_id=f"chatcmpl-{number}",
    )
    observation = ObservationEvent(
        source="environment",
        observation=BashObservation.from_text(output(number)),
        action_id=action.id,
        tool_name="bash",
        tool_call_id=call.id,
    )
    return [action, observation]


def events(steps: int) -> list[Event]:
    return [event for number in range(steps) for event in happened(number)]


def with_everything(loop: SDKLoop) -> float:
    """A rolling step of a run that has come past 6,000 events."""
    loop.everything = True

    def step(number: int) -> None:
        loop.append(number)
        loop.prompt()

    return timed(step, LONG + 200, 100)


def _raw_response() -> Any:
    from litellm import ModelResponse

    return ModelResponse(id="chatcmpl-summary")


_RAW = _raw_response()


def main() -> None:
    logging.disable(logging.WARNING)
    log = [*beginning(), *events(LONG)]
    loop = SDKLoop(condensing=True)
    figures = {
        **step_without_condensing(SDKLoop(condensing=False), count=5, counted=1),
        **rolling(loop),
        "rolling_all": with_everything(loop),
        "fold": once(lambda: View.from_events(log)),
        "memory": memory(events),
        "import": import_time(NAMES_OF_A_LOOP),
    }
    names = ("openhands-sdk", "litellm", "pydantic")
    report(figures, {name: version(name) for name in names} | {"Python": platform.python_version()})


if __name__ == "__main__":
    main()
