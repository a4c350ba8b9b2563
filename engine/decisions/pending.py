"""Views of pending entries: XPENDING."""

from __future__ import annotations

from itertools import islice
from typing import cast

from msgspec.structs import replace

from headgate.engine.decisions import Decision, Decisions
from headgate.engine.limits import DESCRIBED_MAX, PENDING_SCAN_MAX
from headgate.engine.replies import PendingItem, PendingSummary
from headgate.engine.requests.deliveries import ListPending, SumPending
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.ordered import OrderedView
from headgate.engine.state.pending import Consumer, Pel, PendingEntry


def list_pending(
    keyspace: Keyspace, request: ListPending, now_ms: int
) -> Decision[list[PendingItem]]:
    """List pending entries in id order (XPENDING, the long form).

    A long list is made in parts, with other requests in between. Each part shows the state at its
    own moment.
    """
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
    """Describe a pending entry."""
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


DECISIONS: Decisions = {
    ListPending: list_pending,
    SumPending: sum_pending,
}
