"""What the tool uses of a view take, and the view without some of their results and inputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..events.actions import MCPAction, SystemMessageAction
from ..events.event import Event
from ..memory.image_size import image_tokens
from ..memory.rendering import action_text, call_arguments, image_urls, result_text, thought_of
from ..memory.tokens import TokenCounter
from ..memory.turns import Turn, TurnKind, is_observation, response_of
from ..memory.view import View
from .folding import FOLD
from .response_edits import ResponseEdit, arguments_of
from .stubs import Result, Stubs, is_smaller, is_stub, size_of, stub_of, tokens_of

__all__ = ["Cleared", "ToolUses", "Use", "Weight"]


@dataclass(frozen=True, slots=True)
class Use:
    """A tool use, and the tokens that its result and its input would free; ``instead`` is what
    would stand for its arguments."""

    action: Event
    result: Event
    result_gain: int = 0
    instead: str | None = None
    input_gain: int = 0


@dataclass(frozen=True, slots=True)
class Weight:
    """What a turn takes: its tokens, those of its thinking among them, and its tool uses."""

    tokens: int
    thinking: int
    uses: tuple[Use, ...]


@dataclass(frozen=True, slots=True)
class Cleared:
    """What is let go of ``uses``, which are in the view's order: the first ``results`` results, the
    first ``inputs`` inputs, and the thinking of some turns."""

    uses: Sequence[tuple[Turn, Use]]
    results: int
    inputs: int
    thinking: Collection[Turn] = ()


class ToolUses:
    """The tool uses of a view, and the view without some of them. Those of ``exclude_tools`` free
    nothing, nor do inputs unless ``clear_inputs``; that of a call that closes a sub-task never
    does, as its summary stands nowhere else."""

    def __init__(self, exclude_tools: Sequence[str] = (), *, clear_inputs: bool) -> None:
        self._weigh = _weighing(frozenset(exclude_tools), clear_inputs)
        self._stubs = Stubs()
        # What was cleared of the newest view: how much, in which of its first turns, and for what.
        self._cleared: tuple[int, int, frozenset[Turn]] = (0, 0, frozenset())
        self._turns: list[Turn] = []
        self._pairs: list[tuple[Result, ResponseEdit | None]] = []

    def weight(self, turn: Turn) -> Weight:
        """What a turn takes. Each turn is weighed once."""
        return turn.remembered(self._weigh)

    def without(self, view: View, cleared: Cleared) -> View:
        """The view with stubs for what is cleared; the same view if nothing is."""
        if not (cleared.results or cleared.inputs or cleared.thinking):
            return view
        gone = cleared.results, cleared.inputs, frozenset(cleared.thinking)
        turns = view.turns
        if gone != self._cleared or turns[: len(self._turns)] != self._turns:
            self._pairs = list(_replacements(view, cleared))
            changed = {result.turn.serial for result, _ in self._pairs}
            ends = [place for place, turn in enumerate(turns, 1) if turn.serial in changed]
            self._cleared, self._turns = gone, turns[: max(ends, default=0)]
        chosen, edits = [result for result, _ in self._pairs], [edit for _, edit in self._pairs]
        return self._stubs.put(view, chosen, edits, _replacement)


@lru_cache(maxsize=64)
def _weighing(exclude_tools: frozenset[str], clear_inputs: bool) -> Callable[[Turn], Weight]:
    """What weighs a turn: one and the same object for equal arguments, so that ``turn.remembered``
    finds what was weighed before."""
    return _Scales(exclude_tools, clear_inputs).weigh


@dataclass(frozen=True, slots=True, eq=False)
class _Scales:
    exclude_tools: frozenset[str]
    clear_inputs: bool

    def weigh(self, turn: Turn) -> Weight:
        if turn.kind is not TurnKind.RESPONSE:
            return Weight(sum(_event_tokens(event) for event in turn.events), 0, ())
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
        return Weight(tokens, extra_tokens if said.thinking else 0, tuple(uses))

    def _use(self, action: Event, result: Event, given: str | None) -> Use:
        if _tool_of(action) in self.exclude_tools:
            return Use(action, result)
        stub = _result_stub(result)
        gain = 0 if stub is None else _event_tokens(result) - _event_tokens(stub)
        if not self.clear_inputs or given is None or _tool_of(action) == FOLD:
            return Use(action, result, gain)
        instead = json.dumps({"cleared": f"{len(given)} characters of event {action.id}"})
        if not is_smaller(instead, given):
            return Use(action, result, gain)
        return Use(action, result, gain, instead, tokens_of(given) - tokens_of(instead))


# ---------------------------------------------------------------------- the replacements


def _replacements(view: View, cleared: Cleared) -> Iterator[tuple[Result, ResponseEdit | None]]:
    """The results and, with their edits, the actions that are replaced."""
    places = {serial: place for place, serial in enumerate(view.serials)}

    def of(turn: Turn, event: Event) -> Result:
        at = next(at for at, other in enumerate(turn.events) if other is event)
        return Result(places[turn.serials[at]], event, None, turn)

    arguments: dict[Turn, dict[str, str | None]] = {}
    for number, (turn, use) in enumerate(cleared.uses):
        if number < cleared.results and use.result_gain:
            yield of(turn, use.result), None
        if use.action.tool_call_metadata is not None:
            # Two calls with one id share their arguments: the first one's.
            call_id = use.action.tool_call_metadata.tool_call_id
            of_turn = arguments.setdefault(turn, {})
            instead = use.instead if number < cleared.inputs else None
            of_turn[call_id] = of_turn.get(call_id, instead) and instead
    for turn in view.turns:
        metadata = turn.events[0].tool_call_metadata
        if turn.kind is not TurnKind.RESPONSE or metadata is None:
            continue
        new = tuple((key, text) for key, text in arguments.get(turn, {}).items() if text)
        if metadata.model_response is None or not (new or turn in cleared.thinking):
            continue
        edit = ResponseEdit(metadata.model_response, new, turn in cleared.thinking)
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
