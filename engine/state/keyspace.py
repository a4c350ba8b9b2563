"""Keyspace: every stream by name, and `apply`, the only way to change anything in it.

`apply` takes decided commands, from a live request or from the journal. It cannot fail, because the
decision has checked everything that could be wrong. No clock, no I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice, repeat
from typing import Any

from sortedcontainers import SortedDict, SortedSet

from headgate.engine import commands as c
from headgate.engine.config import StreamConfig
from headgate.engine.entry import MIN_ID, EntryId, EntryTimes
from headgate.engine.errors import GroupNotFound, NoArchive, StreamNotFound
from headgate.engine.limits import COUNT_MAX, FORMER_STREAMS_MAX, LOST_MAX
from headgate.engine.schedules import ScheduleInfo
from headgate.engine.state import restoring
from headgate.engine.state.bounds import KeyspaceBounds
from headgate.engine.state.defaults import Defaults
from headgate.engine.state.extent import require_each
from headgate.engine.state.group import Group, Pace
from headgate.engine.state.idempotency import Writers
from headgate.engine.state.memory import Memory, Pieces, free
from headgate.engine.state.revisions import Revisions
from headgate.engine.state.schedules import ScheduleIndex
from headgate.engine.state.schemas import Schemas
from headgate.engine.state.stream import Stream
from headgate.engine.state.table import RowChange

_THING_US, _LOOKUP_US, _ENTRY_US = 7, 20, 3
"""Microseconds for a group, consumer, pending entry or chunk that is made; for an entry that is
looked up; and for one that is pending."""

_LOOKS = 10
"""Groups that are looked at in a microsecond."""


_LOOKING = (
    *(c.StreamTrimmed, c.EntriesDeleted, c.EntriesLost, c.EntriesEvicted),
    *(c.ArchiveTrimmed, c.CountersSet),
)
"""Commands that look into chunks when they are applied."""


class Keyspace:
    def __init__(self) -> None:
        self.streams: SortedDict[bytes, Stream] = SortedDict()  # by name, in byte order
        self.keyed: set[bytes] = set()  # streams that remember idempotency keys
        self.retaining: set[bytes] = set()  # streams whose entries go by themselves
        self.tables: SortedSet[bytes] = SortedSet()  # streams that are tables as well
        # Streams with a group whose policy acts by time, or with entries that have times.
        self.governed: SortedSet[bytes] = SortedSet()
        # Streams of which something may go earlier than was known when they were last looked at.
        self.unplanned: dict[bytes, None] = {}
        # Streams that will go, and before them when (unix ms): the next one comes first. A dict, as
        # every request asks whether there are any, which takes a set of this library a call.
        self.expiring: SortedDict[tuple[int, bytes], None] = SortedDict()
        # Last ids of deleted streams: later ones of these names tell readers what they missed.
        self.former_ids: OrderedDict[bytes, EntryId] = OrderedDict()
        self.defaults = Defaults()
        self.writers = Writers()
        self.lost_tails: list[c.TailLost] = []  # the same list for all streams
        self.schedules = ScheduleIndex()
        self.revisions = Revisions()  # of streams, for those who watch them; never recorded
        self.epoch = 0  # the greatest of all streams ever made
        # Deliveries, rests, consumers, keys and writers have steady times: see `clock`.
        self.clock_set_ms = 0  # by how much the wall clock was set, all in all
        self.latest_ms = 0  # the latest steady time that was ever recorded as now
        self.memory = Memory()  # what the streams take
        self.copied_count = 0  # streams that were copied
        self.last_extent_file = 0  # the greatest number ever given to one
        self.replay_us = 0  # to apply all commands again, besides reading them, about
        self.dispose: Callable[[Pieces], None] = free  # of what is no longer part of it
        # Streams that were made of what is about to be restored, by name.
        self.prepared: dict[bytes, Stream] = {}
        # Asked when something new is decided, not when it is applied.
        self.bounds = KeyspaceBounds()
        self.has_bucket = False
        self.schemas = Schemas()
        self._apply = self._appliers()

    def _appliers(self) -> dict[type, Callable[[Any], None]]:
        return {
            c.StreamCreated: self._create_stream,
            c.StreamConfigured: self._configure_stream,
            c.StreamDeleted: self._delete_stream,
            c.EntriesAdded: self._add,
            c.StreamTrimmed: self._trim,
            c.EntriesDeleted: self._delete,
            c.GroupCreated: self._create_group,
            c.GroupMoved: self._set_group,
            c.GroupDestroyed: self._destroy_group,
            c.ConsumerSeen: self._see_consumer,
            c.ConsumerDeleted: self._delete_consumer,
            c.EntriesDelivered: self._deliver,
            c.EntriesRedelivered: self._redeliver,
            c.EntriesAcked: self._ack,
            c.EntriesReleased: self._release,
            c.EntriesClaimed: self._claim,
            c.PendingPurged: self._purge,
            c.EntriesEvicted: self._evict,
            c.KeyRemembered: self._remember,
            c.DuplicateCounted: self._count_duplicate,
            c.KeysForgotten: self._forget_keys,
            c.CountersSet: self._set_stream,
            c.StreamRenamed: self._rename_stream,
            c.ExpirySet: self._set_expiry,
            c.DefaultsSet: self._set_defaults,
            c.PolicySet: self._set_policy,
            c.EntriesDelayed: self._delay,
            c.BatchCommitted: self._commit_batch,
            c.AllDeleted: self._flush,
            c.ChunksAdded: self._add_packed,
            c.ClockSet: self._set_clock,
            c.StreamRestored: self._restore,
            c.StreamCopied: self._copy,
            c.ErrorNoted: self._note_error,
            c.EntriesLost: self._lose,
            c.TailLost: self._lose_tail,
            c.AttributesChanged: self._set_attributes,
            c.EntriesHeld: self._hold,
            c.EntriesTimed: self._set_times,
            c.EntriesExpired: self._expire,
            c.ArchiveTrimmed: self._trim_archive,
            c.EntriesIndexed: self._index,
            c.EntriesPassed: self._pass,
            c.RowsIndexed: self._index_rows,
            c.RowsForgotten: self._forget_rows,
            c.StreamClosed: self._close_stream,
            c.ScheduleSet: self._set_schedule,
            c.ScheduleDeleted: self._delete_schedule,
            c.ScheduleAdvanced: self._advance_schedule,
        }

    def find(self, stream: bytes) -> Stream | None:
        return self.streams.get(stream)

    def stream(self, stream: bytes) -> Stream:
        stream_state = self.streams.get(stream)
        if stream_state is None:
            raise StreamNotFound(stream)
        return stream_state

    def group(self, stream: bytes, group: bytes) -> Group:
        holder = self.streams.get(stream)
        group_state = holder.groups.get(group) if holder is not None else None
        if group_state is None:
            raise GroupNotFound(stream, group, stream_exists=holder is not None)
        return group_state

    def check_bucket(self) -> None:
        if not self.has_bucket:
            raise NoArchive

    def next_epoch(self, now_ms: int) -> int:
        """Return the identity for a stream that is about to be made: greater than all before."""
        return max(now_ms, self.epoch + 1)

    def steady_ms(self, wall_ms: int) -> int:
        return wall_ms - self.clock_set_ms

    def wall_ms(self, steady_ms: int) -> int:
        return steady_ms + self.clock_set_ms

    def require(self, commands: Sequence[c.Command]) -> None:
        """Check that what `apply` looks into is in memory, or raise Missing."""
        if self.memory.cold_bytes:
            looking = [command for command in commands if isinstance(command, _LOOKING)]
            require_each(partial(self._require, command) for command in looking)

    def _require(self, command: c.Command) -> None:
        match command:
            # The same commands may make the stream: then nothing of it is cold.
            case c.StreamTrimmed(name, through) if name in self.streams:
                self.streams[name].log.require_end(through)
            case c.EntriesDeleted(name, ids) if name in self.streams:
                self.streams[name].require_all(ids)
            case c.EntriesLost(name, first_id, last_id) if name in self.streams:
                for log in self.streams[name].logs:
                    log.extents.require_lost(first_id, last_id)
            case c.ArchiveTrimmed(name, through) | c.CountersSet(name, through) if (
                name in self.streams and self.streams[name].archive is not None
            ):
                self.streams[name].logs[0].require_end(through)
            case c.EntriesEvicted(name, ids) if name in self.streams:
                self.streams[name].log.require_all(ids)

    def apply(self, command: c.Command) -> None:
        self._apply[type(command)](command)

    def adopt(self, stream: Stream) -> None:
        """Take over a stream that was made elsewhere, such as from a snapshot."""
        self.streams[stream.name] = stream
        stream.lost_tails = self.lost_tails
        self._note_config(stream.name, stream.config)
        self.note_policies(stream)
        if stream.keys.by_producer:
            self.note_keyed(stream.name)
        if stream.deadlines is not None:
            self.note_times(stream.name)
        if stream.expires_at_ms is not None:
            self.expiring[stream.expires_at_ms, stream.name] = None

    def hide(self, stream: bytes, group: bytes, ids: Sequence[EntryId]) -> None:
        """Leave pending entries out of searches for the longest idle: no read can claim them.

        That is found by looking, and will be again: no command says it.
        """
        pel = self.group(stream, group).pel
        for entry_id in ids:
            pending = pel.by_id.get(entry_id)
            if pending is not None:
                pel.hide(pending)

    def note_keyed(self, stream: bytes) -> None:
        self.keyed.add(stream)
        self.unplanned[stream] = None

    def note_times(self, stream: bytes) -> None:
        self.unplanned[stream] = None
        self.governed.add(stream)

    def note_policies(self, stream: Stream) -> None:
        groups = stream.groups.values()
        if stream.deadlines is not None or any(group.policy.acts_by_time for group in groups):
            self.governed.add(stream.name)
        else:
            self.governed.discard(stream.name)

    def _create_stream(self, command: c.StreamCreated) -> None:
        assert command.stream not in self.streams
        name, epoch, config = command.stream, command.epoch, command.config
        stream = self.streams[name] = Stream(name, epoch, config, self.memory)
        stream.lost_tails = self.lost_tails
        self._succeed(stream)
        self._note_change(name)
        self.epoch = max(self.epoch, command.epoch)  # a copy of a stream may have an older one
        self._note_config(command.stream, command.config)

    def _restore(self, command: c.StreamRestored) -> None:
        assert command.stream not in self.streams
        stream = self.prepared.pop(command.stream, None)
        if stream is None:
            stream = Stream(command.stream, command.epoch, command.config, self.memory)
            free(restoring.fill(stream, command.image, self.clock_set_ms))
        stream.epoch = command.epoch
        stream.set_config(command.config)
        self.replay_us += _THING_US * command.image.thing_count
        self._add_stream(stream)

    def _copy(self, command: c.StreamCopied) -> None:
        assert command.to not in self.streams
        self.copied_count += 1
        source = self.streams[command.stream]
        self.replay_us += _THING_US * source.thing_count
        self._add_stream(restoring.copied(source, command.to, command.epoch, self.memory))

    def _add_stream(self, stream: Stream) -> None:
        self.adopt(stream)
        self._succeed(stream)
        self.epoch = max(self.epoch, stream.epoch)
        self._note_change(stream.name)

    def _configure_stream(self, command: c.StreamConfigured) -> None:
        former = self.streams[command.stream].set_config(command.config)
        if former is not None:
            self.dispose(former.dismantle())
        self._note_config(command.stream, command.config)
        self.unplanned[command.stream] = None

    def _close_stream(self, command: c.StreamClosed) -> None:
        self.streams[command.stream].closed_at_ms = command.at_ms
        self._note_change(command.stream)

    def _set_attributes(self, command: c.AttributesChanged) -> None:
        self.streams[command.stream].set_attributes(command.values)

    def _delete_stream(self, command: c.StreamDeleted) -> None:
        stream = self.streams.pop(command.stream)
        self._forget(stream)
        self._note_end(stream)
        self.revisions.note_gone(stream.name)
        self._note_looks(stream)
        stream.leave()
        self.dispose(stream.dismantle())

    def _flush(self, _: c.AllDeleted) -> None:
        self.memory = Memory(
            extents=self.memory.extents,
            files=self.memory.files,
            schedules_bytes=self.memory.schedules_bytes,
        )
        self.revisions.note_all_gone(self.streams.keys())
        for stream in islice(self.streams.values(), FORMER_STREAMS_MAX):
            self._note_end(stream)
        self.dispose(_dismantle(self.streams))
        self.streams = SortedDict()
        self.keyed, self.retaining, self.tables = set(), set(), SortedSet()
        self.governed, self.expiring = SortedSet(), SortedDict()
        self.unplanned = {}

    def _note_looks(self, stream: Stream, times: int = 1) -> None:
        self.replay_us += times * (2 + len(stream.groups) // _LOOKS)

    def _note_change(self, stream: bytes) -> None:
        self.streams[stream].revision = self.revisions.next()

    def _forget(self, stream: Stream) -> None:
        self.retaining.discard(stream.name)
        self.tables.discard(stream.name)
        self.governed.discard(stream.name)
        self.keyed.discard(stream.name)
        if stream.expires_at_ms is not None:
            self.expiring.pop((stream.expires_at_ms, stream.name), None)

    def _note_end(self, stream: Stream) -> None:
        last_id = max(stream.last_id, stream.former_id)
        if last_id > MIN_ID:
            self.former_ids[stream.name] = last_id
            self.former_ids.move_to_end(stream.name)
            if len(self.former_ids) > FORMER_STREAMS_MAX:
                self.former_ids.popitem(last=False)

    def drafted(self, name: bytes, epoch: int) -> Stream:
        """Return a stream as it will be once it is created, to decide what goes into it."""
        stream = Stream(name, epoch, StreamConfig())
        stream.former_id = self.former_ids.get(name, MIN_ID)
        return stream

    def _succeed(self, stream: Stream) -> None:
        """Note which stream had the name before."""
        stream.former_id = self.former_ids.pop(stream.name, MIN_ID)
        if stream.log.length:
            self._note_first(stream, stream.log.first_id)

    def _note_first(self, stream: Stream, first_id: EntryId) -> None:
        if first_id <= stream.former_id:  # it has the same ids once more: nobody can tell
            stream.former_id = MIN_ID
        if stream.name in self.retaining:
            self.unplanned[stream.name] = None

    def _reached(self, wall_ms: int) -> int:
        steady_ms = max(wall_ms - self.clock_set_ms, 0)
        self.latest_ms = max(self.latest_ms, steady_ms)
        return steady_ms

    def _set_clock(self, command: c.ClockSet) -> None:
        set_ms = self.clock_set_ms + command.by_ms
        self.clock_set_ms = min(max(set_ms, -COUNT_MAX), COUNT_MAX)

    def _note_config(self, stream: bytes, config: StreamConfig) -> None:
        if config.retains:
            self.retaining.add(stream)
            self.unplanned[stream] = None
        else:
            self.retaining.discard(stream)
        if config.key_field is None:
            self.tables.discard(stream)
        else:
            self.tables.add(stream)

    def _add(self, command: c.EntriesAdded) -> None:
        stream = self.streams[command.stream]
        assert command.entries[0].id > stream.last_id
        if not stream.log.length:
            self._note_first(stream, command.entries[0].id)
        stream.extend(command.entries, self.defaults.node_limits)

    def _add_packed(self, command: c.ChunksAdded) -> None:
        stream = self.streams[command.stream]
        assert command.chunks[0].first_id > stream.last_id
        if not stream.log.length:
            self._note_first(stream, command.chunks[0].first_id)
        stream.attach([packed.chunk() for packed in command.chunks])

    def _trim(self, command: c.StreamTrimmed) -> None:
        self.streams[command.stream].trim(command.through)
        self._note_change(command.stream)

    def _trim_archive(self, command: c.ArchiveTrimmed) -> None:
        self.streams[command.stream].trim_archive(command.through)

    def _delete(self, command: c.EntriesDeleted) -> None:
        stream = self.streams[command.stream]
        self.replay_us += _LOOKUP_US * len(command.ids)
        for entry_id in command.ids:
            stream.delete(entry_id)
        self._note_change(command.stream)

    def _create_group(self, command: c.GroupCreated) -> None:
        stream = self.streams[command.stream]
        self.replay_us += _THING_US
        stream.add_group(command.group, command.last_id, command.entries_read)

    def _set_group(self, command: c.GroupMoved) -> None:
        group = self.group(command.stream, command.group)
        for pieces in group.move(command.last_id, command.entries_read):
            self.dispose(pieces)

    def _destroy_group(self, command: c.GroupDestroyed) -> None:
        stream = self.streams[command.stream]
        group = stream.groups.pop(command.group)
        group.leave()
        stream.note_turns()
        self._note_looks(stream)
        self.dispose(group.dismantle())
        self.note_policies(stream)

    def _see_consumer(self, command: c.ConsumerSeen) -> None:
        at_ms = self._reached(command.at_ms)
        self.replay_us += _ENTRY_US
        self.group(command.stream, command.group).see(command.consumer, at_ms)

    def _delete_consumer(self, command: c.ConsumerDeleted) -> None:
        group = self.group(command.stream, command.group)
        group.forget(command.consumer, release=command.release)

    def _deliver(self, command: c.EntriesDelivered) -> None:
        group = self.group(command.stream, command.group)
        at_ms = self._reached(command.at_ms)
        consumer = group.see(command.consumer, at_ms)
        self.replay_us += _ENTRY_US * (1 + len(command.claimed)) + len(command.delivered)
        for entry_id in command.claimed:
            count = group.pel.by_id[entry_id].delivery_count
            group.pel.assign(entry_id, consumer, at_ms, min(count + 1, COUNT_MAX))
        group.pel.assign_new(command.delivered, consumer, at_ms)
        if command.keys and (turns := group.pel.turns) is not None:
            turns.take_all(command.delivered, command.keys)
            if group.ahead:
                group.take_ahead(command.delivered, command.keys)
                group.ahead.shares.note(command.keys, at_ms)
        if command.claimed or command.delivered:
            consumer.active_at_ms = at_ms
        group.has_claimed_last = bool(command.claimed)
        group.last_id, group.entries_read = command.last_id, command.entries_read
        if command.rated_count and (pace := Pace.of(group.policy)) is not None:
            used_ms = group.rate_used_ms
            group.rate_used_ms = pace.used_after(used_ms, at_ms, command.rated_count)

    def _hold(self, command: c.EntriesHeld) -> None:
        pel = self.group(command.stream, command.group).pel
        self.replay_us += _ENTRY_US * len(command.entries)
        due_ms = map(self.steady_ms, command.due_ms) if command.due_ms else repeat(0)
        for (entry_id, key), at_ms in zip(command.entries, due_ms, strict=False):
            pel.hold(entry_id, key, at_ms)

    def _index(self, command: c.EntriesIndexed) -> None:
        self.replay_us += _ENTRY_US * len(command.entries)
        group = self.group(command.stream, command.group)
        group.index(command.entries, command.last_id)
        group.entries_read = command.entries_read

    def _pass(self, command: c.EntriesPassed) -> None:
        self.replay_us += _ENTRY_US * len(command.ids)
        group = self.group(command.stream, command.group)
        group.take_ahead(command.ids, command.keys)
        if command.through > MIN_ID:
            group.drop_through(group.indexes, command.through)

    def _index_rows(self, command: c.RowsIndexed) -> None:
        self.replay_us += _LOOKUP_US * len(command.changes)
        stream = self.streams[command.stream]
        assert stream.table is not None
        changes = (RowChange(*each) for each in command.changes)
        stream.table.extend(changes, command.through, stream.log.last_id)

    def _forget_rows(self, command: c.RowsForgotten) -> None:
        self.replay_us += _LOOKUP_US * len(command.keys)
        table = self.streams[command.stream].table
        assert table is not None
        for key in command.keys:
            table.rows.remove(key)

    def _set_times(self, command: c.EntriesTimed) -> None:
        self.replay_us += _ENTRY_US * len(command.entries)
        set_ms = self.clock_set_ms
        self.streams[command.stream].set_times(
            (
                entry_id,
                EntryTimes(
                    None if deliver_at_ms is None else deliver_at_ms - set_ms,
                    None if expires_at_ms is None else expires_at_ms - set_ms,
                ),
            )
            for entry_id, deliver_at_ms, expires_at_ms in command.entries
        )
        self.note_times(command.stream)

    def _expire(self, command: c.EntriesExpired) -> None:
        self.replay_us += _ENTRY_US * len(command.ids)
        self.group(command.stream, command.group).pel.remove_all(command.ids)

    def _redeliver(self, command: c.EntriesRedelivered) -> None:
        group = self.group(command.stream, command.group)
        at_ms = self._reached(command.at_ms)
        consumer = group.see(command.consumer, at_ms)
        self.replay_us += _ENTRY_US * len(command.ids)
        for entry_id in command.ids:
            count = group.pel.by_id[entry_id].delivery_count
            group.pel.assign(entry_id, consumer, at_ms, min(count + 1, COUNT_MAX))

    def _ack(self, command: c.EntriesAcked) -> None:
        self.replay_us += 2 * len(command.ids)
        self.group(command.stream, command.group).pel.remove_all(command.ids)

    def _release(self, command: c.EntriesReleased) -> None:
        pel = self.group(command.stream, command.group).pel
        self.replay_us += _ENTRY_US * len(command.counts)
        for entry_id, count in command.counts:
            pel.release(entry_id, count)

    def _claim(self, command: c.EntriesClaimed) -> None:
        group = self.group(command.stream, command.group)
        at_ms = self._reached(command.at_ms)
        consumer = group.see(command.consumer, at_ms)
        self.replay_us += _ENTRY_US * (1 + len(command.counts) + len(command.purged))
        for entry_id in command.purged:
            group.pel.remove(entry_id)
        delivered_at_ms = self.steady_ms(command.delivered_at_ms)
        for entry_id, count in command.counts:
            group.pel.assign(entry_id, consumer, delivered_at_ms, count)
        if command.counts:
            consumer.active_at_ms = at_ms
        group.last_id = max(group.last_id, command.last_id)

    def _purge(self, command: c.PendingPurged) -> None:
        stream = self.streams[command.stream]
        self._note_looks(stream, len(command.ids))
        stream.purge(command.ids)

    def _evict(self, command: c.EntriesEvicted) -> None:
        stream = self.streams[command.stream]
        self.replay_us += _LOOKUP_US * len(command.ids)
        for entry_id in command.ids:
            stream.evict(entry_id)
        self._note_change(command.stream)

    def _remember(self, command: c.KeyRemembered) -> None:
        keys = self.streams[command.stream].keys
        made = command.made._replace(at_ms=self._reached(command.made.at_ms))
        if command.stream not in self.keyed or made.at_ms < keys.last_at_ms:
            self.note_keyed(command.stream)
        keys.remember(command.producer, command.key, made, command.keys_max)

    def _count_duplicate(self, command: c.DuplicateCounted) -> None:
        keys = self.streams[command.stream].keys
        keys.duplicates = min(keys.duplicates + 1, COUNT_MAX)

    def _forget_keys(self, command: c.KeysForgotten) -> None:
        keys = self.streams[command.stream].keys
        if command.before_ms is None:
            self.dispose(keys.clear())
        else:
            keys.forget_before(self.steady_ms(command.before_ms))
        if not keys.by_producer:
            self.keyed.discard(command.stream)

    def _set_stream(self, command: c.CountersSet) -> None:
        stream = self.streams[command.stream]
        self._note_looks(stream)
        stream.set_last_id(command.last_id)
        stream.entries_added = command.entries_added
        stream.max_deleted_id = command.max_deleted_id

    def _rename_stream(self, command: c.StreamRenamed) -> None:
        stream = self.streams.pop(command.stream)
        self._forget(stream)
        self._note_end(stream)
        self.revisions.note_gone(command.stream)
        self._note_looks(stream)
        stream.rename(command.name)
        self.adopt(stream)
        self._succeed(stream)
        self._note_change(command.name)

    def _set_expiry(self, command: c.ExpirySet) -> None:
        stream = self.streams[command.stream]
        if stream.expires_at_ms is not None:
            self.expiring.pop((stream.expires_at_ms, stream.name), None)
        stream.expires_at_ms = command.at_ms
        if command.at_ms is not None:
            self.expiring[command.at_ms, stream.name] = None
        self._note_change(command.stream)

    def _set_defaults(self, command: c.DefaultsSet) -> None:
        self.defaults = command.defaults
        self.unplanned.update(dict.fromkeys(self.keyed))

    def _set_policy(self, command: c.PolicySet) -> None:
        stream = self.streams[command.stream]
        stream.set_policy(stream.groups[command.group], command.policy)
        self._note_looks(stream)
        self.note_policies(self.streams[command.stream])

    def _delay(self, command: c.EntriesDelayed) -> None:
        pel = self.group(command.stream, command.group).pel
        self.replay_us += _ENTRY_US * len(command.entries)
        for entry_id, count, until_ms in command.entries:
            pel.release(entry_id, count, self.steady_ms(until_ms))

    def _note_error(self, command: c.ErrorNoted) -> None:
        pel = self.group(command.stream, command.group).pel
        for entry_id in command.ids:
            pel.note_error(entry_id, command.error)

    def _lose(self, command: c.EntriesLost) -> None:
        self.streams[command.stream].lose(command.first_id, command.last_id)
        self._note_change(command.stream)

    def _lose_tail(self, command: c.TailLost) -> None:
        self.lost_tails.append(command)
        if len(self.lost_tails) > LOST_MAX:
            first, second = self.lost_tails[:2]
            self.lost_tails[:2] = [c.TailLost(first.first_id, second.last_id, second.epoch)]

    def add_schedule(self, info: ScheduleInfo) -> None:
        self.schedules.put(info)
        self.memory.schedules_bytes = self.schedules.size_bytes

    def _set_schedule(self, command: c.ScheduleSet) -> None:
        self.add_schedule(command.info)

    def _delete_schedule(self, command: c.ScheduleDeleted) -> None:
        self.schedules.remove(command.schedule)
        self.memory.schedules_bytes = self.schedules.size_bytes

    def _advance_schedule(self, command: c.ScheduleAdvanced) -> None:
        info = self.schedules.by_name[command.schedule]
        self.add_schedule(info._replace(progress=command.progress))

    def _commit_batch(self, command: c.BatchCommitted) -> None:
        at_ms = self._reached(command.at_ms)
        self.writers.commit(command.writer, command.batch, at_ms)


def _dismantle(streams: SortedDict[bytes, Stream]) -> Pieces:
    while streams:
        yield from streams.popitem()[1].dismantle()
