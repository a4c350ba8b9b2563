"""Routes: the URLs of streams as the protocol has them."""

from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote

from fastapi import APIRouter, Request, Response

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.durable_streams import protocol
from headgate.app.durable_streams.appending import Writing, write
from headgate.app.durable_streams.configuration import DurableStream, ForkOrigin, parse_lifetime
from headgate.app.durable_streams.content import BYTES, body_of, is_text, parse_type
from headgate.app.durable_streams.creating import Creation, create, delete, fork
from headgate.app.durable_streams.events import Events
from headgate.app.durable_streams.producers import (
    EPOCH,
    EXPECTED_SEQ,
    RECEIVED_SEQ,
    SEQ,
    parse_producer,
)
from headgate.app.durable_streams.protocol import (
    ROOT,
    answer,
    is_true,
    name_of,
    offset_of,
    parse_offset,
    parse_start,
    quoted,
    root_path,
    root_url,
)
from headgate.app.durable_streams.reading import (
    Seen,
    Tag,
    check_is_of,
    check_no_gap,
    is_unchanged,
    look,
    read,
    use,
)
from headgate.app.http.dependencies import AccessDep, LimitsDep, access_of, gateway_of
from headgate.app.http.operation import UncheckedOperation, WholeRequest
from headgate.app.http.streaming import EventStream, while_present
from headgate.app.live.subscription import StreamSubscription
from headgate.app.wire.problems import GatewayError, responses
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamNotFound
from headgate.engine.replies import StreamRead
from headgate.engine.requests.entries import From, StreamCursor

# Not in the document: a parameter of OpenAPI has no slashes, and the protocol has a document.
router = APIRouter(prefix=ROOT.rstrip("/"), route_class=UncheckedOperation, include_in_schema=False)

READ_BY_PAGES = [
    protocol.NEXT_OFFSET,
    protocol.UP_TO_DATE,
    protocol.CLOSED,
    protocol.CURSOR,
    protocol.TTL,
    protocol.EXPIRES_AT,
    protocol.ENCODING,
    EPOCH,
    SEQ,
    EXPECTED_SEQ,
    RECEIVED_SEQ,
]
"""Headers of answers that pages of other origins may read."""

_PATH = "/{path:path}"
_WAIT_MS = 20_000
"""A long poll waits so long."""

_SUB_OFFSET_DIGITS_MAX = 15


@router.put(
    _PATH,
    operation_id="putDurableStream",
    responses=responses("malformed", "stream_not_found", "stream_exists", "content_type_mismatch"),
)
@needs(Verb.APPEND)
@protocol.answers
async def put_stream(
    request: WholeRequest, access: AccessDep, limits: LimitsDep, path: str
) -> Response:
    """Make a stream, or a fork of one (5.1, 4.2)."""
    headers = request.headers
    ttl_s, expires_at = parse_lifetime(headers.get(protocol.TTL), headers.get(protocol.EXPIRES_AT))
    sent_type = headers.get("content-type")
    content_type = None if sent_type is None else parse_type(sent_type)
    origin = _origin(request)
    default = BYTES if origin is None else ""
    wanted = Creation(
        DurableStream(content_type or default, ttl_s, expires_at, origin),
        request.content,
        is_closed=is_true(headers.get(protocol.CLOSED)),
    )
    make = create if origin is None else fork
    made = await make(access, name_of(path), wanted, messages_max=limits.batch_entries_max)
    sent = {
        "Content-Type": made.configuration.content_type,
        protocol.NEXT_OFFSET: offset_of(made.end),
    }
    if made.is_closed:
        sent[protocol.CLOSED] = "true"
    if made.is_new:
        sent["Location"] = f"{root_url(request)}{quoted(path)}"
    return answer(201 if made.is_new else 200, sent)


def _origin(request: Request) -> ForkOrigin | None:
    source = request.headers.get("stream-forked-from")
    offset = request.headers.get("stream-fork-offset")
    sub = request.headers.get("stream-fork-sub-offset")
    if source is None:
        if offset is not None or sub is not None:
            text = "only allowed for a fork: give Stream-Forked-From"
            raise GatewayError("malformed", text, pointer="/header/Stream-Forked-From")
        return None
    is_number = sub is None or (sub.isascii() and sub.isdigit() and (sub == "0" or sub[0] != "0"))
    if not is_number or len(sub or "") > _SUB_OFFSET_DIGITS_MAX:
        text = "should be a whole number in plain decimal"
        raise GatewayError("malformed", text, pointer="/header/Stream-Fork-Sub-Offset")
    if int(sub or 0) and offset is None:
        text = "Stream-Fork-Sub-Offset requires Stream-Fork-Offset"
        raise GatewayError("malformed", text, pointer="/header/Stream-Fork-Offset")
    if offset == protocol.BEGINNING:
        offset = "0_0"
    if offset is not None:
        offset = offset_of(parse_offset(offset, pointer="/header/Stream-Fork-Offset"))
    roots = (root_path(request) + ROOT, ROOT)
    root = next((each for each in roots if source.startswith(each)), None)
    if root is None:
        raise StreamNotFound(source.encode())
    name = name_of(unquote(source.removeprefix(root)))
    return ForkOrigin(name.decode(), offset, int(sub or 0))


@router.post(
    _PATH,
    operation_id="postDurableStream",
    status_code=204,
    responses=responses(
        "malformed",
        "producer_fenced",
        "stream_not_found",
        "stream_closed",
        "content_type_mismatch",
        "out_of_sequence",
        "gone",
        "too_large",
    ),
)
@needs(Verb.APPEND, Verb.MANAGE)
@protocol.answers
async def post_stream(
    request: WholeRequest, access: AccessDep, limits: LimitsDep, path: str
) -> Response:
    """Append to a stream, and close it if that is asked for (5.2, 5.3)."""
    headers = request.headers
    content_type = headers.get("content-type")
    writing = Writing(
        parse_type(content_type) if content_type and request.content else None,
        request.content,
        headers.get("stream-seq"),
        parse_producer(headers),
        is_true(headers.get(protocol.CLOSED)),
        gateway_of(request).auth.now_ms(),
    )
    written = await write(access, name_of(path), writing, messages_max=limits.batch_entries_max)
    sent = {protocol.NEXT_OFFSET: offset_of(written.end)}
    if written.is_closed:
        sent[protocol.CLOSED] = "true"
    if written.place is not None:
        sent[EPOCH], sent[SEQ] = str(written.place.epoch), str(written.place.seq)
    is_news = written.place is not None and not written.is_repeat and bool(writing.body)
    return answer(200 if is_news else 204, sent)


@router.delete(
    _PATH,
    operation_id="deleteDurableStream",
    status_code=204,
    responses=responses("stream_not_found", "gone"),
)
@needs(Verb.MANAGE)
@protocol.answers
async def delete_stream(request: WholeRequest, access: AccessDep, path: str) -> Response:
    """Delete a stream (5.4)."""
    del request
    await delete(access, name_of(path))
    return answer(204, {})


@router.head(
    _PATH, operation_id="headDurableStream", responses=responses("stream_not_found", "gone")
)
@needs(Verb.READ, by_url=True)
@protocol.answers
async def head_stream(request: WholeRequest, access: AccessDep, path: str) -> Response:
    """Describe a stream (5.5)."""
    del request
    seen = await look(access, name_of(path))
    configuration = seen.configuration
    sent = {
        "Content-Type": configuration.content_type,
        "Cache-Control": "no-store",
        protocol.NEXT_OFFSET: offset_of(seen.info.last_id),
    }
    if seen.is_closed:
        sent[protocol.CLOSED] = "true"
    if configuration.ttl_s is not None:
        sent[protocol.TTL] = str(configuration.ttl_s)
    if configuration.expires_at is not None:
        sent[protocol.EXPIRES_AT] = configuration.expires_at
    return answer(200, sent)


@router.get(
    _PATH,
    operation_id="getDurableStream",
    responses=responses("malformed", "stream_not_found", "gone", "too_many_connections"),
)
@needs(Verb.READ, by_url=True)
@protocol.answers
async def get_stream(request: WholeRequest, access: AccessDep, path: str) -> Response:
    """Read a stream behind an offset, now or live (5.6 to 5.8)."""
    query = _query(request)
    stream, live = name_of(path), query.get("live")
    if live not in (None, "long-poll", "sse"):
        raise GatewayError("malformed", "should be long-poll or sse", pointer="/query/live")
    if live is not None and "offset" not in query:
        text = "a live read needs an offset"
        raise GatewayError("malformed", text, pointer="/query/offset")
    after = parse_start(query.get("offset", protocol.BEGINNING))
    seen = await look(access, stream)
    check_is_of(seen.info, after)
    if live == "sse":
        return await _events(request, seen, after)
    await use(access, stream, seen)
    if live == "long-poll":
        return await _long_poll(request, seen, after, query.get("cursor"))
    return await _catch_up(request, seen, after)


def _query(request: Request) -> dict[str, str]:
    text: bytes = request.scope["query_string"]
    query = dict[str, str]()
    for name, value in parse_qsl(text.decode("latin-1"), keep_blank_values=True):
        if name in ("offset", "live", "cursor"):
            if name in query:
                raise GatewayError("malformed", "given twice", pointer=f"/query/{name}")
            query[name] = value
    return query


async def _catch_up(request: Request, seen: Seen, after: EntryId | From) -> Response:
    access, info = access_of(request), seen.info
    if after is From.NOW:
        sent = _headers(request, seen, info.last_id, at_end=True, is_closed=seen.is_closed)
        body = body_of([], seen.configuration.content_type)
        return answer(200, {**sent, "Cache-Control": "no-store"}, body)
    assert isinstance(after, EntryId)
    if_none_match = request.headers.get("if-none-match")
    if if_none_match is not None:
        tag = is_unchanged(if_none_match, info, after)
        if tag is not None:
            return answer(304, {"ETag": tag, **_caching(request)})
    reply = await read(access, info.name, after)
    return _chunk(request, seen, reply)


async def _long_poll(
    request: Request, seen: Seen, after: EntryId | From, asked: str | None
) -> Response:
    gateway = gateway_of(request)
    wait_ms = min(_WAIT_MS, gateway.limits.wait_ms_max)
    reading = read(access_of(request), seen.info.name, after, wait_ms=wait_ms)
    reply = await while_present(request, reading)
    cursor = protocol.cursor_after(asked, gateway.auth.now_ms(), gateway.random)
    if reply.entries:
        response = _chunk(request, seen, reply)
        if after is From.NOW:  # another time it is another place
            response.headers["Cache-Control"] = "no-store"
        if protocol.CLOSED not in response.headers:
            response.headers[protocol.CURSOR] = cursor
        return response
    is_closed = reply.closed_at_ms is not None
    sent = _headers(request, seen, reply.next_after, at_end=True, is_closed=is_closed)
    sent["Cache-Control"] = "no-store"
    if not is_closed:
        sent[protocol.CURSOR] = cursor
    return answer(204, sent)


def _chunk(request: Request, seen: Seen, reply: StreamRead) -> Response:
    # What is at the end may be deleted: then nothing comes though the last id is above.
    at_end = reply.next_after >= reply.last_id or not reply.entries
    is_closed = reply.closed_at_ms is not None
    sent = _headers(request, seen, reply.next_after, at_end=at_end, is_closed=is_closed)
    if not reply.entries:
        sent["Cache-Control"] = "no-cache"  # or else a cache would hide what comes next
    info = seen.info
    at_ms = reply.closed_at_ms if is_closed or at_end else info.closed_at_ms
    now = info._replace(last_id=reply.last_id, closed_at_ms=at_ms)
    through = reply.last_id if at_end else reply.next_after
    sent["ETag"] = str(Tag.of(now, reply.after, through))
    return answer(200, sent, body_of(reply.entries, seen.configuration.content_type))


def _headers(
    request: Request, seen: Seen, at: EntryId, *, at_end: bool, is_closed: bool
) -> dict[str, str]:
    sent = {
        "Content-Type": seen.configuration.content_type,
        protocol.NEXT_OFFSET: offset_of(at),
        **_caching(request),
    }
    if at_end:
        sent[protocol.UP_TO_DATE] = "true"
    if is_closed:
        sent[protocol.CLOSED] = "true"
    return sent


def _caching(request: Request) -> Mapping[str, str]:
    """Return the headers for caches: answers are public only without credentials."""
    if gateway_of(request).auth.is_open:
        return _FOR_ALL
    return _FOR_ONE


_FOR_ALL = {"Cache-Control": "public, max-age=60, stale-while-revalidate=300"}
_FOR_ONE = {
    "Cache-Control": "private, max-age=60, stale-while-revalidate=300",
    "Vary": "Authorization, Cookie",
}


async def _events(request: Request, seen: Seen, after: EntryId | From) -> Response:
    gateway = gateway_of(request)
    access = gateway.connected(access_of(request))
    await use(access, seen.info.name, seen)
    limits = gateway.limits
    cursor = StreamCursor(seen.info.name, after)
    subscription = StreamSubscription(access, cursor, beat_ms=limits.heartbeat_ms)
    ready = await subscription.open()
    check_no_gap(ready.gap, after)
    response = EventStream(Events(gateway, request, access, subscription, seen).parts(), limits)
    response.headers["Content-Type"] = EventStream.media_type  # without a charset
    if not is_text(seen.configuration.content_type):
        response.headers[protocol.ENCODING] = "base64"
    return response
