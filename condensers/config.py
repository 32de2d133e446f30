"""Condensers from configuration: Python, TOML, YAML, JSON, or the name of a preset."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, SerializeAsAny, ValidationError

from ..events.event import EventfoldError
from ..memory.message import ChatModel

if TYPE_CHECKING:
    from .base import Condenser

__all__ = [
    "CondenserConfig",
    "InvalidConfig",
    "Parts",
    "SomeConfig",
    "presets",
    "read_config",
    "register_condenser",
]


class InvalidConfig(EventfoldError, ValueError):
    """A configuration is not valid; the message names the file, the key, and what is allowed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """What a configuration cannot hold: the language model that condensers shall use."""

    llm: ChatModel | None = None


class CondenserConfig(BaseModel):
    """How to build a condenser: a ``type`` and the options of that type."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def build(self, parts: Parts) -> Condenser:
        """The condenser. Raises :class:`InvalidConfig` if a part that it needs is missing."""
        raise NotImplementedError


_Config = TypeVar("_Config", bound=CondenserConfig)
_TYPES: dict[str, type[CondenserConfig]] = {}


def register_condenser(config: type[_Config]) -> type[_Config]:
    """Class decorator: makes a configuration class known by the default of its ``type`` field.

    Raises :class:`InvalidConfig` if there is none, or if the type is taken.
    """
    field = config.model_fields.get("type")
    name = None if field is None else field.default
    if not isinstance(name, str):
        raise InvalidConfig(f'{config.__name__} needs a field: type: Literal["name"] = "name"')
    if _TYPES.get(name, config).__qualname__ != config.__qualname__:
        raise InvalidConfig(f"the condenser type {name!r} is taken by {_TYPES[name].__name__}")
    _TYPES[name] = config
    return config


_MODULES = (
    "noop",
    "window",
    "masking",
    "summarizing",
    "pipeline",
    "forgetting",
    "digest",
    "recorded",
    "recent",
    "truncation",
    "clearing",
    "superseded",
)


def _types() -> dict[str, type[CondenserConfig]]:
    for module in _MODULES:
        import_module(f".{module}", __package__)
    return _TYPES


def _parsed(value: Any) -> CondenserConfig:
    """Chooses the configuration class by ``type``."""
    if isinstance(value, CondenserConfig):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"a condenser's configuration is a table with a type, found {value!r:.80}")
    types = _types()
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in types:
        found = "it is missing" if kind is None else f"found {kind!r}"
        raise ValueError(f"type is one of {', '.join(sorted(types))}; {found}")
    return types[kind].model_validate(dict(value))


SomeConfig = Annotated[SerializeAsAny[CondenserConfig], BeforeValidator(_parsed)]
"""A field that holds any condenser's configuration."""

_EXTRACTIVE = {"model": "extractive"}
_PRESETS: dict[str, dict[str, Any]] = {
    # What OpenHands runs by default. Give your own llm: "extractive" is a stand-in without an LLM.
    "openhands-v0": {
        "type": "pipeline",
        "condensers": [
            {"type": "conversation_window"},
            {"type": "browser_output_masking", "attention_window": 2},
            {"type": "llm", "llm_config": _EXTRACTIVE, "max_size": 120, "keep_first": 4},
        ],
    },
    # The same strategies with eventfold's own protection by meaning, and smaller steps.
    "default": {
        "type": "pipeline",
        "condensers": [
            {"type": "browser_output_masking", "attention_window": 2},
            {"type": "llm", "llm_config": _EXTRACTIVE, "max_size": 80},
            {"type": "conversation_window"},
        ],
    },
}


def presets() -> dict[str, dict[str, Any]]:
    """The presets by name: the composed ones, and each type that needs no option."""
    simple = {}
    for kind, config in sorted(_types().items()):
        if not any(field.is_required() for field in config.model_fields.values()):
            simple[kind] = {"type": kind}
            if "llm_config" in config.model_fields:
                simple[kind]["llm_config"] = _EXTRACTIVE  # type: ignore[assignment]
    return {**_PRESETS, **simple}


def read_config(config: Mapping[str, Any] | CondenserConfig | str | Path) -> CondenserConfig:
    """The configuration in a mapping, in a file, or of a preset. Raises :class:`InvalidConfig`."""
    where = ""
    if isinstance(config, str | Path):
        where = f"{config}: "
        config = _named(config)
    try:
        return _parsed(config)
    except ValidationError as error:
        said = _explain(error, config)
    except ValueError as error:
        said = str(error)
    raise InvalidConfig(where + said)  # not from the error, which shows what may be an API key


def _named(name: str | Path) -> Any:
    """The configuration in a file, or that of a preset."""
    path = Path(name)
    if path.suffix not in (".toml", ".yaml", ".yml", ".json"):
        known = presets()
        if str(name) in known:
            return known[str(name)]
        raise InvalidConfig(
            f"there is no condenser {str(name)!r}; there are: {', '.join(sorted(known))}, or a "
            ".toml, .yaml or .json file"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from error
    try:
        loaded = _load(path.suffix, text)
    except ValueError as error:
        raise InvalidConfig(f"{path} is no valid {path.suffix[1:]}: {error}") from error
    if isinstance(loaded, Mapping) and "type" not in loaded and "condenser" in loaded:
        return loaded["condenser"]
    return loaded


def _load(suffix: str, text: str) -> Any:
    if suffix == ".toml":
        return tomllib.loads(text)
    if suffix == ".json":
        return json.loads(text)
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _explain(error: ValidationError, config: Any) -> str:
    """What is wrong, by key. What may be an API key, or hold one, is never shown."""
    problems = []
    for found in error.errors(include_url=False):
        key = ".".join(str(part) for part in found["loc"])
        said = found["msg"].removeprefix("Value error, ")
        if found["type"] == "extra_forbidden":
            keys = sorted(_keys(config, found["loc"][:-1]))
            problems.append(
                f"unknown key {key!r}" + (f"; the keys are: {', '.join(keys)}" if keys else "")
            )
        elif isinstance(found["input"], Mapping) or "llm_config" in found["loc"]:
            problems.append(f"{key}: {said}" if key else said)
        else:
            problems.append(f"{key}: {said}, found {found['input']!r:.80}")
    return "; ".join(problems)


def _keys(config: Any, place: tuple[int | str, ...]) -> Collection[str]:
    """The keys that a condenser's configuration at this place of a larger one may have."""
    try:
        for part in place:
            config = config[part]
        return _types()[config["type"]].model_fields
    except (KeyError, IndexError, TypeError):  # a table in it that configures something else
        return ()
