"""The Python client through losses: the gateway ends and begins again, connections are cut."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

import headgate
from headgate.app.settings import Settings
from headgate.client.commits import append
from tests.api.conftest import Live, running
from tests.conditions import WITHIN_S, until
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


async def test_a_follower_of_a_pattern_misses_nothing(tmp_path: Path, proxy: Proxy) -> None:
    settings = Settings(data_dir=tmp_path)
    async with (
        headgate.AsyncClient(f"127.0.0.1:{proxy.port}", producer="p") as hg,
        hg.follow("orders.*", after="0") as entries,
    ):
        for _ in range(3):  # lives of the gateway
            async with running(settings) as live:
                proxy.target = target(live)
                for _ in range(3):
                    appended = set[tuple[str | None, str]]()
                    for number in range(20):
                        name = f"orders.{number % 7}"
                        appended.add((name, await hg.stream(name).append({"n": "x"})))
                        if number == 10:
                            proxy.cut()
                    while appended:
                        entry = await anext(entries)
                        appended.discard((entry.stream, entry.id))
                proxy.target = None


@pytest.mark.parametrize("consumer", [None, "me"])
async def test_an_entry_is_settled_once(tmp_path: Path, proxy: Proxy, consumer: str | None) -> None:
    settings = Settings(data_dir=tmp_path)
    stop, handled = asyncio.Event(), Counter[str]()

    async def handle(job: headgate.Job) -> None:
        await asyncio.sleep(0)
        handled[job.id] += 1

    async with headgate.AsyncClient(f"127.0.0.1:{proxy.port}", producer="p") as hg:
        billing = hg.group("orders", "billing")
        async with running(settings) as live:  # work on what is not there would end
            proxy.target = target(live)
            await billing.create(start="0")
            proxy.target = None
        working = asyncio.ensure_future(
            billing.work(handle, concurrency=8, consumer=consumer, stop=stop)
        )
        ids: set[str] = set()
        for life in range(3):
            async with running(settings) as live:
                proxy.target = target(live)
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


async def test_what_is_no_gateway_ends_a_follower() -> None:
    bodies = ["no JSON", '"text"', "[]", "{}"]

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = bodies[-1]
        writer.write(f"HTTP/1.1 403 No\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, headgate.AsyncClient(f"127.0.0.1:{port}") as hg, asyncio.timeout(WITHIN_S):
        while bodies:
            with pytest.raises(headgate.HeadgateError):
                await anext(hg.stream("orders").follow())
            bodies.pop()


async def test_a_subscription_that_was_refused_is_tried_again_once() -> None:
    asked: list[str] = []

    async def talk(socket: ServerConnection) -> None:
        async for text in socket:
            asked.append(json.loads(text)["type"])
            if len(asked) == 1:  # as when a read fails that had begun
                problem = {"code": "unavailable", "retryable": True, "retry_after_ms": 50}
                await say(socket, type="problem", sub="1", problem=problem)
                await say(socket, type="unsubscribed", sub="1", reason="failed")
            else:
                await say(socket, type="subscribed", sub="1", position="0-0")
                entry = {"id": f"{len(asked)}-0", "fields": {}}
                await say(socket, type="entries", sub="1", entries=[entry], credit_left=9)

    async with (
        serve(talk, "127.0.0.1", 0, subprotocols=[Subprotocol("headgate.v1.json")]) as server,
        headgate.AsyncClient(f"127.0.0.1:{server.sockets[0].getsockname()[1]}") as hg,
        hg.stream("orders").follow() as entries,
    ):
        assert (await anext(entries)).id == "2-0"
        waiting = asyncio.ensure_future(anext(entries))
        await asyncio.wait([waiting], timeout=1.3)  # its end was noted after its problem
        waiting.cancel()
        await asyncio.wait([waiting])
    assert asked == ["subscribe", "subscribe"]


async def say(socket: ServerConnection, **frame: object) -> None:
    await socket.send(json.dumps(frame))


async def test_a_gateway_that_ends_each_connection_is_asked_less_and_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts: list[int] = []

    def backoff_s(attempt: int) -> float:
        attempts.append(attempt)
        return 0.0

    monkeypatch.setattr("headgate.client.live.backoff_s", backoff_s)

    async def end(socket: ServerConnection) -> None:
        await socket.close(1013, "overloaded")

    async with (
        serve(end, "127.0.0.1", 0, subprotocols=[Subprotocol("headgate.v1.json")]) as server,
        headgate.AsyncClient(f"127.0.0.1:{server.sockets[0].getsockname()[1]}") as hg,
    ):
        following = asyncio.ensure_future(anext(hg.stream("orders").follow()))
        await until(lambda: len(attempts) >= 5)
        following.cancel()
        await asyncio.wait([following])
    assert attempts == [*range(len(attempts))]


async def test_a_job_that_came_again_while_it_was_in_work_is_committed(
    tmp_path: Path, proxy: Proxy
) -> None:
    async with (
        running(Settings(data_dir=tmp_path)) as live,
        headgate.AsyncClient(f"127.0.0.1:{proxy.port}") as hg,
    ):
        proxy.target = target(live)
        billing = hg.group("orders", "billing")
        await billing.create(start="0")
        await hg.stream("orders").append({"n": "1"})
        async with billing.consume() as jobs, await anext(jobs) as job:
            proxy.cut()
            await until(lambda: job.is_lost)
            await until(lambda: not job.is_lost)
            await job.commit(append("bills", {"n": "1"}))
        assert (await billing.info())["pending"] == 0
        assert len((await hg.stream("bills").read(after="0")).entries) == 1
