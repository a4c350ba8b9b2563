"""`@headgate/client` says whether it is connected, to whoever follows, reads a table or works."""

import signal
from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path

import httpx
import pytest

from deploy.local_cluster.server import free_ports
from tests.processes.gateway import HOST, Gateway
from tests.sdk.program import Program, running_program
from tests.sdk.typescript import program_folder
from tests.sdk.workshop import tool

ALL = ("stream", "table", "group")


class Place:
    """A gateway that is stopped, started again, or does not move for a while."""

    def __init__(self, data_dir: Path) -> None:
        [port] = free_ports(1)
        self._data_dir = data_dir
        self._settings = {"port": port, "ping_interval_ms": 500}
        self.url = f"http://{HOST}:{port}"

    async def start(self) -> Gateway:
        gateway = await Gateway.start(self._data_dir, self._settings)
        async with httpx.AsyncClient(base_url=f"{self.url}/v1/streams/") as client:
            await client.put("stock", json={"key_field": "sku"})
            await client.put("talk/groups/readers", json={"create_stream": True})
        return gateway


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "data")


@pytest.fixture
def javascript(tmp_path: Path) -> Path:
    return program_folder(tmp_path / "javascript")


@pytest.fixture(params=["socket", "events"])
async def program(
    place: Place, javascript: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Program]:
    words = (tool("node"), "connections.mjs", place.url, request.param)
    async with running_program(*words, folder=javascript) as running:
        yield running


async def until_all(program: Program, wanted: str) -> None:
    await program.until(lambda: all(program.all(name)[-1:] == [wanted] for name in ALL))


async def test_each_knows_that_the_gateway_is_gone_and_that_it_is_back(
    place: Place, program: Program
) -> None:
    """From the first moment on: it was not there when the program began."""
    await until_all(program, "lost")
    gateway = await place.start()
    await until_all(program, "live")
    await gateway.kill()
    await until_all(program, "lost")
    gateway = await place.start()
    await until_all(program, "live")
    await program.end()
    await gateway.stop()

    for name in ALL:
        lines = [line for line in program.lines if name in line]
        states = [state for state, _ in groupby(line[name] for line in lines)]
        assert states == ["lost", "live", "lost", "live"]
        for line in lines:
            assert (line["error"] or ["Disconnected"])[0] == "Disconnected"
            assert (line["error"] is None) == (line[name] != "lost")


@pytest.mark.parametrize("program", ["socket"], indirect=True)
async def test_a_gateway_that_does_not_answer_is_lost_within_a_heartbeat(
    place: Place, program: Program
) -> None:
    gateway = await place.start()
    await until_all(program, "live")
    gateway.signal_all(signal.SIGSTOP)
    await until_all(program, "lost")
    gateway.signal_all(signal.SIGCONT)
    await until_all(program, "live")
    await program.end()
    await gateway.stop()
