"""How messages cross a socket; all messages of one loop turn are sent in one write.

A frame is its length, in four bytes, and an array of messages in MessagePack. What a socket does
not take stays with its sender as values, which are encoded once there is room. So a slow reader
costs its peer no more than what it has asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

log = logging.getLogger("headgate")

FRAME_BYTES_MAX = 2**30 + 2**26
"""A longer frame cannot be meant: it has at most an entry of the greatest size, and a little."""

MESSAGE_BYTES_MAX = FRAME_BYTES_MAX - 2**20
"""Longest message. A longer one would end the connection, and all other calls with it."""

_TOO_LONG = "this is too large to send to the process of the engine"

_FRAME_BYTES = 256 * 1024
"""A frame ends behind the message with which it is larger than this."""

_BUFFER_BYTES = 256 * 1024
"""Size of one read from the socket, at most."""

_LENGTH_BYTES = 4
_HEAD = b"\0\0\0\0\xdd\0\0\0\0"
"""Room for the length, and for the number of messages: an array of 32 bits."""

_encode_into = msgspec.msgpack.Encoder(
    enc_hook=lambda value: dict(value) if hasattr(value, "items") else list(value)
).encode_into

Decode = Callable[[memoryview], list[Any]]


class FrameProtocol(asyncio.BufferedProtocol):
    """One end of a connection; subclasses handle the messages."""

    def __init__(self, decode: Decode) -> None:
        self.decode = decode
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._frame_at = self._filled = 0  # of what was read and is no whole frame yet
        self._out = bytearray(_HEAD)
        self._out_count = 0
        self._unencoded: deque[Any] = deque()  # while the peer takes nothing
        self.is_paused = False
        self._is_flushing = False

    def messages_received(self, messages: Sequence[Any]) -> None:
        raise NotImplementedError

    def unsent(self, message: Any, error: OverflowError) -> None:
        """Handle a queued message that cannot be sent."""
        raise NotImplementedError

    def lost(self) -> None:
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def abort(self, why: str, **facts: object) -> None:
        log.error("connection to another process broken off", extra={"reason": why, **facts})
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        self._flush()
        if self._transport is not None:
            self._transport.close()

    # Sending

    def send(self, message: Any) -> None:
        """Send a message at the end of this loop turn, if open; OverflowError: it is too long."""
        if self._transport is None:
            return
        if self.is_paused:
            self._unencoded.append(message)
            return
        size_bytes = len(self._out)
        try:
            _encode_into(message, self._out, -1)
            if len(self._out) - size_bytes > MESSAGE_BYTES_MAX:
                raise OverflowError(_TOO_LONG)  # noqa: TRY301
        except BaseException:
            del self._out[size_bytes:]
            raise
        self._out_count += 1
        if size_bytes > _FRAME_BYTES:
            self._flush()
        elif not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        count, transport = self._out_count, self._transport
        if not count or transport is None:
            return
        frame, self._out = self._out, bytearray(_HEAD)
        self._out_count = 0
        frame[5:9] = count.to_bytes(4)
        frame[:4] = (len(frame) - _LENGTH_BYTES).to_bytes(4)
        transport.write(frame)

    def pause_writing(self) -> None:
        """Send nothing more: the peer does not read."""
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        while self._unencoded and not self.is_paused:
            message = self._unencoded.popleft()
            try:
                self.send(message)
            except OverflowError as error:
                self.unsent(message, error)

    # Receiving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self._transport = None
        self._unencoded.clear()
        self.lost()

    def get_buffer(self, size_hint: int) -> memoryview:
        del size_hint
        return self._buffer[self._filled :]

    def buffer_updated(self, size_bytes: int) -> None:
        self._filled += size_bytes
        while (has_bytes := self._filled - self._frame_at) >= _LENGTH_BYTES:
            begin = self._frame_at + _LENGTH_BYTES
            frame_bytes = int.from_bytes(self._buffer[self._frame_at : begin])
            if frame_bytes > FRAME_BYTES_MAX:
                self.abort("a frame is too long", size_bytes=frame_bytes)
                return
            if has_bytes < _LENGTH_BYTES + frame_bytes:
                self._make_room(_LENGTH_BYTES + frame_bytes)
                return
            self._frame_at = begin + frame_bytes
            try:
                messages = self.decode(self._buffer[begin : self._frame_at])
            except msgspec.MsgspecError as error:
                self.abort("a frame cannot be read", error=str(error))
                return
            self.messages_received(messages)
            if not self.is_open:
                return
        self._make_room(_LENGTH_BYTES)

    def _make_room(self, frame_bytes: int) -> None:
        """Move the beginning of a frame to the start of a buffer with room for more of it.

        The buffer grows with what arrives, not with the length that a frame claims.
        """
        begin, end, buffer = self._frame_at, self._filled, self._buffer
        has_bytes, size_bytes = end - begin, len(buffer)
        if has_bytes == size_bytes:
            size_bytes = min(frame_bytes, 2 * size_bytes)
        elif frame_bytes <= _BUFFER_BYTES:
            size_bytes = _BUFFER_BYTES
        if size_bytes != len(buffer):
            self._buffer = memoryview(bytearray(size_bytes))
        if has_bytes:
            self._buffer[:has_bytes] = buffer[begin:end]
        self._frame_at, self._filled = 0, has_bytes
