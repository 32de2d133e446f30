"""How many tokens messages take, and how many they may take."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

from ..events.event import InvalidArgument
from .image_size import image_tokens
from .images import image_reference, is_image
from .message import Message

__all__ = ["ENCODINGS", "Budget", "TokenCounter"]

_log = logging.getLogger(__name__)

ENCODINGS = ("o200k_base", "cl100k_base", "p50k_base")  # whose files come with litellm
SHORTEST_RESULT = 60  # characters of an observation, where the window leaves no room for more
_PER_MESSAGE = 4  # tokens of the role and of what marks a message's ends: 3 to 5 by provider
_PER_TOOL = 8  # tokens around one tool's definition
_CHUNK = 4_096  # characters given to the tokenizer at once

_BYTES = "bytes"  # in the place of an encoding: no tokenizer makes more of a text than its bytes

_LEAST, _MOST = 0.5, 4.0  # bounds of a calibration
_LOWERED_AT_MOST = 0.9  # by one report
_TAKEN_AS_RIGHT = 500  # tokens: a short prompt says more about fixed costs than about the tokenizer


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts the tokens of a prompt: messages, images and tool definitions.

    ``exact``: by the tokenizer of ``encoding`` (one of ``ENCODINGS``), which is loaded at the first
    count, offline. Where it is missing or fails, the estimate takes over, with a warning in the
    log: never zero, never an error.

    With ``exact=False`` all text is estimated, without a tokenizer: about 10 microseconds a
    message, where an exact count takes 20 to 140 (100 to 1,000 characters). On 8,500 texts of
    recorded agent runs the estimate is 1.3 times the exact o200k count in the median, at most 1.65
    times for 95 % of them, below 0.9 times for 0.3 %, never below 0.79 times; 1.15 to 1.6 times
    for 20 of them drawn together. It is 0.85 to 1.1 times for base64, about 1.0 for Polish or Czech
    (0.7 at worst), 1.2 to 1.7 for Chinese, Japanese and Korean, up to 3 for other scripts.

    ``calibration``: what every count is multiplied with, from 0.5 to 4; see :meth:`calibrated`.
    Exact counts are those of OpenAI's tokenizers, and other models differ.

    Raises :class:`InvalidArgument` for an unknown encoding or a calibration out of its range.
    """

    encoding: str = "o200k_base"
    exact: bool = field(default=True, kw_only=True)
    calibration: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            known = ", ".join(ENCODINGS)
            raise InvalidArgument(f"an encoding is one of {known}; found {self.encoding!r}")
        if not _LEAST <= self.calibration <= _MOST:
            found = f"found {self.calibration!r}"
            raise InvalidArgument(f"a calibration is from {_LEAST} to {_MOST}; {found}")

    def count(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = (),
    ) -> int:
        """The input tokens of a prompt, rounded up.

        ``messages`` are ``Message`` objects, chat dicts, or a mixture; a ``Message`` is counted
        once and remembers it. Everything in a message counts: text, tool calls, thinking, provider
        fields, and content blocks of unknown types by their text; cache markers do not. Images
        count on the high side, see ``image_tokens``. ``tools`` count by their JSON text, once for
        each text.
        """
        encoding = self.encoding if self.exact else None
        tokens = sum(_each(messages, encoding))
        for tool in tools or ():
            text = json.dumps(tool, ensure_ascii=False, default=str)
            tokens += _PER_TOOL + _tool_tokens(text, encoding)
        return math.ceil(tokens * self.calibration)

    def at_most(self, messages: Iterable[Message | Mapping[str, Any]]) -> int:
        """What :meth:`count` gives at the most, without a tokenizer: a token has at least a byte.
        Messages that were counted before count as they did."""
        if not self.exact:
            return self.count(messages)
        given = list(messages)
        known: list[int | None] = [
            m.recalled(self.encoding) if isinstance(m, Message) else None for m in given
        ]
        new = [message for message, tokens in zip(given, known, strict=True) if tokens is None]
        tokens = sum(_each(new, _BYTES)) + sum(count for count in known if count is not None)
        return math.ceil(tokens * self.calibration)

    def knows(self, messages: Iterable[Message | Mapping[str, Any]]) -> bool:
        """True if each message was counted before."""
        encoding = self.encoding if self.exact else None
        return all(isinstance(m, Message) and m.recalled(encoding) is not None for m in messages)

    def calibrated(self, reported: int, counted: int) -> TokenCounter:
        """A counter nearer to the provider's own: ``reported`` input tokens (those from a cache
        included) for a prompt that this counter, so calibrated, counted as ``counted`` tokens.

        A pure function; fold it over the reports in their order. A report above the count is
        believed at once, up to a calibration of 4. One report lowers the calibration by at most a
        tenth, never below 0.5, and not at all if it asks for less than that: some providers leave
        cached tokens out. A prompt of a few hundred tokens says little: both numbers are taken
        with 500 tokens on top. Reports of zero or less change nothing.
        """
        if reported <= 0 or counted <= 0 or self.calibration * reported / counted < _LEAST:
            return self
        ratio = (reported + _TAKEN_AS_RIGHT) / (counted + _TAKEN_AS_RIGHT)
        wanted = self.calibration * max(ratio, _LOWERED_AT_MOST)
        return replace(self, calibration=min(max(wanted, _LEAST), _MOST))


@dataclass(frozen=True)
class Budget:
    """The tokens that messages may take: the model's window, less the output reserved in it and
    less what is sent beside the messages.

    ``window`` and ``reserved_output`` are tokens; ``tools`` are the tool definitions that are sent
    with each prompt. A calibrated budget is ``dataclasses.replace(budget, counter=...)``.

    Raises :class:`InvalidArgument` for a window below one or a negative reservation.
    """

    window: int
    reserved_output: int = 0
    tools: Sequence[Mapping[str, Any]] = field(default=(), hash=False)
    counter: TokenCounter = TokenCounter()

    def __post_init__(self) -> None:
        if self.window < 1:
            raise InvalidArgument(f"a window is at least one token; found {self.window!r}")
        if self.reserved_output < 0:
            found = f"found {self.reserved_output!r}"
            raise InvalidArgument(f"the reserved output is not less than zero tokens; {found}")
        object.__setattr__(self, "tools", tuple(self.tools))

    @cached_property
    def overhead(self) -> int:
        """The tokens outside the messages: the tool definitions."""
        return self.counter.count((), tools=self.tools)

    @property
    def available(self) -> int:
        """The tokens that messages may take; negative if the rest does not fit the window alone."""
        return self.window - self.reserved_output - self.overhead

    @property
    def longest_result(self) -> int:
        """The characters that one observation may have, where nobody says otherwise. No calibration
        changes it: that would change what was sent before."""
        return max(SHORTEST_RESULT, 2 * (self.window - self.reserved_output))

    def count(self, messages: Iterable[Message | Mapping[str, Any]]) -> int:
        """The tokens of the messages alone."""
        return self.counter.count(messages)

    def counted(self, messages: Iterable[Message | Mapping[str, Any]]) -> int | None:
        """The tokens of messages and tools where a count is at hand: None if only a tokenizer could
        tell, and :meth:`fits` did not need one."""
        given = list(messages)
        if self.counter.exact and not self.counter.knows(given):
            return None
        return self.count(given) + self.overhead

    def fits(self, messages: Iterable[Message | Mapping[str, Any]]) -> bool:
        """Whether the messages take no more than what is available.

        Text is given to a tokenizer only if it might not fit: not as long as its bytes do.
        """
        given = list(messages)
        if self.counter.exact and self.counter.at_most(given) <= self.available:
            return True
        return self.count(given) <= self.available


def _each(messages: Iterable[Message | Mapping[str, Any]], encoding: str | None) -> list[int]:
    """The tokens of each message."""
    count_one = partial(_message_tokens, encoding=encoding)
    return Message.all_remembered(list(messages), encoding, count_one)


_SAID = frozenset({"content", "tool_calls"})
_NOT_COUNTED = frozenset({"role", "cache_control"})


def _message_tokens(message: Mapping[str, Any], encoding: str | None) -> int:
    texts: list[str] = []
    more: list[str] = []
    tokens = _PER_MESSAGE
    for key, value in message.items():
        if value is None or key in _NOT_COUNTED:
            continue
        if key not in _SAID:
            more.append(key)
        into = texts if key in _SAID else more
        if isinstance(value, str):
            into.append(value)
        else:
            tokens += _gather(value, into)
    # The same thinking comes back in up to three fields, of which a provider reads one.
    texts.extend(dict.fromkeys(more))
    return tokens + _text_tokens("\n".join(texts), encoding)


def _gather(value: Any, texts: list[str]) -> int:
    """Adds every text in ``value`` to ``texts``, names of fields too; the tokens of its images."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict | Mapping):  # a class of its own is slower to ask
        url = image_reference(value) if is_image(value) else None
        if url is not None:
            return image_tokens(url)
        is_text = value.get("type") == "text" and isinstance(value.get("text"), str)
        tokens = 0
        for key, item in value.items():
            if item is None or key == "cache_control" or (is_text and key == "type"):
                continue
            if not (is_text and key == "text"):
                texts.append(str(key))
            if isinstance(item, str):
                texts.append(item)
            else:
                tokens += _gather(item, texts)
        return tokens
    elif isinstance(value, list | tuple):
        return sum([_gather(item, texts) for item in value])
    elif value is not None:
        texts.append(str(value))
    return 0


def _text_tokens(text: str, encoding: str | None) -> int:
    """Exact by the tokenizer of ``encoding``, else estimated."""
    if encoding == _BYTES:
        return len(text.encode("utf-8", "surrogatepass"))
    encode = _encoder(encoding) if encoding is not None else None
    if encode is None:
        return _estimate(text)
    try:
        # Long runs of one letter or of blanks cost the square of their length, or overflow the
        # tokenizer's stack. A cut adds a token or two.
        starts = range(0, len(text), _CHUNK)
        return sum(len(encode(text[start : start + _CHUNK])) for start in starts)
    except Exception as error:
        _log.warning("the tokenizer failed, the text is estimated: %s", error)
        return _estimate(text)


_tool_tokens = lru_cache(maxsize=512)(_text_tokens)


# Tokens a byte, by kind. The kinds are taken away one after the other: five passes over bytes that
# become fewer cost less than any look at single characters. Words run to about four small letters a
# token; capitals and digits stand for what is no word: camelCase, hashes, base64, numbers.
_KINDS = (
    (b"abcdefghijklmnopqrstuvwxyz", 0.28),
    (b" \t\r\n", 0.2),
    (b"0123456789", 0.9),
    (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", 1.0),
    (bytes(range(128)), 0.6),
    (bytes(range(128, 256)), 0.36),
)


def _estimate(text: str) -> int:
    left = text.encode("utf-8", "surrogatepass")
    tokens = 0.0
    for kind, per_byte in _KINDS:
        rest = left.translate(None, kind)
        tokens += per_byte * (len(left) - len(rest))
        left = rest
        if not left:
            break
    return math.ceil(tokens)


@cache
def _encoder(encoding: str) -> Callable[[str], Sequence[int]] | None:
    """The tokenizer, made from the files that litellm brings; None where it cannot be had."""
    try:
        with _loading, _cache_folder(_tokenizer_folder(encoding)):
            import tiktoken

            # What looks like a special token in a text is sent, and counted, as plain text.
            return tiktoken.get_encoding(encoding).encode_ordinary
    except Exception as error:
        _log.warning("no tokenizer for %s, tokens are estimated: %s", encoding, error)
        return None


_loading = threading.Lock()  # what the environment says is one for all threads


def _tokenizer_folder(encoding: str) -> Path:
    """Found without importing litellm, which takes seconds. Without the file tiktoken would ask the
    network, so its name is made as tiktoken makes it, and looked for."""
    spec = importlib.util.find_spec("litellm")
    for package in (spec and spec.submodule_search_locations) or ():
        folder = Path(package, "litellm_core_utils", "tokenizers")
        url = f"https://openaipublic.blob.core.windows.net/encodings/{encoding}.tiktoken"
        if (folder / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()).is_file():
            return folder
    raise FileNotFoundError("litellm, which brings the tokenizer's file, is not there")


@contextmanager
def _cache_folder(folder: Path) -> Iterator[None]:
    """tiktoken looks for its files in ``folder`` meanwhile."""
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before
