"""``eventfold replay --at``: a step as the model saw it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import events, ok, refused, rows, user, written


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
    first, summary, *newest = shown["view"]
    assert [event["id"] for event in newest] == [3, 4]
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
    assert len(lines) == 8


def test_a_stub_is_marked(tmp_path: Path) -> None:
    pages: list[dict[str, Any]] = []
    for place, number in ((1, "a"), (3, "b")):
        browse = {"source": "agent", "action": "browse", "args": {"url": f"http://{number}"}}
        page = {
            "source": "agent",
            "observation": "browse",
            "content": "All of the page. " * 50,
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
    assert log[5]["args"]["forgotten_event_ids"] == [1, 2]
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


def test_two_replays_are_equal(long: Path, small: Path) -> None:
    at = ("replay", long, "--condenser", small, "--at", 2, "--show", "events", "--json")
    assert ok(*at) == ok(*at)


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
