"""What old and converted OpenHands V0 logs leave out, derived from what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..actions import (
    ChangeAgentStateAction,
    MessageAction,
    NullAction,
    RecallAction,
    SystemMessageAction,
)
from ..event import Action, Event, EventSource, UnknownEvent
from .numbering import Draft

__all__ = ["add_causes", "add_instruction", "add_sources", "is_flattened", "unflattened"]

_RESULT_KINDS = {"browse_interactive": "browse", "call_tool_mcp": "mcp"}
_ANSWERS_ANYTHING = {"error", "null", "user_rejected"}
_NO_STEP = (ChangeAgentStateAction, NullAction, RecallAction, SystemMessageAction)


def is_flattened(event: dict[str, Any]) -> bool:
    """Whether a table (Arrow) made it: it has all the columns, null where they are not used."""
    return (
        {"action", "observation"} <= event.keys()
        and (event["action"] is None or event["observation"] is None)
        and event.get("args") is None
        and (event.get("extras") is None or isinstance(event["extras"], dict))
    )


def unflattened(event: dict[str, Any]) -> dict[str, Any]:
    """The event as OpenHands wrote it: without the nulls, an action's arguments in ``args``."""
    made = {
        key: event[key]
        for key in ("id", "timestamp", "source", "message")
        if event.get(key) is not None
    }
    if isinstance(time := made.get("timestamp"), str):
        made["timestamp"] = time.replace(" ", "T", 1)
    extras = event.get("extras")
    payload = {
        key: value
        for key, value in (extras.items() if isinstance(extras, dict) else ())
        if value is not None
    }
    content = event.get("content")
    if event["action"] is not None:
        made["action"] = event["action"]
        if content is not None:
            payload.setdefault("content", content)
        made["args"] = payload
    else:
        if event["observation"] is not None:
            made["observation"] = event["observation"]
        made["content"] = content if content is not None else ""
        made["extras"] = payload
    known = {*made, "args", "content", "extras", "observation"}
    return made | {key: event[key] for key in event if key not in known and event[key] is not None}


def add_sources(drafts: Sequence[Draft]) -> None:
    """Says who caused an event that does not say so: the first message is the user's task."""
    acted = False
    for draft in drafts:
        event = draft.event
        if event.source is None:
            if not _is_action(event):
                source = EventSource.ENVIRONMENT
            elif isinstance(event, MessageAction) and not acted:
                source = EventSource.USER
            else:
                source = EventSource.AGENT
            draft.event = event.replace(source=source)
        acted = acted or (_is_action(event) and not isinstance(event, SystemMessageAction))


def add_causes(drafts: Sequence[Draft]) -> None:
    """Lets an observation without a cause answer the agent's action before it.

    It must be the newest one, still unanswered, and of the observation's kind; a null, an error or
    a rejection answers any kind, unless somebody else has acted in between.
    """
    waiting: Draft | None = None
    alone = True
    for draft in drafts:
        event = draft.event
        if _is_action(event):
            if event.source is EventSource.AGENT and not isinstance(event, SystemMessageAction):
                waiting, alone = draft, True
            else:
                alone = False
            continue
        if waiting is None:
            continue
        if event.cause is None:
            kind, asked = _kind(event), _kind(waiting.event)
            if kind == _RESULT_KINDS.get(asked, asked) or (alone and kind in _ANSWERS_ANYTHING):
                draft.answers = waiting
                waiting = None
        elif event.cause == waiting.recorded_id:
            waiting = None


def add_instruction(drafts: list[Draft], instruction: str) -> bool:
    """Makes ``instruction`` the user's message if the agent acts before the user has said anything.

    It comes first, but for the system message. Returns whether it was needed.
    """
    position = 0
    for n, draft in enumerate(drafts):
        event = draft.event
        if isinstance(event, MessageAction) and event.source is EventSource.USER:
            return False
        if isinstance(event, SystemMessageAction):
            position = n + 1
        elif (
            _is_action(event)
            and event.source is EventSource.AGENT
            and not isinstance(event, _NO_STEP)
        ):
            message = MessageAction(
                content=instruction, source=EventSource.USER, timestamp=event.timestamp
            )
            drafts.insert(position, Draft(message, place="", lost={"id": ...}))
            return True
    return False


def _is_action(event: Event) -> bool:
    if isinstance(event, UnknownEvent):
        return event.data.get("action") is not None
    return isinstance(event, Action)


def _kind(event: Event) -> str:
    return event.name if isinstance(event, UnknownEvent) else event.kind
