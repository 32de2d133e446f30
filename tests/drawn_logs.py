"""Logs drawn by Hypothesis, realistic and nasty: :func:`event_logs`.

The plan of a log is a list of beats. A beat makes events; what comes late takes the place of a
later beat. All is drawn before anything is put together, so that a failing example shrinks well.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hypothesis import strategies as st

from eventfold.events import (
    AgentDelegateAction,
    CmdOutputObservation,
    CondensationAction,
    CondensationRequestAction,
    Event,
    EventSource,
    MessageAction,
    ModelResponse,
    Observation,
    SystemMessageAction,
    event_from_dict,
    event_to_dict,
)
from tests.notation import (
    LINKED,
    Call,
    Links,
    Response,
    metadata_of,
    result_of,
    stored,
    thinking_aloud,
    tool_of,
)
from tests.samples import (
    ARGUMENTS,
    CALL_FIELDS,
    CALL_IDS,
    CALLED,
    IMAGES,
    MESSAGE_FIELDS,
    METRICS,
    RETURNED,
    TEXTS,
    TOOL_NAMES,
    UNASKED,
    UNCALLED,
)

RESPONSES = ("own id", "own id", "shared id", "no id", "empty id", "no choices", "no response")
WHEN = (*((0, rank) for rank in range(5)), (1, 0), (2, 0), (4, 0))
LINKS: tuple[Links, ...] = ("both", "both", "cause", "metadata", "none")
FORGETTING = ("ids", "back", "range", "back range", "all", "system", "summary", "nothing")


def texts() -> st.SearchStrategy[str]:
    """Text as users, models and tools write it, and as they should not."""
    return pick(TEXTS) | st.text(max_size=8)


_T = TypeVar("_T")


class _Pool(tuple[_T, ...]):
    """A tuple that is not printed as a part of each strategy that samples from it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "..."


def pick(pool: Iterable[_T]) -> st.SearchStrategy[_T]:
    """One of the pool; a failing example shrinks to the first."""
    return st.sampled_from(_Pool(pool))


@dataclass(frozen=True, slots=True)
class _Result:
    """Something that comes back, None if of the kind that fits its action.

    ``when`` says how many beats later, and in what order among those of the same beat.
    """

    observation: Event | None = None
    text: str = ""
    when: tuple[int, int] = (0, 0)
    links: Links = "both"


@dataclass(frozen=True, slots=True)
class _Step:
    """A call in a response, its action (None: never logged) and all that came back."""

    action: Event | None
    results: Sequence[_Result]
    call_id: str | None = None
    name: str | None = None
    arguments: object = "{}"
    fields: Mapping[str, Any] = field(default_factory=dict)
    listed: bool = True
    later: int = 0
    thought: str = ""


@dataclass(frozen=True, slots=True)
class _Turn:
    steps: Sequence[_Step]
    fields: Mapping[str, Any]
    interleaved: bool
    kind: str = "own id"
    text: str = ""
    miscounted: int = 0
    metrics: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Deed:
    """An action without a tool call, and what came back."""

    action: Event
    results: Sequence[_Result]


@dataclass(frozen=True, slots=True)
class _Delegation:
    """An action that hands over, what the delegate did, and its return (None: it never did)."""

    step: _Step
    turn: _Turn | None
    beats: Sequence[_Beat]
    back: _Result | None


@dataclass(frozen=True, slots=True)
class _Orphan:
    """A result of something that is not in the log."""

    result: _Result
    call_id: str
    cause: int


@dataclass(frozen=True, slots=True)
class _Forget:
    how: str
    numbers: Sequence[int]
    summary: str | None
    offset: int


_Beat = Event | _Turn | _Deed | _Delegation | _Orphan | _Forget


@dataclass(slots=True)
class _Draft:
    event: Event
    answers: _Draft | None = None
    links: Links = "both"
    forget: _Forget | None = None
    id: int = -1


@st.composite
def event_logs(
    draw: st.DrawFn, *, max_size: int = 60, condensations: bool = True, delegates: bool = True
) -> list[Event]:
    """Logs of 0 to ``max_size`` stored events (dense ids, times, sources), realistic and nasty.

    Some are as they were made, some as they were read from JSON, in some each call has the same id.

    ``condensations`` False leaves out condensations and requests; ``delegates`` False the delegate
    actions that have events of their own between them and their observation.
    """
    beats = _beats(condensations=condensations, depth=2 if delegates else 0)
    one_call_id, recorded = draw(
        pick(((False, False), (False, False), (False, True), (True, False)))
    )
    opening = draw(pick(((0, 1), (), (0,), (1,), (1, 0))))
    at_least = draw(pick((0, 0, 6, 12))) if max_size > 20 else 0
    rest = draw(st.lists(beats, min_size=at_least, max_size=max(12, max_size // 2)))
    counter = _Counter(call_id="call_1" if one_call_id else None)
    events = _assembled([*(_OPENINGS[n] for n in opening), *rest], counter)[:max_size]
    return [event_from_dict(event_to_dict(event)) for event in events] if recorded else events


_OPENINGS: tuple[Event, ...] = (
    SystemMessageAction(content="You are a coding agent."),
    MessageAction(content="Fix the bug.", source=EventSource.USER),
)


@functools.cache
def _beats(*, condensations: bool, depth: int) -> st.SearchStrategy[_Beat]:
    called = CALLED if condensations else (*(a for a in CALLED if not _is_request(a)),)
    turns = _turns(called)
    kinds: list[st.SearchStrategy[_Beat]] = [
        _messages(),
        turns,
        turns,
        _deeds(),
        st.builds(_with_text, pick(UNASKED), texts()),
        st.builds(_Orphan, _results(), pick(CALL_IDS), st.integers(-2, 70)),
        st.builds(SystemMessageAction, content=texts()),
    ]
    if condensations:
        kinds += [_forgets(), st.just(CondensationRequestAction())]
    if depth:
        nested = st.lists(_beats(condensations=condensations, depth=depth - 1), max_size=4)
        back = st.none() | _results()
        steps = st.builds(_delegating, _steps(called))
        kinds.append(st.builds(_Delegation, steps, st.none() | turns, nested, back))
    return st.one_of(kinds)


def _is_request(event: Event) -> bool:
    return isinstance(event, CondensationRequestAction)


@functools.cache
def _messages() -> st.SearchStrategy[MessageAction]:
    sources = pick((EventSource.USER, EventSource.AGENT, EventSource.USER))
    plain = st.builds(MessageAction, content=texts(), source=sources)
    return plain | st.builds(
        MessageAction,
        content=texts(),
        source=sources,
        image_urls=st.none() | st.lists(pick(IMAGES), max_size=3),
        file_urls=pick((None, ["/w/a.csv"])),
        hidden=pick((False, False, True)),
        wait_for_response=st.booleans(),
    )


@functools.cache
def _results() -> st.SearchStrategy[_Result]:
    odd = st.builds(_Result, pick(RETURNED), texts(), pick(WHEN), pick(LINKS))
    return st.builds(_Result, text=texts()) | odd


@functools.cache
def _steps(called: tuple[Event, ...]) -> st.SearchStrategy[_Step]:
    return st.builds(_Step, pick(called), st.tuples(_results())) | st.builds(
        _Step,
        pick((*called, None)),
        st.lists(_results(), max_size=3),
        call_id=pick((None, None, None, *CALL_IDS)),
        name=pick((None, None, None, *TOOL_NAMES)),
        arguments=pick(ARGUMENTS),
        fields=pick(CALL_FIELDS),
        listed=pick((True, True, True, True, False)),
        later=pick((0, 0, 0, 0, 0, 1, 2, 4)),
        thought=texts(),
    )


@functools.cache
def _turns(called: tuple[Event, ...]) -> st.SearchStrategy[_Turn]:
    steps = st.lists(_steps(called), min_size=1, max_size=5)
    return st.builds(_Turn, steps, pick(MESSAGE_FIELDS[:3]), st.booleans()) | st.builds(
        _Turn,
        steps,
        pick(MESSAGE_FIELDS),
        st.booleans(),
        kind=pick(RESPONSES),
        text=texts(),
        miscounted=pick((0, 0, 0, 1, -1)),
        metrics=pick(METRICS),
    )


@functools.cache
def _deeds() -> st.SearchStrategy[_Deed]:
    return st.builds(_Deed, pick(UNCALLED), st.lists(_results(), max_size=2))


@functools.cache
def _forgets() -> st.SearchStrategy[_Forget]:
    return st.builds(
        _Forget,
        pick(FORGETTING),
        st.lists(st.integers(0, 9) | st.integers(0, 70), min_size=2, max_size=8),
        st.none() | texts(),
        st.integers(-2, 8) | st.integers(-3, 90),
    )


def _delegating(step: _Step) -> _Step:
    action = AgentDelegateAction(agent="BrowsingAgent", inputs={"task": step.thought})
    return replace(step, action=action, later=0, results=())


def _with_text(event: Event, text: str) -> Event:
    """The event saying ``text``, if its kind has a text of its own."""
    return event.replace(content=text) if isinstance(event, Observation) else event


# Putting a plan together

_Placed = tuple[tuple[int, int], _Draft]


def _assembled(beats: Iterable[_Beat], counter: _Counter) -> list[Event]:
    placed: list[_Placed] = []
    _place(beats, placed, counter)
    drafts = [draft for _, draft in sorted(placed, key=lambda pair: pair[0])]
    for index, draft in enumerate(drafts):
        draft.id = index
    events: list[Event] = []
    for draft in drafts:
        event = draft.event
        changes: dict[str, Any] = {}
        if draft.answers is not None and "cause" in LINKED[draft.links]:
            changes["cause"] = draft.answers.id
        if draft.forget is not None:
            event = _condensation(draft.forget, events)
        events.append(stored(event, draft.id, **changes))
    return events


@dataclass(slots=True)
class _Counter:
    """The next beat, and the numbers in fresh response and call ids (or the id of all calls)."""

    call_id: str | None = None
    beat: int = 0
    response: int = 0
    call: int = 0


def _place(beats: Iterable[_Beat], placed: list[_Placed], counter: _Counter) -> None:
    for beat in beats:
        at = counter.beat
        counter.beat += 1
        match beat:
            case Event():
                placed.append(((at, 0), _Draft(beat)))
            case _Forget():
                placed.append(((at, 0), _Draft(CondensationRequestAction(), forget=beat)))
            case _Deed():
                deed = _Draft(beat.action)
                placed.append(((at, 0), deed))
                placed.extend(_returned(deed, result, at, 50) for result in beat.results)
            case _Orphan():
                placed.append(((at, 0), _orphan(beat)))
            case _Turn():
                placed.extend(_placed_turn(beat, at, counter))
            case _Delegation():
                _place_delegation(beat, at, placed, counter)


def _place_delegation(beat: _Delegation, at: int, placed: list[_Placed], counter: _Counter) -> None:
    if beat.turn is None:
        assert beat.step.action is not None
        made = [((at, 0), _Draft(beat.step.action))]
    else:
        turn = replace(beat.turn, steps=[beat.step, *beat.turn.steps])
        made = _placed_turn(turn, at, counter)
    placed.extend(made)
    delegate = made[0][1]
    _place(beat.beats, placed, counter)
    if beat.back is not None:
        placed.append(_returned(delegate, beat.back, counter.beat, 0))
        counter.beat += 1


def _placed_turn(turn: _Turn, at: int, counter: _Counter) -> list[_Placed]:
    calls: list[Call] = []
    for step in turn.steps:
        tool = "some_tool" if step.action is None else tool_of(step.action)[0]
        fresh = counter.call_id or f"call_{counter.call}"
        counter.call += 1
        calls.append(
            Call(
                fresh if step.call_id is None else step.call_id,
                tool if step.name is None else step.name,
                step.arguments,
                step.fields,
            )
        )
    listed = [call for call, step in zip(calls, turn.steps, strict=True) if step.listed]
    response = _response(turn, tuple(listed), counter)
    placed: list[_Placed] = []
    for n, (call, step) in enumerate(zip(calls, turn.steps, strict=True)):
        if step.action is None:
            continue
        action = step.action.replace(
            tool_call_metadata=metadata_of(call, response, len(turn.steps) + turn.miscounted),
            llm_metrics=turn.metrics,
        )
        draft = _Draft(thinking_aloud(action, step.thought))
        placed.append(((at + step.later, 2 * n), draft))
        first = 2 * n + 1 if turn.interleaved else 50
        placed.extend(_returned(draft, result, at + step.later, first) for result in step.results)
    return placed


def _response(turn: _Turn, calls: tuple[Call, ...], counter: _Counter) -> ModelResponse | None:
    if turn.kind == "no response":
        return None
    names: dict[str, str | None] = {"shared id": "chatcmpl-shared", "no id": None, "empty id": ""}
    fresh = f"chatcmpl-{counter.response}"
    counter.response += 1
    response_id = names.get(turn.kind, fresh)
    if turn.kind == "no choices":
        return ModelResponse.of({"id": response_id})
    return ModelResponse.of(Response(response_id, calls, turn.text, turn.fields).to_dict())


def _returned(action: _Draft, result: _Result, at: int, first: int) -> _Placed:
    """A result: at once it stands from ``first`` on in its beat; later, at the end of that beat."""
    event = result.observation
    if event is None:
        event = result_of(action.event, result.text)
    event = _with_text(event, result.text)
    if "tool_call_metadata" in LINKED[result.links]:
        event = event.replace(tool_call_metadata=action.event.tool_call_metadata)
    later, rank = result.when
    place = (at + later, 900 if later else first + rank)
    return place, _Draft(event, action, result.links)


def _orphan(beat: _Orphan) -> _Draft:
    result = beat.result
    event = result.observation or CmdOutputObservation(command="gone", metadata={})
    event = _with_text(event, result.text)
    if "cause" in LINKED[result.links]:
        event = event.replace(cause=beat.cause)
    if "tool_call_metadata" in LINKED[result.links]:
        call = Call(beat.call_id)
        response = ModelResponse.of(Response("chatcmpl-gone", (call,)).to_dict())
        event = event.replace(tool_call_metadata=metadata_of(call, response))
    return _Draft(event)


def _condensation(plan: _Forget, before: Sequence[Event]) -> CondensationAction:
    numbers, own = plan.numbers, len(before)
    first, length = numbers[0], numbers[1] % 12
    summary: dict[str, Any] = {"summary": plan.summary, "summary_offset": plan.offset}
    if plan.summary is None:
        summary = {}
    ids: list[int] = []
    match plan.how:
        case "range" | "back range":
            start = first if plan.how == "range" else max(0, own - 1 - length - first % 12)
            return CondensationAction(
                forgotten_events_start_id=start, forgotten_events_end_id=start + length, **summary
            )
        case "ids":
            ids = list(numbers)
        case "back":
            ids = [own - 1 - n for n in numbers if n < own]
        case "all":
            ids = list(range(own))
        case "system":
            ids = [event.id for event in before if isinstance(event, SystemMessageAction)]
        case "summary":
            done = [
                e for e in before if isinstance(e, CondensationAction) and e.summary is not None
            ]
            ids = [event.id for event in done[-1:]]
    return CondensationAction(forgotten_event_ids=ids, **summary)
