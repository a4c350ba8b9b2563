"""Pending entries: list them, sum them up (XPENDING)."""

from __future__ import annotations

from typing import Any

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import read_id
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function, by_operation
from headgate.engine.entry import MAX_ID
from headgate.engine.limits import DESCRIBED_MAX
from headgate.engine.replies import PendingItem, PendingSummary
from headgate.engine.requests.deliveries import ListPending, SumPending

NOBODY = b"\0released"
"""The consumer that has, for the servers, the entries that nobody owns."""


_LISTED_AT_ONCE_MAX = 1_000
"""Pending entries that one call lists. Each one takes about 1 µs."""


async def list_pending(client: Client, request: ListPending) -> list[PendingItem]:
    """List pending entries in id order (XPENDING, the long form), a page with each call."""
    start = request.start
    items: list[PendingItem] = []
    while True:
        limit = min(request.limit - len(items), _LISTED_AT_ONCE_MAX)
        page = await client.perform(Effect.READ, request, start=start, limit=max(limit, 0))
        items += map(_read_item, page)
        if len(page) < limit or len(items) >= request.limit or items[-1].id == MAX_ID:
            return items
        start = items[-1].id.next()


def _read_summary(reply: Any) -> PendingSummary:
    total, first, last, holders = reply
    by_name = sorted((name, int(count)) for name, count in holders)
    return PendingSummary(
        total=total,
        min_id=None if first is None else read_id(first),
        max_id=None if last is None else read_id(last),
        consumers=by_name[:DESCRIBED_MAX],
        holder_count=len(by_name),
    )


def _read_item(item: Any) -> PendingItem:
    entry_id, owner, idle_ms, count, delay_ms, error, before = item
    if owner is None or owner == NOBODY:
        waits_for = None if before is None else read_id(before)
        return PendingItem(read_id(entry_id), None, None, int(count), delay_ms, error, waits_for)
    return PendingItem(read_id(entry_id), owner, idle_ms, int(count), last_error=error)


PERFORMERS: Performers = {
    ListPending: by_function(list_pending),
    SumPending: by_operation(Effect.READ, _read_summary),
}
