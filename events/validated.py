"""Frozen classes with slots whose fields pydantic checks, and which cost little to define.

A pydantic dataclass takes two milliseconds to define, and there are 45 classes of events. Here the
standard library makes the class, without generating code; pydantic is imported, and its validator
built, when the first object of a class is made.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from inspect import Signature

    from pydantic import ConfigDict, GetCoreSchemaHandler
    from pydantic_core import CoreSchema

__all__ = ["CheckedBy", "Validated", "copier", "field_names", "per_class", "validated"]

_T = TypeVar("_T")
_Validated = TypeVar("_Validated", bound="Validated")


class CheckedBy:
    """Put into ``Annotated``: ``schema`` gives the pydantic schema that checks a field.

    It is called with the field's type and pydantic's handler, when the first object is made.
    """

    def __init__(self, schema: Callable[[Any, GetCoreSchemaHandler], CoreSchema]) -> None:
        self._schema = schema

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return self._schema(source, handler)


class _LazySignature:
    """What ``inspect`` shows for a class: the arguments of the ``__init__`` that the standard
    library would generate."""

    def __get__(self, instance: object, cls: type[Validated]) -> Signature:
        from inspect import signature

        if instance is not None:  # which may have a __call__ with a signature of its own
            raise AttributeError("__signature__")
        twin: Any = type(cls.__name__, (cls,), {"__doc__": cls.__name__})
        generated = signature(dataclasses.dataclass(repr=False, eq=False)(twin).__init__)
        return generated.replace(parameters=[*generated.parameters.values()][1:])


class Validated:
    """Base of the classes that :func:`validated` makes: their objects cannot be changed."""

    __slots__ = ()
    __signature__ = _LazySignature()

    if not TYPE_CHECKING:  # type checkers are told by the decorator, and know the fields by name

        def __setattr__(self, name: str, value: Any) -> NoReturn:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name: str) -> NoReturn:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __getstate__(self) -> list[Any]:
        return [getattr(self, name) for name in field_names(type(self))]

    def __setstate__(self, state: list[Any]) -> None:
        for name, value in zip(field_names(type(self)), state, strict=True):
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash(tuple(self.__getstate__()))

    def __repr__(self) -> str:
        said = (f"{name}={getattr(self, name)!r}" for name in field_names(type(self)))
        return f"{type(self).__name__}({', '.join(said)})"


def per_class(function: Callable[[type[Any]], _T]) -> Callable[[type[Any]], _T]:
    """Decorator: works a function of a class out once for each class."""
    cached: Any = functools.cache(function)
    return cached  # type: ignore[no-any-return]


@per_class
def field_names(cls: type[Validated]) -> tuple[str, ...]:
    """The names of a class's fields, inherited ones first."""
    return tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def validated(
    config: ConfigDict, *, kw_only: bool = False
) -> Callable[[type[_Validated]], type[_Validated]]:
    """Class decorator: makes a frozen dataclass with slots of an annotated class.

    Its objects are checked by pydantic under ``config``: what is no valid argument raises
    ``pydantic.ValidationError``.
    """

    def make(cls: type[_Validated]) -> type[_Validated]:
        written = cls.__doc__
        cls.__doc__ = written or cls.__name__  # else the standard library works a signature out
        cls.__pydantic_config__ = config  # type: ignore[attr-defined]
        made: Any = dataclasses.dataclass(
            init=False, repr=False, eq=False, slots=True, kw_only=kw_only
        )(cls)
        made.__doc__ = written
        made.__init__ = _init(made)
        _refuse_default_before_required(made)
        return made  # type: ignore[no-any-return]

    return make


def _refuse_default_before_required(cls: Any) -> None:
    """What the standard library does where it generates ``__init__``."""
    optional = ""
    for field in dataclasses.fields(cls):
        if not field.init or field.kw_only:
            continue
        if (field.default, field.default_factory) != (dataclasses.MISSING, dataclasses.MISSING):
            optional = field.name
        elif optional:
            raise TypeError(
                f"non-default argument {field.name!r} follows default argument {optional!r}"
            )


def _init(cls: type[Validated]) -> Callable[..., None]:
    """The ``__init__`` of a class: pydantic checks the arguments and sets the fields."""
    check: Any = None
    from_arguments: Any = None

    def __init__(self: Validated, /, *args: Any, **kwargs: Any) -> None:
        nonlocal check, from_arguments
        if check is None:
            from_arguments, check = _checker(cls)
        check(from_arguments(args, kwargs), self_instance=self)

    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__


_building = threading.RLock()


def _checker(cls: type[Validated]) -> tuple[Any, Any]:
    """What pydantic takes arguments as, and how it makes an object of them."""
    from pydantic import TypeAdapter
    from pydantic_core import ArgsKwargs

    with _building:
        adapter = TypeAdapter(cls)
        # A name that its module does not know may be local to the function that makes the object,
        # which stands three calls above.
        adapter.rebuild(raise_errors=True, _parent_namespace_depth=4)
        return ArgsKwargs, adapter.validator.validate_python


@per_class
def copier(cls: type[_Validated]) -> Callable[[_Validated, Mapping[str, Any]], _Validated]:
    """Copies an object with some fields changed, whose values are taken as valid."""
    values_of = operator.attrgetter(*field_names(cls))
    setters = {name: getattr(cls, name).__set__ for name in field_names(cls)}

    def copy(old: _Validated, changes: Mapping[str, Any]) -> _Validated:
        new = object.__new__(cls)
        for set_field, value in zip(setters.values(), values_of(old), strict=True):
            set_field(new, value)
        for name, value in changes.items():
            if name not in setters:
                raise AttributeError(f"{cls.__name__} has no field {name!r}")
            setters[name](new, value)
        return new

    return copy
