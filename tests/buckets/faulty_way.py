"""Faulty way: a proxy before an object store that fails as a seed or a test says.

It is told from the thread of the test, and works in one of its own, so a test may block.
What becomes of a request follows from the seed, its method, its path and how often it came: so
the threads of a test may come in any order.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import StrEnum
from threading import Thread
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import parse_qs, urlsplit

from deploy.local_cluster.server import free_ports

T = TypeVar("T")


class Fault(StrEnum):
    """A fault of the way, which happens to a request."""

    DELAY = "delay"  # it takes longer
    DROPPED_BEFORE = "dropped before"  # the connection ends before the store has the request
    DROPPED_AFTER = "dropped after"  # it ends when the store has done what was asked
    LATER = "later"  # it ends at once, and the store gets the request afterwards
    TWICE = "twice"  # the store gets the request twice; the first answer is sent
    SECOND_ANSWER = "second answer"  # the same, and the second answer is sent
    CUT = "cut"  # the answer ends in its middle
    ERROR = "error"  # 500, and the store never sees the request
    ERROR_AFTER = "error after"  # 500, and the store has done what was asked
    SLOW_DOWN = "slow down"  # 503
    STRANGER = "stranger"  # 404 of something that is no store
    CONFLICT = "conflict"  # 409, as S3 answers while another put of the name goes on
    SILENCE = "silence"  # no answer at all, and the connection stays


RANDOM = tuple(fault for fault in Fault if fault is not Fault.SILENCE)
"""Those that a seed chooses from: they take no time."""

_ANSWERS = {
    Fault.ERROR: ("500 Internal Server Error", "InternalError"),
    Fault.ERROR_AFTER: ("500 Internal Server Error", "InternalError"),
    Fault.SLOW_DOWN: ("503 Service Unavailable", "SlowDown"),
    Fault.STRANGER: ("404 Not Found", ""),
    Fault.CONFLICT: ("409 Conflict", "ConditionalRequestConflict"),
}
_DELAY_S = 0.02


class _Request(NamedTuple):
    method: str
    target: str
    head: bytes  # with the empty line
    body: bytes

    @property
    def kind(self) -> str:
        """Its kind, as stores charge for it."""
        query = parse_qs(urlsplit(self.target).query, keep_blank_values=True)
        match self.method:
            case "GET" if "list-type" in query:
                return "list"
            case "GET" | "HEAD":
                return "get"
            case "DELETE":
                return "remove"
            case _:
                return "remove" if "delete" in query else "put"


class FaultyWay:
    """A proxy in a thread of its own. Whoever uses it closes it, or uses it as a context."""

    def __init__(self, endpoint: str) -> None:
        """Open the way.

        Args:
            endpoint: the URL of the store.
        """
        there = urlsplit(endpoint)
        self._there = (there.hostname or "", there.port or 80)
        [self._port] = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self.counts: Counter[str] = Counter()
        """The requests that the store has got: put, get, list, remove."""
        self.keeps_conditions = True
        """Whether the store learns that a put is of a new name only (`If-None-Match`)."""
        self._next: deque[Fault | None] = deque()
        self._seed: object = None
        self._share = 0.0
        self._faults: Sequence[Fault] = RANDOM
        self._came: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._absent: socket.socket | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="faulty way", daemon=True)
        self._thread.start()
        self._call(self._listen)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def seed(self, seed: object, share: float = 0.3, faults: Sequence[Fault] = RANDOM) -> None:
        """Let a share of the requests fail from here on, each as the seed says."""
        self._came.clear()
        self._seed, self._share, self._faults = seed, share, faults

    def fail_next(self, *faults: Fault | None) -> None:
        """Let the next requests fail so, one after the other; None: this one does not."""
        self._next.extend(faults)

    def mend(self) -> None:
        """Let nothing fail from here on."""
        self._next.clear()
        self._share = 0.0

    def leave(self) -> None:
        """Refuse connections, and end those there are, until `come_back`."""
        self._call(self._leave)

    def come_back(self) -> None:
        """Take connections again."""
        self._call(self._listen)

    def close(self) -> None:
        """End the way, and return when nothing of it runs."""
        self._call(self._leave)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._absent is not None:
            self._absent.close()

    def _call(self, act: Callable[[], Awaitable[T]]) -> T:
        async def called() -> T:
            return await act()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()

    async def _listen(self) -> None:
        if self._absent is not None:
            self._absent.close()
            self._absent = None
        self._server = await asyncio.start_server(self._on_connection, "127.0.0.1", self._port)

    async def _leave(self) -> None:
        if self._server is None:
            return
        # A server that is closed while it accepts a connection forgets it, and leaves it open.
        for listening in self._server.sockets:
            self._loop.remove_reader(listening)
        this = asyncio.current_task()
        while others := asyncio.all_tasks() - {this}:  # some accept, so more may come
            for task in self._open:
                task.cancel()
            await asyncio.wait(others)
        self._server.close()
        await self._server.wait_closed()
        self._server = None
        # Nobody else may listen there meanwhile.
        self._absent = socket.socket()
        self._absent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._absent.bind(("127.0.0.1", self._port))

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = self._begin(self._serve(reader, writer))
        serving.add_done_callback(lambda _: writer.close())  # it may end before it has begun

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._open.add(task)
        task.add_done_callback(self._note_end)
        return task

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, OSError | EOFError):
            raise error

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry out the one request of a connection."""
        request = await self._request(reader)
        await self._answer(request, self._fault_of(request), writer)

    async def _request(self, reader: asyncio.StreamReader) -> _Request:
        head = await reader.readuntil(b"\r\n\r\n")
        fields = _fields(head)
        body = await reader.readexactly(int(fields.get(b"content-length", b"0")))
        fields[b"connection"] = b"close"
        if not self.keeps_conditions:
            fields.pop(b"if-none-match", None)
        first = head.partition(b"\r\n")[0]
        lines = [first, *(b"%b: %b" % field for field in fields.items()), b"", b""]
        method, target, _ = first.decode().split(" ")
        return _Request(method, target, b"\r\n".join(lines), body)

    def _fault_of(self, request: _Request) -> Fault | None:
        if self._next:
            return self._next.popleft()
        came = f"{request.method} {request.target}"
        self._came[came] += 1
        chance = random.Random(f"{self._seed} {came} {self._came[came]}")
        if chance.random() >= self._share:
            return None
        fault = chance.choice(self._faults)
        return None if fault is Fault.CONFLICT and request.kind != "put" else fault

    async def _answer(
        self, request: _Request, fault: Fault | None, writer: asyncio.StreamWriter
    ) -> None:
        answer = b""
        match fault:
            case Fault.SILENCE:
                await asyncio.Event().wait()
            case Fault.DROPPED_BEFORE:
                pass
            case Fault.LATER:
                self._begin(self._carry_later(request))
            case Fault.ERROR | Fault.SLOW_DOWN | Fault.STRANGER | Fault.CONFLICT:
                answer = _refusal(fault)
            case Fault.DROPPED_AFTER:
                await self._carry(request)
            case Fault.ERROR_AFTER:
                await self._carry(request)
                answer = _refusal(fault)
            case Fault.SECOND_ANSWER:
                await self._carry(request)
                answer = await self._carry(request)
            case Fault.TWICE:
                answer = await self._carry(request)
                await self._carry(request)
            case Fault.CUT:
                answer = await self._carry(request)
                answer = answer[: len(answer) - max(len(answer) // 8, 1)]
            case _:
                await asyncio.sleep(_DELAY_S if fault is Fault.DELAY else 0)
                answer = await self._carry(request)
        writer.write(answer)
        await writer.drain()

    async def _carry_later(self, request: _Request) -> None:
        await asyncio.sleep(_DELAY_S)
        await self._carry(request)

    async def _carry(self, request: _Request) -> bytes:
        """Return the answer of the store, as it is on the wire."""
        self.counts[request.kind] += 1
        reader, writer = await asyncio.open_connection(*self._there)
        try:
            writer.write(request.head + request.body)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            length = _fields(head).get(b"content-length")
            # A store that closes the connection to end an answer may take its time.
            body = b""
            if request.method != "HEAD":
                body = await (reader.readexactly(int(length)) if length else reader.read(-1))
        finally:
            writer.close()
        if _fields(head).get(b"connection", b"").lower() != b"close":
            head = head[:-2] + b"connection: close\r\n\r\n"
        return head + body


def _fields(head: bytes) -> dict[bytes, bytes]:
    """Return the fields of a head, by name in lower case."""
    lines = head.split(b"\r\n")[1:-2]
    parts = (line.partition(b":") for line in lines)
    return {name.lower(): value.strip() for name, _, value in parts}


def _refusal(fault: Fault) -> bytes:
    status, code = _ANSWERS[fault]
    body = f"<Error><Code>{code}</Code></Error>" if code else "no such page"
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return (head + body).encode()
