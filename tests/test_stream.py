"""The stream: dense ids, all or nothing, one order for all writers, and nothing is ever changed."""

from __future__ import annotations

import json
import logging
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from eventfold.events import (
    Action,
    CmdOutputObservation,
    CmdRunAction,
    Event,
    EventSource,
    EventStream,
    InMemoryEventStore,
    MCPAction,
    MessageAction,
    UnknownEvent,
    event_from_dict,
    event_to_dict,
)
from eventfold.events.event import InvalidArgument
from eventfold.events.stores.base import IdTaken
from tests.logs import event_logs, texts, wire_events


def says(text: str) -> MessageAction:
    return MessageAction(content=text)


def contents(events: list[Event]) -> list[str]:
    return [event.content for event in events if isinstance(event, MessageAction)]


@pytest.fixture
def stream() -> EventStream:
    return EventStream("s")


# Appending


@given(event_logs(max_size=20))
def test_ids_are_dense_from_zero(events: list[Event]) -> None:
    stream = EventStream("s")
    unnumbered = [event.replace(id=-1) for event in events]
    stored = [stream.append(event) for event in unnumbered[:3]] + stream.extend(unnumbered[3:])
    assert [event.id for event in stored] == [*range(len(events))]
    assert list(stream) == stored
    assert len(stream) == len(stored)
    assert [stream[event.id] for event in stored] == stored


@given(event_logs(max_size=20))
def test_what_is_appended_is_not_changed(events: list[Event]) -> None:
    before = [event_to_dict(event) for event in events]
    EventStream("s").extend(events)
    assert [event_to_dict(event) for event in events] == before


def test_append_returns_the_stored_event(stream: EventStream) -> None:
    before = datetime.now(UTC)
    given_event = says("a")
    stored = stream.append(given_event, EventSource.USER)
    assert (given_event.id, given_event.source, given_event.timestamp) == (-1, None, None)
    assert stored is stream[0]
    assert (stored.id, stored.source) == (0, EventSource.USER)
    assert stored.timestamp is not None
    assert before <= stored.timestamp <= datetime.now(UTC)


def test_a_time_and_a_source_of_its_own_are_kept(stream: EventStream) -> None:
    time = datetime(2025, 1, 1)
    stored = stream.append(
        CmdRunAction(command="ls", timestamp=time, source=EventSource.USER), source=None
    )
    assert (stored.timestamp, stored.source) == (time, "user")


@pytest.mark.parametrize(
    ("event", "source", "expected"),
    [
        (CmdRunAction(command="ls"), None, EventSource.AGENT),
        (CmdOutputObservation(), None, EventSource.ENVIRONMENT),
        (CmdOutputObservation(source=EventSource.AGENT), None, EventSource.AGENT),
        (CmdOutputObservation(source=EventSource.AGENT), "user", EventSource.USER),
        (CmdRunAction(command="ls"), EventSource.ENVIRONMENT, EventSource.ENVIRONMENT),
    ],
)
def test_the_source_is_the_given_one_then_its_own_then_the_usual(
    stream: EventStream, event: Event, source: EventSource | str | None, expected: EventSource
) -> None:
    assert stream.append(event, source).source is expected


@pytest.mark.parametrize("source", ["nobody", "", "AGENT", 7])
def test_an_unknown_source_is_refused(stream: EventStream, source: Any) -> None:
    with pytest.raises(InvalidArgument, match="agent, user, environment"):
        stream.append(says("a"), source)
    assert len(stream) == 0


@pytest.mark.parametrize("event", [None, {"action": "null"}, "text", MessageAction])
def test_only_events_are_appended(stream: EventStream, event: Any) -> None:
    with pytest.raises(InvalidArgument, match="only events"):
        stream.append(event)
    assert len(stream) == 0


def test_an_event_of_another_place_is_refused(stream: EventStream) -> None:
    first = stream.append(says("a"))
    with pytest.raises(InvalidArgument, match="has the id 0 and would get 1"):
        stream.append(first)
    with pytest.raises(InvalidArgument, match="has the id 5 and would get 1"):
        stream.append(says("b").replace(id=5))
    assert stream.append(says("b").replace(id=1)).id == 1


def test_extend_stores_all_or_nothing(stream: EventStream) -> None:
    seen: list[Event] = []
    stream.subscribe(seen.append)
    stream.append(says("a"))
    bad: Any = [says("b"), says("c"), "no event"]
    with pytest.raises(InvalidArgument):
        stream.extend(bad)
    with pytest.raises(ZeroDivisionError):
        stream.extend(says(str(1 // n)) for n in (1, 1, 0))
    with pytest.raises(InvalidArgument):
        stream.extend([says("b"), says("c")], "nobody")
    assert contents(list(stream)) == ["a"]
    assert contents(seen) == ["a"]
    assert [event.id for event in stream.extend(says(text) for text in "bc")] == [1, 2]


def test_nothing_can_be_extended_by(stream: EventStream) -> None:
    assert stream.extend([]) == []
    assert (len(stream), list(stream)) == (0, [])


# Reading


@given(
    st.integers(0, 8),
    st.integers(0, 10),
    st.none() | st.integers(0, 10),
    st.none() | st.integers(0, 10),
)
@example(size=3, start=3, length=0, limit=None)
def test_a_reading_is_a_slice(size: int, start: int, length: int | None, limit: int | None) -> None:
    stream = EventStream("s")
    events = stream.extend(says(str(n)) for n in range(size))
    end = None if length is None else start + length
    expected = events[start:] if end is None else events[start : end + 1]
    assert list(stream.events(start, end, limit=limit)) == expected[:limit]
    backwards = list(stream.events(start, end, limit=limit, reverse=True))
    assert backwards == expected[::-1][:limit]
    assert list(stream.events(start, end))[::-1] == list(stream.events(start, end, reverse=True))


@pytest.mark.parametrize(
    "arguments",
    [
        {"start_id": -1},
        {"end_id": -1},
        {"limit": -1},
        {"limit": -1, "reverse": True},
        {"start_id": 2, "end_id": 1},
    ],
)
def test_a_reading_that_makes_no_sense_is_refused(
    stream: EventStream, arguments: dict[str, Any]
) -> None:
    stream.extend([says("a"), says("b"), says("c")])
    with pytest.raises(InvalidArgument, match=r"found -1|lies before"):
        stream.events(**arguments)


def test_an_event_that_does_not_exist_is_refused(stream: EventStream) -> None:
    with pytest.raises(InvalidArgument, match=r"no event 0 in session 's': it has no events"):
        stream[0]
    stream.extend([says("a"), says("b")])
    for event_id in (2, 99, -1):
        with pytest.raises(InvalidArgument, match=f"no event {event_id} .* ids 0 to 1"):
            stream[event_id]


def test_a_reading_that_was_begun_does_not_see_what_comes_later(stream: EventStream) -> None:
    stream.extend([says("a"), says("b")])
    forwards, backwards = stream.events(), stream.events(reverse=True)
    next(forwards)
    next(backwards)
    stream.append(says("c"))
    assert contents([*forwards, *backwards]) == ["b", "a"]


def test_sessions_of_one_store_are_apart() -> None:
    store = InMemoryEventStore()
    one, other = EventStream("one", store), EventStream("other", store)
    one.extend([says("a"), says("b")])
    assert other.append(says("c")).id == 0
    assert contents(list(one)) == ["a", "b"]
    assert contents(list(other)) == ["c"]
    assert contents(list(EventStream("one", store))) == ["a", "b"]


# Nothing is ever changed


@given(event_logs(max_size=30), st.integers(1, 5))
def test_earlier_events_never_change(events: list[Event], step: int) -> None:
    stream = EventStream("s")
    unnumbered = [event.replace(id=-1) for event in events]
    seen: list[Event] = []
    said: list[str] = []
    for begin in range(0, len(events), step):
        stream.extend(unnumbered[begin : begin + step])
        now = list(stream)
        assert all(old is new for old, new in zip(seen, now, strict=False))
        assert [json.dumps(event_to_dict(event)) for event in now[: len(said)]] == said
        seen = now
        said = [json.dumps(event_to_dict(event)) for event in now]
    assert len(seen) == len(events)


# Text that can be stored


@given(event_logs(max_size=20))
def test_all_that_is_stored_has_a_utf8_form(events: list[Event]) -> None:
    for event in EventStream("s").extend(events):
        data = event_to_dict(event)
        data.pop("tool_call_metadata", None)  # kept as ASCII, as the model said it
        json.dumps(data, ensure_ascii=False).encode()


@given(wire_events())
def test_what_was_recorded_beside_the_fields_has_a_utf8_form_too(data: dict[str, Any]) -> None:
    (stored,) = EventStream("s").extend([event_from_dict(data).replace(id=-1)])
    written = event_to_dict(stored)
    expected = {**shown(data), **{key: written[key] for key in ("id", "source", "timestamp")}}
    if isinstance(data.get("tool_call_metadata"), dict):
        expected["tool_call_metadata"] = data["tool_call_metadata"]
    if isinstance(data.get("model_response"), dict) and isinstance(stored, Action):
        expected["model_response"] = data["model_response"]
    assert written == expected


def shown(value: Any) -> Any:
    """JSON data with visible escapes for surrogates, keys included."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [shown(item) for item in value]
    if isinstance(value, dict):
        return {shown(key): shown(item) for key, item in value.items()}
    return value


@given(texts())
def test_text_is_stored_as_it_is_or_with_visible_escapes(text: str) -> None:
    stored = EventStream("s").append(MCPAction(name=text, arguments={text: [text]}))
    assert isinstance(stored, MCPAction)
    assert (stored.name, stored.arguments) == (shown(text), {shown(text): [shown(text)]})
    if text == shown(text):
        assert stored.name is text


def test_a_lone_surrogate_is_made_visible(stream: EventStream) -> None:
    assert contents([stream.append(says("a\udc80b"))]) == ["a\\udc80b"]
    unknown = event_from_dict({"observation": "odd\ud800", "content": "c\ud800", "k\ud800": 1})
    stored = stream.append(unknown)
    assert isinstance(stored, UnknownEvent)
    assert event_to_dict(stored)["content"] == "c\\ud800"
    assert event_to_dict(stored)["k\\ud800"] == 1


@pytest.mark.parametrize(
    "event",
    [
        MCPAction("t", {"key": ["\ud800"]}),
        MCPAction("t", {"\ud800": 1}),
        MCPAction("t", llm_metrics={"a": {"b": "\ud800"}}),
        MessageAction("t", image_urls=["\ud800"]),
        UnknownEvent(data={"\ud800": None}),
        event_from_dict({"action": "run", "args": {"command": "ls"}, "odd": "\ud800"}),
        event_from_dict({"action": "run", "args": {"command": "ls", "odd": ["\ud800"]}}),
        event_from_dict({"action": "run", "args": {"command": "ls", "\ud800": 1}}),
    ],
)
def test_a_lone_surrogate_is_found_wherever_it_is(stream: EventStream, event: Event) -> None:
    before = event_to_dict(event)
    stored = event_to_dict(stream.append(event))
    json.dumps(stored, ensure_ascii=False).encode()
    assert {key: stored[shown(key)] for key in before} == {
        key: shown(value) for key, value in before.items()
    }


# Subscribers


def test_subscribers_are_told_of_stored_events_in_order(stream: EventStream) -> None:
    told: list[tuple[str, Event, int]] = []
    stream.append(says("before"))
    stream.subscribe(lambda event: told.append(("first", event, len(stream))))
    stream.subscribe(lambda event: told.append(("second", event, len(stream))))
    stored = stream.extend([says("a"), says("b")])
    assert [name for name, _, _ in told] == ["first", "second"] * 2
    assert [event for _, event, _ in told] == [stored[0], stored[0], stored[1], stored[1]]
    assert all(event is stream[event.id] for _, event, _ in told)
    assert all(size > event.id for _, event, size in told)


def test_a_subscriber_that_raises_disturbs_nobody(
    stream: EventStream, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(event: Event) -> None:
        raise RuntimeError(f"no use for {event.id}")

    told: list[Event] = []
    stream.subscribe(fails)
    stream.subscribe(told.append)
    with caplog.at_level(logging.ERROR):
        stream.extend([says("a"), says("b")])
    assert contents(told) == contents(list(stream)) == ["a", "b"]
    assert [record.getMessage() for record in caplog.records] == [
        "session s: a subscriber failed on event 0",
        "session s: a subscriber failed on event 1",
    ]
    assert "no use for 1" in caplog.text


def test_a_subscriber_may_append(stream: EventStream) -> None:
    told: list[Event] = []

    def answers(event: Event) -> None:
        if isinstance(event, CmdRunAction):
            stream.append(CmdOutputObservation(content=event.command, cause=event.id))

    stream.subscribe(answers)
    stream.subscribe(told.append)
    stream.extend([CmdRunAction(command="a"), CmdRunAction(command="b")])
    assert [(event.id, event.cause) for event in stream] == [(0, None), (1, None), (2, 0), (3, 1)]
    assert told == list(stream)


def test_who_unsubscribed_is_told_no_more(stream: EventStream) -> None:
    first: list[Event] = []
    second: list[Event] = []
    stop = stream.subscribe(first.append)
    stream.subscribe(second.append)
    stream.append(says("a"))
    stop()
    stop()
    stream.append(says("b"))
    assert (contents(first), contents(second)) == (["a"], ["a", "b"])


def test_a_subscriber_may_unsubscribe_while_it_is_told(stream: EventStream) -> None:
    told: list[Event] = []
    others: list[Event] = []

    def once(event: Event) -> None:
        told.append(event)
        stop()

    stop = stream.subscribe(once)
    stream.subscribe(others.append)
    stream.extend([says("a"), says("b")])
    assert (contents(told), contents(others)) == (["a"], ["a", "b"])


def test_one_of_two_equal_subscriptions_ends(stream: EventStream) -> None:
    told: list[Event] = []
    stream.subscribe(told.append)
    stop = stream.subscribe(told.append)
    stop()
    stop()
    stream.append(says("a"))
    assert contents(told) == ["a"]


# Several writers


class RacingStore(InMemoryEventStore):
    """A store in which another writer is faster the first few times."""

    def __init__(self, races: int) -> None:
        super().__init__()
        self.races = races

    def append(self, session_id: str, events: Any) -> None:
        if self.races:
            self.races -= 1
            place = self.count(session_id)
            super().append(session_id, [says(f"other {self.races}").replace(id=place)])
        super().append(session_id, events)


def test_who_came_too_late_is_numbered_anew() -> None:
    stream = EventStream("s", RacingStore(3))
    told: list[Event] = []
    stream.subscribe(told.append)
    stored = stream.extend([says("a"), says("b")])
    assert [event.id for event in stored] == [3, 4]
    assert contents(list(stream)) == ["other 2", "other 1", "other 0", "a", "b"]
    assert told == stored


def test_a_store_refuses_an_id_that_is_taken_or_leaves_a_gap() -> None:
    store = InMemoryEventStore()
    store.append("s", [says("a").replace(id=0)])
    for wrong in (0, 2):
        with pytest.raises(IdTaken, match=f"next id is 1, found {wrong}"):
            store.append("s", [says("b").replace(id=wrong)])
    assert store.count("s") == 1


@pytest.mark.parametrize("streams", [1, 2])
def test_threads_lose_nothing_and_see_one_order(streams: int) -> None:
    store = InMemoryEventStore()
    shared = [EventStream("s", store) for _ in range(streams)]
    told: list[list[Event]] = [[] for _ in shared]
    for stream, seen in zip(shared, told, strict=True):
        stream.subscribe(seen.append)
    returned: dict[int, list[Event]] = {}
    ready = threading.Barrier(8)

    def writes(writer: int) -> None:
        stream = shared[writer % streams]
        ready.wait()
        mine = returned.setdefault(writer, [])
        for n in range(40):
            mine.append(stream.append(says(f"{writer}:{n}")))
            mine.extend(stream.extend([says(f"{writer}:{n}a"), says(f"{writer}:{n}b")]))

    threads = [threading.Thread(target=writes, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    log = list(shared[0])
    assert [event.id for event in log] == [*range(8 * 40 * 3)]
    for writer in range(8):
        own = [event for event in log if contents([event])[0].startswith(f"{writer}:")]
        assert own == returned[writer]
        expected = [f"{writer}:{n}{part}" for n in range(40) for part in ("", "a", "b")]
        assert contents(own) == expected
        for n in range(1, 120, 3):  # what was extended by stands together
            assert own[n + 1].id == own[n].id + 1
    for seen in told:
        assert [event.id for event in seen] == sorted(event.id for event in seen)
    assert sorted(event.id for seen in told for event in seen) == [*range(8 * 40 * 3)]


def test_readers_see_whole_prefixes_while_others_write(stream: EventStream) -> None:
    done = threading.Event()
    wrong: list[list[int]] = []

    def reads() -> None:
        while not done.is_set():
            ids = [event.id for event in stream]
            if ids != [*range(len(ids))]:
                wrong.append(ids)

    reader = threading.Thread(target=reads)
    reader.start()
    for n in range(300):
        stream.append(says(str(n)))
    done.set()
    reader.join()
    assert wrong == []
