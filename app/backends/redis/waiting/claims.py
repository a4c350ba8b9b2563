"""Notify a consumer which of its entries other consumers have taken over.

The function that takes entries over writes a record into a stream beside the stream (see
claims.lua), so no takeover is lost while a connection is down. Gateways read the records when a
server reports new ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors, by_name, read_id
from headgate.app.runtime import periodic
from headgate.engine.entry import EntryId
from headgate.engine.errors import Unavailable
from headgate.engine.loop.takeovers import Feeds, TakeoverFeed
from headgate.engine.replies import Takeover

_AT_ONCE = 500
"""Records that are read at once."""


class _Records:
    def __init__(self, key: bytes, last: bytes) -> None:
        self.key = key
        self.last = last  # the record that was read last
        self.feed_count = 0
        self.has_new = False
        self.reading: asyncio.Task[None] | None = None


class Claims:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._feeds = Feeds()
        self._records: dict[bytes, _Records] = {}  # by stream
        self._streams: dict[bytes, bytes] = {}  # by the key of the records
        self._tasks: asyncio.TaskGroup | None = None
        self._on_outcome = periodic.watch("takeovers read")

    @asynccontextmanager
    async def claims(
        self, stream: bytes, group: bytes, consumer: bytes
    ) -> AsyncIterator[AsyncIterator[Takeover]]:
        records = await self._follow(stream)
        records.feed_count += 1
        try:
            async with TakeoverFeed(self._feeds, (stream, group, consumer)) as feed:
                yield feed
        finally:
            records.feed_count -= 1
            if not records.feed_count:
                del self._records[stream], self._streams[records.key]

    async def _follow(self, stream: bytes) -> _Records:
        key = self._client.names.of(stream).side(b"claims")
        if stream not in self._records:
            with as_stream_errors(stream):
                last = await self._client.execute(
                    stream, b"XREVRANGE", key, b"+", b"-", b"COUNT", 1, changes=False
                )
            if stream not in self._records:
                self._records[stream] = _Records(key, last[0][0] if last else b"0-0")
                self._streams[key] = stream
        return self._records[stream]

    def signal(self, key: bytes) -> bool:
        """Note a change of a key; return whether the key holds records."""
        stream = self._streams.get(key)
        if stream is None:
            return False
        self._read_on(stream)
        return True

    def signal_all(self) -> None:
        for stream in list(self._records):
            self._read_on(stream)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self.signal_all()
                await asyncio.Event().wait()
        finally:
            self._tasks = None

    def _read_on(self, stream: bytes) -> None:
        records = self._records[stream]
        records.has_new = True
        if records.reading is None and self._tasks is not None:
            records.reading = self._tasks.create_task(self._read(stream, records))

    async def _read(self, stream: bytes, records: _Records) -> None:
        try:
            while records.has_new:
                records.has_new = False
                with as_stream_errors(stream):
                    rows = await self._client.execute(
                        *(stream, b"XRANGE", records.key, b"(" + records.last, b"+"),
                        *(b"COUNT", _AT_ONCE),
                        changes=False,
                    )
                for record_id, fields in rows:
                    records.last = record_id
                    self._put(stream, by_name(fields))
                records.has_new |= len(rows) == _AT_ONCE
        except Unavailable:
            pass  # all records are looked for again when the server is back
        except Exception as error:  # noqa: BLE001  likewise when the next record comes
            self._on_outcome(error)
        finally:
            records.reading = None

    def _put(self, stream: bytes, record: dict[bytes, bytes]) -> None:
        feeds: Sequence[TakeoverFeed] = self._feeds.of((stream, record[b"group"], record[b"from"]))
        if feeds:
            takeover = Takeover(dict(_counts(record[b"ids"])), record[b"by"])
            for feed in feeds:
                feed.put(takeover)


def _counts(text: bytes) -> Iterator[tuple[EntryId, int]]:
    for each in text.split():
        entry_id, _, count = each.partition(b":")
        yield read_id(entry_id), int(count)
