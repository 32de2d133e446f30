"""A step as the model saw it: its messages, its view, or the log behind them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Any

from ..events import AgentCondensationObservation, CondensationAction, Event, event_to_dict
from ..events.actions import MessageAction, SystemMessageAction
from ..memory import ImageContent, Message, View
from ..memory.rendering import action_text, result_text
from ..memory.turns import TurnKind, is_observation, protected
from .engine import Step
from .report import plain_table, printable

__all__ = ["Shown", "shown_as_json", "shown_as_text"]


class Shown(StrEnum):
    """What of a step is shown."""

    MESSAGES = "messages"
    VIEW = "view"
    EVENTS = "events"


def shown_as_json(what: Shown, step: Step) -> list[dict[str, Any]]:
    """The chat messages, the view's events in short, or the whole events of the log."""
    if what is Shown.MESSAGES:
        return [message.to_dict() for message in step.messages]
    if what is Shown.VIEW:
        return list(_view_rows(step.view))
    return [event_to_dict(event) for event in step.events_so_far]


def shown_as_text(what: Shown, step: Step) -> str:
    """The same to read: messages in full, otherwise a line for each event."""
    if what is Shown.MESSAGES:
        lines: list[str] = []
        for place, message in enumerate(step.messages):
            lines += ["", *_message_lines(place, message)]
        return printable("\n".join(lines[1:]))
    if what is Shown.VIEW:
        return plain_table(
            ("id", "kind", "turn", "source", "characters", "is", "text"),
            (
                [
                    *(row["id"], row["kind"], f"{row['turn']} {row['turn_kind']}", row["source"]),
                    *(row["size"], _marks(row), _beginning(event)),
                ]
                for row, event in zip(_view_rows(step.view), step.view, strict=True)
            ),
        )
    return plain_table(
        ("id", "kind", "source", "cause", "characters", "text"),
        (
            [e.id, e.kind, e.source, e.cause, len(_text_of(e)), _beginning(e)]
            for e in step.events_so_far
        ),
    )


def _view_rows(view: View) -> Iterator[dict[str, Any]]:
    turns = view.turns
    kept: Collection[int] = protected(turns, view.newest_response, view.task)
    turn_of = {id(event): place for place, turn in enumerate(turns) for event in turn.events}
    for event in view:
        place = turn_of[id(event)]
        is_summary = turns[place].kind is TurnKind.SUMMARY
        yield {
            "id": event.id,
            "kind": event.kind,
            "turn": place,
            "turn_kind": turns[place].kind.value,
            "source": event.source,
            "size": len(_text_of(event)),
            "protected": place in kept,
            "summary": is_summary,
            "stub": isinstance(event, AgentCondensationObservation) and not is_summary,
        }


def _marks(row: Mapping[str, Any]) -> str:
    return ", ".join(mark for mark in ("protected", "summary", "stub") if row[mark])


def _text_of(event: Event) -> str:
    """What an event says, in full."""
    if is_observation(event):
        return result_text(event)
    if isinstance(event, MessageAction | SystemMessageAction):
        return event.content
    if isinstance(event, CondensationAction):
        return event.summary or ""
    return action_text(event)


def _beginning(event: Event) -> str:
    text = " ".join(_text_of(event)[:400].split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _message_lines(place: int, message: Message) -> Iterator[str]:
    answers = f" to {message.tool_call_id}" if message.tool_call_id is not None else ""
    name = f" ({message.name})" if message.name is not None else ""
    yield f"--- {place} {message.role}{answers}{name}"
    for key, value in {**message.provider_fields, **message.thinking}.items():
        yield f"[{key}] {json.dumps(value, ensure_ascii=False)}"
    for part in message.content:
        yield _image(part.url) if isinstance(part, ImageContent) else part.text
    for call in message.tool_calls:
        yield f"-> {call.name} {call.arguments} ({call.id})"
        if call.provider_fields:
            yield f"   {json.dumps(call.provider_fields, ensure_ascii=False)}"


def _image(url: str) -> str:
    kind, is_data, data = url.partition(";base64,")
    return f"[image] {kind}, {len(data):,} characters of base64" if is_data else f"[image] {url}"
