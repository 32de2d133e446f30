"""From what an LLM answered, and what its tools gave back, to events."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ..events.actions import MCPAction, MessageAction, tool_action
from ..events.event import Action, Event, InvalidArgument, Observation
from ..events.formats.tool_results import arguments_in, tool_result
from ..events.observations import ErrorObservation
from ..events.tool_calls import ModelResponse, ToolCall, ToolCallMetadata
from ..memory.message import Reply

__all__ = ["Recorded", "actions_in", "as_response", "observation_of"]

_CUT_OFF = ("length", "max_tokens")


def as_response(response: Any, number: int) -> ModelResponse:
    """An LLM's answer as it is kept: a :class:`Reply`, the response object of litellm or OpenAI, or
    such a response as a dict. ``number`` makes the id of a reply that has none.

    Raises :class:`InvalidArgument` for anything else.
    """
    if isinstance(response, Reply):
        response = response.raw if response.raw is not None else _as_dict(response, number)
    try:
        kept = ModelResponse.of(response)
    except ValueError as error:
        raise InvalidArgument(f"{_WANTED}; found {type(response).__name__}: {error}") from error
    message = _first_choice(kept).get("message")
    if not isinstance(message, dict):
        raise InvalidArgument(f"{_WANTED}; found an object with {_keys(kept.to_dict())}")
    if (asked := [key for key in _CALLS if message.get(key)]) and not kept.message().tool_calls:
        raise InvalidArgument(
            f"a response's calls are function calls under tool_calls; found {', '.join(asked)} of "
            f"another form: {json.dumps(message[asked[0]])[:200]}"
        )
    return kept


_WANTED = (
    "record() takes a Reply, or a chat completion of litellm or OpenAI (the whole response with "
    "its choices, as object or dict, not its message)"
)
_CALLS = ("tool_calls", "function_call")


def _keys(data: dict[str, Any]) -> str:
    return f"the keys {', '.join(map(str, data))}" if data else "no keys"


def _as_dict(reply: Reply, number: int) -> dict[str, Any]:
    """A reply in the shape of a chat completion."""
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
            **(
                {"provider_specific_fields": dict(call.provider_fields)}
                if call.provider_fields
                else {}
            ),
        }
        for call in reply.tool_calls
    ]
    message = {"role": "assistant", "content": reply.text or None, **reply.thinking}
    result: dict[str, Any] = {
        "id": f"reply-{number}",
        "choices": [
            {
                "index": 0,
                "finish_reason": reply.finish_reason,
                "message": {**message, "tool_calls": calls} if calls else message,
            }
        ],
    }
    if reply.usage is not None:
        result["usage"] = {
            "prompt_tokens": reply.usage.input_tokens,
            "completion_tokens": reply.usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": reply.usage.cache_read_tokens},
            "cache_creation_input_tokens": reply.usage.cache_write_tokens,
        }
    return result


@dataclass(frozen=True, slots=True)
class Recorded:
    """An action that a response asks for. ``problem`` says why it cannot be carried out."""

    action: Action
    problem: str | None = None


def actions_in(response: ModelResponse, tools: Collection[str]) -> list[Recorded]:
    """What a response asks for: one action for each tool call, or what it says.

    ``tools`` are the names of those that there are; none: it is not known. A call of another one,
    or with arguments that are no JSON object, has a problem. A response that says nothing is an
    empty message.
    """
    said = response.message()
    choice = _first_choice(response)
    if not said.tool_calls:
        message = choice.get("message")
        refusal = message.get("refusal") if isinstance(message, dict) else None
        text = said.text or (refusal if isinstance(refusal, str) else "")
        return [Recorded(MessageAction(text, wait_for_response=True))]
    cut_off = choice.get("finish_reason") in _CUT_OFF
    found = []
    for place, call in enumerate(said.tool_calls):
        metadata = ToolCallMetadata(call.name, call.id, len(said.tool_calls), response)
        thought = said.text if place == 0 else ""
        arguments = arguments_in(call.arguments if call.arguments.strip() else "{}")
        problem = _problem(call, arguments, tools, cut_off=cut_off)
        if problem is None:
            action = tool_action(call.name, arguments or {}, thought)
        else:
            action = MCPAction(name=call.name, arguments=arguments or {}, thought=thought)
        found.append(Recorded(action.replace(tool_call_metadata=metadata), problem))
    return found


def _first_choice(response: ModelResponse) -> dict[str, Any]:
    choices = response.to_dict().get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def _problem(
    call: ToolCall, arguments: dict[str, Any] | None, tools: Collection[str], *, cut_off: bool
) -> str | None:
    if tools and call.name not in tools:
        return f"There is no tool {call.name!r}. The tools are: {', '.join(sorted(tools))}."
    if arguments is None:
        why = "the answer was cut off at its token limit" if cut_off else _json_error(call)
        return f"The arguments of this call are no JSON object: {why}. Nothing was done."
    return None


def _json_error(call: ToolCall) -> str:
    try:
        found = json.loads(call.arguments, strict=False)
    except (ValueError, RecursionError) as error:
        return str(error)
    return f"they are {json.dumps(found)[:100]}"


def observation_of(result: object, action: Event) -> Observation:
    """What came back for an action: an observation as it is, an exception as an error, text (or
    other JSON data, as text) as the kind that fits the action."""
    if isinstance(result, Observation):
        return result
    if isinstance(result, BaseException):
        return ErrorObservation(f"{type(result).__name__}: {result}")
    if not isinstance(result, str):
        try:
            result = json.dumps(result, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(
                "a result is text, JSON data, an exception or an observation; found "
                f"{type(result).__name__}: {error}"
            ) from error
    metadata = action.tool_call_metadata
    return tool_result(
        action, action.kind if metadata is None else metadata.function_name, result, ()
    )
