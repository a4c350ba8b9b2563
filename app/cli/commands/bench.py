import asyncio
import time
import uuid
from collections.abc import Sequence
from typing import Any

import click

from headgate.app.cli.declaration import option
from headgate.app.cli.flags import gateway_command
from headgate.app.cli.listing import show_item
from headgate.client.client import AsyncClient
from headgate.client.job import Job
from headgate.client.problems import HeadgateError


@gateway_command("bench", short_help="Measure rates and latencies of the gateway.")
async def bench_command(
    gateway: AsyncClient,
    as_json: bool,
    for_ms: int = option("Duration of the load.", default=5_000, show_default="5s"),
    size: int = option("Bytes per entry.", click.IntRange(0, 2**20), default=100),
    batch: int = option("Entries per request.", click.IntRange(1, 10_000), default=100),
    writers: int = option("Number of concurrent writers.", click.IntRange(1, 256), default=4),
) -> None:
    """Append entries to a temporary stream, process them in a group, and report the speed.

    Each writer appends one batch after another. A consumer acknowledges each entry on arrival. The
    latency of an append is the time of its request. The latency of a delivery is the time from
    before the append until the consumer has the entry.

    The whole benchmark runs in this process. It measures what one Python program achieves, not the
    limit of the gateway. The command deletes the stream at the end.

        headgate bench --for 10s --writers 4 --batch 100
    """
    load = _Load(gateway, size=size, batch=batch)
    try:
        await load.run(for_ms / 1000, writers)
    except* HeadgateError as errors:
        raise errors.exceptions[0] from None
    finally:
        await load.stream.delete()
    show_item(load.report(), as_json=as_json)


class _Load:
    def __init__(self, gateway: AsyncClient, *, size: int, batch: int) -> None:
        name = f"bench-{uuid.uuid4().hex[:8]}"
        self.stream = gateway.stream(name)
        self._group = gateway.group(name, "bench")
        self._value = "x" * size
        self._batch = batch
        self._append_ms: list[float] = []
        self._delivery_ms: list[float] = []
        self._appended = 0
        self._are_done = False  # the writers
        self._stop = asyncio.Event()
        self._append_s = self._all_s = 0.0

    async def run(self, for_s: float, writers: int) -> None:
        await self._group.create(start="0")
        begin_s = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            work = self._group.work(self._take, credit=4 * self._batch, stop=self._stop)
            working = tasks.create_task(work)
            async with asyncio.TaskGroup() as appending:
                for _ in range(writers):
                    appending.create_task(self._write(begin_s + for_s))
            self._append_s = time.perf_counter() - begin_s
            self._are_done = True
            self._end_if_all_came()
            await working
        self._all_s = time.perf_counter() - begin_s

    def report(self) -> dict[str, Any]:
        return {
            "appended": _pace(self._appended, self._append_s, self._append_ms),
            "delivered": _pace(len(self._delivery_ms), self._all_s, self._delivery_ms),
        }

    async def _write(self, end_s: float) -> None:
        while (begin_s := time.perf_counter()) < end_s:
            fields = {"at": repr(begin_s), "value": self._value}
            await self.stream.append_many([fields] * self._batch)
            self._append_ms.append((time.perf_counter() - begin_s) * 1000)
            self._appended += self._batch

    async def _take(self, job: Job) -> None:
        self._delivery_ms.append((time.perf_counter() - float(job.fields["at"])) * 1000)
        self._end_if_all_came()

    def _end_if_all_came(self) -> None:
        if self._are_done and len(self._delivery_ms) >= self._appended:
            self._stop.set()


def _pace(count: int, all_s: float, values_ms: Sequence[float]) -> dict[str, float]:
    values_ms = sorted(values_ms)
    places = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
    last = len(values_ms) - 1
    latencies = {name: round(values_ms[int(last * place)], 2) for name, place in places.items()}
    return {"entries": count, "entries_per_s": round(count / all_s), **latencies}
