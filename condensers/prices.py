"""What tokens cost."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..events.event import InvalidArgument

__all__ = ["Prices"]

_MILLION = 1_000_000


class Prices(BaseModel):
    """Dollars for a million tokens. Only their ratios steer anything, so any currency will do.

    Without ``cache_read`` and ``cache_write``, tokens from and for the prompt cache cost what
    others do: that is a provider without a cache. The defaults are those of a usual model with one,
    whose cache costs a quarter more to write and a tenth to read.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    input: float = Field(default=3.0, gt=0)
    output: float = Field(default=15.0, ge=0)
    cache_read: float = Field(default=0.3, ge=0)
    cache_write: float = Field(default=3.75, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _without_a_cache(cls, given: Any) -> Any:
        if isinstance(given, dict) and "input" in given:
            price = given["input"]
            return {"cache_read": price, "cache_write": price, "output": 5 * price} | given
        return given

    @classmethod
    def of(cls, model: str) -> Self:
        """A model's prices, from the map that litellm brings. Raises :class:`InvalidArgument` for a
        model without any."""
        from .litellm_client import catalog_entry

        entry = catalog_entry(model)
        found = {
            name: entry[key] * _MILLION
            for name, key in (
                ("input", "input_cost_per_token"),
                ("output", "output_cost_per_token"),
                ("cache_read", "cache_read_input_token_cost"),
                ("cache_write", "cache_creation_input_token_cost"),
            )
            if isinstance(entry.get(key), int | float) and entry[key] > 0  # 0: no price of its own
        }
        if not found.get("input"):
            raise InvalidArgument(
                f"litellm knows no price of {model!r}: see whether the name is right, or say it: "
                "Prices(input=3, output=15, cache_read=0.3, cache_write=3.75)"
            )
        return cls(**found)
