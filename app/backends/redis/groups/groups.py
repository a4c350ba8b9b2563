"""Groups and their consumers: list, describe, create, change, delete."""

from __future__ import annotations

from typing import TypeVar

from msgspec import UNSET, UnsetType

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.groups.descriptions import read_consumer_info, read_group_info
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function, by_operation
from headgate.app.backends.redis.performing.governed import govern
from headgate.app.backends.redis.performing.names import exists
from headgate.engine.errors import StreamNotFound
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
    UpdateGroup,
)

T = TypeVar("T")

_RELEASED_AT_ONCE_MAX = 500
"""Entries of a consumer that one call releases. Each one takes about 5 µs."""


async def list_groups(client: Client, request: ListGroups) -> list[GroupInfo]:
    """Describe groups of a stream, by name (XINFO GROUPS)."""
    stream = request.stream
    names = sorted(await client.call(Effect.READ, "group_names", stream))
    if request.after is not None:
        names = [name for name in names if name > request.after]
    names = names[: request.limit]
    described = []
    for at in range(0, len(names), LISTED_AT_ONCE_MAX):
        page = names[at : at + LISTED_AT_ONCE_MAX]
        described += await client.call(Effect.READ, "describe_groups", stream, names=page)
    return sorted(map(read_group_info, described), key=lambda info: info.name)


async def create_group(client: Client, request: CreateGroup) -> Created[GroupInfo]:
    """Create a group (XGROUP CREATE), unless it exists."""
    policy, groups_max = request.policy, client.options.keyspace.groups_max
    await _check_targets(client, request)
    is_governed = policy is not None and policy.acts_by_time
    async with govern(client, request.stream, is_needed=is_governed):
        reply = await client.perform(Effect.WRITE, request, groups_max=groups_max)
    is_new, description = reply
    return Created(bool(is_new), read_group_info(description))


async def update_group(client: Client, request: UpdateGroup) -> GroupInfo:
    """Change the position of a group, its policy, or both; all or nothing."""
    await _check_targets(client, request)
    async with govern(client, request.stream, is_needed=request.policy.values.acts_by_time):
        description = await client.perform(
            *(Effect.WRITE, request),
            moves=request.moves,
            last_id=_given(request.last_id, "$"),
            entries_read=_given(request.entries_read, None),
        )
    return read_group_info(description)


async def _check_targets(client: Client, request: CreateGroup | UpdateGroup) -> None:
    for stream in request.targets if request.targets_exist else ():
        if not await exists(client, stream):
            raise StreamNotFound(stream)


async def list_consumers(client: Client, request: ListConsumers) -> list[ConsumerInfo]:
    """Describe consumers of a group, by name (XINFO CONSUMERS)."""
    described = await client.perform(Effect.READ, request)
    infos = sorted(map(read_consumer_info, described), key=lambda info: info.name)
    if request.after is not None:
        infos = [info for info in infos if info.name > request.after]
    return infos[: request.limit]


async def describe_consumer(client: Client, request: DescribeConsumer) -> ConsumerInfo | None:
    """Describe one consumer; the reply is None if it does not exist."""
    described = await client.perform(Effect.READ, request)
    return None if described is None else read_consumer_info(described)


async def create_consumer(client: Client, request: CreateConsumer) -> Created[ConsumerInfo]:
    """Create a consumer (XGROUP CREATECONSUMER), unless it exists."""
    consumers_max = client.options.keyspace.consumers_max
    is_new, description = await client.perform(Effect.WRITE, request, consumers_max=consumers_max)
    return Created(bool(is_new), read_consumer_info(description))


async def delete_consumer(client: Client, request: DeleteConsumer) -> int | None:
    """Delete a consumer (XGROUP DELCONSUMER); reply how many entries it held."""
    held_count: int | None = None
    is_first, is_gone = True, False
    while not is_gone:
        count, is_gone = await client.perform(Effect.FREE, request, limit=_RELEASED_AT_ONCE_MAX)
        held_count = count if is_first else held_count
        is_first = False
    return held_count


def _given(value: T | UnsetType | None, default: str | None) -> T | str | None:
    """Return a value; if it is None, the default, and if it is not given, None."""
    return default if value is None else None if value is UNSET else value


PERFORMERS: Performers = {
    ListGroups: by_function(list_groups),
    DescribeGroup: by_operation(Effect.READ, read_group_info),
    CreateGroup: by_function(create_group),
    UpdateGroup: by_function(update_group),
    DestroyGroup: by_operation(Effect.FREE, bool),
    ListConsumers: by_function(list_consumers),
    DescribeConsumer: by_function(describe_consumer),
    CreateConsumer: by_function(create_consumer),
    DeleteConsumer: by_function(delete_consumer),
}
