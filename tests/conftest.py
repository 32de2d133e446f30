"""Hypothesis profiles, and the recorded trajectories that some tests read.

Tests share code as ``from tests.strategies import ...``; there is no ``__init__.py`` in this folder.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Deadlines measure the machine, not the law: two cores under xdist miss any that is worth setting.
# The database is for whoever looks for a counterexample again; CI starts from nothing.
settings.register_profile(
    "default",
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "ci",
    max_examples=1000,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
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
