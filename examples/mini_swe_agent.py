"""mini-swe-agent on eventfold: its own agent, whose memory is an event log.

    pip install mini-swe-agent
    python examples/mini_swe_agent.py "Make the tests pass." --model anthropic/claude-sonnet-4-5

:class:`FoldedAgent` is that package's ``DefaultAgent`` in all but one thing: the model is not sent
the agent's list of messages but what an :class:`AgentContext` makes of its log. Templates, limits,
format errors, submission and the trajectory file are the package's own, and so are its models, with
tool calls or with commands in text (not those of OpenAI's Responses API), and its environments.
The local one, used here, runs the model's commands on this machine.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minisweagent.agents.default import DefaultAgent

from eventfold import (
    AgentContext,
    CmdOutputObservation,
    EventStream,
    MessageAction,
    SystemMessageAction,
    condenser_from_config,
)
from eventfold.condensers import LLM
from eventfold.events import AgentStateChangedObservation, Run
from eventfold.memory import write_run
from eventfold.memory.message import ChatDict


class FoldedAgent(DefaultAgent):  # type: ignore[misc]
    """The agent. It goes on in ``context``: an earlier run that is in its stream is remembered.

    ``messages`` is what happened, for the trajectory file; the model never sees it.
    """

    def __init__(self, model: Any, env: Any, context: AgentContext, **config: Any) -> None:
        folded: Any = FoldedModel(model, context)
        super().__init__(folded, env, **config)
        self.context = context

    def add_messages(self, *messages: ChatDict) -> list[ChatDict]:
        for message in messages:
            log(message, self.context)
        added: list[ChatDict] = super().add_messages(*messages)
        return added


class FoldedModel:
    """A model that is asked with what the context says, whatever messages it is given."""

    def __init__(self, model: Any, context: AgentContext) -> None:
        self._model = model
        self._context = context

    def __getattr__(self, name: str) -> Any:  # templates, costs and configuration are the model's
        return getattr(self._model, name)

    def query(self, _: list[ChatDict], **options: Any) -> ChatDict:
        while True:
            prompt = [in_one_text(message) for message in self._context.messages()]
            try:
                answer: ChatDict = self._model.query(prompt, **options)
                return answer
            except Exception as error:
                if not self._context.overflowed(error):
                    raise


def log(message: ChatDict, context: AgentContext) -> None:
    """Appends to the context what one message of mini-swe-agent says."""
    match message:
        case {"role": "system", "content": text}:
            context.stream.append(SystemMessageAction(text))
        case {"role": "assistant"}:
            context.record(response_of(message, f"step-{len(context.stream)}"))
        case {"role": "tool", "content": text}:  # they come in the order of the calls
            context.observe(text)
        case {"role": "user", "content": text, "extra": {"returncode": _}}:  # no call asked for it
            context.stream.append(CmdOutputObservation(text))
        case {"role": "user", "content": text}:  # the task, a format error, a human
            context.stream.append(MessageAction(text), "user")
        case {"role": "exit", "content": text, "extra": {"exit_status": status}}:
            context.stream.append(AgentStateChangedObservation(text, agent_state=status))
        case _:
            raise ValueError(f"not a chat message of mini-swe-agent: {message!r:.200}")


def response_of(message: ChatDict, response_id: str) -> Mapping[str, Any]:
    """The chat completion that an assistant's message comes from, or one made of the message."""
    response = message.get("extra", {}).get("response")
    if isinstance(response, Mapping):
        return response
    said = {key: value for key, value in message.items() if key != "extra"}
    return {"id": response_id, "choices": [{"index": 0, "message": said}]}


def in_one_text(message: ChatDict) -> ChatDict:
    """The message with its texts joined: mini-swe-agent's cache control takes one part at most."""
    parts = message["content"]
    if not isinstance(parts, list) or any(part["type"] != "text" for part in parts):
        return message
    return {**message, "content": "\n\n".join(part["text"] for part in parts)}


def main() -> None:
    from minisweagent.config import get_config_from_spec
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models import get_model

    parser = argparse.ArgumentParser(description="mini-swe-agent on eventfold.")
    parser.add_argument("task")
    parser.add_argument("--model", required=True, help="a litellm model")
    parser.add_argument("--condenser", default="default", help="a preset or a file")
    parser.add_argument("--config", default="mini.yaml", help="mini-swe-agent's")
    parser.add_argument("--history", type=Path, default=Path("history.jsonl"), metavar="FILE")
    given = parser.parse_args()
    config = get_config_from_spec(given.config)
    condenser = condenser_from_config(given.condenser, llm=LLM({"model": given.model}))
    context = AgentContext(EventStream(given.history.stem), condenser)
    agent = FoldedAgent(
        get_model(given.model, config["model"]),
        LocalEnvironment(**config["environment"]),
        context,
        **config["agent"],
    )
    try:
        print(agent.run(given.task))
    finally:
        run = Run(context.stream.session_id, "eventfold", list(context.stream))
        write_run(run, given.history, "eventfold")
        print(f"try: eventfold replay {given.history} --condenser {given.condenser}")


if __name__ == "__main__":
    main()
