"""Tool calls: what an LLM response asked for, kept beside the events that carry it out."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from .validated import CheckedBy, Validated, validated

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

__all__ = ["AssistantTurn", "ModelResponse", "ToolCall", "ToolCallMetadata", "json_bytes"]

# Fields of a response's message that are no part of what is said back to the model.
_NOT_SAID_BACK = {
    "role",
    "content",
    "tool_calls",
    "function_call",
    "refusal",
    "audio",
    "annotations",
    "cache_control",
}
_THINKING = {"thinking_blocks", "reasoning_content", "reasoning_items"}


@dataclasses.dataclass(frozen=True, slots=True)
class ToolCall:
    """One call in an LLM response. ``arguments`` is the model's own text, valid JSON or not."""

    id: str
    name: str
    arguments: str
    provider_fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class AssistantTurn:
    """What of an LLM response is needed to say it back: text, calls in order, thinking, the
    rest."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    provider_fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class ModelResponse:
    """An LLM response as JSON bytes, with its id beside it; read only when someone asks.

    An action and its observation share one object. Made with :meth:`of`.
    """

    __slots__ = ("id", "json")

    def __init__(self, response_id: str | None, json_bytes: bytes) -> None:
        self.id = response_id
        self.json = json_bytes

    @classmethod
    def of(cls, response: Any) -> ModelResponse:
        """From a dict, JSON bytes, or a pydantic object such as litellm's and OpenAI's responses.

        Raises ``ValueError`` for anything else.
        """
        if isinstance(response, ModelResponse):
            return response
        dump = getattr(response, "model_dump", None)
        data = response if dump is None else dump(mode="json")
        try:
            if isinstance(data, bytes):
                text, data = data, _parsed(data)
            else:
                text = json_bytes(data)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"an LLM response is a JSON object: {error}") from error
        if not isinstance(data, dict) and not isinstance(data, Mapping):
            raise ValueError(f"an LLM response is a JSON object, found {type(data).__name__}")
        found = data.get("id")
        response_id = found if isinstance(found, str) and found else None
        # Parallel calls, and a call and its result, come one after the other with equal responses.
        global _newest
        newest = _newest  # once: another thread may set it meanwhile
        if text != newest.json:
            newest = _newest = cls(response_id, text)
        return newest

    def to_dict(self) -> dict[str, Any]:
        """The whole response as it was recorded. The dict is the caller's own."""
        data: dict[str, Any] = _parsed(self.json)
        return data

    def parsed(self) -> Mapping[str, Any]:
        """The same, shared by all who ask while it is the newest response: not to be changed."""
        return self._read()[0]

    def message(self) -> AssistantTurn:
        """The first choice's message; empty where the response holds none."""
        return self._read()[1]

    def _read(self) -> tuple[Mapping[str, Any], AssistantTurn]:
        global _newest_read
        response, data, message = _newest_read  # who records it and who says it back ask for it
        if response is not self:
            data = self.to_dict()
            message = _read_message(data)
            _newest_read = self, data, message
        return data, message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelResponse) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"ModelResponse(id={self.id!r}, {len(self.json)} bytes)"


_newest = ModelResponse(None, b"{}")
_newest_read: tuple[ModelResponse, Mapping[str, Any], AssistantTurn] = (
    _newest,
    {},
    AssistantTurn(),
)


# pydantic's JSON takes a fifth of the time. It refuses what is not UTF-8 (a lone surrogate that a
# model has written) and what is very deep; the standard library's does not.


def json_bytes(data: Any) -> bytes:
    """JSON data as compact text. Raises ``ValueError`` or ``TypeError`` for other data."""
    import pydantic_core

    try:
        return pydantic_core.to_json(data)
    except ValueError:
        text = json.dumps(data, separators=(",", ":")).encode("ascii")
    try:  # the halves of a character, written apart, are one character in JSON
        return pydantic_core.to_json(json.loads(text))
    except ValueError:
        return text


def _parsed(text: bytes) -> Any:
    import pydantic_core

    try:
        return pydantic_core.from_json(text)
    except ValueError:
        return json.loads(text)


def _response(_: Any, __: GetCoreSchemaHandler) -> CoreSchema:
    from pydantic_core import core_schema

    return core_schema.no_info_plain_validator_function(_given_response)


def _given_response(value: Any) -> ModelResponse | None:
    return None if value is None else ModelResponse.of(value)


Response = Annotated[ModelResponse | None, CheckedBy(_response)]


@validated({"arbitrary_types_allowed": True})
class ToolCallMetadata(Validated):
    """Which call of which LLM response an action carries out, or an observation answers.

    The events of one response share ``model_response.id``; ``total_calls_in_response`` says how
    many calls it had. ``model_response`` may be given as a dict or as the client's response object.
    """

    function_name: str
    tool_call_id: str
    total_calls_in_response: int = 1
    model_response: Response = None

    @property
    def response_id(self) -> str | None:
        """The id of the LLM response, where it is known."""
        return self.model_response.id if self.model_response is not None else None


def _read_message(response: dict[str, Any]) -> AssistantTurn:
    choices = response.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        return AssistantTurn()
    calls = message.get("tool_calls")
    return AssistantTurn(
        text=_text_of(message.get("content")),
        tool_calls=tuple(
            _read_call(call)
            for call in (calls if isinstance(calls, list) else ())
            if isinstance(call, dict) and isinstance(call.get("function"), dict)
        ),
        thinking={key: message[key] for key in message if key in _THINKING and message[key]},
        provider_fields={
            key: value
            for key, value in message.items()
            if value and key not in _NOT_SAID_BACK and key not in _THINKING
        },
    )


def _read_call(call: dict[str, Any]) -> ToolCall:
    function = call["function"]
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments if arguments is not None else {})
    extra = call.get("provider_specific_fields")
    return ToolCall(
        id=str(call.get("id") or ""),
        name=str(function.get("name") or ""),
        arguments=arguments,
        provider_fields=extra if isinstance(extra, dict) else {},
    )


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))
