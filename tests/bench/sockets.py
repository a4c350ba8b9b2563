"""WebSockets as lean as can be: the side that makes the load must not be what is measured."""

import re
import select
import socket
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

_RECEIVE_BYTES = 2**18

Take = Callable[[bytes], None]
"""Given the data of a socket: frame headers and payloads as they came."""


SEQ = re.compile(rb'"seq":"(\d{9})"')
"""The number of a message, in an entry or in what a channel carries."""

_CUT_BYTES = 16
"""A number of which one byte has not come yet."""


def timer_of(sent_at: Sequence[float], times_ms: list[float]) -> Take:
    """Return what notes for each message of a socket how long it took.

    Args:
        sent_at: when each number was sent, as `perf_counter` tells it.
        times_ms: gets the times.
    """
    tail = b""

    def take(data: bytes) -> None:
        nonlocal tail
        now = time.perf_counter()
        data = tail + data
        end = 0
        for match in SEQ.finditer(data):
            times_ms.append((now - sent_at[int(match[1])]) * 1000)
            end = match.end()
        tail = data[max(end, len(data) - _CUT_BYTES) :]

    return take


class LeanSocket:
    """A WebSocket that sends text and leaves it to others to make sense of what comes."""

    def __init__(self, port: int, path: str) -> None:
        """Connect and shake hands."""
        self._connect(port)
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
        head += "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        self._socket.sendall(f"{head}Sec-WebSocket-Key: {'A' * 22}==\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._receive()
        head_bytes, _, self._early = answer.partition(b"\r\n\r\n")
        assert head_bytes.startswith(b"HTTP/1.1 101"), head_bytes

    @classmethod
    def plain(cls, port: int, request: bytes) -> Self:
        """Connect and send a request, whose answer is read as it comes."""
        connection = cls.__new__(cls)
        connection._connect(port)
        connection._early = b""
        connection._socket.sendall(request)
        return connection

    def _connect(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, text: bytes) -> None:
        """Send one frame."""
        self._socket.sendall(frame(text))

    def receive(self) -> bytes:
        """Return the data that has come; wait if there is none."""
        if self._early:
            early, self._early = self._early, b""
            return early
        return self._receive()

    def read_until(self, marker: bytes) -> bytes:
        """Return everything up to the part that has `marker` in it."""
        seen = b""
        while marker not in seen:
            seen += self.receive()
        return seen

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> bytes:
        data = self._socket.recv(_RECEIVE_BYTES)
        if not data:
            raise EOFError
        return data


class Watch:
    """Many sockets watched at once."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._watched: dict[int, tuple[LeanSocket, Take]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._poll.close()
        for connection, _ in self._watched.values():
            connection.close()

    def add(self, connection: LeanSocket, take: Take) -> None:
        """Hand the data of this socket to `take` from now on."""
        self._watched[connection.fileno()] = connection, take
        self._poll.register(connection.fileno(), select.EPOLLIN)

    def take_ready(self, wait_s: float) -> None:
        """Take one part from each socket that has something; wait if none has."""
        for number, _ in self._poll.poll(wait_s):
            connection, take = self._watched[number]
            take(connection.receive())


def frame(text: bytes) -> bytes:
    """Return the bytes of a text frame; its mask is zero, which masks nothing."""
    if len(text) < 126:
        head = bytes([0x81, 0x80 | len(text)])
    elif len(text) < 2**16:
        head = bytes([0x81, 0x80 | 126]) + len(text).to_bytes(2, "big")
    else:
        head = bytes([0x81, 0x80 | 127]) + len(text).to_bytes(8, "big")
    return head + bytes(4) + text
