"""Public names that are imported when they are first used (PEP 562)."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

__all__ = ["lazy_exports"]


def lazy_exports(
    package: str, exports: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` for the ``__init__`` of ``package``.

    ``exports`` maps a submodule of ``package`` to the names that it provides. A submodule is
    imported when one of its names is first asked for; the name is then kept in the package, so
    that the second look-up costs what any attribute costs. Type checkers do not see through
    this: the ``__init__`` says the same names once more under ``if TYPE_CHECKING``, and
    ``tests/test_packaging.py`` compares the two lists.
    """
    home = {name: module for module, names in exports.items() for name in names}
    names = sorted(home)

    def __getattr__(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return __getattr__, __dir__, names
