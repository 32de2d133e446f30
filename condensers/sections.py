"""Sections of one-line entries: written, fitted to a number of characters, and read back.

The form is made to be parsed: whatever texts hold, each entry is one line that begins with ``- ``,
so that no text can pose as a title or as another entry.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence

from ..memory.rendering import clean

__all__ = ["Section", "fitted", "quoted", "read_sections", "shortened", "unquoted", "written"]

LEFT_OUT = "Left out for lack of room: "

# Characters that end a line somewhere, are invisible, or turn the direction of writing.
_ODD = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)
_DECODER = json.JSONDecoder()


# ---------------------------------------------------------------------- texts


def quoted(text: str) -> str:
    """The text as a JSON string in one line, readable wherever it can be."""
    said = json.dumps(clean(text), ensure_ascii=False)
    return _ODD.sub(lambda found: f"\\u{ord(found.group()):04x}", said)


def written(text: str) -> str:
    """The text as it is, or quoted if it would not be one plain line."""
    text = clean(text)
    plain = text and text == text.strip() and text[0] != '"' and not _ODD.search(text)
    return text if plain else quoted(text)


def unquoted(line: str) -> tuple[str, str]:
    """The text that stands at the beginning of a line, and what follows it.

    The inverse of :func:`quoted`, and of :func:`written` where nothing follows. Raises
    ``ValueError`` for a broken quotation.
    """
    if not line.startswith('"'):
        return line, ""
    text, end = _DECODER.raw_decode(line)
    return text, line[end:]


def shortened(text: str, limit: int) -> str:
    """At most ``limit`` characters: the beginning, and a third of the room for the end."""
    text = clean(text)
    if len(text) <= limit:
        return text
    end = (limit - 3) // 3
    return f"{text[: limit - 3 - end].rstrip()} … {text[len(text) - end :].lstrip()}"


# ---------------------------------------------------------------------- sections


@dataclasses.dataclass(frozen=True)
class Section:
    """Entries of one kind under a title.

    ``variants`` are the same entries at different lengths, the fullest first. What does not fit is
    left out from the oldest on (``keep="newest"``), from the end (``"first"``), or from the second
    on (``"both"``), and counted under ``noun``. ``weight`` is the share of the room, next to those
    of the other sections; an ``important`` one is served before them, with up to three quarters of
    the room.
    """

    title: str
    noun: str
    variants: Sequence[Sequence[str]]
    weight: int = 1
    keep: str = "newest"
    important: bool = False

    @property
    def entries(self) -> Sequence[str]:
        return self.variants[0]

    def taken(self, entries: Iterable[str]) -> int:
        """The characters of the section with these entries."""
        return len(self.title) + 5 + sum(len(entry) + 3 for entry in entries)

    def fit(self, room: int) -> tuple[list[str], int]:
        """The entries for so many characters, and how many are left out."""
        for entries in self.variants:
            if self.taken(entries) <= room:
                return list(entries), 0
        return self._some(self.variants[-1], room - self.taken(()))

    def _some(self, entries: Sequence[str], room: int) -> tuple[list[str], int]:
        order = list(range(len(entries)))
        if self.keep == "newest":
            order.reverse()
        elif self.keep == "both":
            order[1:] = reversed(order[1:])
        chosen: list[int] = []
        for place in order:
            room -= len(entries[place]) + 3
            if room < 0:
                break
            chosen.append(place)
        return [entries[place] for place in sorted(chosen)], len(entries) - len(chosen)


def fitted(
    sections: Sequence[Section], room: int, left_out: Mapping[str, int]
) -> tuple[str, dict[str, int]]:
    """The sections as text of at most ``room`` characters, and what has been left out by noun.

    ``left_out`` is what was left out before; all of it is told in a last line. Only that line may
    exceed the room.
    """
    sections = [section for section in sections if section.entries]
    text, lost = _filled(sections, room, left_out)
    if len(text) > room:
        most = len(_told(_all_left_out(sections, left_out))) + 2
        text, lost = _filled(sections, room - most, left_out)
    return text, lost


def _filled(
    sections: Sequence[Section], room: int, left_out: Mapping[str, int]
) -> tuple[str, dict[str, int]]:
    """The sections within the room, and below it the line that tells what has been left out."""
    lost = dict(left_out)
    parts = []
    for section, share in zip(sections, _shares(sections, room), strict=True):
        entries, count = section.fit(share)
        if count:
            lost[section.noun] = lost.get(section.noun, 0) + count
        if entries:
            parts.append("\n".join((f"## {section.title}", *(f"- {e}" for e in entries))))
    return "\n\n".join((*parts, *([_told(lost)] if lost else []))), lost


def _all_left_out(sections: Sequence[Section], left_out: Mapping[str, int]) -> dict[str, int]:
    """The most that could have to be told."""
    lost = dict(left_out)
    for section in sections:
        lost[section.noun] = lost.get(section.noun, 0) + len(section.entries)
    return lost


def _told(left_out: Mapping[str, int]) -> str:
    return LEFT_OUT + ", ".join(f"{count} {noun}" for noun, count in sorted(left_out.items())) + "."


def _shares(sections: Sequence[Section], room: int) -> list[int]:
    """The characters for each section: what it needs, or a fair share by weight."""
    shares = [0] * len(sections)
    needs = [section.taken(section.entries) for section in sections]
    others = sum(n for n, section in zip(needs, sections, strict=True) if not section.important)
    for n, section in enumerate(sections):
        if section.important:
            shares[n] = min(needs[n], max(room * 3 // 4, room - others))
    room = max(0, room - sum(shares))
    places = [n for n, section in enumerate(sections) if not section.important]
    places.sort(key=lambda n: needs[n] / sections[n].weight)  # the modest ones first
    weights = sum(sections[n].weight for n in places)
    for n in places:
        shares[n] = min(needs[n], room * sections[n].weight // weights)
        room -= shares[n]
        weights -= sections[n].weight
    return shares


_COUNT = re.compile(r"(\d{1,12}) ([a-z ]+)")


def read_sections(text: str) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Every (title, entry) of a text, and the counts of what was left out.

    Lines of any other form are passed over.
    """
    entries: list[tuple[str, str]] = []
    left_out: dict[str, int] = {}
    title = ""
    for line in text.split("\n"):
        if line.startswith("- ") and title:
            entries.append((title, line[2:]))
        elif line.startswith(LEFT_OUT):
            for count, noun in _COUNT.findall(line.removeprefix(LEFT_OUT)):
                left_out[noun] = left_out.get(noun, 0) + int(count)
        elif line.startswith("## "):
            title = line[3:]
        else:
            title = title if not line else ""
    return entries, left_out
