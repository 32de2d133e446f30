"""The digest and its artifact ledger: what they tell, within a bound, again and again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from eventfold.condensers import (
    ArtifactLedger,
    CannotCondense,
    Condensation,
    Digest,
    DigestCondenser,
    StateOfWork,
)
from eventfold.condensers.deeds import CHANGED, file_deeds
from eventfold.condensers.sections import quoted, shortened, unquoted, written
from eventfold.events import (
    AgentCondensationObservation,
    AgentThinkAction,
    CmdOutputObservation,
    CmdRunAction,
    CondensationRequestAction,
    ErrorObservation,
    Event,
    FileEditAction,
    FileEditObservation,
    FileReadAction,
    FileWriteAction,
    MCPAction,
    TaskTrackingAction,
    UserRejectObservation,
)
from eventfold.memory import Budget, TokenCounter, View
from eventfold.memory.rendering import clean
from tests.logs import A, C, Item, M, O, S, U, event_logs, log, texts

counter = iter(range(10**9))


def did(action: Event, result: Event | None = None, text: str = "ok") -> list[Item]:
    """A call and what came back."""
    call = f"c{next(counter)}"
    return [A(f"r-{call}", call, action=action), O(call, text, observation=result)]


def ran(command: str, code: int, output: str = "") -> list[Item]:
    result = CmdOutputObservation(command=command, exit_code=code, content=output)
    return did(CmdRunAction(command=command), result)


def edited(path: str) -> list[Item]:
    return did(FileEditAction(path=path, command="str_replace", old_str="a", new_str="b"))


def created(path: str) -> list[Item]:
    action = FileEditAction(path=path, command="create", file_text="a")
    return did(action, FileEditObservation(path=path, prev_exist=False))


def ledger_of(*items: Any) -> ArtifactLedger:
    return ArtifactLedger.from_turns(View.from_events(log(*items)).turns)


def state_of(*items: Any) -> StateOfWork:
    return StateOfWork.from_turns(View.from_events(log(*items)).turns)


# ------------------------------------------------------------------ files


@pytest.mark.parametrize(
    ("action", "deeds"),
    [
        (FileReadAction(path="/a"), [("read", "/a")]),
        (FileWriteAction(path="/a", content=""), [("edited", "/a")]),
        (FileEditAction(path="/a", command="view"), [("read", "/a")]),
        (FileEditAction(path="/a", command="create"), [("created", "/a")]),
        (FileEditAction(path="/a", command="undo_edit"), [("edited", "/a")]),
        (FileEditAction(path="/a", content="b"), [("edited", "/a")]),
        (MCPAction(name="Read", arguments={"file_path": "/a"}), [("read", "/a")]),
        (MCPAction(name="MultiEdit", arguments={"file_path": "/a"}), [("edited", "/a")]),
        (MCPAction(name="fs_write_file", arguments={"path": "/a"}), [("edited", "/a")]),
        (MCPAction(name="createFile", arguments={"path": "/a"}), [("created", "/a")]),
        (MCPAction(name="delete_file", arguments={"path": "/a"}), [("deleted", "/a")]),
        (
            MCPAction(name="move_file", arguments={"source": "/a", "destination": "/b"}),
            [("deleted", "/a"), ("created", "/b")],
        ),
        (
            MCPAction(name="str_replace_editor", arguments={"command": "view", "path": "/a"}),
            [("read", "/a")],
        ),
        (
            MCPAction(name="read_files", arguments={"paths": ["/a", "/b"]}),
            [("read", "/a"), ("read", "/b")],
        ),
        (MCPAction(name="lint", arguments={"path": "/a"}), [("used", "/a")]),
        (MCPAction(name="list_directory", arguments={"path": "/a"}), []),
        (MCPAction(name="search", arguments={"query": "edit", "path": None}), []),
        (
            MCPAction(
                name="apply_patch",
                arguments={
                    "input": "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n"
                    "*** Add File: b.py\n+z\n*** Delete File: c.py\n*** End Patch"
                },
            ),
            [("edited", "a.py"), ("created", "b.py"), ("deleted", "c.py")],
        ),
        (CmdRunAction(command="cat > /w/a.py << 'EOF'\nx > y\nEOF"), [("edited", "/w/a.py")]),
        (CmdRunAction(command="cd /w && cat <<EOF >> b.py\nx\nEOF"), [("edited", "b.py")]),
        (CmdRunAction(command="tee 'c d.py' > /dev/null <<EOF\nx\nEOF"), [("edited", "c d.py")]),
        (CmdRunAction(command='cat > "$OUT" <<EOF\nx\nEOF'), []),
        (CmdRunAction(command="echo 'a > b'; cat a.py"), []),
    ],
)
def test_what_a_call_did_to_files(action: Event, deeds: list[tuple[str, str]]) -> None:
    assert list(file_deeds(action, None)) == deeds


def test_a_call_that_failed_did_nothing() -> None:
    edit = FileEditAction(path="/a", command="str_replace", old_str="x")
    assert list(file_deeds(edit, ErrorObservation(content="No."))) == []
    assert list(file_deeds(edit, UserRejectObservation())) == []


def test_files_are_told_by_what_became_of_them() -> None:
    view_c = did(FileReadAction(path="/c"))
    ledger = ledger_of(
        did(FileReadAction(path="/a")),
        edited("/a"),
        did(FileReadAction(path="/a")),  # read again: edited all the same
        created("/b"),
        edited("/b"),
        view_c,
        created("/d"),
        did(MCPAction(name="delete_file", arguments={"path": "/d"})),
    )
    assert ledger.files == {"/a": "edited", "/b": "created", "/c": "read", "/d": "deleted"}
    assert ledger.changed == ["/a", "/b", "/d"]


# ------------------------------------------------------------------ commands, tests, errors


def test_commands_have_their_last_exit_codes() -> None:
    ledger = ledger_of(ran("make", 2), ran("ls", 0), ran("make", 0), ran("top", -1))
    assert list(ledger.commands.items()) == [("ls", 0), ("make", 0), ("top", None)]
    assert ledger.errors == {}


def test_errors_stay_open_until_it_goes_well() -> None:
    no_match = ErrorObservation(content="No match for old_str.")
    failed = did(FileEditAction(path="/a", command="str_replace", old_str="x"), no_match)
    make = ran("make", 2, "cc a.c\na.c:1: error: x\n")
    ledger = ledger_of(failed, make)
    assert ledger.errors == {
        "edit /a": "Error: No match for old_str.",
        "run make": "cc a.c\na.c:1: error: x",
    }
    assert ledger_of(failed, make, did(FileReadAction(path="/a"))).errors == ledger.errors
    assert ledger_of(failed, make, edited("/a"), ran("make -s", 0)).errors == {}
    assert ledger.merge(ledger_of(edited("/a"), ran("make", 0))).errors == {}


PYTEST = """\
FAILED tests/test_a.py::test_x - AssertionError: 1 != 2
FAILED tests/test_a.py::test_y[a b]
1 passed, 2 failed
"""
UNITTEST = """\
FAIL: test_x (tests.test_a.ATest.test_x)
ERROR: test_y (tests.test_a.ATest)
FAILED (failures=1, errors=1)
"""


def test_failing_tests_are_named_until_they_pass() -> None:
    failing = ran("pytest -q tests/test_a.py", 1, PYTEST)
    names = ["tests/test_a.py::test_x", "tests/test_a.py::test_y[a b]"]
    assert list(ledger_of(failing).failing) == names
    one = ran("pytest tests/test_a.py", 1, "FAILED tests/test_a.py::test_x - no\n")
    assert list(ledger_of(failing, one).failing) == names[:1]
    stopped = ran("pytest -x tests/test_a.py", 1, PYTEST[:40])  # at the first one
    assert list(ledger_of(failing, stopped).failing) == names[::-1]
    assert ledger_of(failing, ran("cd /w && pytest", 0, "9 passed")).failing == {}
    assert ledger_of(failing, ran("cd /w && pytest", 0, "9 passed")).errors == {}
    assert list(ledger_of(failing, ran("pytest tests/test_b.py", 0)).failing) == names
    assert list(ledger_of(failing, ran("pytest | tail -1", 0)).failing) == names
    passed = "PASSED tests/test_a.py::test_x\n"
    assert list(ledger_of(failing, ran("pytest -rA | tail", 0, passed)).failing) == names[1:]
    assert list(ledger_of(ran("python -m unittest", 1, UNITTEST)).failing) == [
        "test_x (tests.test_a.ATest.test_x)",
        "test_y (tests.test_a.ATest)",
    ]


# ------------------------------------------------------------------ text


@given(texts())
def test_any_text_is_one_line_and_comes_back(text: str) -> None:
    for said in (quoted(text), written(text)):
        assert len(said.splitlines()) == 1
        assert unquoted(said)[0] == clean(text)


@given(texts(), st.integers(10, 300))
def test_a_shortened_text_keeps_its_bound_and_is_left_alone_then(text: str, limit: int) -> None:
    short = shortened(text, limit)
    assert len(short) <= limit
    assert shortened(short, limit) == short


LEDGER = """\
## Files changed
- edited /w/a.py

## Tests that failed when they last ran
- "tests/test_a.py::test_x" by pytest

## Errors still open
- "run pytest" ended in FAILED tests/test_a.py::test_x

## Commands, with their last exit codes
- exit 1: pytest

## Files read
- read "/w/b\\nc.py\""""


def test_a_ledger_stands_alone_or_below_another_text() -> None:
    ledger = ledger_of(
        edited("/w/a.py"),
        did(FileReadAction(path="/w/b\nc.py")),
        ran("pytest", 1, "FAILED tests/test_a.py::test_x"),
    )
    assert ledger.render() == LEDGER
    assert ArtifactLedger.parse(LEDGER) == ledger
    told = f"As a model tells it.\n- edited nothing\n\n{LEDGER}\n\nThe end.\n- edited /x"
    assert ArtifactLedger.parse(told) == ledger
    assert ArtifactLedger.parse("no ledger\n- edited /x") == ArtifactLedger()
    assert ArtifactLedger().render() == ""


def test_changed_files_without_room_are_counted_by_folder() -> None:
    ledger = ledger_of(*(edited(f"/w/src/module_{n:02}.py") for n in range(40)), created("/b"))
    text = ledger.render(400)
    assert len(text) <= 400
    small = ArtifactLedger.parse(text)
    assert small.changed[-1] == "/b"
    assert small.folders == {"/w/src": 41 - len(small.changed)}
    assert "- up to " in text
    again = small.merge(ledger_of(edited("/w/src/new.py")))
    assert again.folders == small.folders
    assert again.changed[-1] == "/w/src/new.py"
    none = ArtifactLedger.parse(ledger.render(30))
    assert none.left_out["changed files"] + sum(none.folders.values()) + len(none.changed) == 41


DIGEST = """\
Digest of 15 earlier events that are no longer shown, made without a language model:

## What the user said
- [event 1] "Fix the bug.\\n\\"Please\\"."

## Files changed
- created /w/a.py
- edited /w/b.py

## Commands, with their last exit codes
- exit 0: pytest -q

## Todo list
- [done] look
- [in_progress] "fix\\nit"

## What the agent thought and said
- "It is the cache."
- "Done."
"""


def test_a_digest_tells_the_state_of_work() -> None:
    tasks = [{"title": "look", "status": "done"}, {"title": "fix\nit", "status": "in_progress"}]
    state = state_of(
        S(),
        U('Fix the bug.\n"Please".'),
        created("/w/a.py"),
        edited("/w/b.py"),
        ran("pytest -q", 0, "3 passed"),
        did(TaskTrackingAction(command="plan", task_list=[{"title": "look", "status": "todo"}])),
        did(TaskTrackingAction(command="plan", task_list=tasks)),
        A("r-think", "think", action=AgentThinkAction(thought="It is\nthe cache.")),
        O("think"),
        M("Done."),
    )
    assert state.events == 15
    assert state.render() + "\n" == DIGEST
    assert StateOfWork.parse(state.render()) == state


def test_digests_merge_field_by_field() -> None:
    first = state_of(U("task"), ran("make", 2, "no rule"), edited("/a"), M("One."))
    second = state_of([S()] * 6, U("more"), ran("make", 0), created("/b"), M("Two."))
    both = StateOfWork.parse(first.render()).merge(second)
    assert both.events == 6 + 7  # one system message at a time
    assert both.user == {0: "task", 6: "more"}
    assert both.ledger.files == {"/a": "edited", "/b": "created"}
    assert both.ledger.commands == {"make": 0}
    assert both.ledger.errors == {}
    assert both.thoughts == ["One.", "Two."]


def test_another_summary_is_carried_over() -> None:
    told = "The user wants X.\n\n## Files changed\n- edited /fake\nDigest of 3 things"
    state = StateOfWork.parse(told)
    assert state.ledger == ArtifactLedger()
    assert state.carried == [
        "The user wants X.",
        "## Files changed",
        "- edited /fake",
        "Digest of 3 things",
    ]
    again = StateOfWork.parse(state.merge(state_of(edited("/a"))).render())
    assert again.carried == state.carried
    assert again.ledger.files == {"/a": "edited"}
    # A summary and a digest that stand in one view come as one text.
    two = StateOfWork.parse(f"A summary.\n\n{DIGEST}")
    assert two.carried == ["A summary."]
    assert two.ledger.files == {"/w/a.py": "created", "/w/b.py": "edited"}


def closed(summary: str, result: Event | None = None) -> list[Item]:
    return did(MCPAction(name="fold", arguments={"command": "close", "summary": summary}), result)


SUB_TASKS = """\
Digest of 11 earlier events that are no longer shown, made without a language model:

## What sub-tasks came to
- [event 2] "Port 8123.\\nNo retries."
- [event 9] "Done."
"""


def test_what_the_agent_said_of_its_sub_tasks_is_carried_over() -> None:
    first = state_of(
        did(MCPAction(name="fold", arguments={"command": "open", "task": "look"})),
        closed(" Port 8123.\nNo retries.\n"),
        closed("No sub-task is open.", ErrorObservation(content="No.")),
        did(MCPAction(name="other", arguments={"command": "close", "summary": "No fold."})),
        closed(" "),
    )
    assert first.sub_tasks == {2: "Port 8123.\nNo retries."}
    both = StateOfWork.parse(first.render()).merge(StateOfWork(1, sub_tasks={9: "Done."}))
    assert both.render() + "\n" == SUB_TASKS
    assert StateOfWork.parse(SUB_TASKS) == both


@given(texts())
def test_any_summary_of_a_sub_task_is_read_back(text: str) -> None:
    state = state_of(closed(text))
    assert list(state.sub_tasks.values()) == [said for said in [clean(text).strip()] if said]
    assert StateOfWork.parse(state.render()) == state


def test_summaries_of_sub_tasks_are_shortened_before_the_oldest_are_left_out() -> None:
    said = {n: f"part {n}: " + "well " * 200 for n in range(4)}
    small = StateOfWork.parse(StateOfWork(8, sub_tasks=said).render(2000))
    assert list(small.sub_tasks) == [0, 1, 2, 3]
    many = StateOfWork(80, sub_tasks=dict.fromkeys(range(40), "w" * 100))
    # Of 500 characters the first line takes 84 + 2, the last one at most 45 + 2, the title 27: that
    # leaves 340, and an entry takes 3 + 10 + 1 + 102 = 116.
    least = StateOfWork.parse(many.render(500))
    assert list(least.sub_tasks) == [38, 39]
    assert least.left_out == {"fold summaries": 38}
    assert StateOfWork.parse(least.merge(StateOfWork()).render()) == least


@given(event_logs())
def test_a_digest_is_read_back_and_written_again(log: list[Event]) -> None:
    state = StateOfWork.from_turns(View.from_events(log).turns)
    text = state.render()
    assert StateOfWork.parse(text) == state
    assert clean(text) == text


@given(event_logs(), st.integers(500, 3000))
def test_a_digest_keeps_its_bound_and_loses_nothing_without_a_word(
    log: list[Event], limit: int
) -> None:
    state = StateOfWork.from_turns(View.from_events(log).turns)
    text = state.render(limit)
    assert len(text) <= limit
    small = StateOfWork.parse(text)
    assert small.render(limit) == text
    for whole, part, noun in (
        (state.user, small.user, "user messages"),
        (state.ledger.commands, small.ledger.commands, "commands"),
        (state.ledger.errors, small.ledger.errors, "errors"),
        (state.thoughts, small.thoughts, "thoughts"),
        (state.todo, small.todo, "todo items"),
        (state.carried, small.carried, "lines of an earlier summary"),
    ):
        assert len(whole) == len(part) + small.left_out.get(noun, 0)


def test_user_messages_are_shortened_before_one_is_left_out() -> None:
    said = {n: f"wish {n}: " + "please " * 200 for n in range(4)}
    state = StateOfWork(4, said)
    small = StateOfWork.parse(state.render(2000))
    assert list(small.user) == [0, 1, 2, 3]
    assert all(text.startswith(f"wish {n}: please") for n, text in small.user.items())
    least = StateOfWork.parse(StateOfWork(40, dict.fromkeys(range(40), "w" * 100)).render(600))
    assert min(least.user) == 0  # the first and the newest
    assert max(least.user) == 39
    assert least.left_out == {"user messages": 40 - len(least.user)}


# ------------------------------------------------------------------ the condenser


def test_a_second_digest_replaces_the_first_and_knows_what_it_knew() -> None:
    condenser = DigestCondenser(20, 3000)
    view = View.from_events(log(S(), U("task"), *(edited(f"/w/{n}.py") for n in range(10))))
    for n in range(3):
        result = condenser.condense(view)
        assert isinstance(result, Condensation)
        view.append(result.action.replace(id=1000 + n))
        later = log(S(), *(edited(f"/w/later{n}{k}.py") for k in range(8)))[1:]
        for event in later:
            cause = None if event.cause is None else event.cause + 100 * (n + 1)
            view.append(event.replace(id=event.id + 100 * (n + 1), cause=cause))
    texts = [e.content for e in view if isinstance(e, AgentCondensationObservation)]
    assert len(texts) == 1
    shown = {getattr(event, "path", "") for event in view}
    told = set(ArtifactLedger.parse(texts[0]).changed)
    everything = {f"/w/{n}.py" for n in range(10)}
    everything |= {f"/w/later{n}{k}.py" for n in range(3) for k in range(8)}
    assert everything <= shown | told


@given(event_logs(), st.booleans(), st.sampled_from([None, 0]))
def test_each_file_that_forgotten_events_changed_is_named_in_the_view(
    log: list[Event], requested: bool, keep_first: int | None
) -> None:
    condenser = DigestCondenser(6, 6000, keep_first, minimum_progress=0)
    view = View()
    changed: set[str] = set()
    for event in log:
        view.append(event)
        if requested and event.id % 7 == 0:
            view.append(CondensationRequestAction(id=2000 + event.id))
        try:
            result = condenser.condense(view)
        except CannotCondense:
            continue
        if isinstance(result, View):
            continue
        forgotten = set(result.action.forgotten)
        gone = [t for t in view.turns if forgotten & {e.id for e in t.events}]
        calls = [call for turn in gone for call in turn.calls]
        deeds = {deed for call in calls for deed in file_deeds(call.action, call.result)}
        before = [getattr(e, "content", "") for t in gone for e in t.events if t.kind == "summary"]
        view.append(result.action.replace(id=1000 + event.id))
        if result.action.summary is None:
            continue
        changed = {clean(path) for deed, path in deeds if deed in CHANGED}
        for text in before:
            changed |= set(StateOfWork.parse(text).ledger.changed)
        assert changed <= set(ArtifactLedger.parse(result.action.summary).changed)
        assert all(written(path) in result.action.summary for path in changed)


def test_a_digest_is_bounded_by_what_it_replaces_and_by_the_window() -> None:
    thoughts = [M(f"thought {n} " + "x" * 180) for n in range(90)]
    view = View.from_events(log(S(), U("task"), thoughts))
    wide = DigestCondenser(20).condense(view)
    assert isinstance(wide, Condensation)
    assert 5500 < len(wide.action.summary or "") <= 6000
    narrow = DigestCondenser(20).condense(view, Budget(3000, counter=TokenCounter(exact=False)))
    assert isinstance(narrow, Condensation)
    assert len(narrow.action.summary or "") <= 1500
    few = View.from_events(log(S(), U("task"), thoughts[:12]))
    short = DigestCondenser(10).condense(few)
    assert isinstance(short, Condensation)
    assert len(short.action.summary or "") < 12 * 190 / 2


def test_the_same_turns_give_the_same_digest() -> None:
    turns = View.from_events(log(U("task"), edited("/a"), ran("make", 1, "no"), C([]))).turns
    assert Digest().summarize(turns, None) == Digest().summarize(turns, None)


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("rm /a", {"/a": "deleted"}),
        ("cd /w && rm -rf '/b c' d.py; ls", {"/b c": "deleted", "d.py": "deleted"}),
        ("git rm --cached x.py", {"x.py": "deleted"}),
        ("mv old.py new.py", {"old.py": "deleted", "new.py": "created"}),
        ("git mv old.py new.py\necho done", {"old.py": "deleted", "new.py": "created"}),
        ("mv a.py b.py folder/", {}),
        ("mv a.py folder/", {}),
        ("rm *.pyc", {}),
        ("rm $FILE", {}),
        ("rm 'unclosed", {}),
        ("echo rm /a", {}),
        ("find . | xargs rm", {}),
    ],
)
def test_files_that_a_command_removes_or_moves(command: str, files: dict[str, str]) -> None:
    assert ledger_of(ran(command, 0)).files == files
    assert ledger_of(ran(command, 1)).files == {}


def test_a_file_that_was_removed_is_not_said_to_be_there() -> None:
    ledger = ledger_of(created("/w/f1.py"), ran("rm /w/f1.py", 0))
    assert ledger.files == {"/w/f1.py": "deleted"}
