"""Channel: one end of the socket between a process and its supervisor."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self, cast

import msgspec

from headgate.app.workers.frames import FRAME_BYTES_MAX, LENGTH, Frame, Orders, decode, encode

log = logging.getLogger("headgate")

UNSENT_BYTES_MAX: Final = 32 * 2**20
"""A peer that takes nothing while so much waits for it is given up."""


TURN_S_MAX: Final = 5.0
"""Longest wait for the other end to take what came before."""


class Channel(asyncio.Protocol):
    """Sends and receives frames, in order. It closes with the process at the other end."""

    def __init__(self, take: Callable[[Frame], None], on_end: Callable[[], None]) -> None:
        """Get ready.

        Args:
            take: called with each frame that arrives.
            on_end: called once when the channel is closed, by whomever.
        """
        self._take = take
        self._on_end = on_end
        self._received = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        self._room = asyncio.Event()
        self._room.set()

    @classmethod
    async def open(
        cls, end: socket.socket, take: Callable[[Frame], None], on_end: Callable[[], None]
    ) -> Self:
        """Return a channel over one end of a pair of sockets."""
        loop = asyncio.get_running_loop()
        end.setblocking(False)
        _, channel = await loop.create_unix_connection(lambda: cls(take, on_end), sock=end)
        return channel

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Take the frames that are here as a whole."""
        received = self._received
        received += data
        begin = 0
        try:
            while len(received) >= begin + LENGTH.size:
                (size_bytes,) = LENGTH.unpack_from(received, begin)
                if size_bytes > FRAME_BYTES_MAX:
                    raise msgspec.DecodeError("the frame is too large")
                end = begin + LENGTH.size + size_bytes
                if len(received) < end:
                    break
                frame = decode(bytes(received[begin + LENGTH.size : end]))
                begin = end
                self._handle(frame)
        except msgspec.MsgspecError as error:
            log.critical("bad frame on the control channel", extra={"reason": str(error)})
            self.close()
        del received[:begin]

    def _handle(self, frame: Frame) -> None:
        """Take a frame. Where that fails, the channel stays: with it the process would end."""
        try:
            self._take(frame)
        except Exception:
            log.exception("frame of the control channel not handled")

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the other end is closed."""
        del error
        self._transport = None
        self._room.set()
        self._on_end()

    def pause_writing(self) -> None:
        """Let senders wait."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Let senders go on."""
        self._room.set()

    def send(self, frame: Frame) -> None:
        """Send a frame; nothing happens if the channel is closed."""
        if self._transport is None:
            return
        self._transport.write(encode(frame))
        if self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            log.critical("the other end of a control channel takes nothing")
            self._transport.abort()

    async def send_in_turn(self, frame: Frame) -> None:
        """Send a frame once the other end has taken what came before, or does not within a while.

        The other process may be stopped. What waits for it then has the bound of `send`.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(TURN_S_MAX):
                await self._room.wait()
        self.send(frame)

    def close(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.abort()


def read_orders(end: socket.socket) -> Orders:
    """Return the first frame of a channel; waits for it, before there is an event loop.

    Raises:
        EOFError: the supervisor has ended.
        msgspec.MsgspecError: it is another version, which writes other orders.
    """
    (size_bytes,) = LENGTH.unpack(_read(end, LENGTH.size))
    return _decode_orders(_read(end, size_bytes))


_decode_orders = msgspec.msgpack.Decoder(Orders).decode


def _read(end: socket.socket, size_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < size_bytes:
        part = end.recv(size_bytes - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
