"""A React page whose gateway is not there, comes, goes, and refuses it: it says so each time."""

import time
from pathlib import Path

import httpx
import jwt
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from deploy.local_cluster.server import free_ports
from tests.e2e.pages import served
from tests.processes.gateway import HOST, Gateway
from tests.sdk.typescript import app_folder, packages
from tests.sdk.workshop import output_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET, OTHER_SECRET = (f"secret {name} of the issuer and the gateway" for name in "ab")
GRANTS = [{"streams": ["orders", "stock"], "do": ["read", "append", "consume", "manage"]}]
HOOKS = ("stream", "table", "group")
MAIN = """
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import App from "./board.js";
createRoot(document.getElementById("root")!).render(<StrictMode><App /></StrictMode>);
"""


def token() -> str:
    claims = {"sub": "me", "exp": time.time() + 600, "headgate": GRANTS}
    return jwt.encode(claims, SECRET, "HS256")


class Place:
    """A gateway at one address, which takes the tokens of an issuer."""

    def __init__(self, data_dir: Path, pages_url: str) -> None:
        [port] = free_ports(1)
        self._data_dir = data_dir
        self._settings = {"port": port, "allowed_origins": pages_url}
        self.url = f"http://{HOST}:{port}"

    async def start(self, secret: str = SECRET) -> Gateway:
        return await Gateway.start(self._data_dir, {**self._settings, "jwt_secret": secret})

    async def fill(self) -> None:
        """Make what the page shows."""
        gateway = await self.start()
        async with self.client() as client:
            await client.put("stock", json={"key_field": "sku"})
            await client.put("orders/groups/readers", json={"create_stream": True})
            await client.put("stock/table/42", json={"fields": {"count": "3"}})
            await client.post("orders/entries", json={"fields": {"n": "first"}})
        await gateway.stop()

    def client(self) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {token()}"}
        return httpx.AsyncClient(base_url=f"{self.url}/v1/streams/", headers=headers)


@pytest_asyncio.fixture(loop_scope="session")
async def app(tmp_path: Path) -> Path:
    folder = app_folder(tmp_path)
    (folder / "main.tsx").write_text(MAIN)
    await output_of(packages() / ".bin" / "vite", "build", folder=folder)
    return folder / "dist"


async def until_all(page: Page, connection: str, error: str) -> None:
    for name in HOOKS:
        place = page.locator(f"#{name}[data-connection={connection}]")
        await expect(place).to_contain_text(error)


@pytest.mark.parametrize("transport", ["socket", "events"])
async def test_a_page_says_whether_it_sees_what_happens(
    browser: Browser, tmp_path: Path, app: Path, transport: str
) -> None:
    """What it has shown stays. A stream that it may not read is refused, and nothing else is."""
    with served(app) as pages_url:
        place = Place(tmp_path / "data", pages_url)
        await place.fill()
        page = await browser.new_page()
        await page.expose_function("freshToken", token)
        await page.goto(f"{pages_url}/?url={place.url}&transport={transport}")
        await until_all(page, "lost", "cannot be reached")

        gateway = await place.start()
        await until_shown(page, ["first"])
        secret = page.locator("#secret[data-connection=refused]")
        await expect(secret).to_contain_text("does not allow it")

        await gateway.stop()
        await until_all(page, "lost", "")
        assert await page.locator("[data-state=caught_up]").count() == 0
        await expect(page.locator("#entries li")).to_have_text(["first"])

        gateway = await place.start()
        async with place.client() as client:
            await client.post("orders/entries", json={"fields": {"n": "second"}})
        await until_shown(page, ["first", "second"])

        await gateway.stop()
        gateway = await place.start(OTHER_SECRET)
        await until_all(page, "refused", "not valid")
        await expect(page.locator("#rows li")).to_have_text(["42: 3"])
        await page.close()
        await gateway.stop()


async def until_shown(page: Page, entries: list[str]) -> None:
    """Return once the page shows what there is, and that it is so."""
    await expect(page.locator("#entries li")).to_have_text(entries)
    await expect(page.locator("#rows li")).to_have_text(["42: 3"])
    await until_all(page, "live", "")
    await expect(page.locator("small:not(:empty)")).to_have_count(1)  # of the secret stream
