"""Parts say which time they cover."""

from __future__ import annotations

import asyncio
from pathlib import Path

from headgate.engine.bucket import parts
from headgate.engine.bucket.directory import DirectoryBucket
from headgate.engine.bucket.shipper import Shipper
from headgate.engine.journal.names import journal_name
from tests.journals.memory_disk import MemoryDisk
from tests.virtual_time import ManualClock

SEGMENT = journal_name(1)


async def shipped(shipper: Shipper) -> None:
    """Let everything be shipped that was written."""
    shipper.end()
    await shipper.run()


def shipper_of(bucket: DirectoryBucket, disk: MemoryDisk, clock: ManualClock) -> Shipper:
    return Shipper(
        bucket,
        disk,
        clock,
        writer="w",
        ship_ms=10,
        on_shipped=lambda: None,
        on_error=lambda error: None,
    )


async def test_a_part_covers_what_came_before_its_last_block_was_begun(tmp_path: Path) -> None:
    bucket, disk, clock = DirectoryBucket(tmp_path), MemoryDisk(), ManualClock(1_000)
    shipper = shipper_of(bucket, disk, clock)
    shipper.note_writing()
    disk.append(SEGMENT, b"x" * 40)
    clock.step(50)  # records that come now go into the next block
    shipper.note_written(SEGMENT, 40, 1)
    clock.step(50)
    await asyncio.wait_for(shipped(shipper), 10)
    part = parts.read(bucket, 1)
    assert (part.covered_ms, part.put_ms) == (1_000, 1_100)
    bucket.close()


async def test_what_an_earlier_life_has_written_covers_nothing_more(tmp_path: Path) -> None:
    bucket, disk = DirectoryBucket(tmp_path), MemoryDisk()
    shipper = shipper_of(bucket, disk, ManualClock(1_000))
    shipper.covered_ms = 700
    disk.append(SEGMENT, b"x" * 40)
    shipper.note_written(SEGMENT, 40, 1)
    await asyncio.wait_for(shipped(shipper), 10)
    assert parts.read(bucket, 1).covered_ms == 700
    bucket.close()
