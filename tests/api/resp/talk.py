"""A client that says bytes, and hears bytes."""

import asyncio
from contextlib import suppress
from typing import Self

from tests.conditions import WITHIN_S


class Talk:
    """A connection to the port for Redis clients."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int | None) -> Self:
        """Connect to a gateway of this machine."""
        assert port is not None
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def say(self, data: bytes, reply: bytes) -> None:
        """Send bytes, and check what comes back."""
        self.send(data)
        await self.hear(reply)

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def end(self) -> None:
        """Send no more."""
        self._writer.write_eof()

    async def hear(self, reply: bytes) -> None:
        """Check the next reply."""
        async with asyncio.timeout(WITHIN_S):
            try:
                heard = await self._reader.readexactly(len(reply))
            except asyncio.IncompleteReadError as error:
                heard = error.partial
        assert heard == reply

    async def line(self) -> bytes:
        """Return the next line."""
        async with asyncio.timeout(WITHIN_S):
            line = await self._reader.readline()
        assert line, "the connection has ended"
        return line.removesuffix(b"\r\n")

    async def bulk(self) -> bytes:
        """Return the next bulk string."""
        size_bytes = int((await self.line()).removeprefix(b"$"))
        async with asyncio.timeout(WITHIN_S):
            return (await self._reader.readexactly(size_bytes + 2))[:-2]

    async def take(self, size_bytes: int) -> int:
        """Take at most so many bytes; returns how many there were."""
        async with asyncio.timeout(WITHIN_S):
            data = await self._reader.read(size_bytes)
        assert data, "the connection has ended"
        return len(data)

    async def hear_end(self) -> None:
        """Check that nothing more comes, and that the connection ends."""
        async with asyncio.timeout(WITHIN_S):
            assert await self._reader.read() == b""
        await self.close()

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


def command(*words: str | bytes) -> bytes:
    """Return a command as client libraries write it."""
    encoded = [word.encode() if isinstance(word, str) else word for word in words]
    parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded]
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))
