"""Restoring: a stream is filled from an image, in steps, or from another stream."""

from __future__ import annotations

from itertools import islice

from headgate.engine.entry import EntryId
from headgate.engine.images import GroupImage, KeysImage, StreamImage
from headgate.engine.limits import COUNT_MAX, IDEMPOTENCY_KEYS_MAX, RESTORED_AT_ONCE_MAX
from headgate.engine.packing import compressed
from headgate.engine.state.chunk import Chunk
from headgate.engine.state.group import Group
from headgate.engine.state.idempotency import Made
from headgate.engine.state.memory import Memory, Pieces
from headgate.engine.state.pending import Consumer, Pel
from headgate.engine.state.stream import Stream


def fill(stream: Stream, image: StreamImage, clock_set_ms: int) -> Pieces:
    """Fill an empty stream step by step; steady time is image time less `clock_set_ms`."""
    chunks = iter(image.chunks)
    while portion := list(islice(chunks, RESTORED_AT_ONCE_MAX // 10)):  # they are compressed
        stream.attach(
            [
                Chunk.sealed(first_id, last_id, count, compressed(packed), is_run=is_run)
                for first_id, last_id, count, packed, is_run in portion
            ]
        )
        yield
    stream.last_id, stream.max_deleted_id, stream.entries_added = image.counters
    for each in image.groups:
        group = stream.add_group(each.name, each.last_id, each.entries_read)
        yield from _fill_group(group, each, clock_set_ms)
    if image.keys is not None:
        yield from _fill_keys(stream, image.keys, clock_set_ms)


def _fill_group(group: Group, image: GroupImage, clock_set_ms: int) -> Pieces:
    consumers: list[Consumer] = []
    for name, seen_at_ms, active_at_ms in image.consumers:
        consumer = group.see(name, _steady(seen_at_ms, clock_set_ms))
        if active_at_ms is not None:
            consumer.active_at_ms = _steady(active_at_ms, clock_set_ms)
        consumers.append(consumer)
        if not len(consumers) % RESTORED_AT_ONCE_MAX:
            yield
    for at, (entry_id, owner, delivered_at_ms, count) in enumerate(image.pending):
        if owner < 0:
            group.pel.release(entry_id, count)
        else:
            at_ms = _steady(delivered_at_ms, clock_set_ms)
            group.pel.assign(entry_id, consumers[owner], at_ms, count)
        if not at % RESTORED_AT_ONCE_MAX:
            yield
    yield


def _fill_keys(stream: Stream, image: KeysImage, clock_set_ms: int) -> Pieces:
    keys_max = min(max(image.keys_max, 1), IDEMPOTENCY_KEYS_MAX)
    for producer, used in image.producers.items():
        last = dict(used[-keys_max:])
        if last:
            keys = [(key, _made(entry_id, clock_set_ms)) for key, entry_id in last.items()]
            stream.keys.load(producer, keys)
        yield
    stream.keys.added, stream.keys.duplicates = image.added_count, image.duplicate_count


def _made(entry_id: EntryId, clock_set_ms: int) -> Made:
    """Return the append of a key; Redis takes the time of the entry as that of the use."""
    return Made(entry_id, 1, b"", _steady(min(entry_id.ms, COUNT_MAX), clock_set_ms))


def _steady(wall_ms: int, clock_set_ms: int) -> int:
    return max(wall_ms - clock_set_ms, 0)


def copied(source: Stream, name: bytes, epoch: int, memory: Memory) -> Stream:
    stream = Stream(name, epoch, source.config, memory)
    stream.log.copy_from(source.log)
    stream.last_id, stream.max_deleted_id = source.last_id, source.max_deleted_id
    stream.trimmed_through, stream.entries_added = source.trimmed_through, source.entries_added
    stream.gone_through = source.trimmed_through
    stream.lost, stream.expires_at_ms = list(source.lost), source.expires_at_ms
    for producer, keys in source.keys.by_producer.items():
        stream.keys.load(producer, list(keys.items()))
    stream.keys.added, stream.keys.duplicates = source.keys.added, source.keys.duplicates
    stream.set_attributes(source.attributes)
    if source.deadlines is not None:
        stream.set_times(source.deadlines.items())
    for each in source.groups.values():
        group = stream.add_group(each.name, each.last_id, each.entries_read)
        stream.set_policy(group, each.policy)
        for consumer in each.consumers.values():
            group.see(consumer.name, consumer.seen_at_ms).active_at_ms = consumer.active_at_ms
        if each.pel:
            _copy_pending(each.pel, group)
        if each.indexes:
            group.load_indexes(each.dump_indexes())
            stream.note_turns()
    return stream


def _copy_pending(pel: Pel, group: Group) -> None:
    for entry in pel.in_time_order():
        if entry.owner is None:
            group.pel.release(entry.id, entry.delivery_count, entry.delayed_until_ms)
        else:
            owner = group.consumers[entry.owner.name]
            group.pel.assign(entry.id, owner, entry.delivered_at_ms, entry.delivery_count)
    if pel.turns is not None:
        group.pel.fill_turns(pel.turns.items(), pel.turns.later())
    for entry_id, error in pel.errors.items():
        group.pel.note_error(entry_id, error)
