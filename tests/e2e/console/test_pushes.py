"""Pushes: set, watched, paused, retried and deleted in the console."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from standardwebhooks import Webhook

from tests.e2e.console.conftest import Console
from tests.e2e.pages import new_key
from tests.processes.gateway import Gateway
from tests.receiver import Notice, Receiver

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "streams/letters/groups/post"
PUSH = f"{GROUP}/push"
OK = "200 OK", b""
FAILED = "500 No", b"no room"
GONE = "410 Gone", b""
FAILURES = 5
"""So many make a push a failing one."""


@pytest_asyncio.fixture(loop_scope="session")
async def receiver(client: httpx.AsyncClient, gateway: Gateway) -> AsyncIterator[Receiver]:
    """A receiver on loopback, and a group without a push."""
    receiver = Receiver(OK)
    await receiver.open()
    await client.put(GROUP, json={"create_stream": True})
    yield receiver
    await client.delete(PUSH)
    await receiver.close()


async def append(client: httpx.AsyncClient, count: int = 1) -> None:
    batch = [{"fields": {"n": str(n)}} for n in range(count)]
    await client.post("streams/letters/entries/batch", json=batch)


async def shown_secret(console: Console) -> str:
    """Return the secret that the open dialog shows, and close it."""
    dialog = console.page.get_by_role("dialog", name="Secret of the push")
    secret = await dialog.get_by_label("Secret", exact=True).text_content() or ""
    await dialog.get_by_role("button", name="Done").click()
    await expect(console.page.get_by_text(secret)).to_have_count(0)
    assert secret not in await console.page.content()
    assert await console.page.evaluate("sessionStorage.length + localStorage.length") == 0
    return secret


def verify(notice: Notice, secret: str) -> None:
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    Webhook(secret).verify(notice.body, {name: notice.header(name) for name in names})


async def test_a_push_is_set_and_what_is_answered_is_shown(
    console: Console, receiver: Receiver, client: httpx.AsyncClient
) -> None:
    await console.open(GROUP)
    page = console.page
    await page.get_by_role("link", name="Push", exact=True).click()
    await page.get_by_role("button", name="Create a push").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("URL", exact=True).fill(receiver.url)
    await dialog.get_by_label("Concurrent requests").fill("2")
    await dialog.get_by_role("button", name="Add header").click()
    await dialog.get_by_label("Name of header").fill("Authorization")
    await expect(dialog.locator("button[type=submit].main")).to_be_disabled()
    await dialog.get_by_label("Value of Authorization").fill("Bearer x")
    await console.confirm()
    secret = await shown_secret(console)

    await expect(page.get_by_text("Push active.")).to_be_visible()
    await expect(page.get_by_text("No responses yet.")).to_be_visible()
    await append(client)
    notice = await receiver.next()
    verify(notice, secret)
    assert notice.header("authorization") == "Bearer x"
    row = console.rows("Responses").first
    await expect(row).to_contain_text("200")
    await row.click()
    panel = page.get_by_role("complementary")
    await expect(panel).to_contain_text(notice.header("webhook-id"))

    await page.reload()
    await expect(console.rows("Responses")).to_have_count(1)
    assert secret not in await page.content()


async def test_a_change_asks_for_the_values_of_headers_anew(
    console: Console, receiver: Receiver, client: httpx.AsyncClient
) -> None:
    headers = {"Authorization": "Bearer x", "X-Team": "sales"}
    await client.put(PUSH, json={"url": receiver.url, "headers": headers})
    await console.open(PUSH)
    page = console.page
    await page.get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("URL", exact=True)).to_have_value(receiver.url)
    await expect(dialog.get_by_text("Values are never shown")).to_be_visible()
    await dialog.get_by_label("Value of Authorization").fill("Bearer y")
    await expect(dialog.locator("button[type=submit].main")).to_be_disabled()
    await dialog.get_by_role("button", name="Remove X-Team").click()
    await console.confirm(Request_body="several entries", Disable_after="1h")
    await console.says("The push is changed.")
    await expect(dialog).to_have_count(0)  # it keeps its secret

    await expect(page.get_by_text("several entries, at most 100")).to_be_visible()
    await append(client)
    assert (await receiver.next()).header("authorization") == "Bearer y"
    push = (await client.get(PUSH)).json()
    assert (push["header_names"], push["disable_after_ms"]) == (["Authorization"], 3_600_000)


async def test_a_push_is_paused_resumed_and_deleted(
    console: Console, receiver: Receiver, client: httpx.AsyncClient
) -> None:
    await client.put(PUSH, json={"url": receiver.url})
    await console.open(PUSH)
    page = console.page
    await console.act("Pause")
    await expect(page.get_by_text("Push paused.")).to_be_visible()
    await append(client)
    await page.get_by_role("link", name="Pending").click()
    await expect(page.locator(".outlook")).to_contain_text("1 entry waits; Push paused.")
    await page.get_by_role("link", name="Push", exact=True).click()

    await console.act("Resume")
    await expect(page.get_by_text("Push active.")).to_be_visible()
    await receiver.next()
    await expect(console.rows("Responses")).to_have_count(1)
    await console.act("Delete")
    await expect(page.get_by_role("button", name="Create a push")).to_be_visible()
    assert (await client.get(PUSH)).status_code == 404


async def test_what_failed_is_sent_at_once_when_somebody_wants_it(
    console: Console, receiver: Receiver, client: httpx.AsyncClient
) -> None:
    receiver.answers = [FAILED]
    await client.patch(GROUP, json={"policy": {"backoff_ms": [1, 1, 1, 1, 86_400_000]}})
    await client.put(PUSH, json={"url": receiver.url})
    await console.open(PUSH)
    await append(client)
    state = console.page.locator(".outlook", has_text="Last error")
    await expect(state).to_contain_text(f"{FAILURES} requests failed in a row")
    await expect(state).to_contain_text("Last error: answered 500")
    await expect(console.rows("Responses").first).to_contain_text("no room")

    receiver.answers = [OK]
    await console.act("Retry now")
    await console.says("1 entry due now.")
    await expect(console.page.get_by_text("Push active.")).to_be_visible()
    await expect(console.rows("Responses").first).to_contain_text("200")


async def test_a_secret_is_rotated(
    console: Console, receiver: Receiver, client: httpx.AsyncClient
) -> None:
    old = (await client.put(PUSH, json={"url": receiver.url})).json()["secret"]
    await console.open(PUSH)
    await console.act("Rotate secret", Previous_secret_valid_for="1h")
    new = await shown_secret(console)

    assert new != old
    await expect(console.page.get_by_text("previous secret valid until")).to_be_visible()
    await append(client)
    notice = await receiver.next()
    verify(notice, old)
    verify(notice, new)


async def test_the_list_has_those_first_that_need_somebody(
    console: Console, receiver: Receiver, client: httpx.AsyncClient
) -> None:
    answers = {"a-fine": OK, "b-gone": GONE, "c-bad": FAILED, "d-paused": OK}
    receiver.respond = lambda notice: answers[notice.json["group"]]
    await append(client, FAILURES)
    for group in answers:
        place = f"streams/letters/groups/{group}"
        policy = {"backoff_ms": [1]}
        await client.put(place, json={"start": "0", "policy": policy})
        await client.put(f"{place}/push", json={"url": receiver.url})
    await client.post("streams/letters/groups/d-paused/push/pause")
    await console.open()
    await console.press("g", "p")

    rows = console.rows("Pushes")
    for row, (group, state) in enumerate(
        [("b-gone", "disabled"), ("c-bad", "failing"), ("d-paused", "paused"), ("a-fine", "active")]
    ):
        await expect(rows.nth(row)).to_contain_text(f"letters / {group}")
        await expect(rows.nth(row)).to_contain_text(state)
    await rows.nth(2).get_by_role("button", name="Resume").click()
    await console.confirm()
    await expect(rows.filter(has_text="d-paused")).to_contain_text("active")

    await rows.first.get_by_role("link").click()
    await expect(console.page.get_by_text("the receiver answered 410").first).to_be_visible()
    await console.press("Control+k")
    await console.page.get_by_label("Stream or group").fill("push")
    await expect(console.page.get_by_role("option", name="Pushes")).to_be_visible()
    await console.press("Enter")
    await expect(console.page.get_by_role("heading", name="Pushes")).to_be_visible()
    for group in answers:
        await client.delete(f"streams/letters/groups/{group}/push")


async def test_who_may_not_push_resumes_nothing(
    console_bundle: None, browser: Browser, tmp_path: Path
) -> None:
    everything = {"streams": ["*"], "do": ["append", "consume", "manage", "push"], "create": True}
    owner = new_key(tmp_path / "data", everything)
    manager = new_key(tmp_path / "data", {"streams": ["letters"], "do": ["read", "manage"]})
    reader = new_key(tmp_path / "data", {"streams": ["letters"], "do": ["read", "consume"]})
    gateway = await Gateway.start(tmp_path / "data", {"push_allow": "127.0.0.0/8"})
    bearer = {"Authorization": f"Bearer {owner}"}
    async with httpx.AsyncClient(base_url=f"{gateway.url}/v1/", headers=bearer) as client:
        await client.put(GROUP, json={"create_stream": True})
        await client.put(PUSH, json={"url": "http://127.0.0.1:9/"})
        await client.post(f"{PUSH}/pause")

    for key, is_manager in ((manager, True), (reader, False)):
        page = await browser.new_page()
        console = Console(page, gateway.url)
        await console.open(PUSH)
        await page.get_by_label("Key or token").fill(key)
        await page.get_by_role("button", name="Continue").click()
        if is_manager:
            resume = page.get_by_role("button", name="Resume")
            await expect(resume).to_have_attribute("aria-disabled", "true")
            await expect(resume).to_have_attribute(
                "title", re.compile("Your credential does not grant push on letters")
            )
        else:
            await expect(page.get_by_text("This key cannot read the push.")).to_be_visible()
            await expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    await gateway.stop()


async def test_a_push_over_a_pattern_is_listed_and_changed(
    console: Console, receiver: Receiver, client: httpx.AsyncClient
) -> None:
    place = "groups/post/push?match=letter*"
    create = {"start": "0"}
    await client.put(place, json={"url": receiver.url, "create": create, "weights": {"letters": 2}})
    await console.open("pushes")
    page = console.page
    await page.get_by_role("link", name="letter* / post (pattern)").click()
    await expect(page.get_by_role("heading", name="Pushes / letter* / post")).to_be_visible()
    await append(client)
    await expect(console.rows("Responses")).to_have_count(1)
    await page.get_by_role("button", name="Change").click()
    await console.confirm(Concurrent_requests="3")
    await console.says("The push is changed.")
    push = (await client.get(place)).json()
    assert (push["concurrency"], push["weights"]) == (3, {"letters": 2})
    assert push["create"] == {"start": "0-0", "policy": None}
    receiver.answers = [GONE]
    await append(client)
    await expect(page.get_by_text("the receiver answered 410")).to_be_visible()
    await console.open()
    await page.get_by_role("link", name="letter* / post").click()
    await console.act("Delete")
    await expect(page.get_by_role("button", name="Create a push")).to_be_visible()
    assert (await client.get(place)).status_code == 404


async def test_a_test_event_is_sent_and_its_answer_is_shown(
    console: Console, receiver: Receiver, client: httpx.AsyncClient
) -> None:
    await client.put(PUSH, json={"url": receiver.url})
    await console.open(PUSH)
    receiver.answers = [("200 OK", b"welcome"), FAILED]
    await console.act("Send test event")
    result = console.page.locator(".outlook", has_text="Test event")
    await expect(result).to_contain_text("answered 200")
    await expect(result).to_contain_text("welcome")
    await console.act("Send test event")
    await expect(result).to_contain_text("answered 500")
    assert (await receiver.next()).header("headgate-test") == "true"


async def test_entries_are_counted_sent_again_and_found_among_the_attempts(
    console: Console, receiver: Receiver, client: httpx.AsyncClient
) -> None:
    await client.put(PUSH, json={"url": receiver.url})
    await append(client, 3)
    ids = [(await receiver.next()).json["id"] for _ in range(3)]
    await console.open(PUSH)
    page = console.page
    await expect(page.get_by_text("3", exact=True).first).to_be_visible()
    await page.get_by_role("button", name="Replay").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("From").fill(ids[0])
    await dialog.get_by_role("button", name="Count entries").click()
    await dialog.get_by_role("button", name="Send again").click()
    await expect(page.get_by_text("Replay done.")).to_be_visible()
    assert {(await receiver.next()).json["id"] for _ in range(3)} == set(ids)
    await page.get_by_label("Entry id").fill(ids[1])
    await expect(console.rows("Responses")).to_have_count(2)
    await console.rows("Responses").first.click()
    await expect(page.get_by_role("complementary")).to_contain_text("headgate-replay")
