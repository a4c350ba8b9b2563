"""Wait queues: the order in which the blocked reads of a stream or of a group are served.

Reads that can be served stand in the queue, in order of arrival. A read whose consumer holds as
many entries as it may cannot be served. It is kept outside the queue, under the name of its
consumer, so that serving the queue does not pass over it again and again. It is run again only when
its consumer holds less. If there is nothing for it then, it joins the queue at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Generic, NamedTuple, TypeVar

from headgate.engine.errors import Draining, TooManyWaiters

T = TypeVar("T")

_FEW = 8
"""Waiters in the first look. Often they take everything, and the others are not copied."""


class QueueKey(NamedTuple):
    """A stream, and the group that reads it. A group of None means reads without a group."""

    stream: bytes
    group: bytes | None


class BlockedRead(Generic[T]):
    __slots__ = (
        *("by_policy", "claim_idle_ms", "consumer", "full", "leaves_some", "queues"),
        *("served", "spares_own"),
    )

    def __init__(
        self,
        queues: Sequence[QueueKey],
        *,
        claim_idle_ms: int | None = None,
        consumer: bytes = b"",
        spares_own: bool = False,
        by_policy: bool = False,
    ) -> None:
        """Describe a blocked read.

        It claims entries idle for `claim_idle_ms` (None: none), but not its consumer's own if
        `spares_own`. `by_policy`: it goes by the group's rules.
        """
        self.queues = list(dict.fromkeys(queues))  # a read may name a stream twice
        self.claim_idle_ms = claim_idle_ms
        self.consumer = consumer
        self.spares_own = spares_own
        self.by_policy = by_policy
        self.full: frozenset[bytes] = frozenset()  # streams in which its consumer holds all it may
        self.leaves_some = False  # it got nothing, and others may: this says nothing about them
        self.served: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()

    def expire(self) -> None:
        if not self.served.done():
            self.served.set_result(None)

    def leave(self) -> None:
        """Note that nobody waits any more: who is about to serve it passes over it.

        A task that is cancelled before its first turn does not cancel what it waits for.
        """
        self.served.cancel()

    def forget_error(self) -> None:
        """Drop the error that ended the wait, because its traceback refers to the read."""
        self.served = asyncio.get_running_loop().create_future()
        self.served.cancel()


class Waiter(BlockedRead[T]):
    __slots__ = ("attempt",)

    def __init__(
        self,
        queues: Sequence[QueueKey],
        attempt: Callable[[], T | None],
        *,
        claim_idle_ms: int | None = None,
        consumer: bytes = b"",
        spares_own: bool = False,
        by_policy: bool = False,
    ) -> None:
        """Describe a `BlockedRead`; `attempt` runs it again, None if there is still nothing."""
        super().__init__(
            queues,
            claim_idle_ms=claim_idle_ms,
            consumer=consumer,
            spares_own=spares_own,
            by_policy=by_policy,
        )
        self.attempt = attempt

    def leave(self) -> None:
        """Note that nobody waits any more, and drop what refers to the waiter (a cycle)."""
        super().leave()
        del self.attempt


W = TypeVar("W", bound=BlockedRead[Any])


class WaitQueue(Generic[W]):
    """Waiters in order of arrival, waiters of full consumers, and the timer for claims."""

    __slots__ = ("_full", "_idle_counts", "_unruled_count", "_waiting", "timer", "timer_at_ms")

    def __init__(self) -> None:
        self._waiting: dict[W, None] = {}
        self._full: dict[bytes, dict[W, None]] = {}  # by consumer
        self._idle_counts: dict[int, int] = {}  # idle time → how many in the queue claim after it
        self._unruled_count = 0  # waiters in the queue that no policy concerns
        self.timer: asyncio.TimerHandle | None = None
        self.timer_at_ms = 0  # steady time the timer is set to

    def __bool__(self) -> bool:
        return bool(self._waiting or self._full)

    def __contains__(self, waiter: W) -> bool:
        return waiter in self._waiting or waiter in self._full.get(waiter.consumer, ())

    @property
    def idle_ms_min(self) -> int | None:
        return min(self._idle_counts, default=None)

    @property
    def has_unruled(self) -> bool:
        return self._unruled_count > 0

    @property
    def has_full_consumers(self) -> bool:
        return bool(self._full)

    def place(self, waiter: W, *, is_full: bool) -> None:
        """Put a waiter at the end, or outside if its consumer is full; one in the queue stays."""
        if is_full:
            self._leave(waiter)
            self._full.setdefault(waiter.consumer, {})[waiter] = None
        elif waiter not in self._waiting:
            self._leave_full(waiter)
            self._waiting[waiter] = None
            self._unruled_count += not waiter.by_policy
            if waiter.claim_idle_ms is not None:
                count = self._idle_counts.get(waiter.claim_idle_ms, 0)
                self._idle_counts[waiter.claim_idle_ms] = count + 1

    def remove(self, waiter: W) -> None:
        self._leave(waiter)
        self._leave_full(waiter)

    def _leave(self, waiter: W) -> None:
        if waiter not in self._waiting:
            return
        del self._waiting[waiter]
        self._unruled_count -= not waiter.by_policy
        idle_ms = waiter.claim_idle_ms
        if idle_ms is not None:
            self._idle_counts[idle_ms] -= 1
            if not self._idle_counts[idle_ms]:
                del self._idle_counts[idle_ms]

    def _leave_full(self, waiter: W) -> None:
        if not self._full:  # as nearly always
            return
        parked = self._full.get(waiter.consumer, {})
        if waiter in parked:
            del parked[waiter]
            if not parked:
                del self._full[waiter.consumer]

    def in_order(self) -> Iterator[W]:
        """Yield the waiters of the queue in order of arrival; it may change meanwhile."""
        first = list(islice(self._waiting, _FEW))
        yield from first
        if len(first) == _FEW:
            seen = frozenset(first)
            yield from [waiter for waiter in self._waiting if waiter not in seen]

    def of_full(self, consumer: bytes | None = None) -> list[W]:
        if consumer is None:
            return list(chain.from_iterable(self._full.values()))
        return list(self._full.get(consumer, ()))


Q = TypeVar("Q", bound=WaitQueue[Any])


class WaitingReads(Generic[W, Q]):
    """All blocked reads. Each stands in one queue for each stream and group that it names."""

    def __init__(self, make_queue: Callable[[], Q], limit: int) -> None:
        """Start without reads; `limit` bounds how many may be blocked."""
        self._new_queue = make_queue
        self._limit = limit
        self._count = 0
        self._queues: dict[bytes, dict[bytes | None, Q]] = {}  # by stream and group
        self._grouped_count = 0  # streams with queues of groups
        self.is_draining = False  # no read may block any more

    def __len__(self) -> int:
        return self._count

    @property
    def stream_count(self) -> int:
        return len(self._queues)

    @property
    def grouped_stream_count(self) -> int:
        return self._grouped_count

    def check_room(self) -> None:
        """Raise TooManyWaiters or Draining if no other read may block."""
        if self.is_draining:
            raise Draining
        if self._count >= self._limit:
            raise TooManyWaiters(self._limit)

    def add(self, read: W) -> None:
        """Put a blocked read at the end of its queues; raises as `check_room`."""
        self.check_room()
        self._count += 1
        for key in read.queues:
            queue = self._find(key)
            queue = self._make_queue(key) if queue is None else queue
            queue.place(read, is_full=key.stream in read.full)

    def remove(self, read: W) -> None:
        for key in read.queues:
            queue = self._find(key)
            if queue is None or read not in queue:
                return
            queue.remove(read)
            if not queue:
                self._remove_queue(key, queue)
        self._count -= 1

    def _place(self, read: W) -> None:
        for key in read.queues:
            queue = self._find(key)
            if queue is not None and read in queue:
                queue.place(read, is_full=key.stream in read.full)

    def _find(self, key: QueueKey) -> Q | None:
        return self._queues.get(key.stream, {}).get(key.group)

    def _make_queue(self, key: QueueKey) -> Q:
        queues = self._queues.setdefault(key.stream, {})
        self._grouped_count += key.group is not None and not _group_count(queues)
        queue = queues[key.group] = self._new_queue()
        return queue

    def _remove_queue(self, key: QueueKey, queue: Q) -> None:
        if queue.timer is not None:
            queue.timer.cancel()
        queues = self._queues[key.stream]
        del queues[key.group]
        self._grouped_count -= key.group is not None and not _group_count(queues)
        if not queues:
            del self._queues[key.stream]


def _group_count(queues: Mapping[bytes | None, object]) -> int:
    return len(queues) - (None in queues)
