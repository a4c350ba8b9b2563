"""The blocked reads of this gateway; no read blocks at the servers.

A *signal* says that something may have arrived for a stream or a group. The reads of the queue are
then run again, in order of arrival:

1. In the queue of a group, run the first read, then the next two, then four, until one of them gets
   nothing. The reads after that one would get nothing either. Reads that are run together are sent
   together, in order, so the first in the queue is the first to be served.
2. In the queue of reads without a group, run each distinct request once. All its readers get the
   result.
3. A signal that arrives meanwhile starts this again.

Reads that other gateways could serve earlier have no place in this order: each gateway has its own
queues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count, islice
from typing import Any, TypeVar

from headgate.app.backends.redis.faults import Lost, NotSent
from headgate.app.backends.redis.keys import KeyNames
from headgate.app.backends.redis.performing import portions
from headgate.app.runtime import periodic
from headgate.engine.errors import AnswerLost, Draining, Unavailable
from headgate.engine.loop.wait_queue import BlockedRead, QueueKey, WaitingReads, WaitQueue

T = TypeVar("T")

_TOGETHER_MAX = 16
"""Reads of a group that are sent together."""

_GIVEN_AT_ONCE = 200
"""Reads that are answered before other tasks run. Each one wakes a task."""

_FULL_LOOK_S = 1.0
"""Interval between runs of reads by consumers with as many entries as they may hold. Other gateways
may have acknowledged some; nothing tells us."""

_PAUSE_S = 0.01
"""Between some of these looks, as there may be thousands of queues."""

_CHANGES_MAX = 100_000
"""Streams whose last change is remembered."""

_ALL_LOOK_S = 30.0
"""Interval between runs of each queue's first read without a signal, in case one was missed: a
group that another client destroys sends none."""


class QueuedRead(BlockedRead[T]):
    __slots__ = ("_idle", "_is_expired", "_run", "give_back", "is_running", "request")

    def __init__(
        self,
        queues: Sequence[QueueKey],
        request: Hashable,
        attempt: Callable[[], Coroutine[Any, Any, T | None]],
        give_back: Callable[[T], None],
        *,
        claim_idle_ms: int | None = None,
        consumer: bytes = b"",
        by_policy: bool = False,
    ) -> None:
        """Describe a blocked read.

        Reads without a group and with equal `request` get the same reply; an attempt may move a
        waiting read on to another request. `attempt` returns None if there is still nothing.
        `give_back` gets what was read for a reader that has gone. After `claim_idle_ms` the read
        claims pending entries. `by_policy`: the read goes by the group's rules.
        """
        super().__init__(
            queues, claim_idle_ms=claim_idle_ms, consumer=consumer, by_policy=by_policy
        )
        self.request: Any = request
        self.give_back = give_back
        self._run = attempt
        self.is_running = False
        self._idle: asyncio.Event | None = None  # somebody waits until it is not being run
        self._is_expired = False  # the wait time ended while the read was run

    async def attempt(self) -> T | None:
        self.is_running = True
        try:
            return await self._run()
        finally:
            self.is_running = False
            if self._idle is not None:
                self._idle.set()

    async def until_idle(self) -> None:
        if self.is_running:
            self._idle = asyncio.Event()
            await self._idle.wait()

    def expire(self) -> None:
        """End the wait without a reply; a read that is being run gets what that brings.

        The servers may have delivered entries to it that need no acknowledgement: these could not
        be given back.
        """
        self._is_expired = True
        if not self.is_running:
            super().expire()

    def go_on(self) -> None:
        """Wait on, as there was nothing; a read whose wait time is over ends."""
        if self._is_expired:
            super().expire()

    def give(self, reply: T) -> None:
        """Answer the read, or give back its reply if nobody waits for it any more."""
        if self.served.done():
            self.give_back(reply)
        else:
            self.served.set_result(reply)


class Watch:
    """Whether a queue had a signal while a read was run for the first time."""

    __slots__ = ("has_signal",)

    def __init__(self) -> None:
        self.has_signal = False


class _Queue(WaitQueue[QueuedRead[Any]]):
    __slots__ = ("due_at_s", "has_signal", "serving")

    def __init__(self) -> None:
        super().__init__()
        self.has_signal = False
        self.serving: asyncio.Task[None] | None = None
        # When the timer signals that something becomes claimable: a handle of uvloop does not tell
        # when it is due, if that is now.
        self.due_at_s = 0.0


class WaitQueues(WaitingReads[QueuedRead[Any], _Queue]):
    def __init__(self, names: KeyNames, limit: int, are_noticed: Callable[[], bool]) -> None:
        """Allow `limit` blocked reads; `are_noticed` tells if every change is signalled now."""
        super().__init__(_Queue, limit)
        self._names = names
        self.are_noticed = are_noticed
        self._watches: dict[bytes, dict[Watch, QueueKey]] = {}  # by stream
        # By the side key of released entries.
        self._by_released: dict[bytes, dict[Watch, QueueKey]] = {}
        self._numbers = count()
        self._changes: dict[bytes, int] = {}  # number of the last change of a stream
        self._tasks: asyncio.TaskGroup | None = None
        self._on_outcome = periodic.watch("blocked reads served")

    @contextmanager
    def watching(self, keys: Sequence[QueueKey]) -> Iterator[Watch]:
        """Record the signals of queues from now on, for a read that may block in them soon."""
        watch = Watch()
        for key in keys:
            self._watches.setdefault(key.stream, {})[watch] = key
            if key.group is not None:
                self._by_released.setdefault(self._released_key(key), {})[watch] = key
        try:
            yield watch
        finally:
            for key in keys:
                _end(watch, self._watches, key.stream)
                _end(watch, self._by_released, self._released_key(key))

    def change_of(self, stream: bytes) -> int | None:
        """Return the number of a stream's last change, or None if changes may go unnoticed."""
        if not self.are_noticed():
            return None
        if len(self._changes) > _CHANGES_MAX:
            self._changes.clear()
        return self._changes.setdefault(stream, next(self._numbers))

    async def block(
        self,
        read: QueuedRead[T],
        wait_ms: int | None,
        watch: Watch,
        *,
        due_in_ms: int | None = None,
    ) -> T | None:
        """Block a read until it is served or fails; return None if its wait time is over.

        `wait_ms` None waits without limit. `watch` has the signals since the read was first run.
        `due_in_ms` is when the read may claim something even if nothing changes; None is never.
        Raises TooManyWaiters, Draining, or what the read raised when it was run again.
        """
        self.add(read)
        for key in read.queues:
            if watch.has_signal:
                self.signal(key)
            if due_in_ms is not None:
                self.due_in(key, due_in_ms)
        loop = asyncio.get_running_loop()
        timer = None if wait_ms is None else loop.call_later(wait_ms / 1000, read.expire)
        try:
            return await read.served
        except Exception:
            read.forget_error()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            self.remove(read)
            read.leave()

    async def wait_turn(self, keys: Iterable[QueueKey]) -> None:
        """Wait until the reads that block in these queues have been run again."""
        for key in keys:
            self.signal(key)
            queue = self._find(key)
            if queue is not None and queue.serving is not None:
                await asyncio.wait({queue.serving})  # however that ends

    # What happened

    def signal(self, key: QueueKey) -> None:
        for watch in self._watches.get(key.stream, ()):
            watch.has_signal = True
        queue = self._find(key)
        if queue is None or self._tasks is None:
            return
        queue.has_signal = True
        if queue.serving is None:
            queue.serving = self._tasks.create_task(self._serve(key, queue))

    def signal_stream(self, stream: bytes) -> None:
        if stream in self._changes:
            self._changes[stream] = next(self._numbers)
        for watch in self._watches.get(stream, ()):
            watch.has_signal = True
        for group in list(self._queues.get(stream, ())):
            self.signal(QueueKey(stream, group))

    def freed(self, stream: bytes) -> None:
        """Note that consumers of groups of a stream may hold less than before."""
        for group, queue in list(self._queues.get(stream, {}).items()):
            if queue.has_full_consumers:
                self.signal(QueueKey(stream, group))

    def signal_side(self, key: bytes) -> None:
        """Note a changed side key: entries of its group may have been released."""
        for queue_key in set(self._by_released.get(key, {}).values()):
            self.signal(queue_key)

    def signal_all(self) -> None:
        self._changes.clear()
        for watch in chain.from_iterable(self._watches.values()):
            watch.has_signal = True
        for key, _ in self._all():
            self.signal(key)

    def _all(self) -> list[tuple[QueueKey, _Queue]]:
        return [
            (QueueKey(stream, group), queue)
            for stream, queues in self._queues.items()
            for group, queue in queues.items()
        ]

    def drain(self) -> None:
        """End all blocked reads with `Draining`, in turns; no read may block from now on."""
        self.is_draining = True
        reads = [
            read for _, queue in self._all() for read in chain(queue.in_order(), queue.of_full())
        ]
        _end_in_turns(iter(reads))

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self.signal_all()
                self._tasks.create_task(periodic.repeat("all blocked reads", self._look_at_all))
                await periodic.repeat("blocked reads of full consumers", self._look_at_full)
        finally:
            self._tasks = None

    async def _look_at_full(self) -> None:
        await asyncio.sleep(_FULL_LOOK_S)
        for key, queue in self._all():
            if queue.has_full_consumers:
                self.signal(key)

    async def _look_at_all(self) -> None:
        await asyncio.sleep(_ALL_LOOK_S)
        for at, (key, _) in enumerate(self._all()):
            self.signal(key)
            if at % _TOGETHER_MAX == 0:
                await asyncio.sleep(_PAUSE_S)

    # Serving

    async def _serve(self, key: QueueKey, queue: _Queue) -> None:
        try:
            while queue.has_signal and queue:
                queue.has_signal = False
                if key.group is None:
                    await self._serve_everybody(queue)
                else:
                    if await self._serve_in_order(queue, queue.in_order()):
                        unruled = [read for read in queue.in_order() if not read.by_policy]
                        await self._serve_in_order(queue, unruled)
                    await self._serve_in_order(queue, queue.of_full(), full=True)
        except Exception as error:  # noqa: BLE001  all are looked at again in a while
            self._on_outcome(error)
        finally:
            queue.serving = None

    async def _serve_everybody(self, queue: _Queue) -> None:
        by_request: dict[Hashable, list[QueuedRead[Any]]] = {}
        for read in queue.in_order():
            by_request.setdefault(read.request, []).append(read)
        for together in portions(list(by_request.values()), _TOGETHER_MAX):
            await asyncio.gather(*(self._serve_alike(reads) for reads in together))

    async def _serve_alike(self, reads: Sequence[QueuedRead[Any]]) -> None:
        outcome = await _outcome(reads[0])
        if outcome is None:
            for read in reads:
                read.request = reads[0].request  # it may go on from another place
            reads[0].go_on()
            return
        for at, read in enumerate(reads, 1):
            self._answer(read, outcome)
            if at % _GIVEN_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _serve_in_order(
        self, queue: _Queue, of_group: Iterable[QueuedRead[Any]], *, full: bool = False
    ) -> bool:
        """Run reads of a group, longest waiting first, until one gets nothing.

        `full`: their consumers held as many entries as they may. Return whether reads that do not
        go by the group's rules may still get something.
        """
        reads = iter(of_group)
        together = 1
        while batch := [read for read in islice(reads, together) if not read.served.done()]:
            outcomes = await asyncio.gather(*map(_outcome, batch))
            unserved: list[QueuedRead[Any]] = []
            for read, outcome in zip(batch, outcomes, strict=True):
                if outcome is not None:
                    self._answer(read, outcome)
                else:
                    read.go_on()
                    self._place(read)
                    unserved += [] if read.full else [read]
            if not full and unserved:
                return queue.has_unruled and all(read.by_policy for read in unserved)
            together = min(2 * together, _TOGETHER_MAX)
        return False

    def _answer(self, read: QueuedRead[T], outcome: T | Exception) -> None:
        if not isinstance(outcome, Exception):
            read.give(outcome)
        elif not read.served.done():
            read.served.set_exception(outcome)
        self.remove(read)

    def _released_key(self, key: QueueKey) -> bytes:
        return self._names.of(key.stream).side(b"released", key.group)

    # Time

    def due_in(self, key: QueueKey, delay_ms: int) -> None:
        queue = self._find(key)
        if queue is None:
            return
        loop = asyncio.get_running_loop()
        at_s = loop.time() + max(delay_ms, 1) / 1000
        if queue.timer is not None and not queue.timer.cancelled():
            if loop.time() < queue.due_at_s <= at_s:
                return
            queue.timer.cancel()
        queue.timer, queue.due_at_s = loop.call_at(at_s, self.signal, key), at_s


def _end(watch: Watch, watches: dict[bytes, dict[Watch, QueueKey]], key: bytes) -> None:
    watched = watches.get(key, {})
    if watched.pop(watch, None) is not None and not watched:
        del watches[key]


def _end_in_turns(reads: Iterator[QueuedRead[Any]]) -> None:
    """End some reads with `Draining`, and the others in the next turns of the event loop."""
    portion = list(islice(reads, _GIVEN_AT_ONCE))
    for read in portion:
        if not read.served.done():
            read.served.set_exception(Draining())
    if portion:
        asyncio.get_running_loop().call_soon(_end_in_turns, reads)


async def _outcome(read: QueuedRead[T]) -> T | Exception | None:
    """Run a read again; return its result or error, or None if it goes on waiting.

    A read goes on waiting while the servers are down, unless entries may have been delivered to it
    and lost on the way: then its reader has to check what it holds.
    """
    try:
        return await read.attempt()
    except AnswerLost as error:
        return error.with_traceback(None) if read.consumer else None
    except (Unavailable, NotSent, Lost):
        return None
    except Exception as error:  # noqa: BLE001  its reply, e.g. the group is gone
        return error.with_traceback(None)
