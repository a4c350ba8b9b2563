"""Load: HTTP requests over keep-alive connections, as fast as they are answered."""

import asyncio
import time
from collections.abc import Callable


class Load:
    """The same request again and again over some connections; counts what is answered."""

    def __init__(
        self, host: str, port: int, request: bytes, *, connections: int, status: bytes = b"2"
    ) -> None:
        self._address = (host, port)
        self._status = status  # how that of each answer begins
        self._request = request
        self._connections = connections
        self.answered = 0
        self.taken_ms: list[float] = []
        """The time of each answer."""

    async def per_second(self, seconds: float) -> float:
        """Return requests answered per second."""
        self.answered = 0
        started = time.perf_counter()
        end = started + seconds
        await self._until(lambda: time.perf_counter() >= end)
        return self.answered / (time.perf_counter() - started)

    async def times(self, count: int) -> None:
        """Send the request so many times."""
        left = iter(range(count))
        await self._until(lambda: next(left, None) is None)

    async def _until(self, is_over: Callable[[], bool]) -> None:
        await asyncio.gather(*(self._connection(is_over) for _ in range(self._connections)))

    async def _connection(self, is_over: Callable[[], bool]) -> None:
        reader, writer = await asyncio.open_connection(*self._address)
        while not is_over():
            sent_s = time.perf_counter()
            writer.write(self._request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 " + self._status), head
            await read_body(reader, head.lower())
            self.taken_ms.append((time.perf_counter() - sent_s) * 1e3)
            self.answered += 1
        writer.close()


async def read_body(reader: asyncio.StreamReader, head: bytes) -> None:
    """Read the body of an answer, whose head is in small letters."""
    if b"transfer-encoding: chunked" in head:
        while size_bytes := int(await reader.readline(), 16):
            await reader.readexactly(size_bytes + 2)
        await reader.readline()
        return
    length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length or 0))


def post(
    path: str, body: bytes, media_type: str = "application/json", token: str | None = None
) -> bytes:
    """Return the bytes of a POST, with a credential if there is one."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\n"
    if token is not None:
        head += f"Authorization: Bearer {token}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def get(path: str) -> bytes:
    """Return the bytes of a GET."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
