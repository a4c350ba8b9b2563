"""Links: an address that is saved shows the same view again."""

import re
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.async_api import expect

from tests.e2e.console.conftest import DEAD, HELD, ORDERS, Console

pytestmark = pytest.mark.asyncio(loop_scope="session")

BILLING = "streams/orders/groups/billing"


async def saved(console: Console, **values: str) -> None:
    """Wait until the address says so, and open it in a tab that knows nothing else."""
    await console.page.wait_for_url(lambda url: query_of(url) == values)
    address = console.page.url
    await console.page.goto("about:blank")
    await console.page.goto(address)


def query_of(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


async def test_a_link_to_entries_has_the_order_the_search_and_the_open_entry(
    console: Console, streams: None
) -> None:
    await console.open("streams/orders")
    await console.page.get_by_role("button", name="Oldest").click()
    await console.page.get_by_label("Find text").fill("sku=A-1*")
    await expect(console.rows("Entries").first).to_contain_text("sku=A-1 ")
    await console.rows("Entries").nth(1).click()
    panel = console.page.get_by_role("complementary")
    entry = (await panel.get_by_role("heading").text_content()) or ""

    await saved(console, order="asc", find="sku=A-1*", entry=entry)
    await expect(panel.get_by_role("heading", name=entry)).to_be_visible()
    await expect(panel).to_contain_text("A-10")
    await expect(console.rows("Entries").first).to_contain_text("sku=A-1 ")
    await expect(console.page.get_by_label("Find text")).to_have_value("sku=A-1*")
    oldest = console.page.get_by_role("button", name="Oldest")
    await expect(oldest).to_have_attribute("aria-pressed", "true")

    await console.press("Escape")
    await expect(panel).to_have_count(0)
    await saved(console, order="asc", find="sku=A-1*")
    await expect(console.rows("Entries").first).to_contain_text("sku=A-1 ")
    await expect(panel).to_have_count(0)


async def test_a_link_to_an_entry_that_is_gone_says_so(console: Console, streams: None) -> None:
    await console.open("streams/orders?entry=1-1")
    await console.says("Cannot show entry 1-1")
    await expect(console.rows("Entries").first).to_be_visible()
    await expect(console.page).to_have_url(re.compile("/streams/orders$"))


async def test_a_link_to_entries_has_their_time(
    console: Console, client: httpx.AsyncClient
) -> None:
    start_ms = 1_700_000_000_000
    hour = [{"id": f"{start_ms + 60_000 * n}-0", "fields": {"n": f"{n}"}} for n in range(61)]
    await client.post("streams/hour/entries/batch", json=hour)
    await console.open(f"streams/hour?times={start_ms}-{start_ms + 600_000}")
    await expect(console.rows("Entries")).to_have_count(11)
    await console.page.get_by_role("button", name="All times").click()
    await expect(console.rows("Entries").first).to_contain_text("n=60")
    assert query_of(console.page.url) == {}

    place = console.page.get_by_label("From id or time")
    await place.fill("1m ago")  # a link says when that was
    from_time = re.compile(r"from=\d{4}-\d\d-\d\dT\d\d%3A")
    await expect(console.page).to_have_url(from_time)
    await console.page.reload()
    await expect(place).to_have_value(re.compile(r"^\d{4}-\d\d-\d\dT"))
    await expect(console.rows("Entries").first).to_contain_text("n=60")


async def test_links_to_a_group_have_the_holder_the_age_and_the_open_dead_letter(
    console: Console, streams: None
) -> None:
    rows = console.rows("Pending entries")
    await console.open(f"{BILLING}/consumers")
    await console.page.get_by_role("link", name="hung").click()
    await expect(rows).to_have_count(HELD)
    await saved(console, consumer="hung")
    await expect(console.page.get_by_label("Consumer")).to_have_value("hung")
    await expect(rows).to_have_count(HELD)

    await console.open(f"{BILLING}?idle=86400000")
    await expect(console.page.get_by_text("No results.")).to_be_visible()
    day = console.page.get_by_role("button", name="over a day")
    await expect(day).to_have_attribute("aria-pressed", "true")
    await day.click()
    await expect(rows).to_have_count(HELD)
    await expect(console.page).to_have_url(re.compile("/billing$"))

    await console.open(f"{BILLING}/dead-letters")
    await console.rows("Dead letters").first.click()
    panel = console.page.get_by_role("complementary")
    entry = (await panel.get_by_role("heading").text_content()) or ""
    await saved(console, entry=entry)
    await expect(panel).to_contain_text(f"A-{DEAD - 1}")


async def test_links_to_lists_have_their_search(console: Console, streams: None) -> None:
    await console.open()
    await console.page.get_by_label("Name prefix").fill("or")
    await console.page.get_by_role("button", name="24 h").click()
    await saved(console, prefix="or", step="minute")
    await expect(console.rows("Streams")).to_have_count(1)
    day = console.page.get_by_role("button", name="24 h")
    await expect(day).to_have_attribute("aria-pressed", "true")

    for view in ("connections", "schedules", "pushes"):
        await console.open(f"{view}?find=nothing")
        await expect(console.page.get_by_role("searchbox")).to_have_value("nothing")


async def test_going_back_shows_what_was_shown(console: Console, streams: None) -> None:
    await console.open("streams/orders?find=sku%3DA-17")
    await expect(console.rows("Entries")).to_have_count(1)
    await console.page.get_by_role("link", name="Entries", exact=True).click()
    await expect(console.rows("Entries").first).to_contain_text(f"sku=A-{ORDERS - 1}")
    await expect(console.page.get_by_label("Find text")).to_have_value("")
    await console.page.go_back()
    await expect(console.rows("Entries")).to_have_count(1)
    await expect(console.page.get_by_label("Find text")).to_have_value("sku=A-17")


async def test_each_view_leads_to_its_page_of_the_guide(
    console: Console, client: httpx.AsyncClient
) -> None:
    await client.put("streams/letters/groups/post", json={"create_stream": True})
    group = "streams/letters/groups/post"
    pages = {
        "": "concepts",
        "schedules": "schedules",
        "pushes": "push",
        "connections": "operate",
        "streams/letters": "follow",
        group: "work",
        f"{group}/dead-letters": "retry",
        f"{group}/push": "push",
        f"{group}/settings": "pause",
    }
    for place, page in pages.items():
        await console.open(place)
        link = console.page.get_by_role("link", name="Guide", exact=True)
        await expect(link).to_have_attribute("href", re.compile(f"/guide/{page}$"))
        answer = await client.get(await link.get_attribute("href") or "")
        assert answer.status_code == 200
