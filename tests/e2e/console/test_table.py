"""The table of a stream: rows by key, one with its history, and changes as it was seen."""

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Locator, expect

from tests.e2e.console.conftest import Console

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def stock(streams: None, client: httpx.AsyncClient) -> None:
    """Make a table with rows of three prefixes, one of which was changed twice."""
    await client.put("streams/stock", json={"key_field": "sku"})
    for key, count in [("eu/41", 7), ("eu/42", 3), ("us/1", 9), ("..", 1), ("eu/42", 4)]:
        await put(client, key, count)


async def put(client: httpx.AsyncClient, key: str, count: int) -> None:
    entry = {"fields": {"sku": key, "count": str(count)}}
    answer = await client.post("streams/stock/entries", json=entry)
    assert answer.is_success, answer.text


def panel_of(console: Console) -> Locator:
    return console.page.get_by_role("complementary")


async def test_rows_are_shown_and_found_by_the_beginning_of_their_keys(
    console: Console, stock: None, client: httpx.AsyncClient
) -> None:
    await console.open("streams/orders")
    await expect(console.rows("Entries").first).to_be_visible()
    await expect(console.page.get_by_role("link", name="Table")).to_have_count(0)

    await console.open("streams/stock")
    await console.page.get_by_role("link", name="Table").click()
    await expect(console.rows("Rows")).to_have_count(4)
    await expect(console.rows("Rows").nth(2)).to_contain_text("count=4")
    await put(client, "us/1", 10)
    await expect(console.rows("Rows").nth(3)).to_contain_text("count=10")
    await console.press("/")
    await console.page.keyboard.type("eu/")
    await expect(console.rows("Rows")).to_have_count(2)
    await expect(console.page.get_by_text("No more rows.")).to_be_visible()


async def test_a_row_shows_what_it_was(
    console: Console, stock: None, client: httpx.AsyncClient
) -> None:
    await console.open("streams/stock/table?row=eu%2F42")
    history = panel_of(console).get_by_role("listitem")
    await expect(history).to_contain_text(["count=4", "count=3"])
    await client.delete("streams/stock/table/eu%2F42")
    await expect(history).to_contain_text(["removed", "count=4", "count=3"])
    await expect(panel_of(console)).to_contain_text("This row does not exist.")


async def test_a_row_is_made_edited_and_removed(
    console: Console, stock: None, client: httpx.AsyncClient
) -> None:
    await console.open("streams/stock/table")
    await expect(console.rows("Rows")).to_have_count(4)
    await console.press("n")
    await console.confirm(Key="eu/43", Value_of_count="5")
    await console.says("Row eu/43 is created")

    await console.rows("Rows").filter(has_text="eu/43").click()
    await panel_of(console).get_by_role("button", name="Edit").click()
    await console.confirm(Value_of_count="6")
    await console.says("Row eu/43 is saved")
    await expect(panel_of(console).locator("dd")).to_have_text("6")
    await panel_of(console).get_by_role("button", name="Remove").click()
    await console.confirm()
    await console.says("Row eu/43 is removed.")
    await expect(console.rows("Rows")).to_have_count(4)

    await console.page.goto(f"{console.page.url.partition('?')[0]}?row=..")
    await panel_of(console).get_by_role("button", name="Edit").click()
    await console.confirm(Value_of_count="2")
    await console.says("Row .. is saved")
    row = (await client.get("streams/stock/table/base64:Li4=")).json()
    assert row["fields"] == {"sku": "..", "count": "2"}


async def test_a_row_that_somebody_has_changed_is_shown_before_it_is_overwritten(
    console: Console, stock: None, client: httpx.AsyncClient
) -> None:
    await console.open("streams/stock/table?row=us%2F1")
    await panel_of(console).get_by_role("button", name="Edit").click()
    await put(client, "us/1", 20)
    await console.confirm(Value_of_count="11")
    dialog = console.page.get_by_role("dialog", name="Row us/1 has changed")
    await expect(dialog.get_by_label("Current row").locator("dd")).to_have_text("20")
    await expect(dialog.get_by_label("Value of count")).to_have_value("11")
    await put(client, "us/1", 21)
    await console.confirm()
    await expect(dialog.get_by_label("Current row").locator("dd")).to_have_text("21")
    await console.confirm()
    await console.says("Row us/1 is saved")
    assert (await client.get("streams/stock/table/us/1")).json()["fields"]["count"] == "11"


async def test_a_new_row_takes_no_key_that_is_there(
    console: Console, stock: None, client: httpx.AsyncClient
) -> None:
    await console.open("streams/stock/table")
    await console.act("New row", Key="us/1", Value_of_count="1")
    dialog = console.page.get_by_role("dialog", name="Row us/1 has changed")
    await expect(dialog.get_by_label("Current row").locator("dd")).to_have_text("9")
    await dialog.get_by_role("button", name="Cancel").click()
    assert (await client.get("streams/stock/table/us/1")).json()["fields"]["count"] == "9"


async def test_a_row_that_has_changed_is_not_removed_unseen(
    console: Console, stock: None, client: httpx.AsyncClient
) -> None:
    await console.open("streams/stock/table?row=us%2F1")
    await panel_of(console).get_by_role("button", name="Remove").click()
    await put(client, "us/1", 20)
    await console.confirm()
    dialog = console.page.get_by_role("dialog", name="Row us/1 has changed")
    await expect(dialog.locator("dd")).to_have_text("20")
    await console.confirm()
    await console.says("Row us/1 is removed.")
    assert (await client.get("streams/stock/table/us/1")).status_code == 404
