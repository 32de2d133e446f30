"""Several calls at the same time, with one outcome whatever the order in which they end."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from concurrent import futures
from typing import TypeVar

__all__ = ["acall_each", "call_each"]

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


def call_each(
    call: Callable[[_Asked], _Answer], asked: Sequence[_Asked], parallel: int
) -> list[_Answer]:
    """``call`` of each, in the given order, from at most ``parallel`` threads at a time.

    Calls begin in order. Once one has failed none begins any more; those that run are waited for.
    Raises the first failure, in the given order: the same one whichever call ends first.
    """
    if parallel == 1 or len(asked) == 1:
        return [call(one) for one in asked]
    failed: list[int] = []

    def in_turn(place: int) -> _Answer:
        if failed and min(failed) < place:
            raise futures.CancelledError
        try:
            return call(asked[place])
        except BaseException:
            failed.append(place)
            raise

    with futures.ThreadPoolExecutor(min(parallel, len(asked)), "eventfold-calls") as pool:
        try:
            running = [
                pool.submit(contextvars.copy_context().run, in_turn, place)
                for place in range(len(asked))
            ]
            futures.wait(running)
        except BaseException:  # an interrupt: none that waits begins
            failed.append(-1)
            raise
    return [future.result() for future in running]


async def acall_each(
    call: Callable[[_Asked], Awaitable[_Answer]], asked: Sequence[_Asked], parallel: int
) -> list[_Answer]:
    """The same without threads. Where one call fails, or this one is cancelled, those that run are
    cancelled, and have ended before it is raised: of several failures, the first in the given
    order that had happened by then."""
    if len(asked) == 1:
        return [await call(asked[0])]
    places = asyncio.Semaphore(parallel)
    over = False

    async def in_turn(one: _Asked) -> _Answer:
        nonlocal over
        async with places:
            if over:
                raise asyncio.CancelledError
            try:
                return await call(one)
            except BaseException:
                over = True
                raise

    running = [asyncio.ensure_future(in_turn(one)) for one in asked]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    for task in running:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
    return [task.result() for task in running]
