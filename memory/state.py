"""What a condenser and a step loop know of a session: its history, its view, and notes beside."""

from __future__ import annotations

from typing import Any

from ..events.event import Event
from ..events.stream import EventStream
from .view import View

__all__ = ["State"]


class State:
    """A session's history and the view of it, which catches up with the stream when asked.

    ``extra_data`` holds what condensers say of their decisions; nothing is steered by it.
    """

    def __init__(self, stream: EventStream) -> None:
        self.stream = stream
        self.extra_data: dict[str, Any] = {}
        self._view = View()
        self._folded = 0  # how many events of the stream are in the view

    @property
    def history(self) -> list[Event]:
        """All events of the session."""
        return list(self.stream.events())

    @property
    def view(self) -> View:
        """The view as of now: a snapshot of the caller's own. Later events do not change it, and
        appending to it does not change the state."""
        self._catch_up()
        return self._view.copy()

    @property
    def waiting(self) -> list[Event]:
        """The actions of the newest LLM response that wait for their results, in their order."""
        self._catch_up()
        return self._view.waiting

    def begins_response(self, event: Event) -> bool:
        """True if this event, appended now, would begin a new LLM response."""
        self._catch_up()
        return self._view.begins_response(event)

    def _catch_up(self) -> None:
        if len(self.stream) > self._folded:
            for event in self.stream.events(self._folded):
                self._view.append(event)
                self._folded += 1
