"""What comes back: OpenHands' observation kinds, with its names, tags and fields."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from .event import Json, JsonObject, Observation, Text, register_event

__all__ = [
    "AgentDelegateObservation",
    "AgentStateChangedObservation",
    "AgentThinkObservation",
    "BrowserOutputObservation",
    "CmdOutputObservation",
    "ErrorObservation",
    "FileDownloadObservation",
    "FileEditObservation",
    "FileReadObservation",
    "FileWriteObservation",
    "IPythonRunCellObservation",
    "LoopDetectionObservation",
    "MCPObservation",
    "NullObservation",
    "RecallObservation",
    "SuccessObservation",
    "TaskTrackingObservation",
    "UserRejectObservation",
]


@register_event("run")
class CmdOutputObservation(Observation):
    """The output of a shell command.

    ``exit_code`` is also ``metadata["exit_code"]``, where OpenHands writes it; None if unknown.
    """

    command: Text = ""
    metadata: JsonObject = field(default_factory=dict)
    exit_code: int | None = None

    def __post_init__(self) -> None:
        if self.exit_code is None:
            code = self.metadata.get("exit_code")
            if isinstance(code, int):
                object.__setattr__(self, "exit_code", code)
        elif self.wire is None:  # what was read keeps the form in which it was recorded
            metadata = {**self.metadata, "exit_code": self.exit_code}
            object.__setattr__(self, "metadata", metadata)

    def wire_payload(self) -> dict[str, Any]:
        return {"command": self.command, "metadata": self.metadata}


@register_event("run_ipython")
class IPythonRunCellObservation(Observation):
    """The output of a Python cell; ``image_urls`` are the pictures that it drew."""

    code: Text = ""
    image_urls: list[Text] | None = None


@register_event("read")
class FileReadObservation(Observation):
    """What a file holds."""

    path: Text = ""
    impl_source: Text = "default"


@register_event("write")
class FileWriteObservation(Observation):
    """A file was written."""

    path: Text = ""


@register_event("edit")
class FileEditObservation(Observation):
    """A file was edited. ``content`` is what the model sees; the rest are copies for people."""

    path: Text = ""
    prev_exist: bool = False
    old_content: Text | None = None
    new_content: Text | None = None
    impl_source: Text = "default"
    diff: Text | None = None


@register_event("browse")
class BrowserOutputObservation(Observation):
    """The page after a browser action: its text in ``content``, pictures as data URLs."""

    url: Text = ""
    trigger_by_action: Text = ""
    screenshot: Text | None = ""
    screenshot_path: Text | None = None
    set_of_marks: Text | None = ""
    error: bool = False
    goal_image_urls: Json = field(default_factory=list)
    open_pages_urls: Json = field(default_factory=list)
    active_page_index: int = -1
    last_browser_action: Text = ""
    last_browser_action_error: Text = ""
    focused_element_bid: Text | None = ""


@register_event("delegate")
class AgentDelegateObservation(Observation):
    """What a delegate brought back."""

    outputs: JsonObject = field(default_factory=dict)


@register_event("think")
class AgentThinkObservation(Observation):
    """The acknowledgement of a thought."""


@register_event("error")
class ErrorObservation(Observation):
    """Something went wrong. As the answer to a call it stands in for a result."""

    error_id: Text = ""


@register_event("success")
class SuccessObservation(Observation):
    """Something went well and has nothing more to say."""


@register_event("null")
class NullObservation(Observation):
    """Nothing."""


@register_event("recall")
class RecallObservation(Observation):
    """Recalled knowledge: about the workspace, or pieces of ``microagent_knowledge``.

    A piece is ``{"name": ..., "trigger": ..., "content": ...}``.
    """

    recall_type: Text = "workspace_context"
    repo_name: Text = ""
    repo_directory: Text = ""
    repo_branch: Text = ""
    repo_instructions: Text = ""
    runtime_hosts: JsonObject = field(default_factory=dict)
    additional_agent_instructions: Text = ""
    date: Text = ""
    custom_secrets_descriptions: JsonObject = field(default_factory=dict)
    conversation_instructions: Text = ""
    working_dir: Text = ""
    microagent_knowledge: Json = field(default_factory=list)


@register_event("user_rejected")
class UserRejectObservation(Observation):
    """The user did not allow the action."""


@register_event("mcp")
class MCPObservation(Observation):
    """The result of a tool that has no observation kind of its own.

    ``image_urls``, the pictures that came with it, are ours; OpenHands has no such field.
    """

    name: Text = ""
    arguments: JsonObject = field(default_factory=dict)
    image_urls: list[Text] | None = None

    def wire_payload(self) -> dict[str, Any]:
        payload: dict[str, Any] = {"name": self.name, "arguments": self.arguments}
        return payload if self.image_urls is None else {**payload, "image_urls": self.image_urls}


@register_event("download")
class FileDownloadObservation(Observation):
    """A file was downloaded."""

    file_path: Text = ""


@register_event("task_tracking")
class TaskTrackingObservation(Observation):
    """The todo list after a task-tracking action."""

    command: Text = ""
    task_list: Json = field(default_factory=list)


@register_event("agent_state_changed")
class AgentStateChangedObservation(Observation):
    """The agent's state has changed; for the controller and the screen, never for the model."""

    agent_state: Text = ""
    reason: Text = ""


@register_event("loop_detection")
class LoopDetectionObservation(Observation):
    """The controller found the agent repeating itself."""
