"""Connections: their subscriptions, and the way to cut one off."""

import pytest
from playwright.async_api import Browser, expect
from websockets.asyncio.client import connect

from tests.e2e.console.conftest import Console
from tests.processes.gateway import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")

CUT_OFF = 4503


async def test_a_consumer_that_hangs_is_seen_and_cut_off(
    console: Console, streams: None, gateway: Gateway
) -> None:
    place = "/v1/streams/orders/groups/billing/ws?consumer=slow&credit=5"
    async with connect(gateway.url.replace("http", "ws") + place) as socket:
        await console.open("connections")
        row = console.rows("Connections").filter(has_text="orders / billing as slow")
        await expect(row).to_contain_text("no credit")
        await row.get_by_role("button", name="Disconnect").click()
        await console.confirm()
        await socket.wait_closed()

    assert socket.close_code == CUT_OFF
    await expect(row).to_have_count(0)


async def test_it_works_behind_a_root_path(
    console_bundle: None, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("behind") / "data"
    gateway = await Gateway.start(folder, {"root_path": "/behind"})
    page = await browser.new_page()
    console = Console(page, f"{gateway.url}/behind")
    await console.open("streams/orders")
    await console.append()
    await page.get_by_label("Name of field").fill("sku")
    await console.confirm()
    await expect(page.get_by_label("Equivalent curl command")).to_contain_text(
        "/behind/v1/streams/orders"
    )
    await console.press("Escape")

    await expect(console.rows("Entries")).to_have_count(1)
    await page.get_by_role("link", name="Groups").click()
    await page.reload()
    await expect(page.get_by_text("No groups.")).to_be_visible()
    assert page.url == f"{gateway.url}/behind/console/streams/orders/groups"
    await gateway.stop()
