"""What a step loop uses: fold, condense, and say what to send to the LLM."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..events.condensation import CondensationAction, CondensationRequestAction
from ..events.event import EventSource
from ..events.stream import EventStream
from ..memory.conversation_memory import ConversationMemory
from ..memory.message import ChatDict, Message
from ..memory.rendering import check_limit
from ..memory.state import State
from ..memory.tokens import SHORTEST_RESULT, Budget
from ..memory.turns import is_response
from ..memory.view import View
from .base import CannotCondense, Condensation, Condenser, cannot_condense
from .overflow import is_context_overflow

__all__ = ["AgentContext"]

_Outcome: TypeAlias = View | Condensation | CannotCondense

_MOST_CONDENSATIONS = 5  # in one step
_MOST_OVERFLOWS = 5  # of prompts that no answer came to


class AgentContext:
    """The history of an agent, as its step loop sees it.

    >>> context = AgentContext(stream, condenser)
    ... messages = context.messages()  # instead of the list that grew without end

    ``budget`` is the model's window: with it every prompt fits, or :class:`CannotCondense` says why
    none can. ``tools`` are the tool definitions that are sent beside the messages; they count.
    ``max_message_chars`` limits each observation (with a budget, 2 characters for each token that
    is available, if nothing is given); ``vision`` says whether images are sent.
    """

    def __init__(
        self,
        stream: EventStream,
        condenser: Condenser,
        memory: ConversationMemory | None = None,
        tools: Sequence[ChatDict] = (),
        budget: Budget | None = None,
        *,
        max_message_chars: int | None = None,
        vision: bool = False,
    ) -> None:
        check_limit(max_message_chars)
        self.stream = stream
        self.condenser = condenser
        self.memory = memory if memory is not None else ConversationMemory()
        self.budget = budget if budget is None or not tools else replace(budget, tools=tools)
        self.vision = vision
        self.state = State(stream)
        self.condensed: View = self.state.view
        """The view that the newest messages were made from."""
        self.condensations: list[CondensationAction] = []
        """What the newest step condensed."""
        self._limit = max_message_chars
        if max_message_chars is None and self.budget is not None:
            self._limit = self.budget.longest_result

    def messages(self) -> list[ChatDict]:
        """The messages to send now, as OpenAI/litellm chat dicts.

        Condenses first, where it is time; condensations are appended to the stream. Raises
        :class:`CannotCondense` if the prompt cannot be made to fit, :class:`NothingToSend` if there
        is no message.
        """
        return Message.to_dicts(self.prepare())

    async def amessages(self) -> list[ChatDict]:
        """The same, without blocking the event loop while a condenser asks an LLM."""
        step = self._step()
        view = next(step)
        while True:
            try:
                outcome: _Outcome = await self.condenser.acondense(view, self.budget)
            except CannotCondense as refusal:
                outcome = refusal
            try:
                view = step.send(outcome)
            except StopIteration as done:
                return Message.to_dicts(done.value)

    def prepare(self) -> list[Message]:
        """The same as :class:`Message` objects."""
        step = self._step()
        view = next(step)
        while True:
            try:
                outcome: _Outcome = self.condenser.condense(view, self.budget)
            except CannotCondense as refusal:
                outcome = refusal
            try:
                view = step.send(outcome)
            except StopIteration as done:
                messages: list[Message] = done.value
                return messages

    def overflowed(self, error: BaseException | str) -> bool:
        """Tells that the provider refused the prompt. True means: call :meth:`messages` and ask
        again.

        That is so if the error says that the context window overflowed: a request to condense is
        appended. False means that condensing cannot help: it is another error, or the last prompts
        have overflowed one after the other.
        """
        if not is_context_overflow(error):
            return False
        overflows = 0
        for event in self.stream.events(reverse=True):
            if is_response(event):
                break
            overflows += isinstance(event, CondensationRequestAction)
        if overflows >= _MOST_OVERFLOWS:
            return False
        self.stream.append(CondensationRequestAction(), EventSource.AGENT)
        return True

    # ------------------------------------------------------------------ one step

    def _step(self) -> Generator[View, _Outcome, list[Message]]:
        """One step without the condensing itself: yields a view, and is sent what became of it."""
        self.condensations = []
        while True:
            view = self.state.view
            outcome = yield view
            if isinstance(outcome, Condensation):
                if len(self.condensations) == _MOST_CONDENSATIONS:
                    why = f"{_MOST_CONDENSATIONS} condensations in one step were not enough"
                    return self._shortened(cannot_condense(view, self.budget, why))
                stored = self.stream.append(outcome.action, EventSource.AGENT)
                assert isinstance(stored, CondensationAction)
                self.condensations.append(stored)
                if self.condenser.metadata:
                    notes = self.state.extra_data.setdefault("condenser_meta", [])
                    notes.append(dict(self.condenser.metadata))
                continue
            if isinstance(outcome, CannotCondense):
                return self._shortened(outcome)
            if outcome.unhandled_condensation_request:
                why = "no condenser answered the request"
                return self._shortened(cannot_condense(view, self.budget, why))
            messages = self._said(outcome, self._limit)
            if self.budget is None or self.budget.fits(messages):
                self.condensed = outcome
                return messages
            self.stream.append(CondensationRequestAction(), EventSource.AGENT)

    def _said(self, view: View, limit: int | None) -> list[Message]:
        return self.memory.process_events(
            view, max_message_chars=limit, vision_is_active=self.vision
        )

    def _shortened(self, refusal: CannotCondense) -> list[Message]:
        """Where no turn can be forgotten: the messages with shorter results, if they fit then."""
        if self.budget is None or self._limit is None:
            raise refusal
        view = self.state.view if refusal.view is None else refusal.view
        limit, tokens = self._limit, self.budget.count(self._said(view, self._limit))
        while limit > SHORTEST_RESULT:
            limit = max(SHORTEST_RESULT, limit // 2)
            messages = self._said(view, limit)
            if self.budget.fits(messages) and self.budget.count(messages) < tokens:
                self.condensed = view
                return messages
        raise refusal
