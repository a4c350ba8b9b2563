"""Decisions about groups and their consumers: XGROUP, XINFO GROUPS, XINFO CONSUMERS."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

from msgspec import UNSET
from sortedcontainers import SortedDict

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
from headgate.engine.config import NO_POLICY, StreamConfig
from headgate.engine.decisions import Decision, Decisions
from headgate.engine.decisions.group_keys import noisy_key
from headgate.engine.decisions.group_reads.ahead_entries import first_indexed
from headgate.engine.decisions.policies import check_policy
from headgate.engine.entry import EntryId
from headgate.engine.errors import GroupExists, StreamNotFound
from headgate.engine.limits import SETTLED_AT_ONCE_MAX
from headgate.engine.replies import ConsumerInfo, Created, GroupInfo
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DescribeConsumer,
    DescribeGroup,
    DestroyGroup,
    GroupStart,
    ListConsumers,
    ListGroups,
    UpdateGroup,
)
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.pending import Consumer
from headgate.engine.state.stream import Stream

T = TypeVar("T")

_LOOKED_AT_MAX = 1_000
"""Consumers that are asked when they last got something: each takes some 50 ns."""


def list_groups(keyspace: Keyspace, request: ListGroups, now_ms: int) -> Decision[list[GroupInfo]]:
    del now_ms
    stream = keyspace.stream(request.stream)
    page = _page(stream.groups, request.after, request.limit)
    return Decision([group_info(keyspace, stream, group) for group in page], [])


def describe_group(keyspace: Keyspace, request: DescribeGroup, now_ms: int) -> Decision[GroupInfo]:
    del now_ms
    return Decision(_described(keyspace, request.stream, request.group), [])


def create_group(
    keyspace: Keyspace, request: CreateGroup, now_ms: int
) -> Decision[Created[GroupInfo]]:
    """Decide to create a group (XGROUP CREATE). A group that exists keeps its position."""
    name, group, policy = request.stream, request.group, request.policy
    check_policy(name, NO_POLICY if policy is None else policy)
    _check_targets(keyspace, request)
    stream = keyspace.find(name)
    existing = None if stream is None else stream.groups.get(group)
    commands: list[Command] = []
    if existing is None:
        commands = _creation(keyspace, request, stream, now_ms)
    elif not request.exist_ok or policy not in (None, existing.policy):
        raise GroupExists(name, group)
    is_new = existing is None
    return Decision.then(
        commands, lambda keyspace, _: Created(is_new, _described(keyspace, name, group))
    )


def _creation(
    keyspace: Keyspace, request: CreateGroup, stream: Stream | None, now_ms: int
) -> list[Command]:
    name, group = request.stream, request.group
    commands: list[Command] = []
    if stream is None:
        if not request.create_stream:
            raise StreamNotFound(name)
        keyspace.bounds.check_another_stream(len(keyspace.streams))
        epoch = keyspace.next_epoch(now_ms)
        commands.append(StreamCreated(name, epoch, StreamConfig()))
        stream = Stream(name, epoch, StreamConfig())
    keyspace.bounds.check_another_group(stream)
    position = _position(stream, request.start)
    commands.append(GroupCreated(name, group, *position))
    if request.policy is not None and request.policy != NO_POLICY:
        commands.append(PolicySet(name, group, request.policy))
        indexed = first_indexed(stream, group, request.policy, position)
        commands += [] if indexed is None else [indexed]
    return commands


def update_group(keyspace: Keyspace, request: UpdateGroup, now_ms: int) -> Decision[GroupInfo]:
    del now_ms
    name = request.stream
    group = keyspace.group(name, request.group)
    policy = request.policy.applied_to(group.policy)
    commands: list[Command] = []
    if policy != group.policy:
        check_policy(name, policy)
        commands.append(PolicySet(name, group.name, policy))
    _check_targets(keyspace, request)
    position = group.last_id, group.entries_read
    if request.moves:
        last_id = group.last_id if request.last_id is UNSET else request.last_id
        entries_read = None if request.entries_read is UNSET else request.entries_read
        position = _position(keyspace.stream(name), GroupStart(last_id, entries_read))
        commands.append(GroupMoved(name, group.name, *position))
    if commands and (request.moves or not group.ahead_count):
        indexed = first_indexed(keyspace.stream(name), group.name, policy, position)
        commands += [] if indexed is None else [indexed]
    return Decision.then(commands, lambda keyspace, _: _described(keyspace, name, request.group))


def _check_targets(keyspace: Keyspace, request: CreateGroup | UpdateGroup) -> None:
    for stream in request.targets if request.targets_exist else ():
        keyspace.stream(stream)


def destroy_group(keyspace: Keyspace, request: DestroyGroup, now_ms: int) -> Decision[bool]:
    del now_ms
    exists = request.group in keyspace.stream(request.stream).groups
    return Decision(exists, [GroupDestroyed(request.stream, request.group)] if exists else [])


def list_consumers(
    keyspace: Keyspace, request: ListConsumers, now_ms: int
) -> Decision[list[ConsumerInfo]]:
    group, steady_ms = keyspace.group(request.stream, request.group), keyspace.steady_ms(now_ms)
    page = _page(group.consumers, request.after, request.limit)
    return Decision([consumer_info(consumer, steady_ms) for consumer in page], [])


def describe_consumer(
    keyspace: Keyspace, request: DescribeConsumer, now_ms: int
) -> Decision[ConsumerInfo | None]:
    group = keyspace.group(request.stream, request.group)
    consumer = group.consumers.get(request.consumer)
    if consumer is None:
        return Decision(None, [])
    return Decision(consumer_info(consumer, keyspace.steady_ms(now_ms)), [])


def create_consumer(
    keyspace: Keyspace, request: CreateConsumer, now_ms: int
) -> Decision[Created[ConsumerInfo]]:
    names = request.stream, request.group
    group = keyspace.group(*names)
    is_new = request.consumer not in group.consumers
    commands: list[Command] = []
    if is_new:
        keyspace.bounds.check_consumer(group, request.consumer)
        commands = [ConsumerSeen(*names, request.consumer, now_ms)]

    def look(keyspace: Keyspace, now_ms: int) -> Created[ConsumerInfo]:
        consumer = keyspace.group(*names).consumers[request.consumer]
        return Created(is_new, consumer_info(consumer, keyspace.steady_ms(now_ms)))

    return Decision.then(commands, look)


def delete_consumer(
    keyspace: Keyspace, request: DeleteConsumer, now_ms: int
) -> Decision[int | None]:
    name, group = request.stream, request.group
    consumer = keyspace.group(name, group).consumers.get(request.consumer)
    if consumer is None:
        return Decision(None, [])
    going = _Going(consumer, name, group, len(consumer.pending), request.release)
    return going.part(keyspace, now_ms)


class _Going(NamedTuple):
    consumer: Consumer
    stream: bytes
    group: bytes
    held_count: int  # before the first part
    release: bool

    def part(self, keyspace: Keyspace, now_ms: int) -> Decision[int | None]:
        del now_ms
        held, consumer = self.held_count, self.consumer
        stream = keyspace.find(self.stream)
        now = None if stream is None else stream.groups.get(self.group)
        if now is None or now.consumers.get(consumer.name) is not consumer:  # deleted meanwhile
            return Decision(held, [])
        names = self.stream, self.group
        if len(consumer.pending) <= SETTLED_AT_ONCE_MAX:
            return Decision(held, [ConsumerDeleted(*names, consumer.name, self.release)])
        pending = list(islice(consumer.pending.walk(), SETTLED_AT_ONCE_MAX))
        letting_go: Command = EntriesAcked(*names, [each.id for each in pending])
        if self.release:
            letting_go = EntriesReleased(
                *names, [(each.id, each.delivery_count) for each in pending]
            )
        return Decision(held, [letting_go], self.part)


def _position(stream: Stream, start: GroupStart) -> tuple[EntryId, int | None]:
    last_id = stream.last_id if start.last_id is None else start.last_id
    entries_read = start.entries_read
    if entries_read is not None:
        entries_read = min(entries_read, stream.entries_added)
    return last_id, entries_read


def group_info(keyspace: Keyspace, stream: Stream, group: Group) -> GroupInfo:
    """Describe a group."""
    waiting_since_ms = _waiting_since_ms(stream, group)
    return GroupInfo(
        name=group.name,
        last_id=group.position,
        entries_read=group.delivered_count,
        lag=stream.lag_of(group),
        pending_count=len(group.pel),
        released_count=group.pel.released_count,
        consumer_count=len(group.consumers),
        policy=group.policy,
        closed_at_ms=stream.closed_at_ms,
        is_over=stream.is_over_for(group),
        delayed_count=group.pel.delayed_count,
        noisy_key=noisy_key(group.ahead),
        waiting_since_ms=waiting_since_ms,
        idle_since_ms=_idle_since_ms(keyspace, group, waiting_since_ms),
    )


def _waiting_since_ms(stream: Stream, group: Group) -> int | None:
    first_id = stream.log.first_id_about(group.position)
    return None if first_id is None else first_id.ms


def _idle_since_ms(keyspace: Keyspace, group: Group, waiting_since_ms: int | None) -> int | None:
    """Return since when nothing was delivered, though something waited all that time.

    It is not known since when entries wait that were given back.
    """
    if waiting_since_ms is None and not group.pel.released_count:
        return None
    consumers = islice(group.consumers.values(), _LOOKED_AT_MAX)
    active = [each.active_at_ms for each in consumers if each.active_at_ms is not None]
    times_ms = [keyspace.wall_ms(max(active))] if active else []
    times_ms += [] if waiting_since_ms is None else [waiting_since_ms]
    return max(times_ms, default=None)


def consumer_info(consumer: Consumer, steady_ms: int) -> ConsumerInfo:
    active_at_ms = consumer.active_at_ms
    return ConsumerInfo(
        name=consumer.name,
        pending_count=len(consumer.pending),
        idle_ms=max(steady_ms - consumer.seen_at_ms, 0),
        inactive_ms=None if active_at_ms is None else max(steady_ms - active_at_ms, 0),
    )


def _described(keyspace: Keyspace, stream: bytes, group: bytes) -> GroupInfo:
    existing = keyspace.group(stream, group)
    return group_info(keyspace, keyspace.stream(stream), existing)


def _page(by_name: SortedDict[bytes, T], after: bytes | None, limit: int | None) -> Iterator[T]:
    names = by_name.irange(after, inclusive=(False, True))
    return (by_name[name] for name in islice(names, limit))


DECISIONS: Decisions = {
    ListGroups: list_groups,
    DescribeGroup: describe_group,
    CreateGroup: create_group,
    UpdateGroup: update_group,
    DestroyGroup: destroy_group,
    ListConsumers: list_consumers,
    DescribeConsumer: describe_consumer,
    CreateConsumer: create_consumer,
    DeleteConsumer: delete_consumer,
}
