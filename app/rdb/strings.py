"""Strings and lengths, of which everything in RDB is made.

A *length* has 1, 2, 5 or 9 bytes; its first two bits say which. If both are set, it is no length
but says how a *string* is encoded: as an integer of 1, 2 or 4 bytes, or compressed. A string that
is not encoded is its length and its bytes.
"""

from __future__ import annotations

import struct

from headgate.app.rdb.source import RdbError, Source

# LZF: the compression of strings in RDB (Marc Lehmann's LibLZF), reading only.
#
# The input is a row of *runs* and *copies*. A byte below 32 is a run: so many bytes and one more
# follow as they are. Any other byte is a copy: its upper three bits are the length less 2 (7: a
# byte with the remainder follows), its lower five bits and the next byte say how far back in the
# output it begins, less 1. A copy may reach into itself.

EXPANSION_MAX = 88
"""No input grows more: three bytes copy at most 264."""


def decompress(packed: bytes, size_bytes: int) -> bytes:
    """Decompress LZF to exactly `size_bytes`. Raises ValueError."""
    out, at, end = bytearray(), 0, len(packed)
    try:
        while at < end:
            lead = packed[at]
            at += 1
            if lead < 32:
                out += packed[at : at + lead + 1]
                at += lead + 1
                continue
            length = lead >> 5
            if length == 7:
                length += packed[at]
                at += 1
            distance = ((lead & 31) << 8 | packed[at]) + 1
            at += 1
            _copy(out, distance, length + 2)
            if len(out) > size_bytes:
                break
    except IndexError:
        raise ValueError("compressed bytes end early") from None
    if at != end or len(out) != size_bytes:
        raise ValueError("compressed bytes have another length than they say")
    return bytes(out)


def _copy(out: bytearray, distance: int, length: int) -> None:
    start = len(out) - distance
    if start < 0:
        raise ValueError("compressed bytes refer to what is before them")
    if distance >= length:
        out += out[start : start + length]
    else:  # what is copied repeats itself
        unit = bytes(out[start:])
        out += (unit * (length // distance + 1))[:length]


_INTEGER_BYTES = {0: 1, 1: 2, 2: 4}
_COMPRESSED = 3

_32 = struct.Struct(">BI")
_64 = struct.Struct(">BQ")


def read_length(source: Source) -> int:
    length, encoding = _length_or_encoding(source)
    if encoding is not None:
        raise source.error("there is a string where a number should be")
    return length


def read_string(source: Source) -> bytes:
    """Return the next string. Raises RdbError if it is longer than strings may be."""
    length, encoding = _length_or_encoding(source)
    if encoding is None:
        _check_size(source, length)
        source.take_room(length)
        return source.take(length)
    if encoding != _COMPRESSED:
        return b"%d" % source.number(_integer_bytes(source, encoding), signed=True)
    packed_bytes, size_bytes = read_length(source), read_length(source)
    if size_bytes > EXPANSION_MAX * packed_bytes:
        raise source.error("a string is longer than its bytes can make it")
    _check_size(source, size_bytes)
    _check_size(source, packed_bytes)
    source.take_room(size_bytes)
    packed = source.take(packed_bytes)
    try:
        return decompress(packed, size_bytes)
    except ValueError as error:
        raise source.error(str(error)) from None


def skip_string(source: Source) -> None:
    length, encoding = _length_or_encoding(source)
    if encoding == _COMPRESSED:
        length = read_length(source)
        read_length(source)
    elif encoding is not None:
        length = _integer_bytes(source, encoding)
    source.skip(length)


def _length_or_encoding(source: Source) -> tuple[int, int | None]:
    lead = source.byte()
    if lead < 0x40:
        return lead, None
    if lead < 0x80:
        return (lead & 0x3F) << 8 | source.byte(), None
    if lead == 0x80:
        return int.from_bytes(source.take(4)), None
    if lead == 0x81:
        return int.from_bytes(source.take(8)), None
    if lead < 0xC0:
        raise source.error(f"no length begins with {lead:#04x}")
    return 0, lead & 0x3F


def _integer_bytes(source: Source, encoding: int) -> int:
    size_bytes = _INTEGER_BYTES.get(encoding)
    if size_bytes is None:
        raise source.error(f"a string has the unknown encoding {encoding}")
    return size_bytes


def _check_size(source: Source, size_bytes: int) -> None:
    if size_bytes > source.strings_bytes_max:
        text = f"a string has {size_bytes} bytes, and may have {source.strings_bytes_max}"
        raise RdbError(text, source.offset)


def length(value: int) -> bytes:
    if value < 0x40:
        return bytes((value,))
    if value < 0x4000:
        return (value | 0x4000).to_bytes(2)
    return _32.pack(0x80, value) if value < 1 << 32 else _64.pack(0x81, value)


def string(value: bytes) -> bytes:
    return length(len(value)) + value
