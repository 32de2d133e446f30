"""Reading and writing OpenAI chat messages: every container, every form of content, and back."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventfold.events import (
    AgentThinkAction,
    CmdOutputObservation,
    CmdRunAction,
    Event,
    EventSource,
    FileReadAction,
    FileReadObservation,
    MCPAction,
    MCPObservation,
    MessageAction,
    Run,
    SystemMessageAction,
    UnknownEvent,
    UnreadableRun,
    read_runs,
)
from eventfold.memory import ConversationMemory, View, check_messages, write_run

Json = dict[str, Any]


# Hand-written messages


def system(content: Any = "You are.", **more: Any) -> Json:
    return {"role": "system", "content": content, **more}


def user(content: Any = "do it", **more: Any) -> Json:
    return {"role": "user", "content": content, **more}


def says(content: Any = "ok", **more: Any) -> Json:
    return {"role": "assistant", "content": content, **more}


def call(call_id: str = "c1", name: str = "terminal", arguments: Any = '{"command": "ls"}') -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def result(content: Any = "a b", call_id: str = "c1", **more: Any) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


TOOLS = [{"type": "function", "function": {"name": "terminal"}}]
PLAIN = [system(), user(), says(None, tool_calls=[call()]), result(), says("done")]


def write(path: Path, value: Any) -> Path:
    path.write_bytes(json.dumps(value).encode())
    return path


def only(path: Path) -> Run:
    (run,) = read_runs(path)
    assert [event.id for event in run.events] == list(range(len(run.events)))
    assert len(run.recorded_ids) == len(run.events)
    assert run.format == "openai_chat"
    return run


def read(tmp_path: Path, *messages: Any) -> Run:
    return only(write(tmp_path / "chat.json", list(messages)))


def back(run: Run, path: Path) -> Any:
    write_run(run, path, "openai_chat")
    return json.loads(path.read_bytes())


def told(run: Run) -> str:
    return "\n".join(map(str, run.problems))


def completion(message: Json) -> Json:
    return {"id": "chatcmpl-1", "choices": [{"message": message}], "usage": {"prompt_tokens": 3}}


# Containers


def test_a_bare_list(tmp_path: Path) -> None:
    run = read(tmp_path, *PLAIN)
    assert run.name == "chat"
    assert [type(event) for event in run.events] == [
        SystemMessageAction,
        MessageAction,
        CmdRunAction,
        CmdOutputObservation,
        MessageAction,
    ]
    assert [event.cause for event in run.events] == [None, None, None, 2, None]
    assert run.events[3].tool_call_metadata is run.events[2].tool_call_metadata
    assert run.problems == []
    assert back(run, tmp_path / "back.json") == PLAIN


@pytest.mark.parametrize("place", ["top", "kwargs"])
def test_a_request_log_object(tmp_path: Path, place: str) -> None:
    tools = {"tools": TOOLS} if place == "top" else {"kwargs": {"tools": TOOLS}}
    answer = says("now", tool_calls=[call("c2")], function_call=None)
    log = {"messages": PLAIN[:4], **tools, "response": completion(answer), "cost": 0.1}
    run = only(write(tmp_path / "request.json", log))
    prompt, last = run.events[0], run.events[-1]
    assert isinstance(prompt, SystemMessageAction)
    assert prompt.tools == TOOLS
    assert isinstance(last, CmdRunAction)
    assert last.tool_call_metadata is not None
    assert last.tool_call_metadata.response_id == "chatcmpl-1"
    assert back(run, tmp_path / "back.json") == [*PLAIN[:4], answer]


def test_raw_messages_come_before_their_text_view(tmp_path: Path) -> None:
    log = {"messages": [system(), user(), says("<function=x>")], "raw_messages": PLAIN}
    assert len(only(write(tmp_path / "x.json", log)).events) == 5


def test_data_set_rows(tmp_path: Path) -> None:
    rows: list[Json] = [
        {"instance_id": "a", "messages": PLAIN, "tools": TOOLS},
        {"task_id": 3, "trial": 1, "traj": PLAIN, "reward": 0.0},
        {"traj": PLAIN},
    ]
    write(tmp_path / "rows.json", rows)
    (tmp_path / "rows.jsonl").write_text("\n".join(["{torn", *map(json.dumps, rows), "[1]"]))
    runs = list(read_runs(tmp_path))
    assert [run.name for run in runs] == [
        *("a", "task 3, trial 1", "rows[2]"),
        *("a", "task 3, trial 1", "rows:4"),
    ]
    assert all(len(run.events) == 5 for run in runs)
    assert "left out, these are no chat messages" in told(runs[-1])


def request(*messages: Json, nested: bool = True) -> Json:
    params = {"messages": list(messages), "tools": TOOLS}
    return (
        {"type": "request", "request_params": params} if nested else {"type": "request", **params}
    )


@pytest.mark.parametrize("nested", [True, False])
def test_requests_and_responses_a_line_each(tmp_path: Path, nested: bool) -> None:
    refused = says("", tool_calls=[call("x"), call("y")])
    rows = [
        request(*PLAIN[:2], nested=nested),
        {"type": "response", "response": completion(PLAIN[2])},
        request(*PLAIN[:4], nested=nested),
        {"type": "response", "response": completion(refused)},
        request(*PLAIN[:4], nested=nested),
        {"type": "response", "outputs": [{"message": "done", "tool_calls": []}]},
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    run = only(path)
    assert back(run, tmp_path / "back.json") == PLAIN
    assert "1 requests are no longer than the one before" in told(run)
    prompt = run.events[0]
    assert isinstance(prompt, SystemMessageAction)
    assert prompt.tools == TOOLS
    path.write_text("\n".join(map(json.dumps, rows[:-1])))  # the last request was not answered
    assert back(only(path), tmp_path / "back.json") == PLAIN[:4]


@pytest.mark.parametrize(
    "other",
    [
        {"messages": PLAIN, "trajectory_format": "mini-swe-agent-1"},
        {"messages": PLAIN, "info": {"mini_version": "1.0"}},
        {"history": [{**user(), "agent": "main"}], "trajectory": [{"response": "", "state": ""}]},
    ],
)
def test_formats_with_messages_of_their_own_are_no_chat(tmp_path: Path, other: Json) -> None:
    with pytest.raises(UnreadableRun, match="recognised as"):
        list(read_runs(write(tmp_path / "x.json", other)))


# Messages


PARTS = [{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}]


@pytest.mark.parametrize(
    "content", ["one", PARTS, [*PARTS, {"type": "text", "text": "two"}], ["one"]]
)
def test_content_with_text(tmp_path: Path, content: Any) -> None:
    messages = [
        system(content),
        user(content),
        says(content),
        user(),
        says(content, tool_calls=[call()]),
        result(content, name="terminal", cache_control={"type": "ephemeral"}),
    ]
    run = read(tmp_path, *messages)
    expected = "one\ntwo" if len(content) == 2 else "one"
    assert [getattr(run.events[n], "content", None) for n in (0, 1, 2, 5)] == [expected] * 4
    assert getattr(run.events[4], "thought", None) == expected
    assert back(run, tmp_path / "back.json") == messages


@pytest.mark.parametrize("empty", [{"content": None}, {"content": ""}, {"content": []}, {}])
def test_content_without_text(tmp_path: Path, empty: Json) -> None:
    messages: list[Json] = [
        user(),
        {"role": "assistant", "tool_calls": [call()], **empty},
        {"role": "tool", "tool_call_id": "c1", **empty},
        {"role": "assistant", **empty},
        user("go on"),
    ]
    run = read(tmp_path, *messages)
    assert len(run.events) == 5
    said = [m.to_dict() for m in ConversationMemory().process_events(run.events)]
    assert [m["content"] for m in said] == ["do it", None, "(no output)", "go on"]
    assert back(run, tmp_path / "back.json") == messages


def test_rows_with_every_key_null(tmp_path: Path) -> None:
    keys = ("content", "function_call", "name", "role", "tool_call_id", "tool_calls")
    messages = [dict.fromkeys(keys) | message for message in PLAIN]
    run = read(tmp_path, *messages)
    assert [type(e) for e in run.events] == [type(e) for e in read(tmp_path, *PLAIN).events]
    assert back(run, tmp_path / "back.json") == messages


def test_images(tmp_path: Path) -> None:
    picture = {
        "type": "image_url",
        "image_url": {"url": "https://a.example/x.png", "detail": "low"},
    }
    content = [{"type": "text", "text": "see"}, picture]
    messages = [
        user([*content, {"type": "input_audio", "input_audio": {}}]),
        says(None, tool_calls=[call("c1", "look", "{}")]),
        result(content),
    ]
    run = read(tmp_path, *messages)
    question, _, answer = run.events
    assert isinstance(question, MessageAction)
    assert isinstance(answer, MCPObservation)
    assert question.image_urls == answer.image_urls == ["https://a.example/x.png"]
    assert "parts that are not shown to an LLM, kept as they are: input_audio" in told(run)
    assert back(run, tmp_path / "back.json") == messages
    said = ConversationMemory().process_events(run.events, vision_is_active=True)
    assert [part["type"] for part in said[0].to_dict()["content"]] == ["text", "image_url"]


def test_roles(tmp_path: Path) -> None:
    messages = [
        {"role": "developer", "content": "You are."},
        user(),
        says(),
        system("be brief"),
        {"role": "oracle", "content": "42"},
    ]
    run = read(tmp_path, *messages)
    assert isinstance(run.events[0], SystemMessageAction)
    later, unknown = run.events[3:]
    assert isinstance(later, MessageAction)
    assert later.source is EventSource.ENVIRONMENT
    assert isinstance(unknown, UnknownEvent)
    assert len(View.from_events(run.events)) == 4
    assert "unknown role" in told(run)
    assert back(run, tmp_path / "back.json") == messages


# Calls


def test_parallel_calls_and_the_fields_of_a_response(tmp_path: Path) -> None:
    turn = says(
        "both",
        tool_calls=[
            {**call("a", "think", '{"thought":  "hm"}'), "index": 1},
            call("b", "str_replace_editor", '{"command": "view", "path": "/a"}'),
        ],
        reasoning_content="hm",
        thinking_blocks=[{"type": "thinking", "thinking": "hm", "signature": "c2ln"}],
        provider_specific_fields={"x": 1},
    )
    messages = [user(), turn, result("1 x", "b"), result("logged", "a"), user("more")]
    run = read(tmp_path, *messages)
    assert [type(e) for e in run.events[1:4]] == [
        AgentThinkAction,
        FileReadAction,
        FileReadObservation,
    ]
    assert [event.cause for event in run.events] == [None, None, None, 2, 1, None]
    said = ConversationMemory().process_events(run.events)[1].to_dict()
    assert said["tool_calls"][0]["function"]["arguments"] == '{"thought":  "hm"}'
    assert said["reasoning_content"] == "hm"
    assert said["thinking_blocks"] == turn["thinking_blocks"]
    assert back(run, tmp_path / "back.json") == messages


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"query": "x"}', {"query": "x"}),
        ('{"query": "a\nb"}', {"query": "a\nb"}),  # a raw newline inside a string
        ({"query": "x"}, {"query": "x"}),
        ("{torn", {}),
        ("[1]", {}),
        (None, {}),
        ("", {}),
    ],
)
def test_arguments_of_any_kind(tmp_path: Path, arguments: Any, expected: Json) -> None:
    messages = [user(), says(None, tool_calls=[call("c1", "search", arguments)]), result("r")]
    run = read(tmp_path, *messages)
    action = run.events[1]
    assert isinstance(action, MCPAction)
    assert action.arguments == expected
    assert back(run, tmp_path / "back.json") == messages
    made = ConversationMemory().process_events(run.events)
    assert check_messages(made) == []
    json.loads(made[1].tool_calls[0].arguments)


def test_calls_without_ids_and_the_old_function_call(tmp_path: Path) -> None:
    messages: list[Json] = [
        user(),
        says(None, function_call={"name": "search", "arguments": "{}"}),
        {"role": "function", "name": "search", "content": "found"},
        says(None, tool_calls=[{**call(), "id": None}, {**call(), "id": ""}]),
        {"role": "tool", "content": "one"},
        {"role": "tool", "tool_call_id": None, "content": "two"},
    ]
    run = read(tmp_path, *messages)
    assert [event.cause for event in run.events] == [None, None, 1, None, None, 3, 4]
    assert back(run, tmp_path / "back.json") == messages
    assert check_messages(ConversationMemory().process_events(run.events)) == []


def test_results_without_a_call_and_calls_without_a_result(tmp_path: Path) -> None:
    messages = [user(), result("lost", "gone"), {"role": "tool", "content": "nameless"},
                says(tool_calls=[call()])]  # fmt: skip
    run = read(tmp_path, *messages)
    assert [event.cause for event in run.events] == [None] * 4
    assert told(run).count("a result of a call that is not to be found") == 2
    assert back(run, tmp_path / "back.json") == messages


def test_a_reused_call_id_means_the_newest_call(tmp_path: Path) -> None:
    messages = [user(), *[says(None, tool_calls=[call()]), result()] * 2]
    run = read(tmp_path, *messages)
    assert [event.cause for event in run.events] == [None, None, 1, None, 3]
    assert back(run, tmp_path / "back.json") == messages


@pytest.mark.parametrize("odd", [5, None, "text", [], {}, {"role": None}, {"role": "user"}])
def test_odd_messages_stop_nothing(tmp_path: Path, odd: Any) -> None:
    run = read(tmp_path, user(), odd, says())
    assert isinstance(run.events[-1], MessageAction)
    assert run.events[-1].content == "ok"


def test_odd_calls_stop_nothing(tmp_path: Path) -> None:
    odd: list[Any] = [5, [5], [{}], [{"id": "x", "function": 5}], [call(), None], {"a": 1}]
    for calls in odd:
        run = read(tmp_path, user(), says("hm", tool_calls=calls), user())
        assert len(run.events) == 3
        assert back(run, tmp_path / "back.json")[0] == user()


# Other runs as chat


def test_any_run_is_written_as_the_chat_that_it_makes(tmp_path: Path) -> None:
    events: list[Event] = [
        MessageAction("hi", source=EventSource.USER, id=0),
        MessageAction("hello", source=EventSource.AGENT, id=1),
    ]
    run = Run("x", "", events)
    assert back(run, tmp_path / "x.json") == [user("hi"), says("hello")]
    assert back(Run("x", "", []), tmp_path / "x.json") == []
    chat = read(tmp_path, *PLAIN)
    chat.events = chat.events[1:]  # changed since it was read
    assert [m["role"] for m in back(chat, tmp_path / "x.json")] == [
        "user", "assistant", "tool", "assistant",
    ]  # fmt: skip


# Recorded chats


@pytest.fixture
def recorded(corpus: Path) -> Path:
    return corpus / "5_openai_chat"


def test_every_recorded_chat_comes_back_equal(recorded: Path, tmp_path: Path) -> None:
    count = 0
    for path in sorted(recorded.iterdir()):
        raw = raw_chats(path)
        for run, messages in zip(read_runs(path), raw, strict=True):
            count += 1
            assert back(run, tmp_path / "back.json") == messages
            again = only(tmp_path / "back.json")
            assert back(again, tmp_path / "again.json") == messages
    assert count == 42


def raw_chats(path: Path) -> list[Any]:
    """The messages in a file, and the response's, found without the reader."""
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
        asked = [row for row in rows if row["type"] == "request"][-1]
        messages: list[Json] = asked.get("request_params", asked)["messages"]
        output: Json = rows[-1]["outputs"][0]
        if "response" in rows[-1]:
            return [[*messages, rows[-1]["response"]["choices"][0]["message"]]]
        reply = {"role": "assistant", "content": output["message"]}
        if output["tool_calls"]:
            reply["tool_calls"] = output["tool_calls"]
        return [[*messages, reply]]
    data = json.loads(path.read_bytes())
    if isinstance(data, dict):
        response = data["response"]["choices"][0]["message"]
        prompt: list[Json] = data["raw_messages" if "raw_messages" in data else "messages"]
        return [[*prompt, response]]
    if "role" in data[0]:
        return [data]
    return [row.get("messages") or row["traj"] for row in data]


def test_what_is_recorded_is_what_would_be_sent(recorded: Path) -> None:
    """Texts, calls and results; of results that were empty, and of odd ids, we say more."""
    for run in read_runs(recorded / "taubench_gpt4o_airline_longest25.json"):
        made = [m.to_dict() for m in ConversationMemory("openai").process_events(run.events)]
        results = [m["content"] for m in made if m["role"] == "tool"]
        observed = [e for e in run.events if e.tool_call_metadata and e.cause is not None]
        assert len(results) == len(observed)
