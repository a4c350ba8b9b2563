"""Replies: what servers answer about streams, as values of the port.

Servers before 7.0 do not know `entries-added`, `max-deleted-entry-id` and `entries-read`. For the
first, the number of entries stands, as when Redis 7 loads a file of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.app.backends.plain.commands import NOBODY
from headgate.app.backends.redis.faults import read_id
from headgate.engine.config import NO_POLICY, StreamConfig
from headgate.engine.entry import MIN_ID, Entry, EntryId, make_entries, make_ids
from headgate.engine.replies import (
    ConsumerInfo,
    GroupInfo,
    PendingItem,
    PendingSummary,
    StreamInfo,
)

REDIS_KEYS = 100_000, 100
"""Redis's defaults of idempotency keys: their time in milliseconds, and their number."""


def read_stream(name: bytes, reply: Sequence[Any]) -> StreamInfo:
    """Return a stream from the reply to XINFO STREAM."""
    facts = _facts(reply)
    first = facts.get(b"first-entry")
    return StreamInfo(
        name=name,
        epoch=0,
        config=_config(facts),
        length=facts[b"length"],
        chunk_count=facts[b"radix-tree-nodes"],
        first_id=read_id(first[0]) if first else MIN_ID,
        last_id=read_id(facts[b"last-generated-id"]),
        max_deleted_id=read_id(facts.get(b"max-deleted-entry-id", b"0-0")),
        trimmed_through=MIN_ID,
        entries_added=facts.get(b"entries-added", facts[b"length"]),
        group_count=facts[b"groups"],
    )


def _config(facts: dict[bytes, Any]) -> StreamConfig:
    """Return the configuration of a stream (XCFGSET), if it has one of its own."""
    duration_s, keys_max = facts.get(b"idmp-duration"), facts.get(b"idmp-maxsize")
    if duration_s is None or (duration_s * 1000, keys_max) == REDIS_KEYS:
        return StreamConfig()
    return StreamConfig(idempotency_window_ms=duration_s * 1000, idempotency_max=keys_max)


def read_groups(reply: Sequence[Any]) -> list[GroupInfo]:
    """Return the groups of a stream, by name, from the reply to XINFO GROUPS."""
    groups = [
        GroupInfo(
            name=facts[b"name"],
            last_id=read_id(facts[b"last-delivered-id"]),
            entries_read=facts.get(b"entries-read"),
            lag=facts.get(b"lag"),
            pending_count=facts[b"pending"],
            released_count=0,
            consumer_count=facts[b"consumers"],
            policy=NO_POLICY,
        )
        for facts in map(_facts, reply)
    ]
    return sorted(groups)


def read_consumers(reply: Sequence[Any]) -> list[ConsumerInfo]:
    """Return the consumers of a group, by name, from the reply to XINFO CONSUMERS."""
    consumers = [
        ConsumerInfo(facts[b"name"], facts[b"pending"], facts[b"idle"], None)
        for facts in map(_facts, reply)
        if facts[b"name"] != NOBODY
    ]
    return sorted(consumers)


def read_pending(reply: Sequence[Any]) -> list[PendingItem]:
    """Return pending entries from the reply to XPENDING, the long form."""
    return [
        PendingItem(read_id(entry_id), None, None, count)
        if consumer == NOBODY
        else PendingItem(read_id(entry_id), consumer, idle_ms, count)
        for entry_id, consumer, idle_ms, count in reply
    ]


def read_summary(reply: Sequence[Any]) -> PendingSummary:
    """Return the summary in a short reply of XPENDING, without its consumers."""
    total, first, last, _ = reply
    return PendingSummary(total, _optional_id(first), _optional_id(last), [], 0)


def read_entries(reply: Sequence[Any]) -> list[Entry]:
    """Return entries from the reply to XRANGE or XREVRANGE."""
    if not reply:
        return []
    ids = make_ids(map(int, b"-".join([entry_id for entry_id, _ in reply]).split(b"-")))
    return make_entries(ids, [tuple(fields) for _, fields in reply])


def _optional_id(text: bytes | None) -> EntryId | None:
    return None if text is None else read_id(text)


def _facts(reply: Sequence[Any]) -> dict[bytes, Any]:
    each = iter(reply)
    return dict(zip(each, each, strict=True))
