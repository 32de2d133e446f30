"""The command line: what it prints, as text and as JSON, and its exit status."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import eventfold
from eventfold.benchmarks import cli
from eventfold.condensers import CannotCondense
from eventfold.memory import TokenCounter, Violation

COMMAND = [sys.executable, "-m", "eventfold.benchmarks.cli"]


def run(*args: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli.app, [str(arg) for arg in args], input=stdin)


def ok(*args: object, stdin: str | None = None) -> str:
    """What a command that succeeds prints."""
    result = run(*args, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*args: object, stdin: str | None = None) -> str:
    """The one line in which a command says why it cannot."""
    result = run(*args, stdin=stdin)
    assert result.exit_code == 2, result.output
    line = result.stderr.splitlines()[-1]
    assert line.startswith("eventfold: ")
    assert "Traceback" not in result.output
    return line.removeprefix("eventfold: ")


def rows(*args: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ok(*args, "--json").splitlines()]


def cells(table: str) -> list[list[str]]:
    """The lines of a table of single words."""
    return [line.split() for line in table.splitlines()]


# Runs, as OpenHands V0 writes them: a user message, two calls with their results, the last word.


def user(text: str, **args: Any) -> dict[str, Any]:
    return {"source": "user", "action": "message", "args": {"content": text, **args}}


def call(call_id: str, command: str) -> dict[str, Any]:
    asked = {
        "id": call_id,
        "type": "function",
        "function": {"name": "execute_bash", "arguments": json.dumps({"command": command})},
    }
    message = {"role": "assistant", "content": None, "tool_calls": [asked]}
    return {
        "source": "agent",
        "action": "run",
        "args": {"command": command},
        "tool_call_metadata": {
            "function_name": "execute_bash",
            "tool_call_id": call_id,
            "model_response": {"id": f"of-{call_id}", "choices": [{"message": message}]},
            "total_calls_in_response": 1,
        },
    }


def result(action: dict[str, Any], cause: int, content: str) -> dict[str, Any]:
    return {
        "source": "agent",
        "observation": "run",
        "content": content,
        "extras": {"command": action["args"]["command"], "metadata": {"exit_code": 0}},
        "cause": cause,
        "tool_call_metadata": action["tool_call_metadata"],
    }


def events(text: str = "ok", **args: Any) -> list[dict[str, Any]]:
    first, second = call("a", "ls src"), call("b", "cat src/main.py")
    log = [
        user("Fix the bug.", **args),
        *(first, result(first, 1, text)),
        *(second, result(second, 3, text)),
        {"source": "agent", "action": "message", "args": {"content": "It is fixed."}},
    ]
    return [{"id": place, **event} for place, event in enumerate(log)]


def written(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return written(tmp_path / "runs" / "one.json", events())


@pytest.fixture
def folder(one: Path) -> Path:
    """Two runs: ``one`` and ``two``."""
    written(one.parent / "two.json", events(text="x" * 400))
    return one.parent


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A run with seven lines that are no events, and no ids."""
    log = [
        user("Hello."),
        *range(7),
        {"source": "agent", "action": "message", "args": {"content": "."}},
    ]
    return written(tmp_path / "odd.json", {"history": log})


SMALL = """
[condenser]
type = "llm"
llm_config = {model = "extractive"}
max_size = 4
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A condenser that summarizes what is more than four events."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.fixture
def long(tmp_path: Path) -> Path:
    return written(tmp_path / "long.json", events(text="All is well. " * 200))


# Replay: numbers


def test_each_step_is_a_row_of_json(one: Path) -> None:
    *steps, summary = rows("replay", one, "--condenser", "noop")
    tokens = [step.pop("tokens") for step in steps]
    head = {"kind": "step", "run": "one", "condenser": "noop"}
    fine = {"condensations": 0, "violations": 0, "broken": []}
    assert steps == [
        {**head, "step": 0, "events": 1, "view": 1, "turns": 1, "messages": 1, **fine},
        {**head, "step": 1, "events": 3, "view": 3, "turns": 2, "messages": 3, **fine},
        {**head, "step": 2, "events": 5, "view": 5, "turns": 3, "messages": 5, **fine},
    ]
    assert summary == {
        "kind": "summary",
        "run": "one",
        "condenser": "noop",
        "steps": 3,
        "events": 6,
        "view": 5,
        "max_view": 5,
        "turns": 3,
        "messages": 5,
        "tokens": tokens[-1],
        "sum_tokens": sum(tokens),
        "condensations": 0,
        "violations": 0,
    }
    assert 0 < tokens[0] < tokens[1] < tokens[2]


def test_tokens_are_those_of_the_messages(one: Path) -> None:
    counter = TokenCounter(exact=False)
    for step in rows("replay", one)[:-1]:
        (shown,) = rows("replay", one, "--at", step["step"])
        assert step["tokens"] == counter.count(shown["messages"])


def test_a_condensation_counts_at_its_step(long: Path, small: Path) -> None:
    *steps, summary = rows("replay", long, "--condenser", small)
    assert [step["condensations"] for step in steps] == [0, 0, 1]
    # The user message and the summary, which are said as one message; the condensation is event 5.
    last = steps[-1]
    sizes = {key: last[key] for key in ("events", "view", "turns", "messages")}
    assert sizes == {"events": 6, "view": 2, "turns": 2, "messages": 1}
    assert (summary["view"], summary["max_view"], summary["condensations"]) == (2, 3, 1)
    assert summary["events"] == 6


def test_one_run_under_one_condenser_prints_its_steps(one: Path) -> None:
    printed = ok("replay", one)
    title, *table = printed.split("\n\n")[0].splitlines()
    assert title == "one with default"
    assert [row[:5] for row in cells("\n".join(table))] == [
        ["step", "events", "view", "turns", "messages"],
        ["0", "1", "1", "1", "1"],
        ["1", "3", "3", "2", "3"],
        ["2", "5", "5", "3", "5"],
    ]
    last = printed.splitlines()[-1].split()
    assert last[:8] == ["one", "default", "3", "6", "5", "5", "3", "5"]
    assert last[-2:] == ["0", "0"]
    assert "All runs" not in printed


def test_several_runs_print_summaries_only(folder: Path) -> None:
    table = cells(ok("replay", folder, "--condenser", "noop"))
    assert [row[:3] for row in table] == [
        ["run", "condenser", "steps"],
        ["one", "noop", "3"],
        ["two", "noop", "3"],
    ]


def test_steps_can_be_asked_for_and_left_out(folder: Path, one: Path) -> None:
    printed = ok("replay", folder, "--steps")
    assert "one with default\nstep" in printed
    assert "two with default\nstep" in printed
    assert ok("replay", one, "--no-steps").startswith("run ")


def test_several_condensers_are_compared(folder: Path, long: Path, small: Path) -> None:
    paths = (folder, long)
    options = ("--condenser", small, "--condenser", "noop", "--condenser", "noop")
    printed = ok("replay", *paths, *options)
    _, _, table = printed.partition("\nAll runs\n")
    names = ("condenser", "runs", "steps", "tokens", "all tokens", "to noop", "condensed")
    assert all(name in table.splitlines()[0] for name in names)
    first, noop = table.splitlines()[1:]

    sums = [row for row in rows("replay", *paths, *options) if row["kind"] == "summary"]
    paid = {
        name: sum(row["sum_tokens"] for row in sums if row["condenser"] == name)
        for name in (str(small), "noop")
    }
    assert paid[str(small)] < paid["noop"]
    assert noop.split()[:4] == ["noop", "3", "9", "5"]
    assert noop.split()[5:] == [f"{paid['noop']:,}", "1.00x", "0", "0"]
    ratio = f"{paid[str(small)] / paid['noop']:.2f}x"
    made = sum(row["condensations"] for row in sums)
    assert first.split()[-4:] == [f"{paid[str(small)]:,}", ratio, str(made), "0"]


def test_without_noop_there_is_nothing_to_relate_to(one: Path) -> None:
    options = ("--condenser", "default", "--condenser", "openhands-v0")
    table = ok("replay", one, *options).partition("\nAll runs\n")[2]
    assert [line.split()[-3] for line in table.splitlines()[1:]] == ["-", "-"]


def test_a_run_is_taken_by_its_name(folder: Path) -> None:
    found = rows("replay", folder, "--run", "two")
    assert {row["run"] for row in found} == {"two"}
    said = refused("replay", folder, "--run", "three")
    assert said == "no run is named 'three'; there are: one, two"


def test_a_run_without_steps_is_all_zeros(tmp_path: Path) -> None:
    path = written(tmp_path / "still.json", [{"id": 0, **user("Hello.")}])
    (summary,) = rows("replay", path)
    assert summary["events"] == 1
    assert {summary[name] for name in ("steps", "view", "max_view", "tokens", "sum_tokens")} == {0}
    assert "has no steps" in refused("replay", path, "--at", 0)


def test_results_are_cut_and_images_sent_on_demand(tmp_path: Path) -> None:
    pixel = (
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9Q"
        "DwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    path = written(tmp_path / "seen.json", events(text="y" * 500, image_urls=[pixel]))
    at = ("replay", path, "--at", 1)
    (plain,) = rows(*at)
    (with_image,) = rows(*at, "--vision")
    assert "image_url" not in json.dumps(plain)
    assert with_image["messages"][0]["content"][1]["image_url"]["url"] == pixel
    assert "[image] data:image/png, " in ok(*at, "--vision")
    assert "[image]" not in ok(*at, "--no-vision")

    (cut,) = rows(*at, "--max-message-chars", 100)
    assert len(plain["messages"][-1]["content"]) > 500
    assert len(cut["messages"][-1]["content"]) == 100
    sizes = [
        rows("replay", path, *more)[-1]["tokens"] for more in ([], ["--max-message-chars", 100])
    ]
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize("profile", ["openai", "anthropic", "gemini", "mistral", "portable"])
def test_every_profile_is_kept(folder: Path, profile: str) -> None:
    assert all(row["violations"] == 0 for row in rows("replay", folder, "--profile", profile))


def test_violations_are_told_and_end_with_1(
    folder: Path, one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [Violation("R1", 2, "no result"), Violation("R19", None, "no user")]
    monkeypatch.setattr(cli, "check_messages", lambda *_, **__: broken)
    done = run("replay", one)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1].split()[-1] == "6"
    assert done.stderr.splitlines()[:2] == [
        "eventfold: one with default, step 0: R1 at message 2: no result",
        "eventfold: one with default, step 0: R19: no user",
    ]
    many = run("replay", folder)
    assert many.stderr.splitlines()[10:] == [
        "eventfold: and 2 more violations; --json has them all"
    ]
    as_json = run("replay", one, "--json")
    assert as_json.exit_code == 1
    step = json.loads(as_json.stdout.splitlines()[0])
    assert step["violations"] == 2
    assert step["broken"][0] == {"rule": "R1", "index": 2, "problem": "no result"}
    at = run("replay", one, "--at", 1)
    assert at.exit_code == 1
    assert "step 1: R19: no user" in at.stderr


# Replay: a step as the model saw it


def test_messages_of_a_step(one: Path) -> None:
    shown = ok("replay", one, "--at", 1, "--show", "messages")
    head, *lines = shown.splitlines()
    assert head.startswith("one with default, step 1: 3 messages, ")
    assert lines[:7] == [
        "",
        "--- 0 user",
        "Fix the bug.",
        "",
        "--- 1 assistant",
        '-> execute_bash {"command": "ls src"} (a)',
        "",
    ]
    assert lines[7] == "--- 2 tool to a (execute_bash)"
    assert lines[8] == "ok"
    assert shown == ok("replay", one, "--at", 1)


def test_messages_of_a_step_as_json_can_be_checked(one: Path) -> None:
    printed = ok("replay", one, "--at", 2, "--json")
    shown = json.loads(printed)
    assert (shown["kind"], shown["run"], shown["step"]) == ("messages", "one", 2)
    roles = [message["role"] for message in shown["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]
    assert ok("check", "-", stdin=printed) == "stdin: 5 messages, violations of portable: 0\n"


def test_view_of_a_step(long: Path, small: Path) -> None:
    at = ("replay", long, "--condenser", small, "--at", 2, "--show", "view")
    (shown,) = rows(*at)
    first, summary = shown["view"]
    assert first == {
        "id": 0,
        "kind": "message",
        "turn": 0,
        "turn_kind": "user",
        "source": "user",
        "size": 12,
        "protected": True,
        "summary": False,
        "stub": False,
    }
    assert (summary["id"], summary["kind"], summary["turn"]) == (5, "condense", 1)
    assert (summary["summary"], summary["protected"], summary["stub"]) == (True, False, False)
    lines = ok(*at).splitlines()
    assert lines[2].split()[:6] == ["id", "kind", "turn", "source", "characters", "is"]
    assert lines[3].split()[:7] == ["0", "message", "0", "user", "user", "12", "protected"]
    assert "summary" in lines[4]
    assert len(lines) == 6


def test_a_stub_is_marked(tmp_path: Path) -> None:
    pages: list[dict[str, Any]] = []
    for place, number in ((1, "a"), (3, "b")):
        browse = {"source": "agent", "action": "browse", "args": {"url": f"http://{number}"}}
        page = {
            "source": "agent",
            "observation": "browse",
            "content": "page",
            "extras": {"url": f"http://{number}"},
            "cause": place,
        }
        pages += [browse, page]
    log = [
        user("Look."),
        *pages,
        {"source": "agent", "action": "message", "args": {"content": "."}},
    ]
    path = written(tmp_path / "pages.json", [{"id": n, **event} for n, event in enumerate(log)])
    options = ("--condenser", "browser_output_masking", "--at", 2, "--show", "view")
    (shown,) = rows("replay", path, *options)
    assert [row["stub"] for row in shown["view"]] == [False, False, True, False, False]


def test_events_of_a_step(long: Path, small: Path, one: Path) -> None:
    at = ("replay", long, "--condenser", small, "--at", 2, "--show", "events")
    (shown,) = rows(*at)
    log = shown["events"]
    assert [event["id"] for event in log] == [0, 1, 2, 3, 4, 5]
    assert log[5]["action"] == "condensation"
    assert log[5]["args"]["forgotten_event_ids"] == [1, 2, 3, 4]
    lines = ok(*at).splitlines()[2:]
    assert lines[0].split() == ["id", "kind", "source", "cause", "characters", "text"]
    assert lines[5].split()[:4] == ["4", "run", "agent", "3"]
    assert lines[6].split()[:4] == ["5", "condensation", "agent", "-"]
    short = ok("replay", one, "--at", 0, "--show", "events").splitlines()
    assert short[3].split() == ["0", "message", "user", "-", "12", "Fix", "the", "bug."]


def test_events_have_the_ids_of_the_replay(tmp_path: Path) -> None:
    """A recorded condensation is left out: what follows moves up, and causes with it."""
    gone = {"action": "condensation", "args": {"forgotten_event_ids": [0]}, "source": "agent"}
    recorded = [*events()[:3], gone, *events()[3:]]
    recorded[5] = {**recorded[5], "cause": 4}
    log = [{**event, "id": place} for place, event in enumerate(recorded)]
    path = written(tmp_path / "moved.json", log)
    (shown,) = rows("replay", path, "--condenser", "noop", "--at", 2, "--show", "events")
    assert [(e["id"], e.get("cause")) for e in shown["events"]] == [
        *((0, None), (1, None), (2, 1), (3, None), (4, 3)),
    ]


def test_a_step_is_shown_for_each_condenser(one: Path) -> None:
    options = ("--condenser", "noop", "--condenser", "default", "--at", 0)
    assert [row["condenser"] for row in rows("replay", one, *options)] == ["noop", "default"]


def test_a_step_needs_a_single_run(folder: Path, one: Path, tmp_path: Path) -> None:
    said = refused("replay", folder, "--at", 0)
    assert said == "--at shows a single run; name one with --run NAME, of: one, two"
    assert "step 0: 1 messages" in ok("replay", folder, "--at", 0, "--run", "two")
    twin = written(tmp_path / "elsewhere" / "one.json", events())
    said = refused("replay", one, twin, "--run", "one", "--at", 0)
    assert said == "2 runs are named 'one'; give the file of one"


@pytest.mark.parametrize("step", [3, -1, 99])
def test_a_step_out_of_range_says_how_many_there_are(one: Path, step: int) -> None:
    said = refused("replay", one, "--at", step)
    assert said == f"there is no step {step}: one has 3 steps, 0 to 2"


def test_show_needs_a_step(one: Path) -> None:
    assert refused("replay", one, "--show", "view").startswith("--show needs --at STEP")


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = written(tmp_path / "bell\x07.json", events(text="\x1b[2Jred\r\x9b31m\ttab \ud800"))
    for options in (
        (),
        ("--at", 2),
        ("--at", 2, "--show", "view"),
        ("--at", 2, "--show", "events"),
    ):
        printed = ok("replay", path, *options)
        assert not any(ord(char) < 32 and char not in "\n\t" for char in printed)
        assert "\x9b" not in printed
    assert "\\x1b[2Jred\\x0d\\x9b31m\ttab \\ud800" in ok("replay", path, "--at", 2)


# Replay: problems and errors


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

    monkeypatch.setattr(cli, "replay_run", gives_up)
    assert refused("replay", one) == "one with default, step 0: too large"


def test_an_interrupt_ends_with_130(one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Iterator[None]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(cli, "replay_run", interrupted)
    done = run("replay", one)
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "")


def test_a_pipeline_that_answers_no_request_warns_once(folder: Path, tmp_path: Path) -> None:
    pipeline = written(tmp_path / "p.json", {"type": "pipeline", "condensers": [{"type": "noop"}]})
    done = run("replay", folder, "--condenser", pipeline)
    assert done.exit_code == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("eventfold: warning: no condenser of this pipeline can answer")


# Check

GOOD = [{"role": "user", "content": "Fix the bug."}]
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "run", "arguments": "{}"}}],
}
UNANSWERED = [*GOOD, CALLED, {"role": "user", "content": "And?"}]


def test_good_messages(tmp_path: Path) -> None:
    path = written(tmp_path / "good.json", GOOD)
    wrapped = written(tmp_path / "wrapped.json", {"model": "some", "messages": GOOD})
    assert ok("check", path, wrapped).splitlines() == [
        f"{path}: 1 messages, violations of portable: 0",
        f"{wrapped}: 1 messages, violations of portable: 0",
    ]


def test_violations_name_message_rule_and_problem(tmp_path: Path) -> None:
    path = written(tmp_path / "bad.json", UNANSWERED)
    done = run("check", path)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"{path}: R1 at message 1: call 'a' has no result directly after it",
        f"{path}: 3 messages, violations of portable: 1",
    ]


def test_check_as_json(tmp_path: Path) -> None:
    path = written(tmp_path / "bad.json", UNANSWERED)
    done = run("check", path, "--json", "--profile", "openai")
    assert done.exit_code == 1
    violation, summary = map(json.loads, done.stdout.splitlines())
    place = {"file": str(path), "line": None}
    assert violation == {
        "kind": "violation",
        **place,
        "rule": "R1",
        "index": 1,
        "problem": "call 'a' has no result directly after it",
    }
    assert summary == {
        "kind": "summary",
        **place,
        "profile": "openai",
        "messages": 3,
        "violations": 1,
    }


def test_jsonl_has_a_list_a_line(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    lines = [json.dumps(GOOD), "", json.dumps({"messages": UNANSWERED})]
    path.write_text("\n".join(lines), encoding="utf-8")
    done = run("check", path)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == f"{path}:1: 1 messages, violations of portable: 0"
    assert done.stdout.splitlines()[-1] == f"{path}:3: 3 messages, violations of portable: 1"


def test_json_may_have_a_mark_and_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "pretty.json"
    path.write_text("\ufeff" + json.dumps(GOOD, indent=2), encoding="utf-8")
    assert "1 messages" in ok("check", path)


def test_profiles_differ(tmp_path: Path) -> None:
    path = written(tmp_path / "said.json", [*GOOD, {"role": "assistant", "content": "Done."}])
    assert run("check", path).exit_code == 1  # R11: the user's side has the last word
    assert run("check", path, "--profile", "openai").exit_code == 0


def test_the_window_is_checked(tmp_path: Path) -> None:
    path = written(tmp_path / "long.json", [{"role": "user", "content": "word " * 2000}])
    assert "R18" in run("check", path, "--window", 100).stdout
    ok("check", path, "--window", 100_000)
    full = ("--window", 100_000, "--max-output-tokens", 99_999)
    assert "99999 reserved output tokens" in run("check", path, *full).stdout
    assert "needs --window" in refused("check", path, "--max-output-tokens", 5)


def test_tools_are_checked(tmp_path: Path) -> None:
    path = written(tmp_path / "good.json", GOOD)
    tools = [{"type": "function", "function": {"name": "not plain", "parameters": {}}}]
    for given in (tools, {"tools": tools}):
        done = run("check", path, "--tools", written(tmp_path / "tools.json", given))
        assert done.exit_code == 1
        assert "R17: tool name 'not plain'" in done.stdout
    request = written(tmp_path / "request.json", {"messages": GOOD, "tools": tools})
    assert "R17" in run("check", request).stdout
    said = refused("check", path, "--tools", written(tmp_path / "tools.json", {"a": 1}))
    assert "expected a list of tools" in said
    assert "'--tools'" in refused("check", path, "--tools", tmp_path / "none.json")


def test_a_trajectory_is_sent_to_replay(one: Path, tmp_path: Path) -> None:
    said = refused("check", one, "--profile", "openai")
    assert "is a trajectory (OpenHands V0 events), and check takes files of chat messages" in said
    assert said.endswith("eventfold replay FILE --profile openai")
    row = {"history": events(), "messages": [""]}  # evaluation rows may have both
    assert "is a trajectory" in refused("check", written(tmp_path / "row.json", row))
    v1 = [{"id": "x", "kind": "MessageEvent", "source": "user"}]
    assert "(OpenHands V1" in refused("check", written(tmp_path / "v1.json", v1))
    assert "eventfold replay" in refused("check", one.parent)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "stdin is empty"),
        (" \n ", "stdin is empty"),
        ("[", "stdin: cut off, or not JSON"),
        ("hello", "stdin: not JSON"),
        ("3", "expected a list of messages"),
        ('{"prompt": 1}', "found an object with the keys 'prompt'"),
        ('{"messages": 1}', "expected a list of messages"),
        ("[]\n[", "stdin:2: cut off, or not JSON"),
        ("[" * 100_000, "stdin: "),
    ],
)
def test_what_is_no_list_of_messages_is_refused(text: str, said: str) -> None:
    done = run("check", "-", stdin=text)
    assert done.exit_code in (1, 2)
    assert said in done.stderr.splitlines()[-1]
    assert done.exit_code == 2


def test_items_that_are_no_messages_are_violations() -> None:
    done = run("check", "-", stdin='[1, {"role": "nobody"}]')
    assert done.exit_code == 1
    assert "stdin: R16 at message 0: expected a chat message" in done.stdout
    assert "R19: the list is empty" in run("check", "-", stdin="[]").stdout


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    assert refused("check", missing) == f"{missing}: No such file or directory"


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


@pytest.mark.parametrize("options", [["--json"], ["--steps"], ["--at", "0"]])
def test_a_closed_pipe_is_no_traceback(one: Path, options: Sequence[str]) -> None:
    process = subprocess.Popen(
        [*COMMAND, "replay", str(one), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
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


# Recorded runs


@pytest.mark.slow
def test_recorded_runs_break_no_rule(corpus: Path) -> None:
    folder = corpus / "1_openhands_v0"
    done = run("replay", folder, "--condenser", "openhands-v0", "--condenser", "noop", "--json")
    assert done.exit_code == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    sums = [row for row in told if row["kind"] == "summary"]
    assert len(sums) > 40
    assert {row["violations"] for row in sums} == {0}
    steps = [row for row in told if row["kind"] == "step"]
    assert len(steps) == sum(row["steps"] for row in sums)
    assert sum(row["tokens"] for row in steps) == sum(row["sum_tokens"] for row in sums)
    paid = {
        name: sum(row["sum_tokens"] for row in sums if row["condenser"] == name)
        for name in ("openhands-v0", "noop")
    }
    assert paid["openhands-v0"] < paid["noop"]
