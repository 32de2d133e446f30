"""The store on disk: nothing that was appended is lost, whatever kills the process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings

from eventfold.events import (
    CmdRunAction,
    Event,
    EventStream,
    JsonlEventStore,
    MessageAction,
    read_runs,
)
from eventfold.events.stores.base import IdTaken
from eventfold.events.stores.jsonl import BrokenFile
from tests.logs import event_logs


def said(text: str) -> MessageAction:
    return MessageAction(text)


def texts(stream: EventStream) -> list[str]:
    return [getattr(event, "content", "") for event in stream]


@settings(max_examples=40)  # each writes a file
@given(log=event_logs())
def test_what_is_appended_is_read_again_by_another_process(
    log: list[Event], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("sessions")
    stream = EventStream("s", JsonlEventStore(folder, sync=False))
    stored = stream.extend([event.replace(id=-1) for event in log])
    assert list(EventStream("s", JsonlEventStore(folder))) == stored
    if stored:
        (run,) = read_runs(folder / "s.jsonl")
        assert (run.name, run.events, run.problems) == ("s", stored, [])


def test_sessions_are_files_of_their_own(tmp_path: Path) -> None:
    store = JsonlEventStore(tmp_path / "made" / "when needed")
    assert store.count("a/b") == 0
    assert list(store.read("a/b")) == []
    assert not (tmp_path / "made").exists()
    EventStream("a/b", store).append(said("one"))
    EventStream("..", store).append(said("two"))
    assert sorted(p.name for p in store.folder.iterdir()) == ["...jsonl", "a%2Fb.jsonl"]
    assert texts(EventStream("a/b", JsonlEventStore(store.folder))) == ["one"]


def test_a_torn_last_line_is_set_aside_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = EventStream("s", JsonlEventStore(tmp_path))
    stream.extend([said("one"), said("two")])
    path = tmp_path / "s.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(len(lines[0]) + len(lines[1]), len(whole)):
        path.write_bytes(whole[:cut])
        again = EventStream("s", JsonlEventStore(tmp_path))
        assert texts(again) == ["one"]
        again.append(said("three"))
        assert texts(EventStream("s", JsonlEventStore(tmp_path))) == ["one", "three"]
        torn = whole[len(lines[0]) + len(lines[1]) : cut]
        if torn:
            assert (tmp_path / "s.torn").read_bytes() == torn
            assert f"{len(torn)} bytes of a torn line" in caplog.text


@pytest.mark.parametrize("line", [b"{}x\n", b"[1]\n", b'{"id": 7, "action": "null"}\n', b"\n"])
def test_a_file_that_is_damaged_elsewhere_is_refused_and_left_alone(
    tmp_path: Path, line: bytes
) -> None:
    EventStream("s", JsonlEventStore(tmp_path)).extend([said("one"), said("two")])
    path = tmp_path / "s.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = lines[0] + lines[1] + line + lines[2]
    path.write_bytes(damaged)
    with pytest.raises(BrokenFile, match=f"byte {len(lines[0]) + len(lines[1])}"):
        EventStream("s", JsonlEventStore(tmp_path)).append(said("three"))
    assert path.read_bytes() == damaged


def test_two_stores_on_one_session_see_each_others_events(tmp_path: Path) -> None:
    one = EventStream("s", JsonlEventStore(tmp_path))
    two = EventStream("s", JsonlEventStore(tmp_path))
    one.append(said("a"))
    two.append(said("b"))
    one.append(said("c"))
    assert texts(one) == texts(two) == ["a", "b", "c"]
    assert [event.id for event in two] == [0, 1, 2]
    with pytest.raises(IdTaken):
        JsonlEventStore(tmp_path).append("s", [said("x").replace(id=2)])


_APPEND = """\
import sys
from eventfold.events import EventStream, JsonlEventStore, MessageAction
stream = EventStream("s", JsonlEventStore(sys.argv[1], sync=False))
for n in range(int(sys.argv[3])):
    stream.append(MessageAction(f"{sys.argv[2]} {n}"))
    print(n, flush=True)
"""


def test_processes_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _APPEND, str(tmp_path)]
    running = [
        subprocess.Popen([*command, name, "40"], stdout=subprocess.DEVNULL) for name in "abc"
    ]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    found = texts(EventStream("s", JsonlEventStore(tmp_path)))
    assert sorted(found) == sorted(f"{name} {n}" for name in "abc" for n in range(40))
    for name in "abc":  # each one's own, in its order
        own = [text for text in found if text[0] == name]
        assert own == [f"{name} {n}" for n in range(40)]


def test_what_was_told_to_be_appended_survives_a_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _APPEND, str(tmp_path), "a", "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(50)][-1]
        os.kill(process.pid, signal.SIGKILL)
    found = texts(EventStream("s", JsonlEventStore(tmp_path)))
    assert len(found) > told
    assert found == [f"a {n}" for n in range(len(found))]


def test_a_full_disk_is_an_error_and_nothing_is_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = EventStream("s", JsonlEventStore(tmp_path))
    stream.append(said("one"))
    before = (tmp_path / "s.jsonl").read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        stream.extend([said("two"), said("three")])
    monkeypatch.undo()
    assert (tmp_path / "s.jsonl").read_bytes() == before
    stream.append(said("four"))
    assert texts(EventStream("s", JsonlEventStore(tmp_path))) == ["one", "four"]


def test_a_line_is_plain_ascii_json(tmp_path: Path) -> None:
    EventStream("s", JsonlEventStore(tmp_path)).append(CmdRunAction("echo é\u2028\ud800"))
    head, line = (tmp_path / "s.jsonl").read_bytes().splitlines()
    assert json.loads(head) == {"eventfold": 1, "name": "s"}
    assert line.isascii()
    assert json.loads(line)["args"]["command"] == "echo é\u2028\\ud800"
