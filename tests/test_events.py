"""Events: immutable, compared by what they say, checked when made; tool calls and LLM responses."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ValidationError

from eventfold.events import (
    Action,
    AgentFinishAction,
    BrowserOutputObservation,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    ErrorObservation,
    Event,
    EventSource,
    FileReadAction,
    MCPAction,
    MessageAction,
    ModelResponse,
    Observation,
    SystemMessageAction,
    ToolCall,
    ToolCallMetadata,
    UnknownEvent,
    event_from_dict,
    event_to_dict,
    register_event,
)
from eventfold.events.event import ACTIONS, OBSERVATIONS, InvalidArgument, Text, field_names
from tests.logs import (
    A,
    Call,
    LintAction,
    LintObservation,
    O,
    Response,
    S,
    U,
    batch,
    event_logs,
    json_objects,
    log,
)

# Immutability


@given(event_logs(max_size=10))
def test_no_field_of_an_event_can_be_set_or_deleted(events: list[Event]) -> None:
    for event in events:
        for name in field_names(type(event)):
            with pytest.raises(FrozenInstanceError):
                setattr(event, name, None)
            with pytest.raises(FrozenInstanceError):
                delattr(event, name)
        with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
            event.something_new = 1  # type: ignore[attr-defined]


def test_the_callers_containers_are_not_the_events() -> None:
    arguments: dict[str, Any] = {"deep": [{"a": 1}]}
    images, ids = ["http://a/b.png"], [1, 2]
    metrics: dict[str, Any] = {"cost": [0.5]}
    tools: list[Any] = [{"name": "t"}]
    events = (
        MCPAction(name="t", arguments=arguments, llm_metrics=metrics),
        MessageAction(content="c", image_urls=images),
        CondensationAction(forgotten_event_ids=ids),
        SystemMessageAction(content="s", tools=tools),
        CmdOutputObservation(metadata=arguments),
        UnknownEvent(name="x", data=arguments),
    )
    before = [event_to_dict(event) for event in events]
    arguments["deep"][0]["a"] = 2
    arguments["new"] = metrics["new"] = tools[0]["new"] = [1]
    images.append("http://c/d.png")
    ids.clear()
    assert [event_to_dict(event) for event in events] == before


def test_the_callers_response_is_not_the_events() -> None:
    response: dict[str, Any] = {"id": "r1", "choices": [{"message": {"content": "before"}}]}
    metadata = ToolCallMetadata("tool", "a", 1, response)  # type: ignore[arg-type]
    response["choices"][0]["message"]["content"] = "after"
    assert metadata.model_response is not None
    assert metadata.model_response.message().text == "before"
    metadata.model_response.to_dict()["choices"].clear()
    assert metadata.model_response.message().text == "before"


def test_tuples_and_other_keys_become_json() -> None:
    arguments: dict[Any, Any] = {"pair": (1, 2), 3: "three"}
    action = MCPAction(name="t", arguments=arguments)
    assert action.arguments == {"pair": [1, 2], "3": "three"}


# Equality, hash, copies


@given(event_logs(max_size=10))
def test_events_that_say_the_same_are_equal_and_hash_alike(events: list[Event]) -> None:
    for event in events:
        twin = event.replace()
        assert twin is not event
        assert twin == event
        assert hash(twin) == hash(event)
        assert event != event.replace(hidden=not event.hidden)
        assert event != event.replace(id=event.id + 1)


def test_how_an_event_was_written_does_not_count() -> None:
    recorded = {"action": "run", "args": {"command": "ls"}, "message": "Running", "odd": 1}
    assert event_from_dict(recorded) == CmdRunAction(command="ls")
    assert hash(event_from_dict(recorded)) == hash(CmdRunAction(command="ls"))


def test_kinds_are_never_equal_to_each_other() -> None:
    assert ErrorObservation(content="a") != Observation(content="a")
    assert LintAction(path="a") != FileReadAction(path="a")
    assert CmdRunAction(command="ls") != "ls"


@given(event_logs(max_size=10), st.integers(0, 99))
def test_replace_changes_what_it_names_and_nothing_else(events: list[Event], number: int) -> None:
    for event in events:
        before = event_to_dict(event)
        changed = event.replace(cause=number, llm_metrics={"n": number})
        assert type(changed) is type(event)
        assert (changed.cause, changed.llm_metrics) == (number, {"n": number})
        for name in field_names(type(event)):
            if name not in ("cause", "llm_metrics", "wire"):
                assert getattr(changed, name) is getattr(event, name)
        assert event_to_dict(event) == before


@given(event_logs(max_size=6))
def test_copies_and_pickles_are_equal(events: list[Event]) -> None:
    for event in events:
        assert copy.copy(event) == event
        assert copy.deepcopy(event) == event
        assert pickle.loads(pickle.dumps(event)) == event


def test_a_repr_says_what_differs_from_the_defaults() -> None:
    assert repr(CmdRunAction(command="ls", id=3)) == "CmdRunAction(id=3, command='ls')"
    said = repr(event_from_dict({"action": "run", "args": {"command": "ls"}, "odd": 1}))
    assert said == "CmdRunAction(command='ls')"


# Validation


@pytest.mark.parametrize(
    ("cls", "fields"),
    [
        (CmdRunAction, {}),
        (CmdRunAction, {"command": b"ls"}),
        (CmdRunAction, {"command": None}),
        (CmdRunAction, {"command": "ls", "id": "1"}),
        (CmdRunAction, {"command": "ls", "source": "nobody"}),
        (CmdRunAction, {"command": "ls", "hidden": 1}),
        (CmdRunAction, {"command": "ls", "cause": 1.0}),
        (CmdRunAction, {"command": "ls", "timestamp": "yesterday"}),
        (CmdRunAction, {"command": "ls", "llm_metrics": [1]}),
        (CmdRunAction, {"command": "ls", "tool_call_metadata": "a"}),
        (CmdRunAction, {"command": "ls", "wire": {}}),
        (MessageAction, {"content": "c", "image_urls": [1]}),
        (MessageAction, {"content": "c", "image_urls": "http://a/b.png"}),
        (MCPAction, {"name": "t", "arguments": "{}"}),
        (MCPAction, {"name": "t", "arguments": {"a": {1, 2}}}),
        (MCPAction, {"name": "t", "arguments": {"a": b"bytes"}}),
        (FileReadAction, {"path": "a", "view_range": ["1"]}),
        (BrowserOutputObservation, {"goal_image_urls": object()}),
    ],
)
def test_a_wrong_field_is_refused(cls: type[Event], fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        cls(**fields)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises((ValidationError, TypeError), match="no_such_field"):
        CmdRunAction(command="ls", no_such_field=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"forgotten_event_ids": [1], "forgotten_events_start_id": 1},
        {
            "forgotten_event_ids": [1],
            "forgotten_events_start_id": 1,
            "forgotten_events_end_id": 1,
        },
        {"forgotten_events_start_id": 1},
        {"forgotten_events_end_id": 1},
        {"forgotten_event_ids": [1], "summary": "s"},
        {"forgotten_event_ids": [1], "summary_offset": 1},
    ],
)
def test_half_a_condensation_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"condensation names|come together"):
        CondensationAction(**fields)


def test_an_empty_summary_is_a_summary() -> None:
    action = CondensationAction(forgotten_event_ids=[], summary="", summary_offset=0)
    assert ([*action.forgotten], action.summary) == ([], "")


def test_text_with_lone_surrogates_can_be_held() -> None:
    assert CmdRunAction(command="\udc80").command == "\udc80"
    assert ToolCallMetadata("\udc80", "\ud800").tool_call_id == "\ud800"


def test_an_exit_code_is_found_in_both_places() -> None:
    given_code = CmdOutputObservation(exit_code=3)
    in_metadata = CmdOutputObservation(metadata={"exit_code": 3})
    assert given_code == in_metadata
    assert (given_code.exit_code, given_code.metadata) == (3, {"exit_code": 3})
    assert CmdOutputObservation().exit_code is None
    assert CmdOutputObservation(metadata={"exit_code": "3"}).exit_code is None


# Kinds of our own


def test_a_registered_kind_has_its_tag_and_its_text() -> None:
    assert (LintAction.kind, LintAction.payload_fields) == ("lint", ("path", "thought"))
    assert LintAction(path="a.py").llm_text() == "Linting a.py"
    assert LintObservation(content="E501", findings=1).llm_text() == "1 findings. E501"
    assert LintObservation.payload_fields == ("findings",)


def test_a_kind_without_llm_text_leaves_it_to_the_default() -> None:
    assert CmdRunAction(command="ls").llm_text() is None


def test_a_taken_tag_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="'run' is taken by CmdRunAction"):

        @register_event("run")
        class Again(Action):
            pass

    assert ACTIONS["run"] is CmdRunAction


def test_an_action_and_an_observation_may_share_a_tag() -> None:
    assert ACTIONS["lint"] is LintAction
    assert OBSERVATIONS["lint"] is LintObservation


def test_only_actions_and_observations_are_registered() -> None:
    with pytest.raises(InvalidArgument, match="must derive from Action or Observation"):

        @register_event("neither")
        class Neither(Event):
            pass

    assert "neither" not in {**ACTIONS, **OBSERVATIONS}


def test_a_registered_kind_is_as_strict_and_as_frozen_as_ours() -> None:
    with pytest.raises(ValidationError):
        LintObservation(findings="2")  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        LintAction()  # type: ignore[call-arg]
    action = LintAction(path="a.py")
    with pytest.raises(FrozenInstanceError):
        action.path = "b.py"  # type: ignore[misc]


def test_a_kind_may_be_registered_inside_a_function() -> None:
    @register_event("test_only_deploy")
    class DeployAction(Action):
        target: Text
        replicas: int | None = 3

    try:
        event = DeployAction(target="prod", replicas=None)
        assert event_from_dict(event_to_dict(event)) == event
        assert event_to_dict(event)["args"] == {"target": "prod", "replicas": None}
    finally:
        del ACTIONS["test_only_deploy"]


@pytest.mark.parametrize("name", ["event_from_dict", "EventStream", "EventFilter"])
def test_all_kinds_are_known_whatever_is_imported_first(name: str) -> None:
    program = (
        f"from eventfold.events import {name}, event_from_dict\n"
        "for data in ({'action': 'message', 'args': {'content': ''}}, {'observation': 'run'},\n"
        "             {'action': 'condensation_request', 'args': {}}):\n"
        "    print(type(event_from_dict(data)).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    found = done.stdout.split()
    assert found == ["MessageAction", "CmdOutputObservation", "CondensationRequestAction"]


# LLM responses


RESPONSE = Response(
    "r1",
    (Call("a", arguments='{"command": "ls"}'), Call("b", "think", '{"thought": "h\nm"}')),
    "Let me look.",
    {
        "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "sig"}],
        "reasoning_items": [{"id": "rs_1", "encrypted_content": "e"}],
        "reasoning_content": "Hm.",
        "provider_specific_fields": {"citations": None},
        "refusal": None,
    },
).to_dict()


class ClientResponse(BaseModel):
    """Stands for the response objects of litellm and of OpenAI's client."""

    id: str
    choices: list[dict[str, Any]]


def test_a_response_is_taken_as_dict_bytes_or_client_object() -> None:
    as_dict = ModelResponse.of({"id": "r1", "choices": RESPONSE["choices"]})
    as_bytes = ModelResponse.of(json.dumps(as_dict.to_dict()).encode())
    as_object = ModelResponse.of(ClientResponse(id="r1", choices=RESPONSE["choices"]))
    for response in (as_dict, as_bytes, as_object, ModelResponse.of(as_dict)):
        assert response.id == "r1"
        assert response.to_dict() == as_dict.to_dict()
        assert response.message() == as_dict.message()
    assert as_dict == as_object
    assert hash(as_dict) == hash(as_object)


@given(json_objects())
def test_a_response_is_given_back_as_it_was_recorded(response: dict[str, Any]) -> None:
    kept = ModelResponse.of(response)
    assert json.dumps(kept.to_dict()) == json.dumps(response)
    assert kept.message() is not None


def test_what_is_said_back_to_the_model_is_kept() -> None:
    turn = ModelResponse.of(RESPONSE).message()
    assert turn.text == "Let me look."
    assert turn.tool_calls == (
        ToolCall("a", "execute_bash", '{"command": "ls"}'),
        ToolCall("b", "think", '{"thought": "h\nm"}'),
    )
    assert turn.thinking == {
        "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "sig"}],
        "reasoning_items": [{"id": "rs_1", "encrypted_content": "e"}],
        "reasoning_content": "Hm.",
    }
    assert turn.provider_fields == {"provider_specific_fields": {"citations": None}}


def test_fields_of_a_call_are_kept() -> None:
    signed = {"provider_specific_fields": {"thought_signature": "s"}}
    response = Response("r1", (Call("a", fields=signed),)).to_dict()
    (call,) = ModelResponse.of(response).message().tool_calls
    assert call.provider_fields == {"thought_signature": "s"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({"a": 1}, '{"a": 1}'), (None, "{}"), ([1], "[1]"), ("{broken", "{broken"), ("", "")],
)
def test_arguments_are_the_models_own_text(arguments: object, text: str) -> None:
    response = Response("r1", (Call("a", arguments=arguments),)).to_dict()
    (call,) = ModelResponse.of(response).message().tool_calls
    assert call.arguments == text


def test_content_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, "odd", {"text": "b"}]
    response = {"choices": [{"message": {"content": parts}}]}
    assert ModelResponse.of(response).message().text == "a\nodd\nb"


@pytest.mark.parametrize(
    "response",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": ["odd"]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": 7, "tool_calls": "odd"}}]},
        {"choices": [{"message": {"tool_calls": [None, {"function": "odd"}, {}]}}]},
    ],
)
def test_an_odd_response_has_nothing_to_say(response: dict[str, Any]) -> None:
    turn = ModelResponse.of(response).message()
    assert (turn.text, turn.tool_calls, turn.thinking) == ("", (), {})


@pytest.mark.parametrize("found", [None, "", 7, ["r1"]])
def test_a_response_without_a_usable_id_has_none(found: object) -> None:
    assert ModelResponse.of({"id": found}).id is None
    assert ToolCallMetadata("tool", "a", 1, ModelResponse.of({"id": found})).response_id is None
    assert ToolCallMetadata("tool", "a").response_id is None


@pytest.mark.parametrize("response", [[], "text", 7, b"[]", b"no json", {"a": object()}])
def test_what_is_no_response_is_refused(response: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        ModelResponse.of(response)
    with pytest.raises(ValidationError):
        ToolCallMetadata("tool", "a", 1, response)


def test_an_action_and_its_observation_share_one_response() -> None:
    events = log(S(), U(), *batch("r1", "a", "b"), O("a"), O("b"))
    dicts = [json.loads(json.dumps(event_to_dict(event))) for event in events[2:]]
    responses = [event_from_dict(data).tool_call_metadata for data in dicts]
    assert responses[0] is not None
    for metadata in responses:
        assert metadata is not None
        assert metadata.model_response is responses[0].model_response
        assert metadata.response_id == "r1"
        assert metadata.total_calls_in_response == 2


# The notation of the tests themselves


def test_the_notation_makes_the_log_that_it_says() -> None:
    events = log(S(), U("do"), A("r1", "a", thought="t"), A("r1", "b"), U("wait"), O("b"), O("a"))
    assert [event.id for event in events] == [*range(7)]
    assert [event.source for event in events[:3]] == ["agent", "user", "agent"]
    assert [event.cause for event in events] == [None, None, None, None, None, 3, 2]
    metadata = [event.tool_call_metadata for event in events]
    assert metadata[5] == metadata[3]
    assert metadata[2] is not None
    assert metadata[2].total_calls_in_response == 2
    assert metadata[2].model_response is not None
    turn = metadata[2].model_response.message()
    assert (turn.text, [call.id for call in turn.tool_calls]) == ("t", ["a", "b"])


def test_the_notation_takes_any_action() -> None:
    finish = AgentFinishAction(final_thought="Done.")
    (event,) = log(A("r1", "a", action=finish))
    assert isinstance(event, AgentFinishAction)
    assert event.tool_call_metadata is not None
    assert event.tool_call_metadata.function_name == "finish"
    assert event.source is EventSource.AGENT


def test_the_halves_of_a_character_in_a_response_are_the_character() -> None:
    apart = {"id": "r", "choices": [{"message": {"content": "\ud83d\ude42"}}]}
    response = ModelResponse.of(apart)
    assert response.message().text == "\U0001f642"
    assert ModelResponse.of(response.to_dict()) == response
    lone = ModelResponse.of({"choices": [{"message": {"content": "\ud83d"}}]})
    assert lone.message().text == "\ud83d"
    assert ModelResponse.of(lone.to_dict()) == lone
