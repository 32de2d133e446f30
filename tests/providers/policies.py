"""What a made-up model answers: :class:`Answer`, and policies that choose one."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

__all__ = ["ODD", "Answer", "Policy", "call", "says", "scripted", "seeded"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says. ``calls`` are in OpenAI's form, see :func:`call`; ``fields`` are further
    ones of the message. Without a ``finish_reason`` it is what fits."""

    text: str | None = None
    calls: tuple[dict[str, Any], ...] = ()
    finish_reason: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")

    def message(self) -> dict[str, Any]:
        calls = {"tool_calls": list(self.calls)} if self.calls else {}
        return {"role": "assistant", "content": self.text, **calls, **self.fields}


Policy: TypeAlias = Callable[[list[dict[str, Any]], list[dict[str, Any]], random.Random], Answer]
"""From the messages, the tools and a source of chance that depends on the seed and on how many
requests were answered before."""


def call(id_: str, name: str, arguments: Any, **fields: Any) -> dict[str, Any]:
    """A tool call. ``arguments`` are the text itself, or what it is made of."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "id": id_,
        "type": "function",
        "function": {"name": name, "arguments": text},
        **fields,
    }


def says(text: str = "Done.") -> Policy:
    """Always the same."""
    return lambda messages, tools, rng: Answer(text)


def scripted(*answers: Answer) -> Policy:
    """One after the other; the last one again and again."""
    left = list(answers)
    lock = threading.Lock()

    def policy(_: object, __: object, ___: object) -> Answer:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return policy


def seeded(*, odd: float | Mapping[str, float] = 0.2, words: int = 30, finish: float = 0) -> Policy:
    """A coding agent by chance: a thought of up to ``words`` words, and 1 to 4 calls of the tools
    that it is given (text alone if there are none).

    ``odd`` is how likely each oddity of ``ODD`` is, for all of them together or for each by its
    name. ``finish`` is how likely it has had enough: it says so without a call.
    """
    each = {name: odd / len(ODD) for name in ODD} if isinstance(odd, int | float) else dict(odd)

    def policy(
        messages: list[dict[str, Any]], tools: list[dict[str, Any]], rng: random.Random
    ) -> Answer:
        if not tools or rng.random() < finish:
            return Answer(_chatter(rng, words))
        thought = _chatter(rng, words) if rng.random() < 0.5 else None
        answer = Answer(thought, tuple(_calls(tools, rng)))
        for name, chance in each.items():
            if rng.random() < chance:
                answer = ODD[name](answer, messages, rng)
        return answer

    return policy


_WORDS = ("the", "test", "fails", "in", "line", "because", "slug()", "keeps", "café", "and", "日本")


def _chatter(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(_WORDS, k=rng.randint(1, max(words, 1))))


def _calls(tools: Sequence[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    chosen = rng.choices(tools, k=rng.choice((1, 1, 1, 2, 3, 4)))
    return [
        call(_id(rng), tool["function"]["name"], _arguments(tool["function"], rng))
        for tool in chosen
    ]


def _id(rng: random.Random) -> str:
    return f"call_{rng.getrandbits(96):024x}"


def _arguments(function: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Values for the properties of the tool's schema, as far as their types are plain."""
    made: dict[str, Any] = {}
    for name, schema in function.get("parameters", {}).get("properties", {}).items():
        make = _VALUES.get(schema.get("type"))
        made[name] = make(rng) if make is not None else None
    return made


_VALUES: Mapping[object, Callable[[random.Random], Any]] = {
    "string": lambda rng: _chatter(rng, 6),
    "integer": lambda rng: rng.randint(0, 100),
    "number": lambda rng: rng.random(),
    "boolean": lambda rng: rng.random() < 0.5,
    "array": lambda rng: [],
    "object": lambda rng: {},
}


# Oddities: each makes an answer odd in one way that models and their servers are known for.

_Oddity: TypeAlias = Callable[[Answer, list[dict[str, Any]], random.Random], Answer]


def _first_call(answer: Answer, **changes: Any) -> Answer:
    """The answer with other parts of its first call: its id, or parts of its function."""
    if not answer.calls:
        return answer
    first, *others = answer.calls
    id_ = changes.pop("id", first["id"])
    changed = {**first, "id": id_, "function": {**first["function"], **changes}}
    return replace(answer, calls=(changed, *others))


def _reused_id(answer: Answer, messages: list[dict[str, Any]], _: random.Random) -> Answer:
    used = [made["id"] for message in messages for made in message.get("tool_calls") or ()]
    return _first_call(answer, id=used[-1]) if used else answer


def _same_ids(answer: Answer, _: object, __: object) -> Answer:
    return replace(answer, calls=tuple({**made, "id": "call_0"} for made in answer.calls))


def _strange_id(answer: Answer, _: object, rng: random.Random) -> Answer:
    return _first_call(answer, id=rng.choice(("functions.run:0", "call|1", "x" * 70, "ä", "")))


_BROKEN = ('{"a": "ls', '{"a": "b\nc"}', "[1]", "", "null", '{"a": 1}{"b": 2}', '{"a": NaN}')


def _broken_json(answer: Answer, _: object, rng: random.Random) -> Answer:
    return _first_call(answer, arguments=rng.choice(_BROKEN))


def _unknown_tool(answer: Answer, _: object, rng: random.Random) -> Answer:
    return _first_call(answer, name=rng.choice(("no_such_tool", "run.command", "", "y" * 80)))


def _signed(answer: Answer, _: object, rng: random.Random) -> Answer:
    """Thinking with a signature, beside the content."""
    block = {"type": "thinking", "thinking": _chatter(rng, 20), "signature": "c2lnbmVk"}
    fields = {"thinking_blocks": [block], "reasoning_content": block["thinking"]}
    return replace(answer, fields={**answer.fields, **fields})


def _signed_call(answer: Answer, _: object, __: object) -> Answer:
    """A thought signature on the first call."""
    if not answer.calls:
        return answer
    kept = {"provider_specific_fields": {"thought_signature": "c2lnbmVk"}}
    return replace(answer, calls=({**answer.calls[0], **kept}, *answer.calls[1:]))


def _empty(answer: Answer, _: object, rng: random.Random) -> Answer:
    return Answer(rng.choice((None, "", " \n")))


def _blank_text(answer: Answer, _: object, rng: random.Random) -> Answer:
    return replace(answer, text=rng.choice(("", "\n\n")))


def _cut_off(answer: Answer, _: object, __: object) -> Answer:
    """The output limit came first: the last call stops in its middle."""
    if not answer.calls:
        return replace(answer, finish_reason="length")
    *others, last = answer.calls
    function = last["function"]
    half = function["arguments"][: len(function["arguments"]) // 2]
    cut = {**last, "function": {**function, "arguments": half}}
    return replace(answer, calls=(*others, cut), finish_reason="length")


def _wrong_reason(answer: Answer, _: object, __: object) -> Answer:
    return replace(answer, finish_reason="stop")


ODD: Mapping[str, _Oddity] = {
    "reused_id": _reused_id,
    "same_ids": _same_ids,
    "strange_id": _strange_id,
    "broken_json": _broken_json,
    "unknown_tool": _unknown_tool,
    "signed": _signed,
    "signed_call": _signed_call,
    "empty": _empty,
    "blank_text": _blank_text,
    "cut_off": _cut_off,
    "wrong_reason": _wrong_reason,
}
"""The ways in which an answer can be odd, by name."""
