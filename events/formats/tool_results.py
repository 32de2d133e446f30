"""The observation that the result of a tool call becomes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..actions import (
    AgentThinkAction,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    IPythonRunCellAction,
    MCPAction,
    TaskTrackingAction,
)
from ..event import Event, Observation
from ..observations import (
    AgentThinkObservation,
    BrowserOutputObservation,
    CmdOutputObservation,
    FileEditObservation,
    FileReadObservation,
    IPythonRunCellObservation,
    MCPObservation,
    TaskTrackingObservation,
)

__all__ = ["arguments_in", "tool_result"]


def tool_result(
    action: Event | None, name: str, content: str, images: Sequence[str]
) -> Observation:
    """What came back for ``action``, a call of the tool ``name``, as the kind that fits it.

    An :class:`MCPObservation` if the action is not known, or of no kind that has one of its own.
    """
    if isinstance(action, BrowseInteractiveAction | BrowseURLAction):
        url = action.url if isinstance(action, BrowseURLAction) else ""
        return BrowserOutputObservation(content, url=url, screenshot=images[0] if images else "")
    if isinstance(action, IPythonRunCellAction):
        pictures = list(images) if images else None
        return IPythonRunCellObservation(content, code=action.code, image_urls=pictures)
    if not images:
        if isinstance(action, CmdRunAction):
            return CmdOutputObservation(content, command=action.command)
        if isinstance(action, FileReadAction):
            return FileReadObservation(content, path=action.path)
        if isinstance(action, FileEditAction):
            return FileEditObservation(content, path=action.path)
        if isinstance(action, TaskTrackingAction):
            return TaskTrackingObservation(
                content, command=action.command, task_list=action.task_list
            )
        if isinstance(action, AgentThinkAction):
            return AgentThinkObservation(content)
    arguments = action.arguments if isinstance(action, MCPAction) else {}
    pictures = list(images) if images else None
    return MCPObservation(content, name=name, arguments=arguments, image_urls=pictures)


def arguments_in(recorded: Any) -> dict[str, Any] | None:
    """A call's arguments, from the model's JSON text or an object; None if they are neither."""
    if isinstance(recorded, str):
        try:
            recorded = json.loads(recorded, strict=False)
        except (ValueError, RecursionError):
            return None
    return recorded if isinstance(recorded, dict) else None
