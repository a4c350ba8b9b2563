"""Groups and their consumers: list, describe, create, change, delete."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from headgate.engine.config import GroupPolicy, Patch
from headgate.engine.entry import EntryId
from headgate.engine.replies import ConsumerInfo, Created, GroupInfo, GroupKeys
from headgate.engine.requests import Request


class GroupStart(NamedTuple):
    """The position at which a group starts to read."""

    last_id: EntryId | None  # None: after the stream's last id (`$`)
    entries_read: int | None = None  # None: unknown


class ListGroups(Request[list[GroupInfo]], frozen=True):
    """Describe groups by name, after the name `after`, in pages (XINFO GROUPS). StreamNotFound."""

    stream: bytes
    after: bytes | None = None
    limit: int | None = None


class DescribeGroup(Request[GroupInfo], frozen=True):
    stream: bytes
    group: bytes


class CreateGroup(Request[Created[GroupInfo]], frozen=True):
    """Create a group with a policy (XGROUP CREATE). A group that exists stays as it is.

    With `targets_exist`, the streams that the policy names have to be there: or else its first dead
    letter creates them. GroupExists without `exist_ok`, or if its policy differs from `policy`,
    unless that is None; StreamNotFound, also for a target; Invalid, LimitReached.
    """

    stream: bytes
    group: bytes
    start: GroupStart
    create_stream: bool = False
    policy: GroupPolicy | None = None
    exist_ok: bool = True
    targets_exist: bool = False

    @property
    def targets(self) -> list[bytes]:
        return [] if self.policy is None else self.policy.other_streams


class UpdateGroup(Request[GroupInfo], frozen=True):
    """Set a group's position (XGROUP SETID), change its policy, or both; all or nothing.

    The position can move forward or back. Pending entries stay pending, and blocked readers are not
    run again for it. A policy takes effect at once, for blocked readers too. `targets_exist` is as
    in `CreateGroup`; StreamNotFound if one does not exist. Invalid if policy fields contradict.
    """

    stream: bytes
    group: bytes
    last_id: EntryId | UnsetType | None = UNSET  # None: the stream's last id (`$`)
    entries_read: int | UnsetType = UNSET  # unknown if only `last_id` is given
    policy: Patch[GroupPolicy] = Patch(GroupPolicy())
    targets_exist: bool = False

    @property
    def targets(self) -> list[bytes]:
        return self.policy.values.other_streams

    @property
    def moves(self) -> bool:
        return self.last_id is not UNSET or self.entries_read is not UNSET


class DestroyGroup(Request[bool], frozen=True):
    """Destroy a group (XGROUP DESTROY); false if it does not exist. Blocked readers fail."""

    stream: bytes
    group: bytes


class ListConsumers(Request[list[ConsumerInfo]], frozen=True):
    """Describe up to `limit` consumers of a group, by name, after `after` (XINFO CONSUMERS)."""

    stream: bytes
    group: bytes
    after: bytes | None = None
    limit: int | None = None


class KeyOrder(StrEnum):
    """The order of the keys of a fair group."""

    WAITING = "waiting"  # those with the most entries first
    AGE = "age"  # those that wait the longest first


class ListKeys(Request[GroupKeys], frozen=True):
    """Describe the first keys of a fair group, in an order; of any other group there are none.

    Of more than `KEYS_SCANNED_MAX` keys, those that have waited the longest are looked at.
    """

    stream: bytes
    group: bytes
    order: KeyOrder = KeyOrder.WAITING
    limit: int = 100


class DescribeConsumer(Request[ConsumerInfo | None], frozen=True):
    stream: bytes
    group: bytes
    consumer: bytes


class CreateConsumer(Request[Created[ConsumerInfo]], frozen=True):
    """Create a consumer (XGROUP CREATECONSUMER), unless it exists. LimitReached."""

    stream: bytes
    group: bytes
    consumer: bytes


class DeleteConsumer(Request[int | None], frozen=True):
    """Delete a consumer (XGROUP DELCONSUMER); the reply is how many entries it held.

    None: it does not exist. With `release`, its entries stay pending without an owner, for the next
    reader to claim. Without it, they stop being pending for good.
    """

    stream: bytes
    group: bytes
    consumer: bytes
    release: bool
