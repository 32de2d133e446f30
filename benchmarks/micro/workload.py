"""The same synthetic run for eventfold and its peers: what a coding agent does, step by step.

A step is one tool call and its result of 900 characters. Nothing here imports eventfold, so that
each peer can use it from an environment of its own.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, Protocol

SYSTEM = "You are a coding agent. Work step by step, and verify what you do."
TASK = "Make the test suite of this repository pass."
SUMMARY = (
    "The tests of the first modules pass; the handlers of the others are still to be read. " * 5
)
LINES = tuple(
    f"src/module_{n}.py:{n * 7}: def handler_{n}(request): return {n}\n" for n in range(40)
)

LONG = 3_000  # steps: 6,000 events
ROLLING_AT = (100, LONG)
MAX_SIZE = 100  # events in a view above which the rolling condensers condense


class Loop(Protocol):
    """A session of one library, used as its own agent loop uses it."""

    def append(self, number: int) -> None:
        """Records step ``number``: the action and its observation."""
        ...

    def prompt(self) -> Sequence[Any]:
        """Brings the view up to date, condenses if it is time, and makes the dicts to send."""
        ...

    def count(self) -> int:
        """The tokens of the newest prompt, by the library's own counter."""
        ...


# ---------------------------------------------------------------------- what happens


def command(step: int) -> str:
    return f"grep -n 'handler_{step % 97}' -r src | head -{10 + step % 20}"


def output(step: int) -> str:
    text = "".join(LINES[(step + n) % len(LINES)] for n in range(20))
    return f"step {step}\n{text}"[:900]


def thought(step: int) -> str:
    return f"Looking at part {step}."


def response(step: int) -> dict[str, Any]:
    """An LLM response in litellm's shape."""
    function = {"name": "bash", "arguments": json.dumps({"command": command(step)})}
    call = {"id": f"call_{step}", "type": "function", "function": function}
    message = {"role": "assistant", "content": thought(step), "tool_calls": [call]}
    choice = {"finish_reason": "tool_calls", "index": 0, "message": message}
    return {
        "id": f"chatcmpl-{step}",
        "created": 1_750_000_000 + step,
        "model": "gpt-4o",
        "object": "chat.completion",
        "choices": [choice],
        "usage": {"completion_tokens": 40, "prompt_tokens": 9_000, "total_tokens": 9_040},
    }


def recorded(steps: int) -> list[str]:
    """The run as OpenHands V0 records it: one JSON text for each event."""
    return [json.dumps(event) for step in range(steps) for event in _recorded_step(step)]


def _recorded_step(step: int) -> tuple[dict[str, Any], dict[str, Any]]:
    said = {
        "timestamp": "2025-06-15T12:00:00.000000",
        "tool_call_metadata": {
            "function_name": "bash",
            "tool_call_id": f"call_{step}",
            "model_response": response(step),
            "total_calls_in_response": 1,
        },
    }
    action = {
        "id": 2 * step,
        "source": "agent",
        "message": f"Running command: {command(step)}",
        "action": "run",
        "args": {
            "command": command(step),
            "is_input": False,
            "thought": thought(step),
            "blocking": False,
            "is_static": False,
            "cwd": None,
            "hidden": False,
            "confirmation_state": "confirmed",
        },
    }
    metadata = {
        "exit_code": 0,
        "pid": -1,
        "username": "agent",
        "hostname": "sandbox",
        "working_dir": "/workspace",
        "py_interpreter_path": "/usr/bin/python",
        "prefix": "",
        "suffix": "",
    }
    observation = {
        "id": 2 * step + 1,
        "source": "agent",
        "message": f"Command `{command(step)}` executed with exit code 0.",
        "cause": 2 * step,
        "observation": "run",
        "content": output(step),
        "extras": {"command": command(step), "metadata": metadata, "hidden": False},
        "success": True,
    }
    return action | said, observation | said


# ---------------------------------------------------------------------- what is measured


def timed(step: Callable[[int], object], first: int, count: int) -> float:
    """Milliseconds of CPU a step, garbage collection included, over ``count`` steps."""
    gc.collect()
    start = time.process_time()
    for number in range(first, first + count):
        step(number)
    return (time.process_time() - start) * 1e3 / count


def step_without_condensing(loop: Loop, count: int = 20, counted: int = 3) -> dict[str, float]:
    """A step at 6,000 events: appending alone, with the prompt, and with its tokens counted."""
    for number in range(LONG):
        loop.append(number)
    loop.prompt()
    loop.count()

    def step(number: int) -> None:
        loop.append(number)
        loop.prompt()

    def step_counted(number: int) -> None:
        step(number)
        loop.count()

    return {
        "append": timed(loop.append, LONG, 20),
        "step": timed(step, LONG + 20, count),
        "step_counted": timed(step_counted, LONG + 20 + count, counted),
    }


def rolling(
    loop: Loop, name: str = "rolling", *, points: Sequence[int] = ROLLING_AT, count: int = 200
) -> dict[str, float]:
    """Mean steps with a rolling condenser, over several condensations, at points of the run."""

    def step(number: int) -> None:
        loop.append(number)
        loop.prompt()

    figures = {}
    done = 0
    for point in points:
        timed(step, done, point - done)
        figures[f"{name}_{point}"] = timed(step, point, count)
        done = point + count
    return figures


def once(job: Callable[[], object]) -> float:
    """Milliseconds of CPU of one call, the best of three after a first one."""
    job()
    return min(timed(lambda _: job(), 0, 1) for _ in range(3))


def loaded(from_dict: Callable[[dict[str, Any]], object]) -> float:
    """Milliseconds of CPU for reading 6,000 recorded events, whose JSON is parsed already."""
    texts = recorded(LONG)

    def read_all(events: list[dict[str, Any]]) -> float:
        return timed(lambda _: [from_dict(event) for event in events], 0, 1)

    # Parsed anew each time: a reader may change what it is given.
    return min(read_all([json.loads(text) for text in texts]) for _ in range(3))


def memory(events: Callable[[int], list[Any]], steps: int = 1_000) -> float:
    """Kilobytes that an event takes, its text of 900 characters in every other one included."""
    events(10)
    gc.collect()
    tracemalloc.start()
    kept = events(steps)
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken / 1_000 / len(kept)


def import_time(statements: str) -> float:
    """Milliseconds of CPU that import statements take in a fresh interpreter: median of five."""
    code = (
        f"import time\nstart = time.process_time()\n{statements}\n"
        "import sys\nprint((time.process_time() - start) * 1e3, file=sys.stderr)"
    )
    return statistics.median(_imported(code) for _ in range(5))


def _imported(code: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},  # compiled code is kept, as elsewhere
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stderr.split()[-1])


def report(figures: dict[str, float], versions: dict[str, str]) -> None:
    """Prints what was measured as the last line, for the script that compares."""
    json.dump({"figures": figures, "versions": versions}, sys.stdout)
    print()
