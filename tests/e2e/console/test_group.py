"""A group: its lag, its pending entries, and an operator's actions on them."""

import re

import httpx
import pytest
from playwright.async_api import expect

from tests.conditions import eventually
from tests.e2e.console.conftest import DEAD, HELD, ORDERS, Console

pytestmark = pytest.mark.asyncio(loop_scope="session")

BILLING = "streams/orders/groups/billing"


async def consumers_of(client: httpx.AsyncClient) -> dict[str, int]:
    consumers = (await client.get(f"{BILLING}/consumers")).json()["consumers"]
    return {consumer["name"]: consumer["pending"] for consumer in consumers}


async def test_what_hangs_is_released_claimed_and_acknowledged(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    await console.open(BILLING)
    rows = console.rows("Pending entries")
    await expect(rows).to_have_count(HELD)
    await expect(rows.first).to_contain_text("hung")

    await console.press("j", "x", "j", "x", "j", "x", "r")
    await console.confirm()
    await console.says("3 entries released.")
    await expect(console.page.get_by_text("none: released")).to_have_count(3)

    await console.page.get_by_label("Consumer").fill("hung")
    await expect(rows).to_have_count(HELD - 3)
    await console.page.get_by_label("Select all").check()
    await console.act("Claim", New_consumer="rescue")
    await console.says(f"rescue claimed {HELD - 3} entries.")
    assert await consumers_of(client) == {"careless": 0, "hung": 0, "rescue": HELD - 3}

    await console.page.get_by_label("Consumer").fill("rescue")
    await console.page.get_by_label("Select all").check()
    await console.act("Ack")
    await console.says(f"{HELD - 3} entries acknowledged.")
    assert (await client.get(BILLING)).json()["pending"] == 3


async def test_what_cannot_work_is_given_back_as_failed(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    await console.open(BILLING)
    await expect(console.rows("Pending entries")).to_have_count(HELD)
    await console.page.get_by_label("Select all").check()
    await console.act("Nack", Mode="fatal: dead letter now")
    await console.says(f"{HELD} entries given back as failed.")

    await expect(console.page.get_by_text("No pending entries.")).to_be_visible()
    assert (await client.get("streams/graveyard")).json()["length"] == DEAD + HELD


async def test_an_entry_that_is_held_says_what_it_waits_for(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    group = "streams/keyed/groups/work"
    policy = {"key_field": "who"}
    await client.put(group, json={"start": "0", "create_stream": True, "policy": policy})
    batch = [{"fields": {"who": "ana"}}] * 2
    first, _ = (await client.post("streams/keyed/entries/batch", json=batch)).json()["ids"]
    await client.post(f"{group}/read?consumer=w4")

    await console.open(group)
    held = console.rows("Pending entries").nth(1)
    await expect(held).to_contain_text(f"none: waits for {first} of the same key, held by w4 for")
    await client.delete("streams/keyed")


async def test_a_group_that_falls_behind_is_said_to(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    await console.open(BILLING)
    outlook = console.page.locator(".outlook")

    async def is_told() -> bool:
        await client.post("streams/orders/entries/batch", json=[{"fields": {"n": "1"}}] * 20)
        return "The lag increases by" in (await outlook.text_content() or "")

    await eventually(is_told, bool)

    await console.act("Reset position", Start_after="$")
    await expect(outlook).to_contain_text(f"{DEAD} dead letters.")


async def test_consumers_and_the_policy_are_changed(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    await console.open(f"{BILLING}/consumers")
    await expect(console.rows("Consumers")).to_have_count(2)
    await expect(console.rows("Consumers").first).to_contain_text("hung")
    await console.rows("Consumers").first.get_by_role("button", name="Remove").click()
    await console.confirm()
    await console.says(f"hung is removed. It had {HELD} pending entries.")
    assert (await client.get(BILLING)).json()["released"] == HELD

    await console.page.get_by_role("link", name="Settings").click()
    await console.act("Change", Claim_after="30s", Retry_delays="1s 1m")
    await expect(console.page.get_by_text("1 s, 1 min")).to_be_visible()
    policy = (await client.get(BILLING)).json()["policy"]
    assert policy["claim_idle_ms"] == 30_000
    assert policy["backoff_ms"] == [1000, 60_000]
    assert policy["max_deliveries"] == 3

    await console.act("Delete the group", Type="billing")
    await expect(console.page.get_by_text("No groups.")).to_be_visible()


async def test_dead_letters_are_shown_and_sent_back(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    await console.open(f"{BILLING}/dead-letters")
    rows = console.rows("Dead letters")
    await expect(rows).to_have_count(DEAD)
    await expect(rows.first).to_contain_text("fatal")
    await expect(rows.first).to_contain_text(f"sku=A-{DEAD - 1}")
    await expect(rows.first.get_by_role("gridcell").nth(3)).to_have_text("1")
    await rows.first.click()
    panel = console.page.get_by_role("complementary")
    await expect(panel).to_contain_text("orders / billing")
    await expect(panel).to_contain_text("fatal after 1 delivery.")

    await rows.first.get_by_role("checkbox").check()
    await console.act("Redrive selected")
    await console.says("1 dead letter sent back.")
    await expect(rows).to_have_count(DEAD - 1)
    await console.act("Redrive all", Rate_per_second="2")
    await expect(console.page.get_by_text("2 per second")).to_be_visible()
    await console.says(f"{DEAD - 1} dead letters sent back.")

    await expect(console.page.get_by_text("No dead letters.")).to_be_visible()
    group = (await client.get(BILLING)).json()
    assert (group["released"], group["lag"]) == (DEAD, ORDERS - DEAD - HELD)


async def test_a_group_that_is_caught_up_names_its_own_dead_letters(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    other = {"_stream": "orders", "_group": "another", "_id": "1-0", "_reason": "fatal"}
    await client.post("streams/graveyard/entries", json={"fields": other})
    await client.patch(BILLING, json={"start": "$"})
    await console.open(BILLING)
    outlook = console.page.locator(".outlook")
    await expect(outlook).to_contain_text(f"{DEAD} dead letters.")
    tabs = console.page.get_by_role("navigation", name="billing")
    tab = tabs.get_by_role("link", name="Dead letters")
    await expect(tab).to_have_text(f"Dead letters{DEAD}")

    await outlook.get_by_role("link", name="Dead letters").click()
    await expect(console.rows("Dead letters")).to_have_count(DEAD)
    await console.act("Redrive all", Rate_per_second="")
    await console.says(f"{DEAD} dead letters sent back.")
    await expect(tab).to_have_text("Dead letters0")
    again = re.compile(rf"{DEAD} entries (will be redelivered|wait)")
    await expect(outlook).to_contain_text(again)
    await expect(outlook).not_to_contain_text("dead letter")


async def test_a_group_that_is_paused_says_until_when(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    policy = {"paused_until_ms": 4_000_000_000_000}
    await client.put("streams/orders/groups/resting", json={"start": "0", "policy": policy})
    await console.open("streams/orders/groups/resting")
    outlook = console.page.locator(".outlook")
    await expect(outlook).to_contain_text("Paused until")
    await expect(outlook).to_contain_text(f"{ORDERS} entries wait")


async def test_what_is_not_there_is_said_once(console: Console, streams: None) -> None:
    page = console.page
    await console.open("streams/orders/groups/nowhere")
    await page.get_by_role("link", name="Groups of orders").click()
    await expect(console.rows("Groups")).to_have_count(1)
    await console.open("streams/nowhere")
    await expect(page.get_by_text("This stream does not exist.")).to_be_visible()
    await expect(page.get_by_role("link", name="Entries")).to_have_count(0)


async def test_a_fair_group_shows_what_waits_of_each_key(
    console: Console, streams: None, client: httpx.AsyncClient
) -> None:
    group = "streams/jobs/groups/workers"
    policy = {"fair_field": "tenant"}
    await client.put(group, json={"create_stream": True, "policy": policy})
    tenants = ["acme"] * 5 + ["ben"] * 2
    entries = [{"fields": {"tenant": tenant}} for tenant in tenants]
    await client.post("streams/jobs/entries/batch", json=entries)
    await client.post(f"{group}/read?consumer=w1", json={"limit": 3})
    await console.open(f"{group}/keys")
    await expect(console.page.get_by_text("4 entries of 2 keys are waiting.")).to_be_visible()
    rows = console.rows("Keys")
    await expect(rows).to_have_count(2)
    await expect(rows.first).to_contain_text("acme")
    await expect(rows.first).to_contain_text("67 %")
    await console.page.get_by_role("link", name="Settings").click()
    await expect(console.page.get_by_text("tenant")).to_be_visible()
