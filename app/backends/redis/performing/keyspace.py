"""Keyspace: what only Redis commands ask for."""

from __future__ import annotations

from redis.exceptions import ResponseError

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import (
    Performers,
    by_function,
    by_operation,
    natively,
    not_supported,
)
from headgate.app.backends.redis.performing.names import list_names, now_ms, ttl_ms
from headgate.app.backends.redis.settings import KEY_DEFAULTS
from headgate.engine.errors import (
    Invalid,
    SeveralSlots,
    StreamNotFound,
    StreamsChanged,
)
from headgate.engine.limits import CHUNK_BYTES_MAX, CHUNK_ENTRIES_MAX, COUNT_MAX
from headgate.engine.replies import StreamDefaults
from headgate.engine.requests.keyspace import (
    ChangeDefaults,
    ExpireStream,
    GetDefaults,
    GetExpiry,
    GetRevisions,
    IfUnchanged,
    ListNames,
    PersistStream,
    PickName,
    RenameStream,
    RequireGroups,
    SetCounters,
    TellTime,
    TimeToLive,
)


async def tell_time(client: Client, request: TellTime) -> int:
    """Return the unix time of a server, in milliseconds (TIME)."""
    del request
    return await now_ms(client)


async def require_groups(client: Client, request: RequireGroups) -> None:
    """Raise `GroupNotFound` for the first of the streams that has no such group."""
    for stream in request.streams:
        with as_stream_errors(stream, request.group):
            await client.call(Effect.READ, "require_group", stream, group=request.group)


async def get_revisions(client: Client, request: GetRevisions) -> list[bytes]:
    """Return a revision for each of the streams (WATCH)."""
    return [await client.call(Effect.FREE, "revision", stream) for stream in request.streams]


async def if_unchanged(client: Client, request: IfUnchanged) -> None:
    """Raise `StreamsChanged` unless each of the streams still has its revision."""
    if await get_revisions(client, GetRevisions(request.streams)) != list(request.revisions):
        raise StreamsChanged


async def rename_stream(client: Client, request: RenameStream) -> bool:
    """Rename a stream (RENAME, RENAMENX). Both names must be in one slot of the cluster."""
    source, target = client.names.of(request.stream), client.names.of(request.to)
    if client.is_cluster and source.slot != target.slot:
        raise SeveralSlots("renames")
    return bool(await client.perform_at(Effect.FREE, request, [source, target]))


async def expire_stream(client: Client, request: ExpireStream) -> bool:
    """Set when a stream expires, if the conditions hold (PEXPIRE)."""
    out_of_range = Invalid("the time is out of range", location=("ttl_ms",))
    if abs(request.ttl_ms if request.at_ms is None else request.at_ms) > COUNT_MAX:
        raise out_of_range
    try:
        return bool(await client.perform(Effect.FREE, request))
    except ResponseError as error:
        if "invalid expire time" in str(error):
            raise out_of_range from None
        raise


async def time_to_live(client: Client, request: TimeToLive) -> int | None:
    """Return in how many milliseconds a stream expires (PTTL)."""
    left_ms = await ttl_ms(client, request.stream)
    if left_ms == -2:
        raise StreamNotFound(request.stream)
    return None if left_ms < 0 else left_ms


async def get_expiry(client: Client, request: GetExpiry) -> int | None:
    """Return the unix time at which a stream expires, in milliseconds (PEXPIRETIME)."""
    key = client.names.of(request.stream).key
    at_ms = int(await client.execute(request.stream, b"PEXPIRETIME", key, changes=False))
    if at_ms == -2:
        raise StreamNotFound(request.stream)
    return None if at_ms < 0 else at_ms


async def pick_name(client: Client, request: PickName) -> bytes | None:
    """Return the name of some stream (RANDOMKEY); all names are looked at."""
    names = await list_names(client, ListNames(request.only))
    return names[request.place % len(names)] if names else None


async def get_defaults(client: Client, request: GetDefaults) -> StreamDefaults:
    """Return the defaults of streams without a configuration of their own (CONFIG GET stream-*)."""
    del client, request
    return StreamDefaults(CHUNK_BYTES_MAX, CHUNK_ENTRIES_MAX, *KEY_DEFAULTS)


_DEFAULTS_ARE_FIXED = not_supported("changes of what holds for all streams")
"""Every gateway would have to know of a change."""

PERFORMERS: Performers = {
    TellTime: natively(tell_time),
    RequireGroups: by_function(require_groups),
    GetRevisions: by_function(get_revisions),
    IfUnchanged: by_function(if_unchanged),
    RenameStream: by_function(rename_stream),
    ExpireStream: by_function(expire_stream),
    PersistStream: by_operation(Effect.FREE, bool),
    TimeToLive: natively(time_to_live),
    GetExpiry: natively(get_expiry),
    PickName: natively(pick_name),
    SetCounters: by_operation(Effect.FREE),
    GetDefaults: natively(get_defaults),
    ChangeDefaults: _DEFAULTS_ARE_FIXED,
}
