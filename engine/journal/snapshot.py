"""Snapshot: a whole keyspace as one file, so that the journal before it can go.

The blocks of the file are lists of items. A stream is followed by its chunks and keys, then by each
of its groups with the pending entries. The last item counts the others, so a file that ends early
is noticed. Sealed chunks are written as they are in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

import msgspec

from headgate.engine.commands import TailLost
from headgate.engine.config import GroupPolicy, StreamConfig
from headgate.engine.entry import MIN_ID, EntryId, EntryTimes, size_of
from headgate.engine.errors import Corrupt
from headgate.engine.journal.records import Block, Header, Kind, pack_block, pack_header
from headgate.engine.limits import BLOCK_BYTES_MAX, ENTRY_BYTES_MAX, SNAPSHOT_ITEMS_MAX
from headgate.engine.packing import packed_count, unpacked_bytes
from headgate.engine.replies import Commit
from headgate.engine.schedules import ScheduleInfo
from headgate.engine.state.ahead import AheadRun
from headgate.engine.state.chunk import ChunkState
from headgate.engine.state.defaults import Defaults
from headgate.engine.state.group import Group
from headgate.engine.state.idempotency import Made
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import Memory
from headgate.engine.state.pending import Consumer, Pel
from headgate.engine.state.stream import Stream
from headgate.engine.state.table import StreamTable


class KeyspaceItem(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The first item: what belongs to no stream."""

    epoch: int
    defaults: Defaults
    clock_set_ms: int = 0
    latest_ms: int = 0
    extent_files: list[int] = []  # numbers of those that its extents lie in
    last_extent_file: int = 0  # the greatest number ever given to one
    lost_tails: list[TailLost] = []
    former_ids: list[tuple[bytes, EntryId]] = []  # last ids of deleted streams, the oldest first


class StreamItem(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A stream, without what is in it."""

    name: bytes
    epoch: int
    config: StreamConfig
    last_id: EntryId
    max_deleted_id: EntryId
    trimmed_through: EntryId
    entries_added: int
    expires_at_ms: int | None
    keys_added: int
    key_duplicates: int
    lost: list[tuple[EntryId, EntryId]] = []
    closed_at_ms: int | None = None
    gone_through: EntryId | None = None  # None: `trimmed_through`
    former_id: EntryId = MIN_ID


class ChunkItem(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A chunk of the stream before it, or of its archive."""

    chunk: ChunkState
    is_archived: bool = False


class KeysItem(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Idempotency keys of a producer of the stream before it, by use; maybe in several items."""

    producer: bytes
    keys: list[tuple[bytes, Made]]


class GroupItem(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """A group of the stream before it, with its consumers but without what is pending."""

    name: bytes
    last_id: EntryId
    entries_read: int | None
    policy: GroupPolicy
    consumers: list[tuple[bytes, int, int | None]]  # name, seen, active (steady ms)


class PendingRow(NamedTuple):
    id: EntryId
    consumer: int  # its consumer's place in the group, -1 for nobody
    delivered_at_ms: int
    delivery_count: int
    delayed_until_ms: int
    is_hidden: bool  # its stream entry is gone, so nobody gets it


class PendingPage(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Pending entries of the group before it, the longest waiting first."""

    entries: list[PendingRow]


class ErrorsPage(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Errors of pending entries of the group before it, the oldest first."""

    errors: list[tuple[EntryId, bytes]]


class TurnsPage(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """The keys of pending entries of the group before it, those of a key in order of turns."""

    keys: list[tuple[EntryId, bytes]]
    later: list[tuple[EntryId, bytes, int]] = []  # delayed, and when each is due (steady ms)
    ahead: list[AheadRun] = []  # what is ahead of the group, in order of turns


class TimesPage(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Times of entries of the stream before it, by id: when each is due and expires (steady)."""

    times: list[tuple[EntryId, int | None, int | None]]


class AttributesItem(msgspec.Struct, frozen=True, array_like=True, tag=38):
    values: dict[bytes, bytes]

    @property
    def pairs(self) -> Iterable[tuple[bytes, bytes]]:
        return self.values.items()


class RowsPage(msgspec.Struct, frozen=True, array_like=True, tag=39):
    """Rows of the stream before it as a table, in order of their keys; see `RowIndex.dump`."""

    through: EntryId  # entries up to here are indexed
    pairs: list[tuple[bytes, bytes]]
    deleted: list[tuple[bytes, EntryId]] = []  # see `StreamTable.deleted`


class EndItem(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The end, with the number of items before it."""

    item_count: int


class ExtentsItem(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """Lines of the index of a stream that comes later, or of its archive; see `Extents.dump`."""

    stream: bytes
    epoch: int
    columns: list[bytes]
    dead: list[tuple[int, bytes]]
    is_archived: bool = False


class WritersItem(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Writers and what they have committed last, in order of commit."""

    writers: list[tuple[bytes, Commit]]


class SchedulesItem(msgspec.Struct, frozen=True, array_like=True, tag=37):
    """Schedules, by name. Those that do not fit into one block are in several items."""

    schedules: list[ScheduleInfo]


Item = (
    KeyspaceItem
    | StreamItem
    | ChunkItem
    | KeysItem
    | GroupItem
    | PendingPage
    | EndItem
    | WritersItem
    | ErrorsPage
    | ExtentsItem
    | TurnsPage
    | TimesPage
    | SchedulesItem
    | AttributesItem
    | RowsPage
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Item]).decode


def pieces(keyspace: Keyspace, position: int) -> Iterator[bytes]:
    """Yield the file of a state, which must not change meanwhile, piece by piece."""
    header = Header(Kind.SNAPSHOT, position)
    yield pack_header(header)
    count, size_bytes = 0, 0
    items: list[Item] = []
    for item in _items(keyspace):
        ends_index = bool(items) and isinstance(items[-1], ExtentsItem)
        if ends_index and not isinstance(item, ExtentsItem):  # damage takes one or the other
            yield pack_block(header, count, 0, _encode(items))
            count += len(items)
            items, size_bytes = [], 0
        items.append(item)
        size_bytes += _size_bytes(item)
        if len(items) == SNAPSHOT_ITEMS_MAX or size_bytes >= BLOCK_BYTES_MAX:
            yield pack_block(header, count, 0, _encode(items))
            count += len(items)
            items, size_bytes = [], 0
    yield pack_block(header, count, 0, _encode([*items, EndItem(count + len(items))]))


def _size_bytes(item: Item) -> int:
    match item:
        case ChunkItem(chunk):
            return len(chunk.packed)
        case ExtentsItem():
            return sum(map(len, item.columns)) + sum(len(bits) for _, bits in item.dead)
        case ErrorsPage(errors):
            return sum(len(error) for _, error in errors)
        case TurnsPage(keys, later, ahead):
            named = chain((key for _, key in keys), (key for _, key, _ in later))
            return sum(map(len, named)) + sum(2 * len(run.majors) for run in ahead)
        case KeysItem(producer, used):
            return len(producer) + sum(len(key) for key, _ in used)
        case AttributesItem() | RowsPage():
            return sum(len(name) + len(value) for name, value in item.pairs)
        case SchedulesItem(schedules):
            return sum(size_of(info.definition.fields) for info in schedules)
    return 0


def load(blocks: Iterable[Block], name: str, keyspace: Keyspace | None = None) -> Keyspace:
    """Return the state that a snapshot stands for; `keyspace` is an empty one to fill."""
    loading = Loading(keyspace or Keyspace())
    offset = 0
    for block in blocks:
        offset = block.offset
        loading.take(block, name)
    if not loading.is_complete:
        raise Corrupt(name, offset, "the end is missing")
    return loading.keyspace


def extent_files(block: Block, name: str) -> list[int]:
    """Return the numbers of the extent files, from the first block of a snapshot."""
    match _items_of(block, name):
        case [KeyspaceItem() as first, *_]:
            return first.extent_files
    raise Corrupt(name, block.offset, "the first item is missing")


def index(blocks: Iterable[Block], name: str) -> Iterator[ExtentsItem]:
    """Yield the lines of the index of all streams. It stops reading where they end."""
    for block in blocks:
        for item in _items_of(block, name):
            if isinstance(item, ExtentsItem):
                yield item
            elif not isinstance(item, KeyspaceItem):
                return


def first_stream(block: Block, name: str) -> bytes | None:
    match _items_of(block, name):
        case [ExtentsItem(stream), *_]:
            return stream
    return None


def _items_of(block: Block, name: str) -> list[Item]:
    try:
        return _decode(block.payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(name, block.offset, f"an item makes no sense: {error}") from None


class Loading:
    def __init__(self, keyspace: Keyspace, items_max: int | None = None) -> None:
        """Fill an empty keyspace; items behind the first `items_max` are left out."""
        self._items_max = items_max
        self.keyspace = keyspace
        self._extents: dict[bytes, list[ExtentsItem]] = {}  # of streams that come later
        self.item_count = 0
        self.is_complete = False
        self._stream: Stream
        self._group: Group
        self._consumers: list[Consumer]

    def take(self, block: Block, name: str) -> None:
        items = _items_of(block, name)
        if block.first != self.item_count or self.is_complete:
            raise Corrupt(name, block.offset, f"items are missing before item {block.first}")
        try:
            for item in items:
                if self.item_count == self._items_max:
                    return
                self._add(item)
        except MemoryError:  # the machine's, and not the item's
            raise
        except Exception as error:
            text = f"item {self.item_count} makes no sense: {error!r}"
            raise Corrupt(name, block.offset, text) from error

    def _add(self, item: Item) -> None:
        match item:
            case EndItem(item_count):
                self.is_complete = item_count == self.item_count
            case KeyspaceItem() | WritersItem() | ExtentsItem() | SchedulesItem():
                self._add_before_streams(item)
            case _:
                self._add_to_stream(item)
        self.item_count += 1

    def _add_to_stream(
        self,
        item: StreamItem
        | AttributesItem
        | RowsPage
        | ChunkItem
        | TimesPage
        | KeysItem
        | GroupItem
        | PendingPage
        | TurnsPage
        | ErrorsPage,
    ) -> None:
        match item:
            case StreamItem():
                self._stream = _stream(item, self.keyspace.memory)
                self.keyspace.adopt(self._stream)
                for lines in self._extents.pop(item.name, ()):
                    self._stream.load_extents(lines.columns, lines.dead, lines.is_archived)
            case ChunkItem(chunk):
                _check_chunk(chunk)
                self._stream.load(chunk, is_archived=item.is_archived)
            case GroupItem():
                self._group, self._consumers = _group(item, self._stream)
                self._stream.groups[item.name] = self._group
                if self._group.policy.acts_by_time:
                    self.keyspace.governed.add(self._stream.name)
            case PendingPage() | TurnsPage() | ErrorsPage():
                _fill(self._group, self._consumers, item)
                self._stream.note_turns()
            case AttributesItem() | RowsPage() | TimesPage() | KeysItem():
                self._add_beside_entries(item)

    def _add_beside_entries(self, item: AttributesItem | RowsPage | TimesPage | KeysItem) -> None:
        match item:
            case AttributesItem(values):
                self._stream.set_attributes(values)
            case RowsPage(through, pairs, deleted):
                self._stream.load_rows(through, pairs, deleted)
            case TimesPage(times):
                self._stream.set_times((each[0], EntryTimes(*each[1:])) for each in times)
                self.keyspace.note_times(self._stream.name)
            case KeysItem(producer, keys):
                self._stream.keys.load(producer, keys)
                self.keyspace.note_keyed(self._stream.name)

    def _add_before_streams(
        self, item: KeyspaceItem | WritersItem | ExtentsItem | SchedulesItem
    ) -> None:
        match item:
            case SchedulesItem(schedules):
                for info in schedules:
                    self.keyspace.add_schedule(info)
            case KeyspaceItem(epoch, defaults, clock_set_ms, latest_ms, _, last_extent_file):
                self.keyspace.last_extent_file = last_extent_file
                self.keyspace.lost_tails += item.lost_tails
                self.keyspace.former_ids.update(item.former_ids)
                self.keyspace.epoch, self.keyspace.defaults = epoch, defaults
                self.keyspace.clock_set_ms, self.keyspace.latest_ms = clock_set_ms, latest_ms
            case WritersItem(writers):
                self.keyspace.writers.by_name = dict(writers)
            case ExtentsItem(stream):
                self._extents.setdefault(stream, []).append(item)


def _items(keyspace: Keyspace) -> Iterator[Item]:
    yield KeyspaceItem(
        keyspace.epoch,
        keyspace.defaults,
        keyspace.clock_set_ms,
        keyspace.latest_ms,
        sorted(keyspace.memory.files),
        keyspace.last_extent_file,
        keyspace.lost_tails,
        list(keyspace.former_ids.items()),
    )
    for stream in keyspace.streams.values():
        yield from _extents_items(stream)
    if keyspace.writers.by_name:
        yield WritersItem(list(keyspace.writers.by_name.items()))
    infos = iter(keyspace.schedules.by_name.values())
    while schedules := list(islice(infos, _SCHEDULES)):
        yield SchedulesItem(schedules)
    for stream in keyspace.streams.values():
        yield from _stream_items(stream)


def _stream_items(stream: Stream) -> Iterator[Item]:
    yield StreamItem(
        stream.name,
        stream.epoch,
        stream.config,
        stream.last_id,
        stream.max_deleted_id,
        stream.trimmed_through,
        stream.entries_added,
        stream.expires_at_ms,
        stream.keys.added,
        stream.keys.duplicates,
        stream.lost,
        stream.closed_at_ms,
        stream.gone_through,
        stream.former_id,
    )
    if stream.attributes:
        yield AttributesItem(stream.attributes)
    if stream.table is not None:
        yield from _rows_items(stream.table)
    for log in stream.logs:
        is_archived = log is stream.archive
        yield from (ChunkItem(state, is_archived) for state in log.dump())
    times = iter(()) if stream.deadlines is None else stream.deadlines.items()
    while timed := list(islice(times, _PAGE)):
        yield TimesPage([(entry_id, *each) for entry_id, each in timed])
    for producer, keys in stream.keys.by_producer.items():
        yield from _keys_items(producer, keys)
    for group in stream.groups.values():
        yield from _group_items(group)


def _extents_items(stream: Stream) -> Iterator[Item]:
    for log in stream.logs:
        is_archived, extents = log is stream.archive, log.extents
        for low in range(0, len(extents), _LINES):
            lines = extents.dump(low, min(low + _LINES, len(extents)))
            yield ExtentsItem(stream.name, stream.epoch, *lines, is_archived)


def _rows_items(table: StreamTable) -> Iterator[Item]:
    blocks = table.rows.dump()
    yield RowsPage(table.through, list(islice(blocks, _ROWS_PAGE)))
    while rows := list(islice(blocks, _ROWS_PAGE)):
        yield RowsPage(table.through, rows)
    deleted = iter(table.deleted.items())
    while keys := list(islice(deleted, _PAGE)):
        yield RowsPage(table.through, [], keys)


def _keys_items(producer: bytes, keys: dict[bytes, Made]) -> Iterator[Item]:
    portion: list[tuple[bytes, Made]] = []
    size_bytes = 0
    for key, made in keys.items():
        portion.append((key, made))
        size_bytes += len(key)
        if size_bytes >= BLOCK_BYTES_MAX:
            yield KeysItem(producer, portion)
            portion, size_bytes = [], 0
    if portion:
        yield KeysItem(producer, portion)


def _group_items(group: Group) -> Iterator[Item]:
    consumers = list(group.consumers.values())
    named = [(consumer.name, consumer.seen_at_ms, consumer.active_at_ms) for consumer in consumers]
    yield GroupItem(group.name, group.last_id, group.entries_read, group.policy, named)
    index_of: dict[Consumer | None, int] = {
        consumer: index for index, consumer in enumerate(consumers)
    }
    index_of[None] = -1
    pel = group.pel
    rows = (
        PendingRow(
            entry.id,
            index_of[entry.owner],
            entry.delivered_at_ms,
            entry.delivery_count,
            entry.delayed_until_ms,
            pel.is_hidden(entry),
        )
        for entry in pel.in_time_order()
    )
    while page := list(islice(rows, _PAGE)):
        yield PendingPage(page)
    keys = iter(()) if pel.turns is None else pel.turns.items()
    while named_keys := list(islice(keys, _PAGE)):
        yield TurnsPage(named_keys)
    later = iter(()) if pel.turns is None else pel.turns.later()
    while delayed := list(islice(later, _PAGE)):
        yield TurnsPage([], delayed)
    runs = group.dump_indexes()
    while ahead := list(islice(runs, _RUNS_PAGE)):
        yield TurnsPage([], [], ahead)
    errors = iter(pel.errors.items())
    while failed := list(islice(errors, _ERRORS_PAGE)):
        yield ErrorsPage(failed)


_LINES = 4096
"""Lines of an index in one item."""

_SCHEDULES = 256
"""Schedules in one item. Each one has up to 16 KiB of fields."""

_PAGE = 4096
"""Pending entries in one item."""

_RUNS_PAGE = 64
"""Runs in one item. Each one has up to 1,024 ids of 16 bytes."""

_ROWS_PAGE = 32
"""Blocks of rows in one item. Each one has up to 128 keys."""

_ERRORS_PAGE = 256
"""Errors in one item. Each one has up to 4 kB."""


def _check_chunk(chunk: ChunkState) -> None:
    size_bytes = unpacked_bytes(chunk.packed)
    if not 0 <= size_bytes <= _UNPACKED_BYTES_MAX:
        raise ValueError(f"a chunk of {size_bytes} bytes")
    if not 0 < chunk.entry_count == packed_count(chunk.packed):
        raise ValueError(f"a chunk that says it has {chunk.entry_count} entries")
    dead = int.from_bytes(chunk.tombstones, "little")
    if dead.bit_length() > chunk.entry_count or dead.bit_count() == chunk.entry_count:
        raise ValueError("more entries are dead than there are")


_UNPACKED_BYTES_MAX = 2 * ENTRY_BYTES_MAX
"""Size of one entry, all of it names and values, as msgpack, amply."""


def _stream(item: StreamItem, memory: Memory) -> Stream:
    stream = Stream(item.name, item.epoch, item.config, memory)
    stream.last_id = item.last_id
    stream.max_deleted_id = item.max_deleted_id
    stream.trimmed_through = item.trimmed_through
    stream.entries_added = item.entries_added
    stream.expires_at_ms = item.expires_at_ms
    stream.keys.added = item.keys_added
    stream.keys.duplicates = item.key_duplicates
    stream.lost, stream.closed_at_ms = item.lost, item.closed_at_ms
    gone_through = item.gone_through
    stream.gone_through = item.trimmed_through if gone_through is None else gone_through
    stream.former_id = item.former_id
    return stream


def _group(item: GroupItem, stream: Stream) -> tuple[Group, list[Consumer]]:
    group = stream.add_group(item.name, item.last_id, item.entries_read)
    stream.set_policy(group, item.policy)
    consumers = []
    for name, seen_at_ms, active_at_ms in item.consumers:
        consumer = group.see(name, seen_at_ms)
        consumer.active_at_ms = active_at_ms
        consumers.append(consumer)
    return group, consumers


def _fill(
    group: Group, consumers: list[Consumer], page: PendingPage | TurnsPage | ErrorsPage
) -> None:
    pel = group.pel
    match page:
        case PendingPage():
            _make_pending(pel, consumers, page.entries)
        case TurnsPage():
            pel.fill_turns(page.keys, page.later)
            group.load_indexes(page.ahead)
        case ErrorsPage():
            for entry_id, error in page.errors:
                pel.note_error(entry_id, error)


def _make_pending(pel: Pel, consumers: list[Consumer], rows: list[PendingRow]) -> None:
    for entry_id, index, at_ms, count, delayed_until_ms, is_hidden in rows:
        if index < 0:
            pel.release(entry_id, count, delayed_until_ms)
        else:
            pel.assign(entry_id, consumers[index], at_ms, count)
        if is_hidden:
            pel.hide(pel.by_id[entry_id])
