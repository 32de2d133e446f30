"""Condensers of one's own: docs/own-condensers.md as it stands there, packages, and mistakes."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from eventfold.condensers import (
    AgentContext,
    Condenser,
    CondenserPipeline,
    ConversationWindowCondenser,
    condenser_from_config,
    config,
    entry_points,
)
from eventfold.condensers.config import InvalidConfig, presets
from eventfold.events import EventStream, InvalidArgument, MessageAction
from eventfold.memory import View
from tests.command_line import ok, refused

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "own-condensers.md").read_text("utf-8")
BLOCKS = [found.groups() for found in re.finditer(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)]
FILES = {
    text.partition("\n")[0].removeprefix("# "): text
    for language, text in BLOCKS
    if language in ("python", "toml")
}
COMMANDS = [text for language, text in BLOCKS if language == "bash"]
(PRINTED,) = [text for language, text in BLOCKS if language == "text"]

CONFIG = """
from typing import Literal
from eventfold.condensers import CondenserConfig, NoOpCondenser, register_condenser

@register_condenser
class MineConfig(CondenserConfig):
    type: Literal["{kind}"] = "{kind}"

    def build(self, parts):
        return NoOpCondenser()
"""


def install(site: Path, package: str, entry: Mapping[str, str], **modules: str) -> None:
    """Puts a package with these entry points and modules into a folder, as pip would."""
    info = site / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
    (info / "METADATA").write_text(head, encoding="utf-8")
    lines = [f"[{entry_points.GROUP}]", *(f"{name} = {value}" for name, value in entry.items())]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text, encoding="utf-8")


def run(arguments: list[str], cwd: Path, *site: Path) -> str:
    """What Python prints, with these folders of installed packages."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, site), *sys.path])}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def command(line: str, cwd: Path, *site: Path) -> str:
    name, *arguments = shlex.split(line)
    assert name == "eventfold"
    return run(["-m", "eventfold.benchmarks.cli", *arguments], cwd, *site)


# The page


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A folder with the files of the page, and the examples."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


@pytest.fixture
def house(page: Path) -> Path:
    """The page's package, installed: its module is in this folder alone."""
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    site = page / "site"
    install(site, project["name"], project["entry-points"]["eventfold.condensers"])
    (page / "house_condensers.py").rename(site / "house_condensers.py")
    return site


def test_the_page_imports_a_file_and_prints_what_it_says(page: Path) -> None:
    assert command(COMMANDS[0], page) == PRINTED
    as_module = COMMANDS[0].replace("house_condensers.py", "house_condensers")
    assert command(as_module, page) == PRINTED


def test_the_pages_package_is_found_by_the_command(page: Path, house: Path) -> None:
    assert command(COMMANDS[1], page, house) == PRINTED


def test_the_pages_package_is_found_by_type_and_in_a_file(page: Path, house: Path) -> None:
    """And not before a type is asked for that is not known without it."""
    code = """
import sys
from eventfold.condensers import condenser_from_config
condenser_from_config("default")
condenser_from_config({"type": "digest"})
print("house_condensers" in sys.modules)
made = [condenser_from_config(one) for one in ("house.toml", "headlines", {"type": "failed_calls"})]
print(*(type(one).__name__ for one in made), made[0].condensers[1].max_turns)
"""
    assert run(["-c", code], page, house).splitlines() == [
        "False",
        "CondenserPipeline HeadlinesCondenser FailedCallsCondenser 16",
    ]


# Packages, in this process


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for packages; what they register is forgotten afterwards."""
    monkeypatch.setattr(config, "_TYPES", config.known_types().copy())
    for name in ("_tried", "_packages", "_disputed"):
        monkeypatch.setattr(entry_points, name, type(getattr(entry_points, name))())
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", "") == str(tmp_path / f"{name}.py"):
            del sys.modules[name]


def test_nobody_looks_for_packages_while_all_types_are_known(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(**_: Any) -> Any:
        raise AssertionError("it looked")

    monkeypatch.setattr(entry_points, "entry_points", slow)
    condenser_from_config("openhands-v0")
    condenser_from_config(
        {"type": "pipeline", "condensers": [{"type": "noop"}, {"type": "digest"}]}
    )
    with pytest.raises(AssertionError, match="it looked"):
        condenser_from_config("mine")


def test_a_package_is_listed_and_a_configuration_class_needs_no_decorator(site: Path) -> None:
    text = CONFIG.format(kind="mine").replace("@register_condenser", "")
    install(site, "acme", {"any-name": "acme_mine:MineConfig"}, acme_mine=text)
    assert presets()["mine"] == {"type": "mine"}
    with pytest.raises(InvalidConfig, match=r"type is one of .*, mine, "):
        condenser_from_config({"type": "nonsuch"})


def test_a_package_that_is_installed_later_is_found(site: Path) -> None:
    with pytest.raises(InvalidConfig):
        condenser_from_config("mine")
    install(site, "acme", {"a": "acme_late"}, acme_late=CONFIG.format(kind="mine"))
    assert isinstance(condenser_from_config("mine"), Condenser)


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("import nonsuch_module", "acme_broken", "ModuleNotFoundError: .*nonsuch_module"),
        ("1/0", "acme_broken", "ZeroDivisionError"),
        ("", "acme_broken:Mine", "AttributeError: .*Mine"),
        ("Mine = 3", "acme_broken:Mine", "a module or a CondenserConfig is expected, found 3"),
        (CONFIG.format(kind="noop"), "acme_broken", "'noop' is taken by eventfold.*NoOp"),
    ],
)
def test_a_broken_package_is_a_warning_and_the_others_work(
    site: Path, text: str, value: str, said: str
) -> None:
    install(site, "acme-broken", {"a": value}, acme_broken=text)
    install(site, "zenith", {"a": "zenith_mine"}, zenith_mine=CONFIG.format(kind="mine"))
    with pytest.warns(UserWarning, match=rf"package acme-broken cannot be used.*a = .*{said}"):
        assert isinstance(condenser_from_config("mine"), Condenser)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        with pytest.raises(InvalidConfig):
            condenser_from_config("nonsuch")
        assert isinstance(condenser_from_config("noop"), Condenser)


def test_a_type_of_two_packages_is_an_error_that_names_both(site: Path) -> None:
    text = CONFIG.format(kind="mine")
    install(site, "acme", {"a": "acme_first"}, acme_first=text)
    install(site, "zenith", {"a": "zenith_second"}, zenith_second=text)
    install(site, "young", {"a": "young_third"}, young_third=CONFIG.format(kind="young"))
    with pytest.warns(UserWarning, match=r"zenith.*acme_first\.MineConfig"):
        assert isinstance(condenser_from_config("young"), Condenser)
    for wanted in ("mine", {"type": "mine"}):
        with pytest.raises(InvalidConfig, match="'mine' is in two packages, acme and zenith"):
            condenser_from_config(wanted)
    assert "mine" not in presets()


# The command line


def test_import_says_what_is_wrong(
    tmp_path: Path, one: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    broken = tmp_path / "broken_own.py"
    broken.write_text("import json\nnonsuch\n", encoding="utf-8")
    for wanted, said in {
        "nowhere_own.py": "there is no file nowhere_own.py",
        "nowhere_own": "ModuleNotFoundError: No module named 'nowhere_own'",
        "broken_own.py": f"NameError: name 'nonsuch' is not defined ({broken}, line 2)",
        "broken_own": f"NameError: name 'nonsuch' is not defined ({broken}, line 2)",
    }.items():
        assert refused("replay", one, "--import", wanted).endswith(said)
    (tmp_path / "typing.py").write_text("", encoding="utf-8")
    said = refused("replay", one, "--import", tmp_path / "typing.py")
    assert said.endswith("there is another module 'typing'; rename the file")


def test_verify_imports_too(tmp_path: Path, one: Path, site: Path) -> None:
    mine = tmp_path / "mine_of_verify.py"
    mine.write_text(CONFIG.format(kind="mine"), encoding="utf-8")
    ok("verify", one, "--import", mine, "--condenser", "mine")
    ok("replay", one, "--import", mine, "--condenser", "mine")  # which is there already


# Condensers that are none


class Wrong(Condenser):
    def __init__(self, outcome: object) -> None:
        super().__init__()
        self.outcome = outcome

    def condense(self, view: View, budget: object = None) -> Any:
        return self.outcome


@pytest.mark.parametrize("outcome", [None, [], "a view", Wrong])
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_what_condense_may_not_return_is_an_error_that_names_the_condenser(
    outcome: object, in_pipeline: bool
) -> None:
    condenser: Condenser = Wrong(outcome)
    if in_pipeline:
        condenser = CondenserPipeline(condenser, ConversationWindowCondenser())
    stream = EventStream("session")
    stream.append(MessageAction("Hello."), "user")
    context = AgentContext(stream, condenser)
    said = r"Wrong\.condense has to return a View or a Condensation; it returned "
    with pytest.raises(InvalidArgument, match=said):
        context.messages()
    with pytest.raises(InvalidArgument, match=said):
        asyncio.run(context.amessages())
