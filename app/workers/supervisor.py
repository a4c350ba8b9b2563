"""Starts the engine and the workers of a gateway, keeps them, and ends them.

1. The engine process loads the streams. Meanwhile the workers import the program.
2. Once the engine serves, the workers get their orders and listen. Then the gateway is available.
3. A process that ends is restarted. One that hangs is killed, and so it ends (`child.py`).
   SIGHUP replaces the workers one after the other: the new one listens before the old one stops.
4. SIGTERM or SIGINT: the workers answer waiting requests, and end; then the engine makes everything
   durable, and ends.

The supervisor serves no request and has no state of the streams. If it dies, the others notice that
their channel is closed, and end.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headgate.app.measuring.families import observed_families
from headgate.app.measuring.recorder import HISTORY, Recorder, decode_question, encode_answer
from headgate.app.measuring.sampler import sample_of_process
from headgate.app.measuring.series import SAMPLE, Sample, decode_sample, encode_observer
from headgate.app.runtime import metric_sums as sums
from headgate.app.runtime import periodic
from headgate.app.runtime.telemetry import Collected, process_families, versions
from headgate.app.runtime.terminal import Terminal
from headgate.app.workers.channel import Orders
from headgate.app.workers.child import Child, Heartbeats, RestartFailed, Role, Slot, StartFailed
from headgate.app.workers.engine_socket import EngineSocket
from headgate.app.workers.hub import Hub
from headgate.engine.clock import SystemClock

log = logging.getLogger("headgate")

WORKERS_END_S_MAX: Final = 8.0
"""Time for workers to answer blocked requests: a little more than the server itself allows."""

ENGINE_END_S_MAX: Final = 50.0
"""Time for the engine to write its records. It is killed only after that."""

_METRICS_WITHIN_S = 2.0
_SAMPLES_WITHIN_S = 0.8

_OWN_NUMBER: Final = 0
"""No other process has it."""


class ProcessPlan(NamedTuple):
    settings: bytes  # as JSON, for the other processes
    worker_count: int
    sockets: Sequence[socket.socket]  # bound, and not listening
    redis_sockets: Sequence[socket.socket]  # likewise, for Redis clients
    data_dir: Path | None  # None: nothing is kept
    has_engine: bool  # or else servers keep the streams
    ticket_secret: bytes
    staged_dir: Path | None
    wait_ms_max: int  # of a request


class Supervisor:
    def __init__(self, plan: ProcessPlan, on_listening: Callable[[], None]) -> None:
        """`on_listening` is called once all workers listen."""
        self.plan = plan
        self._on_listening = on_listening
        self._hub = Hub()
        self._hub.on_question(sums.METRICS, self._metrics)
        self._hub.on_question(HISTORY, self._history)
        self._samples: dict[int, Sample] = {}  # the last of each process
        self._recorder = Recorder(self._gather_samples, SystemClock())
        self._sums = sums.Sums()
        self._registry = CollectorRegistry()
        self._registry.register(_OwnMetrics(self))
        versions()  # it reads files: not while requests wait
        self._registry.register(Collected(process_families))
        self._registry.register(Collected(lambda: observed_families(self._recorder.observed)))
        self._socket: EngineSocket | None = None
        self._children: dict[int, tuple[Role, Child]] = {}
        self._count = 0  # of processes that were ever started
        self._serving: asyncio.Task[None] | None = None
        self._reload = asyncio.Event()
        self._has_streams = asyncio.Event()  # since the start; workers may listen
        self._is_stopping = False
        longest_s = plan.wait_ms_max / 1000 + WORKERS_END_S_MAX
        self.engine = Slot(partial(self._start, Role.ENGINE, "engine"), is_needed=lambda: True)
        self.workers = [
            Slot(
                partial(self._start, Role.WORKER, f"worker {number}"),
                is_needed=lambda: not self.serving_count,
                replaced_s_max=longest_s,
            )
            for number in range(1, plan.worker_count + 1)
        ]

    @property
    def serving_count(self) -> int:
        return sum(slot.child is not None for slot in self.workers)

    async def run(self) -> None:
        """Serve until told to stop. Raises StartFailed, RestartFailed, InUse or OSError."""
        if self.plan.has_engine:
            self._socket = EngineSocket(self.plan.data_dir)
        terminal = Terminal()
        loop = asyncio.get_running_loop()
        self._serving = asyncio.create_task(self._serve())
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._hang_up(terminal))
        try:
            with suppress(asyncio.CancelledError):
                await self._serving
        except* RestartFailed as errors:
            raise _first(errors) from None
        finally:
            self._is_stopping = True
            await self._end()
            if self._socket is not None:
                self._socket.close()

    def _stop(self) -> None:
        if self._is_stopping:
            for role, child in self._children.values():
                if role is Role.WORKER:
                    child.kill()
            return
        self._is_stopping = True
        if self._serving is not None:
            self._serving.cancel()

    def _hang_up(self, terminal: Terminal) -> None:
        if terminal.is_gone:
            self._stop()
        else:
            self._reload.set()

    async def _serve(self) -> None:
        starts = [slot.fill() for slot in self.workers]
        if self.plan.has_engine:
            starts.insert(0, self._start_engine())
        else:
            self._has_streams.set()
        await _all_or_first_error(starts)
        self._on_listening()
        async with asyncio.TaskGroup() as tasks:
            if self.plan.has_engine:
                tasks.create_task(self.engine.keep())
            for slot in self.workers:
                tasks.create_task(slot.keep())
            tasks.create_task(periodic.repeat("reload", self._replace_when_asked))
            tasks.create_task(self._recorder.run())
            tasks.create_task(Heartbeats(self._serving_children).run())

    def _serving_children(self) -> list[Child]:
        slots = [self.engine, *self.workers]
        return [slot.child for slot in slots if slot.child is not None]

    async def _start_engine(self) -> None:
        await self.engine.fill()
        self._has_streams.set()

    async def _replace_when_asked(self) -> None:
        await self._reload.wait()
        self._reload.clear()
        log.info("reload: workers are replaced one by one")
        for slot in self.workers:
            if not await slot.replace():
                break
        else:
            log.info("reload finished")

    async def _start(self, role: Role, name: str) -> Child:
        sockets, redis_sockets, plan = [], [], self.plan
        if role is Role.WORKER:
            sockets = [each.fileno() for each in plan.sockets]
            redis_sockets = [each.fileno() for each in plan.redis_sockets]
        elif self._socket is not None:
            sockets = [self._socket.listening.fileno()]
        self._count += 1
        child = await Child.start(name, self._count, [*sockets, *redis_sockets])
        self._children[child.number] = role, child
        ending = asyncio.create_task(self._forget_at_end(child))
        if role is Role.WORKER:
            await self._has_streams.wait()
        orders = Orders(
            plan.settings,
            child.number,
            plan.worker_count,
            sockets,
            redis_sockets,
            None if self._socket is None else str(self._socket.path),
            plan.ticket_secret,
            not self._has_streams.is_set(),
            None if plan.staged_dir is None else str(plan.staged_dir),
            child.stack_descriptor,
        )
        try:
            await child.serve(orders, self._hub.take)
        except StartFailed:
            await ending
            raise
        self._hub.enter(child.number, child.channel, is_engine=role is Role.ENGINE)
        if not child.is_running:  # it has ended in the meantime, and left before it entered
            self._hub.leave(child.number)
        return child

    async def _forget_at_end(self, child: Child) -> None:
        await child.until_end()
        child.close()
        self._hub.leave(child.number)
        self._sums.end(child.number)
        del self._children[child.number]

    async def _gather_samples(self) -> Mapping[int, Sample]:
        """Return a sample of each process; if one does not answer, its last one."""
        body = encode_observer(self._observing_number())
        answers = await self._hub.ask_all(SAMPLE, body, _SAMPLES_WITHIN_S)
        before = self._samples
        for sample in before.values():
            sample.observed = None
        samples = {number: before[number] for number in self._children if number in before}
        samples |= {number: decode_sample(answer) for number, answer in answers.items()}
        self._samples = samples
        return {_OWN_NUMBER: sample_of_process(), **samples}

    def _observing_number(self) -> int:
        role = Role.ENGINE if self.plan.has_engine else Role.WORKER
        numbers = (number for number, (its, _) in self._children.items() if its is role)
        return min(numbers, default=_OWN_NUMBER)

    async def _history(self, body: bytes, within_s: float) -> bytes:
        del within_s
        return encode_answer(self._recorder.answer(decode_question(body)))

    async def _metrics(self, body: bytes, within_s: float) -> bytes:
        answers = await self._hub.ask_all(sums.METRICS, body, min(within_s, _METRICS_WITHIN_S))
        for number, answer in answers.items():
            if number in self._children:
                self._sums.note(number, sums.decode(answer))
        return sums.encode(self._sums.total(sums.families_of(self._registry)))

    async def _end(self) -> None:
        workers = [child for role, child in self._children.values() if role is Role.WORKER]
        await _ended(workers, WORKERS_END_S_MAX)
        engines = [child for role, child in self._children.values() if role is Role.ENGINE]
        if not await _ended(engines, ENGINE_END_S_MAX):
            raise RestartFailed("the engine process was killed because it did not end")


async def _ended(children: Sequence[Child], within_s: float) -> bool:
    """Ask processes to end, and kill those that do not in time. Return whether none was killed."""
    for child in children:
        if child.is_ready:
            child.stop()
        else:
            child.kill()
    endings = [asyncio.create_task(child.until_end()) for child in children]
    if not endings:
        return True
    _, pending = await asyncio.wait(endings, timeout=within_s)
    for child in children:
        if child.is_running:
            log.error("process killed because it did not end", extra={"killed": child.name})
            child.kill()
    await asyncio.gather(*endings)
    return not pending


async def _all_or_first_error(starts: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Wait for all; the first error is raised at once, and the others are cancelled."""
    tasks = [asyncio.create_task(start) for start in starts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _first(errors: BaseExceptionGroup[RestartFailed]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _OwnMetrics(Collector):
    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def collect(self) -> list[Metric]:
        slots = self._supervisor.workers
        workers = GaugeMetricFamily("headgate_workers", "Worker processes that are serving.")
        workers.add_metric([], self._supervisor.serving_count)
        restarts = CounterMetricFamily(
            "headgate_process_restarts",
            "Processes that were restarted after they had ended.",
            None,
            ["role"],
        )
        restarts.add_metric(["worker"], sum(slot.restart_count for slot in slots))
        families: list[Metric] = [workers, restarts]
        if self._supervisor.plan.has_engine:
            restarts.add_metric(["engine"], self._supervisor.engine.restart_count)
            up = GaugeMetricFamily("headgate_engine_up", "1 while the engine process is serving.")
            up.add_metric([], self._supervisor.engine.child is not None)
            families.append(up)
        return families
