"""Groups and their consumers: list, describe, create, change, delete."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UNSET, UnsetType

from headgate.engine.config import GroupPolicy, PolicyPatch
from headgate.engine.entry import EntryId
from headgate.engine.replies import ConsumerInfo, Created, GroupInfo
from headgate.engine.requests import Request


class GroupStart(NamedTuple):
    """Where a group begins reading."""

    last_id: EntryId | None  # None: after the stream's last id (`$`)
    entries_read: int | None = None  # None: unknown


class ListGroups(Request[list[GroupInfo]], frozen=True):
    """Describe up to `limit` groups of a stream, by name, above `after` (XINFO GROUPS).

    Each is described as it is at some moment of the call.

    Raises:
        StreamNotFound: there is no stream.
    """

    stream: bytes
    after: bytes | None = None
    limit: int | None = None


class DescribeGroup(Request[GroupInfo], frozen=True):
    """Describe one group."""

    stream: bytes
    group: bytes


class CreateGroup(Request[Created[GroupInfo]], frozen=True):
    """Create a group with a policy (XGROUP CREATE), unless it is there: then it stays as it is.

    Raises:
        Invalid: the policy contradicts itself.
        StreamNotFound: there is no stream and `create_stream` is false.
        GroupExists: it is there, and `exist_ok` is false or its policy is another one than this;
            with a policy of None any will do.
        LimitReached: the stream or the group would be one too many.
    """

    stream: bytes
    group: bytes
    start: GroupStart
    create_stream: bool = False
    policy: GroupPolicy | None = None
    exist_ok: bool = True


class UpdateGroup(Request[GroupInfo], frozen=True):
    """Set a group's position (XGROUP SETID), or change its policy; all of it, or nothing.

    The position may go forward or back. What is pending stays pending, and no reader wakes up. The
    policy holds from the next read on.

    Raises:
        Invalid: the policy would contradict itself.
    """

    stream: bytes
    group: bytes
    last_id: EntryId | UnsetType | None = UNSET  # None: the stream's last id (`$`)
    entries_read: int | UnsetType = UNSET  # unknown if only `last_id` is given
    policy: PolicyPatch = PolicyPatch()

    @property
    def moves(self) -> bool:
        """Tell whether it changes the position."""
        return self.last_id is not UNSET or self.entries_read is not UNSET


class DestroyGroup(Request[bool], frozen=True):
    """Destroy a group (XGROUP DESTROY); false if there is none. Its blocked readers fail.

    Raises:
        StreamNotFound: there is no stream.
    """

    stream: bytes
    group: bytes


class ListConsumers(Request[list[ConsumerInfo]], frozen=True):
    """Describe up to `limit` consumers of a group, by name, above `after` (XINFO CONSUMERS)."""

    stream: bytes
    group: bytes
    after: bytes | None = None
    limit: int | None = None


class DescribeConsumer(Request[ConsumerInfo | None], frozen=True):
    """Describe one consumer; None if there is none."""

    stream: bytes
    group: bytes
    consumer: bytes


class CreateConsumer(Request[Created[ConsumerInfo]], frozen=True):
    """Create a consumer (XGROUP CREATECONSUMER), unless it is there.

    Raises:
        LimitReached: the group has as many consumers as it may have.
    """

    stream: bytes
    group: bytes
    consumer: bytes


class DeleteConsumer(Request[int | None], frozen=True):
    """Delete a consumer (XGROUP DELCONSUMER); replies how many entries it held, None: no consumer.

    With `release` these entries stay pending without an owner, for the next reader. Without, they
    are pending no more, for good.
    """

    stream: bytes
    group: bytes
    consumer: bytes
    release: bool
