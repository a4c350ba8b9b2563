"""Parts: the journal of a bucket, as numbered objects that follow each other.

A part has what was written to one segment from a byte on. Its number is that of the part before it
and one, and only one object of that number can be put. So who has put a part knows that nobody else
has written since the part before it: that is what makes a change safe, and not the lease. A new
leader puts a part without bytes first: then no leader before it can put anything that counts.

    object = header as all files have it (kind 4, number, term)  block of the part's facts  bytes

A part that begins a segment replaces one of that name that had no record.
"""

from __future__ import annotations

import io
from typing import NamedTuple

import google_crc32c
import msgspec

from headgate.engine.bucket.bucket import Bucket
from headgate.engine.bucket.manifest import PARTS, number_of, numbered
from headgate.engine.errors import Broken, Corrupt
from headgate.engine.journal.records import (
    Header,
    Kind,
    pack_block,
    pack_header,
    read_blocks,
    read_header,
)


class Part(NamedTuple):
    number: int
    term: int
    writer: str
    segment: str  # empty: it has no bytes, and says that a new leader writes from here on
    offset: int
    position: int  # of the last record in it, or before it
    put_ms: int  # when, by the clock of who put it
    covered_ms: int  # what was appended before this moment is in it, or before it
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class _Facts(msgspec.Struct, frozen=True, array_like=True):
    writer: str
    segment: str
    offset: int
    position: int
    put_ms: int
    covered_ms: int
    size_bytes: int
    crc32c: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Facts).decode


def packed(part: Part) -> bytes:
    header = Header(Kind.PART, part.number, part.term)
    facts = _Facts(
        part.writer,
        part.segment,
        part.offset,
        part.position,
        part.put_ms,
        part.covered_ms,
        len(part.data),
        google_crc32c.value(part.data),
    )
    block = pack_block(header, 0, 0, _encode(facts))
    return b"".join([pack_header(header), block, part.data])


def unpacked(name: str, data: bytes) -> Part:
    try:
        file = io.BytesIO(data)
        header = read_header(file, name, Kind.PART)
        block = next(read_blocks(file, name, header))
        facts = _decode(block.payload)
    except (Broken, StopIteration, msgspec.DecodeError) as error:
        raise Corrupt(name, 0, getattr(error, "why", "") or "it is no part") from None
    content = data[block.end :]
    is_whole = len(content) == facts.size_bytes and google_crc32c.value(content) == facts.crc32c
    if header.position != number_of(name) or not is_whole:
        raise Corrupt(name, 0, "the part is not as it was put")
    return Part(
        header.position,
        header.salt,
        facts.writer,
        facts.segment,
        facts.offset,
        facts.position,
        facts.put_ms,
        facts.covered_ms,
        content,
    )


def part_name(number: int) -> str:
    return numbered(PARTS, number)


def put(bucket: Bucket, part: Part) -> bool:
    """Put a part; false if another one of its number is there. After an error nobody knows."""
    name, data = part_name(part.number), packed(part)
    return bucket.put_new(name, data) or bucket.read(name) == data


def read(bucket: Bucket, number: int) -> Part:
    name = part_name(number)
    return unpacked(name, bucket.read(name))


def numbers_from(bucket: Bucket, number: int) -> list[int]:
    numbers: list[int] = []
    for stored in bucket.objects(PARTS, part_name(number - 1)):
        if number_of(stored.name) != number + len(numbers):
            break
        numbers.append(number + len(numbers))
    return numbers
