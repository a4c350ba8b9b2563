"""Payload: one stream as the reply of DUMP, which RESTORE takes.

```text
payload = type:u8 value version:u16 checksum:u64        little-endian; the checksum is over all before it
```
"""  # noqa: E501 the line of the grammar

from __future__ import annotations

from collections.abc import Iterator

from headgate.app.rdb.errors import RdbError
from headgate.app.rdb.events import StreamCounters, StreamEntries
from headgate.app.rdb.nodes import portions
from headgate.app.rdb.room import Share
from headgate.app.rdb.skipping import KEY_META, skip_key_meta
from headgate.app.rdb.source import Source, checksum_of
from headgate.app.rdb.streams import read_stream
from headgate.app.rdb.strings import read_length
from headgate.app.rdb.types import StreamType, is_known, stream_type
from headgate.app.rdb.writer import write_stream
from headgate.engine.entry import MIN_ID, check_fields, size_in_chunk
from headgate.engine.images import (
    CountersImage,
    EntriesImage,
    GroupImage,
    KeysImage,
    StreamImage,
)

_VERSION_BYTES = 2
_CHECKSUM_BYTES = 8
_ENTRY_BYTES = 30
"""Memory of an entry besides its names and values: its id, and its part of a chunk."""

_FOOTER_BYTES = _VERSION_BYTES + _CHECKSUM_BYTES


class WrongFooter(RdbError):
    """The payload has a version that we cannot read, or a wrong checksum."""


class NoStream(RdbError):
    """The payload is of another type."""


def read_payload(payload: bytes, room: Share) -> StreamImage:
    """Return the stream of a payload. This may take a second for some megabytes.

    Args:
        payload: what DUMP replied.
        room: of which it takes what the stream takes. What was read keeps it.

    Raises:
        WrongFooter: the version or the checksum is wrong.
        NoStream: the payload is of another type.
        TooMuch, RoomTaken, GivenUp: there is no room for the stream. See `Share.take`.
        RdbError: its bytes make no sense.
        Invalid: an entry is larger than entries may be.
    """
    source = Source.of(_checked(payload), room)
    number = source.byte()
    if number == KEY_META:
        skip_key_meta(source)
        number = source.byte()
    try:
        kind = StreamType(number)
    except ValueError:
        raise NoStream(f"a payload has a value of type {number}") from None
    image = _read_image(source, kind)
    if not source.is_exhausted:
        raise source.error("a payload goes on behind its value")
    return image


def _checked(payload: bytes) -> bytes:
    """Return the payload before its footer."""
    version = int.from_bytes(payload[-_FOOTER_BYTES:-_CHECKSUM_BYTES], "little")
    checksum = int.from_bytes(payload[-_CHECKSUM_BYTES:], "little")
    if len(payload) <= _FOOTER_BYTES or not is_known(version):
        raise WrongFooter(f"a payload has version {version}")
    if checksum_of(payload[:-_CHECKSUM_BYTES]) != checksum:
        raise WrongFooter("a payload has a wrong checksum")
    return payload[:-_FOOTER_BYTES]


def _read_image(source: Source, kind: StreamType) -> StreamImage:
    chunks: list[EntriesImage] = []
    groups: list[GroupImage] = []
    counters, keys, count = CountersImage(MIN_ID, MIN_ID, 0), None, 0
    for part in read_stream(source, kind, read_length(source)):
        match part:
            case StreamEntries(entries):
                for entry in entries:
                    check_fields(entry.fields, count)
                    source.take_room(_ENTRY_BYTES + size_in_chunk(entry.fields))
                    count += 1
                chunks += map(EntriesImage.of, portions(entries))
            case StreamCounters():
                counters = part.counters
            case GroupImage():
                groups.append(part)
            case KeysImage():
                keys = part
    return StreamImage(chunks, counters, groups, keys)


def write_payload(image: StreamImage, version: int) -> Iterator[bytes]:
    """Yield the parts of the payload of a stream; the last one is the footer.

    Args:
        image: the stream.
        version: of RDB, as Redis numbers them.
    """
    kind = stream_type(version)
    parts = bytes((kind,))
    yield parts
    checksum = checksum_of(parts)
    for part in write_stream(image, kind):
        checksum = checksum_of(part, checksum)
        yield part
    footer = version.to_bytes(_VERSION_BYTES, "little")
    yield footer + checksum_of(footer, checksum).to_bytes(_CHECKSUM_BYTES, "little")
