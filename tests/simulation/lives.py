"""Lives: one directory, and the engine that starts on it again and again, whatever has happened."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from random import Random
from typing import Any, NamedTuple

from headgate.engine.engine import Engine
from headgate.engine.errors import Corrupt, StreamError, Unavailable
from headgate.engine.journal import extents, records, recovery, writer
from headgate.engine.journal import snapshot as snapshots
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.recovery import Loaded
from headgate.engine.journal.rewrites import Growth
from headgate.engine.journal.room import DiskBounds
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.limits import CLOCK_STEP_MS_MIN
from headgate.engine.loop import executor
from headgate.engine.requests.entries import Add
from headgate.engine.requests.streams import ListStreams
from tests.simulation import checkers
from tests.simulation.checkers import ViolationError, ensure
from tests.simulation.disk import CrashError, Faults, Outage, SimulatedDisk
from tests.simulation.history import History, RecordedJournal, Request, asking
from tests.simulation.platter import Platter
from tests.simulation.sight import seen
from tests.simulation.workload import StepError, Workload, name_of
from tests.virtual_time import VirtualClock, VirtualLoop

LIVES_MAX = 4

PATIENCE_S = 120.0
"""Longer than any request may take in virtual time."""

Trace = Callable[[str], None]


class Plan(NamedTuple):
    """The plan of one life."""

    policy: FsyncPolicy
    faults: Faults
    is_orderly: bool  # it ends with a close, unless it crashes before
    growth: Growth
    bounds: DiskBounds
    client_count: int
    request_count: int  # of each client
    poison_chance: float  # that a transaction decides what cannot be applied
    report_fails: int | None  # which event cannot be logged, from 0: a task dies of that


class Simulation:
    """All lives of one seed."""

    def __init__(self, seed: int, lives: int = LIVES_MAX, trace: Trace | None = None) -> None:
        self._random = Random(seed)
        self._lives = lives
        self._trace = trace
        self._platter = Platter()
        self._history = History()
        self._floor = 0  # what the next recovery has to find, and after a power loss:
        self._floor_without_power = 0
        self._wall_ms = 1_700_000_000_000
        self._serial = 0
        self._was_unlucky = False  # the last crash was sent where crashes are rare
        self._policy = self._random.choice([FsyncPolicy.ALWAYS, *FsyncPolicy])

    def run(self) -> None:
        """Live every life, and recover a last time.

        Raises:
            ViolationError: something did not hold.
        """
        with _small_limits(self._random):
            for number in range(self._lives):
                self._say(f"life {number + 1}")
                self._live(self._plan())
            self._say("after all")
            last = SimulatedDisk(self._platter, self._random, Faults(), self._trace)
            self._recover(last, recovery.recover)
            if self._policy is FsyncPolicy.ALWAYS and recovery.names_in_use(
                SimulatedDisk(self._platter, self._random, Faults())
            ):
                checkers.damaged(self._platter, self._random)

    def _plan(self) -> Plan:
        random = self._random
        growth = Growth(random.choice([0, 50, 100]), random.choice([500, 4_000]))
        bounds = DiskBounds(random.choice([None, None, None, 6_000]), random.choice([0, 0, 600]))
        return Plan(
            self._policy,
            self._faults(),
            random.random() < 0.2,
            growth,
            bounds,
            client_count=random.randint(1, 6),
            request_count=random.randint(3, 30),
            poison_chance=random.choice([0.0, 0.0, 0.0, 0.2]),
            report_fails=random.randint(0, 3) if random.random() < 0.03 else None,
        )

    def _outages(self) -> tuple[Outage, ...]:
        random = self._random
        return tuple(
            Outage(
                random.choice(_CALLS),
                random.randint(0, random.choice([3, 30])),
                random.choice([1, 1, 2, 8, 40]),
                random.choice([errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EINTR]),
            )
            for _ in range(random.choice([1, 1, 2, 5]))
        )

    def _faults(self) -> Faults:
        random = self._random
        crash_after = crash_at = capacity_bytes = sync_fails = slow_sync = None
        fate = random.random()
        if self._was_unlucky and fate < 0.5:  # again, while it cleans up
            crash_after = random.randint(0, 8)
        elif fate < 0.5:
            crash_after = random.randint(0, random.choice([20, 150, 400]))
        elif fate < 0.75:  # where it does not come to by itself
            crash_at = random.choice(_RARE_POINTS), random.choice([0, 0, 0, 1, 2, 5])
        self._was_unlucky = crash_at is not None
        if random.random() < 0.1:
            capacity_bytes = self._platter.size_bytes + random.randint(0, 8_000)
        if random.random() < 0.15:
            sync_fails = random.randint(0, random.choice([10, 40]))
        if random.random() < 0.15:  # what fails may take its time
            slow_sync = sync_fails or random.randint(0, 20)
        names_sync_fails = random.randint(0, 10) if random.random() < 0.03 else None
        return Faults(
            outages=self._outages() if random.random() < 0.3 else (),
            names_sync_fails=names_sync_fails,
            crash_after=crash_after,
            crash_at=crash_at,
            is_power_lost=random.random() < 0.5,
            capacity_bytes=capacity_bytes,
            sync_fails=sync_fails,
            latency_s_max=random.choice([0.0001, 0.01, 0.01, 0.1]),
            slow_sync=slow_sync,
            slow_sync_s=random.choice([0.05, 0.5, 5.0]),
        )

    def _live(self, plan: Plan) -> None:
        self._say(f"{plan}")
        disk = SimulatedDisk(self._platter, self._random, plan.faults, self._trace)
        try:
            loaded = self._recover(disk, recovery.load_safely)
        except CrashError:
            self._note_crash(plan, is_new=False)
            return
        except OSError as error:  # a disk that cannot be read: the start is refused
            self._say(f"no start: {error}")
            if disk.has_lost:
                self._floor = self._floor_without_power
            return
        _Life(self, plan, disk, loaded).live()

    def _recover(self, disk: SimulatedDisk, recover: Callable[[Disk], Loaded]) -> Loaded:
        try:
            loaded = recover(disk)
        except Corrupt as error:
            raise ViolationError(f"recovery was refused: {error}") from error
        self._say(f"recovered {loaded.position} records, torn: {loaded.torn}")
        with seen(loaded.keyspace, self._platter):
            checkers.recovered(self._history, loaded, self._floor)
        self._floor = self._floor_without_power = loaded.position
        return loaded

    def _note_crash(self, plan: Plan, *, is_new: bool) -> None:
        if plan.faults.is_power_lost:
            self._floor = self._floor_without_power
        if is_new:
            self._say(f"the floor is {self._floor}")

    def _say(self, text: str) -> None:
        if self._trace is not None:
            self._trace(text)


class _Life:
    """From a start to a stop or a crash."""

    def __init__(
        self, simulation: Simulation, plan: Plan, disk: SimulatedDisk, loaded: Loaded
    ) -> None:
        self._simulation = simulation
        self._random = simulation._random
        self._history = simulation._history
        self._plan = plan
        self._disk = disk
        self._loop = VirtualLoop()
        self._loop.set_task_factory(_numbering())
        self._loop.set_exception_handler(self._on_error)
        self._clock = VirtualClock(max(simulation._wall_ms + self._random.choice(_JUMPS_MS), 1))
        self._journal = RecordedJournal(
            disk,
            plan.policy,
            partial(disk.rewrite, hot_bytes_max=self._random.choice([0, 1_000, 2**24])),
            position=loaded.position,
            torn=loaded.torn,
            growth=plan.growth,
            bounds=plan.bounds,
            chance=self._random,
            on_event=self._note_event,
        )
        self._journal.history, self._journal.platter = self._history, simulation._platter
        self._engine = Engine(
            self._journal, keyspace=loaded.keyspace, clock=self._clock, waiters_max=1_000
        )
        self._workload = Workload(
            self._engine, self._random, simulation._serial, simulation._platter
        )
        self._workload.poison_chance = plan.poison_chance
        self._steady_from_ms: int | None = None
        self._adjusted_ms = 0  # by how much the clock was set, little by little
        self._event_count = 0
        self._has_drained = False
        self._has_died = False
        self._errors: list[BaseException] = []

    def live(self) -> None:
        disk, loop = self._disk, self._loop
        disk.on_crash = self._stop
        main = loop.create_task(self._main())
        main.add_done_callback(lambda _: loop.stop())
        try:
            loop.run_forever()
            self._end()
            if main.done() and not disk.has_crashed:
                main.result()
            if self._errors:
                raise ViolationError(f"nobody expected {self._errors[0]!r}") from self._errors[0]
            ensure(not disk.violations, "; ".join(disk.violations))
        finally:
            self._dead_letter()

    def _stop(self) -> None:
        self._history.is_over = True
        self._loop.stop()

    def _end(self) -> None:
        """Note the records that must be found again."""
        simulation, history = self._simulation, self._history
        history.is_over = True
        now_s = self._loop.time()
        simulation._wall_ms = self._clock._start_ms + self._loop.time_ms()
        simulation._serial = self._workload.serial
        simulation._floor_without_power = self._floor_without_power(now_s)
        simulation._floor = history.acknowledged
        if self._disk.has_lost:  # what was written and not synced may be gone with the failure
            simulation._floor = simulation._floor_without_power
        if self._disk.has_crashed:
            simulation._note_crash(self._plan, is_new=True)
        elif self._plan.faults.is_power_lost and self._journal.status.failure is None:
            self._disk.crash()
            if self._has_died:  # or else everything should be safe by now
                simulation._note_crash(self._plan, is_new=True)

    def _floor_without_power(self, now_s: float) -> int:
        history, faults, policy = self._history, self._plan.faults, self._plan.policy
        if policy is FsyncPolicy.ALWAYS:
            return history.acknowledged
        synced = max(history.safe, self._journal.status.synced_position)
        if policy is FsyncPolicy.EVERYSEC and not self._disk.errors and not self._has_died:
            # A sync that is under way may be followed by another, and wait for others before it.
            late_s = 1.0 + 20 * faults.latency_s_max
            late_s += faults.slow_sync_s if faults.slow_sync is not None else 0.0
            old = [at for answered_s, at in history.answers if answered_s < now_s - late_s]
            synced = max([synced, *old])
        return synced

    def _dead_letter(self) -> None:
        """End all tasks, without anybody hearing of it."""
        self._disk.has_crashed = self._history.is_over = True
        self._loop.set_exception_handler(lambda *_: None)
        tasks = sorted(asyncio.all_tasks(self._loop), key=hash)
        for task in tasks:
            task.cancel()
        self._loop.call_soon(self._loop.stop)
        for _ in range(20):
            self._loop.call_soon(self._loop.stop)
            self._loop.run_forever()
        self._loop.close()

    async def _main(self) -> None:
        plan = self._plan
        running = asyncio.create_task(self._engine.run())
        clients = [asyncio.create_task(self._ask()) for _ in range(plan.client_count)]
        await asyncio.wait(clients, timeout=self._random.choice([5, PATIENCE_S]))
        if self._disk.errors and not running.done():
            await self._see_recovery(running)
        if self._journal.failure is None and not plan.is_orderly and not running.done():
            self._disk._check_alive()
            self._disk.crash()
            self._stop()
            return
        await self._stop_orderly(running, clients)

    async def _see_recovery(self, running: asyncio.Task[None]) -> None:
        """See that all is well as soon as the disk is, if nothing was lost."""
        self._disk.heal()
        await asyncio.wait([running], timeout=PATIENCE_S)
        if running.done() or self._journal.failure is not None:
            return
        status = self._journal.status
        ensure(status.fault is None, f"the disk is well, and yet: {status.fault}")
        is_full = (status.shortage or "").startswith("the journal is full")
        ensure(status.shortage is None or is_full, f"there is room, and yet: {status.shortage}")
        if not is_full and not running.done():
            request = Request("add", 0)
            asking.set(request)
            request.task = asyncio.current_task()
            with suppress(Unavailable):  # it has just failed, or broken
                await self._engine.perform(
                    Add(b"after all", [self._workload.draft()._replace(id=None)])
                )
                return
            ensure(self._engine.refusal is not None, "nothing is wrong, and yet it was refused")

    async def _stop_orderly(
        self, running: asyncio.Task[None], clients: list[asyncio.Task[None]]
    ) -> None:
        if self._journal.status.failure is not None and self._engine._executor._broken is None:
            await self._see_failure(running)
        self._has_drained = True
        self._engine.drain()
        _, hanging = await asyncio.wait(clients, timeout=PATIENCE_S)
        ensure(not hanging, f"{len(hanging)} clients wait for ever")
        for client in clients:
            client.result()
        ensure(self._engine.waiter_count == 0, "somebody is still waited for")
        has_failed = self._journal.status.failure is not None
        await asyncio.wait_for(self._engine.close(), PATIENCE_S)
        try:
            await asyncio.wait_for(running, PATIENCE_S)
        except ExceptionGroup as error:
            self._see_end(error)
            return
        self._simulation._say("stopped")
        if not has_failed and self._journal.status.failure is None:
            position = self._journal.position
            self._history.answer(position, self._loop.time())
            self._history.safe = position
            expected = self._history.state_at(position)
            with seen(self._engine.keyspace, self._simulation._platter) as actual:
                checkers.same_state(actual, expected, "at the end")

    def _see_end(self, error: ExceptionGroup[Exception]) -> None:
        """See that the engine has ended for a reason."""
        self._simulation._say(f"ended: {error.exceptions}")
        self._has_died = True
        _, others = error.split(_is_meant)
        if others is not None:
            raise others

    async def _see_failure(self, running: asyncio.Task[None]) -> None:
        """Look at the readable state once the disk has failed."""
        journal = self._journal
        await asyncio.sleep(PATIENCE_S)
        if running.done() and running.exception() is not None:
            return  # it ended for more than that
        ensure(self._engine.waiter_count == 0, "a read waits, and nothing can ever come")
        if self._journal._faults.is_given_up:  # and nothing can be read of what is not sure to last
            ensure(self._plan.policy is not FsyncPolicy.ALWAYS, "what is durable cannot be read")
            return
        durable = journal.durable_position
        ensure(journal.position == durable, "what is not durable was not given up")
        expected = self._history.state_at(durable)
        with seen(self._engine.keyspace, self._simulation._platter) as actual:
            checkers.same_state(actual, expected, "after the failure")
        await self._engine.perform(ListStreams())

    async def _ask(self) -> None:
        """Ask one request after the other."""
        for _ in range(self._plan.request_count):
            await asyncio.sleep(self._random.choice([0, 0, 0.001, 0.02, 0.3]))
            if self._random.random() < 0.03:
                self._set_clock(self._random.choice(_JUMPS_MS))
            if not self._has_drained:
                await self._ask_once()

    def _set_clock(self, by_ms: int) -> None:
        self._clock.step(by_ms)
        if abs(by_ms) < CLOCK_STEP_MS_MIN:
            self._adjusted_ms += abs(by_ms)

    def _see_time(self) -> None:
        """See that as much time has passed for what waits as for the loop."""
        passed_ms = self._loop.time_ms()
        if self._steady_from_ms is None:
            self._steady_from_ms = self._engine._executor.steady_ms() - passed_ms
        # A step that was given up may be undone by the next one but for a little, which is no step.
        off_ms_max = self._adjusted_ms + self._journal.gone_back_count * CLOCK_STEP_MS_MIN
        checkers.waits(self._engine, self._steady_from_ms + passed_ms, off_ms_max)

    async def _ask_once(self) -> None:
        name, ask = self._workload.next()
        # To begin a rewrite says nothing about what is recorded.
        position = 0 if name == "start_rewrite" else self._journal.position
        request = Request(name, position, self._workload.reader)
        asking.set(request)
        self._history.open_requests.add(request)
        self._simulation._say(f"{self._loop.time():.6f} {name}")
        request.task = asked = asyncio.create_task(_await(ask))
        patience_s = (
            self._random.choice([0.001, 0.05, 1.0]) if self._random.random() < 0.1 else None
        )
        await asyncio.wait([asked], timeout=patience_s)
        if not asked.done():
            asked.cancel()
            await asyncio.wait([asked])
        self._history.open_requests.discard(request)
        self._hear(request, asked)

    def _hear(self, request: Request, asked: asyncio.Task[Any]) -> None:
        if self._history.is_over:
            return
        if asked.cancelled():
            outcome = "gone"
        elif isinstance(error := asked.exception(), StreamError):
            checkers.refused(self._journal, self._disk, error)
            outcome = name_of(error)
        elif isinstance(error, StepError) or self._engine._executor._broken is not None:
            outcome = repr(error)
        else:
            reply = asked.result()
            position = checkers.answered(self._history, self._journal, request, reply)
            self._history.answer(position, self._loop.time())
            outcome = f"{position} {reply!r}"
        if self._simulation._trace is not None:
            self._simulation._say(f"{self._loop.time():.6f} {request.name}: {outcome}")
        self._see_time()

    def _note_event(self, event: str, facts: Mapping[str, object]) -> None:
        self._simulation._say(f"  {event}: {facts}")
        number, self._event_count = self._event_count, self._event_count + 1
        if number == self._plan.report_fails:
            raise TellError
        try:
            if not self._history.is_over:
                checkers.reported(self._disk, event, facts)
        except ViolationError as error:
            self._errors.append(error)

    def _on_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._errors.append(error or AssertionError(context["message"]))


class TellError(Exception):
    """An event cannot be logged."""


def _is_meant(error: BaseException) -> bool:
    return isinstance(error, TellError) or "the process ends" in str(error)


_CALLS = [
    *["append"] * 8,
    *["names", "size_bytes", "free_bytes", "reserve", "open", "truncate", "rename", "remove"],
]

_RARE_POINTS = [
    "rename",
    "renamed",
    "remove",
    "removed",
    "truncate",
    "truncated",
    "sync names",
    "names synced",
]

_JUMPS_MS = [0, 1, 50, -50, -3_000, 60_000, -60_000, 200_000, -3_600_000, 3_600_000]
"""Jumps of the wall clock, between lives and within."""


async def _await(ask: Callable[[], Any]) -> Any:
    return await ask()


class _NumberedTask(asyncio.Task[Any]):
    """A task that has the same place in a set in every run."""

    def __init__(self, number: int, coroutine: Any, **kwargs: Any) -> None:
        self._number = number
        super().__init__(coroutine, **kwargs)

    def __hash__(self) -> int:
        return self._number


def _numbering() -> Callable[..., asyncio.Task[Any]]:
    numbers = count()

    def number(loop: asyncio.AbstractEventLoop, coroutine: Any, **kwargs: Any) -> Any:
        return _NumberedTask(next(numbers), coroutine, loop=loop, **kwargs)

    return number


@contextmanager
def _small_limits(random: Random) -> Iterator[None]:
    """Let little be much, so that every bound is met often."""
    limits = {
        (writer, "SEGMENT_BYTES_MAX"): random.choice([300, 1_000, 5_000, 2**26]),
        (records, "BLOCK_BYTES_MAX"): random.choice([1, 200, 2**22]),
        (snapshots, "SNAPSHOT_ITEMS_MAX"): random.choice([1, 3, 4_096]),
        (snapshots, "_PAGE"): random.choice([1, 3, 4_096]),
        (snapshots, "_LINES"): random.choice([1, 3, 4_096]),
        (extents, "EXTENT_BYTES"): random.choice([1, 200, 1_000, 2**16]),
        (extents, "EXTENT_FILE_BYTES_MAX"): random.choice([500, 3_000, 2**28]),
        (extents, "CLEANED_BYTES_MAX"): random.choice([500, 2**28]),
        (executor, "CACHED_BYTES"): random.choice([0, 500, 2**28]),
    }
    before = {key: getattr(*key) for key in limits}
    for (module, name), value in limits.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name), value in before.items():
            setattr(module, name, value)
