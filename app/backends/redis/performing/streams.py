"""Create, describe, change, delete and watch streams.

The *governed* streams have something to be done as time passes: a retention by age, a group with a
policy, dead letters to relay. Their index is one set for all of them; `housekeeping.py` walks it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from redis.crc import key_slot

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import Fault, by_name, read_id
from headgate.app.backends.redis.library import Effect, read_settings
from headgate.app.backends.redis.performing import (
    TABLES,
    Performers,
    by_function,
    by_operation,
    not_supported,
    portions,
)
from headgate.app.backends.redis.performing.keyspace import first_names
from headgate.engine.config import StreamConfig
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import NoArchive, NotSupported, StreamsChanged, WrongType
from headgate.engine.limits import CHUNK_ENTRIES_MAX, TRIM_CHUNKS_DEFAULT, TRIM_ENTRIES_MAX
from headgate.engine.replies import Created, StreamInfo
from headgate.engine.requests.commits import CommitSteps
from headgate.engine.requests.entries import Trim, TrimArchive, TrimTo, check_trim
from headgate.engine.requests.keyspace import GetRevisions, IfUnchanged
from headgate.engine.requests.streams import (
    ChangeAttributes,
    CreateStream,
    DeleteStream,
    DescribeStream,
    GetAttributes,
    ListStreams,
    UpdateStream,
)
from headgate.engine.requests.tables import DeleteRow, PutRow, ReadRow, ReadTable


def bounded(to: TrimTo) -> TrimTo:
    """Return a trim limited to what it may remove at once; a limit of None is unlimited."""
    if not to.approximate:
        return to._replace(limit=None)
    limit = TRIM_CHUNKS_DEFAULT * CHUNK_ENTRIES_MAX if to.limit is None else to.limit
    return to._replace(limit=min(limit, TRIM_ENTRIES_MAX) or None)


async def trim(client: Client, request: Trim) -> int:
    check_trim(request.to)
    to = bounded(request.to)
    removed, after = 0, b"%d-%d" % MIN_ID
    while after:
        try:
            count, after = await client.perform(
                Effect.FREE, request, to=to, removed=removed, after=after
            )
        except Fault as fault:
            if removed and fault.name == "StreamNotFound":  # it was deleted meanwhile
                break
            raise
        removed += count
    return removed


async def retain(client: Client, stream: bytes) -> None:
    while await client.call(Effect.FREE, "retain", stream):
        pass


_DESCRIBED_AT_ONCE = 100


_CHANGES = {b"SADD", b"SREM"}


async def describe_stream(client: Client, request: DescribeStream) -> StreamInfo:
    return await describe(client, request.stream)


async def describe(client: Client, stream: bytes) -> StreamInfo:
    """Describe a stream; one that another client has created gets its epoch now."""
    row = await client.call(Effect.READ, "describe", stream)
    if row[0] is None:
        row = await client.call(Effect.FREE, "identify", stream)
    return _info(stream, row)


def _info(stream: bytes, row: Sequence[Any]) -> StreamInfo:
    epoch, config, length, chunk_count, first, last, deleted, trimmed, added, *others = row
    group_count, closed_at_ms, timed_count = others
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
        closed_at_ms=None if closed_at_ms is None else int(closed_at_ms),
        timed_count=timed_count,
        gone_through=read_id(trimmed),
    )


async def list_streams(client: Client, request: ListStreams) -> list[StreamInfo]:
    infos: list[StreamInfo] = []
    after = request.after
    while len(infos) < request.limit:
        wanted = request.limit - len(infos)
        names = await first_names(client, wanted, request.prefix, after, request.only)
        for portion in portions(names, _DESCRIBED_AT_ONCE):
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


def _check(config: StreamConfig) -> None:
    if config.archive:
        raise NoArchive
    if config.is_about_table:
        raise NotSupported(TABLES)


async def create_stream(client: Client, request: CreateStream) -> Created[StreamInfo]:
    stream = request.stream
    _check(request.config)
    async with govern(client, stream, is_needed=request.config.max_age_ms is not None):
        is_new, row = await client.perform(Effect.WRITE, request)
    return Created(bool(is_new), _info(stream, row))


async def update_stream(client: Client, request: UpdateStream) -> StreamInfo:
    """Change a stream's configuration; what it no longer allows is removed at once."""
    stream = request.stream
    _check(request.config.values)
    async with govern(client, stream, is_needed=request.config.values.max_age_ms is not None):
        row = await client.perform(Effect.FREE, request)
    info = _info(stream, row)
    if info.config.retains:
        await retain(client, stream)
        info = await describe(client, stream)
    return info


async def get_revisions(client: Client, request: GetRevisions) -> list[bytes]:
    """Return a revision of each stream (WATCH)."""
    return [await client.call(Effect.FREE, "revision", stream) for stream in request.streams]


async def if_unchanged(client: Client, request: IfUnchanged) -> None:
    if await get_revisions(client, GetRevisions(request.streams)) != list(request.revisions):
        raise StreamsChanged


@asynccontextmanager
async def govern(client: Client, stream: bytes, *, is_needed: bool) -> AsyncIterator[None]:
    """Put a stream into the index before and after the configuration in the context.

    Before, so that nothing is missed if this gateway dies. After, because housekeeping may
    meanwhile have seen nothing configured and removed the stream.
    """
    if is_needed:
        await execute_at_index(client, b"SADD", stream)
    yield
    if is_needed:
        await execute_at_index(client, b"SADD", stream)


async def execute_at_index(client: Client, command: bytes, *words: bytes | int) -> Any:
    key = client.names.side_index(b"governed")
    [reply] = await client.execute_all(
        key_slot(key), [[command, key, *words]], changes=command in _CHANGES
    )
    return reply


PERFORMERS: Performers = {
    Trim: by_function(trim),
    TrimArchive: not_supported("archives"),
    **dict.fromkeys((ReadTable, ReadRow, PutRow, DeleteRow), not_supported(TABLES)),
    CommitSteps: not_supported("commits"),
    ListStreams: by_function(list_streams),
    DescribeStream: by_function(describe_stream),
    CreateStream: by_function(create_stream),
    UpdateStream: by_function(update_stream),
    DeleteStream: by_operation(Effect.FREE, bool),
    GetRevisions: by_function(get_revisions),
    IfUnchanged: by_function(if_unchanged),
    GetAttributes: by_operation(Effect.READ, by_name),
    ChangeAttributes: by_operation(Effect.WRITE),
}
