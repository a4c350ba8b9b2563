"""Queue: what SQS FIFO and a group in order by key have in common, and random histories of it."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from tests.virtual_time import ManualClock

VISIBLE_S = 600
"""An entry that is not settled for so long comes again."""

KEYS = "abcd"
LONG_S = 3_600
HOUR_MS = 3_600_000
STEPS = 60


class Received(NamedTuple):
    """An entry as it is received: the key it is in order by, its own text, its deliveries."""

    key: str
    text: str
    delivery_count: int


class Queue(Protocol):
    """A queue in order by key. Entries are named by their texts, of which no two are equal."""

    async def send(self, key: str, text: str) -> None:
        """Append an entry."""
        ...

    async def receive(self) -> Received | None:
        """Return an entry that nobody holds, and whose key nobody holds an entry of."""
        ...

    async def delete(self, text: str) -> None:
        """Settle an entry that was received and not received again."""
        ...

    async def hold_on(self, text: str) -> None:
        """Hold an entry from now on for as long as one that has just been received."""
        ...

    async def retry(self, text: str, delay_s: int) -> None:
        """Have an entry come again after a delay."""
        ...

    async def dead_letters(self) -> list[tuple[str, str]]:
        """Return the keys and texts of the entries that were received too often."""
        ...


class PausableQueue(Queue, Protocol):
    """A queue whose consumers may be paused."""

    async def pause(self, until_ms: int | None) -> None:
        """Give nobody anything before a time; None: from now on, give again."""
        ...


async def drained(queue: Queue) -> list[Received]:
    """Receive until there is nothing, and return what came, by key.

    Which key is first is up to the queue.
    """
    received = []
    while (each := await queue.receive()) is not None:
        received.append(each)
    return sorted(received)


class History:
    """Random sends, settlings and pauses, the same at several queues, and what came of them."""

    def __init__(
        self,
        seed: int,
        queues: Sequence[Queue],
        clock: ManualClock | None = None,
        *,
        keys: str = KEYS,
        deliveries_max: float = math.inf,
    ) -> None:
        """Begin.

        Args:
            seed: of all choices.
            queues: are empty.
            clock: what the queues go by; None: no time passes that they would notice.
            keys: each letter is one.
            deliveries_max: an entry that is received so often is a dead letter when it fails.
        """
        self._random = random.Random(seed)
        self._queues = queues
        self._clock = clock
        self._keys = keys
        self._deliveries_max = deliveries_max
        self._held: dict[str, Received] = {}
        self._resting: set[str] = set()
        self._sent_count = 0
        self.received_count = 0
        self.dead_letter_count = 0

    async def run(self) -> None:
        """Take all steps, and compare what comes after each."""
        makers = self._makers()
        for _ in range(STEPS):
            await self._random.choice(makers)()
            await self._receive()
        await self._look_at_dead_letters()

    def _makers(self) -> list[Callable[[], Awaitable[None]]]:
        """Return the steps to choose from, each as often as its weight."""
        of_time = [] if self._clock is None else [self._pass_time]
        return [self._send, self._send, *[self._settle] * 4, *of_time]

    async def _receive(self) -> None:
        """Receive all entries there are; they must be the same at all queues."""
        if self._clock is not None:
            self._clock.now_ms += 1  # SQS shows nothing in the moment in which it is given back
        first, *others = [await drained(queue) for queue in self._queues]
        for other in others:
            assert other == first, f"{other} and {first}"
        for each in first:
            self._held[each.text] = each
            self._resting.discard(each.text)
        self.received_count += len(first)

    async def _look_at_dead_letters(self) -> None:
        first, *others = [sorted(await queue.dead_letters()) for queue in self._queues]
        for other in others:
            assert other == first
        self.dead_letter_count = len(first)
        for _, text in first:
            self._held.pop(text, None)

    async def _send(self) -> None:
        for _ in range(self._random.randint(1, 4)):
            self._sent_count += 1
            key, text = self._random.choice(self._keys), f"{self._sent_count:04}"
            for queue in self._queues:
                await queue.send(key, text)

    async def _settle(self) -> None:
        for text in self._random.sample(sorted(self._held), min(2, len(self._held))):
            makers = [self._delete, self._delete, self._retry, self._hold_on]
            await self._random.choice(makers)(text)

    async def _pass_time(self) -> None:
        assert self._clock is not None
        self._clock.now_ms += self._random.choice([1, 8, VISIBLE_S + 1, LONG_S + 1]) * 1000
        await self._receive()
        await self._look_at_dead_letters()

    async def _delete(self, text: str) -> None:
        for queue in self._queues:
            await queue.delete(text)
        del self._held[text]
        self._resting.discard(text)

    async def _hold_on(self, text: str) -> None:
        if text not in self._resting:
            for queue in self._queues:
                await queue.hold_on(text)

    async def _retry(self, text: str) -> None:
        is_spent = self._held[text].delivery_count >= self._deliveries_max
        # A group makes it a dead letter at once, and SQS when it would come again.
        delays_s = [0, 0, LONG_S] if self._clock is None else [0, 0, 7, LONG_S]
        delay_s = 0 if is_spent else self._random.choice(delays_s)
        for queue in self._queues:
            await queue.retry(text, delay_s)
        if is_spent:
            del self._held[text]
        else:
            self._resting.add(text)


class PausingHistory(History):
    """A history in which consumers are paused, for an hour, and go on."""

    def __init__(self, seed: int, queues: Sequence[PausableQueue], keys: str = KEYS) -> None:
        super().__init__(seed, queues, keys=keys)
        self._pausable = queues
        self.pause_count = 0

    def _makers(self) -> list[Callable[[], Awaitable[None]]]:
        return [*super()._makers(), self._pause, self._go_on]

    async def _pause(self) -> None:
        self.pause_count += 1
        for queue in self._pausable:
            await queue.pause(time.time_ns() // 1_000_000 + HOUR_MS)
        assert all([await drained(queue) == [] for queue in self._pausable])

    async def _go_on(self) -> None:
        for queue in self._pausable:
            await queue.pause(None)
