"""Several condensers, one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

from ..memory.tokens import Budget
from ..memory.view import View
from .base import CannotCondense, Condensation, Condenser, check_outcome, summary_offset
from .config import CondenserConfig, Parts, SomeConfig, built, register_condenser

__all__ = ["CondenserPipeline", "CondenserPipelineConfig"]


class CondenserPipeline(Condenser):
    """Each condenser gets the view of the one before; the first :class:`Condensation` ends it.

    A pending request is passed on until someone answers it. Warns when built if nobody could.
    """

    def __init__(self, *condensers: Condenser) -> None:
        super().__init__()
        self.condensers: Sequence[Condenser] = condensers
        self.answers_requests = any(condenser.answers_requests for condenser in condensers)
        if not self.answers_requests:
            warnings.warn(
                "no condenser of this pipeline can answer a condensation request: when a prompt "
                "does not fit, the agent will stop. Add one that forgets, such as "
                "ConversationWindowCondenser",
                stacklevel=2,
            )

    def condense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        self.metadata = {}
        current, refused = view, None
        for place, condenser in enumerate(self.condensers):
            try:
                result = condenser.condense(current, budget)
            except CannotCondense as error:
                refused = refused or error
                continue
            finally:
                self._note(place, condenser)
            check_outcome(result, condenser)
            if isinstance(result, Condensation):
                return _for_whole_view(result, view)
            current = result
        return _answered(current, refused)

    async def acondense(self, view: View, budget: Budget | None = None) -> View | Condensation:
        self.metadata = {}
        current, refused = view, None
        for place, condenser in enumerate(self.condensers):
            try:
                result = await condenser.acondense(current, budget)
            except CannotCondense as error:
                refused = refused or error
                continue
            finally:
                self._note(place, condenser)
            check_outcome(result, condenser)
            if isinstance(result, Condensation):
                return _for_whole_view(result, view)
            current = result
        return _answered(current, refused)

    def _note(self, place: int, condenser: Condenser) -> None:
        if condenser.metadata:
            self.metadata[f"{place} {type(condenser).__name__}"] = condenser.metadata


def _answered(view: View, refused: CannotCondense | None) -> View:
    if refused is not None:
        refused.view = view
        raise refused
    return view


def _for_whole_view(result: Condensation, view: View) -> Condensation:
    """A summary's place is counted in the log's view, not in what earlier condensers left of it."""
    action = result.action
    if action.summary is None:
        return result
    return Condensation(action.replace(summary_offset=summary_offset(view, action.forgotten)))


@register_condenser
class CondenserPipelineConfig(CondenserConfig):
    """``type: pipeline``"""

    type: Literal["pipeline"] = "pipeline"
    condensers: list[SomeConfig]
    """The condensers' configurations, in order."""

    def build(self, parts: Parts) -> Condenser:
        return CondenserPipeline(*(built(config, parts) for config in self.condensers))
