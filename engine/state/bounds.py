"""Bounds: how many streams, groups, consumers, producers and schedules there may be.

Decisions check the bounds before they make another one. `apply` does not check: what was recorded
is applied. So everything that exists goes on when a bound is lowered, and only new things are
refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from headgate.engine.errors import LimitReached
from headgate.engine.limits import (
    ATTRIBUTES_BYTES_MAX,
    ATTRIBUTES_MAX,
    CONSUMERS_MAX,
    GROUPS_MAX,
    PRODUCERS_MAX,
    SCHEDULES_MAX,
    STREAMS_MAX,
    TIMED_MAX,
)
from headgate.engine.requests.idempotency import owner_prefix
from headgate.engine.state.group import Group
from headgate.engine.state.stream import Stream, attribute_bytes


class KeyspaceBounds(NamedTuple):
    """The bounds of a keyspace. Each check raises `LimitReached` if there is no room."""

    streams_max: int = STREAMS_MAX
    groups_max: int = GROUPS_MAX  # of a stream
    consumers_max: int = CONSUMERS_MAX  # of a group
    producers_max: int = PRODUCERS_MAX  # of idempotency keys, of a stream
    schedules_max: int = SCHEDULES_MAX
    timed_max: int = TIMED_MAX  # entries of a stream that have times

    def check_another_stream(self, stream_count: int) -> None:
        if stream_count >= self.streams_max:
            raise LimitReached("streams", self.streams_max)

    def check_another_schedule(self, schedule_count: int) -> None:
        if schedule_count >= self.schedules_max:
            raise LimitReached("schedules", self.schedules_max)

    def check_another_group(self, stream: Stream) -> None:
        if len(stream.groups) >= self.groups_max:
            raise LimitReached("groups in this stream", self.groups_max)

    def check_consumer(self, group: Group, name: bytes) -> None:
        if name not in group.consumers and len(group.consumers) >= self.consumers_max:
            raise LimitReached("consumers in this group", self.consumers_max)

    def check_timed(self, stream: Stream, more: int) -> None:
        count = 0 if stream.deadlines is None else len(stream.deadlines)
        if count + more > self.timed_max:
            raise LimitReached("entries with times in this stream", self.timed_max)

    def check_attributes(self, stream: Stream, values: Mapping[bytes, bytes | None]) -> None:
        count, size_bytes = len(stream.attributes), stream.attributes_bytes
        for name, value in values.items():
            before = stream.attributes.get(name)
            count += (value is not None) - (before is not None)
            size_bytes += attribute_bytes(name, value) - attribute_bytes(name, before)
        if count > len(stream.attributes) and count > ATTRIBUTES_MAX:
            raise LimitReached("attributes of this stream", ATTRIBUTES_MAX)
        if size_bytes > max(stream.attributes_bytes, ATTRIBUTES_BYTES_MAX):
            raise LimitReached("bytes of attributes of this stream", ATTRIBUTES_BYTES_MAX)

    def check_producer(self, stream: Stream, name: bytes) -> None:
        """Check that a producer may have keys; those of one owner take half of the room at most."""
        producers, share = stream.keys.by_producer, self.producers_max // 2
        if name in producers:
            return
        if len(producers) >= self.producers_max:
            raise LimitReached("producers in this stream", self.producers_max)
        prefix = owner_prefix(name) if len(producers) >= share else b""
        if prefix and sum(each.startswith(prefix) for each in producers) >= share:
            raise LimitReached("producers of one owner in this stream", share)
