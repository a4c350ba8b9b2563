"""Following a table: all rows as of one id, then the entries behind it."""

import asyncio
from collections.abc import AsyncGenerator, Callable

from msgspec.structs import replace

from headgate.app.auth.access import Access
from headgate.app.gateway.fan_out import FanOut
from headgate.app.live.followed import Followed, Ready, RowsBatch, StreamBatch
from headgate.app.live.subscription import BATCH_BYTES_MAX, Credit, StreamSubscription
from headgate.engine.config import FieldName, StreamConfig
from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.errors import WalkOver
from headgate.engine.replies import Gap, StreamRead, TablePage
from headgate.engine.requests.entries import RowKeys, StreamCursor
from headgate.engine.requests.tables import ReadRow, ReadTable

_MERGED_MAX = 1_000
"""Reads whose changes are conflated into one batch."""


class TableSubscription(StreamSubscription):
    """Rows of a table, then what changes them.

    Where entries were trimmed before they were read, the rows come again. With `conflate_ms`, what
    has come within that time is one batch, with the newest change of each row.
    """

    __slots__ = ("_config", "_conflate_ms", "_has_rows", "_page", "_prefix")

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
        self._config = StreamConfig()
        self._page: TablePage | None = None
        self._has_rows = after is not None

    def read_together(self, fan_out: FanOut, send_at_once: Callable[[StreamBatch], bool]) -> None:
        if self._conflate_ms is None:
            super().read_together(fan_out, send_at_once)

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
                yield item
            else:
                return
            self._page, is_again = await self._page_after(None), True

    async def _rows(self, gap: Gap | None, *, is_again: bool) -> AsyncGenerator[Followed, None]:
        """Yield all rows, and get ready to go on behind them."""
        page, self._page = self._page, None
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

    async def _read(self, *, wait_ms: int | None) -> StreamRead:
        read = await super()._read(wait_ms=wait_ms)
        if self._conflate_ms is None or not read.entries or read.gap is not None:
            return read
        return await self._conflated(read, self._conflate_ms)

    async def _conflated(self, first: StreamRead, conflate_ms: int) -> StreamRead:
        """Return a read with what comes within a time, but only the newest change of each row."""
        await asyncio.sleep(conflate_ms / 1000)
        limit, last, newest = await self._entries_max(), first, dict[bytes, Entry]()
        for _ in range(_MERGED_MAX):
            for entry in last.entries:
                change = self._config.row_of(entry.fields)
                if change is not None:
                    newest[change[0]] = entry
            if len(newest) >= limit or last.next_after >= last.last_id:
                break
            request = self._request(limit - len(newest), 0)
            cursors = (StreamCursor(last.stream, last.next_after),)
            [following] = await self._access.perform(replace(request, cursors=cursors))
            if following.gap is not None:  # it is told by the next read
                break
            last = following.placed()
        return last._replace(entries=sorted(newest.values()), after=first.after)
