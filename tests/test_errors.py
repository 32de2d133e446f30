"""Which error is which, by the words of the providers, by the classes of the libraries."""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import example, given, strategies as st

from eventfold.condensers.errors import ErrorKind, is_context_overflow, kind_of_error

# Each paragraph is a refusal as a provider words it: who, the status, the text.
REFUSALS = {
    ErrorKind.CONTEXT_OVERFLOW: r"""
OpenAI 400: This model's maximum context length is 128000 tokens. However, your messages resulted
in 130001 tokens. Please reduce the length of the messages.

OpenAI 400: {'error': {'message': 'Your input exceeds the context window of this model. Please
adjust your input and try again.', 'param': 'input', 'code': 'context_length_exceeded'}}

OpenAI 400: Your input exceeds the model's context window.

OpenAI 400: Invalid 'messages[17].content': string too long. Expected a string with maximum length
1048576, but got a string with length 1744259 instead.

OpenAI 400: Invalid 'messages': array too long. Expected an array with maximum length 2048, but got
an array with length 2105 instead.

Azure 400: Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in
290000 tokens. Please reduce the length of the messages.

Azure 400: This model's maximum context length is 16385 tokens. However, you requested 16697 tokens
(14597 in the messages, 1000 in the functions, and 1100 in the completion).

Anthropic 400: {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too
long: 219898 tokens > 200000 maximum"},"request_id":"req_011CVjxiYzEFcAQC4Fk87zw2"}

Anthropic 400: input length and `max_tokens` exceed context limit: 189136 + 20000 > 204648,
decrease input length or `max_tokens` and try again

Anthropic 400: input length and `max_tokens` exceed context limit: 174167 + 64000 \u003e 200000

Anthropic 429: {"type":"error","error":{"type":"rate_limit_error","message":"Extra usage is required
for long context requests."}}

Anthropic 403: The long context beta is not yet available for this subscription.

Bedrock 400: An error occurred (ValidationException) when calling the Converse operation: The model
returned the following errors: Input is too long for requested model.

Bedrock 400: Malformed input request: expected maxLength: 400000, actual: 512311, please reformat
your input and try again.

Bedrock 400: Too many input tokens. Max input tokens: 8192, request input token count: 9040

Bedrock 400: Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the
input to try again.

Bedrock 400: invalid_prompt: prompt tokens (330095) exceed model maximum (278528) for base model abc

Gemini 400: 400 INVALID_ARGUMENT. {'error': {'code': 400, 'message': 'The input token count
(1196265) exceeds the maximum number of tokens allowed (1048575).', 'status': 'INVALID_ARGUMENT'}}

Vertex 400: Unable to submit request because the input token count is 1215968 but model only
supports up to 1048576. Reduce the input token count and try again.

Mistral 400: {"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large
for model with 32768 maximum context length","type":"invalid_request_error","code":"3051"}

Cohere 400: status_code: 400, body: {'message': 'too many tokens: total number of tokens in the
prompt cannot exceed 4081 - received 6354. Try using a shorter prompt.'}

Groq 400: {"error":{"message":"Please reduce the length of the messages or completion.","type":
"invalid_request_error","param":"messages","code":"context_length_exceeded"}}

Together 400: The input (516368 tokens) is longer than the model's context length (262144 tokens).

Together 422: Input validation error: `inputs` tokens + `max_new_tokens` must be <= 65537. Given:
79993 `inputs` tokens and 1024 `max_new_tokens`

Fireworks 400: The prompt is too long: 138842, model maximum context length: 131071

DeepSeek 400: This model's maximum context length is 131072 tokens. However, you requested 139162
tokens (130970 in the messages, 8192 in the completion). Please reduce the length of the messages or
completion.

xAI 400: This model's maximum prompt length is 131072 but the request contains 537812 tokens.

OpenRouter 400: This endpoint's maximum context length is 200000 tokens. However, you requested
about 216400 tokens (96400 of text input, 88000 of tool input, 32000 in the output). Please reduce
the length of either one, or use the context-compression plugin.

OpenRouter 400: {"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"Input
length 131393 exceeds the maximum allowed input length of 131040 tokens."}}}

Moonshot 400: Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)

Moonshot 400: Input token length too long

DashScope 400: <400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]

z.ai 400: {"error":{"code":"1261","message":"Prompt exceeds max length"}}

MiniMax 400: invalid params, context window exceeds limit (2013)

vLLM 400: This model's maximum context length is 262144 tokens. However, you requested 0 output
tokens and your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens.
Please reduce the length of the input prompt. (parameter=input_tokens, value=262145)

vLLM 400: max_tokens must be at least 1, got -7584. (parameter=max_tokens, value=-7584)

vLLM 400: The decoder prompt (length 10127) is longer than the maximum model length of 8192. Make
sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.

vLLM 400: 'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context
length is 131072 tokens and your request has 125000 input tokens (8192 > 131072 - 125000).

NIM 400: You passed 170753 input tokens and requested 32000 output tokens. However, the model's
context length is only 202752 tokens, resulting in a maximum input length of 170752 tokens.

NIM 400: in ensemble 'nv_model', Input length 1024 exceeds maximum allowed token size 512

SGLang 400: Requested token count exceeds the model's maximum context length of 32768 tokens. You
requested a total of 48192 tokens: 40000 tokens from the input messages and 8192 tokens for the
completion.

SGLang 400: Input length (265330 tokens) exceeds the maximum allowed length (262138 tokens).

TGI 422: Input validation error: `inputs` must have less than 4096 tokens. Given: 9012

HuggingFace 400: Bad request: Input is too long for this model, shorten your input or use
'parameters': {'truncation': 'only_first'}

llama.cpp 400: {"error":{"code":400,"message":"the request exceeds the available context size. try
increasing the context size or enable context shift","type":"exceed_context_size_error",
"n_prompt_tokens":14429,"n_ctx":8192}}

llama.cpp 500: Requested tokens (4348) exceed context window of 4096

Ollama 400: prompt too long; exceeded max context length by 100918 tokens

Ollama 500: the input length exceeds the context length

LM Studio 400: Trying to keep the first 10136 tokens when context the overflows. However, the model
is loaded with context length of only 7866 tokens, which is not enough.

LM Studio 400: The number of tokens to keep from the initial prompt is greater than the context
length. Try to load the model with a larger context length, or provide a shorter input

LM Studio 400: Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)

LM Studio 500: Context size has been exceeded.

Cerebras 400: Please reduce the length of the messages or completion. Current length is 42328 while
limit is 40000

Cerebras 413: Error code: 413

Databricks 400: {"error_code":"BAD_REQUEST","message":"prompt token count (9000) cannot exceed
4096."}

Copilot 400: prompt token count of 135355 exceeds the limit of 128000
""",
    ErrorKind.OUTPUT_TOO_LARGE: """
OpenAI 400: max_tokens is too large: 100000. This model supports at most 16384 completion tokens,
whereas you provided 100000.

OpenAI 400: This model's maximum context length is 8192 tokens, however you requested 8692 tokens
(500 in your prompt; 8192 for the completion). Please reduce your prompt; or completion length.

Anthropic 400: max_tokens: 131072 > 8192, which is the maximum allowed number of output tokens for
claude-3-5-sonnet-20241022

Anthropic 400: input length and `max_tokens` exceed context limit: 90402 + 116650 > 204648, decrease
input length or `max_tokens` and try again

Bedrock 400: The maximum tokens you requested exceeds the model limit of 4096. Try again with a
maximum tokens value that is lower than 4096.

Gemini 400: Unable to submit request because it has a maxOutputTokens value of 100000 but the
supported range is from 1 (inclusive) to 8193 (exclusive). Update the value and try again.

Cohere 400: too many tokens: max tokens must be less than or equal to 4096, the maximum output for
this model - received 8000.

Groq 400: `max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is
less than the `context_window` for this model

DeepSeek 400: Invalid max_tokens value, the valid range of max_tokens is [1, 8192]

DashScope 400: <400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]

OpenRouter 400: This endpoint's maximum context length is 262144 tokens. However, you requested
about 264433 tokens (188 of text input, 2101 of tool input, 262144 in the output). Please reduce the
length of either one.

OpenRouter 402: This request requires more credits, or fewer max_tokens. You requested up to 65536
tokens, but can only afford 30104. To increase, visit https://openrouter.ai/settings/credits

vLLM 400: This model's maximum context length is 2048 tokens. However, your request has 8 input
tokens plus 2045 'max_tokens'. Please reduce one or the other.

vLLM 400: 'max_tokens' or 'max_completion_tokens' is too large: 131072. This model's maximum context
length is 131072 tokens and your request has 7900 input tokens (131072 > 131072 - 7900).

TGI 422: Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32768. Given: 603
`inputs` tokens and 32768 `max_new_tokens`

TGI 422: Input validation error: `max_new_tokens` must be <= 192. Given: 200

NIM 400: You passed 7900 input tokens and requested 200000 output tokens. However, the model's
context length is only 202752 tokens, resulting in a maximum input length of 2752 tokens.

SGLang 400: Requested token count exceeds the model's maximum context length of 131,072 tokens. You
requested a total of 138,972 tokens: 7,900 tokens from the input messages and 131,072 tokens for the
completion.
""",
    ErrorKind.MALFORMED_HISTORY: """
OpenAI 400: An assistant message with 'tool_calls' must be followed by tool messages responding to
each 'tool_call_id'. The following tool_call_ids did not have response messages: call_1

OpenAI 400: Invalid parameter: messages with role 'tool' must be a response to a preceeding message
with 'tool_calls'.

OpenAI 400: Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum
length 40, but got a string with length 64 instead.

OpenAI 400: No tool output found for function call call_8cHmv2.

OpenAI 400: Item 'rs_1' of type 'reasoning' was provided without its required following item.

OpenAI 400: [] is too short - 'messages'

OpenAI 400: Invalid value for 'content': expected a string, got null.

OpenAI 400: We could not parse the JSON body of your request. (HINT: This likely means you aren't
using your HTTP library correctly.)

OpenAI 400: Invalid 'messages[4]'. Image URLs are only allowed for messages with role 'user', but
this message with role 'tool' contains an image URL.

Anthropic 400: messages.3: `tool_use` ids were found without `tool_result` blocks immediately after:
toolu_1. Each `tool_use` block must have a corresponding `tool_result` block in the next message.

Anthropic 400: messages.0.content.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1

Anthropic 400: messages: roles must alternate between "user" and "assistant", but found multiple
"user" roles in a row

Anthropic 400: messages: text content blocks must be non-empty

Anthropic 400: messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found
`tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block

Anthropic 400: This model does not support assistant message prefill. The conversation must end with
a user message.

Anthropic 400: A maximum of 4 blocks with cache_control may be provided. Found 5.

Bedrock 400: An error occurred (ValidationException) when calling the Converse operation: Expected
toolResult blocks at messages.2.content for the following Ids: tooluse_bRX9

Bedrock 400: messages.48: Did not find 1 tool_result block(s) at the beginning of this message.
Messages following tool_use blocks must begin with a matching number of tool_result blocks.

Bedrock 400: messages.7.content: Conversation blocks and tool use blocks cannot be provided in the
same turn.

Bedrock 400: The text field in the ContentBlock object at messages.0.content.0 is blank. Add text to
the text field, and try again.

Bedrock 400: A conversation must start with a user message. Try again with a conversation that
starts with a user message.

Gemini 400: Please ensure that function call turn comes immediately after a user turn or after a
function response turn.

Gemini 400: Please ensure that the number of function response parts is equal to the number of
function call parts of the function call turn.

Gemini 400: Function call is missing a thought_signature in functionCall parts. This is required for
tools to work correctly, and missing thought_signature may lead to degraded model performance.

Mistral 400: {"object":"error","message":"Unexpected role 'user' after role 'tool'","type":
"invalid_request_message_order","param":null,"code":"3230"}

Mistral 400: Expected last role User or Tool (or Assistant with prefix True) for serving but got
assistant

Mistral 400: Not the same number of function calls and responses

Mistral 400: Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.

Cohere 400: invalid request: message must be at least 1 token long or tool results must be
specified.

DeepSeek 400: An assistant message with 'tool_calls' must be followed by tool messages responding to
each 'tool_call_id'. (insufficient tool messages following tool_calls message)

DeepSeek 400: deepseek-reasoner does not support successive user or assistant messages (messages[1]
and messages[2] in your input).

DeepSeek 400: The `reasoning_content` in the thinking mode must be passed back to the API.

Moonshot 400: thinking is enabled but reasoning_content is missing in assistant tool call message at
index 2

Moonshot 400: Invalid request: tool_call_id  is not found

DashScope 400: <400> InternalError.Algo.InvalidParameter: messages with role "tool" must be a
response to a preceeding message with "tool_calls".

Groq 400: 'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' :
property 'reasoning' is unsupported)]

vLLM 400: After the optional system message, conversation roles must alternate user and assistant
roles except for tool calls and results.

vLLM 400: Conversation roles must alternate user/assistant/user/assistant/...

vLLM 400: Can only get item pairs from a mapping.

llama.cpp 500: System message must be at the beginning.
""",
    ErrorKind.RATE_LIMIT: """
OpenAI 429: Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit
30000, Used 29000, Requested 1500. Please try again in 1s. You can increase your rate limit by
adding a payment method to your account at https://platform.openai.com/account/billing.

OpenAI 429: Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000,
Requested 61337. The input or output tokens must be reduced in order to run successfully.

OpenAI 429: Tokens per minute (TPM) exceeded: reduce the length of the messages

Azure 429: Requests to the ChatCompletions_Create Operation under Azure OpenAI API version
2024-02-01 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after
10 seconds. Please go here: https://aka.ms/oai/quotaincrease

Anthropic 429: {"type":"error","error":{"type":"rate_limit_error","message":"This request would
exceed your organization's rate limit of 40,000 input tokens per minute"}}

Bedrock 429: An error occurred (ThrottlingException) when calling the InvokeModel operation (reached
max retries: 4): Too many tokens, please wait before trying again.

Bedrock 429: Too many tokens per day, please wait before trying again.

Gemini 429: You exceeded your current quota, please check your plan and billing details. For more
information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits. * Quota
exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit:
10, model: gemini-2.5-flash. Please retry in 48.155319656s.

Vertex 429: 429 RESOURCE_EXHAUSTED. {'error': {'code': 429, 'message': 'Resource exhausted. Please
try again later.', 'status': 'RESOURCE_EXHAUSTED'}}

Mistral 429: API error occurred: Status 429. Body: {"object":"error","message":"Rate limit
exceeded","type":"rate_limited","param":null,"code":"1300"}

Cohere 429: You are using a Trial key, which is limited to 10 API calls / minute.

Groq 413: {'error': {'message': 'Request too large for model `llama-3.1-8b-instant` in organization
`org_x` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 12328, please
reduce your message size and try again.', 'type': 'tokens', 'code': 'rate_limit_exceeded'}}

Cerebras 429: {"message":"Tokens per minute limit exceeded - too many tokens processed.","type":
"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}

Moonshot 429: {"error":{"message":"Your account org-x<ak-y> request reached max organization
concurrency: 3, please try again after 1 seconds","type":"rate_limit_reached_error"}}

DashScope 429: Throttling.RateQuota: Requests rate limit exceeded, please try again later.

Databricks 429: {"error_code":"REQUEST_LIMIT_EXCEEDED","message":"REQUEST_LIMIT_EXCEEDED: Exceeded
workspace input tokens per minute rate limit for databricks-claude-sonnet-4."}

OpenRouter 429: Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model
requests per day

NIM 429: {"status":429,"title":"Too Many Requests"}
""",
    ErrorKind.REFUSED: """
OpenAI 400: {'error': {'message': 'Invalid prompt: your prompt was flagged as potentially violating
our usage policy. Please try again with a different prompt.', 'code': 'invalid_prompt'}}

OpenAI 400: Your request was rejected as a result of our safety system.

Azure 400: The response was filtered due to the prompt triggering Azure OpenAI's content management
policy. Please modify your prompt and retry.

Azure 400: {'error': {'code': 'content_filter', 'innererror': {'code':
'ResponsibleAIPolicyViolation'}, 'status': 400}}

Anthropic 400: {"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by
content filtering policy"}}

Gemini 400: The prompt was blocked: block_reason: PROHIBITED_CONTENT

Bedrock 400: {"message": "GUARDRAIL_INTERVENED"}

DeepSeek 400: {'error': {'message': 'Content Exists Risk', 'type': 'invalid_request_error', 'param':
None, 'code': 'invalid_request_error'}}

Moonshot 400: The request was rejected because it was considered high risk

DashScope 400: {"code":"data_inspection_failed","message":"Input data may contain inappropriate
content."}

xAI 403: {'code': 'The caller does not have permission to execute the specified operation', 'error':
'Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO'}

OpenRouter 403: openai/gpt-4o requires moderation. Your input was flagged for "violence".
""",
    ErrorKind.AUTH: """
OpenAI 401: Incorrect API key provided: sk-x. You can find your API key at
https://platform.openai.com/account/api-keys.

OpenAI 429: {'error': {'message': 'You exceeded your current quota, please check your plan and
billing details.', 'type': 'insufficient_quota', 'code': 'insufficient_quota'}}

OpenAI 429: You exceeded your current quota, please check your plan and billing details.

OpenAI 429: Your account is not active, please check your billing details on our website.

OpenAI 401: Missing credentials. Please pass an `api_key`, or set the `OPENAI_API_KEY` environment
variable.

Gemini 401: Missing Gemini API key. Set the GEMINI_API_KEY environment variable.

Azure 401: Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide
a valid key for an active subscription.

Anthropic 401: {"type":"error","error":{"type":"authentication_error","message":"invalid
x-api-key"}}

Anthropic 400: Your credit balance is too low to access the Anthropic API. Please go to Plans &
Billing to upgrade or purchase credits.

Anthropic 400: You have reached your specified API usage limits. You will regain access on
2026-10-01 at 00:00 UTC.

Bedrock 403: An error occurred (AccessDeniedException) when calling the Converse operation: You
don't have access to the model with the specified model ID.

Bedrock 403: Model access is denied due to IAM user or service role is not authorized to perform the
required AWS Marketplace actions. If you recently fixed this issue, try again after 5 minutes.

Bedrock 403: The security token included in the request is expired

Gemini 400: API key not valid. Please pass a valid API key.

Gemini 429: You exceeded your current quota, please check your plan and billing details. * Quota
exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit:
0, model: gemini-3-pro. Please retry in 48.155319656s.

Vertex 403: {"error":{"code":403,"message":"Permission 'aiplatform.endpoints.predict' denied",
"status":"PERMISSION_DENIED"}}

Mistral 401: {"message":"Unauthorized","request_id":"x"}

Cohere 401: invalid api token

Groq 401: {"error":{"message":"Invalid API Key","type":"invalid_request_error","code":
"invalid_api_key"}}

Together 402: Credit limit exceeded, please navigate to the billing page to add credit.

DeepSeek 402: Insufficient Balance

DeepSeek 401: Authentication Fails (no such user)

xAI 429: Your team 16f2151a has either used all available credits or reached its monthly spending
limit. To continue making API requests, please purchase more credits.

OpenRouter 401: No auth credentials found

OpenRouter 402: This request requires more credits, or fewer max_tokens. You requested up to 32000
tokens, but can only afford 0.

OpenRouter 402: Prompt tokens limit exceeded: 230799 > 91442. To increase, visit
https://openrouter.ai/settings/keys and create a key with a higher monthly limit

Moonshot 429: {"error":{"message":"Your account org-x<ak-y> is suspended, please check your plan and
billing details","type":"exceeded_current_quota_error"}}

Moonshot 401: The API Key appears to be invalid or may have expired

DashScope 400: Access denied, please make sure your account is in good standing. (Arrearage)

Databricks 403: {"error_code":"PERMISSION_DENIED","message":"The endpoint is temporarily disabled
due to a Databricks-set rate limit of 0."}

HuggingFace 401: A valid user token is required
""",
    ErrorKind.TRANSIENT: """
OpenAI 500: The server had an error while processing your request. Sorry about that!

OpenAI 503: The engine is currently overloaded, please try again later

Azure 408: The operation was timeout: request timed out.

Anthropic 529: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}

Anthropic 500: {"type":"error","error":{"type":"api_error","message":"Internal server error"}}

Bedrock 503: An error occurred (ServiceUnavailableException) when calling the Converse operation:
Bedrock is unable to process your request.

Gemini 503: 503 UNAVAILABLE. {'error': {'code': 503, 'message': 'The model is overloaded. Please try
again later.', 'status': 'UNAVAILABLE'}}

Gemini 504: 504 DEADLINE_EXCEEDED

Mistral 503: {"object":"error","message":"Service tier capacity exceeded for this model.","type":
"invalid_request_error","param":null,"code":null}

Groq 498: Flex tier capacity exceeded. Please try again later.

Groq 400: {"error":{"message":"Failed to call a function. Please adjust your prompt. See
'failed_generation' for more details.","code":"tool_use_failed"}}

Moonshot 429: {"error":{"message":"The engine is currently overloaded, please try again
later","type":"engine_overloaded_error"}}

TGI 429: {"error":"Model is overloaded","error_type":"overloaded"}

HuggingFace 503: {"error":"Model Qwen/Qwen2-VL-2B-Instruct is currently loading","estimated_time":
176.7188568}

llama.cpp 503: {"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}

Ollama 503: server busy, please try again. maximum pending requests exceeded

Cerebras 429: We're experiencing high traffic right now! Please try again soon.

Cloudflare 502: <html><head><title>502 Bad Gateway</title></head></html>

httpx 0: peer closed connection without sending complete message body (incomplete chunked read)

requests 0: ('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))

aiohttp 0: Cannot connect to host api.openai.com:443 ssl:default [Temporary failure in name
resolution]
""",
    ErrorKind.OTHER: """
OpenAI 404: The model `gpt-6` does not exist or you do not have access to it.

OpenAI 400: Invalid 'tools[0].function.description': string too long. Expected a string with maximum
length 1024, but got a string with length 1410 instead.

OpenAI 400: Invalid 'user': string too long. Expected a string with maximum length 64.

OpenAI 400: Unsupported parameter: 'max_tokens' is not supported with this model. Use
'max_completion_tokens' instead.

OpenAI 400: Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 200.

Anthropic 413: {"error":{"type":"request_too_large","message":"Request exceeds the maximum allowed
number of bytes. The maximum request size is 32 MB."}}

Anthropic 400: The prompt is below the minimum of 1024 tokens for prompt caching

Bedrock 400: Malformed input request: #/toolConfig/tools/0/toolSpec/name: expected maxLength: 64,
actual: 79, please reformat your input and try again.

Bedrock 400: Invocation of model ID x with on-demand throughput isn't supported. Retry your request
with the ID or ARN of an inference profile that contains this model.

Gemini 400: 400 Request payload size exceeds the limit: 20971520 bytes

Groq 413: Request Entity Too Large

OpenRouter 404: No endpoints found that support tool use. Try disabling "question".

Cohere 422: unknown field: parameter 'requires_confirmation' is not a valid field.

httpx 0: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer
certificate
""",
}


def rows(kind: ErrorKind, text: str) -> Iterator[tuple[ErrorKind, str, int, str]]:
    for paragraph in text.strip().split("\n\n"):
        source, _, words = " ".join(paragraph.split()).partition(": ")
        provider, _, status = source.rpartition(" ")
        yield kind, provider, int(status), words


TABLE = [row for kind, text in REFUSALS.items() for row in rows(kind, text)]
BARE = "Error code: 413"  # of an empty body: nothing may follow


class ProviderError(Exception):
    def __init__(self, text: str, status: int = 400, body: object = None) -> None:
        super().__init__(text)
        self.status_code, self.body = status, body


def test_the_table_knows_many_providers() -> None:
    assert REFUSALS.keys() == set(ErrorKind)
    assert len({provider for _, provider, _, _ in TABLE}) >= 25


@pytest.mark.parametrize(("kind", "provider", "status", "words"), TABLE)
def test_each_wording_is_of_one_kind(
    kind: ErrorKind, provider: str, status: int, words: str
) -> None:
    for error in (
        words,
        f"litellm.BadRequestError: {provider}Exception - {words}",
        f"{provider}Exception - {json.dumps({'error': {'message': words}})}",
        ValueError(words),
        ProviderError(words, status),
        ProviderError("refused", status, {"error": {"message": words}}),
    ):
        if words != BARE or str(error).endswith(words):
            assert kind_of_error(error) is kind
            assert is_context_overflow(error) == (kind is ErrorKind.CONTEXT_OVERFLOW)


def test_what_may_pass() -> None:
    assert {kind for kind in ErrorKind if kind.may_pass} == {
        ErrorKind.RATE_LIMIT,
        ErrorKind.TRANSIENT,
    }


# ---------------------------------------------------------------------- classes and statuses


def error_named(name: str, *bases: type[BaseException], **attributes: object) -> BaseException:
    error: BaseException = type(name, bases or (Exception,), {})("refused")
    vars(error).update(attributes)
    return error


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (ErrorKind.CONTEXT_OVERFLOW, "ContextWindowExceededError"),
        (ErrorKind.RATE_LIMIT, "RateLimitError TooManyRequestsError ThrottlingException"),
        (ErrorKind.REFUSED, "ContentPolicyViolationError ContentFilterFinishReasonError"),
        (ErrorKind.AUTH, "AuthenticationError PermissionDeniedError AccessDeniedException"),
        (ErrorKind.TRANSIENT, "APIConnectionError APITimeoutError Timeout InternalServerError"),
        (ErrorKind.TRANSIENT, "ServiceUnavailableError OverloadedError BadGatewayError"),
        (ErrorKind.OTHER, "BadRequestError NotFoundError UnsupportedParamsError"),
    ],
)
def test_a_class_counts_where_the_text_says_nothing(kind: ErrorKind, names: str) -> None:
    for name in names.split():
        assert kind_of_error(error_named(name)) is kind
        derived = type("MyError", (type(error_named(name)),), {})
        assert kind_of_error(derived("refused")) is kind
        if name != "Timeout":  # a word of its own in a text
            assert kind_of_error(f"{name}: refused") is kind
    assert kind_of_error("litellm.Timeout: refused") is ErrorKind.TRANSIENT


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ErrorKind.OTHER),
        (401, ErrorKind.AUTH),
        (402, ErrorKind.AUTH),
        (403, ErrorKind.AUTH),
        (404, ErrorKind.OTHER),
        (408, ErrorKind.TRANSIENT),
        (413, ErrorKind.OTHER),
        (422, ErrorKind.OTHER),
        (429, ErrorKind.RATE_LIMIT),
        (498, ErrorKind.OTHER),
        (500, ErrorKind.TRANSIENT),
        (503, ErrorKind.TRANSIENT),
        (529, ErrorKind.TRANSIENT),
    ],
)
def test_a_status_counts_last(status: int, kind: ErrorKind) -> None:
    assert kind_of_error(ProviderError("refused", status)) is kind
    assert kind_of_error(error_named("SomeError", code=status)) is kind
    response = error_named("Response", status_code=status)
    assert kind_of_error(error_named("HTTPStatusError", response=response)) is kind
    assert kind_of_error(f"Error code: {status} - refused") is kind
    assert kind_of_error(f"Client error '{status} refused' for url 'https://x'") is kind
    assert kind_of_error(error_named("RateLimitError", status_code=status)) is ErrorKind.RATE_LIMIT


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), ErrorKind.TRANSIENT),
        (ConnectionResetError(104, "x"), ErrorKind.TRANSIENT),
        (asyncio.CancelledError(), ErrorKind.OTHER),
        (KeyboardInterrupt(), ErrorKind.OTHER),
        (KeyError("choices"), ErrorKind.OTHER),
        (Exception(), ErrorKind.OTHER),
    ],
)
def test_exceptions_of_python(error: BaseException, kind: ErrorKind) -> None:
    assert kind_of_error(error) is kind


def test_the_text_beats_a_wrong_class() -> None:
    large = "prompt is too long: 201234 tokens > 200000 maximum"
    small = "input length and `max_tokens` exceed context limit: 7900 + 131072 > 131072"
    minute = "Limit 30000 tokens per minute, requested 31000"
    for text, kind in (
        (large, ErrorKind.CONTEXT_OVERFLOW),
        (small, ErrorKind.OUTPUT_TOO_LARGE),
        (minute, ErrorKind.RATE_LIMIT),
    ):
        for name in ("BadRequestError", "ContextWindowExceededError", "InternalServerError"):
            error = type(name, (Exception,), {})(text)
            assert kind_of_error(error) is kind


def test_a_cause_counts_where_the_error_says_nothing() -> None:
    def raised(error: BaseException, cause: BaseException) -> BaseException:
        error.__cause__ = cause
        return error

    large = ValueError("prompt is too long")
    assert kind_of_error(raised(RuntimeError("the step failed"), large)) is (
        ErrorKind.CONTEXT_OVERFLOW
    )
    assert kind_of_error(raised(TimeoutError(), large)) is ErrorKind.TRANSIENT
    circle = RuntimeError("a")
    assert kind_of_error(raised(circle, raised(RuntimeError("b"), circle))) is ErrorKind.OTHER


def test_foreign_exceptions_never_break_it() -> None:
    class Odd(Exception):
        status_code = "no number"
        code = None

        @property
        def response(self) -> object:
            raise RuntimeError("the stream was not read")

        def __str__(self) -> str:
            raise ValueError("no text")

    assert kind_of_error(Odd()) is ErrorKind.OTHER


# ---------------------------------------------------------------------- real classes


def test_errors_of_litellm_and_of_the_clients() -> None:
    import httpx
    from litellm import exceptions as litellm_errors

    mapping = importlib.import_module("litellm.litellm_core_utils.exception_mapping_utils")

    def mapped(text: str, status: int, provider: str) -> BaseException:
        original = ProviderError(text, status)
        vars(original)["message"] = text
        try:
            mapping.exception_type("some-model", original, provider)
        except Exception as error:
            return error
        raise AssertionError("exception_type raises")

    small = mapped("input length and `max_tokens` exceed context limit: 7 + 9 > 15", 400, "openai")
    assert isinstance(small, litellm_errors.ContextWindowExceededError)
    assert kind_of_error(small) is ErrorKind.OUTPUT_TOO_LARGE
    unpaid = mapped("insufficient_quota: You exceeded your current quota", 429, "openai")
    assert isinstance(unpaid, litellm_errors.RateLimitError)
    assert kind_of_error(unpaid) is ErrorKind.AUTH
    long = mapped("Range of input length should be [1, 98304]", 400, "dashscope")
    assert isinstance(long, litellm_errors.BadRequestError)
    assert is_context_overflow(long)
    assert kind_of_error(mapped("overloaded_error", 529, "anthropic")) is ErrorKind.TRANSIENT
    assert kind_of_error(mapped("no", 401, "openai")) is ErrorKind.AUTH
    assert kind_of_error(mapped("no", 400, "openai")) is ErrorKind.OTHER

    request = httpx.Request("POST", "https://x")
    long_body = httpx.Response(400, request=request, text="prompt is too long")
    unread = httpx.Response(503, request=request, stream=httpx.ByteStream(b"x"))
    for response, kind in (
        (long_body, ErrorKind.CONTEXT_OVERFLOW),
        (unread, ErrorKind.TRANSIENT),
    ):
        with pytest.raises(httpx.HTTPStatusError) as caught:
            response.raise_for_status()
        assert kind_of_error(caught.value) is kind
    assert kind_of_error(httpx.ReadTimeout("")) is ErrorKind.TRANSIENT
    assert kind_of_error(httpx.ConnectError("")) is ErrorKind.TRANSIENT
    assert kind_of_error(httpx.UnsupportedProtocol("")) is ErrorKind.OTHER


def test_no_client_library_is_imported() -> None:
    code = (
        "import sys, eventfold.condensers.errors;"
        "assert not {'litellm', 'openai', 'httpx', 'anthropic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------------- any text

ANYWHERE = [(kind, words) for kind, _, _, words in TABLE if words != BARE]
SENTENCES = [
    "The agent stopped.",
    "Step 12 of run 7 failed after 3 attempts with this:",
    "See the log for more.",
    "We asked the model to read the file and to answer in 400 words.",
    "It has 128000 tokens.",
    "Please look at https://example.org/docs/errors?page=2 (in English).",
    'File "agent.py", line 429, in step\n    response = self.ask(messages)',
    "Ein Fehler ist aufgetreten: 模型返回了错误。",
]
around = st.lists(st.sampled_from(SENTENCES), max_size=6).map(" ".join)


@given(st.text() | st.from_regex(r"(?:maximum context length is )?\d+[\d,]* ?[+>]? ?\d*"))
@example("maximum context length is " + "1" * 9_000)
@example("7900 + " * 3_000)
def test_any_text_has_a_kind(text: str) -> None:
    assert isinstance(kind_of_error(text), ErrorKind)
    assert kind_of_error(ValueError(text)) is kind_of_error(text)


@given(st.sampled_from(ANYWHERE), around, around)
def test_ordinary_sentences_around_a_wording_change_nothing(
    row: tuple[ErrorKind, str], before: str, after: str
) -> None:
    kind, words = row
    assert kind_of_error(f"{before} {words} {after}") is kind
    assert kind_of_error(RuntimeError(f"{before}\n{words}\n{after}")) is kind


@given(around)
def test_ordinary_sentences_are_no_kind_of_error(text: str) -> None:
    assert kind_of_error(text) is ErrorKind.OTHER


@pytest.mark.parametrize(("kind", "words"), ANYWHERE)
def test_a_very_long_text_is_read_at_both_ends(kind: ErrorKind, words: str) -> None:
    long = "and so on " * 100_000
    assert kind_of_error(f"{words} {long}") is kind
    assert kind_of_error(f"{long} {words}") is kind
