"""Case: one request, or many at once, as large as they may be; and which part of the face it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.processes.gateway import Gateway
from tests.processes.raw_socket import RawSocket
from tests.stalls.client import JSON, Answer, Client
from tests.stalls.keyspace import Size


@dataclass
class Target:
    """A gateway with the keyspace."""

    gateway: Gateway
    client: Client
    size: Size
    held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)
    """Connections that a case leaves open, for the next part of it."""
    sockets: list[RawSocket] = field(default_factory=list)

    async def open_redis(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect as a Redis client does."""
        return await asyncio.open_connection(self.client.host, self.gateway.redis_port)

    async def ask(self, method: str, path: str, body: Any = b"", media_type: str = JSON) -> None:
        """Send a request that has to be a success."""
        answer = await self.client.ask(method, path, bytes_of(body), media_type)
        assert answer.status < 300, answer

    def let_go(self) -> None:
        """Close the connections that a case has left open."""
        for _, writer in self.held:
            writer.transport.abort()
        for socket in self.sockets:
            socket.close()
        self.held.clear()
        self.sockets.clear()


Act = Callable[[Target], Awaitable[Any]]
"""The act of a case; an `Answer` that it returns is told in the table."""


@dataclass(frozen=True)
class Case:
    """A case to measure, alone on a gateway."""

    name: str
    covers: tuple[str, ...]
    """Commands as `XADD` or `XGROUP CREATE`, operations as `route appendEntry`, frames as
    `frame ack`."""
    act: Act
    prepare: Act | None = None
    """Done before, and not measured."""
    is_destructive: bool = False
    """The next case cannot begin with its remains."""


def command(line: str, prepare: Act | None = None, *, is_destructive: bool = False) -> Case:
    """Return the case of a command without a long argument."""
    words = line.split()

    async def act(target: Target) -> Answer:
        return await target.client.command(*words)

    return Case(line, (command_name(words),), act, prepare, is_destructive)


def long_command(
    name: str,
    words_of: Callable[[Size], list[str]],
    prepare: Act | None = None,
    *,
    is_destructive: bool = False,
) -> Case:
    """Return the case of a command with many words."""

    async def act(target: Target) -> Answer:
        return await target.client.command(*words_of(target.size))

    covers = command_name(name.split())
    return Case(name, (covers,), act, prepare, is_destructive)


_WITH_SUBCOMMANDS = frozenset({"MEMORY", "OBJECT", "XGROUP", "XINFO"})


def command_name(words: list[str]) -> str:
    """Return the name of a command, with that of its subcommand."""
    name = words[0].upper()
    return f"{name} {words[1].upper()}" if name in _WITH_SUBCOMMANDS else name


def request(
    operation: str,
    line: str | Callable[[Size], str],
    body: Any = b"",
    *,
    name: str = "",
    media_type: str = JSON,
    headers: Mapping[str, str] | None = None,
    prepare: Act | None = None,
    is_destructive: bool = False,
) -> Case:
    """Return the case of a request.

    Args:
        operation: which operation it is.
        line: method and path, or what returns them.
        body: bytes, what is sent as JSON, or what returns one of them.
        name: what is special about it.
        media_type: of the body.
        headers: further ones.
        prepare: done before.
        is_destructive: see `Case`.
    """

    async def act(target: Target) -> Answer:
        method, _, path = (line if isinstance(line, str) else line(target.size)).partition(" ")
        content = body(target.size) if callable(body) else body
        return await target.client.ask(method, path, bytes_of(content), media_type, headers)

    shown = f"{operation}: {name}" if name else operation
    return Case(shown, (f"route {operation}",), act, prepare, is_destructive)


destructive = partial(request, is_destructive=True)


def bytes_of(content: Any) -> bytes:
    """Return a body."""
    return content if isinstance(content, bytes) else json.dumps(content).encode()
