"""Clients in two languages that know two gateways on one bucket, whose leader is killed."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import headgate
from tests.sdk.pair import Pair
from tests.sdk.typescript import program_folder
from tests.sdk.workshop import output_of, tool

ENTRIES = 200


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    pair = Pair(tmp_path)
    try:
        await pair.start()
        yield pair
    finally:
        await pair.kill()


async def kill_each(pair: Pair) -> None:
    """Kill the leader twice, so that each gateway has led."""
    for _ in range(2):
        await pair.kill_leader()
        await pair.start()


async def test_nothing_is_lost_in_python(pair: Pair) -> None:
    stop, handled, appended, followed = asyncio.Event(), Counter[str](), list[str](), list[str]()

    async def handle(job: headgate.Job) -> None:
        handled[job.id] += 1

    async def append(hg: headgate.AsyncClient, killing: asyncio.Task[None]) -> None:
        while not killing.done() or len(appended) < ENTRIES:
            appended.append(await hg.stream("orders").append({"n": str(len(appended))}))

    async def follow(hg: headgate.AsyncClient) -> None:
        async for entry in hg.stream("orders").follow(after="0"):
            followed.append(entry.id)
            if entry.fields["n"] == "last":
                return

    urls = pair.urls
    async with (
        asyncio.timeout(120),
        headgate.AsyncClient(urls, producer="p", retry_s=60) as hg,
        headgate.AsyncClient(",".join(reversed(urls)), retry_s=60) as other,
    ):
        billing = other.group("orders", "billing")
        await billing.create(start="0")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(billing.work(handle, concurrency=4, stop=stop))
            following = tasks.create_task(follow(other))
            await append(hg, tasks.create_task(kill_each(pair)))
            appended.append(await hg.stream("orders").append({"n": "last"}))
            await following
            while (info := await billing.info())["pending"] or info["lag"]:
                await asyncio.sleep(0.05)
            stop.set()
        length = (await hg.stream("orders").info())["length"]
    assert length == len(appended)
    assert followed == appended
    assert set(handled) == set(appended)


@pytest.mark.parametrize("transport", ["socket", "events"])
async def test_nothing_is_lost_in_typescript(pair: Pair, tmp_path: Path, transport: str) -> None:
    folder = await asyncio.to_thread(program_folder, tmp_path / "program")
    lines, appended = dict[str, list[str]](seen=[], done=[], appended=[]), list[str]()
    urls = list(reversed(pair.urls))
    async with asyncio.timeout(120), headgate.AsyncClient(urls, producer="p", retry_s=60) as hg:
        process = await asyncio.create_subprocess_exec(
            tool("node"),
            "leaders.mjs",
            transport,
            *urls,
            cwd=folder,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            killing = asyncio.create_task(kill_each(pair))
            while not killing.done() or len(appended) < ENTRIES:
                appended.append(await hg.stream("orders").append({"n": str(len(appended))}))
            appended.append(await hg.stream("orders").append({"n": "last"}))
            async for line in process.stdout:
                kind, entry_id = line.decode().split()
                lines[kind].append(entry_id)
                if kind != "appended" and set(lines["done"]) == set(lines["seen"]) == set(appended):
                    process.terminate()
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert lines["seen"] == appended
    assert set(lines["done"]) == set(appended)
    assert len(lines["appended"]) == 1


@pytest.mark.parametrize(
    ("leader", "asked"),
    [
        ("https://c.example/", "ac"),
        ("https://elsewhere.example", "abc"),
        ("https://a.example", "ababc"),  # whoever is named is asked once more
        ("", "abc"),
    ],
)
async def test_a_token_goes_to_given_addresses_only_in_typescript(
    tmp_path: Path, leader: str, asked: str
) -> None:
    folder = await asyncio.to_thread(program_folder, tmp_path / "program")
    output = json.loads(await output_of(tool("node"), "addresses.mjs", leader, folder=folder))
    assert output["asked"] == [f"https://{name}.example Bearer secret" for name in asked]
    assert output["url"] == "https://c.example"


async def test_a_program_without_asyncio_finds_the_leader(pair: Pair) -> None:
    def append() -> int:
        with headgate.Client(pair.urls, retry_s=60) as hg:
            return len(hg.stream("orders").append_many([{"n": "1"}] * 3))

    assert await asyncio.to_thread(append) == 3
    await pair.kill_leader()
    assert await asyncio.to_thread(append) == 3
