"""Parts of messages in the form that providers accept: ids, names, arguments, thinking."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Any

from .rendering import clean

__all__ = [
    "clean_json",
    "tool_call_id",
    "tool_name",
    "unused_id",
    "usable_thinking",
    "valid_arguments",
]

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MISTRAL_ID = re.compile(r"[A-Za-z0-9]{9}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_ESCAPE = re.compile(r"\\u(?:d[89a-f]|0000)", re.IGNORECASE)


def tool_call_id(raw: str, profile: str) -> str:
    """The id as it is, if the profile's providers take it, or a hash of it."""
    mistral = profile == "mistral"
    if (_MISTRAL_ID if mistral else _ID).fullmatch(raw):
        return raw
    digest = hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()
    return digest[:9] if mistral else f"call_{digest[:24]}"


def unused_id(wanted: str, seed: str, used: Container[str], profile: str) -> str:
    """The id that is wanted, or the first one made of ``seed`` that is not used."""
    while wanted in used:
        wanted = tool_call_id(seed, profile)
        seed = f"{wanted}#"
    return wanted


@lru_cache(maxsize=1024)
def tool_name(raw: str) -> str:
    """The name with other characters than letters, digits, ``_`` and ``-`` replaced by ``_``."""
    return _NOT_IN_NAMES.sub("_", raw)[:64] or "tool"


def valid_arguments(text: str) -> str:
    """A model's arguments as one valid JSON object, the same text if it is one.

    Raw control characters inside strings are escaped; anything else that is no JSON object is sent
    as ``{"unparsed": "<text>"}``. No arguments at all are ``{}``.
    """
    if not text.strip():
        return "{}"
    try:
        value = _STRICT.decode(text)
    except (ValueError, RecursionError):
        try:
            value = _LENIENT.decode(text)
        except (ValueError, RecursionError):
            value = None
    else:
        # An escape may hide what cannot be sent; whole surrogate pairs are fine.
        odd = clean(text) != text or (_ESCAPE.search(text) and clean_json(value) is not value)
        if isinstance(value, dict) and not odd:
            return text
    if not isinstance(value, dict):
        value = {"unparsed": text}
    return json.dumps(clean_json(value), ensure_ascii=False)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON value")


_STRICT = json.JSONDecoder(parse_constant=_refuse)
_LENIENT = json.JSONDecoder(parse_constant=_refuse, strict=False)


def usable_thinking(thinking: Mapping[str, Any]) -> Mapping[str, Any]:
    """Thinking as it came, or nothing where it is not in a form that can be passed back."""
    if not thinking:
        return thinking
    blocks = thinking.get("thinking_blocks", [])
    usable = isinstance(blocks, list) and all(_is_thinking_block(block) for block in blocks)
    return clean_json(thinking) if usable else {}


def _is_thinking_block(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    needed = {"thinking": "thinking", "redacted_thinking": "data"}.get(block.get("type", ""))
    return needed is not None and isinstance(block.get(needed), str)


def clean_json(value: Any) -> Any:
    """JSON data with every string in a form that can be sent; the same object if nothing was
    odd."""
    if not value:
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict | Mapping):  # a class of its own is slower to ask
        cleaned = {clean(str(key)): clean_json(item) for key, item in value.items()}
        same = cleaned.keys() == value.keys() and all(cleaned[k] is value[k] for k in value)
        return value if same else cleaned
    if isinstance(value, list):
        items = [clean_json(item) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value
