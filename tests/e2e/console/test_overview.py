"""The overview: all streams, however many there are."""

import asyncio
import json
import re
from random import Random

import httpx
import pytest
from playwright.async_api import expect

from tests.conditions import eventually
from tests.e2e.console.conftest import DEAD, ORDERS, Console

pytestmark = pytest.mark.asyncio(loop_scope="session")

MANY = 3000
DRAWN_MAX = 120
ASKED_MAX = 50  # streams for their groups, in a round
GROUPS_ASKED_MAX = 120  # streams for their groups, by the palette


async def test_streams_are_searched_and_opened_by_keyboard(console: Console, streams: None) -> None:
    await console.open()
    await expect(console.rows("Streams")).to_have_count(4)

    await console.press("/")
    await console.page.keyboard.type("or")
    await expect(console.rows("Streams")).to_have_count(1)
    await console.press("Escape", "j", "Enter")

    await expect(console.page.get_by_role("heading", name="orders")).to_be_visible()
    assert console.page.url.endswith("/console/streams/orders")
    await console.press("g", "o")
    await expect(console.page.get_by_role("heading", name="Overview")).to_be_visible()


async def test_of_thousands_of_streams_only_those_are_drawn_that_are_seen(
    console: Console, client: httpx.AsyncClient
) -> None:
    commands = [["XADD", f"stream.{number:05}", "*", "n", "1"] for number in range(MANY)]
    await client.post("commands/pipeline", json=commands)
    await console.open()
    last = console.page.get_by_text(f"stream.{MANY - 1:05}")

    async def is_reached() -> bool:
        await console.press("G")
        assert await console.rows("Streams").count() < DRAWN_MAX
        return await last.is_visible()

    await eventually(is_reached, bool)

    await console.press("g", "g")
    await expect(console.page.get_by_text("stream.00000")).to_be_in_viewport()


async def test_groups_that_need_somebody_are_named_the_worst_first(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    orders = "streams/orders/groups"
    await client.put(f"{orders}/fine", json={"start": "$"})
    await client.put(f"{orders}/nobody", json={"start": "0"})
    await client.put("streams/payments/groups/mail", json={"start": "0"})
    await console.open()
    attention = console.page.get_by_role("region", name="Needs attention")
    needs = attention.get_by_role("listitem")
    await expect(needs).to_contain_text(
        [
            f"orders / nobodyNo consumer: {ORDERS} entries wait",
            "payments / mailNo consumer: 1 entry waits",
            re.compile(rf"orders / billing.*{DEAD} dead letters"),
        ]
    )

    await client.patch(f"{orders}/billing", json={"start": "$"})
    await client.delete(f"{orders}/nobody")
    await expect(needs).to_have_text(
        ["payments / mailNo consumer: 1 entry waits", f"orders / billing{DEAD} dead letters"]
    )
    await attention.get_by_role("link", name="orders / billing").click()
    await expect(console.rows("Dead letters")).to_have_count(DEAD)

    await client.delete("streams/graveyard")
    await client.delete("streams/payments")
    await console.press("g", "o")
    await expect(attention).to_have_text(
        "Nothing needs attention. All 2 groups keep up. There are no dead letters."
    )


async def test_a_push_that_fails_needs_somebody(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    mail = "streams/payments/groups/mail"
    await client.put(mail, json={"start": "0"})
    await client.put(f"{mail}/push", json={"url": "http://127.0.0.1:9/"})

    async def is_failing() -> bool:
        return bool((await client.get(f"{mail}/push")).json()["state"] == "failing")

    await eventually(is_failing, bool)
    await console.open()
    attention = console.page.get_by_role("region", name="Needs attention")
    failing = re.compile(r"payments / mailPush failing since [\d:TZ-]+")
    await expect(attention).to_contain_text(failing)
    await attention.get_by_role("link", name="payments / mail").click()
    await expect(console.page.get_by_role("button", name="Retry now")).to_be_visible()
    await client.delete(f"{mail}/push")


async def test_of_many_groups_the_worst_are_named_by_few_requests(
    console: Console, client: httpx.AsyncClient
) -> None:
    for number in range(120):
        stream = f"jobs.{number:03}"
        await client.post(f"streams/{stream}/entries/batch", json=[{"fields": {"n": "1"}}] * 9)
        await client.put(f"streams/{stream}/groups/g", json={"start": "0"})
    await client.post("streams/jobs.099/entries", json={"fields": {"n": "1"}})
    asked: list[str] = []
    console.page.on("request", lambda request: asked.append(request.url))
    await console.open()
    attention = console.page.get_by_role("region", name="Needs attention")
    needs = attention.get_by_role("listitem")
    await expect(needs).to_have_count(20)
    assert sum("/groups?" in url for url in asked) <= ASKED_MAX

    await expect(needs.first).to_contain_text("jobs.099 / gNo consumer: 10 entries wait")
    await expect(attention).to_contain_text("100 more groups with less severe problems.")


async def test_a_stream_is_gone_to_from_anywhere(console: Console, streams: None) -> None:
    await console.open("connections")
    await console.press("Control+k")
    await console.page.get_by_role("combobox").fill("orders/bi")
    await expect(console.page.get_by_role("option")).to_have_count(1)
    await console.press("Enter")

    await expect(console.page.get_by_role("heading", name="orders / billing")).to_be_visible()


async def test_a_group_is_gone_to_by_its_own_name(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    for number in range(60):
        stream = f"jobs.{number:03}"
        await client.put(f"streams/{stream}/groups/work", json={"create_stream": True})
    asked: list[str] = []
    await console.open("connections")
    console.page.on("request", lambda request: asked.append(request.url))
    await console.press("Control+k")
    await console.page.get_by_role("combobox").fill("work")
    options = console.page.get_by_role("option")
    await expect(options.first).to_contain_text("jobs.000 / work")
    await console.page.get_by_role("combobox").fill("jobs.03")
    await expect(options.first).to_contain_text("jobs.030")
    await console.page.get_by_role("combobox").fill("pay / m")
    await expect(console.page.get_by_text("No results.")).to_be_visible()
    assert sum("/groups?" in url for url in asked) <= GROUPS_ASKED_MAX

    await console.press("Escape", "Control+k")
    await console.page.get_by_role("combobox").fill("bill")
    await expect(options).to_have_count(1)
    await console.press("Enter")
    await expect(console.page.get_by_role("heading", name="orders / billing")).to_be_visible()


async def test_a_stream_is_created_by_the_line_that_is_shown(
    console: Console, client: httpx.AsyncClient
) -> None:
    await console.open()
    await console.press("n")
    dialog = console.page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("it's new")
    await dialog.get_by_label("Max age").fill("7d")
    line = await dialog.get_by_label("Equivalent curl command").text_content() or ""

    process = await asyncio.create_subprocess_shell(
        line.replace("curl ", "curl -s ", 1), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()

    assert json.loads(output)["config"]["max_age_ms"] == 7 * 86_400_000
    await console.confirm()
    await console.says("Stream it's new is created.")
    assert re.search("/console/streams/it's%20new$", console.page.url)


async def test_what_the_gateway_does_is_plotted_live(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    await console.open()
    await expect(console.page.get_by_role("img", name="Memory: process")).to_be_visible()
    entries = console.page.locator("[role=img][aria-label^='Entries/s: in ']")

    async def is_plotted() -> bool:
        await client.post("streams/orders/entries", json={"fields": {"n": "1"}})
        return "in 0" not in (await entries.get_attribute("aria-label") or "")

    await eventually(is_plotted, bool)

    await console.page.get_by_role("button", name="24 h").click()
    await expect(console.page.get_by_role("img", name="CPU: all")).to_be_visible()


async def test_what_is_cold_is_shown(console: Console, client: httpx.AsyncClient) -> None:
    pick = Random(1)
    batch = [{"fields": {"v": pick.randbytes(400).hex()}} for _ in range(500)]
    await client.post("streams/large/entries/batch", json=batch)
    await console.open("streams/large")
    facts = console.page.locator(".facts")
    await expect(facts).to_contain_text(re.compile(r"hot[\d.]+ KiBcold0 B"))
    await client.post("admin/rewrite")
    await expect(facts).to_contain_text(re.compile(r"cold[\d.]+ KiB"))

    await client.get("streams/large/entries")
    await console.press("g", "o")
    await expect(
        console.page.get_by_role("img", name="Cold entries: found in memory")
    ).to_be_visible()
    disk = console.page.get_by_role("img", name=re.compile(r"Disk: .*cold [\d.]+ KiB"))
    await expect(disk).to_be_visible()


async def test_internal_streams_are_shown_to_an_operator_who_asks(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    mail = "streams/payments/groups/mail"
    await client.put(mail, json={"start": "0"})
    await client.put(f"{mail}/push", json={"url": "http://127.0.0.1:9/"})
    await console.open()
    rows = console.rows("Streams")
    own = rows.filter(has_text="__push").first
    await expect(rows).to_have_count(4)
    await console.page.get_by_label("Internal streams").check()
    await expect(own).to_contain_text("internal")
    await console.page.reload()
    await expect(own).to_be_visible()
    await console.page.get_by_label("Internal streams").uncheck()
    await expect(rows).to_have_count(4)
    await client.delete(f"{mail}/push")
