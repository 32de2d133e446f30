"""Clearing of old tool uses: their results, their inputs, and old thinking, all in one jump."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from ..events.event import InvalidArgument
from ..memory.tokens import Budget
from ..memory.turns import Turn, TurnKind
from ..memory.view import View
from .base import Condensation, Condenser
from .config import CondenserConfig, Parts, register_condenser
from .tool_uses import Cleared, ToolUses, Use, Weight

__all__ = ["ToolClearingCondenser", "ToolClearingCondenserConfig"]


class ToolClearingCondenser(Condenser):
    """Clears old tool uses when the prompt grows beyond ``trigger_tokens``, as Anthropic's context
    editing does (``clear_tool_uses``, ``clear_thinking``), for every provider.

    The results of all tool uses but the newest ``keep`` become stubs; with ``clear_inputs`` so do
    the arguments of these calls. Uses of a tool in ``exclude_tools`` are never cleared, nor are
    those of the newest LLM response. With ``keep_thinking`` the thinking of all LLM responses but
    the newest so many goes, too; the tool loop that holds the oldest of these keeps all of it,
    since a loop has its first thinking or none. Nothing is cleared unless at least
    ``clear_at_least`` tokens are gained: what is cleared breaks the prompt cache.

    What was cleared stays cleared: the decisions before each LLM response of the view are made
    again from its beginning. So the result depends on the view alone, and between two clearings
    each prompt extends the one before. Tokens are estimated, without tool definitions; images count
    as if they were sent.

    Raises :class:`InvalidArgument` for negative numbers, and for ``keep_thinking`` below 1.
    """

    may_block = False

    def __init__(
        self,
        trigger_tokens: int = 100_000,
        keep: int = 3,
        clear_at_least: int = 0,
        exclude_tools: Sequence[str] = (),
        *,
        clear_inputs: bool = False,
        keep_thinking: int | None = None,
    ) -> None:
        for name, value in (
            ("trigger_tokens", trigger_tokens),
            ("keep", keep),
            ("clear_at_least", clear_at_least),
        ):
            if value < 0:
                raise InvalidArgument(f"{name} is 0 or more; found {value}")
        if keep_thinking is not None and keep_thinking < 1:
            raise InvalidArgument(
                "keep_thinking is a number of LLM responses, 1 or more, or None for all; found "
                f"{keep_thinking}"
            )
        super().__init__()
        self.trigger_tokens = trigger_tokens
        self.keep = keep
        self.clear_at_least = clear_at_least
        self.exclude_tools = frozenset(exclude_tools)
        self.clear_inputs = clear_inputs
        self.keep_thinking = keep_thinking
        self._uses = ToolUses(exclude_tools, clear_inputs=clear_inputs)

    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        ledger = _Ledger(self.trigger_tokens, self.keep, self.clear_at_least, self.keep_thinking)
        for turn in view.turns:
            ledger.add(turn, self._uses.weight(turn))
        ledger.settle()
        thinking = {turn for _, turn, _ in ledger.thinking[: ledger.cleared_thinking]}
        gone = Cleared(ledger.uses, ledger.cleared_uses, ledger.cleared_uses, thinking)
        cleared = self._uses.without(view, gone)
        self.metadata = (
            {
                "tool_uses_cleared": ledger.cleared_uses,
                "thinking_cleared": ledger.cleared_thinking,
                "tokens_gained": ledger.gained,
                "clearings": ledger.clearings,
            }
            if cleared is not view
            else {}
        )
        return cleared


# ---------------------------------------------------------------------- what is cleared, and when


class _Ledger:
    """Goes through the turns as they came and decides before each LLM response."""

    def __init__(
        self, trigger: int, keep: int, clear_at_least: int, keep_thinking: int | None
    ) -> None:
        self._trigger = trigger
        self._keep = keep
        self._least = max(1, clear_at_least)
        self._keep_thinking = keep_thinking
        self._tokens = 0
        self._pending = 0  # the gain that lies between what is cleared and what may be
        self.uses: list[tuple[Turn, Use]] = []
        self._newest_uses = 0  # where those of the newest response begin
        self._uses_to = 0
        self.thinking: list[tuple[int, Turn, int]] = []  # (the loop it is in, the turn, tokens)
        self._loop = 0
        self._thinking_to = 0
        self.cleared_uses = 0
        self.cleared_thinking = 0
        self.gained = 0
        self.clearings = 0

    def add(self, turn: Turn, weight: Weight) -> None:
        if turn.kind is TurnKind.RESPONSE:
            self.settle()
            self._newest_uses = len(self.uses)
            if weight.thinking:
                self.thinking.append((self._loop, turn, weight.thinking))
        elif turn.kind is TurnKind.USER:
            self._loop += 1
        self.uses += [(turn, use) for use in weight.uses]
        self._tokens += weight.tokens

    def settle(self) -> None:
        """Clears what may be cleared now, if it is time and worth it."""
        may_go = min(len(self.uses) - self._keep, self._newest_uses)
        while self._uses_to < may_go:
            use = self.uses[self._uses_to][1]
            self._pending += use.result_gain + use.input_gain
            self._uses_to += 1
        while self._thinking_to < len(self.thinking) and self._is_old(self._thinking_to):
            self._pending += self.thinking[self._thinking_to][2]
            self._thinking_to += 1
        if self._tokens > self._trigger and self._pending >= self._least:
            self._tokens -= self._pending
            self.gained += self._pending
            self._pending = 0
            self.cleared_uses = self._uses_to
            self.cleared_thinking = self._thinking_to
            self.clearings += 1

    def _is_old(self, place: int) -> bool:
        """True for the thinking of a loop that holds none of the newest."""
        if self._keep_thinking is None or len(self.thinking) <= self._keep_thinking:
            return False
        return self.thinking[place][0] < self.thinking[-self._keep_thinking][0]


# ---------------------------------------------------------------------- configuration


@register_condenser
class ToolClearingCondenserConfig(CondenserConfig):
    """``type: tool_clearing``"""

    type: Literal["tool_clearing"] = "tool_clearing"
    trigger_tokens: int = Field(default=100_000, ge=0)
    """Estimated tokens of the prompt above which old tool uses are cleared."""
    keep: int = Field(default=3, ge=0)
    """How many of the newest tool uses stay."""
    clear_at_least: int = Field(default=0, ge=0)
    """Tokens that must be gained, or nothing is cleared."""
    exclude_tools: tuple[str, ...] = ()
    """Names of tools whose uses are never cleared."""
    clear_inputs: bool = False
    """Whether the arguments of cleared calls go, too."""
    keep_thinking: int | None = Field(default=None, ge=1)
    """How many of the newest LLM responses keep their thinking; null: all."""

    def build(self, parts: Parts) -> Condenser:
        return ToolClearingCondenser(
            self.trigger_tokens,
            self.keep,
            self.clear_at_least,
            self.exclude_tools,
            clear_inputs=self.clear_inputs,
            keep_thinking=self.keep_thinking,
        )
