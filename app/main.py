"""The app: `create_app` puts the parts together, and is the only place that chooses a backend."""

import asyncio
import mimetypes
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi_offline import FastAPIOffline

from app import document, handlers
from app.backend import Backend
from app.commands import CommandRunner
from app.dependencies import Gateway
from app.origin import OriginGuard
from app.routes import commands, deliveries, entries, events, groups, operations, socket, streams
from app.schemas import Limits
from app.settings import Settings
from app.telemetry import Metrics, RequestMetrics
from engine.engine import Engine
from engine.storage import MemoryStorage

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
    "Events": "The same reads as Server-Sent Events.",
    "Commands": "Redis commands, for people and libraries that already speak them.",
    "Operations": "Health, metrics and bounds of the gateway.",
}


def create_app(settings: Settings, backend: Backend | None = None) -> FastAPI:
    """Return the gateway as an ASGI app.

    Args:
        settings: what the operator chose.
        backend: what keeps the streams; the engine of this process unless given.
    """
    metrics = Metrics()
    chosen: Backend = backend or Engine(
        MemoryStorage(RECORDS_KEPT), waiters_max=settings.waiters_max
    )
    metrics.watch(lambda: chosen.waiter_count)
    app = FastAPIOffline(
        title="Headgate",
        version=version("headgate"),
        description=_DESCRIPTION,
        redoc_url=None,
        openapi_tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
        lifespan=_lifespan,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    limits = Limits(**settings.model_dump(include=set(Limits.model_fields)))
    app.state.gateway = Gateway(chosen, limits, metrics, _runner(chosen), random.Random())
    for router in (
        entries.router,
        entries.batches,
        deliveries.router,
        streams.router,
        streams.patches,
        groups.router,
        groups.patches,
        events.router,
        socket.router,
        operations.router,
        commands.router,
        commands.paths,
    ):
        app.include_router(router)
    mimetypes.init()  # it reads files: not during the first request for /docs
    handlers.install(app)
    document.install(app)
    _add_middleware(app, settings, metrics)
    return app


def _runner(backend: Backend) -> CommandRunner | None:
    return CommandRunner(backend) if isinstance(backend, Engine) else None


def _add_middleware(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    """Add middleware, innermost first."""
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allowed_origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["ETag", "Idempotent-Replayed", "Location", "Retry-After"],
        )
    app.add_middleware(
        OriginGuard,
        hosts=[settings.host, *settings.allowed_hosts],
        origins=settings.allowed_origins,
    )
    app.add_middleware(RequestMetrics, metrics=metrics)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Own what runs beside the requests."""
    backend = app.state.gateway.backend
    if not isinstance(backend, Engine):
        yield
        return
    async with asyncio.TaskGroup() as tasks:
        retention = tasks.create_task(backend.keep_house())
        try:
            yield
        finally:
            retention.cancel()
