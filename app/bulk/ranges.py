"""Ranges: sends a range of a stream as Arrow, either to its end or broken off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from functools import partial

from headgate.app.auth.access import Access
from headgate.app.bulk import arrow
from headgate.app.http.streaming import BrokenOff
from headgate.app.runtime.telemetry import Metrics
from headgate.app.wire.names import text_of
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import Entry, EntryId
from headgate.engine.errors import StreamError, StreamNotFound
from headgate.engine.replies import StreamInfo
from headgate.engine.requests.entries import Range
from headgate.engine.requests.streams import DescribeStream

log = logging.getLogger("headgate")

_SLICE = 256
"""Entries taken from the log before others have their turn: a fraction of a millisecond's work,
which each turn of whoever else is there waits for."""

_SLICE_BYTES = arrow.BATCH_BYTES_MAX * _SLICE // arrow.ROWS_MAX
"""Names and values of a slice; a batch ends with the first that has no room for all its entries, so
nobody has to add up what a batch has."""

_PIECE_BYTES = 256 * 1024
"""What a slow client must take within its patience: less than a batch may have."""


class BulkRange:
    """What is left to be read of a range."""

    def __init__(
        self,
        access: Access,
        info: StreamInfo,
        low: EntryId,
        high: EntryId,
        limit: int | None,
        threads: arrow.ArrowThreads,
    ) -> None:
        """Describe the range.

        Args:
            access: where the stream is.
            info: the stream as it is now; entries that come later are not read.
            low: lowest id.
            high: highest id.
            limit: entries at most; None: all.
            threads: where its batches are made.
        """
        self._access = access.slowed()
        self._stream = info.name
        self._epoch = info.epoch
        self._trimmed_through = info.trimmed_through
        self._low = low
        self._high = min(high, info.last_id)
        self._left = limit
        self._is_over = False
        self._threads = threads

    async def batches(
        self, compression: arrow.Compression, metrics: Metrics
    ) -> AsyncGenerator[bytes, None]:
        """Yield the Arrow stream piece by piece, never more than one batch ahead of the client.

        If entries of the range are removed before they are read, the answer breaks off, so that
        nobody takes half of it for the whole.
        """
        delivered = metrics.delivered.labels("arrow")
        begin = partial(arrow.Encoder, text_of(self._stream), self._epoch, compression)
        encoder = await self._threads.run(begin)
        try:
            while rows := await self._rows():
                data = await self._threads.run(partial(encoder.encode, rows))
                for at in range(0, len(data), _PIECE_BYTES):
                    yield data[at : at + _PIECE_BYTES]
                delivered.inc(len(rows))
            yield await self._threads.run(encoder.finish)
        except (StreamError, GatewayError) as error:
            facts = {"stream": text_of(self._stream), "reason": str(error)}
            log.info("bulk read broken off", extra=facts)
            raise BrokenOff from None

    async def _rows(self) -> list[Entry]:
        """Return what goes into the next batch, nothing at the end."""
        rows: list[Entry] = []
        while not self._is_over and len(rows) < arrow.ROWS_MAX:
            entries = await self._slice()
            rows += entries
            await asyncio.sleep(0)  # others come between, and one that is cancelled ends here
            if len(entries) < _SLICE:  # its entries are large, or there are no more
                break
        return rows

    async def _slice(self) -> list[Entry]:
        count = _SLICE if self._left is None else min(_SLICE, self._left)
        if self._low > self._high or not count:
            self._is_over = True
            return []
        bounds = self._stream, self._low, self._high
        entries = await self._access.perform(
            Range(*bounds, limit=count, size_bytes_max=_SLICE_BYTES)
        )
        await self._check_whole()
        self._is_over = not entries or entries[-1].id == self._high
        if entries:
            self._low = entries[-1].id.next()
            self._left = None if self._left is None else self._left - len(entries)
        return entries

    async def _check_whole(self) -> None:
        """Refuse to go on if what was to be read by now may be missing something.

        Raises:
            StreamNotFound: the stream is gone, another has its name, or it was trimmed up to here.
        """
        info = await self._access.perform(DescribeStream(self._stream))
        seen = max(self._low.previous(), self._trimmed_through)
        if info.epoch != self._epoch or info.trimmed_through > seen:
            raise StreamNotFound(self._stream)
