"""Processes of one gateway, in one event loop."""

from __future__ import annotations

from collections.abc import Callable


class Sibling:
    """A process, and the others that it reaches at once."""

    def __init__(
        self,
        number: int = 1,
        others: list[Sibling] | None = None,
        *,
        count: int = 2,
        has_engine: bool = True,
    ) -> None:
        self.number, self.count, self.has_engine = number, count, has_engine
        self.others: list[Sibling] = [] if others is None else others
        self.others.append(self)
        self.takes: dict[str, Callable[[int, bytes], None]] = {}
        self.answers: dict[str, Callable[[bytes], bytes]] = {}
        self.arrivals: list[Callable[[], None]] = []
        self.departures: list[Callable[[int], None]] = []
        self.announced_count = 0

    def on_announcement(self, topic: str, take: Callable[[int, bytes], None]) -> None:
        self.takes[topic] = take

    def on_question(self, topic: str, answer: Callable[[bytes], bytes]) -> None:
        self.answers[topic] = answer

    def on_arrival(self, take: Callable[[], None]) -> None:
        self.arrivals.append(take)

    def on_departure(self, take: Callable[[int], None]) -> None:
        self.departures.append(take)

    async def announce(self, topic: str, body: bytes) -> None:
        self.announced_count += 1
        for other in self.others:
            if other is not self and topic in other.takes:
                other.takes[topic](self.number, body)

    async def gather(self, topic: str, body: bytes, *, within_s: float) -> list[bytes]:
        """Ask nobody."""
        return []
