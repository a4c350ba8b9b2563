"""Staged rows: the content of a chunk of a batch, and its format in a file.

A file is a checksum and then blocks, each a length and so many rows as msgpack. Nothing else runs
while a block is encoded or decoded, so a block is small.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import google_crc32c
import msgspec

from headgate.engine.entry import Draft, EntryId, IdRequest, PartialId

_BLOCK_PARTS_MAX = 8192
"""Names, values and rows of a block, about: a millisecond of work. One row may have more."""

_CHECKSUM = struct.Struct("<I")
_LENGTH = struct.Struct(">I")


class Rows(msgspec.Struct, frozen=True, array_like=True):
    """For each entry its stream, its id and its fields."""

    streams: list[bytes]
    stream_of: list[int] | None  # of each entry, a place among the streams; None: all the first
    ids: list[tuple[int, ...] | None] | None  # ms and seq, or ms alone; None: all are `*`
    fields: list[tuple[bytes, ...]]

    @classmethod
    def of(cls, streams: Sequence[bytes], drafts: Sequence[Draft]) -> Rows:
        """Return drafts as rows; `streams` has one name for each, or one for all."""
        names = list(dict.fromkeys(streams))
        place = {name: at for at, name in enumerate(names)}
        ids = [_parts(draft.id) for draft in drafts]
        return cls(
            streams=names,
            stream_of=[place[name] for name in streams] if len(names) > 1 else None,
            ids=ids if any(entry_id is not None for entry_id in ids) else None,
            fields=[draft.fields for draft in drafts],
        )

    def add_to(self, drafts: dict[bytes, list[Draft]]) -> None:
        """Append the rows to what there is for each stream.

        Raises:
            ValueError, IndexError: nobody has made such rows.
        """
        for at, fields in enumerate(self.fields):
            name = self.streams[0 if self.stream_of is None else self.stream_of[at]]
            wanted = None if self.ids is None else _id_request(self.ids[at])
            drafts.setdefault(name, []).append(Draft(wanted, fields))

    def blocks(self) -> Iterator[Rows]:
        """Yield the rows a block at a time; there is one also if there are no rows."""
        if not self.fields:
            yield self
        begin = parts = 0
        for end, fields in enumerate(self.fields, 1):
            parts += len(fields) + 1
            if parts >= _BLOCK_PARTS_MAX or end == len(self.fields):
                yield self._portion(begin, end)
                begin, parts = end, 0

    def _portion(self, begin: int, end: int) -> Rows:
        """Return some of the rows, with the streams that they name."""
        fields = self.fields[begin:end]
        ids = None if self.ids is None else self.ids[begin:end]
        if self.stream_of is None:
            return Rows(self.streams, None, ids, fields)
        named = self.stream_of[begin:end]
        place = {index: at for at, index in enumerate(dict.fromkeys(named))}
        streams = [self.streams[index] for index in place]
        return Rows(streams, [place[index] for index in named], ids, fields)


def encode(rows: Rows) -> bytes:
    """Return a file of rows."""
    parts = []
    for block in rows.blocks():
        data = _encode(block)
        parts += [_LENGTH.pack(len(data)), data]
    content = b"".join(parts)
    return _CHECKSUM.pack(google_crc32c.value(content)) + content


def decode(file: bytes) -> Iterator[Rows]:
    """Yield the rows of a file, block by block.

    Raises:
        ValueError: it is not what was staged.
    """
    content = memoryview(file)[_CHECKSUM.size :]
    if not content or file[: _CHECKSUM.size] != _CHECKSUM.pack(google_crc32c.value(bytes(content))):
        raise ValueError("not what was staged")
    at = 0
    while at < len(content):
        begin = at + _LENGTH.size
        at = begin + int.from_bytes(content[at:begin])
        yield _decode(content[begin:at])


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Rows).decode


def _parts(wanted: IdRequest) -> tuple[int, ...] | None:
    return (wanted.ms,) if isinstance(wanted, PartialId) else wanted


def _id_request(parts: tuple[int, ...] | None) -> IdRequest:
    if parts is None:
        return None
    if len(parts) == 1:
        return PartialId(*parts)
    ms, seq = parts
    return EntryId(ms, seq)
