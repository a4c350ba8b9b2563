"""A directory and a bucket are brought together, or refuse each other."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.engine.bucket import manifest as manifests
from headgate.engine.bucket import restoring
from headgate.engine.bucket.attachment import attach
from headgate.engine.bucket.manifest import FILES, PARTS
from headgate.engine.bucket.parts import numbers_from, part_name
from headgate.engine.errors import Corrupt, Unavailable
from headgate.engine.journal import recovery
from headgate.engine.journal.names import is_segment
from tests.buckets.directory import LocalBucket
from tests.buckets.leading import Leading, values_of
from tests.journals.memory_disk import Death, Killed, MemoryDisk


@pytest.fixture
def bucket(tmp_path: Path) -> LocalBucket:
    return LocalBucket(tmp_path)


def shipped(bucket: LocalBucket, disk: MemoryDisk | None = None, count: int = 20) -> MemoryDisk:
    """Return the directory of a gateway that has led for a while."""
    with Leading(bucket, disk or MemoryDisk()) as leading:
        leading.append(count)
        return leading.disk


def test_a_directory_from_before_the_bucket_is_shipped_as_a_whole(bucket: LocalBucket) -> None:
    disk = MemoryDisk()
    with Leading(None, disk) as leading:
        leading.append(20)
        leading.rewrite()
        leading.append(5)
        disk = leading.disk
    shipped(bucket, disk, 5)
    assert values_of(attach(MemoryDisk(), bucket).loaded.keyspace) == list(range(30))


def test_a_directory_goes_on_where_it_was(bucket: LocalBucket) -> None:
    disk = shipped(bucket)
    before = dict(disk.files)
    attached = attach(disk, bucket)
    assert attached.shipped.position == attached.loaded.position
    assert {name: disk.files[name] for name in before} == before


def test_a_segment_that_a_snapshot_replaces_is_not_shipped_again(bucket: LocalBucket) -> None:
    with Leading(bucket, MemoryDisk()) as leading:
        leading.append(20)
        old = {name: data for name, data in leading.disk.files.items() if is_segment(name)}
        leading.rewrite()
        disk = leading.disk.copy()
    disk.files |= old  # it was killed before it removed them
    manifest = manifests.newest(bucket)
    assert manifest is not None
    bucket.remove(part_name(number) for number in numbers_from(bucket, manifest.first_part))
    assert attach(disk, bucket).unshipped == []


def test_a_directory_that_lost_its_tail_is_made_anew(bucket: LocalBucket) -> None:
    disk = shipped(bucket)
    last = max(name for name in disk.files if name.startswith("journal-"))
    first = min(name for name in disk.files if name.startswith("journal-"))
    del disk.files[first][-10:], disk.files[last][32:]
    assert values_of(attach(disk, bucket).loaded.keyspace) == list(range(20))


def test_a_directory_of_another_bucket_is_refused(bucket: LocalBucket, tmp_path: Path) -> None:
    disk = shipped(bucket)
    shipped(other := LocalBucket(tmp_path / "other"))
    before = dict(disk.files)
    with pytest.raises(Unavailable, match="belongs to another bucket"):
        attach(disk, other)
    assert disk.files == before


def test_a_directory_with_a_journal_of_its_own_is_refused(bucket: LocalBucket) -> None:
    shipped(bucket)
    with Leading(None, MemoryDisk()) as leading:
        leading.append(1)
        disk = leading.disk
    before = dict(disk.files)
    with pytest.raises(Unavailable, match="journal of its own"):
        attach(disk, bucket)
    assert disk.files == before


def test_records_that_nobody_else_has_are_put_aside(bucket: LocalBucket) -> None:
    with Leading(bucket, MemoryDisk()) as leading:
        leading.append(5)
        bucket.fault = away
        leading.append(5, is_shipped=False)
        behind = leading.disk.copy()
        bucket.fault = None
    bucket.remove([stored.name for stored in bucket.objects(PARTS)][-1:])  # it never arrived
    shipped(bucket, count=3)
    attached = attach(behind, bucket)
    assert values_of(attached.loaded.keyspace)[:5] == list(range(5))
    assert attached.unshipped_files
    assert all(name in behind.files for name in attached.unshipped_files)


@pytest.mark.parametrize("has_led", [False, True])
def test_a_start_that_is_killed_begins_again(bucket: LocalBucket, has_led: bool) -> None:
    with Leading(bucket, MemoryDisk()) as leading:
        leading.append(20)
        leading.rewrite()
        leading.append(5)
        files = {name: bytes(data) for name, data in leading.disk.files.items()} if has_led else {}
    shipped(bucket, count=5)
    for change_count in range(100):
        disk = MemoryDisk(files)
        disk.on_call = Death(change_count)
        try:
            attach(disk, bucket)
            break
        except Killed:
            left = disk.copy()
        assert values_of(attach(left, bucket).loaded.keyspace) == list(range(30))
    assert 5 < change_count < 99


def test_what_was_shipped_is_not_put_aside(bucket: LocalBucket) -> None:
    directories = [MemoryDisk(), MemoryDisk()]
    for _ in range(3):
        for disk in directories:
            with Leading(bucket, disk, joined_parts=4) as leading:
                for _ in range(10):
                    leading.append(1)
                assert not [name for name in leading.disk.files if name.startswith("aside-")]
            disk.files = leading.disk.files


def away(act: Callable[[], object]) -> object:
    raise OSError("no connection")


def test_a_start_needs_few_parts(bucket: LocalBucket) -> None:
    with Leading(bucket, MemoryDisk(), joined_parts=8) as leading:
        for _ in range(40):
            leading.append(1)
    manifest = manifests.newest(bucket)
    assert manifest is not None
    numbers = [int(stored.name[-20:]) for stored in bucket.objects(PARTS)]
    assert max(numbers) - manifest.first_part <= 10
    assert values_of(attach(MemoryDisk(), bucket).loaded.keyspace) == list(range(40))


def test_a_bucket_is_restored_as_it_was(bucket: LocalBucket) -> None:
    with Leading(bucket, MemoryDisk(), joined_parts=8) as leading:
        moments = []
        for number in range(30):
            leading.append(1)
            moments.append(leading.wall_ms())
            leading.wait(2)
            if number == 15:
                leading.rewrite()
    for number in (0, 7, 14, 15, 16, 29):
        disk = MemoryDisk()
        restoring.restore(bucket, disk, at_ms=moments[number], has_extents=True)
        assert values_of(recovery.load(disk).keyspace) == list(range(number + 1))
    with pytest.raises(Unavailable, match="nothing of that time"):
        restoring.restore(bucket, MemoryDisk(), at_ms=moments[0] - 3_600_000)


def test_every_object_is_verified(bucket: LocalBucket, tmp_path: Path) -> None:
    with Leading(bucket, MemoryDisk(), joined_parts=8) as leading:
        leading.append(60)
        leading.rewrite()
        for _ in range(12):
            leading.append(1)
    verified = restoring.verify(bucket)
    assert (verified.position, verified.unnamed) == (leading.position, [])
    for stored in [*bucket.objects(FILES), *bucket.objects(PARTS)][-12:]:
        path = tmp_path / stored.name
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(Corrupt, match=stored.name):
            restoring.verify(bucket)
        path.write_bytes(data)
