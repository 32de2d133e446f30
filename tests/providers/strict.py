"""A strict LLM provider: HTTP on the loopback interface, in OpenAI's chat protocol.

It refuses what the providers of its profile refuse, in their words, checks every request twice (by
eventfold's ``check_messages`` and by a checker of its own), counts tokens in its own way, and keeps
what it was asked::

    with StrictProvider("anthropic", window=4096, policy=seeded(odd=0.3), seed=7) as provider:
        ...  # ask provider.url + "/v1", with any model name and key
    assert provider.refused == []
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

from eventfold.memory.rules import check_messages
from tests.providers.checker import faults
from tests.providers.policies import Answer, Policy, says
from tests.providers.refusals import overflow, refusal

__all__ = ["Request", "StrictProvider", "rough_tokens"]


@dataclass(frozen=True, slots=True)
class Request:
    """One request and what became of it."""

    body: dict[str, Any]
    input_tokens: int
    """As the provider counts."""
    verdict: tuple[str, ...]
    """The broken rules, from either checker: ``"R1 at message 3: ..."``."""
    overflowed: bool
    status: int
    answer: Answer | None
    """None if it was refused."""
    response: dict[str, Any]
    """What was sent back, not yet cut into pieces for a stream; or the error."""
    disagreement: str | None = None
    """Set where only one of the two checkers found fault."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.body["messages"]
        return found

    @property
    def tools(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.body.get("tools") or []
        return found

    @property
    def max_output_tokens(self) -> int:
        return int(self.body.get("max_tokens") or self.body.get("max_completion_tokens") or 0)


def rough_tokens(messages: Any, tools: Any) -> int:
    """About what a tokenizer counts: short runs of letters, up to three digits, single signs; four
    more for each message, 258 for an image."""
    pieces = [*(messages if isinstance(messages, list) else ()), *(tools or ())]
    return 3 + sum(4 + sum(map(_piece_tokens, _leaves(piece))) for piece in pieces)


_TOKEN = re.compile(r" ?[A-Za-z]{1,6}|\d{1,3}|\s+|[^\sA-Za-z\d]")


def _piece_tokens(text: str) -> int:
    return 258 if text.startswith("data:image/") else len(_TOKEN.findall(text))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif value is not None:
        yield str(value)


class StrictProvider:
    """Answers while it is entered. ``requests`` are all that it was asked, in order. Where a policy
    raises, the answer is a 500, and leaving raises it again.

    ``profile`` is one of eventfold's; ``window`` the tokens of input and reserved output together,
    None for no limit; ``tokens`` how it counts them. ``vision=False`` refuses images. ``policy``
    and ``seed`` choose the answers.
    """

    def __init__(
        self,
        profile: str = "portable",
        *,
        policy: Policy | None = None,
        seed: int = 0,
        window: int | None = None,
        vision: bool = True,
        tokens: Callable[[Any, Any], int] = rough_tokens,
    ) -> None:
        self.profile = profile
        self.policy = policy if policy is not None else says()
        self.seed = seed
        self.window = window
        self.vision = vision
        self.tokens = tokens
        self.requests: list[Request] = []
        self._answered = 0
        self._failure: Exception | None = None
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.provider = self

    def __enter__(self) -> Self:
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        if self._failure is not None and kind is None:
            raise self._failure

    @property
    def url(self) -> str:
        """Where it is: ``http://127.0.0.1:port``. Clients of OpenAI's API add ``/v1``."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def refused(self) -> list[Request]:
        """The requests that broke a rule; an overflow is none."""
        return [request for request in self.requests if request.verdict]

    @property
    def overflows(self) -> list[Request]:
        return [request for request in self.requests if request.overflowed]

    @property
    def disagreements(self) -> list[str]:
        """Where only one of the two checkers found fault."""
        return [found.disagreement for found in self.requests if found.disagreement is not None]

    def answer(self, body: dict[str, Any]) -> Request:
        """Judges a request, answers it, and keeps it."""
        with self._lock:
            try:
                request = self._judged(body)
            except Exception as failure:  # of a policy or a checker: the test is to see it
                self._failure = failure
                error = {"error": {"message": f"the provider itself failed: {failure!r}"}}
                request = Request(body, 0, (), False, 500, None, error)
            self.requests.append(request)
            return request

    def _judged(self, body: dict[str, Any]) -> Request:
        messages, tools = body.get("messages"), body.get("tools")
        asked = self.tokens(messages, tools)
        broken = check_messages(
            messages if messages is not None else [],
            self.profile,
            tools=tools,
            vision=self.vision,
        )
        own = faults(messages, tools, self.profile, vision=self.vision)
        verdict = (*map(str, broken), *(f"{fault} (own checker)" for fault in own))
        disagreement = "; ".join(verdict) if bool(broken) != bool(own) else None
        if verdict:
            rule, place = (broken[0].rule, broken[0].index) if broken else own[0][:2]
            error = refusal(self.profile, rule, self._place(messages, place))
            return Request(body, asked, verdict, False, 400, None, error, disagreement)
        reserved = body.get("max_tokens") or body.get("max_completion_tokens") or 0
        if self.window is not None and asked + reserved > self.window:
            error = overflow(self.profile, asked, reserved, self.window)
            return Request(body, asked, (), True, 400, None, error)
        rng = random.Random(f"{self.seed}/{self._answered}")
        self._answered += 1
        answer = self.policy(body["messages"], tools or [], rng)
        response = self._completion(body, answer, asked)
        return Request(body, asked, (), False, 200, answer, response)

    def _place(self, messages: Any, index: int | None) -> int | None:
        """Anthropic does not count the system message."""
        if index is None or self.profile != "anthropic" or not isinstance(messages[0], dict):
            return index
        return max(0, index - (messages[0].get("role") == "system"))

    def _completion(self, body: Mapping[str, Any], answer: Answer, asked: int) -> dict[str, Any]:
        message = answer.message()
        given = self.tokens([message], None)
        choice = {"index": 0, "message": message, "finish_reason": answer.reason}
        return {
            "id": f"chatcmpl-{self.seed}-{self._answered}",
            "object": "chat.completion",
            "created": 1735689600,
            "model": body.get("model"),
            "choices": [choice],
            "usage": {
                "prompt_tokens": asked,
                "completion_tokens": given,
                "total_tokens": asked + given,
            },
        }


def _chunks(response: Mapping[str, Any], with_usage: bool) -> Iterator[dict[str, Any]]:
    """A completion in the pieces of a stream."""
    (choice,) = response["choices"]
    message = dict(choice["message"])
    text, calls = message.pop("content"), message.pop("tool_calls", ())
    deltas: list[dict[str, Any]] = [{**message, "content": ""}]
    deltas += [{"content": piece} for piece in _pieces(text or "")]
    for index, made in enumerate(calls):
        function = made["function"]
        opened = {**made, "index": index, "function": {**function, "arguments": ""}}
        deltas.append({"tool_calls": [opened]})
        for piece in _pieces(function["arguments"]):
            more = {"index": index, "function": {"arguments": piece}}
            deltas.append({"tool_calls": [more]})
    head = {key: response[key] for key in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    ended = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield {**head, "choices": [ended]}
    if with_usage:
        yield {**head, "choices": [], "usage": response["usage"]}


def _pieces(text: str) -> Iterator[str]:
    for at in range(0, len(text), 12):
        yield text[at : at + 12]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    provider: StrictProvider


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps the connection
    disable_nagle_algorithm: ClassVar[bool] = True
    wbufsize = -1  # head and body in one piece

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.path.endswith("/chat/completions"):
            self._send(404, {"error": {"message": f"Invalid URL (POST {self.path})"}})
            return
        try:
            body = json.loads(raw, parse_constant=_no_constant)
            assert isinstance(body, dict)
        except (ValueError, AssertionError):
            error = {"message": "We could not parse the JSON body of your request."}
            self._send(400, {"error": {**error, "type": "invalid_request_error"}})
            return
        server = self.server
        assert isinstance(server, _Server)
        request = server.provider.answer(body)
        if request.status == 200 and body.get("stream"):
            with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
            events = [json.dumps(chunk) for chunk in _chunks(request.response, with_usage)]
            stream = "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])
            self._send_bytes(200, "text/event-stream", stream.encode())
        else:
            self._send(request.status, request.response)

    def _send(self, status: int, body: Mapping[str, Any]) -> None:
        self._send_bytes(status, "application/json", json.dumps(body).encode())

    def _send_bytes(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: ``requests`` is the log."""


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
