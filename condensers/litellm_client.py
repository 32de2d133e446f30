"""litellm as it is used here: imported on first use, offline and silent; and how it is read."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from ..events.tool_calls import ModelResponse
from ..memory.message import Reply, Usage
from .metrics import Spent

__all__ = [
    "LOGGERS",
    "assembled",
    "catalog_entry",
    "copied",
    "litellm",
    "provider_of",
    "reply_of",
    "spent_by",
]

LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai._base_client")
"""Who may log what providers say."""


@cache
def litellm() -> Any:
    """The module. Its import takes seconds; it asks no network for prices or tokenizers."""
    # Read at each look-up, not only on import.
    os.environ.setdefault("LITELLM_OFFLINE_MODE", "true")
    with _importing, _environment("LITELLM_LOCAL_MODEL_COST_MAP", "True"):
        import litellm as module
    module.suppress_debug_info = True
    module.disable_hf_tokenizer_download = True
    return module


_importing = threading.Lock()  # what the environment says is one for all threads


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def copied(value: Any, *, without: str | None = None) -> Any:
    """A deep copy of JSON-like data, as litellm changes what it is given; texts are shared.

    The key ``without`` is left out wherever it stands.
    """
    if isinstance(value, Mapping):
        return {key: copied(item, without=without) for key, item in value.items() if key != without}
    if isinstance(value, list | tuple):
        return [copied(item, without=without) for item in value]
    return value


def provider_of(model: str) -> str | None:
    """The provider that litellm would ask; None where it does not know."""
    try:
        provider: str = litellm().get_llm_provider(model)[1]
        return provider
    except Exception:
        return None


def catalog_entry(model: str) -> Mapping[str, Any]:
    """What litellm's map knows of a model: prices and limits. Empty for an unknown one.

    A model behind a reseller ("openrouter/anthropic/...") is looked up by its full name first, then
    without the first parts.
    """
    known: Mapping[str, Mapping[str, Any]] = litellm().model_cost
    name = model
    while name not in known and "/" in name:
        name = name.partition("/")[2]
    return known.get(name, {})


def reply_of(response: Any) -> Reply:
    """A response, which has a choice, as a :class:`Reply`."""
    said = ModelResponse.of(response).message()
    spent = spent_by(response, None)
    return Reply(
        text=said.text,
        tool_calls=said.tool_calls,
        thinking=said.thinking,
        usage=None if spent is None else spent.usage,
        finish_reason=response.choices[0].finish_reason,
        raw=response,
    )


def assembled(stream: Any, chunks: list[Any]) -> tuple[Any, bool]:
    """What a stream has said so far, as one response, and whether it was complete.

    litellm estimates the usage where the provider reports none, and takes it out of the chunks that
    it hands on; what it keeps itself tells the two apart.
    """
    kept = list(getattr(stream, "chunks", None) or chunks)
    if not kept:
        return None, False
    response = litellm().stream_chunk_builder(kept)
    if response is not None and not any(getattr(chunk, "usage", None) for chunk in kept):
        response.usage = None
    reasons = ("received_finish_reason", "intermittent_finish_reason")
    found = [getattr(stream, name) for name in reasons if hasattr(stream, name)]
    return response, any(found) or not found


def spent_by(response: Any, model: str | None) -> Spent | None:
    """The tokens that a response reports, and their price if ``model`` is given.

    None if it reports none.
    """
    usage = getattr(response, "usage", None)
    if usage is None:
        return None
    read = getattr(usage, "prompt_tokens_details", None)
    written = getattr(usage, "completion_tokens_details", None)
    tokens = Usage(
        _number(usage, "prompt_tokens"),
        _number(usage, "completion_tokens"),
        _number(read, "cached_tokens") or _number(usage, "cache_read_input_tokens"),
        _number(usage, "cache_creation_input_tokens") or _number(read, "cache_creation_tokens"),
    )
    if tokens == Usage():
        return None
    dollars = None if model is None else _dollars(response, model)
    return Spent(tokens, _number(written, "reasoning_tokens"), dollars)


def _number(source: Any, name: str) -> int:
    value = getattr(source, name, None)
    return value if isinstance(value, int) else 0


def _dollars(response: Any, model: str) -> float | None:
    """By litellm's price map. None for a model without a price: litellm says 0 for some of them."""
    try:
        dollars = float(litellm().completion_cost(completion_response=response, model=model))
    except Exception:
        return None
    if not dollars and "input_cost_per_token" not in catalog_entry(model):
        return None
    return dollars
