"""The process that keeps the streams, and performs the requests of the workers."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress

import uvloop

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.backends.leading import remove_stranded_then
from headgate.app.backends.remote.server import EngineServer
from headgate.app.gateway.assembly import (
    observer_of,
    sealing_of,
    sender_of,
    watch_loop,
    watch_streams,
)
from headgate.app.gateway.backends import open_engine
from headgate.app.gateway.credentials import share_keys
from headgate.app.measuring.sampler import Sampler
from headgate.app.runners import Runner, runners_of
from headgate.app.runtime import collector
from headgate.app.runtime.logs import progress_of_gateway
from headgate.app.runtime.loop_delay import LoopDelay
from headgate.app.runtime.metric_sums import METRICS, encode, families_of
from headgate.app.runtime.telemetry import Metrics
from headgate.app.server import GRACE_S
from headgate.app.settings import Settings
from headgate.app.workers.channel import Orders
from headgate.app.workers.hub import Member, end_in_time

log = logging.getLogger("headgate")

_LOOK_S = 0.05


def run(settings: Settings, orders: Orders, end: socket.socket) -> None:
    """Serve until told to stop. Raises Unavailable, Corrupt or OSError if it cannot start."""
    listening = socket.socket(fileno=orders.sockets[0])
    listening.set_inheritable(False)
    gc.disable()  # nothing that is loaded is garbage
    backend = open_engine(settings, progress_of_gateway())
    collector.look_at_the_new_only()  # nor will it be
    gc.enable()
    member = Member(orders, end, end_in_time)
    metrics = Metrics()
    watch_streams(metrics, backend, settings)
    member.on_question(METRICS, lambda _: encode(families_of(metrics.registry)))
    loop_delay = watch_loop(metrics, settings)
    sampler = Sampler(
        metrics,
        loop_delay,
        streams=backend,
        waiter_count=lambda: 0,  # workers count theirs
        observer=observer_of(backend, settings),
    )
    sampler.answer_siblings(member)
    runners = runners_of(
        backend, sender_of(settings), sealing_of(settings, orders.ticket_secret), metrics.registry
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(
            _serve(
                *(backend, listening, member, loop_delay, sampler, runners),
                is_first=orders.is_first,
                settings=settings,
            )
        )


async def _serve(
    backend: EmbeddedBackend,
    listening: socket.socket,
    member: Member,
    loop_delay: LoopDelay,
    sampler: Sampler,
    runners: Sequence[Runner],
    *,
    is_first: bool,
    settings: Settings,
) -> None:
    """Serve the workers, then sync; if `is_first`, all temporary consumers are leftovers."""
    is_over = asyncio.Event()
    # A service manager may send SIGTERM to all processes at once. Workers need the engine until
    # they have answered, so only the supervisor ends it.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
    await member.open(lambda _: is_over.set())
    async with asyncio.TaskGroup() as tasks:
        measuring = tasks.create_task(loop_delay.run())
        keeping = tasks.create_task(
            collector.keep_low(lambda: sum(backend.memory_bytes().values()))
        )
        counting = tasks.create_task(collector.keep_few_new())
        sampling = tasks.create_task(sampler.run())
        running = [tasks.create_task(_run_then(runner, backend)) for runner in runners]
        tasks.create_task(backend.run())
        keys = tasks.create_task(share_keys(settings, backend))
        removing = tasks.create_task(remove_stranded_then(backend)) if is_first else None
        if removing is not None and not settings.standby:
            await removing
        server = EngineServer(backend)
        # The other descriptor is open until the end: so a next gateway sees that there is this one.
        serving = tasks.create_task(server.run(listening.dup()))
        member.ready()
        await is_over.wait()
        await _until_left(server)
        backend.drain()
        sampling.cancel()
        for task in running:
            task.cancel()
        keys.cancel()
        if removing is not None:
            removing.cancel()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        keeping.cancel()
        counting.cancel()
        await backend.close()
        measuring.cancel()


async def _run_then(runner: Runner, backend: EmbeddedBackend) -> None:
    await backend.until_leading()
    await runner.run()


async def _until_left(server: EngineServer) -> None:
    """Wait for workers that still answer: the supervisor may have died without ending them."""
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_S):
            while server.sessions:  # noqa: ASYNC110  it knows no more of itself
                await asyncio.sleep(_LOOK_S)
