"""One OpenHands V1 log: from a list of JSON objects to a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from ..condensation import CondensationAction, CondensationRequestAction
from ..event import Action, Event, EventSource, Observation
from ..observations import ErrorObservation, UserRejectObservation
from ..serialization import unknown_event
from ..tool_calls import ModelResponse, ToolCallMetadata
from .base import Problem, Run, describe
from .event_lists import Item, Log, numbered
from .json_rows import paused_gc
from .numbering import Draft
from .openhands_v1_events import (
    action_of,
    call_id_of,
    message_of,
    observation_of,
    response_of,
    system_of,
)

__all__ = ["NAME", "is_event", "read_log"]

NAME = "openhands_v1"


def is_event(value: Any) -> bool:
    """Whether it is an event of the software-agent-sdk, of whatever kind."""
    return isinstance(value, dict) and isinstance(value.get("kind"), str) and "source" in value


def read_log(log: Log) -> Run:
    with paused_gc():
        reader = _Reader(log)
        drafts = reader.drafts
        events, told = numbered(log, drafts, reader.odd)
    return Run(
        name=log.name,
        format=NAME,
        events=events,
        problems=[*reader.problems, *told],
        recorded_ids=[
            None if draft.recorded_id is None else reader.ids[draft.recorded_id] for draft in drafts
        ],
        as_recorded={
            draft.id: rest
            for draft in drafts
            if draft.recorded_id is not None and (rest := reader.rest[draft.recorded_id])
        },
        path=log.path,
    )


# Of each kind, the keys whose values the event gives back.
_EVERY = {"id", "kind", "timestamp", "source"}
_CALL = {"action", "thought", "tool_name", "tool_call_id", "tool_call", "llm_response_id"}
_GIVEN_BACK = {
    "SystemPromptEvent": {"system_prompt", "dynamic_context", "tools"},
    "SystemPromptUpdateEvent": {"system_prompt", "dynamic_context", "tools"},
    "MessageEvent": {"llm_message", "extended_content"},
    "ActionEvent": _CALL | {"thinking_blocks", "reasoning_content"},
    "ObservationEvent": {"observation", "tool_name", "tool_call_id", "action_id"},
    "AgentErrorEvent": {"error", "tool_name", "tool_call_id"},
    "UserRejectObservation": {"rejection_reason", "tool_name", "tool_call_id", "action_id"},
    "Condensation": {"summary", "summary_offset"},
    "CondensationRequest": set[str](),
}


class _Reader:
    """Reads a log's events one by one; nothing in them stops it.

    Ids are texts. Until the events are numbered, each is named by its place among those that are
    kept: ``ids`` and ``rest`` (what else was recorded) are lists by that place.
    """

    def __init__(self, log: Log) -> None:
        self.drafts: list[Draft] = []
        self.ids: list[int | str | None] = []
        self.rest: list[dict[str, Any]] = []
        self.problems: list[Problem] = []
        self.odd: list[str] = []
        self._places: dict[str, int] = {}  # by id: of the newest event that has it
        self._calls: dict[str, int] = {}  # by id: of the newest action with this call
        self._condensed = False
        self._unknown: Counter[str] = Counter()
        items = list(self._objects(log))
        values = [item.value for item in items]
        self._everywhere = {value.get("id") for value in values if isinstance(value.get("id"), str)}
        self._responses = _responses(values)
        for n, item in enumerate(items):
            self._add(n, item, item.value)
        if self._unknown:
            kinds = ", ".join(f"{kind} ({n})" for kind, n in sorted(self._unknown.items()))
            self.odd.append(f"events that are not for the LLM, kept as they are: {kinds}")

    def _objects(self, log: Log) -> Iterator[Item]:
        for item in log.items:
            if isinstance(item, Problem):
                self.problems.append(item)
            elif isinstance(item.value, dict):
                yield item
            else:
                self._tell(item, f"left out: an event is an object, this is {describe(item.value)}")

    def _add(self, n: int, item: Item, value: dict[str, Any]) -> None:
        kind = value.get("kind")
        kind = kind if isinstance(kind, str) else ""
        try:
            event = self._event(n, kind, item, value)
        except (ValueError, TypeError, RecursionError) as invalid:
            self._tell(item, f"kept as an event of an unknown kind: {invalid}")
            event = None
        rest: dict[str, Any] = {}
        if event is None:
            try:
                event = _unknown(kind, value)
            except (ValueError, RecursionError) as error:
                self._tell(item, f"left out: {error}")
                return
            self._unknown[kind or "none"] += 1
        else:
            known = _EVERY | _GIVEN_BACK[kind]
            rest = {key: value[key] for key in value if key not in known and value[key]}
            event, odd = _around(event, value)
            rest |= odd
        place = len(self.drafts)
        recorded = value.get("id")
        self.ids.append(recorded if isinstance(recorded, str | int) else None)
        self.rest.append(rest)
        if isinstance(recorded, str):
            self._places[recorded] = place
        if kind == "ActionEvent" and (call := call_id_of(value)) is not None:
            self._calls[call] = place
        self.drafts.append(Draft(event, item.place, recorded_id=place))

    def _event(self, n: int, kind: str, item: Item, value: dict[str, Any]) -> Event | None:
        """The event; None if it is of a kind that no LLM is shown, or that is not known."""
        if kind in ("SystemPromptEvent", "SystemPromptUpdateEvent"):
            return system_of(value)
        if kind == "MessageEvent":
            return message_of(value)
        if kind == "ActionEvent":
            response, count = self._responses[n]
            action = action_of(value)
            return action.replace(tool_call_metadata=_metadata(value, response, count))
        if kind == "ObservationEvent":
            return self._answer(item, value, observation_of(value, self._action(value)))
        if kind == "AgentErrorEvent":
            return self._answer(item, value, ErrorObservation(_text(value.get("error"))))
        if kind == "UserRejectObservation":
            said = UserRejectObservation(_text(value.get("rejection_reason")))
            return self._answer(item, value, said)
        if kind == "Condensation":
            return self._condensation(item, value)
        return CondensationRequestAction() if kind == "CondensationRequest" else None

    # ------------------------------------------------------------ links

    def _asked(self, value: dict[str, Any]) -> int | None:
        """The place of the action that an event answers: by its id, or by the call's."""
        place = self._places.get(str(value.get("action_id")))
        return self._calls.get(call_id_of(value) or "") if place is None else place

    def _action(self, value: dict[str, Any]) -> Event | None:
        place = self._asked(value)
        return None if place is None else self.drafts[place].event

    def _answer(self, item: Item, value: dict[str, Any], event: Observation) -> Observation:
        place = self._asked(value)
        if place is None:
            self._tell(item, "answers an action that is not to be found before it")
            metadata = _metadata(value, None, 1) if call_id_of(value) is not None else None
        else:
            metadata = self.drafts[place].event.tool_call_metadata
        return event.replace(cause=place, tool_call_metadata=metadata)

    def _condensation(self, item: Item, value: dict[str, Any]) -> CondensationAction:
        named = value.get("forgotten_event_ids")
        forgotten: list[int] = []
        absent: list[str] = []
        for old in named if isinstance(named, list) else []:
            place = self._places.get(str(old))
            if place is not None:
                forgotten.append(place)
            elif self._condensed and old not in self._everywhere:
                forgotten.append(_SUMMARY)
            else:
                absent.append(str(old))
        if absent:
            self._tell(
                item,
                f"forgets events that are not to be found before it: left out {len(absent)} "
                f"({', '.join(absent[:3])}{', ...' if len(absent) > 3 else ''})",
            )
        summary, offset = value.get("summary"), value.get("summary_offset")
        if not isinstance(summary, str) or not isinstance(offset, int):
            if summary is not None:
                self._tell(item, "its summary has no place (summary_offset): left out")
            summary = offset = None
        self._condensed = True
        return CondensationAction(forgotten, summary=summary, summary_offset=offset)

    def _tell(self, item: Item, text: str) -> None:
        self.problems.append(Problem(item.file, item.line, f"{item.place}: {text}"))


_SUMMARY = 2**62  # a place that no event has: that of the summary before, see numbering


def _responses(values: Sequence[dict[str, Any]]) -> dict[int, tuple[ModelResponse, int]]:
    """For each action event, the LLM response behind it, and how many calls that has.

    A response is the action events with one id, until another response begins or a tool has run:
    some servers give all responses the same id. An error may stand between: calls that could not be
    made are answered while the others are still read.
    """
    groups: list[list[int]] = []
    newest: Any = None
    for n, value in enumerate(values):
        kind = value.get("kind")
        if kind == "ActionEvent":
            response_id = value.get("llm_response_id")
            if response_id is None or response_id != newest:
                groups.append([])
            groups[-1].append(n)
            newest = response_id
        elif kind in ("ObservationEvent", "UserRejectObservation") or (
            kind == "MessageEvent" and value.get("source") == "agent"
        ):
            newest = None
    made: dict[int, tuple[ModelResponse, int]] = {}
    for group in groups:
        response = ModelResponse.of(response_of([values[n] for n in group]))
        made |= dict.fromkeys(group, (response, len(group)))
    return made


def _metadata(
    value: dict[str, Any], response: ModelResponse | None, count: int
) -> ToolCallMetadata:
    name = value.get("tool_name")
    return ToolCallMetadata(
        function_name=name if isinstance(name, str) else "",
        tool_call_id=call_id_of(value) or "",
        total_calls_in_response=count,
        model_response=response,
    )


def _around(event: Event, value: dict[str, Any]) -> tuple[Event, dict[str, Any]]:
    """The event with its time and source, and what was recorded of them that it cannot hold."""
    odd: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    recorded = value.get("timestamp")
    try:
        changes["timestamp"] = datetime.fromisoformat(recorded)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        odd["timestamp"] = recorded
    if event.source is None:
        source = value.get("source")
        acts = isinstance(event, Action)
        changes["source"] = (
            EventSource(source)
            if source in tuple(EventSource)
            else EventSource.AGENT
            if acts
            else EventSource.ENVIRONMENT
        )
    source = changes.get("source", event.source)
    if source != value.get("source"):
        odd["source"] = value.get("source")
    return event.replace(**changes), odd


def _unknown(kind: str, value: dict[str, Any]) -> Event:
    """Any other event, whole; no LLM is shown it."""
    rest = {key: value[key] for key in value if key not in ("id", "timestamp", "source")}
    around = {key: value[key] for key in ("timestamp", "source") if value.get(key) is not None}
    return unknown_event({**around, "action": kind or "event", "args": {**rest, "hidden": True}})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
