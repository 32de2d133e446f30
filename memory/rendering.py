"""The words for each kind of event: what an action did, what came back, what was recalled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from ..events.actions import (
    AgentDelegateAction,
    AgentFinishAction,
    AgentRejectAction,
    AgentThinkAction,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    LoopRecoveryAction,
    MCPAction,
    MessageAction,
    RecallAction,
    TaskTrackingAction,
)
from ..events.encoding import visible
from ..events.event import Event, InvalidArgument, Observation, UnknownEvent
from ..events.observations import (
    AgentDelegateObservation,
    BrowserOutputObservation,
    CmdOutputObservation,
    ErrorObservation,
    FileDownloadObservation,
    IPythonRunCellObservation,
    MCPObservation,
    RecallObservation,
    UserRejectObservation,
)

__all__ = [
    "NO_OUTPUT",
    "action_parts",
    "action_text",
    "call_arguments",
    "check_limit",
    "clean",
    "cut",
    "image_urls",
    "recalled",
    "result_text",
    "thought_of",
]

NO_OUTPUT = "(no output)"


def clean(text: str) -> str:
    """The text as it may be sent: lone surrogates and NULs become visible escapes."""
    return visible(text).replace("\0", "\\u0000")


def check_limit(max_message_chars: int | None) -> None:
    """Raises :class:`InvalidArgument` for a limit that :func:`cut` does not know."""
    if max_message_chars is not None and max_message_chars < 0:
        raise InvalidArgument(
            f"max_message_chars is a number of characters, 0 or more; found {max_message_chars}"
        )


def cut(text: str, limit: int | None) -> str:
    """At most ``limit`` characters of the text: its beginning and its end, with a note between
    them.

    Below 60 characters a short marker stands alone. A limit of 0 leaves one character, since no
    provider accepts an empty text. None is no limit.
    """
    if limit is None or len(text) <= limit:
        return text
    if limit < 60:
        return "[cut]" if limit >= 5 else "…"
    note, left_out = "", 0
    while left_out != len(text) - limit + len(note):  # the note takes the place of text, too
        left_out = len(text) - limit + len(note)
        note = f"\n[... {left_out} characters left out ...]\n"
    kept = limit - len(note)
    head = kept - kept // 2
    return text[:head] + note + text[len(text) - kept // 2 :]


# ---------------------------------------------------------------------- actions


def thought_of(action: Event) -> str:
    """What the agent said when it did this; empty for most."""
    thought = getattr(action, "thought", "")
    return thought if isinstance(thought, str) else ""


def action_text(action: Event) -> str:
    """An action in words, for a history without tool calls. Empty if there is nothing to say."""
    return "\n\n".join(action_parts(action))


def action_parts(action: Event) -> list[str]:
    """What the agent said when it did this, and what it did; without what is empty."""
    said = action.llm_text()
    if said is not None:
        return [said] if said.strip() else []
    describe = _ACTIONS.get(type(action))
    described = _described(action) if describe is None else describe(action)
    thought = thought_of(action)
    return [part for part in (thought, described) if part.strip()]


def call_arguments(action: Event) -> str:
    """The arguments of the tool call that an action carries out, as JSON, from its own fields."""
    if isinstance(action, MCPAction):
        return _json(action.arguments)
    if isinstance(action, UnknownEvent):
        args = action.data.get("args")
        return _json(args if isinstance(args, dict) else {})
    return _json(_said_fields(action))


_ACTIONS: dict[type[Event], Callable[[Any], str]] = {
    MessageAction: lambda a: a.content,
    AgentThinkAction: lambda a: "",
    AgentFinishAction: lambda a: _ending(a, a.final_thought),
    AgentRejectAction: lambda a: _ending(a, ""),
    CmdRunAction: lambda a: f"Running the command:\n{a.command}",
    IPythonRunCellAction: lambda a: f"Running the Python code:\n{a.code}",
    FileReadAction: lambda a: f"Reading the file {a.path}" + _lines(a),
    FileWriteAction: lambda a: f"Writing the file {a.path}" + _lines(a) + f":\n{a.content}",
    FileEditAction: lambda a: _edit(a),
    BrowseURLAction: lambda a: f"Opening {a.url}",
    BrowseInteractiveAction: lambda a: f"In the browser:\n{a.browser_actions}",
    AgentDelegateAction: lambda a: f"Delegating to {a.agent}: {_json(a.inputs)}",
    MCPAction: lambda a: f"Calling the tool {a.name}: {_json(a.arguments)}",
    TaskTrackingAction: lambda a: f"Todo list, {a.command}: {_json(a.task_list)}",
    RecallAction: lambda a: "",
    LoopRecoveryAction: lambda a: "",
}


def _ending(action: AgentFinishAction | AgentRejectAction, final: str) -> str:
    if final.strip() and final != action.thought:
        return final
    if action.thought.strip() or not action.outputs:
        return ""
    content = action.outputs.get("content")
    return content if isinstance(content, str) else _json(action.outputs)


def _lines(action: FileReadAction | FileWriteAction) -> str:
    if isinstance(action, FileReadAction) and action.view_range:
        return f", lines {action.view_range}"
    return (
        "" if (action.start, action.end) == (0, -1) else f", lines {action.start} to {action.end}"
    )


def _edit(action: FileEditAction) -> str:
    said = f"Editing the file {action.path}"
    if not action.command:
        return f"{said}, lines {action.start} to {action.end}:\n{action.content or ''}"
    given = {
        name: getattr(action, name)
        for name in ("file_text", "old_str", "new_str", "insert_line")
        if getattr(action, name) is not None
    }
    return f"{said}: {action.command} {_json(given)}"


def _described(action: Event) -> str:
    """Any other kind: its tag and its fields."""
    if isinstance(action, UnknownEvent):
        return action.content
    return f"{action.kind}: {_json(_said_fields(action))}"


# Fields of actions that are no part of what the model asked for.
_NOT_SAID = {"thought", "confirmation_state", "kernel_init_code", "impl_source", "include_extra"}


def _said_fields(action: Event) -> dict[str, Any]:
    defaults = type(action).__dataclass_fields__
    return {
        name: value
        for name in action.payload_fields
        if name not in _NOT_SAID
        and (value := getattr(action, name)) != defaults[name].default
        and value not in (None, [], {})
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# ---------------------------------------------------------------------- observations


def result_text(observation: Event) -> str:
    """What came back, in words; "(no output)" if nothing did."""
    said = observation.llm_text()
    text = _observed(observation) if said is None else said
    return text if text.strip() else NO_OUTPUT


def _observed(event: Event) -> str:
    if isinstance(event, CmdOutputObservation):
        output = f"{_noted(event, 'prefix')}{event.content}"
        if not output.strip():
            output = NO_OUTPUT
        return "\n".join((output + _noted(event, "suffix"), *_command_notes(event)))
    if isinstance(event, UserRejectObservation):
        return f"The user did not allow this action. {event.content}".strip()
    if isinstance(event, ErrorObservation):
        return (
            f"Error: {event.content}" if event.content.strip() else "Error: no details are known."
        )
    if isinstance(event, BrowserOutputObservation):
        page = [f"[Page: {event.url}]"] if event.url else []
        if event.error and event.last_browser_action_error:
            page.append(f"[Error: {event.last_browser_action_error}]")
        return "\n".join((*page, event.content)) if event.content.strip() or page else ""
    if isinstance(event, AgentDelegateObservation) and not event.content.strip() and event.outputs:
        return _json(event.outputs)
    if isinstance(event, FileDownloadObservation) and event.file_path:
        return f"{event.content}\n[Downloaded to {event.file_path}]".strip()
    if isinstance(event, RecallObservation):
        return "\n\n".join(text for _, text in recalled(event)) or event.content
    if isinstance(event, Observation | UnknownEvent):
        return event.content
    return ""


def _noted(event: CmdOutputObservation, name: str) -> str:
    """A text that the runtime has put into the metadata; empty if there is none."""
    value = (event.metadata or {}).get(name)
    return value if isinstance(value, str) else ""


def _command_notes(event: CmdOutputObservation) -> Iterator[str]:
    for name, note in (
        ("working_dir", "Current working directory"),
        ("py_interpreter_path", "Python interpreter"),
    ):
        if value := _noted(event, name):
            yield f"[{note}: {value}]"
    # The runtime's own suffix says how the command ended, if there is one.
    if event.exit_code is not None and event.exit_code != -1 and not _noted(event, "suffix"):
        yield f"[The command ended with exit code {event.exit_code}.]"


def image_urls(event: Event) -> list[str]:
    """The pictures that belong to an event, as it holds them."""
    if isinstance(event, MessageAction | IPythonRunCellObservation | MCPObservation):
        return list(event.image_urls or ())
    if isinstance(event, BrowserOutputObservation):
        shown = event.set_of_marks or event.screenshot
        return [shown] if shown else []
    return []


# ---------------------------------------------------------------------- recalled knowledge


def recalled(event: RecallObservation) -> list[tuple[str, str]]:
    """The pieces of knowledge of a recall as (what makes the piece the same piece, its text)."""
    pieces = []
    workspace = "\n".join(_workspace(event))
    if workspace:
        pieces.append((workspace, workspace))
    for piece in event.microagent_knowledge if isinstance(event.microagent_knowledge, list) else []:
        if isinstance(piece, dict) and str(piece.get("content") or "").strip():
            name, content = piece.get("name") or "unnamed", piece["content"]
            trigger = f' (recalled by "{piece["trigger"]}")' if piece.get("trigger") else ""
            text = f"Knowledge: {name}{trigger}\n{content}"
            pieces.append((f"{name}\0{content}", text))
    return pieces


def _workspace(event: RecallObservation) -> Iterator[str]:
    if event.repo_name:
        branch = f", branch {event.repo_branch}" if event.repo_branch else ""
        place = f" in {event.repo_directory}" if event.repo_directory else ""
        yield f"Repository: {event.repo_name}{branch}{place}"
    for value, title in (
        (event.working_dir, "Working directory"),
        (event.date, "Today's date"),
        (event.repo_instructions, "Instructions of the repository"),
        (event.additional_agent_instructions, "Further instructions"),
        (event.conversation_instructions, "Instructions for this conversation"),
    ):
        if value:
            yield f"{title}: {value}"
    for given, title in (
        (event.runtime_hosts, "Host, reachable at the port"),
        (event.custom_secrets_descriptions, "Secret, available as an environment variable"),
    ):
        for name, value in given.items():
            yield f"{title}: {name} {value}".rstrip()
