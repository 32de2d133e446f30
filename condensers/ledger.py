"""The artifact ledger: what forgotten turns did to files, commands and tests. No LLM."""

from __future__ import annotations

import bisect
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

from ..events.actions import (
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    MCPAction,
)
from ..events.event import Event
from ..events.observations import CmdOutputObservation
from ..memory.rendering import clean, result_text
from ..memory.turns import Turn, is_observation
from .deeds import CHANGED, failed_tests, file_deeds, passed_tests, succeeded
from .sections import Section, fitted, quoted, read_sections, shortened, unquoted, written

__all__ = ["ArtifactLedger"]

_COMMAND = 200  # characters of a command
_ERROR = 300  # characters of an error, or of the end of a failed command's output
_ALL = 10**9

_FILES_CHANGED = "Files changed"
_FILES_SEEN = "Files read"
_COMMANDS = "Commands, with their last exit codes"
_FAILING = "Tests that failed when they last ran"
_ERRORS = "Errors still open"


@dataclasses.dataclass(frozen=True)
class ArtifactLedger:
    """Files, last exit codes, failing tests and open errors, each oldest first. Immutable.

    It can stand alone, or below any other summary: ``parse`` finds it again in a longer text, and
    ``parse(render())`` is the same ledger.

    When it is rendered within a limit, the files that were changed come first: they may take three
    quarters of the room. Where that is too little, the newest are named and the others counted by
    folder, so that none is lost without a word. Counted files that are changed again later are
    named again, so that the counts are upper bounds.
    """

    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Path to what happened to it: ``created``, ``edited``, ``deleted``, ``read`` or ``used``."""
    folders: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Folder to the number of changed files in it that are no longer named."""
    commands: Mapping[str, int | None] = dataclasses.field(default_factory=dict)
    """Command (at most 200 characters) to its last exit code; None where it is not known."""
    failing: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Test to the command that ran it."""
    errors: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What was tried to the error that came back, until it goes well."""
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """How many of each kind had no room."""
    solved: frozenset[str] = dataclasses.field(default=frozenset(), compare=False)
    """What went well, and ends the errors of an older ledger; never rendered."""

    @classmethod
    def from_turns(cls, turns: Sequence[Turn]) -> ArtifactLedger:
        """What these turns did, in their order."""
        draft = _Draft()
        for turn in turns:
            for call in turn.calls:
                draft.add(_of_call(call.action, call.result))
        return draft.ledger()

    def merge(self, newer: ArtifactLedger) -> ArtifactLedger:
        """This ledger, brought up to date by one of later turns."""
        draft = _Draft()
        draft.add(self)
        draft.add(newer)
        return draft.ledger()

    @property
    def changed(self) -> list[str]:
        """The paths that were changed and are named."""
        return [path for path, deed in self.files.items() if deed in CHANGED]

    # ------------------------------------------------------------------ text

    def needed(self) -> int:
        """The characters that the names of the changed files need, among other sections."""
        changed = _Changed.of(self)
        return changed.taken(changed.entries) * 4 // 3 if changed.entries else 0

    def render(self, max_chars: int | None = None) -> str:
        """The ledger in sections of one-line entries, within ``max_chars`` characters; empty if it
        holds nothing. Only the line that tells what had no room may exceed a limit."""
        room = _ALL if max_chars is None else max_chars
        return fitted(self.sections(), room, self.left_out)[0]

    def sections(self) -> list[Section]:
        """The sections that :meth:`render` writes."""
        seen = [f"{deed} {written(p)}" for p, deed in self.files.items() if deed not in CHANGED]
        commands = [f"exit {_code(code)}: {written(c)}" for c, code in self.commands.items()]
        failing = [f"{quoted(test)} by {written(by)}" for test, by in self.failing.items()]
        errors = [f"{quoted(tried)} ended in {written(e)}" for tried, e in self.errors.items()]
        return [
            _Changed.of(self),
            Section(_FAILING, "failing tests", [failing], 4),
            Section(_ERRORS, "errors", [errors], 4),
            Section(_COMMANDS, "commands", [commands], 2),
            Section(_FILES_SEEN, "files read", [seen]),
        ]

    @classmethod
    def parse(cls, text: str) -> ArtifactLedger:
        """The ledger that stands in a text; an empty one if there is none.

        Lines of other forms are passed over; nothing is raised.
        """
        entries, left_out = read_sections(text)
        ledger = cls.from_entries(entries)
        own = {section.noun for section in cls().sections()}
        return dataclasses.replace(
            ledger, left_out={noun: n for noun, n in left_out.items() if noun in own}
        )

    @classmethod
    def from_entries(cls, entries: Sequence[tuple[str, str]]) -> ArtifactLedger:
        """The ledger in (title, entry) pairs."""
        draft = _Draft()
        for title, entry in entries:
            try:
                draft.add(_of_entry(title, entry))
            except ValueError:  # no entry of ours
                continue
        return draft.ledger()


class _Draft:
    """A ledger in the making: of one call, of one entry, or of all that is added to it."""

    __slots__ = ("commands", "errors", "failing", "files", "folders", "left_out", "solved")

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.folders: dict[str, int] = {}
        self.commands: dict[str, int | None] = {}
        self.failing: dict[str, str] = {}
        self.errors: dict[str, str] = {}
        self.left_out: dict[str, int] = {}
        self.solved: set[str] = set()

    def add(self, newer: ArtifactLedger | _Draft) -> None:
        """Brings this ledger up to date by a newer one."""
        for path, deed in newer.files.items():
            before = self.files.pop(path, None)
            self.files[path] = _together(before, deed)
        for counts, more in ((self.folders, newer.folders), (self.left_out, newer.left_out)):
            for name, count in more.items():
                counts[name] = counts.get(name, 0) + count
        for command, code in newer.commands.items():
            self.commands.pop(command, None)
            self.commands[command] = code
            if self.failing or self.errors:
                reported = command in newer.failing.values() and not _STOPS_EARLY.search(command)
                if code == 0 or reported:
                    self._ran_again(command)
        for solved in newer.solved:
            self.errors.pop(solved, None)
            self.failing.pop(solved, None)
        for latest, those in ((self.failing, newer.failing), (self.errors, newer.errors)):
            for name, text in those.items():
                latest.pop(name, None)
                latest[name] = text
        self.solved |= newer.solved

    def _ran_again(self, command: str) -> None:
        """What an older command found is of the past: this one has run all of it."""
        for test, by in [*self.failing.items()]:
            if _covers(command, by):
                del self.failing[test]
                self.errors.pop(f"run {by}", None)
        runs = _runs(command)
        for tried in [*self.errors]:
            if tried.startswith("run ") and runs and _runs(tried[4:]) == runs:
                del self.errors[tried]

    def ledger(self) -> ArtifactLedger:
        return ArtifactLedger(
            self.files,
            self.folders,
            self.commands,
            self.failing,
            self.errors,
            self.left_out,
            frozenset(self.solved),
        )


def _together(before: str | None, deed: str) -> str:
    """What both did to a file: a change counts more than a look at it."""
    if before is None:
        return deed
    if deed not in CHANGED:
        return before if before in CHANGED or deed == "used" else deed
    return "created" if before == "created" and deed == "edited" else deed


_STOPS_EARLY = re.compile(r"\s(?:-x|--exitfirst|--maxfail|-f|--failfast)\b")


def _covers(command: str, older: str) -> bool:
    """Whether a test command runs all that an older one did: each part of that begins like one of
    its own. Behind a pipe neither exit code nor output are the whole truth."""
    new, old = _runs(command), _runs(older)
    return "|" not in command and all(any(o[: len(n)] == n for n in new) for o in old)


def _runs(command: str) -> list[list[str]]:
    """The parts of a command as words, without options and changes of the folder."""
    parts = [
        [word for word in part.split() if word == "-m" or not word.startswith("-")]
        for part in command.split("&&")
    ]
    return [words for words in parts if words and words[0] != "cd"]


# ---------------------------------------------------------------------- one call


def _of_call(action: Event, result: Event | None) -> _Draft:
    done = _Draft()
    for deed, path in file_deeds(action, result):
        path = clean(path)
        done.files[path] = _together(done.files.get(path), deed)
    done.solved.update(_solved(done.files))
    if isinstance(action, CmdRunAction) and action.command.strip() and not action.is_input:
        _add_command(done, action, result)
    elif is_observation(action) and not succeeded(action):
        done.errors[_tried(action)] = shortened(result_text(action), _ERROR)
    elif result is None and not is_observation(action):
        pass  # nothing has come back yet
    elif succeeded(result):
        done.solved.add(_tried(action))
    else:
        assert result is not None
        done.errors[_tried(action)] = shortened(result_text(result), _ERROR)
    return done


def _add_command(done: _Draft, action: CmdRunAction, result: Event | None) -> None:
    command = shortened(action.command.strip(), _COMMAND)
    if not isinstance(result, CmdOutputObservation):
        code, output = None, "" if result is None else result_text(result)
        went_well = result is not None and succeeded(result)
    else:
        code = None if result.exit_code == -1 else result.exit_code
        output, went_well = result.content, code == 0
    done.commands[command] = code
    failing = failed_tests(output)
    done.failing = {shortened(test, _COMMAND): command for test in failing}
    done.solved |= passed_tests(output).difference(failing)
    if went_well:
        done.solved.add(f"run {command}")
    elif not (code is None and succeeded(result)):  # it may be running still
        lines = [line for line in clean(output).split("\n") if line.strip()]
        if error := shortened("\n".join(lines[-3:]), _ERROR):
            done.errors[f"run {command}"] = error


def _tried(event: Event) -> str:
    """What was tried, as the name of an error."""
    if isinstance(event, FileReadAction):
        return f"read {clean(event.path)}"
    if isinstance(event, FileWriteAction | FileEditAction):
        is_view = isinstance(event, FileEditAction) and event.command == "view"
        return f"{'read' if is_view else 'edit'} {clean(event.path)}"
    if isinstance(event, MCPAction):
        paths = [path for _, path in file_deeds(event, None)]
        return shortened(" ".join([event.name, *paths]), _COMMAND)
    if is_observation(event) or event.tool_call_metadata is None:
        return event.kind or "unknown"
    return clean(event.tool_call_metadata.function_name) or event.kind


def _solved(files: Mapping[str, str]) -> Iterator[str]:
    for path, deed in files.items():
        yield f"read {path}"
        if deed in CHANGED:
            yield f"edit {path}"


# ---------------------------------------------------------------------- entries


def _code(code: int | None) -> str:
    return "?" if code is None else str(code)


_FOLDER = re.compile(r"up to (\d{1,12}) more in (.+)")
_EXIT = re.compile(r"exit (\?|-?\d{1,12}): (.+)")
_FILE = re.compile(rf"({'|'.join((*CHANGED, 'read', 'used'))}) (.+)")


def _of_entry(title: str, entry: str) -> _Draft:
    """The ledger of one entry. Raises ``ValueError`` if it is none."""
    read = _Draft()
    if title == _FILES_CHANGED and (found := _FOLDER.fullmatch(entry)):
        read.folders[unquoted(found[2])[0]] = int(found[1])
    elif title in (_FILES_CHANGED, _FILES_SEEN) and (found := _FILE.fullmatch(entry)):
        read.files[unquoted(found[2])[0]] = found[1]
    elif title == _COMMANDS and (found := _EXIT.fullmatch(entry)):
        read.commands[unquoted(found[2])[0]] = None if found[1] == "?" else int(found[1])
    elif title in (_FAILING, _ERRORS):
        name, rest = unquoted(entry)
        link, entries = (" by ", read.failing) if title == _FAILING else (" ended in ", read.errors)
        if rest.startswith(link):
            entries[name] = unquoted(rest.removeprefix(link))[0]
    return read


@dataclasses.dataclass(frozen=True)
class _Changed(Section):
    """The changed files: named, the newest before all; the others counted by folder."""

    paths: Sequence[str] = ()
    counted: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, ledger: ArtifactLedger) -> _Changed:
        named = [f"{d} {written(p)}" for p, d in ledger.files.items() if d in CHANGED]
        folders = [_folder_entry(*pair) for pair in ledger.folders.items()]
        return cls(
            _FILES_CHANGED,
            "changed files",
            [[*folders, *named]],
            important=True,
            paths=ledger.changed,
            counted=ledger.folders,
        )

    def fit(self, room: int) -> tuple[list[str], int]:
        if self.taken(self.entries) <= room:
            return list(self.entries), 0
        named = self.entries[len(self.counted) :]

        def entries(count: int) -> list[str]:
            """The oldest ``count`` files counted, the others named."""
            folders = dict(self.counted)
            for path in self.paths[:count]:
                folder = _folder(path)
                folders[folder] = folders.get(folder, 0) + 1
            return [*(_folder_entry(*pair) for pair in folders.items()), *named[count:]]

        count = bisect.bisect_left(
            range(len(named)), True, key=lambda n: self.taken(entries(n)) <= room
        )
        chosen = entries(count)
        if self.taken(chosen) <= room:
            return chosen, 0
        # Not even the folders fit: the others are one number.
        left, most = 0, sorted(self.counted_all().items(), key=lambda pair: -pair[1])
        while most and self.taken(_folder_entry(*pair) for pair in most) > room:
            left += most.pop()[1]
        return [_folder_entry(*pair) for pair in most], left

    def counted_all(self) -> dict[str, int]:
        folders = dict(self.counted)
        for path in self.paths:
            folders[_folder(path)] = folders.get(_folder(path), 0) + 1
        return folders


def _folder(path: str) -> str:
    if re.search(r"[/\\]", path) is None:
        return "."
    return re.sub(r"[/\\][^/\\]*$", "", path) or "/"


def _folder_entry(folder: str, count: int) -> str:
    return f"up to {count} more in {written(folder)}"
