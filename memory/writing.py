"""Writing a run to a file, in one of the formats that runs are read from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from ..events.event import InvalidArgument
from ..events.formats.base import Run
from ..events.formats.openhands_v0_logs import NAME as OPENHANDS_V0, recorded_dicts

__all__ = ["write_run"]


def write_run(
    run: Run,
    path: str | os.PathLike[str],
    format: str = OPENHANDS_V0,  # noqa: A002
) -> None:
    """Writes a run to a file, whole or not at all: until it is whole, an old file stays.

    ``openhands_v0`` is a JSON array of events, one a line, as OpenHands saves and replays it; it
    has the recorded ids if the run was read from such a log. Raises :class:`InvalidArgument` for a
    format that cannot be written, and ``OSError``.
    """
    writer = _WRITERS.get(format)
    if writer is None:
        raise InvalidArgument(
            f"no format {format!r} to write; there is {', '.join(sorted(_WRITERS))}"
        )
    _write_whole(Path(path), writer(run))


def _openhands_v0(run: Run) -> Iterator[bytes]:
    yield b"["
    for n, event in enumerate(recorded_dicts(run)):
        yield (b",\n" if n else b"\n") + _json(event)
    yield b"\n]\n"


_WRITERS: dict[str, Callable[[Run], Iterable[bytes]]] = {OPENHANDS_V0: _openhands_v0}


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8 form, only an escape
        return json.dumps(value).encode()


def _write_whole(path: Path, parts: Iterable[bytes]) -> None:
    target = Path(os.path.realpath(path))  # a link stays one
    beside = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
    try:
        with beside.open("xb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
