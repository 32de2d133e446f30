"""Recorded runs under several condensers: each step checked, and all of it told."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path

from ..condensers import CannotCondense, condenser_from_config
from ..events import Run, read_runs
from ..memory import ConversationMemory, Violation, check_messages
from .engine import Step, replay
from .report import (
    CannotRun,
    StepRow,
    Summary,
    comparison_table,
    print_json,
    printable,
    say,
    step_table,
    summary_table,
    watched,
)
from .show import Shown, shown_as_json, shown_as_text

__all__ = ["Replays", "replay_all", "runs_in", "show_step", "single"]

_PROBLEMS_TOLD = 5  # of each run
_VIOLATIONS_TOLD = 10  # of a whole replay
_NAMES_TOLD = 10


@dataclass(frozen=True, slots=True)
class Replays:
    """How each run is replayed."""

    condensers: list[str]
    profile: str
    vision: bool
    max_message_chars: int | None
    as_json: bool

    def steps(self, run: Run, condenser: str) -> Iterator[Step]:
        """The steps under one condenser, a fresh one as in a session of its own; with a progress
        bar, unless rows of JSON run over the same terminal."""
        steps = self._steps(run, condenser)
        if self.as_json and sys.stdout.isatty():
            return steps
        return watched(steps, f"{run.name}, {condenser}", len(run.events))

    def _steps(self, run: Run, condenser: str) -> Iterator[Step]:
        done = 0
        try:
            for step in replay(
                run,
                condenser_from_config(condenser),
                memory=ConversationMemory(self.profile),
                max_message_chars=self.max_message_chars,
                vision=self.vision,
            ):
                yield step
                done += 1
        except CannotCondense as error:
            raise CannotRun(f"{run.name} with {condenser}, step {done}: {error}") from error

    def check(self, step: Step) -> list[Violation]:
        return check_messages(step.messages, self.profile, vision=self.vision)


def replay_all(replays: Replays, runs: Iterator[Run], with_steps: bool | None) -> bool:
    """Prints the replays of all runs, and whether all rules hold. Unless ``with_steps`` says so,
    the steps are printed if there is one replay."""
    first = list(islice(runs, 2))
    if with_steps is None:
        with_steps = len(first) == len(replays.condensers) == 1
    summaries: list[Summary] = []
    broken: list[str] = []
    for run in chain(first, runs):
        _tell_problems(run, replays.as_json)
        summaries += [
            _replay_one(replays, run, condenser, with_steps, broken)
            for condenser in replays.condensers
        ]
    if not replays.as_json:
        print(summary_table(summaries))
        if len(replays.condensers) > 1:
            print(f"\nAll runs\n{comparison_table(summaries)}")
    return _tell_violations(broken, sum(summary.violations for summary in summaries))


def _replay_one(
    replays: Replays, run: Run, condenser: str, with_steps: bool, broken: list[str]
) -> Summary:
    """Prints the steps if they are wanted; adds to ``broken`` what violations there is room for."""
    summary = Summary(run.name, condenser, events=len(run.events))
    place = f"{run.name} with {condenser}"
    rows: list[StepRow] = []
    for step in replays.steps(run, condenser):
        row = StepRow.of(run.name, condenser, step, replays.check(step))
        summary.add(row)
        room = _VIOLATIONS_TOLD - len(broken)
        broken += [f"{place}, step {step.index}: {found}" for found in row.broken[:room]]
        if replays.as_json:
            print_json(row.to_json())
        elif with_steps:
            rows.append(row)
    if replays.as_json:
        print_json(summary.to_json())
    elif with_steps:
        print(f"{printable(place)}\n{step_table(rows)}\n")
    return summary


def show_step(replays: Replays, run: Run, at: int, what: Shown) -> bool:
    """Prints a step under each condenser, and whether all rules hold there."""
    broken: list[str] = []
    if not replays.as_json:
        _tell_problems(run, as_json=False)
    for condenser in replays.condensers:
        step = _step(replays, run, condenser, at)
        place = f"{run.name} with {condenser}, step {at}"
        if replays.as_json:
            head = {"kind": what.value, "run": run.name, "condenser": condenser, "step": at}
            problems = [asdict(problem) for problem in run.problems]
            print_json({**head, what.value: shown_as_json(what, step), "problems": problems})
        else:
            sizes = f"{len(step.messages)} messages, {step.tokens:,} tokens"
            print(f"{printable(place)}: {sizes}", end="\n\n")
            print(shown_as_text(what, step), end="\n\n")
        broken += [f"{place}: {violation}" for violation in replays.check(step)]
    return _tell_violations(broken[:_VIOLATIONS_TOLD], len(broken))


def _step(replays: Replays, run: Run, condenser: str, at: int) -> Step:
    count = 0
    for step in replays.steps(run, condenser):
        if step.index == at:
            return step
        count += 1
    steps = f"{count} steps, 0 to {count - 1}" if count else "no steps"
    raise CannotRun(f"there is no step {at}: {run.name} has {steps}")


def _tell_violations(told: Sequence[str], count: int) -> bool:
    """Says the violations on stderr, and whether there are none."""
    for violation in told:
        say(violation)
    if count > len(told):
        say(f"and {count - len(told)} more violations; --json has them all")
    return not count


def _tell_problems(run: Run, as_json: bool) -> None:
    """What was odd in a file: all of it as JSON, or the beginning of it on stderr."""
    if as_json:
        for problem in run.problems:
            print_json({"kind": "problem", "run": run.name, **asdict(problem)})
        return
    for problem in run.problems[:_PROBLEMS_TOLD]:
        print(printable(str(problem)), file=sys.stderr)
    more = len(run.problems) - _PROBLEMS_TOLD
    if more > 0:
        print(f"{printable(run.name)}: and {more} more; --json has them all", file=sys.stderr)


def runs_in(paths: Iterable[Path], wanted: str | None) -> Iterator[Run]:
    """The runs of files and folders: all, or those of one name. Raises ``CannotRun`` if there is
    none of that name."""
    others: list[str] = []
    found = False
    for run in chain.from_iterable(map(read_runs, paths)):
        if wanted is None or run.name == wanted:
            found = True
            yield run
        else:
            others.append(run.name)
    if not found:
        raise CannotRun(f"no run is named {wanted!r}; there are: {_some(others)}")


def single(runs: Iterator[Run], wanted: str | None) -> Run:
    """The only run. Raises ``CannotRun`` if there are others."""
    run = next(runs)
    names = [run.name, *(other.name for other in runs)]
    if len(names) == 1:
        return run
    if wanted is not None:
        raise CannotRun(f"{len(names)} runs are named {wanted!r}; give the file of one")
    raise CannotRun(f"--at shows a single run; name one with --run NAME, of: {_some(names)}")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
    return ", ".join(names[:_NAMES_TOLD]) + more
