"""Forgetting the oldest turns above a limit: of events, rounds, messages or tokens. No LLM."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from ..events.event import InvalidArgument
from ..memory.conversation_memory import ConversationMemory
from ..memory.message import Message
from ..memory.tokens import Budget, TokenCounter
from ..memory.turns import Turn, TurnKind
from ..memory.view import View
from .base import (
    Condenser,
    RollingCondenser,
    check_sizes,
    down_to,
    events_summed_up,
    forgettable,
    prompt_of,
)
from .config import CondenserConfig, Parts, register_condenser

__all__ = [
    "AmortizedForgettingCondenser",
    "AmortizedForgettingCondenserConfig",
    "MessageLimitCondenser",
    "MessageLimitCondenserConfig",
    "RoundsCondenser",
    "RoundsCondenserConfig",
    "TokenLimitCondenser",
    "TokenLimitCondenserConfig",
    "older_events",
]


# ---------------------------------------------------------------------- events


class AmortizedForgettingCondenser(RollingCondenser):
    """Above ``max_size`` events, forgets the oldest turns until half of ``max_size`` is left.

    ``keep_first`` events at the beginning are kept (None: the task). Nothing stands for what is
    forgotten. Where what must stay is more than ``max_size`` already, it acts on request only; on
    request it halves what is there. Raises :class:`InvalidArgument` for sizes that leave no room.
    """

    def __init__(
        self, max_size: int = 100, keep_first: int | None = None, *, minimum_progress: float = 0.1
    ) -> None:
        check_sizes("max_size", max_size, keep_first)
        self.max_size = max_size
        self.keep_first = keep_first
        super().__init__(self._too_many, self._older, minimum_progress=minimum_progress)

    def _too_many(self, view: View, budget: Budget | None, /) -> str | None:
        if len(view) <= self.max_size:
            return None
        return f"{len(view)} events are more than {self.max_size}"

    def _older(self, view: View, requested: bool, budget: Budget | None, /) -> list[Turn]:
        return older_events(view, requested, budget, self.max_size, self.keep_first)


def older_events(
    view: View,
    requested: bool,
    budget: Budget | None,
    max_events: int,
    keep_first: int | None,
    *,
    summaries: int = 0,
) -> list[Turn]:
    """The oldest turns, so that half of ``max_events`` is left, ``summaries`` new ones included
    that take the place of the old ones.

    None without a request if ``max_events`` cannot be reached at all.
    """
    more = summaries - (events_summed_up(view) if summaries else 0)
    if requested:
        size = min(len(view), max_events)
        candidates = forgettable(view, keep_first, budget=budget)
        return down_to(view, candidates, size // 2 - more, budget)
    candidates = _unasked(view, keep_first)
    irreducible = len(view) - sum(len(turn.events) for turn in candidates)
    if irreducible + more > max_events:
        return []
    return down_to(view, candidates, max_events // 2 - more)


@register_condenser
class AmortizedForgettingCondenserConfig(CondenserConfig):
    """``type: amortized``"""

    type: Literal["amortized"] = "amortized"
    max_size: int = Field(100, ge=1)
    """Events in the view above which the older ones are forgotten, down to half of it."""
    keep_first: int | None = Field(None, ge=0)
    """Events at the beginning that stay; without it, the task."""
    minimum_progress: float = Field(0.1, ge=0, le=1)
    """The fraction of the view's events that must go, or none goes (a request takes any)."""

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        check_sizes("max_size", self.max_size, self.keep_first)
        return self

    def build(self, parts: Parts) -> Condenser:
        return AmortizedForgettingCondenser(
            self.max_size, self.keep_first, minimum_progress=self.minimum_progress
        )


# ---------------------------------------------------------------------- rounds


class RoundsCondenser(RollingCondenser):
    """Keeps the first ``keep_first_rounds`` and the newest ``max_rounds`` rounds.

    A round is a user message with everything until the next one; what stands before the first user
    message belongs to the first round. The task stays in any case, as a message without its round.
    ``stride`` rounds are forgotten at once: above 1 there are moments with fewer than
    ``max_rounds``, and the prompt cache lives longer. On request the older half of all that can be
    forgotten goes, whatever the rounds. Raises :class:`InvalidArgument` for numbers out of range.
    """

    def __init__(self, max_rounds: int, keep_first_rounds: int = 0, *, stride: int = 1) -> None:
        _check_rounds(max_rounds, keep_first_rounds, stride)
        self.max_rounds = max_rounds
        self.keep_first_rounds = keep_first_rounds
        self.stride = stride
        super().__init__(self._too_many, self._older, minimum_progress=0)

    def _too_many(self, view: View, budget: Budget | None, /) -> str | None:
        if not self._before(view, self.max_rounds):
            return None
        return f"there are turns of rounds before the newest {self.max_rounds}"

    def _older(self, view: View, requested: bool, budget: Budget | None, /) -> list[Turn]:
        if not requested:
            return self._before(view, self.max_rounds - self.stride + 1)
        candidates = forgettable(view, budget=budget)
        events = sum(len(turn.events) for turn in candidates)
        return down_to(view, candidates, len(view) - (events + 1) // 2, budget)

    def _before(self, view: View, newest: int) -> list[Turn]:
        """What can be forgotten between the first rounds and the ``newest`` ones."""
        turns = view.turns
        begins = [place for place, turn in enumerate(turns) if turn.kind is TurnKind.USER]
        if len(begins) <= self.keep_first_rounds + newest:
            return []
        head = begins[self.keep_first_rounds] if self.keep_first_rounds else 0
        between = turns[head : begins[-newest]]
        serials = {turn.serial for turn in between}
        return [turn for turn in forgettable(view) if turn.serial in serials]


def _check_rounds(max_rounds: int, keep_first_rounds: int, stride: int) -> None:
    if max_rounds < 1:
        raise InvalidArgument(f"max_rounds is a number of rounds, 1 or more; found {max_rounds}")
    if keep_first_rounds < 0:
        raise InvalidArgument(
            f"keep_first_rounds is a number of rounds, 0 or more; found {keep_first_rounds}"
        )
    if not 1 <= stride <= max_rounds:
        raise InvalidArgument(
            f"stride is a number of rounds, from 1 to max_rounds ({max_rounds}); found {stride}"
        )


@register_condenser
class RoundsCondenserConfig(CondenserConfig):
    """``type: rounds``"""

    type: Literal["rounds"] = "rounds"
    max_rounds: int = Field(ge=1)
    """How many of the newest rounds stay: user messages, each with all until the next."""
    keep_first_rounds: int = Field(0, ge=0)
    """How many of the first rounds stay, too."""
    stride: int = Field(1, ge=1)
    """How many rounds are forgotten at once, at most ``max_rounds``."""

    @model_validator(mode="after")
    def _rounds(self) -> Self:
        _check_rounds(self.max_rounds, self.keep_first_rounds, self.stride)
        return self

    def build(self, parts: Parts) -> Condenser:
        return RoundsCondenser(self.max_rounds, self.keep_first_rounds, stride=self.stride)


# ---------------------------------------------------------------------- messages and tokens


class _Projected(RollingCondenser):
    """Above a limit of something that is counted in the messages, forgets the oldest turns until
    ``target`` is left."""

    def __init__(
        self, limit: int, target: int, unit: str, vision: bool, profile: str, progress: float
    ) -> None:
        self._limit = limit
        self._target = target
        self._unit = unit
        self._vision = vision
        self._profile = profile
        self._projection = ConversationMemory(profile)
        super().__init__(self._too_many, self._older, minimum_progress=progress)

    def _size(self, messages: Sequence[Message], budget: Budget | None) -> int:
        raise NotImplementedError

    def _too_many(self, view: View, budget: Budget | None, /) -> str | None:
        size = self._size_of(view, budget, self._projection)
        if size <= self._limit:
            return None
        return f"{size} {self._unit} are more than {self._limit}"

    def _older(self, view: View, requested: bool, budget: Budget | None, /) -> list[Turn]:
        memory = ConversationMemory(self._profile)
        if requested:
            candidates = forgettable(view, budget=budget)
            present = self._size_of(view, budget, memory)
            target = min(self._target, present // 2)
        else:
            candidates, target = _unasked(view), self._target
            if self._size_of(view.without(candidates), budget, memory) > self._limit:
                return []

        def is_enough(smaller: View) -> bool:
            return self._size_of(smaller, budget, memory) <= target

        oldest = _oldest_until(view, candidates, is_enough)
        if not requested:
            return oldest
        return max(oldest, down_to(view, candidates, len(view), budget), key=len)

    def _size_of(self, view: View, budget: Budget | None, memory: ConversationMemory) -> int:
        return self._size(prompt_of(view, memory, vision=self._vision), budget)


class MessageLimitCondenser(_Projected):
    """Sends at most ``max_messages`` messages: above it, forgets the oldest turns, down to half.

    Messages are counted as :class:`ConversationMemory` makes them for ``profile``, the system
    message included; with ``vision`` also those that carry the pictures of results. Where what must
    stay makes more than ``max_messages`` already, it acts on request only. Raises
    :class:`InvalidArgument` for a limit below 1.
    """

    def __init__(
        self, max_messages: int, *, vision: bool = True, profile: str = "portable"
    ) -> None:
        if max_messages < 1:
            raise InvalidArgument(
                f"max_messages is a number of messages, 1 or more; found {max_messages}"
            )
        self.max_messages = max_messages
        super().__init__(max_messages, max_messages // 2, "messages", vision, profile, 0)

    def _size(self, messages: Sequence[Message], budget: Budget | None) -> int:
        return len(messages)


class TokenLimitCondenser(_Projected):
    """Above ``max_tokens`` in the messages, forgets the oldest turns down to ``target_fraction``.

    Tokens are estimated, or counted by the budget's counter if there is one; tool definitions are
    not among them. Pictures count as if they were sent; where they are not, ``vision=False`` counts
    their notes. Where what must stay takes more than ``max_tokens`` already, it acts on request
    only. Raises :class:`InvalidArgument` for a limit below 1, or a fraction outside of 0 to 1.
    """

    def __init__(
        self,
        max_tokens: int,
        *,
        target_fraction: float = 0.5,
        vision: bool = True,
        minimum_progress: float = 0.1,
    ) -> None:
        if max_tokens < 1:
            raise InvalidArgument(
                f"max_tokens is a number of tokens, 1 or more; found {max_tokens}"
            )
        if not 0 < target_fraction < 1:
            raise InvalidArgument(
                f"target_fraction lies between 0 and 1, both excluded; found {target_fraction}"
            )
        self.max_tokens = max_tokens
        target = int(max_tokens * target_fraction)
        super().__init__(max_tokens, target, "tokens", vision, "portable", minimum_progress)

    def _size(self, messages: Sequence[Message], budget: Budget | None) -> int:
        return _ESTIMATE.count(messages) if budget is None else budget.count(messages)


_ESTIMATE = TokenCounter(exact=False)


@register_condenser
class MessageLimitCondenserConfig(CondenserConfig):
    """``type: message_limit``"""

    type: Literal["message_limit"] = "message_limit"
    max_messages: int = Field(ge=1)
    """Messages that are sent at most, the system message included; above it half of them go."""
    vision: bool = True
    """Whether the messages that carry pictures of results are counted."""

    def build(self, parts: Parts) -> Condenser:
        return MessageLimitCondenser(self.max_messages, vision=self.vision)


@register_condenser
class TokenLimitCondenserConfig(CondenserConfig):
    """``type: token_limit``"""

    type: Literal["token_limit"] = "token_limit"
    max_tokens: int = Field(ge=1)
    """Tokens of the messages (without tool definitions) above which the oldest turns go."""
    target_fraction: float = Field(0.5, gt=0, lt=1)
    """The fraction of ``max_tokens`` that is left then."""
    vision: bool = True
    """Whether pictures count as if they were sent."""
    minimum_progress: float = Field(0.1, ge=0, le=1)
    """The fraction of the view's events that must go, or none goes (a request takes any)."""

    def build(self, parts: Parts) -> Condenser:
        return TokenLimitCondenser(
            self.max_tokens,
            target_fraction=self.target_fraction,
            vision=self.vision,
            minimum_progress=self.minimum_progress,
        )


# ---------------------------------------------------------------------- which turns


def _unasked(view: View, keep_first: int | None = None) -> list[Turn]:
    """What may be forgotten without a request: never what the agent has just done, or it does that
    again."""
    newest = view.newest_response
    return forgettable(view, keep_first, keep=() if newest is None else (newest,))


def _oldest_until(
    view: View, candidates: Sequence[Turn], is_enough: Callable[[View], bool]
) -> list[Turn]:
    """The oldest candidates, as many as must go until the rest is small enough; at most all."""
    count = bisect.bisect_left(
        range(len(candidates)), True, key=lambda first: is_enough(view.without(candidates[:first]))
    )
    return list(candidates[:count])
