"""Rights: a key is asked for, and what it does not allow is said."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.e2e.console.conftest import Console
from tests.e2e.pages import new_key
from tests.processes.gateway import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_key_is_asked_for_and_what_it_does_not_allow_is_disabled(
    console_bundle: None, browser: Browser, tmp_path: Path
) -> None:
    reading = {"streams": ["orders"], "do": ["read", "append"], "create": True}
    key = new_key(tmp_path / "data", reading)
    gateway = await Gateway.start(tmp_path / "data")
    page = await browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    console = Console(page, gateway.url)
    await console.open("streams/orders")

    await page.get_by_label("Key or token").fill("hg_nobody_x")
    await page.get_by_role("button", name="Continue").click()
    await expect(page.get_by_role("alert")).to_contain_text("not valid")
    await page.get_by_label("Key or token").fill(f" {key} ")
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("button", name="Append", exact=True).click()
    await page.get_by_role("button", name="Add field").click()
    await page.get_by_label("Name of field").first.fill("sku")
    await console.confirm()
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(
        "Appended with id"
    )
    line = await page.get_by_label("Equivalent curl command").text_content() or ""
    await console.press("Escape")
    await expect(console.rows("Entries")).to_have_count(1)

    trim = page.get_by_role("button", name="Trim")
    await expect(trim).to_have_attribute("aria-disabled", "true")
    refusal = await trim.get_attribute("aria-description") or ""
    assert refusal.startswith("Your credential does not grant manage on orders")
    await trim.click(force=True)  # it can be pressed, and says why it does nothing
    await console.says(refusal)
    await expect(page.get_by_text("test", exact=True)).to_have_attribute(
        "title", "read, append: orders"
    )

    await page.reload()
    await expect(console.rows("Entries")).to_have_count(1)
    assert not any(key in url for url in [*asked, page.url])
    assert key not in await page.content() + line
    assert "$HEADGATE_TOKEN" in line
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_text("This gateway requires a key")).to_be_visible()
    assert await page.evaluate("sessionStorage.length") == 0
    await gateway.stop()
