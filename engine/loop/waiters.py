"""Waiters: all blocked reads. The first to wait is the first to be served; nothing is polled.

A blocked read stands in one *wait queue* for each stream that it names (`wait_queue.py`). In the
queue of a group the waiters compete for the same entries. In the queue of reads without a group
every waiter gets every entry.

After a command has changed a stream, the waiters of the stream are run again in order of arrival.
Each one repeats its whole read. A waiter that gets something leaves all its queues. A waiter that
gets nothing keeps its place and its deadline. In the queue of a group, when one waiter gets
nothing, the waiters after it are not run, because they would get nothing either. So the cost of an
append, or of an entry given back, depends on how many waiters are served and not on how many wait.

If many waiters are to be served, this happens in several *turns* of the event loop, with other work
in between. A group read that arrives meanwhile takes nothing away from those that waited before
(`wait_turn`).

A read that claims idle entries also waits for time to pass. Each queue has one timer for this. It
is set to the time at which the longest-idle pending entry becomes claimable by a waiter in the
queue.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import chain
from typing import Any, NamedTuple

from headgate.engine.errors import Draining, StreamError
from headgate.engine.limits import SERVED_AT_ONCE_MAX
from headgate.engine.loop.wait_queue import QueueKey, Waiter, WaitingReads, WaitQueue
from headgate.engine.threads import this_turn

_TIMER_MS_MAX = 10 * 365 * 86_400_000
"""No timer is set for longer than ten years: such idle times only mean "entries without an
owner"."""

_AGAIN_MS = 20
"""Pause before a read goes on that has looked at many entries which it could not claim."""


_Queue = WaitQueue[Waiter[Any]]


class Claimable(NamedTuple):
    at_ms: int | None  # steady time; None: nothing to wait for
    is_for_all: bool  # also true for other waiters with the same idle time


class _Signal(Enum):
    APPENDED = "appended"  # run all; in a group, up to the first that gets nothing
    RELEASED = "released"  # run those that claim, up to the first that gets nothing
    FREED = "freed"  # run those outside the queue because of one full consumer
    CHANGED = "changed"  # run all
    DUE = "due"  # run those that claim, if a pending entry is idle for long enough by now


_Noted = tuple[_Signal, bytes]
"""A signal, and the consumer that it is about (for `FREED`)."""


class Waiters(WaitingReads[Waiter[Any], _Queue]):
    def __init__(
        self,
        steady_ms: Callable[[], int],
        claimable: Callable[[QueueKey, Waiter[Any]], Claimable],
        limit: int,
    ) -> None:
        """Start without waiters; `limit` bounds how many reads may be blocked."""
        super().__init__(_Queue, limit)
        self._steady_ms = steady_ms
        self._claimable = claimable
        self._noted: OrderedDict[QueueKey, dict[_Noted, None]] = OrderedDict()
        self._serving: Iterator[bool] | None = None  # the walk under way, if any
        # Queues that were ended, each with the error that its waiters get.
        self._ended: deque[tuple[StreamError, dict[bytes, dict[bytes | None, _Queue]]]] = deque()
        self._turns: dict[QueueKey, asyncio.Event] = {}  # see `wait_turn`
        # Signals to all queues of a stream, or of all, since a queue was last served or made.
        self._noted_to_all: set[tuple[bytes | None, _Signal]] = set()

    def add(self, read: Waiter[Any]) -> None:
        super().add(read)
        self._arm(read)

    def _make_queue(self, key: QueueKey) -> _Queue:
        self._noted_to_all.clear()  # not to this one
        return super()._make_queue(key)

    # What happened

    def drain(self) -> None:
        """End all blocked reads with `Draining`, and let no read block from now on."""
        self.is_draining = True
        self.fail(Draining())

    def fail(self, error: StreamError) -> None:
        self._ended.append((error, self._queues))
        self._queues = {}
        self._count = self._grouped_count = 0
        self.serve()

    def appended(self, stream: bytes) -> None:
        queues = self._queues.get(stream)
        if queues is not None and self._is_news(stream, _Signal.APPENDED):
            for group in queues:
                self._note(QueueKey(stream, group), _Signal.APPENDED)

    def arrived(self, stream: bytes, group: bytes) -> None:
        """Note that there may be something new for a group, without an append."""
        self._note(QueueKey(stream, group), _Signal.APPENDED)

    def released(self, stream: bytes, group: bytes) -> None:
        """Note that a pending entry of the group has no owner now; it may be delayed."""
        self._note(QueueKey(stream, group), _Signal.RELEASED)

    def looks_older(self, stream: bytes, group: bytes) -> None:
        """Note that a pending entry may become claimable earlier than expected."""
        self._note(QueueKey(stream, group), _Signal.DUE)

    def groups_of(self, stream: bytes) -> list[bytes]:
        return [group for group in self._queues.get(stream, ()) if group is not None]

    def has_full(self, stream: bytes, group: bytes) -> bool:
        queue = self._queues.get(stream, {}).get(group)
        return queue is not None and queue.has_full_consumers

    def freed(self, stream: bytes, group: bytes, consumer: bytes) -> None:
        self._note(QueueKey(stream, group), _Signal.FREED, consumer)

    def changed(self, stream: bytes, group: bytes | None = None) -> None:
        if group is not None:
            self._note(QueueKey(stream, group), _Signal.CHANGED)
        elif stream in self._queues and self._is_news(stream, _Signal.CHANGED):
            for name in self._queues[stream]:
                self._note(QueueKey(stream, name), _Signal.CHANGED)

    def _is_news(self, stream: bytes | None, signal: _Signal) -> bool:
        """Tell whether a signal to all queues is new: a transaction may repeat it many times."""
        if (stream, signal) in self._noted_to_all:
            return False
        self._noted_to_all.add((stream, signal))
        return True

    def _note(self, key: QueueKey, signal: _Signal, consumer: bytes = b"") -> None:
        if self._find(key) is not None:
            self._noted.setdefault(key, {})[signal, consumer] = None

    # Serving

    def all_changed(self) -> None:
        if self._queues and self._is_news(None, _Signal.CHANGED):
            for stream in self._queues:
                self.changed(stream)

    def serve(self) -> None:
        """Run the reads again that wait for what was noted, in order of arrival.

        1. Take the queue that was noted first, and its first signal.
        2. Run the waiters of this queue that the signal concerns (`_round`). A waiter that gets
           something leaves all its queues. A waiter that gets nothing keeps its place and its
           deadline.
        3. End the turn after `SERVED_AT_ONCE_MAX` reads, or when its time is over. The loop does
           other work, and then the walk goes on at the same place.
        4. Go on with the next queue. A queue that has more signals comes again after the other
           queues.

        A read that is run again may note new signals, which are served in the same way. Only one
        walk is under way at a time. A group read that arrives meanwhile waits until its queues are
        served, so that it takes nothing from the reads that waited before (`wait_turn`).
        """
        if self._serving is None and (self._noted or self._ended):
            self._serving = self._rounds()
            self._take_turn()

    @property
    def is_serving(self) -> bool:
        return self._serving is not None

    async def wait_turn(self, queues: Iterable[QueueKey] | None = None) -> None:
        """Return once no earlier waiter of these group queues (None: all) is to be served."""
        if self._serving is None:
            return
        for key in list(self._noted if queues is None else queues):
            if key.group is not None and key in self._noted:
                await self._turns.setdefault(key, asyncio.Event()).wait()

    def _take_turn(self) -> None:
        assert self._serving is not None
        turn, count = this_turn(), 0
        try:
            for was_run in self._serving:
                count += was_run
                if count >= SERVED_AT_ONCE_MAX or turn.is_over:
                    turn.call_later(self._take_turn)
                    return
        except BaseException:
            self._serving = None
            asyncio.get_running_loop().call_soon(self.serve)  # the signals that are left
            raise
        self._serving = None

    def _rounds(self) -> Iterator[bool]:
        """Serve all signals by queue; yield where a turn may end: True if a read was run again."""
        while self._noted or self._ended:
            if self._ended:
                error, queues = self._ended.popleft()
                yield from _end(
                    chain.from_iterable(each.values() for each in queues.values()), error
                )
                continue
            key = next(iter(self._noted))
            noted, queue = self._noted[key], self._find(key)
            if noted and queue is not None:
                signal, consumer = next(iter(noted))
                del noted[signal, consumer]
                self._noted_to_all.clear()
                yield from self._round(key, queue, signal, consumer)
            if noted and queue is not None:
                self._noted.move_to_end(key)  # let other queues come first
            else:
                del self._noted[key]
                turn = self._turns.pop(key, None)
                if turn is not None:
                    turn.set()

    def _round(
        self, key: QueueKey, queue: _Queue, signal: _Signal, consumer: bytes
    ) -> Iterator[bool]:
        match signal:
            case _Signal.APPENDED | _Signal.RELEASED:
                yield from self._serve_in_order(key, queue, signal)
            case _Signal.DUE:
                yield from self._serve_due(key, queue)
            case _Signal.FREED:
                yield from self._serve_all(queue.of_full(consumer))
            case _Signal.CHANGED:
                yield from self._serve_all(queue.in_order())
                yield from self._serve_all(queue.of_full())

    def _serve_all(self, waiters: Iterable[Waiter[Any]]) -> Iterator[bool]:
        for waiter in waiters:
            if not waiter.served.done():
                self._rerun(waiter)
            yield True

    def _serve_in_order(self, key: QueueKey, queue: _Queue, signal: _Signal) -> Iterator[bool]:
        """Serve a queue from its first waiter on; in a group's queue, until one gets nothing.

        All readers of a group compete for the same entries, so the waiters after that one would get
        nothing either. A waiter whose consumer is full is an exception: it says nothing about the
        others. One that goes by the group's rules says nothing about those that do not.
        """
        if signal is _Signal.RELEASED and queue.idle_ms_min is None:
            return
        is_ruled_out = False
        for waiter in queue.in_order():
            claims = signal is _Signal.APPENDED or waiter.claim_idle_ms is not None
            if not claims or waiter.served.done() or (is_ruled_out and waiter.by_policy):
                yield False
                continue
            is_served = self._rerun(waiter)
            yield True
            if waiter.leaves_some:
                continue
            if key.group is not None and not is_served and key.stream not in waiter.full:
                is_ruled_out = waiter.by_policy
                if not (is_ruled_out and queue.has_unruled):
                    break

    def _serve_due(self, key: QueueKey, queue: _Queue) -> Iterator[bool]:
        """Serve the waiters that claim; for each idle time, until one of them gets nothing."""
        none_from_ms: int | None = None  # no pending entry is idle for this long
        for waiter in queue.in_order():
            idle_ms = waiter.claim_idle_ms
            idle_ms_min = queue.idle_ms_min
            if idle_ms_min is None or (none_from_ms is not None and none_from_ms <= idle_ms_min):
                break
            is_out = none_from_ms is not None and idle_ms is not None and idle_ms >= none_from_ms
            if idle_ms is None or is_out or waiter.served.done():
                yield False
                continue
            claimable = self._claimable(key, waiter)
            now_ms = self._steady_ms()
            if _due_ms(claimable, idle_ms, now_ms) > now_ms:
                self._arm(waiter)
                is_empty = claimable.is_for_all
            else:
                is_empty = not self._rerun(waiter) and key.stream not in waiter.full
            if is_empty:
                none_from_ms = idle_ms
            yield True

    def _rerun(self, waiter: Waiter[Any]) -> bool:
        try:
            reply = waiter.attempt()
        except Exception as error:  # noqa: BLE001  its reply, e.g. the stream is gone
            if not waiter.served.done():  # it is done if all reads have failed
                waiter.served.set_exception(error)
        else:
            if reply is None:
                self._place(waiter)
                self._arm(waiter)
                return False
            waiter.served.set_result(reply)
        self.remove(waiter)
        return True

    # Time

    def _arm(self, waiter: Waiter[Any]) -> None:
        if waiter.claim_idle_ms is None:
            return
        now_ms = self._steady_ms()
        for key in waiter.queues:
            queue = self._find(key)
            if queue is not None and key.stream not in waiter.full:
                due_ms = _due_ms(self._claimable(key, waiter), waiter.claim_idle_ms, now_ms)
                # Due but not claimed: the read met many entries that it could not claim.
                due_ms = due_ms if due_ms > now_ms else now_ms + _AGAIN_MS
                self._set_timer(key, queue, due_ms, now_ms)

    def _set_timer(self, key: QueueKey, queue: _Queue, due_ms: int, now_ms: int) -> None:
        if queue.timer is not None:
            if queue.timer_at_ms <= due_ms:
                return
            queue.timer.cancel()
        delay_ms = max(due_ms - now_ms, 1)
        if delay_ms > _TIMER_MS_MAX:
            queue.timer = None
            return
        loop = asyncio.get_running_loop()
        queue.timer = loop.call_later(delay_ms / 1000, self._on_timer, key, queue)
        queue.timer_at_ms = due_ms

    def _on_timer(self, key: QueueKey, queue: _Queue) -> None:
        queue.timer = None
        self._note(key, _Signal.DUE)
        self.serve()


def _due_ms(claimable: Claimable, claim_idle_ms: int, now_ms: int) -> int:
    # Nothing is pending. An entry that is delivered now is idle for long enough only then.
    return now_ms + claim_idle_ms if claimable.at_ms is None else claimable.at_ms


def _end(queues: Iterable[_Queue], error: StreamError) -> Iterator[bool]:
    for queue in queues:
        if queue.timer is not None:
            queue.timer.cancel()
        for waiter in chain(queue.in_order(), queue.of_full()):
            if not waiter.served.done():
                waiter.served.set_exception(error)
            yield True
