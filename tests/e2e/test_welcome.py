"""The first page, in a real browser and for curl."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.e2e.pages import look, new_key
from tests.e2e.test_guide import HEIGHTS
from tests.processes.gateway import Gateway, headgate

pytestmark = pytest.mark.asyncio(loop_scope="session")

MARKUP = "<img src=x onerror=\"document.title='owned'\">"


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A page that may not say a word on the console but that a stream is not there."""
    opened = await browser.new_page()
    messages: list[str] = []
    opened.on("pageerror", lambda error: messages.append(str(error)))
    opened.on("console", lambda message: messages.append(message.text))
    yield opened
    assert [line for line in messages if "404" not in line] == []


async def append(gateway: Gateway, stream: str, **fields: str) -> str:
    async with httpx.AsyncClient(base_url=gateway.url) as client:
        path = httpx.URL("/v1/streams/").join(httpx.URL(path=f"/v1/streams/{stream}/entries"))
        answer = await client.post(path, json={"fields": fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def test_tabs_that_nobody_sees_leave_the_connections_to_the_one_that_is_seen(
    gateway: Gateway, browser: Browser
) -> None:
    """A browser has six for all of them."""
    await append(gateway, "orders", sku="first")
    context = await browser.new_context()

    async def opened() -> Page:
        tab = await context.new_page()
        await tab.goto(gateway.url)
        await tab.wait_for_selector("#tail-state.good")
        return tab

    hidden = seen = await opened()
    for _ in range(7):
        hidden, seen = seen, await opened()
        await look(hidden, "hidden")

    await append(gateway, "orders", sku="second")
    await seen.locator("#tail li").get_by_text("second").wait_for()
    assert await hidden.locator("#tail li").count() == 1
    await look(hidden, "visible")
    await hidden.locator("#tail li").get_by_text("second").wait_for()
    assert await hidden.locator("#tail li").count() == 2


async def test_the_first_entry_is_appended_and_read_without_another_word(
    gateway: Gateway, page: Page
) -> None:
    await page.goto(gateway.url)
    await page.wait_for_selector("#health.good")
    await page.get_by_text("This stream does not exist yet").wait_for()

    await page.get_by_role("button", name="append", exact=True).click()

    entry = page.locator("#tail li")
    await entry.wait_for()
    assert re.fullmatch(r"\d+-0sku=42 ", await entry.text_content() or "")
    await page.wait_for_selector("#tail-state.good")
    assert await page.locator("#streams tbody tr").all_inner_texts() != []
    await append(gateway, "orders", sku="43", note="from elsewhere")
    await page.get_by_text("note=from elsewhere").wait_for()


async def test_what_clients_wrote_is_text_and_never_markup(gateway: Gateway, page: Page) -> None:
    await append(gateway, MARKUP, **{MARKUP: f"{MARKUP}<script>document.title='owned'</script>"})
    await page.goto(gateway.url)

    await page.get_by_role("button", name=MARKUP).click()

    await page.locator("#tail li").get_by_text("<script>").wait_for()
    assert await page.locator("#followed").text_content() == MARKUP
    assert await page.locator("img, li script").count() == 0
    assert await page.title() == "Headgate"


async def test_the_commands_shown_do_what_they_say(gateway: Gateway, page: Page) -> None:
    stream = "it's (a) stream & more"
    await page.goto(gateway.url)
    await page.fill("#stream", stream)
    await page.press("#stream", "Tab")
    first = page.locator("#steps pre span").first
    command = await first.text_content() or ""
    assert gateway.url.rpartition(":")[2] in command

    process = await asyncio.create_subprocess_shell(
        command.replace("curl ", "curl -s ", 1), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()

    await page.get_by_text(json.loads(output)["id"]).first.wait_for()
    assert await page.locator("#followed").text_content() == stream


async def test_the_commands_end_with_an_entry_that_a_group_has_acknowledged(
    gateway: Gateway, page: Page
) -> None:
    await page.goto(gateway.url)
    await page.get_by_role("button", name="append", exact=True).click()
    entry = await page.locator("#tail li b").first.text_content() or ""
    commands = page.locator("#steps pre span")
    outputs = []
    for at in (3, 4, 5):
        command = await commands.nth(at).text_content() or ""
        process = await asyncio.create_subprocess_shell(
            command.replace("curl ", "curl -s ", 1), stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        outputs.append(json.loads(output))

    assert await commands.count() == 6
    assert [each["id"] for each in outputs[1]["entries"]] == [entry]
    assert outputs[2]["results"] == [{"id": entry, "outcome": "acked"}]
    async with httpx.AsyncClient(base_url=gateway.url) as client:
        group = (await client.get("/v1/streams/orders/groups/billing")).json()
    assert (group["lag"], group["pending"]) == (0, 0)


async def test_a_problem_is_told_beside_the_form(gateway: Gateway, page: Page) -> None:
    await page.goto(gateway.url)
    await page.fill("#stream", "a/b")
    await page.get_by_role("button", name="append", exact=True).click()

    await page.wait_for_selector("#told.bad")
    assert await page.locator("#told").text_content()


async def test_it_is_read_anywhere(gateway: Gateway, browser: Browser) -> None:
    await append(gateway, "a-name-without-end-" * 10, field="x" * 500)
    for scheme in ("light", "dark"):
        for width in (320, 390, 1280):
            context = await browser.new_context(
                color_scheme="dark" if scheme == "dark" else "light",
                viewport={"width": width, "height": 800},
            )
            page = await context.new_page()
            await page.goto(f"{gateway.url}/#{'a-name-without-end-' * 10}")
            await page.locator("#tail li").wait_for()
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            back = await page.evaluate("getComputedStyle(document.body).backgroundColor")
            brightness = sum(map(int, re.findall(r"\d+", back)[:3])) / 3
            assert (brightness > 128) == (scheme == "light")
            controls = page.locator("form :is(button, input), pre button")
            assert width > 390 or min(await controls.evaluate_all(HEIGHTS)) >= 40
            await context.close()


async def test_a_key_is_asked_for_and_kept_for_the_tab_only(
    browser: Browser, tmp_path: Path
) -> None:
    everything = {"streams": ["*"], "do": ["read", "append", "manage"], "create": True}
    key = new_key(tmp_path / "data", everything)
    gateway = await Gateway.start(tmp_path / "data")
    tab = await browser.new_page()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    await tab.goto(gateway.url)
    entrance = tab.locator("#enter")
    await entrance.get_by_text("This gateway requires a key").wait_for()
    assert not await tab.locator("#content").is_visible()

    for wrong, refusal in [("no key", "Invalid key or token"), ("hg_nobody_x", "not valid")]:
        await tab.fill("#key", wrong)
        await tab.press("#key", "Enter")
        await entrance.get_by_text(refusal).wait_for()
    await tab.fill("#key", f" {key} ")
    await tab.press("#key", "Enter")
    await tab.get_by_text("This stream does not exist yet").wait_for()
    await tab.get_by_role("button", name="append", exact=True).click()
    await tab.locator("#tail li").wait_for()
    await tab.wait_for_selector("#tail-state.good")
    await tab.reload()
    await tab.locator("#tail li").wait_for()

    assert not any(key in url for url in [*asked, tab.url])
    assert key not in await tab.content()
    assert key not in await tab.evaluate("JSON.stringify(localStorage) + document.cookie")
    other = await browser.new_page()
    await other.goto(gateway.url)
    await other.locator("#enter").get_by_text("This gateway requires a key").wait_for()
    await tab.get_by_role("button", name="Sign out").click()
    await entrance.get_by_text("This gateway requires a key").wait_for()
    assert await tab.evaluate("sessionStorage.length") == 0
    await gateway.stop()


async def test_a_key_that_is_revoked_is_asked_for_again(browser: Browser, tmp_path: Path) -> None:
    reading = {"streams": ["orders"], "do": ["read"]}
    key = new_key(tmp_path / "data", reading)
    gateway = await Gateway.start(tmp_path / "data")
    tab = await browser.new_page()
    await tab.goto(f"{gateway.url}/#orders")
    await tab.fill("#key", key)
    await tab.press("#key", "Enter")
    await tab.get_by_text("This stream does not exist yet").wait_for()
    await tab.get_by_role("button", name="append", exact=True).click()
    await tab.locator("#told.bad").get_by_text("append").wait_for()

    headgate("keys", "revoke", key.split("_")[1], "--data-dir", tmp_path / "data")

    await tab.locator("#enter").get_by_text("This gateway requires a key").wait_for()
    await gateway.stop()


async def test_it_comes_back_when_the_gateway_does(
    browser: Browser, tmp_path: Path, page: Page
) -> None:
    del page
    gateway = await Gateway.start(tmp_path / "data")
    tab = await browser.new_page()
    await tab.goto(gateway.url)
    await tab.get_by_role("button", name="append", exact=True).click()
    await tab.wait_for_selector("#tail-state.good")

    await gateway.kill()
    await tab.wait_for_selector("#health.bad")
    gateway = await Gateway.start(tmp_path / "data", {"port": gateway.url.rpartition(":")[2]})
    await tab.wait_for_selector("#health.good")
    entry_id = await append(gateway, "orders", after="restart")

    await tab.locator("#tail").get_by_text(entry_id).wait_for()
    assert await tab.locator("#tail li").count() == 2
    await gateway.stop()


async def test_an_operation_can_be_tried_on_the_documentation_page(
    gateway: Gateway, browser: Browser
) -> None:
    tab = await browser.new_page()
    await tab.goto(f"{gateway.url}/docs".replace("127.0.0.1", "localhost"))
    operation = tab.locator("#operations-Operations-describeLimits")
    await operation.locator(".opblock-summary-control").click()
    await operation.get_by_role("button", name="Try it out").click()
    await operation.get_by_role("button", name="Execute").click()

    status = operation.locator(".live-responses-table .response .response-col_status")
    await status.wait_for()
    assert (await status.inner_text()).startswith("200")
    tags = [tag.split("\n")[0] for tag in await tab.locator(".opblock-tag").all_inner_texts()]
    assert tags[:4] == ["Entries", "Events", "Groups", "Delivery"]
    assert tags[-1] == "Operations"
    for name, path in [("Headgate", "/"), ("Guide", "/guide"), ("Console", "/console")]:
        link = tab.locator("nav.pages").get_by_role("link", name=name)
        assert await link.get_attribute("href") == path
