"""Read and write payloads of DUMP and RESTORE in one thread, with bounded memory.

All connections of a process share both, so what clients send neither blocks the threads that look
after credentials and certificates nor takes more memory than `UNPACKED_BYTES_MAX`. Callers are
served in order of arrival, and nobody has two payloads there at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from headgate.app.rdb.payload import read_payload, write_payload
from headgate.app.rdb.source import (
    KEYS_VERSION,
    WIDEST_VERSION,
    RoomTaken,
    Share,
    TooMuch,
    UnpackingRoom,
)
from headgate.engine.errors import Invalid, Unavailable
from headgate.engine.images import StreamImage
from headgate.engine.limits import UNPACKED_BYTES_MAX, UNPACKED_ELEMENTS_MAX, UNPACKING_MAX
from headgate.engine.threads import Threads

T = TypeVar("T")


class PayloadTooLarge(Invalid):
    """A payload, or a whole transaction, would take more than there is room for."""


class PayloadsBusy(Unavailable):
    """Payloads of others take all the room now; nothing has happened."""

    def __init__(self) -> None:
        super().__init__("Payloads of other clients are being restored")


class Payloads:
    def __init__(
        self,
        size_bytes_max: int = UNPACKED_BYTES_MAX,
        elements_max: int = UNPACKED_ELEMENTS_MAX,
        waiting_max: int = UNPACKING_MAX,
    ) -> None:
        """Bound the unpacked payloads together; the thread starts with the first one."""
        self._bounds = size_bytes_max, elements_max
        self._threads = Threads(1, "payloads")  # more would only take turns with the event loop
        self._waiting_max = waiting_max
        self._waiting_count = 0

    @cached_property
    def _room(self) -> UnpackingRoom:
        return UnpackingRoom(*self._bounds, _let_others_run)

    @property
    def size_bytes(self) -> int:
        return self._room.size_bytes

    def share(self) -> Share:
        return self._room.share()

    async def read(
        self,
        payload: bytes,
        share: Share,
        change: Callable[[StreamImage], StreamImage] = lambda image: image,
    ) -> StreamImage:
        """Return the stream of a payload; `change` runs in the thread and returns the result.

        `share` keeps the room of the stream and must be closed. If this is cancelled, the work
        stops once `share` is closed. Raises PayloadTooLarge, PayloadsBusy, and what `read_payload`
        raises.
        """
        try:
            share.take(len(payload))  # while it waits, too
            image = await self.run(lambda: change(read_payload(payload, share)))
        except TooMuch as error:
            raise PayloadTooLarge(f"the payload is too large: {error}") from None
        except RoomTaken:
            raise PayloadsBusy from None
        share.give_back(len(payload))
        return image

    async def write(self, image: StreamImage) -> bytes:
        """Return the payload of a stream; raises PayloadsBusy if too many wait already."""
        return await self.run(lambda: written(image))

    async def run(self, act: Callable[[], T]) -> T:
        """Call a function in the thread, unless cancelled before it begins; raises PayloadsBusy."""
        if self._waiting_count >= self._waiting_max:
            raise PayloadsBusy
        self._waiting_count += 1
        try:
            return await self._threads.call_if_awaited(act)
        finally:
            self._waiting_count -= 1


def written(image: StreamImage) -> bytes:
    """Return the payload of a stream, as DUMP replies it; this may take a second."""
    version = WIDEST_VERSION if image.keys is None else KEYS_VERSION
    return b"".join(write_payload(image, version))


def _let_others_run() -> None:
    time.sleep(0)


PAYLOADS = Payloads()
"""Those of this process, whatever gateways and backends are in it."""
