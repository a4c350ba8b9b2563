"""A host that answers requests with bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_network

from headgate.app.automation.targets import Targets
from headgate.app.automation.webhooks import TargetConnections

LOCAL = Targets([ip_network("127.0.0.0/8"), ip_network("::1/128")])
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Host:
    """A host that answers each request with bytes, and counts connections."""

    def __init__(
        self, *answers: bytes, size: int = 0, ends: bool = False, reads: bool = True
    ) -> None:
        self.answers, self.size, self.ends, self.reads = list(answers), size, ends, reads
        self.connections = 0
        self.received = list[bytes]()
        self.serving = list[asyncio.Task[None]]()
        self.url = ""

    @asynccontextmanager
    async def open(self, address: str = "127.0.0.1") -> AsyncIterator[TargetConnections]:
        connections = TargetConnections(LOCAL, None)
        async with await asyncio.start_server(self._begin, address, 0) as server:
            host = f"[{address}]" if ":" in address else address
            self.url = f"http://{host}:{server.sockets[0].getsockname()[1]}/x?a=1#part"
            yield connections
            await connections.close()
            while self.serving:
                await self.serving.pop()

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(OSError, asyncio.IncompleteReadError):
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                self.received.append(head + await reader.readexactly(length * self.reads))
                answer = self.answers.pop(0)
                for begin in range(0, len(answer), self.size or len(answer) or 1):
                    writer.write(answer[begin : begin + (self.size or len(answer))])
                    await writer.drain()
                    await asyncio.sleep(0)
                if self.ends:
                    break
            else:
                await reader.read()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
