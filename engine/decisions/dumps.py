"""Decisions about streams as a whole: dump, restore and copy; how much memory one takes."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from headgate.engine.commands import Command, ExpirySet, StreamCopied, StreamDeleted, StreamRestored
from headgate.engine.config import StreamConfig
from headgate.engine.decisions import Decision, Decisions
from headgate.engine.decisions.keys import key_limits
from headgate.engine.decisions.policies import check_reach
from headgate.engine.errors import LimitReached, StreamExists, StreamTooLarge
from headgate.engine.images import (
    ConsumerImage,
    CountersImage,
    EntriesImage,
    GroupImage,
    KeysImage,
    PendingImage,
    StreamImage,
)
from headgate.engine.limits import (
    COPIED_MAX,
    COUNT_MAX,
    DUMPED_MAX,
    IDEMPOTENCY_KEYS_MAX,
    IDEMPOTENCY_WINDOW_MS_MAX,
    IDEMPOTENCY_WINDOW_MS_MIN,
    RESTORED_AT_ONCE_MAX,
)
from headgate.engine.packing import encode_entries, unpacked_bytes
from headgate.engine.requests.keyspace import CopyStream, DumpStream, MeasureStream, RestoreStream
from headgate.engine.state.bounds import KeyspaceBounds
from headgate.engine.state.chunk import Chunk, ChunkState
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.pending import Consumer
from headgate.engine.state.stream import Stream

_seen_at_ms, _active_at_ms = attrgetter("seen_at_ms"), attrgetter("active_at_ms")
_owner, _delivered_at_ms = attrgetter("owner"), attrgetter("delivered_at_ms")
_delivery_count = attrgetter("delivery_count")

_THINGS = "chunks, groups, consumers, pending entries and keys"


class Dump:
    """A stream as it was at one moment, of which an image is made in steps."""

    def __init__(self, keyspace: Keyspace, request: DumpStream) -> None:
        """Note the state of the stream; raises StreamNotFound or StreamTooLarge."""
        stream = keyspace.stream(request.stream)
        if stream.thing_count > DUMPED_MAX:
            raise StreamTooLarge(f"{_THINGS} in one dump", DUMPED_MAX)
        self._size_bytes_max = request.size_bytes_max
        self._clock_set_ms = keyspace.clock_set_ms
        self.extents = stream.log.extents.part(0, len(stream.log.extents))
        self._memory, self._size_bytes = keyspace.memory, 0
        self._chunks = list(stream.log.dump())
        counters = CountersImage(stream.last_id, stream.max_deleted_id, stream.entries_added)
        self._groups = [_Noted(group) for group in stream.groups.values()]
        self.image = StreamImage([], counters, [], _keys_image(keyspace, stream))

    def add_extent(self, index: int) -> None:
        """Add an extent's entries: in order, before all steps; Missing if not in memory."""
        for chunk in self.extents.chunks(index):
            self._add(chunk.dump())

    def _add(self, state: ChunkState) -> None:
        self._grow(unpacked_bytes(state.packed))
        self.image.chunks.append(_chunk_image(state))

    def steps(self) -> Iterator[None]:
        self._grow(0 if self.image.keys is None else _size_bytes(self.image.keys))
        for at, state in enumerate(self._chunks):
            self._add(state)
            if not at % (RESTORED_AT_ONCE_MAX // 10):
                yield
        for noted in self._groups:
            group = noted.image()
            self.image.groups.append(group)
            for consumers in noted.consumers(self._clock_set_ms):
                group.consumers.extend(consumers)
                yield
            for rows in noted.pending(self._clock_set_ms):
                group.pending.extend(rows)
                yield

    def close(self) -> None:
        self.extents.close(self._memory)

    def _grow(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        if self._size_bytes > self._size_bytes_max:
            raise StreamTooLarge("bytes in one dump", self._size_bytes_max)


def _keys_image(keyspace: Keyspace, stream: Stream) -> KeysImage | None:
    """Return idempotency keys as an image, without those of batches; None: it never had any."""
    keys = stream.keys
    if not (keys.by_producer or keys.added or keys.duplicates):
        return None
    producers = {
        producer: [(key, made.first_id) for key, made in used.items() if made.length == 1]
        for producer, used in keys.by_producer.items()
    }
    limits = key_limits(keyspace, stream.config)
    return KeysImage(*limits, producers, keys.added, keys.duplicates)


def _size_bytes(keys: KeysImage) -> int:
    return sum(
        len(producer) + sum(len(key) for key, _ in used)
        for producer, used in keys.producers.items()
    )


class _Noted:
    """A group as it was at one moment.

    What may change is noted in columns. They refer to what is there, so nothing is made for each
    pending entry or consumer, which would take longer and make Python collect garbage meanwhile.
    """

    def __init__(self, group: Group) -> None:
        # What is ahead comes again: an image has no place for what was delivered behind it.
        entries_read = None if group.ahead_count else group.entries_read
        self._facts = group.name, group.position, entries_read
        self._consumers = list(group.consumers.values())
        self._seen_at_ms = list(map(_seen_at_ms, self._consumers))
        self._active_at_ms = list(map(_active_at_ms, self._consumers))
        self._pending = list(group.pel.walk())
        self._owners = list(map(_owner, self._pending))
        self._delivered_at_ms = list(map(_delivered_at_ms, self._pending))
        self._delivery_counts = list(map(_delivery_count, self._pending))
        self._places: dict[Consumer | None, int] = {None: -1}

    def image(self) -> GroupImage:
        return GroupImage(*self._facts, [], [])

    def consumers(self, clock_set_ms: int) -> Iterator[list[ConsumerImage]]:
        """Yield some consumers at a time; steady time is image time less `clock_set_ms`."""
        for part in _parts(len(self._consumers)):
            consumers = self._consumers[part]
            self._places.update(zip(consumers, range(part.start, part.stop), strict=False))
            times = zip(consumers, self._seen_at_ms[part], self._active_at_ms[part], strict=True)
            yield [
                ConsumerImage(
                    consumer.name,
                    seen_at_ms + clock_set_ms,
                    None if active_at_ms is None else active_at_ms + clock_set_ms,
                )
                for consumer, seen_at_ms, active_at_ms in times
            ]

    def pending(self, clock_set_ms: int) -> Iterator[list[PendingImage]]:
        places = self._places
        for part in _parts(len(self._pending)):
            rows = zip(
                self._pending[part],
                self._owners[part],
                self._delivered_at_ms[part],
                self._delivery_counts[part],
                strict=True,
            )
            yield [
                PendingImage(
                    entry.id,
                    places[owner],
                    0 if owner is None else max(at_ms + clock_set_ms, 0),
                    count,
                )
                for entry, owner, at_ms, count in rows
            ]


def _parts(count: int) -> Iterator[slice]:
    for start in range(0, count, RESTORED_AT_ONCE_MAX):
        yield slice(start, start + RESTORED_AT_ONCE_MAX)


def _chunk_image(state: ChunkState) -> EntriesImage:
    if not state.is_open and not any(state.tombstones):
        return EntriesImage(*state[:3], state.packed, state.is_run)
    chunk = Chunk.load(state)
    alive = chunk.between(state.first_id, state.last_id)
    return EntriesImage(alive[0].id, alive[-1].id, len(alive), encode_entries(alive))


def dump_stream(keyspace: Keyspace, request: DumpStream, now_ms: int) -> Decision[StreamImage]:
    del now_ms
    dump = Dump(keyspace, request)
    try:
        for index in range(len(dump.extents)):
            dump.add_extent(index)
        for _ in dump.steps():
            pass
    finally:
        dump.close()
    return Decision(dump.image, [])


def restore_stream(keyspace: Keyspace, request: RestoreStream, now_ms: int) -> Decision[None]:
    name, image = request.stream, request.image
    commands = check_replaced(keyspace, name, replace=request.replace)
    expires_at_ms = request.expires_at_ms
    if request.ttl_ms is not None:
        expires_at_ms = min(now_ms + request.ttl_ms, COUNT_MAX)
    if expires_at_ms is not None and expires_at_ms <= now_ms:
        return Decision(None, commands)
    _check_bounds(keyspace.bounds, image)
    keyspace.bounds.check_another_stream(len(keyspace.streams) - len(commands))
    config = StreamConfig() if image.keys is None else _config_of(image.keys)
    commands.append(StreamRestored(name, keyspace.next_epoch(now_ms), config, image))
    if expires_at_ms is not None:
        commands.append(ExpirySet(name, expires_at_ms))
    return Decision(None, commands)


def check_replaced(keyspace: Keyspace, name: bytes, *, replace: bool) -> list[Command]:
    if keyspace.find(name) is None:
        return []
    if not replace:
        raise StreamExists(name)
    return [StreamDeleted(name)]


def _check_bounds(bounds: KeyspaceBounds, image: StreamImage) -> None:
    producer_count = 0 if image.keys is None else len(image.keys.producers)
    counts = [
        ("groups in this stream", len(image.groups), bounds.groups_max),
        ("producers in this stream", producer_count, bounds.producers_max),
    ]
    consumers_max = bounds.consumers_max
    counts += [
        ("consumers in this group", len(group.consumers), consumers_max) for group in image.groups
    ]
    for what, count, limit in counts:
        if count > limit:
            raise LimitReached(what, limit)


def _config_of(keys: KeysImage) -> StreamConfig:
    window_ms = max(keys.window_ms, IDEMPOTENCY_WINDOW_MS_MIN)
    return StreamConfig(
        idempotency_window_ms=min(window_ms, IDEMPOTENCY_WINDOW_MS_MAX),
        idempotency_max=min(max(keys.keys_max, 1), IDEMPOTENCY_KEYS_MAX),
    )


def copy_stream(keyspace: Keyspace, request: CopyStream, now_ms: int) -> Decision[bool]:
    name, to = request.stream, request.to
    stream = keyspace.stream(name)
    if to == name or (keyspace.find(to) is not None and not request.replace):
        return Decision(False, [])
    if stream.thing_count > COPIED_MAX:
        raise StreamTooLarge(f"{_THINGS} in one copy", COPIED_MAX)
    check_reach(stream, to, request.reach)
    commands = check_replaced(keyspace, to, replace=True)
    keyspace.bounds.check_another_stream(len(keyspace.streams) - len(commands))
    return Decision(True, [*commands, StreamCopied(name, to, keyspace.next_epoch(now_ms))])


def measure_stream(keyspace: Keyspace, request: MeasureStream, now_ms: int) -> Decision[int]:
    del now_ms
    return Decision(keyspace.stream(request.stream).memory_bytes, [])


DECISIONS: Decisions = {
    DumpStream: dump_stream,
    RestoreStream: restore_stream,
    CopyStream: copy_stream,
    MeasureStream: measure_stream,
}
