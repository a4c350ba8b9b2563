"""Cost: how long a transaction will take, bounded before anything of it is done.

Nothing else runs between the requests of a transaction. Each of them may be cheap, and all of them
dear together: a thousand copies of a stream with thousands of groups take 40 kB to ask for. A cost
is a number of microseconds, about, on the machine of `tests/bench`. `COSTS` has a bound for each
kind of request, by what the request names and by what the streams have. Streams change while a
transaction goes on, so `_Size` keeps what each of them may have by then.

The bounds hold for what multiplies: groups, consumers, pending entries, chunks, ids. The rest is
what was measured: the worst case of everything would refuse honest transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.errors import TransactionTooLong
from headgate.engine.limits import (
    AUTOCLAIM_MAX,
    AUTOCLAIM_SCAN_FACTOR,
    AUTOCLAIM_SCAN_MAX,
    CUT_CHUNKS_MAX,
    DESCRIBED_MAX,
    GROUP_READ_MAX,
    KEYS_SCANNED_MAX,
    NAME_RANGES_AT_ONCE_MAX,
    PENDING_SCAN_MAX,
    REDRIVEN_AT_ONCE_MAX,
    SETTLED_AT_ONCE_MAX,
    TRANSACTION_COST_MAX,
)
from headgate.engine.requests import Request
from headgate.engine.requests import bulk as b
from headgate.engine.requests import deliveries as d
from headgate.engine.requests import entries as e
from headgate.engine.requests import groups as g
from headgate.engine.requests import keyspace as k
from headgate.engine.requests import keyspace as u
from headgate.engine.requests import schedules as h
from headgate.engine.requests import streams as s
from headgate.engine.requests import tables as t
from headgate.engine.requests.commits import CommitSteps
from headgate.engine.requests.keyspace import NameFilter
from headgate.engine.requests.streams import AttributeChange, ChangeAttributes, GetAttributes
from headgate.engine.state.chunk import PARTS_COUNTED
from headgate.engine.state.entries.log import Log
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.pending import PendingEntry
from headgate.engine.state.stream import Stream

_REQUEST = 15
"""Any request: it is decided, recorded, applied, and answered."""

_CHEAP = 1_000
"""Cost of all others beside one dear request."""

_IN_STEPS = u.DumpStream | u.RestoreStream

_ADD = 2
"""One of many appends that are decided together, besides its names and values."""

_PARTS = 8
"""So many names and values of an append take a microsecond; or so many words of anything."""

_BYTES = 1_000
"""So many bytes of an append take a microsecond."""

_COPIED, _DUMPED, _RESTORED = 4, 5, 10
"""A chunk, group, consumer, pending entry or key."""

_DESCRIBED, _DELIVERED, _CLAIMED, _SETTLED = 3, 8, 8, 5
"""An entry or what is known of it; one that becomes pending, or that ends to be."""

_ROW = 250
"""A row of a table: its entry may be the only one that is wanted of its chunk."""

_LOOKS = 10
"""Groups that are looked into for one entry, in a microsecond."""

_LEAVES = 4
"""Groups that go with their stream, in a microsecond; they are freed later."""


class _Size:
    """The maximum size of a stream once the requests before are carried out."""

    __slots__ = ("_stream", "_things", "added_parts", "entries", "groups", "widest_parts")

    def __init__(self, stream: Stream | None) -> None:
        """Start with the present size of a stream; None: there is none."""
        self._stream = stream
        self._things: int | None = None
        self.groups = 0 if stream is None else len(stream.groups)
        self.entries = 0 if stream is None else stream.log.length
        self.added_parts = self.widest_parts = 0  # of the entries that the requests add

    @property
    def log(self) -> Log:
        return _NO_LOG if self._stream is None else self._stream.log

    @property
    def archive(self) -> Log:
        archive = None if self._stream is None else self._stream.archive
        return _NO_LOG if archive is None else archive

    @property
    def attributes(self) -> int:
        return 0 if self._stream is None else len(self._stream.attributes)

    @property
    def things(self) -> int:
        if self._things is None:
            self._things = 0 if self._stream is None else self._stream.thing_count
        return self._things

    def grow(self, things: int, *, groups: int = 0, entries: int = 0) -> None:
        self._things = self.things + things
        self.groups += groups
        self.entries += entries

    def copy(self) -> _Size:
        copy = _Size(self._stream)
        copy._things, copy.groups, copy.entries = self.things, self.groups, self.entries
        copy.added_parts, copy.widest_parts = self.added_parts, self.widest_parts
        return copy


_NO_LOG = Log()


class Cost:
    def __init__(self, keyspace: Keyspace) -> None:
        self.keyspace = keyspace
        self._sizes: dict[bytes, _Size] = {}
        self._total = self._dearest = 0

    def add(self, request: Request[Any]) -> None:
        """Add a request that comes after those before; TransactionTooLong if all cost too much.

        One request has bounds of its own, so the dearest is let through beside cheap ones. What is
        done in steps elsewhere has none for a single step.
        """
        cost_of = COSTS.get(type(request))
        cost = _REQUEST if cost_of is None else cost_of(self, request)
        self._total += cost
        if not isinstance(request, _IN_STEPS):
            self._dearest = max(self._dearest, cost)
        if self._total > TRANSACTION_COST_MAX and self._total - self._dearest > _CHEAP:
            raise TransactionTooLong

    def size(self, name: bytes) -> _Size:
        size = self._sizes.get(name)
        if size is None:
            size = self._sizes[name] = _Size(self.keyspace.find(name))
        return size

    def put(self, name: bytes, size: _Size) -> int:
        """Note that a stream has another size from now on; returns what the one before it costs."""
        groups = self.size(name).groups
        self._sizes[name] = size
        return groups // _LEAVES


# Entries


def _add(cost: Cost, request: e.Add) -> int:
    size, count = cost.size(request.stream), len(request.drafts)
    size.grow(count, entries=count)
    many = [draft.fields for draft in request.drafts]
    parts = list(map(len, many))
    size.added_parts += sum(parts)
    size.widest_parts = max(size.widest_parts, max(parts, default=0))
    taken = _REQUEST + _ADD * count + sum(parts) // _PARTS
    taken += sum(len(part) for fields in many for part in fields) // _BYTES
    if request.idempotent is not None:
        producer, key, _ = request.idempotent
        taken += _REQUEST + (len(producer) + len(key)) // _BYTES
    if request.trim is not None:
        taken += _trimmed(size, request.trim)
    return taken + _changed(request.attributes)


def _changed(change: AttributeChange | None) -> int:
    return 0 if change is None else len(change.values) + len(change.expected)


def _trim(cost: Cost, request: e.Trim) -> int:
    return _REQUEST + _trimmed(cost.size(request.stream), request.to)


def _trim_archive(cost: Cost, request: e.TrimArchive) -> int:
    archive = cost.size(request.stream).archive
    chunk_count = min(archive.chunk_count, CUT_CHUNKS_MAX)
    return 2 * _REQUEST + archive.cost_of(MIN_ID, MAX_ID, 1) + chunk_count // 2


def _trimmed(size: _Size, to: e.TrimTo) -> int:
    """Return the cost of a trim. It cannot remove again what one before it has removed."""
    log, excess, chunks = size.log, 0, 0
    if to.max_length is not None:
        excess = max(size.entries - to.max_length, 0)
        chunks = min(excess, log.chunk_count)
    elif to.min_id is not None:
        chunks = log.chunks_below(to.min_id)
        excess = size.entries if chunks else 0
    if not excess:
        return 0
    if to.references is e.References.KEEP:
        size.entries -= excess if to.max_length is not None else 0
        return log.cost_of(MIN_ID, MAX_ID, 1) + min(chunks, CUT_CHUNKS_MAX) // 2
    looked_at = min(excess, SETTLED_AT_ONCE_MAX)
    return log.cost_of(MIN_ID, MAX_ID, looked_at) + looked_at * (1 + size.groups // _LOOKS)


def _range(cost: Cost, request: e.Range | e.RangeMatching | e.RangePacked) -> int:
    limits = [request.limit, getattr(request, "entries_max", None)]
    limit = min((each for each in limits if each is not None), default=None)
    size, reverse = cost.size(request.stream), isinstance(request, e.Range) and request.reverse
    return _REQUEST + _read_of(size, request.start, request.end, limit, reverse=reverse)


def _read(cost: Cost, request: e.Read) -> int:
    limit = request.limit
    if request.budget is not None:
        entries_max = request.budget.entries_max
        limit = entries_max if limit is None else min(limit, entries_max)
    total = _REQUEST
    for stream, after in request.cursors:
        total += 2
        if isinstance(after, EntryId):
            total += _read_of(cost.size(stream), _behind(after), MAX_ID, limit)
    return total


def _behind(entry_id: EntryId) -> EntryId:
    return entry_id if entry_id == MAX_ID else entry_id.next()


def _read_of(
    size: _Size, start: EntryId, end: EntryId, limit: int | None, *, reverse: bool = False
) -> int:
    limit = size.entries if limit is None else min(limit, size.entries)
    added = min(limit, max(size.entries - size.log.length, 0))
    parts = min(size.added_parts, size.widest_parts * added)
    cost = size.log.cost_of(start, end, limit, reverse=reverse)
    return cost + _DESCRIBED * added + parts // PARTS_COUNTED


def _delete(cost: Cost, request: e.Delete) -> int:
    size = cost.size(request.stream)
    return _REQUEST + _deleted(size, request.ids, request.references)


def _deleted(size: _Size, ids: Sequence[EntryId], references: e.References) -> int:
    """Return the cost of deletes: each entry is looked up when it is decided and when it goes."""
    looked_into = 0 if references is e.References.KEEP else size.groups // _LOOKS
    looked_up = size.log.cost_of_ids(ids) + size.archive.cost_of_ids(ids)
    return 2 * looked_up + len(ids) * (2 + 2 * looked_into)


# Deliveries


def _settle(cost: Cost, request: d.Ack | d.Extend | d.GiveBack | e.FindTimes) -> int:
    del cost
    ids = request.counts if isinstance(request, d.GiveBack) else request.ids
    return _REQUEST + _SETTLED * len(ids)


def _ack_through(cost: Cost, request: d.AckThrough) -> int:
    return _REQUEST + _SETTLED * min(cost.size(request.stream).things, SETTLED_AT_ONCE_MAX)


def _ack_and_delete(cost: Cost, request: d.AckAndDelete) -> int:
    size = cost.size(request.stream)
    return _settle_ids(request.ids) + _deleted(size, request.ids, request.references)


def _settle_ids(ids: Sequence[EntryId]) -> int:
    return _REQUEST + _SETTLED * len(ids)


def _nack(cost: Cost, request: d.Nack) -> int:
    size = cost.size(request.stream)
    size.grow(len(request.ids))
    looked_up = size.log.cost_of_ids(request.ids) if request.force else 0
    return _settle_ids(request.ids) + _SETTLED * len(request.ids) + looked_up


def _claim(cost: Cost, request: d.Claim) -> int:
    size = cost.size(request.stream)
    size.grow(len(request.ids) + 1)
    read = size.log.cost_of_ids if request.just_id else size.log.cost_of_reading
    return _REQUEST + _CLAIMED * len(request.ids) + 2 * read(request.ids)


def _autoclaim(cost: Cost, request: d.Autoclaim) -> int:
    size = cost.size(request.stream)
    claimed = min(request.limit, AUTOCLAIM_MAX, size.things)
    looked_at = min(claimed * AUTOCLAIM_SCAN_FACTOR, AUTOCLAIM_SCAN_MAX, size.things)
    size.grow(1)
    group = _group(cost, request.stream, request.group)
    pending = () if group is None or request.just_id else group.pel.walk(request.start)
    return _REQUEST + _CLAIMED * claimed + looked_at + _handed_out(size, pending, claimed)


def _handed_out(size: _Size, pending: Iterable[PendingEntry], limit: int) -> int:
    """Return the cost of reading the first pending entries, up to a limit."""
    return size.log.cost_of_reading(each.id for each in islice(pending, limit))


def _group(cost: Cost, stream: bytes, group: bytes) -> Group | None:
    state = cost.keyspace.find(stream)
    return None if state is None else state.groups.get(group)


def _read_group(cost: Cost, request: d.ReadGroup) -> int:
    limit = min(
        GROUP_READ_MAX if request.limit is None else request.limit,
        GROUP_READ_MAX if request.budget is None else request.budget.entries_max,
        GROUP_READ_MAX,
    )
    total = _REQUEST
    for stream, after in request.cursors:
        size, group = cost.size(stream), _group(cost, stream, request.group)
        delivered = min(limit, size.things if after is not None else size.entries)
        if after is None and group is not None and _is_caught_up(size, group):
            delivered = 0
        if request.idle_ms_min is not None:
            delivered = min(limit, delivered + size.things)
        size.grow(delivered + 1)
        total += _REQUEST + _DELIVERED * delivered
        if group is not None:
            total += _read_for(group, request, size, after, delivered)
    return total


def _is_caught_up(size: _Size, group: Group) -> bool:
    return size.log.last_id <= group.last_id and size.entries <= size.log.length


def _read_for(
    group: Group, request: d.ReadGroup, size: _Size, after: EntryId | None, limit: int
) -> int:
    """Return the cost of reading entries that are pending, or new to a group."""
    if after is None:
        pending = () if request.idle_ms_min is None else group.pel.walk()
        new = _read_of(size, _behind(group.last_id), MAX_ID, limit)
        return new + _handed_out(size, pending, limit)
    consumer = group.consumers.get(request.consumer)
    held = () if consumer is None else consumer.pending.walk(_behind(after))
    return _handed_out(size, held, limit)


def _list_pending(cost: Cost, request: d.ListPending) -> int:
    there = min(cost.size(request.stream).things, PENDING_SCAN_MAX)
    returned = min(there, request.limit)
    looked_at = there if request.min_idle_ms else returned
    return _REQUEST + looked_at + _DESCRIBED * returned


def _sum_pending(cost: Cost, request: d.SumPending) -> int:
    consumers = _consumers(cost, request.stream, request.group)
    return _REQUEST + consumers // 8 + min(consumers, DESCRIBED_MAX)


def _redrive(cost: Cost, request: d.Redrive) -> int:
    del cost
    return _REQUEST + 100 * min(request.limit, REDRIVEN_AT_ONCE_MAX)


# Groups


def _consumers(cost: Cost, stream: bytes, group: bytes) -> int:
    reader = _group(cost, stream, group)
    return cost.size(stream).things if reader is None else len(reader.consumers)


def _list_groups(cost: Cost, request: g.ListGroups) -> int:
    return _REQUEST + _DESCRIBED * _at_most(request.limit, cost.size(request.stream).groups)


def _list_consumers(cost: Cost, request: g.ListConsumers) -> int:
    consumers = _consumers(cost, request.stream, request.group)
    return _REQUEST + _DESCRIBED * _at_most(request.limit, consumers)


def _list_keys(cost: Cost, request: g.ListKeys) -> int:
    group = _group(cost, request.stream, request.group)
    keys = 0 if group is None or group.ahead is None else group.ahead.key_count
    return _REQUEST + _DESCRIBED * (min(keys, KEYS_SCANNED_MAX) + request.limit)


def _read_table(cost: Cost, request: t.ReadTable) -> int:
    del cost
    return _REQUEST + _ROW * request.limit


def _change_row(cost: Cost, request: t.ReadRow | t.PutRow | t.DeleteRow) -> int:
    cost.size(request.stream).grow(1)
    return _REQUEST + _ROW


def _create_group(cost: Cost, request: g.CreateGroup) -> int:
    cost.size(request.stream).grow(1, groups=1)
    return 2 * _REQUEST


def _create_consumer(cost: Cost, request: g.CreateConsumer) -> int:
    cost.size(request.stream).grow(1)
    return 2 * _REQUEST


def _with_groups(cost: Cost, request: g.UpdateGroup | g.DestroyGroup | k.SetCounters) -> int:
    return 2 * _REQUEST + cost.size(request.stream).groups // _LOOKS


def _delete_consumer(cost: Cost, request: g.DeleteConsumer) -> int:
    return _REQUEST + _SETTLED * min(cost.size(request.stream).things, SETTLED_AT_ONCE_MAX)


# Streams


def _named(cost: Cost, request: k.GetRevisions | k.IfUnchanged | k.RequireGroups) -> int:
    del cost
    return _REQUEST + len(request.streams)


def _delete_streams(cost: Cost, request: k.DeleteStreams) -> int:
    gone = sum(cost.put(name, _Size(None)) for name in request.streams)
    return _REQUEST * (1 + len(request.streams)) + gone


def _expire(cost: Cost, request: k.ExpireStream) -> int:
    return _REQUEST + cost.size(request.stream).groups // _LEAVES


def _delete_stream(cost: Cost, request: s.DeleteStream) -> int:
    return _REQUEST + cost.put(request.stream, _Size(None))


def _close_stream(cost: Cost, request: s.CloseStream) -> int:
    added = e.Add(request.stream, request.drafts, request.idempotent)
    changed = _changed(request.attributes)
    return _REQUEST + changed + (_add(cost, added) if request.drafts else 0)


def _create_stream(cost: Cost, request: s.CreateStream) -> int:
    del cost
    return _REQUEST + _changed(request.attributes)


def _get_attributes(cost: Cost, request: GetAttributes) -> int:
    names = request.names
    return _REQUEST + (cost.size(request.stream).attributes if names is None else len(names))


def _change_attributes(cost: Cost, request: ChangeAttributes) -> int:
    del cost
    return _REQUEST + _changed(request.change)


def _rename(cost: Cost, request: k.RenameStream) -> int:
    size = cost.size(request.stream)
    replaced = cost.put(request.to, size)
    cost.put(request.stream, _Size(None))
    return 2 * _REQUEST + size.groups // _LOOKS + replaced


def _copy(cost: Cost, request: u.CopyStream) -> int:
    size = cost.size(request.stream).copy()
    return 2 * _REQUEST + _COPIED * size.things + cost.put(request.to, size)


def _dump(cost: Cost, request: u.DumpStream) -> int:
    size = cost.size(request.stream)
    return 2 * _REQUEST + _DUMPED * size.things


def _restore(cost: Cost, request: u.RestoreStream) -> int:
    size, image = _Size(None), request.image
    size.grow(image.thing_count, groups=len(image.groups), entries=image.length)
    packed = sum(len(chunk.packed) for chunk in image.chunks) // 50
    return 2 * _REQUEST + _RESTORED * size.things + packed + cost.put(request.stream, size)


def _measure(cost: Cost, request: u.MeasureStream) -> int:
    return _REQUEST + cost.size(request.stream).groups // _LEAVES


def _inspect(cost: Cost, request: k.InspectStream) -> int:
    size = cost.size(request.stream)
    ends = size.log.cost_of(MIN_ID, MAX_ID, 1) + size.log.cost_of(MIN_ID, MAX_ID, 1, reverse=True)
    if not request.full:
        return _REQUEST + ends
    described = min(size.things + size.entries, request.described_max)
    return _REQUEST + ends + _DESCRIBED * described + size.groups // _LOOKS


def _update_stream(cost: Cost, request: s.UpdateStream) -> int:
    size = cost.size(request.stream)
    return 2 * _REQUEST + min(size.log.chunk_count, CUT_CHUNKS_MAX) // 2


def _remember_key(cost: Cost, request: k.RememberKey) -> int:
    size = cost.size(request.stream)
    size.grow(1)
    size_bytes = len(request.producer) + len(request.key)
    return 2 * _REQUEST + size_bytes // _BYTES + size.log.cost_of_ids([request.entry_id])


# All streams


def _all_names(cost: Cost, request: k.ListNames | k.PickName) -> int:
    named = 0 if request.only is None else _filtered(request.only)
    is_listed = isinstance(request, k.ListNames) or request.only is not None
    return _REQUEST + named + (len(cost.keyspace.streams) // _LOOKS if is_listed else 0)


def _scan(cost: Cost, request: k.ScanNames) -> int:
    shown = 0 if request.only is None else _filtered(request.only)
    return _REQUEST + shown + min(request.count, len(cost.keyspace.streams)) // 5


def _count_streams(cost: Cost, request: k.CountStreams) -> int:
    del cost
    if request.streams is not None:
        return _REQUEST + len(request.streams)
    return _REQUEST + (0 if request.only is None else _filtered(request.only))


def _filtered(only: NameFilter) -> int:
    return 7 * min(len(only.names) + len(only.prefixes), NAME_RANGES_AT_ONCE_MAX)


def _list_streams(cost: Cost, request: s.ListStreams) -> int:
    del cost
    return _REQUEST + _DESCRIBED * request.limit + _filtered(request.only or NameFilter())


def _plan(cost: Cost, request: b.PlanRead) -> int:
    del cost
    return _REQUEST * (1 + len(request.cursors))


def _commit(cost: Cost, request: b.CommitBatch) -> int:
    return sum(_add(cost, e.Add(name, drafts)) for name, drafts in request.drafts.items())


def _commit_steps(cost: Cost, request: CommitSteps) -> int:
    return sum(COSTS[type(step)](cost, step) for step in request.steps)


def _at_most(limit: int | None, count: int) -> int:
    return count if limit is None else min(limit, count)


def _once(cost: Cost, request: Request[Any]) -> int:
    del cost, request
    return _REQUEST


COSTS: Mapping[type[Request[Any]], Callable[[Cost, Any], int]] = {
    e.Add: _add,
    e.Delete: _delete,
    e.FindTimes: _settle,
    e.Range: _range,
    e.RangeMatching: _range,
    e.RangePacked: _range,
    e.Read: _read,
    e.Trim: _trim,
    e.TrimArchive: _trim_archive,
    d.Ack: _settle,
    d.AckAndDelete: _ack_and_delete,
    d.AckThrough: _ack_through,
    d.Autoclaim: _autoclaim,
    d.Claim: _claim,
    d.Extend: _settle,
    d.GiveBack: _settle,
    d.ListPending: _list_pending,
    d.Nack: _nack,
    d.ReadGroup: _read_group,
    d.Redrive: _redrive,
    d.SumPending: _sum_pending,
    g.CreateConsumer: _create_consumer,
    g.CreateGroup: _create_group,
    g.DeleteConsumer: _delete_consumer,
    g.DescribeConsumer: _once,
    g.DescribeGroup: _once,
    g.DestroyGroup: _with_groups,
    g.ListConsumers: _list_consumers,
    g.ListKeys: _list_keys,
    g.ListGroups: _list_groups,
    g.UpdateGroup: _with_groups,
    u.CopyStream: _copy,
    u.DumpStream: _dump,
    u.MeasureStream: _measure,
    u.RestoreStream: _restore,
    t.ReadTable: _read_table,
    t.ReadRow: _change_row,
    t.PutRow: _change_row,
    t.DeleteRow: _change_row,
    k.ChangeDefaults: _once,
    k.CountStreams: _count_streams,
    k.DeleteAll: _once,
    k.DeleteStreams: _delete_streams,
    k.DescribeKeyspace: _once,
    k.ExpireStream: _expire,
    k.GetDefaults: _once,
    k.GetExpiry: _once,
    k.GetRevisions: _named,
    k.IfUnchanged: _named,
    k.InspectStream: _inspect,
    k.ListNames: _all_names,
    k.PersistStream: _once,
    k.PickName: _all_names,
    k.RememberKey: _remember_key,
    k.RenameStream: _rename,
    k.RequireGroups: _named,
    k.ScanNames: _scan,
    k.SetCounters: _with_groups,
    k.TellTime: _once,
    k.TimeToLive: _once,
    ChangeAttributes: _change_attributes,
    GetAttributes: _get_attributes,
    s.CreateStream: _create_stream,
    s.CloseStream: _close_stream,
    s.DeleteStream: _delete_stream,
    s.DescribeStream: _once,
    s.ListStreams: _list_streams,
    s.UpdateStream: _update_stream,
    h.DeleteSchedule: _once,
    h.GetSchedule: _once,
    h.PassSchedule: _once,
    h.RunSchedule: _once,
    h.SetSchedule: _once,
    b.CommitBatch: _commit,
    CommitSteps: _commit_steps,
    b.LastCommit: _once,
    b.PlanRead: _plan,
}
"""The function for the cost of each kind of request."""
