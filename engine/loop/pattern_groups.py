"""Pattern groups: one group in all streams that match, and which of these may have something.

A read must not look at 100,000 streams to find the few with something. So a `PatternGroup` keeps
those that may have something in order of their turns, and the time at which others will, if only
time has to pass. It looks at all names once, in parts. From then on commands tell it, as they tell
blocked reads (`signals`): a stream that a command may concern joins the rotation, and the next read
looks at it. A look in vain takes it out again. So everything that could be wrong here costs a look,
and what is delivered is decided by the read of that stream alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any

from headgate.engine import commands as c
from headgate.engine.decisions.name_ranges import NameRange, following
from headgate.engine.errors import LimitReached
from headgate.engine.limits import PATTERN_GROUP_IDLE_S, PATTERN_GROUPS_MAX
from headgate.engine.loop import signals
from headgate.engine.loop.concerned import Concerned, NamePattern, WorkInTurns
from headgate.engine.loop.wait_queue import QueueKey
from headgate.engine.loop.waiters import Waiters
from headgate.engine.requests.deliveries import MissingGroups, ReadGroups
from headgate.engine.requests.keyspace import NameFilter
from headgate.engine.state.keyspace import Keyspace

_DUES_MIN = 64
"""Due times before those that are over are dropped."""

_HELD_STREAMS_MAX = 10_000
"""Streams that are looked at to count what a consumer holds. They take 5 ms."""


class PatternGroup(NamePattern):
    """The streams that one kind of read goes through, shared by all consumers that read so."""

    def __init__(self, number: int, request: ReadGroups, epoch: int) -> None:
        """Start without a look at any stream.

        `number` is that of no other, and streams of greater epochs are made later.
        """
        super().__init__(request.pattern, request.only)
        self.group = request.group
        self.epoch = epoch
        # Of the wait queue. An append to a stream of that name would only make readers look.
        self.key = QueueKey(b"\xff\xffgroups %d" % number, request.group)
        self.user_count = 0
        self.waiting_count = 0
        self.timer: asyncio.TimerHandle | None = None
        self.timer_at_ms = 0
        # What each stream has left of its turn: 0 if the turn is still to begin.
        self._rotation: OrderedDict[bytes, int] = OrderedDict()
        # Who got nothing of a stream in the rotation, because of what it holds itself.
        self._passed: dict[bytes, set[bytes]] = {}
        self._passed_counts: Counter[bytes] = Counter()  # streams, by consumer
        self._due_ms: dict[bytes, int] = {}  # steady time when a stream may have something
        self._dues: list[tuple[int, bytes]] = []  # a heap of them, and of earlier ones
        # All streams of which a consumer holds entries, and whether it is known that they match.
        self._held: dict[bytes, dict[bytes, bool]] = {}
        self._next_name: bytes | None = (
            b""  # where the walk over all names goes on; None: it is over
        )

    def __len__(self) -> int:
        return len(self._rotation)

    # The rotation

    def touch(self, name: bytes) -> None:
        """Note that a stream may have something, for any consumer."""
        self._clear_passed(name)
        self._rotation.setdefault(name, 0)

    def next_for(self, consumer: bytes) -> bytes | None:
        """Return the stream whose turn it is, of those that may have something for a consumer."""
        if self._passed_counts[consumer] >= len(self._rotation):
            return None
        while consumer in self._passed.get(name := next(iter(self._rotation)), ()):
            self._rotation.move_to_end(name)
        return name

    def left_of_turn(self, name: bytes, weight: int, limit: int) -> int:
        """Return how many entries a stream may give in this turn, which may begin now.

        Where few streams have something, a turn is longer, so that a read finds its `limit` in one
        round.
        """
        return self._rotation.get(name, 0) or weight * max(limit // max(len(self._rotation), 1), 1)

    def go_on(self, name: bytes, left: int) -> None:
        """Keep a stream in the rotation: at the front, as long as something of its turn is left."""
        self._rotation[name] = max(left, 0)
        self._rotation.move_to_end(name, last=left <= 0)

    def pass_by(self, name: bytes, consumer: bytes) -> None:
        """Note that a stream has nothing for this consumer until the stream is touched again."""
        self.go_on(name, 0)
        passed = self._passed.setdefault(name, set())
        if consumer not in passed:
            passed.add(consumer)
            self._passed_counts[consumer] += 1

    def rest(self, name: bytes) -> None:
        """Note that a stream has nothing until it is touched, or due."""
        self._rotation.pop(name, None)
        self._clear_passed(name)

    def has_nothing_for(self, consumer: bytes) -> bool:
        """Tell whether a consumer gets nothing of streams that others may get something of."""
        return self._passed_counts[consumer] > 0

    def has_passed(self, name: bytes) -> bool:
        return name in self._passed

    def _clear_passed(self, name: bytes) -> None:
        self._passed_counts.subtract(passed := self._passed.pop(name, ()))
        for consumer in passed:
            if not self._passed_counts[consumer]:
                del self._passed_counts[consumer]

    # Time

    def due_at(self, name: bytes, at_ms: int) -> None:
        """Note when a stream may have something, if nothing touches it before."""
        if at_ms >= self._due_ms.get(name, at_ms + 1):
            return
        self._due_ms[name] = at_ms
        heappush(self._dues, (at_ms, name))
        if len(self._dues) > 2 * len(self._due_ms) + _DUES_MIN:
            self._dues = [(due_ms, name) for name, due_ms in self._due_ms.items()]
            heapify(self._dues)

    @property
    def next_due_ms(self) -> int | None:
        return self._dues[0][0] if self._dues else None

    def come_due(self, now_ms: int) -> None:
        while self._dues and self._dues[0][0] <= now_ms:
            at_ms, name = heappop(self._dues)
            if self._due_ms.get(name) == at_ms:
                del self._due_ms[name]
                self.touch(name)

    # What consumers hold

    def hold(self, consumer: bytes, name: bytes, *, is_sure: bool = True) -> None:
        """Note that a consumer may hold entries of a stream; with `is_sure`, the stream matches."""
        names = self._held.setdefault(consumer, {})
        names[name] = is_sure or names.get(name, False)

    def note_holders(self, keyspace: Keyspace, name: bytes) -> None:
        stream = keyspace.find(name)
        group = None if stream is None else stream.groups.get(self.group)
        for consumer in () if group is None else group.consumers.values():
            if consumer.pending:
                self.hold(consumer.name, name)

    def held_streams(self, keyspace: Keyspace, consumer: bytes) -> list[bytes]:
        """Return the streams of which a consumer holds entries, in order."""
        self.count_held(keyspace, consumer)
        return sorted(self._held.get(consumer, ()))

    def count_held(self, keyspace: Keyspace, consumer: bytes) -> int:
        """Count what a consumer holds in all streams; in so many only a part of it."""
        names, total = self._held.get(consumer, {}), 0
        for name in list(islice(names, _HELD_STREAMS_MAX)):
            count = self.held_count(keyspace, consumer, name)
            if count and not names[name]:
                names[name] = self.concerns(name)
            if count and names[name]:
                total += count
            else:
                del names[name]
        if not names:
            self._held.pop(consumer, None)
        return total

    def held_count(self, keyspace: Keyspace, consumer: bytes, name: bytes) -> int:
        stream = keyspace.find(name)
        group = None if stream is None else stream.groups.get(self.group)
        known = None if group is None else group.consumers.get(consumer)
        return 0 if known is None else len(known.pending)

    # All names

    def restart(self) -> None:
        """Look at all names again."""
        self._next_name = b""

    def walk(self, keyspace: Keyspace) -> Iterator[bytes]:
        """Yield the names that match, from where the last walk was left."""
        start = self._next_name
        if start is None:
            return
        for names in self.ranges:
            left = names.within(NameRange(start, None))
            for name in () if left is None else left.among(keyspace):
                if self.matches(name):
                    self._next_name = following(name)
                    yield name
        self._next_name = None


_Kind = tuple[bytes, bytes, NameFilter | None, MissingGroups | None, int | None, bool]


class PatternGroups:
    """All pattern groups. It is told what blocked reads are told (`signals.Notified`)."""

    def __init__(self, waiters: Waiters) -> None:
        """Start without any."""
        self._waiters = waiters
        self._keyspace = Keyspace()
        self._groups: OrderedDict[_Kind, tuple[PatternGroup, float]] = OrderedDict()  # since when
        self._by_name: dict[bytes, list[PatternGroup]] = {}
        self._concerned: Concerned[PatternGroup] = Concerned()
        # Of names that are not known in it: groups (None: all), and whether others hold entries.
        self._news: dict[bytes, dict[bytes | None, bool]] = {}
        self._settling = WorkInTurns(self._settle, waiters)
        self._reading: PatternGroup | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last_number = 0
        self.look_count = 0  # at streams, since the start
        self.delivered_count = 0  # times that any consumer may hold more since

    def __bool__(self) -> bool:
        """Tell whether commands have to be noted."""
        return bool(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def adopt(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        for group, _ in self._groups.values():
            _cancel(group)
        self._groups, self._by_name, self._news = OrderedDict(), {}, {}
        self._concerned = Concerned()

    # Who reads

    def has(self, group: PatternGroup) -> bool:
        """Tell whether a group is told what happens. It is not if the state is another one now."""
        return group in self._by_name.get(group.group, ())

    @contextmanager
    def in_use(self, request: ReadGroups) -> Iterator[PatternGroup]:
        """Keep the group of a read; LimitReached if there are too many that are in use."""
        names = request.pattern, request.group, request.only, request.create
        kind = *names, request.claim_idle_ms, request.claim_own
        known = self._groups.get(kind)
        group = self._made(kind, request) if known is None else known[0]
        group.user_count += 1
        try:
            yield group
        finally:
            group.user_count -= 1
            if self.has(group):
                loop = asyncio.get_running_loop()
                self._groups[kind] = group, loop.time()
                self._groups.move_to_end(kind)
                if self._timer is None:
                    self._timer = loop.call_later(PATTERN_GROUP_IDLE_S, self._look_at_idle)

    def _made(self, kind: _Kind, request: ReadGroups) -> PatternGroup:
        if len(self._groups) >= PATTERN_GROUPS_MAX:
            unused = (kind for kind, (each, _) in self._groups.items() if not each.user_count)
            oldest = next(unused, None)
            if oldest is None:
                raise LimitReached("groups over patterns", PATTERN_GROUPS_MAX)
            self._forget(oldest)
        self._last_number += 1
        create = request.create
        since = None if create is None else create.since_ms  # epochs are times, where they can be
        epoch = self._keyspace.epoch if since is None else since
        group = PatternGroup(self._last_number, request, epoch)
        self._groups[kind] = group, 0.0
        self._by_name.setdefault(group.group, []).append(group)
        self._concerned.add(group)
        return group

    def _look_at_idle(self) -> None:
        loop = asyncio.get_running_loop()
        over_s = loop.time() - PATTERN_GROUP_IDLE_S
        for kind, (group, since_s) in list(self._groups.items()):
            if not group.user_count and since_s <= over_s:
                self._forget(kind)
        self._timer = None
        if self._groups:
            self._timer = loop.call_later(PATTERN_GROUP_IDLE_S, self._look_at_idle)

    def _forget(self, kind: _Kind) -> None:
        group, _ = self._groups.pop(kind)
        _cancel(group)
        alike = self._by_name[group.group]
        alike.remove(group)
        if not alike:
            del self._by_name[group.group]
        self._concerned.remove(group)

    @contextmanager
    def reading(self, group: PatternGroup) -> Iterator[None]:
        """Take what happens meanwhile as done by a read of this group, which looks by itself."""
        before, self._reading = self._reading, group
        try:
            yield
        finally:
            self._reading = before

    # What happens

    def appended(self, stream: bytes) -> None:
        self._tell(stream, None)

    def arrived(self, stream: bytes, group: bytes) -> None:
        self._tell(stream, group)

    def released(self, stream: bytes, group: bytes) -> None:
        self._tell(stream, group)

    def looks_older(self, stream: bytes, group: bytes) -> None:
        self._tell(stream, group)

    def changed(self, stream: bytes, group: bytes | None = None) -> None:
        """Note that a stream, or a group in it, is another one, or goes by another policy."""
        self._tell(stream, group, is_anew=True)

    def all_changed(self) -> None:
        for group, _ in self._groups.values():
            group.restart()
            self._waiters.changed(group.key.stream)

    def groups_of(self, stream: bytes) -> list[bytes]:  # noqa: ARG002 nobody waits for an end
        return []

    def has_full(self, stream: bytes, group: bytes) -> bool:
        return any(
            each.has_passed(stream) or self._waiters.has_full(each.key.stream, group)
            for each in self._by_name.get(group, ())
        )

    def freed(self, stream: bytes, group: bytes, consumer: bytes) -> None:
        for each in self._by_name.get(group, ()):
            if each.has_passed(stream):
                each.touch(stream)
                self.wake(each)
            self._waiters.freed(each.key.stream, group, consumer)

    def holders_before(self, keyspace: Keyspace, command: c.Command) -> Iterable[signals.Holder]:
        return signals.holders_before(keyspace, self, command)

    def note(self, keyspace: Keyspace, command: c.Command, lost: Iterable[signals.Holder]) -> None:
        """Note what a command means, after it is applied; `lost` is from before."""
        means = _MEANINGS.get(type(command))
        if means is not None:
            means(self, command)
        else:
            signals.notify(keyspace, self, command)
        if keyspace.memory.has_turns:
            signals.notify_of_turns(keyspace, self, command)
        for holder in lost:
            self.freed(*holder)

    def delivered(self, stream: bytes, group: bytes, consumer: bytes) -> None:
        self.delivered_count += 1
        concerned = self._concerned.known(stream)
        for each in self._by_name.get(group, ()):
            if concerned is None:  # what it holds must count at once
                each.hold(consumer, stream, is_sure=False)
            elif each in concerned:
                each.hold(consumer, stream)
                if each is not self._reading:  # there is another time to note
                    each.touch(stream)
                    self.wake(each)
        if concerned is None:
            self._tell(stream, group)

    def wake(self, group: PatternGroup) -> None:
        self._waiters.appended(group.key.stream)

    def _tell(self, stream: bytes, group: bytes | None, *, is_anew: bool = False) -> None:
        if group is not None and group not in self._by_name:
            return
        concerned = self._concerned.known(stream)
        if concerned is not None:
            self._take(concerned, stream, group, is_anew=is_anew)
            return
        news = self._news.setdefault(stream, {})
        news[group] = is_anew or news.get(group, False)
        self._settling.begin()

    def _take(
        self,
        concerned: Iterable[PatternGroup],
        stream: bytes,
        group: bytes | None,
        *,
        is_anew: bool,
    ) -> None:
        for each in concerned:
            if group in (None, each.group):
                if is_anew:
                    each.note_holders(self._keyspace, stream)
                each.touch(stream)
                if is_anew and self._waiters.has_full(each.key.stream, each.group):
                    self._waiters.changed(each.key.stream)  # consumers may hold less
                else:
                    self.wake(each)

    # Whom it concerns

    async def settled(self) -> None:
        """Return once it is noted whom everything concerns that has happened."""
        while self._news:
            await self._settling.ended()

    def _settle(self) -> Iterator[None]:
        while self._news:
            name, concerned = next(iter(self._news)), list[PatternGroup]()
            yield from self._concerned.ask(name, concerned)
            for group, is_anew in self._news.pop(name, {}).items():
                self._take(concerned, name, group, is_anew=is_anew)
            yield


def _cancel(group: PatternGroup) -> None:
    if group.timer is not None:
        group.timer.cancel()
        group.timer = None


def _set(groups: PatternGroups, command: c.GroupCreated | c.GroupMoved | c.PolicySet) -> None:
    groups.released(command.stream, command.group)  # there may be something; nobody holds less


def _delivered(groups: PatternGroups, command: c.EntriesDelivered | c.EntriesClaimed) -> None:
    groups.delivered(command.stream, command.group, command.consumer)


_MEANINGS: dict[type, Callable[[PatternGroups, Any], None]] = {
    c.GroupCreated: _set,
    c.GroupMoved: _set,
    c.PolicySet: _set,
    c.EntriesDelivered: _delivered,
    c.EntriesClaimed: _delivered,
}
"""What other commands mean, they mean to blocked reads, too."""
