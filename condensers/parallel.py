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

    Calls begin in order. Once one has failed, none that comes after it begins any more; those that
    run are waited for. Raises the first failure, in the given order: the same one whichever call
    ends first.
    """
    if parallel == 1 or len(asked) < 2:
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
    """The same without threads. Once a call has failed, those after it are cancelled, and those
    before it waited for, since one of them may fail as well. Where this one is cancelled, all are.
    Each has ended when it returns or raises."""
    if len(asked) < 2:
        return [await call(one) for one in asked]
    room = asyncio.Semaphore(parallel)
    running: list[asyncio.Task[_Answer]] = []

    async def in_turn(place: int) -> _Answer:
        async with room:
            try:
                return await call(asked[place])
            except BaseException:
                _cancel(running[place + 1 :])
                raise

    running += [asyncio.create_task(in_turn(place)) for place in range(len(asked))]
    try:
        await asyncio.wait(running)
    finally:
        _cancel(running)
        await asyncio.gather(*running, return_exceptions=True)
    return [task.result() for task in running]


def _cancel(tasks: Sequence[asyncio.Task[_Answer]]) -> None:
    """Cancels each once: a second time would break off what it does in order to end."""
    for task in tasks:
        if not task.cancelling():
            task.cancel()
