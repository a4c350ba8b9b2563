"""The guide in a browser: its commands are those of this gateway, and run there."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.e2e.pages import new_key
from tests.processes.gateway import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")

HEIGHTS = "all => all.filter(each => each.checkVisibility()).map(each => each.offsetHeight)"
EVERYTHING = {"streams": ["*"], "do": ["read", "append", "consume", "manage"], "create": True}


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A page in which no script fails."""
    opened = await browser.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    assert errors == []
    await opened.close()


async def test_a_command_names_this_gateway_and_is_tried(gateway: Gateway, page: Page) -> None:
    await page.goto(f"{gateway.url}/guide/append")
    command = page.locator("pre").first
    await expect(command).to_contain_text(f"curl -X POST {gateway.url}/v1/streams/")
    shown = page.locator("pre.answer").first
    await expect(shown).to_contain_text(re.compile(r'^{"id":"\d{13}-\d"}\s*$'))
    await page.get_by_role("button", name="try it").first.click()
    answer = page.get_by_role("status")
    await expect(answer).to_contain_text("201")
    await expect(shown).to_contain_text("201")
    await expect(answer).to_contain_text('"id": "')
    await page.get_by_role("button", name="try it").first.click()
    await expect(answer).to_have_count(1)


async def test_only_commands_that_call_a_gateway_are_told_its_address(
    gateway: Gateway, page: Page
) -> None:
    await page.goto(f"{gateway.url}/guide/operate")
    await expect(page.locator("pre").first).to_contain_text("headgate keys add me")
    await expect(page.get_by_text("HEADGATE_URL=")).to_have_count(0)
    await page.goto(f"{gateway.url}/guide/follow")
    await page.get_by_text("Terminal", exact=True).click()
    address = page.get_by_text(f"export HEADGATE_URL={gateway.url}")
    await expect(address.filter(visible=True)).to_have_count(1)


async def test_the_operations_are_shown_in_the_dark(gateway: Gateway, browser: Browser) -> None:
    page = await browser.new_page(color_scheme="dark")
    await page.goto(f"{gateway.url}/docs")
    await expect(page.locator("html.dark-mode")).to_have_css("background-color", "rgb(28, 32, 34)")
    await page.emulate_media(color_scheme="light")
    await expect(page.locator("html.dark-mode")).to_have_count(0)
    await page.close()


async def test_a_gateway_with_keys_has_them_in_its_commands(
    browser: Browser, page: Page, tmp_path: Path
) -> None:
    key = new_key(tmp_path / "data", EVERYTHING)
    gateway = await Gateway.start(tmp_path / "data")
    await page.goto(f"{gateway.url}/guide/append")
    bearer = 'curl -H "Authorization: Bearer $HEADGATE_TOKEN" '
    await expect(page.locator("pre").first).to_contain_text(bearer)
    page.once("dialog", lambda dialog: dialog.accept(key))
    await page.get_by_role("button", name="try it").first.click()
    await expect(page.get_by_role("status")).to_contain_text("201")
    assert key not in await page.content()
    await page.goto(f"{gateway.url}/guide/keys")
    commands = await page.locator("pre", has_text="/v1/").all_text_contents()
    requests = [each for text in commands for each in text.splitlines() if "curl " in each]
    assert {each.count("Authorization: Bearer") for each in requests} == {1}
    await gateway.stop()


async def test_pages_and_problems_are_searched(gateway: Gateway, page: Page) -> None:
    await page.goto(f"{gateway.url}/guide")
    await page.keyboard.press("/")
    await page.keyboard.type("dead letter")
    await expect(page.locator("#hits a", has_text="Retry failed entries")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("#hits a")).to_have_count(0)
    await page.get_by_role("searchbox").fill("memory_full")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{gateway.url}/problems/memory_full")


async def test_the_chosen_client_stays_and_nothing_is_cut_off_on_a_phone(
    gateway: Gateway, page: Page
) -> None:
    await page.set_viewport_size({"width": 390, "height": 800})
    await page.goto(f"{gateway.url}/guide/follow")
    await page.get_by_text("Terminal", exact=True).click()
    await page.get_by_role("link", name="Follow all streams of a pattern").last.click()
    await expect(page.locator("section:visible")).to_contain_text("headgate")
    await expect(page.get_by_label("Terminal")).to_be_checked()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await page.goto(f"{gateway.url}/guide/keys")
    await expect(page.locator("pre.answer").first).to_contain_text("hg_")
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await page.get_by_role("button", name="All pages").click()
    for place in ("header a, header input", "nav.chapters a, #all", ".tools button", "footer a"):
        heights = await page.locator(place).evaluate_all(HEIGHTS)
        assert heights
        assert min(heights) >= 40
    await page.get_by_role("link", name="Concepts").click()
    await expect(page.get_by_role("img", name="The life of an entry")).to_be_visible()
