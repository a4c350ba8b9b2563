"""The note that several people write, in a real browser: it survives a kill of the gateway."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from deploy.local_cluster.server import free_ports
from tests.e2e.pages import new_key, program
from tests.processes.gateway import ROOT, Gateway, no_gateway_left
from tests.sdk.workshop import node_modules, output_of, tool

__all__ = ["no_gateway_left"]

EXAMPLE = ROOT / "examples" / "notes"
GRANT = {"streams": ["yjs:*"], "do": ["read", "append", "manage"], "create": True}

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def type_at(page: Page, place: str, text: str) -> None:
    """Type into the note: at its `Home` or its `End`."""
    note = page.get_by_label("The note")
    await note.press(f"Control+{place}")
    await note.press_sequentially(text)


async def test_two_tabs_write_on_while_the_gateway_is_killed(
    browser: Browser, tmp_path: Path
) -> None:
    key, [port] = new_key(tmp_path, GRANT), free_ports(1)
    await asyncio.to_thread(node_modules, EXAMPLE)
    await output_of(tool("npm"), "run", "build", folder=EXAMPLE)
    settings = {"allowed_origins": f"http://localhost:{port}"}
    gateway = await Gateway.start(tmp_path, settings)
    variables = {"HEADGATE_URL": gateway.url, "HEADGATE_TOKEN": key, "PORT": str(port)}
    async with program(tool("node"), EXAMPLE / "server.js", **variables) as url:
        tabs = [await browser.new_page() for _ in range(2)]
        for page in tabs:
            await page.goto(url)
            await expect(page.get_by_role("status")).to_have_text("saved")
        first, second = tabs
        await type_at(first, "End", "Milk, ")
        await expect(second.get_by_label("The note")).to_have_value("Milk, ")

        await gateway.kill()
        await type_at(first, "Home", "Buy: ")
        await type_at(second, "End", "eggs")
        await Gateway.start(tmp_path, settings | {"port": gateway.port})
        for page in tabs:
            note = page.get_by_label("The note")
            await expect(note).to_have_value("Buy: Milk, eggs")
            await expect(page.get_by_role("status")).to_have_text("saved")

        later = await browser.new_page()
        await later.goto(url)
        await expect(later.get_by_label("The note")).to_have_value("Buy: Milk, eggs")
