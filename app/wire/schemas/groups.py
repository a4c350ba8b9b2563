"""Consumer groups and their consumers."""

from typing import Annotated, Self

from msgspec import UNSET
from pydantic import BaseModel, Field, model_validator
from typing_extensions import TypedDict

from headgate.app.wire.ids import parse_group_start
from headgate.app.wire.schemas.pending import PendingEntry
from headgate.app.wire.schemas.settings import Policy
from headgate.app.wire.schemas.values import Count, Flag, IdText, NextCursor, Request
from headgate.engine.config import NO_POLICY, GroupPolicy, Patch
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
        """Return the policy in the engine's form, if there is one."""
        return None if self.policy is None else self.policy.to_engine()

    def to_start(self) -> GroupStart:
        """Return the engine's form."""
        return GroupStart(parse_group_start(self.start), self.entries_read)


class GroupPatch(Request):
    """A change of a group; give at least one part."""

    start: GroupStartText | None = None
    entries_read: Count | None = Field(
        None,
        description="Number of entries before its position; unknown if only `start` is given.",
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
            Patch(NO_POLICY) if self.policy is None else self.policy.to_patch(),
        )


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


class Groups(TypedDict):
    """A page of the groups of a stream, by name."""

    groups: list[Group]
    next_cursor: NextCursor


class GroupDetail(Group):
    """A group with its pending entries and its consumers."""

    pending_entries: list[PendingEntry]
    consumer_details: list[GroupConsumer]
    consumers_left_out: Annotated[int, Field(description="Number of its other consumers.")]
