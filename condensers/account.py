"""The account of a run: what carrying old turns on costs, and what letting go of them would."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from ..memory.turns import Turn, TurnKind
from .prices import Prices
from .tool_uses import Cleared, Use, Weight

__all__ = ["OPTIONS", "Account", "Choice", "Terms"]

OPTIONS = ("mask", "clear", "summarize")
"""What can be done about old turns, the gentlest first: results become stubs; results and the
arguments of their calls do; a summary takes the place of the turns."""

_LETS_GO = {"mask": ("results",), "clear": ("results", "inputs"), "summarize": ("turns",)}
_GENTLE = 0.9  # of the best option's worth that a gentler one must have to be preferred
_SUMMARY = 1_000  # tokens that a first summary is expected to have
_ASKING = 300  # tokens of the instructions to the summarizer


@dataclass(frozen=True, slots=True)
class Terms:
    """What the account is made with.

    ``prices`` are those of the agent's model, ``summary_prices`` those of the summarizer's (None:
    it costs nothing).
    ``keep_recent`` tokens of the newest turns are always left alone. ``expected_steps`` is how many
    steps a run has; None: at each step half as many are expected to come as there have been.
    """

    prices: Prices
    summary_prices: Prices | None
    keep_recent: int
    expected_steps: int | None
    options: frozenset[str]


@dataclass(frozen=True, slots=True)
class Choice:
    """An option and its figures. Money is in millionths of a dollar: tokens times the prices."""

    option: str
    saved: int
    """Tokens that each later step has less."""
    rent: float
    """What these tokens have cost since they could have been let go."""
    lost: float
    """What is written into the prompt cache anew."""
    own: float
    """What asking the summarizer costs."""
    steps: int
    """How many steps are expected to come."""
    worth: float
    """What is saved over these steps, less what it costs."""
    is_due: bool
    """Whether the rent has reached what it costs at once."""

    def figures(self) -> dict[str, Any]:
        """As JSON; money in dollars."""
        return {
            "option": self.option,
            "tokens_saved": self.saved,
            "expected_steps": self.steps,
            **{
                name: round(getattr(self, name) / 1_000_000, 6)
                for name in ("rent", "lost", "own", "worth")
            },
        }


class Account:
    """Goes through the turns of a view as they came, and decides before each LLM response.

    Old turns cost rent: each prompt reads them again. An option is due once the rent of what it
    would save, added up since the last decision, has reached what the option costs at once: the
    part of the prompt cache that it breaks, and the answer of the summarizer. That is how often to
    restock where demand is steady (Harris 1913), and how long to rent skis before buying them:
    never more than twice what hindsight would pay. It is taken if the steps that are expected to
    come save more than all of its cost, what the summarizer reads of the old turns included; and
    if it saves as much as is left alone: what is lost has no price here, and would be let go in
    crumbs where it costs nothing.

    What was masked or cleared stays so, since the decisions are made again from the beginning of
    the view. A summary that was due before and is not there could not be made; something gentler
    was done instead.
    """

    def __init__(self, terms: Terms, summary: int | None, stay: Collection[int] = ()) -> None:
        """``summary``: the tokens of the one that stands in the view; None for none. ``stay``: the
        serials of turns that are never let go of. Nor is the newest user message."""
        self._terms = terms
        self._stay = frozenset(stay)
        self._user: int | None = None  # serial of the newest user message
        self._held: _Pending | None = None  # the same, if it is old
        self._summary = summary or 0
        self._next_summary = summary or _SUMMARY
        self._turns: list[tuple[Turn, Weight]] = []
        self._events = self._steps = 0  # of LLM responses
        self._tokens = 0  # of the prompt, as it is sent
        self._fresh = 0  # of these, those of the turns that are not old
        self._old = 0  # how many turns are old
        self._uses: list[tuple[Turn, Use]] = []  # of the old turns
        self._results = 0  # how many of the uses have lost their results
        self._inputs = 0  # and their inputs
        self._pending = {"results": _Pending(), "inputs": _Pending(), "turns": _Pending()}
        self._whole = 0  # tokens of the old turns that a summary would replace, as they came
        self._rent: dict[str, float] = dict.fromkeys(OPTIONS, 0.0)
        self.choice: Choice | None = None
        """What is to be done before the next response, once it is settled."""

    def copy(self) -> Account:
        """An account that goes on from here; what happens to it does not change this one."""
        copy = Account.__new__(Account)
        copy.__dict__ = {
            name: value.copy() if isinstance(value, list | dict) else value
            for name, value in vars(self).items()
        }
        copy._pending = {kind: replace(pending) for kind, pending in self._pending.items()}
        copy._held = None if self._held is None else replace(self._held)
        return copy

    @property
    def old(self) -> list[Turn]:
        """The turns that are not among the newest, oldest first."""
        return [turn for turn, _ in self._turns[: self._old]]

    @property
    def cleared(self) -> Cleared:
        """What is masked and cleared so far."""
        return Cleared(self._uses, self._results, self._inputs)

    def add(self, turn: Turn, weight: Weight) -> None:
        """Takes the view's next turn into account."""
        if turn.kind is TurnKind.RESPONSE:
            self._settle()
            if self.choice is not None and self.choice.option == "summarize":
                self._take(self._best(self._terms.options - {"summarize"}))
            self._steps += 1
            self._events += len(turn.events)
        elif turn.kind is TurnKind.USER:
            self._user = turn.serial
            if self._held is not None:  # it is no longer the newest
                self._may_go(self._held)
                self._held = None
        self._turns.append((turn, weight))
        self._tokens += weight.tokens
        self._fresh += weight.tokens

    def settled(self) -> Account:
        """A copy of this account as it stands before the next response: with its choice."""
        account = self.copy()
        account._settle()
        return account

    def _settle(self) -> None:
        """Decides what to do before the next response."""
        while self._old < len(self._turns) - 1 and self._fresh > self._terms.keep_recent:
            self._add_old(*self._turns[self._old])
        for option in OPTIONS:
            self._rent[option] += self._terms.prices.cache_read * max(0, self._saved(option))
        self.choice = self._best(self._terms.options)
        if self.choice is not None and self.choice.option != "summarize":
            self._take(self.choice)

    def _add_old(self, turn: Turn, weight: Weight) -> None:
        before = self._tokens - self._fresh
        self._old += 1
        self._fresh -= weight.tokens
        place = _Pending(weight.tokens, before, turn.serial)
        if turn.kind in _STAY or turn.serial in self._stay:
            return
        if turn.serial == self._user:
            self._held = place
            return
        self._may_go(place)
        for use in weight.uses:
            self._uses.append((turn, use))
            self._pending["results"].add(_Pending(use.result_gain, before, turn.serial))
            self._pending["inputs"].add(_Pending(use.input_gain, before, turn.serial))

    def _may_go(self, turn: _Pending) -> None:
        self._whole += turn.tokens
        self._pending["turns"].add(turn)

    def _take(self, choice: Choice | None) -> None:
        """Masks or clears what may be."""
        if choice is None:
            return
        kinds = _LETS_GO[choice.option]
        gain = sum(self._pending[kind].tokens for kind in kinds)
        self._tokens -= gain
        self._pending["turns"].tokens -= gain
        places = [self._pending["inputs"], *([self._held] if self._held is not None else [])]
        for turn, use in self._uses[self._results :]:
            for place in places:  # what is sent before it becomes less
                place.before -= use.result_gain if turn.serial < place.first else 0
        self._results = len(self._uses)
        if choice.option == "clear":
            self._inputs = len(self._uses)
        for kind in kinds:
            self._pending[kind] = _Pending()
        self._rent["mask"] = self._rent["clear"] = 0.0

    # ------------------------------------------------------------------ the figures

    def _best(self, options: Collection[str]) -> Choice | None:
        """If an option is due and pays: the gentlest one that brings about as much as the best."""
        choices = [self._figures(option) for option in OPTIONS if option in options]
        best = max((choice.worth for choice in choices if choice.is_due), default=0)
        if best <= 0:
            return None
        return next(choice for choice in choices if choice.worth >= _GENTLE * best)

    def _figures(self, option: str) -> Choice:
        prices, summarizer = self._terms.prices, self._terms.summary_prices
        saved = self._saved(option)
        kept = self._tokens - self._before(option) - saved  # what is sent behind the change
        own = reading = 0.0
        if option == "summarize" and summarizer is not None:
            own = (self._summary + _ASKING) * summarizer.input
            own += self._next_summary * summarizer.output
            reading = self._whole * summarizer.input
        lost = max(0, kept) * max(0.0, prices.cache_write - prices.cache_read)
        steps = self._steps_to_come()
        return Choice(
            option,
            saved,
            self._rent[option],
            lost,
            own + reading,
            steps,
            saved * prices.cache_read * steps - lost - own - reading,
            is_due=saved > 0
            and saved >= self._terms.keep_recent
            and self._rent[option] >= lost + own,
        )

    def _saved(self, option: str) -> int:
        """The tokens that each later step has less."""
        gone = sum(self._pending[kind].tokens for kind in _LETS_GO[option])
        if option == "summarize" and gone:
            return gone + self._summary - self._next_summary
        return gone

    def _before(self, option: str) -> int:
        """The tokens before the first change."""
        found = [self._pending[kind] for kind in _LETS_GO[option]]
        before = min((pending.before for pending in found if pending.tokens), default=0)
        return max(0, before - self._summary) if option == "summarize" else before

    def _steps_to_come(self) -> int:
        """What is left of the steps that were expected, a tenth of those that there have been at
        the least; without an expectation half as many as these. Steps that the view does not show
        any more are estimated."""
        events = self._turns[-1][0].serials[-1] if self._turns else 0
        done = max(self._steps, events * self._steps // max(1, self._events))
        expected = self._terms.expected_steps
        return done // 2 if expected is None else max(expected - done, done // 10)


_STAY = (TurnKind.SYSTEM, TurnKind.SUMMARY)  # a summary's place is taken by the next one


@dataclass(slots=True)
class _Pending:
    """Tokens that could be let go of, those before the first of them, and the serial of the turn
    that this one is in."""

    tokens: int = 0
    before: int = 0
    first: int = -1

    def add(self, other: _Pending) -> None:
        if other.tokens and (not self.tokens or other.first < self.first):
            self.before, self.first = other.before, other.first
        self.tokens += other.tokens
