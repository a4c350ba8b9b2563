"""The React programs of the guide, as their reader builds them: they show what they change."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Page, Route, expect

from deploy.local_cluster.server import free_ports
from tests.api.documents.snippets import snippets
from tests.e2e.pages import new_key, served
from tests.processes.gateway import Gateway
from tests.sdk.typescript import app_folder, packages, program_folder
from tests.sdk.workshop import output_of, tool

pytestmark = pytest.mark.asyncio(loop_scope="session")

MAIN = """
import { createRoot } from "react-dom/client";
import App from "./guide.js";
createRoot(document.getElementById("root")!).render(<App />);
"""


@pytest.fixture
def port() -> int:
    """Return that of the gateway, which the page knows before it is there."""
    [port] = free_ports(1)
    return port


@asynccontextmanager
async def opened(
    task: str, browser: Browser, folder: Path, port: int, *, tickets_url: str = ""
) -> AsyncIterator[tuple[Page, str]]:
    """Open the program of a page of the guide; yields it and the URL of its gateway.

    Where it asks its own server for a ticket, it gets one of `tickets_url`.
    """
    [program] = snippets(task, "tsx")
    app = app_folder(folder)
    (app / "guide.tsx").write_text(program.at(f"http://127.0.0.1:{port}"))
    (app / "main.tsx").write_text(MAIN)
    await output_of(packages() / ".bin" / "vite", "build", folder=app)

    async def pass_on(route: Route) -> None:
        await route.fulfill(response=await route.fetch(url=tickets_url))

    with served(app / "dist") as url:
        settings = {"port": port, "allowed_origins": url}
        gateway = await Gateway.start(folder / "data", settings)
        page = await browser.new_page()
        await page.route(f"{url}/ticket", pass_on)
        await page.goto(url)
        yield page, gateway.url
        await page.close()
        await gateway.stop()


async def test_the_program_shows_what_it_appends(
    browser: Browser, tmp_path: Path, port: int
) -> None:
    async with opened("browser", browser, tmp_path, port) as (page, _):
        await page.get_by_role("button", name="order").click()
        await expect(page.locator("li")).to_have_text(["42"])


async def test_the_table_shows_its_rows_as_they_are_changed(
    browser: Browser, tmp_path: Path, port: int
) -> None:
    async with opened("latest", browser, tmp_path, port) as (page, url):
        async with httpx.AsyncClient(base_url=f"{url}/v1/streams/") as client:
            await client.put("stock", json={"key_field": "sku"})
            await client.put("stock/table/42", json={"fields": {"count": "3"}})
        await expect(page.locator("li")).to_have_text(["42: 3 sell"])
        await page.get_by_role("button", name="sell").click()
        await expect(page.locator("li")).to_have_text(["42: 2 sell"])


async def test_the_channel_shows_what_is_said_and_who_is_here(
    browser: Browser, tmp_path: Path, port: int
) -> None:
    async with opened("channels", browser, tmp_path, port) as (page, _):
        await expect(page.locator("p")).to_have_text("live, 1 here")
        await page.get_by_role("button", name="say hello").click()
        await expect(page.locator("li")).to_have_text(["hello"])


@asynccontextmanager
async def tickets_of(language: str, folder: Path, url: str, key: str) -> AsyncIterator[str]:
    """Run the server of the guide; yields where it hands out tickets."""
    [program] = snippets("tickets", language)
    file = program_folder(folder) / f"server.{'mjs' if language == 'js' else 'py'}"
    file.write_text(program.at(url))
    process = await asyncio.create_subprocess_exec(
        tool("node") if language == "js" else sys.executable,
        file,
        env={**os.environ, "HEADGATE_TOKEN": key},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    yield (await process.stdout.readline()).decode().strip()
    process.kill()
    await process.wait()


@pytest.mark.parametrize("language", ["python", "js"])
async def test_a_page_has_its_tickets_from_the_server_of_the_guide(
    browser: Browser, tmp_path: Path, port: int, language: str
) -> None:
    grant = {"streams": ["orders"], "do": ["read", "append"], "create": True}
    key, url = new_key(tmp_path / "data", grant), f"http://127.0.0.1:{port}"
    async with (
        tickets_of(language, tmp_path / "server", url, key) as tickets_url,
        opened("tickets", browser, tmp_path, port, tickets_url=tickets_url) as (page, _),
    ):
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=url, headers=headers) as client:
            await client.post("/v1/streams/orders/entries", json={"fields": {"sku": "41"}})
        await page.get_by_role("button", name="order").click()
        await expect(page.locator("li")).to_have_text(["41", "42"])
        await expect(page.locator("p")).to_have_text("live")
