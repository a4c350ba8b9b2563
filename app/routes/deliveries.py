"""Deliveries: read as a group, acknowledge, give back, claim, and see what is pending."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from msgspec.structs import replace

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.cloud_events.event import BATCH, event_of_delivery
from headgate.app.cloud_events.formats import batch_in_turns
from headgate.app.http.answers import array_in_turns, json_answer, outcomes_array
from headgate.app.http.dependencies import (
    AccessDep,
    ConsumerDep,
    GroupDep,
    LimitsDep,
    OptionalConsumerDep,
    StreamDep,
    check_at_most,
    gateway_of,
)
from headgate.app.http.operation import Operation, WholeRequest, accepts, prompt
from headgate.app.http.streaming import while_present
from headgate.app.wire.descriptions import holder_wire, pending_wire
from headgate.app.wire.encoding import delivery_wire
from headgate.app.wire.ids import BoundText, parse_bound, parse_id, parse_ids
from headgate.app.wire.names import NameText, check_name, text_of
from headgate.app.wire.problems import responses
from headgate.app.wire.schemas.deliveries import (
    Autoclaim,
    Autoclaimed,
    Claim,
    Claimed,
    GroupEntries,
    Nack,
    PendingEntries,
    PendingSummary,
    ReadGroup,
    Redrive,
    Redriven,
    RedrivenLetters,
    SettledEntries,
)
from headgate.app.wire.schemas.entries import Ids
from headgate.app.wire.schemas.limits import Limits
from headgate.engine.entry import EntryId
from headgate.engine.limits import COUNT_MAX
from headgate.engine.replies import Claimed as EngineClaimed
from headgate.engine.replies import Delivery, GroupRead, Outcome
from headgate.engine.requests.deliveries import (
    Ack,
    Extend,
    GiveBack,
    GroupCursor,
    ListPending,
    NackMode,
    SumPending,
)
from headgate.engine.requests.deliveries import Autoclaim as AutoclaimRequest
from headgate.engine.requests.deliveries import Claim as ClaimRequest
from headgate.engine.requests.deliveries import Nack as NackRequest
from headgate.engine.requests.deliveries import ReadGroup as ReadGroupRequest
from headgate.engine.requests.deliveries import Redrive as RedriveRequest

router = APIRouter(
    prefix="/v1/streams/{stream}/groups/{group}", tags=["Delivery"], route_class=Operation
)

_EVENT_HEADERS = {
    f"Headgate-{name}": {
        "description": f"With CloudEvents: `{name.lower()}` of the JSON answer.",
        "schema": {"type": "string"},
    }
    for name in ("State", "Pending", "Lag")
}

_FIND = responses("invalid_id", "stream_not_found", "group_not_found", "invalid_request")
_SETTLE = responses(
    "malformed",
    "invalid_id",
    "consumer_conflict",
    "stream_not_found",
    "group_not_found",
    "unsupported_media_type",
    "invalid_request",
)
_TAKE = _SETTLE | responses("malformed", "invalid_id", "consumer_required", "consumer_conflict")


@router.post(
    "/read",
    operation_id="readGroup",
    response_model=GroupEntries,
    responses={200: {"headers": _EVENT_HEADERS}}
    | _TAKE
    | responses("limit_reached", "too_many_waiters"),
)
@needs(Verb.CONSUME)
async def read_group(
    request: WholeRequest,
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    group: GroupDep,
    consumer: ConsumerDep,
    read: ReadGroup | None = None,
) -> Response:
    """Read entries as a consumer of a group (XREADGROUP), and wait for them with `wait_ms`.

    The gateway first acknowledges `ack`. Then it delivers entries that were given back and, with
    `claim_idle_ms`, entries that have been pending with any consumer for that long, longest idle
    first. Then it delivers entries that are new to the group. If there are none, the read waits for
    a new entry, or until a pending entry has been idle long enough. If the client disconnects
    meanwhile, the entries that it would have received are given back at once.

    The status is always 200. `state` explains why an answer may be empty:

    - `caught_up`: there are no new entries.
    - `live`: there may be more entries.
    - `max_pending`: the consumer holds as many entries as it may.
    - `paused`, `rate_limited`, `key_blocked`: the policy of the group allows no more entries for
      now.
    - `closed`: the stream is closed, and the group has settled all its entries.

    With `Accept: application/cloudevents-batch+json`, the answer is an array of `CloudEvent`. Each
    event has `headgateid`, the id to acknowledge, and `headgatedeliveries`. Headers have the other
    parts of the answer. A pending entry of the consumer that no longer exists in the stream is an
    event of the type `headgate.entry.deleted`.
    """
    read = read or ReadGroup()
    check_at_most(read.wait_ms, limits.wait_ms_max, pointer="/body/wait_ms")
    check_at_most(read.limit, limits.read_entries_max, pointer="/body/limit")
    after = None if read.after == ">" else parse_id(read.after, field="/body/from")
    wanted = ReadGroupRequest(
        group,
        consumer,
        [GroupCursor(stream, after)],
        limit=read.limit,
        claim_idle_ms=read.claim_idle_ms,
        claim_released=True,
        no_ack=read.no_ack,
        size_bytes_max=limits.read_bytes_max,
    )

    async def give_back(reads: list[GroupRead]) -> None:
        deliveries = [delivery for group_read in reads for delivery in group_read.deliveries]
        counts = {delivery.id: delivery.delivery_count for delivery in deliveries}
        # Without asking for a right: the credential may be what has ended.
        await access.backend.perform(GiveBack(stream, group, consumer, counts))

    acked = _ids(read.ack, limits, pointer="/body/ack")
    reading = access.perform(replace(wanted, wait_ms=read.wait_ms, acked=acked))
    may_wait = read.wait_ms > 0 and after is None  # one's own entries are there at once
    [group_read] = await (while_present(request, reading, give_back) if may_wait else reading)
    gateway_of(request).metrics.delivered_counts["rest"] += len(group_read.deliveries)
    if accepts(request, BATCH):
        return await _event_answer(stream, group_read)
    gone = [str(group_read.id) for group_read in group_read.deliveries if group_read.fields is None]
    answer: GroupEntries = {
        "entries": await _wire(group_read.deliveries),
        "lag": group_read.lag,
        "pending": group_read.pending_count,
        "state": group_read.state,
    }
    if gone:
        answer["deleted_ids"] = gone
    return json_answer(answer)


async def _event_answer(stream: bytes, group_read: GroupRead) -> Response:
    event_of = partial(event_of_delivery, text_of(stream))
    content = await batch_in_turns(map(event_of, group_read.deliveries))
    answer = Response(content, media_type=BATCH)
    answer.headers["Headgate-State"] = group_read.state
    answer.headers["Headgate-Pending"] = str(group_read.pending_count)
    if group_read.lag is not None:
        answer.headers["Headgate-Lag"] = str(group_read.lag)
    return answer


@router.post("/ack", operation_id="ackEntries", response_model=SettledEntries, responses=_SETTLE)
@needs(Verb.CONSUME)
@prompt
async def ack_entries(
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    group: GroupDep,
    consumer: OptionalConsumerDep,
    request: Ids,
) -> Response:
    """Acknowledge entries (XACK), with the outcome for each.

    If the request names its consumer, entries that another consumer has claimed stay pending there.
    """
    ids = _ids(request.ids, limits)
    return await _settled(ids, await access.perform(Ack(stream, group, ids, consumer=consumer)))


async def _settled(ids: Sequence[EntryId], outcomes: Sequence[Outcome]) -> Response:
    answer: SettledEntries = {"results": await outcomes_array(ids, outcomes)}
    return json_answer(answer)


@router.post("/nack", operation_id="nackEntries", response_model=SettledEntries, responses=_SETTLE)
@needs(Verb.CONSUME)
@prompt
async def nack_entries(
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    group: GroupDep,
    consumer: OptionalConsumerDep,
    request: Nack,
) -> Response:
    """Give entries back (XNACK), with the outcome for each.

    The next reader gets them at once, or after a delay: `delay_ms`, or after `fail` the backoff of
    the group. An entry that was delivered too often becomes a dead letter instead. The gateway
    keeps the `error` of an entry while it is pending.
    """
    ids = _ids(request.ids, limits)
    outcomes = await access.perform(
        NackRequest(
            stream,
            group,
            ids,
            mode=NackMode(request.mode),
            delay_ms=request.delay_ms,
            error=request.error.encode() if request.error else None,
            consumer=consumer,
        )
    )
    return await _settled(ids, outcomes)


@router.post(
    "/dead-letters/redrive",
    operation_id="redriveDeadLetters",
    responses=_SETTLE | responses("not_supported"),
)
@needs(Verb.MANAGE)
async def redrive_dead_letters(
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    group: GroupDep,
    request: Redrive | None = None,
) -> RedrivenLetters:
    """Send dead letters of the group back, the oldest first, each in one step.

    If the entry still exists in its stream, the next reader of the group gets it, as if it had
    never been delivered. Otherwise it is appended as a new entry.
    """
    request = request or Redrive()
    check_at_most(request.limit, limits.ids_max, pointer="/body/limit")
    ids = None if request.ids is None else _ids(request.ids, limits)
    redriven = await access.perform(RedriveRequest(stream, group, ids, limit=request.limit))
    return RedrivenLetters(
        results=[
            Redriven(
                id=str(dead_letter.id),
                outcome=dead_letter.outcome,
                entry_id=str(dead_letter.entry_id),
            )
            for dead_letter in redriven
        ]
    )


@router.post(
    "/extend", operation_id="extendEntries", response_model=SettledEntries, responses=_TAKE
)
@needs(Verb.CONSUME)
@prompt
async def extend_entries(
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    group: GroupDep,
    consumer: ConsumerDep,
    request: Ids,
) -> Response:
    """Restart the idle time of your own entries (XCLAIM JUSTID), with the outcome for each."""
    ids = _ids(request.ids, limits)
    outcomes = await access.perform(Extend(stream, group, ids, consumer=consumer))
    return await _settled(ids, outcomes)


@router.post(
    "/claim",
    operation_id="claimEntries",
    response_model=Claimed,
    responses=_TAKE | responses("limit_reached"),
)
@needs(Verb.CONSUME)
async def claim_entries(
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    group: GroupDep,
    consumer: ConsumerDep,
    claim: Claim,
) -> Response:
    """Claim pending entries by id (XCLAIM). Entries idle for less than `min_idle_ms` are skipped.

    The answer ends before the first entry that exceeds `read_bytes_max`. Claim the remaining
    entries with another request.
    """
    claiming = ClaimRequest(
        stream,
        group,
        consumer,
        _ids(claim.ids, limits),
        claim.min_idle_ms,
        idle_ms=claim.idle_ms,
        time_ms=claim.time_ms,
        retry_count=claim.retry_count,
        force=claim.force,
        just_id=claim.just_id,
        size_bytes_max=limits.read_bytes_max,
    )
    claimed = await access.perform(claiming)
    return json_answer(await _wire_claimed(claimed, just_id=claim.just_id))


@router.post(
    "/autoclaim",
    operation_id="autoclaimEntries",
    response_model=Autoclaimed,
    responses=_TAKE | responses("limit_reached"),
)
@needs(Verb.CONSUME)
async def autoclaim_entries(
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    group: GroupDep,
    consumer: ConsumerDep,
    wanted: Autoclaim,
) -> Response:
    """Claim idle entries in the order of their ids (XAUTOCLAIM), page by page.

    The last page has `0-0` in `next`. A page has about `read_bytes_max` of names and values.
    """
    check_at_most(wanted.limit, limits.ids_max, pointer="/body/limit")
    start = parse_bound(wanted.start, field="/body/start")
    claimed = await access.perform(
        AutoclaimRequest(
            stream,
            group,
            consumer,
            min_idle_ms=wanted.min_idle_ms,
            start=start,
            limit=wanted.limit,
            just_id=wanted.just_id,
            size_bytes_max=limits.read_bytes_max,
        )
    )
    page: Autoclaimed = {
        **await _wire_claimed(claimed, just_id=wanted.just_id),
        "next": str(claimed.next_start),
    }
    return json_answer(page)


async def _wire_claimed(claimed: EngineClaimed, *, just_id: bool) -> Claimed:
    page: Claimed = {
        "ids": [str(item.id) for item in claimed.deliveries],
        "deleted_ids": [str(item) for item in claimed.deleted_ids],
    }
    if not just_id:
        page["entries"] = await _wire(claimed.deliveries)
    return page


async def _wire(deliveries: Sequence[Delivery]) -> Any:
    there = [delivery for delivery in deliveries if delivery.fields is not None]
    return await array_in_turns(there, delivery_wire)


@router.get("/pending", operation_id="listPending", response_model=PendingEntries, responses=_FIND)
@needs(Verb.CONSUME)
async def list_pending(
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    group: GroupDep,
    start: Annotated[
        BoundText,
        Query(
            description="From this id, inclusive; `-` for the first entry, or `(id` to exclude "
            "the id."
        ),
    ] = "-",
    end: Annotated[
        BoundText,
        Query(
            description="Up to this id, inclusive; `+` for the last entry, or `(id` to exclude "
            "the id."
        ),
    ] = "+",
    limit: Annotated[int, Query(ge=1, description="Maximum number of entries.")] = 100,
    consumer: Annotated[
        NameText | None, Query(description="Only entries that this consumer holds.")
    ] = None,
    min_idle_ms: Annotated[
        int,
        Query(ge=0, le=COUNT_MAX, description="Only entries that have been idle for this long."),
    ] = 0,
) -> Response:
    """List pending entries by id (XPENDING), with their consumers and idle times."""
    check_at_most(limit, limits.read_entries_max, pointer="/query/limit")
    listing = ListPending(
        stream,
        group,
        start=parse_bound(start, field="/query/start"),
        end=parse_bound(end, field="/query/end", is_end=True),
        limit=limit,
        consumer=None if consumer is None else check_name(consumer, pointer="/query/consumer"),
        min_idle_ms=min_idle_ms,
    )
    pending = await access.perform(listing)
    answer: PendingEntries = {"pending": await array_in_turns(pending, pending_wire)}
    return json_answer(answer)


@router.get(
    "/pending/summary",
    operation_id="summarizePending",
    response_model=PendingSummary,
    responses=_FIND,
)
@needs(Verb.CONSUME)
async def pending_summary(access: AccessDep, stream: StreamDep, group: GroupDep) -> Response:
    """Summarize the pending entries of a group and its consumers (XPENDING).

    The answer lists at most 5,000 consumers. `consumers_left_out` is the number of further
    consumers that hold entries.
    """
    summary = await access.perform(SumPending(stream, group))
    answer: PendingSummary = {
        "count": summary.total,
        "min_id": None if summary.min_id is None else str(summary.min_id),
        "max_id": None if summary.max_id is None else str(summary.max_id),
        "consumers": await array_in_turns(summary.consumers, holder_wire),
        "consumers_left_out": summary.holder_count - len(summary.consumers),
    }
    return json_answer(answer)


def _ids(texts: Sequence[str], limits: Limits, *, pointer: str = "/body/ids") -> list[EntryId]:
    check_at_most(len(texts), limits.ids_max, pointer=pointer)
    return parse_ids(texts, field=pointer)
