"""A language model provider on loopback that fails as it is told: OpenAI's protocol over real HTTP.

>>> with HostileProvider(rate_limited(1), answer("hello")) as provider:
...     LLM({"model": "openai/m", "api_base": provider.url, "api_key": "k"}).completion(...)

Each request is met by the next fault of the script, and by a plain answer once the script is over.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.message import Message as Headers
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Self

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 40},
    "completion_tokens_details": {"reasoning_tokens": 5},
}

OVERFLOWS = (
    "prompt is too long: 210000 tokens > 200000 maximum",
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 \
tokens. Please reduce the length of the messages.",
    "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease input \
length or `max_tokens` and try again",
    "context_length_exceeded: the prompt does not fit",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "the request exceeds the available context size. try increasing the context size",
    "The input (40000 tokens) is longer than the model's context length (32768 tokens).",
    "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum \
context length",
    "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 \
tokens. Please reduce the length of the messages.",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "Please reduce the length of either one of the messages or the completion.",
    "Input is too long for requested model.",
)
"""A prompt that is too long, as providers word it."""


@dataclass(frozen=True)
class Request:
    """What the client sent."""

    body: dict[str, Any]
    headers: Headers
    at: float  # seconds, of time.monotonic


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def provider(self) -> HostileProvider:
        assert isinstance(self.server, _Server)
        return self.server.provider

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length))
        fault = self.provider.take(Request(body, self.headers, time.monotonic()))
        try:
            fault(self)
        except OSError:
            self.close_connection = True  # the client has gone

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing: the tests' output is theirs."""

    @property
    def let_go(self) -> threading.Event:
        return self.provider.closing

    def send(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None, *, length: int = 0
    ) -> None:
        """A whole response; with ``length`` it claims to be longer than it is."""
        self.send_response(status)
        given = {"Content-Type": "application/json", **(headers or {})}
        given["Content-Length"] = str(length or len(body))
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def send_chunks(self, lines: Iterable[str], *, pause: float = 0, ended: bool = True) -> None:
        """A stream of server-sent events, one for each line; ``pause`` seconds after each."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            self._chunk(f"data: {line}\n\n".encode())
            if pause and self.let_go.wait(pause):
                break
        if ended:
            self._chunk(b"")
        else:
            self.close_connection = True

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def reset(self) -> None:
        """Ends the connection with a reset instead of an orderly close."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        self.provider.abort(self.connection)


Fault = Callable[[Handler], None]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    provider: HostileProvider

    def server_bind(self) -> None:
        """As HTTPServer does it, without asking what this machine is called."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def shutdown_request(self, request: Any) -> None:
        if request in self.provider.aborted:  # an orderly shutdown would come before the reset
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are what this is about."""


class HostileProvider:
    """The server; ``url`` is the ``api_base`` of its clients, ``requests`` what they have sent."""

    def __init__(self, *script: Fault) -> None:
        self.requests: list[Request] = []
        self.aborted: list[Any] = []
        self.closing = threading.Event()
        self._script = list(script)
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.provider = self
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True
        )

    def take(self, request: Request) -> Fault:
        with self._lock:
            self.requests.append(request)
            return self._script.pop(0) if self._script else answer()

    def abort(self, connection: Any) -> None:
        self.aborted.append(connection)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


# ---------------------------------------------------------------------- answers


def completion(
    content: str | None = "hello",
    *,
    finish_reason: str = "stop",
    tool_calls: list[dict[str, Any]] | None = None,
    usage: dict[str, Any] | None = USAGE,
    choices: list[Any] | None = None,
    model: str = "hostile",
) -> dict[str, Any]:
    """The body of an answer."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if tool_calls is not None:
        message["tool_calls"] = tool_calls
    one = {"index": 0, "message": message, "finish_reason": finish_reason}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [one] if choices is None else choices,
    }
    return body if usage is None else {**body, "usage": usage}


def answer(content: str | None = "hello", **fields: Any) -> Fault:
    """An answer: in one piece, or streamed where the request asks for that."""

    def fault(handler: Handler) -> None:
        body = completion(content, **fields)
        asked = handler.provider.requests[-1].body
        if asked.get("stream"):
            handler.send_chunks([*_streamed(body), "[DONE]"])
        else:
            handler.send(200, json.dumps(body).encode())

    return fault


def broken_arguments() -> Fault:
    """A tool call whose arguments are no JSON."""
    function = {"name": "run", "arguments": '{"command": "ls'}
    call = {"id": "call_1", "type": "function", "function": function}
    return answer(None, finish_reason="tool_calls", tool_calls=[call])


def cut_off() -> Fault:
    return answer("It was beg", finish_reason="length")


def empty_choices() -> Fault:
    return answer(choices=[])


def echo_of_key(status: int = 401) -> Fault:
    """A refusal that says the key back, as some providers do."""

    def fault(handler: Handler) -> None:
        key = (handler.headers.get("Authorization") or "").removeprefix("Bearer ")
        said = f"Incorrect API key provided: {key}, also known as {key[:10]}...{key[-4:]}"
        error(status, said, code="invalid_api_key")(handler)

    return fault


# ---------------------------------------------------------------------- refusals


def error(
    status: int, message: str, *, code: str | None = None, headers: Mapping[str, str] | None = None
) -> Fault:
    body = {"error": {"message": message, "type": "invalid_request_error", "code": code}}
    return lambda handler: handler.send(status, json.dumps(body).encode(), headers)


def rate_limited(after: float | str | None = None, message: str = "Rate limit reached") -> Fault:
    headers = {} if after is None else {"Retry-After": str(after)}
    return error(429, message, code="rate_limit_exceeded", headers=headers)


def http_date(seconds: float) -> str:
    """An HTTP date so many seconds from now."""
    return formatdate(time.time() + seconds, usegmt=True)


def overflow(message: str = OVERFLOWS[0]) -> Fault:
    return error(400, message)


def refused() -> Fault:
    message = (
        "Your request was rejected as a result of our safety system (content_policy_violation)"
    )
    return error(400, message, code="content_policy_violation")


def malformed() -> Fault:
    message = (
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
        "with 'tool_calls'."
    )
    return error(400, message)


# ---------------------------------------------------------------------- broken transport


def hang(handler: Handler) -> None:
    """No answer, for as long as the server runs."""
    handler.let_go.wait(30)
    handler.close_connection = True


def hang_in_body(handler: Handler) -> None:
    """Headers and half a body, then nothing."""
    body = json.dumps(completion()).encode()
    handler.send(200, body[: len(body) // 2], length=len(body))
    hang(handler)


def drip(handler: Handler) -> None:
    """A body of blanks, each well before a client stops waiting for the next byte."""
    handler.send(200, b"", length=10_000)
    while not handler.let_go.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def reset_in_body(handler: Handler) -> None:
    body = json.dumps(completion()).encode()
    handler.send(200, body[: len(body) // 2], length=len(body))
    time.sleep(0.02)
    handler.reset()


def cut_body(handler: Handler) -> None:
    """An orderly close in the middle of a body."""
    body = json.dumps(completion()).encode()
    handler.send(200, body[: len(body) // 2], length=len(body))
    handler.close_connection = True


def garbage(handler: Handler) -> None:
    handler.send(200, b'<html>Bad gateway</html> {"choices": [')


# ---------------------------------------------------------------------- broken streams


def _streamed(body: dict[str, Any]) -> Iterable[str]:
    """The chunks of a stream that says the same as ``body``."""
    head = {
        "id": body["id"],
        "object": "chat.completion.chunk",
        "created": 1,
        "model": body["model"],
    }
    for choice in body["choices"]:
        message = choice["message"]
        content = message["content"] or ""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": content[at : at + 3]} for at in range(0, len(content), 3)]
        for index, call in enumerate(message.get("tool_calls") or ()):
            function = call["function"]
            for part in (
                {"name": function["name"], "arguments": ""},
                {"arguments": function["arguments"][:5]},
                {"arguments": function["arguments"][5:]},
            ):
                named = {"id": call["id"], "type": "function"} if "name" in part else {}
                deltas.append({"tool_calls": [{"index": index, **named, "function": part}]})
        for delta in deltas:
            yield json.dumps(
                {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            )
        last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
        yield json.dumps({**head, "choices": [last]})
    if "usage" in body:
        yield json.dumps({**head, "choices": [], "usage": body["usage"]})


def slow_stream(handler: Handler) -> None:
    """Chunks without end, each well before a client stops waiting for the next byte."""
    first, second, *_ = _streamed(completion())
    handler.send_chunks([first, *[second] * 500], pause=0.05)


def _dying_lines() -> list[str]:
    """The first half of a stream, of which one chunk reports usage, as Anthropic's first does."""
    lines = list(_streamed(completion("what is never said to the end")))
    usage = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}
    return [json.dumps({**json.loads(lines[0]), "usage": usage}), *lines[1:4]]


def dying_stream(handler: Handler) -> None:
    """A connection that is reset in the middle of the stream."""
    handler.send_chunks(_dying_lines(), ended=False)
    time.sleep(0.02)
    handler.reset()


def unfinished_stream(handler: Handler) -> None:
    """A stream that ends in order, before any finish reason."""
    handler.send_chunks(_dying_lines())


def error_in_stream(handler: Handler) -> None:
    said = {"error": {"message": "Overloaded", "type": "overloaded_error", "code": 529}}
    handler.send_chunks([*_dying_lines(), json.dumps(said)])


def garbage_stream(handler: Handler) -> None:
    handler.send_chunks([_dying_lines()[0], '{"choices": [', "<html>"])
