"""Manifests name what a start needs, whatever rewrites and restarts come between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path

import pytest

from headgate.engine.bucket import manifest as manifests
from headgate.engine.bucket import parts, restoring
from headgate.engine.bucket.attachment import attach
from headgate.engine.bucket.bucket import BucketError
from headgate.engine.bucket.manifest import FILES
from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, MIN_ID, Draft
from headgate.engine.errors import Unavailable
from headgate.engine.journal import extents
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.room import DiskBounds
from headgate.engine.journal.storage import StreamIndex
from headgate.engine.requests.entries import Add, Range, Trim, TrimTo
from tests.buckets.directory import LocalBucket
from tests.buckets.leading import STREAM, Leading, values_of
from tests.journals.memory_disk import MemoryDisk


@pytest.fixture
def bucket(tmp_path: Path) -> SlowBucket:
    return SlowBucket(tmp_path)


class SlowBucket(LocalBucket):
    """A bucket that takes nothing with one of these prefixes for now."""

    refused: tuple[str, ...] = ()

    def put_new(self, name: str, content: bytes | Path) -> bool:
        is_fence = isinstance(content, bytes) and len(content) < 200
        if name.startswith(self.refused) and not is_fence:
            raise BucketError("it does not get through")
        return super().put_new(name, content)


def draft(text: bytes) -> Draft:
    return Draft(None, (b"n", text))


def test_two_snapshots_of_a_position_stay(
    bucket: SlowBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extents, "CLEANED_BYTES_MAX", 1)  # so that each rewrite leaves some
    chance = random.Random(1)

    names = [b"one", b"two", b"three"]

    async def fill(stream: bytes, engine: Engine, _journal: Journal) -> None:
        for _ in range(60):
            drafts = [draft(chance.randbytes(10_000)) for _ in range(10)]
            await engine.perform(Add(stream, drafts))

    async def trim(engine: Engine, _journal: Journal) -> None:
        for stream in names:
            await engine.perform(Trim(stream, TrimTo(max_length=300)))
        await asyncio.sleep(2)

    with Leading(bucket, MemoryDisk()) as leading:
        for stream in names:
            leading.do(partial(fill, stream))
            leading.rewrite()
        leading.do(trim)
        named = set()
        for _ in range(3):
            leading.rewrite()
            manifest = manifests.newest(bucket)
            assert manifest is not None
            assert manifest.snapshot is not None
            named.add(manifest.snapshot.object)
        assert restoring.verify(bucket).position == leading.position
    assert len(named) > 1


def test_nothing_is_answered_before_the_bucket_has_what_comes_first(
    bucket: SlowBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Leading(None, MemoryDisk()) as leading:
        leading.append(20)
        leading.rewrite()
        leading.append(5)
        disk = leading.disk
    bucket.refused = (FILES,)

    async def replace_while_it_is_put(engine: Engine, journal: Journal) -> None:
        holder, goes_on = journal._rewrites.holder, asyncio.Event()
        adopt = holder.adopt

        async def adopt_late(indexes: Sequence[StreamIndex], *, is_late: bool) -> AbstractSet[str]:
            await goes_on.wait()
            return await adopt(indexes, is_late=is_late)

        monkeypatch.setattr(holder, "adopt", adopt_late)
        journal.start_rewrite()
        await asyncio.sleep(1)
        bucket.refused = ()
        asked = asyncio.create_task(engine.perform(Add(STREAM, [draft(b"25")])))
        await asyncio.sleep(6)
        if asked.done():
            assert values_of(attach(MemoryDisk(), bucket).loaded.keyspace)[-1] == 25
        goes_on.set()
        await asked

    with Leading(bucket, disk, is_durable=True) as leading:
        leading.do(replace_while_it_is_put)
        assert values_of(attach(MemoryDisk(), bucket).loaded.keyspace) == list(range(26))


def test_segments_that_wait_for_the_bucket_take_room_when_replaced(bucket: SlowBucket) -> None:
    chance = random.Random(1)

    async def fill_and_rewrite(engine: Engine, journal: Journal) -> None:
        for _ in range(30):
            await engine.perform(Add(STREAM, [draft(chance.randbytes(10_000))]))
        bucket.refused = ("parts/",)
        await engine.perform(Add(STREAM, [draft(b"30" * 200)]))
        journal.start_rewrite()
        while journal.status.is_rewriting:
            await asyncio.sleep(0.01)
        await engine.perform(Add(STREAM, [draft(b"31")]))  # the room is looked at behind a write
        try:
            with pytest.raises(Unavailable, match="the journal is full"):
                await engine.perform(Add(STREAM, [draft(b"32")]))
        finally:
            bucket.refused = ()

    with Leading(bucket, MemoryDisk(), bounds=DiskBounds(500_000)) as leading:
        leading.do(fill_and_rewrite)
        leading.wait(5)
        leading.append(1)


def test_what_is_joined_stays_in_few_pieces(bucket: SlowBucket) -> None:
    with Leading(bucket, MemoryDisk(), joined_parts=4) as leading:
        for _ in range(200):
            leading.append(1)
    manifest = manifests.newest(bucket)
    assert manifest is not None
    assert len(manifest.pieces) < 10
    assert values_of(attach(MemoryDisk(), bucket).loaded.keyspace) == list(range(200))


def test_readers_see_nothing_that_an_earlier_life_has_not_shipped(bucket: SlowBucket) -> None:
    with Leading(bucket, MemoryDisk(), is_durable=True) as leading:
        leading.append(5)
        bucket.refused = ("parts/",)

        async def append(engine: Engine, _journal: Journal) -> None:
            asked = asyncio.create_task(engine.perform(Add(STREAM, [draft(b"5" * 200)])))
            await asyncio.sleep(0.5)
            asked.cancel()

        leading.do(append)
        disk = leading.disk.copy()  # as if it was killed here
        bucket.refused = ()
    for number in parts.numbers_from(bucket, 1):
        if parts.read(bucket, number).position > 5:
            bucket.remove([parts.part_name(number)])
    bucket.refused = ("parts/",)

    async def read(engine: Engine, _journal: Journal) -> int:
        for _ in range(100):
            try:
                async with asyncio.timeout(1):
                    return len(await engine.perform(Range(STREAM, MIN_ID, MAX_ID)))
            except (TimeoutError, Unavailable):
                await asyncio.sleep(1)
        raise AssertionError

    with Leading(bucket, disk, is_durable=True) as leading:
        assert leading.do(read) == 5
        bucket.refused = ()
        leading.wait(10)
        assert leading.do(read) == 6
