"""Logs for tests: by hand (``log(S(), U(), A("r1", "a"), O("a"))``), or drawn by Hypothesis."""

from tests.drawn_logs import event_logs, texts
from tests.drawn_wire import json_objects, json_values, wire_events
from tests.notation import A, C, Call, E, Item, M, O, R, Response, S, U, batch, log, named, numbered
from tests.samples import LintAction, LintObservation

__all__ = [
    "A",
    "C",
    "Call",
    "E",
    "Item",
    "LintAction",
    "LintObservation",
    "M",
    "O",
    "R",
    "Response",
    "S",
    "U",
    "batch",
    "event_logs",
    "json_objects",
    "json_values",
    "log",
    "named",
    "numbered",
    "texts",
    "wire_events",
]
