"""Clients of others, and our examples: a restart of the gateway costs them nothing."""

import asyncio
import contextlib
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import httpx_sse
import pytest

from examples import follow
from tests.conditions import WITHIN_S
from tests.sdk.program import running_program
from tests.sdk.restartable import Restartable
from tests.sdk.workshop import FOLDER, ROOT, node_modules, tool


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Restartable]:
    gateway = Restartable(tmp_path / "data")
    await gateway.start()
    yield gateway
    with contextlib.suppress(AssertionError):
        await gateway.stop()


@pytest.fixture
def javascript(tmp_path: Path) -> Path:
    """Return a folder for modules that import npm packages."""
    folder = tmp_path / "javascript"
    folder.mkdir()
    (folder / "node_modules").symlink_to(node_modules())
    (folder / "package.json").write_text('{"type": "module"}')
    shutil.copy(FOLDER / "sessions" / "follow-events.mjs", folder)
    return folder


@pytest.mark.parametrize("kind", ["eventsource", "fetch-event-source"])
async def test_events_go_on_where_they_were_with_clients_from_npm(
    gateway: Restartable, javascript: Path, kind: str
) -> None:
    ids = await gateway.append(5)
    url = f"{gateway.url}/v1/streams/talk/events?after=0"
    script = ("follow-events.mjs", kind, url)
    async with running_program(tool("node"), *script, folder=javascript) as program:
        await program.until(lambda: len(program.all("tailed")) == len(ids))
        await gateway.stop()
        await gateway.start()
        ids += await gateway.append(5)
        await program.until(lambda: len(program.all("tailed")) == len(ids))
        await program.end()

    assert program.all("tailed") == ids


async def test_the_event_source_of_the_readme_gets_the_entries(
    gateway: Restartable, javascript: Path
) -> None:
    page = (ROOT / "README.md").read_text()
    [snippet] = re.findall(r"^```js\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    program = snippet.replace("http://localhost:8080", gateway.url).replace("/orders/", "/talk/")
    start = 'import { EventSource } from "eventsource";\n'  # which a browser has
    (javascript / "snippet.mjs").write_text(start + program)
    ids = await gateway.append(3)

    process = await asyncio.create_subprocess_exec(
        *(tool("node"), "snippet.mjs"), cwd=javascript, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(WITHIN_S):
            lines = [(await process.stdout.readline()).decode() for _ in ids]
    finally:
        process.kill()
        await process.communicate()

    assert lines == [f"{entry_id} {{ n: '{n}' }}\n" for n, entry_id in enumerate(ids)]


async def test_events_go_on_where_they_were_with_httpx_sse(gateway: Restartable) -> None:
    ids = await gateway.append(5)
    tailed: list[str] = []

    async def read(count: int) -> None:
        """Read until so many entries are here, or the connection ends."""
        headers = {"Last-Event-ID": tailed[-1]} if tailed else {}
        url = f"{gateway.url}/v1/streams/talk/events?after=0"
        async with (
            httpx.AsyncClient(timeout=30) as client,
            httpx_sse.aconnect_sse(client, "GET", url, headers=headers) as source,
        ):
            async for event in source.aiter_sse():
                if event.event == "entry":
                    tailed.append(event.id)
                if len(tailed) == count:
                    return

    async with asyncio.timeout(40):
        await read(5)
        following = asyncio.create_task(read(20))  # more than come: the restart ends it
        await gateway.stop()
        await asyncio.gather(following, return_exceptions=True)
        await gateway.start()
        ids += await gateway.append(5)
        await read(10)

    assert tailed == ids


@pytest.mark.parametrize("by_socket", [False, True])
async def test_the_python_example_prints_every_entry_once(
    gateway: Restartable, by_socket: bool
) -> None:
    ids = await gateway.append(5)
    printed: list[str] = []
    async with (
        asyncio.timeout(40),
        contextlib.aclosing(follow.follow(gateway.url, "talk", by_socket=by_socket)) as entries,
    ):
        async for entry in entries:
            printed.append(entry["id"])
            if len(printed) == 5:
                await gateway.stop()
                await gateway.start()
                ids += await gateway.append(5)
            if len(printed) == 10:
                break

    assert printed == ids


@pytest.mark.parametrize("by_socket", [False, True])
async def test_the_python_example_gives_up_where_there_is_no_stream(
    gateway: Restartable, by_socket: bool
) -> None:
    async with asyncio.timeout(40):
        with pytest.raises(follow.GaveUp, match="There is no stream 'talk'"):
            await anext(aiter(follow.follow(gateway.url, "talk", by_socket=by_socket)))
