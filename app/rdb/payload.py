"""Payload: one stream as the reply of DUMP, which RESTORE takes, read and written.

```text
payload = type:u8 value version:u16 checksum:u64        little-endian; the checksum is over all before it
```
"""  # noqa: E501 the line of the grammar

from __future__ import annotations

import struct
from collections.abc import Iterator

from headgate.app.rdb.events import StreamCounters, StreamEntries
from headgate.app.rdb.listpack import portions, write_node
from headgate.app.rdb.skipping import KEY_META, skip_key_meta
from headgate.app.rdb.source import (
    RdbError,
    Share,
    Source,
    StreamType,
    checksum_of,
    is_known,
    stream_type,
)
from headgate.app.rdb.streams import read_stream
from headgate.app.rdb.strings import length, read_length, string
from headgate.engine.entry import MIN_ID, EntryId, check_fields, size_in_chunk
from headgate.engine.images import (
    ConsumerImage,
    CountersImage,
    EntriesImage,
    GroupImage,
    KeysImage,
    PendingImage,
    StreamImage,
    unpacked,
)
from headgate.engine.limits import U64_MAX

_RAW_ID = struct.Struct(">QQ")
_DELIVERY = struct.Struct("<q")

NOBODY = ConsumerImage(b"", 0, None)
"""Owner of released entries, in types before 27, at the beginning of time. So any claim gets
it, and XPENDING shows it as Redis 8.8 does."""

_NO_KEYS = KeysImage(100_000, 100, {}, 0, 0)  # what Redis has for streams without settings


def write_stream(image: StreamImage, kind: StreamType) -> Iterator[bytes]:
    nodes: list[bytes] = []
    first_id = MIN_ID  # of the entries: the first chunk may begin before
    for entries in unpacked(image.chunks):
        for portion in portions(entries):
            first_id = first_id if nodes else portion[0].id
            nodes.append(string(_RAW_ID.pack(*portion[0].id)) + string(write_node(portion)))
    yield length(len(nodes))
    yield from nodes
    counters = image.counters
    yield length(image.length) + _id(counters.last_id)
    if kind >= StreamType.LISTPACKS_2:
        yield _id(first_id) + _id(counters.max_deleted_id) + length(counters.entries_added)
    yield length(len(image.groups))
    for group in image.groups:
        yield _group(group if kind >= StreamType.LISTPACKS_5 else _owned(group), kind)
    if kind >= StreamType.LISTPACKS_4:
        yield _keys(image.keys or _NO_KEYS)


def _owned(group: GroupImage) -> GroupImage:
    """Return a group in which each pending entry has an owner."""
    if all(pending.consumer >= 0 for pending in group.pending):
        return group
    names = [consumer.name for consumer in group.consumers]
    is_there = NOBODY.name in names
    place = names.index(NOBODY.name) if is_there else len(names)
    pending = [
        each if each.consumer >= 0 else PendingImage(each.id, place, 0, each.delivery_count)
        for each in group.pending
    ]
    consumers = group.consumers if is_there else [*group.consumers, NOBODY]
    return GroupImage(group.name, group.last_id, group.entries_read, consumers, pending)


def _group(group: GroupImage, kind: StreamType) -> bytes:
    parts = [string(group.name), _id(group.last_id)]
    if kind >= StreamType.LISTPACKS_2:
        parts.append(length(U64_MAX if group.entries_read is None else group.entries_read))
    held: dict[int, list[bytes]] = {}
    parts.append(length(len(group.pending)))
    for entry_id, owner, at_ms, count in group.pending:
        raw_id = _RAW_ID.pack(*entry_id)
        parts += [raw_id, _DELIVERY.pack(at_ms), length(count)]
        held.setdefault(owner, []).append(raw_id)
    parts.append(length(len(group.consumers)))
    for place, consumer in enumerate(group.consumers):
        parts += [string(consumer.name), _DELIVERY.pack(consumer.seen_at_ms)]
        if kind >= StreamType.LISTPACKS_3:
            active_at_ms = consumer.active_at_ms
            parts.append(_DELIVERY.pack(-1 if active_at_ms is None else active_at_ms))
        parts += [length(len(held.get(place, []))), *held.get(place, [])]
    if kind >= StreamType.LISTPACKS_5:
        parts += [length(len(held.get(-1, []))), *held.get(-1, [])]
    return b"".join(parts)


def _keys(keys: KeysImage) -> bytes:
    parts = [length(keys.window_ms // 1000), length(keys.keys_max), length(len(keys.producers))]
    for name, used in keys.producers.items():
        parts += [string(name), length(len(used))]
        parts += [string(key) + _id(entry_id) for key, entry_id in used]
    return b"".join([*parts, length(keys.added_count), length(keys.duplicate_count)])


def _id(entry_id: EntryId) -> bytes:
    return length(entry_id.ms) + length(entry_id.seq)


_VERSION_BYTES = 2
_CHECKSUM_BYTES = 8
_ENTRY_BYTES = 30
"""Memory of an entry besides its names and values: its id, and its part of a chunk."""

_FOOTER_BYTES = _VERSION_BYTES + _CHECKSUM_BYTES


class WrongFooter(RdbError):
    """The version of the payload is not supported, or its checksum is wrong."""


class NoStream(RdbError):
    pass


def read_payload(payload: bytes, room: Share) -> StreamImage:
    """Return the stream in a payload of DUMP. This may take a second for some megabytes.

    The stream's memory is taken from `room`, and stays taken. Raises WrongFooter, NoStream,
    RdbError, Invalid for an entry that is too large, and what `Share.take` raises.
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
        raise source.error("a payload has data after its value")
    return image


def _checked(payload: bytes) -> bytes:
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
    """Yield the parts of a payload; `version` is in the numbering of Redis."""
    kind = stream_type(version)
    parts = bytes((kind,))
    yield parts
    checksum = checksum_of(parts)
    for part in write_stream(image, kind):
        checksum = checksum_of(part, checksum)
        yield part
    footer = version.to_bytes(_VERSION_BYTES, "little")
    yield footer + checksum_of(footer, checksum).to_bytes(_CHECKSUM_BYTES, "little")
