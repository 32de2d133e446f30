"""``eventfold replay``: the numbers of each step, of each run, and of all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eventfold.benchmarks import replays
from eventfold.memory import TokenCounter, Violation
from tests.command_line import cells, events, ok, refused, rows, run, user, written


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
    # The user message and the summary, said as one message, and the newest response, with its call
    # and its result; the condensation is event 5.
    last = steps[-1]
    sizes = {key: last[key] for key in ("events", "view", "turns", "messages")}
    assert sizes == {"events": 6, "view": 4, "turns": 3, "messages": 3}
    assert (summary["view"], summary["max_view"], summary["condensations"]) == (4, 4, 1)
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
    monkeypatch.setattr(replays, "check_messages", lambda *_, **__: broken)
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
