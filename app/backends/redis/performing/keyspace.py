"""Requests that only Redis commands make."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from redis.exceptions import ResponseError

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.app.backends.redis.library import KEY_DEFAULTS, Effect
from headgate.app.backends.redis.performing import (
    Performers,
    by_function,
    by_operation,
    natively,
    not_supported,
)
from headgate.app.backends.redis.performing.name_ranges import (
    NAMES_AT_ONCE,
    Shown,
    exists,
    first_names,
    pages,
    search,
)
from headgate.engine.errors import Invalid, SeveralSlots, StreamNotFound, WrongType
from headgate.engine.limits import CHUNK_BYTES_MAX, CHUNK_ENTRIES_MAX, COUNT_MAX
from headgate.engine.replies import KeyspaceInfo, NamePage, StreamDefaults
from headgate.engine.requests.keyspace import (
    UNRESERVED,
    ChangeDefaults,
    CountStreams,
    DeleteAll,
    DeleteStreams,
    DescribeKeyspace,
    ExpireStream,
    GetDefaults,
    GetExpiry,
    ListNames,
    PersistStream,
    PickName,
    RememberKey,
    RenameStream,
    RequireGroups,
    ScanNames,
    SetCounters,
    TellTime,
    TimeToLive,
)
from headgate.engine.requests.streams import DeleteStream


async def tell_time(client: Client, request: TellTime) -> int:
    del request
    return await now_ms(client)


async def require_groups(client: Client, request: RequireGroups) -> None:
    """Raise `GroupNotFound` for the first stream that lacks its group."""
    for stream in request.streams:
        with as_stream_errors(stream, request.group):
            await client.call(Effect.READ, "require_group", stream, group=request.group)


async def list_names(client: Client, request: ListNames) -> list[bytes]:
    return await first_names(client, None, only=request.only)


async def scan_names(client: Client, request: ScanNames) -> NamePage:
    """Return about `count` names after a cursor (SCAN).

    If all names may be shown, the primaries are searched one after the other, in no order; the
    cursor is a primary's cursor times the number of primaries, plus its index. Otherwise the cursor
    is the number of names before it, so that it reveals nothing about other names.
    """
    if request.only not in (None, UNRESERVED):
        end = request.cursor + request.count
        names = await first_names(client, end + 1, only=request.only)
        return NamePage(names[request.cursor : end], end if len(names) > end else 0)
    primaries = await client.known()
    cursor, place = divmod(request.cursor, len(primaries))
    shown = Shown(b"", request.only)
    following, names = await search(client, primaries[place], cursor, request.count, shown)
    if following:
        return NamePage(names, following * len(primaries) + place)
    return NamePage(names, (place + 1) % len(primaries))


async def count_streams(client: Client, request: CountStreams) -> int:
    """Count streams (EXISTS, DBSIZE), perhaps one twice while a server resizes its table."""
    if request.streams is None:
        return sum([len(names) async for names in pages(client, only=request.only)])
    return await _sum_of(client, request.streams)


async def _sum_of(client: Client, streams: Sequence[bytes]) -> int:
    count = 0
    for at in range(0, len(streams), NAMES_AT_ONCE):
        names = streams[at : at + NAMES_AT_ONCE]
        count += sum(await asyncio.gather(*(exists(client, name) for name in names)))
    return count


async def describe_keyspace(client: Client, request: DescribeKeyspace) -> KeyspaceInfo:
    del request
    count, ttls = 0, list[int]()
    async for names in pages(client):
        count += len(names)
        replies = await asyncio.gather(*(ttl_ms(client, name) for name in names))
        ttls += [ttl for ttl in replies if ttl >= 0]
    average_ms = sum(ttls) // len(ttls) if ttls else 0
    return KeyspaceInfo(await now_ms(client), count, len(ttls), average_ms)


async def ttl_ms(client: Client, stream: bytes) -> int:
    """Return a stream's time to live as PTTL does: -1 has no expiry, -2 does not exist."""
    key = client.names.of(stream).key
    return int(await client.execute(stream, b"PTTL", key, changes=False))


async def now_ms(client: Client) -> int:
    [address, *_] = await client.known()
    seconds, micros = await client.execute_at(address, b"TIME", changes=False)
    return int(seconds) * 1000 + int(micros) // 1000


async def delete_streams(client: Client, request: DeleteStreams) -> int:
    """Delete streams with their groups (DEL), some at a time; return how many existed."""
    return await _delete(client, list(dict.fromkeys(request.streams)))


async def delete_all(client: Client, request: DeleteAll) -> None:
    """Delete all streams (FLUSHALL), some at a time; foreign keys stay."""
    del request
    async for names in pages(client):
        await _delete(client, names)


async def _delete(client: Client, streams: Sequence[bytes]) -> int:
    count = 0
    for at in range(0, len(streams), NAMES_AT_ONCE):
        names = streams[at : at + NAMES_AT_ONCE]
        count += sum(await asyncio.gather(*(_delete_if_stream(client, name) for name in names)))
    return count


async def _delete_if_stream(client: Client, stream: bytes) -> bool:
    try:
        return bool(await client.perform(Effect.FREE, DeleteStream(stream)))
    except WrongType:  # what is not ours stays
        return False


async def rename_stream(client: Client, request: RenameStream) -> bool:
    """Rename a stream (RENAME, RENAMENX); both names must be in one slot."""
    source, target = client.names.of(request.stream), client.names.of(request.to)
    if client.is_cluster and source.slot != target.slot:
        raise SeveralSlots("renames")
    return bool(await client.perform_at(Effect.FREE, request, [source, target]))


async def expire_stream(client: Client, request: ExpireStream) -> bool:
    """Set a stream's expiry if the conditions hold (PEXPIRE)."""
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
    left_ms = await ttl_ms(client, request.stream)
    if left_ms == -2:
        raise StreamNotFound(request.stream)
    return None if left_ms < 0 else left_ms


async def get_expiry(client: Client, request: GetExpiry) -> int | None:
    """Return a stream's expiry as unix time in milliseconds (PEXPIRETIME)."""
    key = client.names.of(request.stream).key
    at_ms = int(await client.execute(request.stream, b"PEXPIRETIME", key, changes=False))
    if at_ms == -2:
        raise StreamNotFound(request.stream)
    return None if at_ms < 0 else at_ms


async def pick_name(client: Client, request: PickName) -> bytes | None:
    """Return some stream's name (RANDOMKEY); all names are looked at."""
    names = await list_names(client, ListNames(request.only))
    return names[request.place % len(names)] if names else None


async def get_defaults(client: Client, request: GetDefaults) -> StreamDefaults:
    """Return the defaults of streams without their own configuration (CONFIG GET stream-*)."""
    del client, request
    return StreamDefaults(CHUNK_BYTES_MAX, CHUNK_ENTRIES_MAX, *KEY_DEFAULTS)


_DEFAULTS_ARE_FIXED = not_supported("changes of what holds for all streams")
"""Every gateway would have to know of a change."""

PERFORMERS: Performers = {
    TellTime: natively(tell_time),
    ListNames: natively(list_names),
    ScanNames: natively(scan_names),
    CountStreams: natively(count_streams),
    DescribeKeyspace: natively(describe_keyspace),
    DeleteStreams: by_function(delete_streams),
    DeleteAll: by_function(delete_all),
    RequireGroups: by_function(require_groups),
    RenameStream: by_function(rename_stream),
    ExpireStream: by_function(expire_stream),
    PersistStream: by_operation(Effect.FREE, bool),
    TimeToLive: natively(time_to_live),
    GetExpiry: natively(get_expiry),
    PickName: natively(pick_name),
    RememberKey: by_operation(Effect.WRITE),
    SetCounters: by_operation(Effect.FREE),
    GetDefaults: natively(get_defaults),
    ChangeDefaults: _DEFAULTS_ARE_FIXED,
}
