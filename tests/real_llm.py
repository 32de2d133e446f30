"""A real language model for tests, SmolLM2-135M-Instruct: offline, on the loopback interface.

Test what surrounds it, never what it says. It reads about 150 tokens a second and writes 35. ::

    with real_llm(real_llm_python(), window=512) as url:
        LLM(config(url)).completion(...)
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "EVENTFOLD_REAL_LLM_PYTHON"
SECONDS_TO_START = 60
ONE_SENTENCE = 'root ::= [A-Z] [a-z ]{10,60} "."'
"""A grammar: the answer is complete, not empty and short, on whatever machine."""


def real_llm_python() -> str:
    """The Python that ``EVENTFOLD_REAL_LLM_PYTHON`` names.

    Skips where the variable is not set. Fails where it names none: a mistyped path must not look
    like a pass.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.skip(f"needs a language model: set {VARIABLE}, see tests/real_llm_requirements.txt")
    if not os.access(named, os.X_OK):
        pytest.fail(f"{VARIABLE}={named!r} is no program")
    return named


@contextmanager
def real_llm(python: str, window: int = 1024) -> Iterator[str]:
    """The address of a server that serves the model with a window of so many tokens (at most 8192),
    one request at a time. Raises :class:`RuntimeError` if it does not start."""
    script = str(Path(__file__).resolve().parent / "real_llm_server.py")
    command = [python, script, str(window), str(os.getpid())]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            address = _first_line(server)
            if not address.startswith("http://127.0.0.1:"):
                server.kill()
                log.seek(0)
                raise RuntimeError(f"the model's server did not start: {address}{log.read()}")
            yield address
        finally:
            server.terminate()


def config(url: str, **more: Any) -> dict[str, Any]:
    """For an ``LLM`` that answers in one sentence; as a dict, so that it can be changed."""
    return {
        "model": "openai/smollm2",
        "api_base": url + "/v1",
        "api_key": "none",
        "temperature": 0,
        "tries": 1,
        "extra": {"extra_body": {"grammar": ONE_SENTENCE}},
        **more,
    }


def _first_line(server: subprocess.Popen[str]) -> str:
    """What the server prints first; empty if it ends or takes too long."""
    assert server.stdout is not None
    ready, _, _ = select.select([server.stdout], [], [], SECONDS_TO_START)
    return server.stdout.readline().strip() if ready else ""
