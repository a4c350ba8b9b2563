"""Files with right checksums and wrong contents are damage, and never anything else.

Real files are taken apart, changed where it matters and put together again with new checksums, so
that what is changed reaches the inside of recovery.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from headgate.engine.errors import Corrupt
from headgate.engine.journal import recovery, snapshot
from headgate.engine.journal.damage import repair
from headgate.engine.journal.names import snapshot_name
from headgate.engine.journal.records import (
    HEADER_BYTES,
    Header,
    Kind,
    pack_block,
    pack_header,
    read_blocks,
)
from headgate.engine.journal.records import read_header as read
from headgate.engine.state.keyspace import Keyspace
from tests.fuzz.rounds import ended, reporting_seed, seeds
from tests.journals.memory_disk import MemoryDisk
from tests.journals.records import recorded, written

GROWTH_BYTES_MAX = 400 * 2**20

_VALUES: list[Any] = [
    *[0, 1, -1, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 1.5, None, True],
    *["", "text", b"", b"s", b"\xff" * 40, [], [0], [[]], {}, {"a": 1}, [0, 0]],
]

Files = dict[str, bytes]


async def histories() -> list[Files]:
    """Return directories that a gateway might have left."""
    made: list[Files] = []
    for seed in range(1, 7):
        history = await written((await recorded(seed, 120))[:60], rewrite_at=30, restart_at=45)
        made.append({name: bytes(data) for name, data in history.disk.files.items()})
        disk = history.disk.copy()
        position = recovery.load(disk).position
        recovery.rewrite(disk, position)
        name = snapshot_name(position)
        made.append({name: bytes(disk.files[name])})
    return made


def changed(value: Any, random: Random) -> Any:
    """Return a value of msgpack that differs somewhere."""
    if isinstance(value, list) and value and random.random() < 0.85:
        at = random.randrange(len(value))
        fate = random.random()
        if fate < 0.8:
            return [*value[:at], changed(value[at], random), *value[at + 1 :]]
        if fate < 0.87:
            return [*value[:at], *value[at + 1 :]]
        if fate < 0.94:
            return [*value[: at + 1], *value[at:]]
        return random.sample(value, len(value))
    if isinstance(value, int) and not isinstance(value, bool) and random.random() < 0.5:
        return min(max(value + random.choice([-1, 1, 100, -1000]), -(2**63)), 2**64 - 1)
    if isinstance(value, bytes) and value and random.random() < 0.5:
        return flipped(value, random)
    return random.choice(_VALUES)


def flipped(data: bytes, random: Random) -> bytes:
    """Return bytes of which some are others, more or fewer."""
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 8])):
        at = random.randrange(len(changed)) if changed else 0
        fate = random.random()
        if fate < 0.7 and changed:
            changed[at] ^= random.randint(1, 255)
        elif fate < 0.85:
            del changed[at : at + random.randint(1, 20)]
        else:
            changed[at:at] = random.randbytes(random.randint(1, 5))
    return bytes(changed)


def restructured(payload: bytes, random: Random) -> bytes:
    """Return a payload that is msgpack, and says something else."""
    value = msgspec.msgpack.decode(payload)
    for _ in range(random.choice([1, 1, 2, 5])):
        value = changed(value, random)
    return msgspec.msgpack.encode(value)


def rebuilt(name: str, data: bytes, random: Random) -> bytes:
    """Return a file with one block changed, and checksums that say that it is as written."""
    kind = Kind.SNAPSHOT if name.startswith("snapshot") else Kind.JOURNAL
    disk = MemoryDisk({name: data})
    with disk.open(name) as file:
        header = read(file, name, kind)
        blocks = list(read_blocks(file, name, header))
    if random.random() < 0.05:
        position = max(header.position + random.choice([-1, 1, 2**40]), 0)
        header = Header(header.kind, position, header.salt)
    target = random.randrange(len(blocks)) if blocks else -1
    result = pack_header(header)
    for at, block in enumerate(blocks):
        first, synced, payload = block.first, block.synced, block.payload
        if at == target:
            fate = random.random()
            if fate < 0.7:
                payload = restructured(payload, random)
            elif fate < 0.9:
                payload = flipped(payload, random)
            elif fate < 0.95:
                first = random.choice([0, first + 1, max(first - 1, 0), 2**64 - 1])
            else:
                synced = random.choice([0, synced + 1, 2**64 - 1])
        result += pack_block(header, first, synced, payload)
    return result if random.random() < 0.95 else result + flipped(result[HEADER_BYTES:], random)


def fuzz(attempt: Callable[[Random], None]) -> None:
    """Try one seed after the other."""
    before_bytes = _peak_bytes()
    for seed in seeds(300):
        with ended(), reporting_seed(seed):
            attempt(Random(seed))
    assert _peak_bytes() - before_bytes < GROWTH_BYTES_MAX


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def test_whatever_stands_in_the_files_is_loaded_or_damage_that_can_be_repaired() -> None:
    directories = await histories()

    def try_once(random: Random) -> None:
        files = dict(random.choice(directories))
        for name in random.sample(sorted(files), random.choice([1, 1, min(2, len(files))])):
            files[name] = rebuilt(name, files[name], random)
        disk = MemoryDisk(files)
        try:
            recovery.load(disk)
        except Corrupt:
            repair(disk)
        _as_snapshot(recovery.recover(disk).keyspace)

    fuzz(try_once)


def _as_snapshot(keyspace: Keyspace) -> None:
    """See that what was made of it can be written down and read again."""
    disk = MemoryDisk({snapshot_name(1): b"".join(snapshot.pieces(keyspace, 1))})
    recovery.load(disk)


async def test_bytes_that_are_no_files_are_damage() -> None:
    directories = await histories()

    def try_once(random: Random) -> None:
        files = dict(random.choice(directories))
        name = random.choice(sorted(files))
        files[name] = flipped(files[name], random)
        disk = MemoryDisk(files)
        try:
            recovery.load(disk)
        except Corrupt:
            repair(disk)
        recovery.recover(disk)

    fuzz(try_once)
