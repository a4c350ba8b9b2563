"""Keyspace: what only Redis commands ask for."""

from __future__ import annotations

from redis.exceptions import ResponseError

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function, natively, not_supported
from headgate.app.backends.redis.performing.idempotency import KEY_DEFAULTS
from headgate.app.backends.redis.performing.names import list_names, now_ms, reach_words, ttl_ms
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
            await client.call(Effect.READ, b"require_group", stream, request.group)


async def get_revisions(client: Client, request: GetRevisions) -> list[bytes]:
    """Return a revision for each of the streams (WATCH)."""
    return [await client.call(Effect.FREE, b"revision", stream) for stream in request.streams]


async def if_unchanged(client: Client, request: IfUnchanged) -> None:
    """Raise `StreamsChanged` unless each of the streams still has its revision."""
    if await get_revisions(client, GetRevisions(request.streams)) != list(request.revisions):
        raise StreamsChanged


async def rename_stream(client: Client, request: RenameStream) -> bool:
    """Rename a stream (RENAME, RENAMENX). Both names must be in one slot of the cluster."""
    source, target = client.names.of(request.stream), client.names.of(request.to)
    if client.is_cluster and source.slot != target.slot:
        raise SeveralSlots("renames")
    words = target.head, target.tail, b"%d" % request.replace, *reach_words(request)
    return bool(await client.call_at(Effect.FREE, b"rename", [source, target], *words))


async def expire_stream(client: Client, request: ExpireStream) -> bool:
    """Set when a stream expires, if the conditions hold (PEXPIRE)."""
    options = []
    if request.if_none:
        options = [b"NX"]
    else:
        options += [b"XX"] if request.if_set else []
        options += [b"GT"] if request.if_later else [b"LT"] if request.if_earlier else []
    out_of_range = Invalid("the time is out of range", location=("ttl_ms",))
    words = (b"PEXPIRE", request.ttl_ms)
    if request.at_ms is not None:
        words = (b"PEXPIREAT", request.at_ms)
    if abs(words[1]) > COUNT_MAX:
        raise out_of_range
    try:
        is_set = await client.call(Effect.FREE, b"expire", request.stream, *words, *options)
    except ResponseError as error:
        if "invalid expire time" in str(error):
            raise out_of_range from None
        raise
    return bool(is_set)


async def persist_stream(client: Client, request: PersistStream) -> bool:
    """Remove the expiry of a stream (PERSIST)."""
    return bool(await client.call(Effect.FREE, b"persist", request.stream))


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


async def set_counters(client: Client, request: SetCounters) -> None:
    """Set a stream's counters (XSETID)."""
    added = b"" if request.entries_added is None else request.entries_added
    words = (str(request.last_id), added, str(request.max_deleted_id))
    await client.call(Effect.FREE, b"set_counters", request.stream, *words)


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
    PersistStream: by_function(persist_stream),
    TimeToLive: natively(time_to_live),
    GetExpiry: natively(get_expiry),
    PickName: natively(pick_name),
    SetCounters: by_function(set_counters),
    GetDefaults: natively(get_defaults),
    ChangeDefaults: _DEFAULTS_ARE_FIXED,
}
