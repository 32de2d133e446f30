"""The recorded runs in examples/: they hold what their README promises, and nothing private."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path

import pytest

from eventfold.events import (
    Action,
    AgentFinishAction,
    AgentThinkAction,
    BrowserOutputObservation,
    CmdOutputObservation,
    ErrorObservation,
    Event,
    EventSource,
    FileEditAction,
    FileReadAction,
    IPythonRunCellAction,
    MessageAction,
    Observation,
    RecallObservation,
    Run,
    SystemMessageAction,
    TaskTrackingAction,
    event_from_dict,
    event_to_dict,
    read_runs,
)
from eventfold.memory import write_run

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FOLDER = EXAMPLES / "trajectories"
FILES = {path.stem: path for path in sorted(FOLDER.glob("*.json"))}

# What would tell something about the machine that recorded them.
PRIVATE = re.compile(
    rb"/tmp\b|/var/|/private/|/root\b|/home/|/Users/|/work/|/usr/|/opt/|\broot\b|pyenv|site-packages"
    rb"|127\.0\.0\.1|localhost(?!:8000\b)"
)


def run_of(name: str) -> Run:
    (run,) = read_runs(FILES[name])
    return run


RUNS = {name: run_of(name) for name in FILES}


@pytest.fixture(params=RUNS, name="run")
def every_run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]


def calls(run: Run) -> list[Action]:
    return [e for e in run.events if isinstance(e, Action) and e.tool_call_metadata is not None]


def results(run: Run) -> list[Observation]:
    return [
        e for e in run.events if isinstance(e, Observation) and e.tool_call_metadata is not None
    ]


def call_id(event: Event) -> str:
    assert event.tool_call_metadata is not None
    return event.tool_call_metadata.tool_call_id


def result_of(run: Run, call: Action) -> Observation:
    (result,) = (result for result in results(run) if result.cause == call.id)
    return result


def responses(run: Run) -> dict[str | None, list[Action]]:
    """The calls of each response, in the order of the log."""
    found: dict[str | None, list[Action]] = {}
    for call in calls(run):
        assert call.tool_call_metadata is not None
        found.setdefault(call.tool_call_metadata.response_id, []).append(call)
    return found


# Every run


def test_there_are_four() -> None:
    assert {name: len(run.events) for name, run in RUNS.items()} == {
        "fix-slugs": 30,
        "log-report": 74,
        "spreadsheet": 231,
        "tide-client": 64,
    }


def test_they_load_without_problems(run: Run) -> None:
    assert run.format == "openhands_v0"
    assert run.problems == []


def test_the_folder_can_be_read_as_a_whole() -> None:
    read = list(read_runs(FOLDER))
    problems = chain.from_iterable(run.problems for run in read)
    assert [run.name for run in read] == list(RUNS)
    assert [problem for problem in problems if not problem.file.endswith("README.md")] == []


def test_they_round_trip(run: Run, tmp_path: Path) -> None:
    assert run.path is not None
    recorded = run.path.read_bytes()
    events = json.loads(recorded)
    assert [event_to_dict(event_from_dict(event)) for event in events] == events
    write_run(run, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == recorded


def test_every_call_has_its_result(run: Run) -> None:
    waiting = [call for call in calls(run) if not isinstance(call, AgentFinishAction)]
    assert Counter(map(call_id, waiting)) == Counter(map(call_id, results(run)))
    for call in waiting:
        result = result_of(run, call)
        assert call.id < result.id
        assert result.tool_call_metadata == call.tool_call_metadata


def test_a_response_lists_the_calls_that_are_logged(run: Run) -> None:
    for logged in responses(run).values():
        metadata = logged[0].tool_call_metadata
        assert metadata is not None
        assert metadata.model_response is not None
        said = metadata.model_response.message().tool_calls
        assert [call.id for call in said] == list(map(call_id, logged))
        assert metadata.total_calls_in_response == len(logged)


def test_usage_counts_on(run: Run) -> None:
    """Each prompt holds the one before it, and is that much larger."""
    usages = []
    for first, *_ in responses(run).values():
        assert first.tool_call_metadata is not None
        assert first.tool_call_metadata.model_response is not None
        usages.append(first.tool_call_metadata.model_response.to_dict()["usage"])
    for before, after in pairwise(usages):
        assert after["prompt_tokens_details"]["cached_tokens"] == before["prompt_tokens"]
        assert after["prompt_tokens"] >= before["total_tokens"]


def test_they_begin_and_end_as_runs_do(run: Run) -> None:
    system, _, task, _, known = run.events[:5]
    assert isinstance(system, SystemMessageAction)
    assert {tool["function"]["name"] for tool in system.tools} >= {"execute_bash", "finish"}
    assert isinstance(task, MessageAction)
    assert task.source == EventSource.USER
    assert isinstance(known, RecallObservation)
    assert known.working_dir.startswith("/workspace/")
    assert isinstance(run.events[-2], AgentFinishAction)


def test_times_go_on(run: Run) -> None:
    times = [event.timestamp for event in run.events]
    assert None not in times
    assert times == sorted(time for time in times if time is not None)


def test_tests_fail_and_are_made_to_pass(run: Run) -> None:
    outputs = [event.content for event in run.events if isinstance(event, CmdOutputObservation)]
    tested = [output for output in outputs if re.search(r"^Ran \d+ tests", output, re.MULTILINE)]
    assert re.search(r"^FAILED \(", "\n".join(tested), re.MULTILINE)
    assert not re.search(r"^FAILED \(", tested[-1], re.MULTILINE)


def test_parallel_calls_are_in_every_run(run: Run) -> None:
    assert max(len(logged) for logged in responses(run).values()) >= 2


def test_nothing_private_is_in_them(run: Run) -> None:
    assert run.path is not None
    assert PRIVATE.findall(run.path.read_bytes()) == []


# What some of them hold


def test_a_failing_command_and_an_edit_that_misses() -> None:
    for name in ("fix-slugs", "spreadsheet"):
        events = RUNS[name].events
        assert any(isinstance(e, CmdOutputObservation) and e.exit_code == 1 for e in events)
        errors = [e for e in events if isinstance(e, ErrorObservation)]
        assert errors
        assert all("No replacement was performed" in error.content for error in errors)


@pytest.mark.parametrize("name", ["fix-slugs", "spreadsheet", "tide-client"])
def test_a_user_message_stands_between_a_call_and_its_result(name: str) -> None:
    run = RUNS[name]
    messages = [e for e in run.events if isinstance(e, MessageAction) and e.source == "user"]
    assert [
        message
        for message in messages
        for result in results(run)
        if result.cause is not None and result.cause < message.id < result.id
    ]


@pytest.mark.parametrize("name", ["log-report", "spreadsheet"])
def test_a_user_speaks_between_two_responses(name: str) -> None:
    run = RUNS[name]
    assert any(
        isinstance(before, Observation)
        and before.tool_call_metadata is not None
        and isinstance(message, MessageAction)
        and message.source == "user"
        for before, message in pairwise(run.events)
    )


def test_results_of_parallel_calls_come_together_or_one_by_one() -> None:
    together: set[str] = set()
    one_by_one: set[str] = set()
    for name, run in RUNS.items():
        for logged in responses(run).values():
            if len(logged) > 1:
                in_between = result_of(run, logged[0]).id < logged[1].id
                (one_by_one if in_between else together).add(name)
    assert together == set(RUNS)
    assert one_by_one == {"log-report", "tide-client"}


def test_kinds_of_actions() -> None:
    kinds = {type(call) for run in RUNS.values() for call in calls(run)}
    edits = [call for run in RUNS.values() for call in calls(run) if type(call) is FileEditAction]
    assert kinds >= {AgentThinkAction, IPythonRunCellAction, TaskTrackingAction, FileReadAction}
    assert {edit.command for edit in edits} == {"create", "str_replace", "insert"}


@pytest.mark.parametrize("name", ["log-report", "spreadsheet"])
def test_a_long_output(name: str) -> None:
    outputs = [e.content for e in RUNS[name].events if isinstance(e, CmdOutputObservation)]
    assert 4_000 < max(map(len, outputs)) < 10_000


@pytest.mark.parametrize("name", ["log-report", "spreadsheet", "tide-client"])
def test_a_file_is_viewed_after_it_was_edited(name: str) -> None:
    edited: set[str] = set()
    viewed: set[str] = set()
    for event in RUNS[name].events:
        if isinstance(event, FileEditAction):
            edited.add(event.path)
        elif isinstance(event, FileReadAction) and event.path in edited:
            viewed.add(event.path)
    assert viewed


def test_pages_are_read() -> None:
    pages = [e for e in RUNS["tide-client"].events if isinstance(e, BrowserOutputObservation)]
    assert [page.error for page in pages].count(True) == 1
    assert all(1_000 < len(page.content) < 3_000 for page in pages if not page.error)
    visits = Counter(page.url for page in pages)
    assert len(visits) == 7
    assert sorted(visits.values()) == [1, 1, 1, 1, 1, 2, 2]


# The folder


def test_the_readme_counts_right() -> None:
    readme = (FOLDER / "README.md").read_text("utf-8")
    for name, run in RUNS.items():
        found = responses(run)
        parallel = sum(len(logged) > 1 for logged in found.values())
        assert f"| `{name}.json` | {len(run.events)} | {len(found)} | {parallel} |" in readme


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in FILES.values()) < 1_000_000


@pytest.mark.skipif(not shutil.which("bash") or not shutil.which("git"), reason="no bash or git")
@pytest.mark.parametrize(
    "name",
    [
        "fix-slugs",
        *(pytest.param(name, marks=pytest.mark.slow) for name in FILES if name[0] != "f"),
    ],
)
def test_recorded_again_a_run_is_the_same(name: str, tmp_path: Path) -> None:
    script = EXAMPLES / "record_samples.py"
    done = subprocess.run(
        [sys.executable, script, name, "--out", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    again = json.loads((tmp_path / f"{name}.json").read_bytes())
    recorded = json.loads(FILES[name].read_bytes())
    for event, expected in zip(again, recorded, strict=True):
        assert event == expected
    assert (tmp_path / f"{name}.json").read_bytes() == FILES[name].read_bytes()
