"""A chat model that is none: it answers a request for a summary with the first words of each event,
and one for a ranking with the newest first.

Deterministic, offline and free: for replays, tests and benchmarks without a language model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from ..events.tool_calls import ToolCall
from ..memory.message import ChatDict, Reply

__all__ = ["ExtractiveModel"]

_WORDS = 160  # characters taken of each event
_LENGTH = 4_000  # characters of a whole summary: beyond it the oldest lines give way


class ExtractiveModel:
    """A :class:`~eventfold.memory.ChatModel` without an LLM."""

    def completion(
        self,
        messages: Sequence[ChatDict],
        *,
        tools: Sequence[ChatDict] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        """A line for each event of the request, and the lines of the summaries in it.

        Where there is a tool that takes ``facts``: a call of it with a line for each event.
        """
        tool = next((tool["function"] for tool in tools or () if _takes_facts(tool)), None)
        request = str(messages[-1]["content"]) if messages else ""
        blocks = _BLOCK.findall(request)
        ids = [int(one) for _, attributes, _ in blocks for one in _TO_RANK.findall(attributes)]
        if ids:  # a ranking: the newest first
            return Reply(text=json.dumps({"ids": ids[::-1]}), finish_reason="stop")
        lines: list[str] = []
        for _, attributes, text in blocks:
            if attributes.strip().startswith(("previous summary", "summary of ")):
                if tool is not None:  # what was known before is kept without being told again
                    continue
                lines += text.strip().split("\n")
            else:
                bullet = "- " if tool is None else ""
                lines.append(f"{bullet}{attributes.strip()}: {' '.join(text.split())[:_WORDS]}")
        while len(lines) > 1 and sum(len(line) + 1 for line in lines) > _LENGTH:
            del lines[0]
        if tool is None:
            return Reply(text="\n".join(lines), finish_reason="stop")
        call = ToolCall("call_1", tool["name"], json.dumps({"facts": lines}))
        return Reply(tool_calls=(call,), finish_reason="tool_calls")

    async def acompletion(
        self,
        messages: Sequence[ChatDict],
        *,
        tools: Sequence[ChatDict] | None = None,
        max_output_tokens: int | None = None,
    ) -> Reply:
        return self.completion(messages, tools=tools, max_output_tokens=max_output_tokens)


_TO_RANK = re.compile(r"^ ids (\d+)", re.ASCII)


def _takes_facts(tool: ChatDict) -> bool:
    return "facts" in tool["function"].get("parameters", {}).get("properties", {})


_BLOCK = re.compile(r"<(\w+-[0-9a-f]{8})( [^\n>]*)?>\n(.*?)\n</\1>", re.DOTALL)
