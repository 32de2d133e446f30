"""Stubs: what stands in a view for results whose content is let go, and which results may be."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ..events.condensation import AgentCondensationObservation
from ..events.event import Event, InvalidArgument, UnknownEvent
from ..memory.rendering import image_urls, result_text
from ..memory.tokens import TokenCounter
from ..memory.turns import Turn, TurnKind, first_difference, is_observation
from ..memory.view import View

__all__ = [
    "Result",
    "Stubs",
    "Window",
    "counted",
    "is_smaller",
    "is_stub",
    "place_of",
    "size_of",
    "stub_of",
    "tokens_of",
    "unseen_from",
]

LEAST_GAIN = 10  # tokens: a stub that saves less is not worth what it hides

_COUNTER = TokenCounter(exact=False)
_About = TypeVar("_About", bound=Hashable)


# ---------------------------------------------------------------------- which results


class Result(NamedTuple):
    """Something that came back and that the LLM is shown, at its place in the view. ``action`` is
    what it answers, None if that is not in the view."""

    place: int
    event: Event
    action: Event | None
    turn: Turn


def place_of(result: Result) -> int:
    """Where in the view a result is."""
    return result.place


def _results_in(turn: Turn) -> list[tuple[int, Event | None]]:
    """The results of a turn, by their places in it, with their actions: of several for one call the
    one that counts."""
    if turn.kind not in (TurnKind.RESPONSE, TurnKind.LATE, TurnKind.OTHER):
        return []
    found: list[tuple[Event, Event | None]] = []
    for call in turn.calls:
        action, result = call.action, call.result
        if is_observation(action):
            is_shown = action.tool_call_metadata or not isinstance(action, UnknownEvent)
            if is_shown and not is_stub(action):
                found.append((action, None))
        elif result is not None and not is_stub(result):
            found.append((result, action))
    places = {id(event): place for place, event in enumerate(turn.events)}
    return [(places[id(event)], action) for event, action in found]


def is_stub(event: Event) -> bool:
    """True for a summary, or what stands for a result already."""
    return isinstance(event, AgentCondensationObservation)


def unseen_from(view: View, until: int) -> int:
    """The place from which on results may be unseen: where the newest LLM response began, among
    the view's first ``until`` events. What stands before it has been answered."""
    begins = {id(turn.events[0]) for turn in view.turns if turn.kind is TurnKind.RESPONSE}
    for place in range(until - 1, -1, -1):
        if id(view[place]) in begins:
            return place
    return 0


@dataclass(frozen=True, slots=True)
class Window:
    """The newest ``size`` of some ``unit`` (such as "events"); its border moves in jumps of
    ``stride``.

    Raises :class:`InvalidArgument` for a negative size, or a stride that is not from 1 to the size.
    """

    size: int
    stride: int
    unit: str

    def __post_init__(self) -> None:
        if self.size < 0:
            raise InvalidArgument(
                f"a window is a number of {self.unit}, 0 or more; found {self.size}"
            )
        if not 1 <= self.stride <= max(1, self.size):
            raise InvalidArgument(
                f"a stride is a number of {self.unit}, from 1 to the window's {self.size}: beyond "
                f"that nothing would be left after a jump; found {self.stride}"
            )

    def outside(self, count: int) -> int:
        """How many of ``count`` are outside: the oldest ones, a multiple of the stride."""
        return -(-max(0, count - self.size) // self.stride) * self.stride

    def since(self, count: int) -> int:
        """The count at which the border jumped to where it is at ``count``. With stride 1 it is
        never at rest, and this is ``count`` itself."""
        outside = self.outside(count)
        return outside - self.stride + self.size + 1 if outside else count


# ---------------------------------------------------------------------- what stands for them


class Stubs:
    """Puts stubs into the place of events. Each is made once, and remembered with the turn that
    holds it for as long as the view has them, so that what others know of a turn stays valid. A
    view that goes on from the one before costs what is new in it.
    """

    def __init__(self) -> None:
        self.count = 0
        """How many events have a stub in the newest view."""
        self._turns: list[Turn] = []  # of the newest view
        self._serials: list[int] = []  # of the same
        self._results: list[Result] = []  # of the same
        self._chosen: list[Result] = []
        self._abouts: list[Hashable] = []
        # By the event's identity, and by what its stub is about; with the event, which keeps its
        # identity from being used again.
        self._made: dict[tuple[int, Hashable], tuple[Event, Event | None]] = {}
        self._stubs: dict[Turn, dict[int, Event]] = {}  # by the event's identity
        self._replaced: dict[Turn, Turn] = {}

    def results(self, view: View) -> list[Result]:
        """The view's results, in its order. Summaries, stubs, and knowledge that no call asked for
        are none."""
        turns, serials = view.turns, view.serials
        same, begin = first_difference(self._turns, turns), len(self._serials)
        if same < len(self._turns) or serials[:begin] != self._serials:
            same, begin, self._results = 0, 0, []
        new = turns[same:]
        places = {serial: place for place, serial in enumerate(serials[begin:], begin)}
        found = [
            Result(places[turn.serials[at]], turn.events[at], action, turn)
            for turn in new
            for at, action in turn.remembered(_results_in)
        ]
        self._turns, self._serials = turns, serials
        self._results = self._results + sorted(found, key=place_of)
        return self._results

    def put(
        self,
        view: View,
        chosen: list[Result],
        abouts: list[_About],
        make: Callable[[Event, _About], Event | None],
    ) -> View:
        """The view with what ``make`` makes of these results, each with what its stub is to be
        about; None leaves a result as it is. The same view if nothing is replaced."""
        same = len(self._chosen)
        goes_on = chosen[:same] == self._chosen and abouts[:same] == self._abouts
        if not goes_on:
            same = 0
        # First what may fail: then nothing has changed.
        made: dict[tuple[int, Hashable], tuple[Event, Event | None]] = {}
        for result, about in zip(chosen[same:], abouts[same:], strict=True):
            key = (id(result.event), about)
            made[key] = self._made.get(key) or (result.event, make(result.event, about))
        stubs_before: dict[Turn, dict[int, Event]] = {}
        replaced_before: dict[Turn, Turn] = {}
        if not goes_on:
            self.count, self._made = 0, {}
            stubs_before, self._stubs = self._stubs, {}
            replaced_before, self._replaced = self._replaced, {}
        self._made |= made
        changed: dict[Turn, None] = {}
        for result, about in zip(chosen[same:], abouts[same:], strict=True):
            stub = made[id(result.event), about][1]
            if stub is not None:
                self._stubs.setdefault(result.turn, {})[id(result.event)] = stub
                self.count += 1
                changed[result.turn] = None
        for turn in changed:
            stubs = self._stubs[turn]
            as_before = stubs_before.get(turn) == stubs
            self._replaced[turn] = replaced_before[turn] if as_before else _replaced(turn, stubs)
        self._chosen, self._abouts = list(chosen), list(abouts)
        return view.replacing(self._replaced)


def _replaced(turn: Turn, stubs: Mapping[int, Event]) -> Turn:
    events = tuple(stubs.get(id(event), event) for event in turn.events)
    return Turn(turn.kind, events, turn.serials, turn.answers)


# What an image costs at the least: the note that stands for it where images are off.
_IMAGE_NOTE = "(an image is not shown: images are off)"


def stub_of(event: Event, text: str, *, of_any_size: bool = False) -> Event | None:
    """A stub for a result, with its id, cause and call; None if it would save nothing, unless it
    may be ``of_any_size``.

    Where only the images of a result are large, its own text stays and they go.
    """
    content = result_text(event)
    images = len(image_urls(event))
    if not of_any_size and not is_smaller(text, "\n".join([content, *[_IMAGE_NOTE] * images])):
        if not images:
            return None
        text = f"{content}\n({counted(images, 'image')} left out)"
    return AgentCondensationObservation(
        content=text,
        id=event.id,
        timestamp=event.timestamp,
        source=event.source,
        cause=event.cause,
        tool_call_metadata=event.tool_call_metadata,
    )


def is_smaller(text: str, than: str) -> bool:
    """True if a text is shorter than another and saves at least ``LEAST_GAIN`` tokens."""
    return len(text) < len(than) and tokens_of(text) + LEAST_GAIN <= tokens_of(than)


def tokens_of(text: str) -> int:
    """The estimated tokens of a text as a message of its own."""
    return _COUNTER.count([{"role": "tool", "content": text}])


def size_of(event: Event) -> str:
    """How large a result is, in words."""
    size = counted(len(result_text(event)), "character")
    images = len(image_urls(event))
    return f"{size} and {counted(images, 'image')}" if images else size


def counted(number: int, thing: str) -> str:
    """A number of things, in words."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
