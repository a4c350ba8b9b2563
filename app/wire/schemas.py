"""Wire models, one per shape, and how they turn into the engine's values and back."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Annotated, Any, Literal, Self

import msgspec
from msgspec import UNSET
from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import TypeAliasType

from headgate.app.wire.fields import bytes_of, wire_fields
from headgate.app.wire.ids import parse_group_start, parse_id, parse_new_id
from headgate.app.wire.names import check_name, text_of
from headgate.app.wire.problems import pointer_to
from headgate.engine.entry import Draft
from headgate.engine.entry import Entry as EngineEntry
from headgate.engine.limits import COUNT_MAX
from headgate.engine.replies import Committed as EngineCommitted
from headgate.engine.replies import ConsumerInfo as EngineConsumerInfo
from headgate.engine.replies import (
    Deletion,
    GroupState,
    Outcome,
    RedriveOutcome,
)
from headgate.engine.replies import Delivery as EngineDelivery
from headgate.engine.replies import Gap as EngineGap
from headgate.engine.replies import GroupDetail as EngineGroupDetail
from headgate.engine.replies import GroupInfo as EngineGroupInfo
from headgate.engine.replies import JournalStatus as EngineJournalStatus
from headgate.engine.replies import PendingItem as EnginePendingItem
from headgate.engine.replies import Portion as EnginePortion
from headgate.engine.replies import StreamInfo as EngineStreamInfo
from headgate.engine.requests import (
    GroupStart,
    PolicyPatch,
    References,
    StreamPatch,
    TrimRequest,
    UpdateGroup,
    patched,
)
from headgate.engine.state.policy import NO_POLICY, GroupPolicy
from headgate.engine.state.stream import StreamConfig as EngineStreamConfig

# The pattern is told, not checked here: a malformed id has a problem of its own, `invalid_id`.
IdText = Annotated[
    str,
    Field(
        description="Entry id.",
        examples=["1718000000000-0"],
        json_schema_extra={"pattern": r"^[0-9]{1,19}(-[0-9]{1,19})?$"},
    ),
]
Count = Annotated[int, Field(ge=0, le=COUNT_MAX, strict=True)]
Milliseconds = Annotated[int, Field(ge=0, le=COUNT_MAX, strict=True)]
Flag = Annotated[bool, Field(strict=True)]

REFERENCES = (
    "Where an entry is pending in a group: `keep` removes it and it stays pending there, `delete` "
    "makes it pending no more, `acked` spares what a group has not read or not acknowledged."
)

NEXT_CURSOR = Field(description="Pass it as `cursor` for the next page; null: this was the last.")


class Request(BaseModel):
    """A request body: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


# Entries

# Named types: without a name of ours, generated clients make one up.
FieldMap = TypeAliasType(
    "FieldMap",
    Annotated[dict[str, str], Field(description="The entry's fields.", examples=[{"sku": "42"}])],
)
OnDisconnect = TypeAliasType("OnDisconnect", Literal["release", "keep"])
Pair = Annotated[
    list[str],
    Field(min_length=2, max_length=2, description="A name and a value.", examples=[["sku", "42"]]),
]


class Trim(Request):
    """Which entries to keep: give `max_length` or `min_id`."""

    max_length: Count | None = Field(None, description="Keep the newest so many.")
    min_id: IdText | None = Field(None, description="Keep this id and all above.")
    approximate: Flag = Field(
        False, description="Remove only what goes cheaply, and so keep a little more."
    )
    limit: Count | None = Field(
        None, description="With `approximate`: remove so many at most; 0 is no limit."
    )
    references: References = Field(References.KEEP, description=REFERENCES)

    def to_request(self, field: str) -> TrimRequest:
        """Return the engine's form."""
        min_id = None if self.min_id is None else parse_id(self.min_id, field=f"{field}/min_id")
        return TrimRequest(self.max_length, min_id, self.approximate, self.limit, self.references)

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if (self.max_length is None) == (self.min_id is None):
            raise ValueError("give either max_length or min_id")
        if self.limit is not None and not self.approximate:
            raise ValueError("limit is for approximate trims only")
        return self


class EntryInput(Request):
    """An entry to append."""

    fields: FieldMap | None = None
    base64: Annotated[list[str], Field(fail_fast=True)] | None = Field(
        None, description="Names of fields whose values are base64 text of bytes."
    )
    pairs: Annotated[list[Pair], Field(fail_fast=True)] | None = Field(
        None, description="Instead of `fields`, where names repeat or their order matters."
    )
    names_base64: Flag = Field(False, description="All names are base64 text of bytes.")
    id: str = Field(
        "*", description="`*`, `ms-*`, or an explicit id above the last.", examples=["*"]
    )

    @model_validator(mode="after")
    def _has_fields(self) -> Self:
        if (self.fields is None) == (self.pairs is None):
            raise ValueError("give either fields or pairs")
        if not (self.fields or self.pairs):
            raise ValueError("an entry has at least one field")
        names = {name for name, _ in self._fields()} if self.base64 else set()
        for name in self.base64 or ():
            if name not in names:
                raise ValueError(f"base64 names {name!r}, and there is no such field")
        return self

    def to_draft(self, place: str = "/body") -> Draft:
        """Return the engine's form; `place` is a pointer to it, for errors."""
        if self.base64 or self.names_base64:
            flat = tuple(self._bytes(place))
        else:
            flat = tuple([text.encode() for text in chain.from_iterable(self._fields())])
        new_id = None if self.id == "*" else parse_new_id(self.id, field=f"{place}/id")
        return Draft(new_id, flat)

    def _bytes(self, place: str) -> Iterator[bytes]:
        """Yield names and values where some are base64 text."""
        packed = frozenset(self.base64 or ())
        for number, (name, value) in enumerate(self._fields()):
            at = pointer_to("pairs", number) if self.fields is None else pointer_to("fields", name)
            yield bytes_of(name, place + at) if self.names_base64 else name.encode()
            yield bytes_of(value, place + at) if name in packed else value.encode()

    def _fields(self) -> Iterable[Sequence[str]]:
        return self.fields.items() if self.fields is not None else self.pairs or ()


class Append(EntryInput):
    """An entry to append, and how."""

    create_stream: Flag = Field(True, description="Create the stream if it is not there.")
    trim: Trim | None = Field(None, description="Trim the stream after the append.")


class Appended(BaseModel):
    """What an append made."""

    id: IdText


class AppendedBatch(BaseModel):
    """What a batch of appends made."""

    count: int
    first_id: IdText
    last_id: IdText
    ids: list[IdText] = Field(description="One per entry, in order.")


class Entry(BaseModel):
    """One element of a stream."""

    id: IdText
    fields: FieldMap
    base64: list[str] | None = Field(
        None, description="Names of fields whose values are base64 text of bytes."
    )
    pairs: list[Pair] | None = Field(None, description="All fields in order, where a name repeats.")
    names_base64: bool | None = Field(
        None, description="True if a name is not UTF-8: then all names are base64 text."
    )

    @classmethod
    def of(cls, entry: EngineEntry) -> Self:
        """Return an entry with its fields as text, or in base64 if they are none."""
        return cls(id=str(entry.id), **wire_fields(entry.fields))


class Gap(BaseModel):
    """Entries a reader missed because trimming took them: above `from`, up to `to`."""

    model_config = ConfigDict(populate_by_name=True)

    after: IdText = Field(alias="from")
    through: IdText = Field(alias="to")

    @classmethod
    def of(cls, gap: EngineGap | None) -> Self | None:
        """Return what a reader has missed; None if it has missed nothing."""
        if gap is None:
            return None
        return cls(after=str(gap.after), through=str(gap.through))


class Entries(BaseModel):
    """Entries of one stream."""

    entries: list[Entry]
    next_after: IdText | None = Field(description="Cursor for the next read, ascending.")
    last_id: IdText = Field(description="The stream's last id.")
    gap: Gap | None = Field(description="What trimming took between the cursor and the oldest.")


class StreamEntries(Entries):
    """Entries of one of several streams."""

    stream: str


class ReadCursor(Request):
    """Where to read one stream."""

    stream: str
    after: str = Field("0", description="An id, `$` for from now on, or `+` for the last entry.")


class Read(Request):
    """A read of several streams."""

    streams: Annotated[list[ReadCursor], Field(fail_fast=True)] = Field(
        min_length=1, max_length=100
    )
    limit: Annotated[int, Field(ge=1, strict=True)] = Field(100, description="Entries per stream.")
    wait_ms: Milliseconds = Field(0, description="How long to wait if there is nothing.")


class StreamsRead(BaseModel):
    """What several streams had."""

    streams: list[StreamEntries] = Field(description="One per cursor, in order, empty or not.")


class Ids(Request):
    """A list of entry ids."""

    ids: Annotated[list[IdText], Field(fail_fast=True)] = Field(min_length=1)


class Deletions(Ids):
    """Which entries to delete, and what becomes of them where they are pending."""

    references: References = Field(References.KEEP, description=REFERENCES)


class Deleted(BaseModel):
    """What became of one id."""

    id: IdText
    outcome: Deletion


class DeletedEntries(BaseModel):
    """What became of each id, in order."""

    results: list[Deleted]


# Bulk

EpochText = Annotated[str, Field(description="Identity of this life of the stream's name.")]


class BulkCursor(Request):
    """How far one stream has been read."""

    stream: str
    after: str = Field("0-0", description="An id, or `$` for from now on.")
    epoch: Annotated[str, Field(pattern=r"^[0-9]{1,19}$")] | None = Field(
        None, description="In which life of the stream's name; null is in any."
    )


class PlanBulkRead(Request):
    """What to plan."""

    cursors: Annotated[list[BulkCursor], Field(fail_fast=True)] = Field(
        min_length=1, max_length=1000
    )
    max_entries: Annotated[int, Field(ge=1, le=COUNT_MAX, strict=True)] | None = Field(
        None, description="Of all streams together; null is all there are."
    )
    wait_ms: Milliseconds = Field(0, description="How long to wait if no stream has anything.")


class Portion(BaseModel):
    """What to read of one stream: above `after`, up to and including `end`."""

    stream: str
    epoch: EpochText | None = Field(description="Null if there is no such stream.")
    after: IdText = Field(description="`0-0` if the stream is another one than the cursor's.")
    end: IdText = Field(description="`after` if there is nothing.")
    entries: int = Field(description="Entries up to `end`.")
    backlog: int = Field(description="All entries above `after`.")
    last_id: IdText = Field(description="The stream's last id.")
    first_id: IdText | None = Field(description="Of the oldest entry; null if there is none.")
    gap: Gap | None = Field(description="What trimming took between the cursor and the oldest.")

    @classmethod
    def of(cls, portion: EnginePortion) -> Self:
        """Return up to where one stream is to be read next."""
        return cls(
            stream=text_of(portion.stream),
            epoch=None if portion.epoch is None else str(portion.epoch),
            after=str(portion.after),
            end=str(portion.end),
            entries=portion.entries,
            backlog=portion.backlog,
            last_id=str(portion.last_id),
            first_id=None if portion.first_id is None else str(portion.first_id),
            gap=Gap.of(portion.gap),
        )


class BulkPlan(BaseModel):
    """What to read next."""

    streams: list[Portion] = Field(description="One per cursor, in order.")


class Split(BaseModel):
    """One part of a range: above `after`, up to and including `to`."""

    after: IdText
    to: IdText
    entries: int


class Splits(BaseModel):
    """A range, cut by count."""

    stream: str
    epoch: EpochText
    splits: list[Split]


class Staged(BaseModel):
    """What a chunk holds."""

    entries: int
    size_bytes: int = Field(description="What it takes of `staged_bytes_max`.")


Number = Annotated[int, Field(ge=0, le=COUNT_MAX, strict=True)]
AttemptText = Annotated[
    str,
    Field(
        description="Token of the attempt to write the partition.",
        pattern=r"^[A-Za-z0-9._-]{1,64}$",
        examples=["task-17"],
    ),
]


CHUNKS_MAX = 100_000
"""Chunks staged at once: each is a file."""


class Attempt(Request):
    """The attempt that counts for a partition."""

    partition: Number
    attempt: AttemptText
    chunks: Annotated[int, Field(ge=0, le=CHUNKS_MAX, strict=True)] = Field(
        description="How many it staged: those from 0 on."
    )


class CommitBatch(Request):
    """What to commit."""

    attempts: Annotated[list[Attempt], Field(fail_fast=True)] = Field(
        max_length=CHUNKS_MAX, description="One per partition; none for a batch without entries."
    )
    create_streams: Flag = Field(True, description="Create the streams that are missing.")


class Written(BaseModel):
    """What a batch put into one stream."""

    stream: str
    entries: int
    first_id: IdText
    last_id: IdText


class Committed(BaseModel):
    """What a commit did."""

    repeated: bool = Field(description="True: it was committed before, and nothing changed now.")
    entries: int
    streams: list[Written]

    @classmethod
    def of(cls, committed: EngineCommitted) -> Self:
        """Return what became of a batch."""
        return cls(
            repeated=committed.is_repeat,
            entries=sum(one.entries for one in committed.streams),
            streams=[
                Written(
                    stream=text_of(one.stream),
                    entries=one.entries,
                    first_id=str(one.first_id),
                    last_id=str(one.last_id),
                )
                for one in committed.streams
            ],
        )


class Writer(BaseModel):
    """A writer."""

    writer: str
    last_batch: int | None = Field(description="The last it committed; null if none is known.")
    committed_at_ms: int | None = Field(description="When that was.")


# Streams


class StreamConfig(Request):
    """How long a stream keeps its entries and its writers' keys; null is what holds by default."""

    max_length: Count | None = Field(None, description="Keep the newest so many.")
    max_age_ms: Annotated[int, Field(ge=1, le=COUNT_MAX, strict=True)] | None = Field(
        None, description="Keep entries whose id is not older."
    )
    idempotency_window_ms: Annotated[int, Field(ge=1000, le=86_400_000, strict=True)] | None = (
        Field(None, description="How long an idempotency key protects; 100 s unless given.")
    )
    idempotency_max: Annotated[int, Field(ge=1, le=10_000, strict=True)] | None = Field(
        None, description="Keys remembered of each producer, the newest; 100 unless given."
    )

    def to_engine(self) -> EngineStreamConfig:
        """Return the engine's form."""
        return EngineStreamConfig(**self.model_dump())

    def to_patch(self) -> StreamPatch:
        """Return what was said here as changes (RFC 7396: null removes)."""
        return StreamPatch(**self.model_dump(exclude_unset=True))


class Stream(BaseModel):
    """A stream."""

    name: str
    epoch: int = Field(description="Identity of this life of the name; a later life has a greater.")
    length: int = Field(description="Entries in it.")
    first_id: IdText | None = Field(description="Of the oldest entry; null if it is empty.")
    last_id: IdText = Field(description="The last id ever generated.")
    max_deleted_id: IdText = Field(description="The greatest id ever deleted; trims do not count.")
    entries_added: int = Field(description="Entries ever added.")
    groups: int = Field(description="How many groups it has.")
    chunks: int = Field(description="How many chunks hold its entries.")
    config: StreamConfig

    @classmethod
    def of(cls, info: EngineStreamInfo) -> Self:
        """Return a stream as XINFO STREAM describes it."""
        return cls(**_wire_stream(info))


class StreamDetail(Stream):
    """A stream, and with `full` what is in it."""

    first_entry: Entry | None
    last_entry: Entry | None
    entries: list[Entry] | None = Field(None, description="With `full`: the oldest entries.")
    group_details: list["GroupDetail"] | None = Field(
        None, description="With `full`: groups, consumers and pending entries."
    )
    groups_left_out: int | None = Field(
        None, description="With `full`: how many more groups there are."
    )

    @classmethod
    def of_ends(
        cls, info: EngineStreamInfo, first: list[EngineEntry], last: list[EngineEntry]
    ) -> Self:
        """Return the wire form with the first and the last entry, if there are any."""
        return cls(
            **_wire_stream(info),
            first_entry=Entry.of(first[0]) if first else None,
            last_entry=Entry.of(last[0]) if last else None,
        )


class Streams(BaseModel):
    """A page of streams, by name."""

    streams: list[Stream]
    next_cursor: str | None = NEXT_CURSOR


class Trimmed(BaseModel):
    """What a trim did."""

    removed: int


# Groups and consumers

GroupStartText = Annotated[
    str, Field(description="Read after this id; `$` is the last one, `0` reads everything.")
]
EntriesRead = Annotated[int, Field(ge=0, le=COUNT_MAX, strict=True)]
Positive = Annotated[int, Field(ge=1, le=COUNT_MAX, strict=True)]


class Policy(Request):
    """What a group does by itself; every part may be left out or null."""

    claim_idle_ms: Milliseconds | None = Field(
        None, description="Reads that do not say it take over entries idle for so long."
    )
    max_deliveries: Positive | None = Field(
        None, description="An entry delivered so often goes to `dead_letter_stream` when it fails."
    )
    dead_letter_stream: str | None = Field(
        None,
        description="Where such entries go, with `_stream`, `_id`, `_group`, `_deliveries` and "
        "`_reason` behind their own fields.",
    )
    backoff_ms: list[Milliseconds] | None = Field(
        None,
        max_length=32,
        description="How long a failed entry rests before its 2nd, 3rd … delivery.",
        examples=[[1000, 10000, 60000]],
    )
    max_pending: Positive | None = Field(
        None, description="A consumer with so many unacknowledged entries gets no more."
    )
    on_disconnect: OnDisconnect | None = Field(
        None, description="What becomes of a connection's unacknowledged entries in the end."
    )
    consumer_ttl_ms: Positive | None = Field(
        None, description="A consumer idle for so long, with nothing pending, is removed."
    )

    def to_engine(self) -> GroupPolicy:
        """Return the engine's form."""
        return patched(NO_POLICY, self.to_patch())

    def to_patch(self) -> PolicyPatch:
        """Return what was said here as changes (RFC 7396: null removes)."""
        said: dict[str, Any] = self.model_dump(exclude_unset=True)
        letters = said.get("dead_letter_stream")
        if letters is not None:
            place = "/body/policy/dead_letter_stream"
            said["dead_letter_stream"] = check_name(letters, pointer=place)
        if "backoff_ms" in said:
            said["backoff_ms"] = tuple(said["backoff_ms"] or ())
        if "on_disconnect" in said:
            said["keeps"] = said.pop("on_disconnect") == "keep"
        return PolicyPatch(**said)

    @classmethod
    def of(cls, policy: GroupPolicy) -> Self:
        """Return the wire form, without what is left out."""
        letters = policy.dead_letter_stream
        said = {
            "claim_idle_ms": policy.claim_idle_ms,
            "max_deliveries": policy.max_deliveries,
            "dead_letter_stream": None if letters is None else text_of(letters),
            "backoff_ms": list(policy.backoff_ms) or None,
            "max_pending": policy.max_pending,
            "on_disconnect": "keep" if policy.keeps else None,
            "consumer_ttl_ms": policy.consumer_ttl_ms,
        }
        return cls(**{name: value for name, value in said.items() if value is not None})


class GroupInput(Request):
    """A group to create."""

    start: GroupStartText = "$"
    create_stream: Flag = Field(False, description="Create the stream if it is not there.")
    entries_read: EntriesRead | None = Field(
        None, description="How many entries lie before `start`, if you know; `lag` follows from it."
    )
    policy: Policy | None = None

    def to_policy(self) -> GroupPolicy | None:
        """Return the policy in the engine's form, if there is one."""
        return None if self.policy is None else self.policy.to_engine()

    def to_start(self) -> GroupStart:
        """Return the engine's form."""
        return GroupStart(parse_group_start(self.start), self.entries_read)


class GroupPatch(Request):
    """What to change of a group; give at least one."""

    start: GroupStartText | None = None
    entries_read: EntriesRead | None = Field(
        None,
        description="How many entries lie before its position; unknown if only `start` is given.",
    )
    policy: Policy | None = Field(
        None, description="The parts to change; a part that is null is removed."
    )

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.start is None and self.entries_read is None and self.policy is None:
            raise ValueError("give start, entries_read or policy")
        return self

    def to_request(self, stream: bytes, group: bytes) -> UpdateGroup:
        """Return the engine's form."""
        return UpdateGroup(
            stream,
            group,
            UNSET if self.start is None else parse_group_start(self.start),
            UNSET if self.entries_read is None else self.entries_read,
            PolicyPatch() if self.policy is None else self.policy.to_patch(),
        )


class Group(BaseModel):
    """A consumer group."""

    name: str
    last_id: IdText = Field(description="Last delivered id; the group reads after it.")
    entries_read: int | None = Field(description="Its place in all entries ever added, if known.")
    lag: int | None = Field(description="Entries it has still to be given, if known.")
    pending: int = Field(description="Entries delivered and not acknowledged.")
    released: int = Field(description="Those of them nobody owns: the next reader gets them.")
    consumers: int
    policy: Policy

    @classmethod
    def of(cls, info: EngineGroupInfo) -> Self:
        """Return a group as XINFO GROUPS describes it."""
        return cls(**_wire_group(info))


class Groups(BaseModel):
    """A page of the groups of a stream, by name."""

    groups: list[Group]
    next_cursor: str | None = NEXT_CURSOR


class GroupConsumer(BaseModel):
    """A consumer of a group."""

    name: str
    pending: int = Field(description="Entries it holds.")
    idle_ms: int = Field(description="Since it last tried to read or claim.")
    inactive_ms: int | None = Field(description="Since it last got something; null: never.")

    @classmethod
    def of(cls, info: EngineConsumerInfo) -> Self:
        """Return a consumer as XINFO CONSUMERS describes it."""
        return cls(
            name=text_of(info.name),
            pending=info.pending_count,
            idle_ms=info.idle_ms,
            inactive_ms=info.inactive_ms,
        )


class Consumers(BaseModel):
    """A page of the consumers of a group, by name."""

    consumers: list[GroupConsumer]
    next_cursor: str | None = NEXT_CURSOR


class DeletedConsumer(BaseModel):
    """What a consumer held when it went."""

    pending: int = Field(description="How many entries were released or dropped.")


# Delivery


class Delivery(Entry):
    """An entry handed to a consumer."""

    deliveries: int = Field(description="How often it was delivered, this time included.")
    idle_ms: int = Field(description="How long it had been idle when it was claimed.")
    claimed_from: str | None = Field(None, description="Whom it was taken from.")

    @classmethod
    def of_delivery(cls, delivery: EngineDelivery) -> Self:
        """Return an entry with how often it was delivered."""
        found: dict[str, Any] = wire_fields(delivery.fields or ())
        if delivery.claimed_from is not None:
            found["claimed_from"] = text_of(delivery.claimed_from)
        return cls(
            id=str(delivery.id),
            deliveries=min(delivery.delivery_count, COUNT_MAX),
            idle_ms=delivery.idle_ms,
            **found,
        )


class ReadGroup(Request):
    """A read as a consumer of a group; every part may be left out."""

    limit: Annotated[int, Field(ge=1, strict=True)] = Field(10, description="Entries at most.")
    wait_ms: Milliseconds = Field(0, description="How long to wait if there is nothing.")
    claim_idle_ms: Milliseconds | None = Field(
        None, description="First take entries pending with anybody and idle for so long."
    )
    after: str = Field(
        ">",
        alias="from",
        description="`>`: entries new to the group. `0` or an id: one's own pending ones.",
    )
    no_ack: Flag = Field(False, description="New entries need no acknowledgement.")
    ack: Annotated[list[IdText], Field(fail_fast=True)] = Field(
        [], description="Acknowledge these first."
    )


class GroupEntries(BaseModel):
    """What a consumer got."""

    entries: list[Delivery]
    deleted_ids: list[IdText] | None = Field(
        None, description="Own pending ids whose entries are gone from the stream; ack them."
    )
    lag: int | None = Field(description="Entries the group has still to be given, if known.")
    pending: int = Field(description="Entries this consumer holds now.")
    state: GroupState = Field(description="Whether there is more, and why not.")


class Settled(BaseModel):
    """What became of one id."""

    id: IdText
    outcome: Outcome


class SettledEntries(BaseModel):
    """What became of each id, in order."""

    results: list[Settled]


class Nack(Ids):
    """Deliveries to give back."""

    mode: Literal["silent", "fail", "fatal"] = Field(
        "fail",
        description="`silent`: it was never tried, and does not count. `fail`: it was tried. "
        "`fatal`: it cannot work; its count becomes the greatest there is.",
    )
    delay_ms: Milliseconds | None = Field(
        None,
        description="Nobody gets them before that; the group's `backoff_ms` if it is left out.",
    )


class Redrive(Request):
    """Dead letters to send back; all parts may be left out."""

    ids: Annotated[list[IdText], Field(fail_fast=True)] | None = Field(
        None, min_length=1, description="By their ids in the dead letter stream; else the oldest."
    )
    limit: Annotated[int, Field(ge=1, strict=True)] = Field(100, description="So many at most.")


class Redriven(BaseModel):
    """A dead letter that was sent back."""

    id: IdText = Field(description="Its id in the dead letter stream, where it is no more.")
    outcome: RedriveOutcome = Field(
        description="`released`: the group's next reader gets the entry. `appended`: it was gone "
        "from its stream and is a new entry there, for every group."
    )
    entry_id: IdText = Field(description="Its id in the stream it came from.")


class RedrivenLetters(BaseModel):
    """What became of each dead letter."""

    results: list[Redriven]


class Claim(Ids):
    """Pending entries to take over."""

    min_idle_ms: Milliseconds = Field(description="Leave out those idle for less.")
    idle_ms: Milliseconds | None = Field(None, description="Set their idle time to this.")
    time_ms: Milliseconds | None = Field(None, description="Set their delivery time to this.")
    retry_count: Count | None = Field(None, description="Set their delivery count to this.")
    force: Flag = Field(False, description="Make live entries pending that are not.")
    just_id: Flag = Field(False, description="Answer only ids, and do not count a delivery.")


class Autoclaim(Request):
    """Idle entries to take over, whichever they are."""

    min_idle_ms: Milliseconds = Field(description="Leave out those idle for less.")
    start: str = Field("0", description="Begin at this id; `next` of the page before.")
    limit: Annotated[int, Field(ge=1, strict=True)] = Field(100, description="Entries at most.")
    just_id: Flag = Field(False, description="Answer only ids, and do not count a delivery.")


class Claimed(BaseModel):
    """What a claim got."""

    ids: list[IdText]
    entries: list[Delivery] | None = Field(None, description="The entries, unless `just_id`.")
    deleted_ids: list[IdText] = Field(
        description="Were pending, are gone from the stream, and are pending no more."
    )


class Autoclaimed(Claimed):
    """A page of what an autoclaim got."""

    next: IdText = Field(description="`start` of the next page; `0-0` when the scan is complete.")


class PendingEntry(BaseModel):
    """An entry that was delivered and not acknowledged."""

    id: IdText
    consumer: str | None = Field(description="Who holds it; null: nobody, it was given back.")
    idle_ms: int | None = Field(description="Since its last delivery; null: nobody holds it.")
    deliveries: int

    @classmethod
    def of(cls, item: EnginePendingItem) -> Self:
        """Return a pending entry as XPENDING lists it."""
        return cls(
            id=str(item.id),
            consumer=None if item.consumer is None else text_of(item.consumer),
            idle_ms=item.idle_ms,
            deliveries=item.delivery_count,
        )


class PendingEntries(BaseModel):
    """Pending entries, by id."""

    pending: list[PendingEntry]


class ConsumerPending(BaseModel):
    """How much a consumer holds."""

    name: str
    pending: int


class PendingSummary(BaseModel):
    """What is pending, and with whom."""

    count: int
    min_id: IdText | None
    max_id: IdText | None
    consumers: list[ConsumerPending] = Field(description="Who holds entries, by name.")
    consumers_left_out: int = Field(description="How many more consumers hold entries.")


class GroupDetail(Group):
    """A group with what is pending and with whom."""

    pending_entries: list[PendingEntry]
    consumer_details: list[GroupConsumer]
    consumers_left_out: int = Field(description="How many more consumers it has.")

    @classmethod
    def of_detail(cls, detail: EngineGroupDetail) -> Self:
        """Return a group as XINFO STREAM FULL describes it."""
        return cls(
            **_wire_group(detail.info),
            pending_entries=[PendingEntry.of(item) for item in detail.pending],
            consumer_details=[GroupConsumer.of(consumer) for consumer in detail.consumers],
            consumers_left_out=detail.info.consumer_count - len(detail.consumers),
        )


# Operations


class Health(BaseModel):
    """Whether the gateway lives, or is ready."""

    status: Literal["ok"]


class Limits(BaseModel):
    """The bounds of this gateway."""

    model_config = ConfigDict(frozen=True)

    body_bytes_max: int = Field(description="Largest request body.")
    batch_entries_max: int = Field(description="Entries in one batch.")
    disk_bytes_max: int | None = Field(
        description="Size of the journal from which appends are refused; null: any."
    )
    disk_free_bytes_min: int = Field(
        description="Free bytes of the disk below which appends are refused."
    )
    memory_bytes_max: int = Field(
        description="Memory of the streams from which appends are refused, or the oldest trimmed."
    )
    streams_max: int = Field(description="Streams.")
    groups_max: int = Field(description="Groups of one stream.")
    consumers_max: int = Field(description="Consumers of one group.")
    producers_max: int = Field(
        description="Producers of one stream whose idempotency keys are remembered."
    )
    staged_bytes_max: int = Field(description="Chunks of batches that are not committed yet.")
    staged_ttl_ms: int = Field(description="A batch that gets no chunk for so long is forgotten.")
    read_entries_max: int = Field(description="Entries in one JSON answer.")
    read_bytes_max: int = Field(description="Names and values in one answer, about.")
    ids_max: int = Field(description="Ids in one ack, nack, extend, claim or delete.")
    wait_ms_max: int = Field(description="Longest wait of a long poll.")
    waiters_max: int = Field(description="Reads blocked at once.")
    sockets_max: int = Field(description="Connections of any kind at once.")
    arriving_bytes_max: int = Field(description="Request bodies that arrive at once, together.")
    unsent_bytes_max: int = Field(description="What clients have not taken of answers, together.")
    connections_max: int = Field(description="Event streams and WebSockets at once.")
    subscriptions_max: int = Field(description="Subscriptions of one WebSocket.")
    connection_ms_max: int | None = Field(
        description="After so long a connection is told to come back; null: it may stay."
    )
    frame_bytes_max: int = Field(description="Largest WebSocket frame, once inflated.")
    credit_max: int = Field(description="Most credit a subscription may hold.")
    heartbeat_ms: int = Field(description="Silence on an event stream at most.")
    ping_interval_ms: int = Field(description="How often a WebSocket is pinged.")
    pong_wait_ms: int = Field(description="How long its answer may take.")
    send_ms_max: int = Field(description="How long a client that takes nothing is kept.")


def _wire_stream(info: EngineStreamInfo) -> dict[str, Any]:
    return {
        "name": text_of(info.name),
        "epoch": info.epoch,
        "length": info.length,
        "first_id": str(info.first_id) if info.length else None,
        "last_id": str(info.last_id),
        "max_deleted_id": str(info.max_deleted_id),
        "entries_added": info.entries_added,
        "groups": info.group_count,
        "chunks": info.chunk_count,
        "config": StreamConfig(**msgspec.structs.asdict(info.config)),
    }


def _wire_group(info: EngineGroupInfo) -> dict[str, Any]:
    return {
        "name": text_of(info.name),
        "last_id": str(info.last_id),
        "entries_read": info.entries_read,
        "lag": info.lag,
        "pending": info.pending_count,
        "released": info.nacked_count,
        "consumers": info.consumer_count,
        "policy": Policy.of(info.policy),
    }


# Operations


class JournalState(BaseModel):
    """How the journal is."""

    position: int = Field(description="Records taken.")
    durable_position: int = Field(description="Records that are safe.")
    size_bytes: int = Field(description="Size of snapshot and segments.")
    failure: str | None = Field(description="Why nothing can be written until a restart.")
    fault: str | None = Field(description="Why nothing can be written for now.")
    shortage: str | None = Field(description="Why appends are refused for now: no room.")
    is_rewriting: bool = Field(description="Whether a snapshot is being made.")
    rewrite_count: int = Field(description="Snapshots made since the start.")
    rewrite_failure: str | None = Field(description="Why the last rewrite did not work.")

    @classmethod
    def of(cls, status: EngineJournalStatus) -> Self:
        """Return what the journal says of itself."""
        return cls.model_validate(status._asdict())
