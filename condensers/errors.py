"""What an error of an LLM call is: one table of wordings, classes and statuses.

Nothing here imports a client library: exceptions are known by the names of their classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

__all__ = ["ErrorKind", "is_context_overflow", "kind_of_error"]


class ErrorKind(StrEnum):
    """What an error of an LLM call is, by what helps against it."""

    CONTEXT_OVERFLOW = "context_overflow"
    """The input is too long for the model: a shorter history helps."""
    OUTPUT_TOO_LARGE = "output_too_large"
    """The input fits, the reserved output is too large: a lower limit of the output helps."""
    MALFORMED_HISTORY = "malformed_history"
    """The provider does not take messages of this shape or order: they must be repaired."""
    RATE_LIMIT = "rate_limit"
    """What the account may use in a minute, an hour or a day is used up: waiting helps."""
    REFUSED = "refused"
    """A content filter or a safety check: the same words will be refused again."""
    AUTH = "auth"
    """A valid key, a permission, or credit is missing: only a person can help."""
    TRANSIENT = "transient"
    """The network or the provider's side: timeouts, resets, 5xx, an overloaded service."""
    OTHER = "other"

    @property
    def may_pass(self) -> bool:
        """True if the same request, sent again later, can succeed."""
        return self in (ErrorKind.RATE_LIMIT, ErrorKind.TRANSIENT)


def kind_of_error(error: BaseException | str) -> ErrorKind:
    """What an exception, or the text of one, is. Never raises.

    The text and the body of an exception count first, then its class, then its status: providers
    word their refusals with more care than they number them, or than libraries classify them. An
    exception that none of these tells apart is what its ``__cause__`` is.
    """
    if isinstance(error, str):
        text = _plain(error)
        return _worded(text) or _named(text) or ErrorKind.OTHER
    for link in _chain(error):
        text = _text_of(link)
        kind = _worded(text) or _classified(link, text) or _numbered(link) or _named(text)
        if kind is not None:
            return kind
    return ErrorKind.OTHER


def is_context_overflow(error: BaseException | str) -> bool:
    """True if a provider refused a prompt because its *input* is too long for the model.

    Not for rate limits, nor for a small input whose reserved output is too large: where the refusal
    states the input, at most half the window is small.
    """
    return kind_of_error(error) is ErrorKind.CONTEXT_OVERFLOW


# ---------------------------------------------------------------------- the table


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.ASCII)


# Read from the top: the first wording that is found decides. Texts are compared in lower case,
# without quotation marks and backslashes, with one space for each run of white space.
_WORDINGS: tuple[tuple[ErrorKind, re.Pattern[str]], ...] = (
    # First what is worded, classified or numbered like another kind.
    (
        ErrorKind.CONTEXT_OVERFLOW,
        _any(
            r"extra usage is required for long context",  # Anthropic, as a rate limit
            r"long context beta is not yet available",  # Anthropic, as a missing permission
        ),
    ),
    (
        ErrorKind.OUTPUT_TOO_LARGE,
        _any(
            r"fewer max_tokens.{0,80}can only afford [1-9]",  # OpenRouter, as missing credit
        ),
    ),
    (
        ErrorKind.OTHER,
        _any(
            r"maximum (?:allowed )?(?:number of bytes|(?:request )?size)",  # Anthropic: images
            r"payload (?:size exceeds|too large)|request entity too large",  # Gemini, Groq, proxies
            r"certificate verify failed",  # no connection error that passes
        ),
    ),
    (
        ErrorKind.REFUSED,
        _any(
            r"content[ _]?filter",  # Azure, OpenAI, Moonshot, Anthropic, Mistral
            r"content[ _]policy",  # OpenAI
            r"responsible ?ai ?policy|content management policy",  # Azure
            r"safety system|violating our usage policy|cyber_policy",  # OpenAI
            r"blocked by content|prohibited[ _]content|response was blocked",  # Gemini
            r"(?:block|finish)_?reason:? (?:\d )?(?:safety|blocklist|prohibited)",  # Gemini
            r"guardrail[ _](?:intervened|violation)|blocked by guardrail",  # Bedrock, Databricks
            r"inappropriate content|data_?inspection_?failed",  # DashScope
            r"content exists risk",  # DeepSeek
            r"considered high risk",  # Moonshot
            r"content violates usage guidelines|safety_check_type",  # xAI, as a 403
            r"input was flagged for",  # OpenRouter, as a 403
            r"violates? (?:our |the )?(?:usage|content) (?:policy|policies|guidelines)",  # gateways
        ),
    ),
    (
        ErrorKind.AUTH,
        _any(
            r"(?:invalid|incorrect|missing|wrong|no)[ _](?:x-)?api[ _-]?(?:key|token)",  # most
            r"api[ _-]?key (?:is )?(?:not valid|invalid|expired)",  # Gemini
            r"api key appears to be invalid|invalid[ _]authentication",  # Moonshot
            r"missing credentials|missing \w+ api[ _-]?key",  # OpenAI's client, litellm for Gemini
            r"authentication_error|permission_error",  # Anthropic
            r"authentication (?:fails|failed)|authentication method",  # DeepSeek, Anthropic
            r"permission[_-]denied|unauthenticated|unauthorized",  # Google, Databricks, xAI
            r"does not have permission|insufficient permissions",  # xAI, OpenAI
            r"no auth credentials found|no cookie auth",  # OpenRouter
            r"api_key client option must be set",  # OpenAI's client
            r"credentials were not found|unable to locate credentials",  # Google's, Amazon's client
            r"security token included in the request|expiredtoken|unrecognizedclient",  # Bedrock
            r"accessdenied|access is denied|dont have access to the model",  # Bedrock
            r"invalid subscription key",  # Azure
            r"incorrect authentication token|valid user token is required",  # Replicate, HF
            r"insufficient[ _](?:quota|balance|credits?|funds)",  # OpenAI, DeepSeek, OpenRouter
            r"billing[ _](?:hard[ _]limit|not[ _]active)|check your billing details",  # OpenAI
            r"credit balance is too low|specified api usage limits",  # Anthropic, as a 400
            r"can only afford|prompt tokens limit exceeded|key limit exceeded",  # OpenRouter
            r"used all available credits|run out of credits",  # xAI, as a 429
            r"exceeded_current_quota|account .{0,60}(?:is suspended|is not active)",  # Moonshot
            r"usage limit for this billing cycle",  # Moonshot
            r"credit_limit|credits? (?:limit|are|is) (?:exceeded|depleted|exhausted)",  # Together
            r"arrearage|account is in good standing",  # DashScope
            r"limit: 0,|rate limit of 0(?!\.?\d)",  # Gemini, Databricks: no access to the model
        ),
    ),
    (
        ErrorKind.RATE_LIMIT,
        _any(
            r"(?:tokens|requests|queries|calls) (?:per|/) ?(?:sec|min|hour|day)",  # OpenAI, Groq
            r"\b(?:it|ot|t|r|q)p[smdh]\b",  # tokens, requests per ...: OpenAI, Groq, Databricks
            r"(?<!x-)rate[ _-]limit|ratelimit(?:exceeded|reached)|rate_limited",  # most
            r"quota exceeded|exceeded .{0,30}quota for|exceeded the .{0,30}quota",  # Gemini, Azure
            r"resource[ _]?(?:has been )?exhausted",  # Gemini
            r"throttling|request was throttled",  # Bedrock, DashScope, Replicate
            r"too many (?:tokens|connections|requests)(?: per day)?, (?:please )?wait",  # Bedrock
            r"too[ _]many[ _]requests",  # most
            r"token_quota|request_limit_exceeded|concurrency (?:limit|of)",  # Cerebras, Databricks
            r"max organization concurrency|usage limit for this period",  # Moonshot
            r"trial key.{0,80}calls",  # Cohere
        ),
    ),
    (
        ErrorKind.AUTH,  # after Gemini, whose quotas for a minute are worded like this as well
        _any(
            r"exceeded your current quota",  # OpenAI, as a 429
        ),
    ),
    (
        ErrorKind.CONTEXT_OVERFLOW,
        _any(
            r"prompt (?:is )?too long",  # Anthropic, Fireworks, Ollama, as 400 or 413
            r"input (?:token length )?(?:is )?too long",  # Bedrock, Moonshot, HF
            r"input length and max_tokens exceed",  # Anthropic
            r"max(?:imum)?(?: allowed)? (?:context|prompt|input) length",  # OpenAI, Mistral, xAI
            r"context[ _]length[ _](?:is |was )?exceeded",  # OpenAI
            r"exceed(?:s|ed)? (?:the |your |this )?(?:models? )?(?:max )?context\b",  # OpenAI
            r"context (?:size has been )?exceeded|context length is only",  # LM Studio, NIM
            r"exceed_context_size|exceed(?:s|ed)? the available context size",  # llama.cpp
            r"longer than the (?:models? )?(?:maximum )?(?:context|model) length",  # SGLang, vLLM
            r"max_tokens must be at least 1, got -",  # vLLM: nothing is left for the output
            r"input length .{0,20}exceeds (?:the )?max",  # SGLang, NIM, Poolside
            r"exceed(?:s|ed)? (?:the )?model token limit",  # Moonshot
            r"input tokens exceed(?:ed|s)?\b",  # Azure, Bedrock
            r"too many input tokens",  # Bedrock
            r"expected maxlength: \d{5}|prompt: length: 1\.\.",  # Bedrock
            r"prompt tokens .{0,20}exceed model maximum",  # Bedrock
            r"input token count .{0,40}(?:exceeds the maximum|but model only supports)",  # Gemini
            r"inputs tokens \+ max_new_tokens must be|inputs must have less than \d",  # TGI
            r"reduce the length of (?:the |your )?(?:messages|either|(?:input )?prompt)",  # Groq
            r"current length is \d.{0,20}while limit is \d",  # Cerebras
            r"request too large.{0,80}context",  # Groq
            r"context[ _]?window[ _]?exceed(?:ed|s)",  # MiniMax, z.ai, litellm
            r"prompt exceeds max",  # z.ai
            r"range of input length should be",  # DashScope
            r"too many tokens: (?:total|the) number|total number of tokens .{0,60}exceed",  # Cohere
            r"prompt token count .{0,40}exceed",  # Copilot, Databricks
            r"tokens to keep from the initial prompt|cannot truncate prompt",  # LM Studio
            r"when context the overflows|exceeds? max_(?:seq|model)_len",  # LM Studio, servers
            r"messages\[\d+\]\.content[^ ]*: string too long",  # OpenAI
            r"invalid (?:messages|input): (?:array|string) too long",  # OpenAI
            r"error code: 413$|413 status code \(no body\)",  # Cerebras
        ),
    ),
    (
        ErrorKind.OUTPUT_TOO_LARGE,
        _any(
            r"max_tokens: \d+ > \d+|maximum allowed number of output tokens",  # Anthropic
            r"max_(?:completion_|output_)?tokens is too large",  # OpenAI
            r"max(?:_new_|_| )tokens must be (?:less than|<=|at most)",  # Groq, TGI, Cohere
            r"maximum tokens you requested exceed",  # Bedrock
            r"max_?output_?tokens .{0,60}(?:supported range|must be)",  # Gemini
            r"(?:valid )?range of max_tokens (?:is|should be)",  # DeepSeek, DashScope
            r"max_tokens .{0,40}exceeds? the (?:models? )?(?:maximum|limit)",  # Fireworks, others
        ),
    ),
    (
        ErrorKind.MALFORMED_HISTORY,
        _any(
            r"\bmessages(?:\.\d+|\[\d+\])[.:]",  # Anthropic, OpenAI, Bedrock: what is wrong there
            r"tool_use ids (?:were found without|must be unique)",  # Anthropic
            r"tool_use_id found in tool_result|must have a single result",  # Anthropic
            r"roles must alternate|first message must use the user role",  # Anthropic
            r"content blocks must be non-empty|must have non-empty content",  # Anthropic
            r"must contain non-whitespace text|cannot end with trailing whitespace",  # Anthropic
            r"at least one message is required",  # Anthropic
            r"redacted_thinking blocks|expected thinking or redacted",  # Anthropic
            r"invalid signature in thinking",  # Anthropic
            r"support assistant message prefill|must end with a user message",  # Anthropic
            r"blocks with cache_control|cache_control cannot be set",  # Anthropic
            r"tool_calls must be followed by tool messages",  # OpenAI, Azure, DeepSeek, DashScope
            r"tool must be a response to a prec",  # OpenAI, which misspells it, and its twins
            r"no tool (?:call|output) found for function call",  # OpenAI
            r"of type (?:reasoning|function_call) was provided without",  # OpenAI
            r"\[\] is too short - messages|invalid messages: empty array",  # OpenAI
            r"duplicate value for tool_call_id|invalid value for content: expected",  # OpenAI
            r"could not parse the json body|image urls are only allowed for",  # OpenAI
            r"insufficient tool messages following",  # DeepSeek
            r"successive user or assistant messages",  # DeepSeek
            r"reasoning_content (?:in the thinking mode|is missing|field in)",  # DeepSeek, Moonshot
            r"function (?:call|response) turn comes immediately after",  # Gemini
            r"ensure that (?:the .{0,20}function response parts|multiturn requests)",  # Gemini
            r"missing a thought_signature|thought signature is not valid",  # Gemini
            r"contents(?:\.parts must not be empty| is not specified| are required)",  # Gemini
            r"please use a valid role: user, model",  # Gemini
            r"unexpected role .{0,20}after role|invalid_request_message_order",  # Mistral
            r"expected last role user|same number of function calls and responses",  # Mistral
            r"assistant message must have either content or tool_calls",  # Mistral
            r"unexpected tool call id|tool call id .{0,40}must be a-z",  # Mistral
            r"expected toolresult blocks|number of toolresult blocks",  # Bedrock
            r"conversation must (?:start|end) with a user message",  # Bedrock
            r"tool (?:result|use) blocks cannot be provided in the same turn",  # Bedrock
            r"(?:contentblock|message) object at .{0,30}is (?:blank|empty)",  # Bedrock
            r"tool_call_id .{0,20}(?:is )?not found",  # Moonshot
            r"message at position \d+ with role assistant must not be empty",  # Moonshot
            r"message must be at least 1 token long",  # Cohere
            r"message and tool_results in multistep",  # Cohere
            r"system message must be at the beginning",  # chat templates: vLLM, llama.cpp
            r"can only get item pairs from a mapping",  # chat templates: arguments are no object
            r"for role:(?:assistant|tool|user) the following must be satisfied",  # Groq
            r"could not process image|uploaded an unsupported image",  # Anthropic, OpenAI
        ),
    ),
    (
        ErrorKind.TRANSIENT,
        _any(
            r"overloaded|server busy|too busy|high (?:demand|traffic|load)",  # Anthropic, Ollama
            r"capacity exceeded|(?:at|out of|no) capacity",  # Mistral, Groq, Vertex, Google
            r"(?:service|temporarily|currently|model is) unavailable",  # Bedrock, Google
            r"unable to process your request|error while processing the model",  # Bedrock
            r"internal (?:server )?error\b|unexpected (?:server )?error",  # most
            r"server had an error|error occurred while processing your request",  # OpenAI
            r"unexpected error has occurred internal",  # Anthropic
            r"bad gateway|gateway time-?out|no healthy upstream|upstream connect error",  # proxies
            r"(?:currently|is still) loading|loading model|model is not ready",  # HF, llama.cpp
            r"timed out|request time-?out|litellm\.timeout|deadline[ _]exceeded",  # most
            r"connection (?:error|reset|refused|aborted|closed|lost|broken)",  # the network
            r"peer closed connection|remote end closed|server disconnected",  # the network
            r"econn(?:reset|refused|aborted)|etimedout|name resolution",  # the network
            r"tool_use_failed|failed to call a function",  # Groq: what the model wrote is no call
        ),
    ),
)

# The first class of an exception's bases that has a name here decides.
_CLASSES = {
    ErrorKind.CONTEXT_OVERFLOW: (
        "ContextWindowExceededError ContextWindowOverflowException ContextOverflowError"
    ),
    ErrorKind.RATE_LIMIT: (
        "RateLimitError RouterRateLimitError TooManyRequests TooManyRequestsError"
        " ResourceExhausted ThrottlingException ServiceQuotaExceededException"
    ),
    ErrorKind.REFUSED: (
        "ContentPolicyViolationError ContentFilterFinishReasonError GuardrailRaisedException"
        " BlockedPiiEntityError RejectedRequestError BlockedPromptException StopCandidateException"
    ),
    ErrorKind.AUTH: (
        "AuthenticationError PermissionDeniedError PaymentRequiredError BudgetExceededError"
        " UnauthorizedError ForbiddenError Unauthenticated Unauthorized PermissionDenied Forbidden"
        " AccessDeniedException ExpiredTokenException UnrecognizedClientException"
        " NoCredentialsError DefaultCredentialsError"
    ),
    ErrorKind.TRANSIENT: (
        "APIConnectionError APITimeoutError Timeout InternalServerError ServiceUnavailableError"
        " BadGatewayError OverloadedError DeadlineExceededError ServerError GatewayTimeout"
        " ServiceUnavailable DeadlineExceeded ServiceUnavailableException InternalServerException"
        " ModelTimeoutException ModelNotReadyException ModelErrorException"
        " ModelStreamErrorException TransportError ConnectionError TimeoutError"
        " ClientConnectionError ClientPayloadError HTTPClientError ChunkedEncodingError"
        " ProtocolError IncompleteRead gaierror SSLError"
    ),
    ErrorKind.OTHER: "UnsupportedProtocol LocalProtocolError SSLCertVerificationError",
}
_KIND_OF_CLASS = {name: kind for kind, names in _CLASSES.items() for name in names.split()}
_KIND_OF_NAME = {name.lower(): kind for name, kind in _KIND_OF_CLASS.items()}

_STATUSES = {
    401: ErrorKind.AUTH,
    402: ErrorKind.AUTH,
    403: ErrorKind.AUTH,
    408: ErrorKind.TRANSIENT,
    409: ErrorKind.TRANSIENT,  # a conflict or a lock, which clients send again
    424: ErrorKind.TRANSIENT,  # Bedrock, TGI: the model failed while it generated
    425: ErrorKind.TRANSIENT,
    429: ErrorKind.RATE_LIMIT,
}

_N = r"(?<![\d,])\d[\d,]{0,14}+(?!\d)"
# Refusals that state the window and the input beside the reserved output, in one of these forms:
#   7900 + 131072 > 131072
#   maximum context length is 131072 tokens ... (7900 in the messages, 131072 in the completion)
#   maximum context length is 131072 tokens ... (188 of text input, 2101 of tool input, ...)
#   your prompt contains at least 7900 input tokens
#   must be <= 131072. Given: 7900 inputs tokens and 131072 max_new_tokens
_WINDOW = re.compile(
    rf"(?:context length (?:is|of)(?: only)?|must be <=|\+ ?{_N} ?>) ?(?P<tokens>{_N})", re.ASCII
)
_INPUT = re.compile(
    rf"(?P<tokens>{_N})"
    rf"(?: ?\+ ?{_N} ?>| inputs? tokens|(?: tokens)? (?:in|from|of) (?:the |your )?(?:input )?"
    r"(?:messages|functions|prompt|(?:text|tool|image|file|audio|video) input|text|input))",
    re.ASCII,
)

_STATUS = re.compile(
    r"(?:^|error(?: code)?:? |http(?:/[\d.]+)? |status(?:[ _]?code)?:? |code: )([45]\d\d)\b",
    re.ASCII,
)
_NAME = re.compile(r"\b[a-z_]+(?:error|exception)\b", re.ASCII)
# Marks that come and go with the quoting, and how JSON and repr() escape what counts here.
_MARKS = str.maketrans("", "", "\"'`\\\u2018\u2019\u201c\u201d")
_ESCAPES = (("\\n", " "), ("\\u003e", ">"), ("\\u003c", "<"), ("\\u0027", ""))

_LONGEST = 8_000  # characters of a text that are read: half from its start, half from its end
_MOST_CAUSES = 10


# ---------------------------------------------------------------------- reading it


def _worded(text: str) -> ErrorKind | None:
    for kind, wording in _WORDINGS:
        if wording.search(text):
            return _by_size(kind, text)
    return None


def _classified(error: BaseException, text: str) -> ErrorKind | None:
    for cls in type(error).__mro__:
        if kind := _KIND_OF_CLASS.get(cls.__name__):
            return _by_size(kind, text)
    return None


def _numbered(error: BaseException) -> ErrorKind | None:
    response = _attribute(error, "response")
    for holder, name in (
        (error, "status_code"),
        (error, "http_status"),
        (error, "status"),
        (error, "code"),
        (response, "status_code"),
        (response, "status"),
    ):
        number = _attribute(holder, name)
        if isinstance(number, int) and (kind := _of_status(number)):
            return kind
    return None


def _named(text: str) -> ErrorKind | None:
    """By the class or the status that a text tells of, as the texts of wrapped errors do."""
    names = (_KIND_OF_NAME.get(name) for name in _NAME.findall(text))
    statuses = (_of_status(int(number)) for number in _STATUS.findall(text))
    return next((kind for kind in (*names, *statuses) if kind), None)


def _of_status(number: int) -> ErrorKind | None:
    return ErrorKind.TRANSIENT if 500 <= number <= 599 else _STATUSES.get(number)


def _by_size(kind: ErrorKind, text: str) -> ErrorKind:
    if kind is ErrorKind.CONTEXT_OVERFLOW and _has_small_input(text):
        return ErrorKind.OUTPUT_TOO_LARGE
    return kind


def _has_small_input(text: str) -> bool:
    window = _WINDOW.search(text)
    parts = {found[0]: _number(found["tokens"]) for found in _INPUT.finditer(text)}
    if window is None or not parts:
        return False
    return sum(parts.values()) <= _number(window["tokens"]) // 2


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))


# ---------------------------------------------------------------------- what is read


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if link is None:
            return
        yield link
        link = link.__cause__


def _text_of(error: BaseException) -> str:
    """What an exception says, and what its type, code, body and response say beside it."""
    beside = [_attribute(error, name) for name in ("type", "code", "body")]
    beside.append(_attribute(_attribute(error, "response"), "text"))
    parts = [error, *(part for part in beside if isinstance(part, str | dict))]
    return " ".join(_plain(_string(part)) for part in parts)


def _plain(text: str) -> str:
    """As the table wants it."""
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]} {text[-_LONGEST // 2 :]}"
    text = text.lower()
    for escaped, character in _ESCAPES:
        text = text.replace(escaped, character)
    return " ".join(text.translate(_MARKS).split())


def _attribute(holder: object, name: str) -> object:
    try:
        return getattr(holder, name, None)
    except Exception:  # a property of a foreign class: an unread stream has no text, for instance
        return None


def _string(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return ""
