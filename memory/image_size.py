"""How many tokens an image takes, from the size that its first bytes state."""

from __future__ import annotations

import binascii
import math
import struct

__all__ = ["image_tokens", "pixel_size"]

_UNKNOWN = 4_900  # tokens; the most that a Claude model takes
_MOST = 14_400  # tokens; a photo of 12 megapixels where a provider does not scale it down
_GEMINI = 1_120  # tokens; the same for every size
_HEADER = 64  # base64 characters that hold the size in every format but JPEG
_JPEG_HEADER = 2**19  # base64 characters; metadata and thumbnails stand before a JPEG's size


def image_tokens(url: str) -> int:
    """The tokens of one image, on the high side: the most that known providers take for its size.

    1,120 for a small picture, 2,765 for a screenshot of 1920 x 1080 pixels, at most 14,400; 4,900
    where the size is unknown (a web address, data that cannot be read). A ``detail`` of "low" is
    not believed: only OpenAI has it. Models that multiply the tokens of images for billing
    (gpt-4o-mini, gpt-4.1-nano) take more.
    """
    size = pixel_size(url)
    if size is None:
        return _UNKNOWN
    width, height = size
    anthropic = math.ceil(width * height / 750)
    return min(_MOST, max(anthropic, _GEMINI, _openai_tiles(*size), _openai_patches(*size)))


def pixel_size(url: str) -> tuple[int, int] | None:
    """Width and height in pixels of a png, jpeg, gif or webp in a base64 data URL, or None.

    The bytes say what the image is, whatever the media type. Nothing is fetched, and only as much
    is decoded as is needed.
    """
    header, _, payload = url.partition(",") if url.startswith("data:") else ("", "", "")
    if not header.endswith(";base64"):
        return None
    try:
        size = _stated_size(payload)
    except (ValueError, IndexError, struct.error):  # not base64, or it ends too early
        return None
    return size if size and all(size) else None


def _stated_size(payload: str) -> tuple[int, int] | None:
    data = _decoded(payload, _HEADER)
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _unpack(">II", data, 16)
    if data.startswith((b"GIF87a", b"GIF89a")):
        return _unpack("<HH", data, 6)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _webp_size(data)
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg_size(_decoded(payload, _JPEG_HEADER))
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = _unpack("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        low_width, high_width, low_height, high_height = struct.unpack_from("<HBHB", data, 24)
        return (high_width << 16 | low_width) + 1, (high_height << 16 | low_height) + 1
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """From the first frame header; every segment before it states its length."""
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = _unpack(">HH", data, at + 5)
            return width, height
        else:
            (length,) = struct.unpack_from(">H", data, at + 2)
            at += 2 + length
    return None


def _unpack(form: str, data: bytes, at: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, data, at)
    return first, second


def _decoded(payload: str, most: int) -> bytes:
    """The bytes of the first ``most`` characters of base64, line breaks left out."""
    text = "".join(payload[:most].split())
    return binascii.a2b_base64(text[: len(text) // 4 * 4])


def _openai_tiles(width: int, height: int) -> int:
    """GPT-4o, GPT-4.1, GPT-5: scaled into 2048 x 2048, its short side to 768; tiles of 512."""
    scale = min(1.0, 2048 / max(width, height), 768 / min(width, height))
    return 85 + 170 * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


def _openai_patches(width: int, height: int) -> int:
    """Their mini models: patches of 32 pixels, at most 1,536, times 1.62."""
    return math.ceil(1.62 * min(1536, math.ceil(width / 32) * math.ceil(height / 32)))
