"""Events: streams and groups as Server-Sent Events, for `EventSource` and `curl -N`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, nullcontext
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import BaseModel, Field

from headgate.app.http.dependencies import (
    BackendDep,
    Gateway,
    GroupDep,
    LimitsDep,
    OptionalConsumerDep,
    StreamDep,
    check_at_most,
    gateway_of,
)
from headgate.app.http.operation import Operation, path_of
from headgate.app.http.parameters import pure
from headgate.app.http.streaming import PatientResponse, merged
from headgate.app.live.event import delivery_events, entry_events, event
from headgate.app.live.follow import follow_group, follow_stream
from headgate.app.live.held import Held, take_away
from headgate.app.live.subscriber import Subscriber
from headgate.app.wire.ids import parse_after
from headgate.app.wire.names import text_of
from headgate.app.wire.problems import GatewayError, problem_of, responses
from headgate.app.wire.schemas.limits import Limits
from headgate.app.wire.schemas.policies import OnDisconnect
from headgate.app.wire.schemas.reads import Gap
from headgate.app.wire.schemas.values import IdText
from headgate.engine import errors
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamError
from headgate.engine.limits import COUNT_MAX
from headgate.engine.replies import GroupState, StreamRead, Takeover
from headgate.engine.requests import From, GroupCursor, GroupRequest, PendingRequest, StreamCursor

router = APIRouter(prefix="/v1/streams/{stream}", tags=["Events"], route_class=Operation)

_HEARTBEAT = b": heartbeat\n\n"
_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
_RETURN_MS = 100
"""How soon a browser comes back that has only to acknowledge."""

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


class ClaimedAway(BaseModel):
    """Entries you held belong to another consumer now."""

    ids: list[IdText]
    by: str


class Draining(BaseModel):
    """The connection is about to end; come back after so long."""

    reconnect_after_ms: int


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


@pure
def last_event_id(
    after: Annotated[
        str | None, Query(description="After this id; `$` from now on (the default).")
    ] = None,
    # Not in the document: generated clients have the header, and would have one name for three.
    last_event_id: Annotated[str | None, Query(include_in_schema=False)] = None,
    lastEventId: Annotated[str | None, Query(include_in_schema=False)] = None,  # noqa: N803
    header: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            description="Sent by a browser that connects again. Where headers cannot be set, the "
            "query says the same as `last_event_id` or `lastEventId`.",
        ),
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


def last_seen_id(
    cursor: Annotated[tuple[EntryId | From, bool], Depends(last_event_id)],
) -> EntryId | None:
    """Return the last id the client says it has seen, if it says so."""
    after, is_resumed = cursor
    return after if is_resumed and isinstance(after, EntryId) else None


@router.get(
    "/events",
    operation_id="followStream",
    response_class=EventStream,
    status_code=200,
    responses=_EVENT_STREAM
    | responses("invalid_id", "stream_not_found", "invalid_request", "too_many_connections"),
)
async def stream_events(
    request: Request,
    backend: BackendDep,
    stream: StreamDep,
    cursor: Annotated[tuple[EntryId | From, bool], Depends(last_event_id)],
) -> EventStream:
    """Send a stream as events (XREAD BLOCK): what comes after the cursor, then what is new.

    Events: `ready {position, resumed, gap}` · `entry` (its id line is the entry's id) ·
    `caught_up {at}` · `draining {reconnect_after_ms}` · `problem {…}`. A comment every 15 s keeps
    the connection open.
    """
    after, resumed = cursor
    gateway = gateway_of(request)
    gateway.check_room()
    beat_ms = gateway.limits.heartbeat_ms
    reads = follow_stream(backend, StreamCursor(stream, after), credit=None, beat_ms=beat_ms)
    parts = _stream_parts(gateway, await anext(reads), reads, resumed=resumed)
    return EventStream(_stream_events(gateway, path_of(request.scope), parts), gateway.limits)


@router.get(
    "/groups/{group}/events",
    operation_id="followGroup",
    response_class=EventStream,
    status_code=200,
    responses=_EVENT_STREAM
    | responses(
        "malformed",
        "invalid_id",
        "consumer_required",
        "consumer_conflict",
        "stream_not_found",
        "group_not_found",
        "invalid_request",
        "not_acceptable",
        "too_many_connections",
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
        OnDisconnect | None,
        Query(
            description="What becomes of unacknowledged entries when the connection ends; as the "
            "group's policy says, or `release`, if it is left out."
        ),
    ] = None,
    ack: Annotated[
        Literal["explicit", "on_receipt", "on_reconnect"],
        Query(
            description="`explicit`: by POST. `on_receipt`: an entry is done with once it is sent. "
            "`on_reconnect`: the `Last-Event-ID` of the next connection acknowledges up to it; "
            "every `credit` entries the connection is ended for that, and browsers come back."
        ),
    ] = "explicit",
    seen: Annotated[EntryId | None, Depends(last_seen_id)] = None,
) -> EventStream:
    """Read as a consumer of a group, as events (XREADGROUP BLOCK).

    First come the consumer's own pending entries, then those given back or idle, then new ones; at
    most `credit` unacknowledged ones at a time. Acknowledge by POST to `…/ack`, under the name that
    `ready` tells. Without a name the gateway makes one and removes it when the connection ends.

    Events: `ready {position, resumed, consumer}` · `entry` · `caught_up {at}` · `claimed {ids, by}`
    (another consumer has these now) · `draining {reconnect_after_ms}` · `problem {…}`.
    """
    check_at_most(credit, limits.credit_max, pointer="/query/credit")
    if ack == "on_reconnect" and consumer is None:
        text = "the next connection must come under the same name: give consumer"
        raise GatewayError("consumer_required", text, pointer="/query/consumer")
    gateway = gateway_of(request)
    gateway.check_room()
    policy = (await backend.group(stream, group)).policy
    _check_is_asked_for(request)
    subscriber = Subscriber.named_or_new(
        stream,
        group,
        consumer,
        on_disconnect="keep" if ack == "on_reconnect" else on_disconnect,
        policy=policy,
        random=gateway.random,
    )
    if ack == "on_reconnect" and seen is not None:
        await backend.ack_through(stream, group, subscriber.consumer, seen)
    wanted = GroupRequest(
        subscriber.group,
        subscriber.consumer,
        [GroupCursor(subscriber.stream)],
        claim_idle_ms=claim_idle_ms,
        claim_released=True,
        max_pending=credit,
    )
    conversation = _GroupEvents(gateway, path_of(request.scope), subscriber, wanted, ack)
    return EventStream(conversation.parts(), limits)


def _check_is_asked_for(request: Request) -> None:
    """Refuse what a page of another site can make a browser send without a word about the page.

    On a plain address, no loopback one, a browser says neither `Origin` nor `Sec-Fetch-Site` with
    what a page embeds or fetches blindly. An image cannot ask for events. A script can, but it
    cannot say that it is a page of ours.

    Raises:
        GatewayError: it could be such a request.
    """
    sent = request.headers
    types = sent.get("accept", "").lower().split(",")
    if EventStream.media_type not in (one.partition(";")[0].strip() for one in types):
        text = "reading takes entries: send the header Accept: text/event-stream"
        raise GatewayError("not_acceptable", text, pointer="/header/Accept")
    if (
        "origin" in sent
        or "sec-fetch-site" in sent
        or "mozilla/" not in sent.get("user-agent", "").lower()
    ):
        return
    page = sent.get("referer", "").lower().partition("://")[2].partition("/")[0]
    if page != sent.get("host", "").lower():
        text = "The browser does not say that a page of this gateway asks."
        raise GatewayError("origin_refused", text, pointer="/header/Referer")


async def _stream_events(
    gateway: Gateway, path: str, reading: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    with gateway.metrics.connection("sse"):
        try:
            async with aclosing(merged(reading, _until_end(gateway))) as parts:
                async for part in parts:
                    yield part
        except StreamError as error:
            yield _last_event(gateway, error, path)


async def _stream_parts(
    gateway: Gateway, read: StreamRead, later: AsyncIterator[StreamRead], *, resumed: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a stream; what was read first was read before the answer began."""
    is_first, caught_up = True, False
    while True:
        if is_first or read.gap is not None:
            gap = Gap.of(read.gap)
            ready = Ready(position=str(read.after), resumed=resumed, gap=gap)
            yield event("ready", ready, retry_ms=gateway.reconnect_after_ms())
        if read.entries:
            gateway.metrics.delivered.labels("sse").inc(len(read.entries))
            yield entry_events(read)
        at_end = not read.entries or read.next_after >= read.last_id
        if at_end and not caught_up:
            yield event("caught_up", CaughtUp(at=str(read.next_after)))
        elif not read.entries:
            yield _HEARTBEAT
        is_first, caught_up = False, at_end
        read = await anext(later)


class _GroupEvents:
    """One connection of a consumer."""

    def __init__(
        self,
        gateway: Gateway,
        path: str,
        subscriber: Subscriber,
        request: GroupRequest,
        ack: Literal["explicit", "on_receipt", "on_reconnect"],
    ) -> None:
        self._gateway = gateway
        self._backend = gateway.backend
        self._path = path
        self._subscriber = subscriber
        self._names = subscriber.stream, subscriber.group
        self._request = request
        self._ack = ack
        # Sent and, as far as we know, not settled; with their delivery counts.
        self._held: Held = {}

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Yield the connection's events until it ends; then give back what was not settled."""
        consumer, feed = self._subscriber.consumer, self._gateway.claim_feed
        claims = nullcontext(_nothing()) if feed is None else feed.claims(*self._names, consumer)
        with self._gateway.metrics.connection("sse"):
            try:
                yield await self._ready()
                async with claims as takeovers:
                    sources = self._reading(), self._losing(takeovers), _until_end(self._gateway)
                    async with aclosing(merged(*sources)) as parts:
                        async for part, ids in parts:
                            yield part
                            if ids and self._ack == "on_receipt":
                                await self._backend.ack(*self._names, ids, consumer=consumer)
                                self._forget(ids)
            except StreamError as error:
                yield _last_event(self._gateway, error, self._path)
            finally:
                await self._subscriber.leave(self._backend, self._held)

    async def _reading(self) -> AsyncGenerator[tuple[bytes, list[EntryId]], None]:
        """Yield parts with the ids of the entries in them."""
        caught_up = False
        beat_ms = self._gateway.limits.heartbeat_ms
        async for read in follow_group(self._backend, self._request, credit=None, beat_ms=beat_ms):
            ids = [one.id for one in read.deliveries]
            self._held.update({one.id: one.delivery_count for one in read.deliveries})
            deliveries = [one for one in read.deliveries if one.fields is not None]
            if deliveries:
                self._gateway.metrics.delivered.labels("sse").inc(len(deliveries))
                yield delivery_events(deliveries), ids
            at_end = read.state is GroupState.CAUGHT_UP
            if at_end and not caught_up:
                position = (await self._backend.group(*self._names)).last_id
                yield event("caught_up", CaughtUp(at=str(position))), []
            elif not deliveries:
                yield _HEARTBEAT, []
            caught_up = at_end
            if read.state is GroupState.MAX_PENDING and self._ack == "on_reconnect":
                yield f"retry: {_RETURN_MS}\n\n".encode(), []
                return  # only a new connection acknowledges
            if len(self._held) > 2 * (self._request.max_pending or 0):
                await self._look_what_is_held()

    async def _losing(
        self, takeovers: AsyncIterator[Takeover]
    ) -> AsyncGenerator[tuple[bytes, list[EntryId]], None]:
        """Yield what another consumer has taken over."""
        async for takeover in takeovers:
            lost = take_away(self._held, takeover.counts)
            if lost:
                claimed = ClaimedAway(ids=list(map(str, lost)), by=text_of(takeover.by))
                yield event("claimed", claimed), []

    async def _ready(self) -> bytes:
        info = await self._backend.group(*self._names)
        own = PendingRequest(consumer=self._subscriber.consumer, limit=1)
        pending = await self._backend.pending(*self._names, own)
        ready = Ready(
            position=str(info.last_id),
            resumed=bool(pending),
            consumer=self._subscriber.consumer.decode(),
        )
        return event("ready", ready, retry_ms=self._gateway.reconnect_after_ms())

    async def _look_what_is_held(self) -> None:
        """Forget what is pending no more: it was acknowledged by POST."""
        most = self._gateway.limits.credit_max
        own = PendingRequest(consumer=self._subscriber.consumer, limit=most)
        pending = {item.id for item in await self._backend.pending(*self._names, own)}
        self._forget([entry_id for entry_id in self._held if entry_id not in pending])

    def _forget(self, ids: Sequence[EntryId]) -> None:
        for entry_id in ids:
            self._held.pop(entry_id, None)


async def _nothing() -> AsyncIterator[Takeover]:
    """Yield nothing, without end."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError
    yield


async def _until_end(gateway: Gateway) -> AsyncGenerator[Any, None]:
    """Yield nothing, and raise `Draining` when the connection must end."""
    await gateway.wait_connection_end()
    raise errors.Draining
    yield  # it is a source like the others


def _last_event(gateway: Gateway, error: StreamError, path: str) -> bytes:
    if isinstance(error, errors.Draining):
        return event("draining", Draining(reconnect_after_ms=gateway.reconnect_after_ms()))
    return event("problem", problem_of(error, path))
