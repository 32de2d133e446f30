"""A language model behind litellm, with retries, fallbacks, limits and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_serializer,
    field_validator,
)

from ..events.event import InvalidArgument
from ..memory.message import ChatDict, ChatModel, Reply
from ..memory.tokens import Budget
from .errors import ErrorKind
from .litellm_client import catalog_entry, litellm, provider_of
from .llm_call import Call, LLMError, Request
from .metrics import Metrics
from .redaction import HIDDEN, secret_texts, veiled

__all__ = ["LEAST_INPUT", "LLM", "LLMConfig", "LLMError", "fitting_input", "for_one_answer"]

# Parameters of litellm that are fields here, or that would undo what is done here.
_NOT_EXTRA = {
    "api_base",
    "api_key",
    "base_url",
    "fallbacks",
    "max_completion_tokens",
    "max_retries",
    "max_tokens",
    "messages",
    "model",
    "num_retries",
    "stream",
    "stream_options",
    "temperature",
    "timeout",
    "tools",
}


def _named(*names: str) -> AliasChoices:
    return AliasChoices(*names)


class LLMConfig(BaseModel):
    """How to ask a language model. OpenHands' names for the same things are taken as well.

    No text made of it shows a key: not its ``repr``, nor what it is saved as. A key that was saved
    as asterisks counts as none.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, hide_input_in_errors=True
    )

    model: str = Field(min_length=1)
    """As litellm names it: ``"anthropic/claude-sonnet-4-5"``, ``"openai/<name>"`` for any server
    that speaks OpenAI's protocol."""
    api_base: str | None = Field(None, validation_alias=_named("api_base", "base_url"))
    """The server's URL; without it, the provider's own."""
    api_key: SecretStr | None = None
    """Without it, litellm takes the provider's key from the environment."""
    temperature: float | None = Field(None, ge=0)
    """Without it, the provider's default; left out for models that take none."""
    timeout: float = Field(180, gt=0)
    """Seconds that one try may take, from the request to the last byte of the answer."""
    max_output_tokens: int | None = Field(None, ge=1)
    """Tokens that an answer may have; without it, the provider's default."""
    stream: bool = False
    """Whether the answer is streamed. It is returned in one piece either way."""
    context_window: int | None = Field(
        None, ge=1, validation_alias=_named("context_window", "max_input_tokens")
    )
    """Tokens of input and output together; without it, what litellm knows of the model."""
    output_limit: int | None = Field(None, ge=1)
    """Tokens of output that the model can make; without it, what litellm knows of the model."""
    tries: int = Field(5, ge=1, le=100, validation_alias=_named("tries", "num_retries"))
    """How often the model is asked at most, the first time included."""
    max_seconds: float = Field(300, gt=0)
    """Seconds that all tries and the waits between them may take. Each fallback has its own."""
    retry_min_wait: float = Field(1, ge=0)
    """Seconds before the second try; doubled for each further one. A Retry-After goes before it."""
    retry_max_wait: float = Field(60, ge=0)
    """Seconds that a wait may have, unless the provider asks for more."""
    fallbacks: tuple[LLMConfig | str, ...] = ()
    """What is asked, in this order, if this model has finally failed. A name stands for this
    configuration with another model; the server, the key and ``extra`` go with it only if the
    provider is the same. The fallbacks of a fallback are not asked."""
    prompt_caching: bool = Field(True, validation_alias=_named("prompt_caching", "caching_prompt"))
    """Whether cache markers in messages are sent. Without them no cache is written."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further parameters of litellm's ``completion``."""

    @field_validator("api_key")
    @classmethod
    def _real_key(cls, key: SecretStr | None) -> SecretStr | None:
        return key if key is not None and key.get_secret_value().strip("* ") else None

    @field_validator("extra")
    @classmethod
    def _further(cls, extra: dict[str, Any]) -> dict[str, Any]:
        if wrong := sorted(_NOT_EXTRA & extra.keys()):
            raise ValueError(f"{', '.join(wrong)}: not in extra, these have options of their own")
        return extra

    @field_serializer("extra")
    def _saved(self, extra: dict[str, Any]) -> dict[str, Any]:
        return veiled(extra)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, veiled(self.extra) if name == "extra" else value

    def secrets(self) -> frozenset[str]:
        """The texts that must not be shown."""
        key = self.api_key
        keys = set() if key is None else {key.get_secret_value()}
        return frozenset(keys | set(secret_texts(self.extra)) - {HIDDEN})


class LLM:
    """A :class:`~eventfold.memory.ChatModel`: any model that litellm knows.

    >>> llm = LLM("anthropic/claude-sonnet-4-5")
    ... reply = llm.completion([{"role": "user", "content": "Hello"}])

    ``config`` is an :class:`LLMConfig`, its fields as a mapping, or a model's name. Retried are
    rate limits, failures of the network and of the server, and responses without a choice; a
    reserved output that is refused as too large is halved. ``metrics`` counts tokens, dollars and
    time.

    Raises :class:`InvalidArgument` if the configuration is not valid.
    """

    def __init__(
        self, config: LLMConfig | Mapping[str, Any] | str, *, metrics: Metrics | None = None
    ) -> None:
        self.config = _validated(config)
        self.metrics = metrics if metrics is not None else Metrics()

    def replace(self, **changes: Any) -> LLM:
        """The same model with other settings, and with the same metrics."""
        settings = {name: getattr(self.config, name) for name in type(self.config).model_fields}
        return LLM({**settings, **changes}, metrics=self.metrics)

    def completion(
        self,
        messages: Sequence[ChatDict],
        *,
        tools: Sequence[ChatDict] | None = None,
        max_output_tokens: int | None = None,
        response_format: Any = None,
        tool_choice: Any = None,
    ) -> Reply:
        """The model's answer; ``messages`` and ``tools`` are not changed.

        An answer may be empty: neither text nor tool calls. Raises :class:`LLMError` if there is
        none after all tries and fallbacks.
        """
        litellm()  # its import takes seconds that no try is charged with
        call = None
        for call in self._calls(messages, tools, max_output_tokens, response_format, tool_choice):
            try:
                reply = call.ask()
            finally:
                self.metrics.add(call.metrics())
            if reply is not None:
                return reply
        raise _failure_of(call)

    async def acompletion(
        self,
        messages: Sequence[ChatDict],
        *,
        tools: Sequence[ChatDict] | None = None,
        max_output_tokens: int | None = None,
        response_format: Any = None,
        tool_choice: Any = None,
    ) -> Reply:
        """The same without blocking."""
        await asyncio.to_thread(litellm)
        call = None
        for call in self._calls(messages, tools, max_output_tokens, response_format, tool_choice):
            try:
                reply = await call.aask()
            finally:
                self.metrics.add(call.metrics())
            if reply is not None:
                return reply
        raise _failure_of(call)

    @property
    def context_window(self) -> int | None:
        """Tokens of input and output together; None if nobody knows."""
        return _window(self.config)

    @property
    def output_limit(self) -> int | None:
        """Tokens of output that the model can make; None if nobody knows."""
        return _output_limit(self.config)

    def budget(self, tools: Sequence[ChatDict] = ()) -> Budget:
        """The tokens that messages may take beside the tools and the answer.

        For the answer ``max_output_tokens`` are reserved, at most half the window; without it, the
        most that the model can make, at most a quarter. Raises :class:`InvalidArgument` if the
        window is not known.
        """
        window = self.context_window
        if window is None:
            raise InvalidArgument(
                f"litellm does not know the window of {self.config.model!r}: see whether the name "
                'is right, or say it: LLM({"model": ..., "context_window": 32768})'
            )
        reserved = _most_output(self.config, self.config.max_output_tokens)
        if reserved is None:
            reserved = min(self.output_limit or window, window // 4)
        return Budget(window, reserved, tools)

    def __repr__(self) -> str:
        return f"LLM({self.config!r})"

    # ------------------------------------------------------------------ the models to ask

    def _calls(
        self,
        messages: Sequence[ChatDict],
        tools: Sequence[ChatDict] | None,
        max_output_tokens: int | None,
        response_format: Any,
        tool_choice: Any,
    ) -> Iterator[Call]:
        """A call of the model, and then of each fallback that may do what it could not."""
        failed: Call | None = None
        for config in (self.config, *self.config.fallbacks):
            model = _same_with(self.config, config) if isinstance(config, str) else config
            if failed is not None and not _may_do_better(model, failed):
                continue
            asked = max_output_tokens if max_output_tokens is not None else model.max_output_tokens
            output = _most_output(model, asked)
            request = Request(messages, tools, output, response_format, tool_choice)
            call = Call(model, request, None if output is not None else _output_limit(model))
            yield call
            if call.failure is not None and failed is not None and failed.failure is not None:
                earlier = failed.failure
                call.failure.add_note(f"before it, {earlier.model} failed: {earlier.kind}")
            failed = call


LEAST_INPUT = 500  # tokens: a model that takes less is given up
_INPUT = 60_000  # tokens of one call where a model has room for more, or nobody knows


def for_one_answer(llm: ChatModel) -> ChatModel:
    """The model for plain answers to prompts that are never sent again."""
    return llm.replace(stream=False, prompt_caching=False) if isinstance(llm, LLM) else llm


def fitting_input(llm: ChatModel, output: int = 0) -> int:
    """The input tokens that fit into a model's window beside those of the ``output``, or a
    guess."""
    window = getattr(llm, "context_window", None)
    if not isinstance(window, int):
        return _INPUT
    return max(LEAST_INPUT, min(_INPUT, (window - output) * 3 // 4))


def _validated(config: LLMConfig | Mapping[str, Any] | str) -> LLMConfig:
    if isinstance(config, LLMConfig):
        return config
    try:
        return LLMConfig.model_validate({"model": config} if isinstance(config, str) else config)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        said = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems)
    raise InvalidArgument(f"the configuration of a language model is not valid: {said}")


def _failure_of(call: Call | None) -> LLMError:
    assert call is not None
    assert call.failure is not None
    return call.failure


def _same_with(config: LLMConfig, model: str) -> LLMConfig:
    """The configuration for another model. A key is never sent to another provider."""
    changes: dict[str, Any] = {
        "model": model,
        "fallbacks": (),
        "context_window": None,
        "output_limit": None,
    }
    provider = provider_of(model)
    if provider is None or provider != provider_of(config.model):
        changes |= {"api_base": None, "api_key": None, "extra": {}}
    return config.model_copy(update=changes)


def _may_do_better(model: LLMConfig, failed: Call) -> bool:
    """Whether another model may answer what this one could not.

    A malformed history stays one; one that is too long needs a window that is known to be larger.
    """
    kind = failed.failure.kind if failed.failure is not None else ErrorKind.OTHER
    if kind is ErrorKind.MALFORMED_HISTORY:
        return False
    if kind in (ErrorKind.CONTEXT_OVERFLOW, ErrorKind.OUTPUT_TOO_LARGE):
        mine, others = _window(model), _window(failed.config)
        return mine is not None and others is not None and mine > others
    return True


def _window(config: LLMConfig) -> int | None:
    if config.context_window is not None:
        return config.context_window
    entry = catalog_entry(config.model)
    return _whole(entry.get("max_input_tokens")) or _whole(entry.get("max_tokens"))


def _output_limit(config: LLMConfig) -> int | None:
    if config.output_limit is not None:
        return config.output_limit
    return _whole(catalog_entry(config.model).get("max_output_tokens"))


def _most_output(config: LLMConfig, asked: int | None) -> int | None:
    """As much of the output that is asked for as the model can make, at most half its window."""
    if asked is None:
        return None
    window = _window(config)
    limits = (_output_limit(config), None if window is None else max(1, window // 2))
    return min([asked, *(limit for limit in limits if limit is not None)])


def _whole(value: Any) -> int | None:
    """A number of tokens; the map has some as texts."""
    return value if isinstance(value, int) and value > 0 else None
