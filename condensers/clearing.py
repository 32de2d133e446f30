"""Clearing of old tool uses: their results, their inputs, and old thinking, all in one jump."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from ..events.actions import MCPAction, SystemMessageAction
from ..events.event import Event, InvalidArgument
from ..memory.image_size import image_tokens
from ..memory.rendering import action_text, call_arguments, image_urls, result_text, thought_of
from ..memory.tokens import Budget, TokenCounter
from ..memory.turns import Turn, TurnKind, is_observation, response_of
from ..memory.view import View
from .base import Condensation, Condenser
from .config import CondenserConfig, Parts, register_condenser
from .response_edits import ResponseEdit, arguments_of
from .stubs import Result, Stubs, is_smaller, is_stub, size_of, stub_of, tokens_of

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
        self._weights: dict[Turn, _Weight] = {}
        self._stubs = Stubs()

    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        known, self._weights = self._weights, {}
        for turn in view.turns:
            self._weights[turn] = known[turn] if turn in known else self._weight(turn)
        ledger = _Ledger(self.trigger_tokens, self.keep, self.clear_at_least, self.keep_thinking)
        for turn, weight in self._weights.items():
            ledger.add(turn, weight)
        ledger.settle()
        pairs = list(_replacements(view, ledger))
        chosen, edits = [result for result, _ in pairs], [edit for _, edit in pairs]
        cleared = self._stubs.put(view, chosen, edits, _replacement)
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

    def _weight(self, turn: Turn) -> _Weight:
        if turn.kind is not TurnKind.RESPONSE:
            return _Weight(sum(_event_tokens(event) for event in turn.events), 0, ())
        said = turn.remembered(response_of)
        extra = {**said.thinking, **said.provider_fields}
        extra_tokens = _COUNTER.count([{"role": "assistant", **extra}]) if extra else 0
        tokens = tokens_of(said.text or thought_of(turn.events[0])) + extra_tokens
        uses = []
        for call in turn.calls:
            given = arguments_of(call.action, said)
            tokens += tokens_of(call_arguments(call.action) if given is None else given)
            if call.result is not None:
                tokens += _event_tokens(call.result)
                uses.append(self._use(call.action, call.result, given))
        return _Weight(tokens, extra_tokens if said.thinking else 0, tuple(uses))

    def _use(self, action: Event, result: Event, given: str | None) -> _Use:
        if _tool_of(action) in self.exclude_tools:
            return _Use(action, result)
        stub = _result_stub(result)
        gain = 0 if stub is None else _event_tokens(result) - _event_tokens(stub)
        if not self.clear_inputs or given is None:
            return _Use(action, result, gain)
        instead = json.dumps({"cleared": f"{len(given)} characters of event {action.id}"})
        if not is_smaller(instead, given):
            return _Use(action, result, gain)
        return _Use(action, result, gain, instead, tokens_of(given) - tokens_of(instead))


# ---------------------------------------------------------------------- what is cleared, and when


@dataclass(frozen=True, slots=True)
class _Use:
    """A tool use, and the tokens that its result and its input would free; ``instead`` is what
    would stand for its arguments."""

    action: Event
    result: Event
    result_gain: int = 0
    instead: str | None = None
    input_gain: int = 0


@dataclass(frozen=True, slots=True)
class _Weight:
    """What a turn takes: its tokens, those of its thinking among them, and its tool uses."""

    tokens: int
    thinking: int
    uses: tuple[_Use, ...]


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
        self.uses: list[tuple[Turn, _Use]] = []
        self._newest_uses = 0  # where those of the newest response begin
        self._uses_to = 0
        self.thinking: list[tuple[int, Turn, int]] = []  # (the loop it is in, the turn, tokens)
        self._loop = 0
        self._thinking_to = 0
        self.cleared_uses = 0
        self.cleared_thinking = 0
        self.gained = 0
        self.clearings = 0

    def add(self, turn: Turn, weight: _Weight) -> None:
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


# ---------------------------------------------------------------------- the replacements


def _replacements(view: View, ledger: _Ledger) -> Iterator[tuple[Result, ResponseEdit | None]]:
    """The results and, with their edits, the actions that are replaced."""
    places = {serial: place for place, serial in enumerate(view.serials)}

    def of(turn: Turn, event: Event) -> Result:
        at = next(at for at, other in enumerate(turn.events) if other is event)
        return Result(places[turn.serials[at]], event, None, turn)

    arguments: dict[Turn, dict[str, str | None]] = {}
    for number, (turn, use) in enumerate(ledger.uses):
        is_cleared = number < ledger.cleared_uses
        if is_cleared and use.result_gain:
            yield of(turn, use.result), None
        if use.action.tool_call_metadata is not None:
            # Two calls with one id share their arguments: the first one's.
            call_id = use.action.tool_call_metadata.tool_call_id
            of_turn = arguments.setdefault(turn, {})
            instead = use.instead if is_cleared else None
            of_turn[call_id] = of_turn.get(call_id, instead) and instead
    without_thinking = {turn for _, turn, _ in ledger.thinking[: ledger.cleared_thinking]}
    for turn in view.turns:
        metadata = turn.events[0].tool_call_metadata
        if turn.kind is not TurnKind.RESPONSE or metadata is None:
            continue
        new = tuple((key, text) for key, text in arguments.get(turn, {}).items() if text)
        if metadata.model_response is None or not (new or turn in without_thinking):
            continue
        edit = ResponseEdit(metadata.model_response, new, turn in without_thinking)
        for event in turn.events:
            if not is_observation(event):
                yield of(turn, event), edit


def _replacement(event: Event, edit: ResponseEdit | None) -> Event | None:
    return _result_stub(event) if edit is None else edit.applied_to(event)


def _result_stub(result: Event) -> Event | None:
    if is_stub(result):
        return None
    return stub_of(
        result,
        f"[Cleared: {size_of(result)}, which came back at event {result.id}. "
        "Call the tool again if you need it.]",
    )


# ---------------------------------------------------------------------- what stands in a turn


_COUNTER = TokenCounter(exact=False)


def _tool_of(action: Event) -> str:
    if action.tool_call_metadata is not None and action.tool_call_metadata.function_name:
        return action.tool_call_metadata.function_name
    return action.name if isinstance(action, MCPAction) else action.kind


def _event_tokens(event: Event) -> int:
    if isinstance(event, SystemMessageAction):
        text = event.content
    else:
        text = result_text(event) if is_observation(event) else action_text(event)
    return tokens_of(text) + sum(image_tokens(url) for url in image_urls(event))


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
