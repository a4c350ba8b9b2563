"""Growth: the cost of one operation by the size of the stream, and of its pending entries.

One stream grows, and one group's pending entries; at each size every operation is done some
hundred times at random places, and the median time is kept. The cache of unpacked chunks is
emptied before each, or a small stream would be served from it and a large one not.
"""

import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import NamedTuple

from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests.deliveries import (
    Ack,
    Autoclaim,
    Claim,
    GroupCursor,
    ListPending,
    ReadGroup,
)
from headgate.engine.requests.entries import Add, Delete, Range, Read, StreamCursor, TrimTo
from headgate.engine.requests.groups import CreateGroup, DescribeGroup, GroupStart
from headgate.engine.requests.streams import DescribeStream
from headgate.engine.state.chunk import _unpack_cached
from tests.bench.entries import STARTED_AT_MS, drafts
from tests.bench.figures import Figure, markdown, short
from tests.bench.plot import plot
from tests.bench.report import FOLDER, keep
from tests.lengths import length_of

ENTRIES = [10_000, 100_000, 1_000_000, 10_000_000]
PENDING = [1_000, 10_000, 100_000, 1_000_000]
BATCH = 1000
PAGE = 100
TIMES = 200
FLAT = 1.5
"""Cost of a thousandfold size, at most: the processor's caches hold less of it."""

STREAM, GROUP = b"growing", b"g"

Operation = Callable[[], Awaitable[object]]


class Curve(NamedTuple):
    """One operation: microseconds at each size, by the median and by the 99th percentile."""

    work: str
    grows: str  # what the sizes count
    sizes: list[int]
    median_us: list[float]
    p99_us: list[float]

    @property
    def ratio(self) -> float:
        """Return the ratio of the costs at the largest and the smallest size."""
        return self.median_us[-1] / self.median_us[0]


class Clock:
    """A millisecond goes by whenever somebody looks, so that ids tell places apart."""

    def __init__(self) -> None:
        self._now_ms = STARTED_AT_MS

    def wall_ms(self) -> int:
        self._now_ms += 1
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms


async def measure() -> list[Figure]:
    """Return the cost of each operation at the largest size, beside the smallest."""
    curves = [
        *await _measured("entries", ENTRIES, GrowingStream()),
        *await _measured("pending", PENDING, GrowingGroup()),
    ]
    _draw(curves)
    return [
        Figure(
            f"{curve.work}, {short(curve.sizes[-1])} {curve.grows}",
            curve.median_us[-1],
            "µs",
            f"the same at {short(curve.sizes[0])}",
            curve.median_us[0],
            ratio_at_most=FLAT,
        )
        for curve in curves
    ]


def _draw(curves: Sequence[Curve]) -> None:
    """Keep the curves as a table, as figures and as a picture."""
    tables = []
    for grows in ("entries", "pending"):
        alike = [curve for curve in curves if curve.grows == grows]
        heads = [f"median µs at so many {grows}", *map(short, alike[0].sizes), "last : first"]
        rows = [
            [curve.work, *(f"{figure:.1f}" for figure in curve.median_us), f"{curve.ratio:.2f}"]
            for curve in alike
        ]
        tables.append(markdown(heads, rows))
    keep("growth", "\n".join(tables), [curve._asdict() for curve in curves])
    plot(curves, FOLDER / "growth.svg")


class GrowingStream:
    """A stream that is filled up, and what is done to it at each size."""

    def __init__(self) -> None:
        self._engine = Engine(MemoryStorage(records_max=0), clock=Clock())
        self._batch = drafts(BATCH)
        self._chance = random.Random(3)

    async def grow(self, size: int) -> None:
        while await length_of(self._engine, STREAM) < size:
            await self._engine.perform(Add(STREAM, self._batch))

    async def operations(self) -> dict[str, Operation]:
        engine, draft = self._engine, self._batch[:1]
        doomed = iter([await self._random_id() for _ in range(TIMES)])
        cursors = iter([await self._random_id() for _ in range(TIMES)])
        kept = TrimTo(max_length=await length_of(engine, STREAM))
        return {
            "XDEL one, anywhere": lambda: engine.perform(Delete(STREAM, [next(doomed)])),
            f"read {PAGE}, from anywhere": lambda: engine.perform(
                Read([StreamCursor(STREAM, next(cursors))], limit=PAGE)
            ),
            "append one": lambda: engine.perform(Add(STREAM, draft)),
            "append one, trim to length": lambda: engine.perform(Add(STREAM, draft, trim=kept)),
            f"append {BATCH}, trim to length": lambda: engine.perform(
                Add(STREAM, self._batch, trim=kept)
            ),
        }

    async def _random_id(self) -> EntryId:
        info = await self._engine.perform(DescribeStream(STREAM))
        ms = self._chance.randrange(info.first_id.ms, info.last_id.ms)
        seq = self._chance.randrange(BATCH - 1)
        entries = await self._engine.perform(Range(STREAM, EntryId(ms, seq), limit=1))
        return entries[0].id


class GrowingGroup:
    """A group with more and more pending entries, and the operations on it at each size."""

    def __init__(self) -> None:
        self._engine = Engine(MemoryStorage(records_max=0), clock=Clock())
        self._batch = drafts(BATCH)
        self._chance = random.Random(4)
        self._ids: list[EntryId] = []

    async def grow(self, size: int) -> None:
        engine = self._engine
        if not self._ids:
            await engine.perform(CreateGroup(STREAM, GROUP, GroupStart(MIN_ID), create_stream=True))
        for turn in count():
            missing = size - (await engine.perform(DescribeGroup(STREAM, GROUP))).pending_count
            if missing <= 0:
                break
            if not turn % (BATCH // PAGE):
                await engine.perform(Add(STREAM, self._batch))
            (read,) = await engine.perform(self._request(turn, min(missing, PAGE)))
            self._ids += [delivery.id for delivery in read.deliveries]
        await engine.perform(Add(STREAM, drafts(2 * TIMES * PAGE)))  # for those who read on

    async def operations(self) -> dict[str, Operation]:
        engine, turns = self._engine, count()
        picked = self._chance.sample(self._ids, 3 * TIMES)
        acked, claimed, starts = (picked[part::3] for part in range(3))
        gone, taken, places = iter(acked), iter(claimed), iter(starts * 2)
        without = set(acked)
        self._ids = [entry_id for entry_id in self._ids if entry_id not in without]

        async def read_and_ack() -> None:
            (read,) = await engine.perform(self._request(next(turns), PAGE))
            await engine.perform(Ack(STREAM, GROUP, [delivery.id for delivery in read.deliveries]))

        return {
            "XACK one, anywhere": lambda: engine.perform(Ack(STREAM, GROUP, [next(gone)])),
            "XCLAIM one, anywhere": lambda: engine.perform(
                Claim(STREAM, GROUP, _name(next(turns)), [next(taken)], 0)
            ),
            f"XAUTOCLAIM {PAGE}, from anywhere": lambda: engine.perform(
                Autoclaim(
                    STREAM, GROUP, _name(next(turns)), min_idle_ms=0, start=next(places), limit=PAGE
                )
            ),
            f"XPENDING {PAGE}, from anywhere": lambda: engine.perform(
                ListPending(STREAM, GROUP, next(places), limit=PAGE)
            ),
            f"XREADGROUP {PAGE} and XACK": read_and_ack,
        }

    def _request(self, turn: int, limit: int) -> ReadGroup:
        return ReadGroup(GROUP, _name(turn), [GroupCursor(STREAM)], limit=limit)


def _name(turn: int) -> bytes:
    return b"consumer-%d" % (turn % 2)


async def _measured(
    grows: str, sizes: Sequence[int], subject: GrowingStream | GrowingGroup
) -> list[Curve]:
    curves: dict[str, Curve] = {}
    for size in sizes:
        print(f"growth: {short(size)} {grows}", flush=True)
        await subject.grow(size)
        for work, operation in (await subject.operations()).items():
            curve = curves.setdefault(work, Curve(work, grows, list(sizes), [], []))
            took_us = sorted([await _took_us(operation) for _ in range(TIMES)])
            curve.median_us.append(statistics.median(took_us))
            curve.p99_us.append(took_us[len(took_us) * 99 // 100])
    return list(curves.values())


async def _took_us(operation: Operation) -> float:
    _unpack_cached.cache_clear()
    started = time.perf_counter()
    await operation()
    return (time.perf_counter() - started) * 1e6
