"""Short words for tests of the engine: one stream, one group, and a clock moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from headgate.engine.clock import Clock
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.replies import Delivery, GroupRead, PendingItem
from headgate.engine.requests.deliveries import GroupCursor, ListPending, ReadGroup
from headgate.engine.requests.entries import Add, From, Read, StreamCursor
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.state.bounds import KeyspaceBounds
from tests.virtual_time import ManualClock

S, G = b"s", b"g"
AnyEngine = TypeVar("AnyEngine", bound=Engine)


def entry_id(ms: int, seq: int = 0) -> EntryId:
    return EntryId(ms, seq)


class Driver(Engine):
    """An engine with a group `g` of a stream `s`, and entries named by their milliseconds."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        waiters_max: int = 10_000,
        bounds: KeyspaceBounds = KeyspaceBounds(),  # noqa: B008 it is a value
    ) -> None:
        self.clock = ManualClock()
        super().__init__(
            MemoryStorage(), clock=clock or self.clock, waiters_max=waiters_max, bounds=bounds
        )

    async def put(self, *numbers: int, stream: bytes = S) -> None:
        """Add entries `1-0`, `2-0`, … as asked."""
        drafts = [Draft(EntryId(n, 0), (b"n", b"%d" % n)) for n in numbers]
        await self.perform(Add(stream, drafts))

    async def start(self, *numbers: int, after: EntryId | None = MIN_ID, stream: bytes = S) -> None:
        """Add entries and create the group; it starts at `after`."""
        await self.put(*numbers, stream=stream)
        await self.perform(CreateGroup(stream, G, GroupStart(after)))

    async def take(
        self,
        consumer: bytes = b"a",
        limit: int | None = None,
        *,
        after: EntryId | None = None,
        claim: int | None = None,
        released: bool = False,
        wait_ms: int | None = 0,
        no_ack: bool = False,
        max_pending: int | None = None,
        streams: tuple[bytes, ...] = (S,),
        acked: tuple[EntryId, ...] = (),
    ) -> list[GroupRead]:
        """Read as a consumer of the group."""
        cursors = [GroupCursor(stream, after) for stream in streams]
        return await self.perform(
            ReadGroup(
                G,
                consumer,
                cursors,
                limit,
                claim,
                no_ack,
                max_pending,
                claim_released=released,
                wait_ms=wait_ms,
                acked=acked,
            )
        )

    async def follow(
        self,
        *streams: bytes,
        after: EntryId | From = From.NOW,
        wait_ms: int | None = None,
        limit: int | None = None,
        missing_ok: bool = False,
    ) -> list[tuple[bytes, list[int]]]:
        """Read as anybody; returns the numbers per stream that has some."""
        cursors = [StreamCursor(stream, after) for stream in streams or (S,)]
        reads = await self.perform(
            Read(cursors, limit=limit, wait_ms=wait_ms, missing_ok=missing_ok)
        )
        return [(read.stream, [e.id.ms for e in read.entries]) for read in reads if read.entries]

    async def held(self, consumer: bytes | None = None) -> list[PendingItem]:
        """List the pending entries."""
        return await self.perform(ListPending(S, G, consumer=consumer))

    async def held_numbers(self, consumer: bytes | None = None) -> list[int]:
        return [item.id.ms for item in await self.held(consumer)]


@asynccontextmanager
async def kept(engine: AnyEngine) -> AsyncIterator[AnyEngine]:
    """Keep an engine's house meanwhile."""
    housekeeping = asyncio.create_task(engine.run_housekeeping())
    yield engine
    assert not housekeeping.done()
    housekeeping.cancel()
    await asyncio.wait([housekeeping])


def numbers(reads: list[GroupRead]) -> list[int]:
    """Return the numbers of entries in a group read, over all its streams."""
    return [delivery.id.ms for read in reads for delivery in read.deliveries]


def deliveries(reads: list[GroupRead]) -> list[Delivery]:
    return [delivery for read in reads for delivery in read.deliveries]
