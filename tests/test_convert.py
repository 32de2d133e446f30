"""Converting recorded runs: one to a file, several to a folder, every format to every other."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventfold.benchmarks.convert import convert
from eventfold.events import EventfoldError, UnreadableRun, read_runs
from eventfold.memory.writing import WRITTEN

CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
V0 = [
    {"id": 0, "source": "user", "action": "message", "args": {"content": "hi"}},
    {"id": 1, "source": "agent", "action": "run", "args": {"command": "ls"}},
]


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(json.dumps(value).encode())
    return path


def test_a_single_run_goes_to_the_file(tmp_path: Path) -> None:
    chat = write(tmp_path / "chat.json", CHAT)
    (made,) = convert([chat], tmp_path / "out.jsonl", "eventfold")
    assert (made.name, made.path, made.events) == ("chat", tmp_path / "out.jsonl", 2)
    (run,) = read_runs(tmp_path / "out.jsonl")
    assert (run.name, run.format) == ("chat", "eventfold")


def test_several_runs_go_to_a_folder_under_their_own_names(tmp_path: Path) -> None:
    rows = [{"instance_id": name, "messages": CHAT} for name in ("a/b", "A:b", "..", "c")]
    source = write(tmp_path / "in" / "rows.json", rows)
    v0 = write(tmp_path / "in" / "v0.json", V0)
    made = convert([source, v0], tmp_path / "out" / "deep", "openai_chat")
    assert [one.path.name for one in made] == [
        "a_b.json",
        "A_b-2.json",
        "run.json",
        "c.json",
        "v0.json",
    ]
    assert json.loads(made[0].path.read_bytes()) == CHAT
    assert all(one.path.exists() for one in made)
    assert convert([source, v0], tmp_path / "out" / "deep", "openai_chat") == made


def test_a_single_run_goes_into_a_folder_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (made,) = convert([write(tmp_path / "v0.json", V0)], tmp_path / "out", "eventfold")
    assert made.path == tmp_path / "out" / "v0.jsonl"


def test_a_file_can_be_converted_in_place(tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", V0)
    convert([path], path, "eventfold")
    (run,) = read_runs(path)
    assert (run.format, len(run.events)) == ("eventfold", 2)


def test_what_cannot_be_converted(tmp_path: Path) -> None:
    v0 = write(tmp_path / "in" / "v0.json", V0)
    with pytest.raises(EventfoldError, match=r"no format 'yaml'.*eventfold, openai_chat"):
        convert([v0], tmp_path / "x", "yaml")
    with pytest.raises(EventfoldError, match="lies in"):
        convert([tmp_path / "in"], tmp_path / "in" / "out", "eventfold")
    with pytest.raises(EventfoldError, match="is a file, but there are several runs"):
        convert([v0, v0], v0, "eventfold")
    with pytest.raises(UnreadableRun, match="no such file"):
        convert([tmp_path / "nowhere"], tmp_path / "x", "eventfold")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("to", WRITTEN)
@pytest.mark.parametrize("name", ["1_openhands_v0", "2_openhands_v1", "5_openai_chat"])
def test_recorded_runs_are_converted(corpus: Path, tmp_path: Path, name: str, to: str) -> None:
    made = convert([corpus / name], tmp_path / "out", to)
    assert len({one.path for one in made}) == len(made) > 10
    for one in made:
        if one.path.read_bytes() != b"[\n]\n":  # a log in which nothing was said
            (run,) = read_runs(one.path)
            assert run.format == to
            if to != "openai_chat":
                assert len(run.events) == one.events
