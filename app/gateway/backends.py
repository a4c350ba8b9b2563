"""What keeps the streams, according to the settings; only this file chooses a backend."""

import os
from pathlib import Path

from headgate.app.backends.embedded import (
    BucketOptions,
    EmbeddedBackend,
    EmbeddedOptions,
    open_embedded,
)
from headgate.app.backends.port import Backend
from headgate.app.backends.remote.backend import RemoteBackend, RemoteOptions
from headgate.app.redis_syntax.words import Bounds
from headgate.app.runtime import machine
from headgate.app.settings import MEMORY, DurableIn, Settings
from headgate.engine.bucket.curator import Retention
from headgate.engine.bucket.replication import ReplicationOptions
from headgate.engine.journal import recovery
from headgate.engine.journal.journal import DATA_PERCENTAGE
from headgate.engine.journal.recovery import Progress
from headgate.engine.journal.rewrites import Growth
from headgate.engine.journal.room import DiskBounds
from headgate.engine.state.memory import MemoryBounds

SHIP_MS = 1000
SHIP_MS_DURABLE = 100

_HOT_SHARE = 8
"""A rewrite begins when new entries take an eighth of the memory that the streams may use."""

_MEMORY_PERCENTAGE = 70
"""Share of the machine's memory for the streams: a rewrite and connections take some, too."""


def open_backend(settings: Settings, progress: Progress = recovery.no_progress) -> Backend:
    """Return the backend: servers, if the operator named some, or an engine."""
    if settings.backend is not None:
        from headgate.app.gateway.servers import open_servers  # noqa: PLC0415  see there

        return open_servers(settings, settings.backend)
    return open_engine(settings, progress)


def open_remote(settings: Settings, path: Path, process_count: int) -> RemoteBackend:
    options = _engine_options(settings)
    return RemoteBackend(
        RemoteOptions(
            path,
            durable=options.durable,
            has_journal=options.data_dir is not None,
            has_bucket=options.has_bucket,
            waiters_max=-(-settings.waiters_max // process_count),
            name=f"process {os.getpid()}",
        )
    )


def open_engine(settings: Settings, progress: Progress) -> EmbeddedBackend:
    return open_embedded(_engine_options(settings), progress)


def _engine_options(settings: Settings) -> EmbeddedOptions:
    return EmbeddedOptions(
        data_dir=None if settings.data_dir == MEMORY else settings.data_dir,
        fsync=settings.fsync,
        growth=growth_of(settings),
        disk=DiskBounds(settings.disk_bytes_max, settings.disk_free_bytes_min),
        memory=memory_bounds(settings),
        keyspace=settings.keyspace_bounds,
        waiters_max=settings.waiters_max,
        bucket=_bucket_options(settings),
    )


def _bucket_options(settings: Settings) -> BucketOptions | None:
    if settings.bucket is None:
        return None
    is_durable = settings.durable is DurableIn.BUCKET
    limit_bytes = settings.disk_bytes_max
    local_bytes_max = None if limit_bytes is None else limit_bytes * DATA_PERCENTAGE // 100
    return BucketOptions(
        settings.bucket,
        ReplicationOptions(
            is_durable=is_durable,
            is_standby=settings.standby,
            has_reads=settings.standby_reads,
            lease_ms=settings.lease_ms,
            ship_ms=settings.ship_ms or (SHIP_MS_DURABLE if is_durable else SHIP_MS),
            address=settings.address,
            retention=Retention(settings.bucket_kept_ms, local_bytes_max),
        ),
    )


def growth_of(settings: Settings) -> Growth:
    """Return when a rewrite begins: memory has room for several times what it is to freeze."""
    hot_bytes_max = memory_bounds(settings).size_bytes_max or 0
    return Growth(
        settings.rewrite_percentage,
        settings.rewrite_bytes_min,
        min(max(hot_bytes_max // _HOT_SHARE, 1), Growth().hot_bytes_max),
        settings.rewrite_patience_s,
    )


def reply_bounds(settings: Settings) -> Bounds:
    return Bounds(settings.read_entries_max, settings.read_bytes_max)


def memory_bounds(settings: Settings) -> MemoryBounds:
    """Return how much memory the streams may use: most of the machine's, unless chosen."""
    limit_bytes = settings.memory_bytes_max
    if limit_bytes is None:
        limit_bytes = machine.memory_bytes() * _MEMORY_PERCENTAGE // 100
    return MemoryBounds(limit_bytes, settings.full)
