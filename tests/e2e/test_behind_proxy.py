"""The gateway behind nginx, set up as app/SECURITY.md shows it."""

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import httpx_sse
import pytest
from websockets.asyncio.client import connect

from tests.api.transport.certificates import Authority
from tests.crash.gateway import ROOT, Gateway
from tests.e2e.test_live_page import free_port

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
CLIENT = "127.0.0.5"
"""Where the client calls from, so that its address is not that of the proxy."""

_AROUND = """
daemon off; pid nginx.pid; error_log error.log; {user}
events {{ worker_connections 256; }}
http {{
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
{documented}
}}
"""


def documented() -> str:
    """Return the configuration that the page shows."""
    page = (ROOT / "app" / "SECURITY.md").read_text()
    [block] = re.findall(r"^```nginx\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return str(block)


class Proxy:
    """nginx in front of a gateway."""

    def __init__(self, folder: Path, gateway: Gateway, authority: Authority, path: str) -> None:
        self.port = free_port()
        self.root = f"https://127.0.0.1:{self.port}/streams"
        self.trust = authority.trust
        key = (folder / "data" / "first-key").read_text().strip()
        self.credential = {"authorization": f"Bearer {key}"}
        self.folder = folder
        self.log_lines = gateway.log_lines
        user = "user root;" if os.geteuid() == 0 else ""
        places = {
            "listen 443 ssl": f"listen 127.0.0.1:{self.port} ssl",
            "127.0.0.1:8080": gateway.url.removeprefix("http://"),
            "/etc/nginx/cert.pem": str(authority.certificate),
            "/etc/nginx/key.pem": str(authority.key),
            "/var/log/nginx/": "",
            "http://headgate;": f"http://headgate{path};",
        }
        text = documented()
        for shown, here in places.items():
            assert shown in text
            text = text.replace(shown, here)
        (folder / "nginx.conf").write_text(_AROUND.format(user=user, documented=text))

    def client(self) -> httpx.AsyncClient:
        transport = httpx.AsyncHTTPTransport(verify=self.trust, local_address=CLIENT)
        headers = {"host": "gw.example", **self.credential}
        return httpx.AsyncClient(
            base_url=self.root, transport=transport, headers=headers, timeout=10
        )


@pytest.fixture(params=["", "/"], ids=["path left in front", "path taken off"])
async def proxy(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Proxy]:
    if NGINX is None:
        assert not os.environ.get("CI"), "nginx is missing"
        pytest.skip("nginx is missing")
    settings = {
        "root_path": "/streams",
        "trusted_proxies": "127.0.0.1",
        "allowed_hosts": "gw.example",
        "first_key": "true",
    }
    gateway = await Gateway.start(tmp_path / "data", settings)
    proxy = Proxy(tmp_path, gateway, Authority(tmp_path), request.param)
    nginx = await asyncio.create_subprocess_exec(
        *(NGINX, "-p", str(tmp_path), "-c", "nginx.conf", "-e", "error.log"),
        stderr=asyncio.subprocess.PIPE,
    )
    await listening(proxy.port, nginx)
    yield proxy
    nginx.terminate()
    await nginx.communicate()
    await gateway.kill()


async def listening(port: int, nginx: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(10):
        while nginx.returncode is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return
    assert nginx.stderr is not None
    raise ChildProcessError((await nginx.stderr.read()).decode())


async def test_requests_and_links_work(proxy: Proxy) -> None:
    async with proxy.client() as http:
        appended = await http.post("/v1/streams/orders/entries", json={"fields": {"v": "1"}})
        location = appended.headers["location"]
        welcome = (await http.get("/")).text
        docs = (await http.get("/docs")).status_code

        assert appended.status_code == 201
        assert location.startswith("/streams/v1/streams/orders/entries/")
        assert (await http.get(f"https://127.0.0.1:{proxy.port}{location}")).status_code == 200
        assert " https://gw.example/streams/v1/streams/orders/entries " in welcome
        assert docs == 200


async def test_events_are_not_held_back(proxy: Proxy) -> None:
    async with proxy.client() as http, asyncio.timeout(10):
        await http.post("/v1/streams/orders/entries", json={"fields": {"v": "1"}})
        url = "/v1/streams/orders/events"
        async with httpx_sse.aconnect_sse(http, "GET", url) as source:
            events = source.aiter_sse()
            assert [(await anext(events)).event for _ in range(2)] == ["ready", "caught_up"]
            appended = await http.post("/v1/streams/orders/entries", json={"fields": {"v": "2"}})
            assert (await anext(events)).id == appended.json()["id"]


async def test_sockets_are_passed_on(proxy: Proxy) -> None:
    async with proxy.client() as http, asyncio.timeout(10):
        await http.post("/v1/streams/orders/entries", json={"fields": {"v": "1"}})
        url = "wss://gw.example/streams/v1/streams/orders/ws?after=0"
        async with connect(
            url,
            ssl=proxy.trust,
            additional_headers=proxy.credential,
            host="127.0.0.1",
            port=proxy.port,
            server_hostname="127.0.0.1",
        ) as socket:
            kinds = [json.loads(await socket.recv())["type"] for _ in range(3)]

    assert kinds == ["welcome", "subscribed", "entries"]


async def test_the_gateway_knows_the_address_of_the_client(proxy: Proxy) -> None:
    async with proxy.client() as http:
        forged = {"x-forwarded-for": "203.0.113.7", "forwarded": "for=203.0.113.8"}
        await http.put("/v1/streams/orders", headers=forged)
        async with asyncio.timeout(10):
            while not any('"act"' in line for line in proxy.log_lines):
                await asyncio.sleep(0.01)

    [line] = [json.loads(line) for line in proxy.log_lines if '"act"' in line]
    assert line["client"] == CLIENT


async def test_a_ticket_is_in_no_log(proxy: Proxy) -> None:
    async with proxy.client() as http:
        await http.get("/v1/streams?ticket=s3cret")
        await http.get("/v1/streams?%74icket=s3cret")

    logs = "".join(file.read_text() for file in proxy.folder.glob("*.log"))
    assert '"GET /streams/v1/streams"' in logs
    assert "s3cret" not in logs
