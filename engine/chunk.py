"""Chunk: neighbouring entries in one run. The role of Redis's listpack node.

An open chunk is a plain list, fast to append to. A sealed one is one bytes object: packed by
column, field names stored once per distinct set of names, ids as deltas, compressed. Reading a
sealed chunk unpacks all of it; a small shared cache keeps what readers near each other touch.

Deleting sets a tombstone. Positions never move while a chunk lives, unless it is mostly dead and
gets repacked without its dead; its bounds stay what they were, so trimming by whole chunks does
not notice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache, partial
from itertools import accumulate, chain, pairwise
from operator import itemgetter, sub
from typing import NamedTuple

import msgspec
import zstandard

from engine.entry import Entry, EntryId, Fields
from engine.limits import CACHED_CHUNK_BYTES_MAX, CACHED_CHUNKS_MAX

_id_of = itemgetter(0)


class ChunkState(NamedTuple):
    """A chunk as a value: what a snapshot holds of it."""

    first_id: EntryId
    last_id: EntryId
    entry_count: int
    size_bytes: int
    tombstones: bytes  # bit i, the lowest first, is set when the entry at position i is dead
    packed: bytes
    is_open: bool


class Chunk:
    """Entries with ascending ids, some of them dead. Open until `seal` is called."""

    __slots__ = ("_entries", "_packed", "count", "first_id", "last_id", "size_bytes", "tombstones")

    def __init__(self) -> None:
        """Start open and empty; the first append sets the bounds."""
        self.first_id: EntryId  # of the first entry ever held, dead or alive
        self.last_id: EntryId  # of the last entry ever held, dead or alive
        self.count = 0  # entries held, dead ones included
        self.size_bytes = 0  # what was appended: values, and names where they changed
        self.tombstones = 0  # bit i is set when the entry at position i is dead
        self._entries: list[Entry] | None = []  # None once sealed
        self._packed = b""  # empty while open

    @property
    def live_count(self) -> int:
        """Return the number of entries that are not dead."""
        return self.count - self.tombstones.bit_count()

    @property
    def is_open(self) -> bool:
        """Tell whether entries may still be appended."""
        return self._entries is not None

    def append(self, entry: Entry) -> None:
        """Add an entry above all others. The chunk must be open."""
        entries = self._entries
        assert entries is not None
        if not entries:
            self.first_id = entry.id
        self.last_id = entry.id
        entries.append(entry)
        self.count += 1
        self.size_bytes += entry.size_bytes

    def seal(self) -> None:
        """Pack the entries; nothing can be appended any more."""
        assert self._entries is not None
        self._packed = _pack(self._entries)
        self._entries = None

    def dump(self) -> ChunkState:
        """Return what `load` makes the same chunk of."""
        packed = self._packed if self._entries is None else _pack(self._entries)
        return ChunkState(
            self.first_id,
            self.last_id,
            self.count,
            self.size_bytes,
            self.tombstones.to_bytes((self.count + 7) // 8, "little"),
            packed,
            self.is_open,
        )

    @classmethod
    def load(cls, state: ChunkState) -> Chunk:
        """Return the chunk that was dumped."""
        chunk = cls()
        chunk.first_id, chunk.last_id, chunk.count, chunk.size_bytes = state[:4]
        chunk.tombstones = int.from_bytes(state.tombstones, "little")
        chunk._entries = _unpack(state.packed) if state.is_open else None
        chunk._packed = b"" if state.is_open else state.packed
        return chunk

    def close(self) -> None:
        """Seal, and end with the last live entry: ids of the dead behind it may come again."""
        if self.is_open:
            self.seal()
        self.last_id = self.last_live().id

    def entries(self) -> list[Entry]:
        """Return all entries by position, dead ones included. Not to be changed."""
        if self._entries is not None:
            return self._entries
        is_small = len(self._packed) <= CACHED_CHUNK_BYTES_MAX
        return _unpack_cached(self._packed) if is_small else _unpack(self._packed)

    def position(self, entry_id: EntryId) -> int | None:
        """Return where the live entry of that id stands, or None."""
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

    def kill(self, position: int) -> None:
        """Set the tombstone of the entry at `position`; repack when most are dead."""
        self.tombstones |= 1 << position
        if not self.is_open and 0 < self.live_count * 2 < self.count:
            self._repack()

    def kill_through(self, entry_id: EntryId) -> int:
        """Set the tombstones of all entries <= `entry_id`; returns how many were alive."""
        before = self.live_count
        reached = bisect_right(self.entries(), entry_id, key=_id_of)
        self.tombstones |= (1 << reached) - 1
        return before - self.live_count

    def first_live(self) -> Entry:
        """Return the first entry that is not dead; there must be one."""
        return self.entries()[(~self.tombstones & (self.tombstones + 1)).bit_length() - 1]

    def last_live(self) -> Entry:
        """Return the last entry that is not dead; there must be one."""
        alive = ~self.tombstones & ((1 << self.count) - 1)
        return self.entries()[alive.bit_length() - 1]

    def _repack(self) -> None:
        alive = self.between(self.first_id, self.last_id)
        self._packed = _pack(alive)
        self.count = len(alive)
        self.tombstones = 0


class _Columns(NamedTuple):
    """The packed form. Deltas are against the entry before; the first one is against `0-0`."""

    ms_deltas: list[int]
    seqs: list[int]
    name_sets: list[list[bytes]]  # distinct lists of field names, in order of appearance
    name_set_of: list[int]  # index into `name_sets` per entry; empty when there is only one
    values: list[bytes]  # all values, entry after entry


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Columns).decode
_compress = zstandard.ZstdCompressor(level=1, write_content_size=True).compress
_decompress = zstandard.ZstdDecompressor().decompress
_entry_ids = partial(tuple.__new__, EntryId)
_entry_of = partial(tuple.__new__, Entry)


def _pack(entries: list[Entry]) -> bytes:
    milliseconds = [entry.id.ms for entry in entries]
    indexes: dict[Fields, int] = {}
    name_set_of = [indexes.setdefault(fields[0::2], len(indexes)) for _, fields in entries]
    columns = _Columns(
        ms_deltas=[milliseconds[0], *(sub(b, a) for a, b in pairwise(milliseconds))],
        seqs=[entry.id.seq for entry in entries],
        name_sets=[list(names) for names in indexes],
        name_set_of=name_set_of if len(indexes) > 1 else [],
        values=list(chain.from_iterable(fields[1::2] for _, fields in entries)),
    )
    return _compress(_encode(columns))


def _unpack(packed: bytes) -> list[Entry]:
    columns = _decode(_decompress(packed))
    ids = map(_entry_ids, zip(accumulate(columns.ms_deltas), columns.seqs, strict=True))
    values = iter(columns.values)
    names_of = columns.name_set_of or [0] * len(columns.seqs)
    fields = (
        tuple(chain.from_iterable(zip(columns.name_sets[index], values, strict=False)))
        for index in names_of
    )
    return list(map(_entry_of, zip(ids, fields, strict=True)))


_unpack_cached = lru_cache(maxsize=CACHED_CHUNKS_MAX)(_unpack)
