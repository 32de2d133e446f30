"""What eventfold's condensers do with a history that OpenHands wrote, in the shape of the peers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eventfold import (
    CannotCondense,
    Condensation,
    Event,
    Reply,
    TokenCounter,
    ToolCall,
    View,
    condenser_from_config,
    event_from_dict,
    read_runs,
)
from eventfold.events import AgentCondensationObservation
from eventfold.memory import Message

Json = dict[str, Any]


class MadeUpModel:
    """A chat model that gives the reply of the request at once."""

    def __init__(self, reply: Mapping[str, Any], *, ranks: bool) -> None:
        self.reply = reply
        self.ranks = ranks

    def completion(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        if not tools:
            text = json.dumps({"ids": self.reply["ids"]}) if self.ranks else self.reply["text"]
            return Reply(text, finish_reason="stop")
        call = ToolCall("call", tools[0]["function"]["name"], self.reply["structured"])
        return Reply("", (call,), finish_reason="tool_calls")

    async def acompletion(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        return self.completion(messages, tools=tools, max_output_tokens=max_output_tokens)


class Letters(TokenCounter):
    """A token for four letters, as the made-up LLM of the SDK counts."""

    def count(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = (),
    ) -> int:
        letters = 0
        for message in messages:
            said = message.to_dict() if isinstance(message, Message) else message
            content = said.get("content") or ""
            parts = [content] if isinstance(content, str) else [p.get("text", "") for p in content]
            calls = said.get("tool_calls") or ()
            letters += sum(map(len, parts))
            letters += sum(len(call["function"]["arguments"]) for call in calls)
        return letters // 4


def read(events: list[Json], form: str) -> tuple[list[Event], dict[Any, int]]:
    """The events of a history in the form ``v0`` or ``v1``, and their ids by those of OpenHands."""
    if form == "v0":
        log = [event_from_dict(event) for event in events]
        return log, {event.id: event.id for event in log}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "history.json")
        path.write_text(json.dumps(events), encoding="utf-8")
        (run,) = read_runs(path)
    pairs = zip(run.recorded_ids, run.events, strict=True)
    return run.events, {recorded: event.id for recorded, event in pairs}


def wanted_of(config: Json) -> Json:
    """The same for eventfold: without the ledger below a summary, which OpenHands does not have."""
    if config["type"] == "pipeline":
        return config | {"condensers": [wanted_of(each) for each in config["condensers"]]}
    summarizes = config["type"] in ("llm", "structured")
    return config | ({"ledger_chars": 0} if summarizes else {})


def answered(log: list[Event], config: Json, reply: Json) -> Json:
    """What is kept, masked and forgotten, by event id."""
    view = View.from_events(log)
    found: Json = {"view": ids(view), "masked": []}
    model = MadeUpModel(reply, ranks=config["type"] == "llm_attention")
    condenser = condenser_from_config(config, llm=model)
    if "max_tokens" in config:
        condenser._counter = Letters(exact=False)  # type: ignore[attr-defined]
    try:
        result = condenser.condense(view)
    except CannotCondense as error:
        return found | {"error": f"CannotCondense: {error}"[:200]}
    if isinstance(result, Condensation):
        action = result.action.replace(id=len(log))
        found["forgotten"] = list(action.forgotten)
        found["summary"], found["offset"] = action.summary, action.summary_offset
        return found | {"kept": ids(View.from_events([*log, action]))}
    if len(result) == len(view):
        pairs = zip(view, result, strict=True)
        found["masked"] = [old.id for old, new in pairs if new is not old]
        return found | {"kept": found["view"]}
    return found | {"kept": ids(result)}


def ids(view: View) -> list[int | str]:
    return ["summary" if isinstance(e, AgentCondensationObservation) else e.id for e in view]
