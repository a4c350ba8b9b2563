"""Decisions about groups and their consumers: XGROUP."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from msgspec import UNSET

from headgate.engine.commands import (
    Command,
    ConsumerDeleted,
    ConsumerSeen,
    EntriesAcked,
    EntriesReleased,
    GroupCreated,
    GroupDestroyed,
    GroupMoved,
    PolicySet,
    StreamCreated,
)
from headgate.engine.decisions import Decision
from headgate.engine.decisions.policies import check_policy
from headgate.engine.entry import EntryId
from headgate.engine.errors import GroupExists, StreamNotFound
from headgate.engine.limits import SETTLED_AT_ONCE_MAX
from headgate.engine.requests import GroupStart, UpdateGroup, patched
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.pending import Consumer
from headgate.engine.state.policy import NO_POLICY, GroupPolicy
from headgate.engine.state.stream import Stream, StreamConfig


def create_group(
    keyspace: Keyspace,
    name: bytes,
    group: bytes,
    start: GroupStart,
    *,
    create_stream: bool,
    policy: GroupPolicy = NO_POLICY,
    now_ms: int,
) -> Decision[None]:
    """Decide to create a group (XGROUP CREATE), under a policy.

    Raises:
        Invalid: the policy contradicts itself.
        StreamNotFound: there is no stream and `create_stream` is false.
        GroupExists: the stream has such a group.
        LimitReached: the stream or the group is one too many.
    """
    check_policy(name, policy)
    stream = keyspace.find(name)
    commands: list[Command] = []
    if stream is None:
        if not create_stream:
            raise StreamNotFound(name)
        keyspace.bounds.check_another_stream(len(keyspace.streams))
        epoch = keyspace.next_epoch(now_ms)
        commands.append(StreamCreated(name, epoch, StreamConfig()))
        stream = Stream(name, epoch, StreamConfig())
    if group in stream.groups:
        raise GroupExists(name, group)
    keyspace.bounds.check_another_group(stream)
    commands.append(GroupCreated(name, group, *_position(stream, start)))
    if policy != NO_POLICY:
        commands.append(PolicySet(name, group, policy))
    return Decision(None, commands)


def ensure_group(
    keyspace: Keyspace,
    name: bytes,
    group: bytes,
    start: GroupStart,
    *,
    create_stream: bool,
    policy: GroupPolicy | None,
    now_ms: int,
) -> Decision[bool]:
    """Decide to create a group unless it is there; replies whether it is new.

    One that is there keeps its position.

    Raises:
        Invalid: the policy contradicts itself.
        StreamNotFound: there is no stream and `create_stream` is false.
        GroupExists: it is there with another policy than this one; None: any will do.
        LimitReached: the stream or the group is one too many.
    """
    stream = keyspace.find(name)
    found = None if stream is None else stream.groups.get(group)
    if found is None:
        wanted = NO_POLICY if policy is None else policy
        creation = create_group(
            keyspace,
            name,
            group,
            start,
            create_stream=create_stream,
            policy=wanted,
            now_ms=now_ms,
        )
        return creation.replied_as(lambda _: True)
    if policy is not None:
        check_policy(name, policy)
        if policy != found.policy:
            raise GroupExists(name, group)
    return Decision(False, [])


def update_group(keyspace: Keyspace, request: UpdateGroup) -> Decision[None]:
    """Decide to change a group's position or its policy, all or nothing; what is pending stays so.

    Raises:
        GroupNotFound: there is no such group.
        Invalid: the policy would contradict itself.
    """
    name, group = request.stream, request.group
    found = keyspace.group(name, group)
    policy = patched(found.policy, request.policy)
    commands: list[Command] = []
    if policy != found.policy:
        check_policy(name, policy)
        commands.append(PolicySet(name, group, policy))
    if request.moves:
        last_id = found.last_id if request.last_id is UNSET else request.last_id
        entries_read = None if request.entries_read is UNSET else request.entries_read
        start = GroupStart(last_id, entries_read)
        commands += set_group(keyspace, name, group, start).commands
    return Decision(None, commands)


def set_group(keyspace: Keyspace, name: bytes, group: bytes, start: GroupStart) -> Decision[None]:
    """Decide to set a group's position (XGROUP SETID); what is pending stays so.

    Raises:
        GroupNotFound: there is no such group.
    """
    keyspace.group(name, group)
    position = _position(keyspace.stream(name), start)
    return Decision(None, [GroupMoved(name, group, *position)])


def destroy_group(keyspace: Keyspace, name: bytes, group: bytes) -> Decision[bool]:
    """Decide to destroy a group (XGROUP DESTROY); replies whether it was there.

    Raises:
        StreamNotFound: there is no stream.
    """
    found = group in keyspace.stream(name).groups
    return Decision(found, [GroupDestroyed(name, group)] if found else [])


def create_consumer(
    keyspace: Keyspace, name: bytes, group: bytes, consumer: bytes, now_ms: int
) -> Decision[bool]:
    """Decide to create a consumer (XGROUP CREATECONSUMER); replies whether it is new.

    Raises:
        GroupNotFound: there is no such group.
        LimitReached: the group has as many consumers as it may have.
    """
    found = keyspace.group(name, group)
    if consumer in found.consumers:
        return Decision(False, [])
    keyspace.bounds.check_consumer(found, consumer)
    return Decision(True, [ConsumerSeen(name, group, consumer, now_ms)])


def delete_consumer(
    keyspace: Keyspace, name: bytes, group: bytes, consumer: bytes, *, release: bool
) -> Decision[int | None]:
    """Decide to delete a consumer (XGROUP DELCONSUMER).

    Args:
        keyspace: all streams.
        name: the stream.
        group: the group.
        consumer: who goes.
        release: hand what it holds to the others; false drops it from the PEL, as Redis does.

    Returns:
        How many entries it held; None if it was not there.

    Raises:
        GroupNotFound: there is no such group.
    """
    found = keyspace.group(name, group).consumers.get(consumer)
    if found is None:
        return Decision(None, [])
    going = _Going(found, name, group, len(found.pending), release)
    return going.part(keyspace, now_ms=0)


class _Going(NamedTuple):
    """A consumer that is deleted bit by bit."""

    consumer: Consumer
    stream: bytes
    group: bytes
    held_count: int  # in the beginning
    release: bool

    def part(self, keyspace: Keyspace, now_ms: int) -> Decision[int | None]:
        """Decide to let go of some of what it holds, and of itself at last."""
        del now_ms
        held, consumer = self.held_count, self.consumer
        stream = keyspace.find(self.stream)
        now = None if stream is None else stream.groups.get(self.group)
        if now is None or now.consumers.get(consumer.name) is not consumer:  # it is gone already
            return Decision(held, [])
        names = self.stream, self.group
        if len(consumer.pending) <= SETTLED_AT_ONCE_MAX:
            return Decision(held, [ConsumerDeleted(*names, consumer.name, self.release)])
        some = list(islice(consumer.pending.walk(), SETTLED_AT_ONCE_MAX))
        letting_go: Command = EntriesAcked(*names, [one.id for one in some])
        if self.release:
            letting_go = EntriesReleased(*names, [(one.id, one.delivery_count) for one in some])
        return Decision(held, [letting_go], self.part)


def _position(stream: Stream, start: GroupStart) -> tuple[EntryId, int | None]:
    last_id = stream.last_id if start.last_id is None else start.last_id
    entries_read = start.entries_read
    if entries_read is not None:
        entries_read = min(entries_read, stream.entries_added)
    return last_id, entries_read
