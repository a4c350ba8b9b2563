"""Reads: of a range, after a cursor, of several streams."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from msgspec.structs import replace

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.bulk.pages import EntryRange, Pages, arrow_answer
from headgate.app.bulk.ranges import Compression
from headgate.app.cloud_events.event import BATCH, event_of
from headgate.app.cloud_events.formats import batch_in_turns
from headgate.app.http.answers import array_in_turns, json_answer, lines_in_turns
from headgate.app.http.dependencies import (
    AccessDep,
    LimitsDep,
    StreamDep,
    access_of,
    check_at_most,
    gateway_of,
    limits_of,
)
from headgate.app.http.operation import ARROW, Operation, prompt
from headgate.app.http.streaming import PatientResponse, while_present, while_valid
from headgate.app.transport.scopes import path_of, request_id_of
from headgate.app.wire.encoding import add_times, entry_wire, gap_wire, unbroken
from headgate.app.wire.filters import Selection, filter_text, narrowed
from headgate.app.wire.ids import AfterText, BoundText, parse_after, parse_bound
from headgate.app.wire.names import check_name, text_of
from headgate.app.wire.problems import GatewayError, problem_of, responses
from headgate.app.wire.schemas.entries import CLOUD_EVENT, Entries, Read, StreamEntries, StreamsRead
from headgate.app.wire.schemas.entries import Entry as WireEntry
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId, EntryTimes
from headgate.engine.entry import Entry as EngineEntry
from headgate.engine.errors import StreamError
from headgate.engine.replies import StreamInfo, StreamRead
from headgate.engine.requests.entries import From, StreamCursor
from headgate.engine.requests.entries import Read as ReadRequest
from headgate.engine.requests.streams import DescribeStream

router = APIRouter(prefix="/v1", tags=["Entries"], route_class=Operation)

_JSON = "application/json"
_NDJSON = "application/x-ndjson"
_LIMIT = 100
_PAGE = 250
_PAGE_BYTES = 2**20

_WHOLE = Selection.parse(None, None)
_EVERYTHING: EntryRange = (MIN_ID, MAX_ID, False)


def range_query(
    start: Annotated[
        BoundText | None,
        Query(
            description="From this id, inclusive; `-` for the first entry, or `(id` to exclude "
            "the id."
        ),
    ] = None,
    end: Annotated[
        BoundText | None,
        Query(
            description="Up to this id, inclusive; `+` for the last entry, or `(id` to exclude "
            "the id."
        ),
    ] = None,
    order: Annotated[
        Literal["asc", "desc"] | None,
        Query(description="Whether the oldest or the newest entry comes first."),
    ] = None,
) -> EntryRange | None:
    """Return the bounds of a range read and whether it is descending; None without a range."""
    if start is None and end is None and order is None:
        return None
    low = parse_bound("-" if start is None else start, field="/query/start")
    high = parse_bound("+" if end is None else end, field="/query/end", is_end=True)
    return low, high, order == "desc"


RangeDep = Annotated[EntryRange | None, Depends(range_query)]


def selection_query(
    columns: Annotated[
        str | None,
        Query(
            description="Fields to send, as `a,b` or as a JSON list of names. Default: all fields."
        ),
    ] = None,
    filter: Annotated[  # noqa: A002
        str | None, Query(description="A filter as JSON. Only matching entries are sent.")
    ] = None,
    archived: Annotated[
        bool, Query(description="Whether to read entries of the archive, too.")
    ] = True,
) -> Selection:
    return Selection.parse(filter, columns)._replace(archived=archived)


SelectionDep = Annotated[Selection, Depends(selection_query)]

_HEADERS = {
    f"Headgate-{name}": {"description": text, "schema": {"type": "string"}}
    for name, text in {
        "Epoch": "With Arrow: identifies the stream. A stream that is deleted and created again "
        "has another epoch.",
        "First-Id": "With Arrow: id of the oldest entry; absent if there is none.",
        "Last-Id": "With Arrow and CloudEvents: last id of the stream.",
        "Max-Deleted-Id": "With Arrow: greatest id that was ever deleted, not counting trims.",
        "Gap-To": "With Arrow and CloudEvents: entries up to this id were trimmed, including part "
        "of the range.",
        "Archived": "Except in JSON: `true` if the first entries come from the archive.",
        "Next-After": "With CloudEvents, and with NDJSON and `after`: cursor for the next read.",
        "Next-Before": "With CloudEvents: `next_before` of the JSON answer.",
        "Closed-At-Ms": "With CloudEvents: `closed_at_ms` of the JSON answer.",
    }.items()
}


@router.get(
    "/streams/{stream}/entries",
    operation_id="readEntries",
    response_model=Entries,
    responses={
        200: {
            "content": {
                _NDJSON: {"schema": {"type": "string"}},
                ARROW: {"schema": {"type": "string", "format": "binary"}},
                BATCH: {"schema": {"type": "array", "items": {"$ref": CLOUD_EVENT}}},
            },
            "description": "Entries.",
            "headers": _HEADERS,
        },
        **responses(
            "invalid_id",
            "stream_not_found",
            "not_acceptable",
            "invalid_request",
            "too_many_waiters",
            "extra_missing",
        ),
    },
)
@needs(Verb.READ)
@prompt
async def read_entries(
    request: Request,
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    bounds: RangeDep,
    selection: SelectionDep,
    after: Annotated[
        AfterText | None,
        Query(description="Start after this id; `$` for new entries only, `+` for the last entry."),
    ] = None,
    limit: Annotated[
        int | None,
        Query(
            ge=1, description="Maximum number of entries. Default: 100; with Arrow, all entries."
        ),
    ] = None,
    wait_ms: Annotated[
        int, Query(ge=0, description="With `after`: how long to wait if there are no entries.")
    ] = 0,
    compression: Annotated[
        Compression | None, Query(description="With Arrow: compression of the batches; `none`.")
    ] = None,
) -> Response:
    """Read a range of entries (XRANGE, XREVRANGE), or the entries after a cursor (XREAD).

    With `after` and `wait_ms`, the read waits if there are no entries. `next_after` is the cursor
    for the next read. If a cursor is older than the oldest entry, the read starts at the oldest
    entry, and `gap` says what was trimmed. If entries are large, an answer may have fewer than
    `limit`: continue from `next_after`. At the end of a closed stream, a read after a cursor does
    not wait, and `closed_at_ms` says why.

    The header `Accept` selects another format:

    - `application/x-ndjson` streams the entries, one per line. `limit` may be as large as you like.
      If the stream is deleted meanwhile, the last line is a `Problem`.
    - `application/vnd.apache.arrow.stream` streams the current entries as Arrow: `id` (utf8), `ms`
      and `seq` (int64; `seq` is null if it is too large, and `id` has it) and `fields` (a map of
      binary). The order is always ascending, and the read does not wait. If entries of the range
      are removed before they are sent, the answer breaks off without an end.
    - `application/cloudevents-batch+json` returns a batch of CloudEvents. Headers have the other
      parts of the JSON answer. The extension `headgateid` is the id of the entry. An entry that is
      not an event becomes an event of the type `headgate.entry`: its source is the path of the
      stream, its id and time are those of the entry, and its data are the fields. If the fields are
      not all text, or names repeat, the type is `headgate.entry.raw`, and the data are `fields`,
      `base64` and so on, as in JSON.

    A `filter` is an object with one of `exact`, `prefix`, `suffix` (`{"exact": {"sku": "42"}}`),
    `present` (`["sku"]`), `range` (`{"price": {"ge": 1, "lt": 2.5}}`), `all`, `any` (lists of
    filters) and `not`; or a list of filters that must all match. If a field repeats, its last value
    counts.

    With a filter, `limit` counts the entries that are sent. A JSON answer examines some thousand
    entries and may be empty. Continue while `next_after` of a range (`next_before` if descending)
    is not null, or while `next_after` of a read after a cursor is not `last_id`. A read that waits
    continues until an entry matches, entries are missed, or the time is over. An Arrow batch
    without rows says that the gateway is still searching.

    If a stream has the setting `archive`, trimmed entries stay in its archive. A range, or a read
    after a cursor, starts in the archive if it reaches below the entries of the stream, and
    continues in the stream without a gap. `archived` is then true (with NDJSON and Arrow, the
    header `Headgate-Archived`). `gap` says only what is in no archive. An answer may end where the
    archive ends: continue from `next_after`. Archived entries have no times and are not part of the
    stream: groups, events, WebSockets, bulk reads and Redis commands do not see them.
    """
    check_at_most(wait_ms, limits.wait_ms_max, pointer="/query/wait_ms")
    wanted = _wanted(request)
    if wanted == ARROW:
        low_and_high, cursor_id = _arrow_range(bounds, after, wait_ms)
        return await arrow_answer(
            request, stream, low_and_high, cursor_id, limit, compression, selection
        )
    _check_choices(wanted, compression, selection)
    limit = _LIMIT if limit is None else limit
    if after is not None or wanted != _NDJSON:
        check_at_most(limit, limits.read_entries_max, pointer="/query/limit")
    if after is None:
        _check_no_wait(wait_ms)
        pages = Pages(access, stream, bounds or _EVERYTHING, selection, with_times=True)
        if wanted == _NDJSON:
            return await _stream_range(request, pages, limit)
        return await _read_range(request, pages, limit, wanted)
    _check_one_of(bounds, after)
    asked = ReadRequest(
        [StreamCursor(stream, parse_after(after, field="/query/after"))],
        limit=limit,
        size_bytes_max=limits.read_bytes_max,
        wait_ms=wait_ms,
        filters=selection.text,
        archived=selection.archived,
    )
    [read] = await _placed_reads(request, access, asked)
    _count(request, len(read.entries))
    if wanted == BATCH:
        return _event_answer(_page_of(read, await _events(stream, read.entries)))
    wire = _wire_of(selection, read.times)
    if wanted == _JSON:
        return json_answer(_page_of(read, await array_in_turns(read.entries, wire)))
    headers = {"Headgate-Next-After": str(read.next_after)}
    headers |= _archived_header(is_archived=read.archived)
    return Response(await lines_in_turns(read.entries, wire), media_type=_NDJSON, headers=headers)


async def _placed_reads(request: Request, access: Access, asked: ReadRequest) -> list[StreamRead]:
    """Read; wait if that was asked for and there is nothing to report yet."""
    reads = await access.perform(replace(asked, wait_ms=0))
    is_above = any(each.after > each.last_id for each in reads)
    if not asked.wait_ms or asked.is_answered_by(reads) or is_above:
        return [each.placed() for each in reads]
    # Behind the same id, so that nothing that comes meanwhile is missed.
    cursors = [
        StreamCursor(each.stream, each.after) if cursor.after is From.NOW else cursor
        for each, cursor in zip(reads, asked.cursors, strict=True)
    ]
    return await while_present(request, access.perform(replace(asked, cursors=cursors)))


def _check_choices(wanted: str, compression: Compression | None, selection: Selection) -> None:
    """Raise GatewayError for parameters that this form of the answer does not support."""
    if compression is not None:
        text = f"only allowed with Accept: {ARROW}"
        raise GatewayError("invalid_request", text, pointer="/query/compression")
    if wanted == BATCH and selection.columns is not None:
        text = "not allowed with CloudEvents: an event has all its fields"
        raise GatewayError("invalid_request", text, pointer="/query/columns")


async def _stream_range(request: Request, pages: Pages, limit: int) -> Response:
    gateway = gateway_of(request)
    info = await access_of(request).perform(DescribeStream(pages.stream))
    first = await pages.next_page(min(limit, _PAGE), _PAGE_BYTES)
    parts = while_valid(request, _range_lines(request, pages, limit, first))
    headers = _archived_header(is_archived=_begins_archived(info, first))
    patience_ms = gateway.limits.send_ms_max
    return PatientResponse(parts, media_type=_NDJSON, patience_ms=patience_ms, headers=headers)


def _archived_header(*, is_archived: bool) -> dict[str, str]:
    return {"Headgate-Archived": "true"} if is_archived else {}


def _begins_archived(info: StreamInfo, entries: Sequence[EngineEntry]) -> bool:
    first_id = info.first_id if info.length else info.last_id.next()
    return bool(entries) and min(entries[0].id, entries[-1].id) < first_id


def _check_no_wait(wait_ms: int) -> None:
    if wait_ms:
        text = "only a read after a cursor can wait: give after"
        raise GatewayError("invalid_request", text, pointer="/query/wait_ms")


def _wire_of(
    selection: Selection, times: Mapping[EntryId, EntryTimes]
) -> Callable[[EngineEntry], WireEntry]:
    if selection.columns is None and not times:
        return entry_wire
    names = None if selection.columns is None else frozenset(selection.columns)

    def wire(entry: EngineEntry) -> WireEntry:
        wanted = entry_wire(entry if names is None else narrowed(entry, names))
        add_times(wanted, times.get(entry.id))
        return wanted

    return wire


def _arrow_range(
    bounds: EntryRange | None, after: str | None, wait_ms: int
) -> tuple[tuple[EntryId, EntryId], EntryId | From | None]:
    """Return the lowest and the highest id of an Arrow read, and the cursor, if any."""
    _check_one_of(bounds, after)
    low, high, is_down = bounds or _EVERYTHING
    if is_down:
        raise GatewayError(
            "invalid_request", "an Arrow answer is always ascending", pointer="/query/order"
        )
    if wait_ms:
        text = "not allowed with Arrow: the answer does not wait"
        raise GatewayError("invalid_request", text, pointer="/query/wait_ms")
    return (low, high), None if after is None else parse_after(after, field="/query/after")


def _check_one_of(bounds: EntryRange | None, after: str | None) -> None:
    if bounds is not None and after is not None:
        text = "give either start and end, or after"
        raise GatewayError("invalid_request", text, pointer="/query/after")


@router.post(
    "/read",
    operation_id="readStreams",
    response_model=StreamsRead,
    responses=responses(
        "malformed",
        "invalid_id",
        "stream_not_found",
        "unsupported_media_type",
        "invalid_request",
        "too_many_waiters",
    ),
)
@needs(Verb.READ)
async def read_streams(
    request: Request, access: AccessDep, limits: LimitsDep, read: Read
) -> Response:
    """Read several streams at once, each after its own cursor (XREAD).

    With `wait_ms`, the read waits if there are no entries, unless all streams are closed and read
    to their ends. The streams share the maximum size of an answer, so there may be more entries
    than the answer has.
    """
    check_at_most(read.wait_ms, limits.wait_ms_max, pointer="/body/wait_ms")
    check_at_most(read.limit, limits.read_entries_max, pointer="/body/limit")
    cursors = [
        StreamCursor(
            check_name(cursor.stream, pointer=f"/body/streams/{index}/stream"),
            parse_after(cursor.after, field=f"/body/streams/{index}/after"),
        )
        for index, cursor in enumerate(read.streams)
    ]
    asked = ReadRequest(
        cursors,
        limit=min(read.limit, max(limits.read_entries_max // len(cursors), 1)),
        size_bytes_max=limits.read_bytes_max,
        wait_ms=read.wait_ms,
        filters=filter_text(read.filter, pointer="/body/filter"),
    )
    reads = await _placed_reads(request, access, asked)
    _count(request, sum(len(stream_read.entries) for stream_read in reads))
    streams: list[StreamEntries] = [
        {
            **_page_of(
                stream_read,
                await array_in_turns(stream_read.entries, _wire_of(_WHOLE, stream_read.times)),
            ),
            "stream": text_of(stream_read.stream),
        }
        for stream_read in reads
    ]
    answer: StreamsRead = {"streams": streams}
    return json_answer(answer)


async def _read_range(request: Request, pages: Pages, limit: int, wanted: str) -> Response:
    info = await access_of(request).perform(DescribeStream(pages.stream))
    entries = await pages.next_page(limit, limits_of(request).read_bytes_max)
    _count(request, len(entries))
    position = None if pages.position is None else str(pages.position)
    page: Entries = {
        "entries": [],
        "next_after": None if pages.is_down else position,
        "last_id": str(info.last_id),
        "gap": None,
    }
    if pages.is_down:
        page["next_before"] = position
    if _begins_archived(info, entries):
        page["archived"] = True
    if wanted == BATCH:
        page["entries"] = await _events(pages.stream, entries)
        return _event_answer(page)
    page["entries"] = await array_in_turns(entries, _wire_of(pages.selection, pages.times))
    return json_answer(page)


async def _events(stream: bytes, entries: Sequence[EngineEntry]) -> Any:
    return await batch_in_turns(map(partial(event_of, text_of(stream)), entries))


def _event_answer(page: Entries) -> Response:
    gap = page["gap"]
    parts = {
        "Next-After": page["next_after"],
        "Next-Before": page.get("next_before"),
        "Last-Id": page["last_id"],
        "Gap-To": None if gap is None else gap["to"],
        "Closed-At-Ms": page.get("closed_at_ms"),
    }
    headers = {f"Headgate-{name}": str(part) for name, part in parts.items() if part is not None}
    headers |= _archived_header(is_archived=page.get("archived", False))
    return Response(page["entries"], media_type=BATCH, headers=headers)


def _page_of(read: StreamRead, entries: Any) -> Entries:
    answer: Entries = {
        "entries": entries,
        "next_after": str(read.next_after),
        "last_id": str(read.last_id),
        "gap": gap_wire(read.gap),
        "closed_at_ms": read.closed_at_ms,
    }
    if read.archived:
        answer["archived"] = True
    return answer


async def _range_lines(
    request: Request, pages: Pages, limit: int, page: list[EngineEntry]
) -> AsyncGenerator[bytes, None]:
    """Yield a range page by page, so that its size does not affect other requests.

    If the stream is deleted meanwhile, the last line is the problem. `page` is the first one: it
    was read before the answer began, so that a missing stream is a 404.
    """
    left = limit
    try:
        while True:
            if page:
                yield await lines_in_turns(page, _wire_of(pages.selection, pages.times))
            await asyncio.sleep(0)  # others come between, and one that is cancelled ends here
            _count(request, len(page))
            left -= len(page)
            if left <= 0 or pages.is_over:
                break
            page = await pages.next_page(min(left, _PAGE), _PAGE_BYTES)
    except (StreamError, GatewayError) as error:
        problem = problem_of(error, path_of(request.scope))
        problem.request_id = request_id_of(request.scope)
        yield unbroken(problem.model_dump_json(exclude_none=True).encode()) + b"\n"


def _count(request: Request, entries: int) -> None:
    gateway_of(request).metrics.delivered_counts["rest"] += entries


def _wanted(request: Request) -> str:
    """Return the accepted media type: of those that are streamed, the first that is named."""
    accepted = [
        part.partition(";")[0].strip() for part in request.headers.get("accept", "*/*").split(",")
    ]
    for media_type in accepted:
        if media_type in (_NDJSON, ARROW, BATCH):
            return media_type
    if {"*/*", "application/*", _JSON, ""} & set(accepted):
        return _JSON
    text = f"this operation answers with {_JSON}, {_NDJSON}, {ARROW} or {BATCH}"
    raise GatewayError("not_acceptable", text, pointer="/header/Accept")
