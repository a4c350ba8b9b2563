"""Events: streams and groups as Server-Sent Events, for `EventSource` and `curl -N`."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, Field

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.auth.principal import Need
from headgate.app.http.dependencies import (
    AccessDep,
    GroupDep,
    LimitsDep,
    OptionalConsumerDep,
    StreamDep,
    check_at_most,
    gateway_of,
)
from headgate.app.http.operation import Operation
from headgate.app.http.streaming import EVENT_STREAM, HEARTBEAT, EventStream
from headgate.app.live import followed
from headgate.app.live.event_connection import EventConnection, check_is_asked_for
from headgate.app.live.group_subscription import GroupSubscription
from headgate.app.live.intents import SubscriptionChoices
from headgate.app.live.subscriber import Subscriber
from headgate.app.live.subscription import StreamSubscription, Subscription
from headgate.app.live.table_subscription import TableSubscription
from headgate.app.transport.exchange import Exchange, exchange_of
from headgate.app.wire.encoding import gap_wire, is_position_news
from headgate.app.wire.events import (
    change_events,
    delivery_events,
    entry_events,
    event,
    heartbeat,
    last_event,
    row_events,
)
from headgate.app.wire.filters import OF_GROUPS, checked_text
from headgate.app.wire.ids import AfterText, parse_after
from headgate.app.wire.names import text_of
from headgate.app.wire.problems import GatewayError, responses
from headgate.app.wire.schemas.entries import Gap, IdText, OnDisconnect
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamError
from headgate.engine.limits import CONFLATE_MS_MAX, COUNT_MAX
from headgate.engine.patterns import PatternCursor
from headgate.engine.replies import Gap as EngineGap
from headgate.engine.replies import StreamRead
from headgate.engine.requests.entries import From, StreamCursor
from headgate.engine.requests.groups import DescribeGroup

router = APIRouter(prefix="/v1/streams/{stream}", tags=["Events"], route_class=Operation)

_RETURN_MS = 100
"""Pause before a browser comes back only to acknowledge."""

_OVER: dict[int | str, dict[str, object]] = {
    204: {"description": "The stream is closed and was read to its end: do not reconnect."}
}

AckMode = Literal["explicit", "on_receipt", "on_reconnect"]


class Ready(BaseModel):
    """The first event: where reading begins."""

    position: IdText
    resumed: bool = Field(description="Whether this continues an earlier connection.")
    gap: Gap | None = None
    consumer: str | None = None


class CaughtUp(BaseModel):
    """All there was has been sent; what follows is new."""

    at: IdText


class Closed(BaseModel):
    """The stream is closed, and all of it has been sent. The answer ends."""

    at: IdText
    closed_at_ms: int


class Position(BaseModel):
    """With a filter: no entry up to here matches, but for those that were sent."""

    at: IdText


class ClaimedAway(BaseModel):
    """Entries that you held were claimed by another consumer."""

    ids: list[IdText]
    by: str


def last_event_id(
    after: Annotated[
        AfterText | None,
        Query(description="Start after this id; `$` for new entries only (the default)."),
    ] = None,
    # Not in the document: generated clients have the header, and would have one name for three.
    last_event_id: Annotated[str | None, Query(include_in_schema=False)] = None,
    lastEventId: Annotated[str | None, Query(include_in_schema=False)] = None,  # noqa: N803
    header: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            description="Id after which to resume. Browsers send it when they reconnect. Clients "
            "that cannot set headers use the query parameter `last_event_id` or `lastEventId`.",
        ),
    ] = None,
) -> tuple[EntryId | From, bool]:
    """Return the cursor, and whether it continues an earlier connection."""
    last = last_event(header, last_event_id, lastEventId)
    if last is not None:
        return parse_after(last[0], field=last[1]), True
    return parse_after("$" if after is None else after, field="/query/after"), False


def last_seen_id(
    cursor: Annotated[tuple[EntryId | From, bool], Depends(last_event_id)],
) -> EntryId | None:
    """Return the last id that the client has seen, if it has one."""
    after, is_resumed = cursor
    return after if is_resumed and isinstance(after, EntryId) else None


FilterQuery = Annotated[
    str | None, Query(description="A filter as JSON. Only matching entries are sent.")
]


class RowsWanted(NamedTuple):
    """The rows of a table that are followed, and how."""

    prefix: bytes
    conflate_ms: int | None


def rows_wanted(
    view: Annotated[
        Literal["entries", "table"],
        Query(
            description="`table`: send the rows of a stream with a `key_field`, and their changes."
        ),
    ] = "entries",
    prefix: Annotated[
        str, Query(description="With `view=table`: only rows whose keys begin with this.")
    ] = "",
    conflate_ms: Annotated[
        int | None,
        Query(
            ge=1,
            le=CONFLATE_MS_MAX,
            description="With `view=table`: collect changes for this long, and send only the "
            "newest one of each row.",
        ),
    ] = None,
) -> RowsWanted | None:
    """Return what is wanted of a table; None: no rows."""
    if view == "table":
        return RowsWanted(prefix.encode(errors="surrogatepass"), conflate_ms)
    for name, given in (("prefix", prefix), ("conflate_ms", conflate_ms)):
        if given:
            text = "only allowed with view=table"
            raise GatewayError("invalid_request", text, pointer=f"/query/{name}")
    return None


@router.get(
    "/events",
    operation_id="followStream",
    response_class=EventStream,
    status_code=200,
    responses=EVENT_STREAM
    | _OVER
    | responses(
        "invalid_id", "stream_not_found", "invalid_request", "too_many_connections", "cut_off"
    ),
)
@needs(Verb.READ, by_url=True)
async def stream_events(
    request: Request,
    access: AccessDep,
    stream: StreamDep,
    cursor: Annotated[tuple[EntryId | From, bool], Depends(last_event_id)],
    filter: FilterQuery = None,  # noqa: A002
    rows: Annotated[RowsWanted | None, Depends(rows_wanted)] = None,
) -> Response:
    """Send a stream as events (XREAD BLOCK): first the entries after the cursor, then new ones.

    Events:

    - `ready {position, resumed, gap}`
    - `entry`: its event id is the id of the entry.
    - `position {at}`: only with a `filter`. Its event id moves `Last-Event-ID` past entries that do
      not match.
    - `caught_up {at}`
    - `closed {at, closed_at_ms}`: the answer ends. If a browser reconnects with a `Last-Event-ID`,
      the status 204 stops it.
    - `draining {reconnect_after_ms}`
    - `problem {…}`

    A comment every 15 s keeps the connection open. `ready`, `caught_up` and the comment have an
    event id, too. So a connection that ends before its first entry resumes where it began.

    With `view=table`, all rows come first, as `row {key, id, fields}`, then `caught_up`, then each
    change as a `row`. `fields` is null if the row was removed. A connection that ends after
    `caught_up` resumes from its `Last-Event-ID`. If it ends before that, all rows are sent again.
    If entries were trimmed before they were sent, `ready` has the `gap`, and all rows are sent
    again: discard the earlier rows.
    """
    after, is_resumed = cursor
    gateway = gateway_of(request)
    if rows is not None:
        if filter is not None:
            text = "not allowed with view=table: a table is sent as a whole"
            raise GatewayError("invalid_request", text, pointer="/query/filter")
        return await _table_events(request, access, stream, cursor, rows)
    access = gateway.connected(access)
    beat_ms = gateway.limits.heartbeat_ms
    subscription = StreamSubscription(
        access, StreamCursor(stream, after), beat_ms=beat_ms, filters=checked_text(filter)
    )
    ready = await subscription.open()
    if is_resumed and subscription.is_over:
        return Response(status_code=204)
    encoder = _Encoder(request, access, subscription, ready, is_resumed=is_resumed)
    exchange = exchange_of(request.receive)
    if exchange is not None:
        subscription.read_together(gateway.fan_out, partial(encoder.send_at_once, exchange))
    return EventStream(encoder.events(), gateway.limits)


async def _table_events(
    request: Request,
    access: Access,
    stream: bytes,
    cursor: tuple[EntryId | From, bool],
    rows: RowsWanted,
) -> Response:
    gateway = gateway_of(request)
    access = gateway.connected(access)
    after = cursor[0] if isinstance(cursor[0], EntryId) else None
    limits = gateway.limits
    subscription = TableSubscription(
        access, stream, after, **rows._asdict(), beat_ms=limits.heartbeat_ms
    )
    ready = await subscription.open()
    assert ready.table_fields is not None
    if cursor[1] and subscription.is_over:
        return Response(status_code=204)
    events_of = partial(change_events, fields=ready.table_fields)
    encoder = _Encoder(
        request, access, subscription, ready, is_resumed=cursor[1], events_of=events_of
    )
    exchange = exchange_of(request.receive)
    if exchange is not None:
        subscription.read_together(gateway.fan_out, partial(encoder.send_at_once, exchange))
    return EventStream(encoder.events(), limits)


def refuse_filter(
    filter: Annotated[str | None, Query(include_in_schema=False)] = None,  # noqa: A002
) -> None:
    if filter is not None:
        raise GatewayError("invalid_request", OF_GROUPS, pointer="/query/filter")


@router.get(
    "/groups/{group}/events",
    operation_id="followGroup",
    dependencies=[Depends(refuse_filter)],
    response_class=EventStream,
    status_code=200,
    responses=EVENT_STREAM
    | _OVER
    | responses(
        "malformed",
        "invalid_id",
        "consumer_required",
        "consumer_conflict",
        "stream_not_found",
        "group_not_found",
        "cut_off",
        "invalid_request",
        "not_acceptable",
        "too_many_connections",
    ),
)
@needs(Verb.CONSUME, by_url=True)
async def group_events(
    request: Request,
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    group: GroupDep,
    consumer: OptionalConsumerDep,
    credit: Annotated[
        int, Query(ge=1, description="Maximum number of unacknowledged entries.")
    ] = 16,
    claim_idle_ms: Annotated[
        int | None,
        Query(
            ge=0,
            le=COUNT_MAX,
            description="Also claim entries that have been pending and idle for this long.",
        ),
    ] = None,
    on_disconnect: Annotated[
        OnDisconnect | None,
        Query(
            description="What to do with unacknowledged entries when the connection ends. "
            "Default: the policy of the group, otherwise `release`."
        ),
    ] = None,
    ack: Annotated[
        AckMode,
        Query(
            description="`explicit`: acknowledge by POST. `on_receipt`: an entry is settled once "
            "it is sent. `on_reconnect`: the `Last-Event-ID` of the next connection acknowledges "
            "all entries up to it. The gateway therefore ends the connection after every "
            "`credit` entries, and browsers reconnect."
        ),
    ] = "explicit",
    seen: Annotated[EntryId | None, Depends(last_seen_id)] = None,
) -> Response:
    """Read as a consumer of a group, as events (XREADGROUP BLOCK).

    The gateway first sends the consumer's own pending entries, then entries that were given back or
    are idle, then new entries. At most `credit` entries are unacknowledged at a time. Acknowledge
    by POST to `…/ack`, under the consumer name in `ready`. If you give no name, the gateway creates
    a consumer and removes it when the connection ends.

    Events:

    - `ready {position, resumed, consumer}`
    - `entry`
    - `caught_up {at}`
    - `claimed {ids, by}`: another consumer has claimed these entries.
    - `closed {at, closed_at_ms}`: the stream is closed, the group has settled all its entries, and
      the answer ends.
    - `draining {reconnect_after_ms}`
    - `problem {…}`
    """
    check_at_most(credit, limits.credit_max, pointer="/query/credit")
    if ack == "on_reconnect" and consumer is None:
        text = "name the consumer: the next connection must use the same name"
        raise GatewayError("consumer_required", text, pointer="/query/consumer")
    gateway = gateway_of(request)
    access.require([Need((Verb.CONSUME,), stream, group, consumer)])
    access = gateway.connected(access)
    info = await access.perform(DescribeGroup(stream, group))
    check_is_asked_for(request)
    choices = SubscriptionChoices(
        claim_idle_ms=claim_idle_ms,
        on_disconnect="keep" if ack == "on_reconnect" else on_disconnect,
        max_pending=credit,
    )
    subscriber = Subscriber.named_or_new(
        stream, group, consumer, choices.on_disconnect, policy=info.policy, random=gateway.random
    )
    subscription = GroupSubscription(access, subscriber, info, choices, beat_ms=limits.heartbeat_ms)
    if seen is not None:
        if ack == "on_reconnect":
            await subscription.ack_through(seen)
        if (await access.perform(DescribeGroup(stream, group))).is_over:
            return Response(status_code=204)
    ready = await subscription.open()
    encoder = _Encoder(
        request, access, subscription, ready, is_resumed=bool(ready.pending_count), ack=ack
    )
    return EventStream(encoder.events(), limits)


class _Encoder:
    """Makes events of what a subscription yields."""

    def __init__(
        self,
        request: Request,
        access: Access,
        subscription: Subscription,
        ready: followed.Ready,
        *,
        is_resumed: bool,
        ack: AckMode = "explicit",
        events_of: Callable[[StreamRead], bytes] = entry_events,
    ) -> None:
        self._gateway = gateway = gateway_of(request)
        self._usage = access.usage
        self._subscription = subscription
        self._ready = ready
        self._is_resumed = is_resumed
        self._ack = ack
        self._events_of = events_of  # entries that were read
        self._gap = ready.gap  # the last that was told
        self._delivered_counts = gateway.metrics.delivered_counts
        self._connection = EventConnection(gateway, request, access, subscription)

    def send_at_once(self, exchange: Exchange, batch: followed.StreamBatch) -> bool:
        """Send a batch while `events` waits; false if the client has not read what came before."""
        if not exchange.send_part(self._events_of(batch.read)):
            return False
        self._note_sent(len(batch.read.entries))
        return True

    async def events(self) -> AsyncGenerator[bytes, None]:
        until = self._connection.wait_end
        with self._connection.listed():
            try:
                with self._usage.connections.held(), self._usage.subscriptions.held():
                    yield self._ready_event(
                        self._ready.position, self._ready.gap, is_place=not self._ready.has_rows
                    )
                    async with aclosing(self._subscription.follow(until=until)) as coming:
                        async for item in coming:
                            part = await self._encoded(item)
                            if part:
                                yield part
                            if self._ack == "on_receipt" and isinstance(item, followed.GroupBatch):
                                await self._acknowledge(item)
                            if self._ack == "on_reconnect" and await self._must_return(item):
                                yield f"retry: {_RETURN_MS}\n\n".encode()
                                return  # only a new connection acknowledges
            except (StreamError, GatewayError) as error:
                yield self._connection.last_event(error)

    async def _acknowledge(self, batch: followed.GroupBatch) -> None:
        assert isinstance(self._subscription, GroupSubscription)
        ids = [delivery.id for delivery in batch.deliveries] + batch.gone
        if ids:
            await self._subscription.entries_of(None).ack(ids)

    async def _must_return(self, item: followed.Followed) -> bool:
        """Return whether the client has to reconnect, as nothing comes before it acknowledges."""
        assert isinstance(self._subscription, GroupSubscription)
        match item:
            case followed.State("max_pending"):
                return True
            case followed.State("caught_up") | followed.GroupBatch([]):
                return await self._subscription.holds_last()
        return False

    async def _encoded(self, item: followed.Followed) -> bytes:
        match item:
            case followed.StreamBatch(read):
                return self._entries(read)
            case followed.GroupBatch(deliveries):
                self._note_sent(len(deliveries))
                return delivery_events(deliveries) or HEARTBEAT
            case followed.State("caught_up"):
                at = await self._subscription.position()
                return event("caught_up", CaughtUp(at=str(at)), last_id=self._place(at))
            case followed.RowsBatch(page, _, gap, is_again):
                self._is_resumed = self._is_resumed and not is_again
                news = self._ready_event(page.as_of, gap, is_place=False) if is_again else b""
                self._note_sent(len(page.rows))
                return news + row_events(page.rows)
            case followed.AtEnd(at, closed_at_ms):
                return event("closed", Closed(at=str(at), closed_at_ms=closed_at_ms), last_id=at)
            case followed.ClaimedAway(ids, by):
                return event("claimed", ClaimedAway(ids=list(map(str, ids)), by=text_of(by)))
            case followed.Ended(error):
                return self._connection.last_event(error)
        return b""  # the others have routes of their own

    def _entries(self, read: StreamRead) -> bytes:
        """Return the events of a batch; a new gap comes first."""
        news = b""
        if read.gap is not None and read.gap != self._gap:
            self._gap = read.gap
            news = self._ready_event(read.after, read.gap)
        after = b""
        if is_position_news(read):
            at = read.next_after
            after = event("position", Position(at=str(at)), last_id=at)
        if not read.entries:
            return news + after or heartbeat(read.next_after)
        self._note_sent(len(read.entries))
        return news + self._events_of(read) + after

    def _note_sent(self, entry_count: int) -> None:
        self._connection.sent_entries += entry_count
        self._delivered_counts["sse"] += entry_count

    def _ready_event(
        self, position: EntryId | PatternCursor, gap: EngineGap | None, *, is_place: bool = True
    ) -> bytes:
        consumer = self._ready.consumer
        ready = Ready(position=str(position), resumed=self._is_resumed)
        if consumer is None:
            ready.gap = gap_wire(gap)
        else:
            ready.consumer = text_of(consumer)
        retry_ms = self._gateway.reconnect_after_ms()
        place = self._place(position) if is_place else None
        return event("ready", ready, retry_ms=retry_ms, last_id=place)

    def _place(self, at: EntryId | PatternCursor) -> EntryId | PatternCursor | None:
        """Return the place where a browser resumes, even if no entry comes before that.

        The gateway itself keeps the position of a group, which may be above entries that this
        consumer has not been sent: with `on_reconnect` its id would acknowledge them.
        """
        return at if self._ready.consumer is None else None
