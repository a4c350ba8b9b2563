"""Log view: a range of a log as it was at one moment.

It shares the chunks. While there is a view, the log replaces a sealed chunk before it changes it,
and what it drops stays here. Of an open chunk, which grows, a view has a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from headgate.engine.entry import Entry, EntryId
from headgate.engine.limits import PAGE_BYTES, PAGE_ENTRIES
from headgate.engine.state.chunk import Chunk
from headgate.engine.state.memory import PART_BYTES

_fields_of = itemgetter(1)


class LogView:
    """Entries from one id to another, read page by page."""

    def __init__(
        self,
        chunks: Sequence[Chunk],
        newest: Sequence[Entry],
        bounds: tuple[EntryId, EntryId],
        count: int,
        on_close: Callable[[], None],
        *,
        reverse: bool,
    ) -> None:
        """Begin at the first page.

        Args:
            chunks: sealed ones, in order of their ids.
            newest: entries behind them.
            bounds: the lowest and the highest id.
            count: how many entries there are between them, or as many as are wanted.
            on_close: is called once, when nobody reads any more.
            reverse: the highest ids come first.
        """
        self.count = count
        self.chunk_count = len(chunks)
        self._chunks = chunks
        self._newest = newest
        self._bounds = bounds
        self._on_close: Callable[[], None] | None = on_close
        self._reverse = reverse
        self._at = 0  # the next chunk; the newest entries count as one
        self._left = count

    @property
    def is_over(self) -> bool:
        """Tell whether all pages were read."""
        return self._left == 0

    def page(self) -> list[Entry]:
        """Return the next page: some chunks as a whole."""
        page: list[Entry] = []
        size_bytes = 0
        while self._left > len(page) and len(page) < PAGE_ENTRIES and size_bytes < PAGE_BYTES:
            size_bytes += self._take(page)
        del page[self._left :]
        self._left -= len(page)
        return page

    def close(self) -> None:
        """Let go of the chunks."""
        if self._on_close is not None:
            self._on_close()
        self._on_close, self._chunks, self._newest, self._left = None, (), (), 0

    def _take(self, page: list[Entry]) -> int:
        """Add the entries of the next chunk; returns what they take unpacked, about."""
        count, at = len(self._chunks), self._at
        self._at += 1
        place = count - at if self._reverse else at  # the newest are the last
        if place == count:
            entries, size_bytes = list(self._newest), PAGE_BYTES // 8
        else:
            chunk = self._chunks[place]
            entries, size_bytes = chunk.between(*self._bounds), chunk.unpacked_bytes
        page += reversed(entries) if self._reverse else entries
        return max(size_bytes, PART_BYTES * sum(map(len, map(_fields_of, entries))))
