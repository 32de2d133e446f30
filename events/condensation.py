"""Forgetting, as events: what was condensed, that it is asked for, and how it appears in a view."""

from __future__ import annotations

from collections.abc import Sequence

from .event import (
    Action,
    EventSource,
    InvalidArgument,
    JsonObject,
    Observation,
    Text,
    register_event,
)

__all__ = ["AgentCondensationObservation", "CondensationAction", "CondensationRequestAction"]


@register_event("condensation")
class CondensationAction(Action):
    """Lets go of events, named by ``forgotten_event_ids`` or by an inclusive range of ids.

    ``summary`` and ``summary_offset`` come together or not at all; the offset counts the view's
    events after the removal. A ``ValueError`` is raised if both or neither way of naming is
    used, or half of a pair. ``details`` says why and at what price (reason, condenser, sizes before
    and after, cost); it is ours, OpenHands has no such field.
    """

    forgotten_event_ids: list[int] | None = None
    forgotten_events_start_id: int | None = None
    forgotten_events_end_id: int | None = None
    summary: Text | None = None
    summary_offset: int | None = None
    details: JsonObject | None = None

    def __post_init__(self) -> None:
        ends = (self.forgotten_events_start_id, self.forgotten_events_end_id)
        by_list = self.forgotten_event_ids is not None
        by_range = None not in ends
        if by_list == by_range or (not by_range and ends != (None, None)):
            raise InvalidArgument(
                "a condensation names its events either by forgotten_event_ids or by both ends of "
                f"a range; found ids={self.forgotten_event_ids!r}, start={ends[0]!r}, "
                f"end={ends[1]!r}"
            )
        if (self.summary is None) != (self.summary_offset is None):
            raise InvalidArgument(
                "summary and summary_offset come together, found "
                f"summary={self.summary!r}, summary_offset={self.summary_offset!r}"
            )

    @property
    def forgotten(self) -> Sequence[int]:
        """The ids of the forgotten events; a ``range`` where a range was named."""
        if self.forgotten_event_ids is not None:
            return self.forgotten_event_ids
        assert self.forgotten_events_start_id is not None
        assert self.forgotten_events_end_id is not None
        return range(self.forgotten_events_start_id, self.forgotten_events_end_id + 1)


@register_event("condensation_request")
class CondensationRequestAction(Action):
    """Asks that the history be made smaller, whatever its size: the prompt did not fit, or the user
    (``source``) or the agent (by the call that is the ``cause``) would have it so."""

    @property
    def is_voluntary(self) -> bool:
        """True if it was asked for, and no prompt has been too long."""
        return self.source == EventSource.USER or self.cause is not None


@register_event("condense")
class AgentCondensationObservation(Observation):
    """How a summary, or the stub of a masked result, appears in a view.

    A summary has the id of its condensation; a stub the id, cause and tool call metadata of the
    event whose content it replaces.
    """
