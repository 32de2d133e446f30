"""One OpenHands V0 log: from a list of JSON objects to a run, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ..event import Event, UnknownEvent
from ..serialization import event_from_dict, event_to_dict, unknown_event
from .base import Problem, Run, describe
from .event_lists import Item, Log, numbered
from .json_rows import paused_gc
from .numbering import Draft
from .openhands_v0_repairs import (
    add_causes,
    add_sources,
    is_flattened,
    unflattened,
)

__all__ = ["NAME", "is_event", "is_whole_event", "read_log", "recorded_dicts"]

NAME = "openhands_v0"


def is_event(value: Any) -> bool:
    """An action or an observation. SWE-agent's steps are both, its messages have a role."""
    if not isinstance(value, dict) or "role" in value or "response" in value:
        return False
    return isinstance(value.get("action"), str) != isinstance(value.get("observation"), str)


def is_whole_event(value: Any) -> bool:
    """An event as OpenHands reads it: the fields of its kind are in ``args`` or in ``extras``."""
    return is_event(value) and any(isinstance(value.get(key), dict) for key in ("args", "extras"))


def read_log(log: Log) -> Run:
    with paused_gc():
        reader = _Reader(log)
        drafts = reader.drafts
        add_sources(drafts)
        if reader.needs_repair:
            add_causes(drafts)
        events, told = numbered(log, drafts, reader.odd)
    return Run(
        name=log.name,
        format=NAME,
        events=events,
        problems=[*reader.problems, *told],
        recorded_ids=[draft.recorded_id for draft in drafts],
        as_recorded={}
        if reader.needs_repair
        else {draft.id: draft.lost for draft in drafts if draft.lost},
        path=log.path,
    )


class _Reader:
    """Reads a log's events one by one; nothing in them stops it.

    A log ``needs_repair`` if its events are not in the shape that OpenHands itself reads: pairs,
    flattened rows, or arguments that stand beside the action's name.
    """

    def __init__(self, log: Log) -> None:
        self.drafts: list[Draft] = []
        self.problems: list[Problem] = []
        self.odd: list[str] = []
        self.needs_repair = log.is_pairs
        self._unknown: Counter[str] = Counter()
        for item in log.items:
            if isinstance(item, Problem):
                self.problems.append(item)
            elif isinstance(item.value, dict):
                self._add(item, item.value)
            else:
                self._tell(item, f"left out: an event is an object, this is {describe(item.value)}")
        if self._unknown:
            kinds = ", ".join(f"{kind} ({n})" for kind, n in sorted(self._unknown.items()))
            self.odd.append(f"events of unknown kinds, kept as they are: {kinds}")

    def _add(self, item: Item, value: dict[str, Any]) -> None:
        if is_flattened(value):
            value = unflattened(value)
            self.needs_repair = True
        elif is_event(value) and not is_whole_event(value):
            self.needs_repair = True
        try:
            event = event_from_dict(value)
            if isinstance(event, UnknownEvent):
                self._unknown[event.name or "none"] += 1
        except ValueError as invalid:
            try:
                event = unknown_event(value)
            except (ValueError, RecursionError) as error:
                self._tell(item, f"left out: {error}")
                return
            self._tell(item, f"kept as an event of an unknown kind: {invalid}")
        if event.cause is None and value.get("cause") is not None:
            self._tell(item, f"the cause {value['cause']!r:.40} is no id")
        recorded = value.get("id")
        draft = Draft(event, item.place)
        if type(recorded) is int and recorded >= 0:
            draft.recorded_id = recorded
        else:
            draft.lost["id"] = value.get("id", ...)
        if event.source is None:
            draft.lost["source"] = value.get("source", ...)
        self.drafts.append(draft)

    def _tell(self, item: Item, text: str) -> None:
        self.problems.append(Problem(item.file, item.line, f"{item.place}: {text}"))


def recorded_dicts(run: Run) -> Iterator[dict[str, Any]]:
    """The events of a run as JSON objects, with the ids that they were recorded with.

    A run that was not read from a plain V0 log, or whose list of events was changed since, has the
    ids of its events.
    """
    ids = [known if isinstance(known, int) else None for known in run.recorded_ids]
    restore = (
        run.format == NAME
        and len(ids) == len(run.events)
        and all(event.id == n for n, event in enumerate(run.events))
        and all(known is not None or n in run.as_recorded for n, known in enumerate(ids))
    )
    for event in run.events:
        data = event_to_dict(event)
        if restore:
            _restore(data, event, ids, run.as_recorded.get(event.id, {}))
        yield data


def _restore(
    data: dict[str, Any], event: Event, ids: Sequence[int | None], as_recorded: dict[str, Any]
) -> None:
    data["id"] = ids[event.id]
    if event.cause is not None and 0 <= event.cause < len(ids):
        data["cause"] = ids[event.cause]
    args = data.get("args")
    for key, value in as_recorded.items():
        holder = args if key.startswith("forgotten_") and isinstance(args, dict) else data
        if value is ...:
            holder.pop(key, None)
        else:
            holder[key] = value
