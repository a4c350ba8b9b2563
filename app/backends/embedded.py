"""The engine in this process, with the state that its data directory holds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from headgate.app.backends.port import (
    BackendActivity,
    ClaimFeed,
    Durable,
    Leases,
    Relay,
    StreamServers,
    Way,
    abilities_of,
)
from headgate.app.backends.releasing import LateReleases
from headgate.app.entry_schemas.checks import compile_schema
from headgate.app.runtime import machine, periodic
from headgate.engine.bucket.attachment import Attached, attach
from headgate.engine.bucket.bucket import Bucket, BucketError
from headgate.engine.bucket.manifest import read_marker
from headgate.engine.bucket.opening import open_bucket
from headgate.engine.bucket.replication import Replication, ReplicationOptions, limits_of_leases
from headgate.engine.bucket.tiers import tiered
from headgate.engine.clock import SystemClock
from headgate.engine.engine import Engine
from headgate.engine.errors import Unavailable
from headgate.engine.journal import recovery
from headgate.engine.journal.disk import Disk, SystemDisk
from headgate.engine.journal.extents import ExtentReader
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.recovery import Progress
from headgate.engine.journal.rewrites import Growth, in_process_of_its_own
from headgate.engine.journal.room import DiskBounds
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.limits import WAITERS_MAX
from headgate.engine.replies import JournalStatus
from headgate.engine.requests import Request
from headgate.engine.state.bounds import KeyspaceBounds
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import MemoryBounds

log = logging.getLogger("headgate")

_PATIENCE_MS = 60_000
_PAUSE_S = 2.0
"""A start asks a store so long, and again after so many seconds."""

_DURABLE = {
    FsyncPolicy.ALWAYS: Durable.DISK,
    FsyncPolicy.EVERYSEC: Durable.EVERYSEC,
    FsyncPolicy.NO: Durable.NOTHING,
}


class BucketOptions(NamedTuple):
    url: str
    replication: ReplicationOptions


class EmbeddedOptions(NamedTuple):
    data_dir: Path | None  # None: streams live in memory only
    fsync: FsyncPolicy = FsyncPolicy.ALWAYS
    growth: Growth = Growth()
    disk: DiskBounds = DiskBounds()
    memory: MemoryBounds = MemoryBounds()
    keyspace: KeyspaceBounds = KeyspaceBounds()
    waiters_max: int = WAITERS_MAX
    bucket: BucketOptions | None = None

    @property
    def has_bucket(self) -> bool:
        return self.bucket is not None

    @property
    def durable(self) -> Durable:
        if self.bucket is not None and self.bucket.replication.is_durable:
            return Durable.BUCKET
        return Durable.NOTHING if self.data_dir is None else _DURABLE[self.fsync]


class EmbeddedBackend:
    """The engine in this process, with a journal if it has a disk, and archives if a bucket."""

    def __init__(self, engine: Engine, durable: Durable = Durable.NOTHING) -> None:
        self.engine = engine
        self.durable = durable
        self.perform = engine.perform
        self.perform_all = engine.perform_all
        self.perform_in_order = engine.perform_in_order
        self.claim_feed: ClaimFeed | None = engine
        self._late = LateReleases(engine.perform)
        self.leases: Leases = self._late
        self.servers: StreamServers | None = None
        self.relay: Relay | None = None
        storage = engine.storage
        self.journal = EmbeddedJournal(storage) if isinstance(storage, Journal) else None
        self.abilities = abilities_of(
            has_journal=self.journal is not None, has_bucket=engine.has_bucket
        )

    def way_of(self, kind: type[Request[Any]]) -> Way:
        return Way.NATIVELY if self.engine.performs(kind) else Way.NOT

    @property
    def failure(self) -> str | None:
        return self.engine.failure

    @property
    def refusal(self) -> str | None:
        return self.engine.refusal

    @property
    def activity(self) -> BackendActivity:
        total, journal = self.engine.activity, self.engine.storage
        counts = total.appended_count, total.acked_count
        if not isinstance(journal, Journal):
            return BackendActivity(*counts)
        cold = self.engine.cold
        return BackendActivity(
            *counts, journal.syncs, journal.commits, cold.hit_count, cold.read_count, cold.times
        )

    def memory_bytes(self) -> Mapping[str, int]:
        memory = self.engine.memory
        return {
            "streams": memory.streams_bytes,
            "entries": memory.entries_bytes,
            "groups": memory.groups_bytes,
            "pending": memory.pending_bytes,
            "keys": memory.keys_bytes,
            "schedules": memory.schedules_bytes,
            "index": memory.index_bytes,
            "cache": self.engine.cold.cached_bytes,
            "held": memory.held_bytes,
        }

    @property
    def waiter_count(self) -> int:
        return self.engine.waiter_count

    @property
    def waited_for(self) -> tuple[int, int]:
        return self.engine.waited_for

    async def until_leading(self) -> None:
        """Return once this gateway may change the streams: at once, unless it has a bucket."""
        await self.engine.storage.until_open()

    @property
    def unsaved_count(self) -> int:
        return self.engine.unsaved_count

    @property
    def is_draining(self) -> bool:
        return self.engine.is_draining

    def drain(self) -> None:
        self.engine.drain()

    async def run(self) -> None:
        """Write the journal and do the housekeeping until `close` is called."""
        releasing = asyncio.ensure_future(self._late.run())
        try:
            await self.engine.run()
        finally:
            releasing.cancel()

    async def close(self) -> None:
        await self.engine.close()


class EmbeddedJournal:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def status(self) -> JournalStatus:
        return self._journal.status

    async def start_rewrite(self) -> bool:
        return self._journal.start_rewrite()


def open_embedded(
    options: EmbeddedOptions, progress: Progress = recovery.no_progress
) -> EmbeddedBackend:
    """Load the data directory and return the engine as a backend.

    Raises Unavailable if another process uses the directory, Corrupt if a file is damaged, missing
    or from a newer version, and OSError if the directory cannot be used.
    """
    storage: MemoryStorage | Journal = MemoryStorage(records_max=0)
    keyspace = None
    if options.data_dir is not None:
        storage, keyspace = _open_journal(options, options.data_dir, progress)
    engine = Engine(
        storage,
        keyspace=keyspace,
        waiters_max=options.waiters_max,
        memory=options.memory,
        bounds=options.keyspace,
        has_bucket=options.has_bucket,
        compile_schema=compile_schema,
        watch=periodic.watch,
    )
    return EmbeddedBackend(engine, options.durable)


def _place_of(directory: Path) -> str:
    """Return the identity of a directory's place: a copy of it has another one."""
    stat = directory.stat()
    return f"{machine.boot_id()}:{stat.st_dev:x}:{stat.st_ino:x}"


def _open_journal(
    options: EmbeddedOptions, data_dir: Path, progress: Progress
) -> tuple[Journal, Keyspace]:
    directory, clock = SystemDisk(data_dir), SystemClock()
    began_ms = clock.monotonic_ms()
    try:
        shipping: Replication | None = None
        disk: Disk = directory
        if options.bucket is None:
            _require_no_bucket(directory)
            loaded = recovery.load_safely(disk, progress)
        else:
            replication = options.bucket.replication
            bucket = open_bucket(options.bucket.url)
            attached = _attached(directory, bucket, progress)
            disk, loaded = attached.disk, attached.loaded
            if attached.unshipped_files:
                log.error(
                    "records that the bucket never received were put aside",
                    extra=_unshipped(attached),
                )
            shipping = Replication(
                *(bucket, directory, attached, clock, replication),
                lease_bucket=open_bucket(options.bucket.url, limits_of_leases(replication)),
                holder=f"{attached.marker.writer}@{_place_of(data_dir)}",
                on_event=_log,
            )
        seconds = (clock.monotonic_ms() - began_ms) / 1000
        size_bytes = sum(disk.size_bytes(name) for name in recovery.names_in_use(disk))
    except BaseException:
        directory.close()
        raise
    if loaded.torn is not None:
        name, offset, torn_bytes, why = loaded.torn
        facts = {"file": name, "offset": offset, "size_bytes": torn_bytes, "why": why}
        log.warning("incomplete end of the journal was put aside", extra=facts)
    facts = _contents_of(loaded.keyspace) | {"bytes": size_bytes, "seconds": seconds}
    log.info("recovered", extra=facts)
    storage = Journal(
        disk,
        options.fsync,
        in_process_of_its_own(
            data_dir, directory.spare, hot_bytes_max=options.growth.hot_bytes_max // 4
        ),
        position=loaded.position,
        replay_us=loaded.keyspace.replay_us,
        torn=loaded.torn,
        growth=options.growth,
        bounds=options.disk,
        shipping=shipping,
        on_event=_log,
        watch=periodic.watch,
    )
    for damaged in loaded.damaged:
        storage.note_damage(damaged)
    return storage, loaded.keyspace


def _attached(directory: Disk, bucket: Bucket, progress: Progress) -> Attached:
    """Bring a directory and its bucket together; a store that does not answer is asked again.

    Raises Unavailable if it does not answer for long, or if the two do not belong together.
    """
    clock = SystemClock()
    over_ms = clock.monotonic_ms() + _PATIENCE_MS
    while True:
        try:
            return attach(directory, bucket, progress)
        except BucketError as error:
            why = error.strerror or str(error)
            if clock.monotonic_ms() >= over_ms:
                raise Unavailable(f"the bucket {bucket.url}: {why}") from None
            log.warning("bucket does not answer", extra={"bucket": bucket.url, "reason": why})
            time.sleep(_PAUSE_S)


def _require_no_bucket(directory: Disk) -> None:
    if read_marker(directory) is not None:
        raise Unavailable("the directory belongs to a bucket, but no bucket is set (--bucket)")


def _unshipped(attached: Attached) -> dict[str, object]:
    return {
        "files": [*attached.unshipped_files],
        "reason": "another gateway has written to the bucket since",
    }


def open_snapshot(
    data_dir: Path, progress: Progress = recovery.no_progress
) -> AbstractContextManager[EmbeddedBackend]:
    """Load a data directory to read it; no file in it is changed.

    `run` is not needed: without it, nothing expires by itself. The directory stays locked during
    the context. Raises the same errors as `open_embedded`.
    """
    directory = SystemDisk(data_dir)
    try:
        disk = tiered(directory)
        loaded = recovery.load(disk, progress=progress)
    except BaseException:
        directory.close()
        raise
    storage = MemoryStorage(0, ExtentReader(disk).find)
    return _snapshot(disk, EmbeddedBackend(Engine(storage, keyspace=loaded.keyspace)))


@contextmanager
def _snapshot(disk: Disk, backend: EmbeddedBackend) -> Iterator[EmbeddedBackend]:
    try:
        yield backend
    finally:
        disk.close()


def _contents_of(keyspace: Keyspace) -> dict[str, object]:
    streams = keyspace.streams.values()
    return {
        "streams": len(streams),
        "entries": sum(stream.log.length for stream in streams),
        "pending": sum(len(group.pel) for each in streams for group in each.groups.values()),
    }


def _log(event: str, facts: Mapping[str, object]) -> None:
    is_bad = "reason" in facts
    with suppress(Exception):  # there may be no memory for a line
        log.log(logging.ERROR if is_bad else logging.INFO, event, extra=dict(facts))
