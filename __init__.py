"""An agent's history as an append-only log, and every prompt as a fold over it."""

from typing import TYPE_CHECKING

from . import benchmarks as benchmarks, condensers as condensers, events as events, memory as memory

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .benchmarks import *  # noqa: F403
    from .condensers import *  # noqa: F403
    from .events import *  # noqa: F403
    from .memory import *  # noqa: F403
else:
    from .events._lazy import lazy_exports

    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            floor.__name__.rpartition(".")[2]: floor.__all__
            for floor in (events, memory, condensers, benchmarks)
        },
    )
