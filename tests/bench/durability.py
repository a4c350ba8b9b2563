"""The cost of durability: fsync, rewrites under load, and the time of a start."""

import asyncio
import gc
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.journal import recovery
from headgate.engine.journal.disk import SystemDisk
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.rewrites import Growth, in_process_of_its_own
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart
from tests.bench.entries import drafts
from tests.bench.figures import Figure
from tests.bench.gateway import SINGLE
from tests.bench.load import Load
from tests.bench.servers import serving

ENTRIES = 1_000_000
WRITERS = 100
PAGE = 1000
ROUNDS = 3
SECONDS = 2.0


async def measure() -> list[Figure]:
    """Return the journal's figures."""
    return [*await _policies(), *await _files()]


async def _policies() -> list[Figure]:
    """Compare the policies over HTTP, taking turns."""
    measured: dict[str, list[float]] = {"always": [], "everysec": []}
    with serving("headgate", "always") as always, serving("headgate", "everysec") as everysec:
        for number in range(ROUNDS):
            print(f"durability: policies, round {number + 1} of {ROUNDS}", flush=True)
            for policy, port in (("always", always), ("everysec", everysec)):
                load = Load("127.0.0.1", port, SINGLE, connections=32)
                measured[policy].append(await load.per_second(SECONDS))
    here, there = measured["always"], measured["everysec"]
    work = "append per request, fsync always, 32 connections"
    return [Figure.of_rounds(work, here, "requests/s", "fsync everysec", there, ratio_at_least=0.8)]


async def _files() -> list[Figure]:
    """Fill a journal entry by entry, rewrite it under load, and load it in each state."""
    if hasattr(os, "sched_setaffinity"):  # the rewriting process has a core to itself, as in life
        os.sched_setaffinity(0, set(range(os.cpu_count() or 1)))
    with tempfile.TemporaryDirectory() as directory:
        async with _engine(Path(directory)) as (engine, journal):
            print(f"durability: {ENTRIES} appends, each a record of its own", flush=True)
            await _fill(engine)
            size_bytes = journal.status.size_bytes
            load_s = _load_s(Path(directory))
            print("durability: everything pending, and a rewrite", flush=True)
            await _make_pending(engine)
            pending_s = _load_s(Path(directory))
            stall_ms = await _longest_stall_ms(engine, journal)
            snapshot_bytes, position = _snapshot(Path(directory))
            snapshot_s = _load_s(Path(directory), position)
    millions = ENTRIES / 1e6
    return [
        Figure(f"load {millions:g} M entries, one a record", load_s, "s", at_most=5 * millions),
        Figure("the same, all delivered and pending", pending_s, "s"),
        Figure("the same from a snapshot", snapshot_s, "s", at_most=5 * millions),
        Figure("journal per entry, one a record", size_bytes / ENTRIES, "B"),
        Figure("snapshot per entry, pending", snapshot_bytes / ENTRIES, "B"),
        Figure("longest append while that is rewritten", stall_ms, "ms", at_most=50),
    ]


@asynccontextmanager
async def _engine(directory: Path) -> AsyncIterator[tuple[Engine, Journal]]:
    never = Growth(percentage=0)
    rewriter = in_process_of_its_own(directory)
    journal = Journal(SystemDisk(directory), FsyncPolicy.EVERYSEC, rewriter, growth=never)
    engine = Engine(journal)
    running = asyncio.create_task(engine.run())
    try:
        yield engine, journal
    finally:
        await engine.close()
        await running


async def _fill(engine: Engine) -> None:
    entries = drafts(ENTRIES)

    async def write(number: int) -> None:
        for entry in entries[number::WRITERS]:
            await engine.perform(Add(b"s", [entry]))

    await asyncio.gather(*map(write, range(WRITERS)))


async def _make_pending(engine: Engine) -> None:
    await engine.perform(CreateGroup(b"s", b"g", GroupStart(MIN_ID)))
    request = ReadGroup(b"g", b"c", [GroupCursor(b"s")], limit=PAGE)
    while (await engine.perform(request))[0].deliveries:
        pass


def _load_s(directory: Path, through: int | None = None) -> float:
    """Return the time of loading at a start, up to a position."""
    disk = SystemDisk(directory, is_shared=True)
    gc.disable()  # as `headgate serve` does
    started = time.perf_counter()
    loaded = recovery.load(disk, through=through)
    elapsed_s = time.perf_counter() - started
    gc.enable()
    assert loaded.keyspace.stream(b"s").log.length == ENTRIES
    disk.close()
    return elapsed_s


def _snapshot(directory: Path) -> tuple[int, int]:
    """Return the size of the snapshot, and its position."""
    [snapshot] = directory.glob("snapshot-*")
    return snapshot.stat().st_size, int(snapshot.name.removeprefix("snapshot-"))


async def _longest_stall_ms(engine: Engine, journal: Journal) -> float:
    """Return the longest wait of appends that come one after the other during a rewrite."""
    longest_s = 0.0
    gc.collect()
    gc.freeze()  # a million entries in a list are the bench's, not the engine's
    journal.start_rewrite()
    while journal.status.is_rewriting:
        started = time.perf_counter()
        await engine.perform(Add(b"t", [Draft(None, (b"a", b"b"))]))
        longest_s = max(longest_s, time.perf_counter() - started)
    gc.unfreeze()
    assert journal.status.rewrite_failure is None
    return longest_s * 1000
