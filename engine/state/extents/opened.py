"""OpenedExtent: an extent that is in memory."""

from __future__ import annotations

from collections.abc import Container, Sequence

from headgate.engine.entry import EntryId
from headgate.engine.state.entries.chunk import Chunk
from headgate.engine.state.extents.line import Line
from headgate.engine.state.extents.missing import LostChunk
from headgate.engine.state.memory import ExtentPlace


class OpenedExtent:
    """The chunks of an extent that was read. They do not change."""

    __slots__ = ("_chunks", "_dead", "_live", "_marked", "damaged", "place", "starts", "why")

    def __init__(
        self,
        place: ExtentPlace,
        chunks: Sequence[Chunk],
        damaged: frozenset[int] = frozenset(),
        why: str = "",
    ) -> None:
        """Take the chunks as they lie in the file, without tombstones.

        Args:
            place: of the extent.
            chunks: by place; none, if nothing of them can be read.
            damaged: the places of the chunks that are not what was written.
            why: what is wrong with them.
        """
        self.place, self.damaged, self.why = place, damaged, why
        self.starts = [0]  # positions of the chunks' first entries, and the number of all
        for chunk in chunks:
            self.starts.append(self.starts[-1] + chunk.count)
        self._chunks = chunks
        self._dead = 0
        self._marked: list[Chunk] = []  # with the tombstones of `_dead`
        self._live = chunks  # those of them that have live entries

    def chunks(self, dead: int) -> Sequence[Chunk]:
        """Return the chunks with live entries.

        Args:
            dead: bit i is set when the entry at position i of the extent is dead.
        """
        if dead != self._dead:
            self._mark(dead)
        return self._live

    @property
    def is_unreadable(self) -> bool:
        """Tell whether nothing of it can be read."""
        return bool(self.why) and not self._chunks

    def lost(self, line: Line) -> list[LostChunk]:
        """Return the chunks that are damaged and have live entries."""
        if not self.why:
            return []
        if self.is_unreadable:
            whole = LostChunk(line.first_id, line.through, self.place.offset, line.live_count)
            return [whole]
        lost: list[LostChunk] = []
        offset = self.place.offset + self.place.size_bytes
        offset -= sum(chunk.packed_bytes for chunk in self._chunks)
        for at, (chunk, start) in enumerate(zip(self._chunks, self.starts, strict=False)):
            alive = ~line.dead >> start & (1 << chunk.count) - 1
            if at in self.damaged and alive:
                lost.append(LostChunk(chunk.first_id, chunk.last_id, offset, alive.bit_count()))
            offset += chunk.packed_bytes
        return lost

    def between(self, first_id: EntryId, last_id: EntryId) -> int:
        """Return the entries of the chunks that lie between two ids: bit i for position i."""
        bits = 0
        for chunk, start in zip(self._chunks, self.starts, strict=False):
            if first_id <= chunk.first_id and chunk.last_id <= last_id:
                bits |= ((1 << chunk.count) - 1) << start
        return bits

    def _mark(self, dead: int) -> None:
        changed = dead ^ self._dead
        if not self._dead:
            self._marked = list(self._chunks)
        for at, (chunk, start) in enumerate(zip(self._chunks, self.starts, strict=False)):
            all_of_it = (1 << chunk.count) - 1
            if changed >> start & all_of_it:
                self._marked[at] = chunk.marked(dead >> start & all_of_it)
        self._live = [chunk for chunk in self._marked if chunk.live_count]
        self._dead = dead

    def dead_but(self, alive: Container[EntryId]) -> int:
        """Return the dead entries if these are alive: bit i for position i."""
        dead = 0
        for chunk, start in zip(self._chunks, self.starts, strict=False):
            for at, entry in enumerate(chunk.entries(), start):
                # Ids above the last one may have come again, in a later chunk.
                if entry.id not in alive or entry.id > chunk.last_id:
                    dead |= 1 << at
        return dead

    def position(self, entry_id: EntryId) -> int | None:
        """Return the position of an entry in the extent, dead or alive; None if it has none."""
        for chunk, start in zip(self._chunks, self.starts, strict=False):
            if chunk.first_id <= entry_id <= chunk.last_id:
                at = chunk.position(entry_id)
                return None if at is None else start + at
        return None

    def reached(self, through: EntryId) -> int:
        """Return how many entries have an id up to this one, dead or alive."""
        for chunk, start in zip(self._chunks, self.starts, strict=False):
            if chunk.last_id > through:
                return start + (
                    chunk.marked(0).kill_through(through) if chunk.first_id <= through else 0
                )
        return self.starts[-1]
