"""Raw socket: a WebSocket client that sends whatever frames it likes, and reads only if told to."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import zlib
from typing import Any, NamedTuple

from tests.processes.credentials import CREDENTIALS
from tests.processes.wire import AT_ONCE

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10

HANDSHAKE = (
    "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{more}\r\n"
)


def frame(opcode: int, data: bytes = b"", *, is_last: bool = True, is_small: bool = False) -> bytes:
    """Return a client's frame; the mask is zero, so that its data is seen as it is.

    Args:
        opcode: its kind.
        data: what is in it.
        is_last: it ends its message.
        is_small: the message is compressed, and this is its first frame.
    """
    first = opcode | (0x80 if is_last else 0) | (0x40 if is_small else 0)
    size = len(data)
    if size < 126:
        head = struct.pack("!BB", first, 0x80 | size)
    elif size < 2**16:
        head = struct.pack("!BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", first, 0x80 | 127, size)
    return head + bytes(4) + data


def deflated(data: bytes) -> bytes:
    """Return data as permessage-deflate sends it (RFC 7692)."""
    squeeze = zlib.compressobj(9, wbits=-12)
    return (squeeze.compress(data) + squeeze.flush(zlib.Z_SYNC_FLUSH)).removesuffix(
        b"\x00\x00\xff\xff"
    )


class Frame(NamedTuple):
    """A frame of the gateway."""

    opcode: int
    data: bytes


class RawSocket:
    """One connection."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._unread = b""

    @classmethod
    async def open(
        cls, end: socket.socket, path: str = "/v1/ws", *, is_small: bool = False
    ) -> RawSocket:
        """Shake hands.

        Args:
            end: connected to the gateway.
            path: of the socket.
            is_small: agree on compression.
        """
        raw = cls(end)
        more = "Sec-WebSocket-Extensions: permessage-deflate\r\n" if is_small else ""
        more += CREDENTIALS.header_lines
        await raw.send(HANDSHAKE.format(path=path, more=more).encode())
        head = await raw._until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        return raw

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._end, data)

    async def say(self, **members: Any) -> None:
        """Send a frame of text as it should be."""
        await self.send(frame(TEXT, json.dumps(members).encode()))

    async def next(self, kind: str) -> dict[str, Any]:
        """Return the next message of this type."""
        while True:
            got = await self.frame()
            assert got.opcode in (TEXT, PING, PONG), got
            if got.opcode == TEXT and (message := json.loads(got.data))["type"] == kind:
                decoded: dict[str, Any] = message
                return decoded

    async def close_code(self) -> int:
        """Return the code the gateway closes with."""
        while True:
            got = await self.frame()
            if got.opcode == CLOSE:
                return int.from_bytes(got.data[:2], "big")

    async def frame(self) -> Frame:
        """Return the next frame; raises `EOFError` or `ConnectionError` when there is none."""
        first, size = await self._exactly(2)
        if size == 126:
            [size] = struct.unpack("!H", await self._exactly(2))
        elif size == 127:
            [size] = struct.unpack("!Q", await self._exactly(8))
        return Frame(first & 0x0F, await self._exactly(size))

    def close(self) -> None:
        self._end.close()

    def reset(self) -> None:
        """End as a process that is killed."""
        self._end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self._end.close()

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self._unread:
            await self._read()
        head, _, self._unread = self._unread.partition(mark)
        return head

    async def _exactly(self, size: int) -> bytes:
        while len(self._unread) < size:
            await self._read()
        data, self._unread = self._unread[:size], self._unread[size:]
        return data

    async def _read(self) -> None:
        data = await asyncio.get_running_loop().sock_recv(self._end, 2**16)
        if not data:
            raise EOFError
        self._unread += data
