"""Histories for the comparison: made-up ones, written as OpenHands writes them, and recorded ones.

The same made-up history is written in both of OpenHands' forms. Nothing here imports eventfold.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

SUMMARY = "Earlier the modules were read and their tests run; three of the handlers still fail."
_TIME = "2025-06-15T12:00:00.000000"


@dataclass
class Made:
    """One event of a made-up history, in no format yet.

    ``calls`` are the numbers of all calls of the LLM response that a call belongs to; ``number`` is
    that of the call itself, or of the one that a result answers.
    """

    kind: str
    text: str = ""
    number: int = -1
    calls: list[int] = field(default_factory=list)
    thinking: bool = False
    forgotten: tuple[int, int] = (0, 0)  # places, both included
    offset: int = 0
    previous: int | None = None  # the place of the condensation whose summary this one replaces


@dataclass(frozen=True)
class History:
    """A made-up history: its events by place, and whether V0 alone can write it."""

    name: str
    made: list[Made]
    only_v0: bool = False


# ---------------------------------------------------------------------- made up


class _Story:
    """Draws what happens, one thing after the other."""

    def __init__(self, seed: int, *, browsing: bool, thinking: bool) -> None:
        self.draw = random.Random(seed)
        self.browsing = browsing
        self.thinking = thinking
        self.made: list[Made] = []
        self.borders: list[int] = []  # places at which no call waits
        self.calls = 0
        self.condensed: Made | None = None
        self.condensed_at: int | None = None

    def say(self, kind: str, text: str) -> None:
        self.made.append(Made(kind, text))

    def step(self) -> None:
        self.borders.append(len(self.made))
        happens = self.draw.random()
        if happens < 0.08:
            self.say("agent", "Which of the two handlers do you mean?")
            if self.draw.random() < 0.7:
                self.say("user", f"The {self.draw.choice(['first', 'second', 'last'])} one.")
        elif happens < 0.16:
            self.respond(count=self.draw.randint(2, 3))
        elif happens < 0.21:
            self.respond(count=1, between="And keep the old names, please.")
        elif happens < 0.24:
            self.say("user", "How far are you?")
        else:
            self.respond(count=1)

    def respond(self, count: int, between: str = "", answered: bool = True) -> None:
        page = self.browsing and count == 1 and self.draw.random() < 0.4
        numbers = list(range(self.calls, self.calls + count))
        self.calls += count
        thinking = self.thinking and self.draw.random() < 0.3
        for place, number in enumerate(numbers):
            kind = "open" if page else "call"
            said = f"Looking at part {number}." if place == 0 else ""
            self.made.append(Made(kind, said, number, numbers, thinking and place == 0))
        if between:
            self.say("user", between)
        if not answered:
            return
        self.draw.shuffle(numbers)
        for number in numbers:
            size = self.draw.choice([0, 20, 300, 900, 2_500])
            text = (f"part {number}: handler passed, " * (1 + size // 20))[:size]
            self.made.append(Made("page" if page else "result", text, number))

    def condense(self, keep_first: int, keep: int) -> None:
        """A condensation of whole turns, as OpenHands' own would be: a range, a summary."""
        self.borders.append(len(self.made))
        start = next((n for n in self.borders if n >= keep_first), len(self.made))
        end = max((n for n in self.borders if n <= len(self.made) - keep), default=0)
        if self.condensed is not None:
            start = self.condensed.forgotten[1] + 1
        if end - start < 4:
            return
        offset = start if self.condensed is None else self.condensed.offset
        condensation = Made(
            "condensation",
            f"{SUMMARY} ({len(self.made)})",
            forgotten=(start, end - 1),
            offset=offset,
            previous=self.condensed_at,
        )
        self.condensed, self.condensed_at = condensation, len(self.made)
        self.made.append(condensation)


def made_up(count: int, first_seed: int = 0) -> Iterator[History]:
    """So many histories of 3 to 150 events, each drawn from its number."""
    for seed in range(first_seed, first_seed + count):
        draw = random.Random(f"history {seed}")
        browsing, recalls = draw.random() < 0.4, draw.random() < 0.3
        story = _Story(seed, browsing=browsing, thinking=draw.random() < 0.25)
        if draw.random() < 0.9:
            story.say("system", "You are a coding agent. Work step by step, and verify.")
        story.say("user", "Make the test suite of this repository pass.")
        if recalls:
            story.say("recall", "Make the test suite of this repository pass.")
            story.say("knowledge", "")
        steps = draw.choice([1, 3, 6, 12, 25, 60])
        condenses = {draw.randrange(steps) for _ in range(draw.choice([0, 0, 1, 2]))}
        for step in range(steps):
            story.step()
            if step in condenses:
                story.condense(keep_first=draw.choice([1, 2, 4]), keep=draw.choice([1, 5, 12]))
        end = draw.random()
        if end < 0.2:
            story.respond(draw.choice([1, 1, 2]), answered=False)
        elif end < 0.6:
            story.say("request", "")
        yield History(f"made up {seed}", story.made, only_v0=recalls)


def told(notation: str) -> list[Made]:
    """A history in short: S(ystem), U(ser), A(gent), c1 (a call), c2,3 (two calls of one response),
    o4 (a page is opened), r1 and p4 (what came back; 300 characters, r1:20 has 20), R K (a recall
    and its knowledge), Q (a condensation is requested), C2-5@2 (2 to 5 are condensed, with a
    summary at 2)."""
    made: list[Made] = []
    for word in notation.split():
        kind, rest = _LETTERS[word[0]], word[1:]
        if kind in ("call", "open"):
            numbers = [int(number) for number in rest.split(",")]
            made += [Made(kind, "Looking.", number, numbers) for number in numbers]
        elif kind in ("result", "page"):
            number, _, size = rest.partition(":")
            made.append(Made(kind, "handler passed, " * 20, int(number)))
            made[-1].text = made[-1].text[: int(size or 300)]
        elif kind == "condensation":
            named, _, offset = rest.partition("@")
            first, last = map(int, named.split("-"))
            made.append(Made(kind, SUMMARY, forgotten=(first, last), offset=int(offset)))
        else:  # what is recalled is asked for in the words of the user
            made.append(Made(kind, made[-1].text if kind == "recall" else f"{kind} {len(made)}"))
    return made


_LETTERS = {
    "S": "system",
    "U": "user",
    "A": "agent",
    "c": "call",
    "o": "open",
    "r": "result",
    "p": "page",
    "R": "recall",
    "K": "knowledge",
    "Q": "request",
    "C": "condensation",
}


# ---------------------------------------------------------------------- as V0 writes them


def as_v0(made: list[Made]) -> list[Json]:
    """The events as OpenHands V0 records them; their ids are their places."""
    places = {
        event.number: place for place, event in enumerate(made) if event.kind in ("call", "open")
    }
    written = []
    for place, event in enumerate(made):
        base: Json = {"id": place, "timestamp": _TIME, "message": "", **_v0_body(event)}
        if event.kind in ("result", "page"):
            base["cause"] = places[event.number]
            base["tool_call_metadata"] = _v0_metadata(made[places[event.number]])
        elif event.kind in ("call", "open"):
            base["tool_call_metadata"] = _v0_metadata(event)
        elif event.kind == "knowledge":
            base["cause"] = place - 1
        written.append(base)
    return written


def _v0_body(event: Made) -> Json:
    wait = {"image_urls": None, "file_urls": None, "wait_for_response": event.kind == "agent"}
    match event.kind:
        case "system":
            system = {"content": event.text, "tools": None, "openhands_version": None}
            return _action("agent", "system", system | {"agent_class": None})
        case "user" | "agent":
            return _action(event.kind, "message", {"content": event.text, **wait})
        case "recall":
            asked = {"recall_type": "workspace_context", "query": event.text, "thought": ""}
            return _action("user", "recall", asked)
        case "knowledge":
            extras = {"recall_type": "workspace_context", "repo_name": "example", "repo_branch": ""}
            return _observation("environment", "recall", "Added workspace context", extras)
        case "call":
            args = {"command": _command(event.number), "thought": event.text, "blocking": False}
            return _action("agent", "run", args)
        case "open":
            args = {"browser_actions": _command(event.number), "thought": event.text}
            return _action(
                "agent", "browse_interactive", args | {"browsergym_send_msg_to_user": ""}
            )
        case "result":
            ran = {"command": _command(event.number), "metadata": {"exit_code": 0}}
            return _observation("agent", "run", event.text, ran)
        case "page":
            seen = {"url": f"http://example.com/{event.number}", "trigger_by_action": ""}
            return _observation("agent", "browse", event.text, seen | {"screenshot": ""})
        case "request":
            return _action("agent", "condensation_request", {})
    start, end = event.forgotten
    named = {"forgotten_events_start_id": start, "forgotten_events_end_id": end}
    told = {"summary": event.text, "summary_offset": event.offset}
    return _action("agent", "condensation", {"forgotten_event_ids": None, **named, **told})


def _action(source: str, name: str, args: Json) -> Json:
    return {"source": source, "action": name, "args": args}


def _observation(source: str, name: str, content: str, extras: Json) -> Json:
    return {"source": source, "observation": name, "content": content, "extras": extras}


def _v0_metadata(call: Made) -> Json:
    tool_calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": _command(number)})},
        }
        for number in call.calls
    ]
    message = {"role": "assistant", "content": call.text, "tool_calls": tool_calls}
    return {
        "function_name": "bash",
        "tool_call_id": f"call_{call.number}",
        "total_calls_in_response": len(call.calls),
        "model_response": {
            "id": f"response_{call.calls[0]}",
            "created": 1_750_000_000,
            "model": "gpt-4o",
            "object": "chat.completion",
            "choices": [{"finish_reason": "tool_calls", "index": 0, "message": message}],
        },
    }


def _command(number: int) -> str:
    return f"pytest tests/test_handler_{number}.py"


# ---------------------------------------------------------------------- as the SDK writes them


def as_v1(made: list[Made]) -> list[Json]:
    """The events as the OpenHands SDK records them."""
    places = {event.number: place for place, event in enumerate(made) if event.kind == "call"}
    places |= {event.number: place for place, event in enumerate(made) if event.kind == "open"}
    return [
        {"id": v1_id(place), "timestamp": _TIME, **_v1_body(event, places, made)}
        for place, event in enumerate(made)
    ]


def v1_id(place: int) -> str:
    """The id of the event at this place."""
    return f"00000000-0000-4000-8000-{place:012d}"


def _v1_body(event: Made, places: dict[int, int], made: list[Made]) -> Json:
    text = {"type": "text", "text": event.text}
    call_id = f"call_{event.number}"
    match event.kind:
        case "system":
            return {
                "kind": "SystemPromptEvent",
                "source": "agent",
                "system_prompt": text,
                "tools": [],
            }
        case "user" | "agent":
            role = "user" if event.kind == "user" else "assistant"
            said = {"role": role, "content": [text]}
            return {"kind": "MessageEvent", "source": event.kind, "llm_message": said}
        case "call" | "open":
            arguments = json.dumps({"command": _command(event.number)})
            call = {"id": call_id, "name": "bash", "arguments": arguments, "origin": "completion"}
            thinking = {"type": "thinking", "thinking": "Hm.", "signature": f"s{event.number}"}
            return {
                "kind": "ActionEvent",
                "source": "agent",
                "thought": [text] if event.text else [],
                "thinking_blocks": [thinking] if event.thinking else [],
                "action": {"kind": "BashAction", "command": _command(event.number)},
                "tool_name": "bash",
                "tool_call_id": call_id,
                "tool_call": call,
                "llm_response_id": f"response_{event.calls[0]}",
            }
        case "result" | "page":
            return {
                "kind": "ObservationEvent",
                "source": "environment",
                "observation": {"kind": "BashObservation", "content": [text], "is_error": False},
                "tool_name": "bash",
                "tool_call_id": call_id,
                "action_id": v1_id(places[event.number]),
            }
        case "request":
            return {"kind": "CondensationRequest", "source": "environment"}
    start, end = event.forgotten
    names = [v1_id(place) for place in range(start, end + 1) if made[place].kind != "condensation"]
    if event.previous is not None:
        names.append(f"{v1_id(event.previous)}-summary")
    return {
        "kind": "Condensation",
        "source": "environment",
        "forgotten_event_ids": names,
        "summary": event.text,
        "summary_offset": event.offset,
        "llm_response_id": f"summary_{end}",
    }
