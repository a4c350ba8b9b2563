"""Replies of the engine: plain values, complete when they are made."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from headgate.engine.config import GroupPolicy, StreamConfig
from headgate.engine.entry import MIN_ID, Entry, EntryId, EntryTimes, Fields
from headgate.engine.patterns import PatternCursor
from headgate.engine.schedules import ScheduleInfo

T = TypeVar("T")


class Created(NamedTuple, Generic[T]):
    is_new: bool
    info: T


class DueSchedules(NamedTuple):
    now_ms: int  # by the clock of what keeps them
    schedules: list[ScheduleInfo]
    next_ms: int | None  # when something is to be done about the next one; None: never
    schedule_count: int  # of all schedules


class Added(NamedTuple):
    """The ids of an append, made now or when its key was first used."""

    ids: list[EntryId]
    is_repeat: bool


class ClosedStream(NamedTuple):
    ids: list[EntryId]
    is_repeat: bool  # the key of the append was used before
    epoch: int
    closed_at_ms: int  # unix time


class Gap(NamedTuple):
    """Ids a late reader can no longer get because trimming took them: from < id <= to."""

    after: EntryId
    through: EntryId


def gap_after(after: EntryId, trimmed_through: EntryId) -> Gap | None:
    """Return the gap a trim left for a reader that has seen all up to `after`.

    `0-0` asks for whatever there is; only a cursor above it has seen anything.
    """
    return Gap(after, trimmed_through) if MIN_ID < after < trimmed_through else None


class StreamRead(NamedTuple):
    stream: bytes
    entries: list[Entry]
    next_after: EntryId  # the cursor for the next read
    last_id: EntryId  # of the stream, so that a reader knows how far it is
    gap: Gap | None
    after: EntryId  # the cursor it was read after, as an id
    closed_at_ms: int | None = None  # of the stream, if nothing comes behind `next_after` any more
    times: Mapping[EntryId, EntryTimes] = MappingProxyType({})  # of entries that have some
    archived: bool = False  # it begins with an archived entry

    def placed(self) -> StreamRead:
        """Return the read with a gap if its cursor is above all that the stream has had.

        Such a cursor is of an earlier life of the stream. Nothing would come until the ids are
        above it, so reading goes on at the present end.
        """
        if self.after <= self.last_id:
            return self
        return self._replace(gap=Gap(self.after, self.last_id), next_after=self.last_id)


class PatternRead(NamedTuple):
    reads: list[StreamRead]  # with entries, or a gap
    next_after: PatternCursor
    is_at_end: bool  # everything was read that there is

    @property
    def entry_count(self) -> int:
        return sum(len(each.entries) for each in self.reads)


class OpenedRange(NamedTuple):
    entry_count: int  # of all of it
    entries: list[Entry]  # the first page
    number: int | None  # to read on; None: that was all


class PackedEntries(NamedTuple):
    """Entries beside each other, as sealed chunks keep them. `engine.packing` unpacks them."""

    entry_count: int
    packed: bytes
    first_id: EntryId | None  # the ids follow this one, and only fields are packed; None: with ids


class PackedPage(NamedTuple):
    runs: list[PackedEntries]
    last_id: EntryId  # everything up to here is in it; the end of the range if that was reached
    epoch: int  # of the stream
    trimmed_through: EntryId


class MatchingPage(NamedTuple):
    entries: list[Entry]
    last_id: EntryId  # everything up to here was looked at; the end of the range if it was reached


class Portion(NamedTuple):
    """The portion of one stream in a bulk read: `entries` live ones, above `after` up to `end`."""

    stream: bytes
    epoch: int | None  # of the stream; None: there is none
    after: EntryId
    end: EntryId  # `after` if there is nothing
    entries: int
    backlog: int  # all live entries above `after`
    last_id: EntryId  # of the stream; `0-0` if there is none
    first_id: EntryId | None  # of the oldest live entry, if there is one
    gap: Gap | None


class Split(NamedTuple):
    """One of the ranges that a range was cut into: above `after`, up to and including `end`."""

    after: EntryId
    end: EntryId
    entries: int


class Histogram(NamedTuple):
    from_ms: int  # when the first bucket begins
    to_ms: int  # the last millisecond of the range
    bucket_ms: int
    counts: list[int]


class Written(NamedTuple):
    stream: bytes
    entries: int
    first_id: EntryId
    last_id: EntryId


class CommittedSteps(NamedTuple):
    """The ids that each step of a commit has appended; none for other steps."""

    ids: list[list[EntryId]]
    is_repeat: bool = False  # they were appended before, under the same key


class Committed(NamedTuple):
    """The result of the commit of a batch; nothing if it was committed before."""

    is_repeat: bool
    streams: list[Written]  # in the order in which the batch first names them


class Commit(NamedTuple):
    """A batch that a writer has committed, and when (unix time; in the state, steady time)."""

    batch: int
    at_ms: int


class Delivery(NamedTuple):
    """An entry handed to a consumer. The numbers describe the state before this delivery."""

    id: EntryId
    fields: Fields | None  # None: no longer in the stream (a history read), or only ids are wanted
    idle_ms: int  # 0 for a new entry
    delivered_before: int  # 0 for a new entry
    claimed_from: bytes | None  # whom it was taken from; None: new, one's own, or nobody's
    count_set: int | None = None  # its delivery count from now on, if claimed by id or by page
    last_error: bytes | None = None  # of the last nack of it that carried one
    times: EntryTimes | None = None  # of the entry (unix times)

    @property
    def delivery_count(self) -> int:
        return self.delivered_before + 1 if self.count_set is None else self.count_set


class GroupState(StrEnum):
    """State of a group after a read: why the read returned what it did."""

    LIVE = "live"  # there may be more
    CAUGHT_UP = "caught_up"  # nothing new is left in the stream
    MAX_PENDING = "max_pending"  # the consumer holds as much as it may
    KEY_BLOCKED = "key_blocked"  # the group holds back as many entries as it may
    PAUSED = "paused"  # the group delivers nothing for now
    RATE_LIMITED = "rate_limited"  # the group has delivered as much as its rate allows for now
    CLOSED = "closed"  # the stream is closed, and the group has settled all of it


class GroupRead(NamedTuple):
    stream: bytes
    deliveries: list[Delivery]
    served: bool  # false: nothing for now, a blocked read waits on; at the end it does not
    lag: int | None  # entries the group has still to be given; None if unknowable
    pending_count: int  # of the consumer
    state: GroupState


class GroupsRead(NamedTuple):
    """What a read of the groups of one name in many streams got, stream by stream."""

    reads: list[GroupRead]  # those with deliveries
    pending_count: int  # of the consumer, in all of the streams
    state: GroupState  # of all of them: `LIVE`, `CAUGHT_UP` or `MAX_PENDING`

    @property
    def delivery_count(self) -> int:
        return sum(len(read.deliveries) for read in self.reads)

    def deliveries(self) -> list[tuple[bytes, Delivery]]:
        """Return the deliveries, each with its stream."""
        return [(read.stream, delivery) for read in self.reads for delivery in read.deliveries]


class Outcome(StrEnum):
    """The outcome of an ack, nack or extend for one id."""

    ACKED = "acked"
    RELEASED = "released"
    EXTENDED = "extended"
    NOT_PENDING = "not_pending"  # acknowledged before, or never delivered
    CLAIMED = "claimed"  # somebody else owns it now, and it stays theirs


class Claimed(NamedTuple):
    deliveries: list[Delivery]
    deleted_ids: list[EntryId]  # were pending, are gone from the stream, left the PEL
    next_start: EntryId  # where the next page begins; `0-0` when the scan is complete


class Takeover(NamedTuple):
    counts: Mapping[EntryId, int]  # delivery count of each before; if it came back, it has more
    by: bytes  # who has them now


class PendingItem(NamedTuple):
    id: EntryId
    consumer: bytes | None  # None: nobody's, after a nack
    idle_ms: int | None  # None: nobody's
    delivery_count: int
    delay_ms: int = 0  # for how long nobody gets it
    last_error: bytes | None = None  # of the last nack of it that carried one
    waits_for: EntryId | None = None  # the entry of the same key that has its turn before it


class PendingSummary(NamedTuple):
    total: int
    min_id: EntryId | None
    max_id: EntryId | None
    consumers: list[tuple[bytes, int]]  # who holds how many, the first by name; not those with none
    holder_count: int  # consumers that hold any


class ConsumerInfo(NamedTuple):
    name: bytes
    pending_count: int
    idle_ms: int  # since its last attempt
    inactive_ms: int | None  # since its last success; None: never


class NoisyKey(NamedTuple):
    """The key that has most of what waits in a fair group."""

    key: bytes | None
    waiting_count: int


class GroupInfo(NamedTuple):
    name: bytes
    last_id: EntryId
    entries_read: int | None
    lag: int | None
    pending_count: int
    released_count: int
    consumer_count: int
    policy: GroupPolicy
    closed_at_ms: int | None = None  # of its stream, if that is closed
    is_over: bool = False  # it is, and all of it is settled: nothing comes any more
    delayed_count: int = 0  # pending entries that are not due yet, about
    noisy_key: NoisyKey | None = None
    waiting_since_ms: int | None = None  # time of the next entry that it has to deliver, about
    idle_since_ms: int | None = None  # it has delivered nothing since, though entries waited


class FairKey(NamedTuple):
    """A key of a fair group."""

    key: bytes | None  # None: entries without the field
    waiting_count: int  # entries that are ahead
    pending_count: int
    first_id: EntryId | None  # of what waits
    age_ms: int | None  # since that
    share: float  # of the deliveries of the last minute, 0 to 1
    is_resting: bool  # as many are pending as may be


class GroupKeys(NamedTuple):
    keys: list[FairKey]
    key_count: int  # with entries that wait
    waiting_count: int  # entries that are indexed by key
    is_complete: bool  # false: others wait behind them, and are indexed later


class Row(NamedTuple):
    """The latest entry of a key, and the key."""

    key: bytes
    id: EntryId
    fields: Fields


class RowRead(NamedTuple):
    row: Row | None
    as_of: EntryId  # the last id of the stream
    fields: tuple[bytes, bytes]  # of the key and of the tombstone


class TablePage(NamedTuple):
    rows: list[Row]
    after_key: bytes | None  # where the next page goes on; None: this is the last one
    as_of: EntryId  # the rows are as they were then


class TableInfo(NamedTuple):
    row_count: int  # about
    through: EntryId  # entries up to here are indexed
    is_complete: bool  # all are


class StreamInfo(NamedTuple):
    name: bytes
    epoch: int
    config: StreamConfig
    length: int
    chunk_count: int
    first_id: EntryId
    last_id: EntryId
    max_deleted_id: EntryId
    trimmed_through: EntryId  # greatest id removed by a trim
    entries_added: int
    group_count: int
    # About; None: servers keep the stream, and do not say.
    hot_bytes: int | None = None  # what its entries take in memory
    cold_bytes: int | None = None  # of its live entries on disk alone
    closed_at_ms: int | None = None  # since when it takes no entries (unix time); None: it is open
    timed_count: int = 0  # entries that have times, about
    archived_count: int = 0  # entries in its archive
    archived_first_id: EntryId | None = None  # of the oldest of them
    # Greatest id removed by a trim that is in no archive; None: as `trimmed_through`.
    gone_through: EntryId | None = None
    table: TableInfo | None = None  # None: it is none


class GroupDetail(NamedTuple):
    info: GroupInfo
    pending: list[PendingItem]
    consumers: list[ConsumerInfo]


class ObservedGroup(NamedTuple):
    """One group of `ObservedStream`. What its backend does not know is None."""

    name: bytes
    lag: int | None
    pending_count: int
    delayed_count: int  # of the pending ones, about
    oldest_pending_ms: int | None  # since the last delivery of what is held longest; 0: nothing is
    # Since the backend was started:
    delivered_count: int | None  # for the first time
    redelivered_count: int | None
    passed_count: int | None  # its filters did not let them through
    expired_count: int | None  # their deadline was over
    acked_count: int | None
    dead_letter_count: int | None
    severity: int = 0  # see `headgate.engine.attention`
    waits: tuple[tuple[bytes | None, int], ...] = ()  # the longest of keys (ms), if it is fair


class ObservedStream(NamedTuple):
    name: bytes
    length: int
    hot_bytes: int | None  # see `StreamInfo`
    cold_bytes: int | None
    added_count: int  # over its whole life
    groups: list[ObservedGroup]
    groups_left_out: int
    archived_count: int = 0  # entries in its archive


class Observation(NamedTuple):
    """Some streams with their groups, by name, and how many streams come behind them."""

    streams: list[ObservedStream]
    streams_left_out: int


class StreamDetail(NamedTuple):
    info: StreamInfo
    entries: list[Entry]
    groups: list[GroupDetail]


class StreamDefaults(NamedTuple):
    node_bytes_max: int
    node_entries_max: int
    idempotency_window_ms: int
    idempotency_max: int


class KeyInfo(NamedTuple):
    window_ms: int
    keys_max: int  # of one producer
    producer_count: int
    key_count: int
    added_count: int  # ever
    duplicate_count: int  # ever


class PendingInspection(NamedTuple):
    id: EntryId
    consumer: bytes | None  # None: nobody's
    delivered_at_ms: int  # unix time; 0: nobody's
    delivery_count: int


class ConsumerInspection(NamedTuple):
    name: bytes
    seen_at_ms: int  # unix time
    active_at_ms: int | None  # unix time; None: never
    pending_count: int
    pending: list[PendingInspection]


class GroupInspection(NamedTuple):
    info: GroupInfo
    pending: list[PendingInspection]
    consumers: list[ConsumerInspection]


class StreamInspection(NamedTuple):
    info: StreamInfo
    keys: KeyInfo
    first: Entry | None
    last: Entry | None
    entries: list[Entry]  # only with `full`
    groups: list[GroupInspection]  # only with `full`


class KeyspaceInfo(NamedTuple):
    now_ms: int  # unix time
    stream_count: int
    expiring_count: int
    average_ttl_ms: int  # of those that expire


class NamePage(NamedTuple):
    """Names of streams, and the cursor of the next page; 0: there is none."""

    names: list[bytes]
    next_cursor: int


class JournalStatus(NamedTuple):
    """The state of the journal."""

    position: int
    durable_position: int
    size_bytes: int  # of all its files
    free_bytes: int | None  # of the disk, when it was last looked at
    failure: str | None  # why nothing is taken any more
    fault: str | None  # why nothing is taken for now
    shortage: str | None  # why nothing that takes room is taken for now
    is_rewriting: bool
    rewrite_count: int
    rewrite_failure: str | None  # why the last rewrite did not work
    synced_position: int = 0  # up to there a crash of the machine takes nothing away
    rewritten_s: float | None = None  # when the last rewrite was done, by the clock of event loops
    damage_count: int = 0  # damaged chunks that were found and lost since the start
    damage: str | None = None  # what was wrong with the last of them
    extents_bytes: int = 0  # of the extent files among its files
    cold_bytes: int = 0  # of live entries in them, about
    bucket: BucketStatus | None = None  # None: there is none

    @property
    def dead_bytes(self) -> int:
        return max(self.extents_bytes - self.cold_bytes, 0)


class LeaderRole(StrEnum):
    """The role of a gateway with a bucket."""

    LEADER = "leader"  # it may change the streams
    STANDBY = "standby"  # another one may


class BucketStatus(NamedTuple):
    url: str
    role: LeaderRole
    is_durable: bool  # an answer waits for the bucket
    term: int  # of the lease
    leader: str  # the address of the leader; empty if nobody knows
    lease_left_ms: int | None  # of a leader
    shipped_position: int  # of the last record that the bucket has
    unshipped_bytes: int  # written here, and not there
    unshipped_ms: int | None  # since when; None: the bucket has everything
    behind_ms: int | None  # of a standby: since all was known that the bucket has
    error: str | None  # why the bucket takes nothing for now
    manifest: int  # the number of the newest; 0: there is none
    bucket_bytes: int  # of what it names
    remote_bytes: int  # of extent files that are in the bucket alone
    requests: Mapping[str, int]  # by kind, since the start


class Deletion(StrEnum):
    """The outcome of a delete for one id."""

    DELETED = "deleted"
    NOT_FOUND = "not_found"
    REFERENCED = "referenced"  # a group still needs it


class RedriveOutcome(StrEnum):
    """The outcome of sending a dead letter back."""

    RELEASED = "released"  # its group's next reader gets the entry
    APPENDED = "appended"  # the entry was gone: it is a new one, for every group


class Redriven(NamedTuple):
    """A dead letter that was sent back."""

    id: EntryId  # in the dead letter stream, where it is no more
    outcome: RedriveOutcome
    entry_id: EntryId  # in the stream it came from
