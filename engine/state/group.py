"""Group: a shared reading position, its consumers, their pending entries, counts and pace."""

from __future__ import annotations

from typing import NamedTuple, Self

from sortedcontainers import SortedDict

from headgate.engine.config import NO_POLICY, GroupPolicy
from headgate.engine.entry import EntryId
from headgate.engine.state.memory import (
    CONSUMER_BYTES,
    CONSUMERS_BYTES,
    GROUP_BYTES,
    Memory,
    Pieces,
    free,
)
from headgate.engine.state.pending import Consumer, Pel

_NO_CONSUMERS: SortedDict[bytes, Consumer] = SortedDict()
"""Of every group that never had one: an empty one takes more than the rest of the group."""


class Activity:
    """Counts of one group, or of all, since the start. They are never recorded."""

    __slots__ = (
        "acked_count",
        "dead_letter_count",
        "delivered_count",
        "expired_count",
        "passed_count",
        "redelivered_count",
    )

    def __init__(self) -> None:
        self.delivered_count = 0  # for the first time
        self.redelivered_count = 0  # again, to the same consumer or to another one
        self.passed_count = 0  # not delivered, as filters did not let them through
        self.expired_count = 0  # not delivered, or not again, as their deadline was over
        self.acked_count = 0
        self.dead_letter_count = 0  # moved to the dead letter stream


class Group:
    __slots__ = (
        "_memory",
        "activity",
        "consumers",
        "entries_read",
        "last_id",
        "memory_bytes",
        "name",
        "pel",
        "policy",
        "rate_used_ms",
    )

    def __init__(
        self, name: bytes, last_id: EntryId, entries_read: int | None, memory: Memory | None = None
    ) -> None:
        self._memory = memory or Memory()
        self.memory_bytes = 0  # what it takes with its consumers, without what is pending
        self._grow(GROUP_BYTES + len(name))
        self.name = name
        self.last_id = last_id  # last delivered id; the next read starts after it
        self.entries_read = entries_read  # its place counted in entries ever added; None: unknown
        self.policy = NO_POLICY
        self.rate_used_ms = 0.0  # see `Pace`; a start begins with all of the burst
        self.activity = Activity()
        self.pel = Pel(self._memory)
        self.consumers = _NO_CONSUMERS

    def see(self, name: bytes, steady_ms: int) -> Consumer:
        consumer = self.consumers.get(name)
        if consumer is None:
            if self.consumers is _NO_CONSUMERS:
                self.consumers = SortedDict()
                self._grow(CONSUMERS_BYTES)
            consumer = self.consumers[name] = Consumer(name, steady_ms)
            self._grow(CONSUMER_BYTES + len(name))
        consumer.seen_at_ms = steady_ms
        return consumer

    def set_policy(self, policy: GroupPolicy) -> None:
        """Go by another policy. Held entries go on waiting, unless keys are not bounded any more.

        Entries that are pending already have no turn.
        """
        self.policy = policy
        self.pel.bound_keys(policy.key_turns)

    def leave(self) -> None:
        self._grow(-self.memory_bytes)
        self._memory.pending_bytes -= self.pel.memory_bytes

    def _grow(self, size_bytes: int) -> None:
        self.memory_bytes += size_bytes
        self._memory.groups_bytes += size_bytes

    def dismantle(self) -> Pieces:
        while self.consumers:
            yield from self.consumers.popitem()[1].dismantle()
            yield
        yield from self.pel.dismantle()

    def forget(self, name: bytes, *, release: bool) -> None:
        consumer = self.consumers.pop(name)
        self._grow(-CONSUMER_BYTES - len(name))
        if not self.consumers:
            self.consumers = _NO_CONSUMERS
            self._grow(-CONSUMERS_BYTES)
        for pending in list(consumer.pending.walk()):
            if release:
                self.pel.release(pending.id, pending.delivery_count)
            else:
                self.pel.remove(pending.id)
        free(consumer.dismantle())


# Pace: how many entries a group may deliver at a time (GCRA, ITU-T I.371).
#
# What was delivered is kept as one time: that at which none of it counts any more. Each delivery
# puts it off by the time between two deliveries. It may be as far ahead as a burst takes.


class Pace(NamedTuple):
    gap_ms: float  # between two deliveries
    burst: int  # deliveries at once, after a rest

    @classmethod
    def of(cls, policy: GroupPolicy) -> Self | None:
        if policy.rate_per_s is None:
            return None
        return cls(1000 / policy.rate_per_s, policy.rate_burst or policy.rate_per_s)

    def allowance(self, used_ms: float, now_ms: int) -> int:
        left_ms = self.burst * self.gap_ms - max(used_ms - now_ms, 0)
        return max(int(left_ms / self.gap_ms + 1e-6), 0)

    def used_after(self, used_ms: float, now_ms: int, count: int) -> float:
        return max(used_ms, now_ms) + count * self.gap_ms

    def free_at_ms(self, used_ms: float) -> int:
        return int(used_ms - (self.burst - 1) * self.gap_ms) + 1
