"""Filters: each condition by itself, and all together against a naive reading of the log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eventfold.events import (
    Action,
    CmdOutputObservation,
    CmdRunAction,
    CondensationRequestAction,
    Event,
    EventFilter,
    EventSource,
    EventStream,
    MCPAction,
    MessageAction,
    Observation,
    UnknownEvent,
    event_from_dict,
    event_to_dict,
)
from eventfold.events.event import InvalidArgument
from tests.logs import A, M, O, R, S, U, event_logs, log

START = datetime(2025, 1, 1, tzinfo=UTC)
EVENTS = log(S(), U("Fix the BUG."), A("r1", "a"), O("a", "a bug's life"), M("Done."), R())


def chosen(events: list[Event], condition: EventFilter) -> list[int]:
    return [event.id for event in events if condition.matches(event)]


# Each condition


def test_no_condition_takes_everything() -> None:
    assert chosen(EVENTS, EventFilter()) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("kinds", "ids"),
    [
        ([MessageAction], [1, 4]),
        ([Action], [0, 1, 2, 4, 5]),
        ([Observation], [3]),
        ([Event], [0, 1, 2, 3, 4, 5]),
        (["message"], [1, 4]),
        (["run"], [2, 3]),
        (["run", CondensationRequestAction], [2, 3, 5]),
        ({"no such kind"}, []),
        ([], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_kinds_are_classes_or_tags(kinds: list[Any], ids: list[int]) -> None:
    assert chosen(EVENTS, EventFilter(kinds=kinds)) == ids


def test_an_unknown_kind_is_found_by_its_tag() -> None:
    event = event_from_dict({"action": "teleport"})
    assert EventFilter(kinds=["teleport"]).matches(event.replace(id=0))
    assert EventFilter(kinds=[UnknownEvent]).matches(event.replace(id=0))
    assert not EventFilter(kinds=["run"]).matches(event.replace(id=0))


@pytest.mark.parametrize(
    ("sources", "ids"),
    [(["user"], [1]), ([EventSource.AGENT], [0, 2, 4, 5]), ({"user", "environment"}, [1, 3])],
)
def test_sources_are_members_or_text(sources: list[EventSource | str], ids: list[int]) -> None:
    assert chosen(EVENTS, EventFilter(sources=sources)) == ids


def test_hidden_is_asked_for_either_way() -> None:
    events = log(U("a"), CmdRunAction(command="env", hidden=True))
    assert chosen(events, EventFilter(hidden=True)) == [1]
    assert chosen(events, EventFilter(hidden=False)) == [0]
    assert chosen(events, EventFilter(hidden=None)) == [0, 1]


def test_times_are_inclusive_and_know_their_zones() -> None:
    since, until = START + timedelta(seconds=1), START + timedelta(seconds=3)
    assert chosen(EVENTS, EventFilter(since=since)) == [1, 2, 3, 4, 5]
    assert chosen(EVENTS, EventFilter(until=until)) == [0, 1, 2, 3]
    assert chosen(EVENTS, EventFilter(since=since, until=until)) == [1, 2, 3]
    east = since.astimezone(timezone(timedelta(hours=2)))
    assert chosen(EVENTS, EventFilter(since=east, until=east)) == [1]
    assert chosen(EVENTS, EventFilter(since=since.replace(tzinfo=None), until=since)) == [1]


def test_a_time_without_zone_counts_as_utc() -> None:
    (event,) = log(CmdRunAction(command="ls", timestamp=datetime(2025, 1, 1, 12)))
    assert EventFilter(since=datetime(2025, 1, 1, 12, tzinfo=UTC)).matches(event)
    assert not EventFilter(since=datetime(2025, 1, 1, 12, 1, tzinfo=UTC)).matches(event)


def test_an_event_without_a_time_lies_in_no_range() -> None:
    event = CmdRunAction(command="ls", id=0)
    assert not EventFilter(since=datetime.min).matches(event)
    assert not EventFilter(until=datetime.max).matches(event)
    assert EventFilter().matches(event)


@pytest.mark.parametrize(
    ("text", "ids"),
    [("bug", [1, 3]), ("BUG'S", [3]), ("run a", [2, 3]), ("", [0, 1, 2, 3, 4]), ("nowhere", [])],
)
def test_text_is_looked_for_without_case(text: str, ids: list[int]) -> None:
    assert chosen(EVENTS, EventFilter(text=text)) == ids


@pytest.mark.parametrize(
    "arguments",
    [
        {"source": "Needle"},
        {"deep": [{"action": "a needle!"}]},
        {"observation": {"timestamp": "NEEDLE"}},
    ],
)
def test_text_is_found_under_any_key_of_arguments(arguments: dict[str, Any]) -> None:
    assert EventFilter(text="needle").matches(MCPAction(name="t", arguments=arguments, id=0))


def test_ids_tags_and_the_llm_response_are_no_text() -> None:
    (event,) = log(A("needle", "needle", action=CmdOutputObservation(content="")))
    assert not EventFilter(text="needle").matches(event)
    assert not EventFilter(text="run").matches(log(CmdRunAction(command="ls"))[0])


def test_ids_are_inclusive() -> None:
    assert chosen(EVENTS, EventFilter(start_id=2, end_id=4)) == [2, 3, 4]
    assert chosen(EVENTS, EventFilter(start_id=5, end_id=99)) == [5]
    assert chosen(EVENTS, EventFilter(start_id=6)) == []


def test_the_limit_is_the_readers_to_count() -> None:
    stream = EventStream("s")
    stream.extend(EVENTS)
    condition = EventFilter(kinds=[MessageAction], limit=1)
    assert chosen(EVENTS, condition) == [1, 4]
    assert [event.id for event in stream.events(filter=condition)] == [1]
    assert [event.id for event in stream.events(filter=condition, reverse=True)] == [4]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"start_id": -1}, "start_id is 0 or more, found -1"),
        ({"end_id": -1}, "end_id is 0 or more, found -1"),
        ({"limit": -1}, "limit is 0 or more, found -1"),
        ({"start_id": 2, "end_id": 1}, "end_id 1 lies before start_id 2"),
        ({"since": START, "until": START - timedelta(seconds=1)}, "lies before since"),
        ({"sources": ["nobody"]}, "agent, user, environment; found .*nobody"),
        ({"sources": "user"}, r"collection, found 'user': pass \['user'\]"),
        ({"kinds": "run"}, r"collection, found 'run': pass \['run'\]"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        EventFilter(**fields)


# All of them


@st.composite
def filters(draw: st.DrawFn) -> EventFilter:
    """Filters that fit logs of some 20 events, which are a second apart."""
    first = draw(st.integers(0, 12))
    since = draw(st.none() | st.integers(-1, 15))
    until = draw(st.none() | st.integers(since or 0, 25))
    kinds: list[Any] = [Action, Observation, MessageAction, UnknownEvent, "run", "finish", "lint"]
    return EventFilter(
        kinds=draw(st.just([]) | st.lists(st.sampled_from(kinds), max_size=3)),
        sources=draw(st.just([]) | st.lists(st.sampled_from(["agent", EventSource.USER]))),
        hidden=draw(st.none() | st.booleans()),
        since=None if since is None else START + timedelta(seconds=since),
        until=None if until is None else START + timedelta(seconds=until),
        text=draw(st.none() | st.sampled_from(["fine", "FIX", "a", "\u017f", "\u2028", "no such"])),
        start_id=first,
        end_id=draw(st.none() | st.integers(first, 25)),
        limit=draw(st.none() | st.integers(0, 5)),
    )


@given(event_logs(max_size=20), filters(), st.booleans())
def test_a_stream_gives_what_a_naive_reading_gives(
    events: list[Event], condition: EventFilter, reverse: bool
) -> None:
    stream = EventStream("s")
    stored = stream.extend(events)
    expected = [event for event in stored if naive(condition, event)]
    if reverse:
        expected.reverse()
    if condition.limit is not None:
        expected = expected[: condition.limit]
    assert list(stream.events(filter=condition, reverse=reverse)) == expected


def naive(condition: EventFilter, event: Event) -> bool:
    tags = {event.name} if isinstance(event, UnknownEvent) else {event.kind}
    classes = {*type(event).__mro__}
    last = 10**9 if condition.end_id is None else condition.end_id
    assert event.timestamp is not None
    return (
        condition.start_id <= event.id <= last
        and (not condition.kinds or bool({*condition.kinds} & (tags | classes)))
        and (not condition.sources or event.source in [*map(EventSource, condition.sources)])
        and condition.hidden in (None, event.hidden)
        and (condition.since is None or condition.since <= event.timestamp)
        and (condition.until is None or event.timestamp <= condition.until)
        and (condition.text is None or said(event, condition.text.casefold()))
    )


def said(event: Event, text: str) -> bool:
    data = event_to_dict(event)
    for key in (
        "action",
        "observation",
        "source",
        "timestamp",
        "tool_call_metadata",
        "model_response",
        "llm_metrics",
    ):
        data.pop(key, None)
    return any(text in found.casefold() for found in strings(data))


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


@given(
    event_logs(max_size=20), filters(), st.integers(0, 20), st.integers(0, 20), st.integers(0, 9)
)
def test_a_filter_and_the_arguments_of_a_reading_both_hold(
    events: list[Event], condition: EventFilter, start: int, length: int, limit: int
) -> None:
    stream = EventStream("s")
    stream.extend(events)
    both = stream.events(start, start + length, filter=condition, limit=limit)
    unlimited = stream.events(filter=condition)
    expected = [event for event in unlimited if start <= event.id <= start + length]
    if condition.limit is None:
        assert list(both) == expected[:limit]
    else:
        found = list(both)
        assert len(found) <= min(limit, condition.limit)
        assert all(start <= event.id <= start + length for event in found)
        assert found[: len(expected)] == expected[: len(found)]
