"""World: gateways on one bucket, each with a loop of its own, in one virtual time.

A gateway that is paused is not stepped, as a process that was stopped (SIGSTOP): time goes on, and
what it has sent arrives. One that is killed leaves its directory.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, TypeVar, cast

from headgate.engine.bucket.bucket import BucketError, RequestCounts, StoredObject
from tests.simulation.strands import Strand
from tests.virtual_time import JumpingSelector

T = TypeVar("T")


class World:
    """The time, and what happens when."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_s = 1000.0
        self.hosts: list[Host] = []
        self.trace: list[str] = []
        self.killed: list[Coroutine[Any, Any, Any]] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def at(self, time_s: float, act: Callable[[], None]) -> None:
        """Let something happen."""
        heapq.heappush(self._events, (time_s, next(self._numbers), act))

    def say(self, text: str) -> None:
        self.trace.append(f"{self.now_s:9.3f} {text}")

    def close(self) -> None:
        """Close what killed processes were about to do.

        Left to the collector, it would complain whenever that comes by, in any later test.
        """
        for coroutine in self.killed:
            with suppress(BaseException):  # of cleaning up with a loop that is closed
                coroutine.close()

    def run(self, until_s: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Let time pass until a moment, or until something holds."""
        while not is_over():
            times = [(host.next_s(), index) for index, host in enumerate(self.hosts) if host.runs]
            next_host = min(times, default=(float("inf"), 0))
            next_event = self._events[0][0] if self._events else float("inf")
            next_s = min(next_host[0], next_event)
            if next_s > until_s:
                self.now_s = max(self.now_s, until_s)
                return
            self.now_s = max(self.now_s, next_s)
            if next_event <= next_host[0]:
                heapq.heappop(self._events)[2]()
            else:
                self.hosts[next_host[1]].step()


class StandingSelector(JumpingSelector):
    """Never waits, and moves no time: the world does."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        del timeout
        return self._real.select(0)


class HostLoop(asyncio.SelectorEventLoop):
    """The loop of one process."""

    def __init__(self, world: World) -> None:
        self._world = world
        super().__init__(StandingSelector())

    def time(self) -> float:
        return self._world.now_s

    def next_s(self) -> float:
        """Return when there is something to do."""
        ready: Any = self._ready  # type: ignore[attr-defined]
        scheduled: Any = self._scheduled  # type: ignore[attr-defined]
        if ready:
            return self._world.now_s
        return scheduled[0].when() if scheduled else float("inf")


class Host:
    """A machine with one process. It is also its clock."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.runs = True
        self.set_ms = 0  # by how much somebody has set its wall clock
        self.loop = HostLoop(world)
        self.strands: set[Strand[Any]] = set()  # what its threads do
        self._late: list[Callable[[], None]] = []
        world.hosts.append(self)

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self.world.now_s * 1000) + self.set_ms

    def monotonic_ms(self) -> int:
        return int(self.world.now_s * 1000)

    def next_s(self) -> float:
        return self.loop.next_s()

    def step(self) -> None:
        """Run the callbacks that are ready."""
        asyncio.events._set_running_loop(self.loop)
        try:
            self.loop._run_once()  # type: ignore[attr-defined]
        finally:
            asyncio.events._set_running_loop(None)

    def pause(self) -> None:
        self.runs = False

    def resume(self) -> None:
        self.runs = True
        late, self._late = self._late, []
        for act in late:
            act()

    def later(self, time_s: float, act: Callable[[], None]) -> None:
        """Let something happen to this process; while it is paused, that waits."""
        self.world.at(time_s, lambda: act() if self.runs else self._late.append(act))

    def kill(self) -> None:
        """End the process. What its threads had begun stays as it is."""
        self.runs = False
        self._late = []
        for strand in self.strands:
            strand.kill()
        self.strands.clear()
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            self.world.killed.append(cast(Coroutine[Any, Any, Any], task.get_coro()))
        if self in self.world.hosts:
            self.world.hosts.remove(self)
        self.loop.close()


@dataclass
class Store:
    """The objects of a bucket, and what goes wrong on the way to them."""

    world: World
    objects: dict[str, bytes] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)  # the hosts that do not reach it
    error_chance: float = 0.0
    latency_s: float = 0.02

    def lags(self) -> float:
        """Return the time of one way."""
        random = self.world.random
        if random.random() < self.error_chance / 4:
            return random.random() * 10
        return random.random() * self.latency_s


class WorldBucket:
    """A bucket as one host sees it. It is a `Bucket`."""

    def __init__(self, store: Store, host: Host) -> None:
        self.counts = RequestCounts()
        self._store, self._host = store, host

    @property
    def url(self) -> str:
        return "file:///world"

    def put_new(self, name: str, content: bytes | Path) -> bool:
        assert isinstance(content, bytes)
        self.counts.put_count += 1

        def put() -> bool:
            is_new = name not in self._store.objects
            self._store.objects.setdefault(name, content)
            return is_new

        return self._asked(put, f"put {name}")

    def read(self, name: str) -> bytes:
        self.counts.get_count += 1
        return self._asked(lambda: self._content(name), f"get {name}")

    def read_range(self, name: str, offset: int, size_bytes: int) -> bytes:
        self.counts.get_count += 1
        return self._asked(
            lambda: self._content(name)[offset : offset + size_bytes], f"get {name} {offset}"
        )

    def _content(self, name: str) -> bytes:
        if name not in self._store.objects:
            raise FileNotFoundError(2, "No such object", name)
        return self._store.objects[name]

    def objects(self, prefix: str, after: str = "") -> list[StoredObject]:
        self.counts.list_count += 1

        def listed() -> list[StoredObject]:
            return sorted(
                StoredObject(name, len(data))
                for name, data in self._store.objects.items()
                if name.startswith(prefix) and name > after
            )

        return self._asked(listed, f"list {prefix}")

    def remove(self, names: Iterable[str]) -> None:
        def removed() -> None:
            for name in gone:
                self._store.objects.pop(name, None)

        gone = [*names]
        self.counts.removed_count += len(gone)
        self._asked(removed, f"remove {len(gone)}")

    def _asked(self, act: Callable[[], T], what: str) -> T:
        """Send a request, let the store do it when it arrives, and wait for the answer."""
        store, world, strand = self._store, self._host.world, Strand.running
        if strand is None:  # at a start, before there is a loop
            return act()
        answer: list[Any] = []
        there_s, back_s = store.lags(), store.lags()
        is_lost_before = world.random.random() < store.error_chance
        is_lost_behind = world.random.random() < store.error_chance
        is_double = world.random.random() < store.error_chance

        def arrive() -> None:
            if is_lost_before or self._host.name in store.away:
                return
            try:
                answer.append(act())
                if is_double:
                    answer[0] = act()  # a proxy has sent it twice
            except OSError as error:
                answer[:] = [error]

        world.at(world.now_s + there_s, arrive)
        strand.pause(there_s + back_s + (5.0 if is_lost_before else 0.0))
        if not answer or is_lost_behind or self._host.name in store.away:
            raise BucketError(f"no answer: {what}")
        if isinstance(answer[0], OSError):
            raise answer[0]
        return answer[0]  # type: ignore[no-any-return]

    async def in_thread(self, act: Callable[[], T]) -> T:
        future: asyncio.Future[T] = self._host.loop.create_future()
        strand = Strand(act)
        self._host.strands.add(strand)

        def go_on() -> None:
            if strand.is_done:  # it was killed
                return
            strand.resume()
            if not strand.is_done:
                self._host.later(self._host.world.now_s + strand.delay_s, go_on)
                return
            self._host.strands.discard(strand)
            if not future.done():
                if strand.error is not None:
                    future.set_exception(strand.error)
                else:
                    future.set_result(strand.result)

        self._host.later(self._host.world.now_s, go_on)
        return await future

    async def read_in_thread(self, act: Callable[[], T]) -> T:
        return await self.in_thread(act)

    def close(self) -> None:
        """Do nothing."""
