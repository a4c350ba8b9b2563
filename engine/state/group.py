"""Group: a shared reading position, its consumers, their pending entries, counts and pace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self

from sortedcontainers import SortedDict

from headgate.engine.config import NO_POLICY, GroupPolicy
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.state.ahead import Ahead, AheadRun
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
        "ahead",
        "consumers",
        "entries_read",
        "formerly_ahead",
        "has_claimed_last",
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
        # What is up to `last_id` and not delivered yet, if the policy is fair; and what still is
        # ahead by the fields of policies before it, all of it behind what is in `ahead`.
        self.ahead: Ahead | None = None
        self.formerly_ahead: tuple[Ahead, ...] = ()
        self.has_claimed_last = False  # the last read has claimed something

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
        at_once = policy.key_turns
        is_other_bound = self.pel.turns is not None and self.pel.turns.at_once != at_once
        self.policy = policy
        self.pel.bound_keys(at_once, is_noted=policy.is_fair)
        ahead, fields = self.ahead, (policy.fair_field, policy.priority_field)
        if ahead is None or ahead.fields != fields:
            self.formerly_ahead = tuple(each for each in self.indexes if each)
            self.ahead = ahead = Ahead(*fields, self._memory) if policy.is_fair else None
        if self.pel.turns is not None:
            self.pel.turns.tell(ahead)
        if ahead is not None:
            ahead.set_rules(policy.weights, policy.priority_age_ms)
            if is_other_bound:
                ahead.check_all()

    @property
    def indexes(self) -> Sequence[Ahead]:
        """Return what is ahead, in order of ids: all of one is below all of the next."""
        return self.formerly_ahead if self.ahead is None else (self.ahead, *self.formerly_ahead)

    @property
    def ahead_count(self) -> int:
        return sum(map(len, self.indexes)) if self.ahead or self.formerly_ahead else 0

    @property
    def delivered_count(self) -> int | None:
        """Return its place counted in entries ever added, without those ahead; None: unknown."""
        return None if self.entries_read is None else max(self.entries_read - self.ahead_count, 0)

    @property
    def is_ready(self) -> bool:
        """Tell whether something ahead may be delivered now."""
        return bool(self.formerly_ahead) or (self.ahead is not None and self.ahead.is_ready)

    @property
    def position(self) -> EntryId:
        """Return the id up to which everything was delivered."""
        first_id = next((each.first_id for each in self.indexes if each), None)
        return self.last_id if first_id is None else first_id.previous()

    def index(self, entries: Iterable[tuple[EntryId, bytes | None, int]], last_id: EntryId) -> None:
        """Take in entries that lie ahead by now, each with its key and its priority."""
        assert self.ahead is not None
        turns, through = self.pel.turns, MIN_ID
        for entry_id, key, priority in entries:
            rests = turns is not None and key is not None and turns.room(key) == 0
            self.ahead.add(entry_id, key, priority, rests=rests)
            through = entry_id
        if self.formerly_ahead:
            self.drop_through(self.formerly_ahead, through)
        self.last_id = max(self.last_id, last_id)

    def drop_through(self, indexes: Sequence[Ahead], through: EntryId) -> None:
        for each in indexes:
            each.trim(through)
        self.formerly_ahead = tuple(each for each in self.formerly_ahead if each)

    def dump_indexes(self) -> Iterator[AheadRun]:
        """Yield what is ahead, in order of turns."""
        for index in self.indexes:
            yield from index.dump(is_former=index is not self.ahead)

    def load_indexes(self, runs: Iterable[AheadRun]) -> None:
        """Take over what was dumped; of each group, all runs in order."""
        for run in runs:
            index = self.ahead
            if run.is_former:
                index = self.formerly_ahead[-1] if self.formerly_ahead else None
                if index is None or index.fields != run.fields:
                    index = Ahead(*run.fields, self._memory)
                    self.formerly_ahead += (index,)
            assert index is not None
            index.load(run)

    def take_ahead(self, ids: Sequence[EntryId], keys: Sequence[bytes | None]) -> None:
        """Remove entries that were ahead, in order of their turns; keys without room rest."""
        ahead, turns = self.ahead, self.pel.turns
        if ahead is None:
            return
        if turns is None or turns.at_once is None:
            ahead.take(ids, keys)
        elif not ahead.weights:
            ahead.take(ids, keys)
            self._rest(keys)
        else:  # a turn ends as soon as its key has no room
            for entry_id, key in zip(ids, keys, strict=True):
                ahead.take((entry_id,), (key,))
                self._rest((key,))

    def _rest(self, keys: Sequence[bytes | None]) -> None:
        ahead, turns = self.ahead, self.pel.turns
        assert ahead is not None
        assert turns is not None
        for key in ahead.having_turns(keys):
            if key is not None and turns.room(key) == 0:
                ahead.rest(key)

    def move(self, last_id: EntryId, entries_read: int | None) -> Iterable[Pieces]:
        """Set the position; returns what was ahead, and is not any more."""
        self.last_id, self.entries_read = last_id, entries_read
        gone = [each for each in self.indexes if each]
        self.formerly_ahead = ()
        if self.ahead:
            self.ahead = None
            self.set_policy(self.policy)
        for each in gone:
            each.leave()
        return [each.dismantle() for each in gone]

    def leave(self) -> None:
        self._grow(-self.memory_bytes)
        self._memory.pending_bytes -= self.pel.memory_bytes
        for each in self.indexes:
            each.leave()

    def _grow(self, size_bytes: int) -> None:
        self.memory_bytes += size_bytes
        self._memory.groups_bytes += size_bytes

    def dismantle(self) -> Pieces:
        while self.consumers:
            yield from self.consumers.popitem()[1].dismantle()
            yield
        yield from self.pel.dismantle()
        for each in self.indexes:
            yield from each.dismantle()

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
