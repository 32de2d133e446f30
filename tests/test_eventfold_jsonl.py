"""eventfold's own files: any log comes back equal, and a torn one as far as it goes."""

import json
from pathlib import Path

import pytest
from hypothesis import given

from eventfold.events import (
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    Event,
    EventSource,
    MessageAction,
    Run,
    UnreadableRun,
    read_runs,
)
from eventfold.events.encoding import storable
from eventfold.memory import write_run
from tests.logs import event_logs

LOG: list[Event] = [
    MessageAction("do\ud800", source=EventSource.USER, id=0),
    CmdRunAction("ls", source=EventSource.AGENT, id=1),
    CmdOutputObservation("a\u2028b", command="ls", cause=1, id=2),
]


def written(path: Path, events: list[Event], name: str = "some run") -> Path:
    write_run(Run(name, "", events), path, "eventfold")
    return path


def only(path: Path) -> Run:
    (run,) = read_runs(path)
    assert run.format == "eventfold"
    assert [event.id for event in run.events] == list(range(len(run.events)))
    return run


def test_a_log_is_a_head_line_and_an_event_a_line(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", LOG)
    head, *lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    assert head == {"eventfold": 1, "name": "some run"}
    assert [line["id"] for line in lines] == [0, 1, 2]
    run = only(path)
    assert (run.name, run.events, run.problems) == ("some run", LOG, [])
    assert run.recorded_ids == [0, 1, 2]


@given(log=event_logs())
def test_any_log_comes_back_equal(
    tmp_path_factory: pytest.TempPathFactory, log: list[Event]
) -> None:
    # As a stream stores them: JSON cannot tell a surrogate pair that is written apart from a whole.
    log = [storable(event) for event in log]
    run = only(written(tmp_path_factory.mktemp("law") / "x.jsonl", log))
    assert run.events == log
    assert run.problems == []


def test_an_empty_log_comes_back_empty(tmp_path: Path) -> None:
    assert only(written(tmp_path / "x.json", [])).events == []


@pytest.mark.parametrize("lost", [1, 5, 30])
def test_a_torn_last_line_is_set_aside(tmp_path: Path, lost: int) -> None:
    path = written(tmp_path / "x.jsonl", LOG)
    path.write_bytes(path.read_bytes()[: -lost - 1])
    run = only(path)
    assert run.events == LOG[:2]
    (problem,) = run.problems
    assert problem.line == 4
    assert "left out: cut off" in problem.text


def test_a_log_without_its_last_newline_is_whole(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", LOG)
    path.write_bytes(path.read_bytes()[:-1])
    assert only(path).events == LOG


def test_a_torn_head_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"eventfold": 1, "na')
    with pytest.raises(UnreadableRun, match="cut off"):
        list(read_runs(path))


def test_a_lost_line_in_the_middle_is_told_and_causes_still_hold(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", LOG)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"{torn", b"[]", *lines[2:]]))
    run = only(path)
    assert [type(event) for event in run.events] == [CmdRunAction, CmdOutputObservation]
    assert run.events[1].cause == 0
    assert run.recorded_ids == [1, 2]
    assert [problem.line for problem in run.problems] == [2, 3, None]
    assert "numbered anew" in run.problems[-1].text


def test_events_are_numbered_when_they_are_written(tmp_path: Path) -> None:
    new = MessageAction("new", source=EventSource.USER)
    cut = [*LOG[1:], CondensationAction([2], id=3), new]
    run = only(written(tmp_path / "x.jsonl", cut))
    assert [event.cause for event in run.events] == [None, 0, None, None]
    condensation = run.events[2]
    assert isinstance(condensation, CondensationAction)
    assert list(condensation.forgotten) == [1]
    assert run.problems == []


def test_logs_that_were_appended_to_each_other(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", LOG)
    path.write_bytes(path.read_bytes() * 2)
    assert [run.events for run in read_runs(path)] == [LOG, LOG]


def test_a_newer_version_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"eventfold": 2}\n')
    run = only(path)
    assert run.name == "x"
    assert "newer eventfold (version 2" in run.problems[0].text


@pytest.mark.parametrize("name", ["1_openhands_v0", "2_openhands_v1", "5_openai_chat"])
def test_recorded_runs_come_back_equal(corpus: Path, tmp_path: Path, name: str) -> None:
    for run in read_runs(corpus / name):
        write_run(run, tmp_path / "x.jsonl", "eventfold")
        again = only(tmp_path / "x.jsonl")
        assert again.events == run.events
        assert again.problems == []
