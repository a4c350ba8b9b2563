"""Extents: the cold entries of a stream, of which memory keeps an index in columns.

An *extent* is neighbouring sealed chunks as they lie together in a file. One line of the index
covers it: the ids of its first and last live entries, how many there are, and where it lies. What a
line cannot say is read: an extent that is asked for and not in memory raises `Missing`. Whoever
asked reads it, beside the event loop, and asks again.

Deleting sets a bit in the index. The file stays as it is, until a rewrite leaves out what is dead.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import floordiv, mul
from typing import Final

from headgate.engine.entry import EntryId
from headgate.engine.limits import MISSING_BYTES_MAX
from headgate.engine.state.chunk import Chunk
from headgate.engine.state.extent import Damaged, Line, Missing, OpenedExtent
from headgate.engine.state.memory import LINE_BYTES, ExtentPlace, Memory

_AHEAD = 4
"""Extents that are read as well, behind those that are needed."""


class _Columns:
    """Lines, column by column: a line is twelve numbers of 64 bits."""

    __slots__ = (
        "all",
        "chunk_counts",
        "counts",
        "files",
        "held_bytes",
        "lives",
        "offsets",
        "reader_count",
        "sizes",
    )

    def __init__(self, columns: Sequence[array[int]] | None = None) -> None:
        """Begin with columns in the order of `_values_of`; empty ones by default."""
        self.all = tuple(columns or (array("Q") for _ in range(COLUMN_COUNT)))
        self.lives, self.counts, self.chunk_counts = self.all[6:9]
        self.files, self.offsets, self.sizes = self.all[9:]
        self.reader_count = 0  # parts with these columns: they may grow, but not change
        self.held_bytes = 0  # what only parts hold

    def part(self, low: int, high: int) -> _Columns:
        return _Columns([column[low:high] for column in self.all])

    def id(self, column: int, at: int) -> EntryId:
        return EntryId(self.all[column][at], self.all[column + 1][at])


COLUMN_COUNT: Final = 12
"""Columns of the index."""

_FIRST, _LAST, _THROUGH = 0, 2, 4
"""Columns of ids."""

_NO_COLUMNS = _Columns()
_NO_BITS: dict[ExtentPlace, int] = {}
"""Of every stream without extents: of a million streams most have none."""


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


class Extents:
    """The extents of a log, in order of their ids: those that are older than all hot chunks."""

    __slots__ = (
        "_columns",
        "_count",
        "_dead",
        "_head",
        "_memory",
        "_origin",
        "chunk_count",
        "name",
        "size_bytes",
    )

    def __init__(self, memory: Memory, name: bytes = b"") -> None:
        """Start without extents; `name` is that of the stream, to say where damage is."""
        self._memory, self.name = memory, name
        self._columns = _NO_COLUMNS
        self._head = 0  # lines before it have gone: removing them one by one moves all others
        self._count = 0
        self._dead = _NO_BITS  # where an entry is dead
        self._origin: _Columns | None = None  # of a part: the columns that it was given
        self.chunk_count = 0
        self.size_bytes = 0  # of live entries in files, about

    def __len__(self) -> int:
        return self._count

    # Lines

    def line(self, index: int) -> Line:
        at, columns, place = self._head + index, self._columns, self.place(index)
        return Line(
            columns.id(_FIRST, at),
            columns.id(_LAST, at),
            columns.id(_THROUGH, at),
            columns.lives[at],
            columns.counts[at],
            columns.chunk_counts[at],
            place,
            self._dead.get(place, 0) if self._dead else 0,
        )

    def lines(self) -> Iterator[Line]:
        return map(self.line, range(self._count))

    def place(self, index: int) -> ExtentPlace:
        at, columns = self._head + index, self._columns
        return ExtentPlace(columns.files[at], columns.offsets[at], columns.sizes[at])

    def places(self) -> Iterator[ExtentPlace]:
        return map(self.place, range(self._count))

    def index_of(self, place: ExtentPlace) -> int:
        return next(at for at, known in enumerate(self.places()) if known == place)

    def alive(self, index: int) -> tuple[int, int]:
        at, columns = self._head + index, self._columns
        live_count = columns.lives[at]
        return live_count, columns.sizes[at] * live_count // columns.counts[at]

    def first_id(self, index: int) -> EntryId:
        return self._columns.id(_FIRST, self._head + index)

    def last_id(self, index: int) -> EntryId:
        return self._columns.id(_LAST, self._head + index)

    def through(self, index: int) -> EntryId:
        return self._columns.id(_THROUGH, self._head + index)

    def end_below(self, entry_id: EntryId) -> bool:
        return not self._count or self.last_id(self._count - 1) < entry_id

    def below(self, entry_id: EntryId) -> int:
        """Return how many extents begin below or at an id."""
        return bisect_right(range(self._count), entry_id, key=self.first_id)

    def ending_below(self, entry_id: EntryId) -> int:
        return bisect_left(range(self._count), entry_id, key=self.last_id)

    def lying_below(self, entry_id: EntryId) -> int:
        return bisect_left(range(self._count), entry_id, key=self.through)

    def live_in(self, low: int, high: int) -> int:
        return sum(self._columns.lives[self._head + low : self._head + high])

    def holding(self, count: int, extents_max: int) -> tuple[int, int]:
        """Return how many first extents hold at most `count` entries, and how many entries."""
        whole, held = 0, 0
        lives, head = self._columns.lives, self._head
        while whole < min(self._count, extents_max) and held + lives[head + whole] <= count:
            held += lives[head + whole]
            whole += 1
        return whole, held

    def files_before(
        self, high: int, size_bytes: int, extents_max: int
    ) -> tuple[set[int], int, int]:
        """Return the files of so many bytes before `high`, the first extent there, and the rest."""
        low, columns = high, self._columns
        while size_bytes > 0 and low > max(high - extents_max, 0):
            low -= 1
            size_bytes -= columns.sizes[self._head + low]
        return set(columns.files[self._head + low : self._head + high]), low, size_bytes

    def lying_behind(self, file: int) -> list[int]:
        files = self._columns.files[self._head : self._head + self._count]
        return [at for at, number in enumerate(files) if number > file]

    def count_by_file(self, counter: Counter[int]) -> None:
        for file, size_bytes in zip(self._files(), self._live_bytes(0, self._count), strict=True):
            counter[file] += size_bytes

    def _files(self) -> array[int]:
        return self._columns.files[self._head : self._head + self._count]

    def _live_bytes(self, low: int, high: int) -> Iterator[int]:
        columns, at, end = self._columns, self._head + low, self._head + high
        alive = map(mul, columns.sizes[at:end], columns.lives[at:end])
        return map(floordiv, alive, columns.counts[at:end])

    # Entries

    def chunks(self, index: int) -> Sequence[Chunk]:
        """Return the chunks with live entries, not to be changed; raises Missing or Damaged."""
        line = self.line(index)
        return self._sound(index, line).chunks(line.dead)

    def _sound(self, index: int, line: Line) -> OpenedExtent:
        opened = self._opened(index)
        if lost := opened.lost(line):
            raise Damaged(self.name, line.place, opened.why, lost)
        return opened

    def _opened(self, index: int) -> OpenedExtent:
        opened = self._memory.extents.find(self.place(index))
        if opened is None:
            self.require(range(index, index + 1))
        assert isinstance(opened, OpenedExtent)
        return opened

    def is_missing(self, index: int) -> bool:
        return self._memory.extents.find(self.place(index)) is None

    def require(self, wanted: Iterable[int], behind: Sequence[int] = ()) -> None:
        """Raise Missing for the first `wanted` not in memory; `behind` may be needed next."""
        find, asked_bytes = self._memory.extents.find, 0
        missing: list[ExtentPlace] = []
        for place in map(self.place, wanted):
            if find(place) is None:
                missing.append(place)
                asked_bytes += place.size_bytes
                if asked_bytes > MISSING_BYTES_MAX:
                    break
        if missing:
            ahead = map(self.place, behind[:_AHEAD])
            raise Missing(missing, [place for place in ahead if find(place) is None])

    # Changes

    def append(self, line: Line) -> None:
        self._insert(self._count, line)

    def extend(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self.append(line)

    def replace(self, low: int, high: int, line: Line) -> None:
        self.drop(low, high)
        self._insert(low, line)

    def _insert(self, index: int, line: Line) -> None:
        if self._columns is _NO_COLUMNS:
            self._columns = _Columns()
        elif index < self._count or len(self._columns.lives) > self._head + self._count:
            self._unshare()
        self._memory.files[line.place.file] += 1
        for column, value in zip(self._columns.all, _values_of(line), strict=True):
            column.insert(self._head + index, value)
        self._count += 1
        self._set_dead(line)
        self._note(line, 1)
        self._memory.index_bytes += LINE_BYTES

    def _set_dead(self, line: Line) -> None:
        if line.dead:
            self._own_dead()[line.place] = line.dead
        elif self._dead:
            self._dead.pop(line.place, None)

    def _own_dead(self) -> dict[ExtentPlace, int]:
        if self._dead is _NO_BITS:
            self._dead = {}
        return self._dead

    def drop(self, low: int, high: int) -> None:
        if low == high:
            return
        at, end = self._head + low, self._head + high
        dropped_bytes = sum(self._live_bytes(low, high))
        self.size_bytes -= dropped_bytes
        self._memory.cold_bytes -= dropped_bytes
        self._memory.index_bytes -= LINE_BYTES * (high - low)
        self.chunk_count -= sum(self._columns.chunk_counts[at:end])
        self._leave(self._columns.files[at:end])
        for index in range(low, high) if self._dead else ():
            self._dead.pop(self.place(index), None)
        if low:
            self._unshare()
            for column in self._columns.all:
                del column[self._head + low : self._head + high]
        else:
            self._head += high
        self._count -= high - low
        if self._head > self._count:
            self._let_go_of_head()

    def _let_go_of_head(self) -> None:
        self._unshare()
        for column in self._columns.all:
            del column[: self._head]
        self._head = 0

    def _leave(self, numbers: array[int]) -> None:
        files = self._memory.files
        for file, count in Counter(numbers).items():
            files[file] -= count
            if files[file] <= 0:
                del files[file]

    def leave(self) -> None:
        self._memory.cold_bytes -= self.size_bytes
        self._memory.index_bytes -= LINE_BYTES * self._count

    def release(self) -> None:
        self._leave(self._files())

    def kill(self, index: int, entry_id: EntryId, archive: Extents | None = None) -> bool:
        """Mark an entry as dead, or give it to `archive`; tells whether it was alive. Missing."""
        line = self.line(index)
        position = self._sound(index, line).position(entry_id)
        if position is None or line.dead >> position & 1:
            return False
        self._mark(index, line, line.dead | 1 << position)
        if archive is not None:
            archive.share(line, 1 << position)
        return True

    def kill_through(self, through: EntryId, archive: Extents | None = None) -> int:
        """Remove entries up to an id, or give them to `archive`; returns how many. Missing."""
        whole = bisect_right(range(self._count), through, key=self.last_id)
        is_cut = whole < self._count and self.first_id(whole) <= through
        reached = self._sound(whole, self.line(whole)).reached(through) if is_cut else 0
        killed = self.live_in(0, whole)
        if archive is not None:
            archive.take(self, whole)
        self.drop(0, whole)
        if is_cut:
            line = self.line(0)
            dead = line.dead | (1 << reached) - 1
            killed += dead.bit_count() - line.dead.bit_count()
            self._mark(0, line, dead)
            if archive is not None:
                archive.share(line, dead & ~line.dead)
        return killed

    def kill_above(self, last_id: EntryId) -> int:
        """Remove entries above an id; returns how many were alive. Missing."""
        low = self.below(last_id)
        killed = self.live_in(low, self._count)
        self.drop(low, self._count)
        if low and self.last_id(low - 1) > last_id:
            line = self.line(low - 1)
            reached = self._sound(low - 1, line).reached(last_id)
            dead = line.dead | (1 << line.entry_count) - (1 << reached)
            killed += dead.bit_count() - line.dead.bit_count()
            self._mark(low - 1, line, dead)
        return killed

    def take(self, other: Extents, count: int) -> None:
        at = 0
        while at < count:
            line = other.line(at)
            known = self._at(line)
            if known is not None:
                mine = self.line(known)
                self._put(known, mine, mine.joined(line))
                at += 1
                continue
            index, end = self.below(line.first_id), count
            if index < self._count:  # an extent of its own follows: those before it go together
                end = min(count, other.below(self.first_id(index)))
                end -= other.place(end - 1) == self.place(index)
            self._insert_part(index, other, at, end)
            at = end

    def _at(self, line: Line) -> int | None:
        at = self.below(line.first_id)
        near = (index for index in (at - 1, at) if 0 <= index < self._count)
        return next((index for index in near if self.place(index) == line.place), None)

    def _insert_part(self, index: int, other: Extents, low: int, high: int) -> None:
        if self._columns is _NO_COLUMNS:
            self._columns = _Columns()
        elif index < self._count or len(self._columns.lives) > self._head + self._count:
            self._unshare()
        place, at, end = self._head + index, other._head + low, other._head + high
        for mine, others in zip(self._columns.all, other._columns.all, strict=True):
            mine[place:place] = others[at:end]
        for line in range(low, high) if other._dead else ():
            extent = other.place(line)
            if dead := other._dead.get(extent):
                self._own_dead()[extent] = dead
        self._count += high - low
        self._note_added(index, index + high - low)

    def share(self, line: Line, alive: int) -> None:
        """Take over entries (bits `alive`) of an extent in memory; its index keeps the others."""
        known = self._at(line)
        if known is not None:
            mine = self.line(known)
            self._mark(known, mine, mine.dead & ~alive)
            return
        opened = self._memory.extents.find(line.place)
        assert isinstance(opened, OpenedExtent)
        dead = ~alive & (1 << line.entry_count) - 1
        shared = line.marked(dead, opened.chunks(dead))
        self._insert(self.below(shared.first_id), shared)

    def require_lost(self, first_id: EntryId, last_id: EntryId) -> None:
        for index in self._cut_by(first_id, last_id):
            self._opened(index)

    def lose(self, first_id: EntryId, last_id: EntryId) -> int:
        """Remove damaged entries; returns how many were alive. Missing for a cut extent."""
        lost_count = 0
        for index in reversed(self._cut_by(first_id, last_id)):
            line, opened = self.line(index), self._opened(index)
            dead = line.dead | opened.between(first_id, last_id)
            lost_count += dead.bit_count() - line.dead.bit_count()
            self._mark(index, line, dead)
        low, high = self.ending_below(first_id), self.below(last_id)
        if low < high and self.first_id(low) < first_id:
            low += 1
        if low < high and self.through(high - 1) > last_id:
            high -= 1
        if low < high:
            lost_count += self.live_in(low, high)
            self.drop(low, high)
        return lost_count

    def _cut_by(self, first_id: EntryId, last_id: EntryId) -> list[int]:
        places = range(self.ending_below(first_id), self.below(last_id))
        return [
            at
            for at in dict.fromkeys((*places[:1], *places[-1:]))
            if self.first_id(at) < first_id or self.through(at) > last_id
        ]

    def _mark(self, index: int, line: Line, dead: int) -> None:
        chunks = self._opened(index).chunks(dead)
        if not chunks:
            self.drop(index, index + 1)
            return
        self._put(index, line, line.marked(dead, chunks))

    def _put(self, index: int, before: Line, line: Line) -> None:
        self._unshare()
        self._note(before, -1)
        self._note(line, 1)
        at = self._head + index
        for column, value in zip(self._columns.all, _values_of(line), strict=True):
            column[at] = value
        self._set_dead(line)

    def _note(self, line: Line, sign: int) -> None:
        self.chunk_count += sign * line.chunk_count
        self.size_bytes += sign * line.size_bytes
        self._memory.cold_bytes += sign * line.size_bytes

    # Parts

    def part(self, low: int, high: int) -> Extents:
        """Return the extents from `low` to before `high`, as a value that counts for nobody.

        Its files stay until `close`. Columns are shared until one of the two changes them.
        """
        memory = Memory(extents=self._memory.extents, files=self._memory.files)
        part = Extents(memory, self.name)
        part._columns = part._origin = self._columns
        part._dead = dict(self._dead)
        part._head, part._count = self._head + low, high - low
        self._columns.reader_count += 1
        self._memory.files.update(Counter(part._files()))
        return part

    def close(self, memory: Memory) -> None:
        """Let go of a part; `memory` is told if it was the last one with its columns."""
        assert self._origin is not None
        self.release()
        self._origin.reader_count -= 1
        if not self._origin.reader_count:
            memory.held_bytes -= self._origin.held_bytes
            self._origin.held_bytes = 0

    def _unshare(self) -> None:
        """Take columns of its own, if a part has the same."""
        shared = self._columns
        if shared.reader_count:
            if self._origin is None:
                shared.held_bytes = LINE_BYTES * len(shared.lives)
                self._memory.held_bytes += shared.held_bytes
            self._columns = shared.part(self._head, self._head + self._count)
            self._head = 0

    def dump(self, low: int, high: int) -> tuple[list[bytes], list[tuple[int, bytes]]]:
        columns = self._columns.part(self._head + low, self._head + high)
        dead = [
            (index - low, line.dead.to_bytes((line.entry_count + 7) // 8, "little"))
            for index in (range(low, high) if self._dead else ())
            if (line := self.line(index)).dead
        ]
        return [column.tobytes() for column in columns.all], dead

    def load(self, columns: Sequence[bytes], dead: Sequence[tuple[int, bytes]]) -> None:
        """Add dumped lines behind all others; ValueError for columns of unequal length."""
        if self._columns is _NO_COLUMNS:
            self._columns = _Columns()
        begin = self._count
        for column, data in zip(self._columns.all, columns, strict=True):
            column.frombytes(data)
        if len({len(column) for column in self._columns.all}) != 1 or 0 in self._columns.counts:
            raise ValueError("columns of extents are not of equal length")
        self._count = len(self._columns.lives) - self._head
        for index, data in dead:
            place = self.line(begin + index).place
            self._own_dead()[place] = int.from_bytes(data, "little")
        self._note_added(begin, self._count)

    def _note_added(self, low: int, high: int) -> None:
        at, end = self._head + low, self._head + high
        self._memory.files.update(Counter(self._columns.files[at:end]))
        self.chunk_count += sum(self._columns.chunk_counts[at:end])
        grown_bytes = sum(self._live_bytes(low, high))
        self.size_bytes += grown_bytes
        self._memory.cold_bytes += grown_bytes
        self._memory.index_bytes += LINE_BYTES * (high - low)
