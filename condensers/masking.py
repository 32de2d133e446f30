"""Masking: the content of old results gives way to a stub; the calls and their results stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field

from ..events.condensation import AgentCondensationObservation
from ..events.event import Event, InvalidArgument
from ..events.observations import BrowserOutputObservation
from ..memory.tokens import Budget
from ..memory.view import View
from .base import Condensation, Condenser
from .config import CondenserConfig, Parts, register_condenser

__all__ = ["BrowserOutputCondenser", "BrowserOutputCondenserConfig", "mask"]


class BrowserOutputCondenser(Condenser):
    """Masks all pages but the newest ``attention_window`` ones: their text and screenshots.

    Raises :class:`InvalidArgument` for a negative window.
    """

    def __init__(self, attention_window: int = 1) -> None:
        if attention_window < 0:
            raise InvalidArgument(
                f"attention_window is a number of pages, 0 or more; found {attention_window}"
            )
        super().__init__()
        self.attention_window = attention_window

    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        pages = [
            place for place, event in enumerate(view) if isinstance(event, BrowserOutputObservation)
        ]
        old = pages[: max(0, len(pages) - self.attention_window)]
        masked = mask(view, old, _page_stub)
        self.metadata = {"masked": len(old)} if old else {}
        return masked


def mask(view: View, places: list[int], stub_text: Callable[[Event], str]) -> View:
    """A view in which stubs stand for these events, each with the event's id, cause and call."""
    return view.replacing(
        {
            place: AgentCondensationObservation(
                content=stub_text(event),
                id=event.id,
                timestamp=event.timestamp,
                source=event.source,
                cause=event.cause,
                tool_call_metadata=event.tool_call_metadata,
            )
            for place in places
            for event in [view[place]]
        }
    )


def _page_stub(event: Event) -> str:
    assert isinstance(event, BrowserOutputObservation)
    what = f"{len(event.content)} characters of the page"
    if event.screenshot or event.set_of_marks:
        what += " and its screenshot"
    where = f" {event.url}" if event.url else ""
    return (
        f"[Left out: {what}{where}, which was read at event {event.id}. "
        "Open the page again to see it as it is now.]"
    )


@register_condenser
class BrowserOutputCondenserConfig(CondenserConfig):
    """``type: browser_output_masking``"""

    type: Literal["browser_output_masking"] = "browser_output_masking"
    attention_window: int = Field(1, ge=0)
    """How many of the newest pages stay readable."""

    def build(self, parts: Parts) -> Condenser:
        return BrowserOutputCondenser(self.attention_window)
