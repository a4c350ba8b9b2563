"""Records: what a history has written, so that tests know the state after each of them."""

from __future__ import annotations

import asyncio
import io
import struct
from random import Random
from typing import Any, NamedTuple

import google_crc32c

from headgate.engine import commands
from headgate.engine.engine import Engine
from headgate.engine.journal import records as blocks
from headgate.engine.journal import recovery
from headgate.engine.journal import snapshot as snapshots
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.records import HEADER_BYTES, VERSION
from headgate.engine.journal.rewrites import Growth
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.state.keyspace import Keyspace
from tests.journals.memory_disk import MemoryDisk
from tests.journals.workload import Workload
from tests.model.snapshot import snapshot
from tests.virtual_time import ManualClock


class History(NamedTuple):
    """A history of commands as files, and the state after each record."""

    disk: MemoryDisk
    states: list[dict[str, Any]]  # by position: first that of nothing


async def recorded(seed: int, count: int) -> list[bytes]:
    """Return so many records of a random history."""
    storage, clock = MemoryStorage(), ManualClock()
    engine = Engine(storage, clock=clock)
    workload = Workload(engine, clock, seed)
    await workload.begin()
    while len(storage.records) < count:
        await workload.step()
    return [*storage.records][:count]


async def written(
    records: list[bytes], *, rewrite_at: int | None = None, restart_at: int | None = None
) -> History:
    """Write records one block each, with fsync always.

    Args:
        records: what to write.
        rewrite_at: replace history by a snapshot once so many are written.
        restart_at: go on in a new segment once so many are written.
    """
    disk, chance = MemoryDisk(), Random(0)  # so a history that goes on has the same files
    journal, run = await _start(disk, chance)
    for count, record in enumerate(records):
        if count == rewrite_at:
            journal.start_rewrite()
            while journal.status.is_rewriting:
                await asyncio.sleep(0)
        if count == restart_at:
            await _stop(journal, run)
            journal, run = await _start(disk, chance)
        await journal.wait_durable(journal.append(commands.decode(record)))
    await _stop(journal, run)
    return History(disk, states_after(records))


def states_after(records: list[bytes]) -> list[dict[str, Any]]:
    """Return the state before the first record, and after each."""
    keyspace = Keyspace()
    states = [snapshot(keyspace)]
    for record in records:
        for command in commands.decode(record):
            keyspace.apply(command)
        states.append(snapshot(keyspace))
    return states


def records_of(engine: Engine) -> list[bytes]:
    """Return the records of an engine that keeps them in memory."""
    storage: Any = engine.storage
    records: list[bytes] = storage.records
    return records


def replayed(engine: Engine) -> Keyspace:
    """Return the state that the records of an engine lead to."""
    keyspace = Keyspace()
    for record in records_of(engine):
        for command in commands.decode(record):
            keyspace.apply(command)
    return keyspace


def reloaded(keyspace: Keyspace) -> Keyspace:
    """Return a state as a snapshot keeps it."""
    file = io.BytesIO(b"".join(snapshots.pieces(keyspace, 1)))
    header = blocks.read_header(file, "x", blocks.Kind.SNAPSHOT)
    return snapshots.load(blocks.read_blocks(file, "x", header), "x")


def newer(data: bytes) -> bytes:
    """Return a file as the next version might write it."""
    plain = data[:8] + struct.pack("<H", VERSION + 1) + data[10:28]
    return plain + struct.pack("<I", google_crc32c.value(plain)) + data[HEADER_BYTES:]


def nowhere(keyspace: Keyspace | None) -> None:
    """Go back to what is durable: never, as nothing fails."""
    raise AssertionError(f"gone back to {keyspace}")


async def _start(disk: MemoryDisk, chance: Random) -> tuple[Journal, asyncio.Task[None]]:
    async def rewrite(through: int, _: object) -> None:
        recovery.rewrite(disk, through)

    position = recovery.recover(disk).position
    journal = Journal(
        disk, FsyncPolicy.ALWAYS, rewrite, position=position, growth=Growth(0), chance=chance
    )
    return journal, asyncio.create_task(journal.run(nowhere))


async def _stop(journal: Journal, run: asyncio.Task[None]) -> None:
    await journal.close()
    await run
