"""A gateway with a few streams, and its console in a real browser."""

from collections.abc import AsyncIterator

import httpx
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from tests.processes.gateway import Gateway

ORDERS = 300
DEAD = 6
HELD = 9


class Console:
    """The console in a tab."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self._url = url

    async def open(self, place: str = "") -> None:
        await self.page.goto(f"{self._url}/console/{place}")
        await self.page.locator("main > *").first.wait_for()

    def rows(self, grid: str) -> Locator:
        """Return the rows of a grid that are drawn, without its head."""
        return self.page.get_by_role("grid", name=grid).locator(".rows .row")

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.page.keyboard.press(key)

    async def append(self) -> None:
        """Open the dialog of a stream's next entry by its key, once the stream is known."""
        button = self.page.get_by_role("main").get_by_role("button", name="Append")
        await expect(button).to_be_enabled()
        await self.press("a")

    async def act(self, button: str, **fields: str) -> None:
        """Press a button, fill in what its dialog asks for, and do it."""
        await self.page.get_by_role("main").get_by_role("button", name=button, exact=True).click()
        await self.confirm(**fields)

    async def confirm(self, **fields: str) -> None:
        """Fill in the fields of the open dialog, by their labels, and submit it."""
        dialog = self.page.get_by_role("dialog")
        for label, value in fields.items():
            field = dialog.get_by_label(label.replace("_", " "))
            if await field.evaluate("field => field.tagName") == "SELECT":
                await field.select_option(label=value)
            else:
                await field.fill(value)
        await dialog.locator("button[type=submit].main").click()

    async def says(self, text: str) -> None:
        """Wait until a notice says so."""
        await expect(self.page.locator(".notices").get_by_text(text)).to_be_visible()


@pytest_asyncio.fixture(loop_scope="session")
async def console(browser: Browser, gateway: Gateway) -> AsyncIterator[Console]:
    """A tab that may leave no error to the browser's console but those of answers it expects."""
    page = await browser.new_page(viewport={"width": 1280, "height": 800})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    yield Console(page, gateway.url)
    expected = ("403", "404", "412", "422")
    assert [line for line in errors if not any(code in line for code in expected)] == []


@pytest_asyncio.fixture(loop_scope="session")
async def streams(gateway: Gateway, client: httpx.AsyncClient) -> None:
    """Make streams, groups, dead letters, and consumers that hold entries."""
    for name in ("payments", "clicks"):
        await client.post(f"streams/{name}/entries", json={"fields": {"n": "1"}})
    batch = [{"fields": {"sku": f"A-{n}", "qty": str(n % 7)}} for n in range(ORDERS)]
    await client.post("streams/orders/entries/batch", json=batch)
    policy = {"max_deliveries": 3, "dead_letter_stream": "graveyard"}
    billing = "streams/orders/groups/billing"
    await client.put(billing, json={"start": "0", "policy": policy})
    taken = await client.post(f"{billing}/read?consumer=careless", json={"limit": DEAD})
    ids = [entry["id"] for entry in taken.json()["entries"]]
    await client.post(f"{billing}/nack?consumer=careless", json={"ids": ids, "mode": "fatal"})
    await client.post(f"{billing}/read?consumer=hung", json={"limit": HELD})
