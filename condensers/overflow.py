"""Telling a context overflow of the history from every other refusal, by how providers word it."""

from __future__ import annotations

import re

__all__ = ["is_context_overflow"]

_OVERFLOW = re.compile(
    r"""
      prompt\ is\ too\ long
    | input\ is\ too\ long\ for\ (?:the\ )?requested\ model
    | (?:maximum|max)\ (?:context|prompt)\ length
    | context[ _]length[ _](?:is\ )?exceeded
    | exceed(?:s|ed)?\ (?:the\ |your\ )?(?:model'?s\ )?context\ (?:window|length|limit|size)
    | exceed(?:s|ed)?\ the\ available\ context\ size
    | longer\ than\ the\ model'?s\ (?:maximum\ )?context\ length
    | exceed(?:s|ed)?\ (?:the\ )?model\ token\ limit
    | input\ tokens\ exceed\ the\ configured\ limit
    | input\ token\ count\ .*exceeds\ the\ maximum
    | .inputs.\ tokens\ \+\ .max_new_tokens.\ must\ be
    | reduce\ the\ length\ of\ (?:the\ messages|either\ one|(?:the\ |your\ )(?:input\ )?prompt)
    | request\ too\ large.*context
    | context[ ]?window[ ]?exceed(?:ed|s)
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)

# Worded alike, but a shorter history would not help, or not be needed.
_SOMETHING_ELSE = re.compile(
    r"tokens per (?:minute|min|day)|\bTPM\b|rate.?limit|quota|minimum .*cach", re.IGNORECASE
)

# Refusals that state the limit, the input, and the reserved output, in one of these forms:
# "7900 + 131072 > 131072"
_SUM = re.compile(r"(?P<input>\d[\d,]*)\s*\+\s*\d[\d,]*\s*>\s*(?P<limit>\d[\d,]*)")
# "maximum context length is 131072 tokens ... (7900 in the messages, 131072 in the completion)"
_SHARES = re.compile(
    r"maximum context length (?:is|of) (?P<limit>\d[\d,]*).*?(?P<input>\d[\d,]*)"
    r"(?: input tokens|(?: tokens)? (?:in|from|of) (?:the |your )?(?:messages|prompt|input|text))",
    re.IGNORECASE | re.DOTALL,
)
# "must be <= 131072. Given: 7900 `inputs` tokens and 131072 `max_new_tokens`"
_GIVEN = re.compile(
    r"must be <= (?P<limit>\d[\d,]*).*?Given: (?P<input>\d[\d,]*) .inputs. tokens", re.DOTALL
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
    for form in (_SUM, _SHARES, _GIVEN):
        if found := form.search(text):
            return _number(found["input"]) <= _number(found["limit"]) // 2
    return False


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))
