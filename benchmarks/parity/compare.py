"""Compares what eventfold's condensers and OpenHands' forget; writes part of docs/openhands.md.

python benchmarks/parity/compare.py --openhands-v0 PYTHON --openhands-sdk PYTHON

Each PYTHON is the interpreter of an environment that the peer is installed in. eventfold is taken
from the interpreter that runs this. Ends with status 1 if a difference has no reason.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from case import Case  # type: ignore[import-not-found]
from eventfold_condensers import (  # type: ignore[import-not-found]  # beside this script
    answered,
    read,
    wanted_of,
)
from hand_made import CASES  # type: ignore[import-not-found]
from histories import as_v0, as_v1, made_up, told  # type: ignore[import-not-found]
from reasons import REASONS, reason_for  # type: ignore[import-not-found]
from recordings import recorded  # type: ignore[import-not-found]

from eventfold import View

Json = dict[str, Any]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DOCUMENT = ROOT / "docs" / "openhands.md"
FACTS = ROOT / "tests" / "parity.json"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"

WINDOW: Json = {"type": "conversation_window"}
SUMMARIZING: list[Json] = [
    {"type": "llm", "max_size": 10, "keep_first": 1},
    {"type": "llm", "max_size": 20, "keep_first": 4},
    {"type": "llm", "max_size": 80, "keep_first": 2},
]
CONDENSERS: dict[str, list[Json]] = {
    "v0": [
        {"type": "noop"},
        {"type": "recent", "keep_first": 1, "max_events": 10},
        {"type": "recent", "keep_first": 4, "max_events": 30},
        {"type": "observation_masking", "attention_window": 5},
        {"type": "observation_masking", "attention_window": 20},
        {"type": "browser_output_masking", "attention_window": 1},
        {"type": "browser_output_masking", "attention_window": 3},
        {"type": "amortized", "max_size": 10, "keep_first": 0},
        {"type": "amortized", "max_size": 20, "keep_first": 4},
        {"type": "amortized", "max_size": 80, "keep_first": 1},
        WINDOW,
        *SUMMARIZING,
        *({**each, "type": "structured"} for each in SUMMARIZING),
        *({**each, "type": "llm_attention"} for each in SUMMARIZING),
        *(
            {
                "type": "pipeline",
                "condensers": [
                    WINDOW,
                    {"type": "browser_output_masking", "attention_window": 2},
                    {"type": "llm", "max_size": size, "keep_first": 4},
                ],
            }
            for size in (20, 120)
        ),
    ],
    "v1": [
        {"type": "noop"},
        *SUMMARIZING,
        {"type": "llm", "max_size": 240, "keep_first": 2},
        {"type": "llm", "max_size": 240, "keep_first": 2, "max_tokens": 1_500},
        {"type": "llm", "max_size": 240, "keep_first": 4, "max_tokens": 6_000},
        {"type": "pipeline", "condensers": [{"type": "noop"}, SUMMARIZING[1]]},
    ],
}
NAMES = {"v0": "OpenHands V0", "v1": "OpenHands SDK"}
SCRIPTS = {"v0": "openhands_v0_condensers.py", "v1": "openhands_sdk_condensers.py"}


def main() -> None:
    logging.disable(logging.CRITICAL)
    options = arguments()
    peers = {"v0": options.openhands_v0, "v1": options.openhands_sdk}
    tallies = []
    for form, python in peers.items():
        if python:
            peer = Peer(form, python)
            tallies.append(compared(peer, histories(form, options)))
            if options.record:
                record(peer)
            peer.close()
    text = "\n".join([*table(tallies), "", *reasons(tallies)])
    print(text)
    unexplained = [line for tally in tallies for line in tally.unexplained]
    for line in sorted(unexplained, key=len)[: options.show]:
        print(f"\nNo reason: {line}", file=sys.stderr)
    if options.write:
        write(text)
    sys.exit(1 if unexplained else 0)


def arguments() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--openhands-v0", metavar="PYTHON", help="interpreter with openhands-ai")
    parser.add_argument("--openhands-sdk", metavar="PYTHON", help="interpreter with openhands-sdk")
    parser.add_argument("--trajectories", metavar="FOLDER", help="recorded runs, besides")
    parser.add_argument("--histories", type=int, default=300, help="how many are made up")
    parser.add_argument("--show", type=int, default=5, help="differences without a reason to print")
    parser.add_argument("--write", action="store_true", help="into docs/openhands.md")
    parser.add_argument("--record", action="store_true", help="the facts in tests/parity.json")
    return parser.parse_args()


# ---------------------------------------------------------------------- asking both


class Peer:
    """A process that has one of OpenHands' two libraries."""

    def __init__(self, form: str, python: str) -> None:
        self.form = form
        self._process = subprocess.Popen(
            [python, str(HERE / SCRIPTS[form])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, events: list[Json], condensers: list[Json]) -> Json:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(
            json.dumps({"events": events, "condensers": condensers}),
            file=self._process.stdin,
            flush=True,
        )
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{NAMES[self.form]}: {SCRIPTS[self.form]} ended with {self._process.wait()}")
        found: Json = json.loads(line)
        return found

    def close(self) -> None:
        self._process.communicate()


def histories(form: str, options: argparse.Namespace) -> Iterator[tuple[str, list[Json]]]:
    """Made-up ones, and recorded runs as they were after each quarter."""
    for history in made_up(options.histories):
        if form == "v0":
            yield history.name, as_v0(history.made)
        elif not history.only_v0:
            yield history.name, as_v1(history.made)
    if options.trajectories:
        for name, events in recorded(Path(options.trajectories), form):
            for quarter in (1, 2, 3, 4):
                yield f"{name}, {quarter}/4", events[: len(events) * quarter // 4]


def cases(peer: Peer, events: list[Json], configs: list[Json]) -> Iterator[Case]:
    """What both answer; none if the peer cannot read the history."""
    log, own_ids = read(events, peer.form)
    reply = {
        "text": "In short: the handlers were read, and three of them fail.",
        "structured": json.dumps(dict.fromkeys(_FIELDS, "the handlers were read")),
        "ids": ranking(View.from_events(log)),
    }
    asked = peer.ask(events, [{"config": config, "reply": reply} for config in configs])
    for config, theirs in zip(configs, asked.get("results", ()), strict=False):
        for key in ("view", "kept", "masked", "forgotten"):
            if key in theirs:
                theirs[key] = [own_ids.get(event, event) for event in theirs[key]]
        ours = answered(log, wanted_of(config), reply)
        yield Case(peer.form, log, config, reply, theirs, ours)


_FIELDS = ("user_context", "completed_tasks", "pending_tasks", "current_state")


def ranking(view: View) -> list[int]:
    """The ids of two thirds of the view's events, in an order of no meaning."""
    ids = [event.id for event in view if event.kind not in ("condensation", "condense")]
    return random.Random(len(ids)).sample(ids, len(ids) * 2 // 3)


# ---------------------------------------------------------------------- counting


@dataclass
class Tally:
    """What was found for one peer."""

    form: str
    histories: int = 0
    unreadable: int = 0
    of_type: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    of_reason: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)

    def count(self, name: str, case: Case) -> None:
        counts = self.of_type[case.config["type"]]
        counts["all"] += 1
        if not case.differs:
            counts["same"] += 1
            return
        reason = reason_for(case)
        if reason is None:
            counts["unexplained"] += 1
            answers = json.dumps({"theirs": case.theirs, "ours": case.ours})
            self.unexplained.append(f"{NAMES[self.form]}, {name}, {case.config}: {answers}")
            return
        counts["theirs" if reason.of_theirs else "ours"] += 1
        self.of_reason[reason.name] += 1


def compared(peer: Peer, found: Iterable[tuple[str, list[Json]]]) -> Tally:
    tally = Tally(peer.form)
    for name, events in found:
        any_case = False
        for case in cases(peer, events, CONDENSERS[peer.form]):
            tally.count(name, case)
            any_case = True
        tally.histories += any_case
        tally.unreadable += not any_case
    return tally


def table(tallies: list[Tally]) -> Iterator[str]:
    """A row for each condenser."""
    yield "| | `type` | compared | the same | theirs breaks a rule | a rule of ours | no reason |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for tally in tallies:
        for kind, counts in tally.of_type.items():
            columns = ("all", "same", "theirs", "ours", "unexplained")
            cells = " | ".join(f"{counts[column]:,}" for column in columns)
            yield f"| {NAMES[tally.form]} | `{kind}` | {cells} |"
    yield ""
    for tally in tallies:
        left_out = f", {tally.unreadable} could not be read" if tally.unreadable else ""
        yield f"* {NAMES[tally.form]}: {tally.histories:,} histories{left_out}"


def reasons(tallies: list[Tally]) -> Iterator[str]:
    """How often each reason was the first that holds."""
    yield f"| reason | {' | '.join(NAMES[tally.form] for tally in tallies)} |"
    yield "|---|" + "---:|" * len(tallies)
    for title, of_theirs in (("theirs", True), ("eventfold", False)):
        for reason in REASONS:
            found = [tally.of_reason[reason.name] for tally in tallies]
            if reason.of_theirs == of_theirs and any(found):
                yield f"| {title}: {reason.name} | {' | '.join(map(str, found))} |"


# ---------------------------------------------------------------------- writing


def record(peer: Peer) -> None:
    """The answers to the hand-made histories, as facts for a test that needs no peer."""
    facts = json.loads(FACTS.read_text("utf-8")) if FACTS.exists() else []
    facts = [fact for fact in facts if fact["form"] != peer.form]
    for form, notation, config in CASES:
        if form != peer.form:
            continue
        made = told(notation)
        (case,) = cases(peer, as_v0(made) if form == "v0" else as_v1(made), [config])
        fact: Json = {"form": form, "history": notation, "condenser": config}
        fact["openhands"] = _facts(case.theirs)
        if case.differs:
            reason = reason_for(case)
            fact["eventfold"] = _facts(case.ours)
            fact["reason"] = None if reason is None else reason.name
        facts.append(fact)
    lines = ",\n".join(json.dumps(fact) for fact in facts)
    FACTS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _facts(answer: Json) -> Json:
    if "error" in answer:
        return {"error": answer["error"].partition(":")[0]}
    return {"kept": answer["kept"], "masked": answer["masked"]}


def write(text: str) -> None:
    """Puts the text between the markers."""
    document = DOCUMENT.read_text(encoding="utf-8")
    before, found_begin, rest = document.partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not (found_begin and found_end):
        sys.exit(f"{DOCUMENT} has no {BEGIN} ... {END}")
    DOCUMENT.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
