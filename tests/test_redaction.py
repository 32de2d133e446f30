"""Secrets: hidden before anything is stored or told, wherever they are, and nothing else is."""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import pickle
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, cycle
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import example, given, strategies as st
from pydantic import SecretStr

from eventfold.condensers import AgentContext, NoOpCondenser
from eventfold.events import (
    HIDDEN,
    Action,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    Event,
    EventStream,
    InvalidArgument,
    JsonlEventStore,
    MCPAction,
    MCPObservation,
    MessageAction,
    ModelResponse,
    ToolCall,
    ToolCallMetadata,
    UnknownEvent,
    event_from_dict,
    event_to_dict,
    register_event,
)
from eventfold.events.event import ACTIONS
from eventfold.events.redaction import Redaction
from eventfold.memory import Message, Reply, check_messages
from tests.logs import event_logs, wire_events
from tests.notation import Call, Response

KEY = "sk-12345"


def stored(event: Event, *secrets: str) -> dict[str, Any]:
    """What of an event is stored by a stream with these secrets."""
    return event_to_dict(EventStream("s", secrets=secrets or (KEY,)).append(event))


def responded(
    arguments: object, text: str = "", name: str = "run", **fields: Any
) -> ToolCallMetadata:
    response = Response("resp_1", (Call("call_1", name, arguments),), text, fields)
    return ToolCallMetadata(name, "call_1", 1, ModelResponse.of(response.to_dict()))


def said(data: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = data["tool_call_metadata"]["model_response"]["choices"][0]["message"]
    return message


def arguments(data: dict[str, Any]) -> Any:
    return said(data)["tool_calls"][0]["function"]["arguments"]


# What is hidden


def test_a_secret_is_hidden_wherever_an_event_holds_text() -> None:
    result = MCPObservation(content=f"token={KEY};", name="env", arguments={KEY: [f"a{KEY}", 1]})
    metrics = {"model": "m", "seen": {KEY: KEY}}
    data = stored(result.replace(llm_metrics=metrics))
    assert data["content"] == f"token={HIDDEN};"
    assert data["extras"]["arguments"] == {HIDDEN: [f"a{HIDDEN}", 1]}
    assert data["llm_metrics"] == {"model": "m", "seen": {HIDDEN: HIDDEN}}

    action = MCPAction(name="env", arguments={"list": [[KEY]]}, thought=KEY)
    data = stored(action.replace(tool_call_metadata=responded(f'{{"k": "{KEY}"}}', f"I use {KEY}")))
    assert data["args"]["arguments"] == {"list": [[HIDDEN]]}
    assert data["args"]["thought"] == HIDDEN
    assert arguments(data) == f'{{"k": "{HIDDEN}"}}'
    assert said(data)["content"] == f"I use {HIDDEN}"

    summary = CondensationAction([1, 2], summary=f"It has {KEY}.", summary_offset=1)
    summary = summary.replace(details={"reason": KEY})
    data = stored(summary)["args"]
    assert (data["summary"], data["details"]) == (f"It has {HIDDEN}.", {"reason": HIDDEN})

    message = MessageAction(KEY, image_urls=[f"http://u:{KEY}@host/a.png"])
    data = stored(message)["args"]
    assert (data["content"], data["image_urls"]) == (HIDDEN, [f"http://u:{HIDDEN}@host/a.png"])


def test_a_secret_is_hidden_in_the_response_of_an_answer_in_text() -> None:
    response = Response("resp_1", (), KEY, {"reasoning_content": f"say {KEY}"}).to_dict()
    data = stored(MessageAction(KEY, model_response=ModelResponse.of(response)))
    assert KEY not in json.dumps(data)
    message = data["model_response"]["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == (HIDDEN, f"say {HIDDEN}")


def test_a_secret_is_hidden_in_what_was_recorded_beside_the_fields() -> None:
    recorded = {
        "action": "run",
        "message": f"Running {KEY}",
        "tool_call_metadata": {
            "function_name": "run",
            "tool_call_id": "call_1",
            "model_response": Response("r", (Call("call_1", arguments=f'["{KEY}"]'),)).to_dict(),
            "odd": KEY,
        },
        KEY: {"deep": [KEY]},
        "args": {"command": KEY, "odd": KEY, f"x{KEY}": 1},
    }
    data = stored(event_from_dict(recorded))
    assert list(data)[:5] == ["action", "message", "tool_call_metadata", HIDDEN, "args"]
    assert data["message"] == f"Running {HIDDEN}"
    assert data[HIDDEN] == {"deep": [HIDDEN]}
    assert data["args"] == {"command": HIDDEN, "odd": HIDDEN, f"x{HIDDEN}": 1}
    assert data["tool_call_metadata"]["odd"] == HIDDEN
    assert arguments(data) == f'["{HIDDEN}"]'

    data = stored(event_from_dict({"observation": "new", "content": KEY, "extras": {KEY: KEY}}))
    assert data["observation"] == "new"
    assert (data["content"], data["extras"]) == (HIDDEN, {HIDDEN: HIDDEN})


@pytest.mark.parametrize(
    "secret",
    [
        'quo"te-1',
        "back\\slash",
        "a\\\\b\\n1",
        "two\nlines",
        "tab\tbed",
        "päßwört",
        "k🔑k🔑k🔑",
        "a/b+c=",
    ],
)
def test_a_secret_is_hidden_however_json_writes_it(secret: str) -> None:
    once = json.dumps({"k": f"x{secret}y"})
    twice = json.dumps({"k": once}, ensure_ascii=False)
    for text in (f"x{secret}y", once, json.dumps(json.loads(once), ensure_ascii=False), twice):
        hidden = stored(CmdOutputObservation(content=text), secret)["content"]
        assert hidden == text.replace(_between(text), HIDDEN)
        data = stored(CmdRunAction("x", tool_call_metadata=responded(text)), secret)
        assert arguments(data).replace(" ", "") == hidden.replace(" ", "")


def _between(text: str) -> str:
    return text[text.index("x") + 1 : text.rindex("y")]


def test_any_letter_of_an_argument_may_be_an_escape() -> None:
    data = stored(CmdRunAction("x", tool_call_metadata=responded('{"k": "\\u0073k-12345"}')))
    assert json.loads(arguments(data)) == {"k": HIDDEN}


def test_an_escape_before_a_secret_stays_one() -> None:
    """The ``n`` of an escaped line break is no letter of the secret behind it."""
    data = stored(
        CmdRunAction("x", tool_call_metadata=responded('{"k": "a\\n12345", "s": "n12345"}')),
        "n12345",
    )
    assert json.loads(arguments(data)) == {"k": "a\n12345", "s": HIDDEN}


def test_arguments_that_are_no_json_are_text() -> None:
    data = stored(CmdRunAction("x", tool_call_metadata=responded(f'{{"k": "{KEY}", "cut')))
    assert arguments(data) == f'{{"k": "{HIDDEN}", "cut'
    data = stored(CmdRunAction("x", tool_call_metadata=responded({"k": KEY})))
    assert arguments(data) == {"k": HIDDEN}


def test_keys_that_were_secrets_stay_apart() -> None:
    event = MCPAction("t", {"secret-1": 1, "secret-2": 2})
    data = stored(event, "secret-1", "secret-2")
    assert data["args"]["arguments"] == {HIDDEN: 1, f"{HIDDEN}*": 2}


def test_thinking_that_held_a_secret_is_left_out() -> None:
    """A provider refuses signed thinking that was changed."""
    thinking = [{"type": "thinking", "thinking": f"The key is {KEY}.", "signature": "c2ln"}]
    data = stored(CmdRunAction("x", tool_call_metadata=responded("{}", thinking_blocks=thinking)))
    assert "thinking_blocks" not in said(data)
    thinking[0]["thinking"] = "Nothing."
    data = stored(
        CmdRunAction("x", tool_call_metadata=responded("{}", KEY, thinking_blocks=thinking))
    )
    assert (said(data)["thinking_blocks"], said(data)["content"]) == (thinking, HIDDEN)


def test_the_longest_secret_is_hidden_first() -> None:
    for secrets in (("abcdef", "abcdefghij"), ("abcdefghij", "abcdef"), ("cdefgh", "abcdefghij")):
        hidden = stored(CmdOutputObservation(content="-abcdefghij-"), *secrets)["content"]
        assert hidden == f"-{HIDDEN}-"
    data = stored(CmdOutputObservation(content="abcdef abcdefghij"), "abcdef", "abcdefghij")
    assert data["content"] == f"{HIDDEN} {HIDDEN}"


def test_hiding_a_secret_makes_no_other_one() -> None:
    hidden = stored(CmdOutputObservation(content="xx*****"), "x*****")["content"]
    assert "x*****" not in hidden


# What is not


def test_common_values_are_not_hidden_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    everyday = {"A": "true", "B": "1", "C": "", "D": " \n", "HOST": "Localhost", "MASK": HIDDEN}
    secrets = {**everyday, "KEY": KEY}
    with caplog.at_level(logging.WARNING):
        stream = EventStream("s", secrets=secrets)
    messages = [record.getMessage() for record in caplog.records]
    assert [message.split("'")[1] for message in messages] == ["A", "B", "HOST", "MASK"]
    assert not any(value in caplog.text for value in ("true", "Localhost", HIDDEN, KEY))
    event = stream.append(CmdOutputObservation(content='{"ok": true, "n": 11} at Localhost'))
    assert isinstance(event, CmdOutputObservation)
    assert event.content == '{"ok": true, "n": 11} at Localhost'


def test_values_without_names_are_named_by_their_place(caplog: pytest.LogCaptureFixture) -> None:
    EventStream("s", secrets=[KEY, "abc"])
    assert "the secret 'number 2' is not hidden" in caplog.text
    assert "abc" not in caplog.text


def test_ids_times_and_names_are_never_touched() -> None:
    day, call, tool = "20250101", "call_123456", "deploy_to_prod"
    names = ("command", "observation", "choices", "message", "arguments", "tool_calls")
    stream = EventStream(
        "s",
        secrets=[day, call, tool, "resp_1", "agent_", *names],
        clock=lambda: datetime(2025, 1, 1, tzinfo=UTC),
    )
    response = Response("resp_1", (Call(call, tool, "{}"),)).to_dict()
    metadata = ToolCallMetadata(tool, call, 1, ModelResponse.of(response))
    action = MCPAction(tool, {}, tool_call_metadata=metadata)
    assert stream.append(action) == action.replace(
        id=0, source="agent", timestamp=datetime(2025, 1, 1, tzinfo=UTC)
    )
    recorded = {
        "id": 1,
        "timestamp": f"{day}T100000",
        "source": "agent_",
        "cause": call,
        "observation": tool,
        "message": "",
        "extras": {},
    }
    data = event_to_dict(stream.append(event_from_dict(recorded)))
    assert data == {**recorded, "source": "environment"}
    run = stream.append(event_from_dict({"action": "run", "args": {"command": "ls"}}))
    assert event_to_dict(run)["args"] == {"command": "ls"}


def test_what_can_only_be_one_of_some_values_can_be_read_again(tmp_path: Path) -> None:
    try:

        @register_event("rehearse")
        class RehearseAction(Action):
            mode: Literal["rehearsal", "exact"]
            count: int = 0

        stream = EventStream("s", JsonlEventStore(tmp_path), secrets=["rehearsal", "123456"])
        stream.append(RehearseAction(mode="rehearsal", count=123456))
        assert [*EventStream("s", JsonlEventStore(tmp_path))] == [*stream]
    finally:
        ACTIONS.pop("rehearse", None)


def test_an_event_without_secrets_is_the_very_same() -> None:
    redaction = Redaction([KEY, 'quo"te-1', "päßwört"])
    metadata = responded('{"k": "v\\u00e9"}', "sk-1234 quo")
    for event in (
        CmdRunAction("sk-1234", llm_metrics={"a": [1.5, None]}, tool_call_metadata=metadata),
        CmdOutputObservation(content="12345 \ud800 pä"),
        event_from_dict({"action": "run", "odd": "quo", "args": {"command": "12345"}}),
        event_from_dict({"action": "new", "k": ["12345"]}),
    ):
        assert redaction.event(event) is event


def test_an_action_and_its_observation_share_the_response_still() -> None:
    stream = EventStream("s", secrets=[KEY])
    metadata = responded("{}", KEY)
    action = stream.append(CmdRunAction("ls", tool_call_metadata=metadata))
    raw = stream.append(CmdOutputObservation(tool_call_metadata=metadata))
    own = stream.append(CmdOutputObservation(tool_call_metadata=action.tool_call_metadata))
    responses = [
        event.tool_call_metadata and event.tool_call_metadata.model_response
        for event in (action, raw, own)
    ]
    assert responses[0] is responses[1] is responses[2]
    assert own.tool_call_metadata is action.tool_call_metadata


# Giving secrets


def test_secrets_may_come_late_and_earlier_events_stay() -> None:
    stream = EventStream("s")
    stream.append(MessageAction(KEY))
    stream.hide({"KEY": SecretStr(KEY)})
    stream.hide(value for value in ["another-1\n"])
    stream.hide({})
    seen: list[Event] = []
    stream.subscribe(seen.append)
    stream.extend([MessageAction(KEY), MessageAction("another-1")])
    contents = [event.content for event in stream if isinstance(event, MessageAction)]
    assert contents == [KEY, HIDDEN, HIDDEN]
    assert seen == [*stream][1:]


@pytest.mark.parametrize("secrets", [KEY, KEY.encode(), 7, {"KEY": 123456}, {"KEY": None}, [b"x"]])
def test_what_is_no_secret_is_refused_without_being_shown(secrets: Any) -> None:
    with pytest.raises(InvalidArgument) as raised:
        EventStream("s", secrets=secrets)
    assert not any(value in str(raised.value) for value in (KEY, "123456"))


def test_the_secrets_are_never_shown() -> None:
    stream = EventStream("s", secrets={"KEY": KEY})
    redaction = Redaction([KEY])
    shown = [repr(stream), str(stream), repr(vars(stream)), repr(redaction), f"{redaction}"]
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        copying: Callable[[Any], Any] = copied
        with pytest.raises(TypeError, match="not copied or pickled") as raised:
            copying(redaction)
        shown += traceback.format_exception(raised.value)
    with pytest.raises(InvalidArgument) as refused:
        stream.append(MessageAction(KEY).replace(id=7))
    shown += traceback.TracebackException.from_exception(
        refused.value, capture_locals=False
    ).format()
    assert not any(KEY in text for text in shown)


# The law


_ODD = st.text(st.sampled_from("\"\\/\n\t\x01ä🔑'<n") | st.characters(codec="utf-8"), max_size=5)
SECRETS = st.builds("{}Zq7{}Xw9{}".format, _ODD, _ODD, _ODD).map(str.strip)


def planted(value: Any, secret: str, places: Iterator[bool]) -> Any:
    """JSON data with the secret in some of its text, keys included."""
    if isinstance(value, str):
        return f"{value}{secret}." if next(places) else value
    if isinstance(value, list):
        return [planted(item, secret, places) for item in value]
    if isinstance(value, dict):
        return {
            planted(key, secret, places): planted(item, secret, places)
            for key, item in value.items()
        }
    return value


def planted_in(event: Event, secret: str, places: Iterator[bool]) -> Event:
    """The event with the secret in some places in which an agent, a model or a tool may put it."""
    changes: dict[str, Any] = {}
    for name in ("content", "command", "thought", "summary", "arguments", "outputs", "llm_metrics"):
        if isinstance(value := getattr(event, name, None), str | dict):
            changes[name] = planted(value, secret, places)
    if isinstance(event, UnknownEvent):
        del changes["content"]
        tags = ("action", "observation")
        changes["data"] = {
            key: value if key in tags else planted(value, secret, places)
            for key, value in event.data.items()
        }
    metadata = event.tool_call_metadata
    if metadata is not None and metadata.model_response is not None:
        data = metadata.model_response.to_dict()
        _plant_in_response(data, secret, places)
        changes["tool_call_metadata"] = ToolCallMetadata(
            metadata.function_name,
            metadata.tool_call_id,
            metadata.total_calls_in_response,
            ModelResponse.of(data),
        )
    return event.replace(**changes) if changes else event


def _plant_in_response(data: dict[str, Any], secret: str, places: Iterator[bool]) -> None:
    for choice in data.get("choices") or []:
        message = choice["message"]
        message["content"] = planted(message["content"], secret, places)
        for call in message.get("tool_calls") or []:
            if not isinstance(call, dict) or not isinstance(call.get("function"), dict):
                continue
            function = call["function"]
            try:
                found = json.loads(function["arguments"])
                changed = planted(found, secret, places)
                function["arguments"] = json.dumps(changed, ensure_ascii=next(places))
            except (TypeError, ValueError, RecursionError):
                function["arguments"] = planted(function["arguments"], secret, places)


def all_text(value: Any) -> Iterator[str]:
    """All text in JSON data, and in the JSON within it."""
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            yield value
            with contextlib.suppress(ValueError, RecursionError):
                inner = json.loads(value, strict=False)
                rest += [] if isinstance(inner, int | float) else [inner]
        elif isinstance(value, list):
            rest += value
        elif isinstance(value, dict):
            rest += [*value, *value.values()]


def identity(event: Event) -> object:
    metadata = event.tool_call_metadata
    calls: Sequence[ToolCall] = ()
    if metadata is not None and metadata.model_response is not None:
        calls = metadata.model_response.message().tool_calls
    return (
        event.kind,
        event.id,
        event.cause,
        event.source,
        event.timestamp,
        metadata and (metadata.tool_call_id, metadata.function_name, metadata.response_id),
        [(call.id, call.name) for call in calls],
    )


def _writings(text: str, times: int) -> set[str]:
    """A text as it is, and as JSON writes it, so many times over."""
    found = {text}
    for _ in range(times):
        for one in tuple(found):
            found |= {json.dumps(one)[1:-1], json.dumps(one, ensure_ascii=False)[1:-1]}
    return found


@given(event_logs(max_size=15), SECRETS, st.lists(st.booleans(), max_size=60), st.booleans())
@example([], "Zq7\\Xw9", [], False)
def test_no_planted_secret_reaches_the_file_and_nothing_else_changes(
    events: list[Event], secret: str, plan: list[bool], recorded: bool
) -> None:
    places = chain(plan, cycle((True, False, False)))
    given_events = [planted_in(event, secret, places) for event in events]
    if recorded:
        given_events = [event_from_dict(event_to_dict(event)) for event in given_events]
    plain = EventStream("s").extend(given_events)
    with tempfile.TemporaryDirectory() as folder:
        store = JsonlEventStore(folder, sync=False)
        kept = EventStream("s", store, secrets={"KEY": secret}).extend(given_events)
        path = store.path("s")
        written = path.read_bytes() if path.exists() else b""
    lines = written.decode().splitlines()
    assert [event_from_dict(json.loads(line)) for line in lines[1:]] == kept
    for writing in _writings(secret, 3):
        assert writing.encode("utf-8") not in written
    for line in lines:
        assert not any(secret in text for text in all_text(json.loads(line)))
    assert [*map(identity, kept)] == [*map(identity, plain)]
    redaction = Redaction([secret])
    for event, clean in zip(plain, kept, strict=True):
        if not any("Zq7" in text for text in all_text(event_to_dict(event))):
            assert clean == event
            assert redaction.event(event) is event
        assert redaction.event(clean) is clean


@given(wire_events(), SECRETS, st.lists(st.booleans(), max_size=30))
def test_recorded_events_without_secrets_stay_to_the_letter(
    data: dict[str, Any], secret: str, plan: list[bool]
) -> None:
    event = event_from_dict(data)
    assert Redaction([secret]).event(event) is event
    places = chain(plan, cycle((True, False)))
    for key in ("args", "extras", "content"):
        if not isinstance(event, UnknownEvent):
            break
        if key in data:
            data[key] = planted(data[key], secret, places)
    clean = event_to_dict(Redaction([secret]).event(event_from_dict(data)))
    assert not any(secret in text for text in all_text(clean))
    assert list(clean) == list(data)


@given(st.text('\\"n\n', max_size=12).map(lambda odd: f"a{odd}b1234"), st.text('\\"n\nab1234'))
def test_long_rows_of_backslashes_are_no_trouble(secret: str, text: str) -> None:
    redaction = Redaction([secret])
    once = json.dumps(f"{text}{secret}{text}")
    assert secret not in json.loads(redaction.text(once), strict=False)


def test_a_long_row_of_backslashes_is_looked_at_once() -> None:
    """Else each of them would be a place to begin at, with all the others behind it."""
    row = "\\" * 200_000
    assert Redaction(['\\"abc1', '"abc12', "é\\\\abc"]).text(row) == row


# The loop


def test_a_loop_goes_on_with_hidden_secrets(tmp_path: Path) -> None:
    stream = EventStream("s", JsonlEventStore(tmp_path), secrets={"KEY": KEY, "ODD": 'od"d\\1'})
    stream.append(MessageAction(f"Log in with {KEY}."), "user")
    context = AgentContext(stream, NoOpCondenser())
    assert context.messages()[-1]["content"] == f"Log in with {HIDDEN}."
    told = json.dumps({"command": f'login {KEY} od"d\\1'})
    (action,) = context.record(
        Reply(f"I use {KEY}.", (ToolCall("call_1", "bash", told),), raw=None)
    )
    assert isinstance(action, CmdRunAction)
    assert action.command == f"login {HIDDEN} {HIDDEN}"  # the tool knows the key from elsewhere
    assert action is stream[1]
    context.observe(f"welcome {KEY}", action)
    messages = context.messages()
    assert check_messages(messages) == []
    assert messages[1]["content"] == f"I use {HIDDEN}."
    (call,) = messages[1]["tool_calls"]
    assert call["id"] == "call_1"
    assert json.loads(call["function"]["arguments"]) == {"command": f"login {HIDDEN} {HIDDEN}"}
    assert messages[2]["content"] == f"welcome {HIDDEN}"
    assert KEY.encode() not in JsonlEventStore(tmp_path).path("s").read_bytes()
    again = AgentContext(EventStream("s", JsonlEventStore(tmp_path)), NoOpCondenser())
    assert again.messages() == messages


def test_a_call_that_cannot_be_carried_out_is_answered_without_the_secret() -> None:
    stream = EventStream("s", secrets=[KEY])
    stream.append(MessageAction("Go."), "user")
    context = AgentContext(stream, NoOpCondenser())
    context.messages()
    assert context.record(Reply("", (ToolCall("call_1", "bash", f'["{KEY}"]'),))) == []
    messages = context.messages()
    assert check_messages(messages) == []
    assert KEY not in json.dumps([*map(event_to_dict, stream)])
    assert Message.sha256(context.prepare())
