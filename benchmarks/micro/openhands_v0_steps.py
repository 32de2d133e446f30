"""What a step costs in OpenHands V0: its event stream, state, condenser and conversation memory.

As ``CodeActAgent.step`` does it: events go through the ``EventStream`` (with its in-memory file
store) into the state's history, the condenser gets the state's view, the conversation memory makes
messages, and the LLM client makes dicts of them. The controller around it is left out.
"""

# OpenHands is not installed where this is checked.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import logging
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("LOG_LEVEL", "ERROR")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import openhands
from litellm import ModelResponse
from openhands.controller.state.state import State
from openhands.core.config import AgentConfig, LLMConfig
from openhands.events import EventSource, EventStream
from openhands.events.action import CmdRunAction, MessageAction
from openhands.events.action.message import SystemMessageAction
from openhands.events.event import Event
from openhands.events.observation import CmdOutputObservation
from openhands.events.serialization.event import event_from_dict
from openhands.events.tool import ToolCallMetadata
from openhands.llm.llm import LLM
from openhands.memory.condenser.condenser import Condensation
from openhands.memory.condenser.impl.llm_summarizing_condenser import LLMSummarizingCondenser
from openhands.memory.condenser.impl.no_op_condenser import NoOpCondenser
from openhands.memory.conversation_memory import ConversationMemory
from openhands.memory.view import View
from openhands.storage.memory import InMemoryFileStore
from openhands.utils.prompt import PromptManager
from workload import (
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
)

NAMES_OF_A_LOOP = """\
from openhands.controller.state.state import State
from openhands.events import EventSource, EventStream
from openhands.events.action import CmdRunAction, MessageAction
from openhands.events.observation import CmdOutputObservation
from openhands.memory.condenser.impl.llm_summarizing_condenser import LLMSummarizingCondenser
from openhands.memory.conversation_memory import ConversationMemory"""


class InstantLLM(LLM):
    """A model that answers at once."""

    @property
    def completion(self) -> Any:
        said = {"role": "assistant", "content": SUMMARY}
        return lambda **_: ModelResponse(choices=[{"index": 0, "message": said}])


class V0Loop:
    def __init__(self, *, condensing: bool) -> None:
        config = LLMConfig(model="gpt-4o", api_key="none")
        self.llm = InstantLLM(config, service_id="agent")
        self.stream = EventStream("micro", InMemoryFileStore())
        self.state = State(session_id="micro")
        prompts = Path(openhands.__path__[0], "agenthub", "codeact_agent", "prompts")
        self.memory = ConversationMemory(AgentConfig(), PromptManager(str(prompts)))
        self.condenser = (
            LLMSummarizingCondenser(InstantLLM(config, service_id="condenser"), max_size=MAX_SIZE)
            if condensing
            else NoOpCondenser()
        )
        self.sent: list[Any] = []
        self._record(SystemMessageAction(content=SYSTEM), EventSource.AGENT)
        self._record(MessageAction(content=TASK), EventSource.USER)

    def append(self, number: int) -> None:
        action, observation = happened(number)
        self._record(action, EventSource.AGENT)
        observation._cause = action.id
        self._record(observation, EventSource.AGENT)

    def prompt(self) -> list[dict[str, Any]]:
        while True:
            self.state.get_last_user_message()
            condensed = self.condenser.condensed_history(self.state)
            if not isinstance(condensed, Condensation):
                break
            self._record(condensed.action, EventSource.AGENT)
        task = next(e for e in self.state.history if isinstance(e, MessageAction))
        messages = self.memory.process_events(
            condensed_history=condensed.events,
            initial_user_action=task,
            max_message_chars=self.llm.config.max_message_chars,
            vision_is_active=self.llm.vision_is_active(),
        )
        if self.llm.is_caching_prompt_active():
            self.memory.apply_prompt_caching(messages)
        self.sent = self.llm.format_messages_for_llm(messages)
        return self.sent

    def count(self) -> int:
        return self.llm.get_token_count(self.sent)

    def _record(self, event: Event, source: EventSource) -> None:
        self.stream.add_event(event, source)
        self.state.history.append(event)  # what the controller does when the stream calls it


def happened(number: int) -> list[Event]:
    metadata = ToolCallMetadata(
        function_name="bash",
        tool_call_id=f"call_{number}",
        model_response=ModelResponse(**response(number)),
        total_calls_in_response=1,
    )
    pair = [
        CmdRunAction(command=command(number), thought=thought(number)),
        CmdOutputObservation(content=output(number), command=command(number), exit_code=0),
    ]
    for event in pair:
        event.tool_call_metadata = metadata
    return pair


def events(steps: int) -> list[Event]:
    log = [event for number in range(steps) for event in happened(number)]
    for place, event in enumerate(log):
        event._id = place
    return log


def main() -> None:
    logging.disable(logging.WARNING)
    log = events(LONG)
    figures = {
        **step_without_condensing(V0Loop(condensing=False), count=5, counted=1),
        **rolling(V0Loop(condensing=True)),
        "fold": once(lambda: View.from_events(log)),
        "load": loaded(event_from_dict),
        "memory": memory(events),
        "import": import_time(NAMES_OF_A_LOOP),
    }
    names = ("openhands-ai", "litellm", "pydantic")
    report(figures, {name: version(name) for name in names} | {"Python": platform.python_version()})


if __name__ == "__main__":
    main()
