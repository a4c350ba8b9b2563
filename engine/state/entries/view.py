"""LogView: a range of a log as it is at one moment, read page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import itemgetter

from headgate.engine.entry import Entry, EntryId
from headgate.engine.limits import PAGE_BYTES, PAGE_ENTRIES
from headgate.engine.state.chunk import Chunk
from headgate.engine.state.extent import Damaged, Missing
from headgate.engine.state.extent_index import Extents
from headgate.engine.state.memory import PART_BYTES

_fields_of = itemgetter(1)

_VIEWED_AHEAD = 16
"""Extents that a view asks for together."""


class LogView:
    """Entries from one id to another as they are at one moment, read page by page.

    It shares extents and chunks. While there is a view, the log replaces a sealed chunk before it
    changes it, and what it drops stays here; the files of the extents stay. Of an open chunk, which
    grows, a view has a copy.
    """

    def __init__(
        self,
        held: tuple[Extents, Sequence[Chunk], Sequence[Entry]],
        bounds: tuple[EntryId, EntryId],
        count: int,
        on_close: Callable[[], None],
        *,
        reverse: bool,
    ) -> None:
        """Begin at the first page.

        `held` is extents, sealed chunks behind them, and entries behind those. `count` is how many
        entries there are, or as many as are wanted. `on_close` is called once.
        """
        self.count = count
        self._cold, self._hot, self._newest = held
        self.chunk_count = len(self._cold) + len(self._hot)
        self._bounds = bounds
        self._on_close: Callable[[], None] | None = on_close
        self._reverse = reverse
        self._at = 0  # the next extent or chunk; the newest entries count as one
        self._last_at = 0  # the last extent
        self._taken = 0  # chunks of the last extent
        self._opened: Iterator[Chunk] = iter(())  # those that are left of it, during a page
        self._left = count

    @property
    def is_over(self) -> bool:
        return self._left == 0

    def page(self) -> list[Entry]:
        """Return the next page: some chunks as a whole; Missing if its extent is not in memory."""
        page: list[Entry] = []
        size_bytes = 0
        try:
            if self._taken:
                self._open(self._last_at, self._taken)
            while self._left > len(page) and len(page) < PAGE_ENTRIES and size_bytes < PAGE_BYTES:
                size_bytes += self._take(page)
        except Damaged as damaged:
            for lost in damaged.lost:  # here as well: the log loses it
                self._cold.lose(lost.first_id, lost.last_id)
            if not page:
                raise
        except Missing:
            if not page:
                raise
        finally:
            self._opened = iter(())  # whoever is slow holds no extent
        del page[self._left :]
        self._left -= len(page)
        return page

    def close(self) -> None:
        if self._on_close is not None:
            self._on_close()
        self._on_close, self._hot, self._newest, self._left = None, (), (), 0

    def _take(self, page: list[Entry]) -> int:
        """Add the entries of the next chunk; returns what they take unpacked, about."""
        chunk = next(self._opened, None)
        if chunk is not None:
            self._taken += 1
            return self._add(page, chunk.between(*self._bounds), chunk.unpacked_bytes)
        place = (
            self.chunk_count - self._at if self._reverse else self._at
        )  # the newest are the last
        if not 0 <= place <= self.chunk_count:  # something was damaged, so there are fewer
            self._left = len(page)
            return 0
        if place < len(self._cold):
            self._open(place, 0)
            self._at, self._last_at, self._taken = self._at + 1, place, 0
            return 0
        self._at, self._taken = self._at + 1, 0
        if place == self.chunk_count:
            return self._add(page, list(self._newest), PAGE_BYTES // 8)
        chunk = self._hot[place - len(self._cold)]
        return self._add(page, chunk.between(*self._bounds), chunk.unpacked_bytes)

    def _open(self, place: int, taken: int) -> None:
        """Go on with the chunks of an extent behind those taken; Missing if not in memory."""
        if self._cold.is_missing(place):
            ahead = range(place, min(place + _VIEWED_AHEAD, len(self._cold)))
            behind = range(place, max(place - _VIEWED_AHEAD, -1), -1)
            self._cold.require(behind if self._reverse else ahead)
        start, end = self._bounds
        chunks = self._cold.chunks(place)
        inside = [each for each in chunks if each.last_id >= start and each.first_id <= end]
        self._opened = islice(reversed(inside) if self._reverse else inside, taken, None)

    def _add(self, page: list[Entry], entries: list[Entry], size_bytes: int) -> int:
        page += reversed(entries) if self._reverse else entries
        return max(size_bytes, PART_BYTES * sum(map(len, map(_fields_of, entries))))
