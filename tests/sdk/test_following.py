"""Real clients of events and sockets: a restart of the gateway costs them nothing."""

import asyncio
import contextlib
import re
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import httpx_sse
import pytest

from examples import follow
from tests.crash.gateway import Gateway
from tests.sdk.program import running_program
from tests.sdk.workshop import FOLDER, ROOT, node_modules, npm_tool, output_of, tool

SESSIONS = FOLDER / "sessions"
EXAMPLES = ROOT / "examples"


class Restartable:
    """A gateway that keeps its address and its data from one life to the next."""

    def __init__(self, data_dir: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self._settings = {"port": listening.getsockname()[1]}
        self._data_dir = data_dir
        self._gateway: Gateway | None = None

    @property
    def url(self) -> str:
        assert self._gateway is not None
        return self._gateway.url

    async def start(self) -> None:
        self._gateway = await Gateway.start(self._data_dir, self._settings)

    async def stop(self) -> None:
        assert self._gateway is not None
        await self._gateway.stop()
        self._gateway = None

    async def append(self, count: int) -> list[str]:
        batch = [{"fields": {"n": str(number)}} for number in range(count)]
        async with httpx.AsyncClient(base_url=self.url) as client:
            answer = await client.post("/v1/streams/talk/entries/batch", json=batch)
        assert answer.status_code == 201, answer.text
        ids: list[str] = answer.json()["ids"]
        return ids

    def kill(self) -> None:
        if self._gateway is not None:
            self._gateway.kill_now()


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Restartable]:
    gateway = Restartable(tmp_path / "data")
    await gateway.start()
    yield gateway
    with contextlib.suppress(AssertionError):
        await gateway.stop()


@pytest.fixture
def javascript(tmp_path: Path) -> Path:
    """Return a folder where modules may import what npm installed, and the example client."""
    folder = tmp_path / "javascript"
    folder.mkdir()
    (folder / "node_modules").symlink_to(node_modules())
    (folder / "package.json").write_text('{"type": "module"}')
    for file in (*SESSIONS.glob("[af]*-*.mjs"), EXAMPLES / "headgate-client.js"):
        shutil.copy(file, folder)
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
        async with asyncio.timeout(30):
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


async def test_the_typescript_client_works_on_after_a_restart(
    gateway: Restartable, javascript: Path
) -> None:
    ids = await gateway.append(5)
    async with httpx.AsyncClient(base_url=gateway.url) as client:
        await client.put("/v1/streams/talk/groups/readers", json={"start": "0"})

    # Node has a WebSocket of its own behind this flag, and later without it.
    script = ("--experimental-websocket", "follow-socket.mjs", gateway.url)
    async with running_program(tool("node"), *script, folder=javascript) as program:
        await program.until(lambda: len(program.all("acked")) == len(ids))
        await gateway.stop()
        await program.until(lambda: "lost" in program.all("state"))
        await gateway.start()
        ids += await gateway.append(5)
        await program.until(lambda: len(set(program.all("acked"))) == len(ids))
        await program.write_line("hello")
        await program.until(lambda: bool(program.all("appended")))
        [[appended]] = program.all("appended")
        ids.append(appended)
        await program.until(lambda: len(set(program.all("acked"))) == len(ids))
        await program.until(lambda: len(program.all("tailed")) == len(ids))
        async with httpx.AsyncClient(base_url=gateway.url) as client:
            group = (await client.get("/v1/streams/talk/groups/readers")).json()
        await program.end()

    assert program.all("tailed") == ids
    assert program.all("acked") == ids
    assert set(program.all("outcome")) == {"acked"}
    assert (group["pending"], group["lag"]) == (0, 0)
    assert program.all("ended") == ["group_not_found"]
    assert {"state": "closed", "code": 1000} in program.lines


async def test_the_snippet_of_the_typescript_client_runs_as_it_stands(
    gateway: Restartable, javascript: Path
) -> None:
    page = (EXAMPLES / "typescript" / "README.md").read_text()
    [snippet] = re.findall(r"^```ts\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    folder = javascript / "typescript"
    folder.mkdir()
    (folder / "snippet.mjs").write_text(snippet.replace("http://localhost:8080", gateway.url))

    script = ("--experimental-websocket", "snippet.mjs")
    process = await asyncio.create_subprocess_exec(tool("node"), *script, cwd=folder)
    try:
        async with asyncio.timeout(30), httpx.AsyncClient(base_url=gateway.url) as client:
            while True:
                answer = await client.get("/v1/streams/orders/groups/billing")
                group = answer.json() if answer.is_success else {}
                if (group.get("entries_read"), group.get("pending")) == (1, 0):
                    break
                await asyncio.sleep(0.05)
    finally:
        process.kill()
        await process.wait()


async def test_appends_wait_for_a_connection_in_their_order(
    gateway: Restartable, javascript: Path
) -> None:
    """Also one that is made while the gateway is away; none waits for a client that is closed."""
    script = ("--experimental-websocket", "append-early.mjs", gateway.url.removeprefix("http://"))
    async with running_program(tool("node"), *script, folder=javascript) as program:
        await program.until(lambda: len(program.all("appended")) == 2)
        await gateway.stop()
        await program.until(lambda: "lost" in program.all("state"))
        await program.write_line("while it is away")
        await gateway.start()
        await program.until(lambda: len(program.all("appended")) == 3)
        async with httpx.AsyncClient(base_url=gateway.url) as client:
            entries = (await client.get("/v1/streams/talk/entries")).json()["entries"]
        await program.end()

    assert [entry["fields"]["text"] for entry in entries] == ["1", "2", "while it is away"]
    assert [entry["id"] for entry in entries] == program.all("appended")
    assert program.all("refused") == [
        "there is no connection, or it was lost before the answer came"
    ]


async def test_the_typescript_client_is_what_its_source_compiles_to(tmp_path: Path) -> None:
    source = EXAMPLES / "typescript"
    folder = tmp_path / "examples" / "typescript"
    folder.mkdir(parents=True)
    for name in ("headgate-client.ts", "types.mjs", "tsconfig.json", "package.json"):
        shutil.copy(source / name, folder)
    (folder / "node_modules").symlink_to(node_modules())

    document = ROOT / "openapi" / "asyncapi.json"
    await output_of(tool("node"), "types.mjs", document, folder=folder)
    assert (folder / "frames.d.ts").read_text() == (source / "frames.d.ts").read_text()
    await output_of(npm_tool("tsc"), "--project", ".", folder=folder)
    made = (folder.parent / "headgate-client.js").read_text()
    committed = (EXAMPLES / "headgate-client.js").read_text()
    assert made == committed, "run `npm run types && npm run build` in examples/typescript"
