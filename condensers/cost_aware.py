"""Condensing when it pays: the prices of tokens decide when, and what is let go of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from ..events.event import InvalidArgument
from ..memory.tokens import Budget
from ..memory.turns import Turn, head
from ..memory.view import View
from .account import OPTIONS, Account, Terms
from .base import (
    CannotCondense,
    Condensation,
    Condenser,
    Plan,
    RollingCondenser,
    StandIn,
    Summary,
    down_to,
    forgettable,
    summaries,
)
from .config import Parts, built, register_condenser
from .digest import Digest
from .llm_summary import LLMSummary
from .prices import Prices
from .steps import Steps
from .summarizing import SummaryConfig, chat_model
from .tool_uses import ToolUses
from .window import ConversationWindowCondenser

__all__ = ["CostAwareCondenser", "CostAwareCondenserConfig"]


class CostAwareCondenser(RollingCondenser):
    """Masks, clears or summarizes old turns when that costs less than carrying them on.

    Every prompt reads the whole history again, most of it from the provider's prompt cache.
    Whatever is changed in it breaks the cache from there on, and a summary has its own price: so
    condensing early is as wasteful as condensing late. :class:`~eventfold.condensers.account
    .Account` says how both are weighed, at each step, from the events of the run alone: a restart
    or a replay decides the same. No number of events or tokens has to be chosen.

    ``options`` are what may be done: ``mask`` (stubs for results), ``clear`` (for the arguments of
    their calls as well), ``summarize`` (a summary for whole turns). Of those that are due the
    gentlest is taken that is worth about as much as the best. The newest ``keep_recent`` tokens are
    left alone. ``expected_steps`` is how long a run is likely to be; without it, at each step half
    as many are expected to come as there have been. On request it forgets at any price.

    ``stand_in`` writes the summaries: a :class:`~eventfold.condensers.digest.Digest`, which costs
    nothing, if none is given. ``prices`` are those of the agent's model; ``summary_prices`` those
    of the summarizer's (None: the same, or nothing for a digest). Where the summarizer fails,
    nothing is forgotten; a request is answered by ``fallback`` (a
    :class:`ConversationWindowCondenser` if none is given).

    A condensation's details hold the figures under ``account``, in dollars; so does ``metadata``
    where something is masked or cleared.

    Raises :class:`InvalidArgument` for numbers out of range and unknown options.
    """

    def __init__(
        self,
        stand_in: StandIn | None = None,
        prices: Prices | None = None,
        *,
        summary_prices: Prices | None = None,
        keep_recent: int = 4_000,
        keep_first: int | None = None,
        expected_steps: int | None = None,
        options: Iterable[str] = OPTIONS,
        minimum_progress: float = 0.1,
        fallback: Condenser | None = None,
    ) -> None:
        if keep_recent < 0:
            raise InvalidArgument(
                f"keep_recent is a number of tokens, 0 or more; found {keep_recent}"
            )
        if keep_first is not None and keep_first < 0:
            raise InvalidArgument(
                f"keep_first is a number of events, 0 or more; found {keep_first}"
            )
        if expected_steps is not None and expected_steps < 1:
            raise InvalidArgument(
                f"expected_steps is a number of steps, 1 or more; found {expected_steps}"
            )
        options = frozenset(options)
        if not options or not options <= set(OPTIONS):
            raise InvalidArgument(
                f"options are one or more of {', '.join(OPTIONS)}; found {sorted(options)}"
            )
        super().__init__(
            self._pays,
            self._old,
            stand_in if stand_in is not None else Digest(),
            minimum_progress=minimum_progress,
            fallback=fallback if fallback is not None else ConversationWindowCondenser(),
        )
        prices = prices if prices is not None else Prices()
        if summary_prices is None and not isinstance(self.stand_in, Digest):
            summary_prices = prices
        self.keep_first = keep_first
        self.pays_for_summaries = summary_prices is not None
        self.terms = Terms(prices, summary_prices, keep_recent, expected_steps, options)
        self._uses = ToolUses(clear_inputs="clear" in options)
        self._settled: list[Turn] = []  # turns that can no longer change
        self._task: Turn | None = None  # of the same view
        self._of_settled = Account(self.terms, None)
        self._newest: tuple[list[Turn], Account] = ([], self._of_settled)

    def _steps(self, view: View, budget: Budget | None) -> Steps[View | Condensation]:
        try:
            outcome = yield from super()._steps(view, budget)
        except CannotCondense as refusal:
            refusal.view = self._shown(view) if refusal.view is None else refusal.view
            raise
        if isinstance(outcome, Condensation):
            return outcome
        shown = self._shown(outcome)
        if shown is not outcome:
            cleared = self._account(outcome).cleared
            self.metadata["masked"] = cleared.results
            self.metadata["inputs_cleared"] = cleared.inputs
        choice = self._account(outcome).choice
        if choice is not None:
            self.metadata["account"] = choice.figures()
        return shown

    def _account(self, view: View) -> Account:
        """The account of a view. It goes on from the one before, as far as turns are the same."""
        turns, newest = view.turns, view.newest_response
        if turns == self._newest[0]:
            return self._newest[1]
        changing = len(turns) if newest is None else turns.index(newest)
        begin = len(self._settled)
        if (
            not 0 < begin <= changing
            or turns[:begin] != self._settled
            or view.task is not self._task
            or summaries(turns[begin:])
        ):
            begin, self._task = 0, view.task
            tokens = sum(self._uses.weight(turn).tokens for turn in summaries(turns))
            stay = {turns[place].serial for place in head(turns, view.task, self.keep_first)}
            self._of_settled = Account(self.terms, tokens or None, stay)
        for turn in turns[begin:changing]:
            self._of_settled.add(turn, self._uses.weight(turn))
        # A summary that is not among these turns may go without a trace in them, and the head may
        # not be complete.
        is_open = summaries(turns[changing:]) or len(view) <= (self.keep_first or 0)
        self._settled = [] if is_open else turns[:changing]
        account = self._of_settled.copy()
        for turn in turns[changing:]:
            account.add(turn, self._uses.weight(turn))
        account = account.settled()
        self._newest = turns, account
        return account

    def _shown(self, view: View) -> View:
        """The view with stubs for what has been masked and cleared so far."""
        return self._uses.without(view, self._account(view).cleared)

    def _pays(self, view: View, budget: Budget | None, /) -> str | None:
        choice = self._account(view).choice
        if choice is None or choice.option != "summarize":
            return None
        return (
            f"carrying {choice.saved} tokens on has cost as much as letting them go, and would "
            f"cost more over the next {choice.steps} steps"
        )

    def _old(self, view: View, requested: bool, budget: Budget | None, /) -> list[Turn]:
        candidates = forgettable(view, self.keep_first, budget=budget if requested else None)
        old = set(self._account(view).old)
        forgotten = [turn for turn in candidates if turn in old]
        if not requested:
            return forgotten
        return max(forgotten, down_to(view, candidates, len(view) // 2, budget), key=len)

    def _carried_out(self, plan: Plan, summary: str | Summary | None) -> View | Condensation:
        outcome = super()._carried_out(plan, summary)
        choice = self._account(plan.view).choice
        if isinstance(outcome, View) or choice is None or plan.requested:
            return outcome
        details = {**(outcome.action.details or {}), "account": choice.figures()}
        self.metadata["account"] = choice.figures()
        return Condensation(outcome.action.replace(details=details))

    def _tokens(self, view: View, budget: Budget | None) -> int:
        return super()._tokens(self._shown(view), budget)


@register_condenser
class CostAwareCondenserConfig(SummaryConfig):
    """``type: cost_aware``. Without ``llm_config`` a digest takes the place of a summary."""

    type: Literal["cost_aware"] = "cost_aware"
    prices: Prices | str | None = None
    """Of the agent's model, in dollars for a million tokens, or its name as litellm knows it;
    without it, those of a usual model."""
    summary_prices: Prices | str | None = None
    """Of the summarizer's model; without it, the same."""
    keep_recent: int = Field(4_000, ge=0)
    """Tokens of the newest turns that are left alone."""
    keep_first: int | None = Field(None, ge=0)
    """Events at the beginning that stay; without it, the task."""
    expected_steps: int | None = Field(None, ge=1)
    """How many steps a run is likely to have."""
    options: tuple[Literal["mask", "clear", "summarize"], ...] = Field(
        ("mask", "clear", "summarize"), min_length=1
    )
    """What may be done about old turns."""

    def build(self, parts: Parts) -> Condenser:
        llm = parts.llm
        if llm is None and self.llm_config is not None:
            llm = chat_model(self.llm_config)
        summary = None
        if llm is not None:
            summary = LLMSummary(
                llm,
                prompt=self.prompt,
                max_input_tokens=self.max_input_tokens,
                max_output_tokens=self.max_output_tokens,
                ledger_chars=self.ledger_chars,
                parallel=self.parallel,
            )
        return CostAwareCondenser(
            summary,
            parts.prices if self.prices is None else _prices(self.prices),
            summary_prices=None if self.summary_prices is None else _prices(self.summary_prices),
            keep_recent=self.keep_recent,
            keep_first=self.keep_first,
            expected_steps=self.expected_steps,
            options=self.options,
            minimum_progress=self.minimum_progress,
            fallback=None if self.fallback is None else built(self.fallback, parts),
        )


def _prices(said: Prices | str) -> Prices:
    return Prices.of(said) if isinstance(said, str) else said
