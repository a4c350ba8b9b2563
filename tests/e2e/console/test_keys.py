"""Keys: created, rotated and revoked in the console, by those who have admin."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.conditions import WITHIN_S
from tests.e2e.console.conftest import Console
from tests.e2e.console.test_looks import SMALL, axe, look
from tests.e2e.pages import new_key
from tests.processes.gateway import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")

__all__ = ["axe"]
ADMIN = {"streams": ["*"], "do": ["admin", "read"]}


class Gated(Console):
    """The console of a gateway of its own, whose first key changes everything."""

    def __init__(self, page: Page, gateway: Gateway) -> None:
        super().__init__(page, gateway.url)
        self.gateway = gateway

    async def enter(self, key: str) -> None:
        await self.open("keys")
        await self.page.get_by_label("Key or token").fill(key)
        await self.page.get_by_role("button", name="Continue").click()

    async def shown(self, title: str, label: str) -> str:
        """Return what is shown once, and close the dialog of it."""
        dialog = self.page.get_by_role("dialog", name=title)
        await expect(dialog).to_contain_text("It is not shown again.")
        text = await dialog.get_by_label(label, exact=True).text_content() or ""
        await expect(dialog.get_by_role("button", name="Copy").first).to_be_visible()
        await dialog.get_by_role("button", name="Done").click()
        await expect(dialog).to_have_count(0)
        return text

    async def ask(self, method: str, path: str, key: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(
            base_url=f"{self.gateway.url}/v1/", headers=headers, timeout=WITHIN_S
        ) as http:
            return await http.request(method, path, json=body)


@pytest_asyncio.fixture(loop_scope="session")
async def gated(
    console_bundle: None, browser: Browser, tmp_path: Path
) -> AsyncIterator[tuple[Gated, str]]:
    """The console of a gateway with a key that has admin; and the key."""
    key = new_key(tmp_path / "data", ADMIN)
    gateway = await Gateway.start(tmp_path / "data")
    page = await browser.new_page(viewport={"width": 1280, "height": 800})
    yield Gated(page, gateway), key
    await gateway.stop()


async def test_the_first_key_of_an_open_gateway_is_used_by_the_console(
    console_bundle: None, browser: Browser, tmp_path: Path
) -> None:
    gateway = await Gateway.start(tmp_path / "data")
    console = Gated(await browser.new_page(), gateway)
    await console.open("keys")
    await expect(console.page.get_by_text("From the first key on")).to_be_visible()
    await console.act("Create a key")
    key = await console.shown("Key of admin", "Key")
    row = console.rows("Keys").filter(has_text="this console")
    await expect(row).to_contain_text("read, append, consume")
    assert (await console.ask("GET", "streams", key)).status_code == 200
    assert (await console.ask("GET", "streams", "hg_x_y")).status_code == 401
    await console.page.reload()
    await expect(row).to_have_count(1)
    await row.get_by_role("button", name="Revoke").click()
    await console.confirm()
    await expect(console.page.get_by_role("dialog")).to_contain_text("last active key with")
    await gateway.stop()


async def test_a_key_is_created_rotated_and_revoked(gated: tuple[Gated, str]) -> None:
    console, admin = gated
    page = console.page
    await console.enter(admin)
    await console.open()
    await console.press("Control+k")
    await page.get_by_role("combobox").fill("key")
    await page.get_by_role("option", name="Keys").click()
    await page.get_by_role("button", name="Create a key").click()
    dialog = page.get_by_role("dialog", name="Create a key")
    await dialog.get_by_role("textbox", name=re.compile(r"^Name\b")).fill("worker")
    await dialog.get_by_label("Streams or channels").fill("orders, bills.*")
    for verb in ("read", "append"):
        await dialog.get_by_label(verb, exact=True).check()
    await dialog.get_by_label("Appends may create streams").check()
    await dialog.get_by_role("button", name="Add right").click()
    second = dialog.get_by_role("group", name="Right 2")
    await second.get_by_label("Streams or channels").fill("jobs")
    await second.get_by_label("consume", exact=True).check()
    await second.get_by_label("Only groups").fill("workers")
    await console.confirm(Expires_after="90d")
    key = await console.shown("Key of worker", "Key")

    row = console.rows("Keys").filter(has_text="worker").first
    await expect(row).to_contain_text("append on orders, bills.*; creates streams")
    await expect(row).to_contain_text("consume on jobs; group workers")
    await expect(row).to_contain_text("in 89 d")
    assert key not in await page.content()
    allowed = (await console.ask("GET", "principal", key)).json()["allowed"]
    assert [(each["streams"], each["groups"]) for each in allowed] == [
        (["orders", "bills.*"], None),
        (["jobs"], ["workers"]),
    ]

    await row.get_by_role("button", name="Rotate").click()
    await console.confirm()
    rotated = await console.shown("Key of worker", "Key")
    await expect(row).to_contain_text("2 secrets")
    for each in (key, rotated):
        assert (await console.ask("GET", "principal", each)).status_code == 200

    await row.get_by_role("button", name="Revoke").click()
    await console.confirm()
    await expect(row).to_contain_text("revoked")
    assert (await console.ask("GET", "principal", rotated)).status_code == 401


async def test_the_key_of_the_console_is_rotated_and_it_goes_on(gated: tuple[Gated, str]) -> None:
    console, admin = gated
    await console.enter(admin)
    row = console.rows("Keys").filter(has_text="this console")
    await row.get_by_role("button", name="Rotate").click()
    await console.confirm(Previous_secret_valid_for="")
    key = await console.shown("Key of test", "Key")
    assert (await console.ask("GET", "principal", admin)).status_code == 401
    await console.page.reload()
    await expect(row).to_have_count(1)
    assert (await console.ask("GET", "principal", key)).status_code == 200


async def test_a_ticket_is_shown_once_with_a_url_that_works(gated: tuple[Gated, str]) -> None:
    console, admin = gated
    await console.enter(admin)
    await console.page.get_by_role("button", name="Create a ticket").click()
    await console.confirm(Stream="orders", Valid_for="1m")
    url = await console.shown("Ticket", "URL")
    async with (
        httpx.AsyncClient(timeout=WITHIN_S) as http,
        http.stream("GET", url, headers={"Accept": "text/event-stream"}) as answer,
    ):
        assert answer.status_code == 404  # it may, but there is no such stream
        assert json.loads(await answer.aread())["code"] == "stream_not_found"


async def test_who_has_no_admin_sees_no_keys(gated: tuple[Gated, str], tmp_path: Path) -> None:
    console, admin = gated
    reading = {"name": "reader", "grants": [{"streams": ["*"], "do": ["read"]}]}
    key = (await console.ask("POST", "keys", admin, reading)).json()["key"]
    await console.enter(key)
    page = console.page
    await expect(page.get_by_text("This key cannot read")).to_be_visible()
    await expect(page.get_by_text("reader", exact=True)).to_be_visible()
    await expect(page.get_by_role("navigation").get_by_text("Keys")).to_have_count(0)
    await console.press("Control+k")
    await page.get_by_role("combobox").fill("key")
    await expect(page.get_by_text("No results.")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_everybody_can_use_the_view_and_its_form_on_a_phone_too(
    scheme: str, axe: str, gated: tuple[Gated, str]
) -> None:
    console, admin = gated
    page = console.page
    await page.emulate_media(
        color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce"
    )
    await console.enter(admin)
    await console.rows("Keys").first.wait_for()
    await look(page, axe)
    await page.set_viewport_size({"width": 390, "height": 800})
    await page.reload()
    await console.rows("Keys").first.wait_for()
    await look(page, axe)
    assert await page.evaluate("document.documentElement.scrollWidth") == 390
    assert await page.evaluate(SMALL) == []
    await page.get_by_role("button", name="Create a key").click()
    await page.get_by_role("button", name="Add right").click()
    await look(page, axe)
    assert await page.evaluate(SMALL) == []
