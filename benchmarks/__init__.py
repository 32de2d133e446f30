"""What it costs and keeps: replay of recorded runs, and the command line (floor 4)."""

from typing import TYPE_CHECKING

from ..events._lazy import lazy_exports

if TYPE_CHECKING:
    from .costs import (
        Cost as Cost,
        run_cost as run_cost,
    )
    from .engine import (
        Step as Step,
        replay as replay,
    )
    from .planted import (
        planted_run as planted_run,
    )
    from .retention import (
        Fact as Fact,
        Retention as Retention,
        facts_in as facts_in,
        retention_of as retention_of,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "costs": ("Cost", "run_cost"),
            "engine": ("Step", "replay"),
            "planted": ("planted_run",),
            "retention": ("Fact", "Retention", "facts_in", "retention_of"),
        },
    )
