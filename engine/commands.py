"""Commands: what a request comes to once nothing is open any more, and their one codec.

A command has the name of what has happened once it is applied. The request `Ack` names ids that may
not be pending; the command `EntriesAcked` names those that were.

What a decision has settled (real ids, the clock's reading, which entries exactly) is all that a
command holds, so applying it cannot fail and needs no clock. A journal record is a list of commands
that happen together. The numbers are the format: never reuse one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from headgate.engine.config import GroupPolicy, StreamConfig
from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.images import StreamImage
from headgate.engine.schedules import Progress, ScheduleInfo
from headgate.engine.state.chunk import Chunk
from headgate.engine.state.defaults import Defaults
from headgate.engine.state.idempotency import Made


class StreamCreated(msgspec.Struct, frozen=True, array_like=True, tag=1):
    stream: bytes
    epoch: int
    config: StreamConfig


class StreamConfigured(msgspec.Struct, frozen=True, array_like=True, tag=2):
    stream: bytes
    config: StreamConfig


class StreamDeleted(msgspec.Struct, frozen=True, array_like=True, tag=3):
    stream: bytes


class EntriesAdded(msgspec.Struct, frozen=True, array_like=True, tag=4):
    stream: bytes
    entries: list[Entry]


class StreamTrimmed(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Every entry up to and including `through` goes."""

    stream: bytes
    through: EntryId


class EntriesDeleted(msgspec.Struct, frozen=True, array_like=True, tag=6):
    stream: bytes
    ids: list[EntryId]


class GroupCreated(msgspec.Struct, frozen=True, array_like=True, tag=7):
    stream: bytes
    group: bytes
    last_id: EntryId
    entries_read: int | None


class GroupMoved(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """A group's position is set; what is pending stays so."""

    stream: bytes
    group: bytes
    last_id: EntryId
    entries_read: int | None


class GroupDestroyed(msgspec.Struct, frozen=True, array_like=True, tag=9):
    stream: bytes
    group: bytes


class ConsumerSeen(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """A consumer showed up; it is made if it was not known."""

    stream: bytes
    group: bytes
    consumer: bytes
    at_ms: int


class ConsumerDeleted(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """A consumer goes; what it held is released to the others or dropped."""

    stream: bytes
    group: bytes
    consumer: bytes
    release: bool


class EntriesDelivered(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """A group read: pending entries change hands, new ones are handed out, the position moves."""

    stream: bytes
    group: bytes
    consumer: bytes
    at_ms: int
    claimed: list[EntryId]
    delivered: list[EntryId]  # new ones that become pending; empty when read without ack
    last_id: EntryId
    entries_read: int | None
    passed_count: int = 0  # new ones that the group's filters did not let through
    rated_count: int = 0  # so many deliveries count for the group's rate
    keys: list[bytes | None] = []  # of `delivered`; empty: none of them has one
    expired_count: int = 0  # new ones whose deadline was over


class EntriesRedelivered(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """A consumer was shown entries it already holds: they count one delivery more."""

    stream: bytes
    group: bytes
    consumer: bytes
    at_ms: int
    ids: list[EntryId]


class EntriesAcked(msgspec.Struct, frozen=True, array_like=True, tag=14):
    stream: bytes
    group: bytes
    ids: list[EntryId]
    are_dead_letters: bool = False  # they were moved to the dead letter stream


class EntriesReleased(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """Pending entries are nobody's any more; each with the delivery count it now has."""

    stream: bytes
    group: bytes
    counts: list[tuple[EntryId, int]]


class EntriesClaimed(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """Pending entries change hands by XCLAIM or XAUTOCLAIM; those that are gone leave the PEL."""

    stream: bytes
    group: bytes
    consumer: bytes
    at_ms: int
    delivered_at_ms: int
    counts: list[tuple[EntryId, int]]  # each with the delivery count it now has
    purged: list[EntryId]
    last_id: EntryId  # where the group's position is raised to


class PendingPurged(msgspec.Struct, frozen=True, array_like=True, tag=17):
    stream: bytes
    ids: list[EntryId]


class EntriesEvicted(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """Live entries go by a trim that spares others: there may be holes."""

    stream: bytes
    ids: list[EntryId]


class KeyRemembered(msgspec.Struct, frozen=True, array_like=True, tag=19):
    """An append was made under an idempotency key; the producer may keep so many keys."""

    stream: bytes
    producer: bytes
    key: bytes
    made: Made
    keys_max: int


class DuplicateCounted(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """A retry was answered with what its key had made."""

    stream: bytes


class KeysForgotten(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """Idempotency keys used before a moment are forgotten; None forgets all."""

    stream: bytes
    before_ms: int | None


class CountersSet(msgspec.Struct, frozen=True, array_like=True, tag=22):
    stream: bytes
    last_id: EntryId
    entries_added: int
    max_deleted_id: EntryId


class StreamRenamed(msgspec.Struct, frozen=True, array_like=True, tag=23):
    """A stream gets another name; one that had it is gone."""

    stream: bytes
    name: bytes


class ExpirySet(msgspec.Struct, frozen=True, array_like=True, tag=24):
    """A stream will go at a moment (unix ms), or never (None)."""

    stream: bytes
    at_ms: int | None


class DefaultsSet(msgspec.Struct, frozen=True, array_like=True, tag=25):
    """Change the defaults of streams without a configuration of their own (CONFIG SET stream-*)."""

    defaults: Defaults


class PolicySet(msgspec.Struct, frozen=True, array_like=True, tag=26):
    stream: bytes
    group: bytes
    policy: GroupPolicy


class EntriesDelayed(msgspec.Struct, frozen=True, array_like=True, tag=27):
    """Pending entries get a delivery count, and wait until a time (unix ms)."""

    stream: bytes
    group: bytes
    entries: list[tuple[EntryId, int, int]]


class BatchCommitted(msgspec.Struct, frozen=True, array_like=True, tag=28):
    """A writer's batch is written, with what stands before this in the record."""

    writer: bytes
    batch: int
    at_ms: int


class AllDeleted(msgspec.Struct, frozen=True, array_like=True, tag=29):
    """All streams go, with their groups."""


class PackedChunk(NamedTuple):
    first_id: EntryId
    last_id: EntryId
    entry_count: int
    packed: bytes
    is_run: bool  # its ids are neighbours, and `packed` has the fields alone

    def chunk(self) -> Chunk:
        return Chunk.sealed(*self[:4], is_run=self.is_run)


class ChunksAdded(msgspec.Struct, frozen=True, array_like=True, tag=30):
    """Entries of a long batch are appended, in order, in chunks of their own."""

    stream: bytes
    chunks: list[PackedChunk]


class StreamRestored(msgspec.Struct, frozen=True, array_like=True, tag=32):
    """A stream comes to be, with everything in it. All times are unix times."""

    stream: bytes
    epoch: int
    config: StreamConfig
    image: StreamImage  # its keys were used when their entries were made


class StreamCopied(msgspec.Struct, frozen=True, array_like=True, tag=33):
    stream: bytes
    to: bytes
    epoch: int


class ErrorNoted(msgspec.Struct, frozen=True, array_like=True, tag=34):
    stream: bytes
    group: bytes
    ids: list[EntryId]
    error: bytes


class EntriesLost(msgspec.Struct, frozen=True, array_like=True, tag=35):
    """The extents or chunks of a stream that lie between two ids, both inclusive, are damaged."""

    stream: bytes
    first_id: EntryId
    last_id: EntryId


class StreamClosed(msgspec.Struct, frozen=True, array_like=True, tag=36):
    stream: bytes
    at_ms: int


class ScheduleSet(msgspec.Struct, frozen=True, array_like=True, tag=37):
    info: ScheduleInfo


class ScheduleDeleted(msgspec.Struct, frozen=True, array_like=True, tag=38):
    schedule: bytes


class ScheduleAdvanced(msgspec.Struct, frozen=True, array_like=True, tag=39):
    """A schedule goes on to another due time; the entry it has appended stands before this."""

    schedule: bytes
    progress: Progress


class EntriesHeld(msgspec.Struct, frozen=True, array_like=True, tag=40):
    """New entries become pending that nobody gets before their turn; each with its key."""

    stream: bytes
    group: bytes
    entries: list[tuple[EntryId, bytes]]
    due_ms: list[int] = []  # when each is due that is delayed (unix time); empty: at once


class EntriesTimed(msgspec.Struct, frozen=True, array_like=True, tag=41):
    """New entries get a due time (None: at once) and an expiry (None: never), unix times."""

    stream: bytes
    entries: list[tuple[EntryId, int | None, int | None]]


class EntriesExpired(msgspec.Struct, frozen=True, array_like=True, tag=42):
    """Entries that nobody holds are pending no more, as their deadline is over."""

    stream: bytes
    group: bytes
    ids: list[EntryId]


class ArchiveTrimmed(msgspec.Struct, frozen=True, array_like=True, tag=43):
    """Archived entries go, up to and including an id."""

    stream: bytes
    through: EntryId


class TailLost(msgspec.Struct, frozen=True, array_like=True, tag=44):
    """Entries of any stream between two ids may be lost: a leader before had not shipped them.

    Streams of a later epoch than this did not exist then.
    """

    first_id: EntryId
    last_id: EntryId
    epoch: int


class AttributesChanged(msgspec.Struct, frozen=True, array_like=True, tag=45):
    """Attributes of a stream have other values, or are gone (None)."""

    stream: bytes
    values: dict[bytes, bytes | None]


class EntriesIndexed(msgspec.Struct, frozen=True, array_like=True, tag=46):
    """Entries of the log come to lie ahead of a fair group; the position moves behind them.

    Each has its key and its priority. Those that were ahead by another field come first.
    """

    stream: bytes
    group: bytes
    entries: list[tuple[EntryId, bytes | None, int]]
    last_id: EntryId
    entries_read: int | None


class EntriesPassed(msgspec.Struct, frozen=True, array_like=True, tag=47):
    """Entries that were ahead of a group are so no more, and nobody has them pending by this."""

    stream: bytes
    group: bytes
    ids: list[EntryId]
    keys: list[bytes | None]
    through: EntryId = MIN_ID  # so is everything up to here
    delivered_count: int = 0  # of these: a read without ack


class RowsIndexed(msgspec.Struct, frozen=True, array_like=True, tag=48):
    """A table takes in entries that were appended before: what each does to the row of its key."""

    stream: bytes
    changes: list[tuple[EntryId, bytes, bool]]  # true: the row goes
    through: EntryId


class RowsForgotten(msgspec.Struct, frozen=True, array_like=True, tag=49):
    """A table forgets rows whose entries have been trimmed."""

    stream: bytes
    keys: list[bytes]


class ClockSet(msgspec.Struct, frozen=True, array_like=True, tag=31):
    """The wall clock was set, by so much; what waits goes on waiting as if it had not been."""

    by_ms: int


Command = (
    StreamCreated
    | StreamConfigured
    | StreamDeleted
    | EntriesAdded
    | StreamTrimmed
    | EntriesDeleted
    | GroupCreated
    | GroupMoved
    | GroupDestroyed
    | ConsumerSeen
    | ConsumerDeleted
    | EntriesDelivered
    | EntriesRedelivered
    | EntriesAcked
    | EntriesReleased
    | EntriesClaimed
    | PendingPurged
    | EntriesEvicted
    | KeyRemembered
    | DuplicateCounted
    | KeysForgotten
    | CountersSet
    | StreamRenamed
    | ExpirySet
    | DefaultsSet
    | PolicySet
    | EntriesDelayed
    | BatchCommitted
    | AllDeleted
    | ChunksAdded
    | ClockSet
    | StreamRestored
    | StreamCopied
    | ErrorNoted
    | EntriesLost
    | StreamClosed
    | ScheduleSet
    | ScheduleDeleted
    | ScheduleAdvanced
    | EntriesHeld
    | EntriesTimed
    | EntriesExpired
    | ArchiveTrimmed
    | TailLost
    | AttributesChanged
    | EntriesIndexed
    | EntriesPassed
    | RowsIndexed
    | RowsForgotten
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Command])
_many_decoder = msgspec.msgpack.Decoder(list[list[Command]])
_MANY = struct.Struct(">BI")
_ARRAY_32 = 0xDD  # msgpack: an array whose length is a 32-bit number


def encode(commands: list[Command]) -> bytes:
    return _encoder.encode(commands)


def encode_each(commands: list[Command]) -> list[bytes]:
    return [_encoder.encode(command) for command in commands]


def encode_parts(parts: Sequence[bytes]) -> bytes:
    return _MANY.pack(_ARRAY_32, len(parts)) + b"".join(parts)


def decode(record: bytes) -> list[Command]:
    """Return the commands of a record; DecodeError or UnicodeDecodeError if it is none."""
    return _decoder.decode(record)


def join(records: Sequence[bytes]) -> bytes:
    return encode_parts(records)


def decode_all(joined: bytes) -> list[list[Command]]:
    """Return the commands of each joined record; raises what `decode` does."""
    return _many_decoder.decode(joined)
