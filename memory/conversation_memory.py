"""From a view to the messages that an LLM is sent: valid by construction, whatever the log
holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..events.actions import MessageAction
from ..events.event import Event
from .joining import Conversation, Mark, NothingToSend
from .message import Message
from .rendering import check_limit
from .rules import PROFILES, UnknownProfile
from .speech import Said, speech
from .turns import Turn, TurnKind, first_difference
from .view import View

__all__ = ["ConversationMemory", "NothingToSend"]


class ConversationMemory:
    """Turns a view into messages.

    The messages keep every rule of ``profile`` (``openai``, ``anthropic``, ``gemini``, ``mistral``,
    or ``portable``, which is valid nearly everywhere): see :mod:`eventfold.memory.rules`. With
    ``prompt_caching`` the system message and the newest two turns carry cache markers.

    What a turn says is worked out once and remembered with the turn, and the turns before the first
    one that has changed stay joined: a step costs what is new in it.
    """

    def __init__(self, profile: str = "portable", *, prompt_caching: bool = False) -> None:
        if profile not in PROFILES:
            raise UnknownProfile(f"unknown profile {profile!r}; there are: {', '.join(PROFILES)}")
        self.profile = profile
        self.prompt_caching = prompt_caching
        self._speak = speech(profile, None, False)
        self._conversation = Conversation(profile, as_parts=prompt_caching)
        self._joined: list[Turn] = []  # those whose words are in the conversation
        self._marks: list[Mark] = []  # how far the conversation had come before each of them
        self._task: Turn | None = None

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
        check_limit(max_message_chars)
        view = (
            condensed_history
            if isinstance(condensed_history, View)
            else View.from_events(condensed_history)
        )
        self._join(
            self._with_task(view.turns, initial_user_action),
            speech(self.profile, max_message_chars, vision_is_active),
        )
        messages = self._conversation.messages()
        return self.apply_prompt_caching(messages) if self.prompt_caching else messages

    def _join(self, turns: list[Turn], speak: Callable[[Turn], Said]) -> None:
        """Makes the conversation one of these turns, from the first that differs on."""
        same = 0 if speak is not self._speak else first_difference(self._joined, turns)
        if same < len(self._joined):
            self._conversation.return_to(self._marks[same])
            del self._joined[same:], self._marks[same:]
        self._speak = speak
        for turn in turns[same:]:
            said = turn.remembered(speak)  # which may raise: a kind of the user's own has its say
            mark = self._conversation.mark()
            try:
                self._conversation.add(turn, said)
            except BaseException:  # whatever it is, what is joined and what is said go together
                self._conversation.return_to(mark)
                raise
            self._marks.append(mark)
            self._joined.append(turn)

    def _with_task(self, turns: list[Turn], task: MessageAction | None) -> list[Turn]:
        if task is None or any(turn.kind in (TurnKind.USER, TurnKind.SUMMARY) for turn in turns):
            return turns
        if self._task is None or self._task.events[0] is not task:
            self._task = Turn(TurnKind.USER, (task,), (-1,), (-1,))
        turns.insert(1 if turns and turns[0].kind is TurnKind.SYSTEM else 0, self._task)
        return turns

    def apply_prompt_caching(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with cache markers: on the system message and on the newest two that are the
        user's or a tool's, so that this prompt and the one before it can be found in the cache."""
        marked = list(range(len(messages)))[:1] if messages and messages[0].role == "system" else []
        ends = [n for n, m in enumerate(messages) if m.role in ("user", "tool")]
        marked += ends[-2:]
        result = [
            m if m.as_parts or m.role == "tool" else m.replace(as_parts=True) for m in messages
        ]
        for place in marked:
            result[place] = result[place].replace(cache_marker=True)
        return result
