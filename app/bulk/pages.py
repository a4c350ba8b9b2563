"""Pages: a range of a stream, read a page at a time; a filter leaves some of each page."""

from headgate.app.auth.access import Access
from headgate.app.wire.filters import Selection
from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId, EntryTimes
from headgate.engine.requests.entries import FindTimes, Range, RangeMatching

EntryRange = tuple[EntryId, EntryId, bool]
"""Lowest id, highest id, and whether to read downwards."""


class Pages:
    """A range of a stream, and how far it was read.

    Attributes:
        stream: its name.
        selection: what of its entries is wanted; columns are left to who encodes them.
        is_down: the highest ids come first.
        position: the last id that was read; None: there is no more, as the page before was empty,
            or a filter was asked about the whole range.
        is_over: there is no more, whatever the position.
        times: of the entries of the last page, as far as they have some and that was asked for.
    """

    def __init__(
        self,
        access: Access,
        stream: bytes,
        bounds: EntryRange,
        selection: Selection,
        *,
        with_times: bool = False,
    ) -> None:
        """Begin at one end of a range."""
        self.times: dict[EntryId, EntryTimes] = {}
        self._with_times = with_times
        self.stream, self.selection = stream, selection
        self._access = access
        self.position: EntryId | None = None
        self._low, self._high, self.is_down = bounds
        self.is_over = False

    async def next_page(self, limit: int, size_bytes_max: int) -> list[Entry]:
        """Return the next entries; with a filter there may be none, and more behind."""
        entries = await self._next_page(limit, size_bytes_max)
        if self._with_times and entries:
            finding = FindTimes(self.stream, [entry.id for entry in entries])
            self.times = await self._access.perform(finding)
        return entries

    async def _next_page(self, limit: int, size_bytes_max: int) -> list[Entry]:
        low, high, is_down = self._low, self._high, self.is_down
        bounds = low, high, limit, size_bytes_max, is_down
        text = self.selection.text
        if text is None:
            wanted = Range(self.stream, *bounds, archived=self.selection.archived)
            entries = await self._access.perform(wanted)
            self._go_on(entries[-1].id if entries else None)
            return entries
        matching = RangeMatching(self.stream, text, *bounds, self.selection.archived)
        entries, last_id = await self._access.perform(matching)
        self._go_on(None if last_id == (low if is_down else high) else last_id)
        return entries

    def _go_on(self, position: EntryId | None) -> None:
        self.position = position
        if position is None or position in (MIN_ID, MAX_ID):
            self.is_over = True
            return
        if self.is_down:
            self._high = position.previous()
        else:
            self._low = position.next()
        self.is_over = self._low > self._high
