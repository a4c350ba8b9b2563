"""Following a table: all rows as of one id, then the entries behind it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from msgspec.structs import replace

from headgate.app.auth.access import Access
from headgate.app.gateway.fan_out import FanOut
from headgate.app.live.followed import AtEnd, Followed, Ready, RowsBatch, State, StreamBatch
from headgate.app.live.subscription import (
    BATCH_BYTES_MAX,
    BATCH_ENTRIES_MAX,
    Credit,
    StreamSubscription,
)
from headgate.engine.config import FieldName, StreamConfig
from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.errors import WalkOver
from headgate.engine.replies import Gap, StreamRead, TablePage
from headgate.engine.requests.entries import RowKeys, StreamCursor
from headgate.engine.requests.tables import ReadRow, ReadTable
from headgate.engine.threads import this_turn

_MERGED_MAX = 1_000
"""Reads whose changes are conflated into one batch."""


class TableSubscription(StreamSubscription):
    """Rows of a table, then what changes them.

    Where entries were trimmed before they were read, the rows come again. With `conflate_ms`, what
    has come within that time is one batch, with the newest change of each row.
    """

    __slots__ = ("_config", "_conflate_ms", "_has_rows", "_is_behind", "_page", "_prefix")

    def __init__(
        self,
        access: Access,
        stream: bytes,
        after: EntryId | None,
        *,
        prefix: bytes = b"",
        conflate_ms: int | None = None,
        credit: Credit | None = None,
        beat_ms: int | None = None,
    ) -> None:
        """With `after`, the rows whose keys begin with `prefix` have been sent as of this id."""
        keys = RowKeys(prefix) if prefix else None
        cursor = StreamCursor(stream, after or MIN_ID)
        super().__init__(access, cursor, credit=credit, beat_ms=beat_ms, keys=keys)
        self._prefix = prefix
        self._conflate_ms = conflate_ms
        self._is_behind = True  # there is more than the last batch could take
        self._config = StreamConfig()
        self._page: TablePage | None = None
        self._has_rows = after is not None

    def read_together(self, fan_out: FanOut, send_at_once: Callable[[StreamBatch], bool]) -> None:
        if self._conflate_ms is None:
            super().read_together(fan_out, send_at_once)

    @property
    def is_over(self) -> bool:
        return self._page is None and super().is_over

    async def open(self) -> Ready:
        read = await self._access.perform(ReadRow(self._cursor.stream, self._prefix))
        key, tombstone = read.fields
        self._config = StreamConfig(key_field=FieldName(key), tombstone_field=FieldName(tombstone))
        gap = None
        if self._has_rows:
            ready = await super().open()
            if ready.gap is None:
                return ready._replace(table_fields=read.fields)
            gap = ready.gap
        self._page = await self._page_after(None)
        return Ready(self._page.as_of, gap, table_fields=read.fields, has_rows=True)

    async def _reading(self) -> AsyncGenerator[Followed, None]:
        gap: Gap | None = None
        is_again = False
        while True:
            if self._page is not None:
                async for batch in self._rows(gap, is_again=is_again):
                    yield batch
            async for item in super()._reading():
                if isinstance(item, StreamBatch) and item.read.gap is not None:
                    gap = item.read.gap
                    break
                if isinstance(item, AtEnd) and self._state != "caught_up":
                    yield State("caught_up")
                yield item
            else:
                return
            self._page, is_again = await self._page_after(None), True

    async def _rows(self, gap: Gap | None, *, is_again: bool) -> AsyncGenerator[Followed, None]:
        """Yield all rows, and get ready to go on behind them."""
        page, self._page, self._state = self._page, None, "live"
        assert page is not None
        while True:
            yield RowsBatch(page, self._spend(len(page.rows)), gap, is_again)
            gap, is_again = None, False
            if page.after_key is None:
                break
            try:
                page = await self._page_after(page)
            except WalkOver:
                page, is_again = await self._page_after(None), True
        self._cursor = StreamCursor(self._cursor.stream, page.as_of)
        self._first = await self._read(wait_ms=0)

    async def _page_after(self, page: TablePage | None) -> TablePage:
        after_key, as_of = (None, None) if page is None else (page.after_key, page.as_of)
        return await self._access.perform(
            ReadTable(
                self._cursor.stream,
                self._prefix,
                after_key=after_key,
                as_of=as_of,
                limit=await self._entries_max(),
                size_bytes_max=BATCH_BYTES_MAX,
            )
        )

    def _sent_count(self, read: StreamRead) -> int:
        if self._credit is None:
            return 0
        return sum(self._config.row_of(entry.fields) is not None for entry in read.entries)

    async def _read(self, *, wait_ms: int | None) -> StreamRead:
        read = await super()._read(wait_ms=wait_ms)
        if read.gap is not None:  # all rows come instead of the entries, which take no credit
            return read._replace(entries=[])
        if self._conflate_ms is None:
            return read
        if not read.entries:
            self._is_behind = self._is_filtered and read.next_after < read.last_id
            return read
        return await self._conflated(read, self._conflate_ms)

    async def _conflated(self, first: StreamRead, conflate_ms: int) -> StreamRead:
        """Return a read with what comes within a time, but only the newest change of each row."""
        if not self._is_behind:
            await asyncio.sleep(conflate_ms / 1000)
        limit, last, newest = await self._entries_max(), first, dict[bytes, Entry]()
        self._is_behind = True
        for _ in range(_MERGED_MAX):
            left = self._merge(last.entries, newest, limit)
            if left is not None:
                last = last._replace(next_after=left.previous(), closed_at_ms=None)
                break
            following = await self._following(last)
            if following is None:
                self._is_behind = False
                break
            last = following
        return last._replace(entries=sorted(newest.values()), after=first.after)

    async def _following(self, read: StreamRead) -> StreamRead | None:
        """Return the read behind another one, if anything comes behind it without a gap."""
        if read.next_after >= read.last_id:
            return None
        await this_turn().pause()
        cursors = (StreamCursor(read.stream, read.next_after),)
        request = replace(self._request(BATCH_ENTRIES_MAX, 0), cursors=cursors)
        [following] = await self._access.perform(request)
        following = following.placed()
        has_moved = following.next_after > read.next_after
        return following if has_moved and following.gap is None else None

    def _merge(
        self, entries: Sequence[Entry], newest: dict[bytes, Entry], limit: int
    ) -> EntryId | None:
        """Note the newest change of each row; return the first that a batch has no room for."""
        size_bytes = sum(entry.size_bytes for entry in newest.values())
        for entry in entries:
            change = self._config.row_of(entry.fields)
            if change is None:
                continue
            former = newest.get(change[0])
            others = len(newest) - (former is not None)
            size_bytes += entry.size_bytes - (0 if former is None else former.size_bytes)
            if others == limit or (others and size_bytes > BATCH_BYTES_MAX):
                return entry.id
            newest[change[0]] = entry
        return None
