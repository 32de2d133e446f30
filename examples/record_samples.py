"""Records the sample trajectories: scripted decisions, carried out for real.

    python examples/record_samples.py                    # all of them, into examples/trajectories
    python examples/record_samples.py fix-slugs --out .  # one, elsewhere

``samples/<name>.yaml`` is the script of one run: the task, the files and web pages that are there
at the start, and what the "model" decides, step by step. Each decision is carried out in a
temporary folder (bash, python3, git, a web server on the loopback interface). What was asked and
what really came back goes through an :class:`EventStream`. Only the model is made up.

A run is the same, byte for byte, each time it is recorded with Python 3.11 to 3.13, because

* the clock is made up: a response takes 8 seconds, a result 2, a user 30; git sees that time, too;
* commands see an empty environment, UTC and the C locale, and a python3 that has only its standard
  library and leaves the carets out of its tracebacks;
* outputs are rewritten in one place (``Sandbox._shown``): the temporary folder is ``/workspace``,
  the web server ``http://localhost:8000``, and unittest takes 0.001 seconds;
* ids are hashes of names and numbers, and token usage is an estimate: 4 characters are a token.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import AwareDatetime, BaseModel, ConfigDict
from samples.sandbox import Sandbox, open_sandbox

from eventfold.events import (
    Action,
    AgentFinishAction,
    AgentStateChangedObservation,
    AgentThinkAction,
    BrowseInteractiveAction,
    BrowserOutputObservation,
    CmdOutputObservation,
    CmdRunAction,
    ErrorObservation,
    Event,
    EventStream,
    FileEditAction,
    FileReadAction,
    IPythonRunCellAction,
    IPythonRunCellObservation,
    MessageAction,
    ModelResponse,
    Observation,
    RecallAction,
    Run,
    SystemMessageAction,
    TaskTrackingAction,
    ToolCallMetadata,
)
from eventfold.memory import write_run

HERE: Final = Path(__file__).resolve().parent
SCRIPTS: Final = HERE / "samples"

RESPONSE_SECONDS: Final = 8
RESULT_SECONDS: Final = 2
USER_SECONDS: Final = 30
CHARACTERS_PER_TOKEN: Final = 4


# What is decided


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class UserMessage(_Data):
    """The user speaks."""

    user: str


class Response(_Data):
    """The model speaks, and may call tools: each call is ``{tool: arguments}``."""

    text: str = ""
    calls: list[dict[str, dict[str, Any]]] = []
    meanwhile: str | None = None
    """What the user says while the first call is running."""
    one_by_one: bool = False
    """A call is logged only when the one before it has its result, as OpenHands does it."""
    expect: str | None = None
    """What must be in the results, since the next decision builds on it; needed if a call fails."""


class Script(_Data):
    """A run before it is run."""

    start: AwareDatetime
    project: str
    task: str
    files: dict[str, str] = {}
    pages: dict[str, str] = {}
    """A small web site, by path, at ``http://localhost:8000``."""
    steps: list[UserMessage | Response]


class Agent(_Data):
    """What is the same in all runs."""

    system: str
    tools: list[dict[str, Any]]


def script_names() -> list[str]:
    return sorted(path.stem for path in SCRIPTS.glob("*.yaml") if path.stem != "agent")


def _load(name: str) -> Any:
    return yaml.safe_load((SCRIPTS / f"{name}.yaml").read_text("utf-8"))


# What is logged


class Recorder:
    """Carries out a script and logs what happens."""

    def __init__(self, name: str, script: Script, agent: Agent, sandbox: Sandbox) -> None:
        self._name = name
        self._script = script
        self._agent = agent
        self._sandbox = sandbox
        self._stream = EventStream(name)
        self._clock = script.start
        self._responses = 0
        self._prompt_characters = len(json.dumps(agent.tools))
        self._cached_tokens = 0

    def record(self) -> Run:
        """The whole run, from the system message to the end."""
        self._begin()
        for step in self._script.steps:
            if isinstance(step, UserMessage):
                self._user_says(step.user)
            elif step.calls:
                self._carry_out(step)
            else:
                said = MessageAction(content=step.text, wait_for_response=True)
                self._log(said, RESPONSE_SECONDS)
        self._log(AgentStateChangedObservation(agent_state="finished"), 0)
        return Run(self._name, "openhands_v0", list(self._stream))

    def _begin(self) -> None:
        system = SystemMessageAction(content=self._agent.system, tools=self._agent.tools)
        self._log(system, 0)
        self._log(AgentStateChangedObservation(agent_state="running"), 0)
        self._user_says(self._script.task)
        ask = RecallAction(recall_type="workspace_context", query=self._script.task)
        asked = self._log(ask, 0, "user")
        known = self._sandbox.workspace_context(self._clock)
        self._log(known.replace(cause=asked.id), 0)

    def _carry_out(self, response: Response) -> None:
        self._clock += timedelta(seconds=RESPONSE_SECONDS)
        actions = self._actions(response)
        meanwhile = response.meanwhile
        results = []
        for batch in [[action] for action in actions] if response.one_by_one else [actions]:
            running = [self._log(action, 0) for action in batch]
            if meanwhile is not None:
                self._user_says(meanwhile)
                meanwhile = None
            results += [self._log_result(action) for action in running]
        check(response, results)

    def _log_result(self, action: Event) -> Observation | None:
        """Does what an action says and logs what came back; None for an action without a result."""
        result = self._sandbox.result_of(action, self._clock)
        if result is not None:
            of_call = action.tool_call_metadata
            self._log(result.replace(cause=action.id, tool_call_metadata=of_call), RESULT_SECONDS)
        return result

    def _user_says(self, text: str) -> None:
        self._log(MessageAction(content=text), USER_SECONDS, "user")

    def _log(self, event: Event, seconds: int, source: str | None = None) -> Event:
        """Appends an event that took so many seconds."""
        self._clock += timedelta(seconds=seconds)
        self._prompt_characters += len(getattr(event, "content", ""))
        return self._stream.append(event.replace(timestamp=self._clock), source)

    def _actions(self, response: Response) -> list[Event]:
        """What a response asks for, each action with the call and the response that it is from."""
        calls = [call for by_tool in response.calls for call in by_tool.items()]
        answer = self._model_response(response.text, calls)
        return [
            to_action(tool, arguments, "" if n else response.text).replace(
                tool_call_metadata=ToolCallMetadata(
                    function_name=tool,
                    tool_call_id=answer.message().tool_calls[n].id,
                    total_calls_in_response=len(calls),
                    model_response=answer,
                )
            )
            for n, (tool, arguments) in enumerate(calls)
        ]

    def _model_response(self, text: str, calls: Sequence[tuple[str, Any]]) -> ModelResponse:
        """A response as litellm would give it."""
        self._responses += 1
        response_id = f"chatcmpl-{_digest(self._name, self._responses)}"
        tool_calls = [
            {
                "function": {"arguments": json.dumps(arguments), "name": tool},
                "id": f"call_{_digest(response_id, n)}",
                "type": "function",
            }
            for n, (tool, arguments) in enumerate(calls)
        ]
        message = {"content": text or None, "role": "assistant", "tool_calls": tool_calls}
        return ModelResponse.of(
            {
                "id": response_id,
                "created": int(self._clock.timestamp()),
                "model": "scripted",
                "object": "chat.completion",
                "choices": [{"finish_reason": "tool_calls", "index": 0, "message": message}],
                "usage": self._usage(len(text) + len(json.dumps(tool_calls))),
            }
        )

    def _usage(self, said_characters: int) -> dict[str, Any]:
        prompt = self._prompt_characters // CHARACTERS_PER_TOKEN
        said = said_characters // CHARACTERS_PER_TOKEN
        cached, self._cached_tokens = self._cached_tokens, prompt
        self._prompt_characters += said_characters
        return {
            "completion_tokens": said,
            "prompt_tokens": prompt,
            "total_tokens": prompt + said,
            "prompt_tokens_details": {"cached_tokens": cached},
        }


class UnexpectedResult(Exception):
    """What came back is not what the script goes on from."""


def check(response: Response, results: Sequence[Observation | None]) -> None:
    """Raises :class:`UnexpectedResult` unless all is well, or as bad as the script says."""
    came_back = "\n".join(result.content for result in results if result is not None)
    if response.expect is None:
        as_expected = not any(map(failed, results))
    else:
        as_expected = response.expect in came_back
    if not as_expected:
        wanted = "no failure" if response.expect is None else repr(response.expect)
        raise UnexpectedResult(f"{response.text}\nexpected {wanted}, found:\n{came_back}")


def failed(result: Observation | None) -> bool:
    match result:
        case CmdOutputObservation(exit_code=exit_code):
            return exit_code != 0
        case IPythonRunCellObservation(content=output):
            return "Traceback (most recent call last)" in output
        case BrowserOutputObservation(error=error):
            return error
    return isinstance(result, ErrorObservation)


def to_action(tool: str, arguments: dict[str, Any], thought: str) -> Action:
    """The action that a call of a tool means."""
    match tool, arguments:
        case "execute_bash", {"command": command}:
            return CmdRunAction(command=command, thought=thought)
        case "execute_ipython_cell", {"code": code}:
            return IPythonRunCellAction(code=code, thought=thought)
        case "str_replace_editor", {"command": "view", "path": path, **rest}:
            lines = rest.get("view_range")
            return FileReadAction(
                path=path, view_range=lines, impl_source="oh_aci", thought=thought
            )
        case "str_replace_editor", _:
            return FileEditAction(**arguments, thought=thought)
        case "browser", {"code": code}:
            return BrowseInteractiveAction(browser_actions=code, thought=thought)
        case "think", {"thought": logged}:
            return AgentThinkAction(thought=logged)
        case "task_tracker", _:
            return TaskTrackingAction(**arguments, thought=thought)
        case "finish", {"message": message}:
            return AgentFinishAction(final_thought=message, thought=thought)
    raise ValueError(f"no tool {tool!r} that takes {', '.join(arguments)}; see agent.yaml")


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def record(name: str) -> Run:
    """Records the sample of this name."""
    script = Script.model_validate(_load(name))
    agent = Agent.model_validate(_load("agent"))
    with open_sandbox(script.project, script.files, script.pages, script.start) as sandbox:
        return Recorder(name, script, agent, sandbox).record()


def main() -> None:
    parser = argparse.ArgumentParser(description="Records the sample trajectories.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {script_names()}")
    parser.add_argument("--out", type=Path, default=HERE / "trajectories", metavar="FOLDER")
    given = parser.parse_args()
    for name in given.names or script_names():
        run = record(name)
        write_run(run, given.out / f"{name}.json")
        print(f"{name}: {len(run.events)} events")


if __name__ == "__main__":
    main()
