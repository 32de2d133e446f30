"""What the OpenHands SDK's condensers do with a history: a line of JSON in, a line of JSON out.

As in ``openhands_v0_condensers.py``. Of actions and observations only what condensers look at is
taken over, so that recorded tools of any time can be read.
"""

# The SDK is not installed where this is checked.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any

os.environ.setdefault("LOG_LEVEL", "CRITICAL")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from litellm import ModelResponse
from openhands.sdk import LLM, Message, TextContent
from openhands.sdk.context.condenser import (
    CondenserBase,
    LLMSummarizingCondenser,
    NoOpCondenser,
    PipelineCondenser,
)
from openhands.sdk.context.view import View
from openhands.sdk.event import (
    ActionEvent,
    AgentErrorEvent,
    Condensation,
    CondensationRequest,
    CondensationSummaryEvent,
    Event,
    MessageEvent,
    ObservationEvent,
    SystemPromptEvent,
)
from openhands.sdk.llm import LLMResponse, MessageToolCall
from openhands.sdk.llm.utils.metrics import MetricsSnapshot
from openhands.sdk.tool import Action, Observation


class BashAction(Action):
    command: str


class BashObservation(Observation):
    pass


class MadeUpLLM(LLM):
    """A model that gives the reply of the request at once, and counts a token for four letters."""

    def generate(self, messages: list[Message], **_: Any) -> LLMResponse:
        ASKED.append(" ".join(part.text for m in messages for part in m.content))
        return LLMResponse(
            message=Message(role="assistant", content=[TextContent(text=REPLY["text"])]),
            metrics=MetricsSnapshot(),
            raw_response=_RAW,
        )

    def get_token_count(self, messages: list[Message], tools: Any = None, **_: Any) -> int:
        letters = 0
        for message in messages:
            letters += sum(len(part.text) for part in message.content)
            letters += sum(len(call.arguments) for call in message.tool_calls or ())
        return letters // 4


ASKED: list[str] = []
REPLY: dict[str, Any] = {}
_RAW = ModelResponse(id="chatcmpl-summary")


# ---------------------------------------------------------------------- reading


def read(event: dict[str, Any]) -> Event | None:
    """The event; None for one that no view shows."""
    base = {"id": event["id"], "timestamp": event["timestamp"], "source": event["source"]}
    answers = {"tool_name": event.get("tool_name"), "tool_call_id": event.get("tool_call_id")}
    match event["kind"]:
        case "SystemPromptEvent":
            text = TextContent(text=event["system_prompt"]["text"])
            return SystemPromptEvent(**base, system_prompt=text, tools=[])
        case "MessageEvent":
            said = event["llm_message"]
            texts = [TextContent(text=part.get("text", "")) for part in said["content"]]
            return MessageEvent(**base, llm_message=Message(role=said["role"], content=texts))
        case "ActionEvent":
            return _action(event, base)
        case "ObservationEvent":
            seen = BashObservation.from_text(_text(event["observation"]))
            return ObservationEvent(
                **base, **answers, observation=seen, action_id=event["action_id"]
            )
        case "AgentErrorEvent":
            return AgentErrorEvent(**base, **answers, error=event["error"])
        case "CondensationRequest":
            return CondensationRequest(**base)
        case "Condensation":
            names = ("forgotten_event_ids", "summary", "summary_offset")
            told = {name: event[name] for name in names if name in event}
            response = event.get("llm_response_id") or "unknown"
            return Condensation(**base, **told, llm_response_id=response)
    return None


def _action(event: dict[str, Any], base: dict[str, Any]) -> ActionEvent:
    call = event["tool_call"]
    arguments = call["arguments"] if "arguments" in call else call["function"]["arguments"]
    name = event["tool_name"]
    return ActionEvent(
        **base,
        thought=[TextContent(text=part["text"]) for part in event.get("thought", ())],
        thinking_blocks=event.get("thinking_blocks") or [],
        action=BashAction(command=""),
        tool_name=name,
        tool_call_id=event["tool_call_id"],
        tool_call=MessageToolCall(
            id=event["tool_call_id"], name=name, arguments=arguments, origin="completion"
        ),
        llm_response_id=event["llm_response_id"],
    )


def _text(observation: dict[str, Any]) -> str:
    for key in ("output", "content", "message"):
        found = observation.get(key)
        if isinstance(found, str):
            return found
        if isinstance(found, list):
            return "".join(part.get("text", "") for part in found)
    return ""


# ---------------------------------------------------------------------- condensing


def built(config: dict[str, Any], llm: MadeUpLLM) -> CondenserBase:
    options = dict(config)
    kind = options.pop("type")
    if kind == "pipeline":
        return PipelineCondenser(condensers=[built(each, llm) for each in options["condensers"]])
    return NoOpCondenser() if kind == "noop" else LLMSummarizingCondenser(llm=llm, **options)


def answered(events: list[Event], config: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
    llm = MadeUpLLM(model="gpt-4o", api_key="none", usage_id="condenser")
    REPLY.clear()
    REPLY.update(reply)
    ASKED.clear()
    view = live_view(events)
    found: dict[str, Any] = {"view": ids(view), "masked": []}
    previous = [
        event.summary for event in view.events if isinstance(event, CondensationSummaryEvent)
    ]
    agent_llm = llm if "max_tokens" in json.dumps(config) else None
    try:
        result = built(config, llm).condense(view, agent_llm=agent_llm)
    except Exception as error:
        return found | {"error": f"{type(error).__name__}: {error}"[:200]}
    if isinstance(result, Condensation):
        found["forgotten"] = [n for n in result.forgotten_event_ids if not n.endswith("-summary")]
        found["summary"], found["offset"] = result.summary, result.summary_offset
        found["told"] = all(any(text in asked for asked in ASKED) for text in previous)
        return found | {"kept": ids(live_view([*events, result]))}
    return found | {"kept": ids(result)}


def live_view(events: list[Event]) -> View:
    """The view as a running conversation has it: repaired only when a log is loaded."""
    view = View()
    for event in events:
        view.append_event(event)
    return view


def ids(view: View) -> list[str]:
    return ["summary" if isinstance(e, CondensationSummaryEvent) else e.id for e in view.events]


def main() -> None:
    logging.disable(logging.CRITICAL)
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            events = [found for event in asked["events"] if (found := read(event)) is not None]
        except Exception as error:
            answer = {"unreadable": f"{type(error).__name__}: {error}"[:200]}
        else:
            results = [
                answered(events, each["config"], each["reply"]) for each in asked["condensers"]
            ]
            answer = {"results": results}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
