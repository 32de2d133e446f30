"""Strategies of one's own for the command line: a module that registers them is imported."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path

from .report import CannotRun

__all__ = ["import_own"]


def import_own(name: str) -> None:
    """Imports a ``.py`` file, or a module by its dotted name (also one in the working directory).

    A file can import its neighbours, as if it were run as a script. Raises ``CannotRun``.
    """
    path = Path(name)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise CannotRun(f"--import: there is no file {name}")
    sys.path.insert(0, str(path.parent.resolve() if is_file else Path.cwd()))
    try:
        module = importlib.import_module(path.stem if is_file else name)
    except Exception as error:
        said = f"{type(error).__name__}: {error}{_place(error)}"
        raise CannotRun(f"--import {name}: {said}") from error
    if is_file and Path(module.__file__ or "").resolve() != path.resolve():
        raise CannotRun(f"--import {name}: there is another module {path.stem!r}; rename the file")


def _place(error: Exception) -> str:
    """Where in the imported code an error came up; nothing if the import did not get so far."""
    ours = ("<frozen ", __file__, importlib.__file__)
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame for frame in frames if not frame.filename.startswith(ours)]
    return f" ({places[-1].filename}, line {places[-1].lineno})" if places else ""
