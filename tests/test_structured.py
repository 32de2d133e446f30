"""Structured summaries: what a model fills in, field by field, and what code makes of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from eventfold.condensers import (
    LLM,
    CannotCondense,
    Condensation,
    Condenser,
    LLMSummarizingCondenser,
    StructuredSummaryCondenser,
    condenser_from_config,
)
from eventfold.condensers.base import SummaryFailed
from eventfold.condensers.config import InvalidConfig
from eventfold.condensers.extractive import ExtractiveModel
from eventfold.condensers.ledger import ArtifactLedger
from eventfold.condensers.llm_summary import LEDGER_LINE
from eventfold.condensers.sections import read_sections
from eventfold.condensers.state_summary import ASKED, LEAST_CHARS, SHOWN, StateSummary
from eventfold.condensers.structured_summary import TOOL, StructuredSummary
from eventfold.condensers.summary_record import record_of
from eventfold.events import Event, InvalidArgument
from eventfold.events.tool_calls import ToolCall
from eventfold.memory import Reply, Turn, View
from tests.logs import event_logs, json_values
from tests.models import MadeUpModel
from tests.notation import A, Item, M, O, S, U, log, view_of
from tests.providers import hostile
from tests.providers.hostile import HostileProvider


def called(**fields: Any) -> Reply:
    """A call of the tool."""
    return raw_call(json.dumps(fields))


def raw_call(arguments: str, name: str = TOOL) -> Reply:
    return Reply(tool_calls=(ToolCall("c", name, arguments),), finish_reason="tool_calls")


def said(text: str) -> Reply:
    return Reply(text, finish_reason="stop")


class Filler(MadeUpModel):
    """Answers a request for fields. A chat model that knows ``tools`` and no choice among them."""

    def __init__(self, answer: Reply | Exception | Callable[[str], Reply], **more: Any) -> None:
        self.tools: list[Any] = []

        def reply(request: str) -> Reply:
            if isinstance(answer, Exception):
                raise answer
            return answer if isinstance(answer, Reply) else answer(request)

        super().__init__(reply, **more)

    def completion(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        self.tools.append(tools)
        return super().completion(messages, max_output_tokens=max_output_tokens)

    async def acompletion(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        return self.completion(messages, tools=tools, max_output_tokens=max_output_tokens)


def pairs(count: int, text: str = "out " * 40) -> list[Item]:
    return [i for n in range(count) for i in (A(f"r{n}", f"c{n}"), O(f"c{n}", text=text))]


def marked(count: int, words: int = 60) -> list[Turn]:
    """Turns that each tell a fact of their own."""
    filler = " word" * words
    return list(View.from_events(log([M(f"[m{n}]{filler}") for n in range(count)])).turns)


MARK = re.compile(r"\[m\d+\]")


def marks(request: str) -> Reply:
    """Puts every mark of the events that it sees into the facts."""
    events = re.sub(r"<record-(\w+) previous summary.*?</record-\1>", "", request, flags=re.DOTALL)
    return called(facts=[*dict.fromkeys(MARK.findall(events))] or ["nothing"])


def state_of(reply: Reply, previous: str | None = None) -> StateSummary:
    """What becomes of one answer."""
    stand_in = StructuredSummary(Filler(reply), ledger_chars=0)
    return StateSummary.parse(stand_in.summarize(marked(60), previous).text)


def state(**fields: Any) -> StateSummary:
    return StateSummary.model_validate(fields)


# ---------------------------------------------------------------------- what an answer says

FACTS = {"facts": ["port 8080", "id 7"], "goal": "ship it"}


@pytest.mark.parametrize(
    "reply",
    [
        called(**FACTS),
        Reply("I call it.", called(**FACTS).tool_calls, finish_reason="tool_use"),
        Reply("", called(**FACTS).tool_calls, finish_reason=None),
        said(json.dumps(FACTS)),
        said(f"```json\n{json.dumps(FACTS, indent=2)}\n```"),
        said(f"Here {{it}} is, as you asked:\n{json.dumps(FACTS)}\nThat is all. " + "Bye. " * 50),
        raw_call(json.dumps({"summary": FACTS})),
        raw_call(json.dumps(FACTS), name="another_name"),
        Reply(
            "",
            (
                *called(facts=["port 8080"]).tool_calls,
                *called(goal="ship it", facts=["id 7"]).tool_calls,
            ),
        ),
        raw_call(
            '{"goal": "ship it", "facts": ["port 8080",\n "id\u00a07"]}'.replace("\u00a0", " ")
        ),
        called(goal=["ship it"], facts="- port 8080\n* id 7\n\n"),
        called(goal="ship it", facts='["port 8080", "id 7"]', pending=None, files={}),
    ],
)
def test_an_answer_is_read_in_whatever_form_it_comes(reply: Reply) -> None:
    assert state_of(reply) == state(**FACTS)


@pytest.mark.parametrize(
    ("reply", "lines"),
    [
        (said("It went on.\nAll is well.\n"), ("It went on.", "All is well.")),
        (
            said('package.json has {"dependencies": {"a": "1"}}, and a long story follows here'),
            None,
        ),
        (raw_call('{"facts": ["port 80'), ('{"facts": ["port 80',)),
        (Reply("See:", raw_call('{"goal": "a"').tool_calls), ("See:", '{"goal": "a"')),
        (said("{" * 5_000), ("{" * 5_000,)),
        (said('{"a":' * 20_000), None),
        (said('{"goal": ' + "[" * 600 + "1" + "]" * 600 + "}"), None),
        (raw_call('{"goal": ' + "[" * 600 + "1" + "]" * 600 + "}"), None),
    ],
)
def test_what_is_no_json_is_kept_as_plain_text(reply: Reply, lines: tuple[str, ...] | None) -> None:
    stand_in = StructuredSummary(Filler(reply), ledger_chars=0, max_chars=200_000)
    told = StateSummary.parse(stand_in.summarize(marked(900), None).text)
    whole = reply.text or reply.tool_calls[0].arguments
    assert told == state(notes=lines or [whole])


BROKEN = '{"facts": ["port 8123"], "pending": ["deploy"]'


@pytest.mark.parametrize(
    ("reply", "fields"),
    [
        pytest.param(
            Reply("", (*called(goal="g").tool_calls, *raw_call(BROKEN).tool_calls)),
            {"goal": "g", "notes": [BROKEN]},
            id="a broken call after a sound one",
        ),
        pytest.param(
            Reply("Now:", (*raw_call(f"{BROKEN},\n").tool_calls, *called(goal="g").tool_calls)),
            {"goal": "g", "notes": [f"{BROKEN},"]},
            id="and before one",
        ),
        pytest.param(
            Reply('{"goal": "g"}', raw_call(BROKEN).tool_calls),
            {"goal": "g", "notes": [BROKEN]},
            id="a broken call beside a sound text",
        ),
        pytest.param(
            said('{"facts": ["port 8123"]}\n{"facts": ["port 9000"], "goal": "x"}'),
            {"facts": ["port 8123", "port 9000"], "goal": "x"},
            id="two objects",
        ),
        pytest.param(
            said('{"facts": ["port 8123"]}{"goal": "x"}{"goal": "y"}'),
            {"facts": ["port 8123"], "goal": "y"},
            id="objects with a field each",
        ),
        pytest.param(
            raw_call('{"facts": ["port 8123"]}{"goal": "x"}'),
            {"facts": ["port 8123"], "goal": "x"},
            id="two objects in a call",
        ),
        pytest.param(
            said('{"facts": ["a"], "goal": "x", "plan": {"facts": ["b"], "goal": "y"}}'),
            {"facts": ["a"], "goal": "x", "other": ["plan: facts: b; goal: y"]},
            id="an object in another is a part of it",
        ),
    ],
)
def test_no_part_of_an_answer_is_lost(reply: Reply, fields: dict[str, Any]) -> None:
    assert state_of(reply) == state(**fields)


DRAFT = '{"facts": ["wrong draft"], "goal": "draft"}'
FINAL = '{"facts": ["right", "</think> ends it"], "goal": "final"}'


@pytest.mark.parametrize(
    "answer",
    [
        f"<think>{DRAFT}</think>\n{FINAL}",
        f"\n<thinking>\n{DRAFT}\n</thinking>{FINAL}",
        f"<think>a</think>\n<think>{DRAFT}</think>{FINAL}",
        f"Well: {DRAFT}\n</think>\n\nSo:\n{FINAL}",
        f"{DRAFT}</think>{FINAL}",
        FINAL,
    ],
)
def test_what_was_thought_before_an_answer_is_no_part_of_it(answer: str) -> None:
    told = state_of(said(answer))
    assert told == state(facts=["right", "</think> ends it"], goal="final")


def test_a_text_without_fields_is_kept_without_what_was_thought() -> None:
    text = "<think>\nHm.\n</think>\nIt went on.\nA <think> tag is <b>no</b> thought: </think>"
    lines = ["It went on.", "A <think> tag is <b>no</b> thought: </think>"]
    assert state_of(said(text)) == state(notes=lines)


def test_other_types_are_taken_as_what_they_mean() -> None:
    told = state_of(
        called(
            user_requirements={"language": "C", "limits": ["1 s", "2 MB"]},
            goal={"first": "a", "then": ["b", "c"]},
            pending=[1, None, True, {"task": "test it", "why": "must"}, "  ", "x\ny"],
            files=["src/a.py: fixed", {"path": "b.py", "note": ["long", "slow"]}, {"c.py": "new"}],
            functions={"run": "returns 3", "stop": None},
            branch=7,
            mood="fine",
            tests_passing="unknown",
        )
    )
    assert told == state(
        user_requirements=["language: C", "limits: 1 s; 2 MB"],
        goal="first: a\nthen: b; c",
        pending=["1", "true", "task: test it; why: must", "x\ny"],
        files={"src/a.py": "fixed", "b.py": "long\nslow", "c.py": "new"},
        functions={"run": "returns 3", "stop": ""},
        branch="7",
        other=["mood: fine", "tests_passing: unknown"],
    )


OPENHANDS = {
    "user_context": "Fix the parser.\nNo new dependency.",
    "completed_tasks": "Read the code",
    "pending_tasks": "Write a test\nOpen a pull request",
    "current_state": "one test is red",
    "files_modified": "src/p.py: guards against None",
    "function_changes": "parse(): new branch",
    "data_structures": "",
    "tests_written": "True",
    "tests_passing": "False",
    "failing_tests": "test_empty",
    "error_messages": "KeyError: 'a'",
    "branch_created": "true",
    "branch_name": "fix/parser",
    "commits_made": "false",
    "pr_created": "false",
    "pr_status": "draft",
    "dependencies": "none new",
    "other_relevant_context": "python 3.12",
}
AS_FIELDS = {
    "user_requirements": ["Fix the parser.", "No new dependency."],
    "completed": ["Read the code"],
    "pending": ["Write a test", "Open a pull request"],
    "current_state": "one test is red",
    "files": {"src/p.py": "guards against None"},
    "functions": {"parse()": "new branch"},
    "tests_failing": ["test_empty"],
    "errors": ["KeyError: 'a'"],
    "branch": "fix/parser",
    "pull_request": "draft",
    "dependencies": ["none new"],
}
FLAGS = {"tests_written: True", "tests_passing: False", "branch_created: true"}


def test_openhands_names_are_taken_in_an_answer() -> None:
    told = state_of(called(**OPENHANDS))
    assert told.model_copy(update={"other": ()}) == state(**AS_FIELDS)
    assert {"python 3.12", *FLAGS} <= set(told.other)


def test_openhands_structured_summary_is_read() -> None:
    titles = {"pr_created": "PR Created", "pr_status": "PR Status"}
    lines = ["# State Summary\nso far", "## Core Information"]
    for key, value in OPENHANDS.items():
        if key == "files_modified":
            lines.append("## Code Changes")
        lines.append(f"**{titles.get(key, key.replace('_', ' ').title())}**: {value}")
    told = StateSummary.parse("\n\n".join(lines))
    assert told.model_copy(update={"other": ()}) == state(**AS_FIELDS)
    assert {"so far", "python 3.12"} <= set(told.other)


@given(st.dictionaries(st.sampled_from([*ASKED, *OPENHANDS, "left_out", "x"]), json_values()))
def test_any_json_is_read(given: dict[str, Any]) -> None:
    told = StateSummary.read(given)
    assert StateSummary.parse(told.render()) == told.model_copy(update={"solved_errors": ()})
    assert StateSummary.model_validate_json(told.model_dump_json()) == told


# ---------------------------------------------------------------------- the text

odd = st.text(max_size=30) | st.text('- "#:\n\\\u2028\u202e ab.', max_size=20)
entries = odd | st.sampled_from(
    ["a", "a: b", "b", "## Facts", "- x", LEDGER_LINE, "error 12345678"]
)


def _states(names: Sequence[str], **more: Any) -> st.SearchStrategy[StateSummary]:
    kinds: dict[Any, st.SearchStrategy[Any]] = {
        str: entries,
        tuple[str, ...]: st.lists(entries, max_size=4),
        dict[str, str]: st.dictionaries(odd, odd, max_size=3),
    }
    values = {name: kinds[StateSummary.model_fields[name].annotation] for name in names}
    return st.fixed_dictionaries({}, optional={**values, **more}).map(StateSummary.model_validate)


counts = st.dictionaries(st.sampled_from(["facts", "user requirements"]), st.integers(1, 10**9))
states = _states(SHOWN, left_out=counts)
replies = _states(ASKED)


@given(states)
@example(
    state(facts=["- a", "## Files", 'say "so"', "a\u2028b", "Left out for lack of room: 3 facts."])
)
@example(state(files={'a "b": c': "x\n- y", ":": ""}, notes=[LEDGER_LINE, ""]))
@example(state(pending=["a"], completed=["a"], tests_passing=["t"], tests_failing=["t"]))
def test_what_is_written_is_read_back_whatever_the_texts_hold(told: StateSummary) -> None:
    assert StateSummary.parse(told.render()) == told


@given(states)
def test_what_stands_around_a_summary_is_carried_over(told: StateSummary) -> None:
    read = StateSummary.parse(f"It began.\n{told.render()}\nIt went on.\n- and ended")
    assert read.facts == told.facts
    assert read.notes[0] == "It began." or "It began." in told.notes
    assert read.notes[-2:] == ("It went on.", "and ended")


BOUNDED = ("facts", "pending", "other")
long_entries = st.lists(st.text("ab \n", max_size=400), max_size=25)


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(BOUNDED, long_entries)),
    st.lists(st.text("xy", min_size=1, max_size=2_500), max_size=8),
    counts,
    st.integers(LEAST_CHARS, 9_000),
)
def test_a_limit_holds_and_what_has_no_room_is_counted(
    lists: dict[str, list[str]], wishes: list[str], before: dict[str, int], limit: int
) -> None:
    told = state(**lists, user_requirements=wishes, left_out=before)
    text = told.render(limit)
    assert len(text) <= limit
    shown, left_out = read_sections(text)
    for name in (*BOUNDED, "user_requirements"):
        title = name.replace("_", " ").capitalize()
        lines = sum(one == title for one, _ in shown)
        missing = left_out.get(name.replace("_", " "), 0) - before.get(name.replace("_", " "), 0)
        assert lines + missing == len(getattr(told, name))


def test_what_the_user_requires_is_cut_last() -> None:
    wishes = [f"wish {n}: " + "never " * 20 for n in range(20)]
    told = state(
        user_requirements=wishes, other=["so what " * 30] * 1 + [f"o{n}" for n in range(3_000)]
    )
    shown = StateSummary.parse(told.render(8_000))
    assert [wish[:8] for wish in shown.user_requirements] == [wish[:8] for wish in wishes]
    assert shown.left_out["other"] > 1_000


# ---------------------------------------------------------------------- merging

LISTS = [name for name in SHOWN if isinstance(getattr(StateSummary(), name), tuple)]
PARTNERS = {"pending": "completed", "completed": "pending"} | {
    "tests_failing": "tests_passing",
    "tests_passing": "tests_failing",
}


@given(states, replies)
def test_nothing_known_is_lost_unless_the_reply_names_it(
    old: StateSummary, new: StateSummary
) -> None:
    merged = old.merge(new)
    for name in LISTS:
        for entry in getattr(old, name):
            partner = getattr(new, PARTNERS.get(name, name))
            moved = any(other.startswith(entry) for other in partner)
            solved = name == "errors" and any(
                one.startswith(entry) or entry.startswith(one) for one in new.solved_errors
            )
            assert entry in getattr(merged, name) or moved or solved
    for name in ("files", "functions"):
        assert {
            **getattr(old, name),
            **{k: v for k, v in getattr(new, name).items() if v},
        }.items() <= (getattr(merged, name).items())
    for name in ("goal", "current_state", "next_step", "branch", "pull_request"):
        assert getattr(merged, name) == getattr(new, name) or not getattr(new, name)
        assert getattr(merged, name) == getattr(old, name) or getattr(new, name)


@given(states, replies)
def test_what_the_reply_says_stands(old: StateSummary, new: StateSummary) -> None:
    merged = old.merge(new)
    for name in LISTS:
        for entry in getattr(new, name):
            contradicted = name in ("pending", "tests_passing")
            assert entry in getattr(merged, name) or (
                contradicted and any(o.startswith(entry) for o in getattr(new, PARTNERS[name]))
            )
        assert len(set(getattr(merged, name))) == len(getattr(merged, name))


@given(states, replies)
def test_to_say_it_twice_changes_nothing(old: StateSummary, new: StateSummary) -> None:
    once = old.merge(new)
    assert once.merge(new) == once
    assert once.merge(StateSummary()) == once
    assert old.merge(StateSummary()) == old


def test_a_task_moves_from_pending_to_completed_and_back() -> None:
    old = state(pending=["write tests", "write docs", "run"], completed=["read"])
    new = old.merge(state(completed=["write tests: 12 of them", "run"], pending=["release"]))
    assert new.pending == ("write docs", "release")
    assert new.completed == ("read", "write tests: 12 of them", "run")
    assert new.merge(state(pending=["run"])).completed == ("read", "write tests: 12 of them")


def test_a_longer_task_is_another_one() -> None:
    old = state(pending=["fix the tests", "run"])
    assert old.merge(state(completed=["fix the tests in module b", "runs"])).pending == old.pending


def test_a_test_is_failing_or_passing_by_the_newest_word() -> None:
    old = state(tests_failing=["t.py::a", "t.py::b"], tests_passing=["t.py::c"])
    new = old.merge(state(tests_passing=["t.py::a", "t.py::b[1]"], tests_failing=["t.py::c"]))
    assert new.tests_failing == ("t.py::b", "t.py::c")
    assert new.tests_passing == ("t.py::a", "t.py::b[1]")
    both = old.merge(state(tests_passing=["x"], tests_failing=["x"]))
    assert "x" in both.tests_failing
    assert "x" not in both.tests_passing


def test_an_error_stays_open_until_it_is_said_to_be_solved() -> None:
    old = state(
        errors=["KeyError: 'a' in parse(), line 12", "timeout of job 1", "timeout of job 10"]
    )
    assert old.merge(state(completed=["repaired it"])).errors == old.errors
    new = old.merge(state(solved_errors=["KeyError: 'a' in parse()", "timeout of job 1", "time"]))
    assert new.errors == ("timeout of job 10",)
    assert new.render().count("KeyError") == 0


def test_the_newest_note_of_a_file_stands_last() -> None:
    old = state(files={"a.py": "new", "b.py": "old note", "c.py": "read"})
    new = old.merge(state(files=[{"path": "b.py", "note": "fixed"}, {"path": "a.py"}, "d.py"]))
    assert [*new.files.items()] == [
        ("c.py", "read"),
        ("b.py", "fixed"),
        ("a.py", "new"),
        ("d.py", ""),
    ]


# ---------------------------------------------------------------------- calls

FAULTS: dict[str, Reply | Exception] = {
    "error": RuntimeError("no credit"),
    "nothing": Reply("", finish_reason="stop"),
    "cut off": Reply("", called(**FACTS).tool_calls, finish_reason="length"),
    "all empty": called(goal="", facts=[], files=None),
    "all empty JSON": said('{"goal": " ", "facts": []}'),
    "no object": raw_call(" "),
}
faults = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())


@faults
def test_a_failed_answer_forgets_nothing(fault: Reply | Exception) -> None:
    model = Filler(fault)
    condenser = StructuredSummaryCondenser(model, 20)
    view = view_of(S(), U(), pairs(12))
    assert condenser.condense(view) is view
    assert asyncio.run(condenser.acondense(view)) is view
    assert len(model.requests) == 1  # and it is not paid for again at once
    requested = view_of(S(), U(), pairs(12), requested=True)
    outcome = condenser.condense(requested)
    assert isinstance(outcome, Condensation)
    assert outcome.action.summary is None  # the fallback's


@faults
def test_where_one_part_fails_nothing_is_forgotten(fault: Reply | Exception) -> None:
    view = view_of(S(), U(), pairs(60, "word " * 100))
    for at in range(1, 5):

        def answer(request: str, at: int = at) -> Reply:
            if f"This is part {at} of " not in request:
                return called(**FACTS)
            if isinstance(fault, Exception):
                raise fault
            return fault

        condenser = StructuredSummaryCondenser(Filler(answer), 100, max_input_tokens=3_000)
        assert condenser.condense(view) is view


def test_a_model_is_given_the_tool_and_nothing_else() -> None:
    """:class:`Filler` takes no choice of a tool."""
    model = Filler(called(**FACTS))
    StructuredSummary(model, max_output_tokens=300).summarize(marked(20), "so far")
    ((instructions, record),) = model.messages
    assert "solved_errors" in instructions["content"]
    assert "so far" in record["content"]
    ((tool,),) = model.tools
    assert model.settings == [(None, 300)]
    fields = tool["function"]["parameters"]["properties"]
    assert [*fields] == ASKED
    assert fields["goal"]["type"] == "string"
    assert fields["facts"]["items"] == {"type": "string"}
    assert [*fields["files"]["items"]["properties"]] == ["path", "note"]


@pytest.mark.parametrize(
    ("refusal", "asked"),
    [
        ("this model does not support tools", 2),
        ("deepseek-reasoner does not support this tool_choice", 2),
        ("messages.1: function calling is not enabled", 2),
        ("no credit", 1),
        ("Rate limit reached for tools", 1),
    ],
)
def test_a_model_that_refuses_tools_is_asked_once_more_without(refusal: str, asked: int) -> None:
    class Refusing(Filler):
        def completion(self, messages: Any, *, tools: Any = None, **more: Any) -> Reply:
            reply = super().completion(messages, tools=tools, **more)
            if tools:
                raise RuntimeError(refusal)
            return reply

    for run in (_at_once, _later):
        model = Refusing(said(json.dumps(FACTS)))
        try:
            text = run(StructuredSummary(model, ledger_chars=0), marked(60), None)
        except SummaryFailed as error:
            text = str(error)
        assert len(model.requests) == asked
        assert ("port 8080" in text) == (asked == 2)
        if asked == 2:
            assert model.tools[1] is None
            assert all(f'"{name}"' in model.requests[1] for name in ASKED)


def _at_once(stand_in: StructuredSummary, turns: Sequence[Turn], previous: str | None) -> str:
    return stand_in.summarize(turns, previous).text


def _later(stand_in: StructuredSummary, turns: Sequence[Turn], previous: str | None) -> str:
    return asyncio.run(stand_in.asummarize(turns, previous)).text


@given(event_logs(), st.sampled_from([*FAULTS.values(), called(**FACTS), said("in short")]))
def test_async_does_the_same(log: list[Event], reply: Reply | Exception) -> None:
    view = View.from_events(log)

    def made() -> Condenser:
        return StructuredSummaryCondenser(Filler(reply), 6, minimum_progress=0)

    def result(call: Callable[[], View | Condensation]) -> object:
        try:
            return call()
        except CannotCondense as error:
            return str(error)

    at_once = result(lambda: made().condense(view))
    assert at_once == result(lambda: asyncio.run(made().acondense(view)))


# ---------------------------------------------------------------------- parts


def test_parts_are_merged_without_another_call() -> None:
    for parallel in (1, 4):
        model = Filler(marks)
        stand_in = StructuredSummary(
            model, max_input_tokens=3_000, ledger_chars=0, parallel=parallel, max_chars=20_000
        )
        previous = state(facts=["[m1000]"], goal="ship").render()
        summary = stand_in.summarize(marked(100), previous)
        told = StateSummary.parse(summary.text)
        assert told.facts == ("[m1000]", *(f"[m{n}]" for n in range(100)))
        assert told.goal == "ship"
        assert len(model.requests) == len(summary.details["parts"]) > 3
        assert all("[m1000]" in request for request in model.requests)
        first = summary.details["parts"][0]
        assert first["first"] == 0
        assert json.loads(first["summary"])["facts"][0] == "[m0]"


def test_a_part_may_solve_what_an_earlier_one_told() -> None:
    def answer(request: str) -> Reply:
        if "This is part 1 of " in request:
            return called(errors=["KeyError: 'a'"], pending=["run it"], goal="first")
        return called(solved_errors=["KeyError: 'a'"], completed=["run it"])

    stand_in = StructuredSummary(Filler(answer), max_input_tokens=3_000, ledger_chars=0)
    told = StateSummary.parse(stand_in.summarize(marked(60), None).text)
    assert told == state(goal="first", completed=["run it"])


@pytest.mark.parametrize("limit", [500, 1_000, 3_000, 100_000])
@pytest.mark.parametrize("length", [0, 200, 9_000])
def test_all_of_the_record_and_of_a_previous_summary_is_given(limit: int, length: int) -> None:
    previous = "".join(f"<{n}>" for n in range(length)) or None
    model = Filler(marks)
    turns = marked(30)
    StructuredSummary(model, max_input_tokens=limit, parallel=1).summarize(turns, previous)
    given = "".join(
        re.findall(
            r"<record-(?:\w+) [^\n>]*>\n(.*?)\n</record", "\n".join(model.requests), re.DOTALL
        )
    )
    for block in record_of(turns):
        assert block.text in given
    assert (previous or "") in given


def test_of_a_long_event_a_limit_leaves_both_ends() -> None:
    model = Filler(called(**FACTS))
    events = log([M("begin " + "x" * 5_000 + " end"), M("short")])
    turns = View.from_events(events).turns
    StructuredSummary(model, max_event_length=100, ledger_chars=0).summarize(turns, None)
    (request,) = model.requests
    assert "begin xxx" in request
    assert "xxx end" in request
    assert request.count("x" * 80) == 0


def test_a_summary_has_two_fifths_of_what_it_stands_for_or_the_size_of_the_one_before() -> None:
    facts = [f"fact {n} " + "and so on " * 10 for n in range(500)]
    stand_in = StructuredSummary(Filler(called(facts=facts)), ledger_chars=0)
    turns = marked(40)
    size = sum(len(block.text) for block in record_of(turns))
    assert size * 2 // 5 < 6_000
    assert len(stand_in.summarize(turns, None).text) <= size * 2 // 5
    before = state(facts=facts[:80]).render()
    told = StructuredSummary(Filler(called(goal="x")), ledger_chars=0).summarize(turns, before)
    assert len(before) > 8_000
    assert len(before) - 300 < len(told.text) <= len(before)


# ---------------------------------------------------------------------- over several condensations


def condensed(condenser: Condenser, steps: int, text: str = "") -> tuple[View, int]:
    """A view after so many messages with a mark each, and how often it was condensed."""
    view, count = View(), 0
    for event in log(S(), U(), [M(f"[m{n}] {text}") for n in range(steps)]):
        view.append(event)
        outcome = condenser.condense(view)
        if isinstance(outcome, Condensation):
            count += 1
            view.append(outcome.action.replace(id=10_000 + count))
    return view, count


@pytest.mark.parametrize("limit", [None, 2_000])
def test_no_fact_is_lost_over_many_condensations(limit: int | None) -> None:
    condenser = StructuredSummaryCondenser(Filler(marks), 20, max_input_tokens=limit)
    view, count = condensed(condenser, 200, "word " * 60)
    assert count > 10
    told = "".join(str(getattr(event, "content", "")) for event in view)
    assert sorted(set(MARK.findall(told))) == sorted(f"[m{n}]" for n in range(200))


def test_what_no_longer_fits_is_counted() -> None:
    condenser = StructuredSummaryCondenser(Filler(marks), 20, max_chars=LEAST_CHARS)
    view, count = condensed(condenser, 300, "word " * 60)
    assert count > 10
    (text,) = (str(getattr(e, "content", "")) for e in view if e.id >= 10_000)
    told = StateSummary.parse(text)
    seen = {n for event in view for n in MARK.findall(str(getattr(event, "content", "")))}
    assert len(seen) + told.left_out["facts"] == 300
    assert "[m0]" not in seen


@given(
    event_logs(condensations=False), st.sampled_from([called(**FACTS), said("## Files changed")])
)
def test_each_changed_file_is_named_below_it(log: list[Event], reply: Reply) -> None:
    condenser = StructuredSummaryCondenser(Filler(reply), 4, 0, minimum_progress=0)
    view, changed = View(), ArtifactLedger()
    for n, event in enumerate(log):
        view.append(event)
        outcome = condenser.condense(view)
        if isinstance(outcome, Condensation):
            gone = set(outcome.action.forgotten)
            turns = [t for t in view.turns if t.events[0].id in gone and t.kind != "summary"]
            changed = changed.merge(ArtifactLedger.from_turns(turns))
            told = ArtifactLedger.parse(str(outcome.action.summary).rpartition(LEDGER_LINE)[2])
            assert set(changed.changed) <= set(told.changed)
            view.append(outcome.action.replace(id=10_000 + n))


def test_a_summary_of_another_kind_is_carried_over_and_given_to_the_model() -> None:
    plain = LLMSummarizingCondenser(MadeUpModel("It began.\n- It went on."), 20)
    view = view_of(S(), U(), pairs(12))
    outcome = plain.condense(view)
    assert isinstance(outcome, Condensation)
    view.append(outcome.action.replace(id=100))
    for event in log(pairs(40))[24:]:
        view.append(event.replace(id=event.id + 200))
    model = Filler(called(**FACTS))
    outcome = StructuredSummaryCondenser(model, 20).condense(view)
    assert isinstance(outcome, Condensation)
    assert "\nIt began.\n- It went on.\n" in model.requests[0]
    text = str(outcome.action.summary)
    words, _, ledger = text.partition(f"\n{LEDGER_LINE}\n")
    assert StateSummary.parse(words) == state(**FACTS, notes=["It began.", "It went on."])
    assert len(ArtifactLedger.parse(ledger).commands) > 5


# ---------------------------------------------------------------------- over HTTP


def tool_answer(**fields: Any) -> hostile.Fault:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": TOOL, "arguments": json.dumps(fields)},
    }
    return hostile.answer(None, tool_calls=[call], finish_reason="tool_calls")


def llm_at(provider: HostileProvider) -> LLM:
    config = {"model": "openai/m", "api_base": provider.url, "api_key": "k"}
    return LLM({**config, "retry_min_wait": 0.01, "retry_max_wait": 0.02})


@pytest.mark.parametrize("run", [_at_once, _later])
def test_an_llm_has_to_call_the_tool(run: Callable[..., str]) -> None:
    with HostileProvider(tool_answer(**FACTS)) as provider:
        text = run(StructuredSummary(llm_at(provider), ledger_chars=0), marked(60), None)
    assert StateSummary.parse(text) == state(**FACTS)
    (request,) = provider.requests
    assert request.body["tool_choice"] == {"type": "function", "function": {"name": TOOL}}
    assert [tool["function"]["name"] for tool in request.body["tools"]] == [TOOL]


@pytest.mark.parametrize("run", [_at_once, _later])
@pytest.mark.parametrize(
    "refusal",
    ["tools is not supported in this model", "messages[0]: unknown parameter 'tool_choice'"],
)
def test_a_provider_without_tools_is_asked_for_json(run: Callable[..., str], refusal: str) -> None:
    answer = hostile.answer(f"```json\n{json.dumps(FACTS)}\n```")
    with HostileProvider(hostile.error(400, refusal), answer) as provider:
        text = run(StructuredSummary(llm_at(provider), ledger_chars=0), marked(60), None)
    assert StateSummary.parse(text) == state(**FACTS)
    first, second = (request.body for request in provider.requests)
    assert "tools" in first
    assert not {"tools", "tool_choice"} & second.keys()


# ---------------------------------------------------------------------- configuration


def test_it_is_configured_like_the_other_summarizer() -> None:
    condenser = condenser_from_config(
        {
            "type": "structured",
            "llm_config": {"model": "extractive"},
            "max_events": 30,
            "keep_first": 2,
            "max_event_length": 10_000,
            "max_chars": 5_000,
            "parallel": 2,
            "fallback": {"type": "digest"},
        }
    )
    assert isinstance(condenser, StructuredSummaryCondenser)
    stand_in = condenser.stand_in
    assert isinstance(stand_in, StructuredSummary)
    assert (condenser.max_size, condenser.keep_first, stand_in.parallel) == (30, 2, 2)
    assert (stand_in.max_chars, stand_in.max_event_length) == (5_000, 10_000)
    assert type(condenser.fallback).__name__ == "DigestCondenser"


@pytest.mark.parametrize(
    "wrong",
    [{"max_chars": 10}, {"max_event_length": 0}, {"keep_first": 60}, {"prompt": "{% if %}"}],
)
def test_limits_that_cannot_be_kept_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        StructuredSummaryCondenser(ExtractiveModel(), **wrong)
    with pytest.raises(InvalidConfig, match=next(iter(wrong))[:5]):
        condenser_from_config({"type": "structured", **wrong}, llm=ExtractiveModel())


def test_the_stand_in_without_a_model_fills_in_facts() -> None:
    condenser = condenser_from_config("structured")
    assert isinstance(condenser, StructuredSummaryCondenser)
    view = view_of(S(), U(), pairs(80))
    outcomes = [condenser.condense(view) for _ in range(2)]
    assert outcomes[0] == outcomes[1]
    assert isinstance(outcomes[0], Condensation)
    told = StateSummary.parse(str(outcomes[0].action.summary).partition(LEDGER_LINE)[0])
    assert told.facts[-1].startswith("event ")
    assert told == state(facts=told.facts)


def test_a_template_may_take_the_place_of_the_instructions() -> None:
    model = Filler(called(**FACTS))
    StructuredSummary(model, prompt="Fill in the form.").summarize(marked(10), None)
    assert model.messages[0][0]["content"] == "Fill in the form."
    assert model.tools[0] is not None
