"""A directory and its bucket as one disk."""

import io
from pathlib import Path

import pytest

from headgate.engine.bucket.manifest import BucketFile
from headgate.engine.bucket.tiers import TieredDisk
from tests.buckets.directory import LocalBucket
from tests.journals.memory_disk import MemoryDisk

NAMES = [f"extents-{number:020}" for number in (1, 2, 3)]
CONTENT = {name: bytes([at]) * 1000 for at, name in enumerate(NAMES)}


@pytest.fixture
def directory() -> MemoryDisk:
    return MemoryDisk({**CONTENT, "journal-00000000000000000001": b"records"})


@pytest.fixture
def disk(directory: MemoryDisk, tmp_path: Path) -> TieredDisk:
    bucket = LocalBucket(tmp_path)
    files = {}
    for name, data in CONTENT.items():
        bucket.put_new(f"files/{name}", data)
        files[name] = BucketFile(name, f"files/{name}", len(data), 0)
    return TieredDisk(directory, bucket, files)


def test_what_was_read_last_stays_longest(disk: TieredDisk, directory: MemoryDisk) -> None:
    disk.read(NAMES[0], 0, 1)
    assert disk.evict(1500) == NAMES[1:]
    assert [name for name in NAMES if name in directory.files] == NAMES[:1]
    assert disk.remote_bytes == 2000


def test_what_streams_keep_goes_last(disk: TieredDisk, directory: MemoryDisk) -> None:
    disk.read(NAMES[2], 0, 1)
    assert disk.evict(1500, frozenset({NAMES[0]})) == NAMES[1:]
    assert disk.evict(500, frozenset({NAMES[0]})) == NAMES[:1]


def test_reads_show_no_difference(disk: TieredDisk) -> None:
    before = {name: disk.read(name, 10, 20) for name in NAMES}
    disk.evict(0)
    assert {name: disk.read(name, 10, 20) for name in NAMES} == before
    assert [disk.size_bytes(name) for name in NAMES] == [1000] * 3
    assert disk.names() == [*NAMES, "journal-00000000000000000001"]
    with disk.open(NAMES[2]) as file:
        assert file.read() == CONTENT[NAMES[2]]
        assert file.seek(-5, io.SEEK_END) == 995
        assert file.read(10) == CONTENT[NAMES[2]][-5:]


def test_only_what_the_bucket_has_leaves_the_disk(directory: MemoryDisk, tmp_path: Path) -> None:
    disk = TieredDisk(directory, LocalBucket(tmp_path), {})
    assert disk.evict(0) == []
    assert disk.remote_bytes == 0


def test_a_file_of_another_size_is_not_the_one_there(
    disk: TieredDisk, directory: MemoryDisk
) -> None:
    directory.append(NAMES[1], b"more")
    assert disk.evict(0) == [NAMES[0], NAMES[2]]


def test_what_is_removed_is_gone_from_both(disk: TieredDisk) -> None:
    disk.evict(0)
    disk.remove(NAMES[0])
    assert NAMES[0] not in disk.names()
    with pytest.raises(FileNotFoundError):
        disk.read(NAMES[0], 0, 1)
    with pytest.raises(FileNotFoundError):
        disk.remove(NAMES[0])
