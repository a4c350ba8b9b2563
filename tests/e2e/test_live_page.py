"""The example page in a real browser: nothing is missed, and nothing is worked on twice."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Page

from tests.conditions import eventually
from tests.e2e.pages import new_key, served
from tests.processes.gateway import ROOT, Gateway

ENTRIES = 60

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def pages_url() -> Iterator[str]:
    """Serve the examples, as their comment says."""
    with served(ROOT / "examples") as url:
        yield url


async def append(url: str, *numbers: int) -> list[str]:
    batch = [{"fields": {"n": str(number)}} for number in numbers]
    async with httpx.AsyncClient(base_url=url) as client:
        answer = await client.post("/v1/streams/chat/entries/batch", json=batch)
    assert answer.status_code == 201, answer.text
    ids: list[str] = answer.json()["ids"]
    return ids


async def noted(context: BrowserContext, page: Page, kind: str) -> list[list[str]]:
    """Return the ids each tab has noted, as tailed or as acked."""
    stored: dict[str, str] = await page.evaluate("({...localStorage})")
    return [text.split() for name, text in stored.items() if name.startswith(f"{kind}:")]


async def until_done(
    context: BrowserContext, page: Page, client: httpx.AsyncClient, ids: list[str]
) -> None:
    """Return once both tabs have seen every entry, and nothing is left to work on."""

    async def is_done() -> bool:
        tailed = await noted(context, page, "tailed")
        group = (await client.get("/v1/streams/chat/groups/readers")).json()
        is_worked_on = (group["pending"], group["lag"]) == (0, 0)
        return [set(each) for each in tailed] == [set(ids)] * 2 and is_worked_on

    await eventually(is_done, bool)


async def test_two_tabs_see_everything_and_share_the_work(
    browser: Browser, pages_url: str, tmp_path: Path
) -> None:
    settings: dict[str, object] = {"allowed_origins": pages_url}
    gateway = await Gateway.start(tmp_path / "data", settings)
    settings["port"] = gateway.port
    context = await browser.new_context()
    first, second = await context.new_page(), await context.new_page()
    for page in (first, second):
        await page.goto(f"{pages_url}/live.html?url={gateway.url}")
        await page.wait_for_selector("#work-state[data-state]:not([data-state=lost])")

    ids = await append(gateway.url, *range(ENTRIES))
    await first.reload()
    ids += await append(gateway.url, *range(ENTRIES))
    await context.set_offline(True)
    ids += await append(gateway.url, *range(ENTRIES))
    await context.set_offline(False)
    await gateway.stop()
    gateway = await Gateway.start(tmp_path / "data", settings)
    ids += await append(gateway.url, *range(ENTRIES))
    await first.fill("#value", "hello")
    await first.press("#value", "Enter")
    async with httpx.AsyncClient(base_url=gateway.url) as client:
        entry_id = await _entry_with(client, "hello")
        await until_done(context, second, client, [*ids, entry_id])

    tailed = await noted(context, second, "tailed")
    acked = [entry_id for each in await noted(context, second, "acked") for entry_id in each]
    assert tailed == [[*ids, entry_id]] * 2, "each tab saw each entry once, in order"
    assert set(acked) <= {*ids, entry_id}
    assert len(acked) == len(set(acked)), "no entry was acknowledged twice"
    await gateway.stop()


async def test_a_page_of_another_origin_asks_for_a_key_and_keeps_it_to_itself(
    browser: Browser, pages_url: str, tmp_path: Path
) -> None:
    grants = {"streams": ["chat"], "do": ["read", "append", "consume", "manage"], "create": True}
    key = new_key(tmp_path / "data", grants)
    gateway = await Gateway.start(tmp_path / "data", {"allowed_origins": pages_url})
    page = await browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(f"{pages_url}/live.html?url={gateway.url}")
    await page.wait_for_selector("#enter:not([hidden])")

    await page.fill("#token", key)
    await page.press("#token", "Enter")
    await page.wait_for_selector("#work-state[data-state]:not([data-state=lost])")
    await page.fill("#value", "hello")
    await page.press("#value", "Enter")

    await page.locator("#tail li").get_by_text("hello").wait_for()
    await page.locator("#work li").get_by_text("hello").wait_for()
    assert not any(key in url for url in [*asked, page.url])
    assert key not in await page.content()
    assert key not in str(await page.evaluate("({...localStorage})"))
    await gateway.stop()


async def _entry_with(client: httpx.AsyncClient, text: str) -> str:
    """Return the id of the entry the page has appended, as soon as it is there."""
    answer = await client.get("/v1/streams/chat/entries", params={"after": "+", "wait_ms": 10_000})
    for entry in answer.json()["entries"]:
        if entry["fields"].get("text") == text:
            return str(entry["id"])
    after = answer.json()["last_id"]
    answer = await client.get(
        "/v1/streams/chat/entries", params={"after": after, "wait_ms": 10_000}
    )
    [entry] = answer.json()["entries"]
    assert entry["fields"] == {"text": text}
    return str(entry["id"])
