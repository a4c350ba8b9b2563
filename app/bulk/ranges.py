"""Send a range of a stream as Arrow; an incomplete answer is broken off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

from headgate.app.auth.access import Access
from headgate.app.http.streaming import BrokenOff
from headgate.app.runtime.telemetry import Metrics
from headgate.app.wire.filters import Selection
from headgate.app.wire.names import text_of
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import MAX_ID, EntryId
from headgate.engine.errors import StreamError, StreamNotFound
from headgate.engine.limits import COUNT_MAX
from headgate.engine.replies import PackedEntries, StreamInfo
from headgate.engine.requests.entries import RangePacked
from headgate.engine.threads import Threads

if TYPE_CHECKING:
    from headgate.app.bulk.encoder import Encoded, Encoder

log = logging.getLogger("headgate")

Compression = Literal["none", "zstd"]

_ROWS_MAX = 32_768
"""Of one batch. Many chunks are unpacked together: half as many take a quarter longer each."""

_BATCH_BYTES_MAX = 4 * 2**20
"""Entries of one batch, unpacked, about."""


def missed_through(info: StreamInfo, selection: Selection) -> EntryId:
    """Return the greatest id that a trim removed and that is not read from an archive."""
    gone_through = info.gone_through if selection.archived else None
    return info.trimmed_through if gone_through is None else gone_through


def broken_off(stream: bytes, error: Exception) -> BrokenOff:
    """Return what ends an answer without its end, so that nobody takes a part of it for all."""
    log.info("bulk read broken off", extra={"stream": text_of(stream), "reason": str(error)})
    return BrokenOff()


class BulkRange:
    def __init__(
        self,
        access: Access,
        info: StreamInfo,
        low: EntryId,
        high: EntryId,
        limit: int | None,
        selection: Selection,
        threads: Threads,
        hold: Callable[[int], None],
    ) -> None:
        """Describe the range; entries added after `info` are not read, and `limit` None means all.

        `hold` is told how many bytes are encoded but not sent.
        """
        self._access = access.slowed()
        self._stream = info.name
        self._epoch = info.epoch
        self._trimmed_through = missed_through(info, selection)
        self._low = low
        self._high = min(high, info.last_id)
        self._left = COUNT_MAX if limit is None else limit
        self._selection = selection
        self._threads = threads
        self._hold = hold

    async def batches(
        self, compression: Compression, metrics: Metrics
    ) -> AsyncGenerator[bytes, None]:
        """Yield the Arrow stream in pieces; the next batch is encoded while one is sent.

        If entries of the range are removed before they are read, the answer breaks off, so that
        nobody takes half of it for the whole.
        """
        encoder = await self._threads.call_if_awaited(partial(self._encoder, compression))
        following = asyncio.create_task(self._batch(encoder))
        try:
            while (batch := await following) is not None:
                following = asyncio.create_task(self._batch(encoder))
                self._hold(2 * sum(map(len, batch.pieces)))  # and the next one, as large about
                for piece in batch.pieces:
                    yield piece
                metrics.delivered_counts["arrow"] += batch.entry_count
            for piece in await self._threads.call_if_awaited(encoder.finish):
                yield piece
        except (StreamError, GatewayError) as error:
            raise broken_off(self._stream, error) from None
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            del following  # what it raised knows this frame

    def _encoder(self, compression: Compression) -> Encoder:
        from headgate.app.bulk.encoder import Encoder  # noqa: PLC0415 - it needs pyarrow

        kind = None if compression == "none" else compression
        return Encoder(text_of(self._stream), self._epoch, kind, self._selection)

    async def _batch(self, encoder: Encoder) -> Encoded | None:
        runs = await self._next_runs()
        return await self._threads.call_if_awaited(partial(encoder.encode, runs)) if runs else None

    async def _next_runs(self) -> list[PackedEntries]:
        """Return the runs of the next batch; none at the end.

        Raises StreamNotFound if entries may be missing: the stream is gone or replaced, or it was
        trimmed up to here.
        """
        while self._low <= self._high and self._left:
            limit = min(self._left, _ROWS_MAX)
            bounds = self._low, self._high, limit, _BATCH_BYTES_MAX
            request = RangePacked(self._stream, *bounds, self._selection.archived)
            page = await self._access.perform(request)
            seen = max(self._low.previous(), self._trimmed_through)
            if page.epoch != self._epoch or page.trimmed_through > seen:
                raise StreamNotFound(self._stream)
            self._left -= sum(run.entry_count for run in page.runs)
            if page.last_id == MAX_ID:
                self._left = 0
            self._low = page.last_id.next()
            if page.runs:
                return page.runs
        return []
