"""Streams: reads the value of a stream.

```text
stream   = nodes:length (key node){nodes} count:length last_id [first_id max_deleted_id added:length]
           groups:length group{groups} [keys]
group    = name:string last_id [read:length] pending:length pending{} consumers:length consumer{} [free]
pending  = id16 delivered_at_ms:u64 deliveries:length
consumer = name:string seen_at_ms:u64 [active_at_ms:u64] held:length id16{held}
free     = count:length id16{count}                             pending, and nobody's
keys     = window_s:length max:length producers:length producer{} added:length repeated:length
producer = name:string count:length (key:string ms:length seq:length){count}
```

An id is two lengths; `id16`, and the key of a node, are 16 bytes with the high ones first. Times are
little-endian. Nodes and keys of nodes are strings. What stands in brackets depends on the type.
"""  # noqa: E501 the lines of the grammar

from __future__ import annotations

import struct
from collections.abc import Iterator

from headgate.app.rdb.events import StreamCounters, StreamEntries
from headgate.app.rdb.listpack import BadListpack, read_node
from headgate.app.rdb.source import Source, StreamType
from headgate.app.rdb.strings import read_length, read_string, skip_string
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.images import ConsumerImage, CountersImage, GroupImage, KeysImage, PendingImage
from headgate.engine.limits import COUNT_MAX, U64_MAX

_RAW_ID = struct.Struct(">QQ")
_NOBODY = -1

_PENDING_BYTES = 500
_CONSUMER_BYTES = 400
_GROUP_BYTES = 1_000
_KEY_BYTES = 300
"""Memory of a key once it was read, about, besides its name."""


def read_stream(
    source: Source, kind: StreamType, node_count: int, *, with_entries: bool = True
) -> Iterator[StreamEntries | StreamCounters | GroupImage | KeysImage]:
    """Yield the parts of a stream; the source is after the number of nodes."""
    length, first_id, newest_id = 0, MIN_ID, MIN_ID
    for part in read_entries(source, node_count if with_entries else min(node_count, 1)):
        first_id = first_id if length else part.entries[0].id
        length, newest_id = length + len(part.entries), part.entries[-1].id
        yield part
    if not with_entries:
        for _ in range(2 * (node_count - 1)):
            skip_string(source)
    claimed, counters = _read_counters(source, kind)
    if claimed != length and with_entries:
        raise source.error(f"a stream of {length} entries says that it has {claimed}")
    if newest_id > counters.last_id:
        raise source.error("a stream has an entry above its last id")
    facts = StreamCounters(claimed, first_id, counters, source.offset)
    yield facts
    yield from read_groups(source, kind, facts)
    if kind >= StreamType.LISTPACKS_4:
        yield _read_keys(source)


def read_entries(source: Source, node_count: int) -> Iterator[StreamEntries]:
    """Yield the entries; the source is after the number of nodes."""
    newest_id = MIN_ID
    for _ in range(node_count):
        for part in _read_node(source):
            if part.entries[0].id <= newest_id:
                raise source.error("the ids of a stream do not ascend")
            newest_id = part.entries[-1].id
            yield part


def read_groups(source: Source, kind: StreamType, facts: StreamCounters) -> Iterator[GroupImage]:
    """Yield the groups; the source is after the counters of the stream."""
    names = set()
    for _ in source.count(read_length(source), _GROUP_BYTES):
        group = _read_group(source, kind)
        if kind < StreamType.LISTPACKS_2:
            read = _entries_read(group.last_id, facts.first_id, facts.counters)
            group = GroupImage(group.name, group.last_id, read, group.consumers, group.pending)
        if group.name in names:
            raise source.error("a stream has two groups of one name")
        names.add(group.name)
        yield group


def _read_node(source: Source) -> Iterator[StreamEntries]:
    key, node = read_string(source), read_string(source)
    if len(key) != _RAW_ID.size:
        raise source.error("the key of a node is no id")
    try:
        base = EntryId(*_RAW_ID.unpack(key))
        for entries in read_node(base, node, lambda count: source.take_room(0, count)):
            yield StreamEntries(entries)
    except BadListpack as error:
        raise source.error(str(error)) from None
    source.give_room_back(len(key) + len(node))


def _read_counters(source: Source, kind: StreamType) -> tuple[int, CountersImage]:
    length = read_length(source)
    last_id = _read_id(source)
    if kind < StreamType.LISTPACKS_2:
        return length, CountersImage(last_id, MIN_ID, length)
    _read_id(source)  # the first id, which is known
    max_deleted_id, entries_added = _read_id(source), read_length(source)
    if not length <= entries_added <= COUNT_MAX:
        raise source.error("a stream has more entries than were ever added")
    return length, CountersImage(last_id, max_deleted_id, entries_added)


def _entries_read(last_id: EntryId, first_id: EntryId, counters: CountersImage) -> int | None:
    """Return the entries-read count of a group in a file without it; None if unknown."""
    length = counters.entries_added  # there is no other count
    if not length or last_id == counters.last_id:
        return length
    if last_id > counters.last_id:
        return None
    if last_id <= first_id:
        return int(last_id == first_id)
    return None


# Groups


def _read_group(source: Source, kind: StreamType) -> GroupImage:
    name, last_id = read_string(source), _read_id(source)
    entries_read: int | None = None
    if kind >= StreamType.LISTPACKS_2:
        read = read_length(source)
        entries_read = None if read == U64_MAX else min(read, COUNT_MAX)
    deliveries = _read_deliveries(source)
    owners: dict[EntryId, int] = {}
    consumers: list[ConsumerImage] = []
    names = set()
    for _ in source.count(read_length(source), _CONSUMER_BYTES):
        consumer = _read_consumer(source, kind)
        if consumer.name in names:
            raise source.error("a group has two consumers of one name")
        names.add(consumer.name)
        _read_held(source, len(consumers), deliveries, owners)
        consumers.append(consumer)
    if kind >= StreamType.LISTPACKS_5:
        _read_held(source, _NOBODY, deliveries, owners)
    if len(owners) != len(deliveries):
        raise source.error("a pending entry belongs to no consumer")
    pending = [
        PendingImage(entry_id, owners[entry_id], at_ms, count)
        for entry_id, (at_ms, count) in deliveries.items()
    ]
    return GroupImage(name, last_id, entries_read, consumers, pending)


def _read_deliveries(source: Source) -> dict[EntryId, tuple[int, int]]:
    """Return the time and count of each pending entry's deliveries, by ascending id."""
    deliveries: dict[EntryId, tuple[int, int]] = {}
    newest_id = (-1, -1)
    for _ in source.count(read_length(source), _PENDING_BYTES):
        entry_id = _read_raw_id(source)
        if entry_id <= newest_id:
            raise source.error("the ids of pending entries do not ascend")
        newest_id = entry_id
        deliveries[entry_id] = _read_time(source) or 0, min(read_length(source), COUNT_MAX)
    return deliveries


def _read_consumer(source: Source, kind: StreamType) -> ConsumerImage:
    name, seen_at_ms = read_string(source), _read_time(source) or 0
    if kind < StreamType.LISTPACKS_3:
        return ConsumerImage(name, seen_at_ms, seen_at_ms)
    return ConsumerImage(name, seen_at_ms, _read_time(source))


def _read_held(
    source: Source,
    owner: int,
    deliveries: dict[EntryId, tuple[int, int]],
    owners: dict[EntryId, int],
) -> None:
    for _ in source.count(read_length(source), 0):
        entry_id = _read_raw_id(source)
        if entry_id not in deliveries:
            raise source.error("a consumer holds what is not pending")
        if owners.setdefault(entry_id, owner) != owner:
            raise source.error("two consumers hold one entry")


# Idempotency keys


def _read_keys(source: Source) -> KeysImage:
    window_s, keys_max = read_length(source), read_length(source)
    producers: dict[bytes, list[tuple[bytes, EntryId]]] = {}
    for _ in source.count(read_length(source), _KEY_BYTES):
        name = read_string(source)
        if name in producers:
            raise source.error("a stream has two producers of one name")
        count = source.count(read_length(source), _KEY_BYTES)
        producers[name] = [(read_string(source), _read_id(source)) for _ in count]
    added, repeated = read_length(source), read_length(source)
    window_ms = min(window_s * 1000, COUNT_MAX)
    return KeysImage(
        window_ms,
        min(keys_max, COUNT_MAX),
        producers,
        min(added, COUNT_MAX),
        min(repeated, COUNT_MAX),
    )


# Ids and times


def _read_id(source: Source) -> EntryId:
    return EntryId(read_length(source), read_length(source))


def _read_raw_id(source: Source) -> EntryId:
    return EntryId(*_RAW_ID.unpack(source.take(_RAW_ID.size)))


def _read_time(source: Source) -> int | None:
    """Return a unix time in ms; None means never."""
    at_ms = source.number(8, signed=True)
    return None if at_ms < 0 else at_ms
