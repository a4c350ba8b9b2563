"""Groups over patterns: read the group of one name in all streams that match, and settle."""

from collections.abc import Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.backends.port import Ability
from headgate.app.http.answers import array_in_turns, json_answer, outcomes_array
from headgate.app.http.dependencies import (
    AccessDep,
    ConsumerDep,
    GroupDep,
    LimitsDep,
    OptionalConsumerDep,
    PatternDep,
    check_at_most,
    gateway_of,
)
from headgate.app.http.operation import Operation
from headgate.app.http.streaming import EVENT_STREAM, HEARTBEAT, EventStream, while_present
from headgate.app.live import followed
from headgate.app.live.event_connection import EventConnection, check_is_asked_for
from headgate.app.live.intents import SubscriptionChoices
from headgate.app.live.pattern_group_subscription import PatternGroupSubscription
from headgate.app.live.subscriber import Subscriber
from headgate.app.wire.encoding import stream_delivery_wire
from headgate.app.wire.events import event, groups_events
from headgate.app.wire.ids import parse_ids
from headgate.app.wire.names import check_name, text_of
from headgate.app.wire.problems import responses
from headgate.app.wire.schemas.limits import Limits
from headgate.app.wire.schemas.pattern_groups import (
    EntriesOfStreams,
    GroupsEntries,
    NackOfStreams,
    ReadGroups,
    SettledStream,
    SettledStreams,
    StreamIds,
    new_groups_of,
    weights_of,
)
from headgate.engine.config import NO_POLICY, OnDisconnect
from headgate.engine.entry import EntryId
from headgate.engine.errors import NotFound
from headgate.engine.limits import COUNT_MAX
from headgate.engine.replies import GroupsRead, Outcome
from headgate.engine.requests import Request as EngineRequest
from headgate.engine.requests.deliveries import Ack, Extend, GiveBack, Nack, NackMode
from headgate.engine.requests.deliveries import ReadGroups as ReadGroupsRequest

router = APIRouter(prefix="/v1/groups/{group}", tags=["Delivery"], route_class=Operation)
events = APIRouter(prefix="/v1/groups/{group}", tags=["Events"], route_class=Operation)

_SETTLE = responses(
    "malformed",
    "invalid_id",
    "consumer_conflict",
    "unsupported_media_type",
    "invalid_request",
    "not_supported",
)
_OWN = _SETTLE | responses("malformed", "invalid_id", "consumer_required", "consumer_conflict")

Settle = Callable[[bytes, Sequence[EntryId]], EngineRequest[list[Outcome]]]


@router.post(
    "/read",
    operation_id="readGroups",
    response_model=GroupsEntries,
    responses=_OWN | responses("limit_reached", "too_many_waiters"),
)
@needs(Verb.CONSUME)
async def read_groups(
    request: Request,
    access: AccessDep,
    limits: LimitsDep,
    group: GroupDep,
    consumer: ConsumerDep,
    pattern: PatternDep,
    read: ReadGroups | None = None,
) -> Response:
    """Read the group of this name in all streams that match a pattern, as one consumer.

    It is as if the consumer read each of the streams by itself: the policy of the group applies in
    each stream, entries that were given back or are idle come before new ones, and entries are in
    order within each stream. Streams take turns, so that no stream waits for another to be empty.
    In its turn a stream delivers one entry, or as many as its weight in `weights`. Turns are longer
    if few streams have entries. Each entry names its `stream`.

    Streams that are created later are included if they match. With `create`, the gateway creates
    the group in each stream that lacks it, if the credential may manage it there. Without `create`,
    such streams are skipped. `$` means the end of each stream that exists at the first read, and
    the beginning of streams that are created later. Streams to which the policy moves dead letters
    get no group.

    If there are no entries, the read waits up to `wait_ms`, for a new entry in any of the streams
    or until a pending entry may be claimed. `max_pending` limits the entries that the consumer
    holds in all streams together. The status is always 200. `state` explains why an answer may be
    empty.
    """
    gateway_of(request).require(Ability.PATTERNS)
    read = read or ReadGroups()
    check_at_most(read.wait_ms, limits.wait_ms_max, pointer="/body/wait_ms")
    check_at_most(read.limit, limits.read_entries_max, pointer="/body/limit")
    wanted = ReadGroupsRequest(
        pattern,
        group,
        consumer,
        limit=read.limit,
        size_bytes_max=limits.read_bytes_max,
        claim_idle_ms=read.claim_idle_ms,
        no_ack=read.no_ack,
        max_pending=read.max_pending,
        weights=weights_of(read.weights, pointer="/body/weights"),
        create=None if read.create is None else read.create.to_engine(),
        wait_ms=read.wait_ms,
    )
    await _settle(
        access,
        limits,
        read.ack,
        lambda stream, ids: Ack(stream, group, ids, consumer),
        pointer="/body/ack",
    )

    async def give_back(came: GroupsRead) -> None:
        for each in came.reads:
            counts = {delivery.id: delivery.delivery_count for delivery in each.deliveries}
            # Without asking for a right: the credential may be what has ended.
            await access.backend.perform(GiveBack(each.stream, group, consumer, counts))

    reading = access.perform(wanted)
    came = await (while_present(request, reading, give_back) if read.wait_ms else reading)
    gateway_of(request).metrics.delivered_counts["rest"] += came.delivery_count
    answer: GroupsEntries = {
        "entries": await array_in_turns(came.deliveries(), stream_delivery_wire),
        "pending": came.pending_count,
        "state": came.state,
    }
    return json_answer(answer)


class GroupsReady(BaseModel):
    """The first event: the name under which entries are acknowledged."""

    consumer: str


class GroupsCaughtUp(BaseModel):
    """Nothing is left for now."""


@events.get(
    "/events",
    operation_id="followGroups",
    response_class=EventStream,
    status_code=200,
    responses=EVENT_STREAM
    | _OWN
    | responses("limit_reached", "cut_off", "not_acceptable", "too_many_connections"),
)
@needs(Verb.CONSUME, by_url=True)
async def group_events(
    request: Request,
    access: AccessDep,
    limits: LimitsDep,
    group: GroupDep,
    consumer: OptionalConsumerDep,
    pattern: PatternDep,
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
        Query(description="What to do with unacknowledged entries when the connection ends."),
    ] = None,
    create: Annotated[
        str | None,
        Query(description="How to create missing groups, as JSON: `create` of `readGroups`."),
    ] = None,
) -> Response:
    """Read the group of this name in all streams that match a pattern, as events.

    The gateway first sends the consumer's own pending entries, stream by stream, then entries as
    `readGroups` delivers them. At most `credit` entries are unacknowledged at a time, in all
    streams. Acknowledge by POST to `/v1/groups/{group}/ack`, under the consumer name in `ready`. If
    you give no name, the gateway creates a consumer and removes it when the connection ends.

    Events:

    - `ready {consumer}`
    - `entry`: it names its `stream` and has no event id.
    - `caught_up {}`
    - `draining {reconnect_after_ms}`
    - `problem {…}`
    """
    gateway = gateway_of(request)
    gateway.require(Ability.PATTERNS)
    check_at_most(credit, limits.credit_max, pointer="/query/credit")
    check_is_asked_for(request)
    access = gateway.connected(access)
    choices = SubscriptionChoices(
        claim_idle_ms=claim_idle_ms,
        on_disconnect=on_disconnect,
        max_pending=credit,
        create=None if create is None else new_groups_of(create, pointer="/query/create"),
    )
    subscriber = Subscriber.named_or_new(
        pattern, group, consumer, on_disconnect, policy=NO_POLICY, random=gateway.random
    )
    subscription = PatternGroupSubscription(
        access, subscriber, choices, beat_ms=limits.heartbeat_ms
    )
    connection = EventConnection(gateway, request, access, subscription)

    async def encoded(item: followed.Followed) -> bytes:
        match item:
            case followed.GroupsBatch(read):
                connection.sent_entries += read.delivery_count
                gateway.metrics.delivered_counts["sse"] += read.delivery_count
                return groups_events(read) or HEARTBEAT
            case followed.State("caught_up"):
                return event("caught_up", GroupsCaughtUp())
            case followed.Ended(error):
                return connection.last_event(error)
        return b""

    ready = GroupsReady(consumer=text_of(subscriber.consumer))
    first = event("ready", ready, retry_ms=gateway.reconnect_after_ms())
    return EventStream(connection.events(first, access.usage, encoded), limits)


@router.post("/ack", operation_id="ackGroups", response_model=SettledStreams, responses=_SETTLE)
@needs(Verb.CONSUME)
async def ack_groups(
    access: AccessDep,
    limits: LimitsDep,
    group: GroupDep,
    consumer: OptionalConsumerDep,
    settled: EntriesOfStreams,
) -> Response:
    """Acknowledge entries of several streams (XACK), with the outcome for each.

    If the request names its consumer, entries that another consumer has claimed stay pending there.
    The outcome is `not_pending` if the stream or the group no longer exists.
    """
    return await _answer(
        access, limits, settled.entries, lambda stream, ids: Ack(stream, group, ids, consumer)
    )


@router.post("/nack", operation_id="nackGroups", response_model=SettledStreams, responses=_SETTLE)
@needs(Verb.CONSUME)
async def nack_groups(
    access: AccessDep,
    limits: LimitsDep,
    group: GroupDep,
    consumer: OptionalConsumerDep,
    nack: NackOfStreams,
) -> Response:
    """Give back entries of several streams (XNACK), with the outcome for each.

    The next reader gets them at once, or after a delay: `delay_ms`, or after `fail` the backoff of
    the group in that stream.
    """
    mode, error = NackMode(nack.mode), nack.error.encode() if nack.error else None
    return await _answer(
        access,
        limits,
        nack.entries,
        lambda stream, ids: Nack(stream, group, ids, mode, nack.delay_ms, error, consumer),
    )


@router.post("/extend", operation_id="extendGroups", response_model=SettledStreams, responses=_OWN)
@needs(Verb.CONSUME)
async def extend_groups(
    access: AccessDep,
    limits: LimitsDep,
    group: GroupDep,
    consumer: ConsumerDep,
    extended: EntriesOfStreams,
) -> Response:
    """Restart the idle time of your own entries in several streams (XCLAIM JUSTID)."""
    return await _answer(
        access, limits, extended.entries, lambda stream, ids: Extend(stream, group, ids, consumer)
    )


async def _answer(
    access: Access, limits: Limits, entries: Sequence[StreamIds], settle: Settle
) -> Response:
    streams: list[SettledStream] = []
    settled = await _settle(access, limits, entries, settle, pointer="/body/entries")
    for each, (ids, outcomes) in zip(entries, settled, strict=True):
        streams.append({"stream": each.stream, "results": await outcomes_array(ids, outcomes)})
    answer: SettledStreams = {"streams": streams}
    return json_answer(answer)


async def _settle(
    access: Access, limits: Limits, entries: Sequence[StreamIds], settle: Settle, *, pointer: str
) -> list[tuple[list[EntryId], list[Outcome]]]:
    """Settle the entries of each stream; all ids and rights are checked before the first."""
    check_at_most(sum(len(each.ids) for each in entries), limits.ids_max, pointer=pointer)
    ids = [parse_ids(each.ids, field=f"{pointer}/{at}/ids") for at, each in enumerate(entries)]
    requests = [
        settle(check_name(each.stream, pointer=f"{pointer}/{at}/stream"), ids[at])
        for at, each in enumerate(entries)
    ]
    for request in requests:
        access.admit(request)
    replies: list[list[Outcome] | Exception] = []
    while len(replies) < len(requests):
        replies += await access.perform_in_order(requests[len(replies) :])
    settled: list[tuple[list[EntryId], list[Outcome]]] = []
    for own, reply in zip(ids, replies, strict=True):
        if isinstance(reply, Exception) and not isinstance(reply, NotFound):
            raise reply
        outcomes = [Outcome.NOT_PENDING] * len(own) if isinstance(reply, Exception) else reply
        settled.append((own, outcomes))
    return settled
