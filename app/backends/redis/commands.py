"""Commands: Redis commands over the servers.

Words become requests, as over the engine: so the rights are decided in one way, replies have
bounds, and streams keep what belongs to them beside their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace as replace_struct
from redis.exceptions import ResponseError

from headgate.app.backends.port import Durable, Reply
from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.app.backends.redis.groups.table import PERFORMERS as GROUP_PERFORMERS
from headgate.app.backends.redis.performing.table import PERFORMERS
from headgate.app.backends.redis.transaction import perform_together
from headgate.app.redis_syntax.administration.store import Store
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.redis_syntax.server import ServerCommands
from headgate.app.redis_syntax.words import AnyPlan, Bounds, CommandError
from headgate.engine.errors import NotSupported, StreamError
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import ReadGroup
from headgate.engine.requests.entries import Read

T = TypeVar("T")


_WITH_SERVERS = {b"servers", b"default", b"all", b"everything"}

_AT_ONCE_MS = 1
"""Time of a server's wait before it replies: others use the connection, too."""

_AT_ONCE = {**PERFORMERS, **GROUP_PERFORMERS}
"""Performers of requests that do not wait."""


class Performs(Protocol):
    """Carries out requests one by one."""

    client: Client
    durable: Durable

    async def perform(self, request: Request[T]) -> T:
        """Carry out a request. See `Backend.perform`."""
        ...

    async def perform_in_order(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests one after the other. See `Backend.perform_in_order`."""
        ...

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked in this gateway."""
        ...

    @property
    def waited_for(self) -> tuple[int, int]:
        """Return the numbers of streams with blocked reads and with blocked group reads."""
        ...


def commands_of(backend: Performs, bounds: Bounds) -> CommandRunner:
    """Return a runner of Redis commands on the servers of a backend."""
    performer = _Performer(backend)
    servers = _Servers(performer, backend.client, backend.durable)
    return CommandRunner(performer, bounds, servers, opens_ranges=False)


class _Performer:
    """Carries out requests, one by one or several as a transaction."""

    unsaved_count = 0  # the servers save what they have

    def __init__(self, backend: Performs) -> None:
        self._backend = backend
        self.perform = backend.perform

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked in this gateway."""
        return self._backend.waiter_count

    @property
    def waited_for(self) -> tuple[int, int]:
        """Return the numbers of streams with blocked reads and with blocked group reads."""
        return self._backend.waited_for

    async def perform_in_order(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests one after the other. See `Backend.perform_in_order`."""
        return await self._backend.perform_in_order(requests)

    async def perform_all(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests with nothing in between, and return their replies or errors."""
        at_once = [
            replace_struct(request, wait_ms=0) if isinstance(request, Read | ReadGroup) else request
            for request in requests
        ]
        return await perform_together(self._backend.client, _perform, at_once)


async def _perform(client: Client, request: Request[Any]) -> Any:
    perform = _AT_ONCE.get(type(request))
    if perform is None:
        raise NotSupported(type(request).__name__)
    return await perform(client, request)


class _ServerSafety:
    """The durability of writes as the primaries report it: the least of all."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def replica_count(self) -> int:
        """Return how many replicas have everything that this gateway has written (WAIT)."""
        with as_stream_errors(b""):
            counts = await self._client.execute_everywhere(b"WAIT", 0, _AT_ONCE_MS, changes=True)
        return min(map(int, counts))

    async def synced_counts(self, wanted: int) -> tuple[int, int]:
        """Return the numbers of primaries and replicas with all writes on disk (WAITAOF).

        Raises:
            CommandError: the servers say no, or are older than 7.2.
        """
        words = (b"WAITAOF", wanted, 0, _AT_ONCE_MS)
        with as_stream_errors(b""):
            try:
                counts = await self._client.execute_everywhere(*words, changes=True)
            except ResponseError as error:
                raise CommandError(f"ERR {error}") from None
        return min(int(count[0]) for count in counts), min(int(count[1]) for count in counts)


class _Servers(ServerCommands):
    """Answers commands about the gateway and its servers."""

    def __init__(self, performer: _Performer, client: Client, durable: Durable) -> None:
        asked = _ServerSafety(client) if durable is Durable.NOTHING else None
        super().__init__(performer, Store(durable, servers=asked))
        self._client = client

    def info(self, words: Sequence[bytes]) -> AnyPlan:
        """INFO [section ...]: as over the engine, and a section about the servers.

        The first part tells clients which commands they may use. Words become requests, so that
        does not depend on the servers.
        """
        plan = super().info(words)
        asked = {word.lower() for word in words[1:]}
        if asked and not asked & _WITH_SERVERS:
            return plan
        finish_sections = plan.finish
        assert finish_sections is not None

        async def finish(reply: Reply) -> Reply:
            return await self._with_servers(await finish_sections(reply))

        return replace(plan, finish=finish)

    async def _with_servers(self, reply: Reply) -> Reply:
        assert isinstance(reply, bytes)
        with as_stream_errors(b""):
            texts = await self._client.execute_everywhere(b"INFO", changes=False)
        lines = ["# Servers", *(f"server{at}:{_server(text)}" for at, text in enumerate(texts)), ""]
        return reply + (b"\r\n" if reply else b"") + "\r\n".join(lines).encode()


def _server(text: bytes) -> str:
    """Return the facts of a server on one line, of its reply to INFO."""
    lines = (line.partition(b":") for line in text.splitlines())
    values = {name: value.decode(errors="replace") for name, _, value in lines}
    product = "valkey" if b"valkey_version" in values else "redis"
    shown = {
        "product": product,
        "version": values.get(f"{product}_version".encode(), ""),
        "used_memory": values.get(b"used_memory", ""),
        "connected_replicas": values.get(b"connected_slaves", ""),
    }
    return ",".join(f"{name}={value}" for name, value in shown.items())
