"""Simulated gateway: an engine that is killed and recovered, in virtual time, and a way to it.

What is on the way gets lost, and a commit may arrive once more, long after its client gave it up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from random import Random
from typing import Any, NamedTuple, TypeVar

from headgate.app.wire.schemas.commits import CommitInput
from headgate.engine.engine import Engine
from headgate.engine.entry import Fields
from headgate.engine.errors import NotYours, RowChanged, StreamError, Unavailable
from headgate.engine.journal import recovery
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.rewrites import Growth
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup
from headgate.engine.requests.entries import Range
from headgate.engine.requests.tables import ReadRow
from tests.ledger.client import CLAIM_IDLE_MS, TAKE_WAIT_MS, Entry, LostError, RefusedError
from tests.simulation.disk import CrashError, Faults, SimulatedDisk
from tests.simulation.platter import Platter
from tests.virtual_time import VirtualClock

T = TypeVar("T")

LIFE_POINTS = 500
"""A life ends before the disk has passed so many points; a commit by itself has five."""

DOWN_S_MAX = 2.0
LATENCY_S_MAX = 0.01
LOST_SHARE, UNHEARD_SHARE, LATE_SHARE = 0.03, 0.05, 0.05
LATE_S_MAX = 5 * CLAIM_IDLE_MS / 1_000

_CODES: Mapping[type[StreamError], str] = {NotYours: "not_yours", RowChanged: "row_changed"}


class _Life(NamedTuple):
    engine: Engine
    end: asyncio.Future[None]


class SimulatedGateway:
    """One directory, and the engine that starts on it again and again."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.moments = count(1)
        self._platter, self._clock = Platter(), VirtualClock(1_700_000_000_000)
        self._up = asyncio.Event()
        self._life: _Life
        self._late: set[asyncio.Task[Any]] = set()

    async def run(self, deaths: int) -> None:
        """Live, die so often, and live on until cancelled."""
        for left in reversed(range(deaths + 1)):
            faults = self._fate() if left else Faults(latency_s_max=LATENCY_S_MAX)
            with suppress(CrashError):  # of a start
                await self._live(faults)
            await asyncio.sleep(self.chance.random() * DOWN_S_MAX)

    def _fate(self) -> Faults:
        return Faults(
            crash_after=self.chance.randrange(LIFE_POINTS),
            is_power_lost=self.chance.random() < 0.5,
            latency_s_max=LATENCY_S_MAX,
        )

    async def _live(self, faults: Faults) -> None:
        disk = SimulatedDisk(self._platter, self.chance, faults)
        loaded = recovery.load_safely(disk)
        journal = Journal(
            disk,
            FsyncPolicy.ALWAYS,
            partial(disk.rewrite, hot_bytes_max=self.chance.choice([0, 10_000, 2**24])),
            position=loaded.position,
            torn=loaded.torn,
            growth=Growth(self.chance.choice([20, 100]), 10_000),
            chance=self.chance,
        )
        engine = Engine(journal, keyspace=loaded.keyspace, clock=self._clock)
        end = asyncio.get_running_loop().create_future()
        disk.on_crash = lambda: None if end.done() else end.set_result(None)
        running = asyncio.create_task(engine.run())
        self._life = _Life(engine, end)
        self._up.set()
        try:
            await asyncio.wait([end, running], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._up.clear()
            running.cancel()
            await asyncio.wait([running])
        assert disk.has_crashed, running.exception()

    async def perform(self, request: Request[T]) -> T:
        """Carry out a request in the life of this moment, or in the next one.

        Raises:
            LostError: the engine has died before the answer was there.
            StreamError: what the engine says.
        """
        await self._up.wait()
        life = self._life
        asked = asyncio.create_task(life.engine.perform(request))
        either: list[asyncio.Future[Any]] = [asked, life.end]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if life.end.done() or not asked.done():
                asked.cancel()
                await asyncio.wait([asked])
        if life.end.done():
            raise LostError
        try:
            return asked.result()
        except Unavailable:
            raise LostError from None

    def perform_late(self, request: Request[Any]) -> None:
        """Carry out a request after a while; nobody waits for it."""
        late = asyncio.create_task(self._perform_late(request))
        self._late.add(late)
        late.add_done_callback(self._late.discard)

    async def _perform_late(self, request: Request[Any]) -> None:
        await asyncio.sleep(self.chance.random() * LATE_S_MAX)
        with suppress(LostError, StreamError):
            await self.perform(request)

    async def entries(self, stream: str) -> list[Entry]:
        """Return all entries of a stream."""
        found = await self.perform(Range(stream.encode()))
        return [Entry(str(entry.id), _texts(entry.fields)) for entry in found]


class SimulatedClient:
    """A `Client` whose requests and answers get lost."""

    def __init__(self, gateway: SimulatedGateway) -> None:
        self._gateway = gateway

    def now(self) -> int:
        return next(self._gateway.moments)

    async def take(self, stream: str, group: str, consumer: str, limit: int) -> list[Entry]:
        request = ReadGroup(
            group.encode(),
            consumer.encode(),
            [GroupCursor(stream.encode())],
            limit,
            CLAIM_IDLE_MS,
            wait_ms=TAKE_WAIT_MS,
        )
        [read] = await self._ask(request)
        return [
            Entry(str(each.id), _texts(each.fields or ()), each.delivery_count)
            for each in read.deliveries
        ]

    async def row(self, stream: str, key: str) -> Entry:
        row = (await self._ask(ReadRow(stream.encode(), key.encode()))).row
        assert row is not None
        return Entry(str(row.id), _texts(row.fields))

    async def commit(
        self, consumer: str | None, steps: Sequence[dict[str, Any]], key: str
    ) -> list[str]:
        body = CommitInput.model_validate({"consumer": consumer, "steps": steps})
        request = body.to_request(None, (consumer or "").encode(), key.encode())
        if self._gateway.chance.random() < LATE_SHARE:
            self._gateway.perform_late(request)
        try:
            done = await self._ask(request)
        except StreamError as error:
            raise RefusedError(_CODES.get(type(error), repr(error))) from None
        return [str(entry_id) for ids in done.ids for entry_id in ids]

    async def _ask(self, request: Request[T]) -> T:
        fate = self._gateway.chance.random()
        if fate < LOST_SHARE:
            raise LostError
        answer = await self._gateway.perform(request)
        if fate > 1 - UNHEARD_SHARE:
            raise LostError
        return answer


def _texts(fields: Fields) -> dict[str, str]:
    texts = [part.decode() for part in fields]
    return dict(zip(texts[::2], texts[1::2], strict=True))
