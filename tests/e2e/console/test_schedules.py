"""Schedules: set, run, edited, paused, resumed and deleted in the console."""

import re

import httpx
import pytest
from playwright.async_api import Locator, expect

from tests.e2e.console.conftest import Console

pytestmark = pytest.mark.asyncio(loop_scope="session")

NIGHTLY = {
    "stream": "jobs",
    "cron": "0 2 * * *",
    "time_zone": "Europe/Berlin",
    "fields": {"kind": "report"},
}


async def row_of_nightly(console: Console, client: httpx.AsyncClient) -> Locator:
    await client.put("schedules/nightly", json=NIGHTLY)
    await console.open("schedules")
    row = console.rows("Schedules").filter(has_text="nightly")
    await expect(row).to_contain_text("active")
    return row


async def test_a_schedule_is_set_paused_and_deleted(
    console: Console, client: httpx.AsyncClient
) -> None:
    await client.delete("schedules/nightly")
    await console.open("schedules")
    page = console.page
    await expect(page.get_by_text("No schedules.")).to_be_visible()
    await page.get_by_role("button", name="Create a schedule").click()
    await page.get_by_label("Name", exact=True).fill("nightly")
    await page.get_by_label("Stream", exact=True).fill("jobs")
    await page.get_by_label("Cron").fill("0 2 * * *")
    await page.get_by_label("Time zone").fill("Europe/Berlin")
    await page.get_by_label("Name of field").fill("kind")
    await page.get_by_label("Value of kind").fill("report")
    await console.confirm()

    row = console.rows("Schedules").filter(has_text="nightly")
    await expect(row).to_contain_text("active")
    await expect(row).to_contain_text("Europe/Berlin")
    schedule = (await client.get("schedules/nightly")).json()
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


async def test_the_dialog_shows_the_next_runs_of_what_is_typed(
    console: Console, streams: None
) -> None:
    await console.open("schedules")
    await console.page.get_by_role("button", name="Create a schedule").click()
    dialog = console.page.get_by_role("dialog")
    runs = dialog.get_by_role("status")
    await dialog.get_by_label("Cron").fill("0 2 * * *")
    await dialog.get_by_label("Time zone").fill("Asia/Tokyo")
    await expect(runs.locator("time")).to_have_count(3)
    await expect(runs.locator("time").first).to_contain_text(re.compile("02:00.*GMT"))
    await dialog.get_by_label("Cron").fill("0 25 * * *")
    await expect(runs).to_contain_text("bad hour")
    await dialog.get_by_label("Cron").fill("0 0 * * *")
    await dialog.get_by_label("Time zone").fill("Mars")
    await expect(runs).to_contain_text("time_zone: should be a known time zone")


async def test_a_schedule_is_run_at_once(console: Console, client: httpx.AsyncClient) -> None:
    row = await row_of_nightly(console, client)
    await client.delete("streams/jobs")
    await row.get_by_role("button", name="Run now").click()
    await console.confirm()
    await console.says("Schedule nightly appended entry")
    [entry] = (await client.get("streams/jobs/entries")).json()["entries"]
    assert entry["fields"]["kind"] == "report"
    assert entry["fields"]["_schedule"] == "nightly"
    await client.delete("schedules/nightly")


async def test_a_schedule_is_edited_as_it_is(console: Console, client: httpx.AsyncClient) -> None:
    row = await row_of_nightly(console, client)
    await client.patch("schedules/nightly", json={"paused": True, "missed": "skip"})
    await expect(row).to_contain_text("paused")
    await row.get_by_role("button", name="Edit").click()
    dialog = console.page.get_by_role("dialog", name="Edit schedule nightly")
    await expect(dialog.get_by_label("Cron")).to_have_value("0 2 * * *")
    await expect(dialog.get_by_label("Value of kind")).to_have_value("report")
    await console.confirm(Cron="30 3 * * *")
    await console.says("Schedule nightly is saved.")
    changed = (await client.get("schedules/nightly")).json()
    kept = {name: changed[name] for name in NIGHTLY}
    assert kept == {**NIGHTLY, "cron": "30 3 * * *"}
    assert (changed["paused"], changed["missed"]) == (True, "skip")
    await client.delete("schedules/nightly")
