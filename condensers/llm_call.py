"""One call of one model: its tries, the waits between them, and what became of it."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from random import uniform
from typing import TYPE_CHECKING, Any, TypeVar

from ..events.event import EventfoldError
from ..memory.message import ChatDict, Reply
from .errors import ErrorKind, kind_of_error
from .litellm_client import LOGGERS, assembled, copied, litellm, reply_of, spent_by
from .metrics import CallMetrics, Spent
from .redaction import environment_secrets, hidden, hide_in_logs

if TYPE_CHECKING:
    from .llm import LLMConfig

__all__ = ["Call", "LLMError", "Request"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_LEAST_OUTPUT = 256  # tokens below which a refused limit of the output is not lowered further
_LONGEST = 2_000  # characters of a provider's text in an error


class LLMError(EventfoldError):
    """A model could not be asked, or gave no usable answer, also after retries.

    ``kind`` says what it is and so what helps, ``tries`` how often the model was asked. The last
    error is the ``__cause__``, without its traceback and its own causes: they hold the API key.
    """

    def __init__(self, message: str, kind: ErrorKind, model: str, tries: int) -> None:
        super().__init__(message)
        self.kind = kind
        self.model = model
        self.tries = tries


class _Unusable(Exception):
    """A response that says nothing: another try may bring a better one."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked. ``output`` is the most tokens that an answer may have, if it is limited."""

    messages: Sequence[ChatDict]
    tools: Sequence[ChatDict] | None
    output: int | None
    response_format: Any
    tool_choice: Any


class Call:
    """Asks one model until it answers, or has finally failed.

    :meth:`ask` and :meth:`aask` return None for a failure; ``failure`` then is the error to raise.
    """

    def __init__(self, config: LLMConfig, request: Request, output_limit: int | None) -> None:
        self.config = config
        self.failure: LLMError | None = None
        self._request = request
        self._output = request.output
        self._output_limit = output_limit
        self._secrets = config.secrets()
        self._tries = 0
        self._spent = Spent()
        self._next_wait: float | None = None  # seconds until the next try; None: there is none
        self._gave_up = ""
        self._answered = False
        self._started = time.monotonic()

    def ask(self) -> Reply | None:
        from tenacity import Retrying

        try:
            return Retrying(**self._patience())(self._try)
        except Exception as error:
            self._fail(error)
            return None

    async def aask(self) -> Reply | None:
        from tenacity import AsyncRetrying

        try:
            return await AsyncRetrying(**self._patience())(self._atry)
        except Exception as error:
            self._fail(error)
            return None

    def metrics(self) -> CallMetrics:
        """What the call has cost until now."""
        error = None
        if not self._answered:  # without a failure: interrupted, or cancelled
            error = ErrorKind.OTHER if self.failure is None else self.failure.kind
        return CallMetrics(self.config.model, self._spent, self._elapsed(), self._tries, error)

    # ------------------------------------------------------------------ one try

    def _try(self) -> Reply:
        with self._one_try() as stream:
            seconds = self._seconds()
            return _within(seconds, lambda: self._answer(stream, time.monotonic() + seconds))

    def _answer(self, stream: _Stream, deadline: float) -> Reply:
        response = litellm().completion(**self._parameters())
        if self.config.stream:
            stream.source = response
            for chunk in response:
                stream.chunks.append(chunk)
                if time.monotonic() > deadline:  # nobody waits any more
                    raise TimeoutError
            response = stream.whole()
        return self._read(response)

    async def _atry(self) -> Reply:
        with self._one_try() as stream:
            seconds = self._seconds()
            try:
                async with asyncio.timeout(seconds):
                    response = await litellm().acompletion(**self._parameters())
                    if self.config.stream:
                        stream.source = response
                        async for chunk in response:
                            stream.chunks.append(chunk)
            except TimeoutError as error:
                raise TimeoutError(_late(seconds)) from error
            return self._read(stream.whole() if self.config.stream else response)

    def _read(self, response: Any) -> Reply:
        self._count(response)
        if not getattr(response, "choices", None):
            raise _Unusable("the response has no choices")
        reply = reply_of(response)
        self._answered = True
        return reply

    @contextmanager
    def _one_try(self) -> Iterator[_Stream]:
        """Counts the try; if it fails, decides whether there is another one."""
        self._tries += 1
        self._next_wait = None
        stream = _Stream()
        try:
            yield stream
        except Exception as error:
            if not stream.read:
                self._count(stream.so_far())
            self._next_wait = self._wait_after(error)
            raise

    def _count(self, response: Any) -> None:
        if spent := spent_by(response, self.config.model):
            self._spent += spent

    def _parameters(self) -> dict[str, Any]:
        config, request = self.config, self._request
        without = None if config.prompt_caching else "cache_control"
        key = config.api_key
        given = {
            "model": config.model,
            "messages": copied(request.messages, without=without),
            "tools": copied(request.tools, without=without) if request.tools else None,
            "tool_choice": copied(request.tool_choice),
            "response_format": copied(request.response_format),
            "max_tokens": self._output,
            "temperature": config.temperature,
            "api_base": config.api_base,
            "api_key": None if key is None else key.get_secret_value(),
            "timeout": self._seconds(),
            "stream": config.stream or None,
            "stream_options": {"include_usage": True} if config.stream else None,
        }
        return {
            "drop_params": True,  # what a model does not take, such as a temperature
            **copied(config.extra),
            **{name: value for name, value in given.items() if value is not None},
            "num_retries": 0,
            "max_retries": 0,
        }

    # ------------------------------------------------------------------ again, or not

    def _patience(self) -> dict[str, Any]:
        """How tenacity retries, for both of its classes."""
        from tenacity import retry_if_exception, stop_after_attempt

        hide_in_logs({*self._secrets, *environment_secrets()}, LOGGERS)
        return {
            "retry": retry_if_exception(lambda error: self._next_wait is not None),
            "wait": lambda state: self._next_wait,
            "stop": stop_after_attempt(self.config.tries),
            "before_sleep": self._log_retry,
            "reraise": True,
        }

    def _wait_after(self, error: Exception) -> float | None:
        """Seconds until the next try; None if it cannot succeed, or would come too late."""
        kind = _kind_of(error)
        if kind is ErrorKind.OUTPUT_TOO_LARGE:
            return 0.0 if self._less_output() else None
        left = self.config.max_seconds - self._elapsed()
        if not kind.may_pass:
            return None
        asked = _retry_after(error)
        if max(asked, 0) >= left:
            if asked > 0:
                self._gave_up = f"; it asks to wait {asked:.0f} s, {max(left, 0):.0f} s are left"
            return None
        if asked > 0:
            return asked
        backoff = self.config.retry_min_wait * 2.0 ** (self._tries - 1)
        wait = min(backoff, self.config.retry_max_wait) * uniform(0.5, 1)
        return min(wait, left / 2)  # what is left after the wait is for the try

    def _less_output(self) -> bool:
        """Halves the tokens that an answer may have, if that leaves enough for one."""
        output = (self._output or self._output_limit or 0) // 2
        if output < _LEAST_OUTPUT:
            return False
        self._output = output
        return True

    def _log_retry(self, state: Any) -> None:
        error = state.outcome.exception()
        _log.info(
            "%s: %s (%s), try %d of %d; again in %.1f s",
            self.config.model,
            _kind_of(error),
            type(error).__name__,
            self._tries,
            self.config.tries,
            self._next_wait or 0,
        )

    def _fail(self, error: Exception) -> None:
        kind = _kind_of(error)
        secrets = {*self._secrets, *environment_secrets()}
        said = hidden(str(error), secrets)
        if len(said) > _LONGEST:
            said = f"{said[: _LONGEST // 2]} ... {said[-_LONGEST // 2 :]}"
        tries = f"{self._tries} {'try' if self._tries == 1 else 'tries'}"
        self.failure = LLMError(
            f"{self.config.model} gave no answer, after {tries} in {self._elapsed():.1f} s"
            f"{self._gave_up}: {type(error).__name__}: {said}",
            kind,
            self.config.model,
            self._tries,
        )
        self.failure.__cause__ = _bare(error, secrets, with_place=kind is ErrorKind.OTHER)

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _seconds(self) -> float:
        """The time that a try may take."""
        return max(0.01, min(self.config.timeout, self.config.max_seconds - self._elapsed()))


class _Stream:
    """The chunks of one try, also of one that fails in the middle. Unused without streaming."""

    def __init__(self) -> None:
        self.source: Any = None
        self.chunks: list[Any] = []
        self.read = False

    def whole(self) -> Any:
        response, complete = assembled(self.source, self.chunks)
        if not complete:
            raise _Unusable("the stream ended before its answer did")
        self.read = True
        return response

    def so_far(self) -> Any:
        if self.source is None:
            return None
        try:
            return assembled(self.source, self.chunks)[0]
        except Exception:
            return None


def _within(seconds: float, function: Callable[[], _T]) -> _T:
    """``function()``, in a thread, if it takes no longer than that.

    A client's own timeouts are for single reads: a server that sends a byte now and then outlives
    them. The thread of a call that nobody waits for ends with its connection.
    """
    done: Future[_T] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            done.set_result(context.run(function))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="eventfold-llm", daemon=True).start()
    try:
        return done.result(seconds)
    except TimeoutError as error:
        raise TimeoutError(_late(seconds)) from error


def _late(seconds: float) -> str:
    return f"the request timed out: no complete answer within {seconds:.1f} s"


def _kind_of(error: BaseException) -> ErrorKind:
    return ErrorKind.TRANSIENT if isinstance(error, _Unusable) else kind_of_error(error)


def _retry_after(error: BaseException) -> float:
    """Seconds that the provider asks to wait, in a number or as a date (RFC 9110, 10.2.3); else
    0."""
    link: BaseException | None = error
    for _ in range(10):
        if link is None:
            break
        headers = getattr(getattr(link, "response", None), "headers", None)
        if isinstance(headers, Mapping) and (value := headers.get("retry-after")):
            return _seconds_in(value)
        link = link.__cause__ or link.__context__
    return 0.0


def _seconds_in(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return seconds if seconds > 0 else 0.0  # also for what is not a number


def _bare(error: Exception, secrets: set[str], *, with_place: bool) -> Exception:
    """The error without what may show a key: frames, causes, and texts of the provider.

    ``with_place``: a note says where it was raised, as of an unknown error that is worth knowing.
    """
    if with_place:
        place = "".join(traceback.format_tb(error.__traceback__)[-3:])
        error.add_note(hidden(f"raised at:\n{place}", secrets))
    error.__traceback__ = error.__cause__ = error.__context__ = None
    shown = f"{error} {error!r}"
    if hidden(shown, secrets) == shown:
        return error
    return RuntimeError(hidden(f"{type(error).__name__}: {error}", secrets))
