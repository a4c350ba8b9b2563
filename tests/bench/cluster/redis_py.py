"""The program that `by_hand.py` runs: Redis commands of redis-py, in pipelines."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

from redis.asyncio import Redis

FIELDS = {"temp": "39", "hum": "71", "site": "s1"}


async def append(client: Redis, count: int, is_over: Callable[[], bool], _group: str) -> int:
    """Append entries in pipelines; return how many."""
    appended = 0
    while not is_over():
        pipeline = client.pipeline(transaction=False)
        for _ in range(count):
            pipeline.xadd("bench", FIELDS)  # type: ignore[arg-type]
        appended += len(await pipeline.execute())
    return appended


async def consume(client: Redis, count: int, is_over: Callable[[], bool], group: str) -> int:
    """Read entries, and acknowledge them together with the next read; return how many."""
    ids: list[bytes] = []
    acked = 0
    while not is_over():
        pipeline = client.pipeline(transaction=False)
        if ids:
            pipeline.xack("bench", group, *ids)
        pipeline.xreadgroup(group, "c", {"bench": ">"}, count=count)
        *acks, read = await pipeline.execute()
        acked += sum(acks)
        if not read:
            break
        ids = [entry_id for entry_id, _ in read[0][1]]
    return acked


_WORKS: dict[str, Callable[[Redis, int, Callable[[], bool], str], Awaitable[int]]] = {
    "append": append,
    "consume": consume,
}


async def _main(work: str, port: str, count: str, seconds: str, group: str) -> None:
    client = Redis(port=int(port))
    await client.ping()
    started, used_s = time.perf_counter(), time.process_time()
    end = started + float(seconds)
    done = await _WORKS[work](client, int(count), lambda: time.perf_counter() >= end, group)
    elapsed_s, used_s = time.perf_counter() - started, time.process_time() - used_s
    print(json.dumps([done, elapsed_s, used_s]))
    await client.aclose()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
