"""A follower applies each part as a whole, and takes over snapshots."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from headgate.engine import commands as c
from headgate.engine.bucket import manifest as manifests
from headgate.engine.bucket import parts
from headgate.engine.bucket.attachment import Attached, attach
from headgate.engine.bucket.directory import DirectoryBucket
from headgate.engine.bucket.follower import BucketFollower
from headgate.engine.bucket.parts import Part
from headgate.engine.errors import Corrupt
from headgate.engine.journal import records as blocks
from headgate.engine.journal.names import in_use, journal_name
from headgate.engine.journal.records import Records
from headgate.engine.journal.storage import Nobody
from tests.buckets.directory import LocalBucket
from tests.buckets.leading import Leading
from tests.journals.memory_disk import MemoryDisk
from tests.virtual_time import ManualClock

T = TypeVar("T")

SEGMENT = journal_name(1)
HEADER = blocks.Header(blocks.Kind.JOURNAL, 1, 7)
HEAD = blocks.pack_header(HEADER)
RECORD = c.encode_parts(c.encode_each([c.ClockSet(5)]))
BLOCK = blocks.pack_block(HEADER, 1, 0, c.join([RECORD]))


def followed(bucket: DirectoryBucket, disk: MemoryDisk) -> BucketFollower:
    """Return a follower that has the first of two parts of somebody else."""
    assert parts.put(bucket, Part(1, 1, "other", SEGMENT, 0, 0, 0, 0, HEAD))
    follower = BucketFollower(bucket, attach(disk, bucket), disk, ManualClock())
    assert parts.put(bucket, Part(2, 1, "other", SEGMENT, len(HEAD), 1, 0, 0, BLOCK))
    return follower


class PausingDisk(MemoryDisk):
    """A disk whose thread has done its work before anybody is told."""

    def __init__(self) -> None:
        super().__init__()
        self.is_done, self.goes_on = asyncio.Event(), asyncio.Event()

    async def in_thread(self, act: Callable[[], T]) -> T:
        result = act()
        self.is_done.set()
        await self.goes_on.wait()
        return result


async def test_a_part_is_applied_once_though_following_ends_in_the_middle(tmp_path: Path) -> None:
    bucket, disk = DirectoryBucket(tmp_path), PausingDisk()
    records, holder = Records(0), Nobody()
    follower = followed(bucket, disk)
    following = asyncio.create_task(follower.catch_up(records, holder))
    await asyncio.wait_for(disk.is_done.wait(), 10)
    following.cancel()
    asyncio.get_running_loop().call_soon(disk.goes_on.set)
    with suppress(asyncio.CancelledError):
        await asyncio.wait_for(following, 10)
    await follower.catch_up(records, holder)

    assert (follower.next_part, records.position) == (3, 1)
    assert disk.content(SEGMENT) == HEAD + BLOCK
    bucket.close()


def test_a_follower_that_lags_behind_what_was_removed_starts_anew(tmp_path: Path) -> None:
    bucket, disk = LocalBucket(tmp_path), MemoryDisk()
    with Leading(bucket, MemoryDisk()) as leading:
        leading.append(3)
        attached, clock = attach(disk, bucket), ManualClock()
        follower = BucketFollower(bucket, attached, disk, clock)
        following(follower, attached)
        leading.append(3)
        leading.rewrite()
    manifest = manifests.newest(bucket)
    assert manifest is not None
    bucket.remove(parts.part_name(number) for number in range(1, manifest.first_part))
    clock.now_ms += 60_000
    with pytest.raises(Corrupt, match="was removed before it was applied"):
        following(follower, attached)


async def test_a_part_is_written_again_that_a_full_disk_has_cut(tmp_path: Path) -> None:
    bucket, disk = LocalBucket(tmp_path), MemoryDisk()
    records, follower = Records(0), followed(bucket, disk)
    disk.append(SEGMENT, BLOCK[:10])
    await follower.catch_up(records, Nobody())
    assert (records.position, disk.content(SEGMENT)) == (1, HEAD + BLOCK)


async def test_a_copy_of_the_directory_of_the_leader_starts_anew(tmp_path: Path) -> None:
    bucket, disk = LocalBucket(tmp_path), MemoryDisk()
    attached = attach(disk, bucket)
    follower = BucketFollower(bucket, attached, disk, ManualClock())
    writer = attached.marker.writer
    assert parts.put(bucket, Part(1, 1, writer, SEGMENT, 0, 0, 0, 0, HEAD))
    with pytest.raises(Corrupt, match="this one starts anew"):
        await follower.catch_up(Records(0), Nobody())


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_leader_that_shipped_nothing_has_led(tmp_path: Path, is_restarted: bool) -> None:
    """It may have answered what is lost: own parts without bytes do not hide it."""
    bucket, disk = LocalBucket(tmp_path), MemoryDisk()
    writer = attach(disk, bucket).marker.writer
    disk.append(SEGMENT, HEAD)
    assert parts.put(bucket, Part(1, 1, writer, SEGMENT, 0, 0, 5, 5, HEAD))
    attached = attach(disk, bucket)
    assert attached.last_writer == writer
    assert parts.put(bucket, Part(2, 2, "other", "", 0, 0, 6, 6, b""))
    if is_restarted:
        assert parts.put(bucket, Part(3, 3, writer, "", 0, 0, 7, 6, b""))
        attached = attach(disk, bucket)
    follower = BucketFollower(bucket, attached, disk, ManualClock())
    await follower.catch_up(Records(0), Nobody())
    assert (attached.marker.writer, follower.last_writer) == (writer, "other")


def following(follower: BucketFollower, attached: Attached) -> None:
    records = Records(attached.loaded.position)
    asyncio.run(follower.catch_up(records, Nobody()))


def test_a_snapshot_that_came_too_early_or_failed_is_taken_over_later(tmp_path: Path) -> None:
    bucket, disk = LocalBucket(tmp_path), MemoryDisk()
    with Leading(bucket, MemoryDisk()) as leading:
        leading.append(3)
        attached, clock = attach(disk, bucket), ManualClock()
        follower = BucketFollower(bucket, attached, disk, clock)
        leading.append(3)
        leading.rewrite()
    records, holder = Records(attached.loaded.position), Nobody()

    async def look() -> bool:
        clock.now_ms += 10_000
        await follower.look_for_snapshot(records, holder)
        return in_use(disk.names()).snapshot is not None

    async def follow() -> None:
        assert not await look()  # it holds more than was applied here
        await follower.catch_up(records, holder)
        disk.faults["append"] = errno.ENOSPC
        with pytest.raises(OSError, match="No space left"):
            await look()
        del disk.faults["append"]
        assert await look()

    asyncio.run(follow())
