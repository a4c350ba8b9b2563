"""Following a table: all rows as of one id, then the entries behind it."""

from collections.abc import AsyncGenerator

from headgate.app.auth.access import Access
from headgate.app.live.followed import Followed, Ready, RowsBatch, StreamBatch
from headgate.app.live.subscription import (
    BATCH_BYTES_MAX,
    BATCH_ENTRIES_MAX,
    Credit,
    StreamSubscription,
)
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import WalkOver
from headgate.engine.replies import Gap, TablePage
from headgate.engine.requests.entries import RowKeys, StreamCursor
from headgate.engine.requests.tables import ReadTable


class TableSubscription(StreamSubscription):
    """Rows of a table, then what changes them.

    Where entries were trimmed before they were read, the rows come again.
    """

    __slots__ = ("_has_rows", "_page", "_prefix")

    def __init__(
        self,
        access: Access,
        stream: bytes,
        after: EntryId | None,
        *,
        prefix: bytes = b"",
        credit: Credit | None = None,
        beat_ms: int | None = None,
    ) -> None:
        """With `after`, the rows whose keys begin with `prefix` have been sent as of this id."""
        keys = RowKeys(prefix) if prefix else None
        cursor = StreamCursor(stream, after or MIN_ID)
        super().__init__(access, cursor, credit=credit, beat_ms=beat_ms, keys=keys)
        self._prefix = prefix
        self._page: TablePage | None = None
        self._has_rows = after is not None

    async def open(self) -> Ready:
        gap = None
        if self._has_rows:
            ready = await super().open()
            if ready.gap is None:
                return ready
            gap = ready.gap
        self._page = await self._page_after(None)
        return Ready(self._page.as_of, gap, has_rows=True)

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
            yield RowsBatch(page, gap, is_again)
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
                limit=BATCH_ENTRIES_MAX,
                size_bytes_max=BATCH_BYTES_MAX,
            )
        )
