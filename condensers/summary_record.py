"""What a summarizer reads: titled blocks of text, fenced, and cut into parts that fit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..events.event import Event
from ..events.tool_calls import AssistantTurn
from ..memory.rendering import action_text, call_arguments, clean, result_text, thought_of
from ..memory.tokens import TokenCounter
from ..memory.turns import Turn, is_observation, response_of

__all__ = ["Block", "cut", "fenced", "ids_of", "most_tokens", "parts_of", "record_of", "tokens_of"]


class Block(NamedTuple):
    """A text, what it is, and the ids of the events that it tells of: the least and the greatest,
    or none."""

    title: str
    text: str
    ids: tuple[int, ...] = ()


def record_of(turns: Iterable[Turn]) -> list[Block]:
    """The full text of each event."""
    return [
        _event_block(event, turn.remembered(response_of)) for turn in turns for event in turn.events
    ]


def cut(blocks: Iterable[Block], longest: int) -> Iterator[Block]:
    """The same text; a block of more than ``longest`` characters in several, which end with a line,
    or at least with a word, if that leaves half of the room or less unused."""
    for block in blocks:
        if len(block.text) <= longest:
            yield block
            continue
        title, text, ids = block
        pieces = list(_pieces(text, longest))
        for place, piece in enumerate(pieces, 1):
            yield Block(f"{title}, part {place} of {len(pieces)}", piece, ids)


def _pieces(text: str, longest: int) -> Iterator[str]:
    """A name or number that is cut in two stands in no call of the summarizer as what it is."""
    at = 0
    while len(text) - at > longest:
        least, end = at + longest // 2, at + longest
        border = text.rfind("\n", least, end) + 1 or text.rfind(" ", least, end) + 1
        yield text[at : border or end]
        at = border or end
    yield text[at:]


def parts_of(blocks: Iterable[Block], room: int, counter: TokenCounter) -> list[list[Block]]:
    """The blocks in their order, in parts of at most ``room`` tokens, or of one block."""
    parts: list[list[Block]] = []
    used = 0
    for block in blocks:
        tokens = tokens_of([block], counter)
        if not parts or used + tokens > room:
            parts.append([])
            used = 0
        parts[-1].append(block)
        used += tokens
    return parts


def ids_of(blocks: Iterable[Block]) -> tuple[int, ...]:
    """The least and the greatest id of an event that the blocks tell of; none if there is none."""
    ids = [event_id for block in blocks for event_id in block.ids]
    return (min(ids), max(ids)) if ids else ()


def fenced(blocks: Sequence[Block]) -> str:
    """The blocks between tags whose name depends on all of the text, so that no text can close
    one."""
    digest = hashlib.sha256("\0".join(block.text for block in blocks).encode()).hexdigest()[:8]
    return "\n".join(_tagged(block, digest) for block in blocks)


def tokens_of(blocks: Iterable[Block], counter: TokenCounter) -> int:
    """The tokens of the blocks with their tags."""
    return counter.count([{"role": "user", "content": _tagged(one, "0" * 8)} for one in blocks])


def most_tokens(block: Block) -> int:
    """What no estimate of a block exceeds: a token for each byte, tags and their title included."""
    return len(block.text.encode()) + 2 * len(block.title.encode()) + 60


def _event_block(event: Event, said: AssistantTurn) -> Block:
    what, text = _told(event, said)
    return Block(f"event {event.id}, {what}", text, (event.id, event.id))


def _told(event: Event, said: AssistantTurn) -> tuple[str, str]:
    """What an event is, and its full text."""
    source = event.source.value if event.source is not None else "unknown"
    metadata = event.tool_call_metadata
    if is_observation(event):
        tool = f" of {metadata.function_name}" if metadata is not None else ""
        return f"result{tool} ({event.kind})", clean(result_text(event))
    if metadata is None:
        return f"{source}, {event.kind}", clean(action_text(event)) or "(no text)"
    own = [call.arguments for call in said.tool_calls if call.id == metadata.tool_call_id]
    arguments = own[0] if len(own) == 1 else call_arguments(event)
    text = "\n".join(part for part in (thought_of(event), arguments) if part.strip())
    return f"{source}, call of {metadata.function_name}", clean(text) or "(no arguments)"


def _tagged(block: Block, digest: str) -> str:
    return f"<record-{digest} {_attribute(block.title)}>\n{block.text}\n</record-{digest}>"


def _attribute(title: str) -> str:
    return " ".join(clean(title).replace(">", " ").replace("<", " ").split())
