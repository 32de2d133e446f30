"""From a view to the messages that an LLM is sent: valid by construction, whatever the log
holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..events.actions import MessageAction
from ..events.event import Action, Event, EventfoldError, InvalidArgument, UnknownEvent
from ..events.observations import ErrorObservation, RecallObservation
from ..events.tool_calls import AssistantTurn, ToolCall, ToolCallMetadata
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
from .rules import PROFILES, UnknownProfile
from .turns import Call, Turn, TurnKind, is_observation
from .view import View
from .wording import clean_json, tool_call_id, tool_name, usable_thinking, valid_arguments

__all__ = ["ConversationMemory", "NothingToSend"]

CONTINUE = "Continue."
UNDERSTOOD = "Understood."
PENDING = "(no result yet: the call is still running or was interrupted)"


class NothingToSend(EventfoldError):
    """The history holds nothing that could be said to an LLM: no message at all, or only a system
    one."""


class ConversationMemory:
    """Turns a view into messages.

    The messages keep every rule of ``profile`` (``openai``, ``anthropic``, ``gemini``, ``mistral``,
    or ``portable``, which is valid nearly everywhere): see :mod:`eventfold.memory.rules`. With
    ``prompt_caching`` the system message and the newest two turns carry cache markers.

    What a turn says is worked out once and remembered for as long as the turn is in the view, and
    turns that can no longer change are joined once: a step costs what is new in it.
    """

    def __init__(self, profile: str = "portable", *, prompt_caching: bool = False) -> None:
        if profile not in PROFILES:
            raise UnknownProfile(f"unknown profile {profile!r}; there are: {', '.join(PROFILES)}")
        self.profile = profile
        self.prompt_caching = prompt_caching
        self._speech = _Speech(profile, None, vision=False)
        self._said: dict[Turn, _Said] = {}
        self._joined: list[Turn] = []  # those whose words are in the conversation for good
        self._conversation = _Conversation(profile, as_parts=prompt_caching)

    def process_events(
        self,
        condensed_history: View | Iterable[Event],
        initial_user_action: MessageAction | None = None,
        max_message_chars: int | None = None,
        vision_is_active: bool = False,
    ) -> list[Message]:
        """The messages for a history; nothing that is passed in is changed.

        ``initial_user_action`` is put in front if the history has neither a user message nor a
        summary. ``max_message_chars`` (characters) limits the text of each observation: the middle
        is cut out. Images are sent if ``vision_is_active``; otherwise a note stands for each.

        Raises :class:`NothingToSend` for an empty history, :class:`InvalidArgument` for a negative
        limit.
        """
        if max_message_chars is not None and max_message_chars < 0:
            raise InvalidArgument(
                f"max_message_chars is a number of characters, 0 or more; found {max_message_chars}"
            )
        view = (
            condensed_history
            if isinstance(condensed_history, View)
            else View.from_events(condensed_history)
        )
        speech = _Speech(self.profile, max_message_chars, vision_is_active)
        turns = _with_task(view.turns, initial_user_action)
        if speech != self._speech or turns[: len(self._joined)] != self._joined:
            self._begin_anew(speech, turns)
        # Only the newest response can still change, and what stands behind it can move.
        newest = view.newest_response
        settled = turns.index(newest) if newest in turns else len(turns)
        for turn in turns[len(self._joined) : settled]:
            self._conversation.add(turn, self._said_by(turn))
            self._joined.append(turn)
        before = self._conversation.mark()
        for turn in turns[len(self._joined) :]:
            self._conversation.add(turn, self._said_by(turn))
        try:
            messages = self._conversation.messages()
        finally:
            self._conversation.return_to(before)
        return self.apply_prompt_caching(messages) if self.prompt_caching else messages

    def _begin_anew(self, speech: _Speech, turns: list[Turn]) -> None:
        """Forgets what was joined, and what turns say that are no longer there."""
        kept = set(turns) if speech == self._speech else ()
        self._said = {turn: said for turn, said in self._said.items() if turn in kept}
        self._speech = speech
        self._joined = []
        self._conversation = _Conversation(self.profile, as_parts=self.prompt_caching)

    def _said_by(self, turn: Turn) -> _Said:
        said = self._said.get(turn)
        if said is None:
            said = self._said[turn] = self._speech.of(turn)
        return said

    def apply_prompt_caching(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with cache markers: on the system message and on the newest two that are the
        user's or a tool's, so that this prompt and the one before it can be found in the cache."""
        marked = list(range(len(messages)))[:1] if messages and messages[0].role == "system" else []
        ends = [n for n, m in enumerate(messages) if m.role in ("user", "tool")]
        marked += ends[-2:]
        result = [m if m.as_parts or m.role == "tool" else m.replace(as_parts=True) for m in messages]
        for place in marked:
            result[place] = result[place].replace(cache_marker=True)
        return result


def _with_task(turns: list[Turn], task: MessageAction | None) -> list[Turn]:
    if task is None or any(turn.kind in (TurnKind.USER, TurnKind.SUMMARY) for turn in turns):
        return turns
    first = 1 if turns and turns[0].kind is TurnKind.SYSTEM else 0
    turns.insert(first, Turn(TurnKind.USER, (task,), (-1,), (-1,)))
    return turns


# ---------------------------------------------------------------------- what one turn says


@dataclass(frozen=True, slots=True)
class _Said:
    """What a turn says on its own. What depends on other turns is settled when they are joined."""

    messages: tuple[Message, ...]
    # For each tool call: another id, in case an earlier turn has used the call's own.
    spare_ids: tuple[str, ...] = ()
    # Recalled knowledge: (what makes a piece the same piece, its text).
    knowledge: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Speech:
    profile: str
    limit: int | None  # characters of an observation
    vision: bool

    def of(self, turn: Turn) -> _Said:
        if turn.kind is TurnKind.SYSTEM:
            text = clean(getattr(turn.events[0], "content", ""))
            return _Said((Message("system", text),) if text.strip() else ())
        if turn.kind is TurnKind.RESPONSE:
            if turn.events[0].tool_call_metadata is not None:
                return self._response(turn)
            return _Said(tuple(m for call in turn.calls for m in self._plain(call)))
        if turn.kind is TurnKind.RECALL:
            return self._recall(turn)
        return _Said(tuple(self._user(parts) for parts in self._told(turn) if parts))

    # ------------------------------------------------------------ an LLM response

    def _response(self, turn: Turn) -> _Said:
        calls = turn.calls
        responses = (_metadata(call.action).model_response for call in calls)
        kept = next((response for response in responses if response is not None), None)
        response = AssistantTurn() if kept is None else kept.message()
        said = [response.text]
        if not response.text and not response.tool_calls:  # it is not known what the model said
            said += [thought_of(call.action) for call in calls if not _is_ending(call)][:1]
        for call in calls:
            said += action_parts(call.action) if _is_ending(call) else ()
        calls = _in_order([c for c in calls if not _is_ending(c)], response.tool_calls)

        tool_calls: list[ToolCall] = []
        spare_ids: list[str] = []
        raw_ids: list[str] = []
        results: list[Message] = []
        pictures: list[Content] = []
        for call in calls:
            raw = _metadata(call.action)
            spare = tool_call_id(f"{raw.tool_call_id}#{call.action.id}", self.profile)
            call_id = tool_call_id(raw.tool_call_id, self.profile)
            call_id = _unused(call_id, spare, {c.id for c in tool_calls})
            spare_ids.append(spare)
            asked = [c for c in response.tool_calls if c.id == raw.tool_call_id]
            nth = raw_ids.count(raw.tool_call_id)  # some servers give several calls one id
            raw_ids.append(raw.tool_call_id)
            tool_calls.append(self._call(call_id, call.action, asked[nth:][:1] or asked[-1:]))
            text, images = (PENDING, []) if call.result is None else self._result(call.result)
            results.append(Message.tool_message(text, call_id, tool_calls[-1].name))
            pictures += images
        thinking = usable_thinking(response.thinking)
        texts = dict.fromkeys(clean(text) for text in said if text.strip())  # each text once
        message = Message(
            "assistant",
            "\n\n".join(texts),
            tool_calls,
            thinking=thinking,
            provider_fields=clean_json(response.provider_fields),
        )
        if not message.content and not tool_calls:
            return _Said(())
        images_after = (self._user(pictures),) if pictures else ()
        return _Said((message, *results, *images_after), tuple(spare_ids))

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

    def _recall(self, turn: Turn) -> _Said:
        pieces: list[tuple[str, str]] = []
        told: list[Content] = []
        for event in turn.events:
            if isinstance(event, RecallObservation):
                pieces += recalled(event)
            elif is_observation(event):  # a recall that failed
                told += self._result_parts(*self._result(event))
        knowledge = tuple((key, cut(clean(text), self.limit)) for key, text in pieces)
        return _Said((self._user(told),) if told else (), knowledge=knowledge)

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


def _unused(wanted: str, spare: str, used: Iterable[str]) -> str:
    while wanted in used:
        wanted, spare = spare, tool_call_id(f"{spare}#", "mistral" if len(spare) == 9 else "")
    return wanted


# ---------------------------------------------------------------------- joining turns


@dataclass(frozen=True, slots=True)
class _Mark:
    """How far a conversation had come: counts, the message that may grow, the tool loop."""

    messages: int
    newest: list[Message]
    ids: int
    known: int
    loop: tuple[bool | None, bool | None]


class _Conversation:
    """Joins what turns say into one list, looking only at neighbours and at what was said
    before."""

    def __init__(self, profile: str, *, as_parts: bool) -> None:
        self._out: list[Message] = []
        self._profile = profile
        self._as_parts = as_parts
        self._ids: dict[str, None] = {}  # of tool calls, in the order in which they came
        self._known: dict[str, None] = {}  # pieces of knowledge, likewise
        # Of the tool loop that is running: whether it began with thinking (None: not begun).
        self._since_user_event: bool | None = None
        self._since_user_message: bool | None = None

    def add(self, turn: Turn, said: _Said) -> None:
        if turn.kind is TurnKind.USER and said.messages:
            self._since_user_event = None
        for message in said.messages if not said.spare_ids else self._renamed(said):
            self._add(message)
        new = [(key, text) for key, text in said.knowledge if key not in self._known]
        if new:
            self._known.update((key, None) for key, _ in new)
            self._add(Message.user_message(TextContent(text) for _, text in dict(new).items()))

    def messages(self) -> list[Message]:
        if all(message.role == "system" for message in self._out):
            raise NothingToSend(
                "the history holds nothing to send to an LLM: "
                + ("only a system message" if self._out else "no message at all")
                + "; append a user message first"
            )
        if self._out[-1].role == "assistant":
            self._add(Message.user_message(CONTINUE))
        return self._out.copy()

    def mark(self) -> _Mark:
        """The present state, for :meth:`return_to`."""
        return _Mark(
            len(self._out),
            self._out[-1:],
            len(self._ids),
            len(self._known),
            (self._since_user_event, self._since_user_message),
        )

    def return_to(self, mark: _Mark) -> None:
        """Takes back all that was added since."""
        self._out[max(0, mark.messages - 1) :] = mark.newest
        for keys, count in ((self._ids, mark.ids), (self._known, mark.known)):
            while len(keys) > count:
                keys.popitem()
        self._since_user_event, self._since_user_message = mark.loop

    def _add(self, message: Message) -> None:
        last = self._out[-1] if self._out else None
        if message.role == "user":
            self._since_user_message = None
            if last is not None and last.role == "user":
                self._out[-1] = last.replace(content=(*last.content, *message.content))
                return
            if last is not None and last.role == "tool" and self._profile == "mistral":
                self._put(Message.assistant_message(UNDERSTOOD))
        elif message.role == "assistant":
            if last is None or last.role in ("system", "assistant"):
                self._put(Message.user_message(CONTINUE))
                self._since_user_message = None
            message = self._settled(message)
        self._put(message)

    def _put(self, message: Message) -> None:
        if self._as_parts and message.role != "tool":
            message = message.replace(as_parts=True)
        self._out.append(message)

    def _settled(self, message: Message) -> Message:
        """The message without its thinking, if its tool loop did not begin with thinking."""
        thinks = bool(message.thinking)
        if self._since_user_event is None:
            self._since_user_event = thinks
        if self._since_user_message is None:  # what counts is what the provider sees
            self._since_user_message = thinks and self._since_user_event
        if self._since_user_event and self._since_user_message:
            return message
        signed = message.thinking or message.provider_fields
        if not signed and not any(call.provider_fields for call in message.tool_calls):
            return message
        return message.replace(
            thinking={},
            provider_fields={} if thinks else message.provider_fields,
            tool_calls=[
                ToolCall(call.id, call.name, call.arguments) if thinks else call
                for call in message.tool_calls
            ],
        )

    def _renamed(self, said: _Said) -> Iterable[Message]:
        """The messages of a response; call ids that an earlier one has used are replaced."""
        assistant, *others = said.messages
        new_ids: list[str] = []
        for call, spare in zip(assistant.tool_calls, said.spare_ids, strict=True):
            new_ids.append(_unused(call.id, spare, self._ids))
            self._ids[new_ids[-1]] = None
        if new_ids == [call.id for call in assistant.tool_calls]:
            return said.messages
        calls = [
            ToolCall(new_id, call.name, call.arguments, call.provider_fields)
            for call, new_id in zip(assistant.tool_calls, new_ids, strict=True)
        ]
        results = [
            message.replace(tool_call_id=new_ids[place]) if place < len(new_ids) else message
            for place, message in enumerate(others)
        ]
        return [assistant.replace(tool_calls=calls), *results]
