"""Parts: one of each number, and none that is not as it was put."""

from pathlib import Path

import pytest

from headgate.engine.bucket import parts
from headgate.engine.bucket.parts import Part
from headgate.engine.errors import Corrupt
from tests.buckets.directory import LocalBucket

PART = Part(7, 3, "ab12", "journal-00000000000000000001", 32, 5, 1000, 900, b"bytes of a journal")


@pytest.fixture
def bucket(tmp_path: Path) -> LocalBucket:
    return LocalBucket(tmp_path)


def test_a_part_is_read_as_it_was_put(bucket: LocalBucket) -> None:
    assert parts.put(bucket, PART)
    assert parts.read(bucket, 7) == PART
    assert PART.end == 32 + len(PART.data)


def test_of_two_parts_of_a_number_the_first_is_there(bucket: LocalBucket) -> None:
    assert parts.put(bucket, PART)
    assert not parts.put(bucket, PART._replace(term=4))
    assert parts.put(bucket, PART)  # the same again: an answer got lost
    assert parts.read(bucket, 7) == PART


def test_parts_are_counted_up_to_the_first_hole(bucket: LocalBucket) -> None:
    for number in (2, 3, 4, 6):
        parts.put(bucket, PART._replace(number=number))
    assert parts.numbers_from(bucket, 2) == [2, 3, 4]
    assert parts.numbers_from(bucket, 5) == []
    assert parts.numbers_from(bucket, 1) == []


@pytest.mark.parametrize("at", range(0, len(parts.packed(PART)), 3))
def test_a_part_with_a_wrong_byte_is_refused(bucket: LocalBucket, at: int) -> None:
    data = bytearray(parts.packed(PART))
    data[at] ^= 0x41
    with pytest.raises(Corrupt, match="parts/00000000000000000007"):
        parts.unpacked(parts.part_name(7), bytes(data))


@pytest.mark.parametrize("length", [0, 31, 32, 60, len(parts.packed(PART)) - 1])
def test_a_part_that_is_cut_is_refused(length: int) -> None:
    with pytest.raises(Corrupt):
        parts.unpacked(parts.part_name(7), parts.packed(PART)[:length])


def test_a_part_under_another_number_is_refused() -> None:
    with pytest.raises(Corrupt, match="not as it was put"):
        parts.unpacked(parts.part_name(8), parts.packed(PART))
