"""Names: which streams there are. The servers are searched, as they have no list in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from heapq import nsmallest
from itertools import takewhile

from headgate.app.backends.redis.address import Address
from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function, by_operation, natively
from headgate.engine.errors import WrongType
from headgate.engine.replies import KeyspaceInfo, NamePage
from headgate.engine.requests.keyspace import (
    CountStreams,
    DeleteAll,
    DeleteStreams,
    DescribeKeyspace,
    ListNames,
    ScanNames,
)
from headgate.engine.requests.names import NameFilter
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
    """Return the first names in byte order. See `first_names_of`."""
    return (await first_names_of(client, limit, prefix, after, only))[0]


async def first_names_of(
    client: Client,
    limit: int | None,
    prefix: bytes = b"",
    after: bytes | None = None,
    only: NameFilter | None = None,
) -> tuple[list[bytes], int]:
    """Return the first names in byte order, and how many there are in all.

    No more names than these are kept meanwhile. A server that changes the size of its table may
    show a stream twice. Then it counts twice.

    Args:
        client: sends the commands.
        limit: how many; None: all.
        prefix: what they begin with.
        after: only names behind this one.
        only: which may be shown; None: all.
    """
    kept: set[bytes] = set()
    count = 0
    async for names in _pages(client, prefix, only):
        following = [name for name in names if after is None or name > after]
        count += len(following)
        kept.update(following)
        if limit is not None and len(kept) > limit + _KEYS_AT_ONCE:
            kept = set(nsmallest(limit, kept))
    return (sorted(kept) if limit is None else nsmallest(limit, kept)), count


async def _pages(
    client: Client, prefix: bytes = b"", only: NameFilter | None = None
) -> AsyncIterator[list[bytes]]:
    """Yield the names of streams in no order; a name may come twice."""
    shown = _Shown(prefix, only)
    if not shown.starts:
        for at in range(0, len(shown.names), _NAMES_AT_ONCE):
            yield await _existing(client, shown.names[at : at + _NAMES_AT_ONCE])
        return
    for address in await client.known():
        cursor = 0
        while True:
            cursor, names = await _search(client, address, cursor, _KEYS_AT_ONCE, shown)
            yield names
            if not cursor:
                break


async def _search(
    client: Client, address: Address, cursor: int, count: int, shown: _Shown
) -> tuple[int, list[bytes]]:
    """Look at about `count` keys of a server; return where to go on, and the names to be shown."""
    pattern = client.names.pattern(shown.stem)
    words = (b"SCAN", cursor, b"MATCH", pattern, b"COUNT", count, b"TYPE", b"stream")
    following, keys = await client.execute_at(address, *words, changes=False)
    names = [client.names.name(key) for key in keys if client.names.is_stream(key)]
    return int(following), [name for name in names if shown.shows(name)]


async def _existing(client: Client, names: Sequence[bytes]) -> list[bytes]:
    """Return those of the names that streams have."""
    exist = await asyncio.gather(*(exists(client, name) for name in names))
    return [name for name, is_there in zip(names, exist, strict=True) if is_there]


class _Shown:
    """The requested names that may be shown."""

    def __init__(self, prefix: bytes, only: NameFilter | None) -> None:
        self._prefix = prefix
        prefixes = (b"",) if only is None else only.prefixes
        names = () if only is None else only.names
        # The longer of two prefixes says it all, if it begins with the other.
        self.starts = tuple(
            max(prefix, each, key=len)
            for each in prefixes
            if prefix.startswith(each) or each.startswith(prefix)
        )
        self.names = sorted(name for name in names if name.startswith(prefix))
        self._names = frozenset(self.names)

    @property
    def stem(self) -> bytes:
        """Return the common beginning of all names."""
        beginnings = [*self.starts, *self.names]
        pairs = zip(min(beginnings), max(beginnings), strict=False)
        return bytes(first for first, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def shows(self, name: bytes) -> bool:
        """Tell whether a name is one of them."""
        return name.startswith(self.starts) or name in self._names


async def exists(client: Client, stream: bytes) -> bool:
    """Tell whether there is a stream of this name."""
    kind = await client.execute(stream, b"TYPE", client.names.of(stream).key, changes=False)
    return bytes(kind) == b"stream"


async def list_names(client: Client, request: ListNames) -> list[bytes]:
    """Return the names of all streams, in byte order (KEYS)."""
    return await first_names(client, None, only=request.only)


async def scan_names(client: Client, request: ScanNames) -> NamePage:
    """Return about `count` names after a cursor (SCAN).

    If all names are shown, the primaries are searched one after the other, in no order. The cursor
    is that of a primary times the number of primaries, plus its place among them. Else the cursor
    is the number of names before it, so that it says nothing of other names.
    """
    if request.only is not None:
        end = request.cursor + request.count
        names = await first_names(client, end + 1, only=request.only)
        return NamePage(names[request.cursor : end], end if len(names) > end else 0)
    primaries = await client.known()
    cursor, place = divmod(request.cursor, len(primaries))
    shown = _Shown(b"", None)
    following, names = await _search(client, primaries[place], cursor, request.count, shown)
    if following:
        return NamePage(names, following * len(primaries) + place)
    return NamePage(names, (place + 1) % len(primaries))


async def count_streams(client: Client, request: CountStreams) -> int:
    """Count streams (EXISTS, DBSIZE).

    A server that changes the size of its table may show a stream twice. Then it counts twice.
    """
    if request.streams is None:
        return sum([len(names) async for names in _pages(client, only=request.only)])
    return await _sum_of(client, request.streams)


async def _sum_of(client: Client, streams: Sequence[bytes]) -> int:
    count = 0
    for at in range(0, len(streams), _NAMES_AT_ONCE):
        names = streams[at : at + _NAMES_AT_ONCE]
        count += sum(await asyncio.gather(*(exists(client, name) for name in names)))
    return count


async def describe_keyspace(client: Client, request: DescribeKeyspace) -> KeyspaceInfo:
    """Count the streams, and those of them that expire."""
    del request
    count, ttls = 0, list[int]()
    async for names in _pages(client):
        count += len(names)
        replies = await asyncio.gather(*(ttl_ms(client, name) for name in names))
        ttls += [ttl for ttl in replies if ttl >= 0]
    average_ms = sum(ttls) // len(ttls) if ttls else 0
    return KeyspaceInfo(await now_ms(client), count, len(ttls), average_ms)


async def ttl_ms(client: Client, stream: bytes) -> int:
    """Return in how many milliseconds a stream expires; -1: it does not; -2: there is none."""
    key = client.names.of(stream).key
    return int(await client.execute(stream, b"PTTL", key, changes=False))


async def now_ms(client: Client) -> int:
    """Return the unix time of a server, in milliseconds."""
    [address, *_] = await client.known()
    seconds, micros = await client.execute_at(address, b"TIME", changes=False)
    return int(seconds) * 1000 + int(micros) // 1000


async def delete_streams(client: Client, request: DeleteStreams) -> int:
    """Delete streams with their groups (DEL), some at a time; return how many existed."""
    return await _delete(client, list(dict.fromkeys(request.streams)))


async def delete_all(client: Client, request: DeleteAll) -> None:
    """Delete all streams (FLUSHALL), some at a time. What is not ours stays."""
    del request
    async for names in _pages(client):
        await _delete(client, names)


async def _delete(client: Client, streams: Sequence[bytes]) -> int:
    count = 0
    for at in range(0, len(streams), _NAMES_AT_ONCE):
        names = streams[at : at + _NAMES_AT_ONCE]
        count += sum(await asyncio.gather(*(_delete_if_stream(client, name) for name in names)))
    return count


async def _delete_if_stream(client: Client, stream: bytes) -> bool:
    try:
        return bool(await client.perform(Effect.FREE, DeleteStream(stream)))
    except WrongType:  # what is not ours stays
        return False


PERFORMERS: Performers = {
    ListNames: natively(list_names),
    ScanNames: natively(scan_names),
    CountStreams: natively(count_streams),
    DescribeKeyspace: natively(describe_keyspace),
    DeleteStream: by_operation(Effect.FREE, bool),
    DeleteStreams: by_function(delete_streams),
    DeleteAll: by_function(delete_all),
}
