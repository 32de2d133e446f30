"""Keeping API keys out of texts: errors, logs, configurations."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..events.redaction import HIDDEN

__all__ = ["HIDDEN", "environment_secrets", "hidden", "hide_in_logs", "secret_texts", "veiled"]

_SECRET_NAME = re.compile(
    r"key|token|secret|password|credential|authorization|cookie", re.IGNORECASE
)
_MASKED = re.compile(
    r"(?<![\w-])[\w-]*\*{3,}[\w*-]*"
)  # what a provider leaves of a key: sk-abc***wxyz
_BLOCK = 4  # characters of a key that are looked for
_PART = 7  # characters of a key that, together, are hidden; any such part holds a whole block
_WHOLE = 8  # characters below which a key may be an everyday word, and is hidden as a word only


def hidden(text: str, secrets: Iterable[str]) -> str:
    """``text`` without the secrets, without longer parts of them, and without masked words."""
    text = _MASKED.sub(HIDDEN, text)
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) < _WHOLE:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
        else:
            text = _without_parts(text.replace(secret, HIDDEN), secret)
    return text


def _without_parts(text: str, secret: str) -> str:
    for start in range(0, len(secret) - _BLOCK + 1, _BLOCK):
        end = start + _BLOCK
        at = text.find(secret[start:end])
        while at >= 0:
            left = 0
            while left < min(at, start) and text[at - left - 1] == secret[start - left - 1]:
                left += 1
            right = _BLOCK
            while text[at + right : at + right + 1] == secret[start + right : start + right + 1]:
                if start + right >= len(secret):
                    break
                right += 1
            if left + right >= _PART:
                text = text[: at - left] + HIDDEN + text[at + right :]
                at = text.find(secret[start:end], at - left + len(HIDDEN))
            else:
                at = text.find(secret[start:end], at + 1)
    return text


def secret_texts(settings: Mapping[str, Any]) -> Iterator[str]:
    """The texts whose names say that they are secret."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from secret_texts(value)
        elif isinstance(value, str) and value and _SECRET_NAME.search(name):
            yield value


def environment_secrets() -> Iterator[str]:
    """Keys that litellm may have taken from the environment."""
    for name, value in os.environ.items():
        if len(value) >= _WHOLE and re.search(r"_(?:KEY|TOKEN|SECRET)$", name):
            yield value


def veiled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy to be shown or saved: without the texts whose names say that they are secret."""
    return {
        name: veiled(value)
        if isinstance(value, Mapping)
        else HIDDEN
        if isinstance(value, str) and _SECRET_NAME.search(name)
        else value
        for name, value in settings.items()
    }


class _KeyFilter(logging.Filter):
    """Takes known secrets out of records, before any handler sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: frozenset[str] = frozenset()

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        shown = hidden(said, self.secrets) if self._in(said) else said
        if shown != said:
            record.msg, record.args = shown, None
        if record.exc_info and record.exc_info[1] is not None:
            trace = logging.Formatter().formatException(record.exc_info)
            if self._in(trace):
                record.exc_info, record.exc_text = None, hidden(trace, self.secrets)
        return True

    def _in(self, text: str) -> bool:
        """Whether a beginning of a secret stands in the text: quick, as debug logs are long."""
        return any(secret[:_WHOLE] in text for secret in self.secrets)


_filter = _KeyFilter()


def hide_in_logs(secrets: Iterable[str], loggers: Iterable[str]) -> None:
    """From now on, what these loggers say is said without the secrets."""
    _filter.secrets |= frozenset(secrets)
    for name in loggers:
        logger = logging.getLogger(name)
        if _filter not in logger.filters:
            logger.addFilter(_filter)
