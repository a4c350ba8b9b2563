"""Schedules: set, paused, resumed and deleted in the console."""

import httpx
import pytest
from playwright.async_api import expect

from tests.e2e.console.conftest import Console
from tests.processes.gateway import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_schedule_is_set_paused_and_deleted(console: Console, gateway: Gateway) -> None:
    await console.open("schedules")
    page = console.page
    await expect(page.get_by_text("There is no schedule.")).to_be_visible()
    await page.get_by_role("button", name="Set a schedule").click()
    await page.get_by_label("Name", exact=True).fill("nightly")
    await page.get_by_label("Stream", exact=True).fill("jobs")
    await page.get_by_label("Cron").fill("0 2 * * *")
    await page.get_by_label("Time zone").fill("Europe/Berlin")
    await page.get_by_label("Name of a field").fill("kind")
    await page.get_by_label("Value of kind").fill("report")
    await console.confirm()

    row = console.rows("Schedules").filter(has_text="nightly")
    await expect(row).to_contain_text("active")
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        schedule = (await http.get("/v1/schedules/nightly")).json()
    assert (schedule["stream"], schedule["fields"]) == ("jobs", {"kind": "report"})
    assert (schedule["cron"], schedule["time_zone"]) == ("0 2 * * *", "Europe/Berlin")

    await row.get_by_role("button", name="Pause").click()
    await console.confirm()
    await expect(row).to_contain_text("paused")
    await row.get_by_role("button", name="Resume").click()
    await console.confirm()
    await expect(row).to_contain_text("active")
    await row.get_by_role("button", name="Delete").click()
    await console.confirm()
    await expect(row).to_have_count(0)
