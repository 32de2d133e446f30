"""How providers word a 400: the body for a broken rule, and the one for an overflowing window."""

from __future__ import annotations

from typing import Any

__all__ = ["overflow", "refusal"]

_OPENAI: dict[str, str] = {
    "R1": "An assistant message with 'tool_calls' must be followed by tool messages responding to "
    "each 'tool_call_id'. The following tool_call_ids did not have response messages: see {place}",
    "R2": "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
    "with 'tool_calls'.",
    "R3": "Duplicate value for 'tool_call_id' in {place}",
    "R5": "Invalid value for '{place}.tool_calls[0].function.arguments': expected a JSON object.",
    "R6": "Invalid '{place}.tool_calls[0].id': string does not match pattern. Expected a string "
    "that matches the pattern '^[a-zA-Z0-9_-]+$'.",
    "R10": "Invalid value for 'content': expected a string, got null.",
    "R12": "Invalid '{place}'. Image URLs are only allowed for messages with role 'user', but this "
    "message contains an image URL.",
    "R13": "You uploaded an unsupported image. Please make sure your image is valid and has one of "
    "the following formats: ['png', 'jpeg', 'gif', 'webp'].",
    "R15": "Item of type 'reasoning' was provided without its required following item.",
    "R16": "We could not parse the JSON body of your request.",
    "R17": "Invalid 'tools[0].function.name': string does not match pattern. Expected a string "
    "that matches the pattern '^[a-zA-Z0-9_-]+$'.",
    "R19": "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an "
    "empty array instead.",
}
_ANTHROPIC: dict[str, str] = {
    "R1": "{place}: `tool_use` ids were found without `tool_result` blocks immediately after. Each "
    "`tool_use` block must have a corresponding `tool_result` block in the next message.",
    "R2": "{place}.content.0: unexpected `tool_use_id` found in `tool_result` blocks. Each "
    "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
    "R3": "{place}: `tool_use` ids must be unique",
    "R4": "{place}: `tool_result` blocks must stand in the order of the `tool_use` blocks",
    "R5": "{place}.content.0.tool_use.input: Input should be a valid dictionary",
    "R6": "{place}.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    "R7": '{place}: Unexpected role "system". The Messages API accepts a top-level `system` '
    'parameter, not "system" as an input message role.',
    "R8": 'messages: first message must use the "user" role',
    "R9": 'messages: roles must alternate between "user" and "assistant", but found multiple roles '
    "of the same kind in a row",
    "R10": "messages: text content blocks must be non-empty",
    "R11": "This model does not support assistant message prefill. The conversation must end with "
    "a user message.",
    "R12": "{place}.content: image blocks are not permitted here",
    "R13": "{place}.content.0.image.source.base64.data: Could not process image",
    "R14": "A maximum of 4 blocks with cache_control may be provided, none of them empty; {place}",
    "R15": "{place}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
    "`tool_use`. When `thinking` is enabled, a final `assistant` message must start with a "
    "thinking block.",
    "R16": "The request body is not valid JSON: invalid unicode in {place}",
    "R17": "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'",
    "R19": "messages: at least one message is required",
}
_GEMINI: dict[str, str] = {
    "R1": "Please ensure that the number of function response parts is equal to the number of "
    "function call parts of the function call turn.",
    "R2": "Please ensure that function response turn comes immediately after a function call turn.",
    "R4": "Please ensure that the function response parts are in the order of the function call "
    "parts of the function call turn.",
    "R9": "Please ensure that multiturn requests alternate between user and model.",
    "R11": "Please ensure that multiturn requests end with a user role or a function response.",
    "R15": "Function call is missing a thought_signature in functionCall parts.",
}
_MISTRAL: dict[str, str] = {
    "R1": "Not the same number of function calls and responses",
    "R2": "Unexpected tool call id in tool results",
    "R6": "Tool call id must be a-z, A-Z, 0-9, with a length of 9.",
    "R11": "Expected last role User or Tool (or Assistant with prefix True) for serving but got "
    "assistant",
    "R20": "Unexpected role 'user' after role 'tool'",
}
_WORDINGS: dict[str, dict[str, str]] = {
    "openai": _OPENAI,
    "anthropic": _ANTHROPIC,
    "gemini": _ANTHROPIC | _GEMINI,
    "mistral": _ANTHROPIC | _OPENAI | _MISTRAL,
    "portable": _ANTHROPIC | _OPENAI,
}


def refusal(profile: str, rule: str, index: int | None) -> dict[str, Any]:
    """The body that a provider answers when ``rule`` is broken at this message."""
    place = "messages" if index is None else f"messages.{index}"
    if profile != "anthropic" and index is not None:
        place = f"messages[{index}]"
    return _body(profile, _WORDINGS[profile][rule].format(place=place), place)


def overflow(profile: str, asked: int, reserved: int, window: int) -> dict[str, Any]:
    """The body for ``asked`` input and ``reserved`` output tokens that exceed the window."""
    if profile == "anthropic":
        text = f"prompt is too long: {asked} tokens > {window} maximum"
        if asked <= window:
            text = (
                f"input length and `max_tokens` exceed context limit: {asked} + {reserved} > "
                f"{window}, decrease input length or `max_tokens` and try again"
            )
    elif profile == "gemini":
        text = (
            f"The input token count ({asked}) exceeds the maximum number of tokens allowed "
            f"({window})."
        )
    elif profile == "mistral":
        text = (
            f"Prompt contains {asked} tokens and {reserved} draft tokens, too large for model with "
            f"{window} maximum context length"
        )
    elif reserved:
        text = (
            f"This model's maximum context length is {window} tokens. However, you requested "
            f"{asked + reserved} tokens ({asked} in the messages, {reserved} in the completion). "
            "Please reduce the length of the messages or completion."
        )
    else:
        text = (
            f"This model's maximum context length is {window} tokens. However, your messages "
            f"resulted in {asked} tokens. Please reduce the length of the messages."
        )
    return _body(profile, text, "messages", "context_length_exceeded")


def _body(profile: str, text: str, place: str, code: str | None = None) -> dict[str, Any]:
    if profile == "anthropic":
        return {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
    if profile == "gemini":
        return {"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}
    error = {"message": text, "type": "invalid_request_error", "param": place, "code": code}
    return {"error": error}
