"""The command line: ``eventfold replay`` and ``eventfold check``.

Exit status: 0 fine, 1 something checked does not hold, 2 bad usage or input.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from .. import __version__
from ..condensers import CannotCondense, condenser_from_config
from ..events import CondensationAction, Event, EventfoldError, MessageAction, Run, read_runs
from ..events.formats.base import Format, describe
from ..events.formats.detect import format_of
from ..events.formats.json_rows import parse
from ..memory import ConversationMemory, Message, View, Violation, check_messages
from ..memory.rules import PROFILES, UnknownProfile
from .engine import Step, replay as replay_run
from .report import (
    Shown,
    StepRow,
    Summary,
    comparison_table,
    printable,
    shown_as_json,
    shown_as_text,
    step_table,
    summary_table,
    watched,
)

__all__ = ["app", "main"]

_PROBLEMS_TOLD = 5  # of each run
_VIOLATIONS_TOLD = 10  # of a whole replay
_NAMES_TOLD = 10


class _CannotRun(EventfoldError):
    """What was asked for cannot be done; the message says why, and what can be."""


# typer has had click as a dependency and as a part of its own: this is the one that it uses.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__bases__[0])


class _Commands(TyperGroup):
    """The commands, with one place in which every error becomes a line and an exit status."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            try:
                status = self._status(list(sys.argv[1:] if args is None else args))
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            with contextlib.suppress(OSError):  # what is still buffered has nowhere to go
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = 141  # as if SIGPIPE had ended it
        except _UsageError as error:
            command = "eventfold" if error.ctx is None else error.ctx.command_path
            _say(f"{' '.join(error.format_message().split())} (see {command} --help)")
            status = 2
        except OSError as error:
            _say(f"{error.filename}: {error.strerror}" if error.filename else str(error))
            status = 2
        except EventfoldError as error:
            _say(str(error))
            status = 2
        except (KeyboardInterrupt, typer.Abort):
            status = 130
        sys.exit(status)

    def _status(self, args: list[str]) -> int:
        try:
            with warnings.catch_warnings(), self.make_context("eventfold", args) as context:
                warnings.showwarning = _warn
                self.invoke(context)
        except typer.Exit as done:
            return done.exit_code
        return 0


def _say(text: str) -> None:
    print(f"eventfold: {printable(text)}", file=sys.stderr)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    _say(f"warning: {message}")


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main() -> None:
    """The console script ``eventfold``."""
    app()


def _version(asked: bool) -> None:
    if asked:
        print(f"eventfold {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit status: 0 fine, 1 something checked does not hold, 2 bad usage or input."
)
def _eventfold(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """An agent's history as an append-only log, and every prompt as a fold over it."""


_Profile = Annotated[
    str,
    typer.Option(metavar="NAME", help=f"Whose rules the messages keep: {', '.join(PROFILES)}."),
]
_Json = Annotated[bool, typer.Option("--json", help="JSON lines on stdout, and nothing else.")]


# ---------------------------------------------------------------------- replay


@dataclass(frozen=True, slots=True)
class _Replays:
    """How each run is replayed."""

    condensers: list[str]
    profile: str
    vision: bool
    max_message_chars: int | None
    as_json: bool

    def steps(self, run: Run, condenser: str) -> Iterator[Step]:
        """The steps under one condenser, a fresh one as in a session of its own."""
        done = 0
        try:
            for step in replay_run(
                run,
                condenser_from_config(condenser),
                memory=ConversationMemory(self.profile),
                max_message_chars=self.max_message_chars,
                vision=self.vision,
            ):
                yield step
                done += 1
        except CannotCondense as error:
            raise _CannotRun(f"{run.name} with {condenser}, step {done}: {error}") from error

    def watched(self, run: Run, condenser: str) -> Iterator[Step]:
        """The same with a progress bar, unless rows of JSON run over the same terminal."""
        steps = self.steps(run, condenser)
        if self.as_json and sys.stdout.isatty():
            return steps
        return watched(steps, f"{run.name}, {condenser}", len(run.events))

    def check(self, step: Step) -> list[Violation]:
        return check_messages(step.messages, self.profile, vision=self.vision)


@app.command(
    epilog="Example: eventfold replay runs/ --condenser openhands-v0 --condenser noop",
)
def replay(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH", exists=True, help="Files or folders with recorded trajectories."
        ),
    ],
    condenser: Annotated[
        list[str] | None,
        typer.Option(
            show_default="default",
            metavar="NAME|FILE",
            help="A preset, or a .toml, .yaml or .json file; several are compared.",
        ),
    ] = None,
    profile: _Profile = "portable",
    run: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only the run of this name.")
    ] = None,
    steps: Annotated[
        bool | None,
        typer.Option(
            "--steps/--no-steps",
            show_default="only for one run and one condenser",
            help="Print a line for each step.",
        ),
    ] = None,
    at: Annotated[
        int | None, typer.Option(metavar="STEP", help="Show this step of a single run, from 0.")
    ] = None,
    show: Annotated[
        Shown | None, typer.Option(show_default="messages", help="What of it to show.")
    ] = None,
    as_json: _Json = False,
    vision: Annotated[
        bool, typer.Option("--vision/--no-vision", help="Whether images are sent.")
    ] = False,
    max_message_chars: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Limit each observation to this many characters."),
    ] = None,
) -> None:
    """Replay recorded runs through condensers: what the model would have been sent at each step.

    At every LLM turn of a run the messages are made and checked against the provider's rules. A
    line for each replay says the recorded events, then view, turns, messages and tokens at the last
    step, and the tokens of all steps together (what is paid without a cache). Several condensers
    are compared in a table at the end.
    """
    _check_profile(profile)
    replays = _Replays(
        list(dict.fromkeys(condenser or ["default"])), profile, vision, max_message_chars, as_json
    )
    for name in replays.condensers:  # a name that is wrong is told before anything is read
        condenser_from_config(name)
    runs = _runs(paths, run)
    if at is not None:
        _show_step(replays, _single(runs, run), at, show or Shown.MESSAGES)
    elif show is not None:
        raise _CannotRun("--show needs --at STEP: which step to show")
    else:
        _replay_all(replays, runs, steps)


def _replay_all(replays: _Replays, runs: Iterator[Run], with_steps: bool | None) -> None:
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
    _fail_if_broken(broken, sum(summary.violations for summary in summaries))


def _replay_one(
    replays: _Replays, run: Run, condenser: str, with_steps: bool, broken: list[str]
) -> Summary:
    """Prints the steps if they are wanted; adds to ``broken`` what violations there is room for."""
    summary = Summary(run.name, condenser, events=len(run.events))
    place = f"{run.name} with {condenser}"
    rows: list[StepRow] = []
    for step in replays.watched(run, condenser):
        row = StepRow.of(run.name, condenser, step, replays.check(step))
        summary.add(row)
        room = _VIOLATIONS_TOLD - len(broken)
        broken += [f"{place}, step {step.index}: {found}" for found in row.broken[:room]]
        if replays.as_json:
            _print_json(row.to_json())
        elif with_steps:
            rows.append(row)
    if replays.as_json:
        _print_json(summary.to_json())
    elif with_steps:
        print(f"{printable(place)}\n{step_table(rows)}\n")
    return summary


def _show_step(replays: _Replays, run: Run, at: int, what: Shown) -> None:
    broken: list[str] = []
    if not replays.as_json:
        _tell_problems(run, as_json=False)
    for condenser in replays.condensers:
        made: list[CondensationAction] = []
        count = 0
        for step in replays.watched(run, condenser):
            made += step.condensations
            count = step.index + 1
            if step.index == at:
                break
        else:
            steps = f"{count} steps, 0 to {count - 1}" if count else "no steps"
            raise _CannotRun(f"there is no step {at}: {run.name} has {steps}")
        place = f"{run.name} with {condenser}, step {at}"
        log = log_so_far(run, made, step.events_so_far)
        if replays.as_json:
            head = {"kind": what.value, "run": run.name, "condenser": condenser, "step": at}
            problems = [asdict(problem) for problem in run.problems]
            _print_json({**head, what.value: shown_as_json(what, step, log), "problems": problems})
        else:
            sizes = f"{len(step.messages)} messages, {step.tokens:,} tokens"
            print(f"{printable(place)}: {sizes}", end="\n\n")
            print(shown_as_text(what, step, log), end="\n\n")
        broken += [f"{place}: {violation}" for violation in replays.check(step)]
    _fail_if_broken(broken[:_VIOLATIONS_TOLD], len(broken))


def _fail_if_broken(told: Sequence[str], count: int) -> None:
    """Tells the violations and ends with status 1, if there are any."""
    if not count:
        return
    for violation in told:
        _say(violation)
    if count > len(told):
        _say(f"and {count - len(told)} more violations; --json has them all")
    raise typer.Exit(1)


def _runs(paths: Iterable[Path], wanted: str | None) -> Iterator[Run]:
    others: list[str] = []
    found = False
    for run in chain.from_iterable(map(read_runs, paths)):
        if wanted is None or run.name == wanted:
            found = True
            yield run
        else:
            others.append(run.name)
    if not found:
        raise _CannotRun(f"no run is named {wanted!r}; there are: {_some(others)}")


def _single(runs: Iterator[Run], wanted: str | None) -> Run:
    run = next(runs)
    names = [run.name, *(other.name for other in runs)]
    if len(names) == 1:
        return run
    if wanted is not None:
        raise _CannotRun(f"{len(names)} runs are named {wanted!r}; give the file of one")
    raise _CannotRun(f"--at shows a single run; name one with --run NAME, of: {_some(names)}")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
    return ", ".join(names[:_NAMES_TOLD]) + more


def _tell_problems(run: Run, as_json: bool) -> None:
    """What was odd in a file: all of it as JSON, or the beginning of it on stderr."""
    if as_json:
        for problem in run.problems:
            _print_json({"kind": "problem", "run": run.name, **asdict(problem)})
        return
    for problem in run.problems[:_PROBLEMS_TOLD]:
        print(printable(str(problem)), file=sys.stderr)
    more = len(run.problems) - _PROBLEMS_TOLD
    if more > 0:
        print(f"{printable(run.name)}: and {more} more; --json has them all", file=sys.stderr)


def _print_json(row: dict[str, Any]) -> None:
    print(json.dumps(row))


def _check_profile(name: str) -> None:
    if name not in PROFILES:
        raise UnknownProfile(f"unknown profile {name!r}; there are: {', '.join(PROFILES)}")


# ---------------------------------------------------------------------- check


@app.command(epilog="Example: eventfold check request.json --profile anthropic --window 200000")
def check(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            help="Files of chat messages, JSON or JSONL; - is the standard input.",
        ),
    ],
    profile: _Profile = "portable",
    tools: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            help="The tools of the request: a JSON list, or under 'tools'.",
        ),
    ] = None,
    window: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Tokens that the model takes in all.")
    ] = None,
    max_output_tokens: Annotated[
        int, typer.Option(metavar="N", min=0, help="Tokens of the window kept for the answer.")
    ] = 0,
    as_json: _Json = False,
) -> None:
    """Check chat messages against a provider's rules: which are broken, and where.

    A file holds a list of messages in the OpenAI shape, or an object that has it under 'messages';
    a JSONL file one such value a line. The exit status is 1 if a rule is broken.
    """
    _check_profile(profile)
    if max_output_tokens and window is None:
        raise _CannotRun("--max-output-tokens needs --window N: they are a part of it")
    given = None
    if tools is not None:
        given = _listed(str(tools), _parsed(str(tools), tools.read_bytes()), "tools")
    count = 0
    for file, line, value in chain.from_iterable(map(_values, paths)):
        where = file if line is None else f"{file}:{line}"
        messages = _messages(where, value, profile)
        violations = check_messages(
            messages,
            profile,
            tools=given or (value.get("tools") if isinstance(value, dict) else None),
            window=window,
            max_output_tokens=max_output_tokens,
        )
        count += len(violations)
        place: dict[str, Any] = {"file": file, "line": line}
        numbers = {"messages": len(messages), "violations": len(violations)}
        if as_json:
            for violation in violations:
                _print_json({"kind": "violation", **place, **asdict(violation)})
            _print_json({"kind": "summary", **place, "profile": profile, **numbers})
            continue
        said = f"{len(messages)} messages, violations of {profile}: {len(violations)}"
        for line_of_text in (*violations, said):
            print(printable(f"{where}: {line_of_text}"))
    if count:
        raise typer.Exit(1)


def _values(path: Path) -> Iterator[tuple[str, int | None, Any]]:
    """The JSON values of a file, with its name and their lines: one value, or one a line."""
    name = "stdin" if str(path) == "-" else str(path)
    if path.is_dir():
        raise _CannotRun(
            f"{name} is a folder, and check takes files of chat messages; for a folder of "
            f"trajectories use: eventfold replay {name}"
        )
    data = sys.stdin.buffer.read() if name == "stdin" else path.read_bytes()
    lines = [(n, line) for n, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    if not lines:
        raise _CannotRun(f"{name} is empty: it holds no JSON")
    try:
        yield name, None, _parsed(name, data)
        return
    except _CannotRun:
        # Several lines, of which the first seems whole: a value a line.
        if len(lines) == 1 or not lines[0][1].rstrip().endswith((b"}", b"]")):
            raise
    for number, line in lines:
        yield name, number, _parsed(f"{name}:{number}", line)


def _parsed(where: str, data: bytes) -> Any:
    try:
        return parse(data.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise _CannotRun(f"{where}: {error}") from error


def _messages(where: str, value: Any, profile: str) -> list[Any]:
    """The chat messages in a value."""
    found = value.get("messages") if isinstance(value, dict) else value
    items = found if isinstance(found, list) else []
    has_roles = any(isinstance(item, dict) and "role" in item for item in items)
    known = None if has_roles else format_of(value)
    if known is None:
        return _listed(where, value, "messages")
    raise _CannotRun(
        f"{where} is a trajectory ({known.title if isinstance(known, Format) else known}), and "
        "check takes files of chat messages; to check what a model would have been sent, use: "
        f"eventfold replay FILE --profile {profile}"
    )


def _listed(where: str, value: Any, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else value
    if isinstance(found, list):
        return found
    raise _CannotRun(
        f"{where}: expected a list of {key}, or an object that has it under {key!r}; found "
        f"{describe(value)}"
    )


if __name__ == "__main__":
    main()
