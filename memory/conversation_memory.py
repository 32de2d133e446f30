"""From a view to the messages that an LLM is sent: valid by construction, whatever the log
holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..events.actions import MessageAction
from ..events.event import Event
from .joining import Conversation, NothingToSend
from .message import Message
from .rendering import check_limit
from .rules import PROFILES, UnknownProfile
from .speech import Said, Speech
from .turns import Turn, TurnKind
from .view import View

__all__ = ["ConversationMemory", "NothingToSend"]


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
        self._speech = Speech(profile, None, vision=False)
        self._said: dict[Turn, Said] = {}
        self._joined: list[Turn] = []  # those whose words are in the conversation for good
        self._unsettled: set[Turn] = set()  # those behind them, when last asked
        self._conversation = Conversation(profile, as_parts=prompt_caching)

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
        speech = Speech(self.profile, max_message_chars, vision_is_active)
        turns = _with_task(view.turns, initial_user_action)
        if speech != self._speech or turns[: len(self._joined)] != self._joined:
            self._begin_anew(speech, turns)
        for turn in self._unsettled.difference(turns[len(self._joined) :]):
            self._said.pop(turn, None)  # it has changed since
        # Only the newest response can still change, and what stands behind it can move.
        newest = view.newest_response
        settled = turns.index(newest) if newest in turns else len(turns)
        for turn in turns[len(self._joined) : settled]:
            self._conversation.add(turn, self._said_by(turn))
            self._joined.append(turn)
        before = self._conversation.mark()
        tail = turns[len(self._joined) :]
        self._unsettled = set(tail)
        for turn in tail:
            self._conversation.add(turn, self._said_by(turn))
        try:
            messages = self._conversation.messages()
        finally:
            self._conversation.return_to(before)
        return self.apply_prompt_caching(messages) if self.prompt_caching else messages

    def _begin_anew(self, speech: Speech, turns: list[Turn]) -> None:
        """Forgets what was joined, and what turns say that are no longer there."""
        kept = set(turns) if speech == self._speech else ()
        self._said = {turn: said for turn, said in self._said.items() if turn in kept}
        self._speech = speech
        self._joined = []
        self._conversation = Conversation(self.profile, as_parts=self.prompt_caching)

    def _said_by(self, turn: Turn) -> Said:
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
        result = [
            m if m.as_parts or m.role == "tool" else m.replace(as_parts=True) for m in messages
        ]
        for place in marked:
            result[place] = result[place].replace(cache_marker=True)
        return result


def _with_task(turns: list[Turn], task: MessageAction | None) -> list[Turn]:
    if task is None or any(turn.kind in (TurnKind.USER, TurnKind.SUMMARY) for turn in turns):
        return turns
    first = 1 if turns and turns[0].kind is TurnKind.SYSTEM else 0
    turns.insert(first, Turn(TurnKind.USER, (task,), (-1,), (-1,)))
    return turns
