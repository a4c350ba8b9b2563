"""Headers and blocks: what was written comes back, and nothing else ever does."""

import io
import struct
import tracemalloc
from pathlib import Path

import google_crc32c
import pytest

from headgate.engine.errors import Broken, Corrupt, NewerFormat
from headgate.engine.journal.records import (
    HEADER_BYTES,
    VERSION,
    Block,
    Header,
    Kind,
    blocks_behind,
    pack_block,
    pack_header,
    read_blocks,
    read_header,
)

HEADER = Header(Kind.JOURNAL, 2**64 - 1, salt=2**64 - 2)
FIRST = pack_block(HEADER, 1, 0, b"one")
SECOND = pack_block(HEADER, 2, 1, b"")
THIRD = pack_block(HEADER, 3, 2, b"three")


def blocks_in(data: bytes) -> list[Block]:
    return list(read_blocks(io.BytesIO(data), "x", HEADER))


def behind(data: bytes, offset: int) -> list[int]:
    return [block.first for block in blocks_behind(io.BytesIO(data), HEADER, offset)]


def test_a_header_says_what_the_file_holds_and_from_where() -> None:
    data = pack_header(HEADER)
    assert len(data) == HEADER_BYTES
    assert data[:12] == b"HEADGATE" + struct.pack("<HH", VERSION, 1)
    file = io.BytesIO(data + FIRST)
    assert read_header(file, "x", Kind.JOURNAL) == HEADER
    assert file.tell() == HEADER_BYTES


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "x, byte 0: the header is cut off after 0 of 32 bytes"),
        (pack_header(HEADER)[:31], "cut off after 31 of 32 bytes"),
        (b"PK\3\4" * 8, "this is no file of Headgate"),
        (pack_header(HEADER)[:28] + b"\0\0\0\0", "the checksum of the header is wrong"),
    ],
)
def test_what_is_no_header_is_broken(data: bytes, text: str) -> None:
    with pytest.raises(Broken, match=text):
        read_header(io.BytesIO(data), "x", Kind.JOURNAL)


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(Corrupt, match="x, byte 0: this is no snapshot"):
        read_header(io.BytesIO(pack_header(HEADER)), "x", Kind.SNAPSHOT)


def test_a_newer_version_is_named() -> None:
    plain = struct.pack("<8sHHQQ", b"HEADGATE", VERSION + 1, 1, 1, 0)
    data = plain + struct.pack("<I", google_crc32c.value(plain))
    with pytest.raises(NewerFormat, match=f"version {VERSION + 1}, .* up to {VERSION}"):
        read_header(io.BytesIO(data), "x", Kind.JOURNAL)


def test_blocks_come_back_in_order_with_their_places() -> None:
    assert blocks_in(FIRST + SECOND + THIRD) == [
        Block(0, 1, 0, b"one"),
        Block(35, 2, 1, b""),
        Block(67, 3, 2, b"three"),
    ]
    assert [block.end for block in blocks_in(FIRST + SECOND)] == [35, 67]
    assert blocks_in(b"") == []


@pytest.mark.parametrize(
    ("data", "offset", "why"),
    [
        (FIRST + SECOND[:31], 35, "a block is cut off after 31 bytes"),
        (FIRST + THIRD[:-1], 35, "a block is cut off after 4 of its 5 bytes"),
        (FIRST + b"?" * 40, 35, "no block begins here"),
        (FIRST[:8] + b"?" + FIRST[9:], 0, "the checksum of a block's head is wrong"),
        (FIRST[:-1] + b"?", 0, "the checksum of a block is wrong"),
    ],
)
def test_what_is_no_block_is_broken(data: bytes, offset: int, why: str) -> None:
    with pytest.raises(Broken) as broken:
        blocks_in(data)
    assert (broken.value.name, broken.value.offset, broken.value.why) == ("x", offset, why)


def test_a_length_that_cannot_be_costs_no_memory(tmp_path: Path) -> None:
    head = struct.pack("<IQQI", 0xFF00_0003, 1, 0, 0)
    checksum = google_crc32c.value(HEADER.salt.to_bytes(8, "little") + head)
    lying = b"\xb1ock" + struct.pack("<I", checksum) + head  # as if four gigabytes came
    (tmp_path / "x").write_bytes(lying + lying + THIRD)
    tracemalloc.start()
    try:
        with (tmp_path / "x").open("rb") as file:
            with pytest.raises(Broken, match="cut off after 69 of its"):
                list(read_blocks(file, "x", HEADER))
            assert [block.first for block in blocks_behind(file, HEADER, 0)] == [3]
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()


def test_intact_blocks_are_found_behind_a_place_where_there_is_none() -> None:
    assert behind(b"?" * 5 + FIRST + SECOND + THIRD, 0) == [1, 2, 3]
    assert behind(FIRST[:-1] + SECOND + b"\xb1ock" + THIRD[:-1], 0) == [2]
    assert behind(FIRST + SECOND[:9] + THIRD, 35) == [3]
    assert behind(b"\xb1ock" * 20, 0) == []
    assert behind(FIRST, len(FIRST)) == []


def test_the_broken_place_itself_is_not_behind() -> None:
    assert behind(FIRST + SECOND, 0) == [2]


def test_a_block_that_somebody_stored_is_none_of_this_file() -> None:
    stored = pack_block(Header(Kind.JOURNAL, 1, salt=7), 9, 9, b"stored")
    holding = pack_block(HEADER, 1, 0, stored)
    assert behind(b"?" + holding[1:], 0) == []
    assert blocks_in(holding) == [Block(0, 1, 0, stored)]
