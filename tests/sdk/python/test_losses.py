"""The Python client through losses: the gateway ends and begins again, connections are cut."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import headgate
from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.sdk.cut_way import Proxy


def target(live: Live) -> tuple[str, int]:
    return "127.0.0.1", int(live.url.rpartition(":")[2])


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    async with Proxy().open() as proxy:
        yield proxy


async def test_a_follower_misses_and_repeats_nothing(tmp_path: Path, proxy: Proxy) -> None:
    settings = Settings(data_dir=tmp_path)
    async with headgate.AsyncClient(f"127.0.0.1:{proxy.port}", producer="p") as hg:
        orders = hg.stream("orders")
        async with orders.follow(after="0") as entries:
            for _ in range(3):  # lives of the gateway
                async with running(settings) as live:
                    proxy.target = target(live)
                    for _ in range(3):
                        appended = [await orders.append({"n": str(number)}) for number in range(20)]
                        proxy.cut()
                        appended.append(await orders.append({"n": "after the cut"}))
                        assert [(await anext(entries)).id for _ in appended] == appended
                    proxy.target = None


@pytest.mark.parametrize("consumer", [None, "me"])
async def test_each_entry_is_acknowledged_once(
    tmp_path: Path, proxy: Proxy, consumer: str | None
) -> None:
    settings = Settings(data_dir=tmp_path)
    stop, handled = asyncio.Event(), Counter[str]()

    async def handle(job: headgate.Job) -> None:
        await asyncio.sleep(0)
        handled[job.id] += 1

    async with headgate.AsyncClient(f"127.0.0.1:{proxy.port}", producer="p") as hg:
        billing = hg.group("orders", "billing")
        working = asyncio.ensure_future(
            billing.work(handle, concurrency=8, consumer=consumer, stop=stop)
        )
        ids: set[str] = set()
        for life in range(3):
            async with running(settings) as live:
                proxy.target = target(live)
                await billing.create(start="0")
                for _ in range(4):
                    ids |= set(await hg.stream("orders").append_many([{"n": "1"}] * 100))
                    proxy.cut()
                if life == 2:
                    while (info := await billing.info())["pending"] or info["lag"]:
                        assert not working.done()
                    stop.set()
                    await working
                proxy.target = None
    assert set(handled) == ids
