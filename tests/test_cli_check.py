"""``eventfold check``: which rules the messages of a file break, and where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import events, ok, refused, run, written

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
