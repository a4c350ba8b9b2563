"""Streams and groups: their configuration and policies."""

from typing import Annotated, NotRequired, Self

from msgspec import UNSET
from pydantic import BaseModel, Field, model_validator
from typing_extensions import TypedDict

from headgate.app.wire.ids import parse_group_start
from headgate.app.wire.schemas.deliveries import PendingEntry
from headgate.app.wire.schemas.entries import Count, Entry, Flag, IdText, NextCursor, Request
from headgate.app.wire.schemas.settings import Policy, StreamConfig
from headgate.engine.config import NO_POLICY, GroupPolicy, Patch
from headgate.engine.replies import Histogram as EngineHistogram
from headgate.engine.requests.groups import GroupStart, UpdateGroup


class GroupConsumer(TypedDict):
    """A consumer of a group."""

    name: str
    pending: Annotated[int, Field(description="Entries it holds.")]
    idle_ms: Annotated[int, Field(description="Since it last tried to read or claim.")]
    inactive_ms: Annotated[
        int | None, Field(description="Since it last got something; null: never.")
    ]


class Consumers(TypedDict):
    """A page of the consumers of a group, by name."""

    consumers: list[GroupConsumer]
    next_cursor: NextCursor


class GroupKey(TypedDict):
    """A key of a fair group: a value of its `fair_field`."""

    key: Annotated[
        str | None, Field(description="The value; null: entries without the field, together.")
    ]
    waiting: Annotated[int, Field(description="Entries that are not delivered yet.")]
    pending: Annotated[int, Field(description="Entries that consumers hold.")]
    oldest_id: Annotated[str | None, Field(description="The first entry that waits.")]
    oldest_age_ms: Annotated[
        int | None, Field(description="Time since the id of the first entry that waits.")
    ]
    share: Annotated[
        float, Field(description="Its share of the deliveries of the last minute, from 0 to 1.")
    ]
    is_resting: Annotated[
        bool, Field(description="As many of its entries are pending as `key_pending_max` allows.")
    ]


class GroupKeyList(TypedDict):
    """Keys of a fair group."""

    keys: list[GroupKey]
    key_count: Annotated[int, Field(description="Keys with entries that wait.")]
    waiting: Annotated[int, Field(description="Entries of all keys that wait.")]
    is_complete: Annotated[
        bool,
        Field(
            description="false: more entries wait behind these. They are indexed in order, as "
            "there is room (`key_ahead_max`)."
        ),
    ]


class DeletedConsumer(BaseModel):
    """The pending entries of a deleted consumer."""

    pending: int = Field(description="Number of entries that were released or dropped.")


GroupStartText = Annotated[
    str, Field(description="Read after this id; `$` is the last one, `0` reads everything.")
]


class GroupInput(Request):
    """A group to create."""

    start: GroupStartText = "$"
    create_stream: Flag = Field(False, description="Create the stream if it is not there.")
    entries_read: Count | None = Field(
        None, description="Number of entries before `start`, if you know; `lag` follows from it."
    )
    policy: Policy | None = None

    def to_policy(self) -> GroupPolicy | None:
        return None if self.policy is None else self.policy.to_engine()

    def to_start(self) -> GroupStart:
        return GroupStart(parse_group_start(self.start), self.entries_read)


class GroupPatch(Request):
    """A change of a group; give at least one part."""

    start: GroupStartText | None = None
    entries_read: Count | None = Field(
        None, description="Number of entries before its position; unknown if only `start` is given."
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
        return UpdateGroup(
            stream,
            group,
            UNSET if self.start is None else parse_group_start(self.start),
            UNSET if self.entries_read is None else self.entries_read,
            Patch(NO_POLICY) if self.policy is None else self.policy.to_patch(),
        )


class NoisyKey(TypedDict):
    """The key of a fair group that has more than half of what waits."""

    key: str | None
    waiting: int


class Group(TypedDict):
    """A consumer group."""

    name: str
    last_id: Annotated[IdText, Field(description="Last delivered id; the group reads after it.")]
    entries_read: Annotated[
        int | None, Field(description="Its place in all entries ever added, if known.")
    ]
    lag: Annotated[int | None, Field(description="Entries it has still to be given, if known.")]
    pending: Annotated[int, Field(description="Entries delivered and not acknowledged.")]
    released: Annotated[
        int, Field(description="Those of them nobody owns: the next reader gets them.")
    ]
    delayed: Annotated[int, Field(description="Those of them nobody gets before a time, about.")]
    consumers: int
    policy: Policy
    noisy_key: NotRequired[NoisyKey]


class Groups(TypedDict):
    """A page of the groups of a stream, by name."""

    groups: list[Group]
    next_cursor: NextCursor


class GroupDetail(Group):
    """A group with its pending entries and its consumers."""

    pending_entries: list[PendingEntry]
    consumer_details: list[GroupConsumer]
    consumers_left_out: Annotated[int, Field(description="Number of its other consumers.")]


class TableState(TypedDict):
    """The table that a stream with a `key_field` is."""

    rows: Annotated[int, Field(description="Rows, about.")]
    indexed_through: Annotated[IdText, Field(description="Entries up to this id are indexed.")]
    is_complete: Annotated[
        bool,
        Field(
            description="False while the table is being built. Reads may answer `unavailable` then."
        ),
    ]


class Stream(TypedDict):
    """A stream."""

    name: str
    epoch: Annotated[
        int, Field(description="Identity of this life of the name; a later life has a greater.")
    ]
    length: Annotated[int, Field(description="Entries in it.")]
    first_id: Annotated[
        IdText | None, Field(description="Of the oldest entry; null if it is empty.")
    ]
    last_id: Annotated[IdText, Field(description="The last id ever generated.")]
    max_deleted_id: Annotated[
        IdText, Field(description="The greatest id ever deleted; trims do not count.")
    ]
    entries_added: Annotated[int, Field(description="Entries ever added.")]
    groups: Annotated[int, Field(description="How many groups it has.")]
    chunks: Annotated[int, Field(description="How many chunks hold its entries.")]
    hot_bytes: Annotated[
        int | None, Field(description="Memory of its entries, about; null at servers.")
    ]
    cold_bytes: Annotated[
        int | None,
        Field(description="Size of its entries that are on disk alone, about; null at servers."),
    ]
    closed_at_ms: Annotated[
        int | None, Field(description="Since when it takes no entries; null: it is open.")
    ]
    archived_count: Annotated[
        int, Field(description="Entries that were trimmed and stay readable in its archive.")
    ]
    archived_first_id: Annotated[
        IdText | None, Field(description="Of the oldest of them; null if there is none.")
    ]
    table: NotRequired[Annotated[TableState, Field(description="If it has a `key_field`.")]]
    config: StreamConfig


class StreamDetail(Stream):
    """A stream, and with `full` what is in it."""

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
        Annotated[int, Field(description="With `full`: how many more groups there are.")]
    ]


class Streams(TypedDict):
    """A page of streams, by name."""

    streams: list[Stream]
    next_cursor: NextCursor


class Histogram(BaseModel):
    """The entries of a range by time: a count for each bucket of the time in their ids."""

    from_ms: int = Field(description="When the first bucket begins.")
    to_ms: int = Field(description="The last millisecond of the range.")
    bucket_ms: int = Field(description="How long a bucket is; the last one may be cut by the end.")
    counts: list[int] = Field(
        description="Entries of each bucket, from the first on; none if the range is empty."
    )

    @classmethod
    def of(cls, histogram: EngineHistogram) -> Self:
        return cls.model_validate(histogram._asdict())
