"""From what an LLM answered, and what its tools gave back, to events."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ..events.actions import MCPAction, MessageAction, tool_action
from ..events.event import Action, Event, InvalidArgument, Observation
from ..events.formats.tool_results import arguments_in, tool_result
from ..events.observations import ErrorObservation
from ..events.tool_calls import ModelResponse, ToolCall, ToolCallMetadata
from ..memory.message import Message, Reply

__all__ = ["Answer", "Recorded", "actions_in", "observation_of"]

_CUT_OFF = ("length", "max_tokens")


@dataclass(frozen=True, slots=True)
class Answer:
    """An LLM's answer: as it is kept, and read."""

    response: ModelResponse
    data: Mapping[str, Any]

    @classmethod
    def of(cls, response: Any, number: int) -> Answer:
        """From a :class:`Reply`, the response object of litellm or OpenAI, or such a response as a
        dict. ``number`` makes the id of a reply that has none.

        Raises :class:`InvalidArgument` for anything else.
        """
        if isinstance(response, Reply):
            response = response.raw if response.raw is not None else _as_dict(response, number)
        try:
            kept = ModelResponse.of(response)
        except ValueError as error:
            raise InvalidArgument(f"{_WANTED}; found {type(response).__name__}: {error}") from error
        answer = cls(kept, kept.parsed())
        message = answer.choice.get("message")
        if not isinstance(message, dict):
            keys = f"the keys {', '.join(map(str, answer.data))}" if answer.data else "no keys"
            raise InvalidArgument(f"{_WANTED}; found an object with {keys}")
        asked = [key for key in ("tool_calls", "function_call") if message.get(key)]
        if asked and not kept.message().tool_calls:
            raise InvalidArgument(
                "a response's calls are function calls under tool_calls; found "
                f"{', '.join(asked)} of another form: {json.dumps(message[asked[0]])[:200]}"
            )
        return answer

    @property
    def choice(self) -> dict[str, Any]:
        """The first choice; empty if there is none."""
        choices = self.data.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        return first if isinstance(first, dict) else {}


_WANTED = (
    "record() takes a Reply, or a chat completion of litellm or OpenAI (the whole response with "
    "its choices, as object or dict, not its message)"
)


def _as_dict(reply: Reply, number: int) -> dict[str, Any]:
    """A reply in the shape of a chat completion."""
    said = Message("assistant", reply.text, reply.tool_calls, thinking=reply.thinking)
    choice = {"index": 0, "finish_reason": reply.finish_reason, "message": said.to_dict()}
    result: dict[str, Any] = {"id": f"reply-{number}", "choices": [choice]}
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
    """An action that an answer asks for. ``problem`` says why it cannot be carried out."""

    action: Action
    problem: str | None = None


def actions_in(
    answer: Answer, tools: Collection[str], metrics: dict[str, Any] | None = None
) -> list[Recorded]:
    """What an answer asks for: one action for each tool call, or what it says. Each holds the
    response; the first of them has the ``metrics``.

    ``tools`` are the names of those that there are; none: it is not known. A call of another one,
    or with arguments that are no JSON object, has a problem. An answer that says nothing is an
    empty message.
    """
    said = answer.response.message()
    if not said.tool_calls:
        refusal = answer.choice["message"].get("refusal")
        text = said.text or (refusal if isinstance(refusal, str) else "")
        message = MessageAction(text, wait_for_response=True)
        message = message.replace(model_response=answer.response, llm_metrics=metrics)
        return [Recorded(message)]
    cut_off = answer.choice.get("finish_reason") in _CUT_OFF
    found = []
    for place, call in enumerate(said.tool_calls):
        metadata = ToolCallMetadata(call.name, call.id, len(said.tool_calls), answer.response)
        thought = said.text if place == 0 else ""
        arguments = arguments_in(call.arguments if call.arguments.strip() else "{}")
        problem = _problem(call, arguments, tools, cut_off=cut_off)
        if problem is None:
            action = tool_action(call.name, arguments or {}, thought)
        else:
            action = MCPAction(name=call.name, arguments=arguments or {}, thought=thought)
        action = action.replace(
            tool_call_metadata=metadata, llm_metrics=metrics if place == 0 else None
        )
        found.append(Recorded(action, problem))
    return found


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
    """What came back for an action, as its answer: an observation as it is, an exception as an
    error, text (or other JSON data, as text) as the kind that fits the action."""
    return _observation(result, action).replace(
        cause=action.id, tool_call_metadata=action.tool_call_metadata
    )


def _observation(result: object, action: Event) -> Observation:
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
