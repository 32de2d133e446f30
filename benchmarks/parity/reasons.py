"""Why eventfold forgets something else than OpenHands: a rule that theirs breaks, or one of ours.

A reason is found from the history, the configuration and what OpenHands answered. It explains a
difference only if eventfold's answer is the nearest one that keeps all rules: the oldest whole
turns that may go, as few as leave no more events than OpenHands leaves, or means to leave
(``Case.is_nearest``).
"""

# What lies beside this script is found when it runs, not by the checker.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from case import FORGETTING, Case  # type: ignore[import-not-found]

from eventfold import Event, View
from eventfold.memory.turns import TurnKind, response_of

Json = dict[str, Any]


class Reason(NamedTuple):
    """``of_theirs``: OpenHands breaks a rule. Otherwise it is a rule of ours."""

    name: str
    of_theirs: bool
    holds: Callable[[Case], bool]


def reason_for(case: Case) -> Reason | None:
    """The first reason that holds for a difference; None if there is none, or if not even the views
    before condensing are the same."""
    if case.theirs["view"] != case.ours["view"]:
        return None
    possible = REASONS[:1] if "error" in case.theirs else REASONS[1:]
    return next((reason for reason in possible if reason.holds(case)), None)


# ---------------------------------------------------------------------- a rule that theirs breaks


def _raises(case: Case) -> bool:
    refused = "error" in case.ours and case.requested
    return "error" in case.theirs and (refused or _near(case))


def _twice(case: Case) -> bool:
    shown = [event for event in case.theirs["kept"] if event != "summary"]
    return len(shown) > len(set(shown)) and _near(case)


def _forgets_nothing(case: Case) -> bool:
    asked = case.requested and case.kind in FORGETTING
    return asked and case.theirs["kept"] == case.theirs["view"] and _at_half(case)


def _resets(case: Case) -> bool:
    system = case.newest(TurnKind.SYSTEM)
    only = {"summary"} if system is None else {"summary", system.events[0].id}
    return case.form == "v1" and case.kept == only and _at_half(case)


def _loses_system(case: Case) -> bool:
    return not case.keeps(case.newest(TurnKind.SYSTEM)) and _near(case)


def _loses_user(case: Case) -> bool:
    return not case.keeps(case.newest(TurnKind.USER)) and _near(case)


def _loses_waiting(case: Case) -> bool:
    return any(event.id not in case.kept for event in case.view.waiting) and _near(case)


def _loses_summary(case: Case) -> bool:
    if -1 in case.theirs["masked"]:
        return _short_results(case)
    stands = case.theirs["kept"].count("summary")
    replaced = case.theirs.get("told") is False and case.theirs.get("summary") and stands == 1
    return "summary" in case.theirs["view"] and (replaced or not stands) and _near(case)


def _cuts(case: Case) -> bool:
    return any(map(case.cuts, case.view.turns)) and _near(case)


def _grows(case: Case) -> bool:
    over = len(case.view) > case.options.get("max_size", len(case.view))
    return over and case.theirs["kept"] == case.theirs["view"] and _at_half(case)


def _near(case: Case) -> bool:
    """Nothing but the broken rule stands between the two answers."""
    if case.kind == "llm_attention":
        return case.is_ranked()
    if case.kind == "recent":
        return case.is_nearest(case.options["max_events"])
    return case.is_nearest() or _at_half(case)


def _at_half(case: Case) -> bool:
    return case.is_nearest(case.half)


# ---------------------------------------------------------------------- a rule of ours


def _halves(case: Case) -> bool:
    """On request V0 goes down to half of ``max_size``, also where the view is not that large."""
    small = case.requested and len(case.view) <= case.options.get("max_size", 0)
    return small and (case.is_ranked() if case.kind == "llm_attention" else _at_half(case))


def _not_smaller(case: Case) -> bool:
    """No summary is taken that has more than three quarters of what it stands for (about)."""
    gone = (event for event in case.view if event.id not in case.kept)
    letters = sum(
        len(getattr(event, "content", "") or getattr(event, "command", "")) for event in gone
    )
    return len(case.theirs.get("summary") or "") > letters // 3


def _whole_head(case: Case) -> bool:
    """Half is half, a head that is rounded up to whole turns included; the SDK rounds up, too, but
    keeps as many of the newest events as without it. V0 does not count a summary."""
    kept = case.is_ranked() if case.kind == "llm_attention" else _at_half(case)
    return len(case.theirs["kept"]) > case.half and kept


def _counts_otherwise(case: Case) -> bool:
    """Tokens are those of what eventfold sends, which has words for empty results, for example."""
    return "max_tokens" in case.options and case.is_nearest(len(case.view))


def _one_summary(case: Case) -> bool:
    return case.theirs.get("kept", []).count("summary") > 1 and _near(case)


def _place_of_summary(case: Case) -> bool:
    """V0 counts the place of an old summary anew in what a later condensation leaves."""

    def rest(answer: Json) -> list[Any]:
        return [event for event in answer.get("kept", ()) if event != "summary"]

    moved = case.theirs["kept"] != case.ours.get("kept")
    return moved and rest(case.theirs) == rest(case.ours)


def _cuts_loops(case: Case) -> bool:
    """The SDK forgets a loop of calls with thinking as a whole."""
    more = case.ours_kept - case.kept
    loops = list(_thinking_loops(case.view))
    inside = all(any(event in loop for loop in loops) for event in more)
    return case.form == "v1" and bool(more) and inside and case.ours_kept > case.kept


def _thinking_loops(view: View) -> Iterator[set[int]]:
    loop: set[int] | None = None
    thinks = {
        event.id
        for turn in view.turns
        if turn.kind is TurnKind.RESPONSE and turn.remembered(response_of).thinking
        for event in turn.events[:1]
    }
    for event in view:
        if event.id in thinks:
            if loop:
                yield loop
            loop = {event.id}
        elif event.tool_call_metadata is None:
            if loop:
                yield loop
            loop = None
        elif loop is not None:
            loop.add(event.id)
    if loop:
        yield loop


def _steps_over(case: Case) -> bool:
    """The SDK forgets a range; what lies between a call and its result goes with it."""
    more = case.ours_kept - case.kept
    gone = [turn for turn in case.view.turns if turn.events[0].id not in case.ours_kept]
    places = {event.id: place for place, event in enumerate(case.view)}

    def between(event: int | str) -> bool:
        at = places[event] if isinstance(event, int) else -1
        return any(places[t.events[0].id] < at < places[t.events[-1].id] for t in gone)

    return case.ours_kept > case.kept and all(map(between, more))


def _short_results(case: Case) -> bool:
    """Not masked is what is no larger than its stub, and knowledge that no call asked for."""
    ours, theirs = set(case.ours["masked"]), set(case.theirs["masked"]) - {-1}  # -1: a summary
    events = {event.id: event for event in case.view}
    masks = bool(case.theirs["masked"]) and case.theirs["kept"] == case.ours["kept"]
    return masks and ours <= theirs and all(_stays(case.view, events[n]) for n in theirs - ours)


def _stays(view: View, event: Event) -> bool:
    turn = next(turn for turn in view.turns if event in turn.events)
    knowledge = turn.kind in (TurnKind.RECALL, TurnKind.SUMMARY)
    return knowledge or len(getattr(event, "content", "")) <= LONGEST_STUB


LONGEST_STUB = 160  # characters, about


REASONS = (
    Reason("raises an error", True, _raises),
    Reason("shows an event twice", True, _twice),
    Reason("answers a request and forgets nothing", True, _forgets_nothing),
    Reason("forgets all but the system message", True, _resets),
    Reason("forgets the system message", True, _loses_system),
    Reason("forgets the newest user message", True, _loses_user),
    Reason("forgets a call that waits", True, _loses_waiting),
    Reason("loses the previous summary", True, _loses_summary),
    Reason("cuts a turn", True, _cuts),
    Reason("stays above its own limit", True, _grows),
    Reason("half of the view on request", False, _halves),
    Reason("a summary is smaller than what it stands for", False, _not_smaller),
    Reason("one summary at a time", False, _one_summary),
    Reason("a summary stays in its place", False, _place_of_summary),
    Reason("loops with thinking may be cut", False, _cuts_loops),
    Reason("half of the size, the whole head included", False, _whole_head),
    Reason("a message between a call and its result stays", False, _steps_over),
    Reason("tokens are counted in eventfold's own messages", False, _counts_otherwise),
    Reason("short results and knowledge stay readable", False, _short_results),
)
