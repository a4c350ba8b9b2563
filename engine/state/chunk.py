"""Chunk: neighbouring entries together. It has the role of Redis's listpack node.

An open chunk is a plain list, fast to append to. A sealed chunk is one bytes object: its entries as
rows of msgpack, compressed, so that names and digits that neighbours share are stored once. msgspec
builds rows without Python code in between; columns would take a quarter less memory, and reading
them half as long again. If the ids are neighbours, as in a batch, only the fields are packed: a
third less memory, and a fifth slower to read. Reading a sealed chunk unpacks all of it; a small
shared cache keeps the chunks that several readers read at about the same time.

Deleting sets a tombstone. Positions never move while a chunk lives, unless it is mostly dead and
gets repacked without its dead; its bounds stay what they were, so trimming by whole chunks does
not notice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from headgate.engine.entry import Entry, EntryId
from headgate.engine.limits import CACHED_CHUNK_BYTES_MAX, CACHED_CHUNKS_MAX
from headgate.engine.packing import (
    FewEntries,
    grown,
    pack_entries,
    unpack_entries,
    unpack_run,
    unpacked_bytes,
)
from headgate.engine.replies import PackedEntries
from headgate.engine.state.memory import CHUNK_BYTES, ENTRY_BYTES, PART_BYTES

_id_of = itemgetter(0)
_fields_of = itemgetter(1)

PARTS_COUNTED = 30
"""So many names and values of a read are counted in a microsecond."""


class ChunkState(NamedTuple):
    first_id: EntryId
    last_id: EntryId
    entry_count: int
    size_bytes: int
    tombstones: bytes  # bit i, the lowest first, is set when the entry at position i is dead
    packed: bytes
    is_open: bool
    is_run: bool = False  # the ids are neighbours, and `packed` has the fields alone


class Chunk:
    """Entries with ascending ids, some dead. What changes its memory returns by how much."""

    __slots__ = (
        "_entries",
        "_packed",
        "count",
        "first_id",
        "is_run",
        "is_shared",
        "last_id",
        "memory_bytes",
        "size_bytes",
        "tombstones",
    )

    def __init__(self) -> None:
        """Start open and empty; the first append sets the bounds."""
        self.first_id: EntryId  # of the first entry ever held, dead or alive
        self.last_id: EntryId  # of the last entry ever held, dead or alive
        self.count = 0  # entries held, dead ones included
        self.size_bytes = 0  # names and values appended; 0 once sealed, when nobody asks any more
        self.tombstones = 0  # bit i is set when the entry at position i is dead
        self.memory_bytes = CHUNK_BYTES  # what it takes, about
        self._entries: list[Entry] | None = []  # None once sealed
        self._packed = b""  # empty while open
        self.is_run = False  # the ids are neighbours, and only fields are packed
        self.is_shared = False  # another log has it as well: it is not packed anew

    @classmethod
    def sealed(
        cls, first_id: EntryId, last_id: EntryId, count: int, packed: bytes, *, is_run: bool
    ) -> Chunk:
        """Return a chunk of entries packed by `pack_entries`, or a run by `pack_fields`."""
        chunk = cls()
        chunk.first_id, chunk.last_id, chunk.count = first_id, last_id, count
        chunk.is_run = is_run
        chunk._close(packed)
        return chunk

    @property
    def live_count(self) -> int:
        return self.count - self.tombstones.bit_count()

    @property
    def alive(self) -> int:
        """Return the bits of the entries that are not dead."""
        return ~self.tombstones & ((1 << self.count) - 1)

    @property
    def is_open(self) -> bool:
        return self._entries is not None

    def extend(self, entries: Sequence[Entry], size_bytes: int) -> int:
        """Add entries above all others, of that size together. The chunk must be open."""
        assert self._entries is not None
        if not self._entries:
            self.first_id = entries[0].id
        self.last_id = entries[-1].id
        self._entries += entries
        self.count += len(entries)
        self.size_bytes += size_bytes
        parts = sum(map(len, map(_fields_of, entries)))
        grown_bytes = size_bytes + ENTRY_BYTES * len(entries) + PART_BYTES * parts
        self.memory_bytes += grown_bytes
        return grown_bytes

    def seal(self) -> int:
        assert self._entries is not None
        self.size_bytes = 0
        return self._close(pack_entries(self._entries))

    def _close(self, packed: bytes) -> int:
        before_bytes = self.memory_bytes
        self._entries, self._packed = None, packed
        self.memory_bytes = CHUNK_BYTES + len(packed)
        return self.memory_bytes - before_bytes

    def dump(self) -> ChunkState:
        packed = self._packed if self._entries is None else pack_entries(self._entries)
        return ChunkState(
            self.first_id,
            self.last_id,
            self.count,
            self.size_bytes,
            self.tombstones.to_bytes((self.count + 7) // 8, "little"),
            packed,
            self.is_open,
            self.is_run,
        )

    @classmethod
    def load(cls, state: ChunkState) -> Chunk:
        chunk = cls()
        chunk.tombstones = int.from_bytes(state.tombstones, "little")
        chunk.is_run = state.is_run
        if state.is_open:
            chunk.extend(unpack_entries(state.packed), state.size_bytes)
        else:
            chunk._close(state.packed)
        chunk.first_id, chunk.last_id, chunk.count, chunk.size_bytes = state[:4]
        return chunk

    def close(self) -> int:
        """Seal, and end with the last live entry: ids of the dead behind it may come again."""
        grown_bytes = self.seal() if self.is_open else 0
        self.last_id = self.last_live_id()
        return grown_bytes

    def entries(self) -> list[Entry]:
        """Return all entries by position, dead ones included. Not to be changed."""
        if self._entries is not None:
            return self._entries
        is_small = unpacked_bytes(self._packed) <= CACHED_CHUNK_BYTES_MAX
        if self.is_run:
            unpack = _unpack_run_cached if is_small else unpack_run
            return unpack(self._packed, self.first_id)
        return _unpack_cached(self._packed) if is_small else unpack_entries(self._packed)

    def few_entries(self) -> Sequence[Entry]:
        """Return what `entries` does, for those who want few of them."""
        if self._entries is not None:
            return self._entries
        return FewEntries(self._packed, self.first_id if self.is_run else None)

    def clone(self) -> Chunk:
        """Return a chunk with the same entries, to be changed in place of this one."""
        clone = Chunk()
        for name in self.__slots__:
            if hasattr(self, name):
                setattr(clone, name, getattr(self, name))
        if self._entries is not None:
            clone._entries = list(self._entries)
        return clone

    def live_ids(self) -> list[EntryId]:
        return self.ids_between(self.first_id, self.last_id)

    def unmarked(self) -> Chunk:
        """Return a chunk with the same entries, none of them dead."""
        return self.marked(0) if self.tombstones else self

    def marked(self, tombstones: int) -> Chunk:
        clone = self.clone()
        clone.tombstones = tombstones
        return clone

    @property
    def packed_bytes(self) -> int:
        return len(self._packed)

    def repacked(self) -> Chunk:
        """Return a chunk with the live entries alone; its bounds stay."""
        alive = self.between(self.first_id, self.last_id)
        return Chunk.sealed(
            self.first_id, self.last_id, len(alive), pack_entries(alive), is_run=False
        )

    @property
    def unpacked_bytes(self) -> int:
        return unpacked_bytes(self._packed)

    @property
    def cost(self) -> int:
        """Return about how many microseconds it takes to unpack and count.

        Names and values take the time, and their number is not known once they are packed. What is
        larger than a few kilobytes has few large ones in most cases.
        """
        if self._entries is not None:
            added_bytes = self.memory_bytes - CHUNK_BYTES - self.size_bytes
            parts = (added_bytes - ENTRY_BYTES * self.count) // PART_BYTES
            return 1 + parts // PARTS_COUNTED
        size_bytes = unpacked_bytes(self._packed)
        return 20 + min(size_bytes // 50, 1_000) + size_bytes // 4_000

    @property
    def has_one_id(self) -> bool:
        """Tell, without unpacking, whether one entry is left, besides dead ones above it."""
        return self.first_id == self.last_id

    def position(self, entry_id: EntryId) -> int | None:
        if self.has_one_id:
            return 0 if entry_id == self.first_id and not self.tombstones & 1 else None
        entries = self.entries()
        at = bisect_left(entries, entry_id, key=_id_of)
        if at == len(entries) or entries[at].id != entry_id or self.tombstones >> at & 1:
            return None
        return at

    def between(self, start: EntryId, end: EntryId) -> list[Entry]:
        """Return the live entries from `start` to `end`, both inclusive, in order."""
        entries = self.entries()
        low = 0 if start <= self.first_id else bisect_left(entries, start, key=_id_of)
        high = len(entries) if end >= self.last_id else bisect_right(entries, end, key=_id_of)
        if not self.tombstones:
            return entries[low:high]
        dead = self.tombstones
        return [entries[at] for at in range(low, high) if not dead >> at & 1]

    def ids_between(self, start: EntryId, end: EntryId) -> list[EntryId]:
        if self.has_one_id:
            return [self.first_id] if self.live_count and start <= self.first_id <= end else []
        return list(map(_id_of, self.between(start, end)))

    def packed_within(self, start: EntryId, end: EntryId, limit: int) -> PackedEntries | None:
        """Return all entries as they are packed; None: not all are wanted, or it is not sealed."""
        is_wanted = start <= self.first_id and self.last_id <= end and self.count <= limit
        if not is_wanted or self.tombstones or self._entries is not None:
            return None
        return PackedEntries(self.count, self._packed, self.first_id if self.is_run else None)

    def lacks(self, texts: Sequence[bytes]) -> bool:
        packed = grown(self._packed)
        return not any(text in packed for text in texts)

    def kill(self, position: int) -> int:
        self.tombstones |= 1 << position
        is_fixed = self.is_open or self.is_shared
        is_mostly_dead = not is_fixed and 0 < self.live_count * 2 < self.count
        return self._repack() if is_mostly_dead else 0

    def kill_through(self, entry_id: EntryId) -> int:
        before = self.live_count
        if self.has_one_id:
            reached = 1 if entry_id >= self.first_id else 0
        else:
            reached = bisect_right(self.entries(), entry_id, key=_id_of)
        self.tombstones |= (1 << reached) - 1
        return before - self.live_count

    def first_live_id(self) -> EntryId:
        """Return the id of the first entry that is not dead; there must be one."""
        return self.first_id if self.has_one_id else self.first_live().id

    def last_live_id(self) -> EntryId:
        return self.first_id if self.has_one_id else self.last_live().id

    def first_live(self) -> Entry:
        return self.entries()[(~self.tombstones & (self.tombstones + 1)).bit_length() - 1]

    def last_live(self) -> Entry:
        return self.entries()[self.alive.bit_length() - 1]

    def _repack(self) -> int:
        alive = self.between(self.first_id, self.last_id)
        self.is_run = False
        self.count = len(alive)
        self.tombstones = 0
        return self._close(pack_entries(alive))


_unpack_cached = lru_cache(maxsize=CACHED_CHUNKS_MAX)(unpack_entries)
_unpack_run_cached = lru_cache(maxsize=CACHED_CHUNKS_MAX)(unpack_run)


class SharedChunk(NamedTuple):
    """A hot chunk that does not grow any more. One log has it, or both; positions are the same."""

    live: Chunk | None
    archived: Chunk | None = None

    @property
    def chunk(self) -> Chunk:
        """Return the chunk with all of its positions: in the archive it may end early."""
        chunk = self.live or self.archived
        assert chunk is not None
        return chunk

    def part_of(self, *, is_archived: bool) -> Chunk:
        """Return the chunk as one of the logs has it; if it has none of it, all is dead."""
        part = self.archived if is_archived else self.live
        alive = 0 if part is None else part.alive
        return self.chunk.marked(~alive & ((1 << self.chunk.count) - 1))


def shared_chunks(live: Sequence[Chunk], archived: Sequence[Chunk]) -> Sequence[SharedChunk]:
    by_id = {chunk.first_id: SharedChunk(chunk) for chunk in live}
    for chunk in archived:
        shared = by_id.get(chunk.first_id)
        by_id[chunk.first_id] = SharedChunk(None if shared is None else shared.live, chunk)
    return [by_id[first_id] for first_id in sorted(by_id)]
