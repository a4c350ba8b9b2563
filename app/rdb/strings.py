"""Strings and lengths, of which everything in RDB is made.

A *length* has 1, 2, 5 or 9 bytes; its first two bits say which. If both are set, it is no length
but says how a *string* is encoded: as an integer of 1, 2 or 4 bytes, or compressed. A string that
is not encoded is its length and its bytes.
"""

from __future__ import annotations

import struct

from headgate.app.rdb.errors import RdbError
from headgate.app.rdb.lzf import EXPANSION_MAX, decompress
from headgate.app.rdb.source import Source

_INTEGER_BYTES = {0: 1, 1: 2, 2: 4}
_COMPRESSED = 3

_32 = struct.Struct(">BI")
_64 = struct.Struct(">BQ")


def read_length(source: Source) -> int:
    """Return the next length, an unsigned 64-bit number.

    Raises:
        RdbError: there is none.
    """
    length, encoding = _length_or_encoding(source)
    if encoding is not None:
        raise source.error("there is a string where a number should be")
    return length


def read_string(source: Source) -> bytes:
    """Return the next string.

    Raises:
        RdbError: there is none, or it is longer than strings may be.
    """
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
    """Pass over the next string, however long it is.

    Raises:
        RdbError: there is none.
    """
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
    """Return an unsigned 64-bit number as a length."""
    if value < 0x40:
        return bytes((value,))
    if value < 0x4000:
        return (value | 0x4000).to_bytes(2)
    return _32.pack(0x80, value) if value < 1 << 32 else _64.pack(0x81, value)


def string(value: bytes) -> bytes:
    """Return bytes as a string, which is not encoded."""
    return length(len(value)) + value
