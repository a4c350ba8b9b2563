"""Packing: entries as one piece of bytes, as sealed chunks and images keep them.

Entries are rows of msgpack, compressed by zstd. If their ids are neighbours, only the fields are
packed. The functions share one compressor, so they are for one thread; another has an `Unpacker` of
its own.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import overload

import msgspec
import zstandard

from headgate.engine.entry import (
    Draft,
    Entry,
    EntryId,
    Fields,
    make_drafts,
    make_entries,
    neighbours,
)
from headgate.engine.limits import COMPRESSED_BYTES_MAX

encode_entries = msgspec.msgpack.Encoder().encode
"""Packs entries, not compressed. Any thread may call it."""

_compress = zstandard.ZstdCompressor(level=1, write_content_size=True).compress
_decode = msgspec.msgpack.Decoder(list[Entry]).decode
_decode_fields = msgspec.msgpack.Decoder(list[Fields]).decode
_split = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode_one = msgspec.msgpack.Decoder(Entry).decode
_decode_fields_of_one = msgspec.msgpack.Decoder(Fields).decode
_COMPRESSED = zstandard.FRAME_HEADER  # no array of msgpack begins with it

_SHORT_ARRAYS = range(0x90, 0xA0)
"""First bytes of arrays of msgpack that say their length, 0 to 15 (its specification: fixarray)."""

_LONG_ARRAYS = {0xDC: 3, 0xDD: 5}
"""Those of others, and where the length ends that follows (array 16, array 32)."""

_DECODED_AT_ONCE = 512
_DECODED_BYTES_AT_ONCE = 64 * 1024
"""Drafts made into objects at a time: a few milliseconds, whatever they hold."""


class EncodedDrafts(Sequence[Draft]):
    """Drafts without ids as one piece of msgpack, not compressed: objects only where asked for."""

    __slots__ = ("data", "ends", "size_ends")

    def __init__(self, data: bytes, ends: array[int], size_ends: array[int]) -> None:
        """Take the fields of drafts, one behind the other in `data`.

        `ends` is 0 and the end of each draft; `size_ends` is 0 and the running sum of their sizes
        in a chunk.
        """
        self.data = data
        self.ends = ends
        self.size_ends = size_ends

    @classmethod
    def joined(cls, parts: Sequence[EncodedDrafts]) -> EncodedDrafts:
        ends, size_ends = array("Q", [0]), array("Q", [0])
        for part in parts:
            for whole, more in ((ends, part.ends), (size_ends, part.size_ends)):
                last = whole[-1]
                whole.extend([last + end for end in more[1:]] if last else more[1:])
        return cls(b"".join(part.data for part in parts), ends, size_ends)

    def packed(self, low: int, high: int) -> bytes:
        return compressed(self._array(low, high))

    def _array(self, low: int, high: int) -> bytes:
        return array_header(high - low) + self.data[self.ends[low] : self.ends[high]]

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __iter__(self) -> Iterator[Draft]:
        low = 0
        while low < len(self):
            last = min(low + _DECODED_AT_ONCE, len(self))
            full = self.ends[low] + _DECODED_BYTES_AT_ONCE
            high = max(bisect_right(self.ends, full, low, last + 1) - 1, low + 1)
            yield from self[low:high]
            low = high

    @overload
    def __getitem__(self, index: int) -> Draft: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Draft]: ...
    def __getitem__(self, index: int | slice) -> Draft | Sequence[Draft]:
        if isinstance(index, int):
            at = range(len(self))[index]
            return self[at : at + 1][0]
        low, high, _ = index.indices(len(self))
        many = _decode_fields(self._array(low, max(low, high)))
        return make_drafts(repeat(None), many)


class Unpacker:
    """Unpacks entries; one for each thread."""

    def __init__(self) -> None:
        self._decompress = zstandard.ZstdDecompressor().decompress

    def entries(self, packed: bytes) -> list[Entry]:
        return _decode(self.grown(packed))

    def run(self, packed: bytes, first_id: EntryId) -> list[Entry]:
        """Return entries whose ids follow `first_id`."""
        many = _decode_fields(self.grown(packed))
        return make_entries(neighbours(first_id, len(many)), many)

    def grown(self, packed: bytes) -> bytes:
        return self._decompress(packed) if packed.startswith(_COMPRESSED) else packed


class FewEntries(Sequence[Entry]):
    """Packed entries of which few are wanted: each is made into an object when it is asked for.

    To split a hundred takes a quarter of the time of unpacking them.
    """

    __slots__ = ("_first_id", "_parts")

    def __init__(self, packed: bytes, first_id: EntryId | None) -> None:
        """Take packed entries, or a run whose ids follow `first_id`."""
        self._parts = _split(grown(packed))
        self._first_id = first_id

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(index, slice):
            return [self[at] for at in range(len(self))[index]]
        if self._first_id is None:
            return _decode_one(self._parts[index])
        ms, seq = self._first_id
        at = range(len(self._parts))[index]
        return Entry(EntryId(ms, seq + at), _decode_fields_of_one(self._parts[at]))


_unpacker = Unpacker()
unpack_entries = _unpacker.entries
unpack_run = _unpacker.run
grown = _unpacker.grown


def pack_entries(entries: Sequence[Entry]) -> bytes:
    return compressed(encode_entries(entries))


def pack_fields(many: Sequence[Fields]) -> bytes:
    return compressed(encode_entries(many))


def array_header(count: int) -> bytes:
    """Return the beginning of an array of msgpack with so many items (its specification)."""
    if count in range(len(_SHORT_ARRAYS)):
        return bytes([_SHORT_ARRAYS[count]])
    return b"\xdc" + count.to_bytes(2) if count < 2**16 else b"\xdd" + count.to_bytes(4)


def compressed(encoded: bytes) -> bytes:
    """Return packed entries compressed, unless they are very large or already compressed."""
    if len(encoded) > COMPRESSED_BYTES_MAX or encoded.startswith(_COMPRESSED):
        return encoded
    # zstandard leaves the room for the worst case on its result: a copy has only what it needs.
    return bytes(memoryview(_compress(encoded)))


def unpacked_bytes(packed: bytes) -> int:
    """Return the size of packed entries once unpacked; negative if it is not in their header."""
    return zstandard.frame_content_size(packed) if packed.startswith(_COMPRESSED) else len(packed)


def packed_count(packed: bytes) -> int:
    """Return how many entries were packed, without unpacking; ValueError if it is no array."""
    encoded = _unpacker.grown(packed)
    kind = int.from_bytes(encoded[:1])
    if kind in _SHORT_ARRAYS:
        return _SHORT_ARRAYS.index(kind)
    if kind in _LONG_ARRAYS:
        return int.from_bytes(encoded[1 : _LONG_ARRAYS[kind]])
    raise ValueError("no array of entries")
