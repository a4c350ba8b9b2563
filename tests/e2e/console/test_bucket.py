"""The console of two gateways on one bucket: the leader's, and the standby's."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.e2e.console.conftest import Console
from tests.sdk.pair import Pair

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def pair(console_bundle: None, tmp_path: Path) -> AsyncIterator[Pair]:
    pair = Pair(tmp_path)
    try:
        await pair.start()
        yield pair
    finally:
        await pair.kill()


async def test_a_leader_shows_its_bucket_and_a_standby_the_way_to_it(
    browser: Browser, pair: Pair
) -> None:
    leader = await pair.leader()
    page = await browser.new_page()
    try:
        console = Console(page, pair.urls[leader])
        await console.open()
        bucket = page.get_by_role("region", name="Bucket")
        await expect(bucket).to_contain_text("this gatewayleader")
        await expect(bucket).to_contain_text("changes are confirmedonce in the bucket")
        await expect(page.locator(".standby")).to_have_count(0)

        standby = Console(page, pair.urls[1 - leader])
        await standby.open("schedules")
        link = page.locator(".standby").get_by_role("link")
        await expect(link).to_have_attribute("href", f"{pair.urls[leader]}/console/")
        await expect(page.get_by_role("banner")).to_contain_text("standby")
    finally:
        await page.close()
