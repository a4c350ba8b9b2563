"""Frozen streams: a directory in which most of each stream is in an extent file."""

from __future__ import annotations

from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, EntryId
from headgate.engine.journal import recovery
from headgate.engine.journal.damage import examine
from headgate.engine.journal.extents import Freezing
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.keyspace import ChangeDefaults
from headgate.engine.state.extent import Damaged
from tests.journals.memory_disk import MemoryDisk

CHUNK = 10
COLD = range(1, 41)
HOT = range(41, 46)
POSITION = 7


async def frozen(*names: bytes) -> MemoryDisk:
    """Return a disk with streams that have a group each, and the entries `COLD` and `HOT`."""
    engine, disk = Engine(MemoryStorage()), MemoryDisk()
    await engine.perform(ChangeDefaults(node_entries_max=CHUNK))
    for name in names:
        for number in (*COLD, *HOT):
            draft = Draft(EntryId(number, 0), (b"n", b"%d" % number, name, b"v"))
            await engine.perform(Add(name, [draft]))
        await engine.perform(CreateGroup(name, b"g", GroupStart(MIN_ID)))
    freezing = Freezing(disk, engine.keyspace)
    freezing.freeze(0)
    freezing.finish()
    recovery.save(disk, engine.keyspace, POSITION)
    return disk


def contents(disk: MemoryDisk) -> dict[bytes, list[int]]:
    """Return the entries of each stream, all of which can be read."""
    streams = recovery.load(disk).keyspace.streams
    return {
        name: [entry.id.ms for entry in stream.log.range(MIN_ID, MAX_ID)]
        for name, stream in streams.items()
    }


def damage_of(disk: MemoryDisk) -> list[Damaged]:
    """Return the damage of what is cold."""
    return list(examine(disk, recovery.load(disk).keyspace))
