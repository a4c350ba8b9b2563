"""Entries: append, read, delete."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from pydantic import BaseModel

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.bulk import arrow
from headgate.app.bulk.arrow_body import ArrowBounds
from headgate.app.bulk.batch import check_count, drafts_of
from headgate.app.bulk.ranges import BulkRange, Compression
from headgate.app.http.dependencies import (
    AccessDep,
    LimitsDep,
    StreamDep,
    access_of,
    check_at_most,
    gateway_of,
)
from headgate.app.http.json_arrays import (
    array_in_turns,
    json_answer,
    lines_in_turns,
    outcomes_answer,
)
from headgate.app.http.operation import (
    ARROW,
    BatchOperation,
    Operation,
    WholeRequest,
    media_type_of,
    plain_body,
    prompt,
)
from headgate.app.http.parameters import pure
from headgate.app.http.presence import while_present
from headgate.app.http.streaming import PatientResponse
from headgate.app.runtime.turns import Turn
from headgate.app.transport.request_ids import request_id_of
from headgate.app.transport.scopes import path_of
from headgate.app.transport.unsent import hold
from headgate.app.wire.encoding import entry_wire, gap_wire
from headgate.app.wire.ids import parse_after, parse_bound, parse_id, parse_ids
from headgate.app.wire.names import check_name, text_of
from headgate.app.wire.plain import plain_entry
from headgate.app.wire.problems import GatewayError, place_drafts, problem_of, responses
from headgate.app.wire.schemas.entries import Append, Appended, AppendedBatch, Entry
from headgate.app.wire.schemas.reads import Entries, Read, StreamsRead
from headgate.app.wire.schemas.removals import DeletedEntries, Deletions
from headgate.app.wire.schemas.values import REFERENCES
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, EntryId
from headgate.engine.entry import Entry as EngineEntry
from headgate.engine.errors import EntryNotFound, StreamError
from headgate.engine.replies import Added, Deletion, StreamInfo, StreamRead, gap_after
from headgate.engine.requests.entries import Add, Delete, From, Range, References, StreamCursor
from headgate.engine.requests.entries import Read as ReadRequest
from headgate.engine.requests.idempotency import Digest, Idempotent
from headgate.engine.requests.streams import DescribeStream

router = APIRouter(prefix="/v1", tags=["Entries"], route_class=Operation)
batches = APIRouter(prefix="/v1", tags=["Entries"], route_class=BatchOperation)

_JSON = "application/json"
_NDJSON = "application/x-ndjson"
_LIMIT = 100
_PAGE = 250
_PAGE_BYTES = 2**20


@pure
def expected_last_id(
    if_match: Annotated[
        str | None,
        Header(alias="If-Match", description="Append only if the stream's last id is this ETag."),
    ] = None,
) -> EntryId | None:
    """Return the last id the writer expects, if it expects one."""
    if if_match is None:
        return None
    return parse_id(if_match.strip().strip('"'), field="/header/If-Match")


class WriterKey(NamedTuple):
    """The idempotency key of a request, and the producer that uses it."""

    producer: bytes
    key: bytes

    async def of(self, drafts: Sequence[Draft], *, is_batch: bool) -> Idempotent:
        """Return the key with a digest of these drafts; many of them in turns.

        Raises:
            GatewayError: a draft says its id; a repeat could not be answered by counting.
        """
        turn, digest = Turn(), Digest()
        for index, draft in enumerate(drafts):
            if draft.id is not None:
                text = "with an Idempotency-Key the stream chooses the id: leave it out"
                pointer = f"/body/{index}/id" if is_batch else "/body/id"
                raise GatewayError("invalid_request", text, pointer=pointer)
            digest.add(draft.fields)
            if turn.is_over:
                await turn.pause()
        return Idempotent(self.producer, self.key, digest.value())


@pure
def writer_key(
    idempotency_key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            min_length=1,
            max_length=256,
            description="Names this append: sent again with the same key, it appends nothing and "
            "answers what the first one made. The stream's `idempotency_window_ms` and "
            "`idempotency_max` say for how long.",
        ),
    ] = None,
    idempotency_producer: Annotated[
        str | None,
        Header(
            alias="Idempotency-Producer",
            min_length=1,
            max_length=256,
            description="Whose key it is: each producer's keys are remembered for themselves.",
        ),
    ] = None,
) -> WriterKey | None:
    """Return the key of the append, if it has one."""
    if idempotency_key is None:
        if idempotency_producer is not None:
            text = "a producer without an Idempotency-Key protects nothing"
            raise GatewayError("invalid_request", text, pointer="/header/Idempotency-Producer")
        return None
    producer = idempotency_producer or ""  # nobody named: shared by all who name nobody
    return WriterKey(producer.encode("latin-1"), idempotency_key.encode("latin-1"))


def entry_id_path(
    id: Annotated[str, Path(description="Entry id.", examples=["1718000000000-0"])],  # noqa: A002
) -> EntryId:
    """Return the entry's id from the path."""
    return parse_id(id, field="/path/id")


EntryIdDep = Annotated[EntryId, Depends(entry_id_path)]
ExpectedDep = Annotated[EntryId | None, Depends(expected_last_id)]
WriterKeyDep = Annotated[WriterKey | None, Depends(writer_key)]

_REPLAYED = {
    "Idempotent-Replayed": {
        "description": "`true`: nothing was appended, this is what the key's first use made.",
        "schema": {"type": "string"},
    }
}
_APPEND_PROBLEMS = responses(
    "malformed",
    "invalid_id",
    "stream_not_found",
    "id_not_greater",
    "limit_reached",
    "last_id_mismatch",
    "too_large",
    "unsupported_media_type",
    "invalid_request",
    "idempotency_mismatch",
    "extra_missing",
    "unavailable",
    "memory_full",
)


def _append_answers(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    repeated = "The key was used before: what it made then."
    return {
        200: {"model": model, "description": repeated, "headers": _REPLAYED},
        **_APPEND_PROBLEMS,
    }


@router.post(
    "/streams/{stream}/entries",
    operation_id="appendEntry",
    status_code=201,
    responses=_append_answers(Appended),
)
@needs(Verb.APPEND)
@prompt
@plain_body(plain_entry)
async def append_entry(
    request: Request,
    access: AccessDep,
    stream: StreamDep,
    entry: Append,  # or what `plain_entry` makes of its body
    expected: ExpectedDep,
    key: WriterKeyDep,
    response: Response,
) -> Appended:
    """Append an entry (XADD, with a key XADD IDMP). The stream is created if it is not there."""
    trim = None if entry.trim is None else entry.trim.to_request("/body/trim")
    drafts = [entry.to_draft()]
    try:
        added = await access.perform(
            Add(
                stream,
                drafts,
                None if key is None else await key.of(drafts, is_batch=False),
                create_stream=entry.create_stream,
                expected_last_id=expected,
                trim=trim,
            )
        )
    except StreamError as error:
        place_drafts(error, lambda _: ())  # the body is the entry
        raise
    _tell_added(response, added)
    [entry_id] = added.ids
    text = str(entry_id)
    path: bytes = request.scope["raw_path"]
    response.raw_headers.append((b"location", b"%b/%b" % (path, text.encode())))
    return Appended(id=text)


@batches.post(
    "/streams/{stream}/entries/batch",
    operation_id="appendEntries",
    status_code=201,
    responses=_append_answers(AppendedBatch),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "array",
                        "minItems": 1,
                        "items": {"$ref": "#/components/schemas/EntryInput"},
                    }
                },
                _NDJSON: {"schema": {"type": "string", "description": "One EntryInput per line."}},
                ARROW: {"schema": {"type": "string", "format": "binary"}},
            },
        }
    },
)
@needs(Verb.APPEND)
@prompt
async def append_entries(
    request: WholeRequest,
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    expected: ExpectedDep,
    key: WriterKeyDep,
    response: Response,
    create_stream: Annotated[bool, Query(description="Create the stream if it is missing.")] = True,
) -> AppendedBatch:
    """Append entries, all or none (XADD × n): a JSON array, one entry per line of NDJSON, or Arrow.

    An Arrow IPC stream has a column `fields`, a map of utf8 or binary (or a list of structs of
    `name` and `value`), and may have `id` (utf8, null is `*`); its batches are not compressed.
    If any entry is wrong, nothing is appended and the problem points at its place in the batch.
    """
    body = request.content
    if media_type_of(request) == ARROW:
        bounds = ArrowBounds(limits.batch_entries_max, limits.body_bytes_max)
        drafts = (await arrow.threads_of(request).run(partial(arrow.decode, body, bounds))).drafts
        check_count(len(drafts), limits.batch_entries_max)
    else:
        is_lines = media_type_of(request) == _NDJSON
        drafts = await drafts_of(body, is_lines=is_lines, entries_max=limits.batch_entries_max)
    adding = access.perform(
        Add(
            stream,
            drafts,
            None if key is None else await key.of(drafts, is_batch=True),
            create_stream=create_stream,
            expected_last_id=expected,
        )
    )
    del drafts  # they are many, and not needed while this waits
    try:
        added = await adding
    except StreamError as error:
        place_drafts(error, lambda index: (index,))
        raise
    _tell_added(response, added)
    texts = [f"{ms}-{seq}" for ms, seq in added.ids]
    return AppendedBatch(count=len(texts), first_id=texts[0], last_id=texts[-1], ids=texts)


def _tell_added(response: Response, added: Added) -> None:
    if added.is_repeat:
        response.status_code = 200
        response.headers["Idempotent-Replayed"] = "true"


EntryRange = tuple[EntryId, EntryId, bool]
"""Lowest id, highest id, and whether to read downwards."""

_EVERYTHING: EntryRange = (MIN_ID, MAX_ID, False)


@pure
def range_query(
    start: Annotated[
        str | None, Query(description="From this id; `-`, or `(id` for after.")
    ] = None,
    end: Annotated[str | None, Query(description="To this id; `+`, or `(id` for before.")] = None,
    order: Annotated[Literal["asc", "desc"] | None, Query(description="Oldest first?")] = None,
) -> EntryRange | None:
    """Return the bounds of a range read and whether it goes down; None if none was asked for."""
    if start is None and end is None and order is None:
        return None
    low = parse_bound("-" if start is None else start, field="/query/start")
    high = parse_bound("+" if end is None else end, field="/query/end", is_end=True)
    return low, high, order == "desc"


RangeDep = Annotated[EntryRange | None, Depends(range_query)]

_BULK_HEADERS = {
    name: {"description": f"With Arrow: {text}", "schema": {"type": "string"}}
    for name, text in {
        "Headgate-Epoch": "identity of this life of the stream's name.",
        "Headgate-First-Id": "of the oldest entry; absent if there is none.",
        "Headgate-Last-Id": "the stream's last id.",
        "Headgate-Max-Deleted-Id": "the greatest id ever deleted; trims do not count.",
        "Headgate-Gap-To": "trimming took everything up to here, part of the range with it.",
    }.items()
}


@router.get(
    "/streams/{stream}/entries",
    operation_id="readEntries",
    response_model=Entries,
    response_model_exclude_unset=True,
    responses={
        200: {
            "content": {
                _NDJSON: {"schema": {"type": "string"}},
                ARROW: {"schema": {"type": "string", "format": "binary"}},
            },
            "description": "Entries.",
            "headers": _BULK_HEADERS,
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
    after: Annotated[
        str | None, Query(description="After this id; `$` from now on, `+` the last entry.")
    ] = None,
    limit: Annotated[
        int | None,
        Query(ge=1, description="Entries at most; 100 unless given, with Arrow all there are."),
    ] = None,
    wait_ms: Annotated[
        int, Query(ge=0, description="With `after`: how long to wait if there is nothing.")
    ] = 0,
    compression: Annotated[
        Compression | None, Query(description="With Arrow: of the batches; `none`.")
    ] = None,
) -> Response:
    """Read a range (XRANGE, XREVRANGE), or what comes after a cursor (XREAD), waiting if asked to.

    `next_after` is the cursor for the next read. A cursor older than the oldest entry is answered
    from the oldest, and `gap` tells what trimming took. With `Accept: application/x-ndjson` the
    entries are streamed, one per line, and `limit` may be as large as you like; if the stream goes
    meanwhile, the last line is a `Problem`. An answer may hold less than `limit` where entries are
    large: read on from `next_after`.

    With `Accept: application/vnd.apache.arrow.stream` the entries there are now are streamed as
    Arrow: `id` (utf8), `ms` and `seq` (int64; `seq` is null where it is larger, and `id` has it),
    `fields` (a map of binary). It goes upwards and does not wait. If entries of the range go before
    they are sent, the answer breaks off without an end.
    """
    check_at_most(wait_ms, limits.wait_ms_max, pointer="/query/wait_ms")
    wanted = _wanted(request)
    if wanted == ARROW:
        return await _arrow(request, stream, bounds, after, limit, wait_ms, compression)
    if compression is not None:
        text = f"only {ARROW} is compressed: ask for it in Accept"
        raise GatewayError("invalid_request", text, pointer="/query/compression")
    limit = _LIMIT if limit is None else limit
    if after is not None or wanted == _JSON:
        check_at_most(limit, limits.read_entries_max, pointer="/query/limit")
    if after is None:
        if wait_ms:
            text = "only a read after a cursor can wait: give after"
            raise GatewayError("invalid_request", text, pointer="/query/wait_ms")
        if wanted == _NDJSON:
            whole = bounds or _EVERYTHING
            first = await _page(access, stream, whole, min(limit, _PAGE))
            lines = _range_lines(request, stream, whole, limit, first)
            parts = _while_valid(request, lines)
            patience_ms = limits.send_ms_max
            return PatientResponse(parts, media_type=_NDJSON, patience_ms=patience_ms)
        return await _read_range(request, stream, bounds or _EVERYTHING, limit)
    _check_one_of(bounds, after)
    cursor = StreamCursor(stream, parse_after(after, field="/query/after"))
    size = limits.read_bytes_max
    reading = access.perform(
        ReadRequest([cursor], limit=limit, size_bytes_max=size, wait_ms=wait_ms)
    )
    [read] = await (while_present(request, reading) if wait_ms else reading)
    _count(request, len(read.entries))
    if wanted == _NDJSON:
        return Response(await lines_in_turns(read.entries, entry_wire), media_type=_NDJSON)
    return json_answer(await _wire_read(read))


def _check_one_of(bounds: EntryRange | None, after: str | None) -> None:
    if bounds is not None and after is not None:
        text = "a range has start and end, a cursor has after: give one of them"
        raise GatewayError("invalid_request", text, pointer="/query/after")


async def _arrow(
    request: Request,
    stream: bytes,
    bounds: EntryRange | None,
    after: str | None,
    limit: int | None,
    wait_ms: int,
    compression: Compression | None,
) -> Response:
    """Return a range as Arrow."""
    gateway = gateway_of(request)
    _check_one_of(bounds, after)
    low, high, is_down = bounds or _EVERYTHING
    if is_down:
        raise GatewayError("invalid_request", "Arrow goes upwards", pointer="/query/order")
    if wait_ms:
        text = "an Arrow answer does not wait: leave it out"
        raise GatewayError("invalid_request", text, pointer="/query/wait_ms")
    cursor = None if after is None else parse_after(after, field="/query/after")
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
    gap = gap_after(low.previous(), info.trimmed_through)
    if gap is not None:
        headers["Headgate-Gap-To"] = str(gap.through)
    held = partial(hold, request.receive)
    entries = BulkRange(access, info, low, high, limit, threads, held)
    parts = _while_valid(request, entries.batches(compression or "none", gateway.metrics))
    patience_ms = gateway.limits.send_ms_max
    return PatientResponse(parts, media_type=ARROW, patience_ms=patience_ms, headers=headers)


async def _while_valid(
    request: Request, parts: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """Yield the parts of a long answer, and let the credential end in time meanwhile."""
    with gateway_of(request).auth.watching(access_of(request).principal):
        async with aclosing(parts):
            async for part in parts:
                yield part


async def _first_after(access: Access, info: StreamInfo, cursor: EntryId | From) -> EntryId:
    """Return the first id of a range for a cursor."""
    if cursor is From.LAST:
        last = await access.perform(Range(info.name, reverse=True, limit=1))
        return last[0].id if last else info.last_id
    return (info.last_id if isinstance(cursor, From) else cursor).next()


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
    """Read several streams at once, each after its own cursor (XREAD), waiting if asked to.

    Each has its share of what one answer may hold: there may be more than what has come.
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
    reading = access.perform(
        ReadRequest(
            cursors,
            limit=min(read.limit, max(limits.read_entries_max // len(cursors), 1)),
            size_bytes_max=limits.read_bytes_max,
            wait_ms=read.wait_ms,
        )
    )
    reads = await (while_present(request, reading) if read.wait_ms else reading)
    _count(request, sum(len(stream_read.entries) for stream_read in reads))
    turn = Turn()
    wire = [
        await _wire_read(stream_read, turn) | {"stream": text_of(stream_read.stream)}
        for stream_read in reads
    ]
    return json_answer({"streams": wire})


@router.get(
    "/streams/{stream}/entries/{id}",
    operation_id="getEntry",
    response_model=Entry,
    responses=responses("invalid_id", "stream_not_found", "entry_not_found", "invalid_request"),
)
@needs(Verb.READ)
@prompt
async def get_entry(access: AccessDep, stream: StreamDep, entry_id: EntryIdDep) -> Response:
    """Read one entry (XRANGE)."""
    entries = await access.perform(Range(stream, entry_id, entry_id))
    if not entries:
        raise EntryNotFound(stream, entry_id)
    return json_answer(entry_wire(entries[0]))


@router.delete(
    "/streams/{stream}/entries/{id}",
    operation_id="deleteEntry",
    status_code=204,
    responses=responses(
        "invalid_id", "stream_not_found", "entry_not_found", "entry_referenced", "invalid_request"
    ),
)
@needs(Verb.MANAGE)
@prompt
async def delete_entry(
    access: AccessDep,
    stream: StreamDep,
    entry_id: EntryIdDep,
    references: Annotated[References, Query(description=REFERENCES)] = References.KEEP,
) -> None:
    """Delete one entry (XDELEX). Where it is pending it stays so, unless asked otherwise."""
    [outcome] = await access.perform(Delete(stream, [entry_id], references))
    if outcome is Deletion.REFERENCED:
        raise GatewayError("entry_referenced", f"a group still needs {entry_id}")
    if outcome is Deletion.NOT_FOUND:
        raise EntryNotFound(stream, entry_id)


@router.post(
    "/streams/{stream}/entries/delete",
    operation_id="deleteEntries",
    response_model=DeletedEntries,
    responses=responses(
        "malformed", "invalid_id", "stream_not_found", "unsupported_media_type", "invalid_request"
    ),
)
@needs(Verb.MANAGE)
async def delete_entries(
    access: AccessDep, limits: LimitsDep, stream: StreamDep, request: Deletions
) -> Response:
    """Delete entries (XDELEX), with the outcome of each.

    Where they are pending they stay so, unless `references` asks otherwise.
    """
    check_at_most(len(request.ids), limits.ids_max, pointer="/body/ids")
    ids = parse_ids(request.ids)
    return await outcomes_answer(ids, await access.perform(Delete(stream, ids, request.references)))


async def _read_range(request: Request, stream: bytes, bounds: EntryRange, limit: int) -> Response:
    gateway, access = gateway_of(request), access_of(request)
    info = await access.perform(DescribeStream(stream))
    entries = await _page(access, stream, bounds, limit, gateway.limits.read_bytes_max)
    _count(request, len(entries))
    has_next = bool(entries) and not bounds[2]
    page = {
        "entries": await array_in_turns(entries, entry_wire),
        "next_after": str(entries[-1].id) if has_next else None,
        "last_id": str(info.last_id),
        "gap": None,
    }
    return json_answer(page)


async def _wire_read(read: StreamRead, turn: Turn | None = None) -> dict[str, Any]:
    """Return the wire form of what one stream had, as `schemas.Entries` says."""
    return {
        "entries": await array_in_turns(read.entries, entry_wire, turn),
        "next_after": str(read.next_after),
        "last_id": str(read.last_id),
        "gap": None if read.gap is None else gap_wire(read.gap),
    }


async def _range_lines(
    request: Request, stream: bytes, bounds: EntryRange, limit: int, page: list[EngineEntry]
) -> AsyncGenerator[bytes, None]:
    """Yield a range a page at a time, so that its size does not matter to anybody else.

    If the stream goes meanwhile, the last line is the problem instead of an entry. `page` is the
    first one: it was read before the answer began, so that a missing stream is a 404.
    """
    access = access_of(request)
    low, high, is_down = bounds
    left = limit
    try:
        while page:
            yield await lines_in_turns(page, entry_wire)
            await asyncio.sleep(0)  # others come between, and one that is cancelled ends here
            _count(request, len(page))
            left -= len(page)
            if page[-1].id in (MIN_ID, MAX_ID):
                break
            if is_down:
                high = page[-1].id.previous()
            else:
                low = page[-1].id.next()
            if left <= 0 or low > high:
                break
            page = await _page(access, stream, (low, high, is_down), min(left, _PAGE))
    except (StreamError, GatewayError) as error:
        problem = problem_of(error, path_of(request.scope))
        problem.request_id = request_id_of(request.scope)
        yield problem.model_dump_json(exclude_none=True).encode() + b"\n"


async def _page(
    access: Access,
    stream: bytes,
    bounds: EntryRange,
    limit: int,
    size_bytes_max: int = _PAGE_BYTES,
) -> list[EngineEntry]:
    low, high, is_down = bounds
    return await access.perform(Range(stream, low, high, limit, size_bytes_max, is_down))


def _count(request: Request, entries: int) -> None:
    gateway_of(request).metrics.delivered_counts["rest"] += entries


def _wanted(request: Request) -> str:
    """Return the media type the client wants: of those that are streamed, the first it names.

    Raises:
        GatewayError: it asks for nothing this operation can answer with.
    """
    accepted = [
        part.partition(";")[0].strip() for part in request.headers.get("accept", "*/*").split(",")
    ]
    for media_type in accepted:
        if media_type in (_NDJSON, ARROW):
            return media_type
    if {"*/*", "application/*", _JSON, ""} & set(accepted):
        return _JSON
    text = f"this answers with {_JSON}, {_NDJSON} or {ARROW}"
    raise GatewayError("not_acceptable", text, pointer="/header/Accept")
