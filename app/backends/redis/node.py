"""One server, and the connection over which it gets commands.

Commands given in one turn of the event loop are sent together, in order, and so are those that are
given while the server answers.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hiredis import pack_command
from redis.asyncio import Connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.exceptions import BusyLoadingError, RedisError, ResponseError

from headgate.app.backends.redis.address import Address, Servers
from headgate.app.backends.redis.durability import Durability
from headgate.app.backends.redis.faults import Lost, NotSent
from headgate.app.runtime import periodic

_LIBRARY = DriverInfo(name="headgate", lib_version=None)
"""Our name (CLIENT SETINFO). To learn its version, each connection would read a file."""

Word = bytes | str | int
Words = Sequence[Word]
"""A command."""

_SENT_MAX = 1000
"""Requests that are sent together. The others are sent next."""

_SENT_BYTES_MAX = 2**20
"""Bytes that are sent together, if they belong to several requests. To join more takes too long."""

_QUEUED_MAX = 100_000
"""Commands that may wait. Beyond that the server is far too slow, and commands fail at once."""


class _Asked(NamedTuple):
    packed: bytes
    command_count: int
    changes: bool
    replies: asyncio.Future[list[Any]]


class Node:
    def __init__(
        self, connect: Callable[[], Connection], durability: Durability, answer_s_max: float
    ) -> None:
        """Take a factory of unconnected connections; `run` sends the commands.

        `answer_s_max` is how long the server may take to answer what was sent together, in seconds.
        """
        self._connect = connect
        self._durability = durability
        self._answer_s_max = answer_s_max
        self._connection: Connection | None = None
        self._queue: deque[_Asked] = deque()
        self._queued = asyncio.Event()
        self._is_closed = False

    async def ask(self, words: Words, *, changes: bool) -> Any:
        """Send a command and return its reply, which is durable if the command `changes` the state.

        Raises:
            ResponseError: the reply is an error.
            NotSent: the server did not get the command.
            Lost: the server may have got it. Its reply, or its durability, is unknown.
        """
        [reply] = await self.ask_all([words], changes=changes)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def ask_all(self, commands: Sequence[Words], *, changes: bool) -> asyncio.Future[list[Any]]:
        """Send commands one after the other; the future has their replies, errors included."""
        replies: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            replies.set_exception(NotSent("the connection is closed"))
        elif len(self._queue) >= _QUEUED_MAX:
            replies.set_exception(NotSent("the server is too slow for its commands"))
        else:
            # redis-py packs words in Python, which takes five times as long.
            packed = b"".join(map(_packed, commands))
            self._queue.append(_Asked(packed, len(commands), changes, replies))
            self._queued.set()
        return replies

    async def run(self) -> None:
        try:
            await periodic.repeat("commands to a server", self._send_queued)
        finally:
            self._is_closed = True
            _fail(self._queue, NotSent("the connection is closed"))
            self._queue.clear()
            await self._disconnect()

    async def _send_queued(self) -> None:
        await self._queued.wait()
        while asked := self._take():
            try:
                await self._send(asked)
            except BaseException:
                _fail(asked, Lost("the connection is closed"))
                raise
        self._queued.clear()

    def _take(self) -> list[_Asked]:
        """Take the next batch from the queue; its first item is taken whatever its size."""
        asked: list[_Asked] = []
        size_bytes = 0
        while self._queue and len(asked) < _SENT_MAX:
            if self._queue[0].replies.cancelled():
                self._queue.popleft()
                continue
            size_bytes += len(self._queue[0].packed)
            if asked and size_bytes > _SENT_BYTES_MAX:
                break
            asked.append(self._queue.popleft())
        return asked

    async def _send(self, asked: Sequence[_Asked]) -> None:
        parts, count = [each.packed for each in asked], sum(each.command_count for each in asked)
        waits = self._durability.wait if any(each.changes for each in asked) else None
        if waits is not None:
            parts.append(_packed(waits))
            count += 1
        try:
            replies = await self._exchange(b"".join(parts), count)
        except (NotSent, Lost) as error:
            _fail(asked, error)
            return
        failure = None if waits is None else self._durability.failure(replies.pop())
        at = 0
        for each in asked:
            end = at + each.command_count
            if each.replies.done():
                pass  # nobody waits for it any more
            elif failure is not None and each.changes and not _are_errors(replies[at:end]):
                each.replies.set_exception(Lost(failure))
            else:
                each.replies.set_result(replies[at:end])
            at = end

    async def _exchange(self, packed: bytes, count: int) -> list[Any]:
        """Send commands together and return their replies; raises NotSent or Lost."""
        failure: type[NotSent | Lost] = NotSent
        try:
            async with asyncio.timeout(self._answer_s_max):
                connection = await self._connected()
                failure = Lost
                await connection.send_packed_command(packed, check_health=False)
                return [await _reply(connection) for _ in range(count)]
        except Exception as error:  # noqa: BLE001  for want of a thread or memory, too
            await self._disconnect()
            raise failure(str(error) or type(error).__name__) from None
        except BaseException:
            await self._disconnect()
            raise

    async def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._connect()
            await self._connection.connect()  # type: ignore[no-untyped-call]
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(OSError, RedisError):
                await connection.disconnect(nowait=True)


def _packed(words: Words) -> bytes:
    parts: tuple[Any, ...] = tuple(words)  # hiredis takes more types than words have
    packed: bytes = pack_command(parts)
    return packed


def _are_errors(replies: Sequence[Any]) -> bool:
    """Tell whether no command was carried out, so that nothing has to be durable."""
    return all(isinstance(reply, Exception) for reply in replies)


def _fail(asked: Iterable[_Asked], error: NotSent | Lost) -> None:
    for each in asked:
        if not each.replies.done():
            each.replies.set_exception(error)


async def _reply(connection: Connection) -> Any:
    try:
        return await connection.read_response(disconnect_on_error=False)
    except (ResponseError, BusyLoadingError) as error:
        return error.with_traceback(None)


def connection_to(
    servers: Servers, address: Address, *, protocol: int = 2, timeout_s: float
) -> Connection:
    """Return an unconnected connection; `timeout_s` bounds connecting."""
    options: dict[str, Any] = {
        "host": address.host,
        "port": address.port,
        "db": servers.database,
        "username": servers.login.username,
        "password": servers.login.password,
        "protocol": protocol,
        "socket_connect_timeout": timeout_s,
        "socket_timeout": None,
        "socket_keepalive": True,
        "retry": Retry(NoBackoff(), 0),
        "driver_info": _LIBRARY,
    }
    return Connection(**options) if servers.context is None else _Tls(servers.context, **options)


class _Tls(Connection):
    """A TLS connection with a shared context: redis-py reads all files for each connection."""

    def __init__(self, context: ssl.SSLContext, **options: Any) -> None:
        super().__init__(**options)
        self._context = context

    def _connection_arguments(self) -> dict[str, Any]:
        return {**super()._connection_arguments(), "ssl": self._context}
