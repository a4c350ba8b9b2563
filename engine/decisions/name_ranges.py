"""Ranges of names: which of all streams a filter shows, without a look at each of them.

The names of all streams are sorted. A prefix shows neighbours, and a name shows itself. So each of
them is a range of names, from the first name to before the name where the range ends. Two ranges
are apart, or one holds the other. A filter with many of them is used in parts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from headgate.engine.limits import NAME_RANGES_AT_ONCE_MAX
from headgate.engine.requests.keyspace import RESERVED, NameFilter
from headgate.engine.state.keyspace import Keyspace

_BYTE_MAX = b"\xff"


class NameRange(NamedTuple):
    """The names from `start` to before `end`, in byte order; an `end` of None: all from `start`."""

    start: bytes
    end: bytes | None

    def among(self, keyspace: Keyspace) -> Iterator[bytes]:
        return keyspace.streams.irange(self.start, self.end, inclusive=(True, False))

    def places(self, keyspace: Keyspace) -> range:
        streams = keyspace.streams
        end = len(streams) if self.end is None else streams.bisect_left(self.end)
        return range(streams.bisect_left(self.start), end)

    def within(self, other: NameRange) -> NameRange | None:
        start = max(self.start, other.start)
        ends = [end for end in (self.end, other.end) if end is not None]
        end = min(ends, default=None)
        return None if end is not None and end <= start else NameRange(start, end)


def beginning_with(prefix: bytes) -> NameRange:
    stem = prefix.rstrip(_BYTE_MAX)  # nothing follows b"\xff", so the byte before it is counted up
    return NameRange(prefix, stem[:-1] + bytes((stem[-1] + 1,)) if stem else None)


_BEHIND_RESERVED = beginning_with(RESERVED).end or b""


def _shown_by_prefix(prefix: bytes) -> Iterator[NameRange]:
    """Yield the ranges of the names that a prefix shows: those beside the reserved names."""
    names = beginning_with(prefix)
    if not _is_split(prefix):
        yield names
    else:
        yield NameRange(names.start, RESERVED)
        yield NameRange(_BEHIND_RESERVED, names.end)


def _is_split(prefix: bytes) -> bool:
    return RESERVED.startswith(prefix) and prefix != RESERVED


def following(name: bytes) -> bytes:
    """Return the first name behind this one in byte order."""
    return name + b"\0"


def shown_by(only: NameFilter | None) -> list[NameRange]:
    """Return the ranges that a filter shows, in byte order and apart from each other."""
    if only is None:
        return [beginning_with(b"")]
    ranges = [names for prefix in only.prefixes for names in _shown_by_prefix(prefix)]
    ranges += [NameRange(name, following(name)) for name in only.names]
    ranges.sort(key=lambda names: names.start)  # a prefix stays before the name that equals it
    apart: list[NameRange] = []
    for names in ranges:
        if not apart or not _holds(apart[-1], names):
            apart.append(names)
    return apart


def shows(ranges: Sequence[NameRange], name: bytes) -> bool:
    at = bisect_right(ranges, name, key=attrgetter("start")) - 1
    if at < 0:
        return False
    end = ranges[at].end
    return end is None or name < end


def _holds(outer: NameRange, later: NameRange) -> bool:
    return outer.end is None or later.start < outer.end


def parts_of(only: NameFilter | None) -> list[NameFilter | None]:
    """Return filters that together show the same, in byte order, each of a size for one turn."""
    if only is None or len(only.names) + len(only.prefixes) <= NAME_RANGES_AT_ONCE_MAX:
        return [only]
    prefixes = frozenset(only.prefixes)
    starts = [names.start for names in shown_by(only)]
    if any(map(_is_split, prefixes)):
        starts.remove(_BEHIND_RESERVED)  # it comes with the prefix
    return [
        _part(prefixes, starts[at : at + NAME_RANGES_AT_ONCE_MAX])
        for at in range(0, len(starts), NAME_RANGES_AT_ONCE_MAX)
    ]


def _part(prefixes: frozenset[bytes], starts: list[bytes]) -> NameFilter:
    return NameFilter(
        frozenset(start for start in starts if start not in prefixes),
        tuple(start for start in starts if start in prefixes),
    )
