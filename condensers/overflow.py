"""Telling a context overflow of the history from every other refusal, by how providers word it."""

from __future__ import annotations

import re

__all__ = ["is_context_overflow"]

_OVERFLOW = re.compile(
    r"""
      prompt\ is\ too\ long
    | input\ length\ and\ .?max_tokens.?\ exceed
    | maximum\ context\ length
    | context[ _]length[ _](?:is\ )?exceeded
    | exceeds?\ the\ (?:model's\ )?(?:maximum\ )?context\ (?:window|length)
    | exceeds\ the\ available\ context\ size
    | longer\ than\ the\ model'?s\ (?:maximum\ )?context\ length
    | too\ large\ for\ model\ with\ \d+\ maximum\ context\ length
    | input\ tokens\ exceed\ the\ configured\ limit
    | input\ token\ count\ .*exceeds\ the\ maximum
    | reduce\ the\ length\ of\ (?:the\ messages|either\ one|the\ prompt|your\ prompt)
    | request\ too\ large.*context
    | context[ ]?window[ ]?exceeded
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)

# Worded alike, but a shorter history would not help, or not be needed.
_SOMETHING_ELSE = re.compile(
    r"tokens per (?:minute|min|day)|\bTPM\b|rate.?limit|quota|minimum .*cach", re.IGNORECASE
)

# Refusals that state the input, the reserved output, and the limit: in this order, or
# "limit ... requested ... (input in the messages, output in the completion)".
_SUM = re.compile(r"(\d[\d,]*)\s*\+\s*(\d[\d,]*)\s*>\s*(\d[\d,]*)")
_SHARES = re.compile(
    r"maximum context length is (?P<limit>\d[\d,]*).*?(?P<input>\d[\d,]*)"
    r"(?: input tokens|(?: tokens)? (?:in|from|of) (?:the |your )?(?:messages|prompt|input|text))",
    re.IGNORECASE | re.DOTALL,
)


def is_context_overflow(error: BaseException | str) -> bool:
    """True if a provider refused a prompt because its *input* is too long for the model.

    Not for rate limits, nor for a small input whose reserved output is too large: where the refusal
    states the input, at most half the window is small.
    """
    if not isinstance(error, str) and any(
        cls.__name__ == "ContextWindowExceededError" for cls in type(error).__mro__
    ):
        return not _has_small_input(str(error))
    text = str(error)
    if _SOMETHING_ELSE.search(text) or not _OVERFLOW.search(text):
        return False
    return not _has_small_input(text)


def _has_small_input(text: str) -> bool:
    if found := _SUM.search(text):
        given, limit = _number(found[1]), _number(found[3])
    elif found := _SHARES.search(text):
        given, limit = _number(found["input"]), _number(found["limit"])
    else:
        return False
    return given <= limit // 2


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))
