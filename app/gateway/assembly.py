"""Build the gateway of one process from its settings, its backend and its credentials."""

import random
from ipaddress import ip_network
from typing import TYPE_CHECKING

from headgate.app.auth.credentials import Credentials
from headgate.app.automation.signing import Sealing
from headgate.app.automation.targets import Targets
from headgate.app.automation.webhooks import Sender
from headgate.app.backends.leading import bucket_of
from headgate.app.backends.port import Ability, Backend
from headgate.app.data_files import PUSH_KEY_FILE
from headgate.app.gateway.backends import memory_bounds, reply_bounds
from headgate.app.gateway.gateway import Gateway
from headgate.app.measuring.recorder import HistoryReader
from headgate.app.measuring.sampler import Observer, ObserverOptions
from headgate.app.redis_syntax.administration.information import ServerSettings
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.runtime.loop_delay import LoopDelay
from headgate.app.runtime.metric_sums import METRICS, encode, families_of
from headgate.app.runtime.siblings import Siblings
from headgate.app.runtime.telemetry import Metrics
from headgate.app.settings import MEMORY, Settings
from headgate.app.transport.sockets import (
    UNREAD_BYTES_MAX,
    UNTAKEN_BYTES_MAX,
    Sockets,
    sockets_max_of,
)
from headgate.app.wire.schemas.limits import ChosenLimits, Limits, Rule
from headgate.engine.buckets import Buckets
from headgate.engine.clock import SystemClock
from headgate.engine.state.memory import WhenFull

if TYPE_CHECKING:
    from headgate.app.tracing import Tracing


_OBSERVED_EVERY_S = 1.0
_OBSERVED_AT_SERVERS_EVERY_S = 10.0
"""Each stream and each group is asked about by itself there."""


def watch_streams(metrics: Metrics, backend: Backend, settings: Settings) -> None:
    bounds = memory_bounds(settings)
    journal = backend.journal
    if journal is not None:
        metrics.watch_journal(lambda: journal.status)
        if settings.bucket is not None:
            metrics.watch_bucket(lambda: bucket_of(backend))

    def counts() -> tuple[int | None, ...]:
        activity = backend.activity
        return activity.appended_count, activity.cold_hit_count, activity.cold_read_count

    def times() -> tuple[Buckets | None, ...]:
        activity = backend.activity
        return activity.syncs, activity.commits, activity.cold_reads

    metrics.watch_counts(counts, times)
    metrics.watch_memory(backend.memory_bytes, bounds.size_bytes_max or 0)


def watch_loop(metrics: Metrics, settings: Settings) -> LoopDelay:
    return LoopDelay(metrics.registry, settings.loop_delay_warn_ms, CommandRunner.run.__code__)


def observer_of(backend: Backend, settings: Settings) -> Observer:
    every_s = _OBSERVED_EVERY_S if settings.backend is None else _OBSERVED_AT_SERVERS_EVERY_S
    options = ObserverOptions(settings.observe, settings.observed_max, every_s)
    return Observer(backend, options, SystemClock())


def assemble(
    settings: Settings,
    backend: Backend,
    credentials: Credentials,
    metrics: Metrics,
    history: HistoryReader,
    siblings: Siblings | None,
) -> Gateway:
    bounds = memory_bounds(settings)
    runner = None
    if Ability.COMMANDS in backend.abilities:
        runner = CommandRunner(backend, reply_bounds(settings))
        runner.server.attach(server_settings(settings, backend))
        metrics.watch_commands(lambda: runner.server.delivered_count)
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
        rules=list(Rule) if Ability.PATTERNS in backend.abilities else [],
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
    gateway = Gateway(
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
        targets=targets_of(settings),
        sender=sender_of(settings),
        sealing=sealing_of(settings, credentials.ticket_secret()),
    )
    if runner is not None:
        runner.server.attach(channels=gateway.channels)
    metrics.watch(lambda: gateway.waiter_count)
    return gateway


def targets_of(settings: Settings) -> Targets:
    allowed, denied = (
        [ip_network(text) for text in texts] for texts in (settings.push_allow, settings.push_deny)
    )
    return Targets(allowed, denied, settings.push_ports)


def sealing_of(settings: Settings, secret: bytes) -> Sealing:
    """Return the encryption of the secrets of pushes.

    A file of the data directory is enough for a gateway that has its streams there. Where others
    may take over, they need the same keys, so the operator has to provide a file. `secret` is
    shared by all processes of the gateway, and protects streams that are only in their memory.
    """
    if settings.push_key_file is not None:
        return Sealing(settings.push_key_file)
    if settings.backend is not None or settings.bucket is not None:
        return Sealing(None)
    if settings.data_dir == MEMORY:
        return Sealing(None, secret=secret)
    return Sealing(settings.data_dir / PUSH_KEY_FILE, may_create=True)


def sender_of(settings: Settings) -> Sender:
    return Sender(targets_of(settings), settings.push_identity)


def _tracing(settings: Settings) -> "Tracing | None":
    """Return the sender of traces, if configured; ValueError: its packages are missing."""
    if settings.otlp_url is None:
        return None
    try:
        from headgate.app.tracing import Tracing  # noqa: PLC0415  in an extra
    except ModuleNotFoundError as error:
        raise ValueError(f"otlp_url: {error.name} is missing; headgate[otel] brings it") from None
    return Tracing.to(str(settings.otlp_url), settings.trace_field)


def server_settings(settings: Settings, backend: Backend) -> ServerSettings:
    is_journaled = Ability.JOURNAL in backend.abilities
    return ServerSettings(
        host=settings.redis_host or settings.host,
        port=settings.redis_port or 0,
        data_dir=str(settings.data_dir.absolute()) if is_journaled else "",
        has_journal=is_journaled,
        fsync=settings.fsync,
        memory_bytes_max=memory_bounds(settings).size_bytes_max or 0,
        memory_policy="noeviction" if settings.full is WhenFull.REFUSE else settings.full,
        connections_max=sockets_max_of(settings.sockets_max),
        input_bytes_max=UNREAD_BYTES_MAX,
        output_bytes_max=UNTAKEN_BYTES_MAX,
        argument_bytes_max=settings.body_bytes_max,
        has_tls=settings.tls_cert is not None,
    )


def _share(limit: int, process_count: int, *, at_least: int) -> int:
    return min(limit, max(limit // process_count, at_least))
