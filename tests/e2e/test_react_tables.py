"""React pages with `useTable`: components show the same rows, and changes as they come."""

import json
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Page, expect

from tests.e2e.pages import served
from tests.processes.gateway import Gateway
from tests.sdk.typescript import app_folder, packages
from tests.sdk.workshop import output_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

STOCK = "/v1/streams/stock"
MAIN = """
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import App from "./stock.js";
createRoot(document.getElementById("root")!).render(<StrictMode><App /></StrictMode>);
"""


async def put(client: httpx.AsyncClient, key: str, count: int) -> None:
    answer = await client.put(f"{STOCK}/table/{key}", json={"fields": {"count": str(count)}})
    assert answer.is_success, answer.text


async def test_components_share_the_rows_and_see_changes(browser: Browser, tmp_path: Path) -> None:
    app = app_folder(tmp_path)
    (app / "main.tsx").write_text(MAIN)
    await output_of(packages() / ".bin" / "vite", "build", folder=app)
    with served(app / "dist") as url:
        gateway = await Gateway.start(tmp_path / "data", {"allowed_origins": url})
        page = await browser.new_page()
        views = views_of(page)
        async with httpx.AsyncClient(base_url=gateway.url) as client:
            await client.put(STOCK, json={"key_field": "sku"})
            for key in ("5", "42"):
                await put(client, key, 1)
            await page.goto(f"{url}/?url={gateway.url}")
            await until_shown(page, ["42: 1", "5: 1"])
            await put(client, "42", 2)
            await put(client, "40", 1)
            await client.delete(f"{STOCK}/table/5")
            await until_shown(page, ["40: 1", "42: 2"])
        await expect(page.locator("#some li")).to_have_text(["40: 1", "42: 2"])
        assert await page.locator("[data-state=caught_up]").count() == 3
        assert sorted(views, key=str) == ["4", None], "one for all that ask for the same"
        await page.close()
        await gateway.stop()


def views_of(page: Page) -> list[str | None]:
    """Return the prefixes of the tables that the page follows, as it asks for them."""
    views: list[str | None] = []

    def note(text: str | bytes) -> None:
        frame = json.loads(text)
        if frame.get("view") == "table":
            views.append(frame.get("prefix"))

    page.on("websocket", lambda socket: socket.on("framesent", note))
    return views


async def until_shown(page: Page, rows: list[str]) -> None:
    for place in ("first", "second"):
        await expect(page.locator(f"#{place} li")).to_have_text(rows)
