"""`create_app` puts the routes and the layers around them over a gateway."""

import asyncio
import logging
import mimetypes
from collections.abc import AsyncIterator, Awaitable, Coroutine, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from starlette.middleware import Middleware

from headgate.app.auth.aspects import undecided
from headgate.app.auth.credentials import Credentials
from headgate.app.backends.leading import bucket_of, remove_stranded_then, until_leading
from headgate.app.backends.port import Backend
from headgate.app.bulk.arrow import THREADS_MAX
from headgate.app.bulk.staging import Staging
from headgate.app.durable_streams import routes as durable_streams
from headgate.app.durable_streams.subscriptions import routes as subscriptions
from headgate.app.gateway.assembly import assemble, observer_of, sender_of, watch_loop
from headgate.app.gateway.backends import open_backend
from headgate.app.gateway.credentials import open_credentials, share_keys
from headgate.app.gateway.gateway import Behind, Gateway
from headgate.app.http import document, handlers
from headgate.app.http.dispatch import WithoutRootPath, WithRootPath, put_together
from headgate.app.http.home_guard import HomeGuard
from headgate.app.http.origin import OriginGuard
from headgate.app.http.parameters import Unsupported
from headgate.app.live.frames.client import undeclared
from headgate.app.measuring.sampler import Measuring, Sampler
from headgate.app.routes import (
    admin,
    appends,
    bulk,
    channels,
    commands,
    commits,
    deliveries,
    entries,
    events,
    groups,
    guide,
    histories,
    keys,
    mcp,
    operations,
    pages,
    pattern_events,
    pattern_groups,
    principal,
    pushes,
    reads,
    schedules,
    schemas,
    socket,
    streams,
    tables,
)
from headgate.app.runners import Runner, runners_of
from headgate.app.runtime import collector
from headgate.app.runtime.loop_delay import LoopDelay
from headgate.app.runtime.siblings import Siblings
from headgate.app.runtime.telemetry import Metrics, RequestMetrics
from headgate.app.settings import MEMORY, Settings
from headgate.app.transport.proxies import Proxies
from headgate.app.transport.scopes import HEADER
from headgate.engine.clock import SystemClock
from headgate.engine.threads import Threads

log = logging.getLogger("headgate")

_DESCRIPTION = """\
Durable, ordered streams with consumer groups, acknowledgement and claims, over HTTP, Server-Sent
Events and WebSocket. They have the semantics of Redis Streams.

Ids are strings `ms-seq`. Durations and instants are in milliseconds. The gateway refuses unknown
fields and parameters. Every error is a `Problem` (RFC 9457); a request that fails changes nothing.
"""

_TAGS = {
    "Entries": "Append entries; read them by range or after a cursor, with an optional wait.",
    "Events": "Follow streams and groups as Server-Sent Events.",
    "Groups": "Create and describe groups and their consumers.",
    "Delivery": "Read as a consumer of a group, acknowledge, give back, claim.",
    "Streams": "Create, describe, configure, trim and delete streams.",
    "Tables": "Keep the latest entry of each key of a stream as a row; read and change rows.",
    "Channels": "Send messages that are not stored, and track presence.",
    "Push": "Send the entries of a group to a URL.",
    "Schedules": "Append entries at the times of a cron expression.",
    "Commands": "Run Redis commands over HTTP.",
    "Bulk": "Plan, read and write whole ranges of streams in batches, for data pipelines.",
    "Keys": "Create, rotate and revoke API keys.",
    "Operations": "Health, metrics, limits and administration of the gateway.",
}
"""In the order in which `/docs` shows them: what every client uses, then what operators use."""


_ROUTERS = (
    appends.router,
    reads.router,
    entries.router,
    appends.batches,
    appends.events,
    bulk.router,
    bulk.chunks,
    deliveries.router,
    commits.router,
    streams.router,
    appends.closes,
    streams.patches,
    tables.router,
    groups.router,
    groups.patches,
    pushes.router,
    schedules.router,
    schedules.patches,
    schedules.times,
    schemas.router,
    schemas.documents,
    events.router,
    channels.router,
    channels.streams,
    pattern_events.router,
    pattern_groups.router,
    pattern_groups.events,
    subscriptions.router,
    durable_streams.router,
    operations.router,
    principal.router,
    keys.router,
    admin.router,
    commands.router,
    commands.paths,
    pages.router,
    guide.router,
    mcp.router,
    histories.admin,
    histories.router,
)

_READ_BY_PAGES = [
    *durable_streams.READ_BY_PAGES,
    "ETag",
    "Headgate-Archived",
    "Headgate-Behind-Ms",
    "Headgate-Closed-At-Ms",
    "Headgate-Epoch",
    "Headgate-First-Id",
    "Headgate-Gap-To",
    "Headgate-Lag",
    "Headgate-Last-Id",
    "Headgate-Max-Deleted-Id",
    "Headgate-Next-After",
    "Headgate-Next-Before",
    "Headgate-Pending",
    "Headgate-State",
    "Idempotent-Replayed",
    "Location",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
    "WWW-Authenticate",
    HEADER,
]


def create_app(
    settings: Settings,
    backend: Backend | None = None,
    credentials: Credentials | None = None,
    *,
    siblings: Siblings | None = None,
    staged_dir: Path | None = None,
) -> FastAPI:
    """Return the gateway as an ASGI app. Raises ValueError for a faulty file of credentials."""
    credentials = credentials or open_credentials(settings)
    backend = backend or open_backend(settings)
    metrics = Metrics()
    loop_delay = watch_loop(metrics, settings)
    has_streams = siblings is None or not siblings.has_engine
    sampler = Sampler(
        metrics,
        loop_delay,
        streams=backend if has_streams else None,
        waiter_count=lambda: gateway.waiter_count,
        observer=observer_of(backend, settings) if has_streams else None,
    )
    measuring = Measuring(sampler, metrics, SystemClock(), siblings)
    gateway = assemble(settings, backend, credentials, metrics, measuring.history, siblings)
    app = FastAPI(
        title="Headgate",
        version=version("headgate"),
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        contact={"name": "The developers of Headgate"},
        license_info={"name": "Apache 2.0", "identifier": "Apache-2.0"},
        openapi_tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
        lifespan=_lifespan,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.gateway = gateway
    app.state.staging = _staging(settings, staged_dir, siblings)
    app.state.proxies = Proxies(settings.trusted_proxies)
    app.state.loop_delay = loop_delay
    app.state.measuring = measuring
    app.state.settings = settings
    registry = metrics.registry
    app.state.runners = (
        runners_of(backend, sender_of(settings), gateway.sealing, registry) if has_streams else ()
    )
    _check_declared()
    for router in _ROUTERS:
        app.router.routes.extend(router.routes)  # not nested: each would be looked for twice
    mimetypes.init()  # it reads files: not during the first request for /docs
    handlers.install(app)
    document.install(app, settings.root_path)
    put_together(app, in_front=_in_front(settings, gateway), behind=_behind(settings.root_path))
    return app


def _check_declared() -> None:
    """Raise Unsupported unless every request and frame declares the permissions it needs."""
    missing = [*undecided(), *undeclared()]
    if missing:
        raise Unsupported(f"no access rule is declared for {', '.join(missing)}")


def _in_front(settings: Settings, gateway: Gateway) -> list[Middleware]:
    origins = settings.allowed_origins
    guard = Middleware(
        OriginGuard,
        own_host=settings.host,
        hosts=settings.allowed_hosts,
        origins=origins,
        is_open=lambda: settings.allow_anonymous or gateway.auth.is_open,
    )
    layers = [Middleware(RequestMetrics, gateway.metrics), guard]
    if settings.trusted_proxies and not settings.allow_anonymous:
        layers.append(Middleware(HomeGuard, is_open=lambda: gateway.auth.is_open))
    if settings.standby_reads:
        layers.append(Middleware(Behind, lambda: bucket_of(gateway.backend)))
    if settings.root_path:
        layers.insert(0, Middleware(WithoutRootPath, settings.root_path))
    if origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["*"],
            allow_headers=["*"],
            allow_credentials="*" not in origins,  # cookies, which EventSource can send
            expose_headers=_READ_BY_PAGES,
        )
        layers.append(cors)
    return layers


def _behind(root_path: str) -> list[Middleware]:
    layers = [Middleware(socket.SocketRoutes)]
    if root_path:
        layers.append(Middleware(WithRootPath, root_path))
    return layers


def _staging(settings: Settings, directory: Path | None, siblings: Siblings | None) -> Staging:
    if directory is None and settings.data_dir != MEMORY:
        directory = settings.data_dir / "staged"
    return Staging(
        directory,
        bytes_max=settings.staged_bytes_max,
        ttl_ms=settings.staged_ttl_ms,
        siblings=siblings,
    )


async def _watched(run: Coroutine[Any, Any, None], gateway: Gateway) -> None:
    """Run a part that the gateway cannot do without; if it fails, the process ends."""
    try:
        await run
    except Exception as error:
        log.critical("the gateway has failed and is shutting down", exc_info=error)
        gateway.died.set()


async def _first(*waits: Awaitable[object]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _share_keys(settings: Settings, gateway: Gateway) -> None:
    if gateway.siblings is None or not gateway.siblings.has_engine:  # or the engine's process does
        await share_keys(settings, gateway.backend)


async def _run_then(runner: Runner, backend: Backend) -> None:
    await until_leading(backend)
    await runner.run()


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[dict[str, object]]:
    """Own the background tasks; yields the `state` that each request gets."""
    gateway: Gateway = app.state.gateway
    backend, staging, arrow = gateway.backend, app.state.staging, Threads(THREADS_MAX, "arrow")
    loop_delay: LoopDelay = app.state.loop_delay
    measured: Measuring = app.state.measuring
    async with asyncio.TaskGroup() as tasks:
        measuring = tasks.create_task(_watched(loop_delay.run(), gateway))
        tasks.create_task(_watched(backend.run(), gateway))
        following = tasks.create_task(_watched(gateway.credentials.run(), gateway))
        sweeping = tasks.create_task(_watched(staging.run(), gateway))
        keeping = tasks.create_task(_watched(collector.keep_low(gateway.streams_bytes), gateway))
        sharing = tasks.create_task(_watched(gateway.share(), gateway))
        counting = tasks.create_task(_watched(collector.keep_few_new(), gateway))
        runners: Sequence[Runner] = app.state.runners
        running = [tasks.create_task(_run_then(runner, backend)) for runner in runners]
        recording = tasks.create_task(_watched(measured.run(), gateway))
        removing = tasks.create_task(remove_stranded_then(backend))
        keys = tasks.create_task(_share_keys(app.state.settings, gateway))
        try:
            if not app.state.settings.standby:
                await _first(asyncio.shield(removing), gateway.died.wait())
            proxies: Proxies = app.state.proxies
            yield {"gateway": gateway, "staging": staging, "arrow": arrow, "proxies": proxies}
        finally:
            keys.cancel()
            removing.cancel()
            for task in running:
                task.cancel()
            recording.cancel()
            sharing.cancel()
            sweeping.cancel()
            following.cancel()
            await _ended("credentials", gateway.credentials.close())
            await _ended("test events", gateway.sender.close())
            keeping.cancel()
            counting.cancel()
            await _ended("staged chunks", staging.close())
            await _ended("Arrow", asyncio.to_thread(arrow.shutdown))
            await backend.close()
            if gateway.tracing is not None:
                await _ended("tracing", gateway.tracing.close())
            measuring.cancel()


async def _ended(what: str, close: Awaitable[None]) -> None:
    """Close a part at shutdown. Errors are not raised, so the streams are closed in any case."""
    try:
        await close
    except Exception:
        log.exception("part of the gateway not closed", extra={"part": what})
