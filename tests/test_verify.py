"""Prompts that are proved: each is derived from the log again, and has the hash that was kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, strategies as st

from eventfold.benchmarks.verify import prompts_of
from eventfold.condensers import AgentContext, Condenser, condenser_from_config
from eventfold.events import Event, EventStream, JsonlEventStore, MessageAction, ToolCall
from eventfold.memory import Budget, ConversationMemory, Reply, TokenCounter
from tests import command_line

PIPELINE: dict[str, Any] = {
    "type": "pipeline",
    "condensers": [
        {"type": "truncation", "max_chars": 200},
        {"type": "superseded"},
        {"type": "observation_masking", "attention_window": 8, "stride": 4},
        {"type": "amortized", "max_size": 24},
    ],
}
CONDENSERS = st.sampled_from(["default", "digest", "noop", "pipeline"])


def made(name: str) -> Condenser:
    if name == "digest":
        return condenser_from_config({"type": "digest", "max_events": 12, "max_chars": 500})
    return condenser_from_config(PIPELINE if name == "pipeline" else name)


def recorded(
    name: str,
    sizes: list[int],
    stream: EventStream | None = None,
    budget: Budget | None = None,
    profile: str = "portable",
) -> EventStream:
    """A live run: each step with one result of that many characters; the user speaks in between."""
    stream = stream if stream is not None else EventStream("s")
    memory = ConversationMemory(profile, prompt_caching=profile == "anthropic")
    context = AgentContext(stream, made(name), memory, budget=budget)
    stream.append(MessageAction("Fix it."), "user")
    for n, size in enumerate(sizes):
        context.messages()
        if size % 7 == 1:  # while the model thinks
            stream.append(MessageAction(f"And {n}."), "user")
        call = ToolCall(f"call_{n}", "bash", json.dumps({"command": f"echo {n % 5}"}))
        (action,) = context.record(Reply(f"Step {n}.", (call,)))
        context.observe("9" * size, action)
    return stream


@given(
    CONDENSERS,
    st.lists(st.integers(0, 400), min_size=1, max_size=40),
    st.sampled_from(["portable", "anthropic", "mistral"]),
)
def test_each_prompt_of_a_live_run_is_derived_again(
    name: str, sizes: list[int], profile: str
) -> None:
    stream = recorded(name, sizes, profile=profile)
    proofs = list(prompts_of(stream, made(name)))
    assert len(proofs) == len(sizes)
    assert all(proof.holds for proof in proofs)


def test_a_prompt_with_shortened_results_is_derived_again() -> None:
    budget = Budget(1_000, 100, counter=TokenCounter(exact=False))
    stream = recorded("default", [20, 5_000, 9_000, 10], budget=budget)
    limits = [
        (event.llm_metrics or {}).get("prompt", {}).get("max_message_chars") for event in stream
    ]
    assert len({limit for limit in limits if limit is not None}) > 1
    assert all(proof.holds for proof in prompts_of(stream, made("default")))


def test_another_log_or_another_condenser_is_told() -> None:
    stream = recorded("pipeline", [300] * 20)
    log = list(stream)
    assert not all(proof.holds for proof in prompts_of(log, made("noop")))
    (late,) = [e for e in log if getattr(e, "content", "") == "9" * 300][3:4]
    changed: list[Event] = [e.replace(content="y" * 300) if e is late else e for e in log]
    wrong = [proof.response for proof in prompts_of(changed, made("pipeline")) if not proof.holds]
    assert min(wrong) > late.id  # what was sent before it still holds


def test_the_command_proves_a_session(tmp_path: Path) -> None:
    recorded("pipeline", [300] * 20, EventStream("mine", JsonlEventStore(tmp_path)))
    (tmp_path / "c.json").write_text(json.dumps(PIPELINE))
    config = str(tmp_path / "c.json")
    session = str(tmp_path / "mine.jsonl")
    assert command_line.ok("verify", session, "--condenser", config) == (
        "mine: 20 of 20 prompts are derived as they were sent\n"
    )
    done = command_line.run("verify", session)
    assert done.exit_code == 1
    assert "the prompt of response" in done.stdout
    rows = [
        json.loads(line)
        for line in command_line.run("verify", session, "--json").stdout.splitlines()
    ]
    assert rows[-1] == {
        "kind": "summary",
        "run": "mine",
        "condenser": "noop",
        "prompts": 20,
        "same": sum(row["sent"] == row["derived"] for row in rows[:-1]),
    }


def test_a_run_without_hashes_is_told_and_fine() -> None:
    example = Path(__file__).parent.parent / "examples" / "trajectories" / "fix-slugs.json"
    assert command_line.ok("verify", example) == ("fix-slugs: no prompt was recorded with a hash\n")
