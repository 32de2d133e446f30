r"""A coding agent in a page: bash, files, thinking, and a history that outlives it.

    python examples/coding_agent.py "Make the tests pass." --model anthropic/claude-sonnet-4-5
    python examples/coding_agent.py "Write a poem." --model openai/any --context-window 32768 \
        --api-base http://localhost:8000/v1
    python examples/coding_agent.py --model scripted      # needs no key: it makes up its decisions

Everything is in the stream, which is a file from the first event on (``--sessions``). Killed at
any point, the agent goes on with the same command: a call that was running then is not run a second
time but told to the model as interrupted. Another task goes on in the same session.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eventfold import (
    Action,
    AgentContext,
    AgentFinishAction,
    AgentThinkAction,
    CmdOutputObservation,
    CmdRunAction,
    ErrorObservation,
    EventfoldError,
    EventStream,
    FileEditAction,
    FileReadAction,
    MessageAction,
    SystemMessageAction,
    condenser_from_config,
)
from eventfold.condensers import CONDENSE_TOOL, FOLD_TOOL, LLM
from eventfold.events import InvalidArgument, JsonlEventStore, Observation, ToolCall
from eventfold.memory import ChatModel, Reply
from eventfold.memory.message import ChatDict

SYSTEM = (
    "You are a coding agent. Look before you change, test what you change, and call finish when "
    "the task is done."
)
SECONDS = 120  # a command may take


def tool(name: str, does: str, required: str, **optional: str) -> ChatDict:
    properties = {key: {"type": "string"} for key in required.split()} | {
        key: {"type": kind} for key, kind in optional.items()
    }
    schema = {"type": "object", "properties": properties, "required": required.split()}
    function = {"name": name, "description": does, "parameters": schema}
    return {"type": "function", "function": function}


TOOLS = [
    tool("bash", "Runs a command.", "command"),
    tool(
        "str_replace_editor",
        "command is view, create (with file_text) or str_replace (old_str, which occurs once, by "
        "new_str).",
        "command path",
        file_text="string",
        old_str="string",
        new_str="string",
    ),
    tool("think", "Notes a thought.", "thought"),
    tool("finish", "Ends the task.", "message"),
    FOLD_TOOL,  # these two are carried out by the context
    CONDENSE_TOOL,
]


def carry_out(action: Action) -> Observation | str:
    """What an action does here, and what comes back. Raises what goes wrong."""
    match action:
        case CmdRunAction(command=command):
            done = subprocess.run(
                ["bash", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=SECONDS,
            )
            output = done.stdout.decode("utf-8", "replace")
            return CmdOutputObservation(output, command, exit_code=done.returncode)
        case FileReadAction(path=path):
            return Path(path).read_text(encoding="utf-8")
        case FileEditAction(command="create", path=path, file_text=str(text)):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text, encoding="utf-8")
            return "created"
        case FileEditAction(command="str_replace", path=path, old_str=str(old), new_str=new):
            text = Path(path).read_text(encoding="utf-8")
            if not old or text.count(old) != 1:
                return ErrorObservation(f"old_str occurs {text.count(old)} times, not once")
            Path(path).write_text(text.replace(old, new or ""), encoding="utf-8")
            return "replaced"
        case AgentThinkAction():
            return "noted"
    return ErrorObservation(f"{action.kind} cannot be done here in this way")


def begin(context: AgentContext, task: str) -> bool:
    """Begins or takes up a session; False if its task is finished."""
    if not len(context.stream):
        context.stream.append(SystemMessageAction(SYSTEM))
    while context.state.waiting:  # killed in the middle of a call: it may have done its work
        context.observe(ErrorObservation("The agent was stopped here; this may have been done."))
    tasks = (e for e in context.stream.events(reverse=True) if e.source == "user")
    if getattr(next(tasks, None), "content", None) != task:
        context.stream.append(MessageAction(task), "user")
        return True
    return not isinstance(next(context.stream.events(reverse=True)), AgentFinishAction)


def run(context: AgentContext, model: ChatModel, task: str, steps: int) -> str:
    """Goes on with the session until the agent finishes or says something, or after ``steps``."""
    if not begin(context, task):
        return "this task is finished: give another one, or another --session"
    for _ in range(steps):
        try:
            reply = model.completion(context.messages(), tools=TOOLS)
        except Exception as error:
            if not context.overflowed(error):
                raise
            continue
        said = ""
        for action in context.record(reply):
            match action:
                case AgentFinishAction(final_thought=text) | MessageAction(content=text) if text:
                    said = text
                    continue
                case MessageAction():  # an empty answer: the model is asked again
                    continue
            try:
                result: object = carry_out(action)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                result = error
            shown = context.observe(result, action)
            print(f"[{action.id}] {action.kind}: {str(getattr(shown, 'content', ''))[:200]!r}")
        if said:
            return said
    return f"stopped after {steps} steps"


class Scripted:
    """A model without a key: what it asks for depends on what it asked for last."""

    SCRIPT: Sequence[tuple[str, dict[str, Any]]] = (
        ("bash", {"command": "mkdir -p hello && ls"}),
        (
            "str_replace_editor",
            {"command": "create", "path": "hello/greet.py", "file_text": "print('helo')\n"},
        ),
        ("bash", {"command": "python3 hello/greet.py"}),
        ("think", {"thought": "A letter is missing."}),
        ("fold", {"command": "open", "task": "Correct the letter."}),
        (
            "str_replace_editor",
            {
                "command": "str_replace",
                "path": "hello/greet.py",
                "old_str": "helo",
                "new_str": "hello",
            },
        ),
        ("str_replace_editor", {"command": "view", "path": "hello/greet.py"}),
        ("fold", {"command": "close", "summary": "helo is hello now, in hello/greet.py."}),
        ("bash", {"command": "python3 hello/greet.py"}),
        ("finish", {"message": "hello/greet.py greets."}),
    )

    def completion(
        self,
        messages: Sequence[ChatDict],
        *,
        tools: Sequence[ChatDict] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        ids = [call["id"] for said in messages for call in said.get("tool_calls", ())]
        step = int(ids[-1].removeprefix("call_")) + 1 if ids else 0
        name, arguments = self.SCRIPT[min(step, len(self.SCRIPT) - 1)]
        return Reply(tool_calls=(ToolCall(f"call_{step}", name, json.dumps(arguments)),))

    async def acompletion(self, messages: Sequence[ChatDict], **more: Any) -> Reply:
        return self.completion(messages, **more)


def main() -> None:
    parser = argparse.ArgumentParser(description="A coding agent on eventfold.")
    parser.add_argument("task", nargs="?", default="Write a program that greets.")
    parser.add_argument("--model", default="scripted", help="a litellm model, or: scripted")
    parser.add_argument("--api-base", help="the address of an OpenAI-compatible server")
    parser.add_argument("--context-window", type=int, help="of the model, in tokens")
    parser.add_argument("--session", default="agent", help="its name; one that is there goes on")
    parser.add_argument("--sessions", default=".sessions", help="the folder of their files")
    parser.add_argument("--condenser", default="default", help="a preset or a file")
    parser.add_argument("--steps", type=int, default=100, help="steps at most")
    given = parser.parse_args()
    try:
        print(session(given))
    except (EventfoldError, OSError) as error:
        sys.exit(f"coding_agent: {error}")
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
        sys.exit(130)


def session(given: argparse.Namespace) -> str:
    """Runs the agent in the session that was asked for."""
    if not given.task.strip():
        raise InvalidArgument("a task is needed")
    stream = EventStream(given.session, JsonlEventStore(given.sessions))
    if given.model == "scripted":
        model: ChatModel = Scripted()
        context = AgentContext(stream, condenser_from_config(given.condenser), tools=TOOLS)
    else:
        config = {
            "model": given.model,
            "api_base": given.api_base,
            "context_window": given.context_window,
        }
        llm = LLM(config)
        condenser = condenser_from_config(given.condenser, llm=llm)
        context = AgentContext(stream, condenser, tools=TOOLS, budget=llm.budget(TOOLS))
        model = llm
    return run(context, model, given.task, given.steps)


if __name__ == "__main__":
    main()
