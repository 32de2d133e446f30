"""Reading and writing OpenHands V0 logs: every container, every oddity, and nothing lost."""

import gc
import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eventfold.events import (
    AgentStateChangedObservation,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    Event,
    EventfoldError,
    EventSource,
    EventStream,
    MessageAction,
    NullObservation,
    Run,
    SystemMessageAction,
    UnknownEvent,
    event_from_dict,
    event_to_dict,
    read_runs,
)
from eventfold.events.formats.base import UnreadableRun
from eventfold.memory import write_run

Json = dict[str, Any]


# Hand-written logs


def said(text: str = "do it", **more: Any) -> Json:
    return {"source": "user", "action": "message", "args": {"content": text}, **more}


def ran(command: str = "ls", **more: Any) -> Json:
    return {"source": "agent", "action": "run", "args": {"command": command}, **more}


def output(text: str = "a b", **more: Any) -> Json:
    extras = {"command": "ls"}
    return {
        "source": "agent", "observation": "run", "content": text, "extras": extras, **more
    }  # fmt: skip


def state(name: str = "running", **more: Any) -> Json:
    return {
        "source": "environment",
        "observation": "agent_state_changed",
        "content": "",
        "extras": {"agent_state": name},
        **more,
    }


def condensed(**args: Any) -> Json:
    return {"source": "agent", "action": "condensation", "args": args}


def numbered(ids: list[Any], *events: Json) -> list[Json]:
    return [
        event if known == "missing" else {"id": known, **event}
        for known, event in zip(ids, events, strict=True)
    ]


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(json.dumps(value).encode())
    return path


def write_lines(path: Path, *rows: Any) -> Path:
    """A row that is text already is written as it is."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_bytes("\n".join(lines).encode())
    return path


def only(path: Path) -> Run:
    (run,) = read_runs(path)
    assert [event.id for event in run.events] == list(range(len(run.events)))
    return run


def told(run: Run) -> str:
    return "\n".join(map(str, run.problems))


def causes(run: Run) -> list[int | None]:
    return [event.cause for event in run.events]


def forgotten(run: Run) -> list[list[int]]:
    return [list(e.forgotten) for e in run.events if isinstance(e, CondensationAction)]


def written(run: Run, path: Path) -> Any:
    write_run(run, path)
    return json.loads(path.read_bytes())


PLAIN = numbered([0, 1, 2], said(), ran(), output(cause=1))


# Containers


@pytest.mark.parametrize("indent", [None, 2], ids=["one line", "many lines"])
@pytest.mark.parametrize("wrap", [False, True], ids=["array", "download"])
def test_a_json_array_and_the_download_of_the_web_ui(
    tmp_path: Path, indent: int | None, wrap: bool
) -> None:
    path = tmp_path / "saved.json"
    path.write_text(json.dumps({"trajectory": PLAIN} if wrap else PLAIN, indent=indent))
    run = only(path)
    assert (run.name, run.format, run.path) == ("saved", "openhands_v0", path)
    assert [type(event) for event in run.events] == [
        MessageAction,
        CmdRunAction,
        CmdOutputObservation,
    ]
    assert run.recorded_ids == [0, 1, 2]
    assert causes(run) == [None, None, 1]
    assert run.problems == []


def test_evaluation_rows_are_runs_of_their_own(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "output.jsonl",
        {"instance_id": "a__b-1", "instruction": "x", "history": PLAIN},
        {"id": 7, "history": PLAIN},
        {"issue": {"owner": "o", "repo": "r", "number": 5}, "history": PLAIN},
        {"instance": {"instance_id": "in"}, "history": PLAIN},
        {"history": PLAIN},
    )
    runs = list(read_runs(path))
    assert [run.name for run in runs] == ["a__b-1", "7", "o/r#5", "in", "output:5"]
    assert all(len(run.events) == 3 and run.problems == [] for run in runs)


def test_pairs_are_read_in_order_and_placeholders_kept(tmp_path: Path) -> None:
    nothing = {"observation": "null", "content": "", "extras": {}}
    reply = {"source": "agent", "action": "message", "args": {"content": "done"}}
    history = [
        [said(id=0), nothing],
        [ran(id=3), output(id=4, cause=3)],
        [reply | {"id": 5}, nothing],
    ]
    run = only(write_lines(tmp_path / "output.jsonl", {"id": "x", "history": history}))
    assert len(run.events) == 6
    assert isinstance(run.events[1], NullObservation)
    assert causes(run) == [None, None, None, 2, None, 4]  # the agent's message got its placeholder
    assert run.events[1].source is EventSource.ENVIRONMENT
    assert run.recorded_ids == [0, None, 3, 4, 5, None]
    assert "2 events without an id (history[0][1], history[2][1])" in told(run)


def test_an_event_store_is_sorted_by_number(tmp_path: Path) -> None:
    session = tmp_path / "some-session"
    for n in range(12):
        write(session / "events" / f"{n}.json", said(str(n), id=n))
    write(session / "metadata.json", {"title": "not an event"})
    for path in (session, session / "events"):
        run = only(path)
        assert run.name == "some-session"
        assert [event_to_dict(event)["args"]["content"] for event in run.events] == [
            str(n) for n in range(12)
        ]
        assert run.problems == []


def test_an_event_store_with_a_cut_file_and_a_stranger(tmp_path: Path) -> None:
    events = tmp_path / "s" / "events"
    write(events / "0.json", said())  # its name is its id
    write(events / "1.json", ran(id=1))
    (events / "2.json").write_text('{"id": 2, "observation": "ru')
    write(events / "3.json", output(id=99, cause=1))
    (events / "notes.txt").write_text("hello")
    run = only(tmp_path)
    assert causes(run) == [None, None, 1]
    assert run.recorded_ids == [0, 1, 3]
    assert f"{events / '2.json'}: left out: cut off" in told(run)
    assert f"{events / '3.json'}: the id inside is 99" in told(run)
    assert f"{events / 'notes.txt'}: left out" in told(run)


def table_row(**columns: Any) -> Json:
    names = ("action", "content", "extras", "id", "message", "observation", "source", "timestamp")
    return dict.fromkeys(names) | columns


def test_flattened_table_rows_become_events_again(tmp_path: Path) -> None:
    time = "2024-07-17 16:09:27.242119"
    rows = [
        table_row(action="initialize", source="environment", extras={"AGENT": "a"}),
        table_row(content="ok", source="environment"),
        table_row(action="message", source="user", content="hi", extras={"images_urls": None}),
        table_row(action="run", source="agent", id=8, timestamp=time, extras={"command": "ls"}),
        table_row(observation="agent_state_changed", source="agent", id=9, content=""),
        table_row(observation="run", source="agent", id=10, content="a", extras={"exit_code": 1}),
    ]
    path = write(tmp_path / "rows.json", [{"id": "244", "version": "1.0", "trajectory": rows}])
    run = only(path)
    assert run.name == "244"
    assert [type(event) for event in run.events] == [
        UnknownEvent,
        UnknownEvent,
        MessageAction,
        CmdRunAction,
        AgentStateChangedObservation,
        CmdOutputObservation,
    ]
    message, command, result = run.events[2], run.events[3], run.events[5]
    assert isinstance(message, MessageAction)
    assert message.content == "hi"
    assert event_to_dict(command) == {
        "id": 3,
        "timestamp": "2024-07-17T16:09:27.242119",
        "source": "agent",
        "action": "run",
        "args": {"command": "ls"},
    }
    assert isinstance(result, CmdOutputObservation)
    assert (result.exit_code, result.cause) == (1, 3)
    assert "initialize (1), none (1)" in told(run)
    assert written(run, tmp_path / "plain.json")[3] == event_to_dict(command)


def test_arguments_beside_the_name_and_no_ids_or_sources(tmp_path: Path) -> None:
    history = [
        {"content": "fix it", "images_urls": None, "action": "message"},
        {"command": "ls", "thought": "look", "action": "run", "is_confirmed": "confirmed"},
        {"content": "a", "command_id": -1, "command": "ls", "exit_code": 2, "observation": "run"},
        {"content": "and then?", "action": "message"},
        {"outputs": {}, "thought": "done", "action": "finish"},
    ]
    run = only(write_lines(tmp_path / "output.jsonl", {"instruction": "fix", "history": history}))
    assert [event.source for event in run.events] == [
        EventSource.USER,
        EventSource.AGENT,
        EventSource.ENVIRONMENT,
        EventSource.AGENT,
        EventSource.AGENT,
    ]
    assert causes(run) == [None, None, 1, None, None]
    result = run.events[2]
    assert isinstance(result, CmdOutputObservation)
    assert result.exit_code == 2
    assert run.recorded_ids == [None] * 5
    saved = written(run, tmp_path / "saved.json")
    assert [event["id"] for event in saved] == [0, 1, 2, 3, 4]
    assert only(tmp_path / "saved.json").events == run.events


def test_events_one_a_line_are_one_run(tmp_path: Path) -> None:
    run = only(write_lines(tmp_path / "log.jsonl", *PLAIN, "{", 5))
    assert len(run.events) == 3
    assert [problem.line for problem in run.problems] == [4, 5]


# Ids


def test_holes_are_closed_and_counted(tmp_path: Path) -> None:
    run = only(write(tmp_path / "x.json", numbered([0, 3, 7], said(), ran(), output(cause=3))))
    assert causes(run) == [None, None, 1]
    assert run.recorded_ids == [0, 3, 7]
    assert [problem.text for problem in run.problems] == [
        "the recorded ids have holes: 5 ids missing"
    ]


def test_a_log_that_begins_late(tmp_path: Path) -> None:
    run = only(write(tmp_path / "x.json", numbered([17, 18, 19], said(), ran(), output(cause=18))))
    assert causes(run) == [None, None, 1]
    assert "begin at 17" in told(run)


def test_a_restart_begins_a_numbering_of_its_own(tmp_path: Path) -> None:
    events = numbered(
        [None, 1, 4, 5, "missing", 1, 4, 6],
        state(), ran("a"), output("a", cause=1), state(),
        state(), ran("b"), output("b", cause=1), output("c", cause=5),
    )  # fmt: skip
    run = only(write(tmp_path / "x.json", events))
    assert causes(run) == [None, None, 1, None, None, None, 5, None]
    assert "start anew 1 time ([5])" in told(run)
    assert "1 cause that no earlier event has as its id, None now ([7] (5))" in told(run)
    assert "2 events without an id ([0], [4])" in told(run)


def test_an_id_that_came_twice_means_the_nearest_and_no_restart(tmp_path: Path) -> None:
    events = numbered(
        [0, 1, 1, 2, 1, 3], said(), ran(), ran(), output(cause=1), state(), output(cause=2)
    )
    run = only(write(tmp_path / "x.json", events))
    assert causes(run) == [None, None, None, 2, None, 3]
    assert "start anew" not in told(run)
    assert "recorded ids that an earlier event has ([2] (1), [4] (1))" in told(run)


def test_ids_out_of_order(tmp_path: Path) -> None:
    events = numbered([0, 2, 1, 3], said(), state(), ran(), output(cause=1))
    run = only(write(tmp_path / "x.json", events))
    assert causes(run) == [None, None, None, 2]
    assert "not in order ([2])" in told(run)
    assert "holes" not in told(run)


@pytest.mark.parametrize("cause", [1, 2, 99, -1, "0", 1.5, True])
def test_a_cause_that_names_nothing_before_it(tmp_path: Path, cause: Any) -> None:
    events = numbered([0, 1], said(), output(cause=cause))
    run = only(write(tmp_path / "x.json", events))
    assert causes(run) == [None, None]
    assert len(run.problems) == 1
    assert written(run, tmp_path / "back.json") == events


@pytest.mark.parametrize("odd", [None, "missing", -1, "3", True, 2.0])
def test_an_id_that_is_none(tmp_path: Path, odd: Any) -> None:
    events = numbered([0, odd, 2], said(), state(), output())
    run = only(write(tmp_path / "x.json", events))
    assert run.recorded_ids == [0, None, 2]
    assert "1 event without an id ([1])" in told(run)
    assert written(run, tmp_path / "back.json") == events


# Condensations


def test_a_range_over_holes_covers_what_is_there(tmp_path: Path) -> None:
    events = numbered(
        [0, 3, 4, 7, 9, 12],
        said(), ran(), output(cause=3), ran(), state(),
        condensed(forgotten_events_start_id=1, forgotten_events_end_id=8),
    )  # fmt: skip
    run = only(write(tmp_path / "x.json", events))
    assert forgotten(run) == [[1, 2, 3]]
    last = run.events[-1]
    assert isinstance(last, CondensationAction)
    assert (last.forgotten_events_start_id, last.forgotten_events_end_id) == (1, 3)
    assert written(run, tmp_path / "back.json") == events


def test_a_range_in_which_nothing_is_left(tmp_path: Path) -> None:
    events = numbered(
        [0, 9, 10],
        said(),
        ran(),
        condensed(forgotten_events_start_id=3, forgotten_events_end_id=5),
    )
    run = only(write(tmp_path / "x.json", events))
    last = run.events[-1]
    assert isinstance(last, CondensationAction)
    assert last.forgotten_event_ids == []
    assert "[2] forgets the events 3 to 5, none of which is here" in told(run)
    assert written(run, tmp_path / "back.json") == events


def test_a_range_around_an_event_without_an_id_becomes_a_list(tmp_path: Path) -> None:
    events = numbered(
        [0, 1, None, 2, 3],
        said(), ran(), state(), output(cause=1),
        condensed(forgotten_events_start_id=1, forgotten_events_end_id=2),
    )  # fmt: skip
    run = only(write(tmp_path / "x.json", events))
    assert forgotten(run) == [[1, 3]]
    assert written(run, tmp_path / "back.json") == events


def test_an_id_that_exists_nowhere_is_the_summary_before(tmp_path: Path) -> None:
    events = numbered(
        [0, 2, 3, 5, 6, 9],
        said(),
        ran(),
        condensed(forgotten_event_ids=[2, 1], summary="one", summary_offset=1),
        ran(),
        output(cause=5),
        condensed(forgotten_event_ids=[-1, 77, 5, 6, 4, 2], summary="two", summary_offset=1),
    )
    run = only(write(tmp_path / "x.json", events))
    # 1 and 4 lie in holes: those events were not saved, and are no summary
    assert forgotten(run) == [[1], [2, 3, 4, 1]]
    assert "[2] forgets 1 event not to be found before it: left out (1)" in told(run)
    assert "[5] forgets 1 event not to be found before it: left out (4)" in told(run)
    assert written(run, tmp_path / "back.json") == events


def test_ids_in_condensations_after_a_restart(tmp_path: Path) -> None:
    events = numbered(
        [0, 1, 2, 0, 1, 2],
        said(), ran(), output(cause=1),
        said(), ran(), condensed(forgotten_event_ids=[1]),
    )  # fmt: skip
    assert forgotten(only(write(tmp_path / "x.json", events))) == [[4]]


# The instruction


def test_the_instruction_of_a_log_that_starts_with_an_action(tmp_path: Path) -> None:
    system = {"source": "agent", "action": "system", "args": {"content": "you are"}}
    time = "2025-01-01T00:00:00"
    history = numbered([0, 1, 2], system, ran(timestamp=time), output(cause=1))
    run = only(write_lines(tmp_path / "o.jsonl", {"instruction": "do", "history": history}))
    system_event, task = run.events[:2]
    assert isinstance(system_event, SystemMessageAction)
    assert isinstance(task, MessageAction)
    assert (task.content, task.source, task.timestamp) == (
        "do",
        EventSource.USER,
        run.events[2].timestamp,
    )
    assert causes(run) == [None, None, None, 2]
    assert run.recorded_ids == [0, None, 1, 2]
    assert "the row's instruction became one" in told(run)
    assert "without an id" not in told(run)
    saved = written(run, tmp_path / "saved.json")
    assert [saved[0], *saved[2:]] == history
    assert only(tmp_path / "saved.json").events == run.events


@pytest.mark.parametrize(
    ("row", "count"),
    [
        ({"instruction": "do", "history": PLAIN}, 3),  # the user spoke
        ({"history": [ran(id=0)]}, 1),  # there is none
        ({"instruction": "do", "history": [state(id=0)]}, 1),  # nothing was done
        ({"instruction": "", "history": [ran(id=0)]}, 1),
        ({"instruction": "do", "history": [state(id=0), ran(id=1), said(id=2)]}, 4),  # too late
    ],
)
def test_the_instruction_is_put_in_only_where_it_is_missing(
    tmp_path: Path, row: Json, count: int
) -> None:
    assert len(only(write_lines(tmp_path / "o.jsonl", row)).events) == count


# What is odd in events


def test_what_is_no_event_is_left_out_and_told(tmp_path: Path) -> None:
    events = [said(id=0), 5, "text", None, [], ran(id=1), {}]
    run = only(write(tmp_path / "x.json", events))
    assert [type(event) for event in run.events] == [MessageAction, CmdRunAction, UnknownEvent]
    left_out = [problem.text for problem in run.problems if "left out" in problem.text]
    assert [text.partition(":")[0] for text in left_out] == ["[1]", "[2]", "[3]", "[4]"]


def test_unknown_kinds_are_kept_and_counted(tmp_path: Path) -> None:
    strange = {"action": "teleport", "args": {"to": "mars"}, "extra": [1]}
    events = numbered([0, 1, 2], said(), strange, strange)
    run = only(write(tmp_path / "x.json", events))
    assert isinstance(run.events[1], UnknownEvent)
    assert run.events[1].source is EventSource.AGENT
    assert "teleport (2)" in told(run)
    assert written(run, tmp_path / "back.json") == events


def test_an_invalid_event_of_a_known_kind_is_kept(tmp_path: Path) -> None:
    broken = {"source": "agent", "action": "run", "args": {"command": 5}}
    events = numbered([0, 2, 3], said(), broken, output(cause=2))
    run = only(write(tmp_path / "x.json", events))
    assert isinstance(run.events[1], UnknownEvent)
    assert causes(run) == [None, None, 1]
    assert "[1]: kept as an event of an unknown kind: not a valid CmdRunAction" in told(run)
    assert written(run, tmp_path / "back.json") == events


def test_an_empty_history_is_a_run_without_events(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "o.jsonl", {"id": "a", "history": []}, {"id": "b", "history": PLAIN}
    )
    empty, full = read_runs(path)
    assert (empty.name, empty.events) == ("a", [])
    assert "there are no events in it" in told(empty)
    assert len(full.events) == 3


# Lines


def test_a_bad_line_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "o.jsonl",
        "// a comment",
        {"id": "a", "history": PLAIN},
        "",
        "{nonsense",
        {"something": "else"},
        {"id": "b", "history": PLAIN},
        '{"id": "c", "history": [{"action": "mess',
    )
    first, second = read_runs(path)
    assert (first.name, second.name) == ("a", "b")
    assert [problem.line for problem in first.problems] == [1, 4, 5]
    assert [problem.line for problem in second.problems] == [7]
    assert all(problem.file == str(path) for problem in first.problems)
    assert "cut off" in second.problems[0].text
    assert str(second.problems[0]).startswith(f"{path}:7: ")


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    text = "one\u2028two\u2029three\x85four\r\nfive\x1c"
    row = json.dumps({"history": [said(text, id=0)]}, ensure_ascii=False)
    path = tmp_path / "o.jsonl"
    path.write_bytes(f"{row}\r\n{row}".encode())  # and no newline at the end
    runs = list(read_runs(path))
    assert len(runs) == 2
    for run in runs:
        assert isinstance(run.events[0], MessageAction)
        assert run.events[0].content == text


def test_lone_surrogates_and_not_a_number_survive(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(
        '[{"id": 0, "action": "message", "source": "user", '
        '"args": {"content": "a\\ud800b", "score": NaN}}, '
        '{"id": 1, "action": "message", "source": "user", "args": {"content": "\\ud83d\\ude00"}}]'
    )
    run = only(path)
    broken, whole = run.events
    assert isinstance(broken, MessageAction)
    assert isinstance(whole, MessageAction)
    assert broken.content == "a\ud800b"
    assert whole.content == "\U0001f600"
    write_run(run, tmp_path / "back.json")
    assert only(tmp_path / "back.json").events == run.events
    assert "NaN" in (tmp_path / "back.json").read_text("utf-8")


def test_a_very_long_line(tmp_path: Path) -> None:
    text = "x" * 1_500_000
    run = only(write_lines(tmp_path / "o.jsonl", {"history": [said(text, id=0)]}))
    assert isinstance(run.events[0], MessageAction)
    assert run.events[0].content == text


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(PLAIN, indent=1).encode())
    assert len(only(path).events) == 3


def test_deep_nesting_stops_nothing(tmp_path: Path) -> None:
    deep = "[" * 900 + "]" * 900
    too_deep = "[" * 100_000 + "]" * 100_000
    path = write_lines(
        tmp_path / "o.jsonl",
        {"history": PLAIN},
        f'{{"history": [{json.dumps(said(id=0))}, {{"id": 1, "action": "run", "args": {deep}}}]}}',
        f'{{"history": {too_deep}}}',
    )
    first, second = read_runs(path)
    assert len(first.events) == 3
    assert isinstance(second.events[0], MessageAction)
    assert "nested too deeply" in told(second)


# What cannot be read


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "empty"),
        ("  \n\n", "empty"),
        ("hello\n", "not JSON: it begins with b'hello"),
        ('[{"action": "run", "args"', "cut off, or not JSON"),
        ('{"a": 1, "b": []}', "an object with the keys 'a', 'b'"),
        ("[]", "holds no events"),
        ('{"history": []}', "holds no events"),
    ],
)
def test_a_file_that_is_no_trajectory(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(UnreadableRun) as raised:
        list(read_runs(path))
    assert str(path) in str(raised.value)
    assert says in str(raised.value)
    assert "OpenHands V0 events (openhands_v0)" in str(raised.value)
    assert isinstance(raised.value, EventfoldError)


KNOWN: dict[str, Any] = {
    "SWE-agent": {
        "history": [{"role": "assistant", "content": "", "agent": "main", "action": "ls"}],
        "trajectory": [{"action": "ls", "observation": "a", "response": "r", "state": "{}"}],
    },
    "mini-swe-agent": {"messages": [], "trajectory_format": "mini-swe-agent-1"},
    "ATIF": {"schema_version": "ATIF-v1.4", "steps": []},
    "Codex CLI": {"type": "session_meta", "payload": {}, "timestamp": ""},
    "Claude Code": {"type": "user", "sessionId": "s", "uuid": "u", "message": {}},
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_format_is_named(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "x.json", KNOWN[name])
    with pytest.raises(UnreadableRun, match=f"recognised as .*{name}"):
        list(read_runs(path))


def test_missing_paths_and_empty_folders(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRun, match="no such file or folder"):
        read_runs(tmp_path / "nowhere.json")
    (tmp_path / "inner").mkdir()
    with pytest.raises(UnreadableRun, match="holds no files"):
        list(read_runs(tmp_path))


def test_a_folder_is_read_in_order_and_its_strangers_are_told(tmp_path: Path) -> None:
    write(tmp_path / "b" / "two.json", PLAIN)
    write(tmp_path / "c" / "session" / "events" / "0.json", said(id=0))
    write(tmp_path / "a.json", PLAIN)
    write(tmp_path / ".hidden.json", PLAIN)
    write(tmp_path / "b" / "atif.json", KNOWN["ATIF"])
    (tmp_path / "readme.md").write_text("# hello")  # not looked at
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    runs = list(read_runs(str(tmp_path)))
    assert [run.name for run in runs] == ["a", "two", "session"]
    assert [problem.file for run in runs for problem in run.problems] == [
        str(tmp_path / "b" / "atif.json"),
        str(tmp_path / "loop"),
    ]


def test_a_file_that_is_named_is_read_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "events.log"
    write(path, PLAIN)
    assert [run.format for run in read_runs(path)] == ["openhands_v0"]


# Memory


def test_a_large_file_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "output.jsonl"
    with path.open("w") as file:
        for n in range(100):
            events = numbered([0, 1, 2], said(), ran(), output("x" * 400_000, cause=1))
            file.write(json.dumps({"instance_id": str(n), "history": events}) + "\n")
    assert path.stat().st_size > 40_000_000
    tracemalloc.start()
    try:
        count = sum(len(run.events) for run in read_runs(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 300
    assert peak < 6_000_000


def test_the_first_run_comes_before_the_last_line_is_read(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "o.jsonl", *[{"id": str(n), "history": PLAIN} for n in range(999)]
    )
    runs = read_runs(path)
    assert next(runs).name == "0"
    assert gc.isenabled()


# Writing


def test_a_stream_is_written_with_its_own_ids(tmp_path: Path) -> None:
    stream = EventStream("s")
    stream.append(MessageAction("hi"), EventSource.USER)
    action = stream.append(CmdRunAction("ls"))
    stream.append(CmdOutputObservation("a", command="ls", cause=action.id))
    run = Run(name="s", format="", events=list(stream))
    saved = written(run, tmp_path / "x.json")
    assert [(event["id"], event.get("cause")) for event in saved] == [(0, None), (1, None), (2, 1)]
    assert only(tmp_path / "x.json").events == run.events


def test_a_run_that_was_cut_is_written_with_the_ids_of_its_events(tmp_path: Path) -> None:
    events = numbered([0, 5, 6], said(), ran(), output(cause=5))
    run = only(write(tmp_path / "x.json", events))
    run.events = run.events[1:]
    saved = written(run, tmp_path / "cut.json")
    assert [(event["id"], event.get("cause")) for event in saved] == [(1, None), (2, 1)]


def test_an_unknown_format_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(EventfoldError, match=r"'yaml'.*openhands_v0"):
        write_run(Run(name="x", format="", events=[]), tmp_path / "x", "yaml")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", PLAIN)
    run = only(path)

    class Unwritable(list[Event]):
        def __iter__(self) -> Iterator[Event]:
            yield run.events[0]
            raise OSError("disk full")

    broken = Run(name="x", format="", events=Unwritable(run.events))
    with pytest.raises(OSError, match="disk full"):
        write_run(broken, path)
    assert json.loads(path.read_bytes()) == PLAIN
    assert os.listdir(tmp_path) == ["x.json"]
    link = tmp_path / "link.json"
    link.symlink_to(path)
    write_run(Run(name="x", format="", events=[]), link)
    assert link.is_symlink()
    assert json.loads(path.read_bytes()) == []


# Laws


_kinds = st.sampled_from(["message", "run", "error", "condensation", "finish", "teleport", "null"])
_ids = st.none() | st.integers(-1, 9) | st.booleans()
_forgotten = st.none() | st.lists(st.integers(-1, 12), max_size=4)
_payload = st.fixed_dictionaries(
    {},
    optional={
        "command": st.text(max_size=3) | st.integers(),
        "content": st.text(max_size=3),
        "forgotten_event_ids": _forgotten,
        "forgotten_events_start_id": st.none() | st.integers(0, 9),
        "forgotten_events_end_id": st.none() | st.integers(0, 9),
    },
)
_around = {
    "id": _ids,
    "cause": _ids,
    "source": st.sampled_from(["agent", "user", "environment", None, "nobody"]),
    "timestamp": st.sampled_from(["2025-01-01T00:00:00", "2025-01-01 00:00:00", None, 5]),
}
_events = st.fixed_dictionaries(
    {"action": _kinds, "args": _payload}, optional=_around
) | st.fixed_dictionaries({"observation": _kinds, "extras": _payload}, optional=_around)


@given(log=st.lists(_events, min_size=1, max_size=12))
def test_any_plain_log_is_dense_and_comes_back_equal(
    tmp_path_factory: pytest.TempPathFactory, log: list[Json]
) -> None:
    folder = tmp_path_factory.mktemp("law")
    run = only(write(folder / "x.json", log))
    assert len(run.events) == len(run.recorded_ids) == len(log)
    for event in run.events:
        assert event.source is not None
        assert event.cause is None or 0 <= event.cause < event.id
        if isinstance(event, CondensationAction):
            assert all(0 <= known < event.id for known in event.forgotten)
    assert same(written(run, folder / "back.json"), log)


def same(one: Any, other: Any) -> bool:
    """Equal JSON, in which True is not 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


# Recorded trajectories


COUNTED = {  # by the pattern of a name, the events of each run
    "event_store_dir": [4, 4, 14],
    "feedback_arrow_raw.json": [48, 34, 24, 76, 69],
    "harbor_rfc_openhands_trajectory.json": [7],
    "issue_*_297_events.json": [297],
    "prontoqa_pairs_5a6eff.jsonl": [12, 12, 12, 12, 12, 10],
    "prontoqa_pairs_a818fc.jsonl": [12, 12, 12, 12, 12],
    "resolver_mock_output.jsonl": [8, 44],
    "trajs_basic.json": [4],
    "trajs_basic_interactions.json": [6],
    "trajs_wrong_initial_state.json": [8],
    "visualizer_demo1.json": [18],
    "visualizer_sample_output.jsonl": [42, 76, 74, 121, 121],
}  # 1,229 events


@pytest.fixture
def recorded(corpus: Path) -> Path:
    return corpus / "1_openhands_v0"


def matching(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def raw_events(folder: Path) -> Iterator[Json]:
    """Every recorded event, found without the reader."""

    def walk(value: Any) -> Iterator[Json]:
        if isinstance(value, list):
            for item in value:
                yield from walk(item)
        elif "history" in value or "trajectory" in value:
            yield from walk(value.get("history") or value["trajectory"])
        else:
            yield value

    for path in sorted(folder.rglob("*.json*")):
        if path.name != "metadata.json":
            texts = (
                path.read_bytes().split(b"\n") if path.suffix == ".jsonl" else [path.read_bytes()]
            )
            for text in texts:
                if text:
                    yield from walk(json.loads(text))


def test_every_recorded_file_is_read(recorded: Path) -> None:
    assert len(list(recorded.iterdir())) == len(COUNTED)
    for name, counts in COUNTED.items():
        assert [len(run.events) for run in read_runs(matching(recorded, name))] == counts
    runs = list(read_runs(recorded))
    assert sum(len(run.events) for run in runs) == 1229
    for run in runs:
        assert [event.id for event in run.events] == list(range(len(run.events)))
        assert not any("cause" in problem.text for problem in run.problems)


def test_every_recorded_event_is_given_back_to_the_letter(recorded: Path) -> None:
    events = list(raw_events(recorded))
    assert len(events) == 1229
    whole = [data for data in events if not {"action", "observation"} <= data.keys()]
    assert len(whole) == 1229 - 251  # without those of the flattened table
    for data in whole:
        assert json.dumps(event_to_dict(event_from_dict(data))) == json.dumps(data)


@pytest.mark.parametrize(
    "name",
    [name for name in COUNTED if name.endswith(".json") and name != "feedback_arrow_raw.json"],
)
def test_recorded_arrays_are_written_back_equal(recorded: Path, tmp_path: Path, name: str) -> None:
    path = matching(recorded, name)
    data = json.loads(path.read_bytes())
    assert written(only(path), tmp_path / "x.json") == (
        data["trajectory"] if isinstance(data, dict) else data
    )


def test_recorded_evaluation_histories_are_written_back_equal(
    recorded: Path, tmp_path: Path
) -> None:
    path = recorded / "visualizer_sample_output.jsonl"
    with path.open("rb") as file:
        for line, run in zip(file, read_runs(path), strict=True):
            assert written(run, tmp_path / "x.json") == json.loads(line)["history"]


def test_recorded_condensations_name_the_same_events(recorded: Path) -> None:
    run = only(matching(recorded, "issue_*_297_events.json"))
    found = [event for event in run.events if isinstance(event, CondensationAction)]
    assert [event.id for event in found] == [148, 232]
    assert [event.forgotten for event in found] == [range(7, 73), range(73, 159)]
    named = [[run.recorded_ids[known] for known in event.forgotten] for event in found]
    assert named == [list(range(9, 75)), list(range(75, 161))]


def test_recorded_causes_are_derived_where_there_were_none(recorded: Path) -> None:
    for name in ("feedback_arrow_raw.json", "resolver_mock_output.jsonl"):
        for run in read_runs(recorded / name):
            results = [e for e in run.events if e.kind in ("run", "run_ipython") and is_result(e)]
            assert all(e.cause is not None and run.events[e.cause].kind == e.kind for e in results)


def is_result(event: Event) -> bool:
    return "observation" in event_to_dict(event)
