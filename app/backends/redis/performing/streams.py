"""Streams: list, describe, create, change, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import Fault, read_id
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function
from headgate.app.backends.redis.performing.entries import retain
from headgate.app.backends.redis.performing.governed import govern
from headgate.app.backends.redis.performing.names import first_names
from headgate.app.backends.redis.settings import read_settings
from headgate.engine.config import StreamConfig
from headgate.engine.errors import WrongType
from headgate.engine.replies import Created, StreamInfo
from headgate.engine.requests.streams import (
    CreateStream,
    DescribeStream,
    ListStreams,
    UpdateStream,
)

_DESCRIBED_AT_ONCE = 100


async def describe_stream(client: Client, request: DescribeStream) -> StreamInfo:
    """Describe a stream (XINFO STREAM)."""
    return await describe(client, request.stream)


async def describe(client: Client, stream: bytes) -> StreamInfo:
    """Describe a stream. A stream that another client has made gets its epoch now.

    Raises:
        Fault: the stream does not exist.
    """
    row = await client.call(Effect.READ, "describe", stream)
    if row[0] is None:
        row = await client.call(Effect.FREE, "identify", stream)
    return _info(stream, row)


def _info(stream: bytes, row: Sequence[Any]) -> StreamInfo:
    epoch, config, length, chunk_count, first, last, deleted, trimmed, added, group_count = row
    return StreamInfo(
        name=stream,
        epoch=int(epoch),
        config=read_settings(StreamConfig, config),
        length=length,
        chunk_count=chunk_count,
        first_id=read_id(first),
        last_id=read_id(last),
        max_deleted_id=read_id(deleted),
        trimmed_through=read_id(trimmed),
        entries_added=added,
        group_count=group_count,
    )


async def list_streams(client: Client, request: ListStreams) -> list[StreamInfo]:
    """Describe streams whose names start with a prefix and are shown, in byte order."""
    infos: list[StreamInfo] = []
    after = request.after
    while len(infos) < request.limit:
        wanted = request.limit - len(infos)
        names = await first_names(client, wanted, request.prefix, after, request.only)
        for start in range(0, len(names), _DESCRIBED_AT_ONCE):
            portion = names[start : start + _DESCRIBED_AT_ONCE]
            described = await asyncio.gather(*(_described(client, name) for name in portion))
            infos += [info for info in described if info is not None]
        if len(names) < wanted:
            break
        after = names[-1]  # some of them may be gone, so that more are wanted
    return infos


async def _described(client: Client, stream: bytes) -> StreamInfo | None:
    try:
        return await describe(client, stream)
    except (Fault, WrongType):  # it was deleted meanwhile, or something else is beside it
        return None


async def create_stream(client: Client, request: CreateStream) -> Created[StreamInfo]:
    """Create an empty stream, unless it exists with the same configuration."""
    stream = request.stream
    async with govern(client, stream, is_needed=request.config.max_age_ms is not None):
        is_new, row = await client.perform(Effect.WRITE, request)
    return Created(bool(is_new), _info(stream, row))


async def update_stream(client: Client, request: UpdateStream) -> StreamInfo:
    """Change a stream's configuration. What it no longer allows is removed at once."""
    stream = request.stream
    async with govern(client, stream, is_needed=request.config.values.max_age_ms is not None):
        row = await client.perform(Effect.FREE, request)
    info = _info(stream, row)
    if info.config.retains:
        await retain(client, stream)
        info = await describe(client, stream)
    return info


PERFORMERS: Performers = {
    ListStreams: by_function(list_streams),
    DescribeStream: by_function(describe_stream),
    CreateStream: by_function(create_stream),
    UpdateStream: by_function(update_stream),
}
