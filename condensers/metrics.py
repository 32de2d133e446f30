"""What LLM calls cost: tokens, dollars, seconds, tries."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field, replace

from ..memory.message import Usage
from .errors import ErrorKind

__all__ = ["CallMetrics", "Metrics", "Spent", "TotalMetrics"]


@dataclass(frozen=True, slots=True)
class Spent:
    """What responses report as used. ``dollars`` is None where a price is not known."""

    usage: Usage = field(default_factory=Usage)
    reasoning_tokens: int = 0
    dollars: float | None = 0.0

    def __add__(self, other: Spent) -> Spent:
        mine, theirs = self.usage, other.usage
        unknown = self.dollars is None or other.dollars is None
        return Spent(
            Usage(
                mine.input_tokens + theirs.input_tokens,
                mine.output_tokens + theirs.output_tokens,
                mine.cache_read_tokens + theirs.cache_read_tokens,
                mine.cache_write_tokens + theirs.cache_write_tokens,
            ),
            self.reasoning_tokens + other.reasoning_tokens,
            None if unknown else (self.dollars or 0) + (other.dollars or 0),
        )


@dataclass(frozen=True, slots=True)
class CallMetrics:
    """One call of one model, all its tries together.

    ``spent`` holds what every response reported, also of those that were not usable; ``seconds``
    is the time from the first try to the end, waits included. ``error`` says how it failed, if it
    did.
    """

    model: str
    spent: Spent
    seconds: float
    tries: int
    error: ErrorKind | None = None


@dataclass(frozen=True, slots=True)
class TotalMetrics:
    """Sums over all calls. ``spent.dollars`` sums the known prices; ``unpriced`` counts the calls
    that are missing in it."""

    calls: int = 0
    failures: int = 0
    retries: int = 0
    unpriced: int = 0
    seconds: float = 0.0
    spent: Spent = field(default_factory=Spent)


class Metrics:
    """Counts calls: sums over all of them, and the newest ``keep`` one by one. Thread-safe."""

    def __init__(self, keep: int = 1000) -> None:
        self._calls: deque[CallMetrics] = deque(maxlen=keep)
        self._total = TotalMetrics()
        self._lock = threading.Lock()

    def add(self, call: CallMetrics) -> None:
        unpriced = call.spent.dollars is None
        spent = replace(call.spent, dollars=0.0) if unpriced else call.spent
        with self._lock:
            self._calls.append(call)
            total = self._total
            self._total = TotalMetrics(
                calls=total.calls + 1,
                failures=total.failures + (call.error is not None),
                retries=total.retries + max(0, call.tries - 1),
                unpriced=total.unpriced + unpriced,
                seconds=total.seconds + call.seconds,
                spent=total.spent + spent,
            )

    @property
    def calls(self) -> tuple[CallMetrics, ...]:
        """The newest calls, oldest first."""
        with self._lock:
            return tuple(self._calls)

    @property
    def total(self) -> TotalMetrics:
        return self._total

    def __repr__(self) -> str:
        return f"Metrics({self.total})"
