"""Descriptions: groups, consumers and deliveries as the servers write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.app.backends.redis.faults import read_id
from headgate.app.backends.redis.settings import read_settings
from headgate.engine.config import GroupPolicy
from headgate.engine.replies import ConsumerInfo, Delivery, GroupInfo

NOBODY = b"\0released"
"""The consumer that has, for the servers, the entries that nobody owns."""


def read_group_info(description: Sequence[Any]) -> GroupInfo:
    """Return a group's description by `describe_group`."""
    facts = _by_name(description[0])
    nobodys_count, hidden_count, policy = description[1]
    return GroupInfo(
        name=facts[b"name"],
        last_id=read_id(facts[b"last-delivered-id"]),
        entries_read=facts[b"entries-read"],
        lag=facts[b"lag"],
        pending_count=facts[b"pending"],
        released_count=nobodys_count,
        consumer_count=facts[b"consumers"] - hidden_count,
        policy=read_settings(GroupPolicy, policy),
    )


def read_consumer_info(description: Sequence[Any]) -> ConsumerInfo:
    """Return a consumer's description by XINFO CONSUMERS.

    Redis 7.0 does not say when a consumer last got something. Then its last attempt counts.
    """
    facts = _by_name(description)
    inactive_ms = facts.get(b"inactive", facts[b"idle"])
    return ConsumerInfo(
        name=facts[b"name"],
        pending_count=facts[b"pending"],
        idle_ms=facts[b"idle"],
        inactive_ms=None if inactive_ms < 0 else inactive_ms,
    )


def read_deliveries(deliveries: Sequence[Sequence[Any]], *, by_id: bool = False) -> list[Delivery]:
    """Return deliveries of pending entries.

    Args:
        deliveries: each with id, fields, idle time, delivery count before, from whom it was taken,
            delivery count from now on, and last error.
        by_id: the entries were claimed by id or by page, so the count from now on is kept.
    """
    return [
        Delivery(
            read_id(entry_id),
            None if fields is None else tuple(fields),
            idle_ms,
            int(before),
            claimed_from,
            int(count) if by_id else None,
            error,
        )
        for entry_id, fields, idle_ms, before, claimed_from, count, error in deliveries
    ]


def _by_name(pairs: Sequence[Any]) -> Mapping[bytes, Any]:
    return dict(zip(pairs[::2], pairs[1::2], strict=True))
