"""The looks: everybody can use each view, in the light and in the dark, on a phone too."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from console.bundle import INSTALLED, install
from tests.conditions import eventually
from tests.processes.gateway import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")

BILLING = "streams/orders/groups/billing"
MAIL = "streams/payments/groups/mail"
VIEWS = {
    "": "[aria-label=Streams] .rows .row",
    "connections": "main h1",
    "schedules": ".grid .rows .row",
    "pushes": ".grid .rows .row",
    "keys": ".empty",
    "streams/orders": ".grid .rows .row",
    "streams/stock/table?row=42": ".panel .history li",
    "streams/orders/groups": ".grid .rows .row",
    "streams/orders/settings": ".settings",
    BILLING: ".grid .rows .row",
    f"{BILLING}/consumers": ".grid .rows .row",
    f"{BILLING}/dead-letters": ".grid .rows .row",
    f"{BILLING}/push": ".empty button",
    MAIL: "main .outlook",
    f"{MAIL}/push": ".grid .rows .row",
    f"{BILLING}/settings": ".settings",
}
"""Each view, and what is there once it is complete."""

SERIOUS = """async () => (await axe.run()).violations
    .filter(({impact}) => impact === "serious" || impact === "critical")
    .map(({id, nodes}) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`)"""

SMALL = """() => [...document.querySelectorAll("button, input, select, textarea, nav a")]
    .map((control) => control.closest("label") ?? control)
    .filter((control) => control.checkVisibility() && control.offsetHeight < 40)
    .filter((control) => !control.closest(".head"))
    .map((control) => control.outerHTML)"""
"""The controls that a finger misses. A dialog that still moves changes no `offsetHeight`."""


@pytest.fixture(scope="session")
def axe(console_bundle: None) -> str:
    install()
    return (INSTALLED / "axe-core" / "axe.min.js").read_text("utf-8")


@pytest_asyncio.fixture(loop_scope="session")
async def all_kinds(streams: None, client: httpx.AsyncClient) -> AsyncIterator[None]:
    """Make a schedule, and a push that has sent an entry in vain and is paused."""
    schedule = {"stream": "jobs", "cron": "0 2 * * *", "fields": {"kind": "report"}}
    await client.put("schedules/nightly", json=schedule)
    await client.put("streams/stock", json={"key_field": "sku"})
    await client.put("streams/stock/table/42", json={"fields": {"count": "3"}})
    await client.put(MAIL, json={"start": "0"})
    await client.put(f"{MAIL}/push", json={"url": "http://127.0.0.1:9/"})

    async def has_failed() -> bool:
        return bool((await client.get(f"{MAIL}/push")).json()["answers"])

    await eventually(has_failed, bool)
    await client.post(f"{MAIL}/push/pause")
    yield
    await client.delete(f"{MAIL}/push")
    await client.delete("schedules/nightly")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_has_nothing_serious_to_say(
    scheme: str, axe: str, browser: Browser, gateway: Gateway, all_kinds: None
) -> None:
    page = await browser.new_page(
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",  # what appears slowly has little contrast at first
    )
    for place, complete in VIEWS.items():
        await page.goto(f"{gateway.url}/console/{place}")
        await page.locator(complete).first.wait_for()
        await look(page, axe)
    await page.keyboard.press("?")
    await look(page, axe)
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Delete the group").click()
    await look(page, axe)


async def look(page: Page, axe: str) -> None:
    await page.evaluate(axe)
    assert await page.evaluate(SERIOUS) == [], page.url


async def test_a_phone_shows_all_of_it_without_scrolling_sideways(
    browser: Browser, gateway: Gateway, all_kinds: None
) -> None:
    page = await browser.new_page(viewport={"width": 390, "height": 800})
    for place, complete in VIEWS.items():
        await page.goto(f"{gateway.url}/console/{place}")
        await page.locator(complete).first.wait_for()
        assert await page.evaluate("document.documentElement.scrollWidth") == 390, place
        assert await page.evaluate(SMALL) == [], place
    await page.get_by_role("button", name="Change").first.click()
    assert await page.evaluate(SMALL) == []


async def test_light_and_dark_are_switched(browser: Browser, gateway: Gateway) -> None:
    page = await browser.new_page(color_scheme="light")
    brightness = """() => {
        const [red, green, blue] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g);
        return (Number(red) + Number(green) + Number(blue)) / 3;
    }"""
    await page.goto(f"{gateway.url}/console")
    await page.get_by_role("heading", name="Overview").wait_for()
    assert await page.evaluate(brightness) > 200
    await page.keyboard.press("t")
    await page.keyboard.press("t")
    assert await page.evaluate(brightness) < 50
    await page.reload()
    await page.get_by_role("heading", name="Overview").wait_for()
    assert await page.evaluate(brightness) < 50
