"""Workplace: a simulated gateway, and workers who die and stall between any two of their steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import count
from random import Random
from typing import Any, TypeVar

from headgate.engine.replies import GroupInfo
from headgate.engine.requests import Request
from headgate.engine.requests.groups import DescribeGroup
from tests.ledger.client import CLAIM_IDLE_MS, Entry, answered
from tests.ledger.simulated import SimulatedClient, SimulatedGateway

T = TypeVar("T")

DEATHS = 5
"""Of the gateway, if there is work for so long."""

DIES_SHARE, STALLS_SHARE = 0.01, 0.03
STALL_S_MAX = 3 * CLAIM_IDLE_MS / 1_000
PATIENCE_S = 3_600.0

Work = Callable[[str], Awaitable[None]]
"""Works under the name of a life until it ends."""


class DiedError(Exception):
    """A worker is no more."""


class Workplace:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.gateway = SimulatedGateway(self.chance)
        self.client = SimulatedClient(self.gateway)
        self._lives = count()

    async def pause(self) -> None:
        is_stalled = self.chance.random() < STALLS_SHARE
        await asyncio.sleep(self.chance.random() * (STALL_S_MAX if is_stalled else 0.01))

    async def pause_or_die(self) -> None:
        await self.pause()
        if self.chance.random() < DIES_SHARE:
            raise DiedError

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Let the gateway live, die and live again."""
        return _meanwhile([self.gateway.run(DEATHS)])

    def working(self, works: Iterable[Work]) -> AbstractAsyncContextManager[None]:
        """Let workers work, each in one life after the other."""
        return _meanwhile(map(self._employ, works))

    async def _employ(self, work: Work) -> None:
        while True:
            try:
                await work(f"life{next(self._lives)}")
            except DiedError:
                await self.pause()

    async def perform(self, request: Request[T]) -> T:
        """Carry out a request that may be repeated."""
        return await answered(self.pause, lambda: self.gateway.perform(request))

    async def entries(self, stream: str) -> list[Entry]:
        return await answered(self.pause, lambda: self.gateway.entries(stream))

    async def settled(self, stream: str, group: str) -> GroupInfo:
        """Return what a group has left, which is nothing unless something is lost."""
        request = DescribeGroup(stream.encode(), group.encode())
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while (info := await self.perform(request)).pending_count or info.lag:
                    await asyncio.sleep(1)
        return await self.perform(request)


@asynccontextmanager
async def _meanwhile(works: Iterable[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()  # it only ends by failing
