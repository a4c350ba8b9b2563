"""Which streams exist; the servers are searched, as they have no ordered list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from heapq import nsmallest
from itertools import takewhile

from headgate.app.backends.redis.address import Address
from headgate.app.backends.redis.client import Client
from headgate.engine.requests.keyspace import NameFilter, is_shown

_KEYS_AT_ONCE = 1_000
"""Keys that a server looks at before other commands run (SCAN COUNT)."""

NAMES_AT_ONCE = 500
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
        for at in range(0, len(shown.names), NAMES_AT_ONCE):
            yield await _existing(client, shown.names[at : at + NAMES_AT_ONCE])
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


async def _existing(client: Client, names: Sequence[bytes]) -> list[bytes]:
    exist = await asyncio.gather(*(exists(client, name) for name in names))
    return [name for name, is_there in zip(names, exist, strict=True) if is_there]


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
