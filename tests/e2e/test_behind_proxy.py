"""The gateway behind nginx and Caddy, set up as deploy/proxy shows it."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import httpx_sse
import pytest
import pytest_asyncio
from playwright.async_api import Browser
from websockets.asyncio.client import connect

from deploy.local_cluster.server import free_ports, is_free
from tests.api.transport.certificates import Authority
from tests.conditions import WITHIN_S, until
from tests.installed import program
from tests.processes.gateway import ROOT, Gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")

CLIENT = "127.0.0.5"
"""Address of the client, so that it is not that of the proxy."""

SOURCES = 200
"""Event sources of one page. Over HTTP/1.1 a browser opens six of them."""

_OPEN_ALL = """async ([count, ticket]) => {
  const place = "/streams/v1/streams/orders";
  const event = (source, name) => new Promise((resolve) => source.addEventListener(name, resolve));
  const opening = [...Array(count)].map(() => new EventSource(`${place}/events?ticket=${ticket}`));
  const socket = new WebSocket(`wss://${location.host}${place}/ws?ticket=${ticket}`);
  const frame = (wanted) => new Promise((resolve) => socket.addEventListener("message", (event) => {
    const { type, entries } = JSON.parse(event.data);
    if (type === wanted) resolve(entries?.[0].id);
  }));
  await Promise.all([frame("subscribed"), ...opening.map((source) => event(source, "caught_up"))]);
  const id = async (source) => (await event(source, "entry")).lastEventId;
  window.arriving = Promise.all([frame("entries"), ...opening.map(id)]);
  return performance.getEntriesByType("navigation")[0].nextHopProtocol;
}"""

_AROUND_NGINX = """
daemon off; master_process off; pid nginx.pid; error_log error.log; {user}
events {{ worker_connections 1024; }}
http {{
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
{documented}
}}
"""


def configured(name: str, places: dict[str, str]) -> str:
    """Return a file that users copy, with what differs here."""
    text = (ROOT / "deploy" / "proxy" / name).read_text()
    for shown, here in places.items():
        assert shown in text
        text = text.replace(shown, here)
    return text


class Proxy:
    """A proxy in front of a gateway."""

    def __init__(self, folder: Path, gateway: Gateway, authority: Authority) -> None:
        [self.port] = free_ports(1)
        self.root = f"https://127.0.0.1:{self.port}/streams"
        self.trust = authority.trust
        key = (folder / "data" / "first-key").read_text().strip()
        self.credential = {"authorization": f"Bearer {key}"}
        self.folder = folder
        self.log_lines = gateway.log_lines
        self.gateway = gateway
        self._address = gateway.url.removeprefix("http://")
        self._authority = authority

    def nginx(self, path: str) -> list[str]:
        """Configure nginx; returns its command.

        Args:
            path: behind the address of the gateway.
        """
        user = "user root;" if os.geteuid() == 0 else ""
        text = configured(
            "nginx.conf",
            {
                "listen 443 ssl": f"listen 127.0.0.1:{self.port} ssl",
                "127.0.0.1:8080": self._address,
                "/etc/nginx/cert.pem": str(self._authority.certificate),
                "/etc/nginx/key.pem": str(self._authority.key),
                "/var/log/nginx/": "",
                "http://headgate;": f"http://headgate{path};",
            },
        )
        (self.folder / "nginx.conf").write_text(_AROUND_NGINX.format(user=user, documented=text))
        words = ["-p", str(self.folder), "-c", "nginx.conf", "-e", "error.log"]
        return [program("nginx"), *words]

    def caddy(self) -> list[str]:
        """Configure Caddy; returns its command."""
        address = f"\tbind 127.0.0.1\n\ttls {self._authority.certificate} {self._authority.key}"
        output = f"output file {self.folder}/caddy.log"
        text = configured(
            "Caddyfile",
            {
                "gw.example {": f"https://gw.example:{self.port} {{\n{address}",
                "127.0.0.1:8080": self._address,
                "\tlog {": f"\tadmin off\n\tauto_https disable_redirects\n\tlog {{\n\t\t{output}",
            },
        )
        path = self.folder / "Caddyfile"
        path.write_text(text)
        return [program("caddy"), "run", "--adapter", "caddyfile", "--config", str(path)]

    def logs(self) -> str:
        return "".join(file.read_text() for file in self.folder.glob("*.log"))

    def client(self) -> httpx.AsyncClient:
        transport = httpx.AsyncHTTPTransport(verify=self.trust, local_address=CLIENT)
        headers = {"host": "gw.example", **self.credential}
        return httpx.AsyncClient(
            base_url=self.root, transport=transport, headers=headers, timeout=WITHIN_S
        )


@pytest_asyncio.fixture(
    loop_scope="session", params=["nginx", "nginx that takes the path off", "caddy"]
)
async def proxy(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Proxy]:
    settings = {
        "root_path": "/streams",
        "trusted_proxies": "127.0.0.1",
        "allowed_hosts": "gw.example",
        "first_key": "true",
    }
    gateway = await Gateway.start(tmp_path / "data", settings)
    proxy = Proxy(tmp_path, gateway, Authority(tmp_path))
    commands = {
        "nginx": lambda: proxy.nginx(""),
        "nginx that takes the path off": lambda: proxy.nginx("/"),
        "caddy": proxy.caddy,
    }
    process = await asyncio.create_subprocess_exec(
        *commands[request.param](),
        env={**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)},
        stderr=asyncio.subprocess.PIPE,
    )
    await listening(proxy.port, process)
    yield proxy
    process.kill()  # Caddy would wait for connections that stay open
    await process.communicate()
    await gateway.kill()


async def listening(port: int, process: asyncio.subprocess.Process) -> None:
    await until(lambda: not is_free(port) or process.returncode is not None, 60)
    if process.returncode is not None:
        assert process.stderr is not None
        raise ChildProcessError((await process.stderr.read()).decode())


async def requests_and_links_work(proxy: Proxy) -> None:
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


async def events_are_not_held_back(proxy: Proxy) -> None:
    async with proxy.client() as http, asyncio.timeout(WITHIN_S):
        await http.post("/v1/streams/orders/entries", json={"fields": {"v": "1"}})
        url = "/v1/streams/orders/events"
        async with httpx_sse.aconnect_sse(http, "GET", url) as source:
            events = source.aiter_sse()
            assert [(await anext(events)).event for _ in range(2)] == ["ready", "caught_up"]
            appended = await http.post("/v1/streams/orders/entries", json={"fields": {"v": "2"}})
            assert (await anext(events)).id == appended.json()["id"]


async def sockets_are_passed_on(proxy: Proxy) -> None:
    async with proxy.client() as http, asyncio.timeout(WITHIN_S):
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


async def the_gateway_knows_the_address_of_the_client(proxy: Proxy) -> None:
    async with proxy.client() as http:
        forged = {"x-forwarded-for": "203.0.113.7", "forwarded": "for=203.0.113.8"}
        await http.put("/v1/streams/forged", headers=forged)
        await until(lambda: any("forged" in line for line in proxy.log_lines), 60)

    [line] = [json.loads(line) for line in proxy.log_lines if '"act"' in line and "forged" in line]
    assert line["client"] == CLIENT


async def a_ticket_is_in_no_log(proxy: Proxy) -> None:
    async with proxy.client() as http:
        await http.get("/v1/streams?ticket=s3cret")
        await http.get("/v1/streams?%74icket=s3cret")
        await proxy.gateway.kill()
        assert (await http.get("/v1/streams?ticket=s3cret")).status_code == 502

    await until(lambda: len(re.findall(r"/streams/v1/streams[?\"]", proxy.logs())) >= 3, 60)
    assert "s3cret" not in proxy.logs()


async def event_sources_share_a_connection(proxy: Proxy, browser: Browser) -> None:
    context = await browser.new_context(ignore_https_errors=True)
    page = await context.new_page()
    async with proxy.client() as http, asyncio.timeout(WITHIN_S):
        await http.post("/v1/streams/orders/entries", json={"fields": {"v": "1"}})
        scope = {"stream": "orders", "do": ["read"]}
        ticket = (await http.post("/v1/tickets", json=scope)).json()["ticket"]
        await page.goto(f"https://gw.example:{proxy.port}/streams/healthz")
        assert await page.evaluate(_OPEN_ALL, [SOURCES, ticket]) == "h2"
        appended = await http.post("/v1/streams/orders/entries", json={"fields": {"v": "2"}})
        arrived = await page.evaluate("window.arriving")
        assert arrived == [appended.json()["id"]] * (SOURCES + 1)
    await context.close()


async def test_what_users_copy_serves_them(proxy: Proxy, browser: Browser) -> None:
    await requests_and_links_work(proxy)
    await events_are_not_held_back(proxy)
    await sockets_are_passed_on(proxy)
    await event_sources_share_a_connection(proxy, browser)
    await the_gateway_knows_the_address_of_the_client(proxy)
    await a_ticket_is_in_no_log(proxy)
