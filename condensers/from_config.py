"""Building a condenser from its configuration: pydantic's models are imported when one is built."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..memory.message import ChatModel
    from .base import Condenser
    from .config import CondenserConfig
    from .prices import Prices

__all__ = ["condenser_from_config"]


def condenser_from_config(
    config: Mapping[str, Any] | CondenserConfig | str | Path,
    *,
    llm: ChatModel | str | None = None,
    prices: Prices | None = None,
) -> Condenser:
    """Builds a condenser from a configuration, a ``.toml``/``.yaml``/``.json`` file, or a preset.

    A file holds the configuration itself, or has it under ``condenser``. A ``type`` that is not
    known is looked for in the packages that are installed: in their entry points of the group
    ``eventfold.condensers``. ``llm`` (a model, or its name for litellm) is used by all condensers
    that need one, before whatever ``llm_config`` says; ``prices`` of the agent's model by those
    whose configuration names none. Raises :class:`InvalidConfig`.
    """
    from .config import InvalidConfig, Parts, built, read_config

    if isinstance(llm, str):
        from .llm import LLM

        llm = LLM(llm)
    if llm is not None and not hasattr(llm, "completion"):
        raise InvalidConfig(f"llm is a ChatModel or a model's name; found {type(llm).__name__}")
    return built(read_config(config), Parts(llm, prices))
