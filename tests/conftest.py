"""Hypothesis profiles, and the files that several tests read: recorded trajectories, small runs.

Tests share code as ``from tests.strategies import ...``; this folder has no ``__init__.py``.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.command_line import events, small_condenser, written

# Deadlines measure the machine, and Hypothesis' own default under CI draws the same examples each
# time; neither finds a counterexample. So both are off everywhere.
settings.register_profile(
    "default",
    max_examples=50,
    deadline=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "ci",
    settings.get_profile("default"),
    max_examples=200,
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of recorded trajectories that ``EVENTFOLD_CORPUS`` names.

    Skips where the variable is not set. Fails where it names no folder: a mistyped path must not
    look like a pass.
    """
    named = os.environ.get("EVENTFOLD_CORPUS")
    if not named:
        pytest.skip("needs recorded trajectories: set EVENTFOLD_CORPUS to their folder")
    folder = Path(named).expanduser().resolve()
    if not folder.is_dir():
        pytest.fail(f"EVENTFOLD_CORPUS={named!r} is not a folder")
    return folder


# For the command line.


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A file with a run of six events."""
    return written(tmp_path / "runs" / "one.json", events())


@pytest.fixture
def folder(one: Path) -> Path:
    """Two runs: ``one`` and ``two``."""
    written(one.parent / "two.json", events(text="x" * 400))
    return one.parent


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A run with long results."""
    return written(tmp_path / "long.json", events(text="All is well. " * 200))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A condenser that acts from the fifth event on."""
    return small_condenser(tmp_path)
