"""Condensers from configuration, and the errors that a mistake gets."""

from __future__ import annotations

import json
import traceback
import warnings
from pathlib import Path
from typing import Any, Literal

import pytest

from eventfold.condensers import (
    LLM,
    BrowserOutputCondenser,
    BrowserOutputCondenserConfig,
    Condenser,
    CondenserConfig,
    CondenserPipeline,
    CondenserPipelineConfig,
    ConversationWindowCondenser,
    LLMSummarizingCondenser,
    LLMSummarizingCondenserConfig,
    NoOpCondenser,
    condenser_from_config,
    register_condenser,
)
from eventfold.condensers.config import InvalidConfig, Parts, presets
from eventfold.condensers.extractive import ExtractiveModel
from eventfold.condensers.llm_summary import LLMSummary

PIPELINE: dict[str, Any] = {
    "type": "pipeline",
    "condensers": [
        {"type": "conversation_window"},
        {"type": "browser_output_masking", "attention_window": 3},
        {"type": "llm", "llm_config": {"model": "extractive"}, "max_size": 40, "keep_first": 2},
    ],
}

TOML = """
[condenser]
type = "pipeline"

[[condenser.condensers]]
type = "conversation_window"

[[condenser.condensers]]
type = "browser_output_masking"
attention_window = 3

[[condenser.condensers]]
type = "llm"
max_size = 40
keep_first = 2
llm_config = { model = "extractive" }
"""

YAML = """
type: pipeline
condensers:
  - type: conversation_window
  - {type: browser_output_masking, attention_window: 3}
  - {type: llm, max_size: 40, keep_first: 2, llm_config: {model: extractive}}
"""


def check_pipeline(condenser: Condenser) -> None:
    assert isinstance(condenser, CondenserPipeline)
    window, browser, summarizing = condenser.condensers
    assert isinstance(window, ConversationWindowCondenser)
    assert isinstance(browser, BrowserOutputCondenser)
    assert browser.attention_window == 3
    assert isinstance(summarizing, LLMSummarizingCondenser)
    assert (summarizing.max_size, summarizing.keep_first) == (40, 2)


@pytest.mark.parametrize(
    ("name", "text"),
    [("c.toml", TOML), ("c.yaml", YAML), ("c.yml", YAML), ("c.json", json.dumps(PIPELINE))],
)
def test_a_file_builds_what_it_says(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    check_pipeline(condenser_from_config(path))
    check_pipeline(condenser_from_config(str(path)))


def test_a_mapping_builds_what_it_says_and_is_not_changed() -> None:
    before = json.dumps(PIPELINE)
    check_pipeline(condenser_from_config(PIPELINE))
    assert json.dumps(PIPELINE) == before


def test_a_config_object_builds_its_condenser() -> None:
    condenser = condenser_from_config(BrowserOutputCondenserConfig(attention_window=7))
    assert isinstance(condenser, BrowserOutputCondenser)
    assert condenser.attention_window == 7


def test_openhands_default_is_window_then_two_pages_then_a_summary() -> None:
    condenser = condenser_from_config("openhands-v0")
    assert isinstance(condenser, CondenserPipeline)
    window, browser, summarizing = condenser.condensers
    assert isinstance(window, ConversationWindowCondenser)
    assert isinstance(browser, BrowserOutputCondenser)
    assert browser.attention_window == 2
    assert isinstance(summarizing, LLMSummarizingCondenser)
    assert (summarizing.max_size, summarizing.keep_first) == (120, 4)


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_preset_builds(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert isinstance(condenser_from_config(name), Condenser)


def test_a_given_model_is_used_before_the_configured_one() -> None:
    model = ExtractiveModel()
    condenser = condenser_from_config({"type": "llm"}, llm=model)
    assert isinstance(condenser, LLMSummarizingCondenser)
    assert isinstance(condenser.stand_in, LLMSummary)
    assert condenser.stand_in.llm is model


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"type": "browser_output_masking", "atention_window": 1}, ["'atention_window'"]),
        (
            {"type": "browser_output_masking", "atention_window": 1},
            ["attention_window, stride, type"],
        ),
        ({"type": "browser_output_masking", "attention_window": -1}, ["attention_window", "-1"]),
        ({"type": "llm", "max_size": 0, "llm_config": {}}, ["max_size", "0"]),
        ({"type": "llm", "max_size": 10, "keep_first": 6}, ["keep_first", "5", "6"]),
        ({"type": "llm"}, ["llm_config", "extractive"]),
        ({"type": "pipeline"}, ["condensers"]),
        ({"type": "pipeline", "condensers": [{"type": "nop"}]}, ["condensers.0", "'nop'", "noop"]),
        (
            {"type": "nop"},
            ["'nop'", "browser_output_masking", "conversation_window", "llm", "noop"],
        ),
        ({}, ["type", "missing"]),
        ("no-such-preset", ["'no-such-preset'", "conversation_window", "openhands-v0", ".toml"]),
        (3, ["table", "3"]),
    ],
)
def test_a_mistake_is_named(config: Any, said: list[str]) -> None:
    with pytest.raises(InvalidConfig) as caught:
        condenser_from_config(config)
    for part in said:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("c.toml", "type = ", "no valid toml"),
        ("c.json", "{", "no valid json"),
        ("c.yaml", "a: [", "no valid yaml"),
        ("c.toml", '[condenser]\ntype = "noop"\nwindow = 3', "unknown key 'window'"),
        ("c.json", "[1]", "is a table"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_the_file(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidConfig) as caught:
        condenser_from_config(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"nowhere\.toml"):
        condenser_from_config(tmp_path / "nowhere.toml")


def test_a_config_of_ones_own_is_found_by_its_type() -> None:
    @register_condenser
    class NothingConfig(CondenserConfig):
        type: Literal["nothing_of_mine"] = "nothing_of_mine"
        answer: int = 42

        def build(self, parts: Parts) -> Condenser:
            return NoOpCondenser()

    assert isinstance(condenser_from_config({"type": "nothing_of_mine"}), NoOpCondenser)
    assert isinstance(condenser_from_config("nothing_of_mine"), NoOpCondenser)
    with pytest.raises(InvalidConfig, match="answer"):
        condenser_from_config({"type": "nothing_of_mine", "answer": "x"})

    with pytest.raises(InvalidConfig, match="taken"):

        @register_condenser
        class OtherConfig(CondenserConfig):
            type: Literal["noop"] = "noop"

    with pytest.raises(InvalidConfig, match="WithoutBuild needs a method: def build"):

        @register_condenser
        class WithoutBuild(CondenserConfig):
            type: Literal["without_build"] = "without_build"

    with pytest.raises(InvalidConfig, match="needs a field"):

        @register_condenser
        class NoType(CondenserConfig):
            size: int = 3


@pytest.mark.parametrize("made", [None, NoOpCondenser, "noop"])
def test_a_config_that_builds_no_condenser_is_named(made: Any) -> None:
    class OddConfig(CondenserConfig):
        type: Literal["odd"] = "odd"

        def build(self, parts: Parts) -> Condenser:
            condenser: Condenser = made
            return condenser

    for config in (OddConfig(), CondenserPipelineConfig(condensers=[OddConfig()])):
        with pytest.raises(InvalidConfig, match=r"OddConfig\.build has to return a Condenser; it"):
            condenser_from_config(config)


def test_a_type_that_needs_options_is_no_preset_and_says_so() -> None:
    assert "pipeline" not in presets()
    with pytest.raises(InvalidConfig, match="'pipeline' needs options: condensers"):
        condenser_from_config("pipeline")


def test_a_pipeline_in_which_nobody_answers_requests_says_so() -> None:
    with pytest.warns(UserWarning, match="no condenser of this pipeline can answer"):
        CondenserPipeline(NoOpCondenser(), BrowserOutputCondenser(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CondenserPipeline(NoOpCondenser(), ConversationWindowCondenser())


def test_configurations_survive_json() -> None:
    config = CondenserPipelineConfig.model_validate(PIPELINE)
    again = CondenserPipelineConfig.model_validate_json(config.model_dump_json())
    assert again == config
    assert again.condensers[1] == BrowserOutputCondenserConfig(attention_window=3)


def test_a_key_in_a_configuration_is_never_shown() -> None:
    secret = "sk-abcdefghijklmnop"
    llm = {"model": "openai/m", "api_key": secret, "api_base": "http://127.0.0.1:1/v1"}
    config = LLMSummarizingCondenserConfig.model_validate({"type": "llm", "llm_config": llm})
    for shown in (repr(config), str(config), config.model_dump_json(), str(config.model_dump())):
        assert secret not in shown
    for wrong in (
        {"api_key": [secret]},
        {"api_key": {"x": secret}},
        {"timeout": secret},
        {"x": secret},
    ):
        with pytest.raises(InvalidConfig) as caught:
            condenser_from_config({"type": "llm", "llm_config": llm | wrong})
        assert secret not in "".join(traceback.format_exception(caught.value))
        assert "llm_config" in str(caught.value)


def test_a_summarizer_neither_streams_nor_writes_caches() -> None:
    llm = LLM({"model": "openai/m", "stream": True})
    condenser = condenser_from_config("llm", llm=llm)
    assert isinstance(condenser, LLMSummarizingCondenser)
    assert isinstance(condenser.stand_in, LLMSummary)
    own = condenser.stand_in.llm
    assert isinstance(own, LLM)
    assert (own.config.stream, own.config.prompt_caching) == (False, False)
    assert own.metrics is llm.metrics
    assert llm.config.stream


def test_a_model_may_be_given_by_its_name() -> None:
    condenser = condenser_from_config("llm", llm="openai/m")
    assert isinstance(condenser, LLMSummarizingCondenser)
    assert isinstance(condenser.stand_in, LLMSummary)
    assert isinstance(condenser.stand_in.llm, LLM)
    with pytest.raises(InvalidConfig, match="found int"):
        condenser_from_config("llm", llm=3)  # type: ignore[arg-type]
