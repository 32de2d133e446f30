"""For tests of the command line: it is run in this process, on small runs that are written here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from eventfold.benchmarks import cli


def run(*args: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli.app, [str(arg) for arg in args], input=stdin)


def ok(*args: object, stdin: str | None = None) -> str:
    """What a command that succeeds prints."""
    result = run(*args, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*args: object, stdin: str | None = None) -> str:
    """The one line in which a command says why it cannot."""
    result = run(*args, stdin=stdin)
    assert result.exit_code == 2, result.output
    line = result.stderr.splitlines()[-1]
    assert line.startswith("eventfold: ")
    assert "Traceback" not in result.output
    return line.removeprefix("eventfold: ")


def rows(*args: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ok(*args, "--json").splitlines()]


def cells(table: str) -> list[list[str]]:
    """The lines of a table of single words."""
    return [line.split() for line in table.splitlines()]


# Runs, as OpenHands V0 writes them: a user message, two calls with their results, the last word.


def user(text: str, **args: Any) -> dict[str, Any]:
    return {"source": "user", "action": "message", "args": {"content": text, **args}}


def call(call_id: str, command: str) -> dict[str, Any]:
    asked = {
        "id": call_id,
        "type": "function",
        "function": {"name": "execute_bash", "arguments": json.dumps({"command": command})},
    }
    message = {"role": "assistant", "content": None, "tool_calls": [asked]}
    return {
        "source": "agent",
        "action": "run",
        "args": {"command": command},
        "tool_call_metadata": {
            "function_name": "execute_bash",
            "tool_call_id": call_id,
            "model_response": {"id": f"of-{call_id}", "choices": [{"message": message}]},
            "total_calls_in_response": 1,
        },
    }


def result(action: dict[str, Any], cause: int, content: str) -> dict[str, Any]:
    return {
        "source": "agent",
        "observation": "run",
        "content": content,
        "extras": {"command": action["args"]["command"], "metadata": {"exit_code": 0}},
        "cause": cause,
        "tool_call_metadata": action["tool_call_metadata"],
    }


def events(text: str = "ok", **args: Any) -> list[dict[str, Any]]:
    first, second = call("a", "ls src"), call("b", "cat src/main.py")
    log = [
        user("Fix the bug.", **args),
        *(first, result(first, 1, text)),
        *(second, result(second, 3, text)),
        {"source": "agent", "action": "message", "args": {"content": "It is fixed."}},
    ]
    return [{"id": place, **event} for place, event in enumerate(log)]


def written(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


SMALL = """
[condenser]
type = "llm"
llm_config = {model = "extractive"}
max_size = 4
"""


def small_condenser(folder: Path) -> Path:
    """A condenser that summarizes what is more than four events."""
    path = folder / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path
