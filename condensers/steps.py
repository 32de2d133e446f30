"""Logic that is written once for callers that block and for those that await."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

__all__ = ["Ask", "Steps", "arun", "run"]

_T = TypeVar("_T")


class Ask(NamedTuple):
    """One thing to do, without and with an event loop; each looks up what it needs when called."""

    call: Callable[[], Any]
    acall: Callable[[], Awaitable[Any]]


Steps: TypeAlias = Generator[Ask, Any, _T]
"""Yields what is to be asked, and is sent the answer; what fails is raised at the yield."""


def run(steps: Steps[_T]) -> _T:
    """What the steps return."""
    resume: Callable[[], Ask] = partial(next, steps)
    with closing(steps):
        while True:
            try:
                ask = resume()
            except StopIteration as done:
                result: _T = done.value
                return result
            try:
                resume = partial(steps.send, ask.call())
            except Exception as error:
                resume = partial(steps.throw, error)


async def arun(steps: Steps[_T]) -> _T:
    """The same without blocking."""
    resume: Callable[[], Ask] = partial(next, steps)
    with closing(steps):
        while True:
            try:
                ask = resume()
            except StopIteration as done:
                result: _T = done.value
                return result
            try:
                resume = partial(steps.send, await ask.acall())
            except Exception as error:
                resume = partial(steps.throw, error)
