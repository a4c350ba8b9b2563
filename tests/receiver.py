"""A receiver of webhooks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from tests.conditions import WITHIN_S
from tests.listeners import accepted


class Notice(NamedTuple):
    """A webhook that has come."""

    head: str
    body: bytes

    @property
    def json(self) -> Any:
        """Return its body, which is JSON."""
        return json.loads(self.body)

    def header(self, name: str) -> str:
        lines = (line.partition(":") for line in self.head.split("\r\n"))
        return next(value.strip() for key, _, value in lines if key.lower() == name)


class Receiver:
    """Receives webhooks, and answers what a test wants."""

    def __init__(self, *answers: tuple[str, bytes]) -> None:
        self.url = ""
        self.notices: asyncio.Queue[Notice] = asyncio.Queue()
        self.answers = list(answers)  # the last one again and again
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.respond: Callable[[Notice], tuple[str, bytes]] = self._next_answer
        self._server: asyncio.Server | None = None
        self._answering = set[asyncio.Task[object] | None]()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/hook"

    async def close(self) -> None:
        assert self._server is not None
        await accepted()
        self._server.close()
        answering = list(filter(None, self._answering))
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._answering.add(task)
        try:
            with suppress(OSError, EOFError):  # who asks may leave at any time
                await self._answered(reader, writer)
        finally:
            self._answering.discard(task)
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        notice = Notice(head, b"")
        body = await reader.readexactly(int(notice.header("content-length")))
        self.notices.put_nowait(Notice(head, body))
        await self.may_answer.wait()
        status, content = self.respond(Notice(head, body))
        length = f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        writer.write(f"HTTP/1.1 {status}\r\n{length}".encode() + content)
        await writer.drain()

    def _next_answer(self, _: Notice) -> tuple[str, bytes]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def next(self) -> Notice:
        async with asyncio.timeout(WITHIN_S):
            return await self.notices.get()
