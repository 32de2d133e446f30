"""The JSON values in a file: one that fills it, or one a line (JSONL), read line by line."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from .base import Problem, Row

__all__ = ["parse", "paused_gc", "read_value", "rows"]

_BOM = b"\xef\xbb\xbf"


@contextmanager
def paused_gc() -> Iterator[None]:
    """No cyclic garbage collection meanwhile: JSON and events are many, and hold no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def parse(data: bytes) -> Any:
    """A JSON value, lone surrogates and NaN included. The ``ValueError`` says what is wrong."""
    with paused_gc():
        try:
            return from_json(data)
        except ValueError:
            pass  # what this fast parser refuses, Python's may still accept; and it explains better
        try:
            return json.loads(data)
        except RecursionError as error:
            raise ValueError("JSON that is nested too deeply") from error
        except UnicodeDecodeError as error:
            raise ValueError(
                f"not UTF-8: byte {error.start} is {data[error.start]:#04x}"
            ) from error
        except ValueError as error:
            cut = "cut off, or " if _is_beginning(data) else ""
            raise ValueError(f"{cut}not JSON: {error}") from error


def rows(path: Path) -> Iterator[Row | Problem]:
    """The JSON values of a file, one at a time, and a problem for each line that holds none.

    A line ends at a newline byte and nowhere else, and may have any length. Raises ``OSError``.
    """
    is_jsonl = path.suffix.lower() in (".jsonl", ".ndjson")
    with path.open("rb") as file:
        head = file.read(80).removeprefix(_BOM).lstrip()
        if head and not is_jsonl and not head.startswith((b"{", b"[")):
            yield Problem(str(path), None, f"not JSON: it begins with {head[:20]!r}")
            return
        file.seek(0)
        lines = _lines(file)
        start = next(lines, None)
        if start is None:
            yield Problem(str(path), None, "empty: it holds no JSON")
            return
        first = _row(path, *start)
        if isinstance(first, Problem) and not (is_jsonl and _any_is_row(lines)):
            yield from _document(path)
            return
        file.seek(0)
        lines = _lines(file)
        next(lines)
        second = next(lines, None)
        if second is None and not is_jsonl and isinstance(first, Row):
            yield Row(first.value, None)
            return
        yield first
        del first
        if second is not None:
            yield _row(path, *second)
        del second
        for number, line in lines:
            yield _row(path, number, line)


def read_value(path: Path) -> Any:
    """The one JSON value of a file. Raises ``ValueError`` and ``OSError``."""
    return parse(path.read_bytes().removeprefix(_BOM))


def _document(path: Path) -> Iterator[Row | Problem]:
    """A file whose first line is no JSON value: one value on several lines, or JSONL after all."""
    try:
        value = read_value(path)
    except ValueError as error:
        with path.open("rb") as file:
            if not _any_is_row(_lines(file)):
                yield Problem(str(path), None, str(error))
                return
            file.seek(0)
            for number, line in _lines(file):
                yield _row(path, number, line)
    else:
        yield Row(value, None)


def _lines(file: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(file, start=1):
        text = line.removeprefix(_BOM) if number == 1 else line
        if text and not text.isspace():
            yield number, text


def _row(path: Path, number: int, line: bytes) -> Row | Problem:
    try:
        return Row(parse(line), number)
    except ValueError as error:
        return Problem(str(path), number, str(error))


def _any_is_row(lines: Iterable[tuple[int, bytes]]) -> bool:
    """Whether a line holds an object or a list with something in it."""
    for _, line in lines:
        try:
            value = parse(line)
        except ValueError:
            continue
        if isinstance(value, dict | list) and value:
            return True
    return False


def _is_beginning(data: bytes) -> bool:
    try:
        from_json(data, allow_partial=True)
    except ValueError:
        return False
    return True
