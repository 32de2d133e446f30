"""eventfold forgets what OpenHands forgets, or differs as docs/openhands.md says.

``parity.json`` holds what OpenHands V0 ("v0") and its SDK ("v1") answered, as
``benchmarks/parity/compare.py --record`` found it; no peer is needed here.
"""

import importlib
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TESTS = Path(__file__).parent
SCRIPTS = TESTS.parent / "benchmarks" / "parity"
DOCUMENT = (TESTS.parent / "docs" / "openhands.md").read_text("utf-8")
FACTS = json.loads((TESTS / "parity.json").read_text("utf-8"))
REPLY = {"text": "In short: the handlers were read.", "ids": []}


@pytest.fixture(scope="module")
def scripts() -> dict[str, ModuleType]:
    names = ("case", "eventfold_condensers", "histories", "reasons")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        return {name: importlib.import_module(name) for name in names}


def shown(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        return {"error": answer["error"].partition(":")[0]}
    return {"kept": answer["kept"], "masked": answer["masked"]}


@pytest.mark.parametrize(
    "fact", FACTS, ids=[f"{f['form']} {f['history']} {f['condenser']['type']}" for f in FACTS]
)
def test_what_is_forgotten_is_what_openhands_forgets_or_differs_for_a_reason(
    fact: dict[str, Any], scripts: dict[str, ModuleType]
) -> None:
    histories, condensers = scripts["histories"], scripts["eventfold_condensers"]
    write = histories.as_v0 if fact["form"] == "v0" else histories.as_v1
    log, _ = condensers.read(write(histories.told(fact["history"])), fact["form"])
    ours = condensers.answered(log, condensers.wanted_of(fact["condenser"]), REPLY)
    assert shown(ours) == fact.get("eventfold", fact["openhands"])
    assert ("reason" in fact) == (shown(ours) != fact["openhands"])


def test_every_recorded_difference_has_a_reason_that_is_documented(
    scripts: dict[str, ModuleType],
) -> None:
    known = {reason.name for reason in scripts["reasons"].REASONS}
    assert {fact["reason"] for fact in FACTS if "reason" in fact} <= known
    headings = set(re.findall(r"^\*\*(.+?)\.\*\*", DOCUMENT, re.MULTILINE))
    assert {name[0].upper() + name[1:] for name in known} == headings


def test_an_answer_that_is_not_the_nearest_has_no_reason(scripts: dict[str, ModuleType]) -> None:
    """OpenHands cuts the fourth call from its result; that explains dropping both, and no more."""
    histories, condensers = scripts["histories"], scripts["eventfold_condensers"]
    made = histories.told("S U c1 r1 c2 r2 c3 r3 c4 r4 c5 r5")
    log, _ = condensers.read(histories.as_v0(made), "v0")
    config = {"type": "amortized", "max_size": 10, "keep_first": 2}
    whole = list(range(12))
    theirs = {"view": whole, "kept": [0, 1, 9, 10, 11], "masked": []}

    def reason(kept: list[int]) -> Any:
        ours = {"view": whole, "kept": kept, "masked": []}
        case = scripts["case"].Case("v0", log, config, REPLY, theirs, ours)
        assert case.differs
        return scripts["reasons"].reason_for(case)

    assert reason([0, 1, 10, 11]).name == "cuts a turn"
    assert reason([0, 1]) is None
    assert reason([0, 1, 8, 9]) is None
