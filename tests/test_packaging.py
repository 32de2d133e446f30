"""What is shipped, what is public, and which floor may import which."""

import ast
import importlib
import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter
from pathlib import Path

import pytest

import eventfold
from eventfold import benchmarks, condensers, events, memory

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = {  # run from a checkout, beside peers; not shipped
    ROOT / "benchmarks" / "micro",
    ROOT / "benchmarks" / "parity",
}
FLOORS = {  # from the ground up: a floor imports from itself and from those before it
    "events": events,
    "memory": memory,
    "condensers": condensers,
    "benchmarks": benchmarks,
}
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]

PUBLIC: list[str] = vars(eventfold)["__all__"]

# What a step loop uses, and what must not be loaded for it: it is imported where it is first used.
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

# Parts of a dotted name: ("eventfold", "events", "stores").
Dotted = tuple[str, ...]


def in_floors() -> list[Path]:
    """Every file of the floors, but for what Python and editors leave behind, and READMEs."""
    found = chain.from_iterable((ROOT / floor).rglob("*") for floor in FLOORS)
    return sorted(
        path
        for path in found
        if path.is_file()
        and "__pycache__" not in path.parts
        and path.suffix != ".md"
        and SCRIPTS.isdisjoint(path.parents)
    )


def modules() -> list[Path]:
    return [path for path in in_floors() if path.suffix == ".py"]


def package_of(source: Path) -> Dotted:
    return ("eventfold", *source.parent.relative_to(ROOT).parts)


def imports(source: Path) -> Iterator[tuple[str, bool, Dotted]]:
    """Each import of ``source``: where it stands, whether it is relative, what it names."""
    package = package_of(source)
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        where = f"{source.relative_to(ROOT)}:{node.lineno}"
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield where, False, tuple(alias.name.split("."))
        else:
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                yield where, bool(node.level), (*base, *module, alias.name)


def run_python(code: str) -> str:
    """What ``code`` prints in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT / "tests",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# Shipping


def test_packages_are_the_folders_with_an_init() -> None:
    found = {".".join(package_of(path)) for path in modules() if path.name == "__init__.py"}
    assert sorted(SETUPTOOLS["packages"]) == sorted({"eventfold", *found})


def test_every_folder_of_modules_has_an_init() -> None:
    assert [path for path in modules() if not (path.parent / "__init__.py").exists()] == []


def test_no_other_module_lies_in_the_root() -> None:
    assert [path.name for path in ROOT.glob("*.py")] == ["__init__.py"]


def test_typings_link_the_front_door_and_every_floor() -> None:
    links = list((ROOT / "typings" / "eventfold").iterdir())
    assert {link.name for link in links} == {*FLOORS, "__init__.py", "py.typed"}
    assert [link for link in links if link.resolve() != ROOT / link.name] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of this tree, built from a copy and without a network."""
    pytest.importorskip("setuptools", minversion="77", reason="a build needs setuptools 77")
    tree = tmp_path_factory.mktemp("wheel") / "tree"
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info", "typings")
    shutil.copytree(ROOT, tree, ignore=unwanted, symlinks=True)
    build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    done = subprocess.run(
        [sys.executable, *build], cwd=tree, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (tree / "dist").iterdir()
    return zipfile.ZipFile(built)


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    """A file of a floor that is missing here needs its line under ``package-data``."""
    expected = {f"eventfold/{path.relative_to(ROOT).as_posix()}" for path in in_floors()}
    expected |= {"eventfold/__init__.py", "eventfold/py.typed"}
    metadata = f"eventfold-{eventfold.__version__}.dist-info/"
    shipped = {name for name in wheel.namelist() if not name.startswith(metadata)}
    assert sorted(shipped) == sorted(expected)


def test_the_wheel_says_its_version_licence_and_command(wheel: zipfile.ZipFile) -> None:
    def read(name: str) -> str:
        return wheel.read(f"eventfold-{eventfold.__version__}.dist-info/{name}").decode()

    assert f"\nVersion: {eventfold.__version__}\n" in read("METADATA")
    assert "\nLicense-Expression: MIT\n" in read("METADATA")
    assert read("licenses/LICENSE").startswith("MIT License")
    assert "eventfold = eventfold.benchmarks.cli:main" in read("entry_points.txt")


# Public names


def declared(floor: str) -> dict[str, str]:
    """What the ``if TYPE_CHECKING`` of a floor's ``__init__`` imports: name to module."""
    tree = ast.parse((ROOT / floor / "__init__.py").read_text("utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    found: dict[str, str] = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name, f"write `{alias.name} as {alias.name}`: re-exported"
            found[alias.name] = f"eventfold.{floor}.{node.module}"
    return found


@pytest.mark.parametrize("floor", FLOORS)
def test_type_checkers_see_what_python_sees(floor: str) -> None:
    assert sorted(declared(floor)) == sorted(FLOORS[floor].__all__)


@pytest.mark.parametrize("floor", FLOORS)
def test_every_public_name_resolves(floor: str) -> None:
    for name, module in declared(floor).items():
        found = getattr(FLOORS[floor], name)
        assert found is getattr(importlib.import_module(module), name)
        assert found is getattr(eventfold, name)


def test_the_front_door_has_the_names_of_all_floors_once() -> None:
    names = list(chain.from_iterable(floor.__all__ for floor in FLOORS.values()))
    assert [name for name, times in Counter(names).items() if times > 1] == []
    assert sorted(names) == PUBLIC
    assert set(names) <= set(dir(eventfold))


def test_no_module_has_the_name_of_something_public() -> None:
    """``import eventfold.x.chat`` would put the module in the place of the function ``chat``."""
    stems = {package_of(path)[-1] if path.stem == "__init__" else path.stem for path in modules()}
    assert stems & set(PUBLIC) == set()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'eventfold.events' has no attribute 'Evnt'"):
        attrgetter("Evnt")(events)
    assert not hasattr(eventfold, "Evnt")


def test_star_import_gives_the_public_names() -> None:
    printed = run_python("from eventfold import *; import eventfold; print(*vars())")
    assert set(PUBLIC) <= set(printed.split())


def test_importing_the_package_imports_no_module_of_it() -> None:
    code = "import eventfold, sys, json; print(json.dumps(sorted(sys.modules)))"
    loaded = [name for name in json.loads(run_python(code)) if name.startswith("eventfold")]
    assert loaded == sorted(
        ["eventfold", "eventfold.events._lazy", *(f"eventfold.{floor}" for floor in FLOORS)]
    )


def test_a_step_loop_loads_nothing_heavy() -> None:
    code = f"from eventfold import {', '.join(LOOP)}; import sys; print(*sys.modules)"
    assert set(run_python(code).split()) & set(HEAVY) == set()


def test_pydantic_is_imported_with_the_first_event() -> None:
    names = {*LOOP, "CmdOutputObservation", "ToolCallMetadata", "condenser_from_config"}
    names -= {"ConversationWindowCondenser", "NoOpCondenser"}  # their configurations are models
    code = f"""
import sys
from eventfold import {", ".join(sorted(names))}
print(*sys.modules)
MessageAction("")
print(*sys.modules)
"""
    before, after = (set(line.split()) for line in run_python(code).splitlines())
    assert before & {"pydantic", "pydantic_core"} == set()
    assert after & {"pydantic", "pydantic_core"} == {"pydantic", "pydantic_core"}


# Floors


def test_floors_import_downwards_only() -> None:
    order = list(FLOORS)
    wrong = []
    for source in modules():
        floor = package_of(source)[1]
        below = {*order[: order.index(floor) + 1], "__version__"}
        wrong += [
            f"{where} {'.'.join(target)}"
            for where, relative, target in imports(source)
            if relative and target[1] not in below
        ]
    assert wrong == []


def test_sources_import_each_other_relatively() -> None:
    wrong = [
        f"{where} {'.'.join(target)}"
        for source in [ROOT / "__init__.py", *modules()]
        for where, relative, target in imports(source)
        if not relative and target[0] in {"eventfold", *FLOORS}
    ]
    assert wrong == []
