"""The control channel: a socket between a process and its supervisor, and its frames."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self, cast

import msgspec

# Frames: what a process and its supervisor send each other over the control channel.
#
# A frame is its length, in four bytes, and msgpack. Both ends are processes of one start of the
# same program. A newer version that a reload starts may have other frames: `Orders` names the
# version.

FRAME_BYTES_MAX: Final = 64 * 2**20
"""A frame that says to be larger is none of ours."""

LENGTH: Final = struct.Struct(">I")


class Orders(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What a process has to do: the first frame that it is sent. It may hold secrets."""

    settings: bytes  # as JSON
    number: int  # of the process, among all that the supervisor has ever started
    worker_count: int
    sockets: list[int]  # descriptors: where to listen
    redis_sockets: list[int]  # likewise, for Redis clients
    engine_path: str | None  # where the engine listens; None: there is no engine process
    ticket_secret: bytes
    is_first: bool  # no engine of this gateway has served, so no worker holds anything
    staged_dir: str | None  # where chunks are staged; None: as the settings say
    stack: int  # descriptor: where the process writes its stack when it is asked for it


class ReadyFrame(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class FailedFrame(msgspec.Struct, frozen=True, array_like=True, tag=True):
    reason: str


class Beat(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A heartbeat of the process's event loop."""


class Stop(msgspec.Struct, frozen=True, array_like=True, tag=True):
    is_replaced: bool  # others serve what comes: nobody is refused, and there is time


class Announcement(msgspec.Struct, frozen=True, array_like=True, tag=True):
    topic: str
    body: bytes
    sender: int = 0  # the hub knows, and fills it in


class Question(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A question of a process to all its siblings, or of the hub to a process."""

    number: int
    topic: str
    body: bytes
    within_s: float = 0.0


class AnswerFrame(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    body: bytes


class AnswersFrame(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    bodies: list[bytes]


class Arrival(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class Departure(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int


Frame = (
    Orders
    | ReadyFrame
    | FailedFrame
    | Beat
    | Stop
    | Announcement
    | Question
    | AnswerFrame
    | AnswersFrame
    | Arrival
    | Departure
)


def encode(frame: Frame) -> bytes:
    data = _encode(frame)
    return LENGTH.pack(len(data)) + data


_encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Frame).decode
"""Returns the frame of what stands behind its length; raises `msgspec.MsgspecError`."""


log = logging.getLogger("headgate")

UNSENT_BYTES_MAX: Final = 32 * 2**20
"""A peer that takes nothing while so much waits for it is given up."""


TURN_S_MAX: Final = 5.0
"""Longest wait for the other end to take what came before."""


class Channel(asyncio.Protocol):
    """Sends and receives frames, in order. It closes with the process at the other end."""

    def __init__(self, take: Callable[[Frame], None], on_end: Callable[[], None]) -> None:
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
        loop = asyncio.get_running_loop()
        end.setblocking(False)
        _, channel = await loop.create_unix_connection(lambda: cls(take, on_end), sock=end)
        return channel

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
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
        """Handle a frame. If that fails, the channel stays open: the process would end with it."""
        try:
            self._take(frame)
        except Exception:
            log.exception("frame of the control channel not handled")

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self._transport = None
        self._room.set()
        self._on_end()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def send(self, frame: Frame) -> None:
        if self._transport is None:
            return
        self._transport.write(encode(frame))
        if self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            log.critical("the other end of a control channel does not read")
            self._transport.abort()

    async def send_in_turn(self, frame: Frame) -> None:
        """Send a frame once the other end has read what came before, or after a timeout.

        The other process may be stopped. What waits for it is then bounded by `send`.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(TURN_S_MAX):
                await self._room.wait()
        self.send(frame)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def read_orders(end: socket.socket) -> Orders:
    """Block until the first frame arrives. Raises EOFError if the supervisor has ended."""
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
