"""Listpacks, LZF and nodes: all encodings, at all their limits; and what is none."""

import pytest

from headgate.app.rdb import listpack
from headgate.app.rdb.listpack import BadListpack, Listpack, as_bytes
from headgate.app.rdb.lzf import decompress
from headgate.app.rdb.nodes import portions
from headgate.engine.entry import Entry, EntryId
from tests.unit.app.rdb.images import INTEGERS, ODD

STRINGS = [b"x" * size for size in (1, 62, 63, 64, 125, 126, 127, 4095, 4096, 16_380, 16_381)]
STRINGS += [b"x" * size for size in (2**21 - 7, 2**21 - 6, 2**21)]

counted: list[int] = []
"""Counts of the listpacks of these tests."""


def test_strings_come_back_as_they_were() -> None:
    values = [*STRINGS, *ODD, *(b"%d" % number for number in INTEGERS)]
    packed = listpack.pack(list(map(listpack.string, values)))
    elements = Listpack(packed, counted.append)
    assert as_bytes(elements.take(len(values))) == values
    elements.end()


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\x07\x00\x00\x00\x00\x00\xfe", b"\x08\x00\x00\x00\x00\x00\xff"),
        b"\x09\x00\x00\x00\x01\x00\x05\x02\xff",  # its length is another one behind it
        *(b"\x09\x00\x00\x00\x01\x00\xc5\x01\xff", b"\x08\x00\x00\x00\x01\x00\xbf\xff"),
        *(b"\x0b\x00\x00\x00\x01\x00\xf0\xff\xff\xff\xff", b"\x09\x00\x00\x00\x01\x00\xf7\x01\xff"),
    ],
)
def test_what_is_no_listpack_is_refused(data: bytes) -> None:
    with pytest.raises(BadListpack):
        Listpack(data, counted.append).take(1)


@pytest.mark.parametrize(("count", "taken"), [(3, 2), (2, 1), (1, 2), (0, 0)])
def test_a_wrong_count_is_refused(count: int, taken: int) -> None:
    data = bytearray(listpack.pack([listpack.integer(1), listpack.integer(2)]))
    data[4] = count
    elements = Listpack(bytes(data), counted.append)
    elements.take(taken)
    with pytest.raises(BadListpack):
        elements.end()


def test_no_more_is_decoded_than_may_be_counted() -> None:
    left = 3_000

    def count_down(count: int) -> None:
        nonlocal left
        left -= count
        if left < 0:
            raise OverflowError

    elements = Listpack(listpack.pack([listpack.integer(7)] * 70_000), count_down)
    with pytest.raises(OverflowError):
        elements.take(70_000)
    assert left > -1_100


def test_runs_and_copies() -> None:
    assert decompress(b"\x02abc\x20\x02", 6) == b"abcabc"
    assert decompress(b"\x00a\xe0\xff\x00", 265) == b"a" * 265
    assert decompress(b"\x01ab\x60\x01\x00c", 8) == b"ababababc"[:7] + b"c"
    assert decompress(b"", 0) == b""


@pytest.mark.parametrize(
    ("packed", "size"),
    [
        *((b"\x02ab", 3), (b"\x02abc", 4), (b"\x02abc", 2), (b"\x00a\x20\x01", 4)),
        *((b"\x00a\xe0", 99), (b"\x00a\x20", 4), (b"\x00a\xe0\xff\x00" * 50, 265)),
    ],
)
def test_what_is_no_lzf_is_refused(packed: bytes, size: int) -> None:
    with pytest.raises(ValueError, match="compressed bytes"):
        decompress(packed, size)


def test_many_empty_names_and_values_fill_a_node_as_short_ones_do() -> None:
    wide = [Entry(EntryId(number, 0), (b"", b"") * 5_000) for number in (1, 2, 3)]
    narrow = [Entry(EntryId(number, 0), (b"", b"")) for number in (4, 5, 6)]
    assert [*portions(wide + narrow)] == [*([entry] for entry in wide), narrow]
