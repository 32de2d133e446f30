"""What becomes of facts: that they are counted right, and that no summarizer is kept from one."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from eventfold.benchmarks.planted import KINDS, PLACES, planted_run
from eventfold.benchmarks.retention import Count, Fact, Fate, facts_in, retention_of
from eventfold.condensers import Condensation, Condenser, condenser_from_config
from eventfold.condensers.config import known_types
from eventfold.condensers.summary_record import Block, cut
from eventfold.events import InvalidArgument, read_runs
from eventfold.memory import Budget, ChatModel, Reply, View
from eventfold.memory.message import ChatDict
from tests.command_line import ok, refused, rows, written
from tests.notation import A, C, M, O, R, S, U, log

ROOT = Path(__file__).resolve().parents[1]

# The law: what is forgotten was told to the summarizer, and what it repeats is not lost


class Echo:
    """A summarizer that repeats each fact that it sees, and says nothing else."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self.forms = {fact.text: {fact.text, json.dumps(fact.text)[1:-1]} for fact in facts}
        self.forms |= {
            text: {*forms, json.dumps(text, ensure_ascii=False)[1:-1]}
            for text, forms in self.forms.items()
        }
        self.calls = 0

    def completion(
        self,
        messages: Sequence[ChatDict],
        *,
        tools: Sequence[ChatDict] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        self.calls += 1
        request = "\n".join(str(message["content"]) for message in messages)
        seen = [text for text, forms in self.forms.items() if any(f in request for f in forms)]
        return Reply("\n".join(seen) or "nothing", finish_reason="stop")

    async def acompletion(
        self,
        messages: Sequence[ChatDict],
        *,
        tools: Sequence[ChatDict] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        return self.completion(messages, tools=tools, max_output_tokens=max_output_tokens)


class Asynchronous(Condenser):
    """A condenser as a loop that does not block uses it."""

    def __init__(self, condenser: Condenser) -> None:
        super().__init__()
        self.condenser = condenser

    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        return asyncio.run(self.condenser.acondense(view, budget))


SMALL = {"max_size": 30, "max_input_tokens": 1000}  # of some 15 turns of 300 tokens
ASKING: dict[str, dict[str, Any]] = {
    "llm": {"type": "llm", "max_size": 16},
    "llm in parts": {"type": "llm", **SMALL},
    "llm in parts, without a ledger": {"type": "llm", **SMALL, "ledger_chars": 0, "parallel": 1},
    "structured": {"type": "structured", "max_size": 16},
    "structured in parts": {"type": "structured", **SMALL},
    "pipeline": {
        "type": "pipeline",
        "condensers": [
            {"type": "browser_output_masking", "attention_window": 2},
            {"type": "llm", **SMALL},
            {"type": "conversation_window"},
        ],
    },
}
THERE = {name: config for name, config in ASKING.items() if config["type"] in known_types()}

# Printable text without line breaks, each fact another one, and none a part of another.
odd = st.text(st.characters(exclude_categories=("C", "Z")), max_size=12)
facts = st.lists(
    st.tuples(odd, odd, st.sampled_from(KINDS), st.sampled_from(PLACES)), min_size=24, max_size=40
).map(
    lambda drawn: [
        (f"{before}{1000 + n}{after}", kind, where)
        for n, (before, after, kind, where) in enumerate(drawn)
    ]
)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("config", THERE.values(), ids=THERE)
@settings(max_examples=5)
@given(facts)
def test_a_summarizer_that_repeats_all_that_it_is_given_loses_nothing(
    config: dict[str, Any], asynchronous: bool, told: list[tuple[str, str, str]]
) -> None:
    events, planted_facts = planted_run(told)
    echo = Echo(planted_facts)

    def strategy(llm: ChatModel) -> Condenser:
        made = condenser_from_config(config, llm=llm)
        return Asynchronous(made) if asynchronous else made

    found = retention_of(events, strategy, planted_facts, llm=echo)
    assert found.condensations >= 2
    if "max_input_tokens" in config:
        assert echo.calls > 2 * found.condensations  # in parts
    lost = [fate for fate in found.fates if fate.forgotten and not (fate.given and fate.kept)]
    assert lost == []
    assert found.total.forgotten >= 10


@settings(max_examples=10)
@given(facts)
def test_a_digest_keeps_what_the_user_said_thoughts_and_calls(
    told: list[tuple[str, str, str]],
) -> None:
    events, planted_facts = planted_run([fact for fact in told if fact[2] != "result"])
    found = retention_of(events, {"type": "digest", "max_events": 16}, planted_facts)
    assert [fate for fate in found.fates if fate.forgotten and not fate.kept] == []


# Counted by hand


def pair(n: int, text: str) -> list[Any]:
    return [A(f"r{n}", f"c{n}"), O(f"c{n}", text=text)]


def fates(found: Sequence[Fate]) -> dict[str, tuple[int, bool, bool | None, bool]]:
    return {fate.fact.text: (fate.age, fate.forgotten, fate.given, fate.kept) for fate in found}


LOG = log(S(), U(), *(item for n in range(6) for item in pair(n, f"fact-{n}")), M())
FACTS = [Fact(f"fact-{n}", "id", "result", 3 + 2 * n) for n in range(6)]


def test_what_is_never_forgotten_is_of_some_age_and_shown() -> None:
    """The last prompt, that of the last word, is the seventh; fact-5 stands in it for the first
    time, and fact-0 for the sixth."""
    found = retention_of(LOG, "noop", FACTS)
    assert fates(found.fates) == {f"fact-{n}": (5 - n, False, None, True) for n in range(6)}
    assert (found.total, found.condensations) == (Count(6, 0, None, 0), 0)


def test_what_is_forgotten_without_a_summary_is_lost() -> None:
    """14 events before the last word; above 13 the older ones go, down to 6: system message, task,
    and two pairs."""
    found = retention_of(LOG, {"type": "amortized", "max_size": 13}, FACTS)
    assert fates(found.fates) == {
        **{f"fact-{n}": (5 - n, True, None, False) for n in range(4)},
        **{f"fact-{n}": (5 - n, False, None, True) for n in (4, 5)},
    }
    assert found.total == Count(6, 4, None, 0)
    assert found.by(lambda fate: fate.age >= 3) == {
        False: Count(3, 1, None, 0),
        True: Count(3, 3, None, 0),
    }


def test_what_a_summarizer_is_given_and_what_it_keeps_are_two_things() -> None:
    long = [fact.text + " " + "All is well. " * 80 for fact in FACTS]
    events = log(S(), U(), *(item for n, text in enumerate(long) for item in pair(n, text)), M())
    config = {"type": "llm", "max_size": 13, "ledger_chars": 0}
    found = retention_of(events, config, FACTS, llm=Echo(FACTS[1:3]))
    kept = {fate.fact.text for fate in found.fates if fate.forgotten and fate.kept}
    forgotten = {fate.fact.text for fate in found.fates if fate.forgotten}
    assert kept == {"fact-1", "fact-2"}
    assert forgotten > kept
    assert {fate.given for fate in found.fates if fate.forgotten} == {True}


def test_a_result_that_is_masked_is_forgotten_and_nobody_was_given_it() -> None:
    long = [fact.text + " " + "All is well. " * 80 for fact in FACTS]
    events = log(S(), U(), *(item for n, text in enumerate(long) for item in pair(n, text)), M())
    config = {"type": "observation_masking", "attention_window": 4}
    found = retention_of(events, config, FACTS)
    assert found.total == Count(6, 4, None, 0)


def test_a_number_in_a_longer_one_is_not_kept() -> None:
    events = log(S(), U(), *pair(0, "12345"), *pair(1, "112345"), *pair(2, "123456"), M())
    found = retention_of(events, {"type": "recent", "max_events": 6}, [Fact("12345", "", "", 3)])
    assert fates(found.fates) == {"12345": (2, True, None, False)}


def test_what_was_told_after_the_last_prompt_does_not_count() -> None:
    facts = [*FACTS, Fact("done", "name", "agent", len(LOG) - 1)]
    assert retention_of(LOG, "noop", facts).total.facts == 6
    assert retention_of(log(S(), U()), "noop", []).total == Count(0, 0, None, 0)


def test_recorded_condensations_are_no_places_for_facts() -> None:
    events = log(S(), U(), *pair(0, "fact-0"), R(), C(range(2, 4)), *pair(1, "fact-1"), M())
    facts = [Fact("fact-0", "id", "result", 3), Fact("fact-1", "id", "result", 7)]
    assert fates(retention_of(events, "noop", facts).fates) == {
        "fact-0": (1, False, None, True),
        "fact-1": (0, False, None, True),
    }
    recorded = retention_of(events, lambda _: condenser_from_config("recorded"), facts)
    assert recorded.total == Count(2, 1, None, 0)
    for place in (4, 5, 9, -1):
        with pytest.raises(InvalidArgument, match=rf"places \[{place}\]"):
            retention_of(events, "noop", [Fact("fact-0", "id", "result", place)])


# Facts of recorded runs


def test_what_one_turn_alone_tells_is_found_with_its_kind_and_place() -> None:
    told = "see /src/a.py and src/b/c.tar.gz, https://example.org/x?y=1. 4ac80fe 12345 3.14 foo_bar"
    events = log(
        S(), U(text="Read /src/a.py"), *pair(0, told), *pair(1, "12345 and 999 1.2.34"), M()
    )
    found = [(fact.text, fact.kind, fact.where, fact.event) for fact in facts_in(events)]
    assert found == [
        ("src/b/c.tar.gz", "path", "result", 3),
        ("https://example.org/x?y=1", "url", "result", 3),
        ("4ac80fe", "id", "result", 3),
        ("3.14", "number", "result", 3),
        ("foo_bar", "name", "result", 3),
    ]


def test_all_that_is_found_stands_in_the_whole_history_and_is_given_to_the_summarizer() -> None:
    for run in read_runs(ROOT / "examples" / "trajectories"):
        whole = retention_of(run, "noop")
        assert [fate for fate in whole.fates if fate.forgotten or not fate.kept] == []
        config = {"type": "llm", "max_size": 14, "max_input_tokens": 2000}
        condensed = retention_of(run, config, llm=Echo(()))
        assert condensed.total.facts == whole.total.facts
        assert condensed.total.given == condensed.total.forgotten > 0


def test_planted_facts_stand_where_they_are_said_to_be() -> None:
    events, facts = planted_run(3)
    assert len(facts) == 3 * len(KINDS) * len(PLACES)
    assert {(fact.kind, fact.where) for fact in facts} == {(k, p) for k in KINDS for p in PLACES}
    for fact in facts:
        place, *others = [n for n, event in enumerate(events) if fact.text in str(event)]
        assert place == fact.event
        assert others == ([place + 1] if fact.where == "call" else [])  # a result names its call
    assert planted_run(3) == (events, facts)
    with pytest.raises(InvalidArgument, match="'nowhere'"):
        planted_run([("x", "id", "nowhere")])


# The command


def test_the_page_for_researchers_shows_what_the_command_prints() -> None:
    page = (ROOT / "docs" / "researchers.md").read_text("utf-8")
    found = re.search(
        r"```bash\neventfold (retention .*)\n```\n\n```text\n(.*?)```", page, re.DOTALL
    )
    assert found is not None
    assert ok(*shlex.split(found[1])) == found[2]


def test_runs_are_counted_together_and_json_has_the_counts(folder: Path, small: Path) -> None:
    """Two runs: in each the two calls with their results have given way to a summary."""
    for name in ("one", "two"):
        path = folder / f"{name}.json"
        log = json.loads(path.read_text("utf-8"))
        log[2]["content"] = f"{name}_name, and {'all is well. ' * 200}"
        written(path, log)
    told = rows("retention", folder, "--condenser", small, "--condenser", "noop")
    name = str(small)
    head = {"kind": "retention", "by": "kind", "is": "name"}
    assert [row for row in told if row["by"] == "kind" and row["is"] == "name"] == [
        {**head, "condenser": name, "facts": 2, "forgotten": 2, "given": 2, "kept": 2},
        {**head, "condenser": "noop", "facts": 2, "forgotten": 0, "given": None, "kept": 0},
    ]
    table = ok("retention", folder, "--condenser", small, "--condenser", "noop").splitlines()
    assert table[1].split()[1:] == ["kind", "name", "2", "2", "100%", "100%"]
    assert table[-1].split()[:2] == ["noop", "all"]  # the only line of what forgets nothing


def test_retention_refuses_what_replay_refuses(tmp_path: Path, one: Path) -> None:
    assert "there is no condenser 'nonsuch'" in refused("retention", one, "--condenser", "nonsuch")
    assert "nowhere.json" in refused("retention", tmp_path / "nowhere.json")
    assert "there is no file" in refused("retention", "--import", "nowhere_own.py")


def test_a_text_is_cut_between_lines_or_words() -> None:
    """At most 20 characters; a border in the second half, the newest; else in the middle of a
    word."""
    text = "a line of words\nanother_word and " + "x" * 30
    pieces = [block.text for block in cut([Block("t", text)], 20)]
    assert pieces == ["a line of words\n", "another_word and ", "x" * 20, "x" * 10]
