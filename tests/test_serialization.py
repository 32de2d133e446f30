"""Events to JSON and back: nothing is lost, nothing is shared, and nothing unknown stops a load."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from eventfold.events import (
    BrowserOutputObservation,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    Event,
    EventSource,
    EventStream,
    FileEditAction,
    MCPAction,
    MessageAction,
    ToolCallMetadata,
    UnknownEvent,
    event_from_dict,
    event_to_dict,
)
from eventfold.events.event import ACTIONS, OBSERVATIONS, InvalidEvent
from tests.drawn_wire import unregistered
from tests.logs import LintAction, event_logs, json_values, wire_events

OPENHANDS_ACTIONS = [
    "message",
    "system",
    "run",
    "run_ipython",
    "read",
    "write",
    "edit",
    "browse",
    "browse_interactive",
    "delegate",
    "think",
    "finish",
    "reject",
    "recall",
    "call_tool_mcp",
    "task_tracking",
    "condensation",
    "condensation_request",
    "null",
    "change_agent_state",
    "loop_recovery",
]
OPENHANDS_OBSERVATIONS = [
    "run",
    "run_ipython",
    "read",
    "write",
    "edit",
    "browse",
    "delegate",
    "think",
    "error",
    "success",
    "null",
    "recall",
    "user_rejected",
    "condense",
    "mcp",
    "download",
    "task_tracking",
    "agent_state_changed",
    "loop_detection",
]

METADATA = {
    "function_name": "execute_bash",
    "tool_call_id": "a",
    "model_response": {"id": "r1", "choices": []},
    "total_calls_in_response": 1,
}


def exactly(value: Any) -> str:
    """JSON text, which tells key orders apart, and 1 from 1.0 and from true."""
    return json.dumps(value)


def containers(value: Any) -> Iterator[int]:
    """The identities of all dicts and lists in JSON data."""
    if isinstance(value, dict | list):
        yield id(value)
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


# The round trip


@given(wire_events())
@example({"action": "message", "args": {"content": "", "images_urls": ["a"], "image_urls": ["b"]}})
@example({"action": "run", "args": {"command": "ls"}, "tool_call_metadata": METADATA})
def test_a_recorded_event_is_written_back_to_the_letter(data: dict[str, Any]) -> None:
    assert exactly(event_to_dict(event_from_dict(data))) == exactly(data)


@given(event_logs())
def test_an_event_survives_the_round_trip(events: list[Event]) -> None:
    for event in events:
        assert event_from_dict(event_to_dict(event)) == event


@given(event_logs(max_size=20))
def test_a_stored_event_survives_json(events: list[Event]) -> None:
    """Stored: JSON text would make one character of a surrogate pair that is written apart."""
    stored = EventStream("s").extend(events)
    for event in stored:
        assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


@given(event_logs(max_size=20))
def test_writing_twice_says_the_same(events: list[Event]) -> None:
    for event in events:
        data = event_to_dict(event)
        assert exactly(event_to_dict(event_from_dict(data))) == exactly(data)


@given(wire_events())
def test_reading_changes_nothing_and_shares_nothing(data: dict[str, Any]) -> None:
    before = copy.deepcopy(data)
    event = event_from_dict(data)
    assert exactly(data) == exactly(before)
    said = exactly(event_to_dict(event))
    spoil(data)
    assert exactly(event_to_dict(event)) == said


@given(wire_events())
def test_what_was_written_is_the_callers(data: dict[str, Any]) -> None:
    event = event_from_dict(data)
    first = event_to_dict(event)
    said = exactly(first)
    assert not {*containers(first)} & {*containers(event_to_dict(event))}
    spoil(first)
    assert exactly(event_to_dict(event)) == said


@given(wire_events(), json_values(), st.data())
def test_any_value_in_any_place_is_refused_or_written_back_to_the_letter(
    data: dict[str, Any], value: Any, drawn: st.DataObject
) -> None:
    """Also after an event with the same keys, and the values that they should have, was read."""
    event_from_dict(data)
    places = [(data, key) for key in data]
    for held in data.values():
        if isinstance(held, dict):
            places += [(held, key) for key in held]
    if places:
        place, key = drawn.draw(st.sampled_from(places))
        place[key] = value
    try:
        event = event_from_dict(data)
    except InvalidEvent:
        return
    assert exactly(event_to_dict(event)) == exactly(data)


def spoil(value: Any) -> None:
    """Empties all dicts and lists in JSON data."""
    for item in list(value.values() if isinstance(value, dict) else value):
        if isinstance(item, dict | list):
            spoil(item)
    value.clear()


@given(wire_events(), st.integers(0, 10**6), st.sampled_from(EventSource))
def test_a_changed_copy_writes_the_change(
    data: dict[str, Any], number: int, source: EventSource
) -> None:
    event = event_from_dict(data).replace(id=number, source=source)
    written = event_to_dict(event)
    assert event_from_dict(written) == event
    assert (written["id"], written["source"]) == (number, source.value)
    for key in data:
        if key not in ("id", "source", "args", "extras"):
            assert exactly(written[key]) == exactly(data[key])


def test_events_that_each_have_keys_of_their_own_are_written_back() -> None:
    recorded = [
        {f"top {n}": n, "action": "run", "args": {f"key {n}": None, "command": "ls"}}
        for n in range(1_000)
    ]
    for data in (*recorded, *recorded):
        assert exactly(event_to_dict(event_from_dict(data))) == exactly(data)


# The wire shape


def test_all_kinds_of_openhands_are_known() -> None:
    assert {*OPENHANDS_ACTIONS} <= {*ACTIONS}
    assert {*OPENHANDS_OBSERVATIONS} <= {*OBSERVATIONS}
    for name in OPENHANDS_ACTIONS:
        assert event_from_dict({"action": name, **payload_of(name)}).kind == name
    for name in OPENHANDS_OBSERVATIONS:
        assert event_from_dict({"observation": name, "content": "", "extras": {}}).kind == name


def payload_of(kind: str) -> dict[str, Any]:
    """The least ``args`` of an action kind: text for all that it needs."""
    if kind == "condensation":
        return {"args": {"forgotten_event_ids": []}}
    texts = ("content", "command", "code", "path", "url", "browser_actions", "agent", "name")
    needed = (*texts, "recall_type", "agent_state")
    return {"args": {name: "x" for name in needed if name in ACTIONS[kind].payload_fields}}


def test_an_event_of_ours_is_written_in_openhands_shape() -> None:
    action = CmdRunAction(command="ls", id=3, source=EventSource.AGENT, thought="Look.")
    assert event_to_dict(action) == {
        "id": 3,
        "source": "agent",
        "action": "run",
        "args": {
            "command": "ls",
            "is_input": False,
            "thought": "Look.",
            "blocking": False,
            "is_static": False,
            "cwd": None,
            "confirmation_state": "confirmed",
            "hidden": False,
        },
    }
    observation = CmdOutputObservation(content="a.py", cause=3, command="ls", exit_code=2)
    assert event_to_dict(observation) == {
        "cause": 3,
        "observation": "run",
        "content": "a.py",
        "extras": {"command": "ls", "metadata": {"exit_code": 2}, "hidden": False},
    }


def test_the_oldest_files_have_the_arguments_beside_the_name() -> None:
    data = {"id": 1, "action": "run", "command": "ls", "thought": "t", "background": False}
    event = event_from_dict(data)
    assert isinstance(event, CmdRunAction)
    assert (event.command, event.thought, event.id) == ("ls", "t", 1)


@pytest.mark.parametrize(
    "images",
    [
        {"images_urls": ["http://a/b.png"]},
        {"image_urls": ["http://a/b.png"]},
        {"image_urls": None, "images_urls": ["http://a/b.png"]},
        {"images_urls": ["http://a/b.png"], "image_urls": None},
        {"images_urls": ["http://a/b.png"], "image_urls": ["http://c/d.png"]},
    ],
)
def test_a_field_is_read_under_its_old_name_too(images: dict[str, Any]) -> None:
    data = {"action": "message", "args": {"content": "see", **images}}
    event = event_from_dict(data)
    assert isinstance(event, MessageAction)
    assert event.image_urls == ["http://a/b.png"]
    assert exactly(event_to_dict(event)) == exactly(data)


def test_a_null_is_a_value_where_a_field_can_be_none() -> None:
    data = {"observation": "browse", "extras": {"screenshot": None, "url": None}}
    event = event_from_dict(data)
    assert isinstance(event, BrowserOutputObservation)
    assert (event.screenshot, event.url) == (None, "")


def test_a_null_beside_the_payload_is_no_value_of_a_field_in_it() -> None:
    event = event_from_dict({"action": "edit", "args": {"path": "a.py"}, "content": None})
    assert isinstance(event, FileEditAction)
    assert event.content == ""


def test_a_changed_field_is_written_under_the_name_that_was_recorded() -> None:
    images = {"images_urls": ["http://a/b.png"], "image_urls": None}
    for names in (["images_urls"], ["image_urls"], ["images_urls", "image_urls"]):
        args = {"content": "see"} | {name: images[name] for name in names}
        event = event_from_dict({"action": "message", "args": args})
        written = event_to_dict(event.replace(image_urls=["http://c/d.png"]))["args"]
        assert written == {"content": "see"} | {name: ["http://c/d.png"] for name in names}


def test_a_time_without_zone_is_written_back_without_zone() -> None:
    for time in ("2025-01-01T10:00:00.123456", "2025-01-01T10:00:00+02:00"):
        event = event_from_dict({"timestamp": time, "action": "null", "args": {}})
        assert event.timestamp is not None
        assert event.timestamp.isoformat() == time


@pytest.mark.parametrize("field", ["id", "timestamp", "source", "cause", "llm_metrics"])
@pytest.mark.parametrize("value", ["never", -7, 1.5, [1], True])
def test_an_odd_value_beside_the_payload_is_kept_and_means_nothing(
    field: str, value: object
) -> None:
    event = event_from_dict({"action": "null", "args": {}, field: value})
    if (field, value) != ("cause", -7):
        assert getattr(event, field) == getattr(event_from_dict({"action": "null"}), field)
    assert event_to_dict(event)[field] == value


def test_what_a_condensation_forgets_is_read_from_both_forms() -> None:
    by_ids = event_from_dict({"action": "condensation", "args": {"forgotten_event_ids": [4, 2]}})
    ends = {"forgotten_events_start_id": 2, "forgotten_events_end_id": 4}
    by_range = event_from_dict({"action": "condensation", "args": ends})
    assert isinstance(by_ids, CondensationAction)
    assert isinstance(by_range, CondensationAction)
    assert ([*by_ids.forgotten], [*by_range.forgotten]) == ([4, 2], [2, 3, 4])


@pytest.mark.parametrize("total", [None, 2, 2.0, "2", True])
def test_an_odd_number_of_calls_is_kept(total: object) -> None:
    metadata = METADATA | {"total_calls_in_response": total}
    data = {"action": "null", "args": {}, "tool_call_metadata": metadata}
    assert exactly(event_to_dict(event_from_dict(data))) == exactly(data)


def test_a_recorded_response_is_not_kept_twice() -> None:
    data = {"action": "null", "args": {}, "tool_call_metadata": METADATA}
    wire = event_from_dict(data).wire
    assert wire is not None
    assert wire.rest == {}


ANSWERED: dict[str, Any] = {
    "observation": "null",
    "content": "",
    "extras": {},
    "tool_call_metadata": METADATA,
}


def metadata_of(data: dict[str, Any]) -> ToolCallMetadata:
    metadata = event_from_dict(data).tool_call_metadata
    assert metadata is not None
    return metadata


def test_an_action_and_its_observation_share_their_metadata() -> None:
    action = {"action": "null", "args": {}, "tool_call_metadata": copy.deepcopy(METADATA)}
    assert metadata_of(action) is metadata_of(ANSWERED)


@pytest.mark.parametrize(
    "change",
    [
        {"function_name": "bash"},
        {"tool_call_id": "b"},
        {"total_calls_in_response": 2},
        {"total_calls_in_response": True},
        {"total_calls_in_response": None},
        {"model_response": None},
        {"model_response": {"id": "r1", "choices": [{}]}},
        {"model_response": {"choices": [], "id": "r1"}},
    ],
)
def test_metadata_that_differs_is_not_shared(change: dict[str, Any]) -> None:
    differing = ANSWERED | {"tool_call_metadata": METADATA | change}
    before, after = copy.deepcopy(METADATA), differing["tool_call_metadata"]
    for one, other in ((before, after), (after, before)):
        events = [event_from_dict(ANSWERED | {"tool_call_metadata": held}) for held in (one, other)]
        written = [event_to_dict(event)["tool_call_metadata"] for event in events]
        assert exactly(written) == exactly([one, other])


def test_metadata_that_the_caller_changes_is_read_anew() -> None:
    data = copy.deepcopy(ANSWERED)
    assert metadata_of(data).response_id == "r1"
    data["tool_call_metadata"]["model_response"]["id"] = "r2"
    assert metadata_of(data).response_id == "r2"


# What cannot be an event


@pytest.mark.parametrize("data", [None, [], "text", 7])
def test_only_an_object_is_an_event(data: Any) -> None:
    with pytest.raises(InvalidEvent, match="JSON object"):
        event_from_dict(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"action": "run", "args": {}}, "CmdRunAction.*'run'.*command"),
        ({"action": "run", "args": {"command": None}}, "command"),
        ({"action": "run", "args": {"command": 7}}, "command.*7"),
        ({"action": "run", "args": {"command": "ls", "hidden": "yes"}}, "hidden.*yes"),
        ({"action": "read", "args": {"path": "a", "start": "1"}}, "start.*'1'"),
        ({"observation": "run", "content": ["a"], "extras": {}}, "content"),
        ({"action": "call_tool_mcp", "args": {"name": "x", "arguments": "{}"}}, "JSON object"),
        ({"action": "condensation", "args": {}}, "forgotten_event_ids"),
        (
            {"action": "condensation", "args": {"forgotten_event_ids": [], "summary": "s"}},
            "summary_offset",
        ),
        ({"action": "null", "tool_call_metadata": {"tool_call_id": "a"}}, "function_name"),
        ({"action": "null", "tool_call_metadata": "a"}, "tool_call_metadata"),
        (
            {"action": "null", "tool_call_metadata": METADATA | {"model_response": "r"}},
            "model_response",
        ),
    ],
)
def test_a_known_kind_with_a_wrong_field_is_refused(data: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidEvent, match=said):
        event_from_dict(data)


def test_data_that_is_nested_too_deeply_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(InvalidEvent, match="call_tool_mcp"):
        event_from_dict({"action": "call_tool_mcp", "args": {"name": "x", "arguments": deep}})


# Unknown kinds


@given(st.dictionaries(st.sampled_from(("action", "observation", "args", "id")), json_values()))
def test_an_object_that_is_no_known_event_is_kept(data: dict[str, Any]) -> None:
    data = unregistered(data)
    event = event_from_dict(data)
    assert isinstance(event, UnknownEvent)
    assert event.data == {key: value for key, value in data.items() if key != "id"}
    assert exactly(event_to_dict(event)) == exactly(data)


def test_an_unknown_event_has_the_fields_that_all_events_have() -> None:
    data = {
        "id": 4,
        "tool_call_metadata": METADATA,
        "source": "environment",
        "cause": 3,
        "observation": "teleport",
        "content": "arrived",
        "extras": {"hidden": True},
    }
    event = event_from_dict(data)
    assert isinstance(event, UnknownEvent)
    assert (event.id, event.source, event.cause, event.hidden) == (4, "environment", 3, True)
    assert (event.name, event.content, event.is_observation) == ("teleport", "arrived", True)
    assert event.tool_call_metadata is not None
    assert event.tool_call_metadata.tool_call_id == "a"


def test_metadata_that_is_none_does_not_hide_the_other_fields() -> None:
    event = event_from_dict({"action": "teleport", "tool_call_metadata": "odd", "source": "user"})
    assert (event.tool_call_metadata, event.source) == (None, "user")


def test_an_unknown_event_that_was_not_read_is_written_whole() -> None:
    event = UnknownEvent(name="teleport", id=2, source=EventSource.USER, cause=1, hidden=True)
    written = event_to_dict(event)
    kept = {"action": "teleport", "args": {"hidden": True}}
    assert written == {"id": 2, "source": "user", "cause": 1, **kept}
    assert event_from_dict(written) == event.replace(data=kept)


def test_a_replaced_field_of_an_unknown_event_is_written() -> None:
    read = event_from_dict({"action": "teleport", "args": {"to": "moon"}, "id": 9})
    written = event_to_dict(read.replace(id=1, cause=0, hidden=True))
    to = {"to": "moon", "hidden": True}
    assert written == {"action": "teleport", "args": to, "id": 1, "cause": 0}


def test_data_of_an_unknown_event_that_was_replaced_is_written_in_place() -> None:
    read = event_from_dict({"action": "teleport", "args": {"to": "moon"}})
    moved = read.replace(data={"action": "teleport", "args": {"to": "mars"}}, id=0)
    assert event_to_dict(moved) == {"action": "teleport", "args": {"to": "mars"}, "id": 0}


def test_a_registered_kind_is_read_as_its_class() -> None:
    event = LintAction(path="a.py", id=0)
    assert event_to_dict(event)["action"] == "lint"
    assert event_from_dict(event_to_dict(event)) == event


def test_numbers_and_nesting_in_arguments_are_kept() -> None:
    arguments: dict[str, Any] = {
        "n": 1,
        "x": 1.0,
        "flag": True,
        "none": None,
        "deep": [{"a": [[]]}],
    }
    event = MCPAction(name="t", arguments=arguments)
    again = event_from_dict(json.loads(json.dumps(event_to_dict(event))))
    assert isinstance(again, MCPAction)
    assert exactly(again.arguments) == exactly(arguments)


def test_unknown_arguments_named_like_fields_of_all_events_survive_a_new_id() -> None:
    recorded = {"id": 4, "action": "run", "args": {"command": "ls", "id": 7, "source": "web"}}
    event = event_from_dict(recorded).replace(id=0, source=EventSource.AGENT)
    assert event_to_dict(event) == {
        "id": 0,
        "action": "run",
        "args": {"command": "ls", "id": 7, "source": "web"},
        "source": "agent",
    }
