"""All streams, names and expiry; the search for names, as the servers have no ordered list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from heapq import nsmallest
from itertools import takewhile
from typing import Any

from msgspec.structs import asdict
from redis.exceptions import ResponseError

from headgate.app.backends.redis.address import Address
from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.app.backends.redis.library import KEY_DEFAULTS, Effect
from headgate.app.backends.redis.performing import (
    Performer,
    Performers,
    by_function,
    by_operation,
    natively,
    not_supported,
    portions,
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
    NameFilter,
    PersistStream,
    PickName,
    RememberKey,
    RenameStream,
    RequireGroups,
    ScanNames,
    SetCounters,
    TellTime,
    TimeToLive,
    is_shown,
)
from headgate.engine.requests.streams import DeleteStream

_KEYS_AT_ONCE = 1_000
"""Keys that a server looks at before other commands run (SCAN COUNT)."""

_NAMES_AT_ONCE = 500
"""Streams that are asked about, or deleted, before other requests run."""


async def first_names(
    client: Client,
    limit: int | None,
    prefix: bytes = b"",
    after: bytes | None = None,
    only: NameFilter | None = None,
) -> list[bytes]:
    return (await first_names_of(client, limit, prefix, after, only))[0]


async def first_names_of(
    client: Client,
    limit: int | None,
    prefix: bytes = b"",
    after: bytes | None = None,
    only: NameFilter | None = None,
) -> tuple[list[bytes], int]:
    """Return the first names in byte order, and how many there are in all.

    `limit` None returns all; `after` is exclusive. No more names than are returned are kept
    meanwhile. A stream may be counted twice while a server resizes its table.
    """
    kept: set[bytes] = set()
    count = 0
    async for names in pages(client, prefix, only):
        following = [name for name in names if after is None or name > after]
        count += len(following)
        kept.update(following)
        if limit is not None and len(kept) > limit + _KEYS_AT_ONCE:
            kept = set(nsmallest(limit, kept))
    return (sorted(kept) if limit is None else nsmallest(limit, kept)), count


async def pages(
    client: Client, prefix: bytes = b"", only: NameFilter | None = None
) -> AsyncIterator[list[bytes]]:
    """Yield the names of streams in no order; a name may come twice."""
    shown = Shown(prefix, only)
    if not shown.starts:
        for names in portions(shown.names, _NAMES_AT_ONCE):
            exist = await asyncio.gather(*(exists(client, name) for name in names))
            yield [name for name, is_there in zip(names, exist, strict=True) if is_there]
        return
    for address in await client.known():
        cursor = 0
        while True:
            cursor, names = await search(client, address, cursor, _KEYS_AT_ONCE, shown)
            yield names
            if not cursor:
                break


async def search(
    client: Client, address: Address, cursor: int, count: int, shown: Shown
) -> tuple[int, list[bytes]]:
    """Look at about `count` keys of a server; return the next cursor and the names to show."""
    pattern = client.names.pattern(shown.stem)
    words = (b"SCAN", cursor, b"MATCH", pattern, b"COUNT", count, b"TYPE", b"stream")
    following, keys = await client.execute_at(address, *words, changes=False)
    names = [client.names.name(key) for key in keys if client.names.is_stream(key)]
    return int(following), [name for name in names if shown.shows(name)]


class Shown:
    def __init__(self, prefix: bytes, only: NameFilter | None) -> None:
        self._prefix, self._only = prefix, only
        prefixes = (b"",) if only is None else only.prefixes
        names = () if only is None else only.names
        # The longer of two prefixes says it all, if it begins with the other.
        self.starts = tuple(
            max(prefix, each, key=len)
            for each in prefixes
            if prefix.startswith(each) or each.startswith(prefix)
        )
        self.names = sorted(name for name in names if name.startswith(prefix))

    @property
    def stem(self) -> bytes:
        beginnings = [*self.starts, *self.names]
        pairs = zip(min(beginnings), max(beginnings), strict=False)
        return bytes(first for first, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def shows(self, name: bytes) -> bool:
        return name.startswith(self._prefix) and is_shown(name, self._only)


async def exists(client: Client, stream: bytes) -> bool:
    kind = await client.execute(stream, b"TYPE", client.names.of(stream).key, changes=False)
    return bytes(kind) == b"stream"


# Requests


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
    return await _count(client, request.streams, exists)


async def _count(
    client: Client,
    streams: Sequence[bytes],
    act: Callable[[Client, bytes], Coroutine[Any, Any, bool]],
) -> int:
    """Return for how many streams `act` returns true."""
    count = 0
    for names in portions(streams, _NAMES_AT_ONCE):
        count += sum(await asyncio.gather(*(act(client, name) for name in names)))
    return count


async def describe_keyspace(client: Client, request: DescribeKeyspace) -> KeyspaceInfo:
    del request
    count, ttls = 0, list[int]()
    async for names in pages(client):
        count += len(names)
        replies = await asyncio.gather(*(_expiry_ms(client, name) for name in names))
        ttls += [ttl for ttl in replies if ttl >= 0]
    average_ms = sum(ttls) // len(ttls) if ttls else 0
    return KeyspaceInfo(await now_ms(client), count, len(ttls), average_ms)


async def _expiry_ms(client: Client, stream: bytes, command: bytes = b"PTTL") -> int:
    """Return when a stream expires as PTTL does: -1 has no expiry, -2 does not exist."""
    key = client.names.of(stream).key
    return int(await client.execute(stream, command, key, changes=False))


def _expiry_by(command: bytes) -> Performer:
    async def perform(client: Client, request: TimeToLive | GetExpiry) -> int | None:
        expiry_ms = await _expiry_ms(client, request.stream, command)
        if expiry_ms == -2:
            raise StreamNotFound(request.stream)
        return None if expiry_ms < 0 else expiry_ms

    return natively(perform)


async def now_ms(client: Client) -> int:
    [address, *_] = await client.known()
    seconds, micros = await client.execute_at(address, b"TIME", changes=False)
    return int(seconds) * 1000 + int(micros) // 1000


async def delete_streams(client: Client, request: DeleteStreams) -> int:
    """Delete streams with their groups (DEL), some at a time; return how many existed."""
    return await _count(client, list(dict.fromkeys(request.streams)), _delete_if_stream)


async def delete_all(client: Client, request: DeleteAll) -> None:
    """Delete all streams (FLUSHALL), some at a time; foreign keys stay."""
    del request
    async for names in pages(client):
        await _count(client, names, _delete_if_stream)


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
    keys = [source, target]
    return bool(await client.call(Effect.FREE, "RenameStream", keys, **asdict(request)))


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
    TimeToLive: _expiry_by(b"PTTL"),
    GetExpiry: _expiry_by(b"PEXPIRETIME"),
    PickName: natively(pick_name),
    RememberKey: by_operation(Effect.WRITE),
    SetCounters: by_operation(Effect.FREE),
    GetDefaults: natively(get_defaults),
    ChangeDefaults: _DEFAULTS_ARE_FIXED,
}
