"""What is shipped, what is public, and which floor may import which."""

import ast
import importlib
import json
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import eventfold

ROOT = Path(__file__).resolve().parents[1]
FLOORS = ("events", "memory", "condensers", "benchmarks")  # from the ground up
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# What a step loop uses. None of it may load what only some users need.
LOOP = (
    "AgentContext",
    "CmdRunAction",
    "ConversationMemory",
    "ConversationWindowCondenser",
    "EventStream",
    "MessageAction",
    "NoOpCondenser",
    "State",
    "View",
)
HEAVY = ("fsspec", "jinja2", "litellm", "openai", "rich", "sqlalchemy", "tiktoken", "typer", "yaml")


def sources() -> list[Path]:
    """Every file that is shipped as code, the front door first."""
    return [ROOT / "__init__.py", *(p for floor in FLOORS for p in sorted((ROOT / floor).rglob("*.py")))]


def package_of(source: Path) -> list[str]:
    """The parts of the package that ``source`` lies in: ``["eventfold", "events", "stores"]``."""
    return ["eventfold", *source.parent.relative_to(ROOT).parts]


def imports(source: Path) -> Iterator[tuple[int, bool, list[str]]]:
    """Line, whether it is relative, and the parts of the module: each import of ``source``."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, False, alias.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            if node.level:
                package = package_of(source)
                module = package[: len(package) - node.level + 1] + module
            for alias in node.names:
                yield node.lineno, bool(node.level), [*module, alias.name]


# Shipping


def test_packages_are_the_folders_with_an_init() -> None:
    found = {".".join(package_of(source)) for source in sources() if source.name == "__init__.py"}
    assert sorted(PYPROJECT["tool"]["setuptools"]["packages"]) == sorted(found)


def test_every_folder_of_sources_has_an_init() -> None:
    assert [str(s) for s in sources() if not (s.parent / "__init__.py").exists()] == []


def test_nothing_else_lies_in_the_root() -> None:
    """The root is a package: any other ``.py`` there would be shipped."""
    assert [path.name for path in ROOT.glob("*.py")] == ["__init__.py"]


def test_typings_link_every_floor() -> None:
    links = ROOT / "typings" / "eventfold"
    assert {path.name for path in links.iterdir()} == {*FLOORS, "__init__.py", "py.typed"}
    for link in links.iterdir():
        assert link.is_symlink()
        assert link.resolve() == ROOT / link.name


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """The wheel of this tree, built without asking the network for anything."""
    pytest.importorskip("setuptools", minversion="77", reason="building needs setuptools 77")
    tree = tmp_path_factory.mktemp("tree")
    for name in ("README.md", "LICENSE", "pyproject.toml", "py.typed", "__init__.py"):
        (tree / name).write_bytes((ROOT / name).read_bytes())
    for folder in (*FLOORS, "tests", "docs", "examples", "typings"):
        (tree / folder).symlink_to(ROOT / folder)
    out = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(tree)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return zipfile.Path(built)
