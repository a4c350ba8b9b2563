"""Messages of channels between gateways, by PUBLISH and SUBSCRIBE of the servers.

All subscriptions of this gateway share one connection. The primaries of a cluster pass messages on
to each other, so it does not matter with which of them it is. While it is lost, messages are lost.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from redis.asyncio import Connection
from redis.exceptions import RedisError

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import NotSent, as_stream_errors
from headgate.app.backends.redis.node import Word, connection_to
from headgate.app.runtime import periodic
from headgate.engine.eager import own_task
from headgate.engine.errors import Disconnected

_SILENCE_S_MAX: Final = 5.0
"""After so long without a message the server is asked for a sign of life."""

_PAUSE_S: Final = 0.25
"""Before another attempt to connect."""

_NAMES_AT_ONCE: Final = 500
"""Names of one SUBSCRIBE."""

Place = tuple[bool, bytes]
"""Whether it is a pattern, and its name."""

_KINDS = {b"subscribe": False, b"psubscribe": True}


class ChannelRelay:
    def __init__(self, client: Client) -> None:
        self.on_message: Callable[[bytes, bytes, bytes | None], Awaitable[None]] = _ignore
        self.realm = client.names.prefix
        self._client = client
        self._wanted: dict[Place, asyncio.Future[None]] = {}  # done once its messages come
        self._unsent: deque[Sequence[bytes]] = deque()  # commands for the connection
        self._unconfirmed: Counter[Place] = Counter()  # subscriptions that were asked for
        self._has_unsent = asyncio.Event()
        self._is_connected = False

    async def publish(self, channel: bytes, data: bytes) -> int:
        return int(await self._ask(b"PUBLISH", channel, data))

    async def listen(self, name: bytes, *, is_pattern: bool) -> None:
        await own_task()  # what waits for a server has a timeout
        place = is_pattern, name
        standing = self._wanted.get(place)
        if standing is None:
            standing = self._wanted[place] = asyncio.get_running_loop().create_future()
            if self._is_connected:
                self._unconfirmed[place] += 1
            self._send([b"PSUBSCRIBE" if is_pattern else b"SUBSCRIBE", name])
        try:
            async with asyncio.timeout(self._client.options.answer_ms_max / 1000):
                await asyncio.shield(standing)
        except TimeoutError:
            raise Disconnected("the servers do not confirm the subscription") from None

    def leave(self, name: bytes, *, is_pattern: bool) -> None:
        if self._wanted.pop((is_pattern, name), None) is not None:
            self._send([b"PUNSUBSCRIBE" if is_pattern else b"UNSUBSCRIBE", name])

    async def names(self, pattern: bytes | None) -> list[bytes]:
        words = [] if pattern is None else [pattern]
        return list(await self._ask(b"PUBSUB", b"CHANNELS", *words))

    async def counts(self, names: Sequence[bytes]) -> list[int]:
        return [int(count) for count in (await self._ask(b"PUBSUB", b"NUMSUB", *names))[1::2]]

    async def pattern_count(self) -> int:
        return int(await self._ask(b"PUBSUB", b"NUMPAT"))

    async def _ask(self, *words: Word) -> Any:
        await own_task()
        with as_stream_errors(b""):
            address = (await self._client.known())[0]
            return await self._client.execute_at(address, *words, changes=False)

    # The connection of all subscriptions

    async def run(self) -> None:
        await periodic.repeat("messages of channels", self._follow)

    async def _follow(self) -> None:
        with suppress(OSError, RedisError, TimeoutError, NotSent):
            await self._follow_once()
        await asyncio.sleep(_PAUSE_S)

    async def _follow_once(self) -> None:
        options = self._client.options
        address, timeout_s = (await self._client.known())[0], options.connect_ms_max / 1000
        connection = connection_to(options.servers, address, timeout_s=timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await connection.connect()  # type: ignore[no-untyped-call]
            self._begin_anew()
            sending = asyncio.ensure_future(self._send_all(connection))
            try:
                await self._read_all(connection)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        finally:
            self._is_connected = False
            with suppress(OSError, RedisError):
                await connection.disconnect(nowait=True)

    def _begin_anew(self) -> None:
        """Subscribe to everything that is wanted; who waits for it goes on waiting."""
        self._is_connected = True
        self._unsent.clear()
        self._unconfirmed = Counter(dict.fromkeys(self._wanted, 1))
        for place, standing in self._wanted.items():
            if standing.done():
                self._wanted[place] = asyncio.get_running_loop().create_future()
        for command, is_pattern in ((b"SUBSCRIBE", False), (b"PSUBSCRIBE", True)):
            names = (name for kind, name in self._wanted if kind is is_pattern)
            while portion := list(islice(names, _NAMES_AT_ONCE)):
                self._send([command, *portion])

    def _send(self, words: Sequence[bytes]) -> None:
        if self._is_connected:  # or else it is among all that is wanted by then
            self._unsent.append(words)
            self._has_unsent.set()

    async def _send_all(self, connection: Connection) -> None:
        while True:
            await self._has_unsent.wait()
            self._has_unsent.clear()
            while self._unsent:
                await connection.send_command(*self._unsent.popleft(), check_health=False)

    async def _read_all(self, connection: Connection) -> None:
        """Read messages until the connection fails, or the server gives no sign of life."""
        is_asked = False
        while True:
            try:
                async with asyncio.timeout(_SILENCE_S_MAX):
                    reply = await connection.read_response(disconnect_on_error=False)
            except TimeoutError:
                if is_asked:
                    raise
                is_asked = True
                self._send([b"PING"])
                continue
            is_asked = False
            await self._take(reply)

    async def _take(self, reply: Sequence[Any]) -> None:
        match list(reply):
            case [b"message", channel, data]:
                await self.on_message(channel, data, None)
            case [b"pmessage", pattern, channel, data]:
                await self.on_message(channel, data, pattern)
            case [(b"subscribe" | b"psubscribe") as kind, name, _]:
                place = _KINDS[kind], name
                self._unconfirmed[place] -= 1
                standing = self._wanted.get(place)
                if self._unconfirmed[place] <= 0:  # or else an older one was confirmed
                    del self._unconfirmed[place]
                    if standing is not None and not standing.done():
                        standing.set_result(None)


async def _ignore(channel: bytes, data: bytes, pattern: bytes | None) -> None:
    del channel, data, pattern
