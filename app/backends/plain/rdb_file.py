"""The streams of a snapshot of Redis or Valkey (RDB), as a store that can be read.

1. The file is read once without its entries: what there is, where it begins, and the checksum.
2. The entries of a stream are read in order from where they begin. Requests nearly always
   continue the last one; otherwise the entries are read again from the beginning.
3. The groups of a stream are read once, and kept as long as the stream is copied.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from headgate.app.backends.copying.moving import AT_ONCE
from headgate.app.backends.plain.commands import NOBODY, REDIS_KEYS
from headgate.app.backends.port import Ability
from headgate.app.rdb.events import Event, FileEnd, StreamBegin, StreamCounters, StreamEnd
from headgate.app.rdb.file import read_entries_at, read_file, read_groups_at
from headgate.app.rdb.source import RdbError
from headgate.engine.clock import Clock
from headgate.engine.config import NO_POLICY, StreamConfig
from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.errors import Corrupt, GroupNotFound, StreamNotFound
from headgate.engine.images import GroupImage, KeysImage
from headgate.engine.replies import ConsumerInfo, GroupInfo, PendingItem, PendingSummary, StreamInfo
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import ListPending, SumPending
from headgate.engine.requests.entries import Range
from headgate.engine.requests.groups import DescribeGroup, ListConsumers, ListGroups
from headgate.engine.requests.keyspace import GetExpiry, TellTime
from headgate.engine.requests.streams import DescribeStream, ListStreams


class RdbGroup:
    """A group; each pending entry takes 40 bytes."""

    def __init__(self, image: GroupImage, now_ms: int) -> None:
        pending = image.pending
        self._now_ms = now_ms
        self._ms = array("Q", [each.id.ms for each in pending])
        self._seq = array("Q", [each.id.seq for each in pending])
        self._owner = array("l", [each.consumer for each in pending])
        self._at_ms = array("q", [each.delivered_at_ms for each in pending])
        self._count = array("q", [each.delivery_count for each in pending])
        self._names = [consumer.name for consumer in image.consumers]
        held = Counter(self._owner)
        self.consumers = sorted(
            ConsumerInfo(consumer.name, held[number], max(now_ms - consumer.seen_at_ms, 0), None)
            for number, consumer in enumerate(image.consumers)
            if consumer.name != NOBODY
        )
        self.info = GroupInfo(
            name=image.name,
            last_id=image.last_id,
            entries_read=image.entries_read,
            lag=None,
            pending_count=len(pending),
            released_count=0,
            consumer_count=len(self.consumers),
            policy=NO_POLICY,
        )

    def summary(self) -> PendingSummary:
        count = len(self._ms)
        first, last = (self._id(0), self._id(count - 1)) if count else (None, None)
        return PendingSummary(count, first, last, [], 0)

    def pending(self, start: EntryId, end: EntryId, limit: int) -> list[PendingItem]:
        """Return up to `limit` pending entries from `start` to `end`, both inclusive."""
        begin = bisect_left(range(len(self._ms)), start, key=self._id)
        stop = bisect_right(range(len(self._ms)), end, key=self._id)
        return [self._item(place) for place in range(begin, min(stop, begin + limit))]

    def _id(self, place: int) -> EntryId:
        return EntryId(self._ms[place], self._seq[place])

    def _item(self, place: int) -> PendingItem:
        owner = self._owner[place]
        name = NOBODY if owner < 0 else self._names[owner]
        if name == NOBODY:
            return PendingItem(self._id(place), None, None, self._count[place])
        idle_ms = max(self._now_ms - self._at_ms[place], 0)
        return PendingItem(self._id(place), name, idle_ms, self._count[place])


T = TypeVar("T")


class _Place(NamedTuple):
    begin: StreamBegin
    counters: StreamCounters
    info: StreamInfo


class _Reading:
    def __init__(self, file: BinaryIO, begin: StreamBegin) -> None:
        self.file = file
        self.position = MIN_ID  # everything below has passed
        self._entries = (each for part in read_entries_at(file, begin) for each in part.entries)
        self._next: Entry | None = next(self._entries, None)

    def take(self, request: Range) -> list[Entry]:
        """Return the entries of a range that begins at or after the current position."""
        taken: list[Entry] = []
        size_bytes = 0
        while (entry := self._next) is not None and entry.id <= request.end:
            if entry.id >= request.start:
                size_bytes += entry.size_bytes
                is_too_large = size_bytes > (request.size_bytes_max or size_bytes)
                if len(taken) == request.limit or (taken and is_too_large):
                    break
                taken.append(entry)
            self.position = entry.id.next()
            self._next = next(self._entries, None)
        return taken


class RdbFile:
    abilities: frozenset[Ability] = frozenset()

    def __init__(self, path: Path, database: int, clock: Clock) -> None:
        """Find the streams of the file; raises Corrupt, or OSError if it cannot be read."""
        self._path = path
        self._now_ms = clock.wall_ms()
        self._streams: dict[bytes, _Place] = {}
        self._readings: OrderedDict[bytes, _Reading] = OrderedDict()
        self._groups: OrderedDict[bytes, dict[bytes, RdbGroup]] = OrderedDict()
        self.left_out: Counter[str] = Counter()  # keys that are not listed, by kind
        with self._naming_it(), path.open("rb") as file:
            self._look(read_file(file, with_entries=False), database)
        self._names = sorted(self._streams)
        self._performers: dict[type[Request[Any]], Callable[[Any], Any]] = {
            ListStreams: self._list_streams,
            DescribeStream: lambda request: self._stream(request.stream).info,
            GetExpiry: lambda request: self._stream(request.stream).begin.expires_at_ms,
            TellTime: lambda _: self._now_ms,
            Range: self._range,
            ListGroups: self._list_groups,
            DescribeGroup: lambda request: self._group(request.stream, request.group).info,
            ListConsumers: self._list_consumers,
            ListPending: self._list_pending,
            SumPending: lambda request: self._group(request.stream, request.group).summary(),
        }

    async def perform(self, request: Request[T]) -> T:
        with self._naming_it():
            reply: T = self._performers[type(request)](request)
        return reply

    def close(self) -> None:
        for reading in self._readings.values():
            reading.file.close()

    @contextmanager
    def _naming_it(self) -> Iterator[None]:
        try:
            yield
        except RdbError as error:
            raise Corrupt(self._path.name, error.offset or 0, str(error)) from None

    # What there is

    def _look(self, events: Iterable[Event], database: int) -> None:
        begin: StreamBegin | None = None
        counters: StreamCounters | None = None
        group_count, keys = 0, None
        for event in events:
            match event:
                case StreamBegin():
                    begin, group_count, keys = event, 0, None
                case StreamCounters():
                    counters = event
                case GroupImage():
                    group_count += 1
                case KeysImage():
                    keys = event
                case StreamEnd():
                    assert begin is not None
                    assert counters is not None
                    if begin.database != database:
                        self.left_out["of other databases"] += 1
                    elif (begin.expires_at_ms or self._now_ms + 1) <= self._now_ms:
                        self.left_out["expired"] += 1
                    else:
                        info = _info(begin, counters, group_count, keys)
                        self._streams[begin.name] = _Place(begin, counters, info)
                case FileEnd(counts):
                    others = {
                        f"of type {kind}": n for kind, n in counts.items() if kind != "stream"
                    }
                    self.left_out.update(others)

    def _stream(self, stream: bytes) -> _Place:
        place = self._streams.get(stream)
        if place is None:
            raise StreamNotFound(stream)
        return place

    def _list_streams(self, request: ListStreams) -> list[StreamInfo]:
        begin = 0 if request.after is None else bisect_right(self._names, request.after)
        return [self._streams[name].info for name in self._names[begin : begin + request.limit]]

    # Entries and groups

    def _range(self, request: Range) -> list[Entry]:
        stream = request.stream
        reading = self._readings.pop(stream, None)
        if reading is None or request.start < reading.position:
            if reading is not None:
                reading.file.close()
            reading = _Reading(self._path.open("rb"), self._stream(stream).begin)
        self._readings[stream] = reading
        if len(self._readings) > AT_ONCE:
            self._readings.popitem(last=False)[1].file.close()
        return reading.take(request)

    def _groups_of(self, stream: bytes) -> dict[bytes, RdbGroup]:
        groups = self._groups.get(stream)
        if groups is None:
            begin, counters, _ = self._stream(stream)
            with self._path.open("rb") as file:
                images = read_groups_at(file, begin, counters)
                groups = {image.name: RdbGroup(image, self._now_ms) for image in images}
            self._groups[stream] = groups = dict(sorted(groups.items()))
            if len(self._groups) > AT_ONCE:
                self._groups.popitem(last=False)
        self._groups.move_to_end(stream)
        return groups

    def _group(self, stream: bytes, name: bytes) -> RdbGroup:
        group = self._groups_of(stream).get(name)
        if group is None:
            raise GroupNotFound(stream, name)
        return group

    def _list_groups(self, request: ListGroups) -> list[GroupInfo]:
        infos = [group.info for group in self._groups_of(request.stream).values()]
        return [info for info in infos if request.after is None or info.name > request.after]

    def _list_consumers(self, request: ListConsumers) -> list[ConsumerInfo]:
        consumers = self._group(request.stream, request.group).consumers
        return [each for each in consumers if request.after is None or each.name > request.after]

    def _list_pending(self, request: ListPending) -> list[PendingItem]:
        group = self._group(request.stream, request.group)
        return group.pending(request.start, request.end, request.limit)


def _info(
    begin: StreamBegin, counters: StreamCounters, group_count: int, keys: KeysImage | None
) -> StreamInfo:
    config = StreamConfig()
    if keys is not None and (keys.window_ms, keys.keys_max) != REDIS_KEYS:
        config = StreamConfig(None, None, keys.window_ms, keys.keys_max)
    return StreamInfo(
        name=begin.name,
        epoch=0,
        config=config,
        length=counters.length,
        chunk_count=begin.node_count,
        first_id=counters.first_id,
        last_id=counters.counters.last_id,
        max_deleted_id=counters.counters.max_deleted_id,
        trimmed_through=MIN_ID,
        entries_added=counters.counters.entries_added,
        group_count=group_count,
    )
