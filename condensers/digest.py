"""A digest in the place of what is forgotten: the state of work, without an LLM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from ..events.event import InvalidArgument
from ..memory.rendering import action_text, call_arguments, result_text, thought_of
from ..memory.tokens import Budget
from ..memory.turns import Turn, is_observation
from ..memory.view import View
from .base import Condensation, Condenser, RollingCondenser, check_sizes
from .config import CondenserConfig, Parts, register_condenser
from .forgetting import older_events
from .window import ConversationWindowCondenser
from .work_state import LEAST_CHARS, StateOfWork

__all__ = ["Digest", "DigestCondenser", "DigestCondenserConfig"]


class Digest:
    """A stand-in for :class:`RollingCondenser` that needs no language model.

    It tells the state of work: what the user said, files changed and read, commands with their last
    exit codes, failing tests and open errors, the agent's own summaries of the sub-tasks that it
    closed, the newest todo list, thoughts. A previous digest is parsed and brought up to date field
    by field; any other previous summary is carried over.

    A digest has at most ``max_chars`` characters, and at most half of what it stands for, unless
    the names of the changed files need more. Where something has no room, a last line says how much
    of what was left out. The same turns give the same text. Raises :class:`InvalidArgument` for
    fewer than 500 characters.
    """

    def __init__(self, max_chars: int = 6000) -> None:
        if max_chars < LEAST_CHARS:
            raise InvalidArgument(
                f"max_chars is a number of characters, {LEAST_CHARS} or more; found {max_chars}"
            )
        self.max_chars = max_chars

    def summarize(self, forgotten: Sequence[Turn], previous: str | None) -> str:
        """The digest of these turns and the previous summary. Never fails."""
        state = StateOfWork.from_turns(forgotten)
        if previous is not None:
            state = StateOfWork.parse(previous).merge(state)
        half = (len(previous or "") + sum(map(_length, forgotten))) // 2
        return state.render(min(self.max_chars, max(half, state.needed())))

    async def asummarize(self, forgotten: Sequence[Turn], previous: str | None) -> str:
        return self.summarize(forgotten, previous)


def _length(turn: Turn) -> int:
    """About how many characters a turn takes in the prompt."""
    size = 0
    for event in turn.events:
        if is_observation(event):
            size += len(result_text(event))
        elif event.tool_call_metadata is None:
            size += len(action_text(event))
        else:
            size += len(thought_of(event)) + len(call_arguments(event))
    return size


class DigestCondenser(RollingCondenser):
    """Above ``max_events`` events, puts a :class:`Digest` in the place of the older half.

    ``keep_first`` events at the beginning are kept (None: the task). The digest has at most
    ``max_chars`` characters; with a budget also at most half a character for each token that is
    available, which is a quarter of it or less. On request it acts at any size; where a digest
    would not be smaller than what it replaces, ``fallback`` answers (a
    :class:`ConversationWindowCondenser` if none is given). Where what must stay is more than
    ``max_events`` already, it acts on request only.

    Raises :class:`InvalidArgument` for sizes that leave no room.
    """

    def __init__(
        self,
        max_events: int = 100,
        max_chars: int = 6000,
        keep_first: int | None = None,
        *,
        minimum_progress: float = 0.1,
        fallback: Condenser | None = None,
    ) -> None:
        check_sizes("max_events", max_events, keep_first)
        self.max_events = max_events
        self.keep_first = keep_first
        self.max_chars = max_chars
        super().__init__(
            self._too_many,
            self._older,
            Digest(max_chars),
            minimum_progress=minimum_progress,
            fallback=fallback if fallback is not None else ConversationWindowCondenser(),
        )

    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        self.stand_in = self._digest(budget)
        return super().condense(view, budget)

    async def acondense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        self.stand_in = self._digest(budget)
        return await super().acondense(view, budget)

    def _digest(self, budget: Budget | None) -> Digest:
        if budget is None:
            return Digest(self.max_chars)
        return Digest(max(LEAST_CHARS, min(self.max_chars, budget.available // 2)))

    def _too_many(self, view: View, budget: Budget | None, /) -> str | None:
        if len(view) <= self.max_events:
            return None
        return f"{len(view)} events are more than {self.max_events}"

    def _older(self, view: View, requested: bool, budget: Budget | None, /) -> list[Turn]:
        # The summary is an event, too.
        return older_events(view, requested, budget, self.max_events, self.keep_first, summaries=1)


@register_condenser
class DigestCondenserConfig(CondenserConfig):
    """``type: digest``"""

    type: Literal["digest"] = "digest"
    max_events: int = Field(100, ge=1)
    """Events in the view above which the older half gives way to a digest."""
    max_chars: int = Field(6000, ge=LEAST_CHARS)
    """Characters that the digest may have."""
    keep_first: int | None = Field(None, ge=0)
    """Events at the beginning that stay; without it, the task."""
    minimum_progress: float = Field(0.1, ge=0, le=1)
    """The fraction of the view's events that must go, or none goes (a request takes any)."""

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        check_sizes("max_events", self.max_events, self.keep_first)
        return self

    def build(self, parts: Parts) -> Condenser:
        return DigestCondenser(
            self.max_events,
            self.max_chars,
            self.keep_first,
            minimum_progress=self.minimum_progress,
        )
