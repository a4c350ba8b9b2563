"""Events: streams and groups as Server-Sent Events, for `EventSource` and `curl -N`."""

from collections.abc import AsyncGenerator
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.sse import format_sse_event
from pydantic import BaseModel, Field

from app.dependencies import (
    BackendDep,
    Gateway,
    GroupDep,
    LimitsDep,
    OptionalConsumerDep,
    StreamDep,
    check_at_most,
    gateway_of,
)
from app.follow import RELEASED_ONLY, follow_group, follow_stream
from app.ids import parse_after
from app.operation import Operation, path_of
from app.problems import problem_of, responses
from app.schemas import Delivery, Entry, Gap, IdText, Limits, deliveries_of
from app.streaming import PatientResponse
from app.subscriber import Subscriber
from engine.decisions.deliveries import GroupCursor, GroupRequest
from engine.entry import EntryId
from engine.errors import StreamError
from engine.limits import COUNT_MAX
from engine.replies import GroupState
from engine.views import From, PendingRequest, StreamCursor

router = APIRouter(prefix="/v1/streams/{stream}", tags=["Events"], route_class=Operation)

_HEARTBEAT = b": heartbeat\n\n"
_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
_RETRY_MS = 1000
_EVENT_STREAM: dict[int | str, dict[str, object]] = {
    200: {
        "description": "Events, without end.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


class Ready(BaseModel):
    """The first event: where reading begins."""

    position: IdText
    resumed: bool = Field(description="Whether an earlier connection is continued.")
    gap: Gap | None = None
    consumer: str | None = None


class CaughtUp(BaseModel):
    """All there was has been sent; what follows is new."""

    at: IdText


class EventStream(PatientResponse):
    """A response of events."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None], limits: Limits) -> None:
        """Send `events` until they or the client end."""
        super().__init__(
            events,
            media_type=self.media_type,
            patience_ms=limits.send_ms_max,
            headers=_HEADERS,
        )


async def last_event_id(
    after: Annotated[
        str | None, Query(description="After this id; `$` from now on (the default).")
    ] = None,
    last_event_id: Annotated[
        str | None, Query(description="As the header `Last-Event-ID`.")
    ] = None,
    lastEventId: Annotated[str | None, Query(description="The same.")] = None,  # noqa: N803
    header: Annotated[
        str | None,
        Header(alias="Last-Event-ID", description="Sent by a browser that connects again."),
    ] = None,
) -> tuple[EntryId | From, bool]:
    """Return the cursor, and whether it continues an earlier connection."""
    places = {
        "/header/Last-Event-ID": header,
        "/query/last_event_id": last_event_id,
        "/query/lastEventId": lastEventId,
    }
    for place, text in places.items():
        if text:
            return parse_after(text, field=place), True
    return parse_after("$" if after is None else after, field="/query/after"), False


@router.get(
    "/events",
    operation_id="streamEvents",
    response_class=EventStream,
    status_code=200,
    responses=_EVENT_STREAM | responses("invalid_id", "stream_not_found", "invalid_request"),
)
async def stream_events(
    request: Request,
    backend: BackendDep,
    stream: StreamDep,
    cursor: Annotated[tuple[EntryId | From, bool], Depends(last_event_id)],
) -> EventStream:
    """Send a stream as events (XREAD BLOCK): what comes after the cursor, then what is new.

    Events: `ready {position, resumed, gap}` · `entry` (its id line is the entry's id) ·
    `caught_up {at}` · `problem {…}`. A comment every 15 s keeps the connection open.
    """
    after, resumed = cursor
    await backend.stream_info(stream)
    start = StreamCursor(stream, after)
    gateway = gateway_of(request)
    return EventStream(
        _stream_events(gateway, path_of(request.scope), start, resumed=resumed), gateway.limits
    )


@router.get(
    "/groups/{group}/events",
    operation_id="groupEvents",
    response_class=EventStream,
    status_code=200,
    responses=_EVENT_STREAM
    | responses(
        "malformed", "consumer_conflict", "stream_not_found", "group_not_found", "invalid_request"
    ),
)
async def group_events(
    request: Request,
    backend: BackendDep,
    limits: LimitsDep,
    stream: StreamDep,
    group: GroupDep,
    consumer: OptionalConsumerDep,
    credit: Annotated[int, Query(ge=1, description="So many unacknowledged entries at most.")] = 16,
    claim_idle_ms: Annotated[
        int | None,
        Query(ge=0, le=COUNT_MAX, description="Also take entries pending and idle for so long."),
    ] = None,
    on_disconnect: Annotated[
        Literal["release", "keep"],
        Query(description="What becomes of unacknowledged entries when the connection ends."),
    ] = "release",
    ack: Annotated[
        Literal["explicit"], Query(description="Entries are acknowledged by POST.")
    ] = "explicit",
    last_event_id: Annotated[
        str | None,
        Header(alias="Last-Event-ID", description="Ignored: the group knows its position."),
    ] = None,
) -> EventStream:
    """Read as a consumer of a group, as events (XREADGROUP BLOCK).

    First come the consumer's own pending entries, then those given back or idle, then new ones; at
    most `credit` unacknowledged ones at a time. Acknowledge by POST to `…/ack`, under the name that
    `ready` tells. Without a name the gateway makes one and removes it when the connection ends.

    Events: `ready {position, resumed, consumer}` · `entry` · `caught_up {at}` · `problem {…}`.
    """
    del ack, last_event_id
    check_at_most(credit, limits.credit_max, pointer="/query/credit")
    await backend.group(stream, group)
    gateway = gateway_of(request)
    subscriber = Subscriber.named_or_new(
        stream,
        group,
        consumer,
        releases=on_disconnect == "release",
        random=gateway.random,
    )
    claim_idle_ms = RELEASED_ONLY if claim_idle_ms is None else claim_idle_ms
    return EventStream(
        _group_events(gateway, path_of(request.scope), subscriber, credit, claim_idle_ms), limits
    )


async def _stream_events(
    gateway: Gateway, path: str, cursor: StreamCursor, *, resumed: bool
) -> AsyncGenerator[bytes, None]:
    beat_ms = gateway.limits.heartbeat_ms
    is_first, caught_up = True, False
    batches = follow_stream(gateway.backend, cursor, credit=None, beat_ms=beat_ms)
    with gateway.metrics.connections.labels("sse").track_inprogress():
        try:
            async for read in batches:
                if is_first or read.gap is not None:
                    gap = Gap.of(read.gap)
                    ready = Ready(position=str(read.after), resumed=resumed, gap=gap)
                    yield _event("ready", ready, retry_ms=_jittered(gateway))
                if read.entries:
                    gateway.metrics.delivered.labels("sse").inc(len(read.entries))
                    yield b"".join(_event("entry", Entry.of(one)) for one in read.entries)
                at_end = not read.entries or read.next_after >= read.last_id
                if at_end and not caught_up:
                    yield _event("caught_up", CaughtUp(at=str(read.next_after)))
                elif not read.entries:
                    yield _HEARTBEAT
                is_first, caught_up = False, at_end
        except StreamError as error:
            yield _event("problem", problem_of(error, path))


async def _group_events(
    gateway: Gateway, path: str, subscriber: Subscriber, credit: int, claim_idle_ms: int
) -> AsyncGenerator[bytes, None]:
    backend = gateway.backend
    held: dict[EntryId, int] = {}  # sent and, as far as we know, not settled; delivery counts
    request = GroupRequest(
        subscriber.group,
        subscriber.consumer,
        [GroupCursor(subscriber.stream)],
        claim_idle_ms=claim_idle_ms,
        max_pending=credit,
    )
    with gateway.metrics.connections.labels("sse").track_inprogress():
        try:
            yield await _group_ready(gateway, subscriber)
            caught_up = False
            beat_ms = gateway.limits.heartbeat_ms
            async for read in follow_group(backend, request, credit=None, beat_ms=beat_ms):
                held.update({one.id: one.delivery_count for one in read.deliveries})
                deliveries, _ = deliveries_of(read.deliveries)
                if deliveries:
                    gateway.metrics.delivered.labels("sse").inc(len(deliveries))
                    yield b"".join(_event("entry", one) for one in deliveries)
                at_end = read.state is GroupState.CAUGHT_UP
                if at_end and not caught_up:
                    position = (await backend.group(subscriber.stream, subscriber.group)).last_id
                    yield _event("caught_up", CaughtUp(at=str(position)))
                elif not deliveries:
                    yield _HEARTBEAT
                caught_up = at_end
                if len(held) > 2 * credit:
                    held = await _still_held(gateway, subscriber, held)
        except StreamError as error:
            yield _event("problem", problem_of(error, path))
        finally:
            await subscriber.leave(backend, held)


async def _group_ready(gateway: Gateway, subscriber: Subscriber) -> bytes:
    info = await gateway.backend.group(subscriber.stream, subscriber.group)
    own = PendingRequest(consumer=subscriber.consumer, limit=1)
    pending = await gateway.backend.pending(subscriber.stream, subscriber.group, own)
    ready = Ready(
        position=str(info.last_id),
        resumed=bool(pending),
        consumer=subscriber.consumer.decode(),
    )
    return _event("ready", ready, retry_ms=_jittered(gateway))


async def _still_held(
    gateway: Gateway, subscriber: Subscriber, held: dict[EntryId, int]
) -> dict[EntryId, int]:
    """Return what of `held` is still pending; the rest was acknowledged by POST."""
    own = PendingRequest(consumer=subscriber.consumer, limit=gateway.limits.credit_max)
    pending = await gateway.backend.pending(subscriber.stream, subscriber.group, own)
    return {item.id: held[item.id] for item in pending if item.id in held}


def _event(name: str, data: BaseModel, *, retry_ms: int | None = None) -> bytes:
    entry_id = data.id if isinstance(data, Entry | Delivery) else None
    return format_sse_event(
        data_str=data.model_dump_json(exclude_unset=True, by_alias=True),
        event=name,
        id=entry_id,
        retry=retry_ms,
    )


def _jittered(gateway: Gateway) -> int:
    """Return when to connect again: spread out, so that not all clients come at once."""
    return gateway.random.randint(_RETRY_MS, 3 * _RETRY_MS)
