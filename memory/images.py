"""Which images an LLM provider can use: an http(s) URL, or base64 data of a supported type."""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

__all__ = ["as_image_url", "image_problem", "image_reference", "is_image"]


def image_problem(url: str) -> str | None:
    """What is wrong with ``url`` as an image for an LLM, in a few words, or None if it is usable.

    Usable are an http or https URL with a host, and a data URL ``data:image/T;base64,...`` with T
    one of png, jpeg, gif, webp, whose base64 is strictly valid and whose first bytes are of type T.
    Nothing is fetched.
    """
    if not url.startswith("data:"):
        return _web_problem(url)
    header = _DATA_HEADER.match(url)
    if header is None:
        return "a data URL must begin data:image/(png|jpeg|gif|webp);base64,"
    data = _decoded(url[header.end() :])
    if not data:
        return "its base64 data is empty or not valid"
    stated, found = header["type"], _media_type(data)
    if found != stated:
        return f"it is called {stated}, but its bytes are {found or 'of no supported type'}"
    return None


def as_image_url(value: str) -> str | None:
    """A usable URL (see ``image_problem``) for what an event carries as an image, or None.

    A usable URL comes back as it is. Raw base64 of a supported image becomes a data URL; so does a
    data URL with a wrong media type (image/jpg is common) or with line breaks in its base64: the
    bytes say what the image is.
    """
    value = value.strip()
    if image_problem(value) is None:
        return value
    header, comma, payload = value.partition(",")
    if not comma:
        payload = value
    elif not re.fullmatch(r"data:[^,]*;base64", header, re.IGNORECASE):
        return None
    payload = "".join(payload.split())
    media_type = _media_type(_decoded(payload))
    return f"data:{media_type};base64,{payload}" if media_type else None


def is_image(block: Mapping[str, Any]) -> bool:
    """Whether a content block is an image, in OpenAI's form or in Anthropic's."""
    return block.get("type") in ("image_url", "image")


def image_reference(block: Mapping[str, Any]) -> str | None:
    """The URL of an image block, or its base64 data as a data URL, unchecked; None if it has none.

    OpenAI's ``image_url`` is ``{"url": ...}`` or the URL itself; Anthropic's ``source`` has a
    ``url``, or a ``media_type`` with base64 ``data``.
    """
    holder = block.get("image_url") if block.get("type") == "image_url" else block.get("source")
    if not isinstance(holder, dict):
        return holder if isinstance(holder, str) else None
    url, data = holder.get("url"), holder.get("data")
    if isinstance(url, str):
        return url
    return f"data:{holder.get('media_type')};base64,{data}" if isinstance(data, str) else None


_DATA_HEADER = re.compile(r"data:(?P<type>image/(?:png|jpeg|gif|webp));base64,")
_NOT_IN_A_URL = re.compile(r"[\s\x00-\x1f\x7f]")


def _web_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # asking for the host or the port found it broken
        usable = False
    if usable and not _NOT_IN_A_URL.search(url):
        return None
    return "it is neither an http(s) URL with a host nor a data URL"


def _decoded(payload: str) -> bytes:
    """The bytes of strict base64; empty if it is not valid."""
    if len(payload) % 4 or payload.endswith("==="):  # more padding than Python itself minds
        return b""
    try:
        return binascii.a2b_base64(payload, strict_mode=True)
    except ValueError:
        return b""


def _media_type(data: bytes) -> str | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None
