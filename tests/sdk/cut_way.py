"""A way to a gateway that can be cut, and led elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Proxy:
    """Carries bytes to a gateway, until connections are cut."""

    def __init__(self) -> None:
        self.target: tuple[str, int] | None = None
        self.port = 0
        self.carried_max: int | None = None
        """Of one connection, in bytes of a direction: the others wait until there is no bound."""
        self._is_unbound = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Proxy]:
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await server.wait_closed()

    def carry_all(self) -> None:
        """Carry the held bytes, too."""
        self._is_unbound.set()

    def cut(self) -> None:
        """End all connections without a word; those to come are not bounded."""
        for writer in self._writers:
            writer.transport.abort()
        self.carry_all()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.target is None:
            writer.transport.abort()
            return
        upstream_reader, upstream_writer = await asyncio.open_connection(*self.target)
        self._writers |= {writer, upstream_writer}
        try:
            await asyncio.gather(
                self._copy(reader, upstream_writer), self._copy(upstream_reader, writer)
            )
        finally:
            self._writers -= {writer, upstream_writer}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carried = 0
        try:
            while data := await reader.read(65_536):
                carried += len(data)
                if self.carried_max is not None and carried > self.carried_max:
                    await self._is_unbound.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
