"""Appends: of an entry, of many, and of the last one of a stream."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.bulk import arrow
from headgate.app.bulk.arrow_body import ArrowBounds
from headgate.app.bulk.batch import check_count, drafts_of, event_body
from headgate.app.cloud_events.event import BATCH, STRUCTURED
from headgate.app.http.dependencies import AccessDep, LimitsDep, StreamDep
from headgate.app.http.idempotency import REPLAYED, WriterKey, WriterKeyDep
from headgate.app.http.operation import (
    ARROW,
    BatchOperation,
    EventOperation,
    Operation,
    WholeRequest,
    media_type_of,
    plain_body,
    prompt,
)
from headgate.app.wire.ids import EtagText, parse_etag
from headgate.app.wire.plain import plain_entry
from headgate.app.wire.problems import GatewayError, place_drafts, responses
from headgate.app.wire.schemas.entries import (
    CLOUD_EVENT,
    Append,
    Appended,
    AppendedBatch,
    Close,
    Closed,
)
from headgate.engine.entry import Draft, EntryId, Timing
from headgate.engine.errors import IdempotencyMismatch, Invalid, SchemaMismatch, StreamError
from headgate.engine.limits import COUNT_MAX
from headgate.engine.replies import Added
from headgate.engine.requests.entries import Add
from headgate.engine.requests.streams import CloseStream

router = APIRouter(prefix="/v1", tags=["Entries"], route_class=Operation)
batches = APIRouter(prefix="/v1", tags=["Entries"], route_class=BatchOperation)
events = APIRouter(prefix="/v1", tags=["Entries"], route_class=EventOperation)
closes = APIRouter(prefix="/v1", tags=["Streams"], route_class=Operation)

_NDJSON = "application/x-ndjson"


def expected_last_id(
    if_match: Annotated[
        EtagText | None,
        Header(
            alias="If-Match", description="Append only if this ETag is the last id of the stream."
        ),
    ] = None,
) -> EntryId | None:
    return None if if_match is None else parse_etag(if_match)


ExpectedDep = Annotated[EntryId | None, Depends(expected_last_id)]

_APPEND_PROBLEMS = responses(
    "malformed",
    "invalid_id",
    "stream_not_found",
    "id_not_greater",
    "stream_closed",
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


def _append_answers(model: Any) -> dict[int | str, dict[str, Any]]:
    repeated = "The key was used before. This is the result of its first use."
    return {200: {"model": model, "description": repeated, "headers": REPLAYED}, **_APPEND_PROBLEMS}


@router.post(
    "/streams/{stream}/entries",
    operation_id="appendEntry",
    status_code=201,
    responses=_append_answers(Appended),
    openapi_extra={
        "requestBody": {
            "content": {
                STRUCTURED: {"schema": {"$ref": CLOUD_EVENT}},
                # No list: some generators tell bodies apart by their classes.
                BATCH: {"schema": {"type": "string", "description": "An array of CloudEvent."}},
            }
        }
    },
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
    """Append an entry (XADD; with an idempotency key, XADD IDMP).

    The gateway creates the stream if it does not exist. The body can also be CloudEvents 1.0:

    - `application/cloudevents+json`: one event.
    - `application/cloudevents-batch+json`: several events. All of them are appended, or none.
    - Binary mode: one event. Its attributes are headers (`ce-specversion`, `ce-id` and so on), and
      the body is its data, of any media type.

    An attribute becomes the field `ce-` followed by its name. The content type becomes the field
    `content-type`, the data the field `data`. An event in JSON may have at most 1 MiB.

    Without an `Idempotency-Key`, `source` and `id` of the event are the key. An event that is sent
    again appends nothing. If its content differs, it is refused (`idempotency_mismatch`). A batch
    that is sent again appends nothing either; this also holds for each of its events sent alone.

    Events cannot contain `create_stream`, `delay_ms`, `deliver_at_ms`, `ttl_ms` and
    `expires_at_ms`. Give these as query parameters instead.
    """
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
    _tell_place(request, response, text)
    return Appended(id=text)


_TimeQuery = Annotated[int | None, Query(ge=0, le=COUNT_MAX)]


def timing_query(
    delay_ms: _TimeQuery = None,
    deliver_at_ms: _TimeQuery = None,
    ttl_ms: _TimeQuery = None,
    expires_at_ms: _TimeQuery = None,
) -> Timing | None:
    """Return the times of entries that are events, whose bodies cannot contain them."""
    return Timing(delay_ms, deliver_at_ms, ttl_ms, expires_at_ms).or_none()


@events.post(
    "/streams/{stream}/entries",
    operation_id="appendEvents",
    status_code=201,
    include_in_schema=False,  # the document has it as a part of appendEntry
)
@needs(Verb.APPEND)
@prompt
async def append_events(
    request: WholeRequest,
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    expected: ExpectedDep,
    key: WriterKeyDep,
    timing: Annotated[Timing | None, Depends(timing_query)],
    response: Response,
    create_stream: Annotated[bool, Query()] = True,
) -> Appended:
    """Append an event of CloudEvents, or a batch of them, all or none."""
    media_type = media_type_of(request)
    body = await event_body(
        request.scope["headers"],
        media_type,
        request.content,
        timing=timing,
        events_max=limits.batch_entries_max,
    )
    drafts = body.drafts
    wanted = Add(
        stream,
        drafts,
        await (key or WriterKey(*body.identity)).of(drafts, is_batch=body.is_batch),
        create_stream=create_stream,
        expected_last_id=expected,
    )
    try:
        added = await access.perform(wanted)
    except IdempotencyMismatch:
        if key is not None:
            raise
        text = "another event with this source and id was appended: give each event its own id"
        pointer = body.pointer_to_id
        raise GatewayError("idempotency_mismatch", text, pointer=pointer) from None
    except SchemaMismatch as error:
        place_drafts(error, lambda index: (index,) if body.is_batch else ())
        raise
    except Invalid as error:
        match error.location:
            case ("drafts", int(), str(name)) if name in Timing._fields:
                text = str(error)
                raise GatewayError("invalid_request", text, pointer=f"/query/{name}") from None
        raise
    _tell_added(response, added)
    texts = [str(entry_id) for entry_id in added.ids]
    if body.is_batch:
        return Appended(id=texts[-1], ids=texts)
    _tell_place(request, response, texts[0])
    return Appended(id=texts[0])


@closes.post(
    "/streams/{stream}/close",
    operation_id="closeStream",
    responses={200: {"headers": REPLAYED}, **_APPEND_PROBLEMS},
)
@needs(Verb.MANAGE)
async def close_stream(
    access: AccessDep,
    stream: StreamDep,
    expected: ExpectedDep,
    key: WriterKeyDep,
    response: Response,
    entry: Close | None = None,
) -> Closed:
    """Close a stream permanently. With a body, append a last entry in the same step.

    Every later append is refused with `stream_closed`. Reads, acknowledgements, trims and deletes
    still work. A follower receives the remaining entries, then `closed`, and its subscription ends.
    The same happens to a consumer of a group once the group has settled all entries. A closed
    stream cannot be reopened. If you delete it, the next append creates a new stream.

    Closing a stream again without a body changes nothing and returns the same answer. So does
    repeating a request with the same `Idempotency-Key`. `If-Match` requires that the stream is
    still open. A body also requires the right `append`.
    """
    drafts = [] if entry is None else [entry.to_draft()]
    try:
        end = await access.perform(
            CloseStream(
                stream,
                drafts,
                await key.of(drafts, is_batch=False) if key is not None and drafts else None,
                create_stream=entry is None or entry.create_stream,
                expected_last_id=expected,
            )
        )
    except StreamError as error:
        place_drafts(error, lambda _: ())  # the body is the entry
        raise
    if end.is_repeat:
        response.headers["Idempotent-Replayed"] = "true"
    return Closed(ids=list(map(str, end.ids)), epoch=end.epoch, closed_at_ms=end.closed_at_ms)


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
    create_stream: Annotated[
        bool, Query(description="Create the stream if it does not exist.")
    ] = True,
) -> AppendedBatch:
    """Append entries, all or none (XADD × n), as a JSON array, NDJSON or Arrow.

    NDJSON has one entry per line. An Arrow IPC stream has a column `fields`: a map of utf8 or
    binary, or a list of structs with `name` and `value`. It may also have `id` (utf8; null is `*`),
    and `delay_ms`, `deliver_at_ms`, `ttl_ms` and `expires_at_ms` (int64; null is none). Its batches
    must not be compressed.

    At most 2,500 entries of a batch may have a delay or a deadline. If an entry is invalid, nothing
    is appended, and the problem points at its place in the batch.
    """
    body, digest = request.content, b""
    drafts: Sequence[Draft]
    if media_type_of(request) == ARROW:
        bounds = ArrowBounds(limits.batch_entries_max, limits.body_bytes_max)
        decode = partial(arrow.decode_append, body, bounds, has_key=key is not None)
        drafts, _, digest = await arrow.threads_of(request).call_if_awaited(decode)
        check_count(len(drafts), limits.batch_entries_max)
    else:
        is_lines = media_type_of(request) == _NDJSON
        drafts = await drafts_of(body, is_lines=is_lines, entries_max=limits.batch_entries_max)
    adding = access.perform(
        Add(
            stream,
            drafts,
            None if key is None else await key.of(drafts, is_batch=True, digest=digest),
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


def _tell_place(request: Request, response: Response, entry_id: str) -> None:
    path: bytes = request.scope["raw_path"]
    response.raw_headers.append((b"location", b"%b/%b" % (path, entry_id.encode())))
