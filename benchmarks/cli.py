"""The command line: ``eventfold replay``, ``retention``, ``check``, ``verify``, ``convert``.

Exit status: 0 fine, 1 something checked does not hold, 2 bad usage or input.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from .. import __version__
from ..condensers import condenser_from_config
from ..events import EventfoldError
from ..memory.rules import PROFILES, UnknownProfile
from ..memory.writing import WRITTEN
from .check import Check
from .convert import convert
from .importing import import_own
from .replays import Replays, replay_all, runs_in, show_step, single
from .report import CannotRun, printable, say
from .retention_report import report_retention
from .show import Shown
from .verify import verify_all

__all__ = ["app", "main"]

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
            say(f"{' '.join(error.format_message().split())} (see {command} --help)")
            status = 2
        except OSError as error:
            say(f"{error.filename}: {error.strerror}" if error.filename else str(error))
            status = 2
        except EventfoldError as error:
            say(str(error))
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


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"warning: {message}")


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
_Condensers = Annotated[
    list[str] | None,
    typer.Option(
        "--condenser",
        show_default="default",
        metavar="NAME|FILE",
        help="A preset, or a .toml, .yaml or .json file; several are compared.",
    ),
]
_Import = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE|FILE",
        help="Import a module or .py file first: one that registers condensers of your own.",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="JSON lines on stdout, and nothing else.")]


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
    condenser: _Condensers = None,
    imports: _Import = None,
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
    _import(imports)
    replays = Replays(
        list(dict.fromkeys(condenser or ["default"])), profile, vision, max_message_chars, as_json
    )
    for name in replays.condensers:  # a name that is wrong is told before anything is read
        condenser_from_config(name)
    runs = runs_in(paths, run)
    if at is not None:
        all_hold = show_step(replays, single(runs, run), at, show or Shown.MESSAGES)
    elif show is not None:
        raise CannotRun("--show needs --at STEP: which step to show")
    else:
        all_hold = replay_all(replays, runs, steps)
    if not all_hold:
        raise typer.Exit(1)


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
        raise CannotRun("--max-output-tokens needs --window N: they are a part of it")
    if Check(profile, tools, window, max_output_tokens, as_json).files(paths):
        raise typer.Exit(1)


@app.command(epilog="Example: eventfold verify .sessions/agent.jsonl --condenser default")
def verify(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", exists=True, help="Files or folders with recorded runs."),
    ],
    condenser: Annotated[
        str,
        typer.Option(metavar="NAME|FILE", help="The condenser that was in use."),
    ] = "noop",
    imports: _Import = None,
    as_json: _Json = False,
) -> None:
    """Prove the prompts of runs that a live loop has recorded: derive each one from the log again,
    and compare the hashes.

    Forgetting stands in the log; what a view condenser masked does not, so name the one that was in
    use. The exit status is 1 if a prompt is another one now.
    """
    _import(imports)
    condenser_from_config(condenser)  # a name that is wrong is told before anything is read
    if not verify_all(runs_in(paths, None), condenser, as_json=as_json):
        raise typer.Exit(1)


@app.command(epilog="Example: eventfold retention runs/ --condenser llm --condenser digest")
def retention(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...",
            exists=True,
            show_default="a made-up run with planted facts",
            help="Files or folders with recorded runs.",
        ),
    ] = None,
    condenser: _Condensers = None,
    imports: _Import = None,
    as_json: _Json = False,
) -> None:
    """Count the facts that are left when recorded runs are condensed: paths, ids, numbers, names
    and addresses that one turn alone tells.

    Of the facts that were forgotten until the last prompt of a run: how many the summarizer was
    given, and how many stand in that prompt all the same, word for word. By kind, by who told
    them, and by age in LLM turns. No model is asked: summaries are those of the extractive
    stand-in, whatever a file says.
    """
    _import(imports)
    names = list(dict.fromkeys(condenser or ["default"]))
    for name in names:  # a name that is wrong is told before anything is read
        condenser_from_config(name)
    report_retention(runs_in(paths, None) if paths else None, names, as_json=as_json)


@app.command("convert", epilog="Example: eventfold convert session.json out/ --to eventfold")
def convert_runs(
    paths: Annotated[list[Path], typer.Argument(metavar="IN", help="Files or folders of runs.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A file, or a folder for several.")],
    to: Annotated[
        str, typer.Option("--to", metavar="FORMAT", help=f"One of: {', '.join(WRITTEN)}.")
    ],
) -> None:
    """Write recorded runs in another format: one run to a file, several into a folder."""
    for made in convert(paths, out, to):
        for problem in made.problems:
            print(printable(str(problem)), file=sys.stderr)
        print(printable(f"{made.path}: {made.events} events"))


def _import(names: list[str] | None) -> None:
    for name in names or ():
        import_own(name)


def _check_profile(name: str) -> None:
    if name not in PROFILES:
        raise UnknownProfile(f"unknown profile {name!r}; there are: {', '.join(PROFILES)}")


if __name__ == "__main__":
    main()
