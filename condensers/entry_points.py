"""Condenser types of other packages: what they name in the group ``eventfold.condensers``."""

from __future__ import annotations

import warnings
from importlib.metadata import EntryPoint, entry_points
from threading import RLock
from types import ModuleType

from .config import CondenserConfig, InvalidConfig, TypeTaken, known_types, register_condenser

__all__ = ["GROUP", "load_entry_points"]

GROUP = "eventfold.condensers"

_lock = RLock()
_tried: set[EntryPoint] = set()
_packages: dict[str, str] = {}  # by type
_disputed: dict[str, str] = {}  # by type: what to say of it


def load_entry_points(kind: str | None = None) -> None:
    """Loads each entry point once; it is a module, or a configuration class, that registers types.

    One that cannot be loaded is a warning that names its package, and changes nothing for others.
    Raises :class:`InvalidConfig` if two packages have registered ``kind``.
    """
    with _lock:
        for entry in sorted(entry_points(group=GROUP), key=lambda entry: (_package(entry), entry)):
            if entry not in _tried:
                _tried.add(entry)
                _load(entry)
        if kind in _disputed:
            raise InvalidConfig(_disputed[kind])


def _load(entry: EntryPoint) -> None:
    package, before = _package(entry), set(known_types())
    try:
        loaded = entry.load()
        if isinstance(loaded, type) and issubclass(loaded, CondenserConfig):
            register_condenser(loaded)
        elif not isinstance(loaded, ModuleType):
            raise InvalidConfig(f"a module or a CondenserConfig is expected, found {loaded!r:.80}")
    except Exception as error:
        if isinstance(error, TypeTaken) and error.kind in _packages:
            _disputed[error.kind] = (
                f"the condenser type {error.kind!r} is in two packages, {_packages[error.kind]} "
                f"and {package}: uninstall one of them"
            )
        said = error if isinstance(error, InvalidConfig) else f"{type(error).__name__}: {error}"
        warnings.warn(
            f"condensers of the package {package} cannot be used: its entry point "
            f"{entry.name} = {entry.value} does not load: {said}",
            stacklevel=2,
        )
    for kind in known_types().keys() - before:
        _packages[kind] = package
    for kind in _disputed:  # neither of the two is silently the one
        known_types().pop(kind, None)


def _package(entry: EntryPoint) -> str:
    return "(unknown)" if entry.dist is None else entry.dist.name
