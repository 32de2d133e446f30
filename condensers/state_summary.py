"""What is known of a piece of work, field by field: asked for, merged, written and read back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import takewhile
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ..memory.rendering import clean
from .sections import LEFT_OUT, Section, fitted, quoted, read_sections, shortened, unquoted, written
from .summary_fields import Notes, Text, Texts, as_text

__all__ = ["LEAST_CHARS", "StateSummary"]

LEAST_CHARS = 1_000  # of a summary: its first line and its last one always have room

FIRST_LINE = "What was done in earlier events that are no longer shown, field by field:"
_LENGTHS = (10**9, 1_000, 300)  # characters of an entry, as room allows
_SHORTEST = 12  # characters of a text that may stand for a longer one


def _asked(told: str, *, weight: int = 2, keep: str = "newest") -> Any:
    """A field, with what the model is told of it, and its share of the room (see ``Section``)."""
    return Field(
        None,
        validate_default=True,
        description=told,
        json_schema_extra={"weight": weight, "keep": keep},
    )


class StateSummary(BaseModel):
    """What is known of a piece of work. Immutable; ``parse(render())`` gives the same one back,
    without ``solved_errors``, which are never written.

    A value of another type is taken as well: a text for a list is one entry a line, a list for a
    text is joined, null is empty, notes may be objects or ``name: note``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    user_requirements: Texts = _asked(
        "What the user wants: wishes, limits and corrections, in the user's own words.",
        weight=8,
        keep="both",
    )
    goal: Text = _asked("What the work is for, in a sentence or two.", weight=3)
    current_state: Text = _asked("Where the work stands at the end of the record.", weight=3)
    next_step: Text = _asked("What the agent was about to do.", weight=3)
    pending: Texts = _asked("What is still to be done.", weight=6, keep="both")
    completed: Texts = _asked(
        "What is done. For what was pending: its text, word for word; after a colon more may follow"
    )
    files: Notes = _asked("Files that matter: what was done to them, what is in them.", weight=6)
    functions: Notes = _asked("Functions and classes that were changed or matter, and how.")
    data_structures: Texts = _asked("Data structures and formats that matter.")
    tests_written: Texts = _asked("Tests that were written.")
    tests_failing: Texts = _asked("Tests that failed when they last ran.", weight=4)
    tests_passing: Texts = _asked("Tests that passed when they last ran.")
    errors: Texts = _asked("Errors that are still open, and what was tried.", weight=4)
    solved_errors: Texts = _asked("Open errors of the previous summary that are solved, verbatim.")
    decisions: Texts = _asked("Decisions, each with its reason.", weight=3)
    branch: Text = _asked("The branch that is worked on.", weight=1)
    commits: Texts = _asked("Commits that were made.")
    pull_request: Text = _asked("The pull request, and how it stands.", weight=1)
    dependencies: Texts = _asked("Dependencies that were added, removed or changed.")
    environment: Texts = _asked("Commands and settings that are needed: how to build, run, test.")
    facts: Texts = _asked("Facts to keep: ids, numbers, addresses, what was found out.", weight=4)
    other: Texts = _asked("What matters and fits nowhere else.")
    notes: Texts = _asked("", weight=3, keep="both")
    """The lines of summaries without fields. It is not asked for."""
    left_out: dict[str, int] = Field(default_factory=dict)
    """How many entries of each field had no room."""

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> StateSummary:
        """What a model has filled in. OpenHands' names are taken as well; what has an unknown name
        is kept in ``other``. Raises ``RecursionError`` for values that are nested too deeply."""
        found: dict[str, Any] = {}
        other: list[str] = []
        for key, value in given.items():
            name = _name(key)
            if name in ASKED and not _is_flag(value):
                found[name] = [found[name], value] if name in found else value
            elif text := as_text(value, "; "):
                other.append(f"{key}: {text}")
        if other:
            found["other"] = [cls.model_validate({"other": found.get("other")}).other, other]
        return cls.model_validate(found)

    @classmethod
    def known(cls, given: Mapping[str, Any]) -> int:
        """How many of the names are those of fields."""
        return sum(_name(key) in ASKED for key in given)

    @classmethod
    def tool(cls, name: str, description: str) -> dict[str, Any]:
        """A tool whose arguments are the fields, in OpenAI's shape."""
        properties = {
            field: {**_schema_of(field), "description": cls.model_fields[field].description}
            for field in ASKED
        }
        parameters = {"type": "object", "properties": properties}
        return {
            "type": "function",
            "function": {"name": name, "description": description, "parameters": parameters},
        }

    # ------------------------------------------------------------------ merging

    def merge(self, newer: StateSummary) -> StateSummary:
        """This summary, brought up to date by one of later events, field by field.

        A text is replaced by a newer one; entries and notes stay, and newer ones follow. What
        leaves a field is named by the newer summary: an entry of ``pending`` that ``completed``
        repeats, and the other way round; the same for ``tests_failing`` and ``tests_passing``; an
        error that ``solved_errors`` repeats, or the beginning of it.
        """
        merged = {
            name: _together(getattr(self, name), getattr(newer, name))
            for name in type(self).model_fields
        }
        for first, second in (("completed", "pending"), ("tests_failing", "tests_passing")):
            ours, theirs = getattr(newer, first), getattr(newer, second)
            theirs = _without(theirs, ours)  # a summary that says both means the first
            merged[first] = _union(_without(getattr(self, first), theirs), ours)
            merged[second] = _union(_without(getattr(self, second), ours), theirs)
        still = (e for e in self.errors if not _is_solved(e, newer.solved_errors))
        merged["errors"] = _union(still, newer.errors)
        counts = dict(self.left_out)
        for noun, count in newer.left_out.items():
            counts[noun] = counts.get(noun, 0) + count
        return self.model_copy(update={**merged, "left_out": counts})

    # ------------------------------------------------------------------ text

    def render(self, max_chars: int | None = None) -> str:
        """The summary as text of at most ``max_chars`` characters: from 1,000 on the limit holds.

        Where it binds, long entries are shortened; what has no room is counted in the last line.
        """
        room = (10**9 if max_chars is None else max_chars) - len(FIRST_LINE) - 2
        text, _ = fitted([self._section(name) for name in SHOWN], room, self.left_out)
        return f"{FIRST_LINE}\n\n{text}" if text else FIRST_LINE

    def _section(self, name: str) -> Section:
        value: Any = getattr(self, name)
        if isinstance(value, str):
            value = (value,) if value else ()
        if isinstance(value, dict):
            variants = [[_noted(*note, limit) for note in value.items()] for limit in _LENGTHS]
        else:
            variants = [[written(shortened(text, limit)) for text in value] for limit in _LENGTHS]
        shown: Any = type(self).model_fields[name].json_schema_extra
        title = name.replace("_", " ")
        return Section(title.capitalize(), title, variants, **shown)

    @classmethod
    def parse(cls, text: str) -> StateSummary:
        """The summary that stands in a text. What stands before one or behind its end, and a text
        that is none, is carried over line by line; OpenHands' structured summary is read."""
        foreign, *own = re.split(f"^{re.escape(FIRST_LINE)}$", text, flags=re.MULTILINE)
        states = [_of_foreign(foreign)]
        for piece in own:
            lines = piece.split("\n")
            part = list(takewhile(_is_part, lines))
            states.append(_of_entries("\n".join(part)))
            states.append(_of_foreign("\n".join(lines[len(part) :])))
        told = [state for state in states if state != StateSummary()]
        return reduce(StateSummary.merge, told) if told else StateSummary()


SHOWN = [name for name in StateSummary.model_fields if name not in ("solved_errors", "left_out")]
ASKED = [name for name in StateSummary.model_fields if name not in ("notes", "left_out")]


# ---------------------------------------------------------------------- asking and reading

_OTHER_NAMES = {  # OpenHands'
    "user_context": "user_requirements",
    "completed_tasks": "completed",
    "pending_tasks": "pending",
    "files_modified": "files",
    "function_changes": "functions",
    "failing_tests": "tests_failing",
    "error_messages": "errors",
    "branch_name": "branch",
    "commits_made": "commits",
    "pr_status": "pull_request",
    "other_relevant_context": "other",
}


def _name(key: Any) -> str:
    name = "_".join(re.findall(r"\w+", str(key).lower()))
    return _OTHER_NAMES.get(name, name)


def _is_flag(value: Any) -> bool:
    """What some of OpenHands' fields hold: an answer to a question that is no field here."""
    return as_text(value).lower() in ("true", "false", "unknown")


def _schema_of(name: str) -> dict[str, Any]:
    text = {"type": "string"}
    kind = StateSummary.model_fields[name].annotation
    if kind is str:
        return text
    if name not in _NOTED:
        return {"type": "array", "items": text}
    key = _NOTED[name]
    note = {"type": "object", "properties": {key: text, "note": text}, "required": [key, "note"]}
    return {"type": "array", "items": note}


_NOTED = {"files": "path", "functions": "name"}


# ---------------------------------------------------------------------- merging


def _together(old: Any, new: Any) -> Any:
    if isinstance(old, tuple):
        return _union(old, new)
    if isinstance(old, str):
        return new or old
    return {**{k: v for k, v in old.items() if k not in new}, **_kept_notes(old, new)}


def _kept_notes(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {name: note or old.get(name, note) for name, note in new.items()}


def _union(old: Iterable[str], new: Sequence[str]) -> tuple[str, ...]:
    """Each once, where it was said last."""
    again = set(new)
    return (*(entry for entry in old if entry not in again), *new)


def _without(entries: Iterable[str], named: Sequence[str]) -> tuple[str, ...]:
    """The entries that none of ``named`` repeats, be it with more behind it."""
    return tuple(e for e in entries if not any(_repeats(one, e) for one in named))


_MORE = re.compile(r"\s*[.,:;](?:\s|$)|\s+[(\[\u2013\u2014-]|$")


def _repeats(text: str, entry: str) -> bool:
    return text.startswith(entry) and _MORE.match(text, len(entry)) is not None


def _is_solved(error: str, solved: Sequence[str]) -> bool:
    return any(_repeats(one, error) or _begins(error, one) for one in solved)


def _begins(text: str, start: str) -> bool:
    """Whether a text begins with another one that is long enough to be meant."""
    if len(start) < _SHORTEST or not text.startswith(start):
        return False
    return not text[len(start) : len(start) + 1].isalnum()


# ---------------------------------------------------------------------- text


def _noted(name: str, note: str, limit: int) -> str:
    return f"{quoted(name)}: {written(shortened(note, limit))}" if note else quoted(name)


def _is_part(line: str) -> bool:
    return not line or line.startswith(("## ", "- ", LEFT_OUT))


def _of_entries(text: str) -> StateSummary:
    entries, left_out = read_sections(text)
    found: dict[str, list[Any]] = {}
    for title, entry in entries:
        name = title.lower().replace(" ", "_")
        if name not in SHOWN:
            name, entry = "notes", f"{title}: {entry}"
        try:
            found.setdefault(name, []).append(_of_entry(name, entry))
        except ValueError:  # a broken quotation is no entry of ours
            found.setdefault("notes", []).append(entry)
    return StateSummary.model_validate({**found, "left_out": left_out})


def _of_entry(name: str, entry: str) -> Any:
    text, rest = unquoted(entry)
    if name not in _NOTED:
        return text
    return {"name": text, "note": unquoted(rest.removeprefix(": "))[0]}


_HEADINGS = re.compile(
    r"# State Summary|## (?:Core Information|Code Changes|Testing Status|Version Control"
    r"|Additional Context)"
)
_FIELD = re.compile(r"\*\*([\w ]{3,40})\*\*: ?(.*)")


def _of_foreign(text: str) -> StateSummary:
    """A summary of another kind: its lines; of OpenHands' structured one the fields."""
    text = clean(text).strip()
    if not text.startswith("# State Summary\n"):
        return StateSummary.model_validate({"notes": text})
    fields: dict[str, list[str]] = {}
    lines = fields.setdefault("other", [])
    for line in text.split("\n"):
        if found := _FIELD.fullmatch(line):
            lines = fields.setdefault(found[1], [])
            line = found[2]
        if not _HEADINGS.fullmatch(line):
            lines.append(line)
    return StateSummary.read({key: "\n".join(lines) for key, lines in fields.items()})
