"""Line: what memory keeps of an extent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headgate.engine.entry import EntryId
from headgate.engine.state.entries.chunk import Chunk
from headgate.engine.state.memory import ExtentPlace


class Line(NamedTuple):
    """A line of the index: what is known of an extent without reading it."""

    first_id: EntryId  # of the first live entry
    last_id: EntryId  # of the last live entry
    through: EntryId  # of the last entry of the last chunk that has live ones, dead or alive
    live_count: int
    entry_count: int  # in the file, dead ones included
    chunk_count: int  # with live entries
    place: ExtentPlace
    dead: int = 0  # bit i is set when the entry at position i of the extent is dead

    @property
    def size_bytes(self) -> int:
        """Return the bytes in the file for live entries, about."""
        return self.place.size_bytes * self.live_count // self.entry_count

    def marked(self, dead: int, chunks: Sequence[Chunk]) -> Line:
        """Return the line with other entries dead.

        Args:
            dead: their bits.
            chunks: those with live entries; there are some.
        """
        return self._replace(
            first_id=chunks[0].first_live_id(),
            last_id=chunks[-1].last_live_id(),
            through=chunks[-1].last_id,
            live_count=self.entry_count - dead.bit_count(),
            chunk_count=len(chunks),
            dead=dead,
        )

    def joined(self, other: Line) -> Line:
        """Return the line of what is alive in either line of one extent.

        A chunk that both have counts twice.
        """
        return self._replace(
            first_id=min(self.first_id, other.first_id),
            last_id=max(self.last_id, other.last_id),
            through=max(self.through, other.through),
            live_count=self.live_count + other.live_count,
            chunk_count=self.chunk_count + other.chunk_count,
            dead=self.dead & other.dead,
        )

    @property
    def cost(self) -> int:
        """Return how many microseconds it takes to unpack all of it, about; see `Chunk.cost`."""
        return 20 * self.chunk_count + self.place.size_bytes // 12


def line_of(chunks: Sequence[Chunk], place: ExtentPlace) -> Line:
    """Return the line of chunks that lie at a place; some of them have live entries."""
    dead = count = 0
    for chunk in chunks:
        dead |= chunk.tombstones << count
        count += chunk.count
    alive, live_count = [chunk for chunk in chunks if chunk.live_count], count - dead.bit_count()
    ids = alive[0].first_live_id(), alive[-1].last_live_id(), alive[-1].last_id
    return Line(*ids, live_count, count, len(alive), place, dead)


class Covered(NamedTuple):
    """Neighbouring extents and the oldest hot chunks, for which one line is to stand."""

    low: int
    lines: Sequence[Line]  # of the extents from `low` on
    hot: Sequence[Chunk]

    @property
    def entry_count(self) -> int:
        """Return how many entries there are, dead ones included."""
        return sum(line.entry_count for line in self.lines) + sum(c.count for c in self.hot)

    def is_at(self, place: ExtentPlace) -> bool:
        """Tell whether it is the extent at a place, and nothing else."""
        return not self.hot and len(self.lines) == 1 and self.lines[0].place == place

    def line(self, place: ExtentPlace) -> Line:
        """Return a line for the same entries at the same positions, elsewhere."""
        parts = [*self.lines, *([line_of(self.hot, place)] if self.hot else [])]
        dead = entry_count = 0
        for part in parts:
            dead |= part.dead << entry_count
            entry_count += part.entry_count
        return Line(
            parts[0].first_id,
            parts[-1].last_id,
            parts[-1].through,
            entry_count - dead.bit_count(),
            entry_count,
            sum(part.chunk_count for part in parts),
            place,
            dead,
        )
