"""Listpacks: all encodings, at all their limits; and what is none."""

import pytest

from headgate.app.rdb import listpack
from headgate.app.rdb.listpack import BadListpack, Listpack, as_bytes
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
        b"",
        b"\x07\x00\x00\x00\x00\x00\xfe",
        b"\x08\x00\x00\x00\x00\x00\xff",
        b"\x09\x00\x00\x00\x01\x00\x05\x02\xff",  # its length is another one behind it
        b"\x09\x00\x00\x00\x01\x00\xc5\x01\xff",
        b"\x08\x00\x00\x00\x01\x00\xbf\xff",
        b"\x0b\x00\x00\x00\x01\x00\xf0\xff\xff\xff\xff",
        b"\x09\x00\x00\x00\x01\x00\xf7\x01\xff",
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
