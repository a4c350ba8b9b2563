"""NodeLimits: how entries are laid into chunks, as Redis lays them into nodes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

from headgate.engine.entry import Draft, Entry, size_in_chunk, sizes_of
from headgate.engine.limits import CHUNK_PARTS_MIN
from headgate.engine.state.entries.chunk import Chunk

E = TypeVar("E", Entry, Draft)


class Run(NamedTuple, Generic[E]):
    """Neighbouring entries that go into one chunk, and their size together."""

    entries: Sequence[E]
    size_bytes: int


class NodeLimits(NamedTuple):
    """When a chunk is full (stream-node-max-entries, stream-node-max-bytes); 0 is no limit."""

    entries_max: int
    size_bytes_max: int

    def within(self, entries_max: int, size_bytes_max: int) -> NodeLimits:
        """Return limits that are as these, and not above others."""
        return NodeLimits(
            min(self.entries_max or entries_max, entries_max),
            min(self.size_bytes_max or size_bytes_max, size_bytes_max),
        )

    def runs(self, last: Chunk | None, entries: Sequence[E]) -> list[Run[E]]:
        """Split entries as they will be laid into chunks (Redis: XADD).

        Args:
            last: the newest chunk, None if there is none. The first run goes into it, and is empty
                if it takes nothing more. Each other run makes a chunk of its own.
            entries: to be appended.
        """
        sizes = _sizes_in_chunk(entries)
        held = last if last is not None and last.is_open else None
        if held is not None and self._admit(held, len(entries), sum(sizes)):
            return [Run(entries, sum(sizes))]
        ends = list(accumulate(sizes, initial=0))
        at = 0 if held is None else self._fitting(held.count, held.size_bytes, ends, 0)
        runs = [Run(entries[:at], ends[at])]
        for end in self.chunk_ends(ends, at):
            runs.append(Run(entries[at:end], ends[end] - ends[at]))
            at = end
        return runs

    def chunk_ends(self, ends: Sequence[int], at: int = 0) -> Iterator[int]:
        """Yield the end of each chunk that entries make.

        Args:
            ends: 0, and for each entry the size that it and those before it have in a chunk.
            at: the first entry.
        """
        while at < len(ends) - 1:
            at = max(self._fitting(0, 0, ends, at), at + 1)  # Redis: a new node takes any entry
            yield at

    def is_full(self, chunk: Chunk) -> bool:
        """Tell whether a chunk takes no further entry."""
        return not self._admit(chunk, 1, 0)

    def _admit(self, chunk: Chunk, count: int, size_bytes: int) -> bool:
        """Tell whether a chunk takes so much more, all of it."""
        if 0 < self.entries_max < chunk.count + count:
            return False
        return not 0 < self.size_bytes_max <= chunk.size_bytes + size_bytes

    def _fitting(self, held: int, held_bytes: int, ends: Sequence[int], at: int) -> int:
        """Return the end of the entries from `at` on that fit into a chunk with so much in it."""
        end = len(ends) - 1
        if self.entries_max > 0:
            end = min(end, max(at + self.entries_max - held, at))
        if self.size_bytes_max > 0:
            too_much = ends[at] + self.size_bytes_max - held_bytes
            end = bisect_left(ends, too_much, at + 1, end + 1) - 1
        return end


def _sizes_in_chunk(entries: Sequence[E]) -> list[int]:
    """Return the size of each entry as it counts for its chunk."""
    many = [entry.fields for entry in entries]
    if len(many) == 1 or max(map(len, many), default=0) >= CHUNK_PARTS_MIN:
        return list(map(size_in_chunk, many))
    return sizes_of(many)
