"""All errors that the engine raises on purpose.

    StreamError
    ├── NotFound
    │   ├── StreamNotFound
    │   ├── GroupNotFound
    │   ├── EntryNotFound
    │   └── ScheduleNotFound
    ├── Conflict
    │   ├── StreamExists
    │   ├── GroupExists
    │   ├── IdNotGreater
    │   ├── IdsExhausted
    │   ├── LastIdMismatch
    │   ├── ClosedToAppends
    │   ├── IdempotencyMismatch
    │   ├── StreamsChanged
    │   ├── NotATable
    │   ├── RowChanged
    │   ├── NotYours
    │   ├── WalkOver
    │   ├── WrongType
    │   │   └── WrongSideKey
    │   ├── RangeClosed
    │   ├── OutOfReach
    │   ├── ScheduleExists
    │   ├── ScheduleChanged
    │   └── LimitReached
    ├── Invalid
    │   ├── InvalidId
    │   ├── EntryTooLarge
    │   ├── CounterTooLow
    │   ├── SchemaMismatch
    │   └── TransactionTooLong
    ├── LimitExceeded
    │   ├── ReplyTooLarge
    │   ├── StreamTooLarge
    │   └── TooManyWaiters
    ├── NotSupported
    │   ├── SeveralSlots
    │   └── NoArchive
    ├── Unavailable
    │   ├── Disconnected
    │   │   └── AnswerLost
    │   ├── Draining
    │   ├── NotLeader
    │   ├── LeaseLost
    │   ├── TableBehind
    │   └── MemoryFull
    └── Corrupt
        ├── Broken
        └── NewerFormat

Callers map the direct subclasses of `StreamError` to their own codes; the gateway maps them to HTTP
status codes. The leaves have the facts as attributes, and a text for people.
`app.redis_syntax.errors` has the texts of Redis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Location = tuple[str | int, ...]
"""The part of a request that an error is about: field names, and indexes from 0. () means none."""

_SHOWN_MAX = 64
"""Characters of an invalid text in an error, at most."""


class StreamError(Exception):
    """Base class of all errors that the engine raises on purpose. The request changed nothing."""

    location: Location = ()  # which part of the request is wrong


class NotFound(StreamError):
    """Something that the request names does not exist."""


class Conflict(StreamError):
    """The request contradicts the present state."""


class Invalid(StreamError):
    """The request is wrong, whatever the state is."""

    def __init__(self, text: str, *, location: Location = ()) -> None:
        super().__init__(text)
        self.location = location


class LimitExceeded(StreamError):
    """The request would exceed a bound of `engine.limits` or of the caller's settings."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"too many {what}: the limit is {limit}")
        self.what = what
        self.limit = limit


ENTRY_BYTES = "bytes of entries"
"""The value of `ReplyTooLarge.what` if the entries of the reply have too many bytes."""


class ReplyTooLarge(LimitExceeded):
    """A reply would exceed its bounds, and a shorter reply would be wrong."""


class StreamTooLarge(LimitExceeded):
    """A stream has too much for what has to happen at one moment."""


class TooManyWaiters(LimitExceeded):
    def __init__(self, limit: int) -> None:
        super().__init__("blocked reads", limit)


class NotSupported(StreamError):
    def __init__(self, ability: str) -> None:
        text = f"this backend does not support {ability}, unlike the embedded engine"
        super().__init__(f"{text}; GET /v1/limits lists what a backend supports")
        self.ability = ability


class SeveralSlots(NotSupported):
    def __init__(self, what: str) -> None:
        super().__init__(f"{what} over several slots of a cluster")


class NoArchive(NotSupported):
    def __init__(self) -> None:
        text = "an archive needs an engine with a bucket behind its data directory"
        StreamError.__init__(self, f"{text}; GET /v1/limits lists what a backend supports")
        self.ability = "archives"


class Unavailable(StreamError):
    """The engine cannot make changes durable, so it refuses them."""


class Draining(Unavailable):
    """The engine is about to stop. It still answers, but no request may wait any more."""

    def __init__(self) -> None:
        super().__init__("the gateway is shutting down")


class NotLeader(Unavailable):
    """This gateway may not change the streams of the bucket, as another one may."""

    def __init__(self, leader: str, why: str = "this gateway is not the leader") -> None:
        self.leader = leader  # its address; empty if nobody knows
        where = f"; the leader is {leader}" if leader else ""
        super().__init__(f"{why}{where}")


class LeaseLost(Unavailable):
    """Another gateway may write now; nothing that is written here counts any more."""


class TableBehind(Unavailable):
    """A table has still to index so many entries that the request cannot wait for it."""

    def __init__(self, stream: bytes, through: object) -> None:
        text = f"entries up to {through} are indexed so far"
        super().__init__(f"the table of stream {_quoted(stream)} is being built: {text}")
        self.stream = stream
        self.through = through


class Disconnected(Unavailable):
    """The servers that keep the streams are not there for now. Nothing has happened."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the servers that store the streams cannot be reached: {why}")


class AnswerLost(Disconnected):
    """The servers may have carried out the request. Their answer, or its durability, is lost."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; the request may have been carried out")


class MemoryFull(Unavailable):
    """The state uses all the memory that it may, and the request would add to it."""

    def __init__(self) -> None:
        text = "the streams have reached their memory limit: acknowledge, trim or delete entries"
        super().__init__(text)


class Corrupt(StreamError):
    """A file does not contain what was written to it. The engine does not guess its contents."""

    def __init__(self, name: str, offset: int, why: str, *, record: int | None = None) -> None:
        """Describe the damage: `record` is the first damaged one, `offset` the block's begin."""
        which = "" if record is None else f"record {record} "
        super().__init__(f"{name}, byte {offset}: {which}{why}")
        self.name = name
        self.offset = offset
        self.why = why
        self.record = record


class Broken(Corrupt):
    """Bytes that are not a valid block: damage, or a tail that was torn by a crash."""


class NewerFormat(Corrupt):
    """A newer version wrote the file. The file is intact, but this version cannot read it."""


class StreamNotFound(NotFound):
    def __init__(self, stream: bytes) -> None:
        super().__init__(f"there is no stream {_quoted(stream)}")
        self.stream = stream


class GroupNotFound(NotFound):
    """The group does not exist; `stream_exists` tells whether its stream does."""

    def __init__(self, stream: bytes, group: bytes, *, stream_exists: bool = True) -> None:
        text = f"there is no stream {_quoted(stream)}"
        if stream_exists:
            text = f"stream {_quoted(stream)} has no group {_quoted(group)}"
        super().__init__(text)
        self.stream = stream
        self.group = group
        self.stream_exists = stream_exists


class EntryNotFound(NotFound):
    def __init__(self, stream: bytes, entry_id: object) -> None:
        super().__init__(f"no entry {entry_id} in stream {_quoted(stream)}")
        self.stream = stream
        self.entry_id = entry_id


class ScheduleNotFound(NotFound):
    def __init__(self, schedule: bytes) -> None:
        super().__init__(f"there is no schedule {_quoted(schedule)}")
        self.schedule = schedule


class ScheduleExists(Conflict):
    """A schedule of this name exists, and belongs to somebody else."""

    def __init__(self, schedule: bytes) -> None:
        text = f"the schedule {_quoted(schedule)} exists for a stream that you may not manage"
        super().__init__(text)
        self.schedule = schedule


class ScheduleChanged(Conflict):
    """The schedule was set or deleted since somebody looked."""

    def __init__(self, schedule: bytes) -> None:
        super().__init__(f"schedule {_quoted(schedule)} was changed at the same time")
        self.schedule = schedule


class StreamExists(Conflict):
    def __init__(self, stream: bytes) -> None:
        super().__init__(f"stream {_quoted(stream)} exists with another configuration")
        self.stream = stream


class GroupExists(Conflict):
    """A group of this name exists (Redis: BUSYGROUP)."""

    def __init__(self, stream: bytes, group: bytes) -> None:
        super().__init__(f"stream {_quoted(stream)} already has a group {_quoted(group)}")
        self.stream = stream
        self.group = group


class IdNotGreater(Conflict):
    def __init__(self, wanted: object, *, last_id: object, index: int) -> None:
        super().__init__(f"the id is not above {last_id}, the last one before it")
        self.wanted = wanted
        self.last_id = last_id
        self.location = ("drafts", index, "id")
        self.stream: bytes | None = None  # set if the request names several streams


class IdsExhausted(Conflict):
    def __init__(self) -> None:
        super().__init__("the ids of the stream are exhausted: its last id is the greatest")


class LastIdMismatch(Conflict):
    def __init__(self, *, expected: object, last_id: object) -> None:
        super().__init__(f"the last id is {last_id}, not {expected}")
        self.expected = expected
        self.last_id = last_id


class ClosedToAppends(Conflict):
    def __init__(self, stream: bytes) -> None:
        super().__init__(f"stream {_quoted(stream)} is closed and accepts no more entries")
        self.stream = stream


class IdempotencyMismatch(Conflict):
    def __init__(self, key: bytes) -> None:
        super().__init__("the idempotency key was already used for another request")
        self.key = key


class StreamsChanged(Conflict):
    """Streams have changed since somebody looked (Redis: WATCH)."""

    def __init__(self) -> None:
        super().__init__("watched streams have changed")


class NotATable(Conflict):
    def __init__(self, stream: bytes) -> None:
        super().__init__(f"stream {_quoted(stream)} is not a table: it has no `key_field`")
        self.stream = stream


class RowChanged(Conflict):
    """The row is not as the request expects it."""

    def __init__(self, key: bytes, row_id: object) -> None:
        what = "it does not exist" if row_id is None else f"its id is {row_id}"
        super().__init__(f"the row of key {_quoted(key)} is not in the expected state: {what}")
        self.key = key
        self.row_id = row_id


class EntryHolder(NamedTuple):
    """An entry, and who has it."""

    id: tuple[int, int]
    consumer: bytes | None  # None: nobody
    deliveries: int | None  # None: it is not pending


class NotYours(Conflict):
    """A commit settles entries that are not, or no longer, pending with its consumer."""

    def __init__(self, held: Sequence[EntryHolder]) -> None:
        ms, seq = held[0].id
        what = "is not pending"
        if held[0].deliveries is not None:
            owner = held[0].consumer
            who = "with nobody" if owner is None else f"with {_quoted(owner)}"
            what = f"is pending {who}, delivery {held[0].deliveries}"
        others = f" (and {len(held) - 1} more)" if len(held) > 1 else ""
        super().__init__(f"entry {ms}-{seq} {what}{others}: nothing was changed")
        self.held = list(held)


class WalkOver(Conflict):
    def __init__(self, stream: bytes, as_of: object) -> None:
        text = f"the rows of stream {_quoted(stream)} as of {as_of} are no longer known"
        super().__init__(f"{text}: read the table from its first row again")
        self.stream = stream
        self.as_of = as_of


class WrongType(Conflict):
    """A server has something else than a stream under the name of the stream."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(f"the key {_quoted(stream)} at the server is not a stream")
        self.stream = stream


class RangeClosed(Conflict):
    """A range that is read page by page is not open any more: somebody else needs the memory."""

    def __init__(self) -> None:
        super().__init__("this range is no longer open: read it again")


class OutOfReach(Conflict):
    """A group of the stream has a policy that names another stream than the request allows."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(f"a policy of a group names {_quoted(stream)}, which is out of reach")
        self.stream = stream


class WrongSideKey(WrongType):
    """A server has something else under a key than what the gateway keeps there."""

    def __init__(self, key: bytes, why: str) -> None:
        text = f"the gateway did not write the key {_quoted(key)} at the server"
        Conflict.__init__(self, f"{text}: {why}")
        self.key = key


class LimitReached(Conflict):
    """There are as many of something as there may be; one has to be deleted first."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"too many {what}: the limit is {limit}")
        self.what = what
        self.limit = limit


class InvalidId(Invalid):
    def __init__(self, text: str) -> None:
        shown = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
        why = f"{shown!r} is not an entry id: use the form ms-seq, such as 1718000000000-0"
        super().__init__(why)
        self.text = text


class EntryTooLarge(Invalid):
    def __init__(self, size_bytes_max: int, *, location: Location) -> None:
        super().__init__(f"an entry may have at most {size_bytes_max} bytes", location=location)
        self.size_bytes_max = size_bytes_max


class FieldFault(NamedTuple):
    """A fault of an entry; `field` is empty if the fault is about the entry as a whole."""

    field: str
    text: str


class SchemaMismatch(Invalid):
    """An entry does not match the schema of its stream."""

    def __init__(self, faults: Sequence[FieldFault], index: int) -> None:
        """Take the faults of the draft at `index`, at least one."""
        field, text = faults[0]
        place = ("drafts", index, "fields")
        named = f"{field}: {text}" if field else text
        super().__init__(f"schema: {named}", location=(*place, field) if field else place)
        self.faults = list(faults)

    def name_stream(self, stream: bytes) -> None:
        """Say in the text where the entry is, for who cannot be told by the location."""
        _, index, *_ = self.location
        self.args = (f"stream {_quoted(stream)}, entry {index}: {self}",)


class CounterTooLow(Invalid):
    """A counter would contradict the entries of its stream, or the entries that were deleted."""

    def __init__(self, field: str, than: str, what: str) -> None:
        """The counter `field` must not be below the value `than`, which is `what` in words."""
        super().__init__(f"{field} is below {what}", location=(field,))
        self.than = than


def _quoted(name: bytes) -> str:
    return repr(name.decode(errors="replace"))


class TransactionTooLong(Invalid):
    """The requests of a transaction would take too long together. None was carried out."""

    def __init__(self) -> None:
        super().__init__(
            "the transaction would take too long, and nothing else can run meanwhile: send fewer "
            "commands at once, and commands about a large stream separately"
        )
