"""Condensers: what is let go of when a history gets too long."""

from __future__ import annotations

import bisect
import dataclasses
import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Sequence
from typing import Any, Protocol

from ..events.condensation import CondensationAction
from ..events.event import Event, EventfoldError, EventSource, InvalidArgument
from ..memory.conversation_memory import ConversationMemory, NothingToSend
from ..memory.message import Message
from ..memory.state import State
from ..memory.tokens import SHORTEST_RESULT, Budget, TokenCounter
from ..memory.turns import Turn, TurnKind, protected
from ..memory.view import View
from .steps import Ask, Steps, arun, run

__all__ = [
    "CannotCondense",
    "Condensation",
    "Condenser",
    "ModelFailed",
    "Plan",
    "RollingCondenser",
    "Selection",
    "StandIn",
    "Summary",
    "SummaryFailed",
    "Trigger",
]

_log = logging.getLogger(__name__)


class CannotCondense(EventfoldError):
    """A smaller prompt was asked for and cannot be had; the message says what is irreducible.

    ``view`` is how far view condensers had come, if there were any.
    """

    view: View | None = None


class ModelFailed(EventfoldError):
    """A language model gave no usable answer; nothing is forgotten on its account."""


class SummaryFailed(ModelFailed):
    """There is no usable summary."""


@dataclasses.dataclass(frozen=True, slots=True)
class Condensation:
    """A proposed :class:`CondensationAction`: the caller appends it to the log and asks again."""

    action: CondensationAction


class Condenser(ABC):
    """Makes a view smaller, or proposes what to forget.

    A *view condenser* returns a smaller view and leaves no event; a *rolling condenser* returns a
    :class:`Condensation` when it is time. Neither changes the view it is given. ``metadata`` says
    of the newest call what was done and why.
    """

    answers_requests = False  # True for those that can answer a CondensationRequestAction
    may_block = True  # False for those that ask nobody: they need no thread of their own

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = {}

    @abstractmethod
    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        """The view as the LLM is to see it, or what to forget before asking again.

        Raises :class:`CannotCondense` if a condensation was requested and nothing can be forgotten.
        """

    async def acondense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        """The same, without blocking the event loop while an LLM is asked."""
        if not self.may_block:
            return self.condense(view, budget)
        import asyncio  # 15 ms that a loop without it need not pay

        return await asyncio.to_thread(self.condense, view, budget)

    def condensed_history(self, state: State) -> View | Condensation:
        """Condenses a session's view and notes what was done in ``state.extra_data``."""
        result = self.condense(state.view)
        if self.metadata:
            state.extra_data.setdefault("condenser_meta", []).append(dict(self.metadata))
        return result


# ---------------------------------------------------------------------- rolling condensers


class Trigger(Protocol):
    """When to condense without being asked."""

    def __call__(self, view: View, budget: Budget | None, /) -> str | None:
        """The reason to condense now, or None."""
        ...


class Selection(Protocol):
    """Which turns to forget."""

    def __call__(
        self, view: View, requested: bool, budget: Budget | None, /
    ) -> list[Turn] | Steps[list[Turn]]:
        """The turns to forget, oldest first; none where nothing can be let go of.

        One that asks a language model returns :data:`~eventfold.condensers.steps.Steps`, which may
        raise :class:`ModelFailed`.
        """
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """A text that stands in the view, and what is told of it beside: ``details`` (JSON) become
    part of the condensation's."""

    text: str
    details: dict[str, Any] = dataclasses.field(default_factory=dict)


class StandIn(Protocol):
    """What stands in the view for what is forgotten."""

    def summarize(self, forgotten: Sequence[Turn], previous: str | None) -> str | Summary:
        """A text for these turns and the whole previous summary. Raises :class:`SummaryFailed`."""
        ...

    async def asummarize(self, forgotten: Sequence[Turn], previous: str | None) -> str | Summary:
        """The same without blocking."""
        ...


class RollingCondenser(Condenser):
    """Forgets turns in a rolling manner: ``when`` it is time, those that ``which`` selects.

    With a ``stand_in`` a summary takes their place; it is made from exactly the forgotten turns and
    the old summary. If that fails, or a selection by a language model does, nothing is forgotten
    unasked (and where asking has its price, none is asked again before the view has grown by a
    tenth); a request is answered by ``fallback``, if there is one.
    Nothing is paid for, and nothing forgotten, unless at least ``minimum_progress`` (a fraction of
    the view's events) would go; a request takes any plan that makes the prompt smaller.
    """

    answers_requests = True
    keep_first: int | None = None
    """Events at the beginning that stay; None: the task."""
    pays_for_summaries = False

    def __init__(
        self,
        when: Trigger,
        which: Selection,
        stand_in: StandIn | None = None,
        *,
        minimum_progress: float = 0.1,
        fallback: Condenser | None = None,
    ) -> None:
        if not 0 <= minimum_progress <= 1:
            raise InvalidArgument(
                f"minimum_progress is a fraction, from 0 to 1; found {minimum_progress}"
            )
        super().__init__()
        self.when = when
        self.which = which
        self.stand_in = stand_in
        self.minimum_progress = minimum_progress
        self.fallback = fallback
        self._counter = TokenCounter(exact=False)
        self._memory = ConversationMemory()
        self._failed_at: int | None = None  # events in the view when the model failed

    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        return run(self._steps(view, budget))

    async def acondense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        return await arun(self._steps(view, budget))

    def _steps(self, view: View, budget: Budget | None) -> Steps[View | Condensation]:
        """Condensing without the calls themselves."""
        self.metadata = {}
        requested = view.unhandled_condensation_request
        reason = "a condensation was requested" if requested else self.when(view, budget)
        if reason is None:
            return view
        if not requested and self._has_just_failed(view):
            self.metadata = {"reason": reason, "not_done": "the model has just failed"}
            return view
        plan = Plan(view, budget, requested, reason)
        try:
            forgotten = self.which(view, requested, budget)
            if isinstance(forgotten, Generator):
                forgotten = yield from forgotten
            plan = dataclasses.replace(plan, forgotten=forgotten)
            if not self._is_enough(plan):
                return view
            summary = None
            stand_in = self.stand_in
            if stand_in is not None:
                told = (forgotten, plan.previous_summary)
                summary = yield Ask(
                    lambda: stand_in.summarize(*told), lambda: stand_in.asummarize(*told)
                )
            return self._carried_out(plan, summary)
        except ModelFailed as failure:
            fallback = self._fallback_for(plan, failure)
        if fallback is None:
            return view
        outcome: View | Condensation = yield Ask(
            lambda: fallback.condense(view, budget), lambda: fallback.acondense(view, budget)
        )
        return outcome

    def _is_enough(self, plan: Plan) -> bool:
        """Whether so much would go that it is worth a summary."""
        events = sum(len(turn.events) for turn in plan.forgotten)
        if not plan.forgotten:
            self._give_up(plan, "no turn can be forgotten")
            return False
        if not plan.requested and events < self.minimum_progress * len(plan.view):
            self.metadata = {"reason": plan.reason, "not_done": f"only {events} events could go"}
            return False
        return True

    def _has_just_failed(self, view: View) -> bool:
        failed = self._failed_at
        return failed is not None and failed <= len(view) and 10 * len(view) < 11 * failed

    def _carried_out(self, plan: Plan, summary: str | Summary | None) -> View | Condensation:
        text = summary.text if isinstance(summary, Summary) else summary
        action = _proposal(plan, text)
        after = plan.view.copy()
        after.append(action)
        sizes = [self._tokens(view, plan.budget) for view in (plan.view, after)]
        problem = f"the prompt would have {sizes[1]} tokens instead of {sizes[0]}"
        if text is not None and not self._is_worth_it(text, sizes[0] - sizes[1]):
            raise SummaryFailed(problem)
        if plan.requested and sizes[1] >= sizes[0]:
            self._give_up(plan, problem)
            return plan.view
        details = {
            "condenser": type(self).__name__,
            "reason": plan.reason,
            "events_before": len(plan.view),
            "events_after": len(after),
            "tokens_before": sizes[0],
            "tokens_after": sizes[1],
            **(summary.details if isinstance(summary, Summary) else {}),
        }
        self._failed_at = None
        self.metadata = {**details, "forgotten": len(action.forgotten)}
        return Condensation(action.replace(details=details))

    def _is_worth_it(self, summary: str, saved: int) -> bool:
        """True if a summary has at most three quarters of the tokens that it replaces: where it has
        nearly all of them, another way of counting may find it the larger one."""
        tokens = self._counter.count([Message.user_message(summary)])
        return tokens <= 0.75 * (saved + tokens)

    def _fallback_for(self, plan: Plan, failure: ModelFailed) -> Condenser | None:
        """Who answers a request without this model; nothing is forgotten unasked."""
        if self.pays_for_summaries:
            self._failed_at = len(plan.view)
        _log.warning("%s: %s", type(self).__name__, failure)
        fallback = self.fallback if plan.requested else None
        if fallback is None:
            self._give_up(plan, str(failure))
        self.metadata = {"reason": plan.reason, "failed": str(failure)}
        return fallback

    def _give_up(self, plan: Plan, why: str) -> None:
        """Leaves all as it is; where a condensation was requested, that is an error."""
        self.metadata = {"reason": plan.reason, "not_done": why}
        if plan.requested:
            raise cannot_condense(plan.view, plan.budget, why, self.keep_first)

    def _tokens(self, view: View, budget: Budget | None) -> int:
        """The estimated tokens of a view's prompt, as its results are shown with this budget."""
        limit = None if budget is None else budget.longest_result
        return self._counter.count(prompt_of(view, self._memory, limit))


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What is to be forgotten, and why. Without a selection yet, nothing is."""

    view: View
    budget: Budget | None
    requested: bool
    reason: str
    forgotten: Sequence[Turn] = ()

    @property
    def previous_summary(self) -> str | None:
        """The whole summary that stands in the view, if there is one."""
        return "\n\n".join(getattr(event, "content", "") for event in self.summaries) or None

    @property
    def summaries(self) -> list[Event]:
        """What stands in the view for what was forgotten before."""
        return [event for turn in summaries(self.view.turns) for event in turn.events]


def _proposal(plan: Plan, summary: str | None) -> CondensationAction:
    ids = [event.id for turn in plan.forgotten for event in turn.events]
    if summary is not None:  # it takes the place of the old one
        ids += [event.id for event in plan.summaries]
    ids = sorted(event_id for event_id in ids if event_id >= 0)
    return CondensationAction(
        forgotten_event_ids=ids,
        summary=summary,
        summary_offset=None if summary is None else summary_offset(plan.view, ids),
        source=EventSource.AGENT,
    )


def check_outcome(outcome: object, condenser: object) -> None:
    """Raises :class:`InvalidArgument` for what no condenser may return; the message names it."""
    if not isinstance(outcome, View | Condensation):
        raise InvalidArgument(
            f"{type(condenser).__name__}.condense has to return a View or a Condensation; it "
            f"returned {outcome!r:.80}"
        )


def prompt_of(
    view: View,
    memory: ConversationMemory,
    max_message_chars: int | None = None,
    *,
    vision: bool = False,
) -> list[Message]:
    """The messages of a view; none where there is nothing to send."""
    try:
        return memory.process_events(view, None, max_message_chars, vision)
    except NothingToSend:
        return []


def summary_offset(view: View, forgotten: Collection[int]) -> int:
    """Where a summary goes: to the place of the first forgotten event, counted in what is kept."""
    forgotten = frozenset(forgotten)
    for place, event in enumerate(view):
        if event.id in forgotten:
            return place
    return len(view)


def cannot_condense(
    view: View, budget: Budget | None, why: str, keep_first: int | None = None
) -> CannotCondense:
    """The error that names what cannot be made smaller: system message, protected turns, tools."""
    floor = view.without(forgettable(view, keep_first, budget=budget))
    counter = budget.counter if budget is not None else TokenCounter(exact=False)
    tokens = counter.count(prompt_of(floor, ConversationMemory()))
    said = (
        f"the history cannot be made smaller: {why}. Irreducible are {tokens} tokens of system "
        "message, task, newest user message and newest response"
    )
    if budget is not None:
        said += (
            f", and {budget.overhead} tokens of tools; the window has {budget.window} tokens, of "
            f"which {budget.reserved_output} are kept for the output"
        )
    return CannotCondense(
        f"{said}. Use a larger window, fewer tools or a shorter task; where a provider has refused "
        "the prompt, a new message of the user lets it be tried again."
    )


def forgettable(
    view: View,
    keep_first: int | None = None,
    *,
    budget: Budget | None = None,
    keep: Collection[Turn] = (),
) -> list[Turn]:
    """The turns that may be forgotten, oldest first: all but the protected ones and the summary.

    With a budget the newest LLM response stays, too, where it fits with shortened results: an agent
    that does not see what it has just done does it again.
    """
    turns = view.turns
    kept = protected(turns, view.newest_response, view.task, keep_first)
    found = [
        turn
        for place, turn in enumerate(turns)
        if place not in kept
        and turn.kind is not TurnKind.SUMMARY
        and turn not in keep
        and any(event.id >= 0 for event in turn.events)
    ]
    if budget is None or view.newest_response not in found:
        return found
    older = [turn for turn in found if turn is not view.newest_response]
    smallest = prompt_of(view.without(older), ConversationMemory(), SHORTEST_RESULT)
    return older if smallest and budget.fits(smallest) else found


def down_to(
    view: View, candidates: Sequence[Turn], target: int, budget: Budget | None = None
) -> list[Turn]:
    """The oldest candidates, as many as must go so that ``target`` events are left.

    With a budget more of them go, until the rest takes no more than half of what is available: that
    leaves room for a summary and for going on.
    """
    left, count = len(view), 0
    for turn in candidates:
        if left <= target:
            break
        count += 1
        left -= len(turn.events)
    if budget is not None:
        memory = ConversationMemory()

        def is_enough(first: int) -> bool:
            messages = prompt_of(view.without(candidates[:first]), memory)
            return not messages or 2 * budget.count(messages) <= budget.available

        count += bisect.bisect_left(range(count, len(candidates)), True, key=is_enough)
    return list(candidates[:count])


def summaries(turns: Sequence[Turn]) -> list[Turn]:
    """Those of the turns that stand for what was forgotten before."""
    return [turn for turn in turns if turn.kind is TurnKind.SUMMARY]


def events_summed_up(view: View) -> int:
    """How many events of the view a new summary takes the place of: those of the old one."""
    return sum(len(turn.events) for turn in summaries(view.turns))


def check_sizes(name: str, size: int, keep_first: int | None) -> None:
    """Raises :class:`InvalidArgument` for a number of events that leaves no room to forget."""
    if size < 1:
        raise InvalidArgument(f"{name} is a number of events, 1 or more; found {size}")
    if keep_first is not None and not 0 <= keep_first <= size // 2:
        raise InvalidArgument(
            f"keep_first lies between 0 and half of {name} ({size // 2}), so that something can "
            f"be forgotten; found {keep_first}"
        )
