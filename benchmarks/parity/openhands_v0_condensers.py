"""What OpenHands V0's condensers do with a history: a line of JSON in, a line of JSON out.

In: the events, and the condensers' configurations with the LLM's replies. Out: for each of them
what is kept, masked and forgotten, by event id. ``eventfold_condensers.py`` answers in the same
shape.
"""

# OpenHands is not installed where this is checked.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any

os.environ.setdefault("LOG_LEVEL", "CRITICAL")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from litellm import ModelResponse
from openhands.controller.state.state_tracker import StateTracker
from openhands.core.config import LLMConfig
from openhands.events.event import Event
from openhands.events.observation.agent import AgentCondensationObservation
from openhands.events.serialization.event import event_from_dict
from openhands.llm.llm import LLM
from openhands.memory.condenser.condenser import Condensation, Condenser
from openhands.memory.condenser.impl import (
    AmortizedForgettingCondenser,
    BrowserOutputCondenser,
    CondenserPipeline,
    ConversationWindowCondenser,
    LLMAttentionCondenser,
    LLMSummarizingCondenser,
    NoOpCondenser,
    ObservationMaskingCondenser,
    RecentEventsCondenser,
    StructuredSummaryCondenser,
)
from openhands.memory.view import View

PLAIN = {
    "noop": NoOpCondenser,
    "recent": RecentEventsCondenser,
    "observation_masking": ObservationMaskingCondenser,
    "browser_output_masking": BrowserOutputCondenser,
    "amortized": AmortizedForgettingCondenser,
    "conversation_window": ConversationWindowCondenser,
}
ASKING = {
    "llm": LLMSummarizingCondenser,
    "structured": StructuredSummaryCondenser,
    "llm_attention": LLMAttentionCondenser,
}


class MadeUpLLM(LLM):
    """A model that gives the reply of the request at once."""

    reply: dict[str, Any]
    asked = ""

    @property
    def completion(self) -> Any:
        def answer(messages: list[dict[str, Any]], **settings: Any) -> ModelResponse:
            self.asked = json.dumps(messages, ensure_ascii=False)
            said: dict[str, Any] = {"role": "assistant", "content": self.reply["text"]}
            if settings.get("tools"):
                call = {"name": "create_state_summary", "arguments": self.reply["structured"]}
                said["tool_calls"] = [{"id": "call", "type": "function", "function": call}]
            elif settings.get("response_format"):
                said["content"] = json.dumps({"ids": self.reply["ids"]})
            return ModelResponse(choices=[{"index": 0, "message": said}])

        return answer


def built(config: dict[str, Any], llm: MadeUpLLM) -> Condenser:
    options = dict(config)
    kind = options.pop("type")
    if kind == "pipeline":
        return CondenserPipeline(*(built(each, llm) for each in options["condensers"]))
    return ASKING[kind](llm, **options) if kind in ASKING else PLAIN[kind](**options)


def answered(events: list[Event], config: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
    llm = MadeUpLLM(LLMConfig(model="gpt-4o", api_key="none"), service_id="condenser")
    llm.reply = reply
    view = View.from_events(events)
    found: dict[str, Any] = {"view": ids(view), "masked": []}
    previous = [e.content for e in view if isinstance(e, AgentCondensationObservation)]
    try:
        result = built(config, llm).condense(view)
    except Exception as error:
        return found | {"error": f"{type(error).__name__}: {error}"[:200]}
    if isinstance(result, Condensation):
        action = result.action
        action._id = events[-1].id + 1
        found["forgotten"] = list(action.forgotten)
        found["summary"], found["offset"] = action.summary, action.summary_offset
        found["told"] = all(
            json.dumps(text, ensure_ascii=False)[1:-1] in llm.asked for text in previous
        )
        return found | {"kept": ids(View.from_events([*events, action]))}
    if len(result) == len(view):
        pairs = list(zip(view, result, strict=True))
        found["masked"] = [old.id for old, new in pairs if new is not old]
        return found | {"kept": found["view"]}
    return found | {"kept": ids(result)}


def ids(view: View) -> list[int | str]:
    return ["summary" if isinstance(e, AgentCondensationObservation) else e.id for e in view]


def main() -> None:
    logging.disable(logging.CRITICAL)
    shown = StateTracker(None, None, None).agent_history_filter
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            events = [event_from_dict(event) for event in asked["events"]]
        except Exception as error:
            answer = {"unreadable": f"{type(error).__name__}: {error}"[:200]}
        else:
            events = [event for event in events if shown.include(event)]
            results = [
                answered(events, each["config"], each["reply"]) for each in asked["condensers"]
            ]
            answer = {"results": results}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
