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

    @property
    def cost(self) -> int:
        """Return how many microseconds it takes to unpack all of it, about; see `Chunk.cost`."""
        return 20 * self.chunk_count + self.place.size_bytes // 12


def line_of(chunks: Sequence[Chunk], place: ExtentPlace) -> Line:
    """Return the line of chunks that lie at a place."""
    dead = count = 0
    for chunk in chunks:
        dead |= chunk.tombstones << count
        count += chunk.count
    last, live_count = chunks[-1], count - dead.bit_count()
    ids = chunks[0].first_live_id(), last.last_live_id(), last.last_id
    return Line(*ids, live_count, count, len(chunks), place, dead)


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
