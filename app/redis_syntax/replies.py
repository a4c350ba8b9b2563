"""Replies of Redis commands, in RESP2; some know their form in RESP3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self


class Status(str):
    """A simple string reply of a Redis command, such as OK."""

    __slots__ = ()


class Verbatim(bytes):
    """A bulk string of plain text; RESP3 says that it is one."""

    __slots__ = ()


class Pairs(list["Reply"]):
    """A map as RESP2 has it: an array of key, value, key, value. RESP3 has maps."""

    __slots__ = ()

    @classmethod
    def of(cls, values: Mapping[bytes, Reply]) -> Self:
        """Return the map of these keys and values."""
        return cls(part for pair in values.items() for part in pair)


class KeyedArrays(list["Reply"]):
    """An array of pairs, each a key and an array, in RESP2; a map in RESP3."""

    __slots__ = ()


class Members(list["Reply"]):
    """An array in RESP2, a set in RESP3."""

    __slots__ = ()


class NullArray:
    """The null that stands where an array was asked for; RESP2 has two nulls, RESP3 has one."""

    __slots__ = ()


NULL_ARRAY = NullArray()


Reply = None | int | bytes | Status | NullArray | Sequence["Reply"]
"""RESP2: null, integer, bulk string, simple string, null array, array. Some know what they are in
RESP3."""
