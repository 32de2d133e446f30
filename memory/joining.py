"""What turns say, joined into one list that a provider accepts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..events.event import EventfoldError
from ..events.tool_calls import ToolCall
from .message import Message, TextContent
from .speech import Said
from .turns import Turn, TurnKind
from .wording import unused_id

__all__ = ["CONTINUE", "UNDERSTOOD", "Conversation", "Mark", "NothingToSend"]

CONTINUE = "Continue."
UNDERSTOOD = "Understood."


class NothingToSend(EventfoldError):
    """The history holds nothing that could be said to an LLM: no message at all, or only a system
    one."""


class Mark(NamedTuple):
    """How far a conversation had come: counts, the message that may grow, the tool loop."""

    messages: int
    newest: Message | None
    ids: int
    known: int
    since_user_event: bool | None
    since_user_message: bool | None


class Conversation:
    """Joins what turns say into one list, looking only at neighbours and at what was said
    before."""

    def __init__(self, profile: str, *, as_parts: bool) -> None:
        self._out: list[Message] = []
        self._profile = profile
        self._as_parts = as_parts
        self._ids: dict[str, str] = {}  # of tool calls, in the order in which they came
        self._known: dict[str, None] = {}  # pieces of knowledge, likewise
        # Of the tool loop that is running: whether it began with thinking (None: not begun).
        self._since_user_event: bool | None = None
        self._since_user_message: bool | None = None

    def add(self, turn: Turn, said: Said) -> None:
        if turn.kind is TurnKind.USER and said.messages:
            self._since_user_event = None
        for message in self._renamed(said) if said.call_ids else said.messages:
            if message.role == "tool":
                self._out.append(message)
            else:
                self._add(message)
        if said.knowledge:
            self._add_knowledge(said)

    def _add_knowledge(self, said: Said) -> None:
        """What was recalled, but for what is known already."""
        new = {key: text for key, text in said.knowledge if key not in self._known}
        if new:
            self._known.update(dict.fromkeys(new))
            self._add(Message.user_message(map(TextContent, new.values())))

    def messages(self) -> list[Message]:
        out = self._out.copy()
        if len(out) <= 1 and all(message.role == "system" for message in out):
            raise NothingToSend(
                "the history holds nothing to send to an LLM: "
                + ("only a system message" if out else "no message at all")
                + "; append a user message first"
            )
        if out[-1].role == "assistant":
            out.append(Message("user", CONTINUE, as_parts=self._as_parts))
        return out

    def mark(self) -> Mark:
        """The present state, for :meth:`return_to`."""
        out = self._out
        return Mark(
            len(out),
            out[-1] if out else None,
            len(self._ids),
            len(self._known),
            self._since_user_event,
            self._since_user_message,
        )

    def return_to(self, mark: Mark) -> None:
        """Takes back all that was added since."""
        del self._out[mark.messages :]
        if mark.newest is not None:
            self._out[-1] = mark.newest
        for keys, count in ((self._ids, mark.ids), (self._known, mark.known)):
            while len(keys) > count:
                keys.popitem()
        self._since_user_event = mark.since_user_event
        self._since_user_message = mark.since_user_message

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
        if self._as_parts:
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
        if not (
            thinks
            or message.provider_fields
            or any(call.provider_fields for call in message.tool_calls)
        ):
            return message
        return message.replace(
            thinking={},
            provider_fields={} if thinks else message.provider_fields,
            tool_calls=[
                ToolCall(call.id, call.name, call.arguments) if thinks else call
                for call in message.tool_calls
            ],
        )

    def _renamed(self, said: Said) -> Iterable[Message]:
        """The messages of a response; call ids that an earlier one has used are replaced."""
        if self._ids.keys().isdisjoint(said.call_ids):
            self._ids.update(said.call_ids)
            return said.messages
        assistant, *others = said.messages
        new_ids: list[str] = []
        for wanted, seed in said.call_ids.items():
            new_ids.append(unused_id(wanted, seed, self._ids, self._profile))
            self._ids[new_ids[-1]] = seed
        calls = [
            ToolCall(new_id, call.name, call.arguments, call.provider_fields)
            for call, new_id in zip(assistant.tool_calls, new_ids, strict=True)
        ]
        results = [
            message.replace(tool_call_id=new_ids[place]) if place < len(new_ids) else message
            for place, message in enumerate(others)
        ]
        return [assistant.replace(tool_calls=calls), *results]
