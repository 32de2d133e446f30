"""mini-swe-agent's own agent with eventfold as its memory: the same run, and one that stays small.

The models are that package's deterministic ones, and its real one with litellm replaced; commands
are carried out in a temporary folder.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from eventfold.condensers import (
    AgentContext,
    CannotCondense,
    Condenser,
    ConversationWindowCondenser,
    NoOpCondenser,
    condenser_from_config,
)
from eventfold.events import CondensationAction, EventStream, MessageAction, Run, read_runs
from eventfold.memory import ConversationMemory, Message, View, check_messages
from tests.command_line import ok

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

Json = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The example's module. mini-swe-agent gets a configuration folder of its own: it makes one."""
    if find_spec("minisweagent") is None:
        pytest.skip("needs mini-swe-agent: install tests/mini_swe_requirements.txt as it says")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MSWEA_GLOBAL_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))
        patch.setenv("MSWEA_SILENT_STARTUP", "1")
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        patch.syspath_prepend(EXAMPLES)
        yield import_module("mini_swe_agent")


# Scripted runs

COST = 0.01  # dollars an answer
TASK = "Write a.txt, and hand it in."
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat a.txt"


class Step(NamedTuple):
    """What the model says, and its commands: none of them is a format error."""

    text: str
    commands: Sequence[str] = ()


STEPS = (
    Step("Let me look.", ["ls"]),
    Step("Now I write it.", ["echo one > a.txt"]),
    Step("This fails.", ["cat missing.txt"]),
    Step("I forget to do something."),
    Step("And again."),
    Step("", ["echo two >> a.txt"]),
    Step("Twice at once.", ["wc -l a.txt", "printf ''"]),
    Step("Done.", [SUBMIT]),
)
TEXT_STEPS = tuple(
    Step(step.text, [command]) for step in STEPS for command in step.commands or [""]
)


class Refused(Exception):
    """What a provider says about a prompt that is too long."""


class Scripted:
    """A deterministic model of mini-swe-agent that remembers its prompts, raises the package's own
    format errors, and has a window (characters)."""

    def __init__(self, model: Any, parse: Callable[[Json], object], window: int | None) -> None:
        self.prompts: list[list[Json]] = []
        self.refused = 0
        self._model = model
        self._parse = parse
        self._window = window

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def query(self, messages: list[Json]) -> Json:
        if self._window is not None and len(json.dumps(said(messages))) > self._window:
            self.refused += 1
            raise Refused("This model's maximum context length is exceeded by your messages.")
        self.prompts.append(copy.deepcopy(messages))
        answer: Json = self._model.query(messages)
        self._parse(answer)
        return answer


def with_tool_calls(steps: Sequence[Step], window: int | None = None) -> Scripted:
    models = import_module("minisweagent.models.test_models")
    parsing = import_module("minisweagent.models.utils.actions_toolcall")

    def parse(answer: Json) -> None:
        if not answer["tool_calls"]:
            parsing.parse_toolcall_actions([], format_error_template="{{ error }}")

    outputs = []
    for n, step in enumerate(steps):
        ids = [f"call_{n}_{place}" for place in range(len(step.commands))]
        calls = [a_call(i, command) for i, command in zip(ids, step.commands, strict=True)]
        actions = [
            {"command": command, "tool_call_id": i}
            for i, command in zip(ids, step.commands, strict=True)
        ]
        outputs.append(models.make_toolcall_output(step.text or None, calls, actions))
        outputs[-1]["extra"]["cost"] = COST
    return Scripted(models.DeterministicToolcallModel(outputs=outputs), parse, window)


def a_call(call_id: str, command: str) -> Json:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    return {"id": call_id, "type": "function", "function": function}


def with_text(steps: Sequence[Step], window: int | None = None) -> Scripted:
    models = import_module("minisweagent.models.test_models")
    parsing = import_module("minisweagent.models.utils.actions_text")

    def parse(answer: Json) -> None:
        parsing.parse_regex_actions(
            answer["content"],
            action_regex=r"```bash\n(.*?)\n```",
            format_error_template="{{ error }}",
        )

    outputs = []
    for step in steps:
        commands = [command for command in step.commands if command]
        blocks = [f"```bash\n{command}\n```" for command in commands]
        actions = [{"command": command} for command in commands]
        outputs.append(models.make_output("\n\n".join([step.text, *blocks]), actions, COST))
    return Scripted(models.DeterministicModel(outputs=outputs), parse, window)


KINDS = [(with_tool_calls, STEPS), (with_text, TEXT_STEPS)]


def agent(
    example: Any, model: Any, folder: Path, context: AgentContext | None = None, **config: Any
) -> Any:
    """The package's own agent, or with a context the example's."""
    environment = import_module("minisweagent.environments.local").LocalEnvironment
    folder.mkdir()
    options = {
        "system_template": "You are a coding agent.",
        "instance_template": "Your task: {{ task }}",
        **config,
    }
    env = environment(cwd=str(folder))
    if context is None:
        return import_module("minisweagent.agents.default").DefaultAgent(model, env, **options)
    return example.FoldedAgent(model, env, context, **options)


def memory(condenser: Condenser) -> AgentContext:
    return AgentContext(EventStream("s"), condenser)


def said(messages: Sequence[Json]) -> list[Json]:
    """What messages say. What the user says in several of them in a row is said in one."""
    told = []
    for role, group in groupby(messages, lambda message: message["role"]):
        rows = [
            {
                "role": role,
                "text": message["content"] or "",
                "calls": [
                    (call["id"], call["function"]["name"], call["function"]["arguments"])
                    for call in message.get("tool_calls") or ()
                ],
                "answers": message.get("tool_call_id"),
            }
            for message in group
        ]
        if role == "user":
            rows = [{**rows[0], "text": "\n\n".join(row["text"] for row in rows)}]
        told += rows
    return told


# The same run


@pytest.mark.parametrize(("make", "steps"), KINDS)
@pytest.mark.parametrize(
    "config",
    [{}, {"step_limit": 3}, {"cost_limit": 2.5 * COST}, {"max_consecutive_format_errors": 2}],
    ids=["", "steps", "cost", "format errors"],
)
def test_a_run_that_forgets_nothing_is_the_packages_own(
    example: Any, tmp_path: Path, make: Any, steps: Sequence[Step], config: Json
) -> None:
    alone, folded = make(steps), make(steps)
    theirs = agent(example, alone, tmp_path / "alone", **config)
    context = memory(NoOpCondenser())
    ours = agent(example, folded, tmp_path / "folded", context, **config)
    ended = theirs.run(TASK)
    assert ours.run(TASK) == ended
    assert [said(prompt) for prompt in folded.prompts] == [said(p) for p in alone.prompts]
    assert said(ours.messages) == said(theirs.messages)
    assert (ours.n_calls, ours.cost) == (theirs.n_calls, theirs.cost)
    assert (
        getattr(context.stream[len(context.stream) - 1], "agent_state", "")
        == (ended["exit_status"])
    )
    if not config:
        assert ended == {"exit_status": "Submitted", "submission": "one\ntwo\n"}
        assert len(folded.prompts) == len(steps)


def test_the_trajectory_file_is_the_packages_own(example: Any, tmp_path: Path) -> None:
    saved: list[Json] = []
    for context in (None, memory(condenser_from_config({"type": "amortized", "max_size": 6}))):
        path = tmp_path / f"{len(saved)}.json"
        one = agent(
            example, with_tool_calls(STEPS), tmp_path / path.stem, context, output_path=path
        )
        one.run(TASK)
        saved.append(json.loads(path.read_text("utf-8")))
    alone, folded = saved
    assert said(folded["messages"]) == said(alone["messages"])
    assert folded["info"]["config"]["model_type"] == alone["info"]["config"]["model_type"]
    assert folded["info"]["config"]["agent_type"].endswith(".FoldedAgent")


def test_its_litellm_model_is_recorded_with_the_response_itself(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    litellm = import_module("litellm")
    no_tool = {"id": "c2", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    answers = iter(
        [
            {"content": "See.", "tool_calls": [a_call("c1", "echo one > a.txt")]},
            {"content": None, "tool_calls": [no_tool]},
            litellm.ContextWindowExceededError("too long", "any", "openai"),
            {"content": "Done.", "tool_calls": [a_call("c3", SUBMIT)]},
        ]
    )
    prompts: list[list[Json]] = []

    def completion(messages: list[Json], **_: Any) -> Any:
        prompts.append(copy.deepcopy(messages))
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        response = {
            "id": f"chatcmpl-{len(prompts)}",
            "choices": [{"message": {"role": "assistant", **answer}}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }
        return litellm.ModelResponse(**response)

    monkeypatch.setattr(litellm, "completion", completion)
    model = import_module("minisweagent.models.litellm_model").LitellmModel(
        model_name="any", cost_tracking="ignore_errors", set_cache_control="default_end"
    )
    context = memory(ConversationWindowCondenser())
    ended = agent(example, model, tmp_path / "folder", context).run(TASK)
    assert ended == {"exit_status": "Submitted", "submission": "one\n"}
    assert [check_messages(prompt) for prompt in prompts] == [[]] * 4
    assert "Unknown tool 'ls'" in str(prompts[2][-1])
    metrics = [event.llm_metrics for event in context.stream if event.llm_metrics]
    assert [one["usage"]["prompt_tokens"] for one in metrics] == [100, 100]
    responses = [e.tool_call_metadata for e in context.stream if e.tool_call_metadata]
    assert {one.response_id for one in responses} == {"chatcmpl-1", "chatcmpl-4"}


# A run that stays small

LINES = 40
LONG = (
    *(
        Step(f"Line {n}.", [f"printf 'line %0200d\\n' {n} >> a.txt; tail -n 5 a.txt"])
        for n in range(LINES)
    ),
    Step("No command."),
    Step("Done.", [SUBMIT]),
)
MOST_EVENTS = 12
SMALL = {
    "type": "pipeline",
    "condensers": [
        {"type": "llm", "llm_config": {"model": "extractive"}, "max_size": MOST_EVENTS},
        {"type": "conversation_window"},
    ],
}
RECENT = {"type": "recent", "max_events": MOST_EVENTS, "keep_first": None}


def condensations(context: AgentContext) -> list[CondensationAction]:
    return [event for event in context.stream if isinstance(event, CondensationAction)]


@pytest.mark.parametrize("make", [with_tool_calls, with_text])
@pytest.mark.parametrize("condenser", [SMALL, RECENT])
def test_prompts_stay_bounded_and_valid(
    example: Any, tmp_path: Path, make: Any, condenser: Json
) -> None:
    model = make(LONG)
    context = memory(condenser_from_config(condenser))
    ended = agent(example, model, tmp_path / "folder", context).run(TASK)
    assert ended["exit_status"] == "Submitted"
    assert ended["submission"].count("line") == LINES
    assert len(model.prompts) == len(LONG)
    for prompt in model.prompts:
        assert check_messages(prompt) == []
        assert len(prompt) <= MOST_EVENTS + 2
        assert TASK in prompt[1]["content"]
    assert (len(condensations(context)) > 3) == (condenser is SMALL)


@pytest.mark.parametrize("make", [with_tool_calls, with_text])
def test_an_overflow_is_condensed_away_and_is_no_step(
    example: Any, tmp_path: Path, make: Any
) -> None:
    model = make(LONG, window=10_000)
    context = memory(ConversationWindowCondenser())
    one = agent(example, model, tmp_path / "folder", context)
    assert one.run(TASK)["exit_status"] == "Submitted"
    assert model.refused == len(condensations(context)) > 1
    assert one.n_calls == len(model.prompts) == len(LONG)
    assert all(check_messages(prompt) == [] for prompt in model.prompts)


def test_what_cannot_be_made_smaller_ends_the_run(example: Any, tmp_path: Path) -> None:
    context = memory(ConversationWindowCondenser())
    one = agent(example, with_tool_calls(LONG, window=100), tmp_path / "folder", context)
    with pytest.raises(CannotCondense):
        one.run(TASK)
    assert one.messages[-1]["extra"]["exit_status"] == "CannotCondense"


def test_a_second_run_goes_on_in_the_same_history(example: Any, tmp_path: Path) -> None:
    model = with_tool_calls([*STEPS, Step("I know.", [SUBMIT])])
    one = agent(example, model, tmp_path / "folder", memory(NoOpCondenser()))
    one.run(TASK)
    one.run("Again.")
    assert check_messages(model.prompts[-1]) == []
    told = [message["content"] for message in model.prompts[-1]]
    assert "Now I write it." in told
    assert told[-1] == "Your task: Again."


# The history


@pytest.mark.parametrize("make", [with_tool_calls, with_text])
def test_the_history_is_saved_and_says_each_prompt_again(
    example: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Any,
) -> None:
    model = make(LONG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("minisweagent.models.get_model", lambda name, config: model)
    path, small = tmp_path / "run.jsonl", tmp_path / "small.json"
    small.write_text(json.dumps(SMALL), encoding="utf-8")
    options = ["--model", "any", "--condenser", str(small), "--history", str(path)]
    monkeypatch.setattr("sys.argv", ["mini_swe_agent.py", TASK, *options])
    example.main()
    assert len(path.read_text("utf-8").splitlines()) > len(LONG)
    (run,) = read_runs(path)
    assert isinstance(run, Run)
    assert (run.name, run.problems) == ("run", [])
    sent = [event.llm_metrics["prompt"] for event in run.events if event.llm_metrics]
    assert len(sent) == len(LONG) - 1  # the format error is no answer
    for prompt in sent:
        messages = ConversationMemory().process_events(
            View.from_events(run.events[: prompt["after"] + 1])
        )
        assert Message.sha256(messages) == prompt["sha256"]
    task = next(event for event in run.events if isinstance(event, MessageAction))
    assert "Recommended Workflow" in task.content
    assert "noop" in ok("replay", path, "--condenser", "noop", "--condenser", "default")
