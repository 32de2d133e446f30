"""What a step loop uses: fold, condense, and say what to send to the LLM."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, TypeAlias

from ..events.actions import MCPAction, MessageAction
from ..events.condensation import CondensationAction, CondensationRequestAction
from ..events.event import Action, Event, EventSource, InvalidArgument, Observation
from ..events.observations import ErrorObservation
from ..events.stream import EventStream
from ..memory.conversation_memory import ConversationMemory
from ..memory.message import ChatDict, Message
from ..memory.rendering import check_limit
from ..memory.state import State
from ..memory.tokens import SHORTEST_RESULT, Budget, TokenCounter
from ..memory.turns import is_response
from ..memory.view import View
from .base import CannotCondense, Condensation, Condenser, cannot_condense, check_outcome
from .errors import is_context_overflow
from .folding import CONDENSE, FOLD, Folds, own_tools, tool_name
from .recording import Answer, actions_in, observation_of

__all__ = ["AgentContext"]

_Outcome: TypeAlias = View | Condensation | CannotCondense

_MOST_CONDENSATIONS = 5  # in one step
_MOST_OVERFLOWS = 5  # of prompts that no answer came to


class AgentContext:
    """The history of an agent, as its step loop sees it.

    >>> context = AgentContext(stream, condenser)
    ... response = litellm.completion(model, messages=context.messages())
    ... for action in context.record(response):
    ...     context.observe(carry_out(action), action)

    ``budget`` is the model's window: with it every prompt fits, or :class:`CannotCondense` says why
    none can. Its counter is calibrated by what the responses say of their tokens. ``tools`` are the
    tool definitions that are sent beside the messages; they count, and calls of others are
    answered with an error. Those of :data:`FOLD_TOOL` and :data:`CONDENSE_TOOL` (from
    ``condensers.folding``), where they are given, are carried out by the context itself.
    ``max_message_chars`` limits each observation (with a budget, 2 characters for each token of the
    window, if nothing is given); ``vision`` says whether images are sent.

    All state is in the stream: a context that is made anew for it goes on where the last one
    stopped. Raises :class:`InvalidArgument` for a negative limit.
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
        self._budget = budget if budget is None or not tools else replace(budget, tools=tools)
        self._calibrated = 0  # how many events of the stream the budget has learnt from
        self.vision = vision
        self.state = State(stream)
        self.condensed: View = self.state.view
        """The view that the newest messages were made from."""
        self.condensations: list[CondensationAction] = []
        """What the newest step condensed."""
        # The newest prompt, the newest event in it, and the limit of its results.
        self._prompt: list[Message] | None = None
        self._prompt_end = -1
        self._prompt_limit: int | None = None
        self._tools = frozenset(name for tool in tools if (name := tool_name(tool)))
        self._own_tools = own_tools(tools)
        self._folds = Folds(stream)
        self._limit = max_message_chars
        if max_message_chars is None and self._budget is not None:
            self._limit = self._budget.longest_result

    @property
    def budget(self) -> Budget | None:
        """The model's window. Its counter has learnt from all that the responses in the stream say
        of their prompts, also those that other contexts have recorded."""
        if self._budget is not None and self._calibrated < len(self.stream):
            counter = self._budget.counter
            for event in self.stream.events(self._calibrated):
                self._calibrated += 1
                if event.llm_metrics is not None:
                    counter = _calibrated(counter, event.llm_metrics)
            if counter is not self._budget.counter:
                self._budget = replace(self._budget, counter=counter)
        return self._budget

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
        since = self._requests_since(is_response)
        if sum(not request.is_voluntary for request in since) >= _MOST_OVERFLOWS:
            return False
        self.stream.append(CondensationRequestAction(), EventSource.AGENT)
        return True

    def request_condensation(self, action: Event | None = None) -> Event:
        """Asks, in the user's name, that the next :meth:`messages` condense; returns the request.

        With ``action``, a call of :data:`CONDENSE_TOOL` in a loop that does not :meth:`record`, it
        is the agent who asks, and the call is answered. Where nothing can be condensed, that is
        noted in ``state.extra_data``, and the prompt is sent as it is, if it fits. Raises
        :class:`InvalidArgument` for what is no call of this tool that waits for its result.
        """
        if action is None:
            return self.stream.append(CondensationRequestAction(), EventSource.USER)
        self._check_is_here(action)
        self._folds.waiting(action, CONDENSE)
        request = CondensationRequestAction(cause=action.id, source=EventSource.AGENT)
        result = observation_of("A condensation of the history is requested.", action)
        return self.stream.extend([result, request])[-1]

    # ------------------------------------------------------------------ what came of it

    def record(self, response: Any) -> list[Action]:
        """Appends what the LLM answered, and returns the actions that are to be carried out.

        ``response`` is a :class:`Reply`, or what litellm or the OpenAI client returned (the object
        or the dict). Each tool call becomes an action; an answer without one becomes a
        :class:`MessageAction`, which may be empty. A call of a tool that is not among ``tools``, or
        whose arguments are no JSON object, is answered with an error at once, and not returned; nor
        is a call of :data:`FOLD_TOOL` or :data:`CONDENSE_TOOL`, which is carried out here.

        The first action keeps in ``llm_metrics`` the response's ``usage`` and ``model``, and of the
        ``prompt``: ``sha256`` (of the messages), ``after`` (the id of the newest event in it, -1
        for none), ``tokens`` (if they were counted), and what it was made with. So a replay can
        prove that it derives the same prompt. Where the stream hides secrets, the actions hold the
        marker, too: a tool takes the value from its environment. Raises :class:`InvalidArgument`
        for anything else than a response.
        """
        answer = Answer.of(response, len(self.stream))
        found = actions_in(answer, self._tools, self._metrics(answer.data))
        stored = self.stream.extend([one.action for one in found], EventSource.AGENT)
        to_do = []
        for action, one in zip(stored, found, strict=True):
            assert isinstance(action, Action)
            if one.problem is not None:
                self.observe(ErrorObservation(one.problem), action)
            elif not self._carried_out(action):
                to_do.append(action)
        return to_do

    def _carried_out(self, action: Event) -> bool:
        """Carries out a call of one of the context's own tools; False if it is none."""
        if not isinstance(action, MCPAction) or action.name not in self._own_tools:
            return False
        carry_out = self.fold if action.name == FOLD else self.request_condensation
        carry_out(action)
        return True

    def fold(self, action: Event) -> Event:
        """Carries out a call of :data:`FOLD_TOOL`, and returns the result, which is appended: for
        loops that do not :meth:`record`.

        Closing a sub-task appends a condensation with the result: all that was done between the
        calls that opened and closed it is forgotten, but for what the user said and for a summary.
        A call that cannot be carried out is answered with an error. Raises
        :class:`InvalidArgument` for what is no call of this tool that waits for its result.
        """
        self._check_is_here(action)
        return self.stream.extend(self._folds.answer(action, self.state.view))[0]

    def observe(self, result: object, action: Event | None = None) -> Event:
        """Appends what came back for an action, and returns the stored event.

        ``result`` is an observation, text, other JSON data, or an exception. It answers ``action``;
        without one, what its own ``cause`` or tool call names, or else the oldest call of the
        newest response that waits. Raises :class:`InvalidArgument` if no call waits, if the action
        is not one of this stream, or for another kind of result.
        """
        if action is None and isinstance(result, Observation):
            cause = -1 if result.cause is None else result.cause
            if cause >= len(self.stream):
                raise InvalidArgument(
                    f"the observation names the event {cause} as its cause, and the stream has "
                    f"{len(self.stream)} events"
                )
            if cause >= 0 or result.tool_call_metadata is not None:
                return self.stream.append(result, EventSource.ENVIRONMENT)
        if action is None:
            waiting = self.state.waiting
            if not waiting:
                raise InvalidArgument(
                    "no call of the newest response waits for a result: give the action that it "
                    "answers, or append the observation to the stream"
                )
            action = waiting[0]
        self._check_is_here(action)
        return self.stream.append(observation_of(result, action), EventSource.ENVIRONMENT)

    def _check_is_here(self, action: Event) -> None:
        known = self.stream[action.id] if 0 <= action.id < len(self.stream) else None
        if known is not action and known != action:
            raise InvalidArgument(
                f"the action (id {action.id}) is none of this stream: give one that record() "
                "returned"
            )

    def _metrics(self, data: Mapping[str, Any]) -> dict[str, Any]:
        metrics = {key: data[key] for key in ("model", "usage") if data.get(key)}
        if self._prompt is not None:
            prompt: dict[str, Any] = {
                "sha256": Message.sha256(self._prompt),
                "after": self._prompt_end,
                "profile": self.memory.profile,
                "prompt_caching": self.memory.prompt_caching,
                "max_message_chars": self._prompt_limit,
                "vision": self.vision,
                "condenser": type(self.condenser).__name__,
            }
            budget = self.budget
            tokens = None if budget is None else budget.counted(self._prompt)
            metrics["prompt"] = prompt if tokens is None else {**prompt, "tokens": tokens}
        return metrics

    # ------------------------------------------------------------------ one step

    def _step(self) -> Generator[View, _Outcome, list[Message]]:
        """One step without the condensing itself: yields a view, and is sent what became of it."""
        self.condensations = []
        self._prompt = None
        budget = self.budget
        for action in self.state.waiting if self._own_tools else ():
            self._carried_out(action)  # the process was killed before it was
        while True:
            view = self.state.view
            outcome = yield view
            if isinstance(outcome, Condensation):
                if len(self.condensations) == _MOST_CONDENSATIONS:
                    why = f"{_MOST_CONDENSATIONS} condensations in one step were not enough"
                    return self._shortened(cannot_condense(view, budget, why))
                stored = self.stream.append(outcome.action, EventSource.AGENT)
                assert isinstance(stored, CondensationAction)
                self.condensations.append(stored)
                if self.condenser.metadata:
                    self._note(self.condenser.metadata)
                continue
            if isinstance(outcome, CannotCondense):
                return self._shortened(outcome)
            check_outcome(outcome, self.condenser)
            if outcome.unhandled_condensation_request:
                why = "no condenser answered the request"
                return self._shortened(cannot_condense(view, budget, why))
            messages = self._said(outcome, self._limit)
            if budget is None or budget.fits(messages):
                return self._to_send(outcome, messages, self._limit)
            self.stream.append(CondensationRequestAction(), EventSource.AGENT)

    def _note(self, what: Mapping[str, Any]) -> None:
        self.state.extra_data.setdefault("condenser_meta", []).append(dict(what))

    def _said(self, view: View, limit: int | None) -> list[Message]:
        return self.memory.process_events(
            view, max_message_chars=limit, vision_is_active=self.vision
        )

    def _shortened(self, refusal: CannotCondense) -> list[Message]:
        """Where no turn can be forgotten: the messages with shorter results, if they fit then.

        The more requests have come in vain, the shorter they are: a provider may count more tokens
        than the budget does.
        """
        budget = self.budget
        view = self.state.view if refusal.view is None else refusal.view
        requests = self._requests_since(
            lambda event: isinstance(event, CondensationAction) or is_response(event)
        )
        in_vain = sum(not request.is_voluntary for request in requests)
        voluntary = bool(requests) and not in_vain
        if voluntary:
            self._note({"reason": "a condensation was asked for", "not_done": str(refusal)})
        if voluntary or self._is_of_the_past():
            messages = self._said(view, self._limit)
            if budget is None or budget.fits(messages):
                return self._to_send(view, messages, self._limit)
        if budget is None or self._limit is None:
            raise refusal
        limit, tokens = self._limit, budget.count(self._said(view, self._limit))
        while limit > SHORTEST_RESULT:
            limit = max(SHORTEST_RESULT, limit // 2)
            messages = self._said(view, limit)
            shorter = budget.count(messages)
            if shorter < tokens and budget.fits(messages):
                tokens = shorter
                in_vain -= 1
                if in_vain <= 0:
                    return self._to_send(view, messages, limit)
        raise refusal

    def _is_of_the_past(self) -> bool:
        """True if the user has spoken since a condensation was requested: perhaps the model, its
        window or the condenser is another one now, and the prompt is worth another try."""
        for event in self.stream.events(reverse=True):
            if isinstance(event, MessageAction) and event.source == EventSource.USER:
                return True
            if isinstance(event, CondensationRequestAction) and not event.is_voluntary:
                return False
        return False

    def _requests_since(self, ends: Callable[[Event], bool]) -> list[CondensationRequestAction]:
        """The requests to condense since the newest event that ends the search."""
        newer = takewhile(lambda event: not ends(event), self.stream.events(reverse=True))
        return [event for event in newer if isinstance(event, CondensationRequestAction)]

    def _to_send(self, view: View, messages: list[Message], limit: int | None) -> list[Message]:
        self.condensed = view
        self._prompt, self._prompt_end = messages, len(self.stream) - 1
        self._prompt_limit = limit
        return messages


def _calibrated(counter: TokenCounter, metrics: Mapping[str, Any]) -> TokenCounter:
    """The counter, brought nearer to the provider's by what a response says of its prompt."""
    match metrics:
        case {"usage": {"prompt_tokens": int(reported)}, "prompt": {"tokens": int(counted)}}:
            return counter.calibrated(reported, counted)
    return counter
