"""Waiters: who is blocked on what. First come, first served; nobody polls.

A blocked read stands in one *wait queue* per stream it names (`wait_queue.py`). In the queue of a
group waiters compete for the same entries; in the stream's plain queue all of them get every entry.
When a command has touched a stream, its waiters are re-run in order of arrival: the whole read,
from scratch. One that gets something leaves all its queues; one that does not keeps its place and
its deadline. In a group's queue the first that goes away empty speaks for all behind it, so an
append, or an entry given back, costs what it serves and not what waits.

Many are served in *turns*: the loop goes on with others in between. A read of a group that comes
meanwhile takes nothing away from those who wait (`wait_turn`).

A read that claims idle entries also waits for time to pass. Each queue has one timer for that, set
to the moment at which the longest-idle pending entry becomes claimable by somebody in the queue.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import chain
from typing import Any, NamedTuple

from headgate.engine.errors import Draining, StreamError, TooManyWaiters
from headgate.engine.limits import SERVED_AT_ONCE_MAX, TURN_MS_MAX
from headgate.engine.loop.wait_queue import QueueKey, Waiter, WaitQueue

_TIMER_MS_MAX = 10 * 365 * 86_400_000
"""An idle time of ten years or more is nobody's wish to wait, but "only what nobody owns"."""

_AGAIN_MS = 20
"""A read that looked at many entries it could not have goes on after so long."""


class Claimable(NamedTuple):
    """When a waiter may claim something, if nothing happens before."""

    at_ms: int | None  # steady time; None: nothing is pending
    is_for_all: bool  # the same holds for others that claim after as long


class _Signal(Enum):
    """What happened to a queue, and so who has to look again."""

    APPENDED = "appended"  # all; in a group's queue up to the first that goes away empty
    RELEASED = "released"  # those that claim, up to the first that goes away empty
    FREED = "freed"  # those beside the queue because of one consumer
    CHANGED = "changed"  # all
    DUE = "due"  # those that claim and are due: a pending entry may be idle enough by now


_Noted = tuple[_Signal, bytes]
"""What happened; to whom, if it is about one consumer."""


class Waiters:
    """All blocked reads."""

    def __init__(
        self,
        steady_ms: Callable[[], int],
        claimable: Callable[[QueueKey, Waiter[Any]], Claimable],
        limit: int,
    ) -> None:
        """Start with nobody waiting.

        Args:
            steady_ms: what time it is, whoever sets the clock.
            claimable: when a waiter may claim something of a group, if nothing happens before.
            limit: how many may wait at once.
        """
        self._steady_ms = steady_ms
        self._claimable = claimable
        self._limit = limit
        self._count = 0
        self._queues: dict[bytes, dict[bytes | None, WaitQueue]] = {}
        self._grouped_count = 0
        self._noted: OrderedDict[QueueKey, dict[_Noted, None]] = OrderedDict()
        self._serving: Iterator[bool] | None = None  # what is under way: tells who was re-run
        # Lanes in which nobody waits any more, and what those who did are answered.
        self._ended: deque[tuple[StreamError, dict[bytes, dict[bytes | None, WaitQueue]]]] = deque()
        self._turns: dict[QueueKey, asyncio.Event] = {}  # for those who came meanwhile
        self.is_draining = False  # nobody may wait any more

    def __len__(self) -> int:
        """Return how many reads are blocked."""
        return self._count

    @property
    def stream_count(self) -> int:
        """Return on how many streams somebody waits."""
        return len(self._queues)

    @property
    def grouped_stream_count(self) -> int:
        """Return on how many streams somebody waits as a consumer of a group."""
        return self._grouped_count

    def add(self, waiter: Waiter[Any]) -> None:
        """Put a blocked read at the end of its queues.

        Raises:
            TooManyWaiters: too many wait already.
            Draining: nobody may wait any more.
        """
        self.check_room()
        self._count += 1
        for key in waiter.queues:
            self._make_queue(key).place(waiter, is_full=key.stream in waiter.full)
        self._arm(waiter)

    def _find(self, key: QueueKey) -> WaitQueue | None:
        return self._queues.get(key.stream, {}).get(key.group)

    def _make_queue(self, key: QueueKey) -> WaitQueue:
        """Return a queue; it is made if nobody stands in it."""
        queues = self._queues.get(key.stream)
        if queues is None:
            queues = self._queues[key.stream] = {}
        queue = queues.get(key.group)
        if queue is None:
            self._grouped_count += key.group is not None and not _group_count(queues)
            queue = queues[key.group] = WaitQueue()
        return queue

    def check_room(self) -> None:
        """Raise what `add` would raise."""
        if self.is_draining:
            raise Draining
        if self._count >= self._limit:
            raise TooManyWaiters(self._limit)

    def remove(self, waiter: Waiter[Any]) -> None:
        """Take a read out of all its queues; one that is out already stays out."""
        for key in waiter.queues:
            queue = self._find(key)
            if queue is None or waiter not in queue:
                return
            queue.remove(waiter)
            if not queue:
                self._remove_queue(key, queue)
        self._count -= 1

    def _remove_queue(self, key: QueueKey, queue: WaitQueue) -> None:
        if queue.timer is not None:
            queue.timer.cancel()
        queues = self._queues[key.stream]
        del queues[key.group]
        self._grouped_count -= key.group is not None and not _group_count(queues)
        if not queues:
            del self._queues[key.stream]

    # What happened

    def drain(self) -> None:
        """Answer everyone that nothing will come, and let nobody wait from now on."""
        self.is_draining = True
        self.fail(Draining())

    def fail(self, error: StreamError) -> None:
        """Answer everyone who waits now that what they wait for cannot come."""
        self._ended.append((error, self._queues))
        self._queues = {}
        self._count = self._grouped_count = 0
        self.serve()

    def appended(self, stream: bytes) -> None:
        """Note that a stream has new entries."""
        for group in self._queues.get(stream, ()):
            self._note(QueueKey(stream, group), _Signal.APPENDED)

    def released(self, stream: bytes, group: bytes) -> None:
        """Note that a pending entry of the group is anybody's now, or will be."""
        self._note(QueueKey(stream, group), _Signal.RELEASED)

    def looks_older(self, stream: bytes, group: bytes) -> None:
        """Note that a pending entry of the group may be idle enough before its time."""
        self._note(QueueKey(stream, group), _Signal.DUE)

    def has_full(self, stream: bytes, group: bytes) -> bool:
        """Tell whether a read waits for its consumer in the group to hold less."""
        queue = self._queues.get(stream, {}).get(group)
        return queue is not None and queue.has_full_consumers

    def freed(self, stream: bytes, group: bytes, consumer: bytes) -> None:
        """Note that a consumer of the group holds less than before."""
        self._note(QueueKey(stream, group), _Signal.FREED, consumer)

    def changed(self, stream: bytes, group: bytes | None = None) -> None:
        """Note that everyone waiting on the stream, or one group of it, must look again."""
        for name in self._queues.get(stream, ()):
            if group is None or name == group:
                self._note(QueueKey(stream, name), _Signal.CHANGED)

    def _note(self, key: QueueKey, signal: _Signal, consumer: bytes = b"") -> None:
        if self._find(key) is not None:
            self._noted.setdefault(key, {})[signal, consumer] = None

    # Serving

    def all_changed(self) -> None:
        """Note that everyone must look again."""
        for stream in self._queues:
            self.changed(stream)

    def serve(self) -> None:
        """Run the reads again that wait for what was noted, in order of arrival.

        1. Take the queue that was noted first, and what happened to it first.
        2. Run its waiters again, as far as that matters to them (`_round`). A waiter that gets
           something leaves all its queues; one that does not keeps its place and its deadline.
        3. End the turn after `SERVED_AT_ONCE_MAX` reads or `TURN_MS_MAX`; the loop goes on with
           others, and comes back to the same place.
        4. Go on with the next queue; one to which more has happened comes again behind the others.

        A read that is run again may note things: they are served in the same way. Only one such
        walk is under way at a time. A read that comes meanwhile takes nothing from those who wait:
        it waits until its queues are served (`wait_turn`).
        """
        if self._serving is None and (self._noted or self._ended):
            self._serving = self._rounds()
            self._take_turn()

    @property
    def is_serving(self) -> bool:
        """Tell whether some are served in the next turns."""
        return self._serving is not None

    async def wait_turn(self, queues: Iterable[QueueKey] | None = None) -> None:
        """Return once nobody is served any more who waited in a group's queue before.

        Args:
            queues: those that matter; None: all.
        """
        if self._serving is None:
            return
        for key in list(self._noted if queues is None else queues):
            if key.group is not None and key in self._noted:
                await self._turns.setdefault(key, asyncio.Event()).wait()

    def _take_turn(self) -> None:
        assert self._serving is not None
        loop = asyncio.get_running_loop()
        over_s = loop.time() + TURN_MS_MAX / 1000
        count = 0
        try:
            for was_run in self._serving:
                count += was_run
                if count >= SERVED_AT_ONCE_MAX or loop.time() >= over_s:
                    loop.call_soon(self._take_turn)
                    return
        except BaseException:
            self._serving = None
            loop.call_soon(self.serve)  # what else was noted
            raise
        self._serving = None

    def _rounds(self) -> Iterator[bool]:
        """Serve all that was noted, queue by queue; yields whenever a turn may end."""
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
                yield from self._round(key, queue, signal, consumer)
            if noted and queue is not None:
                self._noted.move_to_end(key)  # other queues come between
            else:
                del self._noted[key]
                turn = self._turns.pop(key, None)
                if turn is not None:
                    turn.set()

    def _round(
        self, key: QueueKey, queue: WaitQueue, signal: _Signal, consumer: bytes
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

    def _serve_in_order(self, key: QueueKey, queue: WaitQueue, signal: _Signal) -> Iterator[bool]:
        """Serve a queue from its first waiter on; in a group's queue, until one goes away empty.

        Whoever waits behind that one would get nothing either: all of a group compete for the same
        entries. A waiter whose consumer holds all it may speaks for nobody else.
        """
        if signal is _Signal.RELEASED and queue.idle_ms_min is None:
            return
        for waiter in queue.in_order():
            claims = signal is _Signal.APPENDED or waiter.claim_idle_ms is not None
            if not claims or waiter.served.done():
                yield False
                continue
            is_served = self._rerun(waiter)
            yield True
            if key.group is not None and not is_served and key.stream not in waiter.full:
                break

    def _serve_due(self, key: QueueKey, queue: WaitQueue) -> Iterator[bool]:
        """Serve those that claim, of each idle time up to the first that goes away empty."""
        none_from_ms: int | None = None  # nothing is idle for so long
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
        except Exception as error:  # noqa: BLE001  the stream may be gone: that is its answer
            if not waiter.served.done():  # it is if everything has failed
                waiter.served.set_exception(error)
        else:
            if reply is None:
                self._place(waiter)
                self._arm(waiter)
                return False
            waiter.served.set_result(reply)
        self.remove(waiter)
        return True

    def _place(self, waiter: Waiter[Any]) -> None:
        for key in waiter.queues:
            queue = self._find(key)
            if queue is not None and waiter in queue:
                queue.place(waiter, is_full=key.stream in waiter.full)

    # Time

    def _arm(self, waiter: Waiter[Any]) -> None:
        """See that its queues wake a waiter when something becomes claimable."""
        if waiter.claim_idle_ms is None:
            return
        now_ms = self._steady_ms()
        for key in waiter.queues:
            queue = self._find(key)
            if queue is not None and key.stream not in waiter.full:
                due_ms = _due_ms(self._claimable(key, waiter), waiter.claim_idle_ms, now_ms)
                # Due and still not taken: it has looked at many entries that nobody can have.
                due_ms = due_ms if due_ms > now_ms else now_ms + _AGAIN_MS
                self._set_timer(key, queue, due_ms, now_ms)

    def _set_timer(self, key: QueueKey, queue: WaitQueue, due_ms: int, now_ms: int) -> None:
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

    def _on_timer(self, key: QueueKey, queue: WaitQueue) -> None:
        queue.timer = None
        self._note(key, _Signal.DUE)
        self.serve()


def _due_ms(claimable: Claimable, claim_idle_ms: int, now_ms: int) -> int:
    # With nothing pending, whatever is delivered from now on is not idle enough before then.
    return now_ms + claim_idle_ms if claimable.at_ms is None else claimable.at_ms


def _group_count(queues: dict[bytes | None, WaitQueue]) -> int:
    return len(queues) - (None in queues)


def _end(queues: Iterable[WaitQueue], error: StreamError) -> Iterator[bool]:
    for queue in queues:
        if queue.timer is not None:
            queue.timer.cancel()
        for waiter in chain(queue.in_order(), queue.of_full()):
            if not waiter.served.done():
                waiter.served.set_exception(error)
            yield True
