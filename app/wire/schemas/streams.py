"""Streams and groups: their configuration and policies."""

from typing import Annotated, NotRequired, Self

from msgspec import UNSET
from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import TypedDict

from headgate.app.wire.ids import StartText, parse_group_start
from headgate.app.wire.schemas.deliveries import PendingEntry
from headgate.app.wire.schemas.entries import Count, Entry, Flag, IdText, NextCursor, Request
from headgate.app.wire.schemas.settings import Policy, StreamConfig
from headgate.app.wire.schemas.verdicts import GroupVerdict
from headgate.engine.config import NO_POLICY, GroupPolicy, Patch
from headgate.engine.replies import Histogram as EngineHistogram
from headgate.engine.requests.groups import GroupStart, UpdateGroup


class GroupConsumer(TypedDict):
    """A consumer of a group."""

    name: str
    pending: Annotated[int, Field(description="Number of entries that the consumer holds.")]
    idle_ms: Annotated[int, Field(description="Time since its last attempt to read or claim.")]
    inactive_ms: Annotated[
        int | None, Field(description="Time since it last received entries; null: never.")
    ]


class Consumers(TypedDict):
    """A page of the consumers of a group, sorted by name."""

    consumers: list[GroupConsumer]
    next_cursor: NextCursor


class GroupKey(TypedDict):
    """A key of a fair group: a value of its `fair_field`."""

    key: Annotated[
        str | None, Field(description="The value; null stands for all entries without the field.")
    ]
    waiting: Annotated[int, Field(description="Number of entries that are not delivered yet.")]
    pending: Annotated[int, Field(description="Number of entries that consumers hold.")]
    oldest_id: Annotated[str | None, Field(description="Id of the first waiting entry.")]
    oldest_age_ms: Annotated[
        int | None, Field(description="Age of the first waiting entry, by its id.")
    ]
    share: Annotated[
        float, Field(description="Share of the deliveries of the last minute, from 0 to 1.")
    ]
    is_resting: Annotated[
        bool, Field(description="Whether the key has reached `key_pending_max` pending entries.")
    ]


class GroupKeyList(TypedDict):
    """Keys of a fair group."""

    keys: list[GroupKey]
    key_count: Annotated[int, Field(description="Number of keys with waiting entries.")]
    waiting: Annotated[int, Field(description="Number of waiting entries of all keys.")]
    is_complete: Annotated[
        bool,
        Field(
            description="False if more entries wait behind these. They are indexed in order as "
            "room becomes available (`key_ahead_max`)."
        ),
    ]


class DeletedConsumer(BaseModel):
    """Pending entries of a deleted consumer."""

    pending: int = Field(description="Number of entries that were released or dropped.")


GroupStartText = Annotated[
    StartText,
    Field(description="Read entries after this id; `$` is the last id, `0` reads all entries."),
]


class GroupInput(Request):
    """A group to create."""

    start: GroupStartText = "$"
    create_stream: Flag = Field(False, description="Create the stream if it does not exist.")
    entries_read: Count | None = Field(
        None, description="Number of entries before `start`, if known. `lag` is computed from it."
    )
    policy: Policy | None = None

    def to_policy(self) -> GroupPolicy | None:
        return None if self.policy is None else self.policy.to_engine()

    def to_start(self) -> GroupStart:
        return GroupStart(parse_group_start(self.start), self.entries_read)


class GroupPatch(Request):
    """A change of a group; give at least one part."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    start: GroupStartText | None = None
    entries_read: Count | None = Field(
        None,
        description="Number of entries before `start`. It becomes unknown if only `start` is "
        "given.",
    )
    policy: Policy | None = Field(None, description="The parts to change. Null removes a part.")

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.start is None and self.entries_read is None and self.policy is None:
            raise ValueError("give start, entries_read or policy")
        return self

    def to_request(self, stream: bytes, group: bytes) -> UpdateGroup:
        return UpdateGroup(
            stream,
            group,
            UNSET if self.start is None else parse_group_start(self.start),
            UNSET if self.entries_read is None else self.entries_read,
            Patch(NO_POLICY) if self.policy is None else self.policy.to_patch(),
        )


class NoisyKey(TypedDict):
    """The key of a fair group that has more than half of the waiting entries."""

    key: str | None
    waiting: int


class Group(GroupVerdict):
    """A consumer group."""

    name: str
    last_id: Annotated[
        IdText, Field(description="Id of the last delivered entry. The group continues after it.")
    ]
    entries_read: Annotated[
        int | None, Field(description="Number of all entries added up to this position, if known.")
    ]
    lag: Annotated[
        int | None,
        Field(description="Number of entries that the group has yet to deliver, if known."),
    ]
    pending: Annotated[int, Field(description="Number of entries delivered but not acknowledged.")]
    released: Annotated[
        int,
        Field(
            description="Number of pending entries without a consumer. The next reader gets them."
        ),
    ]
    delayed: Annotated[
        int, Field(description="Approximate number of pending entries that wait for a delay.")
    ]
    consumers: int
    policy: Policy
    noisy_key: NotRequired[NoisyKey]


class Groups(TypedDict):
    """A page of the groups of a stream, sorted by name."""

    groups: list[Group]
    next_cursor: NextCursor


class GroupDetail(Group):
    """A group with its pending entries and its consumers."""

    pending_entries: list[PendingEntry]
    consumer_details: list[GroupConsumer]
    consumers_left_out: Annotated[
        int, Field(description="Number of consumers that are not listed.")
    ]


class TableState(TypedDict):
    """The table of a stream with a `key_field`."""

    rows: Annotated[int, Field(description="Approximate number of rows.")]
    indexed_through: Annotated[IdText, Field(description="Entries up to this id are indexed.")]
    is_complete: Annotated[
        bool,
        Field(
            description="False while the table is being built. Reads may then answer `unavailable`."
        ),
    ]


class Stream(TypedDict):
    """A stream."""

    name: str
    epoch: Annotated[
        int,
        Field(
            description="Identifies the stream. A stream that is deleted and created again has a "
            "greater epoch."
        ),
    ]
    length: Annotated[int, Field(description="Number of entries.")]
    first_id: Annotated[
        IdText | None, Field(description="Id of the oldest entry; null if the stream is empty.")
    ]
    last_id: Annotated[IdText, Field(description="Last id that was ever generated.")]
    max_deleted_id: Annotated[
        IdText, Field(description="Greatest id that was ever deleted, not counting trims.")
    ]
    entries_added: Annotated[int, Field(description="Number of entries ever added.")]
    groups: Annotated[int, Field(description="Number of groups.")]
    chunks: Annotated[int, Field(description="Number of chunks that hold the entries.")]
    hot_bytes: Annotated[
        int | None,
        Field(description="Approximate memory of the entries; null over Redis or Valkey."),
    ]
    cold_bytes: Annotated[
        int | None,
        Field(
            description="Approximate size of entries that are only on disk; null over Redis or "
            "Valkey."
        ),
    ]
    closed_at_ms: Annotated[
        int | None, Field(description="When the stream was closed; null if it is open.")
    ]
    archived_count: Annotated[
        int, Field(description="Number of trimmed entries that stay readable in the archive.")
    ]
    archived_first_id: Annotated[
        IdText | None, Field(description="Id of the oldest archived entry; null if there is none.")
    ]
    table: NotRequired[
        Annotated[TableState, Field(description="Only if the stream has a `key_field`.")]
    ]
    config: StreamConfig


class StreamDetail(Stream):
    """A stream. With `full`, also its entries and groups."""

    first_entry: Entry | None
    last_entry: Entry | None
    entries: NotRequired[
        Annotated[list[Entry], Field(description="With `full`: the oldest entries.")]
    ]
    group_details: NotRequired[
        Annotated[
            list[GroupDetail],
            Field(description="With `full`: groups, consumers and pending entries."),
        ]
    ]
    groups_left_out: NotRequired[
        Annotated[int, Field(description="With `full`: number of groups that are not listed.")]
    ]


class Streams(TypedDict):
    """A page of streams, sorted by name."""

    streams: list[Stream]
    next_cursor: NextCursor


class Histogram(BaseModel):
    """Number of entries of a range by time, with a count for each bucket of time."""

    from_ms: int = Field(description="Start of the first bucket.")
    to_ms: int = Field(description="Last millisecond of the range.")
    bucket_ms: int = Field(
        description="Duration of a bucket. The end of the range may cut the last one short."
    )
    counts: list[int] = Field(
        description="Number of entries of each bucket; empty if the range is empty."
    )

    @classmethod
    def of(cls, histogram: EngineHistogram) -> Self:
        return cls.model_validate(histogram._asdict())
