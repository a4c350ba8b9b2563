"""The engine in process, side by side with fakeredis and a real Redis. Storage keeps nothing."""

import gc
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice

from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests.deliveries import Ack, GroupCursor, ReadGroup
from headgate.engine.requests.entries import Add, Range, Read, StreamCursor
from headgate.engine.requests.groups import CreateGroup, GroupStart
from tests.bench import peers
from tests.bench.entries import dated_drafts, drafts
from tests.bench.figures import Figure

ENTRIES = 200_000
SINGLES = 40_000
FAKE_ENTRIES = 10_000
BATCH = 1000
PAGE = 100
ROUNDS = 3


async def measure() -> list[Figure]:
    """Return the engine's figures, of rounds in which every peer has its turn."""
    entries = drafts(ENTRIES)
    rates: defaultdict[str, list[float]] = defaultdict(list)
    with peers.redis() as redis:
        for number in range(ROUNDS):
            print(f"engine: round {number + 1} of {ROUNDS}", flush=True)
            for name, per_second in (await _round(entries)).items():
                rates[name].append(per_second)
            fake = peers.fakeredis_appends_per_second(entries[:FAKE_ENTRIES])
            real = peers.redis_appends_per_second(redis) if redis is not None else None
            rates["fakeredis"] += [] if fake is None else [fake]
            rates["redis"] += [] if real is None else [real]
        print("engine: memory", flush=True)
        dated = dated_drafts(ENTRIES)
        theirs = peers.redis_bytes_per_entry(redis, dated) if redis is not None else None
    return _figures(rates, await _bytes_per_entry(), theirs)


def _figures(
    rates: Mapping[str, Sequence[float]], ours: float, theirs: float | None
) -> list[Figure]:
    unit, fake = "entries/s", rates["fakeredis"]
    many, rounds = f"append, {BATCH} a call", Figure.of_rounds
    targets: dict[str, float] = {"at_least": 500e3, "ratio_at_least": 25}
    return [
        rounds(many, rates["batch"], unit, "fakeredis, XADD", fake, **targets),
        rounds(many, rates["batch"], unit, "redis-benchmark -P 64", rates["redis"]),
        rounds("append, one a call", rates["single"], unit, "fakeredis, XADD", fake),
        rounds(f"{many}, records encoded and kept", rates["recorded"], unit),
        rounds(f"range scan, {BATCH} a page", rates["pages"], unit, at_least=2e6),
        rounds("range scan, all in one list", rates["whole"], unit),
        rounds(f"read_group + ack, {PAGE} a call", rates["group"], unit, at_least=150e3),
        Figure("memory per entry", ours, "B", "Redis MEMORY USAGE", theirs, ratio_at_most=0.5),
    ]


async def _round(entries: Sequence[Draft]) -> dict[str, float]:
    engine = Engine(MemoryStorage(records_max=0))
    recorded = Engine(MemoryStorage(records_max=1))

    async def append(to: Engine, name: bytes, count: int, batch: int) -> int:
        for start in range(0, count, batch):
            await to.perform(Add(name, entries[start : start + batch]))
        return count

    works: dict[str, Callable[[], Awaitable[int]]] = {
        "batch": lambda: append(engine, b"batches", ENTRIES, BATCH),
        "single": lambda: append(engine, b"singles", SINGLES, 1),
        "recorded": lambda: append(recorded, b"batches", ENTRIES, BATCH),
        "pages": lambda: _scan(engine),
        "whole": lambda: _list(engine),
        "group": lambda: _consume(engine),
    }
    figures = {}
    for name, work in works.items():
        gc.collect()
        started = time.perf_counter()
        count = await work()
        figures[name] = count / (time.perf_counter() - started)
    return figures


async def _scan(engine: Engine) -> int:
    count, after = 0, MIN_ID
    while True:
        (read,) = await engine.perform(Read([StreamCursor(b"batches", after)], limit=BATCH))
        if not read.entries:
            return count
        count, after = count + len(read.entries), read.next_after


async def _list(engine: Engine) -> int:
    return len(await engine.perform(Range(b"batches")))


async def _consume(engine: Engine) -> int:
    await engine.perform(CreateGroup(b"batches", b"g", GroupStart(MIN_ID)))
    request = ReadGroup(b"g", b"c", [GroupCursor(b"batches")], limit=PAGE)
    count = 0
    while (read := (await engine.perform(request))[0]).deliveries:
        await engine.perform(
            Ack(b"batches", b"g", [delivery.id for delivery in read.deliveries], consumer=b"c")
        )
        count += len(read.deliveries)
    return count


async def _bytes_per_entry() -> float:
    """Return all that the engine allocates and keeps, its objects included."""
    engine = Engine(MemoryStorage(records_max=0))
    gc.collect()
    tracemalloc.start()
    entries = dated_drafts(ENTRIES)
    while batch := list(islice(entries, BATCH)):
        await engine.perform(Add(b"bench", batch))
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / ENTRIES
