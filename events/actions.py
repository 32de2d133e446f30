"""What agents and users do: OpenHands' action kinds, with its names, tags and fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

from .event import Action, Json, JsonObject, Text, register_event

__all__ = [
    "AgentDelegateAction",
    "AgentFinishAction",
    "AgentRejectAction",
    "AgentThinkAction",
    "BrowseInteractiveAction",
    "BrowseURLAction",
    "ChangeAgentStateAction",
    "CmdRunAction",
    "FileEditAction",
    "FileReadAction",
    "FileWriteAction",
    "IPythonRunCellAction",
    "LoopRecoveryAction",
    "MCPAction",
    "MessageAction",
    "NullAction",
    "RecallAction",
    "SystemMessageAction",
    "TaskTrackingAction",
]


@register_event("message")
class MessageAction(Action):
    """Text from the user or from the agent (``source`` says which)."""

    wire_aliases: ClassVar[dict[str, str]] = {"images_urls": "image_urls"}

    content: Text
    file_urls: list[Text] | None = None
    image_urls: list[Text] | None = None
    wait_for_response: bool = False


@register_event("system")
class SystemMessageAction(Action):
    """The system prompt and the tools that go with it."""

    content: Text
    tools: Json = None
    openhands_version: Text | None = None
    agent_class: Text | None = None


@register_event("run")
class CmdRunAction(Action):
    """A shell command."""

    command: Text
    is_input: bool = False
    thought: Text = ""
    blocking: bool = False
    is_static: bool = False
    cwd: Text | None = None
    confirmation_state: Text = "confirmed"


@register_event("run_ipython")
class IPythonRunCellAction(Action):
    """A cell of Python code."""

    code: Text
    thought: Text = ""
    include_extra: bool = True
    confirmation_state: Text = "confirmed"
    kernel_init_code: Text = ""


@register_event("read")
class FileReadAction(Action):
    """Reading a file, or lines of it."""

    path: Text
    start: int = 0
    end: int = -1
    thought: Text = ""
    impl_source: Text = "default"
    view_range: list[int] | None = None


@register_event("write")
class FileWriteAction(Action):
    """Writing a whole file, or lines of it."""

    path: Text
    content: Text
    start: int = 0
    end: int = -1
    thought: Text = ""


@register_event("edit")
class FileEditAction(Action):
    """Editing a file: by ``command`` (create, str_replace, insert ...), or by ``content`` and
    lines."""

    path: Text
    command: Text = ""
    file_text: Text | None = None
    old_str: Text | None = None
    new_str: Text | None = None
    insert_line: int | None = None
    content: Text | None = ""
    start: int | None = 1
    end: int | None = -1
    thought: Text = ""
    impl_source: Text = "oh_aci"


@register_event("browse")
class BrowseURLAction(Action):
    """Opening a page."""

    url: Text
    thought: Text = ""
    return_axtree: bool = False


@register_event("browse_interactive")
class BrowseInteractiveAction(Action):
    """Acting on a page: clicks, typing, scrolling, as code in ``browser_actions``."""

    browser_actions: Text
    thought: Text = ""
    browsergym_send_msg_to_user: Text = ""
    return_axtree: bool = False


@register_event("delegate")
class AgentDelegateAction(Action):
    """Handing a sub-task to another agent; its events follow until the delegate's observation."""

    agent: Text
    inputs: JsonObject = field(default_factory=dict)
    thought: Text = ""


@register_event("think")
class AgentThinkAction(Action):
    """A thought that the agent logs without doing anything."""

    thought: Text = ""


@register_event("finish")
class AgentFinishAction(Action):
    """The agent says that it is done."""

    final_thought: Text = ""
    outputs: JsonObject = field(default_factory=dict)
    thought: Text = ""


@register_event("reject")
class AgentRejectAction(Action):
    """The agent gives the task back."""

    outputs: JsonObject = field(default_factory=dict)
    thought: Text = ""


@register_event("recall")
class RecallAction(Action):
    """Asking for knowledge: about the workspace, or whatever a query calls up."""

    recall_type: Text
    query: Text = ""
    thought: Text = ""


@register_event("call_tool_mcp")
class MCPAction(Action):
    """A call of any tool that has no action kind of its own."""

    name: Text
    arguments: JsonObject = field(default_factory=dict)
    thought: Text = ""
    confirmation_state: Text = "confirmed"


@register_event("task_tracking")
class TaskTrackingAction(Action):
    """Viewing or writing the todo list."""

    command: Text = "view"
    task_list: Json = field(default_factory=list)
    thought: Text = ""


@register_event("null")
class NullAction(Action):
    """Nothing."""


@register_event("change_agent_state")
class ChangeAgentStateAction(Action):
    """Asking the controller to change the agent's state."""

    agent_state: Text
    thought: Text = ""


@register_event("loop_recovery")
class LoopRecoveryAction(Action):
    """The user's choice of how to go on after a detected loop."""

    option: int = 1


def tool_action(name: str, arguments: dict[str, Any], thought: str = "") -> Action:
    """The action that a call of the tool ``name`` becomes.

    The tools of OpenHands, under their old and new names, have action kinds of their own; a call of
    any other tool, or with arguments that its kind cannot hold, is an :class:`MCPAction`.
    """
    make = _browse if name.startswith("browser_") else _TOOLS.get(name)
    if make is not None:
        try:
            return make(name, arguments, thought)
        except (KeyError, TypeError, ValueError):
            pass  # not the arguments that OpenHands' tool of this name has
    return MCPAction(name=name, arguments=arguments, thought=thought)


def _run(name: str, args: dict[str, Any], thought: str) -> Action:
    is_input = args.get("is_input") in (True, "true", "True")
    return CmdRunAction(command=args["command"], is_input=is_input, thought=thought)


def _edit(name: str, args: dict[str, Any], thought: str) -> Action:
    path, command = args["path"], args["command"]
    if command == "view":
        return FileReadAction(path=path, view_range=args.get("view_range"), thought=thought)
    return FileEditAction(
        path=path,
        command=command,
        file_text=args.get("file_text"),
        old_str=args.get("old_str"),
        new_str=args.get("new_str"),
        insert_line=args.get("insert_line"),
        thought=thought,
    )


def _browse(name: str, args: dict[str, Any], thought: str) -> Action:
    said = ", ".join(f"{key}={value!r}" for key, value in args.items() if value is not None)
    return BrowseInteractiveAction(browser_actions=f"{name}({said})", thought=thought)


_TOOLS: dict[str, Callable[[str, dict[str, Any], str], Action]] = {
    **dict.fromkeys(("bash", "execute_bash", "terminal"), _run),
    **dict.fromkeys(("file_editor", "str_replace_based_edit_tool", "str_replace_editor"), _edit),
    "browser": lambda _, args, thought: BrowseInteractiveAction(args["code"], thought),
    "edit_file": lambda _, args, thought: FileEditAction(
        path=args["path"],
        content=args["content"],
        start=args.get("start", 1),
        end=args.get("end", -1),
        thought=thought,
    ),
    "execute_ipython_cell": lambda _, args, thought: IPythonRunCellAction(args["code"], thought),
    "finish": lambda _, args, thought: AgentFinishAction(args["message"], thought=thought),
    "task_tracker": lambda _, args, thought: TaskTrackingAction(
        args["command"], args.get("task_list") or [], thought
    ),
    "think": lambda _, args, thought: AgentThinkAction(args["thought"]),
    "web_read": lambda _, args, thought: BrowseURLAction(args["url"], thought),
}
