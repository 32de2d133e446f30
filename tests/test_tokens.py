"""Counting tokens: everything counts, once, offline, and never as zero."""

import base64
import importlib.util
import inspect
import json
import json.decoder
import os
import random
import statistics
import string
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eventfold.events.event import InvalidArgument
from eventfold.events.tool_calls import ToolCall
from eventfold.memory import tokens as tokens_module
from eventfold.memory.image_size import image_tokens, pixel_size
from eventfold.memory.message import ImageContent, Message, TextContent
from eventfold.memory.tokens import ENCODINGS, Budget, TokenCounter

EXACT = TokenCounter()
ESTIMATE = TokenCounter(exact=False)
COUNTERS = [EXACT, ESTIMATE]


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def tool(name: str, description: str) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": {"type": "object"}}
    return {"type": "function", "function": function}


@pytest.fixture
def tokenized(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the tokenizer was given; it takes one token for each character."""
    texts: list[str] = []

    def encode(text: str) -> list[int]:
        texts.append(text)
        return [0] * len(text)

    monkeypatch.setattr(tokens_module, "_encoder", lambda encoding: encode)
    return texts


@pytest.fixture
def not_loaded() -> Iterator[None]:
    """No tokenizer was asked for yet."""
    tokens_module._encoder.cache_clear()
    yield
    tokens_module._encoder.cache_clear()


# ---------------------------------------------------------------------- what counts


def test_text_counts_as_the_tokenizer_says() -> None:
    """Four tokens stand for the role and what marks the ends of a message."""
    assert EXACT.count([user("The quick brown fox jumps over the lazy dog.")]) == 10 + 4
    assert EXACT.count([user("")]) == EXACT.count([user(None)]) == 4
    assert EXACT.count([]) == 0


def test_what_looks_like_a_special_token_is_plain_text() -> None:
    assert EXACT.count([user("<|endoftext|>")]) > 4 + 3


def test_a_message_is_counted_once_by_each_encoding(tokenized: list[str]) -> None:
    messages = [Message.user_message("one"), Message.assistant_message("two")]
    counter = TokenCounter()
    first = counter.count(messages)
    assert counter.count([*messages, Message.user_message("three")]) > first
    assert TokenCounter(calibration=2.0).count(messages) == 2 * first
    assert sorted(tokenized) == ["one", "three", "two"]
    TokenCounter("cl100k_base").count(messages)
    assert sorted(tokenized) == ["one", "one", "three", "two", "two"]


def test_an_estimate_and_an_exact_count_are_remembered_apart() -> None:
    message = Message.user_message("0123456789 " * 100)
    assert ESTIMATE.count([message]) != EXACT.count([message])
    assert ESTIMATE.count([message]) == ESTIMATE.count([message.to_dict()])
    assert EXACT.count([message]) == EXACT.count([message.to_dict()])


def test_a_changed_copy_is_counted_anew() -> None:
    message = Message.user_message("short")
    before = EXACT.count([message])
    assert EXACT.count([message.replace(content=(TextContent("much " * 50),))]) > before + 40


@pytest.mark.parametrize("counter", COUNTERS)
def test_tool_definitions_count(counter: TokenCounter) -> None:
    messages = [user("hi")]
    without = counter.count(messages)
    few = counter.count(messages, tools=[tool("run", "Runs a command.")])
    many = counter.count(messages, tools=[tool("run", "Runs a command. " * 100)])
    assert without == counter.count(messages, tools=None)
    assert without + 20 < few < many - 300


def test_equal_tool_definitions_are_tokenized_once(tokenized: list[str]) -> None:
    named = "a tool of this test only"
    TokenCounter().count([], tools=[tool("one", named), tool("two", named)])
    TokenCounter().count([], tools=[tool("one", named), tool("two", named)])
    assert len(tokenized) == 2


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"content": [{"type": "text", "text": "word " * 200}]}, id="text block"),
        pytest.param({"content": [{"type": "hologram", "of": ["word " * 200]}]}, id="unknown"),
        pytest.param({"content": [{"type": "text", "text": "", "x": "word " * 200}]}, id="extra"),
        pytest.param({"content": {"odd": "word " * 200}}, id="content that is no list"),
        pytest.param({"name": "word " * 200}, id="name"),
        pytest.param({"tool_call_id": "word " * 200}, id="id of the call answered"),
        pytest.param({"reasoning_content": "word " * 200}, id="reasoning"),
        pytest.param(
            {"thinking_blocks": [{"type": "thinking", "thinking": "word " * 200}]}, id="thinking"
        ),
        pytest.param(
            {"thinking_blocks": [{"type": "thinking", "signature": "word " * 200}]}, id="signature"
        ),
        pytest.param({"provider_specific_fields": {"a": "word " * 200}}, id="provider field"),
        pytest.param({"tool_calls": [{"id": "word " * 200}]}, id="call id"),
        pytest.param({"tool_calls": [{"function": {"name": "word " * 200}}]}, id="call name"),
        pytest.param(
            {"tool_calls": [{"function": {"arguments": "word " * 200}}]}, id="call arguments"
        ),
        pytest.param({"tool_calls": [{"extra": {"b": "word " * 200}}]}, id="a call's extra field"),
    ],
)
def test_every_part_of_a_message_counts(counter: TokenCounter, more: dict[str, Any]) -> None:
    assert 200 <= counter.count([{"role": "assistant", "content": None} | more]) <= 350


def test_values_that_are_not_text_count_as_text() -> None:
    odd = [{"type": "odd", "n": 10**40, 7: True, "bytes": b"\xff" * 50, "object": {1, 2}}]
    assert EXACT.count([user(odd)]) > EXACT.count([user([{"type": "odd"}])]) + 50


def test_thinking_that_comes_back_in_several_fields_counts_once() -> None:
    thought = {"thinking_blocks": [{"type": "thinking", "thinking": "word " * 300}]}
    again = {"reasoning_content": "word " * 300, "provider_specific_fields": thought}
    once, thrice = EXACT.count([user("a", **thought)]), EXACT.count([user("a", **thought, **again)])
    assert once < thrice < once + 50
    twice_said = [{"type": "text", "text": "word " * 300}] * 2
    assert EXACT.count([user(twice_said)]) > 600


def test_a_cache_marker_and_the_form_of_a_single_text_change_nothing() -> None:
    plain = Message.user_message("some text")
    marked = plain.replace(cache_marker=True)
    result = Message.tool_message("some text", "call_1", "run")
    assert marked.to_dict() != plain.to_dict()
    assert EXACT.count([marked]) == EXACT.count([plain.replace(as_parts=True)])
    assert EXACT.count([marked]) == EXACT.count([plain])
    assert EXACT.count([result.replace(cache_marker=True)]) == EXACT.count([result])


# ---------------------------------------------------------------------- laws

TEXTS = st.text(st.characters(exclude_categories=()), max_size=60)  # lone surrogates too
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.dictionaries(TEXTS, VALUES, max_size=2)
CONTENTS = st.builds(TextContent, TEXTS) | st.builds(ImageContent, TEXTS)
MESSAGES = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.lists(CONTENTS, max_size=3),
    st.lists(st.builds(ToolCall, TEXTS, TEXTS, TEXTS, FIELDS), max_size=2),
    st.none() | TEXTS,
    st.none() | TEXTS,
    FIELDS,
    FIELDS,
    st.booleans(),
)
ANY = st.builds(
    lambda message, sent: message.to_dict() if sent else message, MESSAGES, st.booleans()
)
counters = st.sampled_from(COUNTERS)


@given(counters, MESSAGES)
def test_a_message_counts_as_the_dict_that_is_sent(counter: TokenCounter, message: Message) -> None:
    assert counter.count([message]) == counter.count([message.to_dict()]) > 0


@given(counters, st.lists(ANY, max_size=4), st.lists(ANY, max_size=4))
def test_counts_add_up(counter: TokenCounter, one: list[Any], two: list[Any]) -> None:
    assert counter.count(one + two) == counter.count(one) + counter.count(two)


@given(
    st.builds(
        TokenCounter,
        st.sampled_from(ENCODINGS[:2]),
        exact=st.booleans(),
        calibration=st.floats(0.5, 4.0),
    ),
    st.lists(ANY, max_size=3),
    ANY,
)
def test_more_messages_never_count_less(
    counter: TokenCounter, messages: list[Any], one: Any
) -> None:
    assert counter.count([*messages, one]) > counter.count(messages) >= 0


@given(counters, st.dictionaries(TEXTS, VALUES, max_size=4))
def test_any_dict_counts(counter: TokenCounter, message: dict[str, Any]) -> None:
    assert counter.count([message]) > 0


# ---------------------------------------------------------------------- images


def png(width: int, height: int) -> bytes:
    header = struct.pack(">I4sIIBBBBB", 13, b"IHDR", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + header + bytes(40)


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(40)


def jpeg(width: int, height: int) -> bytes:
    def segment(marker: int, data: bytes) -> bytes:
        return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data

    frame = struct.pack(">BHHB", 8, height, width, 3) + bytes(9)
    thumbnail = segment(0xC0, struct.pack(">BHHB", 8, 90, 160, 3))  # within a segment: no frame
    parts = [
        b"\xff\xd8",
        segment(0xE0, b"JFIF\0" + bytes(9)),
        segment(0xE1, b"Exif\0\0" + thumbnail + bytes(60_000)),
        segment(0xE2, b"ICC_PROFILE\0" + bytes(65_000)),
        segment(0xC4, bytes(28)),
        b"\xff\xff",
        segment(0xC2, frame),
        segment(0xDA, bytes(10)),
    ]
    return b"".join(parts) + bytes(100)


def webp(kind: bytes, data: bytes) -> bytes:
    chunk = kind + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk + bytes(20)


def webp_lossy(width: int, height: int) -> bytes:
    size = struct.pack("<HH", width | 0x4000, height | 0x8000)  # the upper two bits are a scale
    return webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + size)


def webp_lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", width - 1 | (height - 1) << 14 | 1 << 28))


def webp_extended(width: int, height: int) -> bytes:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return webp(b"VP8X", b"\x10\0\0\0" + sides)


MAKERS = [png, gif, jpeg, webp_lossy, webp_lossless, webp_extended]


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


SCREENSHOT = data_url(png(1920, 1080))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("size", [(1, 1), (640, 480), (1920, 1080), (3, 12_000)])
def test_the_size_is_read_from_the_first_bytes(
    make: Callable[[int, int], bytes], size: tuple[int, int]
) -> None:
    assert pixel_size(data_url(make(*size))) == size


def test_the_size_does_not_depend_on_the_media_type_or_on_line_breaks() -> None:
    url = data_url(jpeg(800, 600), "image/png")
    assert pixel_size(url) == (800, 600)
    broken = url[:22] + "".join(f"{url[at : at + 60]}\n" for at in range(22, len(url), 60))
    assert pixel_size(broken) == (800, 600)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://example.com/a.png",
        "data:image/png;base64,",
        "data:image/png;base64,????",
        "data:image/png;base64,\ud800",
        "data:image/png,89504e47",
        data_url(b"<svg width='9' height='9'/>", "image/svg+xml"),
        data_url(png(0, 600)),
        data_url(png(800, 600)[:19]),
        data_url(jpeg(800, 600)[:60_000]),
        data_url(b"\xff\xd8\xff\xe0\0\0" + bytes(30)),
        data_url(webp(b"VP9 ", bytes(30))),
    ],
)
def test_a_size_that_cannot_be_read_counts_high(url: str) -> None:
    assert pixel_size(url) is None
    assert image_tokens(url) == 4_900


@given(st.binary(max_size=200), st.sampled_from([make(40, 30)[:24] for make in MAKERS]))
def test_any_bytes_have_a_size_or_none(rest: bytes, start: bytes) -> None:
    assert 1_120 <= image_tokens(data_url(start + rest)) <= 14_400


@pytest.mark.parametrize(
    ("size", "tokens"),
    [
        ((16, 16), 1_120),  # Gemini: the same for every size
        ((1024, 1024), 1_659),  # OpenAI's mini models: 32 x 32 patches x 1.62
        ((513, 1537), 1_445),  # GPT-4o: 8 tiles x 170 + 85
        ((1920, 1080), 2_765),  # Claude: pixels / 750
        ((4032, 3024), 14_400),  # a phone's photo
    ],
)
def test_an_image_counts_as_what_the_dearest_provider_takes(
    size: tuple[int, int], tokens: int
) -> None:
    assert image_tokens(data_url(png(*size))) == tokens


def native(url: str) -> dict[str, Any]:
    data = url.partition(",")[2]
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": SCREENSHOT, "detail": "low"}},
        {"type": "image_url", "image_url": SCREENSHOT},
        native(SCREENSHOT),
        {"type": "tool_result", "tool_use_id": "a", "content": [native(SCREENSHOT)]},
    ],
)
def test_an_image_counts_by_its_size_in_every_form(
    counter: TokenCounter, block: dict[str, Any]
) -> None:
    assert 2_765 <= counter.count([user([block])]) < 2_765 + 40


def test_an_image_without_data_counts_by_its_text() -> None:
    assert 200 <= EXACT.count([user([{"type": "image", "file": "word " * 200}])]) < 250


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("as_dicts", [False, True])
def test_screenshots_do_not_slip_under_a_budget(counter: TokenCounter, as_dicts: bool) -> None:
    """Where each is counted as 85 tokens, or a native block makes the count fail, a check lets a
    prompt pass that the provider refuses."""
    beginning = [Message.system_message("You fix bugs."), Message.user_message("Look at the page.")]
    steps: list[Message] = []
    for n in range(4):
        call = ToolCall(f"call_{n}", "screenshot", "{}")
        steps.append(Message.from_tool_calls([call]))
        shot = (TextContent("The page:"), ImageContent(SCREENSHOT))
        steps.append(Message.tool_message(shot, f"call_{n}"))
    messages: list[Any] = [*beginning, *steps]
    if as_dicts:
        messages = [message.to_dict() for message in messages]
        messages[-1]["content"] = [native(SCREENSHOT)]
    text_only = counter.count([*beginning, *[m for m in steps if m.role == "assistant"]])
    assert not Budget(text_only + 4 * 85 + 200, counter=counter).fits(messages)
    assert 4 * 2_765 < counter.count(messages) < 4 * 2_800 + 400


# ---------------------------------------------------------------------- the tokenizer


def in_a_new_process(code: str, **environment: str) -> str:
    env = os.environ | environment
    command = [sys.executable, "-c", inspect.cleandoc(code)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tokenizer_is_loaded_late_offline_and_without_litellm(tmp_path: Path) -> None:
    code = """
        import os, socket, sys
        def refuse(*args, **options):
            raise OSError("no network here")
        socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
        from eventfold.memory import Budget, Message, TokenCounter
        budget = Budget(100, tools=[{"name": "run"}])
        assert TokenCounter(exact=False).count([{"role": "user", "content": "hello world"}])
        assert "tiktoken" not in sys.modules
        counted = TokenCounter().count([Message.user_message("antidisestablishmentarianism")])
        assert counted == 4 + 6, counted
        for encoding in ("cl100k_base", "p50k_base"):
            assert TokenCounter(encoding).count([Message.user_message(" " * 500)]) < 4 + 100
        assert "litellm" not in sys.modules
        print(os.environ["TIKTOKEN_CACHE_DIR"])
    """
    assert in_a_new_process(code, TIKTOKEN_CACHE_DIR=str(tmp_path)).strip() == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("not_loaded")
def test_the_environment_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    before = dict(os.environ)
    assert tokens_module._encoder("o200k_base") is not None
    assert dict(os.environ) == before


def _refuse(*_: Any) -> Any:
    raise RuntimeError("broken")


def _tiktoken_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)


def _litellm_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def _litellm_cannot_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", _refuse)


def _the_tokenizer_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "_encoder", lambda encoding: _refuse)


@pytest.mark.usefixtures("not_loaded")
@pytest.mark.parametrize(
    "broken",
    [_tiktoken_is_missing, _litellm_is_missing, _litellm_cannot_be_found, _the_tokenizer_raises],
)
def test_without_a_tokenizer_tokens_are_estimated_and_the_log_says_so(
    broken: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken(monkeypatch)
    messages = [user("some text that counts"), user([{"type": "odd"}])]
    tools = [tool("run", "Only here.")]
    counted = TokenCounter().count(messages, tools=tools)
    assert counted == ESTIMATE.count(messages, tools=tools) > 30
    assert "estimated" in caplog.text


def test_the_tokenizer_never_gets_a_long_text(tokenized: list[str]) -> None:
    assert TokenCounter().count([user("x" * 100_001)]) == 100_001 + 4
    assert max(map(len, tokenized)) <= 5_000
    assert "".join(tokenized) == "x" * 100_001


@pytest.mark.parametrize("letter", ["a", " ", "\n", "中", "="])
def test_a_million_of_one_letter_is_counted_exactly(
    letter: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At once they take seconds to minutes, or the tokenizer's stack overflows."""
    once = EXACT.count([user(letter * 4_000)]) - 4
    assert EXACT.count([user(letter * 1_000_000)]) == pytest.approx(250 * once, rel=0.05)
    assert caplog.text == ""


def test_an_ordinary_long_text_loses_nothing_by_the_cuts() -> None:
    import tiktoken

    text = inspect.getsource(random)
    EXACT.count([user(text)])  # so that the encoding is loaded
    exact = len(tiktoken.get_encoding("o200k_base").encode(text, disallowed_special=()))
    assert exact + 4 <= EXACT.count([user(text)]) <= exact * 1.002 + 4


# ---------------------------------------------------------------------- the estimate

DICE = random.Random(7)
ENGLISH = (
    "The parser fails on empty input because the first token is read before the length is "
    "checked. Please reproduce the failure with a small test, fix the cause, and run the whole "
    "test suite before you finish. Do not change the public interface. "
)
REALISTIC = {
    "english": ENGLISH * 3,
    "german": "Der Fehler tritt auf, wenn die Eingabe leer ist. Bitte schreiben Sie zuerst einen "
    "Test, der ihn zeigt, und ändern Sie danach den Code; alle Prüfungen müssen laufen. " * 3,
    "python": inspect.getsource(json.decoder),
    "json": json.dumps([tool(f"tool_{n}", ENGLISH) for n in range(5)], indent=1),
    "compact json": json.dumps({f"key_{n}": [n, n * 1.5, None, f"v{n}"] for n in range(60)}),
    "escaped": json.dumps({"path": "/repo/a.py", "new_str": inspect.getsource(json.decoder)[:900]}),
    "base64": base64.b64encode(DICE.randbytes(1500)).decode(),
    "base64 url": base64.urlsafe_b64encode(DICE.randbytes(600)).decode(),
    "hex": DICE.randbytes(300).hex(),
    "log": "\n".join(f"{DICE.randbytes(20).hex()} Fix the lexer ({n})" for n in range(20)),
    "traceback": 'Traceback (most recent call last):\n  File "/repo/src/app/main.py", line 214, in '
    "load_config\n    return parse(path.read_text())\nValueError: unexpected end of input\n" * 5,
    "pytest": "tests/test_views.py::TestViews::test_rebuilt_view_equals_incremental PASSED [ 12%]\n"
    "tests/test_views.py::TestViews::test_window FAILED [ 25%]\nE   AssertionError: assert 3 == 4\n"
    * 5,
    "listing": "-rw-r--r-- 1 root root  4096 Jan 12 10:31 pyproject.toml\n"
    "drwxr-xr-x 3 root root 12288 Feb  3 09:07 node_modules\n" * 8,
    "diff": "diff --git a/src/app.py b/src/app.py\nindex 3f2a1bc..9d0e4f7 100644\n"
    "--- a/src/app.py\n+++ b/src/app.py\n@@ -10,7 +10,8 @@ def load(path):\n-    return data\n" * 4,
    "numbers": "\n".join(f"epoch {n} loss {1 / (n + 1.5):.4f} lr 0.00{n}" for n in range(40)),
    "html": '<div class="row"><a href="/docs/index.html" title="Home">Home</a></div>\n' * 10,
    "shell": 'cd /workspace && grep -rn "def load_config" --include="*.py" . | head -20\n' * 8,
    "chinese": "我们需要修复解析器中的错误。它在处理空输入时会引发异常。"
    "请先阅读测试。然后修改代码并运行全部测试以确认没有回归问题。" * 4,
    "japanese": "空の入力を処理すると例外が発生します。"
    "まずテストを読んで、コードを変更してください。" * 4,
    "korean": "빈 입력을 처리할 때 예외가 발생하므로 파서의 버그를 수정해야 합니다. "
    "먼저 테스트를 읽고 코드를 수정한 다음 모든 테스트를 실행하세요. " * 4,
    "emoji": "✅ passed 🚀 deployed ❌ failed 🐛 found\n" * 10,
}


def overshoot(text: str) -> float:
    return ESTIMATE.count([user(text)]) / EXACT.count([user(text)])


@pytest.mark.parametrize("name", REALISTIC)
def test_the_estimate_of_a_realistic_text_errs_high(name: str) -> None:
    assert 0.9 <= overshoot(REALISTIC[name]) <= 1.8


def test_the_estimate_does_not_err_far() -> None:
    assert 1.05 <= statistics.median(map(overshoot, REALISTIC.values())) <= 1.4


def test_the_estimate_of_recorded_runs_errs_high_and_not_far(corpus: Path) -> None:
    texts = {text for path in sorted(corpus.rglob("*.json*")) for text in _long_texts(path)}
    drawn = random.Random(3).sample(sorted(texts), min(2_000, len(texts)))
    ratios = sorted(map(overshoot, drawn))
    assert ratios[0] > 0.7
    assert sum(ratio < 0.9 for ratio in ratios) <= 0.01 * len(ratios)
    assert 1.05 <= statistics.median(ratios) <= 1.45
    assert ratios[int(0.95 * len(ratios))] <= 1.8


def _long_texts(path: Path) -> Iterator[str]:
    """The strings of 100 to 20,000 characters in a file of JSON or JSON lines."""
    content = path.read_text(encoding="utf-8", errors="replace")
    for document in (content,) if path.suffix == ".json" else content.splitlines():
        try:
            values = [json.loads(document)]
        except ValueError:
            continue
        while values:
            value = values.pop()
            if isinstance(value, dict | list):
                values.extend(value.values() if isinstance(value, dict) else value)
            elif isinstance(value, str) and 100 <= len(value) <= 20_000:
                yield value


ODD_ALPHABETS = {
    "rare letters": "qxzjkvw",
    "blanks": " \t\n\r",
    "punctuation": string.punctuation,
    "control characters": "".join(map(chr, range(32))),
    "hieroglyphs": "".join(map(chr, range(0x13000, 0x13400))),
    "combining marks": "".join(map(chr, range(0x300, 0x36F))),
    "syriac": "".join(map(chr, range(0x700, 0x7FF))),
    "rare han": "".join(map(chr, range(0x20000, 0x20400))),
}


@pytest.mark.parametrize("alphabet", ODD_ALPHABETS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_count_is_above_what_it_is_said_to_be_at_most(alphabet: str, encoding: str) -> None:
    chance = random.Random(alphabet)
    text = "".join(chance.choice(ODD_ALPHABETS[alphabet]) for _ in range(2_000))
    counter = TokenCounter(encoding)
    assert counter.count([user(text)]) <= counter.at_most([user(text)])


@given(texts=st.lists(st.text(), max_size=5), counted=st.integers(0, 5))
def test_at_most_is_exact_for_what_was_counted_before(texts: list[str], counted: int) -> None:
    messages = [Message.user_message(text) for text in texts]
    EXACT.count(messages[:counted])
    assert EXACT.count(messages) <= EXACT.at_most(messages)
    assert EXACT.at_most(messages) == EXACT.count(messages)  # all are counted now


def test_a_tokenizer_is_asked_only_near_the_limit(tokenized: list[str]) -> None:
    messages = [Message.user_message("é" * 100)]  # 200 bytes; 104 tokens
    assert Budget(204).fits(messages)
    assert tokenized == []
    assert Budget(203).fits(messages)
    assert not Budget(103).fits(messages)
    assert Budget(104).fits(messages)
    assert len(tokenized) == 1  # each text once


# ---------------------------------------------------------------------- calibration


@pytest.mark.parametrize("truth", [0.7, 0.95, 1.27, 2.5])
def test_reports_bring_the_counts_to_those_of_the_provider(truth: float) -> None:
    """SmolLM2 takes 1.27 times the tokens of cl100k_base."""
    counter = TokenCounter()
    messages = [user("word " * 20_000)]
    reported = round(counter.count(messages) * truth)
    for _ in range(8):
        counter = counter.calibrated(reported, counter.count(messages))
    assert counter.count(messages) == pytest.approx(reported, rel=0.02)


def test_a_report_changes_nothing_else() -> None:
    counter = TokenCounter("cl100k_base", exact=False)
    after = counter.calibrated(20_000, 10_000)
    assert (after.encoding, after.exact) == ("cl100k_base", False)
    assert after.calibration == pytest.approx(1.95, abs=0.01)
    assert counter.calibration == 1.0


@given(st.floats(0.5, 4.0), st.integers(-10, 10**7), st.integers(-10, 10**7))
def test_a_calibration_stays_in_bounds_and_sinks_slowly(
    calibration: float, reported: int, counted: int
) -> None:
    before = TokenCounter(calibration=calibration)
    after = before.calibrated(reported, counted)
    assert max(0.5, 0.899 * calibration) <= after.calibration <= 4.0
    if reported > counted > 0:
        assert after.calibration >= calibration
    if reported == counted:
        assert after.calibration == pytest.approx(calibration)


@pytest.mark.parametrize(("reported", "counted"), [(12, 40_000), (0, 100), (-1, 100), (100, 0)])
def test_a_report_that_cannot_be_true_changes_nothing(reported: int, counted: int) -> None:
    """The first is what remains where the cached tokens are left out."""
    counter = TokenCounter(calibration=1.5)
    assert counter.calibrated(reported, counted) is counter


def test_the_fixed_cost_of_a_short_prompt_is_not_taken_for_a_ratio() -> None:
    assert TokenCounter().calibrated(reported=350, counted=12).calibration < 1.7


# ---------------------------------------------------------------------- what is asked for


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (lambda: TokenCounter("o300k"), "o300k"),
        (lambda: TokenCounter(calibration=0.4), "0.4"),
        (lambda: TokenCounter(calibration=float("nan")), "nan"),
        (lambda: Budget(0), "0"),
        (lambda: Budget(-5), "-5"),
        (lambda: Budget(100, reserved_output=-1), "-1"),
    ],
)
def test_an_argument_out_of_its_range_is_named(wrong: Callable[[], Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        wrong()


def test_a_budget_is_the_window_less_what_else_is_sent() -> None:
    tools = [tool("run", "Runs a command."), tool("edit", "Edits a file.")]
    budget = Budget(1_000, reserved_output=200, tools=tools)
    overhead = TokenCounter().count([], tools=tools)
    assert budget.overhead == overhead > 40
    assert budget.available == 800 - overhead
    assert Budget(1_000, counter=ESTIMATE).available == 1_000


def test_what_fits_is_counted_with_the_budgets_own_counter() -> None:
    messages = [Message.user_message("word " * 500)]
    size = EXACT.count(messages)
    assert Budget(size).count(messages) == size
    assert Budget(size).fits(messages)
    assert Budget(size + 7, reserved_output=7).fits(messages)
    assert not Budget(size + 7, reserved_output=8).fits(messages)
    assert not Budget(size, counter=TokenCounter(calibration=1.01)).fits(messages)


def test_tools_above_the_window_leave_less_than_nothing() -> None:
    """What no condensation can mend must be seen from the start."""
    budget = Budget(90, tools=[tool("run", "word " * 100)])
    assert budget.available < 0
    assert not budget.fits([])


def test_a_budget_keeps_its_tools_and_can_be_a_key() -> None:
    tools = [tool("run", "Runs a command.")]
    budget = Budget(1_000, tools=tools)
    tools.clear()
    assert budget.overhead > 20
    assert {budget: 1}[Budget(1_000, tools=[tool("run", "Runs a command.")])] == 1


def test_what_was_counted_is_at_hand_and_nothing_else() -> None:
    budget = Budget(10_000, tools=[tool("x", "what it does " * 5)])
    one, two = Message.user_message("1"), Message.user_message("2")
    budget.counter.count([one])
    ESTIMATE.count([one, two])
    assert budget.counted([one, two]) is None
    assert budget.counted([one]) == budget.count([one]) + budget.overhead
    assert budget.overhead > 0


def test_the_order_of_messages_is_in_their_hash() -> None:
    one, two = Message.user_message("1"), Message.user_message("2")
    assert Message.sha256([one, two]) != Message.sha256([two, one])
