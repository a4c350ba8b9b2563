"""Frames: what a process and its supervisor send each other over the control channel.

A frame is its length, in four bytes, and msgpack. Both ends are processes of one start of the same
program. A newer version that a reload starts may have other frames: `Orders` names the version.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

FRAME_BYTES_MAX: Final = 64 * 2**20
"""A frame that says to be larger is none of ours."""

LENGTH: Final = struct.Struct(">I")


class Orders(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The orders for a process: the first frame that it is sent. It may hold secrets."""

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
    """The process serves from now on."""


class FailedFrame(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The process cannot serve, and ends."""

    reason: str


class Beat(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The event loop of the process runs."""


class Stop(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The process has to end."""

    is_replaced: bool  # others serve what comes: nobody is refused, and there is time


class Announcement(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """An announcement of a process to all its siblings."""

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
    """The answer of one process to a question of the hub."""

    number: int
    body: bytes


class AnswersFrame(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The answers to a question of a process."""

    number: int
    bodies: list[bytes]


class Arrival(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """There is another sibling."""


class Departure(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A sibling is no more."""

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
    """Return a frame as it is sent."""
    data = _encode(frame)
    return LENGTH.pack(len(data)) + data


_encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Frame).decode
"""Returns the frame of what stands behind its length; raises `msgspec.MsgspecError`."""
