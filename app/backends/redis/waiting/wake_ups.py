"""The servers report changed keys, so that blocked reads are run again.

One connection to each primary has CLIENT TRACKING in its broadcasting mode. The server pushes the
names of keys with our prefix that any client changes: one push for all changes of a turn of its
loop. Only changes that could serve a read push anything: XADD does, XREADGROUP and XACK do not.

While a connection is lost, changes go unnoticed, so all reads are run again once it is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from redis.asyncio import Connection
from redis.exceptions import RedisError, ResponseError

from headgate.app.backends.redis.address import Address
from headgate.app.backends.redis.client import ClientOptions
from headgate.app.backends.redis.node import connection_to
from headgate.app.runtime import periodic

log = logging.getLogger("headgate")

_SILENCE_S_MAX = 5.0
"""After so long without a push the server is asked for a sign of life."""

_PAUSE_S_MIN, _PAUSE_S_MAX = 0.1, 2.0
"""Between two attempts to connect; each pause is twice the one before."""

_LOOK_S = 0.25
"""Interval between runs of all reads if a server cannot report changes."""


class WakeUps:
    def __init__(
        self,
        options: ClientOptions,
        prefixes: Sequence[bytes],
        on_changed: Callable[[Sequence[bytes]], None],
        on_missed: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Take the callbacks; `follow` chooses the servers, and `run` connects.

        `on_missed` is called if any key may have changed, `on_lost` if a server cannot be heard: it
        may no longer be a primary.
        """
        self._options = options
        self._prefixes = prefixes
        self._on_changed = on_changed
        self._on_missed = on_missed
        self._on_lost = on_lost
        self._tasks: asyncio.TaskGroup | None = None
        self._followed: dict[Address, asyncio.Task[None]] = {}
        self._live: set[Address] = set()
        self._pauses_s: dict[Address, float] = {}  # before the next attempt
        self._primaries: Sequence[Address] = ()
        self.is_polling = False  # some server cannot tell what was changed

    @property
    def are_live(self) -> bool:
        return bool(self._primaries) and self._live.issuperset(self._primaries)

    def follow(self, primaries: Sequence[Address]) -> None:
        self._primaries = primaries
        if self._tasks is None:
            return
        for address in set(self._followed).difference(primaries):
            self._followed.pop(address).cancel()
            self._live.discard(address)
            self._pauses_s.pop(address, None)
        for address in primaries:
            if address not in self._followed:
                listening = periodic.repeat("wake-ups", partial(self._listen, address))
                self._followed[address] = self._tasks.create_task(listening)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self.follow(self._primaries)
                await asyncio.Event().wait()
        finally:
            self._tasks = None
            self._followed.clear()
            self._live.clear()

    async def _listen(self, address: Address) -> None:
        pause_s = self._pauses_s.get(address, _PAUSE_S_MIN)
        try:
            await self._listen_once(address)
        except ResponseError as error:
            await self._poll(address, str(error))
        except (OSError, RedisError, TimeoutError):
            self._on_lost()
        finally:
            if address in self._live:
                self._live.discard(address)
                pause_s = _PAUSE_S_MIN
        self._pauses_s[address] = min(2 * pause_s, _PAUSE_S_MAX)
        await asyncio.sleep(pause_s)

    async def _listen_once(self, address: Address) -> None:
        timeout_s = self._options.connect_ms_max / 1000
        connection = connection_to(self._options.servers, address, protocol=3, timeout_s=timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await connection.connect()  # type: ignore[no-untyped-call]
                words: list[bytes] = [b"CLIENT", b"TRACKING", b"ON", b"BCAST", b"NOLOOP"]
                for prefix in self._prefixes:
                    words += [b"PREFIX", prefix]
                await connection.send_command(*words, check_health=False)
                await connection.read_response()
            heard = asyncio.Event()  # is set with each push
            on_push = partial(self._on_push, heard)
            # redis-py has no public way to receive invalidations without its own cache.
            connection._parser.set_invalidation_push_handler(on_push)  # type: ignore[attr-defined]  # noqa: SLF001
            self._live.add(address)
            self._on_missed()  # what was changed before this moment
            await _until_silent(connection, heard)
        finally:
            with suppress(OSError, RedisError):
                await connection.disconnect(nowait=True)

    async def _on_push(self, heard: asyncio.Event, push: Sequence[Any]) -> None:
        heard.set()
        keys = push[1]
        if keys is None:  # all keys were deleted
            self._on_missed()
        else:
            self._on_changed(keys)

    async def _poll(self, address: Address, why: str) -> None:
        """Run all reads again periodically, because the server does not report changes."""
        if not self.is_polling:
            facts = {"server": str(address), "why": why}
            log.warning("the server does not report changes: the gateway polls it", extra=facts)
        self.is_polling = True
        while True:
            self._on_missed()
            await asyncio.sleep(_LOOK_S)


async def _until_silent(connection: Connection, heard: asyncio.Event) -> None:
    """Read pushes until the connection fails.

    Raises RedisError or OSError when it ends, and TimeoutError if the server gives no sign of life.
    """
    is_asked = False
    while True:
        heard.clear()
        reply = await connection.read_response(push_request=True, timeout=_SILENCE_S_MAX)
        if heard.is_set() or reply is not None:
            is_asked = False
        elif is_asked:
            raise TimeoutError
        else:
            await connection.send_command(b"PING", check_health=False)
            is_asked = True
