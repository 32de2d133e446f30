"""Telling trajectory formats apart: by a JSON value, or by the files in a folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import openhands_v0
from .base import Format

__all__ = ["FORMATS", "format_of", "format_of_folder", "holds_no_events"]

# A new format is a module beside this one, its FORMAT here, and its lines below taken out.
FORMATS: tuple[Format, ...] = (openhands_v0.FORMAT,)


def format_of(value: Any) -> Format | str | None:
    """The format of a JSON value; of one that is known but not read, only what it is called."""
    for known in FORMATS:
        if known.recognises(value):
            return known
    return next((title for title, test in _NOT_READ if test(value)), None)


def format_of_folder(folder: Path) -> Format | str | None:
    """The same for a folder whose files make up one run."""
    for known in FORMATS:
        if known.recognises_folder(folder):
            return known
    return _OPENHANDS_V1 if _is_v1_folder(folder) else None


def holds_no_events(value: Any) -> bool:
    """Whether it may be of several formats, as its list of events is empty."""
    if isinstance(value, dict):
        return [] in (value.get("history"), value.get("trajectory"))
    return isinstance(value, list) and not value


# Formats that are known so that a message can name them. Each test is given a whole file's value,
# or a line's, and is strict enough to stand alone.


def _is_v1(value: Any) -> bool:
    items = _items(value, "history") or [value]
    return any(
        isinstance(item.get("kind"), str) and "source" in item
        for item in items
        if isinstance(item, dict)
    )


def _is_v1_folder(folder: Path) -> bool:
    named = re.compile(r"event-\d+-.+\.json")
    return any(
        named.fullmatch(path.name)
        for store in (folder / "events", folder)
        for path in _listed(store)
    )


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


def _is_chat(value: Any) -> bool:
    if isinstance(value, dict) and isinstance(value.get("request_params"), dict):
        return _is_chat(value["request_params"])
    items = _items(value, "messages") or _items(value, "traj")
    rows = [item for item in items if isinstance(item, dict)]
    return any({"role", "content"} <= row.keys() for row in rows) or any(
        isinstance(row.get("messages"), list) or isinstance(row.get("traj"), list) for row in rows
    )


_OPENHANDS_V1 = "OpenHands V1 (software-agent-sdk) events"
_NOT_READ: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    (_OPENHANDS_V1, _is_v1),
    ("a SWE-agent trajectory", _is_swe_agent),
    ("a mini-swe-agent trajectory", _is_mini),
    ("an ATIF trajectory", _is_atif),
    ("a Codex CLI rollout", _is_codex),
    ("a Claude Code session", _is_claude),
    ("OpenAI chat messages", _is_chat),
)


def _items(value: Any, key: str) -> list[Any]:
    """The list that a value is, or has under a key."""
    found = value.get(key) if isinstance(value, dict) else value
    return found if isinstance(found, list) else []


def _any_has(items: Any, keys: set[str]) -> bool:
    return isinstance(items, list) and any(
        isinstance(item, dict) and not keys.isdisjoint(item) for item in items
    )


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
