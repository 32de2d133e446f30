"""What all commands share: problems and errors in a line, exit status, help, the process itself."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import eventfold
from eventfold.benchmarks import replays
from eventfold.condensers import CannotCondense
from tests.command_line import events, ok, refused, rows, run, user, written

COMMAND = [sys.executable, "-m", "eventfold.benchmarks.cli"]


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A run with seven lines that are no events, and no ids."""
    log = [
        user("Hello."),
        *range(7),
        {"source": "agent", "action": "message", "args": {"content": "."}},
    ]
    return written(tmp_path / "odd.json", {"history": log})


# Problems and errors


def test_problems_are_told_on_stderr(odd: Path) -> None:
    done = run("replay", odd)
    assert done.exit_code == 0
    problems = done.stderr.splitlines()
    assert len(problems) == 6
    assert (
        problems[0] == f"{odd}: history[1]: left out: an event is an object, this is the number 0"
    )
    assert problems[5].endswith("more; --json has them all")
    assert str(odd) not in done.stdout


def test_all_problems_are_in_the_json(odd: Path) -> None:
    done = run("replay", odd, "--json")
    assert done.stderr == ""
    told = [json.loads(line) for line in done.stdout.splitlines()]
    problems = [row for row in told if row["kind"] == "problem"]
    assert len(problems) >= 7
    assert set(problems[0]) == {"kind", "run", "file", "line", "text"}
    (shown,) = rows("replay", odd, "--at", 0)
    assert [problem["text"] for problem in shown["problems"]] == [row["text"] for row in problems]


def test_unknown_names_are_refused_with_those_there_are(one: Path) -> None:
    said = refused("replay", one, "--condenser", "nonsuch")
    assert "there is no condenser 'nonsuch'; there are: " in said
    assert "openhands-v0" in said
    said = refused("replay", one, "--profile", "nonsuch")
    assert said.startswith("unknown profile 'nonsuch'; there are: openai, anthropic")
    said = refused("check", "-", "--profile", "nonsuch", stdin="[]")
    assert said.startswith("unknown profile 'nonsuch'")


def test_what_cannot_be_read_is_refused(tmp_path: Path, one: Path) -> None:
    missing = tmp_path / "missing.json"
    assert str(missing) in refused("replay", missing)
    assert run("replay", one, missing).stdout == ""  # told before anything is done
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "the folder holds no files" in refused("replay", empty)
    broken = tmp_path / "broken.json"
    broken.write_text('{"history": [', encoding="utf-8")
    assert f"{broken}: cut off, or not JSON" in refused("replay", broken)


def test_a_bad_condenser_file_is_refused(one: Path, tmp_path: Path) -> None:
    assert "cannot read" in refused("replay", one, "--condenser", tmp_path / "none.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text('type = "noop"\nsize = 3\n', encoding="utf-8")
    assert "unknown key 'size'" in refused("replay", one, "--condenser", bad)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nonsuch",), "No such command 'nonsuch'"),
        ((), "Missing command"),
        (("--nonsuch",), "No such option: --nonsuch"),
        (("replay",), "Missing argument 'PATH"),
        (("check",), "Missing argument 'PATH"),
        (("replay", ".", "--nonsuch"), "No such option: --nonsuch"),
        (("replay", ".", "--at", "x"), "'--at'"),
        (("replay", ".", "--show", "x"), "'messages', 'view', 'events'"),
        (("replay", ".", "--max-message-chars", "-1"), "'--max-message-chars'"),
        (("check", ".", "--window", "0"), "'--window'"),
        (("check", ".", "--max-output-tokens", "-1"), "'--max-output-tokens'"),
    ],
)
def test_bad_usage_is_one_line(args: Sequence[str], said: str) -> None:
    done = run(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("eventfold: ")
    assert said in line
    command = " ".join(["eventfold", *(arg for arg in args[:1] if arg in ("replay", "check"))])
    assert line.endswith(f"(see {command} --help)")


def test_a_condenser_that_gives_up_is_one_line(one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(*_: object, **__: object) -> Iterator[None]:
        raise CannotCondense("too large")
        yield

    monkeypatch.setattr(replays, "replay", gives_up)
    assert refused("replay", one) == "one with default, step 0: too large"


def test_an_interrupt_ends_with_130(one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Iterator[None]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(replays, "replay", interrupted)
    done = run("replay", one)
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "")


def test_a_pipeline_that_answers_no_request_warns_once(folder: Path, tmp_path: Path) -> None:
    pipeline = written(tmp_path / "p.json", {"type": "pipeline", "condensers": [{"type": "noop"}]})
    done = run("replay", folder, "--condenser", pipeline)
    assert done.exit_code == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("eventfold: warning: no condenser of this pipeline can answer")


# Help, version, and the process itself


def test_help_and_version() -> None:
    assert ok("--version") == f"eventfold {eventfold.__version__}\n"
    assert "replay" in ok("--help")
    for command in ("replay", "check"):
        assert f"Example: eventfold {command} " in " ".join(ok(command, "--help").split())


def test_it_runs_as_a_module(one: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "replay", str(one), "--json"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line)["kind"] for line in done.stdout.splitlines()] == [
        *["step"] * 3,
        "summary",
    ]


def test_errors_of_a_process_have_no_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "replay", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"eventfold: {tmp_path}: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("options", [["--json"], ["--steps"], ["--at", "0"]])
def test_a_closed_pipe_is_no_traceback(one: Path, options: Sequence[str], unbuffered: str) -> None:
    process = subprocess.Popen(
        [*COMMAND, "replay", str(one), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 141
    process.stderr.close()


def test_text_of_any_kind_goes_to_any_terminal(tmp_path: Path) -> None:
    path = written(tmp_path / "text.json", events(text="Grüße, 世界"))
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [*COMMAND, "replay", str(path), "--at", "1"],
        capture_output=True,
        env=ascii_only,
        check=False,
    )
    assert done.returncode == 0
    assert rb"Gr\xfc\xdfe, \u4e16\u754c" in done.stdout


def test_the_progress_bar_stays_on_stderr(one: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "replay", str(one), "--json"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # so Linux says that the other side has closed
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    printed, _ = process.communicate()
    assert process.returncode == 0
    assert len([json.loads(line) for line in printed.splitlines()]) == 4
    assert b"one, default" in shown
