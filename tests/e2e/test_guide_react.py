"""The React programs of the guide, as their reader builds them: they show what they change."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Page, expect

from deploy.local_cluster.server import free_ports
from tests.api.documents.snippets import snippets
from tests.e2e.pages import served
from tests.processes.gateway import Gateway
from tests.sdk.typescript import app_folder, packages
from tests.sdk.workshop import output_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

MAIN = """
import { createRoot } from "react-dom/client";
import App from "./guide.js";
createRoot(document.getElementById("root")!).render(<App />);
"""


@asynccontextmanager
async def opened(task: str, browser: Browser, folder: Path) -> AsyncIterator[tuple[Page, str]]:
    """Open the program of a page of the guide; yields it and the URL of its gateway."""
    [program] = snippets(task, "tsx")
    [port] = free_ports(1)
    app = app_folder(folder)
    (app / "guide.tsx").write_text(program.at(f"http://127.0.0.1:{port}"))
    (app / "main.tsx").write_text(MAIN)
    await output_of(packages() / ".bin" / "vite", "build", folder=app)
    with served(app / "dist") as url:
        settings = {"port": port, "allowed_origins": url}
        gateway = await Gateway.start(folder / "data", settings)
        page = await browser.new_page()
        await page.goto(url)
        yield page, gateway.url
        await page.close()
        await gateway.stop()


async def test_the_program_shows_what_it_appends(browser: Browser, tmp_path: Path) -> None:
    async with opened("browser", browser, tmp_path) as (page, _):
        await page.get_by_role("button", name="order").click()
        await expect(page.locator("li")).to_have_text(["42"])


async def test_the_table_shows_its_rows_as_they_are_changed(
    browser: Browser, tmp_path: Path
) -> None:
    async with opened("latest", browser, tmp_path) as (page, url):
        async with httpx.AsyncClient(base_url=f"{url}/v1/streams/") as client:
            await client.put("stock", json={"key_field": "sku"})
            await client.put("stock/table/42", json={"fields": {"count": "3"}})
        await expect(page.locator("li")).to_have_text(["42: 3 sell"])
        await page.get_by_role("button", name="sell").click()
        await expect(page.locator("li")).to_have_text(["42: 2 sell"])
