"""Writer: the value of a stream as bytes, in the grammar of `streams`."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from headgate.app.rdb.nodes import portions, write_node
from headgate.app.rdb.strings import length, string
from headgate.app.rdb.types import StreamType
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.images import (
    ConsumerImage,
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
    """Yield the bytes of a stream, part by part; each part is a node or a group."""
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
    """Return a group in which all that is pending has an owner."""
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
