"""The example agent: it works, and it survives being killed at any point."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eventfold.benchmarks import replay
from eventfold.condensers import NoOpCondenser
from eventfold.events import (
    CmdRunAction,
    CondensationAction,
    ErrorObservation,
    Event,
    EventStream,
    FileEditAction,
    FileEditObservation,
    FileReadAction,
    FileReadObservation,
    JsonlEventStore,
)
from eventfold.memory import ConversationMemory, Message, View, check_messages

EXAMPLE = Path(__file__).parent.parent / "examples" / "coding_agent.py"


def test_the_scripted_agent_does_its_task(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE), "--model", "scripted"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "hello/greet.py greets."
    assert (tmp_path / "hello/greet.py").read_text() == "print('hello')\n"
    stream = EventStream("agent", JsonlEventStore(tmp_path / ".sessions"))
    results = [getattr(event, "content", "") for event in stream if event.cause is not None]
    assert [re.split("[;.] ", result)[0] for result in results] == [
        *("hello\n", "created", "helo\n", "noted"),
        "The sub-task is open, 1 deep",
        *("replaced", "print('hello')\n"),
        *("The sub-task is closed, with 4 events of it folded away.", "hello\n"),
    ]
    (folded,) = (event for event in stream if isinstance(event, CondensationAction))
    gone = [type(stream[event_id]) for event_id in folded.forgotten]
    assert gone == [FileEditAction, FileEditObservation, FileReadAction, FileReadObservation]
    assert sum(1 for _ in replay(list(stream), NoOpCondenser())) == 10


# A script of commands that each leave a mark, and take a moment before and after it.
_RUN = f"""\
import runpy, sys
agent = runpy.run_path({str(EXAMPLE)!r})
agent["Scripted"].SCRIPT = [
    ("bash", {{"command": f"sleep 0.02; echo {{n}} >> marks; sleep 0.02"}}) for n in range(12)
] + [("finish", {{"message": "all done"}})]
agent["main"]()
"""


def resumed_until_done(folder: Path, chance: random.Random) -> int:
    """Runs the agent, killing it a moment after it has carried out a few calls, until it finishes;
    how often it was killed."""
    command = [sys.executable, "-u", "-c", _RUN]
    for kills in range(40):
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(chance.randint(1, 4))]
            if said[-1]:
                time.sleep(chance.uniform(0, 0.08))
                process.kill()
            said += process.stdout
        time.sleep(0.1)  # for what the shell was doing
        if any(line.startswith(("all done", "this task is finished")) for line in said):
            return kills
    raise AssertionError("the agent never finished")


@pytest.mark.parametrize("seed", range(2))
def test_an_agent_that_is_killed_at_any_point_goes_on(tmp_path: Path, seed: int) -> None:
    kills = resumed_until_done(tmp_path, random.Random(seed))
    assert kills > 1
    log = list(EventStream("agent", JsonlEventStore(tmp_path / ".sessions")))
    assert [event.id for event in log] == list(range(len(log)))
    interrupted = {e.cause for e in log if isinstance(e, ErrorObservation)}
    assert len(interrupted) <= kills
    marks = (tmp_path / "marks").read_text().split()
    runs = [event for event in log if isinstance(event, CmdRunAction)]
    for n, action in enumerate(runs):
        done = marks.count(str(n))
        assert done == 1 or (done == 0 and action.id in interrupted)  # never a second time
    assert len(runs) == 12
    for event, view in prompts(log):
        messages = ConversationMemory().process_events(view)
        assert check_messages(messages) == []
        kept = (event.llm_metrics or {}).get("prompt", {})
        if kept:
            assert kept["sha256"] == Message.sha256(messages)


def prompts(log: list[Event]) -> list[tuple[Event, View]]:
    """Each response of the log, with the view that it was an answer to."""
    return [
        (event, View.from_events(log[: event.id]))
        for event in log
        if event.tool_call_metadata is not None and event.cause is None
    ]


def ran(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLE), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_a_finished_session_says_so_and_takes_another_task(tmp_path: Path) -> None:
    assert ran(tmp_path).returncode == 0
    store = JsonlEventStore(tmp_path / ".sessions")
    before = store.count("agent")
    again = ran(tmp_path)
    assert again.stdout == "this task is finished: give another one, or another --session\n"
    assert store.count("agent") == before
    assert ran(tmp_path, "Now write another one.").returncode == 0
    users = [e for e in EventStream("agent", store) if e.source == "user"]
    assert [getattr(e, "content", "") for e in users] == [
        "Write a program that greets.",
        "Now write another one.",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--condenser", "nonsense"], "there is no condenser 'nonsense'"),
        (["--sessions", "file/in/the/way"], "file"),
        ([" "], "a task is needed"),
        (["x", "--model", "openai/any", "--api-base", "http://127.0.0.1:1"], "context_window"),
    ],
)
def test_a_mistake_is_told_in_a_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "file").touch()
    done = ran(tmp_path, *arguments)
    assert done.returncode == 1
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
