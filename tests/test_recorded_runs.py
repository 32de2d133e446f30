"""Every recorded run, through every condenser, at every step: no rule of any provider is broken."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from eventfold.benchmarks import replay
from eventfold.condensers import condenser_from_config
from eventfold.condensers.config import presets
from eventfold.events import read_runs
from eventfold.memory import ConversationMemory, check_messages
from eventfold.memory.rules import PROFILES

# Limits so small that the condensers act in short runs, too.
SMALL: dict[str, dict[str, Any]] = {
    "amortized": {"type": "amortized", "max_size": 20},
    "digest": {"type": "digest", "max_events": 20, "max_chars": 1500},
    "llm": {"type": "llm", "max_size": 16, "llm_config": {"model": "extractive"}},
    "masking": {"type": "observation_masking", "attention_window": 8, "stride": 4},
    "message limit": {"type": "message_limit", "max_messages": 20},
    "no pages": {"type": "browser_output_masking", "attention_window": 0},
    "recent": {"type": "recent", "max_events": 10, "keep_first": None},
    "rounds": {"type": "rounds", "max_rounds": 2},
    "superseded": {"type": "superseded", "keep_recent": 0},
    "token limit": {"type": "token_limit", "max_tokens": 4000},
    "tool clearing": {
        "type": "tool_clearing",
        "trigger_tokens": 2000,
        "clear_inputs": True,
        "keep": 2,
        "keep_thinking": 1,
    },
    "truncation": {"type": "truncation", "max_chars": 500},
    "all of them": {
        "type": "pipeline",
        "condensers": [
            {"type": "superseded"},
            {"type": "truncation", "max_chars": 2000},
            {"type": "observation_masking", "attention_window": 10},
            {"type": "digest", "max_events": 30},
        ],
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["1_openhands_v0", "2_openhands_v1", "5_openai_chat"])
def test_recorded_runs_break_no_rule_under_any_condenser(corpus: Path, folder: str) -> None:
    profiles = sorted(PROFILES)
    configs: list[str | dict[str, Any]] = [*SMALL.values(), *sorted(presets())]
    steps = 0
    for number, run in enumerate(read_runs(corpus / folder)):
        for place, config in enumerate(configs):
            profile = profiles[(number + place) % len(profiles)]
            vision = bool(place % 2)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some cannot answer requests, and none come
                condenser = condenser_from_config(config)
            memory = ConversationMemory(profile)
            for step in replay(run, condenser, memory=memory, vision=vision):
                where = f"{run.name}, {config}, {profile}, step {step.index}"
                assert check_messages(step.messages, profile) == [], where
                steps += 1
    assert steps > 1000


PRESETS = ("noop", "openhands-v0", "default", "conversation_window", "llm")


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(("folder", "steps"), [("2_openhands_v1", 1000), ("5_openai_chat", 700)])
def test_recorded_runs_replay_without_a_violation(
    corpus: Path, folder: str, steps: int, preset: str
) -> None:
    """Each run for one profile: another one than above meets it under the same preset."""
    done = 0
    for n, run in enumerate(read_runs(corpus / folder)):
        profile = sorted(PROFILES)[n % len(PROFILES)]
        memory = ConversationMemory(profile)
        for step in replay(run, condenser_from_config(preset), memory=memory):
            done += 1
            if step.index % 7 == 0 or step.condensations:
                assert check_messages(step.messages, profile) == []
    assert done > steps
