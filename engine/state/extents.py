"""Extents: the cold entries of a stream, of which memory keeps an index in columns.

An *extent* is neighbouring sealed chunks as they lie together in a file. One line of the index
covers it: the ids of its first and last live entries, how many there are, and where it lies. A line
takes 96 bytes, whatever it covers. What a line cannot say is read: an extent that is asked for and
not in memory raises `Missing`. Whoever asked reads it, beside the event loop, and asks again.

Deleting sets a bit in the index. The file stays as it is, until a rewrite leaves out what is dead.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from headgate.engine.entry import EntryId
from headgate.engine.limits import MISSING_BYTES_MAX
from headgate.engine.state.chunk import Chunk
from headgate.engine.state.memory import LINE_BYTES, Memory, Place

_AHEAD = 4
"""Extents behind those that are needed that are read as well."""


class Missing(Exception):
    """Extents are needed and not in memory. Nothing was changed."""

    def __init__(self, needed: Sequence[Place], ahead: Sequence[Place] = ()) -> None:
        """Name the extents.

        Args:
            needed: without them there is no answer.
            ahead: will be asked for next, perhaps.
        """
        super().__init__(f"{len(needed)} extents are not in memory")
        self.needed = needed
        self.ahead = ahead


class Damaged(Missing):
    """Chunks of an extent are not what was written. Nothing was changed."""

    def __init__(
        self, stream: bytes, place: Place, why: str, lost: Sequence[tuple[EntryId, EntryId]]
    ) -> None:
        """Describe the damage.

        Args:
            stream: the name of the stream.
            place: of the extent.
            why: what is wrong.
            lost: the first and last ids of the chunks.
        """
        super().__init__(())
        self.stream, self.place, self.why, self.lost = stream, place, why, lost


class Line(NamedTuple):
    """A line of the index: what is known of an extent without reading it."""

    first_id: EntryId  # of the first live entry
    last_id: EntryId  # of the last live entry
    through: EntryId  # of the last entry of the last chunk that has live ones, dead or alive
    live_count: int
    entry_count: int  # in the file, dead ones included
    chunk_count: int  # with live entries
    place: Place
    dead: int = 0  # bit i is set when the entry at position i of the extent is dead

    @property
    def size_bytes(self) -> int:
        """Return what lies in the file for the live entries, about."""
        return self.place.size_bytes * self.live_count // self.entry_count

    @property
    def cost(self) -> int:
        """Return how many microseconds it takes to unpack all of it, about; see `Chunk.cost`."""
        return 20 * self.chunk_count + self.place.size_bytes // 12


def line_of(chunks: Sequence[Chunk], place: Place) -> Line:
    """Return the line of chunks that lie at a place."""
    dead = count = 0
    for chunk in chunks:
        dead |= chunk.tombstones << count
        count += chunk.count
    last, live_count = chunks[-1], count - dead.bit_count()
    ids = chunks[0].first_live_id(), last.last_live_id(), last.last_id
    return Line(*ids, live_count, count, len(chunks), place, dead)


class Covered(NamedTuple):
    """What a line is to stand for: neighbouring extents, and the oldest hot chunks."""

    low: int
    lines: Sequence[Line]  # of the extents from `low` on
    hot: Sequence[Chunk]

    @property
    def entry_count(self) -> int:
        """Return how many entries there are, dead ones included."""
        return sum(line.entry_count for line in self.lines) + sum(c.count for c in self.hot)

    def is_at(self, place: Place) -> bool:
        """Tell whether it is the extent at a place, and nothing else."""
        return not self.hot and len(self.lines) == 1 and self.lines[0].place == place

    def line(self, place: Place) -> Line:
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


class OpenedExtent:
    """The chunks of an extent that was read. They do not change."""

    __slots__ = ("_chunks", "_dead", "_live", "damaged", "place", "starts", "why")

    def __init__(
        self,
        place: Place,
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
        self._live = chunks  # with the tombstones of `_dead`, without those that are all dead

    def chunks(self, dead: int) -> Sequence[Chunk]:
        """Return the chunks with live entries.

        Args:
            dead: bit i is set when the entry at position i of the extent is dead.
        """
        if dead != self._dead:
            self._mark(dead)
        return self._live

    def lost(self, line: Line) -> list[tuple[EntryId, EntryId]]:
        """Return the first and last ids of chunks that are damaged and have live entries."""
        if not self.why:
            return []
        if not self._chunks:  # the table is damaged
            return [(line.first_id, line.through)]
        return [
            (chunk.first_id, chunk.last_id)
            for at, (chunk, start) in enumerate(zip(self._chunks, self.starts, strict=False))
            if at in self.damaged and ~line.dead >> start & (1 << chunk.count) - 1
        ]

    def between(self, first_id: EntryId, last_id: EntryId) -> int:
        """Return the entries of the chunks that lie between two ids: bit i for position i."""
        bits = 0
        for chunk, start in zip(self._chunks, self.starts, strict=False):
            if first_id <= chunk.first_id and chunk.last_id <= last_id:
                bits |= ((1 << chunk.count) - 1) << start
        return bits

    def _mark(self, dead: int) -> None:
        marked = [
            chunk.marked(dead >> start & (1 << chunk.count) - 1)
            for chunk, start in zip(self._chunks, self.starts, strict=False)
        ]
        self._live = [chunk for chunk in marked if chunk.live_count]
        self._dead = dead

    def dead_but(self, alive: Container[EntryId]) -> int:
        """Return which entries are dead if these are alive: bit i for position i."""
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


class Extents:
    """The extents of a log, in order of their ids: those that are older than all hot chunks."""

    __slots__ = (
        "_chunk_counts",
        "_counts",
        "_dead",
        "_files",
        "_first_ms",
        "_first_seq",
        "_head",
        "_last_ms",
        "_last_seq",
        "_lives",
        "_memory",
        "_offsets",
        "_sizes",
        "_through_ms",
        "_through_seq",
        "chunk_count",
        "name",
        "size_bytes",
    )

    def __init__(self, memory: Memory, name: bytes = b"") -> None:
        """Start without extents.

        Args:
            memory: is told what they take, and finds them.
            name: of the stream, to say where something is damaged.
        """
        self._memory, self.name = memory, name
        self._head = 0  # lines before it have gone: removing them one by one moves all others
        self._first_ms, self._first_seq = array("Q"), array("Q")
        self._last_ms, self._last_seq = array("Q"), array("Q")
        self._through_ms, self._through_seq = array("Q"), array("Q")
        self._counts, self._lives, self._chunk_counts = array("Q"), array("Q"), array("Q")
        self._files, self._offsets, self._sizes = array("Q"), array("Q"), array("Q")
        self._dead: dict[Place, int] = {}  # where an entry is dead
        self.chunk_count = 0
        self.size_bytes = 0  # of live entries in files, about

    def __len__(self) -> int:
        """Return how many lines there are."""
        return len(self._lives) - self._head

    def line(self, index: int) -> Line:
        """Return a line."""
        at = self._head + index
        place = Place(self._files[at], self._offsets[at], self._sizes[at])
        return Line(
            EntryId(self._first_ms[at], self._first_seq[at]),
            EntryId(self._last_ms[at], self._last_seq[at]),
            EntryId(self._through_ms[at], self._through_seq[at]),
            self._lives[at],
            self._counts[at],
            self._chunk_counts[at],
            place,
            self._dead.get(place, 0) if self._dead else 0,
        )

    def lines(self) -> Iterator[Line]:
        """Yield the lines in order."""
        return map(self.line, range(len(self)))

    def first_id(self, index: int) -> EntryId:
        """Return the id of the first live entry of an extent."""
        at = self._head + index
        return EntryId(self._first_ms[at], self._first_seq[at])

    def last_id(self, index: int) -> EntryId:
        """Return the id of the last live entry of an extent."""
        at = self._head + index
        return EntryId(self._last_ms[at], self._last_seq[at])

    def below(self, entry_id: EntryId) -> int:
        """Return how many extents begin below or at an id."""
        return bisect_right(range(len(self)), entry_id, key=self.first_id)

    def ending_below(self, entry_id: EntryId) -> int:
        """Return how many extents end below an id."""
        return bisect_left(range(len(self)), entry_id, key=self.last_id)

    def live_in(self, low: int, high: int) -> int:
        """Return how many live entries the extents from `low` to before `high` have."""
        return sum(self._lives[self._head + low : self._head + high])

    def chunks(self, index: int) -> Sequence[Chunk]:
        """Return the chunks of an extent that have live entries. Not to be changed.

        Raises:
            Missing: it is not in memory.
        """
        line = self.line(index)
        return self._opened(index, line).chunks(line.dead)

    def _opened(self, index: int, line: Line) -> OpenedExtent:
        opened = self._find(index)
        if lost := opened.lost(line):
            raise Damaged(self.name, line.place, opened.why, lost)
        return opened

    def is_missing(self, index: int) -> bool:
        """Tell whether an extent is not in memory."""
        return self._memory.extents.find(self.line(index).place) is None

    def require(self, wanted: range) -> None:
        """Check that extents are in memory: the first ones, as many as one may ask for.

        Raises:
            Missing: some are not.
        """
        find, asked = self._memory.extents.find, 0
        missing: list[Place] = []
        index = wanted.start
        for index in wanted:
            place = self.line(index).place
            if find(place) is None:
                missing.append(place)
            asked += place.size_bytes
            if asked > MISSING_BYTES_MAX:
                break
        if missing:
            step = wanted.step
            behind = range(index + step, index + step * (1 + _AHEAD), step)
            ahead = [self.line(each).place for each in behind if 0 <= each < len(self)]
            raise Missing(missing, [place for place in ahead if find(place) is None])

    def append(self, line: Line) -> None:
        """Add an extent behind all others."""
        self._memory.files[line.place.file] += 1
        for column, value in zip(self._columns(), _values_of(line), strict=True):
            column.append(value)
        if line.dead:
            self._dead[line.place] = line.dead
        self._count(line, 1)

    def replace(self, low: int, high: int, line: Line) -> None:
        """Put an extent in the place of neighbours that have the same live entries."""
        self.drop(low, high)
        at = self._head + low
        self._memory.files[line.place.file] += 1
        for column, value in zip(self._columns(), _values_of(line), strict=True):
            column.insert(at, value)
        if line.dead:
            self._dead[line.place] = line.dead
        self._count(line, 1)

    def drop(self, low: int, high: int) -> None:
        """Remove the extents from `low` to before `high`."""
        for index in range(low, high):
            line = self.line(index)
            self._count(line, -1)
            self._leave_file(line.place.file)
            self._dead.pop(line.place, None)
        if low == 0 and high < len(self):
            self._head += high
            if self._head * 2 < len(self._lives):
                return
            low, high = -self._head, 0
            self._head = 0
            for column in self._columns():
                del column[:-low]
            return
        for column in self._columns():
            del column[self._head + low : self._head + high]

    def _leave_file(self, file: int) -> None:
        files = self._memory.files
        files[file] -= 1
        if not files[file]:
            del files[file]

    def leave(self) -> None:
        """Take account of all of them going."""
        self._memory.cold_bytes -= self.size_bytes
        self._memory.index_bytes -= LINE_BYTES * len(self)

    def release(self) -> None:
        """Let go of the files."""
        files = self._memory.files
        files.subtract(Counter(self._files[self._head :]))
        for file in [file for file, count in files.items() if count <= 0]:
            del files[file]

    def kill(self, index: int, entry_id: EntryId) -> bool:
        """Mark an entry of an extent as dead; tells whether it was alive.

        Raises:
            Missing: the extent is not in memory.
        """
        line = self.line(index)
        position = self._opened(index, line).position(entry_id)
        if position is None or line.dead >> position & 1:
            return False
        self._mark(index, line, line.dead | 1 << position)
        return True

    def kill_through(self, through: EntryId) -> int:
        """Remove all entries up to an id; returns how many were alive.

        Raises:
            Missing: the extent in which the id lies is not in memory.
        """
        whole = bisect_right(range(len(self)), through, key=self.last_id)
        is_cut = whole < len(self) and self.first_id(whole) <= through
        reached = self._opened(whole, self.line(whole)).reached(through) if is_cut else 0
        killed = self.live_in(0, whole)
        self.drop(0, whole)
        if is_cut:
            line = self.line(0)
            dead = line.dead | (1 << reached) - 1
            killed += dead.bit_count() - line.dead.bit_count()
            self._mark(0, line, dead)
        return killed

    def require_lost(self, first_id: EntryId, last_id: EntryId) -> None:
        """Check that `lose` can be called; `Missing` if not."""
        for index in self._cut_by(first_id, last_id):
            self._find(index)

    def lose(self, first_id: EntryId, last_id: EntryId) -> int:
        """Remove what is damaged and lies between two ids; returns how many were alive.

        Raises:
            Missing: an extent of which only some lies between them is not in memory.
        """
        lost_count = 0
        for index in reversed(self._cut_by(first_id, last_id)):
            line, opened = self.line(index), self._find(index)
            dead = line.dead | opened.between(first_id, last_id)
            lost_count += dead.bit_count() - line.dead.bit_count()
            self._mark(index, line, dead)
        low, high = self.ending_below(first_id), self.below(last_id)
        if low < high and self.first_id(low) < first_id:
            low += 1
        if low < high and self.line(high - 1).through > last_id:
            high -= 1
        if low < high:
            lost_count += self.live_in(low, high)
            self.drop(low, high)
        return lost_count

    def _cut_by(self, first_id: EntryId, last_id: EntryId) -> list[int]:
        """Return the extents of which only some lies between two ids."""
        places = range(self.ending_below(first_id), self.below(last_id))
        return [
            at
            for at in dict.fromkeys((*places[:1], *places[-1:]))
            if self.first_id(at) < first_id or self.line(at).through > last_id
        ]

    def _find(self, index: int) -> OpenedExtent:
        """Return an extent, damaged or not."""
        opened = self._memory.extents.find(self.line(index).place)
        if opened is None:
            self.require(range(index, index + 1))
        assert isinstance(opened, OpenedExtent)
        return opened

    def _mark(self, index: int, line: Line, dead: int) -> None:
        """Set which entries of an extent are dead; it is in memory."""
        chunks = self._find(index).chunks(dead)
        if not chunks:
            self.drop(index, index + 1)
            return
        marked = line._replace(
            first_id=chunks[0].first_live_id(),
            last_id=chunks[-1].last_live_id(),
            through=chunks[-1].last_id,
            live_count=line.entry_count - dead.bit_count(),
            chunk_count=len(chunks),
            dead=dead,
        )
        self._count(line, -1)
        self._count(marked, 1)
        at = self._head + index
        for column, value in zip(self._columns(), _values_of(marked), strict=True):
            column[at] = value
        self._dead[line.place] = dead

    def _count(self, line: Line, sign: int) -> None:
        self.chunk_count += sign * line.chunk_count
        self.size_bytes += sign * line.size_bytes
        self._memory.cold_bytes += sign * line.size_bytes
        self._memory.index_bytes += sign * LINE_BYTES

    def part(self, low: int, high: int) -> Extents:
        """Return the extents from `low` to before `high`, as a value that counts for nobody.

        Its files stay until `release`.
        """
        memory = Memory(extents=self._memory.extents, files=self._memory.files)
        part = Extents(memory, self.name)
        at, end = self._head + low, self._head + high
        for column, own in zip(part._columns(), self._columns(), strict=True):
            column.extend(own[at:end])
        part._dead = dict(self._dead)
        self._memory.files.update(Counter(part._files))
        return part

    def lying_behind(self, file: int) -> list[int]:
        """Return the places of the lines whose extents lie in files behind one."""
        return [at for at, number in enumerate(self._files[self._head :]) if number > file]

    def count_by_file(self, counter: Counter[int]) -> None:
        """Add what lies in each file for live entries, about, in bytes."""
        columns = self._files, self._sizes, self._lives, self._counts
        ends = zip(*(column[self._head :] for column in columns), strict=True)
        for file, size_bytes, live_count, entry_count in ends:
            counter[file] += size_bytes * live_count // entry_count

    def extend(self, lines: Iterable[Line]) -> None:
        """Add extents behind all others."""
        for line in lines:
            self.append(line)

    def dump(self, low: int, high: int) -> tuple[list[bytes], list[tuple[int, bytes]]]:
        """Return lines as bytes, column by column, and which entries of which line are dead."""
        columns = [column[self._head + low : self._head + high] for column in self._columns()]
        dead = [
            (index - low, line.dead.to_bytes((line.entry_count + 7) // 8, "little"))
            for index in (range(low, high) if self._dead else ())
            if (line := self.line(index)).dead
        ]
        return [column.tobytes() for column in columns], dead

    def load(self, columns: Sequence[bytes], dead: Sequence[tuple[int, bytes]]) -> None:
        """Add dumped lines behind all others.

        Raises:
            ValueError: they are not of equal length.
        """
        begin = len(self)
        for column, data in zip(self._columns(), columns, strict=True):
            column.frombytes(data)
        if len({len(column) for column in self._columns()}) != 1:
            raise ValueError("columns of extents are not of equal length")
        for index, bits in dead:
            self._dead[self.line(begin + index).place] = int.from_bytes(bits, "little")
        self._memory.files.update(Counter(self._files[self._head + begin :]))
        at = self._head + begin
        self.chunk_count += sum(self._chunk_counts[at:])
        grown = sum(
            size * live // count
            for size, live, count in zip(
                self._sizes[at:], self._lives[at:], self._counts[at:], strict=True
            )
        )
        self.size_bytes += grown
        self._memory.cold_bytes += grown
        self._memory.index_bytes += LINE_BYTES * (len(self) - begin)

    def _columns(self) -> tuple[array[int], ...]:
        return (
            self._first_ms,
            self._first_seq,
            self._last_ms,
            self._last_seq,
            self._through_ms,
            self._through_seq,
            self._lives,
            self._counts,
            self._chunk_counts,
            self._files,
            self._offsets,
            self._sizes,
        )


def _values_of(line: Line) -> tuple[int, ...]:
    return (
        *line.first_id,
        *line.last_id,
        *line.through,
        line.live_count,
        line.entry_count,
        line.chunk_count,
        *line.place,
    )
