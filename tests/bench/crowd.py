"""Crowd: everybody who uses one stream at once, at a pace that leaves the gateway time."""

import asyncio
import json
import random
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.bench.analyst import Analyst
from tests.bench.load import post
from tests.processes.wire import Wire

NAME = "soak"
STREAM = f"/v1/streams/{NAME}"
GROUP = f"{STREAM}/groups/workers"
LENGTH_MAX = 20_000

WRITERS = 4
SINGLES_PER_S = 25
"""Of each writer."""
BATCH = 200
"""Once a second."""
READERS = 2
"""Of the group, by each transport."""
SUBSCRIBERS = 25
"""By each transport."""
STAY_S = 20.0, 60.0
"""Duration of a connection."""
ANALYSED_EVERY_S = 30.0
FORGOTTEN = 0.01
"""Share of entries that are not acknowledged: they are claimed or given back."""

_CREDIT = 10_000
_IDLE_MS = 5000
"""After so long readers take over by themselves; the one who only claims is quicker."""
_CLAIM_EVERY_S = 6.0
_ANALYSED_MS = 30_000
"""Of late: less than half of what the stream keeps, so that nothing is trimmed while it is read."""
_SENT_AT = re.compile(r'"at":"(\d+)"')
_ID = re.compile(r'"id":"(\d+-\d+)","fields"')


class Crowd:
    """Writers, readers of a group, subscribers, an analyst; notes how long things took."""

    def __init__(self, port: int, analyst: Analyst | None) -> None:
        """Get ready to use the gateway at this port; without Spark there is no analyst."""
        self.append_ms: list[float] = []
        self.delivery_ms: list[float] = []
        self.acked = 0
        self.claimed = 0
        self.spark_reads = 0
        self.connects = 0
        self._analyst = analyst
        self._written: dict[str, int] = {}
        self._port = port
        self._url = f"http://127.0.0.1:{port}"
        self._chance = random.Random(1)

    async def prepare(self) -> None:
        """Make the stream, which keeps so many entries, and its group; have Java begin."""
        wire = await Wire.open(self._url)
        await wire.request("PUT", STREAM, {"max_length": LENGTH_MAX})
        await wire.request("PUT", GROUP, {"start": "0"})
        wire.close()
        if self._analyst is not None:
            assert await self._analyst.read(0) == []

    async def run(self) -> None:
        """Use the gateway until cancelled; whatever it refuses is raised."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(WRITERS):
                tasks.create_task(self._append(f"writer-{number}"))
            tasks.create_task(self._append_batches())
            for number in range(READERS):
                tasks.create_task(self._read_group(f"rest-{number}"))
                tasks.create_task(self._again(self._work_on_socket, f"ws-{number}"))
            tasks.create_task(self._claim())
            for _ in range(SUBSCRIBERS):
                tasks.create_task(self._again(self._follow_events, ""))
                tasks.create_task(self._again(self._follow_socket, ""))
            if self._analyst is not None:
                tasks.create_task(self._analyse(self._analyst))

    # Those who write.

    async def _append(self, name: str) -> None:
        wire = await Wire.open(self._url)
        for number in count():
            began_s = time.perf_counter()
            await wire.request("POST", f"{STREAM}/entries", {"fields": _fields(name, number)})
            self.append_ms.append((time.perf_counter() - began_s) * 1000)
            self._written[name] = number
            await asyncio.sleep(1 / SINGLES_PER_S)

    async def _append_batches(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        name = "batches"
        for first in count(step=BATCH):
            numbers = range(first, first + BATCH)
            lines = "\n".join(json.dumps({"fields": _fields(name, number)}) for number in numbers)
            writer.write(post(f"{STREAM}/entries/batch", lines.encode(), "application/x-ndjson"))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert head.startswith(b"http/1.1 201"), head
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            self._written[name] = numbers[-1]
            await asyncio.sleep(1)

    # Those who share the work.

    async def _read_group(self, consumer: str) -> None:
        wire = await Wire.open(self._url)
        done: list[str] = []
        while True:
            wanted = {"limit": 100, "wait_ms": 1000, "claim_idle_ms": _IDLE_MS, "ack": done}
            read = await wire.request("POST", f"{GROUP}/read?consumer={consumer}", wanted)
            self.acked += len(done)
            done = self._not_forgotten([entry["id"] for entry in read["entries"]])

    async def _work_on_socket(self, consumer: str) -> None:
        url = f"ws://127.0.0.1:{self._port}{GROUP}/ws?consumer={consumer}&credit=500"
        async with connect(url) as socket:
            async for text in socket:
                assert isinstance(text, str)
                if ids := self._not_forgotten(_ID.findall(text)):
                    await socket.send(json.dumps({"type": "ack", "rid": "1", "ids": ids}))
                    self.acked += len(ids)

    async def _claim(self) -> None:
        while True:
            await asyncio.sleep(_CLAIM_EVERY_S)
            wire = await Wire.open(self._url)  # one that is idle for so long is closed
            wanted = {"min_idle_ms": _IDLE_MS // 2, "just_id": True}
            answer = await wire.request("POST", f"{GROUP}/autoclaim?consumer=claimer", wanted)
            self.claimed += len(answer["ids"])
            if answer["ids"]:
                await wire.request("POST", f"{GROUP}/ack", {"ids": answer["ids"]})
            wire.close()

    def _not_forgotten(self, ids: list[str]) -> list[str]:
        return [entry_id for entry_id in ids if self._chance.random() >= FORGOTTEN]

    # Those who want everything.

    async def _follow_events(self, _: str) -> None:
        wire = await Wire.open(self._url)
        try:
            await wire.send("GET", f"{STREAM}/events")
            async for events in wire.events():
                self._note([entry["fields"]["at"] for kind, entry in events if kind == "entry"])
        finally:
            end = self._chance.choice([wire.close, wire.drop])
            end()

    async def _follow_socket(self, _: str) -> None:
        async with connect(f"ws://127.0.0.1:{self._port}{STREAM}/ws?credit={_CREDIT}") as socket:
            used = 0
            async for text in socket:
                assert isinstance(text, str)
                sent_at = _SENT_AT.findall(text)
                self._note(sent_at)
                used += len(sent_at)
                if used > _CREDIT // 2:
                    await socket.send(json.dumps({"type": "credit", "entries": used}))
                    used = 0

    def _note(self, sent_at: list[str]) -> None:
        now_us = time.perf_counter_ns() // 1000
        self.delivery_ms += [(now_us - int(time_us)) / 1000 for time_us in sent_at]

    async def _analyse(self, analyst: Analyst) -> None:
        while True:
            await asyncio.sleep(ANALYSED_EVERY_S)
            before = self._written.copy()
            reports = await analyst.read(time.time_ns() // 1_000_000 - _ANALYSED_MS)
            assert all(report.is_whole for report in reports), reports
            last = {report.writer: report.last for report in reports}
            assert all(last.get(writer, -1) >= number for writer, number in before.items()), reports
            self.spark_reads += 1

    async def _again(self, use: Callable[[str], Awaitable[None]], name: str) -> None:
        """Connect, stay for a while, and come back."""
        while True:
            self.connects += 1
            with suppress(TimeoutError, ConnectionClosed):
                async with asyncio.timeout(self._chance.uniform(*STAY_S)):
                    await use(name)


def _fields(writer: str, number: int) -> dict[str, str]:
    at_us = time.perf_counter_ns() // 1000
    return {"temp": "21.37", "by": writer, "n": str(number), "at": str(at_us)}
