"""Proving prompts: those that a live loop sent, derived again from its log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ..condensers import Condensation, Condenser, condenser_from_config
from ..events import CondensationRequestAction, Event, Run
from ..memory import ConversationMemory, Message, NothingToSend, View
from ..memory.rules import PROFILES
from .report import print_json, printable

__all__ = ["Proof", "prompts_of", "verify_all"]


@dataclass(frozen=True, slots=True)
class Proof:
    """A prompt that was sent, and what became of deriving it again."""

    response: int
    """The id of the first action of the answer, which keeps the prompt's hash."""
    sent: str
    """The SHA-256 of the prompt that was sent."""
    derived: str | None
    """That of the prompt as it is derived now; None if none could be."""
    problem: str = ""

    @property
    def holds(self) -> bool:
        return self.sent == self.derived


def prompts_of(events: Iterable[Event], condenser: Condenser) -> Iterator[Proof]:
    """Derives each prompt whose hash :meth:`AgentContext.record` has kept, and compares.

    What was forgotten stands in the log; ``condenser`` is the one that was in use, since what view
    condensers mask does not. A condenser that would forget more than the log says is a problem.
    """
    log = list(events)
    answered: dict[int, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for event in log:
        match event.llm_metrics:
            case {"prompt": {"sha256": str(), "after": int(after)} as prompt}:
                answered[after].append((event.id, prompt))
    view = View()
    memories: dict[tuple[str, bool], ConversationMemory] = {}
    for event in log:
        # A request that was answered stands in the log with its answer; one that was not, where
        # results were shortened instead, is not to be answered now.
        if not isinstance(event, CondensationRequestAction):
            view.append(event)
        for response, prompt in answered.get(event.id, ()):
            profile, caching = str(prompt.get("profile")), prompt.get("prompt_caching") is True
            if profile not in PROFILES:
                yield Proof(response, prompt["sha256"], None, f"there is no profile {profile!r}")
                continue
            if (profile, caching) not in memories:
                memory = ConversationMemory(profile, prompt_caching=caching)
                memories[profile, caching] = memory
            yield _proof(response, prompt, view, condenser, memories[profile, caching])


def _proof(
    response: int,
    prompt: dict[str, Any],
    view: View,
    condenser: Condenser,
    memory: ConversationMemory,
) -> Proof:
    sent = prompt["sha256"]
    shown = condenser.condense(view)
    if isinstance(shown, Condensation):
        gone = len(shown.action.forgotten)
        return Proof(response, sent, None, f"the condenser would forget {gone} events more")
    limit = prompt.get("max_message_chars")
    try:
        messages = memory.process_events(
            shown,
            max_message_chars=limit if isinstance(limit, int) else None,
            vision_is_active=prompt.get("vision") is True,
        )
    except NothingToSend as error:
        return Proof(response, sent, None, str(error))
    return Proof(response, sent, Message.sha256(messages))


def verify_all(runs: Iterable[Run], condenser: str, *, as_json: bool) -> bool:
    """Prints what holds of each run, and whether all of it does."""
    all_hold = True
    for run in runs:
        proofs = list(prompts_of(run.events, condenser_from_config(condenser)))
        wrong = [proof for proof in proofs if not proof.holds]
        all_hold &= not wrong
        if as_json:
            for proof in proofs:
                print_json({"kind": "prompt", "run": run.name, **asdict(proof)})
            numbers = {"prompts": len(proofs), "same": len(proofs) - len(wrong)}
            print_json({"kind": "summary", "run": run.name, "condenser": condenser, **numbers})
            continue
        for proof in wrong:
            why = proof.problem or f"sent {proof.sent[:12]}, derived {str(proof.derived)[:12]}"
            print(printable(f"{run.name}: the prompt of response {proof.response}: {why}"))
        said = f"{len(proofs) - len(wrong)} of {len(proofs)} prompts are derived as they were sent"
        print(printable(f"{run.name}: {said if proofs else 'no prompt was recorded with a hash'}"))
    return all_hold
