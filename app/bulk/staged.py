"""The content of a chunk of a batch, and its format in a file.

A file is a checksum and then blocks, each a length and rows as MessagePack. Nothing else runs while
a block is encoded or decoded, so a block is small. Behind a length of zero are encoded rows: they
are copied and not decoded, so they are one block.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence

import google_crc32c
import msgspec

from headgate.engine.entry import Draft, EntryId, IdRequest, PartialId, Timing
from headgate.engine.limits import PACKED_COUNT_MIN
from headgate.engine.packing import EncodedDrafts

_BLOCK_PARTS_MAX = 8192
"""Names, values and rows of a block, about: a millisecond of work. One row may have more."""

_CHECKSUM = struct.Struct("<I")
_LENGTH = struct.Struct(">I")


class Rows(msgspec.Struct, frozen=True, array_like=True):
    streams: list[bytes]
    stream_of: list[int] | None  # of each entry, a place among the streams; None: all the first
    ids: list[tuple[int, ...] | None] | None  # ms and seq, or ms alone; None: all are `*`
    fields: list[tuple[bytes, ...]]
    timings: list[Timing | None] | None = None  # None: no entry has times

    @classmethod
    def of(cls, streams: Sequence[bytes], drafts: Sequence[Draft]) -> Rows:
        """Return drafts as rows; `streams` has one name for each, or one for all."""
        names = list(dict.fromkeys(streams))
        place = {name: at for at, name in enumerate(names)}
        ids = [_parts(draft.id) for draft in drafts]
        timings = [draft.timing for draft in drafts]
        return cls(
            streams=names,
            stream_of=[place[name] for name in streams] if len(names) > 1 else None,
            ids=ids if any(entry_id is not None for entry_id in ids) else None,
            fields=[draft.fields for draft in drafts],
            timings=timings if any(timings) else None,
        )

    def by_stream(self) -> dict[bytes, list[Draft]]:
        """Return each stream's rows as drafts; ValueError, IndexError: the rows are corrupt."""
        drafts: dict[bytes, list[Draft]] = {}
        for at, fields in enumerate(self.fields):
            name = self.streams[0 if self.stream_of is None else self.stream_of[at]]
            wanted = None if self.ids is None else _id_request(self.ids[at])
            timing = None if self.timings is None else self.timings[at]
            drafts.setdefault(name, []).append(Draft(wanted, fields, timing))
        return drafts

    def __len__(self) -> int:
        return len(self.fields)

    def blocks(self) -> Iterator[Rows]:
        """Yield the rows in blocks; no rows make one empty block."""
        if not self.fields:
            yield self
        begin = parts = 0
        for end, fields in enumerate(self.fields, 1):
            parts += len(fields) + 1
            if parts >= _BLOCK_PARTS_MAX or end == len(self.fields):
                yield self._portion(begin, end)
                begin, parts = end, 0

    def _portion(self, begin: int, end: int) -> Rows:
        fields = self.fields[begin:end]
        ids = None if self.ids is None else self.ids[begin:end]
        timings = None if self.timings is None else self.timings[begin:end]
        if self.stream_of is None:
            return Rows(self.streams, None, ids, fields, timings)
        named = self.stream_of[begin:end]
        place = {index: at for at, index in enumerate(dict.fromkeys(named))}
        streams = [self.streams[index] for index in place]
        return Rows(streams, [place[index] for index in named], ids, fields, timings)


class EncodedRows(msgspec.Struct, frozen=True, array_like=True):
    stream: bytes
    data: bytes
    ends: bytes  # arrays of 64-bit numbers, as of `EncodedDrafts`
    size_ends: bytes

    @classmethod
    def of(cls, stream: bytes, drafts: EncodedDrafts) -> EncodedRows:
        return cls(stream, drafts.data, drafts.ends.tobytes(), drafts.size_ends.tobytes())

    @property
    def streams(self) -> list[bytes]:
        return [self.stream]

    def by_stream(self) -> dict[bytes, EncodedDrafts]:
        ends, size_ends = array("Q", self.ends), array("Q", self.size_ends)
        return {self.stream: EncodedDrafts(self.data, ends, size_ends)}

    def __len__(self) -> int:
        return len(self.ends) // 8 - 1


class StagedDrafts:
    def __init__(self) -> None:
        self._parts: dict[bytes, list[Sequence[Draft]]] = {}

    def add(self, rows: Rows | EncodedRows) -> None:
        """Append rows; raises ValueError or IndexError if they are corrupt."""
        for stream, part in rows.by_stream().items():
            self._parts.setdefault(stream, []).append(part)

    def drafts(self) -> dict[bytes, Sequence[Draft]]:
        """Return the drafts of each stream, as objects if they are few."""
        return {stream: _joined(parts) for stream, parts in self._parts.items()}


def _joined(parts: Sequence[Sequence[Draft]]) -> Sequence[Draft]:
    encoded = [part for part in parts if isinstance(part, EncodedDrafts)]
    if len(encoded) == len(parts) and sum(map(len, parts)) >= PACKED_COUNT_MIN:
        return EncodedDrafts.joined(encoded)
    return [draft for part in parts for draft in part]


def encode(rows: Rows | EncodedRows) -> bytes:
    parts = []
    if isinstance(rows, EncodedRows):
        parts = [_LENGTH.pack(0), _encode(rows)]
    else:
        for block in rows.blocks():
            data = _encode(block)
            parts += [_LENGTH.pack(len(data)), data]
    content = b"".join(parts)
    return _CHECKSUM.pack(google_crc32c.value(content)) + content


def decode(file: bytes) -> Iterator[Rows | EncodedRows]:
    """Yield the rows of a file, block by block; raises ValueError if it was not staged so."""
    content = memoryview(file)[_CHECKSUM.size :]
    if not content or file[: _CHECKSUM.size] != _CHECKSUM.pack(google_crc32c.value(bytes(content))):
        raise ValueError("not what was staged")
    at = 0
    while at < len(content):
        begin = at + _LENGTH.size
        if content[at:begin] == _LENGTH.pack(0):
            yield _decode_encoded(content[begin:])
            return
        at = begin + int.from_bytes(content[at:begin])
        yield _decode(content[begin:at])


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Rows).decode
_decode_encoded = msgspec.msgpack.Decoder(EncodedRows).decode


def _parts(wanted: IdRequest) -> tuple[int, ...] | None:
    return (wanted.ms,) if isinstance(wanted, PartialId) else wanted


def _id_request(parts: tuple[int, ...] | None) -> IdRequest:
    if parts is None:
        return None
    if len(parts) == 1:
        return PartialId(*parts)
    ms, seq = parts
    return EntryId(ms, seq)
