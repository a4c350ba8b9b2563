"""Groups and their consumers: list, describe, create, change, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import by_name, read_id
from headgate.app.backends.redis.library import Effect, read_settings
from headgate.app.backends.redis.performing import (
    Performers,
    by_function,
    by_operation,
    not_supported,
    portions,
)
from headgate.app.backends.redis.performing.keyspace import exists
from headgate.app.backends.redis.performing.streams import govern
from headgate.engine.config import GroupPolicy
from headgate.engine.errors import NotSupported, StreamNotFound
from headgate.engine.limits import LISTED_AT_ONCE_MAX
from headgate.engine.replies import ConsumerInfo, Created, GroupInfo
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DescribeConsumer,
    DescribeGroup,
    DestroyGroup,
    ListConsumers,
    ListGroups,
    ListKeys,
    UpdateGroup,
)

T = TypeVar("T")

_RELEASED_AT_ONCE_MAX = 500
"""Entries of a consumer that one call releases. Each one takes about 5 µs."""


async def list_groups(client: Client, request: ListGroups) -> list[GroupInfo]:
    stream = request.stream
    names = sorted(await client.call(Effect.READ, "group_names", stream))
    if request.after is not None:
        names = [name for name in names if name > request.after]
    names = names[: request.limit]
    described = []
    for page in portions(names, LISTED_AT_ONCE_MAX):
        described += await client.call(Effect.READ, "describe_groups", stream, names=page)
    return sorted(map(read_group_info, described), key=lambda info: info.name)


async def create_group(client: Client, request: CreateGroup) -> Created[GroupInfo]:
    policy, groups_max = request.policy, client.options.keyspace.groups_max
    _check_rules(policy)
    await _check_targets(client, request)
    is_governed = policy is not None and policy.acts_by_time
    async with govern(client, request.stream, is_needed=is_governed):
        reply = await client.perform(Effect.WRITE, request, groups_max=groups_max)
    is_new, description = reply
    return Created(bool(is_new), read_group_info(description))


async def update_group(client: Client, request: UpdateGroup) -> GroupInfo:
    """Change the position of a group, its policy, or both; all or nothing."""
    _check_rules(request.policy.values)
    await _check_targets(client, request)
    async with govern(client, request.stream, is_needed=request.policy.values.acts_by_time):
        description = await client.perform(
            *(Effect.WRITE, request),
            moves=request.moves,
            last_id=_given(request.last_id, "$"),
            entries_read=_given(request.entries_read, None),
        )
    return read_group_info(description)


def _check_rules(policy: GroupPolicy | None) -> None:
    if policy is not None and (policy.is_fair or policy.weights or policy.priority_age_ms):
        raise NotSupported("fair groups (`fair_field`, `priority_field`)")


async def _check_targets(client: Client, request: CreateGroup | UpdateGroup) -> None:
    for stream in request.targets if request.targets_exist else ():
        if not await exists(client, stream):
            raise StreamNotFound(stream)


async def list_consumers(client: Client, request: ListConsumers) -> list[ConsumerInfo]:
    described = await client.perform(Effect.READ, request)
    infos = sorted(map(read_consumer_info, described), key=lambda info: info.name)
    if request.after is not None:
        infos = [info for info in infos if info.name > request.after]
    return infos[: request.limit]


async def create_consumer(client: Client, request: CreateConsumer) -> Created[ConsumerInfo]:
    consumers_max = client.options.keyspace.consumers_max
    is_new, description = await client.perform(Effect.WRITE, request, consumers_max=consumers_max)
    return Created(bool(is_new), read_consumer_info(description))


async def delete_consumer(client: Client, request: DeleteConsumer) -> int | None:
    held_count: int | None = None
    is_first, is_gone = True, False
    while not is_gone:
        count, is_gone = await client.perform(Effect.FREE, request, limit=_RELEASED_AT_ONCE_MAX)
        held_count = count if is_first else held_count
        is_first = False
    return held_count


def _given(value: T | UnsetType | None, default: str | None) -> T | str | None:
    """Return a value; None becomes the default, and UNSET becomes None."""
    return default if value is None else None if value is UNSET else value


def read_group_info(description: Sequence[Any]) -> GroupInfo:
    facts = by_name(description[0])
    nobodys_count, hidden_count, policy, closed_at_ms, is_over, delayed_count = description[1]
    return GroupInfo(
        name=facts[b"name"],
        last_id=read_id(facts[b"last-delivered-id"]),
        entries_read=facts[b"entries-read"],
        lag=facts[b"lag"],
        pending_count=facts[b"pending"],
        released_count=nobodys_count,
        consumer_count=facts[b"consumers"] - hidden_count,
        policy=read_settings(GroupPolicy, policy),
        closed_at_ms=None if closed_at_ms is None else int(closed_at_ms),
        is_over=bool(is_over),
        delayed_count=delayed_count,
    )


def read_consumer_info(description: Sequence[Any]) -> ConsumerInfo:
    """Read a consumer from XINFO CONSUMERS.

    Redis 7.0 does not report when a consumer last got something; its last attempt counts instead.
    """
    facts = by_name(description)
    inactive_ms = facts.get(b"inactive", facts[b"idle"])
    return ConsumerInfo(
        name=facts[b"name"],
        pending_count=facts[b"pending"],
        idle_ms=facts[b"idle"],
        inactive_ms=None if inactive_ms < 0 else inactive_ms,
    )


PERFORMERS: Performers = {
    ListGroups: by_function(list_groups),
    DescribeGroup: by_operation(Effect.READ, read_group_info),
    CreateGroup: by_function(create_group),
    UpdateGroup: by_function(update_group),
    DestroyGroup: by_operation(Effect.FREE, bool),
    ListConsumers: by_function(list_consumers),
    ListKeys: not_supported("fair groups"),
    DescribeConsumer: by_operation(
        Effect.READ, lambda reply: None if reply is None else read_consumer_info(reply)
    ),
    CreateConsumer: by_function(create_consumer),
    DeleteConsumer: by_function(delete_consumer),
}
