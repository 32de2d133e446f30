"""Histories made by hand, each with a condenser: what ``tests/parity.json`` holds the facts of."""

from __future__ import annotations

from typing import Any

_TEN = "c1 r1 c2 r2 c3 r3 c4 r4 c5 r5"

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("v0", f"S U {_TEN}", {"type": "noop"}),
    ("v0", f"S U {_TEN}", {"type": "amortized", "max_size": 10, "keep_first": 2}),
    ("v0", f"S U {_TEN} C2-5@2", {"type": "amortized", "max_size": 8, "keep_first": 2}),
    ("v0", f"S U {_TEN}", {"type": "observation_masking", "attention_window": 4}),
    ("v0", "S U o1 p1 o2 p2 o3 p3", {"type": "browser_output_masking", "attention_window": 1}),
    ("v0", f"U {_TEN}", {"type": "recent", "keep_first": 1, "max_events": 5}),
    ("v0", f"S U {_TEN}", {"type": "recent", "keep_first": 2, "max_events": 20}),
    ("v0", f"S U {_TEN} Q", {"type": "conversation_window"}),
    ("v0", f"S U R K {_TEN} Q", {"type": "conversation_window"}),
    ("v0", f"S U {_TEN}", {"type": "llm", "max_size": 10, "keep_first": 2}),
    ("v0", f"S U {_TEN} c6 r6", {"type": "llm", "max_size": 12, "keep_first": 2}),
    ("v0", "S U U c1 r1 c2 r2 c3 r3 c4 r4", {"type": "llm", "max_size": 10, "keep_first": 1}),
    ("v0", f"S U {_TEN} Q", {"type": "llm", "max_size": 100, "keep_first": 1}),
    ("v0", f"S U {_TEN} C2-5@2 c6 r6 c7 r7", {"type": "llm", "max_size": 12, "keep_first": 3}),
    ("v1", f"S U {_TEN}", {"type": "noop"}),
    ("v1", f"S U {_TEN}", {"type": "llm", "max_size": 10, "keep_first": 2}),
    ("v1", f"S U {_TEN} c6 r6 c7 r7 c8 r8", {"type": "llm", "max_size": 14, "keep_first": 3}),
    ("v1", "S U c1 r1 c2,3 r3 r2 c4 r4 c5 r5", {"type": "llm", "max_size": 10, "keep_first": 2}),
    ("v1", f"S U {_TEN} Q", {"type": "llm", "max_size": 80, "keep_first": 2}),
    ("v1", f"S U U {_TEN} c6 r6", {"type": "llm", "max_size": 14, "keep_first": 2}),
    ("v1", "S U Q", {"type": "llm", "max_size": 80, "keep_first": 4}),
]
