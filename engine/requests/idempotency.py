"""Idempotency: keys that make an append repeatable, and digests that tell requests apart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from headgate.engine.entry import Fields

_HASH_BYTES = 16
_HASH_MASK = (1 << 8 * _HASH_BYTES) - 1
_PORTION_BYTES = 2**20  # takes a millisecond


_OWNER_DIGITS_MAX = 4
"""Digits of the length of an owner's name."""


def owned(producer: bytes, owner: bytes) -> bytes:
    """Return the name of a producer that belongs to an owner, and to no other."""
    return b"%d:%b/%b" % (len(owner), owner, producer)  # the name of a producer may have a slash


def owner_prefix(producer: bytes) -> bytes:
    """Return the common prefix of the producers of its owner; empty: it has no owner."""
    length, _, _ = producer[: _OWNER_DIGITS_MAX + 1].partition(b":")
    if not length.isdigit() or len(length) > _OWNER_DIGITS_MAX:
        return b""
    end = len(length) + 1 + int(length) + 1
    return producer[:end] if producer[end - 1 : end] == b"/" else b""


class Idempotent(NamedTuple):
    producer: bytes
    key: bytes
    digest: bytes = b""  # a repeat must have the same; empty: not checked


def hash_fields(fields: Fields) -> bytes:
    """Return a key made from the fields of an entry in any order (IDMPAUTO)."""
    total, mixed = 0, 0
    for name, value in zip(fields[0::2], fields[1::2], strict=True):
        pair = len(name).to_bytes(8) + name + value
        digest = int.from_bytes(hashlib.blake2b(pair, digest_size=_HASH_BYTES).digest())
        total = (total + digest) & _HASH_MASK
        mixed ^= digest
    return hashlib.blake2b(
        total.to_bytes(_HASH_BYTES) + mixed.to_bytes(_HASH_BYTES), digest_size=_HASH_BYTES
    ).digest()


class Digest:
    __slots__ = ("_hash",)

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=_HASH_BYTES)

    def add(self, fields: Fields) -> None:
        self._hash.update(self.header(len(fields)))
        for part in fields:
            self._hash.update(self.header(len(part)) + part)

    def adding(self, fields: Fields) -> Iterator[None]:
        """Add the fields of the next entry, and pause behind each portion of long ones."""
        self._hash.update(self.header(len(fields)))
        for part in fields:
            self._hash.update(self.header(len(part)))
            view = memoryview(part)
            for begin in range(0, len(part), _PORTION_BYTES):
                self._hash.update(view[begin : begin + _PORTION_BYTES])
                yield

    def add_framed(self, entries: bytes) -> None:
        """Add entries: each a header with how many parts it has, and these behind headers."""
        self._hash.update(entries)

    @staticmethod
    def header(count: int) -> bytes:
        """Return the header of an entry, or of the bytes of a name or a value."""
        return count.to_bytes(8)

    def value(self) -> bytes:
        return self._hash.digest()
