"""What it costs and keeps: replay of recorded runs, and the command line (floor 4)."""

from typing import TYPE_CHECKING

from ..events._lazy import lazy_exports

if TYPE_CHECKING:
    from .engine import (
        Step as Step,
        replay as replay,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine": ("Step", "replay"),
        },
    )
