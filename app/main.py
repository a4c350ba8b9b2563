"""The app: `create_app` puts the parts together, and is the only place that chooses a backend."""

import asyncio
import logging
import mimetypes
import os
import random
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from pydantic import SecretStr
from starlette.middleware import Middleware

from headgate.app.auth.credentials import CredentialOptions, Credentials
from headgate.app.auth.grants import ANYBODY, UsageLimits
from headgate.app.auth.rights import undecided
from headgate.app.auth.tokens.claims import ClaimRules
from headgate.app.auth.tokens.issuer import IssuerChoices
from headgate.app.backends.embedded import EmbeddedBackend, EmbeddedOptions, open_embedded
from headgate.app.backends.port import Ability, Backend
from headgate.app.backends.redis.address import ServerLogin, Tls, read_url
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.client import ClientOptions
from headgate.app.backends.releasing import remove_stranded
from headgate.app.backends.remote.backend import RemoteBackend, RemoteOptions
from headgate.app.bulk.arrow import ArrowThreads
from headgate.app.bulk.staging import Staging
from headgate.app.gateway import Gateway
from headgate.app.http import document, handlers
from headgate.app.http.layers import put_together
from headgate.app.http.origin import OriginGuard
from headgate.app.http.parameters import Unsupported
from headgate.app.http.root_path import WithoutRootPath, WithRootPath
from headgate.app.live.frames import undeclared
from headgate.app.measuring.observer import Observer, ObserverOptions
from headgate.app.measuring.process import Measuring
from headgate.app.measuring.recorder import HistoryReader
from headgate.app.measuring.sampler import Sampler
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.redis_syntax.words import Bounds
from headgate.app.resp.replies import UNTAKEN_BYTES_MAX
from headgate.app.routes import (
    admin,
    bulk,
    commands,
    console,
    deliveries,
    docs,
    entries,
    events,
    groups,
    guide,
    histories,
    operations,
    principal,
    problem_pages,
    socket,
    streams,
    stylesheet,
    tickets,
    welcome,
)
from headgate.app.runtime import collector, machine
from headgate.app.runtime.loop_delay import LoopDelay
from headgate.app.runtime.metric_sums import METRICS, encode, families_of
from headgate.app.runtime.server_facts import ServerSettings
from headgate.app.runtime.siblings import Siblings
from headgate.app.runtime.telemetry import Metrics, RequestMetrics
from headgate.app.settings import MEMORY, Settings
from headgate.app.transport.proxies import Proxies
from headgate.app.transport.request_ids import HEADER
from headgate.app.transport.sockets import UNREAD_BYTES_MAX, Sockets, sockets_max_of
from headgate.app.wire.schemas.limits import ChosenLimits, Limits
from headgate.engine.clock import Clock, SystemClock
from headgate.engine.errors import Unavailable
from headgate.engine.journal import recovery
from headgate.engine.journal.journal import Growth
from headgate.engine.journal.recovery import Progress
from headgate.engine.journal.room import DiskBounds
from headgate.engine.state.bounds import KeyspaceBounds
from headgate.engine.state.memory import MemoryBounds, WhenFull

if TYPE_CHECKING:
    from headgate.app.tracing.tracing import Tracing

log = logging.getLogger("headgate")

_MEMORY_PERCENTAGE = 70
"""Of what the machine has, for the streams: a rewrite and connections take memory, too."""

_OBSERVED_EVERY_S = 1.0
_OBSERVED_AT_SERVERS_EVERY_S = 10.0
"""Each stream and each group is asked about by itself there."""

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
    tickets.router,
    principal.router,
    admin.router,
    commands.router,
    commands.paths,
    welcome.router,
    console.router,
    guide.router,
    problem_pages.router,
    stylesheet.router,
    docs.router,
    histories.admin,
    histories.router,
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
    """Return the gateway as an ASGI app.

    Args:
        settings: what the operator chose.
        backend: what keeps the streams; the engine of this process unless given.
        credentials: who may come in; those that the settings name unless given.
        siblings: the other processes of the gateway, if there are any.
        staged_dir: where chunks are staged; as the settings say unless given.

    Raises:
        ValueError: a file of credentials has a fault; the text names it.
    """
    credentials = credentials or open_credentials(settings)
    backend = backend or open_backend(settings)
    metrics = Metrics()
    loop_delay = watch_loop(metrics, settings)
    has_streams = siblings is None or not siblings.has_engine
    sampler = Sampler(
        metrics,
        loop_delay,
        streams=backend if has_streams else None,
        waiter_count=lambda: backend.waiter_count,
        observer=observer_of(backend, settings) if has_streams else None,
    )
    measuring = Measuring(sampler, metrics, SystemClock(), siblings)
    gateway = _gateway(settings, backend, credentials, metrics, measuring.history, siblings)
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
    _check_declared()
    for router in _ROUTERS:
        app.router.routes.extend(router.routes)  # not nested: each would be looked for twice
    mimetypes.init()  # it reads files: not during the first request for /docs
    handlers.install(app)
    document.install(app, settings.root_path)
    put_together(app, in_front=_in_front(settings, gateway), behind=_behind(settings.root_path))
    return app


def open_credentials(
    settings: Settings,
    clock: Clock | None = None,
    *,
    ticket_secret: bytes | None = None,
    siblings: Siblings | None = None,
) -> Credentials:
    """Read the files of the credentials.

    Args:
        settings: what the operator chose.
        clock: tells when credentials end; the machine's unless given.
        ticket_secret: signs tickets; as the settings say unless given.
        siblings: the other processes of the gateway, if there are any.

    Raises:
        ValueError: one of them has a fault; the text names it.
    """
    if ticket_secret is None and settings.ticket_secret is not None:
        ticket_secret = settings.ticket_secret.get_secret_value().encode()
    anonymous = settings.anonymous if settings.allow_anonymous else None
    if settings.allow_anonymous and anonymous is None:
        anonymous = [ANYBODY]
    credentials = Credentials(
        CredentialOptions(
            data_dir=None if settings.data_dir == MEMORY else settings.data_dir,
            keys_file=settings.keys_file,
            issuer=_issuer(settings),
            ticket_secret=ticket_secret,
            anonymous=anonymous,
            opened=["open_metrics"] if settings.open_metrics else [],
            limits=_usage_limits(settings),
            bad_credentials_per_s_max=settings.bad_credentials_per_s_max,
            siblings=siblings,
        ),
        clock,
    )
    credentials.load()
    return credentials


def _issuer(settings: Settings) -> IssuerChoices:
    secret = settings.jwt_secret
    return IssuerChoices(
        secret=None if secret is None else secret.get_secret_value().encode(),
        public_key_file=settings.jwt_public_key_file,
        jwks=settings.jwt_jwks,
        algorithms=settings.jwt_algorithms,
        rules=ClaimRules(
            settings.jwt_audience,
            settings.jwt_issuer,
            settings.jwt_leeway_s,
            settings.jwt_grants,
        ),
    )


def _usage_limits(settings: Settings) -> UsageLimits:
    return UsageLimits(
        requests_per_s_max=settings.requests_per_s_max,
        entries_per_s_max=settings.entries_per_s_max,
        bytes_per_s_max=settings.bytes_per_s_max,
        connections_max=settings.principal_connections_max,
        waiters_max=settings.principal_waiters_max,
        subscriptions_max=settings.principal_subscriptions_max,
    )


def watch_streams(metrics: Metrics, backend: Backend, settings: Settings) -> None:
    """Show in metrics the memory and the journal of a backend that is in this process."""
    bounds = _memory_bounds(settings)
    journal = backend.journal
    if journal is not None:
        metrics.watch_journal(lambda: journal.status)
    metrics.watch_counts(
        lambda: backend.activity.appended_count,
        lambda: (backend.activity.syncs, backend.activity.commits),
    )
    metrics.watch_memory(backend.memory_bytes, bounds.size_bytes_max or 0)


def watch_loop(metrics: Metrics, settings: Settings) -> LoopDelay:
    """Return what measures how late the event loop is, shown in metrics."""
    return LoopDelay(metrics.registry, settings.loop_delay_warn_ms, CommandRunner.run.__code__)


def observer_of(backend: Backend, settings: Settings) -> Observer:
    """Return what measures the streams of a backend, and their groups."""
    every_s = _OBSERVED_EVERY_S if settings.backend is None else _OBSERVED_AT_SERVERS_EVERY_S
    options = ObserverOptions(settings.observe, settings.observed_max, every_s)
    return Observer(backend, options, SystemClock())


def _gateway(
    settings: Settings,
    backend: Backend,
    credentials: Credentials,
    metrics: Metrics,
    history: HistoryReader,
    siblings: Siblings | None,
) -> Gateway:
    """Return what an app is made of, counted in its metrics."""
    bounds = _memory_bounds(settings)
    runner = None
    if Ability.COMMANDS in backend.abilities:
        runner = CommandRunner(backend, _reply_bounds(settings))
        runner.attach(server_settings(settings, backend))
        metrics.watch_commands(lambda: runner.delivered_count)
    metrics.watch(lambda: backend.waiter_count)
    process_count = 1
    if siblings is not None:
        process_count = siblings.count
        siblings.on_question(METRICS, lambda _: encode(families_of(metrics.registry)))
    if siblings is None or not siblings.has_engine:
        watch_streams(metrics, backend, settings)
    limits = Limits(
        **settings.model_dump(
            include=set(Limits.model_fields).intersection(ChosenLimits.model_fields)
            - {"memory_bytes_max", "sockets_max"}
        ),
        memory_bytes_max=bounds.size_bytes_max or 0,
        sockets_max=sockets_max_of(settings.sockets_max, process_count),
        abilities=sorted(backend.abilities),
        durable=backend.durable,
    )
    sockets = Sockets(
        sockets_max_of(limits.sockets_max),
        count_max_together=limits.sockets_max,
        arriving_bytes_max=_share(
            limits.arriving_bytes_max, process_count, at_least=limits.body_bytes_max
        ),
        unsent_bytes_max=limits.unsent_bytes_max // process_count,
    )
    sockets.watch(metrics.registry)
    auth = credentials.authenticator(backend)
    return Gateway(
        backend,
        runner,
        limits,
        metrics,
        sockets,
        auth,
        credentials,
        history,
        random.Random(),
        siblings,
        _tracing(settings),
    )


def _tracing(settings: Settings) -> "Tracing | None":
    """Return what sends traces, if somebody collects them.

    Raises:
        ValueError: the packages for it are not installed.
    """
    if settings.otlp_url is None:
        return None
    try:
        from headgate.app.tracing.tracing import Tracing  # noqa: PLC0415  in an extra
    except ModuleNotFoundError as error:
        raise ValueError(f"otlp_url: {error.name} is missing; headgate[otel] brings it") from None
    return Tracing.to(str(settings.otlp_url), settings.trace_field)


def server_settings(settings: Settings, backend: Backend) -> ServerSettings:
    """Return what Redis clients may know of the settings (CONFIG GET)."""
    is_journaled = Ability.JOURNAL in backend.abilities
    return ServerSettings(
        host=settings.redis_host or settings.host,
        port=settings.redis_port or 0,
        data_dir=str(settings.data_dir.absolute()) if is_journaled else "",
        has_journal=is_journaled,
        fsync=settings.fsync,
        memory_bytes_max=_memory_bounds(settings).size_bytes_max or 0,
        memory_policy="noeviction" if settings.full is WhenFull.REFUSE else settings.full,
        connections_max=sockets_max_of(settings.sockets_max),
        input_bytes_max=UNREAD_BYTES_MAX,
        output_bytes_max=UNTAKEN_BYTES_MAX,
        argument_bytes_max=settings.body_bytes_max,
        has_tls=settings.tls_cert is not None,
    )


def _share(limit: int, process_count: int, *, at_least: int) -> int:
    """Return what each process may take of what all may take together."""
    return min(limit, max(limit // process_count, at_least))


def _check_declared() -> None:
    """Refuse to start with a request or a frame for which nobody has said what it needs.

    Raises:
        Unsupported: naming them.
    """
    missing = [*undecided(), *undeclared()]
    if missing:
        raise Unsupported(f"nobody has said what these need: {', '.join(missing)}")


def _in_front(settings: Settings, gateway: Gateway) -> list[Middleware]:
    """Return the layers of all requests, the outermost first: they count, guard and allow."""
    origins = settings.allowed_origins
    guard = Middleware(
        OriginGuard,
        own_host=settings.host,
        hosts=settings.allowed_hosts,
        origins=origins,
        is_open=lambda: settings.allow_anonymous or gateway.auth.is_open,
    )
    layers = [Middleware(RequestMetrics, gateway.metrics), guard]
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
    """Return the layers of what is no operation: sockets are served, then pages."""
    layers = [Middleware(socket.SocketRoutes)]
    if root_path:
        layers.append(Middleware(WithRootPath, root_path))
    return layers


def open_backend(settings: Settings, progress: Progress = recovery.no_progress) -> Backend:
    """Return what keeps the streams: servers, if the operator named some, or an engine.

    Args:
        settings: what the operator chose.
        progress: called with the progress of loading, if there is something to load.

    Raises:
        ValueError: the URL of the servers is wrong.
        Unavailable, Corrupt, OSError: see `open_embedded`.
    """
    if settings.backend is not None:
        return RedisBackend(client_options(settings, settings.backend))
    return open_engine(settings, progress)


def client_options(settings: Settings, url: SecretStr) -> ClientOptions:
    """Return how the servers of a URL are used.

    Raises:
        ValueError: the URL is wrong. The text does not repeat it.
    """
    password = settings.redis_password
    login = ServerLogin(
        settings.redis_username, None if password is None else password.get_secret_value()
    )
    tls = Tls(settings.redis_tls_ca, settings.redis_tls_cert, settings.redis_tls_key)
    return ClientOptions(
        read_url(url.get_secret_value(), login, tls),
        prefix=settings.redis_prefix.encode(),
        durability=settings.redis_durability,
        answer_ms_max=settings.redis_answer_ms_max,
        keyspace=_keyspace_bounds(settings),
        waiters_max=settings.waiters_max,
    )


def _keyspace_bounds(settings: Settings) -> KeyspaceBounds:
    return KeyspaceBounds(**settings.model_dump(include=set(KeyspaceBounds._fields)))


def _reply_bounds(settings: Settings) -> Bounds:
    return Bounds(settings.read_entries_max, settings.read_bytes_max)


def open_remote(settings: Settings, path: Path, process_count: int) -> RemoteBackend:
    """Return the engine of another process as a backend.

    Args:
        settings: what the operator chose, the same for the engine.
        path: of the socket where the engine listens.
        process_count: how many processes use the engine.
    """
    options = _engine_options(settings)
    return RemoteBackend(
        RemoteOptions(
            path,
            durable=options.durable,
            has_journal=options.data_dir is not None,
            waiters_max=-(-settings.waiters_max // process_count),
            name=f"process {os.getpid()}",
        )
    )


def open_engine(settings: Settings, progress: Progress) -> EmbeddedBackend:
    """Return the engine of this process as a backend. See `open_embedded`."""
    return open_embedded(_engine_options(settings), progress)


def _engine_options(settings: Settings) -> EmbeddedOptions:
    return EmbeddedOptions(
        data_dir=None if settings.data_dir == MEMORY else settings.data_dir,
        fsync=settings.fsync,
        growth=Growth(settings.rewrite_percentage, settings.rewrite_bytes_min),
        disk=DiskBounds(settings.disk_bytes_max, settings.disk_free_bytes_min),
        memory=_memory_bounds(settings),
        keyspace=_keyspace_bounds(settings),
        waiters_max=settings.waiters_max,
    )


def _memory_bounds(settings: Settings) -> MemoryBounds:
    limit_bytes = settings.memory_bytes_max
    if limit_bytes is None:
        limit_bytes = machine.memory_bytes() * _MEMORY_PERCENTAGE // 100
    return MemoryBounds(limit_bytes, settings.full)


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
    measured: Measuring = app.state.measuring
    async with asyncio.TaskGroup() as tasks:
        measuring = tasks.create_task(_watched(loop_delay.run(), gateway))
        tasks.create_task(_watched(backend.run(), gateway))
        following = tasks.create_task(_watched(gateway.credentials.run(), gateway))
        sweeping = tasks.create_task(_watched(staging.run(), gateway))
        keeping = tasks.create_task(_watched(collector.keep_low(gateway.streams_bytes), gateway))
        sharing = tasks.create_task(_watched(gateway.share(), gateway))
        counting = tasks.create_task(_watched(collector.keep_few_new(), gateway))
        recording = tasks.create_task(_watched(measured.run(), gateway))
        try:
            with suppress(Unavailable):  # then nothing can change, and there is all that was
                await remove_stranded(backend)
            proxies: Proxies = app.state.proxies
            yield {"gateway": gateway, "staging": staging, "arrow": arrow, "proxies": proxies}
        finally:
            recording.cancel()
            sharing.cancel()
            sweeping.cancel()
            following.cancel()
            await _ended("credentials", gateway.credentials.close())
            keeping.cancel()
            counting.cancel()
            await _ended("staged chunks", staging.close())
            await _ended("Arrow", arrow.close())
            await backend.close()
            if gateway.tracing is not None:
                await _ended("tracing", gateway.tracing.close())
            measuring.cancel()


async def _ended(what: str, close: Awaitable[None]) -> None:
    """Close a part at the end. Whatever is wrong with it, the streams are closed behind it."""
    try:
        await close
    except Exception:
        log.exception("part of the gateway not closed", extra={"part": what})
