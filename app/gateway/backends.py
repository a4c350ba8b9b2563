"""Backends: what keeps the streams, as the settings say. Only this file chooses a backend."""

import os
from pathlib import Path

from pydantic import SecretStr

from headgate.app.backends.embedded import EmbeddedBackend, EmbeddedOptions, open_embedded
from headgate.app.backends.port import Backend
from headgate.app.backends.redis.address import ServerLogin, Tls, read_url
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.client import ClientOptions
from headgate.app.backends.remote.backend import RemoteBackend, RemoteOptions
from headgate.app.redis_syntax.words import Bounds
from headgate.app.runtime import machine
from headgate.app.settings import MEMORY, Settings
from headgate.engine.journal import recovery
from headgate.engine.journal.recovery import Progress
from headgate.engine.journal.rewrites import Growth
from headgate.engine.journal.room import DiskBounds
from headgate.engine.state.bounds import KeyspaceBounds
from headgate.engine.state.memory import MemoryBounds

_MEMORY_PERCENTAGE = 70
"""Share of the machine's memory for the streams: a rewrite and connections take some, too."""


def open_backend(settings: Settings, progress: Progress = recovery.no_progress) -> Backend:
    """Return the backend: servers, if the operator named some, or an engine.

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
    """Return the options of a client of the servers of a URL.

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
        memory=memory_bounds(settings),
        keyspace=_keyspace_bounds(settings),
        waiters_max=settings.waiters_max,
    )


def _keyspace_bounds(settings: Settings) -> KeyspaceBounds:
    return KeyspaceBounds(**settings.model_dump(include=set(KeyspaceBounds._fields)))


def reply_bounds(settings: Settings) -> Bounds:
    """Return the bounds of one reply to a Redis command."""
    return Bounds(settings.read_entries_max, settings.read_bytes_max)


def memory_bounds(settings: Settings) -> MemoryBounds:
    """Return how much memory the streams may use: most of the machine's, unless chosen."""
    limit_bytes = settings.memory_bytes_max
    if limit_bytes is None:
        limit_bytes = machine.memory_bytes() * _MEMORY_PERCENTAGE // 100
    return MemoryBounds(limit_bytes, settings.full)
