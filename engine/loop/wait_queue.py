"""Wait queues: in which order the blocked reads of one stream, or of one group of it, are served.

Whoever can be served stands in the queue. A read whose consumer holds all it may stands beside it,
under the consumer's name, so that nobody passes it on the way to another: only when its consumer
holds less is it run again, and joins the queue at its end if there is nothing for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

_FEW = 8
"""Looked at before all are listed: mostly the first ones take what there is."""


class QueueKey(NamedTuple):
    """A stream, and the group that reads it; None is the plain queue."""

    stream: bytes
    group: bytes | None


class Waiter(Generic[T]):
    """One blocked read."""

    __slots__ = ("attempt", "claim_idle_ms", "consumer", "full", "queues", "served", "spares_own")

    def __init__(
        self,
        queues: Sequence[QueueKey],
        attempt: Callable[[], T | None],
        *,
        claim_idle_ms: int | None = None,
        consumer: bytes = b"",
        spares_own: bool = False,
    ) -> None:
        """Describe a blocked read.

        Args:
            queues: where it stands.
            attempt: the whole read, done again; None when there is nothing yet.
            claim_idle_ms: it takes pending entries idle for so long; None: it takes none.
            consumer: who reads, in a group.
            spares_own: it does not take what its consumer holds itself.
        """
        self.queues = list(dict.fromkeys(queues))  # a read may name a stream twice
        self.attempt = attempt
        self.claim_idle_ms = claim_idle_ms
        self.consumer = consumer
        self.spares_own = spares_own
        self.full: frozenset[bytes] = frozenset()  # streams whose group gives its consumer no more
        self.served: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()

    def expire(self) -> None:
        """End the wait with nothing."""
        if not self.served.done():
            self.served.set_result(None)

    def forget(self) -> None:
        """Let go of the attempt, which may know the waiter: it is not made again."""
        del self.attempt

    def forget_error(self) -> None:
        """Let go of the error that ended the wait: its traceback knows the waiter."""
        self.served = asyncio.get_running_loop().create_future()
        self.served.cancel()


class WaitQueue:
    """Waiters in order of arrival, those of full consumers, and the timer of those that claim."""

    __slots__ = ("_full", "_idle_counts", "_waiting", "timer", "timer_at_ms")

    def __init__(self) -> None:
        """Start with nobody."""
        self._waiting: dict[Waiter[Any], None] = {}
        self._full: dict[bytes, dict[Waiter[Any], None]] = {}  # by consumer
        self._idle_counts: dict[int, int] = {}  # how many of those waiting claim after so long
        self.timer: asyncio.TimerHandle | None = None
        self.timer_at_ms = 0  # steady time the timer is set to

    def __bool__(self) -> bool:
        """Tell whether anybody is here."""
        return bool(self._waiting or self._full)

    def __contains__(self, waiter: Waiter[Any]) -> bool:
        """Tell whether a waiter is here, in the queue or beside it."""
        return waiter in self._waiting or waiter in self._full.get(waiter.consumer, ())

    @property
    def idle_ms_min(self) -> int | None:
        """Return the shortest idle time after which somebody in the queue claims."""
        return min(self._idle_counts, default=None)

    @property
    def has_full_consumers(self) -> bool:
        """Tell whether the consumer of anybody holds all it may."""
        return bool(self._full)

    def place(self, waiter: Waiter[Any], *, is_full: bool) -> None:
        """Put a waiter at the end of the queue, if it is not there yet, or beside it."""
        if is_full:
            self._leave(waiter)
            self._full.setdefault(waiter.consumer, {})[waiter] = None
        elif waiter not in self._waiting:
            self._leave_full(waiter)
            self._waiting[waiter] = None
            if waiter.claim_idle_ms is not None:
                count = self._idle_counts.get(waiter.claim_idle_ms, 0)
                self._idle_counts[waiter.claim_idle_ms] = count + 1

    def remove(self, waiter: Waiter[Any]) -> None:
        """Let go of a waiter, wherever it stands."""
        self._leave(waiter)
        self._leave_full(waiter)

    def _leave(self, waiter: Waiter[Any]) -> None:
        if waiter not in self._waiting:
            return
        del self._waiting[waiter]
        idle_ms = waiter.claim_idle_ms
        if idle_ms is not None:
            self._idle_counts[idle_ms] -= 1
            if not self._idle_counts[idle_ms]:
                del self._idle_counts[idle_ms]

    def _leave_full(self, waiter: Waiter[Any]) -> None:
        parked = self._full.get(waiter.consumer, {})
        if waiter in parked:
            del parked[waiter]
            if not parked:
                del self._full[waiter.consumer]

    def in_order(self) -> Iterator[Waiter[Any]]:
        """Yield who stands in the queue, in order of arrival; it may change meanwhile."""
        first = list(islice(self._waiting, _FEW))
        yield from first
        if len(first) == _FEW:
            seen = frozenset(first)
            yield from [waiter for waiter in self._waiting if waiter not in seen]

    def of_full(self, consumer: bytes | None = None) -> list[Waiter[Any]]:
        """Return the waiters whose consumer, this or any, holds as much as it may."""
        if consumer is None:
            return list(chain.from_iterable(self._full.values()))
        return list(self._full.get(consumer, ()))
