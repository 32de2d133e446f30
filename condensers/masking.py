"""Masking: the content of old results gives way to a stub; the calls and their results stay."""

from __future__ import annotations

from bisect import bisect_left
from typing import Literal, Self

from pydantic import Field, model_validator

from ..events.event import Event
from ..events.observations import BrowserOutputObservation
from ..memory.tokens import Budget
from ..memory.view import View
from .base import Condensation, Condenser
from .config import CondenserConfig, Parts, register_condenser
from .stubs import Stubs, Window, place_of, size_of, stub_of

__all__ = [
    "BrowserOutputCondenser",
    "BrowserOutputCondenserConfig",
    "ObservationMaskingCondenser",
    "ObservationMaskingCondenserConfig",
]


class ObservationMaskingCondenser(Condenser):
    """Masks the results that are older than the newest ``attention_window`` events of the view.

    A result that is no larger than its stub stays. With a ``stride`` above 1 the border moves in
    jumps of that many events, so that the prompt cache survives between them: then the window is an
    upper bound.

    Raises :class:`InvalidArgument` for a negative window, or a stride that is not from 1 to the
    window.
    """

    may_block = False

    def __init__(self, attention_window: int = 100, stride: int = 1) -> None:
        super().__init__()
        self.attention_window = attention_window
        self.stride = stride
        self._window = Window(attention_window, stride, "events")
        self._stubs = Stubs()

    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        border = self._window.outside(len(view))
        results = self._stubs.results(view)
        old = results[: bisect_left(results, border, key=place_of)]
        masked = self._stubs.put(view, old, [None] * len(old), _result_stub)
        self.metadata = _noted(self._stubs.count, border)
        return masked


class BrowserOutputCondenser(Condenser):
    """Masks all pages but the newest ``attention_window`` ones: their text and screenshots.

    As in OpenHands, a page of any size is masked. With a ``stride`` above 1 the border moves in
    jumps of that many pages, so that the prompt cache survives between them: then the window is an
    upper bound.

    Raises :class:`InvalidArgument` for a negative window, or a stride that is not from 1 to the
    window.
    """

    may_block = False

    def __init__(self, attention_window: int = 1, stride: int = 1) -> None:
        super().__init__()
        self.attention_window = attention_window
        self.stride = stride
        self._window = Window(attention_window, stride, "pages")
        self._stubs = Stubs()

    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        pages = [
            result
            for result in self._stubs.results(view)
            if isinstance(result.event, BrowserOutputObservation)
        ]
        old = pages[: self._window.outside(len(pages))]
        masked = self._stubs.put(view, old, [None] * len(old), _page_stub)
        self.metadata = _noted(self._stubs.count, len(old))
        return masked


def _noted(count: int, border: int) -> dict[str, int]:
    return {"masked": count, "border": border} if count else {}


def _result_stub(event: Event, _: None) -> Event | None:
    return stub_of(
        event,
        f"[Left out: {size_of(event)}, which came back at event {event.id}. "
        "Repeat the call if you need it again.]",
    )


def _page_stub(event: Event, _: None) -> Event | None:
    assert isinstance(event, BrowserOutputObservation)
    what = f"{len(event.content)} characters of the page"
    if event.screenshot or event.set_of_marks:
        what += " and its screenshot"
    where = f" {event.url}" if event.url else ""
    return stub_of(
        event,
        f"[Left out: {what}{where}, which was read at event {event.id}. "
        "Open the page again to see it as it is now.]",
        of_any_size=True,
    )


# ---------------------------------------------------------------------- configuration


@register_condenser
class ObservationMaskingCondenserConfig(CondenserConfig):
    """``type: observation_masking``"""

    type: Literal["observation_masking"] = "observation_masking"
    attention_window: int = Field(default=100, ge=0)
    """How many of the view's newest events keep their results readable."""
    stride: int = Field(default=1, ge=1)
    """By how many events the border moves at a time; at most ``attention_window``."""

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        Window(self.attention_window, self.stride, "events")
        return self

    def build(self, parts: Parts) -> Condenser:
        return ObservationMaskingCondenser(self.attention_window, self.stride)


@register_condenser
class BrowserOutputCondenserConfig(CondenserConfig):
    """``type: browser_output_masking``"""

    type: Literal["browser_output_masking"] = "browser_output_masking"
    attention_window: int = Field(default=1, ge=0)
    """How many of the newest pages stay readable."""
    stride: int = Field(default=1, ge=1)
    """By how many pages the border moves at a time; at most ``attention_window``."""

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        Window(self.attention_window, self.stride, "pages")
        return self

    def build(self, parts: Parts) -> Condenser:
        return BrowserOutputCondenser(self.attention_window, self.stride)
