"""Telling trajectory formats apart: by a JSON value, or by the files in a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import eventfold_jsonl, openai_chat, openhands_v0, openhands_v1
from .base import Format

__all__ = ["FORMATS", "format_of", "format_of_folder", "holds_no_events"]

# A new format is a module beside this one, its FORMAT here, and its lines below taken out.
FORMATS: tuple[Format, ...] = (
    eventfold_jsonl.FORMAT,
    openhands_v0.FORMAT,
    openhands_v1.FORMAT,
    openai_chat.FORMAT,
)


def format_of(value: Any) -> Format | str | None:
    """The format of a JSON value; of one that is known but not read, only what it is called."""
    for known in FORMATS:
        if known.recognises(value):
            return known
    return next((title for title, test in _NOT_READ if test(value)), None)


def format_of_folder(folder: Path) -> Format | None:
    """The format of a folder whose files make up one run."""
    return next((known for known in FORMATS if known.recognises_folder(folder)), None)


def holds_no_events(value: Any) -> bool:
    """Whether it may be of several formats, as its list of events is empty."""
    if isinstance(value, dict):
        return [] in (value.get("history"), value.get("trajectory"))
    return isinstance(value, list) and not value


# Formats that are known so that a message can name them. Each test is given a whole file's value,
# or a line's, and is strict enough to stand alone.


def _is_swe_agent(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("history"), list):
        return False
    return _any_has(value.get("trajectory"), {"response", "state"}) or _any_has(
        value["history"], {"agent"}
    )


def _is_mini(value: Any) -> bool:
    if not isinstance(value, dict) or "messages" not in value:
        return False
    info = value.get("info")
    return "trajectory_format" in value or (isinstance(info, dict) and "mini_version" in info)


def _is_atif(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_atif, value[:3]))
    if not isinstance(value, dict) or "schema_version" not in value:
        return False
    return "steps" in value or value.get("__header__") is True


def _is_codex(value: Any) -> bool:
    kinds = ("session_meta", "response_item", "event_msg", "turn_context")
    return isinstance(value, dict) and "payload" in value and value.get("type") in kinds


def _is_claude(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("loglines"), list):
        return True
    return "type" in value and not value.keys().isdisjoint({"sessionId", "parentUuid", "leafUuid"})


_NOT_READ: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("a SWE-agent trajectory", _is_swe_agent),
    ("a mini-swe-agent trajectory", _is_mini),
    ("an ATIF trajectory", _is_atif),
    ("a Codex CLI rollout", _is_codex),
    ("a Claude Code session", _is_claude),
)


def _any_has(items: Any, keys: set[str]) -> bool:
    return isinstance(items, list) and any(
        isinstance(item, dict) and not keys.isdisjoint(item) for item in items
    )
