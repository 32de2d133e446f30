"""Functions that are written out for one class, because each append makes and copies an event.

Plain assignments in them take a third of the time that pydantic takes, or a loop over the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Any, NoReturn

__all__ = ["copy_function", "init_function"]


def copy_function(cls: type, names: Iterable[str]) -> Any:
    """Makes ``copy(old, changes)``: a copy of an object of ``cls`` with some fields changed."""
    lines = [
        "def copy(old, changes):",
        "    new = create(open_twin)",
        *(f"    new.{name} = old.{name}" for name in names),
        "    for name in changes:",
        "        setattr(new, name, changes[name])",
        "    new.__class__ = cls",
        "    return new",
    ]
    known = {"create": object.__new__, "open_twin": _open_twin(cls), "cls": cls}
    return _defined("copy", lines, known)


def init_function(cls: type, schema: Mapping[str, Any]) -> Any:
    """Makes ``init(new, ...)``, which does with simple arguments what pydantic would do.

    It sets the fields if each argument is left out, or is of exactly a type that pydantic takes as
    it is, or is read by a function of ours. Otherwise it gives False or raises, whatever the error:
    then it is pydantic's turn. None if ``schema``, pydantic's for ``cls``, asks for more.
    """
    if schema["type"] != "dataclass" or schema["schema"]["type"] != "dataclass-args":
        return None  # there are validators of the whole
    known = {  # under names that no field hides
        "__cls": cls,
        "__open_twin": _open_twin(cls),
        "__set": object.__setattr__,
        "__type": type,
    }
    parameters, conditions = ["__new"], ["__type(__new) is __cls"]
    readings, assignments = [], []
    for field in schema["schema"]["fields"]:
        name, checked = field["name"], field["schema"]
        if not _is_plain(field):
            return None
        if field.get("kw_only", True) and "*" not in parameters:
            parameters.append("*")
        default = _LEFT_OUT
        if types := _types_taken(checked):
            default = checked.get("default", default)
            known[f"__types_{name}"] = types
            conditions.append(f"__type({name}) in __types_{name}")
        else:
            known[f"__read_{name}"] = _reader(checked)
            readings.append(f"    {name} = __read_{name}({name})")
        known[f"__default_{name}"] = default
        parameters.append(f"{name}=__default_{name}")
        assignments.append(f"    __new.{name} = {name}")
    lines = [
        f"def init({', '.join(parameters)}):",
        f"    if not ({' and '.join(conditions)}):",
        "        return False",
        *readings,
        "    __set(__new, '__class__', __open_twin)",
        *assignments,
        "    __new.__class__ = __cls",
        *(["    __new.__post_init__()"] if schema.get("post_init") else []),
        "    return True",
    ]
    return _defined("init", lines, known)


class _LeftOut:
    """Stands for an argument that is not given."""


_LEFT_OUT: Any = _LeftOut()
_TYPES = {"bool": bool, "datetime": datetime, "float": float, "int": int, "str": str}


def _is_plain(field: Mapping[str, Any]) -> bool:
    """Whether nothing is said of a field but what follows from its type and its default."""
    checked = field["schema"]
    return (
        field.keys() <= {"type", "name", "schema", "kw_only", "init", "metadata"}
        and field.get("init", True)
        and not checked.get("validate_default")
        and isinstance(checked.get("default"), NoneType | bool | float | int | str)
    )


def _types_taken(schema: Mapping[str, Any]) -> tuple[type, ...]:
    """The types whose own objects, not those of a subclass, pass a pydantic schema unchanged."""
    match schema:
        case {"type": "default", "default": _, "schema": inner}:
            return _types_taken(inner)
        case {"type": "nullable", "schema": inner}:
            return (NoneType, *_types_taken(inner))
        case {"type": "enum" | "is-instance", "cls": cls}:
            return (cls,)
        case {"type": "dataclass", "cls": cls, "config": config}:
            return () if "revalidate_instances" in {*schema, *config} else (cls,)
        case {"type": name} if name in _TYPES:
            constraints = schema.keys() - {"type", "strict", "metadata", "microseconds_precision"}
            return () if constraints else (_TYPES[name],)
    return ()


def _reader(schema: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Makes a field's value of its argument, or of none."""
    make = read = _pydantics_turn
    if schema["type"] == "default":
        default = schema.get("default")
        make = schema.get("default_factory", lambda: default)
        schema = schema["schema"]
    match schema:
        case {"type": "function-plain", "function": {"type": "no-info", "function": function}}:
            read = function
    return lambda given: make() if given is _LEFT_OUT else read(given)


def _pydantics_turn(*_: Any) -> NoReturn:
    raise TypeError


@cache
def _open_twin(cls: type) -> type:
    """A class of the same layout whose objects can be set. They become frozen objects of ``cls``
    by setting their class."""
    free = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    return type(cls.__name__, (cls,), {"__slots__": (), **free})


def _defined(name: str, lines: Iterable[str], known: dict[str, Any]) -> Any:
    exec("\n".join(lines), known)
    return known[name]
