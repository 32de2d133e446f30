"""What becomes of the facts in a run that is condensed: counted, and judged by nobody.

A fact is a piece of text that stands in one turn of a run alone: planted in a made-up run, or found
in a recorded one. Once its event has left the prompt, it is either in what stands there instead,
word for word, or lost.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ..condensers.base import Condenser
from ..condensers.config import CondenserConfig
from ..condensers.extractive import ExtractiveModel
from ..condensers.from_config import condenser_from_config
from ..condensers.summary_record import record_of
from ..events.condensation import CondensationAction, CondensationRequestAction
from ..events.event import Event, EventSource, InvalidArgument
from ..events.formats.runs import Run
from ..memory.message import ChatDict, ChatModel, Message, Reply
from ..memory.turns import TurnKind, is_observation
from ..memory.view import View
from .engine import Step, replay

__all__ = ["Count", "Fact", "Fate", "Retention", "facts_in", "retention_of"]

_Key = TypeVar("_Key", str, int)
Strategy: TypeAlias = (
    Mapping[str, Any] | CondenserConfig | str | Path | Callable[[ChatModel], Condenser]
)


@dataclass(frozen=True, slots=True)
class Fact:
    """A text, and where it is told. ``kind`` and ``where`` are any words to count by."""

    text: str
    kind: str
    where: str
    event: int
    """The place of its event in the run, from 0."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a fact until the last prompt of the run."""

    fact: Fact
    age: int
    """LLM turns since it was told."""
    forgotten: bool
    """True if its event does not stand in the last prompt as it was."""
    given: bool | None
    """Whether it was in what a language model was asked when it was forgotten; None: none was."""
    kept: bool
    """True if the text stands in the last prompt all the same."""


@dataclass(frozen=True, slots=True)
class Count:
    """Of ``facts``, those that were ``forgotten``. Of these, those that the summarizer was
    ``given`` (None if nobody was asked), and those that are ``kept``."""

    facts: int
    forgotten: int
    given: int | None
    kept: int


@dataclass(frozen=True, slots=True)
class Retention:
    """The fates of all facts that were told before the last prompt."""

    fates: Sequence[Fate]
    condensations: int

    @property
    def total(self) -> Count:
        return _counted(self.fates)

    def by(self, key: Callable[[Fate], _Key]) -> dict[_Key, Count]:
        """Counted by what ``key`` says of each, in the order of that."""
        fates = sorted(self.fates, key=key)
        return {said: _counted(list(group)) for said, group in groupby(fates, key)}


def _counted(fates: Sequence[Fate]) -> Count:
    forgotten = [fate for fate in fates if fate.forgotten]
    given = [fate.given for fate in forgotten if fate.given is not None]
    return Count(
        len(fates),
        len(forgotten),
        sum(given) if given else None,
        sum(fate.kept for fate in forgotten),
    )


def retention_of(
    run: Run | Iterable[Event],
    condenser: Strategy,
    facts: Iterable[Fact] | None = None,
    *,
    llm: ChatModel | None = None,
) -> Retention:
    """Replays a run through a condenser, and looks for ``facts`` (None: those of :func:`facts_in`).

    ``condenser`` is what :func:`condenser_from_config` takes, or makes a condenser with the model
    that it is given: that is ``llm`` (None: the extractive stand-in), overheard. Raises
    :class:`InvalidArgument` for a fact of an event that is not in the run, or is a condensation,
    and :class:`~eventfold.condensers.CannotCondense` as a live loop would.
    """
    events = list(run.events if isinstance(run, Run) else run)
    places = _told(events)
    facts = facts_in(events) if facts is None else list(facts)
    if wrong := {fact.event for fact in facts}.difference(places):
        raise InvalidArgument(f"no event that tells a fact is at the places {sorted(wrong)}")
    model = _Overheard(ExtractiveModel() if llm is None else llm)
    made = condenser(model) if callable(condenser) else condenser_from_config(condenser, llm=model)
    lengths: list[int] = []
    asked: dict[int, str] = {}  # by the id of a forgotten event: what was asked when it was
    condensations = 0
    step: Step | None = None
    for step in replay(run if isinstance(run, Run) else events, made):
        lengths.append(len(step.events_so_far))
        condensations += len(step.condensations)
        requests = model.taken()
        for condensation in step.condensations:
            asked.update((event_id, requests) for event_id in condensation.forgotten)
    if step is None:
        return Retention((), 0)
    log = list(step.events_so_far)
    stored = dict(zip(places, (log[place] for place in _told(log)), strict=False))
    shown = {event.id: event for event in step.view}
    prompt = _text(Message.to_dicts(step.messages))
    fates = []
    for fact in facts:
        event = stored.get(fact.event)
        if event is None:  # it was told after the last prompt
            continue
        requests = asked.get(event.id, "")
        fates.append(
            Fate(
                fact,
                len(lengths) - 1 - bisect_right(lengths, event.id),
                shown.get(event.id) != event,
                _stands_in(fact.text, requests) if requests else None,
                _stands_in(fact.text, prompt),
            )
        )
    return Retention(fates, condensations)


def _told(events: Sequence[Event]) -> list[int]:
    """The places of what a replay takes from a run, and what is not the replay's own in its log."""
    kinds = (CondensationAction, CondensationRequestAction)
    return [place for place, event in enumerate(events) if not isinstance(event, kinds)]


class _Overheard:
    """A chat model, and what it was asked."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._asked: list[list[ChatDict]] = []

    def completion(self, messages: Sequence[ChatDict], **options: Any) -> Reply:
        self._asked.append(list(messages))
        return self._model.completion(messages, **options)

    async def acompletion(self, messages: Sequence[ChatDict], **options: Any) -> Reply:
        self._asked.append(list(messages))
        return await self._model.acompletion(messages, **options)

    def __getattr__(self, name: str) -> Any:  # such as its window
        return getattr(self._model, name)

    def taken(self) -> str:
        """The text of what was asked since the last time; empty if nothing was."""
        asked, self._asked = self._asked, []
        return _text(asked) if asked else ""


# ---------------------------------------------------------------------- looking for a text


def _text(value: object) -> str:
    """All text in messages, and once more with what JSON has escaped in it undone."""
    text = "\n".join(_strings(value))
    return f"{text}\n{_unescaped(text)}"


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, Sequence):
        for part in value:
            yield from _strings(part)


def _unescaped(text: str) -> str:
    return re.sub(r'\\([nrt"\\/])', lambda found: _ESCAPES[found[1]], text)


_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}


def _stands_in(fact: str, text: str) -> bool:
    """True if it stands there as a whole, and not as a part of a longer word or number."""
    forms = dict.fromkeys(
        (fact, json.dumps(fact)[1:-1], json.dumps(fact, ensure_ascii=False)[1:-1])
    )
    return any(_is_whole(text, at, len(form)) for form in forms for at in _places(form, text))


def _places(form: str, text: str) -> Iterator[int]:
    at = text.find(form)
    while at >= 0:
        yield at
        at = text.find(form, at + 1)


def _is_whole(text: str, at: int, length: int) -> bool:
    around = text[max(0, at - 1) : at] + text[at + length : at + length + 1]
    return not any(sign.isalnum() or sign == "_" for sign in around)


# ---------------------------------------------------------------------- facts of a recorded run

_TOKEN = re.compile(
    r"(?P<url>\bhttps?://[\w./?=&%:#~+-]*\w)"
    r"|(?P<path>(?<![\w/.-])[\w.@-]*(?:/[\w.@-]+)*/[\w@-][\w.@-]*\.[A-Za-z]\w{0,4}\b)"
    r"|(?P<id>\b(?=[a-f-]*\d)(?=[\d-]*[a-f])[0-9a-f]{7,}(?:-[0-9a-f]{4,})*\b)"
    r"|(?P<number>(?<![\w.])(?:\d+\.\d{2,}|\d{5,})\b(?!\.\d))"
    r"|(?P<name>\b[A-Za-z]\w*_\w*[A-Za-z0-9]\b)"
)


def facts_in(events: Iterable[Event]) -> list[Fact]:
    """The addresses, paths, ids (of hex digits), numbers (with five digits, or two decimals) and
    names (with an underscore) that one turn of a run alone tells, in their order; none of the
    system message, which is never forgotten."""
    events = list(events)
    places = _told(events)
    found: dict[str, Fact | None] = {}
    for turn in View.from_events(events[place] for place in places).turns:
        own: dict[str, Fact] = {}
        for event, serial, block in zip(turn.events, turn.serials, record_of([turn]), strict=True):
            place = places[serial - 1]
            for token in _TOKEN.finditer(_unescaped(block.text)):
                fact = Fact(token[0], str(token.lastgroup), _where(event), place)
                own.setdefault(fact.text, fact)
        for text, fact in own.items():
            found[text] = None if text in found or turn.kind is TurnKind.SYSTEM else fact
    return [fact for fact in found.values() if fact is not None]


def _where(event: Event) -> str:
    if is_observation(event):
        return "result"
    if event.tool_call_metadata is not None:
        return "call"
    return "user" if event.source is EventSource.USER else "agent"
