"""Answer: a range as Arrow, in answer to a request."""

from functools import partial

from fastapi import Request, Response

from headgate.app.auth.access import Access
from headgate.app.bulk import arrow
from headgate.app.bulk.ranges import BulkRange, Compression, missed_through
from headgate.app.http.dependencies import (
    access_of,
    gateway_of,
)
from headgate.app.http.operation import (
    ARROW,
)
from headgate.app.http.presence import while_valid
from headgate.app.http.streaming import PatientResponse
from headgate.app.transport.unsent import hold
from headgate.app.wire.filters import Selection
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import EntryId
from headgate.engine.replies import StreamInfo, gap_after
from headgate.engine.requests.entries import From, Range
from headgate.engine.requests.streams import DescribeStream


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

    Args:
        request: what is answered.
        stream: whose entries.
        bounds: the lowest and the highest id.
        cursor: begin after it, whatever the lowest id is.
        limit: entries at most; None: all of them.
        compression: of the batches.
        selection: what of the entries is sent.

    Raises:
        GatewayError: there is a filter, and a limit.
    """
    if selection.filter is not None and limit is not None:
        text = "with a filter all entries are looked at: leave it out"
        raise GatewayError("invalid_request", text, pointer="/query/limit")
    gateway, (low, high) = gateway_of(request), bounds
    threads = arrow.threads_of(request)
    await threads.load()
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
    """Return the first id of a range for a cursor."""
    if cursor is From.LAST:
        last = await access.perform(Range(info.name, reverse=True, limit=1))
        return last[0].id if last else info.last_id
    return (info.last_id if isinstance(cursor, From) else cursor).next()
