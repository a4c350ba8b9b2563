"""Details: groups with their contents (XINFO STREAM FULL), pending entries (XPENDING), measures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import cast

from msgspec.structs import replace

from headgate.engine.attention import attention_of, severity_of
from headgate.engine.decisions import Decision, Decisions
from headgate.engine.decisions.group_keys import longest_waits
from headgate.engine.decisions.groups import consumer_info, group_info
from headgate.engine.decisions.name_ranges import NameRange, beginning_with, following, shown_by
from headgate.engine.limits import DESCRIBED_MAX, OBSERVED_AT_ONCE_MAX, PENDING_SCAN_MAX
from headgate.engine.replies import (
    GroupDetail,
    Observation,
    ObservedGroup,
    ObservedStream,
    PendingItem,
    PendingSummary,
)
from headgate.engine.requests.deliveries import ListPending, SumPending
from headgate.engine.requests.streams import DetailStream, Observe
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.ordered import OrderedView
from headgate.engine.state.pending import Consumer, Pel, PendingEntry
from headgate.engine.state.stream import Stream


def list_pending(
    keyspace: Keyspace, request: ListPending, now_ms: int
) -> Decision[list[PendingItem]]:
    """List pending entries in id order (XPENDING, the long form), each part as it is then."""
    group = keyspace.group(request.stream, request.group)
    pel: Pel | OrderedView[PendingEntry] = group.pel
    if request.consumer is not None:
        if request.consumer not in group.consumers:
            return Decision([], [])
        pel = group.consumers[request.consumer].pending
    items: list[PendingItem] = []
    steady_ms = keyspace.steady_ms(now_ms)
    for looked_at, pending in enumerate(pel.walk(request.start)):
        if pending.id > request.end or len(items) >= request.limit:
            break
        if looked_at == PENDING_SCAN_MAX:
            left = replace(request, start=pending.id, limit=request.limit - len(items))

            def go_on(keyspace: Keyspace, now_ms: int) -> Decision[list[PendingItem]]:
                more = list_pending(keyspace, left, now_ms)  # noqa: B023
                return more.replied_as(lambda later: items + later)

            return Decision(items, [], go_on)
        if pending.owner is None or pending.idle_ms(steady_ms) >= request.min_idle_ms:
            items.append(pending_item(group.pel, pending, steady_ms))
    return Decision(items, [])


def sum_pending(keyspace: Keyspace, request: SumPending, now_ms: int) -> Decision[PendingSummary]:
    """Summarize the pending entries and the consumers that hold them (XPENDING, the short form).

    This is done in one step, so the consumers are visited in the order that is fastest, and only
    those with pending entries are sorted by name.
    """
    del now_ms
    group = keyspace.group(request.stream, request.group)
    first, last = group.pel.first(), group.pel.last()
    in_any_order = dict.values(cast("dict[bytes, Consumer]", group.consumers))
    holders = [consumer for consumer in in_any_order if consumer.pending]
    if len(holders) > DESCRIBED_MAX:
        by_name = (consumer for consumer in group.consumers.values() if consumer.pending)
        described = list(islice(by_name, DESCRIBED_MAX))
    else:
        described = sorted(holders, key=lambda consumer: consumer.name)
    summary = PendingSummary(
        total=len(group.pel),
        min_id=None if first is None else first.id,
        max_id=None if last is None else last.id,
        consumers=[(consumer.name, len(consumer.pending)) for consumer in described],
        holder_count=len(holders),
    )
    return Decision(summary, [])


def pending_item(pel: Pel, pending: PendingEntry, steady_ms: int) -> PendingItem:
    owner, count, error = pending.owner, pending.delivery_count, pel.errors.get(pending.id)
    if owner is None:
        if pending.is_held and pel.turns is not None:
            first = min(pel.turns.before(pending.id), default=None)
            delay_ms = max((pel.turns.due_ms(pending.id) or 0) - steady_ms, 0)
            return PendingItem(pending.id, None, None, count, delay_ms, error, first)
        delay_ms = max(pending.delayed_until_ms - steady_ms, 0)
        return PendingItem(pending.id, None, None, count, delay_ms, error)
    idle_ms = pending.idle_ms(steady_ms)
    return PendingItem(pending.id, owner.name, idle_ms, count, last_error=error)


DECISIONS: Decisions = {ListPending: list_pending, SumPending: sum_pending}


def group_details(keyspace: Keyspace, request: DetailStream, now_ms: int) -> list[GroupDetail]:
    """Describe groups: within `described_max` first all groups, then the contents of each."""
    stream, steady_ms = keyspace.stream(request.stream), keyspace.steady_ms(now_ms)
    details, left = [], request.described_max
    groups = list(islice(stream.groups.values(), left))
    left = _without(left, groups)
    for group in groups:
        info = group_info(keyspace, stream, group)
        if left == 0:
            details.append(GroupDetail(info, [], []))
            continue
        pending = islice(group.pel.walk(), _smaller(request.count, left))
        items = [pending_item(group.pel, each, steady_ms) for each in pending]
        left = _without(left, items)
        consumers = islice(group.consumers.values(), left)
        infos = [consumer_info(each, steady_ms) for each in consumers]
        left = _without(left, infos)
        details.append(GroupDetail(info, items, infos))
    return details


def _smaller(count: int | None, left: int | None) -> int | None:
    return left if count is None else count if left is None else min(count, left)


def _without(left: int | None, taken: Sequence[object]) -> int | None:
    return None if left is None else left - len(taken)


def observed(keyspace: Keyspace, request: Observe, now_ms: int) -> Observation:
    measured: list[ObservedStream] = []
    after, room = request.after, request.limit
    for name in _observed_names(keyspace, request):
        if room <= max(request.limit - OBSERVED_AT_ONCE_MAX, 0):
            break
        stream = _observed_stream(keyspace, keyspace.streams[name], room - 1, now_ms)
        measured.append(stream)
        after, room = name, room - 1 - len(stream.groups)
    left_out = sum(len(names.places(keyspace)) for names in _observed_ranges(request, after))
    return Observation(measured, left_out)


def _observed_names(keyspace: Keyspace, request: Observe) -> Iterator[bytes]:
    for names in _observed_ranges(request, request.after):
        yield from names.among(keyspace)


def _observed_ranges(request: Observe, after: bytes | None) -> Iterator[NameRange]:
    asked = beginning_with(b"") if after is None else NameRange(following(after), None)
    for shown in shown_by(request.only):
        names = shown.within(asked)
        if names is not None:
            yield names


def _observed_stream(
    keyspace: Keyspace, stream: Stream, groups_max: int, now_ms: int
) -> ObservedStream:
    groups = list(islice(stream.groups.values(), groups_max))
    return ObservedStream(
        name=stream.name,
        length=stream.log.length,
        hot_bytes=stream.log.memory_bytes,
        cold_bytes=stream.log.extents.size_bytes,
        added_count=stream.entries_added,
        groups=[_observed_group(keyspace, stream, group, now_ms) for group in groups],
        groups_left_out=len(stream.groups) - len(groups),
        archived_count=0 if stream.archive is None else stream.archive.length,
    )


def _observed_group(keyspace: Keyspace, stream: Stream, group: Group, now_ms: int) -> ObservedGroup:
    oldest, activity = group.pel.longest_held(), group.activity
    info = group_info(keyspace, stream, group)
    return ObservedGroup(
        name=group.name,
        lag=info.lag,
        pending_count=info.pending_count,
        delayed_count=info.delayed_count,
        oldest_pending_ms=0 if oldest is None else oldest.idle_ms(keyspace.steady_ms(now_ms)),
        delivered_count=activity.delivered_count,
        redelivered_count=activity.redelivered_count,
        passed_count=activity.passed_count,
        expired_count=activity.expired_count,
        acked_count=activity.acked_count,
        dead_letter_count=activity.dead_letter_count,
        severity=severity_of(attention_of(info, now_ms)),
        waits=longest_waits(group.ahead, now_ms),
    )
