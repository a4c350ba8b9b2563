"""Follow: the one loop behind event streams and sockets. A cursor in, batches out, without end.

The first batch comes at once, empty or not. A later one without entries means that nothing came for
`beat_ms`: it is the moment for a heartbeat.
"""

import asyncio
from collections.abc import AsyncIterator

from headgate.app.backends.port import Backend
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.replies import GroupRead, StreamRead
from headgate.engine.requests import GroupCursor, GroupRequest, StreamCursor

BATCH_ENTRIES_MAX = 250
"""Entries in one batch: enough to make the cost of a batch small, few enough to be sent at once."""

BATCH_BYTES_MAX = 2**20
"""Names and values in one batch, but for its first entry."""


class Credit:
    """How many entries a reader will take. Without credit no read is issued."""

    def __init__(self, available: int, *, most: int) -> None:
        """Start with `available`, never to hold more than `most`."""
        self.available = available
        self._most = most
        self._added = asyncio.Event()

    def add(self, entries: int) -> None:
        """Let so many more come; what is above the bound is cut off."""
        self.available = min(self.available + entries, self._most)
        self._added.set()

    def spend(self, entries: int) -> None:
        """Note that so many were sent."""
        self.available -= entries

    async def wait_available(self) -> int:
        """Wait until there is credit; returns how much."""
        while self.available <= 0:
            self._added.clear()
            await self._added.wait()
        return self.available


async def follow_stream(
    backend: Backend, cursor: StreamCursor, *, credit: Credit | None, beat_ms: int | None
) -> AsyncIterator[StreamRead]:
    """Yield what a stream has after a cursor, and then what comes.

    Args:
        backend: where to read.
        cursor: the stream, and the id to read after.
        credit: what the reader will take; None is any number.
        beat_ms: yield an empty batch after so much silence; None never does.

    Raises:
        StreamNotFound: the stream is missing, now or later.
    """
    wait_ms: int | None = 0
    while True:
        limit = await _batch_limit(credit)
        [read] = await backend.read(
            [cursor], limit=limit, size_bytes_max=BATCH_BYTES_MAX, wait_ms=wait_ms
        )
        yield read
        # Others come between, and one that is cancelled ends here. Those who follow side by side
        # are at the same place meanwhile, so each place is read once for all of them.
        await asyncio.sleep(0)
        cursor = StreamCursor(cursor.stream, read.next_after)
        wait_ms = beat_ms


async def follow_group(
    backend: Backend,
    request: GroupRequest,
    *,
    credit: Credit | None,
    beat_ms: int | None,
) -> AsyncIterator[GroupRead]:
    """Yield what a consumer holds already, then what is idle enough or new, and then what comes.

    Args:
        backend: where to read.
        request: who reads what; its cursors name one stream.
        credit: what the reader will take; None is any number.
        beat_ms: yield an empty batch after so much silence; None never does.

    Raises:
        GroupNotFound: the group or its stream is missing, now or later.
    """
    [cursor] = request.cursors
    request = request._replace(claim_own=False, size_bytes_max=BATCH_BYTES_MAX)
    after: EntryId | None = MIN_ID  # its own pending entries first
    while after is not None:
        request = request._replace(
            cursors=[GroupCursor(cursor.stream, after)], limit=await _batch_limit(credit)
        )
        [read] = await backend.read_group(request, wait_ms=beat_ms)
        if read.deliveries or not read.served:
            yield read
        await _settle_gone(backend, request, read)
        await asyncio.sleep(0)
        after = read.deliveries[-1].id if read.deliveries else None if read.served else after
    wait_ms: int | None = 0
    while True:
        request = request._replace(cursors=[cursor], limit=await _batch_limit(credit))
        [read] = await backend.read_group(request, wait_ms=wait_ms)
        yield read
        await asyncio.sleep(0)
        wait_ms = beat_ms


async def _settle_gone(backend: Backend, request: GroupRequest, read: GroupRead) -> None:
    """Acknowledge what can never be delivered: it would only use up what the consumer may hold."""
    gone = [delivery.id for delivery in read.deliveries if delivery.fields is None]
    if gone:
        await backend.ack(read.stream, request.group, gone, consumer=request.consumer)


async def _batch_limit(credit: Credit | None) -> int:
    if credit is None:
        return BATCH_ENTRIES_MAX
    return min(BATCH_ENTRIES_MAX, await credit.wait_available())
