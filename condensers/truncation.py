"""Truncation: the middle of a huge result is cut out."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..events.condensation import AgentCondensationObservation
from ..events.event import Event, InvalidArgument, Observation
from ..memory.rendering import clean, result_text
from ..memory.tokens import Budget
from ..memory.view import View
from .base import Condensation, Condenser
from .config import CondenserConfig, Parts, register_condenser
from .stubs import Stubs, tokens_of

__all__ = ["TruncationCondenser", "TruncationCondenserConfig"]

SMALLEST = 100  # characters: room for the note that tells of the cut


class TruncationCondenser(Condenser):
    """Cuts the middle out of each result whose text has more than ``max_chars`` characters.

    A note between its beginning and its end says how much is left out, and of which event. It is
    the only view condenser that touches the newest results, too: one of them alone may be larger
    than the window. What a result becomes depends on nothing else, so that the prompt cache is
    never broken. Images stay.

    Raises :class:`InvalidArgument` for a limit below 100.
    """

    may_block = False

    def __init__(self, max_chars: int = 20_000) -> None:
        if max_chars < SMALLEST:
            raise InvalidArgument(
                f"max_chars is a number of characters, {SMALLEST} or more; found {max_chars}"
            )
        super().__init__()
        self.max_chars = max_chars
        self._stubs = Stubs()

    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        results = self._stubs.results(view)
        cut = self._stubs.put(view, results, [None] * len(results), self._shortened)
        self.metadata = {"truncated": self._stubs.count} if self._stubs.count else {}
        return cut

    def _shortened(self, event: Event, _: None) -> Event | None:
        text = clean(result_text(event))
        if len(text) <= self.max_chars:
            return None
        content = clean(getattr(event, "content", ""))
        if isinstance(event, Observation) and content in text:
            room = self.max_chars - (len(text) - len(content))  # the rest is said beside it
            if room >= SMALLEST:
                short = event.replace(content=_without_middle(content, room, event.id))
                if len(clean(result_text(short))) <= self.max_chars:
                    return short
        # A kind whose text is made of other fields.
        return AgentCondensationObservation(
            content=_without_middle(text, self.max_chars, event.id),
            id=event.id,
            timestamp=event.timestamp,
            source=event.source,
            cause=event.cause,
            tool_call_metadata=event.tool_call_metadata,
        )


def _without_middle(text: str, limit: int, event_id: int) -> str:
    """At most ``limit`` characters of a longer text, and never more tokens than it has."""
    kept = limit - len(_note(len(text), event_id))
    while True:
        head = kept - kept // 2
        tail = kept - head
        short = text[:head] + _note(len(text) - kept, event_id) + text[len(text) - tail :]
        if kept == 0 or tokens_of(short) < tokens_of(text):
            return short
        kept = max(0, kept - 20)


def _note(left_out: int, event_id: int) -> str:
    return f"\n[... {left_out} characters of event {event_id} left out ...]\n"


@register_condenser
class TruncationCondenserConfig(CondenserConfig):
    """``type: truncation``"""

    type: Literal["truncation"] = "truncation"
    max_chars: int = Field(default=20_000, ge=SMALLEST)
    """Characters of a result's text above which its middle is cut out."""

    def build(self, parts: Parts) -> Condenser:
        return TruncationCondenser(self.max_chars)
