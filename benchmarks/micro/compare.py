"""Runs the same workload in eventfold and its peers, and writes the table in docs/performance.md.

python benchmarks/micro/compare.py --langchain PYTHON --openhands-sdk PYTHON --openhands-v0 PYTHON

Each PYTHON is the interpreter of an environment that the library is installed in; libraries that
are not named are left out. eventfold is taken from the interpreter that runs this.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parent.parent / "docs" / "performance.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
CLEARLY = 0.9  # what differs by less is the noise of the machine
PEERS = {
    "LangChain": ("--langchain", "langchain_steps.py"),
    "OpenHands SDK": ("--openhands-sdk", "openhands_sdk_steps.py"),
    "OpenHands V0": ("--openhands-v0", "openhands_v0_steps.py"),
}


@dataclass
class Library:
    """What is run, and what it measured: the smallest of all repeats for each figure."""

    name: str
    command: list[str]
    figures: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def measure(self, *options: str) -> None:
        done = subprocess.run([*self.command, *options], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{self.name}: {' '.join(self.command)} failed with {done.returncode}")
        found = json.loads(done.stdout.splitlines()[-1])
        self.versions |= found["versions"]
        for key, value in found["figures"].items():
            self.figures[key] = min(value, self.figures.get(key, value))


@dataclass(frozen=True)
class Row:
    """A line of the table: what, the figure's name, its unit.

    ``ours`` is the name of the figure of eventfold that stands beside it, if that is another.
    """

    title: str
    key: str
    unit: str = "ms"
    ours: str = ""


ROWS = (
    Row("append two events, at 6,000 events", "append"),
    Row("a step without condensing, at 6,000 events", "step"),
    Row("the same, and its tokens counted", "step_counted"),
    Row("a step with a rolling condenser, after 100 steps", "rolling_100"),
    Row("the same after 3,000 steps (6,000 events)", "rolling_3000"),
    Row(
        "the same with all that the loop does with its history", "rolling_all", "ms", "rolling_3000"
    ),
    Row("fold 6,000 events from scratch", "fold"),
    Row("load 6,000 recorded events from parsed JSON", "load"),
    Row("memory of an event", "memory", "kB"),
    Row("import the names of a loop", "import"),
)


def main() -> None:
    options = arguments()
    eventfold = Library("eventfold", [sys.executable, str(HERE / "eventfold_steps.py")])
    peers = [
        Library(name, [python, str(HERE / script)])
        for name, (option, script) in PEERS.items()
        if (python := getattr(options, option.strip("-").replace("-", "_")))
    ]
    for repeat in range(options.repeats):
        for library in (eventfold, *peers):
            print(f"{repeat + 1} of {options.repeats}: {library.name}", file=sys.stderr, flush=True)
            library.measure()
    print("growth", file=sys.stderr, flush=True)
    eventfold.measure("--growth")
    text = "\n".join(
        [*compared(eventfold, peers), "", *alone(eventfold), "", *versions(eventfold, peers)]
    )
    print(text)
    if not options.dry_run:
        write(text)


def arguments() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, (option, _) in PEERS.items():
        parser.add_argument(option, metavar="PYTHON", help=f"interpreter that has {name}")
    parser.add_argument("--repeats", type=int, default=3, help="of which the best counts")
    parser.add_argument("--dry-run", action="store_true", help="print the table, write nothing")
    return parser.parse_args()


# ---------------------------------------------------------------------- tables


def compared(eventfold: Library, peers: list[Library]) -> Iterator[str]:
    """A row for each measurement, a column for each library."""
    yield "| | eventfold |" + "".join(f" {peer.name} |" for peer in peers)
    yield "|---|---:|" + "---:|" * len(peers)
    faster = []
    for row in ROWS:
        ours = eventfold.figures[row.ours or row.key]
        cells = [f"{shown(ours)} {row.unit}"]
        for peer in peers:
            theirs = peer.figures.get(row.key)
            cells.append(
                "-" if theirs is None else f"{shown(theirs)} ({shown(theirs / ours)} times)"
            )
            if theirs is not None and theirs < ours * CLEARLY:
                faster.append(f"{row.title}, {peer.name}: {shown(ours / theirs)} times as fast")
        yield f"| {row.title} | {' | '.join(cells)} |"
    growths = [
        shown(library.figures["rolling_3000"] / library.figures["rolling_100"]) + " times"
        for library in (eventfold, *peers)
    ]
    yield f"| growth of the rolling step, from 100 to 3,000 steps | {' | '.join(growths)} |"
    if peers:
        yield ""
        yield "A peer was clearly faster in: " + ("; ".join(faster) or "nothing") + "."


def alone(eventfold: Library) -> Iterator[str]:
    """What is compared with eventfold itself, or with pydantic."""
    figures = eventfold.figures
    growth = {int(k.split("_")[1]): v for k, v in figures.items() if k.startswith("growth_")}
    first = growth[min(growth)]
    yield "| rolling, mean of 500 steps | " + " | ".join(f"{at:,} steps" for at in growth) + " |"
    yield "|---|" + "---:|" * len(growth)
    yield "| a step | " + " | ".join(f"{shown(value)} ms" for value in growth.values()) + " |"
    yield "| growth | " + " | ".join(f"{shown(v / first)} times" for v in growth.values()) + " |"
    yield ""
    yield "| eventfold | | compared with | |"
    yield "|---|---:|---|---:|"
    for title, key, other, base in (
        ("a step with `observation_masking`, at 6,000 events", "with_masking", *_WITHOUT),
        ("a step with the pipeline `default`, at 6,000 events", "with_default", *_WITHOUT),
        (
            "a rolling step through `record` and `observe`, with the prompt's hash",
            "recorded",
            "the rolling step above",
            "rolling_3000",
        ),
        (
            "a rolling step without the ledger below each summary",
            "without_ledger",
            "the rolling step above",
            "rolling_3000",
        ),
        ("import the names of a loop", "import", "`import pydantic`", "import_pydantic"),
        (
            "import the names of a loop",
            "import",
            "`from pydantic import BaseModel`",
            "import_model",
        ),
    ):
        ratio = figures[key] / figures[base]
        yield f"| {title} | {shown(figures[key])} ms | {other} | {shown(ratio)} times |"


_WITHOUT = ("a step without a condenser", "step_counted")


def versions(eventfold: Library, peers: list[Library]) -> Iterator[str]:
    for library in (eventfold, *peers):
        said = ", ".join(f"{name} {version}" for name, version in library.versions.items())
        yield f"* {library.name}: {said}"


def shown(value: float) -> str:
    """Two significant digits, or all before the point."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


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
