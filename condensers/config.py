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
    from .prices import Prices

__all__ = [
    "CondenserConfig",
    "InvalidConfig",
    "Parts",
    "SomeConfig",
    "TypeTaken",
    "built",
    "known_types",
    "presets",
    "read_config",
    "register_condenser",
]


class InvalidConfig(EventfoldError, ValueError):
    """A configuration is not valid; the message names the file, the key, and what is allowed."""


class TypeTaken(InvalidConfig):
    """Two configuration classes have the same type."""

    def __init__(self, kind: str, taken: type, config: type) -> None:
        super().__init__(
            f"the condenser type {kind!r} is taken by {_full_name(taken)}; give "
            f"{_full_name(config)} another one"
        )
        self.kind = kind


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """What a configuration cannot hold, or leaves open: the language model that condensers shall
    use, and the prices of the agent's model where the configuration names none."""

    llm: ChatModel | None = None
    prices: Prices | None = None


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

    Raises :class:`InvalidConfig` if there is none, if the type is taken, or without ``build``.
    """
    field = config.model_fields.get("type")
    name = None if field is None else field.default
    if not isinstance(name, str):
        raise InvalidConfig(f'{config.__name__} needs a field: type: Literal["name"] = "name"')
    taken = _TYPES.get(name, config)
    if _full_name(taken) != _full_name(config):
        raise TypeTaken(name, taken, config)
    if config.build is CondenserConfig.build:
        raise InvalidConfig(
            f"{config.__name__} needs a method: def build(self, parts: Parts) -> Condenser"
        )
    _TYPES[name] = config
    return config


def _full_name(config: type) -> str:
    return f"{config.__module__}.{config.__qualname__}"


_MODULES = (
    "noop",
    "window",
    "masking",
    "summarizing",
    "structured",
    "attention",
    "pipeline",
    "forgetting",
    "digest",
    "recorded",
    "recent",
    "truncation",
    "clearing",
    "cost_aware",
    "superseded",
)


def known_types() -> dict[str, type[CondenserConfig]]:
    """The configuration classes by type, without those of packages that nobody has asked for."""
    for module in _MODULES:
        import_module(f".{module}", __package__)
    return _TYPES


def _class_of(kind: str) -> type[CondenserConfig] | None:
    """The configuration class of a type; one that is not known is looked for in other packages."""
    types = known_types()
    if kind not in types:
        _load_packages(kind)
    return types.get(kind)


def _all_types() -> Mapping[str, type[CondenserConfig]]:
    _load_packages()
    return known_types()


def _load_packages(kind: str | None = None) -> None:
    from .entry_points import load_entry_points  # importlib.metadata is slow

    load_entry_points(kind)


def _parsed(value: Any) -> CondenserConfig:
    """Chooses the configuration class by ``type``."""
    if isinstance(value, CondenserConfig):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"a condenser's configuration is a table with a type, found {value!r:.80}")
    kind = value.get("type")
    config = _class_of(kind) if isinstance(kind, str) else None
    if config is None:
        found = "it is missing" if kind is None else f"found {kind!r}"
        raise ValueError(f"type is one of {', '.join(sorted(_all_types()))}; {found}")
    return config.model_validate(dict(value))


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
    simple: dict[str, dict[str, Any]] = {}
    for kind, config in sorted(_all_types().items()):
        if not _required(config):
            simple[kind] = _bare(kind, config)
    return {**_PRESETS, **simple}


def _required(config: type[CondenserConfig]) -> list[str]:
    return [name for name, field in config.model_fields.items() if field.is_required()]


def _bare(kind: str, config: type[CondenserConfig]) -> dict[str, Any]:
    """A type without options; where a language model is needed, the stand-in for one."""
    if "llm_config" in config.model_fields:
        return {"type": kind, "llm_config": _EXTRACTIVE}
    return {"type": kind}


def _preset(name: str) -> dict[str, Any]:
    """One of :func:`presets`, without a look at others."""
    if name in _PRESETS:
        return _PRESETS[name]
    config = _class_of(name)
    if config is None:
        raise InvalidConfig(
            f"there is no condenser {name!r}; there are: {', '.join(sorted(presets()))}, or a "
            ".toml, .yaml or .json file"
        )
    if required := _required(config):
        raise InvalidConfig(
            f"the condenser type {name!r} needs options: {', '.join(required)}; give them in a "
            "mapping, or in a .toml, .yaml or .json file"
        )
    return _bare(name, config)


def built(config: CondenserConfig, parts: Parts) -> Condenser:
    """What a configuration builds. Raises :class:`InvalidConfig` if that is no condenser."""
    from .base import Condenser

    condenser = config.build(parts)
    if not isinstance(condenser, Condenser):
        raise InvalidConfig(
            f"{type(config).__name__}.build has to return a Condenser; it returned "
            f"{condenser!r:.80}"
        )
    return condenser


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
        return _preset(str(name))
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
        return known_types()[config["type"]].model_fields
    except (KeyError, IndexError, TypeError):  # a table in it that configures something else
        return ()
