"""`make serve-cluster`: one cluster, two gateways, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import httpx
import httpx_sse
import pytest
from websockets.asyncio.client import connect

from deploy.local_cluster.cluster import BUS_OFFSET, SERVER_COUNT
from deploy.local_cluster.server import free_ports, is_free
from deploy.local_cluster.waiting import until
from tests.conditions import WITHIN_S
from tests.deploy.test_manifests import DEPLOY
from tests.installed import program
from tests.processes.gateway import headgate
from tests.servers.programs import valkey_server

ROOT = DEPLOY.parent
END_S_MAX = 30.0
GRANT = '{"streams": ["*"], "do": ["read", "append"], "create": true}'
ENTRIES = "/v1/streams/orders/entries"
EVENTS = "/v1/streams/orders/events"
ENTRY = {"fields": {"sku": "42"}}


class LocalCluster:
    """One life of the command."""

    def __init__(self, ports: list[int], server_port: int, *words: str | Path) -> None:
        self.urls = [f"http://127.0.0.1:{port}" for port in ports]
        self.ports = [*ports, *servers_from(server_port)]
        command = [sys.executable, "-m", "deploy.local_cluster", "--port", str(ports[0])]
        command += ["--server-port", str(server_port), *map(str, words)]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        self.output: list[str] = []

    def until_ready(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.output.append(line)
            if "Ctrl-C ends all" in line:
                return
        raise ChildProcessError("".join(self.output))

    def end(self, number: signal.Signals) -> int:
        """Send a signal, and return its exit code; everything else has ended then, too."""
        self.process.send_signal(number)
        self.output.append(self.process.communicate(timeout=END_S_MAX)[1])
        until(lambda: all(map(is_free, self.ports)), END_S_MAX, "all ports are free again")
        return self.process.returncode


@contextmanager
def local_cluster(ports: list[int], server_port: int, *words: str | Path) -> Iterator[LocalCluster]:
    valkey_server()  # skips or fails without it
    cluster = LocalCluster(ports, server_port, *words)
    try:
        cluster.until_ready()
        yield cluster
    finally:
        if cluster.process.poll() is None:
            cluster.end(signal.SIGKILL)


def servers_from(port: int) -> list[int]:
    """Return the ports of the servers: those for clients, and those for other servers."""
    ports = range(port, port + SERVER_COUNT)
    return [*ports, *(port + BUS_OFFSET for port in ports)]


def is_closed(http: httpx.Client) -> bool:
    return http.get(ENTRIES).status_code == 401


def ids(answer: httpx.Response) -> list[str]:
    return [entry["id"] for entry in answer.json()["entries"]]


def free_row(count: int) -> list[int]:
    """Return free ports in a row."""
    while True:
        [first] = free_ports(1)
        if all(map(is_free, row := range(first, first + count))):
            return list(row)


def free_server_port() -> int:
    """Return the first port of servers whose ports are free; `free_ports` returns none of them."""
    while True:
        port = random.randrange(2000, 9900)
        if all(map(is_free, servers_from(port))):
            return port


@asynccontextmanager
async def nginx(folder: Path, ports: list[int]) -> AsyncIterator[str]:
    """Run nginx as compose.yaml does, in front of gateways of this machine; yields its URL."""
    [port] = free_ports(1)
    text = (DEPLOY / "nginx.conf").read_text().replace("listen 8080", f"listen 127.0.0.1:{port}")
    for number, gateway in enumerate(ports, 1):
        text = text.replace(f"gateway-{number}:8080", f"127.0.0.1:{gateway}")
    text = text.replace("/tmp/nginx.pid", "nginx.pid").replace("/dev/stdout", "access.log")
    (folder / "nginx.conf").write_text(text)
    command = [program("nginx"), "-p", str(folder), "-c", "nginx.conf"]
    process = await asyncio.create_subprocess_exec(*command, "-g", "daemon off;")
    async with asyncio.timeout(WITHIN_S):
        while is_free(port):
            assert process.returncode is None
            await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    await process.wait()


async def follow_through_nginx(folder: Path, ports: list[int], credential: dict[str, str]) -> None:
    """Append, and follow by events and by a WebSocket, all through nginx."""
    async with (
        nginx(folder, ports) as url,
        httpx.AsyncClient(headers=credential, timeout=10) as http,
        asyncio.timeout(WITHIN_S),
    ):
        address = f"{url}/v1/streams/followed"
        await http.post(f"{address}/entries", json=ENTRY)
        async with httpx_sse.aconnect_sse(http, "GET", f"{address}/events") as source:
            events = source.aiter_sse()
            assert [(await anext(events)).event for _ in range(2)] == ["ready", "caught_up"]
            appended = await http.post(f"{address}/entries", json=ENTRY)
            assert (await anext(events)).id == appended.json()["id"]
        socket_url = f"{address.replace('http', 'ws')}/ws?after=0"
        async with connect(socket_url, additional_headers=credential) as socket:
            kinds = [json.loads(await socket.recv())["type"] for _ in range(3)]
            assert kinds == ["welcome", "subscribed", "entries"]


def test_two_gateways_serve_one_cluster_which_is_there_again_later(tmp_path: Path) -> None:
    ports, server_port, data = free_row(2), free_server_port(), tmp_path / "cluster"
    with local_cluster(ports, server_port, "--data-dir", data) as cluster:
        first, second = cluster.urls
        with httpx.Client(base_url=first) as http, httpx.Client(base_url=second) as other:
            entry_id = http.post(ENTRIES, json=ENTRY).json()["id"]
            assert ids(other.get(ENTRIES)) == [entry_id]

            key = headgate("keys", "add", "me", "--grant", GRANT, "--data-dir", data).stdout
            credential = {"authorization": f"Bearer {key.strip()}"}
            for client in (http, other):  # both take the new key, and then refuse strangers
                until(partial(is_closed, client), 10, "the keys are taken")
                assert client.get(ENTRIES, headers=credential).status_code == 200
            body = {"stream": "orders", "do": ["read"]}
            ticket = http.post("/v1/tickets", headers=credential, json=body).json()["ticket"]
            with other.stream("GET", EVENTS, params={"ticket": ticket}) as events:
                assert events.status_code == 200
        asyncio.run(follow_through_nginx(tmp_path, ports, credential))
        assert cluster.end(signal.SIGINT) == 0

    with local_cluster(ports, server_port, "--data-dir", data) as cluster:
        assert ids(httpx.get(cluster.urls[0] + ENTRIES, headers=credential)) == [entry_id]
        cluster.end(signal.SIGKILL)  # the servers and the gateways end all the same


@pytest.mark.parametrize("whose", ["gateway", "server"])
def test_a_port_that_is_taken_is_named(whose: str) -> None:
    ports, server_port = free_row(2), free_server_port()
    taken = ports[1] if whose == "gateway" else server_port + 3
    flag = "--port" if whose == "gateway" else "--server-port"
    with socket.create_server(("127.0.0.1", taken)):
        cluster = LocalCluster(ports, server_port, "--temporary")
        output = cluster.process.communicate(timeout=END_S_MAX)[1]
    assert cluster.process.returncode == 1
    assert re.search(rf"port {taken}\b.* {flag} ", output)
