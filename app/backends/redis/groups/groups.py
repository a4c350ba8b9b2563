"""Groups and their consumers: list, describe, create, change, delete."""

from __future__ import annotations

from msgspec import UNSET

from headgate.app.backends.redis.arguments import arguments
from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.groups.descriptions import read_consumer_info, read_group_info
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function
from headgate.app.backends.redis.performing.governed import govern
from headgate.app.backends.redis.performing.names import exists
from headgate.app.backends.redis.settings import setting_texts
from headgate.engine.config import Patch
from headgate.engine.entry import EntryId
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

_RELEASED_AT_ONCE_MAX = 500
"""Entries of a consumer that one call releases. Each one takes about 5 µs."""


async def list_groups(client: Client, request: ListGroups) -> list[GroupInfo]:
    """Describe groups of a stream, by name (XINFO GROUPS)."""
    stream = request.stream
    names = sorted(await client.call(Effect.READ, b"group_names", stream))
    if request.after is not None:
        names = [name for name in names if name > request.after]
    names = names[: request.limit]
    described = []
    for at in range(0, len(names), LISTED_AT_ONCE_MAX):
        page = names[at : at + LISTED_AT_ONCE_MAX]
        described += await client.call(Effect.READ, b"describe_groups", stream, *page)
    return sorted(map(read_group_info, described), key=lambda info: info.name)


async def describe_group(client: Client, request: DescribeGroup) -> GroupInfo:
    """Describe one group."""
    stream, group = request.stream, request.group
    reply = await client.call(Effect.READ, b"describe_group", stream, group)
    return read_group_info(reply)


async def create_group(client: Client, request: CreateGroup) -> Created[GroupInfo]:
    """Create a group (XGROUP CREATE), unless it exists."""
    stream, start, policy = request.stream, request.start, request.policy
    asked = arguments(
        request,
        policy=None if policy is None else setting_texts(Patch.to(policy)),
        start=None,
        last_id=_position(start.last_id),
        entries_read=_text(start.entries_read),
        groups_max=str(client.options.keyspace.groups_max),
    )
    await _check_targets(client, request)
    async with govern(client, stream, is_needed=policy is not None and policy.acts_by_time):
        reply = await client.call(Effect.WRITE, b"create_group", stream, asked)
    is_new, description = reply
    return Created(bool(is_new), read_group_info(description))


async def update_group(client: Client, request: UpdateGroup) -> GroupInfo:
    """Change the position of a group, its policy, or both; all or nothing."""
    stream, patch = request.stream, request.policy
    asked = arguments(
        request,
        policy=setting_texts(patch),
        moves=request.moves,
        last_id=None if request.last_id is UNSET else _position(request.last_id),
        entries_read=None if request.entries_read is UNSET else str(request.entries_read),
    )
    await _check_targets(client, request)
    async with govern(client, stream, is_needed=patch.values.acts_by_time):
        description = await client.call(Effect.WRITE, b"update_group", stream, asked)
    return read_group_info(description)


async def _check_targets(client: Client, request: CreateGroup | UpdateGroup) -> None:
    for stream in request.targets if request.targets_exist else ():
        if not await exists(client, stream):
            raise StreamNotFound(stream)


async def destroy_group(client: Client, request: DestroyGroup) -> bool:
    """Destroy a group (XGROUP DESTROY); reply whether it existed."""
    reply = await client.call(Effect.FREE, b"destroy_group", request.stream, request.group)
    return bool(reply)


async def list_consumers(client: Client, request: ListConsumers) -> list[ConsumerInfo]:
    """Describe consumers of a group, by name (XINFO CONSUMERS)."""
    stream, group = request.stream, request.group
    described = await client.call(Effect.READ, b"describe_consumers", stream, group)
    infos = sorted(map(read_consumer_info, described), key=lambda info: info.name)
    if request.after is not None:
        infos = [info for info in infos if info.name > request.after]
    return infos[: request.limit]


async def describe_consumer(client: Client, request: DescribeConsumer) -> ConsumerInfo | None:
    """Describe one consumer; the reply is None if it does not exist."""
    stream, group, consumer = request.stream, request.group, request.consumer
    described = await client.call(Effect.READ, b"describe_consumers", stream, group, consumer)
    return read_consumer_info(described[0]) if described else None


async def create_consumer(client: Client, request: CreateConsumer) -> Created[ConsumerInfo]:
    """Create a consumer (XGROUP CREATECONSUMER), unless it exists."""
    stream, group, consumer = request.stream, request.group, request.consumer
    consumers_max = client.options.keyspace.consumers_max
    is_new, description = await client.call(
        Effect.WRITE, b"create_consumer", stream, group, consumer, consumers_max
    )
    return Created(bool(is_new), read_consumer_info(description))


async def delete_consumer(client: Client, request: DeleteConsumer) -> int | None:
    """Delete a consumer (XGROUP DELCONSUMER); reply how many entries it held."""
    stream, group, consumer = request.stream, request.group, request.consumer
    words = (group, consumer, int(request.release), _RELEASED_AT_ONCE_MAX)
    held_count: int | None = None
    is_first, is_gone = True, False
    while not is_gone:
        count, is_gone = await client.call(Effect.FREE, b"delete_consumer", stream, *words)
        held_count = count if is_first else held_count
        is_first = False
    return held_count


def _position(last_id: EntryId | None) -> str:
    return "$" if last_id is None else str(last_id)


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


PERFORMERS: Performers = {
    ListGroups: by_function(list_groups),
    DescribeGroup: by_function(describe_group),
    CreateGroup: by_function(create_group),
    UpdateGroup: by_function(update_group),
    DestroyGroup: by_function(destroy_group),
    ListConsumers: by_function(list_consumers),
    DescribeConsumer: by_function(describe_consumer),
    CreateConsumer: by_function(create_consumer),
    DeleteConsumer: by_function(delete_consumer),
}
