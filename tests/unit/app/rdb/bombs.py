"""Bombs: small payloads that unpack to much, of each kind that there is."""

import struct
from collections.abc import Callable
from typing import NamedTuple

from headgate.app.rdb import listpack
from headgate.app.rdb.source import checksum_of
from headgate.app.rdb.strings import length, string

_RAW_ID = struct.Struct(">QQ")
_NUMBERS = listpack.integer


class Bomb(NamedTuple):
    """A payload, and what it has too much of."""

    name: str
    payload: bytes


def signed(body: bytes, version: int = 10) -> bytes:
    """Return a payload of these bytes."""
    body += version.to_bytes(2, "little")
    return body + checksum_of(body).to_bytes(8, "little")


def _repeated(unit: bytes, times: int) -> tuple[bytes, int]:
    """Return a unit of at most 32 bytes many times as LZF, and how long it is unpacked."""
    packed, left = bytearray((len(unit) - 1, *unit)), len(unit) * (times - 1)
    while left:
        copied = min(264, left) if min(264, left) == left or left - 264 > 8 else left - 264
        copied = max(copied, 9)
        packed += bytes((7 << 5, copied - 9, len(unit) - 1))
        left -= copied
    return bytes(packed), len(unit) * times


def _plain(data: bytes) -> tuple[bytes, int]:
    packed = b"".join(
        bytes((len(data[at : at + 32]) - 1,)) + data[at : at + 32] for at in range(0, len(data), 32)
    )
    return packed, len(data)


def _node(*parts: tuple[bytes, int]) -> bytes:
    """Return a compressed listpack of these elements."""
    size_bytes = 6 + sum(size for _, size in parts) + 1
    parts = _plain(struct.pack("<IH", size_bytes, 65_535)), *parts, _plain(b"\xff")
    packed = b"".join(part for part, _ in parts)
    return b"\xc3" + length(len(packed)) + length(size_bytes) + packed


def _stream(node: bytes, entry_count: int) -> bytes:
    body = b"\x13\x01\x10" + _RAW_ID.pack(0, 1) + node + length(entry_count)
    return signed(body + length(9) + bytes(5) + length(entry_count) + b"\x00")


def _elements(*numbers: int) -> bytes:
    return b"".join(map(_NUMBERS, numbers))


def _bytes() -> bytes:
    return _stream(_node(_repeated(b"\x05\x01" * 16, 2**16)), 1)


def dead_entries(times: int) -> bytes:
    """Return a payload of three times so many entries that were deleted, of five elements each."""
    begin = _elements(0, 3 * times, 1, 1, 0)
    return _stream(_node(_plain(begin), _repeated(_elements(3, 0, 0, 1, 4) * 3, times)), 0)


def _dead_entries() -> bytes:
    return dead_entries(8_000)


def _long_names() -> bytes:
    """Return a node whose entries all have one name of a quarter of a megabyte."""
    name, count = b"n" * 2**18, 100
    entries = b"".join(_elements(2, 0, at, 1, 4) for at in range(count))
    begin = _elements(count, 0, 1) + listpack.string(name) + _elements(0)
    listed = struct.pack("<IH", 6 + len(begin) + len(entries) + 1, 65_535) + begin + entries
    return _stream(string(listed + b"\xff"), count)


def _pending() -> bytes:
    ids = [_RAW_ID.pack(1, at) for at in range(5_000)]
    delivered = b"".join(each + bytes(8) + b"\x01" for each in ids)
    group = string(b"g") + bytes(3) + length(len(ids)) + delivered
    group += length(1) + string(b"c") + bytes(8) + length(len(ids)) + b"".join(ids)
    return signed(b"\x13\x00\x00" + bytes(7) + b"\x01" + group)


def _consumers() -> bytes:
    consumers = b"".join(string(b"%d" % at) + bytes(9) for at in range(5_000))
    return signed(b"\x13\x00\x00" + bytes(7) + b"\x01\x01g" + bytes(4) + length(5_000) + consumers)


def _groups() -> bytes:
    groups = b"".join(string(b"%d" % at) + bytes(5) for at in range(5_000))
    return signed(b"\x13\x00\x00" + bytes(7) + length(5_000) + groups)


def _keys() -> bytes:
    keys = b"".join(string(b"%d" % at) + b"\x01\x01" for at in range(5_000))
    body = b"\x1a\x00\x00" + bytes(8) + b"\x64\x3c\x01\x01p".replace(b"\x64", b"\x40\x64")
    return signed(body + length(5_000) + keys + bytes(2), 13)


_MAKERS: list[Callable[[], bytes]] = [
    *(_bytes, _dead_entries, _long_names, _pending, _consumers, _groups, _keys)
]

BOMBS = [Bomb(make.__name__[1:], make()) for make in _MAKERS]
"""Each takes more than a megabyte, or more than 20,000 elements."""
