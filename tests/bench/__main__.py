"""`make bench`: how fast, in ratios of one run. Bounded to about a minute."""

import asyncio
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from engine.decisions.deliveries import GroupCursor, GroupRequest
from engine.decisions.groups import GroupStart
from engine.engine import Engine
from engine.entry import MIN_ID, Draft
from engine.storage import MemoryStorage
from tests.bench.load import Load, post
from tests.bench.servers import LOAD_CORE, serving

ENTRIES = 200_000
BATCH = 1000
ROUNDS = 3
SECONDS = 3.0


def drafts() -> list[Draft]:
    """Return entries of three short fields with varied values."""
    return [
        Draft(
            None, (b"temp", b"%d" % (i % 97), b"hum", b"%d" % (i % 89), b"site", b"s%d" % (i % 7))
        )
        for i in range(ENTRIES)
    ]


async def measure_engine() -> None:
    """Print what the engine does in process."""
    engine = Engine(MemoryStorage(records_max=0))
    entries = drafts()
    rows: list[tuple[str, float]] = []
    started = time.perf_counter()
    for start in range(0, ENTRIES, BATCH):
        await engine.add(b"batches", entries[start : start + BATCH])
    rows.append((f"append, {BATCH} a call", ENTRIES / (time.perf_counter() - started)))
    started = time.perf_counter()
    for draft in entries[: ENTRIES // 4]:
        await engine.add(b"singles", [draft])
    rows.append(("append, one a call", ENTRIES / 4 / (time.perf_counter() - started)))
    started = time.perf_counter()
    await engine.range(b"batches")
    rows.append(("range scan", ENTRIES / (time.perf_counter() - started)))
    await engine.create_group(b"batches", b"g", GroupStart(MIN_ID))
    request = GroupRequest(b"g", b"c", [GroupCursor(b"batches")], limit=100)
    started = time.perf_counter()
    while (read := (await engine.read_group(request))[0]).deliveries:
        await engine.ack(b"batches", b"g", [one.id for one in read.deliveries], consumer=b"c")
    rows.append(("read_group + ack, 100 a call", ENTRIES / (time.perf_counter() - started)))
    print("engine, in process, storage in memory")
    for name, per_second in rows:
        print(f"  {name:<30} {per_second / 1000:>8.0f} k entries/s")


async def measure_gateway() -> None:
    """Print what the gateway does beside the bare server, in interleaved rounds."""
    body = b'{"fields":{"temp":"39","hum":"71","site":"s1"}}'
    lines = b"\n".join([body] * BATCH)
    single = post("/v1/streams/bench/entries", body)
    batch = post("/v1/streams/bench/entries/batch", lines, "application/x-ndjson")
    figures: dict[str, list[float]] = {"bare": [], "append": [], "batch": []}
    with serving("bare uvicorn") as bare, serving("headgate") as headgate:
        for _ in range(ROUNDS):
            for name, port, request, connections in (
                ("bare", bare, single, 32),
                ("append", headgate, single, 32),
                ("batch", headgate, batch, 4),
            ):
                load = Load("127.0.0.1", port, request, connections=connections)
                figures[name].append(await load.per_second(SECONDS))
    limit, append, batches = (statistics.median(figures[name]) for name in figures)
    print("gateway, one core, load from the other, fsync: none (memory)")
    print(f"  {'bare uvicorn, 32 connections':<30} {limit / 1000:>8.1f} k requests/s")
    print(f"  {'one append per request, 32':<30} {append / 1000:>8.1f} k requests/s", end="")
    print(f"   {append / limit:.2f} x bare uvicorn")
    print(f"  {'NDJSON, 1000 per request, 4':<30} {batches * BATCH / 1000:>8.1f} k entries/s")
    print(json.dumps({name: [round(one) for one in each] for name, each in figures.items()}))


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {LOAD_CORE})
    measures: list[Callable[[], Any]] = [measure_engine, measure_gateway]
    for measure in measures:
        asyncio.run(measure())


if __name__ == "__main__":
    main()
