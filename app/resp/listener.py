"""Listener: accepts Redis clients at a port of its own, in the event loop of the gateway."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from headgate.app.gateway.gateway import Gateway
from headgate.app.redis_syntax.administration.information import ConnectionFacts
from headgate.app.resp.clients import Clients
from headgate.app.resp.connection import RespConnection
from headgate.app.transport.handshake import Handshake, TlsChoices
from headgate.app.transport.listening import Listener


class RespListener:
    def __init__(self, gateway: Gateway, tls: TlsChoices | None) -> None:
        self.clients = Clients(gateway.siblings)
        self._gateway = gateway
        self._tls = tls
        self.listeners: list[Listener] = []
        self._handshakes: set[Any] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def connection_count(self) -> int:
        """Return the number of connections, including those in the TLS handshake."""
        return len(self.clients) + len(self._handshakes)

    @property
    def port(self) -> int | None:
        for listener in self.listeners:
            for each in listener.sockets:
                port: int = each.getsockname()[1]
                return port
        return None

    def facts(self) -> ConnectionFacts:
        clients = self.clients
        return ConnectionFacts(
            self.port or 0,
            self.connection_count,
            clients.accepted_count,
            clients.rejected_count,
            clients.input_bytes,
            clients.output_bytes,
        )

    async def open(self, sockets: Sequence[socket.socket]) -> None:
        for each in sockets:
            listener = Listener(each, self._connection)
            self.listeners.append(listener)
            await listener.open()

    def stop_listening(self) -> None:
        for listener in self.listeners:
            listener.close()

    async def close(self, within_s: float) -> None:
        """Close connections once their replies are sent, or after `within_s`."""
        self.stop_listening()
        for handshake in list(self._handshakes):
            handshake.shutdown()
        self.clients.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self.clients.until_none()
        for client in self.clients:
            client.cut_off()

    def _connection(self) -> asyncio.Protocol:
        if self._tls is None:
            return self._plain()
        return Handshake(
            self._plain, self._tls, self._gateway.sockets, self._handshakes, self._tasks
        )

    def _plain(self) -> RespConnection:
        return RespConnection(self._gateway, self.clients)
