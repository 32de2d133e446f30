"""What each kind of OpenHands V1 event becomes: actions, observations, and LLM responses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..actions import MessageAction, SystemMessageAction, tool_action
from ..event import Action, Event, EventSource, Observation
from ..observations import (
    BrowserOutputObservation,
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
)
from .tool_results import arguments_in, tool_result

__all__ = ["action_of", "call_id_of", "message_of", "observation_of", "response_of", "system_of"]

Json = dict[str, Any]


def system_of(value: Json) -> SystemMessageAction | None:
    """A system prompt, or a new one that takes its place; None if it has no text."""
    parts = [_parts(value.get(key))[0] for key in ("system_prompt", "dynamic_context")]
    if not any(parts):
        return None
    return SystemMessageAction(
        content="\n\n".join(part for part in parts if part), tools=value.get("tools")
    )


def message_of(value: Json) -> Action | None:
    """A message of the user, the agent or the environment; None if it is in another form."""
    message = value.get("llm_message")
    if not isinstance(message, dict):
        return None
    text, images = _parts(message.get("content"))
    more, more_images = _parts(value.get("extended_content"))
    text = "\n".join(part for part in (text, more) if part)
    role = message.get("role")
    if role == "system":
        return SystemMessageAction(content=text)
    by_user = value.get("source") == "user"
    sources = {
        "assistant": EventSource.AGENT,
        "user": EventSource.USER if by_user else EventSource.ENVIRONMENT,
    }
    if role not in sources:
        return None
    urls = [*images, *more_images]
    return MessageAction(content=text, image_urls=urls or None, source=sources[role])


# Calls


def call_id_of(value: Json) -> str | None:
    """The id of the call that an event makes or answers."""
    call = value.get("tool_call")
    for found in (value.get("tool_call_id"), call.get("id") if isinstance(call, dict) else None):
        if isinstance(found, str) and found:
            return found
    return None


def action_of(value: Json) -> Action:
    """The action of an ``ActionEvent``; of one that was not carried out (``action: null``), too."""
    call = _call_of(value)
    recorded = value.get("action")
    fields = (
        {k: v for k, v in recorded.items() if k != "kind"} if isinstance(recorded, dict) else {}
    )
    asked = arguments_in(call["arguments"])
    name, thought = call["name"], _parts(value.get("thought"))[0]
    action = tool_action(name, fields or asked or {}, thought)
    if type(action).kind in ("browse_interactive", "call_tool_mcp") and asked is not None:
        action = tool_action(name, asked, thought)  # in the model's own words
    return action


def response_of(values: Sequence[Json]) -> Json:
    """The LLM response behind the ``ActionEvent``\\ s that share it, as a chat completion."""
    thoughts = (_parts(value.get("thought"))[0] for value in values)
    message: Json = {
        "role": "assistant",
        "content": next((text for text in thoughts if text.strip()), None),
        "tool_calls": [_chat_call(value) for value in values],
    }
    for key in ("thinking_blocks", "reasoning_content"):
        found = next((value[key] for value in values if value.get(key)), None)
        if found is not None:
            message[key] = found
    item = next((v for v in (x.get("responses_reasoning_item") for x in values) if v), None)
    if isinstance(item, dict):
        message["reasoning_items"] = [_reasoning_item(item)]
    return {"id": values[0].get("llm_response_id"), "choices": [{"message": message}]}


def _call_of(value: Json) -> Json:
    """Name and arguments of a call, which two shapes of ``tool_call`` hold in different places."""
    call = value.get("tool_call")
    call = call if isinstance(call, dict) else {}
    function = call.get("function")
    holder = function if isinstance(function, dict) else call
    name = value.get("tool_name") or holder.get("name")
    arguments = holder.get("arguments")
    if arguments is None:
        action = value.get("action")
        given = action if isinstance(action, dict) else {}
        arguments = json.dumps({k: v for k, v in given.items() if k != "kind"})
    return {"name": name if isinstance(name, str) else "", "arguments": arguments}


def _chat_call(value: Json) -> Json:
    made = {"id": call_id_of(value) or "", "type": "function", "function": _call_of(value)}
    call = value.get("tool_call")
    if isinstance(call, dict) and call.get("provider_specific_fields"):
        made["provider_specific_fields"] = call["provider_specific_fields"]
    return made


def _reasoning_item(item: Json) -> Json:
    """The item as OpenAI's Responses API has it; V1 keeps its texts without their types."""
    made = {"type": "reasoning", **{key: item[key] for key in item if item[key] is not None}}
    for key, kind in (("summary", "summary_text"), ("content", "reasoning_text")):
        if isinstance(texts := made.get(key), list):
            made[key] = [{"type": kind, "text": t} if isinstance(t, str) else t for t in texts]
    return made


# Results


def observation_of(value: Json, action: Event | None) -> Observation:
    """What came back, as the model saw it, for ``action`` if that is known."""
    found = value.get("observation")
    seen = found if isinstance(found, dict) else {}
    name = value.get("tool_name")
    name = name if isinstance(name, str) else ""
    text, images = _parts(seen.get("content"))
    text = text or next(
        (seen[k] for k in ("output", "message") if isinstance(seen.get(k), str)), ""
    )
    if isinstance(screenshot := seen.get("screenshot_data"), str) and screenshot:
        images.append(f"data:image/png;base64,{screenshot}")
    if action is None:  # the log has only the result: what it says of its call will do
        known = {key: seen[key] for key in ("command", "path", "task_list") if seen.get(key)}
        action = tool_action(name, known)
    result = tool_result(action, name, text, images)
    error = seen.get("error")
    if isinstance(result, CmdOutputObservation):
        return _command_output(result, seen)
    if isinstance(result, BrowserOutputObservation):
        if error or seen.get("is_error"):
            said = error if isinstance(error, str) else text or "the browser reported an error"
            return result.replace(error=True, last_browser_action_error=said)
        return result
    if isinstance(error, str) and error:
        return ErrorObservation(error if text in ("", error) else f"{error}\n{text}")
    if error is True or seen.get("is_error") is True:
        return ErrorObservation(text)
    if isinstance(result, FileEditObservation):
        copies = {key: seen.get(key) for key in ("old_content", "new_content")}
        copies = {key: copy if isinstance(copy, str) else None for key, copy in copies.items()}
        return result.replace(prev_exist=seen.get("prev_exist") is True, **copies)
    return result


def _command_output(result: CmdOutputObservation, seen: Json) -> CmdOutputObservation:
    """With its exit code; while there is none, what the tool said around the output counts."""
    found = seen.get("metadata")
    metadata = found if isinstance(found, dict) else {}
    code = metadata.get("exit_code")
    if type(code) is not int:
        code = seen.get("exit_code")
    code = code if type(code) is int else None
    content = result.content
    if code is None or code == -1:
        around = [metadata.get("prefix"), content, metadata.get("suffix")]
        content = "".join(part for part in around if isinstance(part, str))
    return CmdOutputObservation(content, command=result.command, metadata=metadata, exit_code=code)


def _parts(content: Any) -> tuple[str, list[str]]:
    """The text and the images of a content: text, a part, or a list of parts."""
    if isinstance(content, str):
        return content, []
    texts: list[str] = []
    images: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        if not isinstance(part, dict):
            continue
        if isinstance(text := part.get("text"), str):
            texts.append(text)
        urls = part.get("image_urls")
        images += [url for url in (urls if isinstance(urls, list) else []) if isinstance(url, str)]
    return "\n".join(texts), images
