"""The app: `create_app` puts the parts together, and is the only place that chooses a backend."""

import asyncio
import logging
import mimetypes
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi_offline import FastAPIOffline
from starlette.middleware import Middleware

from headgate.app.backends.port import Backend, ClaimFeed
from headgate.app.bulk.arrow import ArrowThreads
from headgate.app.bulk.staging import Staging
from headgate.app.http import document, handlers
from headgate.app.http.dependencies import Gateway
from headgate.app.http.layers import put_together
from headgate.app.http.origin import OriginGuard
from headgate.app.live.subscriber import remove_stranded
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.redis_syntax.words import Bounds
from headgate.app.routes import (
    admin,
    bulk,
    commands,
    deliveries,
    entries,
    events,
    groups,
    operations,
    socket,
    streams,
    welcome,
)
from headgate.app.runtime import collector, machine
from headgate.app.runtime.loop_delay import LoopDelay
from headgate.app.runtime.telemetry import Metrics, RequestMetrics
from headgate.app.settings import MEMORY, Settings
from headgate.app.transport.proxies import proxy_headers
from headgate.app.transport.sockets import Sockets, sockets_max_of
from headgate.app.wire.schemas.limits import Limits
from headgate.engine.engine import Engine
from headgate.engine.errors import Unavailable
from headgate.engine.journal import recovery
from headgate.engine.journal.disk import SystemDisk
from headgate.engine.journal.journal import Growth, Journal
from headgate.engine.journal.recovery import Progress
from headgate.engine.journal.rewrite import in_process_of_its_own
from headgate.engine.journal.room import DiskBounds
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.state.bounds import KeyspaceBounds
from headgate.engine.state.memory import MemoryBounds

log = logging.getLogger("headgate")

_MEMORY_PERCENTAGE = 70
"""Of what the machine has, for the streams: a rewrite and connections take memory, too."""

RECORDS_KEPT = 1000
"""Records a memory storage keeps: to look at, as nothing can be recovered from them."""

_DESCRIPTION = """\
Durable ordered streams, consumer groups, acknowledgement and claims, over HTTP, Server-Sent Events
and WebSocket, with Redis Streams semantics.

Ids are strings `ms-seq`. Durations and instants are milliseconds. Unknown fields and parameters are
refused. Every error is a `Problem` (RFC 9457), and then nothing was changed.
"""

_TAGS = {
    "Streams": "Create, describe, configure, trim and delete streams.",
    "Entries": "Append entries; read them by range or after a cursor, waiting if asked to.",
    "Groups": "Consumer groups and their consumers.",
    "Delivery": "Read as a consumer of a group, acknowledge, give back, claim.",
    "Bulk": "Whole ranges of streams, planned, read and written by batch: for data pipelines.",
    "Events": "The same reads as Server-Sent Events.",
    "Commands": "Redis commands, for people and libraries that already speak them.",
    "Operations": "Health, metrics and bounds of the gateway.",
}


_ROUTERS = (
    entries.router,
    entries.batches,
    bulk.router,
    bulk.chunks,
    deliveries.router,
    streams.router,
    streams.patches,
    groups.router,
    groups.patches,
    events.router,
    operations.router,
    admin.router,
    commands.router,
    commands.paths,
    welcome.router,
)

_READ_BY_PAGES = [
    "ETag",
    "Headgate-Epoch",
    "Headgate-First-Id",
    "Headgate-Gap-To",
    "Headgate-Last-Id",
    "Headgate-Max-Deleted-Id",
    "Idempotent-Replayed",
    "Location",
    "Retry-After",
]


def create_app(settings: Settings, backend: Backend | None = None) -> FastAPI:
    """Return the gateway as an ASGI app.

    Args:
        settings: what the operator chose.
        backend: what keeps the streams; the engine of this process unless given.
    """
    gateway = _gateway(settings, backend or open_engine(settings))
    app = FastAPIOffline(
        title="Headgate",
        version=version("headgate"),
        description=_DESCRIPTION,
        redoc_url=None,
        contact={"name": "The developers of Headgate"},
        license_info={"name": "Apache 2.0", "identifier": "Apache-2.0"},
        openapi_tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
        lifespan=_lifespan,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.gateway = gateway
    app.state.commands = _runner(gateway.backend, gateway.limits)
    app.state.staging = _staging(settings)
    app.state.loop_delay = LoopDelay(
        gateway.metrics.registry, settings.loop_delay_warn_ms, CommandRunner.run.__code__
    )
    for router in _ROUTERS:
        app.router.routes.extend(router.routes)  # not nested: each would be looked for twice
    mimetypes.init()  # it reads files: not during the first request for /docs
    handlers.install(app)
    document.install(app)
    put_together(app, in_front=_in_front(settings, gateway.metrics), behind=_behind())
    return app


def _gateway(settings: Settings, backend: Backend) -> Gateway:
    """Return what an app is made of, counted in its metrics."""
    bounds = _memory_bounds(settings)
    metrics = Metrics()
    metrics.watch(lambda: backend.waiter_count)
    journal = _journal(backend)
    if journal is not None:
        metrics.watch_journal(lambda: journal.status)
    if isinstance(backend, Engine):
        metrics.watch_memory(lambda: backend.memory, bounds.size_bytes_max or 0)
    limits = Limits(
        **settings.model_dump(
            include=set(Limits.model_fields) - {"memory_bytes_max", "sockets_max"}
        ),
        memory_bytes_max=bounds.size_bytes_max or 0,
        sockets_max=sockets_max_of(settings.sockets_max),
    )
    sockets = Sockets(
        limits.sockets_max,
        arriving_bytes_max=limits.arriving_bytes_max,
        unsent_bytes_max=limits.unsent_bytes_max,
    )
    sockets.watch(metrics.registry)
    claim_feed = backend if isinstance(backend, ClaimFeed) else None
    return Gateway(backend, limits, metrics, claim_feed, journal, sockets, random.Random())


def _in_front(settings: Settings, metrics: Metrics) -> list[Middleware]:
    """Return the layers of all requests, the outermost first: they count, guard and allow."""
    hosts, origins = [settings.host, *settings.allowed_hosts], settings.allowed_origins
    layers = [
        Middleware(RequestMetrics, metrics),
        Middleware(OriginGuard, hosts=hosts, origins=origins),
    ]
    if origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=_READ_BY_PAGES,
        )
        layers.append(cors)
    return layers


def _behind() -> list[Middleware]:
    """Return the layers of what is no operation: sockets are served, and pages know their URL."""
    return [Middleware(socket.SocketRoutes), proxy_headers()]


def open_engine(settings: Settings, progress: Progress = recovery.no_progress) -> Engine:
    """Return the engine with everything that its data directory holds.

    Args:
        settings: what the operator chose.
        progress: told how far the loading is.

    Raises:
        Unavailable: another process uses the directory.
        Corrupt: a file is damaged, missing, or of a newer version.
        OSError: the directory cannot be used.
    """
    memory_bounds = _memory_bounds(settings)
    bounds = KeyspaceBounds(**settings.model_dump(include=set(KeyspaceBounds._fields)))
    if settings.data_dir == MEMORY:
        return Engine(
            MemoryStorage(RECORDS_KEPT),
            waiters_max=settings.waiters_max,
            memory=memory_bounds,
            bounds=bounds,
        )
    disk = SystemDisk(settings.data_dir)
    try:
        loaded = recovery.load_safely(disk, progress)
    except BaseException:
        disk.close()
        raise
    if loaded.torn is not None:
        name, offset, size_bytes, why = loaded.torn
        facts = {"file": name, "offset": offset, "size_bytes": size_bytes, "why": why}
        log.warning("torn tail put aside", extra=facts)
    journal = Journal(
        disk,
        settings.fsync,
        in_process_of_its_own(settings.data_dir, disk.spare),
        position=loaded.position,
        torn=loaded.torn,
        growth=Growth(settings.rewrite_percentage, settings.rewrite_bytes_min),
        bounds=DiskBounds(settings.disk_bytes_max, settings.disk_free_bytes_min),
        on_event=_log,
    )
    return Engine(
        journal,
        keyspace=loaded.keyspace,
        waiters_max=settings.waiters_max,
        memory=memory_bounds,
        bounds=bounds,
    )


def _memory_bounds(settings: Settings) -> MemoryBounds:
    limit_bytes = settings.memory_bytes_max
    if limit_bytes is None:
        limit_bytes = machine.memory_bytes() * _MEMORY_PERCENTAGE // 100
    return MemoryBounds(limit_bytes, settings.full)


def _log(event: str, facts: Mapping[str, object]) -> None:
    is_bad = "reason" in facts
    log.log(logging.ERROR if is_bad else logging.INFO, event, extra=dict(facts))


def _journal(backend: Backend) -> Journal | None:
    storage = backend.storage if isinstance(backend, Engine) else None
    return storage if isinstance(storage, Journal) else None


def _staging(settings: Settings) -> Staging:
    directory = None if settings.data_dir == MEMORY else settings.data_dir / "staged"
    return Staging(directory, bytes_max=settings.staged_bytes_max, ttl_ms=settings.staged_ttl_ms)


def _runner(backend: Backend, limits: Limits) -> CommandRunner | None:
    bounds = Bounds(limits.read_entries_max, limits.read_bytes_max)
    return CommandRunner(backend, bounds) if isinstance(backend, Engine) else None


def _streams_bytes(backend: Backend) -> Callable[[], int]:
    """Return what tells how much memory the streams of this process take."""
    return (lambda: backend.memory.size_bytes) if isinstance(backend, Engine) else (lambda: 0)


async def _watched(run: Coroutine[Any, Any, None], gateway: Gateway) -> None:
    """Do what the gateway cannot do without; if that fails, the process has to end."""
    try:
        await run
    except Exception as error:
        log.critical("the gateway has failed, and ends", exc_info=error)
        gateway.died.set()


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[dict[str, object]]:
    """Own what runs beside the requests; yields what each of them finds in its `state`."""
    gateway: Gateway = app.state.gateway
    backend, staging, arrow = gateway.backend, app.state.staging, ArrowThreads()
    loop_delay: LoopDelay = app.state.loop_delay
    async with asyncio.TaskGroup() as tasks:
        measuring = tasks.create_task(_watched(loop_delay.run(), gateway))
        if isinstance(backend, Engine):
            tasks.create_task(_watched(backend.run(), gateway))
        sweeping = tasks.create_task(_watched(staging.run(), gateway))
        keeping = tasks.create_task(_watched(collector.keep_low(_streams_bytes(backend)), gateway))
        try:
            with suppress(Unavailable):  # then nothing can change, and there is all that was
                await remove_stranded(backend)
            yield {
                "gateway": gateway,
                "staging": staging,
                "arrow": arrow,
                "commands": app.state.commands,
            }
        finally:
            sweeping.cancel()
            keeping.cancel()
            await staging.close()
            await arrow.close()
            if isinstance(backend, Engine):
                await backend.close()
            measuring.cancel()
