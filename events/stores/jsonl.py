"""A store on disk: one file of eventfold's JSONL for each session."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from ..event import Event, EventfoldError, InvalidEvent
from ..formats.eventfold_jsonl import head_line, is_head_line
from ..serialization import event_from_dict, event_to_dict
from .base import between, check_next

__all__ = ["BrokenFile", "JsonlEventStore"]

_log = logging.getLogger(__name__)


class BrokenFile(EventfoldError):
    """A session's file holds something else than its events; nothing in it was changed."""


class JsonlEventStore:
    """An :class:`EventStore` in a folder: each session is a file that ``read_runs`` reads, too.

    What was appended is on the disk when ``append`` returns, also if the process is killed the
    moment after (``sync=False`` leaves it to the operating system when the disk has it, which only
    a crash of the machine can undo). A last line that a crash has torn is set aside in a file
    beside it, ``<name>.torn``, and told in the log; the events before it are all there, and of
    several that were appended at once, those whose lines are whole.

    Several processes may append to one session: a lock on the file lets one in at a time, and each
    reads what the others have added. Raises :class:`BrokenFile` for a file that is damaged
    elsewhere than at its end.
    """

    def __init__(self, folder: str | Path, *, sync: bool = True) -> None:
        self.folder = Path(folder)
        self.sync = sync
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()

    def path(self, session_id: str) -> Path:
        """The session's file, which is there once it has events."""
        return self.folder / f"{quote(session_id, safe=' ')}.jsonl"

    def append(self, session_id: str, events: Sequence[Event]) -> None:
        lines = b"".join(_line(event_to_dict(event)) for event in events)
        with self._lock:
            self.folder.mkdir(parents=True, exist_ok=True)
            session = self._session(session_id)
            with _locked(session.path) as file:
                session.catch_up(file)
                check_next(session_id, len(session.events), events)
                if not session.size:
                    lines = _line(head_line(session_id)) + lines
                try:
                    file.write(lines)
                    file.flush()
                    if self.sync:
                        os.fsync(file.fileno())
                except OSError:  # the disk is full, say: nothing of it stays
                    file.truncate(session.size)
                    raise
                session.size += len(lines)
                session.events.extend(events)

    def read(
        self, session_id: str, start: int = 0, stop: int | None = None, *, reverse: bool = False
    ) -> Iterator[Event]:
        return between(self._current(session_id), start, stop, reverse=reverse)

    def count(self, session_id: str) -> int:
        return len(self._current(session_id))

    def _session(self, session_id: str) -> _Session:
        if session_id not in self._sessions:
            self._sessions[session_id] = _Session(self.path(session_id))
        return self._sessions[session_id]

    def _current(self, session_id: str) -> list[Event]:
        with self._lock:
            session = self._session(session_id)
            if session.has_grown():
                with _locked(session.path) as file:
                    session.catch_up(file)
            return session.events


class _Session:
    """What is known of a session's file: its first ``size`` bytes, and the events in them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.events: list[Event] = []

    def has_grown(self) -> bool:
        try:
            return self.path.stat().st_size != self.size
        except FileNotFoundError:
            return False

    def catch_up(self, file: BinaryIO) -> None:
        """Reads what others have added; sets aside what a crash has torn."""
        file.seek(self.size)
        added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        place = self.size
        found: list[Event] = []
        for line in whole.splitlines(keepends=True):
            found += self._read(line, place, len(self.events) + len(found))
            place += len(line)
        if torn := added[len(whole) :]:
            aside = self.path.with_suffix(".torn")
            aside.write_bytes(torn)
            file.truncate(place)
            _log.warning("%s: %d bytes of a torn line set aside in %s", self.path, len(torn), aside)
        self.size = place
        self.events.extend(found)

    def _read(self, line: bytes, place: int, event_id: int) -> list[Event]:
        """The event of a line; none for the head line, which begins the file."""
        try:
            value = json.loads(line)
            if place == 0 and is_head_line(value):
                return []
            event = event_from_dict(value)
        except (ValueError, InvalidEvent) as error:
            raise BrokenFile(f"{self.path}, byte {place}: no event: {error}") from error
        if event.id != event_id:
            raise BrokenFile(
                f"{self.path}, byte {place}: the event {event_id} is expected, found {event.id}"
            )
        return [event]


def _line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """The file, to be read and appended to, while no other process does so."""
    with open(path, "a+b") as file:
        try:
            import fcntl
        except ImportError:  # where there is none, one process a session
            yield file
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield file
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
