"""Saying an LLM response back otherwise than it came: with other arguments, or without thinking."""

from __future__ import annotations

from dataclasses import dataclass

from ..events.event import Event
from ..events.tool_calls import AssistantTurn, ModelResponse, ToolCallMetadata

__all__ = ["ResponseEdit", "arguments_of"]


def arguments_of(action: Event, response: AssistantTurn) -> str | None:
    """The arguments of the call that an action carries out; None if the response does not list
    it."""
    metadata = action.tool_call_metadata
    if metadata is None:
        return None
    own = (call.arguments for call in response.tool_calls if call.id == metadata.tool_call_id)
    return next(own, None)


@dataclass(frozen=True, slots=True)
class ResponseEdit:
    """A change of a response: ``arguments`` are new ones (JSON objects as text) by call id;
    ``drops_thinking`` leaves out its thinking and the signatures that belong to it."""

    response: ModelResponse
    arguments: tuple[tuple[str, str], ...] = ()
    drops_thinking: bool = False

    def applied_to(self, action: Event) -> Event:
        """A copy of an action that knows the changed response. All actions of a turn need one."""
        metadata = action.tool_call_metadata
        assert metadata is not None  # so are all actions of a response with calls
        return action.replace(
            tool_call_metadata=ToolCallMetadata(
                metadata.function_name,
                metadata.tool_call_id,
                metadata.total_calls_in_response,
                self._changed(),
            )
        )

    def _changed(self) -> ModelResponse:
        data = self.response.to_dict()
        said = self.response.message()
        new = dict(self.arguments)
        message = data["choices"][0]["message"]
        if self.drops_thinking:
            for key in (*said.thinking, *said.provider_fields):
                del message[key]
        for call in message.get("tool_calls") or ():
            if not isinstance(call, dict):
                continue
            if self.drops_thinking:
                call.pop("provider_specific_fields", None)
            function = call.get("function")
            if isinstance(function, dict) and (call_id := str(call.get("id") or "")) in new:
                function["arguments"] = new[call_id]
        return ModelResponse.of(data)
