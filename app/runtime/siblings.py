"""The other processes of one gateway, as a process sees them.

`headgate serve --workers N` runs N processes that serve requests. What one of them decides for the
whole gateway, the others have to know. `headgate.app.workers` implements this. A gateway of one
process has no siblings, which is None everywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from headgate.app.runtime import periodic

SHARE_INTERVAL_S: Final = 0.05
"""Interval between announcements of a process's use, if it has changed."""


class Peers(Protocol):
    """Other processes, with which this one shares something. Handlers run on the event loop."""

    @property
    def number(self) -> int:
        """Return the number of this process, which none of the others ever has."""
        ...

    def on_announcement(self, topic: str, take: Callable[[int, bytes], None]) -> None:
        """Call `take` with the sender's number and the body of each announcement."""
        ...

    def on_arrival(self, take: Callable[[], None]) -> None:
        """Call `take` when there is one that has heard nothing from this process yet."""
        ...

    def on_departure(self, take: Callable[[int], None]) -> None:
        """Call `take` with the number of one that has ended."""
        ...

    async def announce(self, topic: str, body: bytes) -> None:
        """Send to all of them, without waiting for them; they receive it in order."""
        ...


class Siblings(Peers, Protocol):
    """The other processes of this gateway that serve requests."""

    @property
    def count(self) -> int: ...

    @property
    def has_engine(self) -> bool:
        """Return whether a separate process has the engine, and answers for the streams."""
        ...

    def on_question(self, topic: str, answer: Callable[[bytes], bytes]) -> None:
        """Answer questions of siblings; the answer must not take long."""
        ...

    async def gather(self, topic: str, body: bytes, *, within_s: float) -> list[bytes]:
        """Return the answers of all siblings that answer in time."""
        ...


class SharedCounts:
    """Counts of each process whose sum over all processes is limited.

    A process announces changed counts within `SHARE_INTERVAL_S`. So within this time each process
    can admit as much as was free.
    """

    def __init__(
        self, siblings: Siblings, topic: str, counts: Callable[[], Mapping[str, int]]
    ) -> None:
        self._siblings = siblings
        self._topic = topic
        self._counts = counts
        self._announced: Mapping[str, int] | None = None
        self._by_sibling: dict[int, Mapping[str, int]] = {}
        siblings.on_announcement(topic, self._take)
        siblings.on_departure(self._forget)
        siblings.on_arrival(self._announce_again)

    def elsewhere(self, name: str) -> int:
        return sum(counts.get(name, 0) for counts in self._by_sibling.values())

    async def run(self) -> None:
        await periodic.repeat(f"{self._topic} shared", self._share)

    async def _share(self) -> None:
        counts = self._counts()
        if counts != self._announced:
            self._announced = counts  # a sibling that arrives meanwhile hears them again
            try:
                await self._siblings.announce(self._topic, _encode(counts))
            except BaseException:
                self._announced = None
                raise
        await asyncio.sleep(SHARE_INTERVAL_S)

    def _take(self, sender: int, body: bytes) -> None:
        self._by_sibling[sender] = _decode(body)

    def _forget(self, sibling: int) -> None:
        self._by_sibling.pop(sibling, None)

    def _announce_again(self) -> None:
        self._announced = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, int]).decode
