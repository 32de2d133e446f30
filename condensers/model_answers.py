"""What a language model's answer says, in whatever form it comes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

__all__ = ["ids_in", "without_thoughts"]

# Before the answer; of some models only the closing tag comes. In a JSON text neither a line's end
# nor another JSON text follows a tag that is a part of what is told.
_THOUGHTS = re.compile(
    r"\A(?:\s*<think(?:ing)?>.*?</think(?:ing)?>)+"
    r"|\A(?:(?!<think).)*?</think(?:ing)?>(?=\s*[\n{\[])",
    re.DOTALL | re.IGNORECASE,
)
_TRIES = 200  # places in a text at which a list may begin
_DECODER = json.JSONDecoder()
_NAME = re.compile(r"""["']ids["']\s*:\s*(?=\[)""")
_LIST = re.compile(r"\[")
_NUMBER = re.compile(r"(?<![\w.-])\d{1,18}(?!\w|\.\d)", re.ASCII)
_ITEM = re.compile(r"^[ \t]*\d+[.)][ \t]+(?=[^\d\n]*\d)", re.ASCII | re.MULTILINE)


def without_thoughts(answer: str) -> str:
    """An answer without what a model wrote between ``<think>`` or ``<thinking>`` tags before it."""
    return _THOUGHTS.sub("", answer)


def ids_in(answer: str) -> list[int]:
    """The whole numbers of the last list that has the name "ids"; without one, those of the first
    list with a number; without one, those in the text, where the numbers of a numbered list are
    none. What the model thought before it answered does not count."""
    answer = without_thoughts(answer)
    named = [found.end() for found in _NAME.finditer(answer)]
    for ids, text in _lists_at(reversed(named), answer):
        return ids or _numbers_in(text)
    lists = _lists_at((found.start() for found in _LIST.finditer(answer)), answer)
    return next((ids for ids, _ in lists if ids), None) or _numbers_in(answer)


def _lists_at(places: Iterable[int], text: str) -> Iterator[tuple[list[int], str]]:
    """The whole numbers of each JSON list that begins at one of these places, and its text."""
    for place in islice(places, _TRIES):
        try:
            found, end = _DECODER.raw_decode(text, place)
            ids = list(_whole_numbers(found))
        except (ValueError, RecursionError):
            continue
        yield ids, text[place:end]


def _whole_numbers(found: Any) -> Iterator[int]:
    if isinstance(found, list):
        for one in found:
            yield from _whole_numbers(one)
    elif type(found) is int or (isinstance(found, float) and found.is_integer()):
        yield int(found)  # and not a truth value


def _numbers_in(text: str) -> list[int]:
    return [int(found) for found in _NUMBER.findall(_ITEM.sub("", text))]
