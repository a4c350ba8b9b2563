"""A stream: its entries, live and by range; appends, trims, settings."""

import re
from collections.abc import Awaitable, Callable
from urllib.parse import quote

import httpx
import pytest
from playwright.async_api import Page, Response, expect

from tests.e2e.console.conftest import ORDERS, Console
from tests.processes.gateway import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def append(client: httpx.AsyncClient, **fields: str) -> str:
    answer = await client.post("streams/orders/entries", json={"fields": fields})
    return str(answer.json()["id"])


async def test_what_is_appended_is_shown_at_once_unless_it_is_paused(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    await console.open("streams/orders")
    first = console.rows("Entries").first
    await expect(first).to_contain_text(f"sku=A-{ORDERS - 1}")

    await append(client, sku="live")
    await expect(first).to_contain_text("sku=live")
    await console.press("p")
    await append(client, sku="held back")
    await console.page.get_by_text(re.compile(r"Show \d+\+ new entries")).click()

    await expect(first).to_contain_text("sku=held back")
    await expect(console.rows("Entries").nth(1)).to_contain_text("sku=live")


async def test_entries_are_searched_by_their_fields_and_begin_where_one_says(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    entries = (await client.get("streams/orders/entries?limit=20")).json()["entries"]
    await console.open("streams/orders")
    await expect(console.rows("Entries").first).to_be_visible()
    await console.press("/")
    await console.page.keyboard.type("sku=A-17")
    await expect(console.rows("Entries")).to_have_count(1)
    await expect(console.page.get_by_text("1 entry matches.")).to_be_visible()
    find = console.page.get_by_label("Find text")
    await find.fill("sku=A-17* qty>=5")
    await expect(console.rows("Entries")).to_have_count(2)
    await find.fill("A-17")
    await expect(console.page.get_by_text(f"11 of {ORDERS} entries match.")).to_be_visible()

    await find.fill("")
    await console.page.get_by_label("From id or time").fill(entries[12]["id"])
    await expect(console.rows("Entries")).to_have_count(13)
    await console.page.get_by_role("button", name="Oldest").click()
    await expect(console.rows("Entries").first).to_contain_text("sku=A-12 ")


async def test_the_gateway_looks_for_fields_and_sends_only_what_matches(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    batch = [{"fields": {"n": f"{n}", "kind": "rare" if n == 0 else "common"}} for n in range(4000)]
    await client.post("streams/long/entries/batch", json=batch)
    sent: list[int] = []

    async def count(response: Response) -> None:
        if "/streams/long/entries?" in response.url:
            sent.append(len((await response.json())["entries"]))

    console.page.on("response", count)
    await console.open("streams/long?find=kind%3Drare")
    await expect(console.page.get_by_text("1 entry matches.")).to_be_visible()
    await expect(console.rows("Entries").first).to_contain_text("n=0 kind=rare")
    assert sum(sent) == 1

    await client.post("streams/long/entries", json={"fields": {"n": "x", "kind": "common"}})
    await client.post("streams/long/entries", json={"fields": {"n": "y", "kind": "rare"}})
    await expect(console.rows("Entries")).to_have_count(2)
    await expect(console.rows("Entries").first).to_contain_text("n=y kind=rare")


async def test_an_entry_is_appended_in_the_shape_of_the_last_one_and_deleted(
    console: Console, streams: None
) -> None:
    await console.open("streams/orders")
    await expect(console.rows("Entries").first).to_be_visible()
    await console.append()
    dialog = console.page.get_by_role("dialog")
    await dialog.get_by_label("Value of sku").fill("B-1")
    await console.confirm()
    await expect(dialog.get_by_role("alert")).to_contain_text("Appended with id")
    await console.press("Escape")

    added = console.rows("Entries").first
    await expect(added).to_contain_text(f"sku=B-1 qty={(ORDERS - 1) % 7}")
    await console.press("j", "Enter")
    panel = console.page.get_by_role("complementary")
    await expect(panel).to_contain_text("B-1")
    await panel.get_by_role("button", name="Delete").click()
    await console.confirm()
    await expect(added).to_contain_text(f"sku=A-{ORDERS - 1}")


async def test_an_entry_that_is_delayed_says_when_it_is_due(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    await client.put("streams/later/groups/g", json={"start": "0", "create_stream": True})
    await console.open("streams/later")
    await console.append()
    dialog = console.page.get_by_role("dialog")
    for label, value in [("Name of field", "to"), ("Value of to", "ann")]:
        await dialog.get_by_label(label).fill(value)
    await dialog.get_by_label("Deliver after").fill("soon")
    await expect(dialog.get_by_role("button", name="Append")).to_be_disabled()
    await console.confirm(Deliver_after="10m", Expires="2100-01-01T00:00Z")
    await expect(dialog.get_by_role("alert")).to_contain_text("Appended with id")
    await console.press("Escape")

    await console.rows("Entries").first.click()
    panel = console.page.get_by_role("complementary")
    await expect(panel.get_by_text(re.compile("Due .*, in 9 min"))).to_be_visible()
    await expect(panel.get_by_text(re.compile("Expires .*, in [0-9]+ d"))).to_be_visible()

    await client.post("streams/later/groups/g/read?consumer=me", json={})
    await console.open("streams/later/groups/g")
    await expect(console.page.get_by_text("none: due in 9 min")).to_be_visible()
    await expect(console.page.locator(".facts")).to_contain_text("delayed1")


async def test_an_entry_shows_what_its_handlers_have_done_and_what_it_waits_for(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    page = await client.get("streams/orders/entries?order=desc&limit=1")
    [entry] = page.json()["entries"]
    await client.put("streams/orders.billing.steps", json={"key_field": "key"})
    for step, fields in [("step/charge", {"result": '"no 7"'}), ("sleep/1", {"for_ms": "9000000"})]:
        key = quote(f"{entry['id']}/{step}", safe="")
        put = await client.put(f"streams/orders.billing.steps/table/{key}", json={"fields": fields})
        assert put.is_success, put.text
    await console.open("streams/orders")
    await console.rows("Entries").first.click()
    steps = console.page.get_by_role("region", name="Steps in billing").get_by_role("listitem")
    await expect(steps).to_contain_text(['charge "no 7"', "sleep 1 until"])


async def test_a_stream_is_trimmed_configured_and_deleted(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    await console.open("streams/orders")
    await expect(console.page.locator(".facts")).to_contain_text(f"{ORDERS}")
    await console.act("Trim", id_or_time="10")
    await console.says(f"{ORDERS - 10} entries removed from orders.")

    await console.page.get_by_role("link", name="Settings").click()
    await console.act("Change", Max_entries="1,000", Max_age="12h")
    await expect(console.page.get_by_text("newest 1,000")).to_be_visible()
    config = (await client.get("streams/orders")).json()["config"]
    assert (config["max_length"], config["max_age_ms"]) == (1000, 12 * 3_600_000)

    await console.act("Delete the stream", Type="orders")
    await console.says("orders is deleted.")
    assert (await client.get("streams/orders")).status_code == 404


async def test_a_stream_is_closed_and_says_so(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    await console.open("streams/orders")
    await expect(console.page.get_by_role("button", name="Live")).to_be_visible()
    await console.page.get_by_role("link", name="Settings").click()
    await console.act("Close…")
    await console.says("orders is closed.")
    badge = console.page.get_by_role("heading", level=1).get_by_text("closed")
    await expect(badge).to_be_visible()
    assert (await client.get("streams/orders")).json()["closed_at_ms"] is not None

    append = console.page.get_by_role("button", name="Append")
    await expect(append).to_have_attribute("aria-disabled", "true")
    await console.page.get_by_role("link", name="Entries").click()
    await expect(console.page.get_by_text("complete: the stream is closed")).to_be_visible()
    await console.open("")
    row = console.rows("Streams").filter(has_text="orders").first
    await expect(row).to_contain_text("closed")


async def test_an_event_source_stops_at_the_end_of_a_closed_stream(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    await client.post("streams/orders/close", json={"fields": {"sku": "last"}})
    await console.open("")
    seen = await console.page.evaluate(
        """() => new Promise((resolve) => {
          const seen = { entry: 0, closed: 0, ready: 0 };
          const source = new EventSource("/v1/streams/orders/events?after=0");
          for (const name in seen) source.addEventListener(name, () => (seen[name] += 1));
          source.onerror = () => source.readyState === EventSource.CLOSED && resolve(seen);
        })"""
    )
    assert seen == {"entry": ORDERS + 1, "closed": 1, "ready": 1}


async def drag_mouse(page: Page, start: float, end: float, y: float) -> None:
    await page.mouse.move(start, y)
    await page.mouse.down()
    await page.mouse.move(end, y, steps=4)
    await page.mouse.up()


async def drag_finger(page: Page, start: float, end: float, y: float) -> None:
    session = await page.context.new_cdp_session(page)
    moves = [(start, "touchStart"), ((start + end) / 2, "touchMove"), (end, "touchMove")]
    for x, kind in moves:
        touch = {"type": kind, "touchPoints": [{"x": x, "y": y}]}
        await session.send("Input.dispatchTouchEvent", touch)
    await session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


@pytest.mark.parametrize("drag", [drag_mouse, drag_finger])
async def test_a_range_is_chosen_in_the_histogram(
    console: Console,
    gateway: Gateway,
    client: httpx.AsyncClient,
    drag: Callable[[Page, float, float, float], Awaitable[None]],
) -> None:
    hour = [
        {"id": f"{1_700_000_000_000 + 60_000 * n}-0", "fields": {"n": f"{n}"}} for n in range(61)
    ]
    await client.post("streams/hour/entries/batch", json=hour)
    await console.open("streams/hour")
    box = await console.page.locator(".plot .u-over").bounding_box()
    assert box is not None
    left, width = box["x"], box["width"]
    await drag(console.page, left + width / 4, left + width / 2, box["y"] + box["height"] / 2)

    await expect(console.page.get_by_text("not live: a range is selected")).to_be_visible()
    await expect(console.rows("Entries").first).to_contain_text(re.compile("n=(29|30)"))
    assert 14 <= await console.rows("Entries").count() <= 16
    await console.page.get_by_role("button", name="All times").click()
    await expect(console.rows("Entries").first).to_contain_text("n=60")
