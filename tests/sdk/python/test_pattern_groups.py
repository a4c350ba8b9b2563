"""One group over a pattern with the Python client."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import headgate
from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.sdk.cut_way import Proxy


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    async with Proxy().open() as proxy:
        yield proxy


async def filled(hg: headgate.AsyncClient, *names: str) -> None:
    for name in names:
        await hg.stream(f"orders.{name}").append_many([{"n": f"{name}{at}"} for at in range(2)])


async def test_a_worker_works_off_all_streams_that_match(hg: headgate.AsyncClient) -> None:
    await filled(hg, *"abc")
    billing = hg.groups("billing", match="orders.*", create={"start": "0"})
    stop, handled = asyncio.Event(), Counter[tuple[str | None, object]]()

    async def handle(job: headgate.Job) -> None:
        handled[job.stream, job.fields["n"]] += 1
        if job.fields["n"] == "a0" and job.deliveries == 1:
            raise ValueError("once more")
        if handled.total() == 6:
            await filled(hg, "later")
        if handled.total() == 9:
            stop.set()

    await billing.work(handle, concurrency=3, stop=stop, on_error=lambda *_: None)
    again = ("orders.a", "a0")
    assert handled == {
        (f"orders.{name}", f"{name}{at}"): 1 + ((f"orders.{name}", f"{name}{at}") == again)
        for name in ("a", "b", "c", "later")
        for at in range(2)
    }
    for name in ("a", "b", "c", "later"):
        info = await hg.group(f"orders.{name}", "billing").info()
        assert (name, info["pending"], info["released"]) == (name, 0, 0)


async def test_equal_ids_of_two_streams_are_two_entries(live: Live) -> None:
    for name in ("a", "b"):
        await live.append_at(f"orders.{name}", "1-0")
    async with headgate.AsyncClient(live.url) as hg:
        billing = hg.groups("billing", match="orders.*", create={"start": "0"})
        async with billing.consume() as jobs:
            first, second = await anext(jobs), await anext(jobs)
            assert (first.id, first.stream) != (second.id, second.stream)
            first.ack()
            assert first.is_lost
            assert not second.is_lost
        left = await hg.group(second.stream or "", "billing").pending()
    assert [entry["id"] for entry in left] == ["1-0"]


async def test_entries_are_read_and_settled_by_requests(hg: headgate.AsyncClient) -> None:
    await filled(hg, "a", "b")
    weights = {"orders.a": 2}
    billing = hg.groups("billing", match="orders.*", create={"start": "0"}, weights=weights)
    came = await billing.read("me", limit=3)
    assert [(entry.stream, entry.fields["n"]) for entry in came] == [
        ("orders.a", "a0"),
        ("orders.a", "a1"),
        ("orders.b", "b0"),
    ]
    own = {"orders.a": [came[0].id], "orders.b": [came[2].id]}
    extended = await billing.extend(own, consumer="me")
    assert extended == {stream: {ids[0]: "extended"} for stream, ids in own.items()}
    await billing.nack({"orders.a": [came[1].id]}, mode="silent")
    assert (await billing.ack(own, consumer="me"))["orders.b"] == {came[2].id: "acked"}
    assert {entry.fields["n"] for entry in await billing.read("other")} == {"a1", "b1"}


async def test_an_entry_is_settled_once_whatever_becomes_of_connections(
    tmp_path: Path, proxy: Proxy
) -> None:
    stop, handled = asyncio.Event(), Counter[object]()

    async def handle(job: headgate.Job) -> None:
        handled[job.fields["n"]] += 1
        if handled.total() == 3:
            proxy.cut()
        if len(handled) == 20:
            stop.set()

    async with (
        running(Settings(data_dir=tmp_path)) as live,
        headgate.AsyncClient(f"127.0.0.1:{proxy.port}") as hg,
    ):
        proxy.target = "127.0.0.1", int(live.url.rpartition(":")[2])
        await filled(hg, *map(str, range(10)))
        billing = hg.groups("billing", match="orders.*", create={"start": "0"})
        await billing.work(handle, stop=stop)
        assert set(handled.values()) == {1}


async def test_it_works_without_asyncio(live: Live) -> None:
    await live.append("orders.a", "1")

    def script() -> list[tuple[str | None, object]]:
        stop, handled = threading.Event(), list[tuple[str | None, object]]()

        def handle(job: headgate.BlockingJob) -> None:
            handled.append((job.stream, job.fields["v"]))
            stop.set()

        with headgate.Client(live.url) as hg:
            billing = hg.groups("billing", match="orders.*", create={"start": "0"})
            assert billing.match == "orders.*"
            billing.work(handle, stop=stop)
            assert billing.read("me") == []
        return handled

    assert await asyncio.to_thread(script) == [("orders.a", "1")]
