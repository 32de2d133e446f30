"""One history, one condenser, and what OpenHands and eventfold answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from eventfold_condensers import Letters  # type: ignore[import-not-found]  # beside this script

from eventfold import ConversationMemory, Event, View
from eventfold.memory.turns import Turn, TurnKind, protected

Json = dict[str, Any]
FORGETTING = ("conversation_window", "amortized", "llm", "structured", "llm_attention")


@dataclass(frozen=True)
class Case:
    """One history, one condenser, both answers, the LLM's reply. Ids are those of ``log``."""

    form: str
    log: Sequence[Event]
    config: Json
    reply: Json
    theirs: Json
    ours: Json

    @property
    def differs(self) -> bool:
        if {"error"} & (self.theirs.keys() | self.ours.keys()):
            return True
        texts = ("summary",) if self.kind != "structured" else ()  # whose text is merged by code
        return any(
            _plain(self.theirs.get(key)) != _plain(self.ours.get(key))
            for key in ("view", "kept", "masked", "offset", *texts)
        )

    # ------------------------------------------------------------------ the history

    @cached_property
    def view(self) -> View:
        return View.from_events(self.log)

    @property
    def requested(self) -> bool:
        return self.view.unhandled_condensation_request

    @property
    def kind(self) -> str:
        """The type of the condenser; of a pipeline, of the one whose turn it is."""
        kinds: list[str] = [each["type"] for each in self.config.get("condensers", (self.config,))]
        acting = [kind for kind in kinds if self.requested or kind != "conversation_window"]
        return next((kind for kind in acting if kind in FORGETTING), kinds[0])

    @cached_property
    def options(self) -> Json:
        """What is configured for it."""
        parts = self.config.get("condensers", (self.config,))
        return next((part for part in parts if part["type"] == self.kind), {})

    def newest(self, kind: TurnKind) -> Turn | None:
        return next((turn for turn in reversed(self.view.turns) if turn.kind is kind), None)

    @cached_property
    def may_go(self) -> list[Turn]:
        """The turns that eventfold may forget, oldest first."""
        turns = self.view.turns
        keep_first = self.options.get("keep_first")
        stay = protected(turns, self.view.newest_response, self.view.task, keep_first)
        if self.kind == "conversation_window":
            stay |= {n for n, turn in enumerate(turns) if turn.kind is TurnKind.RECALL}
        found = [turn for n, turn in enumerate(turns) if n not in stay]
        return [turn for turn in found if turn.kind is not TurnKind.SUMMARY]

    @property
    def may_go_unasked(self) -> list[Turn]:
        """The same without what the agent has just done."""
        return [turn for turn in self.may_go if turn is not self.view.newest_response]

    @property
    def half(self) -> int:
        """Half of the view on request, or of what the condenser allows. The conversation window
        halves what is not the beginning."""
        if self.kind == "conversation_window":
            begins = (TurnKind.SYSTEM, TurnKind.RECALL)
            stays = self._events(lambda turn: turn.kind in begins or turn is self.view.task)
            summaries = self._events(lambda turn: turn.kind is TurnKind.SUMMARY)
            return stays + summaries + max(1, (len(self.view) - stays) // 2)
        size = int(self.options.get("max_size", len(self.view)))
        return (min(size, len(self.view)) if self.requested else size) // 2

    def _events(self, counts: Callable[[Turn], bool]) -> int:
        return sum(len(turn.events) for turn in self.view.turns if counts(turn))

    # ------------------------------------------------------------------ what OpenHands answered

    @cached_property
    def kept(self) -> set[int | str]:
        return set(self.theirs.get("kept", ()))

    def keeps(self, turn: Turn | None) -> bool:
        return turn is None or all(event.id in self.kept for event in turn.events)

    def cuts(self, turn: Turn) -> bool:
        return len({event.id in self.kept for event in turn.events}) > 1

    # ------------------------------------------------------------------ what eventfold answered

    @cached_property
    def ours_kept(self) -> set[int | str]:
        return set(self.ours.get("kept", ()))

    def is_nearest(self, limit: int | None = None) -> bool:
        """True if eventfold forgets the oldest turns that may go, as few as leave no more events
        than ``limit`` (None: than OpenHands leaves), and no more than half of ``max_tokens``.

        What the agent has just done may go where OpenHands does not keep it either, or on request.
        Where none may go, eventfold has to refuse.
        """
        limit = len(self.theirs.get("kept", ())) if limit is None else limit
        lists = [self.may_go_unasked]
        if self.requested or not self.keeps(self.view.newest_response):
            lists.append(self.may_go)
        return any(self._is_fewest(turns, limit) for turns in lists)

    def _is_fewest(self, turns: list[Turn], limit: int) -> bool:
        if "kept" not in self.ours:
            return not turns
        kept: list[int | str] = self.ours["kept"]
        gained = kept.count("summary") - self.ours["view"].count("summary")
        gone = [turn for turn in turns if turn.events[0].id not in self.ours_kept]
        if gone != turns[: len(gone)] or len(self.view.without(gone)) + gained != len(kept):
            return False

        def is_enough(gone: list[Turn]) -> bool:
            rest = self.view.without(gone)
            return len(rest) + gained <= limit and self._has_few_tokens(rest)

        return (gone == turns or is_enough(gone)) and not (gone and is_enough(gone[:-1]))

    def _has_few_tokens(self, view: View) -> bool:
        most = self.options.get("max_tokens")
        if most is None:
            return True
        whole = self.count(self.view)
        return bool(whole <= most or 2 * self.count(view) <= most)

    @staticmethod
    def count(view: View) -> int:
        """Tokens, four letters each."""
        messages = ConversationMemory().process_events(view)
        return int(Letters(exact=False).count(messages))

    def is_ranked(self) -> bool:
        """True if eventfold keeps whole turns in the order of the LLM's ranking, then the newest
        ones, as they fit into half of the size."""
        if "kept" not in self.ours:
            return False
        turns = self.may_go if self.requested else self.may_go_unasked
        room = self.half - len(self.view) + sum(len(turn.events) for turn in turns)
        of_event = {event.id: turn for turn in turns for event in turn.events}
        named = [of_event[n] for n in self.reply["ids"] if n in of_event]
        stays: set[int] = set()
        for turn in [*named, *reversed(turns)]:
            if turn.serial not in stays and len(turn.events) <= room:
                room -= len(turn.events)
                stays.add(turn.serial)
        return all(
            (event.id in self.ours_kept) == (turn.serial in stays)
            for turn in turns
            for event in turn.events
        )


def _plain(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value
