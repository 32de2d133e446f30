"""What a run would have cost under a condenser, its prompt cache included; no key is needed."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..condensers.config import CondenserConfig
from ..condensers.extractive import ExtractiveModel
from ..condensers.from_config import condenser_from_config
from ..condensers.prices import Prices
from ..events.event import Event
from ..events.formats.runs import Run
from ..memory.message import ChatDict, ChatModel, Message, Reply
from ..memory.tokens import TokenCounter
from .engine import replay

__all__ = ["Cost", "run_cost"]

_COUNTER = TokenCounter(exact=False)
_MILLION = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """Dollars of a run's input, and what they were paid for. The agent's own answers, which cost
    the same under every condenser, are left out."""

    prompts: float
    """Of all prompts: what is read from the prompt cache, and what is written into it."""
    summaries: float
    """Of the summarizer's calls, answers included."""
    steps: int
    condensations: int
    longest_prompt: int
    """Estimated tokens."""

    @property
    def total(self) -> float:
        return self.prompts + self.summaries


def run_cost(
    run: Run | Iterable[Event],
    condenser: Mapping[str, Any] | CondenserConfig | str | Path,
    prices: Prices | None = None,
    *,
    summary_prices: Prices | None = None,
    llm: ChatModel | None = None,
) -> Cost:
    """Replays a run under a condenser, given by its configuration, and adds up what it costs.

    The prompt cache is a simple one: of each prompt, the messages with which the one before began
    as well are read from it, and all others are written into it. A condenser that reckons with
    prices reckons with these, unless its configuration names others. ``llm`` is the summarizer (a
    stand-in without a language model if none is given); ``summary_prices`` are its prices (None:
    the same). Tokens are estimated. Raises what :func:`replay` and a configuration may raise.
    """
    prices = prices if prices is not None else Prices()
    summary_prices = summary_prices if summary_prices is not None else prices
    summarizer = _Metered(llm if llm is not None else ExtractiveModel(), summary_prices)
    before: Sequence[Message] = ()
    spent, steps, condensations, longest = 0.0, 0, 0, 0
    for step in replay(run, condenser_from_config(condenser, llm=summarizer, prices=prices)):
        same = _same(before, step.messages)
        read = _COUNTER.count(step.messages[:same])
        spent += read * prices.cache_read + (step.tokens - read) * prices.cache_write
        steps += 1
        condensations += len(step.condensations)
        longest = max(longest, step.tokens)
        before = step.messages
    return Cost(spent / _MILLION, summarizer.spent / _MILLION, steps, condensations, longest)


def _same(before: Sequence[Message], now: Sequence[Message]) -> int:
    """With how many equal messages two prompts begin."""
    for place, (one, other) in enumerate(zip(before, now, strict=False)):
        if one is not other and one != other:
            return place
    return min(len(before), len(now))


class _Metered:
    """A chat model, and what its calls have cost."""

    def __init__(self, model: ChatModel, prices: Prices) -> None:
        self._model = model
        self._prices = prices
        self.context_window = getattr(model, "context_window", None)
        self._lock = threading.Lock()  # parts of a summary may be asked for at the same time
        self._given = self._answered = 0  # tokens

    @property
    def spent(self) -> float:
        return self._given * self._prices.input + self._answered * self._prices.output

    def completion(self, messages: Sequence[ChatDict], **settings: Any) -> Reply:
        return self._counted(messages, self._model.completion(messages, **settings))

    async def acompletion(self, messages: Sequence[ChatDict], **settings: Any) -> Reply:
        return self._counted(messages, await self._model.acompletion(messages, **settings))

    def _counted(self, messages: Sequence[ChatDict], reply: Reply) -> Reply:
        answer = Message.from_tool_calls(reply.tool_calls, reply.text)
        given, answered = _COUNTER.count(messages), _COUNTER.count([answer])
        with self._lock:
            self._given += given
            self._answered += answered
        return reply
