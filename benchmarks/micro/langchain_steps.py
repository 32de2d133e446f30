"""What a step costs in LangChain: messages in a state, and its summarization middleware.

As an agent of ``create_agent`` does it: ``add_messages`` puts each node's messages into the state,
``before_model`` counts and summarizes, ``model_node`` patches, and the client makes dicts. The
graph that runs the nodes is left out, checkpoints too: the figures are on LangChain's side.
"""

# LangChain is not installed where this is checked.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

from langchain.agents.factory import _patch_invalid_tool_calls
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
)
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.graph.message import add_messages
from workload import (
    MAX_SIZE,
    SUMMARY,
    SYSTEM,
    TASK,
    command,
    import_time,
    memory,
    output,
    report,
    rolling,
    step_without_condensing,
    thought,
)

NAMES_OF_A_LOOP = """\
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage"""


class LangChainLoop:
    def __init__(self, *, condensing: bool) -> None:
        self.system = SystemMessage(SYSTEM)
        self.state: dict[str, list[AnyMessage]] = {"messages": add_messages([], HumanMessage(TASK))}
        self.summarization = None
        self.sent: list[AnyMessage] = []
        if condensing:
            self.summarization = SummarizationMiddleware(
                FakeListChatModel(responses=[SUMMARY]),
                trigger=("messages", MAX_SIZE),
                keep=("messages", MAX_SIZE // 2),
                # Its default hands over what follows the first user message in the newest 4,000
                # tokens: nothing in this run, so that no summary would be made.
                trim_tokens_to_summarize=None,
            )

    def append(self, number: int) -> None:
        for message in messages(number):
            self._update([message])

    def prompt(self) -> list[dict[str, Any]]:
        if self.summarization is not None:
            update = self.summarization.before_model(self.state, None)
            if update is not None:
                self._update(update["messages"])
        self.sent = [self.system, *_patch_invalid_tool_calls(self.state["messages"])]
        return convert_to_openai_messages(self.sent)

    def count(self) -> int:
        return count_tokens_approximately(self.sent)

    def _update(self, new: list[AnyMessage]) -> None:
        self.state = {"messages": add_messages(self.state["messages"], new)}


def messages(number: int) -> list[AnyMessage]:
    call = {"name": "bash", "args": {"command": command(number)}, "id": f"call_{number}"}
    return [
        AIMessage(thought(number), tool_calls=[call], id=f"chatcmpl-{number}"),
        ToolMessage(output(number), tool_call_id=f"call_{number}", name="bash"),
    ]


def events(steps: int) -> list[AnyMessage]:
    return add_messages([], [message for number in range(steps) for message in messages(number)])


def main() -> None:
    figures = {
        **step_without_condensing(LangChainLoop(condensing=False)),
        **rolling(LangChainLoop(condensing=True)),
        "memory": memory(events),
        "import": import_time(NAMES_OF_A_LOOP),
    }
    names = ("langchain", "langchain-core", "langgraph", "pydantic")
    report(figures, {name: version(name) for name in names} | {"Python": platform.python_version()})


if __name__ == "__main__":
    main()
