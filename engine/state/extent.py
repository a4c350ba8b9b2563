"""Extents as the state knows them: the line of one, an opened one, and one that is missing."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple

from headgate.engine.entry import EntryId
from headgate.engine.limits import MISSING_BYTES_MAX
from headgate.engine.state.chunk import Chunk
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
        return self.place.size_bytes * self.live_count // self.entry_count

    def marked(self, dead: int, chunks: Sequence[Chunk]) -> Line:
        """Return the line with other entries dead (bits); `chunks` are those with live ones."""
        return self._replace(
            first_id=chunks[0].first_live_id(),
            last_id=chunks[-1].last_live_id(),
            through=chunks[-1].last_id,
            live_count=self.entry_count - dead.bit_count(),
            chunk_count=len(chunks),
            dead=dead,
        )

    def joined(self, other: Line) -> Line:
        """Return the line of what is alive in either; a chunk that both have counts twice."""
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
    dead = count = 0
    for chunk in chunks:
        dead |= chunk.tombstones << count
        count += chunk.count
    alive, live_count = [chunk for chunk in chunks if chunk.live_count], count - dead.bit_count()
    ids = alive[0].first_live_id(), alive[-1].last_live_id(), alive[-1].last_id
    return Line(*ids, live_count, count, len(alive), place, dead)


class Covered(NamedTuple):
    low: int
    lines: Sequence[Line]  # of the extents from `low` on
    hot: Sequence[Chunk]

    @property
    def entry_count(self) -> int:
        """Return how many entries there are, dead ones included."""
        return sum(line.entry_count for line in self.lines) + sum(c.count for c in self.hot)

    def is_at(self, place: ExtentPlace) -> bool:
        return not self.hot and len(self.lines) == 1 and self.lines[0].place == place

    def line(self, place: ExtentPlace) -> Line:
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


class Missing(Exception):
    """Extents are needed and not in memory. Nothing was changed."""

    def __init__(self, needed: Sequence[ExtentPlace], ahead: Sequence[ExtentPlace] = ()) -> None:
        super().__init__(f"{len(needed)} extents are not in memory")
        self.needed = needed
        self.ahead = ahead


def require_each(checks: Iterable[Callable[[], object]]) -> None:
    """Make all checks, then raise one Missing: one by one, each would cost a decision."""
    missing: dict[ExtentPlace, None] = {}  # several checks may need the same
    size_bytes = 0
    for check in checks:
        try:
            check()
        except Damaged:
            raise
        except Missing as error:
            missing |= dict.fromkeys(error.needed)
            size_bytes += sum(place.size_bytes for place in error.needed)
            if size_bytes > MISSING_BYTES_MAX:
                break
    if missing:
        raise Missing(list(missing))


class LostChunk(NamedTuple):
    """A chunk that is damaged; or all of an extent, if nothing of it can be read."""

    first_id: EntryId
    last_id: EntryId
    offset: int  # in the file
    live_count: int


class Damaged(Missing):
    """Chunks of an extent are not what was written. Nothing was changed."""

    def __init__(
        self, stream: bytes, place: ExtentPlace, why: str, lost: Sequence[LostChunk]
    ) -> None:
        super().__init__(())
        self.args = (f"{stream!r}, file {place.file}, byte {place.offset}: {why}",)
        self.stream, self.place, self.why, self.lost = stream, place, why, lost


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
        """Take chunks as they lie in the file, without tombstones; none: nothing can be read."""
        self.place, self.damaged, self.why = place, damaged, why
        self.starts = [0]  # positions of the chunks' first entries, and the number of all
        for chunk in chunks:
            self.starts.append(self.starts[-1] + chunk.count)
        self._chunks = chunks
        self._dead = 0
        self._marked: list[Chunk] = []  # with the tombstones of `_dead`
        self._live = chunks  # those of them that have live entries

    def chunks(self, dead: int) -> Sequence[Chunk]:
        """Return chunks with live entries; bit i of `dead` is set if the entry at i is dead."""
        if dead != self._dead:
            self._mark(dead)
        return self._live

    @property
    def is_unreadable(self) -> bool:
        return bool(self.why) and not self._chunks

    def lost(self, line: Line) -> list[LostChunk]:
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
        for chunk, start in zip(self._chunks, self.starts, strict=False):
            if chunk.first_id <= entry_id <= chunk.last_id:
                at = chunk.position(entry_id)
                return None if at is None else start + at
        return None

    def reached(self, through: EntryId) -> int:
        for chunk, start in zip(self._chunks, self.starts, strict=False):
            if chunk.last_id > through:
                return start + (
                    chunk.marked(0).kill_through(through) if chunk.first_id <= through else 0
                )
        return self.starts[-1]
