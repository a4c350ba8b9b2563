"""The streams of a plain Redis or Valkey server or cluster, through its own commands.

It carries out only the requests that copying makes. Reading needs only read rights (`+@read`). A
gateway that listens for Redis clients is such a server, too.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from redis.crc import key_slot
from redis.exceptions import NoPermissionError, ResponseError

from headgate.app.backends.plain.commands import (
    CHANGES,
    Words,
    added,
    commands_of,
    read_consumers,
    read_entries,
    read_groups,
    read_pending,
    read_stream,
    read_summary,
    release,
)
from headgate.app.backends.port import Ability
from headgate.app.backends.redis.address import Address
from headgate.app.backends.redis.client import Client, ClientOptions
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.engine.clock import Clock
from headgate.engine.entry import Entry, sizes_of
from headgate.engine.errors import (
    Conflict,
    GroupNotFound,
    NotSupported,
    StreamNotFound,
    Unavailable,
)
from headgate.engine.replies import Added, ConsumerInfo, GroupInfo, PendingItem, StreamInfo
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import ListPending, Nack, SumPending
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.groups import CreateGroup, DescribeGroup, ListConsumers, ListGroups
from headgate.engine.requests.keyspace import GetExpiry, SetCounters, TellTime
from headgate.engine.requests.streams import DescribeStream, ListStreams


class PlainClient(Client):
    """A client for servers of any version; functions are neither loaded nor needed."""

    async def prepare(self, address: Address) -> None:
        """Ask nothing of the server: rights to read streams are enough."""


T = TypeVar("T")

_SCANNED_AT_ONCE = 1_000
_FIRST_PAGE = 100
"""Entries read at once, as long as nobody knows how large they are."""

_GROWTH_MAX = 4
"""A page has at most so many times the entries of the page before."""


class PlainServer:
    abilities: frozenset[Ability] = frozenset()

    def __init__(self, options: ClientOptions, clock: Clock) -> None:
        """Take the options; streams with their prefix belong to gateways and are not listed.

        `clock` is used only if the server does not tell the time.
        """
        self._client = PlainClient(options)
        self._prefix = options.prefix
        self._clock = clock
        self._names: list[bytes] = []
        self._page_sizes: dict[bytes, int] = {}  # of the next page of a stream, in entries
        self._has_xnack = True
        self.left_out: Counter[str] = Counter()  # keys that are not listed, by kind
        self._closed = asyncio.Event()
        self._performers: dict[type[Request[Any]], Callable[[Any], Coroutine[Any, Any, Any]]] = {
            **dict.fromkeys(CHANGES, self._change),
            ListStreams: self._list_streams,
            DescribeStream: self._describe_stream,
            GetExpiry: self._get_expiry,
            TellTime: self._tell_time,
            Range: self._range,
            ListGroups: self._list_groups,
            DescribeGroup: self._describe_group,
            ListConsumers: self._list_consumers,
            ListPending: self._list_pending,
            SumPending: self._sum_pending,
            Add: self._add,
            CreateGroup: self._create_group,
            SetCounters: self._set_counters,
            Nack: self._nack,
        }

    async def perform(self, request: Request[T]) -> T:
        stream, group = getattr(request, "stream", b""), getattr(request, "group", b"")
        with as_stream_errors(stream, group):
            act = self._performers.get(type(request))
            if act is None:
                raise NotSupported(type(request).__name__)
            reply: T = await act(request)
        return reply

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self._client.run())
            await self._closed.wait()
            running.cancel()

    async def close(self) -> None:
        self._closed.set()

    # Streams

    async def _list_streams(self, request: ListStreams) -> list[StreamInfo]:
        """Describe streams; their names are looked up when the first page is read."""
        if request.after is None:
            await self._look_up()
        begin = 0 if request.after is None else bisect_right(self._names, request.after)
        while names := self._names[begin : begin + request.limit]:
            infos = await asyncio.gather(*map(self._stream_or_none, names))
            if any(infos):
                return [info for info in infos if info is not None]
            begin += len(names)
        return []

    async def _look_up(self) -> None:
        client, names, keys = self._client, set[bytes](), 0
        for address in await client.known():
            async for page in self._scan(address):
                names.update(page)
            try:
                keys += await client.execute_at(address, b"DBSIZE", changes=False)
            except NoPermissionError:
                keys = len(names)
        own = [name for name in names if not self._prefix or not name.startswith(self._prefix)]
        self._names = sorted(own)
        self.left_out = Counter(
            {"of gateways": len(names) - len(own), "of other types": max(keys - len(names), 0)}
        )

    async def _scan(self, address: Address) -> AsyncIterator[list[bytes]]:
        """Yield the names of a server's streams; a name may come twice."""
        cursor = b"0"
        only: Words = (b"TYPE", b"stream")
        while True:
            words: Words = (b"SCAN", cursor, b"COUNT", _SCANNED_AT_ONCE, *only)
            try:
                cursor, names = await self._client.execute_at(address, *words, changes=False)
            except ResponseError as error:
                if not only or "syntax" not in str(error):
                    raise
                only = ()  # before Redis 6.0
                continue
            yield names if only else await self._streams_among(names)
            if cursor == b"0":
                return

    async def _streams_among(self, names: Sequence[bytes]) -> list[bytes]:
        types = await asyncio.gather(*(self._read(name, b"TYPE", name) for name in names))
        return [name for name, kind in zip(names, types, strict=True) if kind == b"stream"]

    async def _stream_or_none(self, stream: bytes) -> StreamInfo | None:
        try:
            return await self._describe(stream)
        except StreamNotFound:
            return None

    async def _describe_stream(self, request: DescribeStream) -> StreamInfo:
        return await self._describe(request.stream)

    async def _describe(self, stream: bytes) -> StreamInfo:
        return read_stream(stream, await self._read(stream, b"XINFO", b"STREAM", stream))

    async def _get_expiry(self, request: GetExpiry) -> int | None:
        """Return the unix time of an expiry, as PEXPIRETIME does on newer servers."""
        now_ms = await self._tell_time(TellTime())
        ttl_ms: int = await self._read(request.stream, b"PTTL", request.stream)
        if ttl_ms == -2:
            raise StreamNotFound(request.stream)
        return None if ttl_ms < 0 else now_ms + ttl_ms

    async def _tell_time(self, request: TellTime) -> int:
        del request
        [address, *_] = await self._client.known()
        try:
            seconds, us = await self._client.execute_at(address, b"TIME", changes=False)
        except NoPermissionError:
            return self._clock.wall_ms()
        return int(seconds) * 1000 + int(us) // 1000

    # Entries and groups

    async def _range(self, request: Range) -> list[Entry]:
        """Read entries; servers have no byte limit, so the count follows the sizes so far."""
        stream, limit = request.stream, request.limit or 1
        if request.size_bytes_max is not None:
            limit = min(limit, self._page_sizes.get(stream, _FIRST_PAGE))
        first, last = str(request.start), str(request.end)
        command, *ends = (
            (b"XREVRANGE", last, first) if request.reverse else (b"XRANGE", first, last)
        )
        entries = read_entries(await self._read(stream, command, stream, *ends, b"COUNT", limit))
        if request.size_bytes_max is not None:
            if len(entries) < limit:
                self._page_sizes.pop(stream, None)
            else:
                size_bytes = sum(sizes_of([entry.fields for entry in entries])) or 1
                fitting = limit * request.size_bytes_max // size_bytes
                self._page_sizes[stream] = max(1, min(fitting, limit * _GROWTH_MAX))
        return entries

    async def _groups(self, stream: bytes) -> list[GroupInfo]:
        return read_groups(await self._read(stream, b"XINFO", b"GROUPS", stream))

    async def _list_groups(self, request: ListGroups) -> list[GroupInfo]:
        groups = await self._groups(request.stream)
        return [group for group in groups if request.after is None or group.name > request.after]

    async def _describe_group(self, request: DescribeGroup) -> GroupInfo:
        for group in await self._groups(request.stream):
            if group.name == request.group:
                return group
        raise GroupNotFound(request.stream, request.group)

    async def _list_consumers(self, request: ListConsumers) -> list[ConsumerInfo]:
        words = b"XINFO", b"CONSUMERS", request.stream, request.group
        consumers = read_consumers(await self._read(request.stream, *words))
        return [each for each in consumers if request.after is None or each.name > request.after]

    async def _list_pending(self, request: ListPending) -> list[PendingItem]:
        ends = str(request.start), str(request.end), request.limit
        words = b"XPENDING", request.stream, request.group, *ends
        return read_pending(await self._read(request.stream, *words))

    async def _sum_pending(self, request: SumPending) -> Any:
        words = b"XPENDING", request.stream, request.group
        return read_summary(await self._read(request.stream, *words))

    # Changes

    async def _add(self, request: Add) -> Added:
        """Append entries; if somebody else appends, an id is too small and the copy differs."""
        await self._change(request)
        return added(request)

    async def _create_group(self, request: CreateGroup) -> None:
        try:
            await self._change(request)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    async def _set_counters(self, request: SetCounters) -> None:
        try:
            await self._change(request)
        except ResponseError as error:
            if "syntax" in str(error) or "wrong number" in str(error):
                raise Unavailable("copies need Redis 7.0 or newer") from None
            raise

    async def _nack(self, request: Nack) -> None:
        if self._has_xnack:
            try:
                await self._send(request.stream, [release(request)])
            except ResponseError as error:
                if "unknown command" not in str(error).lower():
                    raise
                self._has_xnack = False
            else:
                return
        await self._change(request)

    async def _change(self, request: Any) -> None:
        await self._send(request.stream, commands_of(request))

    async def _send(self, stream: bytes, commands: Sequence[Words]) -> None:
        if commands:
            slot = _slot(stream)
            for reply in await self._client.execute_together(slot, commands, changes=True):
                if isinstance(reply, Exception):
                    raise _meant(stream, reply)

    async def _read(self, stream: bytes, *words: bytes | str | int) -> Any:
        slot = _slot(stream)
        [reply] = await self._client.execute_together(slot, [words], changes=False)
        if isinstance(reply, Exception):
            raise _meant(stream, reply)
        return reply


def _slot(stream: bytes) -> int:
    slot: int = key_slot(stream)  # it has no types
    return slot


def _meant(stream: bytes, error: Exception) -> Exception:
    """Return the port's error for an error reply, or the reply itself."""
    text = str(error)
    if "no such key" in text or "requires the key to exist" in text:
        return StreamNotFound(stream)
    if "equal or smaller" in text:
        return Conflict("others append to the copy")
    return error
