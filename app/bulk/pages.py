"""Read a range of a stream a page at a time; a filter keeps only some of each page."""

from functools import partial

from fastapi import Request, Response

from headgate.app.auth.access import Access
from headgate.app.bulk import arrow
from headgate.app.bulk.ranges import BulkRange, Compression, missed_through
from headgate.app.http.dependencies import access_of, gateway_of
from headgate.app.http.operation import ARROW
from headgate.app.http.streaming import PatientResponse, while_valid
from headgate.app.transport.exchange import hold
from headgate.app.wire.filters import Selection
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId, EntryTimes
from headgate.engine.replies import StreamInfo, gap_after
from headgate.engine.requests.entries import FindTimes, From, Range, RangeMatching
from headgate.engine.requests.streams import DescribeStream

EntryRange = tuple[EntryId, EntryId, bool]
"""Lowest id, highest id, and whether to read downwards."""


class Pages:
    """A range of a stream, and how far it was read.

    `position` is the last id that was read; None means the end: the page before was empty, or a
    filter was asked about the whole range. `is_over` means the end whatever the position. `times`
    belong to the last page, if they were requested. Columns of the selection are left to the
    encoder.
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
        self.times: dict[EntryId, EntryTimes] = {}
        self._with_times = with_times
        self.stream, self.selection = stream, selection
        self._access = access
        self.position: EntryId | None = None
        self._low, self._high, self.is_down = bounds
        self.is_over = False

    async def next_page(self, limit: int, size_bytes_max: int) -> list[Entry]:
        """Return the next entries; with a filter a page may be empty before the end."""
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


async def arrow_answer(
    request: Request,
    stream: bytes,
    bounds: tuple[EntryId, EntryId],
    cursor: EntryId | From | None,
    limit: int | None,
    compression: Compression | None,
    selection: Selection,
) -> Response:
    """Return the entries of a range, or those after a cursor, as Arrow.

    A cursor overrides the lowest id; `limit` None means all. Raises GatewayError for a filter
    together with a limit.
    """
    if selection.filter is not None and limit is not None:
        text = "not allowed with a filter, which examines all entries"
        raise GatewayError("invalid_request", text, pointer="/query/limit")
    gateway, (low, high) = gateway_of(request), bounds
    threads = arrow.threads_of(request)
    await threads.call_if_awaited(arrow.library)
    access = access_of(request)
    info = await access.perform(DescribeStream(stream))
    if cursor is not None:
        low = await _first_after(access, info, cursor)
    headers = {
        "Headgate-Epoch": str(info.epoch),
        "Headgate-Last-Id": str(info.last_id),
        "Headgate-Max-Deleted-Id": str(info.max_deleted_id),
    }
    if info.length:
        headers["Headgate-First-Id"] = str(info.first_id)
    first_id = info.archived_first_id if selection.archived else None
    if first_id is not None and first_id <= high and (not info.length or low < info.first_id):
        headers["Headgate-Archived"] = "true"
    gap = gap_after(low.previous(), missed_through(info, selection))
    if gap is not None:
        headers["Headgate-Gap-To"] = str(gap.through)
    held = partial(hold, request.receive)
    entries = BulkRange(access, info, low, high, limit, selection, threads, held)
    parts = while_valid(request, entries.batches(compression or "none", gateway.metrics))
    patience_ms = gateway.limits.send_ms_max
    return PatientResponse(parts, media_type=ARROW, patience_ms=patience_ms, headers=headers)


async def _first_after(access: Access, info: StreamInfo, cursor: EntryId | From) -> EntryId:
    if cursor is From.LAST:
        last = await access.perform(Range(info.name, reverse=True, limit=1))
        return last[0].id if last else info.last_id
    return (info.last_id if isinstance(cursor, From) else cursor).next()
