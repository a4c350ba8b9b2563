"""Schedules whose gateway is killed again and again: each due time has one entry."""

import asyncio
from collections import Counter
from pathlib import Path

import httpx

from headgate.app.backends.embedded import EmbeddedOptions, open_embedded
from headgate.engine.requests.schedules import SetSchedule
from headgate.engine.schedules import Definition
from tests.conditions import WITHIN_S
from tests.processes.gateway import Gateway
from tests.running import running

COUNT = 1_000
KILLS = 3
NEW_YEAR_MS = 1_767_225_600_000
YEARLY = Definition(b"jobs", (b"a", b"1"), "0 0 1 1 *", "UTC")


async def test_a_due_time_is_run_once_whenever_the_gateway_is_killed(tmp_path: Path) -> None:
    async with running(await asyncio.to_thread(open_embedded, EmbeddedOptions(tmp_path))) as made:
        for number in range(COUNT):
            await made.perform(SetSchedule(b"%d" % number, YEARLY, NEW_YEAR_MS, 0))
    for count in range(1, KILLS + 1):
        gateway = await Gateway.start(tmp_path)
        await until_appended(gateway.url, count * COUNT // (KILLS + 1))
        await gateway.kill()
    gateway = await Gateway.start(tmp_path)
    await until_appended(gateway.url, COUNT)
    entries = await due_times(gateway.url)
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        last = (await http.get("/v1/schedules/7")).json()
    await gateway.stop()
    assert Counter(entries) == Counter({(str(n), str(NEW_YEAR_MS)): 1 for n in range(COUNT)})
    assert last["last_due_ms"] == NEW_YEAR_MS


async def until_appended(url: str, count: int) -> None:
    """Return once so many entries are there: that is in the midst of the runs."""
    async with httpx.AsyncClient(base_url=url) as http, asyncio.timeout(WITHIN_S):
        while (await http.get("/v1/streams/jobs")).json().get("length", 0) < count:
            pass


async def due_times(url: str) -> list[tuple[str, str]]:
    async with httpx.AsyncClient(base_url=url) as http:
        answer = await http.get("/v1/streams/jobs/entries", params={"limit": 2 * COUNT})
    fields = [entry["fields"] for entry in answer.json().get("entries", [])]
    return [(each["_schedule"], each["_due_ms"]) for each in fields]
