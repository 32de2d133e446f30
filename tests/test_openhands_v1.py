"""Reading OpenHands V1 logs: every container, every kind of event, and condensations obeyed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventfold.events import (
    AgentFinishAction,
    AgentThinkAction,
    BrowseInteractiveAction,
    BrowserOutputObservation,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    CondensationRequestAction,
    ErrorObservation,
    Event,
    EventSource,
    FileEditAction,
    FileEditObservation,
    FileReadAction,
    FileReadObservation,
    MCPAction,
    MCPObservation,
    MessageAction,
    Run,
    SystemMessageAction,
    TaskTrackingAction,
    UnknownEvent,
    UnreadableRun,
    UserRejectObservation,
    event_from_dict,
    event_to_dict,
    read_runs,
)
from eventfold.events.formats.json_rows import read_value
from eventfold.memory import ConversationMemory, View

Json = dict[str, Any]
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5"
    "ErkJggg=="
)


# Hand-written logs


def event(kind: str, name: str, source: str = "agent", **fields: Any) -> Json:
    return {
        "id": name,
        "timestamp": "2026-01-02T03:04:05",
        "source": source,
        **fields,
        "kind": kind,
    }


def text(said: str) -> Json:
    return {"type": "text", "text": said, "cache_prompt": False}


def prompt(name: str = "s", said: str = "You are.", **more: Any) -> Json:
    return event("SystemPromptEvent", name, system_prompt=text(said), tools=[{"t": 1}], **more)


def said(name: str, words: str, source: str = "user", **more: Any) -> Json:
    role = "assistant" if source == "agent" else "user"
    message = {"role": role, "content": [text(words)]}
    return event("MessageEvent", name, source, llm_message=message, **more)


def called(name: str, tool: str = "terminal", response: str | None = None, **fields: Any) -> Json:
    args = fields.pop("args", {"command": "ls"})
    call = {
        "id": f"call_{name}",
        "name": tool,
        "arguments": json.dumps(args),
        "origin": "completion",
    }
    given = {
        "thought": [],
        "action": {**args, "kind": "SomeAction"},
        "tool_name": tool,
        "tool_call_id": f"call_{name}",
        "tool_call": call,
        "llm_response_id": response or f"response_{name}",
    }
    return event("ActionEvent", name, **{**given, **fields})


def returned(name: str, action: str, tool: str = "terminal", **observation: Any) -> Json:
    return event(
        "ObservationEvent",
        name,
        "environment",
        tool_name=tool,
        tool_call_id=f"call_{action}",
        action_id=action,
        observation={**(observation or {"output": "a b"}), "kind": "SomeObservation"},
    )


def condensation(name: str, *forgotten: str, **more: Any) -> Json:
    return event("Condensation", name, "environment", forgotten_event_ids=list(forgotten), **more)


PLAIN = [prompt(), said("u", "do it"), called("a"), returned("o", "a")]


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(json.dumps(value).encode())
    return path


def folder(path: Path, *events: Json, first: int = 0) -> Path:
    for n, one in enumerate(events, first):
        write(path / "events" / f"event-{n:05d}-{one['id']}.json", one)
    return path


def only(path: Path) -> Run:
    (run,) = read_runs(path)
    assert [event.id for event in run.events] == list(range(len(run.events)))
    assert len(run.recorded_ids) == len(run.events)
    assert run.format == "openhands_v1"
    return run


def read(tmp_path: Path, *events: Json) -> Run:
    return only(write(tmp_path / "log.json", list(events)))


def told(run: Run) -> str:
    return "\n".join(map(str, run.problems))


def messages(run: Run) -> list[Json]:
    view = View.from_events(run.events)
    return [message.to_dict() for message in ConversationMemory().process_events(view)]


# Containers


def test_a_conversation_folder(tmp_path: Path) -> None:
    session = folder(tmp_path / "c0ffee", *PLAIN)
    write(session / "base_state.json", {"id": "c0ffee"})
    for path in (session, session / "events"):
        run = only(path)
        assert run.name == "c0ffee"
        assert [type(e) for e in run.events] == [
            SystemMessageAction,
            MessageAction,
            CmdRunAction,
            CmdOutputObservation,
        ]
        assert run.recorded_ids == ["s", "u", "a", "o"]
        assert [e.cause for e in run.events] == [None, None, None, 2]
        assert run.problems == []


def test_a_folder_is_read_by_number_and_may_begin_late(tmp_path: Path) -> None:
    many = [said(f"u{n}", str(n)) for n in range(12)]
    session = folder(tmp_path / "x" / "event_service", *many, first=99_994)
    write(session / "events" / "event-00001-broken.json", 5)
    (session / "events" / "event-00002-cut.json").write_text('{"kind": "Mess')
    (session / "events" / "notes.txt").write_text("hello")
    run = only(session)
    assert run.name == "x"
    assert [e.content for e in run.events if isinstance(e, MessageAction)] == [
        str(n) for n in range(12)
    ]
    assert "begins late, at event 1" in told(run)
    assert "the log has holes: files of 99991 events are missing" in told(run)
    assert "left out: cut off" in told(run)
    assert "an event is an object, this is the number 5" in told(run)
    assert "notes.txt: left out" in told(run)


def test_arrays_rows_and_lines(tmp_path: Path) -> None:
    write(tmp_path / "a.json", PLAIN)
    write(tmp_path / "b.json", {"instance_id": "one", "history": PLAIN, "num_events": 4})
    rows = [
        {"instance_id": "empty", "history": []},
        {"instance_id": "two", "history": PLAIN, "instruction": "not needed"},
    ]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "d.jsonl").write_text("\n".join([*map(json.dumps, PLAIN), '{"kind": ']))
    runs = list(read_runs(tmp_path))
    assert [(run.name, len(run.events)) for run in runs] == [
        ("a", 4),
        ("one", 4),
        ("empty", 0),
        ("two", 4),
        ("d", 4),
    ]
    assert "there are no events" in told(runs[2])
    assert "cut off" in told(runs[4])


def test_a_conversation_state_is_no_run(tmp_path: Path) -> None:
    state = {"id": "x", "agent": {"llm": {}}, "workspace": {}, "execution_status": "idle"}
    path = write(tmp_path / "base_state.json", state)
    with pytest.raises(UnreadableRun, match="the state of an OpenHands V1 conversation"):
        list(read_runs(path))


def test_the_instruction_of_a_log_that_starts_with_an_action(tmp_path: Path) -> None:
    row = {"instance_id": "i", "instruction": "do", "history": [called("a"), returned("o", "a")]}
    run = only(write(tmp_path / "x.json", row))
    task = run.events[0]
    assert isinstance(task, MessageAction)
    assert (task.content, task.source) == ("do", EventSource.USER)
    assert run.recorded_ids == [None, "a", "o"]
    assert [e.cause for e in run.events] == [None, None, 1]
    assert "the row's instruction became one" in told(run)


# Kinds


def test_system_prompts(tmp_path: Path) -> None:
    dynamic = prompt(dynamic_context=text("Today."))
    update = event(
        "SystemPromptUpdateEvent", "n", system_prompt=text("New."), tools=[], reason="tools_changed"
    )
    run = read(tmp_path, dynamic, said("u", "hi"), update)
    first, _, second = run.events
    assert isinstance(first, SystemMessageAction)
    assert isinstance(second, SystemMessageAction)
    assert (first.content, first.tools) == ("You are.\n\nToday.", [{"t": 1}])
    assert run.as_recorded == {2: {"reason": "tools_changed"}}
    assert messages(run)[0]["content"] == "New."


def test_messages_with_extended_content_and_images(tmp_path: Path) -> None:
    image = {"type": "image", "image_urls": [f"data:image/png;base64,{PNG}"]}
    user = said("u", "look", extended_content=[text("knowledge")])
    user["llm_message"]["content"].append(image)
    hook = {**said("h", "by a hook"), "source": "hook"}
    run = read(tmp_path, user, said("m", "I see", "agent"), hook)
    first, reply, third = run.events
    assert isinstance(first, MessageAction)
    assert isinstance(reply, MessageAction)
    assert first.content == "look\nknowledge"
    assert first.image_urls == image["image_urls"]
    assert (first.source, reply.source) == (EventSource.USER, EventSource.AGENT)
    assert third.source is EventSource.ENVIRONMENT
    assert run.as_recorded == {2: {"source": "hook"}}


ACTIONS: list[tuple[str, Json, type[Event]]] = [
    ("terminal", {"command": "ls", "is_input": True}, CmdRunAction),
    ("execute_bash", {"command": "ls", "timeout": None, "reset": False}, CmdRunAction),
    ("file_editor", {"command": "view", "path": "/a", "view_range": [1, 2]}, FileReadAction),
    ("str_replace_editor", {"command": "create", "path": "/a", "file_text": ""}, FileEditAction),
    ("think", {"thought": "hm"}, AgentThinkAction),
    ("finish", {"message": "done"}, AgentFinishAction),
    ("task_tracker", {"command": "plan", "task_list": [{"title": "t"}]}, TaskTrackingAction),
    ("browser_click", {"index": 3, "new_tab": False}, BrowseInteractiveAction),
    ("terminal", {"path": "no command"}, MCPAction),
    ("search_flights", {"to": "mars"}, MCPAction),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "args", "kind"), ACTIONS)
def test_a_call_becomes_the_action_that_fits(
    tmp_path: Path, tool: str, args: Json, kind: type[Event]
) -> None:
    action = read(tmp_path, said("u", "do"), called("a", tool, args=args)).events[1]
    assert type(action) is kind
    assert action.tool_call_metadata is not None
    assert action.tool_call_metadata.function_name == tool
    if isinstance(action, MCPAction):
        assert action.arguments == args
    if isinstance(action, FileReadAction):
        assert action.view_range == [1, 2]
    if isinstance(action, BrowseInteractiveAction):
        assert action.browser_actions == "browser_click(index=3, new_tab=False)"


def test_both_shapes_of_a_call_and_thinking_come_back_in_the_prompt(tmp_path: Path) -> None:
    arguments = '{"command":  "ls", "security_risk": "LOW"}'
    old = {"index": 1, "id": "call_a", "type": "function"}
    old |= {"function": {"name": "terminal", "arguments": arguments}}
    new = {"id": "call_b", "name": "terminal", "arguments": arguments, "origin": "completion"}
    block = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    item = {"id": "rs_1", "summary": ["short"], "content": None, "encrypted_content": "ZW5j"}
    run = read(
        tmp_path,
        said("u", "do"),
        called("a", thought=[text("First.")], tool_call=old, thinking_blocks=[block],
               reasoning_content="hm"),
        returned("o", "a"),
        called("b", tool_call=new, responses_reasoning_item=item, security_risk="LOW"),
        returned("p", "b"),
    )  # fmt: skip
    first, second = (m for m in messages(run) if m["role"] == "assistant")
    assert first["content"] == "First."
    assert first["thinking_blocks"] == [block]
    assert first["reasoning_content"] == "hm"
    assert second["content"] is None
    assert second["reasoning_items"] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "short"}],
            "encrypted_content": "ZW5j",
        }
    ]
    for message in (first, second):
        assert message["tool_calls"][0]["function"]["arguments"] == arguments
    assert run.as_recorded[3] == {"responses_reasoning_item": item, "security_risk": "LOW"}


def test_parallel_calls_are_one_response(tmp_path: Path) -> None:
    run = read(
        tmp_path,
        said("u", "do"),
        called("a", response="r", thought=[text("Both.")]),
        event("AgentErrorEvent", "e", tool_name="terminal", tool_call_id="call_a", error="no"),
        called("b", response="r"),
        returned("o", "b"),
        called("c", response="r"),  # a server that gives all responses one id
    )
    view = View.from_events(run.events)
    assert [len(turn.events) for turn in view.turns] == [1, 4, 1]
    turn, *results = messages(run)[1:4]
    assert turn["content"] == "Both."
    assert [call["id"] for call in turn["tool_calls"]] == ["call_a", "call_b"]
    assert [result["content"] for result in results] == ["Error: no", "a b"]


def test_a_call_that_was_not_carried_out(tmp_path: Path) -> None:
    failed = called("a", args={"command": 5}, action=None)
    error = event("AgentErrorEvent", "e", tool_name="terminal", tool_call_id="call_a", error="bad")
    run = read(tmp_path, said("u", "do"), failed, error)
    action, result = run.events[1:]
    assert isinstance(action, MCPAction)
    assert action.arguments == {"command": 5}
    assert isinstance(result, ErrorObservation)
    assert (result.content, result.cause) == ("bad", 1)


def result(tmp_path: Path, tool: str, args: Json, **observation: Any) -> Event:
    run = read(
        tmp_path,
        said("u", "do"),
        called("a", tool, args=args),
        returned("o", "a", tool, **observation),
    )
    found = run.events[2]
    assert found.cause == 1
    assert found.tool_call_metadata is run.events[1].tool_call_metadata
    return found


def test_the_output_of_a_command(tmp_path: Path) -> None:
    args = {"command": "ls"}
    old = result(
        tmp_path, "execute_bash", args, output="a", error=True, exit_code=None,
        metadata={"exit_code": 2, "working_dir": "/w", "suffix": "[ended]"},
    )  # fmt: skip
    assert isinstance(old, CmdOutputObservation)
    assert (old.content, old.exit_code, old.command) == ("a", 2, "ls")
    new = result(
        tmp_path, "terminal", args, content=[text("b")], is_error=False, exit_code=0, metadata={}
    )
    assert isinstance(new, CmdOutputObservation)
    assert (new.content, new.exit_code) == ("b", 0)
    running = result(
        tmp_path, "terminal", args, content=[text("c")], exit_code=-1,
        metadata={"exit_code": -1, "prefix": "[below]\n", "suffix": "\n[still running]"},
    )  # fmt: skip
    assert isinstance(running, CmdOutputObservation)
    assert running.content == "[below]\nc\n[still running]"


def test_the_results_of_the_file_editor(tmp_path: Path) -> None:
    edit = {"command": "str_replace", "path": "/a", "old_str": "x", "new_str": "y"}
    edited = result(
        tmp_path, "file_editor", edit, output="done", path="/a", prev_exist=True,
        old_content="x", new_content="y", error=None,
    )  # fmt: skip
    assert isinstance(edited, FileEditObservation)
    assert (edited.content, edited.old_content, edited.new_content) == ("done", "x", "y")
    seen = result(tmp_path, "file_editor", {"command": "view", "path": "/a"}, output="1 x")
    assert isinstance(seen, FileReadObservation)
    assert seen.content == "1 x"
    for failure in (
        {"output": "", "error": "no such file"},
        {"content": "no such file", "is_error": True},
    ):
        failed = result(tmp_path, "file_editor", edit, **failure)
        assert isinstance(failed, ErrorObservation)
        assert failed.content == "no such file"
    image = {"type": "image", "image_urls": [f"data:image/png;base64,{PNG}"]}
    shown = result(
        tmp_path, "file_editor", {"command": "view", "path": "/a.png"}, content=[text("x"), image]
    )
    assert isinstance(shown, MCPObservation)
    assert shown.image_urls == image["image_urls"]


def test_the_results_of_browser_and_other_tools(tmp_path: Path) -> None:
    page = result(tmp_path, "browser_get_state", {}, output="page", error=None, screenshot_data=PNG)
    assert isinstance(page, BrowserOutputObservation)
    assert (page.content, page.screenshot) == ("page", f"data:image/png;base64,{PNG}")
    failed = result(tmp_path, "browser_click", {"index": 1}, output="", error="gone")
    assert isinstance(failed, BrowserOutputObservation)
    assert (failed.error, failed.last_browser_action_error) == (True, "gone")
    other = result(tmp_path, "search", {"q": "x"}, content=[text("found")], is_error=False)
    assert isinstance(other, MCPObservation)
    assert (other.content, other.name, other.arguments) == ("found", "search", {"q": "x"})
    assert result(tmp_path, "finish", {"message": "m"}, message="m") == MCPObservation(
        "m", name="finish", **around(tmp_path)
    )


def around(tmp_path: Path) -> Json:
    """What an answer has beside its content: taken from the log just written."""
    found = only(tmp_path / "log.json").events[2]
    names = ("id", "timestamp", "source", "cause", "tool_call_metadata")
    return {name: getattr(found, name) for name in names}


def test_a_rejection_and_a_request(tmp_path: Path) -> None:
    rejected = event(
        "UserRejectObservation", "o", "environment", rejection_reason="never",
        tool_name="terminal", tool_call_id="call_a", action_id="a",
    )  # fmt: skip
    request = event("CondensationRequest", "r", "environment")
    run = read(tmp_path, said("u", "do"), called("a"), rejected, request)
    assert isinstance(run.events[2], UserRejectObservation)
    assert run.events[2].content == "never"
    assert isinstance(run.events[3], CondensationRequestAction)


def test_an_answer_whose_action_is_not_there(tmp_path: Path) -> None:
    run = read(tmp_path, said("u", "do"), returned("o", "gone", command="ls", output="x"))
    orphan = run.events[1]
    assert isinstance(orphan, CmdOutputObservation)
    assert orphan.cause is None
    assert orphan.tool_call_metadata is not None
    assert orphan.tool_call_metadata.tool_call_id == "call_gone"
    assert "answers an action that is not to be found" in told(run)


def test_what_no_llm_is_shown_is_kept_whole(tmp_path: Path) -> None:
    state = event("ConversationStateUpdateEvent", "x", "environment", key="stats", value={"a": [1]})
    strange = event("TeleportEvent", "y", content="to mars", observation={"a": 1}, action={"b": 2})
    run = read(tmp_path, said("u", "do"), state, event("PauseEvent", "p", "user"), strange)
    kept = run.events[1:]
    assert all(isinstance(e, UnknownEvent) and e.hidden for e in kept)
    assert len(View.from_events(run.events)) == 1
    for found, recorded in zip(kept, (state, strange), strict=False):
        data = event_to_dict(found)
        if recorded is state:
            assert {"key": "stats", "value": {"a": [1]}}.items() <= data["args"].items()
        assert event_from_dict(data) == found
    assert "ConversationStateUpdateEvent (1), PauseEvent (1), TeleportEvent (1)" in told(run)


@pytest.mark.parametrize(
    "odd",
    [
        {"kind": "MessageEvent", "llm_message": None},
        {"kind": "MessageEvent", "llm_message": {"role": "oracle", "content": []}},
        {"kind": "SystemPromptEvent", "system_prompt": 5},
        {"kind": "ActionEvent"},
        {"kind": "ActionEvent", "action": [], "tool_call": 5, "thought": 7, "tool_name": {}},
        {"kind": "ObservationEvent", "observation": None, "action_id": ["x"]},
        {"kind": "AgentErrorEvent"},
        {"kind": "Condensation", "forgotten_event_ids": None, "summary": "x"},
        {"kind": "Condensation", "forgotten_event_ids": [1, None, {}], "summary_offset": "x"},
        {"kind": ""},
    ],
)
def test_odd_events_stop_nothing(tmp_path: Path, odd: Json) -> None:
    run = read(tmp_path, said("u", "do"), {"source": None, "id": None, "timestamp": "?", **odd})
    assert len(run.events) == 2
    assert messages(run)


# Condensations


def test_an_id_that_exists_nowhere_is_the_summary_before(tmp_path: Path) -> None:
    run = read(
        tmp_path,
        *PLAIN,
        condensation("c", "a", "o", "nowhere", summary="one", summary_offset=2),
        said("v", "more"),
        condensation("d", "ghost", "v", "w", summary="two", summary_offset=2),
        said("w", "later"),
    )
    first, second = (e for e in run.events if isinstance(e, CondensationAction))
    assert list(first.forgotten) == [2, 3]
    assert list(second.forgotten) == [4, 5]
    assert "left out 1 (nowhere)" in told(run)
    assert "left out 1 (w)" in told(run)
    assert messages(run)[0]["content"] == "You are."
    view = View.from_events(run.events)
    assert [event.id for event in view] == [0, 1, 6, 7]


# Recorded conversations


@pytest.fixture
def recorded(corpus: Path) -> Path:
    return corpus / "2_openhands_v1"


def test_every_recorded_file_is_read(recorded: Path) -> None:
    runs = list(read_runs(recorded))
    raw = list(raw_events(recorded))
    added = sum("became one" in problem.text for run in runs for problem in run.problems)
    assert sum(len(run.events) for run in runs) == len(raw) + added
    read_ids = [known for run in runs for known in run.recorded_ids if known is not None]
    assert sorted(map(str, read_ids)) == sorted(one["id"] for one in raw)
    assert sum("the state of" in found.text for run in runs for found in run.problems) == 2
    for path in recorded.glob("sdk_base_state_*.json"):
        with pytest.raises(UnreadableRun, match="the state of an OpenHands V1 conversation"):
            list(read_runs(path))


def raw_events(folder: Path) -> Iterator[Json]:
    for path in sorted(folder.rglob("*.json*")):
        if path.name.startswith("sdk_base_state") or path.name in ("base_state.json", "meta.json"):
            continue
        lines = [path.read_bytes()] if path.suffix == ".json" else path.read_bytes().split(b"\n")
        for value in (json.loads(line) for line in lines if line.strip()):
            if isinstance(value, list):
                yield from value
            else:
                yield from value.get("history", [value])


def conversations(recorded: Path) -> list[Path]:
    return sorted(path for path in (recorded / "conversations").iterdir() if path.is_dir())


def test_recorded_condensations_are_obeyed(recorded: Path) -> None:
    checked = 0
    for path in conversations(recorded):
        files = sorted((path / "events").iterdir())
        raw = [read_value(file) for file in files]
        run = only(path)
        assert run.recorded_ids == [one["id"] for one in raw]
        for n, condensation in enumerate(raw):
            if condensation["kind"] != "Condensation":
                continue
            checked += 1
            view = View.from_events(run.events[: n + 1])
            kept = kept_after(raw[: n + 1])
            offset = condensation["summary_offset"]
            expected = [*kept[:offset], condensation["id"], *kept[offset:]]
            assert [run.recorded_ids[e.id] for e in view] == expected
            assert view[offset].id == n
            assert getattr(view[offset], "content", None) == condensation["summary"]
    assert checked == 27


def kept_after(log: list[Json]) -> list[str]:
    """From the raw log: the ids of the turns of which no event was ever named."""
    answers = {e["id"]: e["action_id"] for e in log if e["kind"] == "ObservationEvent"}
    turn_of = {e["id"]: answers.get(e["id"], e["id"]) for e in log}
    named = {old for e in log if e["kind"] == "Condensation" for old in e["forgotten_event_ids"]}
    gone = {turn_of[old] for old in named if old in turn_of}
    return [e["id"] for e in log if e["kind"] != "Condensation" and turn_of[e["id"]] not in gone]


def test_recorded_turns_are_said_back(recorded: Path) -> None:
    for path in conversations(recorded):
        run = only(path)
        log = [e for e in run.events if not isinstance(e, CondensationAction)]
        made = ConversationMemory("openai").process_events(log)
        raw = [read_value(file) for file in sorted((path / "events").iterdir())]
        said_back = [call.arguments for message in made for call in message.tool_calls]
        asked = [one["tool_call"] for one in raw if one["kind"] == "ActionEvent"]
        recorded_arguments = [call.get("function", call)["arguments"] for call in asked]
        assert list(map(json.loads, said_back)) == list(map(json.loads, recorded_arguments))
