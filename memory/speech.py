"""What each turn says on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ..events.actions import MessageAction
from ..events.event import Action, Event, UnknownEvent
from ..events.observations import ErrorObservation, RecallObservation
from ..events.tool_calls import ToolCall, ToolCallMetadata
from .images import as_image_url
from .message import Content, ImageContent, Message, TextContent
from .rendering import (
    action_parts,
    action_text,
    call_arguments,
    clean,
    cut,
    image_urls,
    recalled,
    result_text,
    thought_of,
)
from .turns import Call, Turn, TurnKind, is_observation, response_of
from .wording import (
    clean_json,
    tool_call_id,
    tool_name,
    unused_id,
    usable_thinking,
    valid_arguments,
)

__all__ = ["PENDING", "Said", "speech"]

PENDING = "(no result yet: the call is still running or was interrupted)"


@dataclass(frozen=True, slots=True)
class Said:
    """What a turn says on its own. What depends on other turns is settled when they are joined."""

    messages: tuple[Message, ...]
    # For each tool call its id, and what another is made of, in case an earlier turn has used it.
    call_ids: Mapping[str, str] = field(default_factory=dict)
    # Recalled knowledge: (what makes a piece the same piece, its text).
    knowledge: tuple[tuple[str, str], ...] = ()


@lru_cache(maxsize=64)
def speech(profile: str, limit: int | None, vision: bool) -> Callable[[Turn], Said]:
    """What says a turn in the words of a profile: one and the same object for equal arguments, so
    that ``turn.remembered`` finds what it has said before."""
    return _Speech(profile, limit, vision).of


@dataclass(frozen=True, slots=True, eq=False)
class _Speech:
    profile: str
    limit: int | None  # characters of an observation
    vision: bool

    def of(self, turn: Turn) -> Said:
        if turn.kind is TurnKind.SYSTEM:
            text = clean(getattr(turn.events[0], "content", ""))
            return Said((Message("system", text),) if text.strip() else ())
        if turn.kind is TurnKind.RESPONSE:
            if turn.events[0].tool_call_metadata is not None:
                return self._response(turn)
            return Said(tuple(m for call in turn.calls for m in self._plain(call)))
        if turn.kind is TurnKind.RECALL:
            return self._recall(turn)
        return Said(tuple(self._user(parts) for parts in self._told(turn) if parts))

    # ------------------------------------------------------------ an LLM response

    def _response(self, turn: Turn) -> Said:
        calls = turn.calls
        response = turn.remembered(response_of)
        ended = [call for call in calls if _is_ending(call)]
        if ended:
            calls = [call for call in calls if not _is_ending(call)]
        said = [response.text]
        if not response.text and not response.tool_calls:  # it is not known what the model said
            said += [thought_of(call.action) for call in calls[:1]]
        for call in ended:
            said += action_parts(call.action)
        if len(calls) > 1:
            calls = _in_order(calls, response.tool_calls)

        tool_calls: list[ToolCall] = []
        call_ids: dict[str, str] = {}
        raw_ids: list[str] = []
        results: list[Message] = []
        pictures: list[Content] = []
        for call in calls:
            raw = _metadata(call.action)
            seed = f"{raw.tool_call_id}#{call.action.id}"
            call_id = tool_call_id(raw.tool_call_id, self.profile)
            call_id = unused_id(call_id, seed, call_ids, self.profile)
            call_ids[call_id] = seed
            asked = [c for c in response.tool_calls if c.id == raw.tool_call_id]
            nth = raw_ids.count(raw.tool_call_id)  # some servers give several calls one id
            raw_ids.append(raw.tool_call_id)
            tool_calls.append(self._call(call_id, call.action, asked[nth:][:1] or asked[-1:]))
            text, images = (PENDING, []) if call.result is None else self._result(call.result)
            results.append(Message.tool_message(text, call_id, tool_calls[-1].name))
            pictures += images
        texts = dict.fromkeys([clean(text) for text in said if text.strip()])  # each text once
        message = Message(
            "assistant",
            "\n\n".join(texts),
            tool_calls,
            thinking=usable_thinking(response.thinking),
            provider_fields=clean_json(response.provider_fields),
        )
        if not message.content and not tool_calls:
            return Said(())
        images_after = (self._user(pictures),) if pictures else ()
        return Said((message, *results, *images_after), call_ids)

    def _call(self, call_id: str, action: Event, asked: Sequence[ToolCall]) -> ToolCall:
        """The call of an action, as the model asked for it if that is known."""
        call = asked[0] if asked else None
        name = _metadata(action).function_name or (call.name if call else "")
        arguments = call_arguments(action) if call is None else call.arguments
        fields = {} if call is None else clean_json(call.provider_fields)
        return ToolCall(call_id, tool_name(name), valid_arguments(arguments), fields)

    def _plain(self, call: Call) -> Iterable[Message]:
        """An action that no tool call carries: described in words, and so is its result."""
        text = clean(action_text(call.action))
        if text.strip():
            yield Message.assistant_message(text)
        if call.result is not None and not _is_unknown(call.result):
            yield self._user(self._titled(f"Result of {_kind(call.action)}", call.result))

    # ------------------------------------------------------------ everything else

    def _told(self, turn: Turn) -> Iterable[list[Content]]:
        """Turns that are told as the user's side."""
        for call in turn.calls:
            event = call.action
            if _is_unknown(event):
                yield []
            elif turn.kind is TurnKind.LATE:
                yield self._late(event)
            elif is_observation(event):
                yield self._result_parts(*self._result(event))
            elif isinstance(event, MessageAction):
                yield self._message(event)
            elif isinstance(event, Action):
                text = clean(action_text(event))
                yield [TextContent(f"The user acts. {text}")] if text.strip() else []
            if call.result is not None and not _is_unknown(call.result):
                yield self._titled(f"Result of {_kind(event)}", call.result)

    def _message(self, event: MessageAction) -> list[Content]:
        text = clean(event.content)
        parts: list[Content] = [TextContent(text)] if text.strip() else []
        images, notes = self._images(event)
        return [*parts, *(TextContent(note) for note in notes), *images]

    def _late(self, event: Event) -> list[Content]:
        if isinstance(event, ErrorObservation) and event.tool_call_metadata is None:
            return self._result_parts(*self._result(event))
        metadata = event.tool_call_metadata
        name = event.kind if metadata is None else metadata.function_name or "a tool"
        return self._titled(f"Late result of {clean(name)}", event)

    def _titled(self, title: str, event: Event) -> list[Content]:
        return self._result_parts(*self._result(event, f"{title}:\n"))

    def _recall(self, turn: Turn) -> Said:
        knowledge: list[tuple[str, str]] = []
        told: list[Content] = []
        for event in turn.events:
            if isinstance(event, RecallObservation):
                knowledge += self._pieces(event)
            elif is_observation(event):  # a recall that failed
                told += self._result_parts(*self._result(event))
        return Said((self._user(told),) if told else (), knowledge=tuple(knowledge))

    def _pieces(self, event: RecallObservation) -> Iterator[tuple[str, str]]:
        """What was recalled, all pieces together within the limit."""
        left = self.limit
        for key, text in recalled(event):
            shown = cut(clean(text), left)
            yield key, shown
            if left is not None:
                left -= len(shown)
                if left <= 0:
                    return

    def _result(self, event: Event, title: str = "") -> tuple[str, list[Content]]:
        """The text of an observation, within the limit, and its images."""
        images, notes = self._images(event)
        text = "\n".join([title + clean(result_text(event)), *notes])
        return cut(text, self.limit), images

    def _result_parts(self, text: str, images: list[Content]) -> list[Content]:
        return [TextContent(text), *images]

    def _images(self, event: Event) -> tuple[list[Content], list[str]]:
        """An event's images that can be sent, and notes for those that cannot."""
        images: list[Content] = []
        notes = []
        for value in image_urls(event):
            url = as_image_url(value)
            if not self.vision:
                notes.append("(an image is not shown: images are off)")
            elif url is None or clean(url) != url:
                notes.append("(an image is left out: it is no usable URL or data of an image)")
            else:
                images.append(ImageContent(url))
        return images, notes

    def _user(self, parts: Iterable[Content]) -> Message:
        return Message.user_message(parts)


def _metadata(event: Event) -> ToolCallMetadata:
    assert event.tool_call_metadata is not None  # so are all actions of a response with calls
    return event.tool_call_metadata


def _is_unknown(event: Event) -> bool:
    """An event of an unknown kind that belongs to no tool call: nobody knows if it is meant for an
    LLM."""
    return isinstance(event, UnknownEvent) and event.tool_call_metadata is None


def _kind(event: Event) -> str:
    return clean(event.name) if isinstance(event, UnknownEvent) else event.kind


def _is_ending(call: Call) -> bool:
    """An action without a result that nobody waits for: said as text, not as a call."""
    return call.result is None and not call.waits


def _in_order(calls: list[Call], asked: Sequence[ToolCall]) -> list[Call]:
    """The calls in the order in which the response has them."""
    places = {call.id: place for place, call in reversed(list(enumerate(asked)))}
    return sorted(
        calls, key=lambda call: places.get(_metadata(call.action).tool_call_id, len(places))
    )
