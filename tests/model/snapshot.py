"""All there is in a keyspace, as plain values that can be compared."""

from __future__ import annotations

from typing import Any

from headgate.engine.decisions.details import group_details
from headgate.engine.decisions.streams import stream_info
from headgate.engine.entry import MAX_ID, MIN_ID
from headgate.engine.replies import GroupDetail, StreamInfo
from headgate.engine.requests.streams import DetailStream
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import Memory
from headgate.engine.state.stream import Stream

_NOW_MS = 10**12
"""Later than any test, so that no idle time is cut off at zero."""


def snapshot(keyspace: Keyspace) -> dict[str, Any]:
    """Return everything a future command could depend on."""
    return {
        "epoch": keyspace.epoch,
        "clock": (keyspace.clock_set_ms, keyspace.latest_ms),
        "retaining": sorted(keyspace.retaining),
        "keyed": sorted(keyspace.keyed),
        "governed": [name for name in keyspace.governed if _is_governed(keyspace.streams[name])],
        "expiring": list(keyspace.expiring),
        "defaults": keyspace.defaults,
        "former_ids": list(keyspace.former_ids.items()),
        "memory": _memory(keyspace.memory),
        "writers": list(keyspace.writers.by_name.items()),
        "schedules": list(keyspace.schedules.by_name.values()),
        "wakes": list(keyspace.schedules.wakes),
        "streams": [_stream(keyspace, stream) for stream in keyspace.streams.values()],
    }


def _is_governed(stream: Stream) -> bool:
    """Tell whether something is done by time; a stream may have had entries with times before."""
    groups = stream.groups.values()
    return bool(stream.deadlines) or any(group.policy.acts_by_time for group in groups)


def _memory(memory: Memory) -> tuple[int, ...]:
    """Return the kinds of memory that are the same whatever is cold."""
    return (
        memory.streams_bytes,
        memory.groups_bytes,
        memory.pending_bytes,
        memory.keys_bytes,
        memory.schedules_bytes,
    )


def _stream(keyspace: Keyspace, stream: Stream) -> dict[str, Any]:
    return {
        "info": unsized(stream_info(keyspace, stream.name)),
        "attributes": stream.attributes,
        "rows": None if stream.table is None else list(stream.table.rows.walk()),
        "former_id": stream.former_id,
        "entries": stream.log.range(MIN_ID, MAX_ID),
        "everything": stream.everything.range(MIN_ID, MAX_ID),
        "details": _details(keyspace, stream),
        "trimmed_through": stream.trimmed_through,
        "times": None if stream.deadlines is None else list(stream.deadlines.items()) or None,
        "expires_at_ms": stream.expires_at_ms,
        "keys": [(name, list(keys.items())) for name, keys in stream.keys.by_producer.items()],
        "keys_used": (stream.keys.added, stream.keys.duplicates),
        "groups": [_group(stream, group) for group in stream.groups.values()],
    }


def _details(keyspace: Keyspace, stream: Stream) -> list[GroupDetail]:
    """Describe groups without the times that depend on how entries lie in memory."""
    details = group_details(keyspace, DetailStream(stream.name, count=None), _NOW_MS)
    return [
        each._replace(info=each.info._replace(waiting_since_ms=None, idle_since_ms=None))
        for each in details
    ]


def unsized(info: StreamInfo) -> StreamInfo:
    """Return a description of a stream without its sizes."""
    return info._replace(hot_bytes=None, cold_bytes=None, timed_count=0)


def _group(stream: Stream, group: Group) -> dict[str, Any]:
    return {
        "policy": group.policy,
        "later": [] if group.pel.turns is None else list(group.pel.turns.later()),
        "delayed_until_ms": [(entry.id, entry.delayed_until_ms) for entry in group.pel.walk()],
        # Entries that are gone from the stream may be left out of this order, or not yet.
        "longest_idle_first": [
            pending.id
            for pending in group.pel.longest_idle_first(_NOW_MS)
            if stream.log.get(pending.id) is not None
        ],
        "consumers": [
            (
                consumer.name,
                consumer.seen_at_ms,
                consumer.active_at_ms,
                list(consumer.pending.walk()) == held_by(group, consumer.name),
            )
            for consumer in group.consumers.values()
        ],
    }


def held_by(group: Group, consumer: bytes) -> list[Any]:
    """Return a consumer's part of the group's PEL, looked up from the group's side."""
    return [
        pending
        for pending in group.pel.walk()
        if pending.owner is not None and pending.owner.name == consumer
    ]
