"""The examples that people copy do what their first lines say."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.conditions import WITHIN_S, eventually
from tests.e2e.pages import served
from tests.processes.gateway import ROOT, Gateway

EXAMPLES = ROOT / "examples"
LINES_MAX = 100
JOBS = 12

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(scope="module")
def pages_url() -> Iterator[str]:
    with served(EXAMPLES) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def gateway(
    tmp_path_factory: pytest.TempPathFactory, pages_url: str
) -> AsyncIterator[Gateway]:
    """A gateway for all examples: each has streams of its own."""
    settings = {"allowed_origins": pages_url}
    started = await Gateway.start(tmp_path_factory.mktemp("data"), settings)
    Gateway.running.discard(started)  # it outlives a test
    yield started
    await started.stop()


async def opened(browser: Browser, url: str, errors: list[str]) -> Page:
    page = await browser.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    await page.goto(url)
    return page


async def test_a_chat_has_its_history_and_says_who_is_here(
    gateway: Gateway, browser: Browser, pages_url: str
) -> None:
    errors: list[str] = []
    url = f"{pages_url}/chat.html?url={gateway.url}"
    anna = await opened(browser, f"{url}#anna", errors)
    await anna.get_by_label("message").fill("<b>hello</b>")
    await anna.keyboard.press("Enter")
    await expect(anna.get_by_role("listitem")).to_contain_text("<b>hello</b>")

    bert = await opened(browser, f"{url}#bert", errors)
    await expect(bert.get_by_role("listitem")).to_contain_text("<b>hello</b>")
    await expect(anna.get_by_role("status")).to_have_text("Here: anna, bert")
    await bert.get_by_label("message").fill("there you are")
    await bert.keyboard.press("Enter")
    await expect(anna.get_by_role("listitem").last).to_contain_text("there you are")

    await bert.reload()
    await expect(bert.get_by_role("listitem")).to_have_count(2)
    await bert.goto("about:blank")
    await expect(anna.get_by_role("status")).to_have_text("Here: anna")
    assert errors == []


async def test_cursors_move_in_the_windows_of_others(
    gateway: Gateway, browser: Browser, pages_url: str
) -> None:
    errors: list[str] = []
    url = f"{pages_url}/cursors.html?url={gateway.url}"
    anna = await opened(browser, f"{url}#<i>anna", errors)
    ben = await opened(browser, f"{url}#ben", errors)
    for page, names in ((anna, ["<i>anna (you)", "ben"]), (ben, ["<i>anna", "ben (you)"])):
        await expect(page.get_by_role("listitem")).to_have_text(names)
    async with httpx.AsyncClient(base_url=f"{gateway.url}/v1/") as http:
        for data in (None, {"key": "nobody", "x": 0.5, "y": 0.5}):
            await http.post("channels/cursors/messages", json={"data": data})
    await anna.mouse.move(10, 10)
    await anna.mouse.move(640, 360)
    cursor = ben.locator(".cursor")
    await expect(cursor).to_have_text("<i>anna")
    await expect(cursor).to_have_css("transform", "matrix(1, 0, 0, 1, 640, 360)")
    await expect(anna.locator(".cursor")).to_have_count(0)

    await anna.reload()
    await expect(anna.get_by_role("listitem")).to_have_text(["<i>anna (you)", "ben"])
    await anna.mouse.move(20, 20)
    await expect(cursor).to_have_css("transform", "matrix(1, 0, 0, 1, 20, 20)")
    await anna.goto("about:blank")
    await expect(ben.get_by_role("listitem")).to_have_text(["ben (you)"])
    await expect(cursor).to_have_count(0)
    assert errors == []


async def test_a_dashboard_shows_the_newest_values(
    gateway: Gateway, browser: Browser, pages_url: str
) -> None:
    errors: list[str] = []
    async with httpx.AsyncClient(base_url=f"{gateway.url}/v1/") as http:
        await http.put("streams/measures", json={})
    page = await opened(browser, f"{pages_url}/dashboard.html?url={gateway.url}", errors)
    async with httpx.AsyncClient(base_url=f"{gateway.url}/v1/streams/measures/") as http:
        for value in ("41", "44", "42.5"):
            fields = {"name": "load", "unit": "%", "value": value}
            await http.post("entries", json={"fields": fields})
        await http.post("entries", json={"fields": {"of": "somebody else"}})
    await expect(page.get_by_role("heading", name="load")).to_be_visible()
    await expect(page.locator("strong")).to_have_text("42.5")
    line = await page.locator("polyline").get_attribute("points") or ""
    assert len(line.split()) == 3
    assert errors == []


async def test_a_stock_list_is_changed_offline_and_merged(
    gateway: Gateway, browser: Browser, pages_url: str
) -> None:
    errors: list[str] = []
    url = f"{pages_url}/stock.html?url={gateway.url}"
    async with httpx.AsyncClient(base_url=f"{gateway.url}/v1/") as http:
        await http.put("streams/stock", json={"key_field": "sku"})
        await http.put("streams/stock/table/lamp", json={"fields": {"count": "5", "hall": "3"}})
    anna, bert = [await opened(browser, url, errors) for _ in range(2)]
    answers: list[int] = []
    bert.on("response", lambda answer: answers.append(answer.status))
    more, less = (bert.get_by_role("button", name=f"one {way}").first for way in ("more", "less"))
    await expect(bert.get_by_role("listitem")).to_have_text("lamp−5+")

    await bert.context.set_offline(True)
    for button in (more, more, less, more):
        await button.click()
    await expect(bert.get_by_role("listitem")).to_have_text("lamp+2 not saved−7+")
    await anna.get_by_role("button", name="one less").click()
    await expect(anna.get_by_role("listitem")).to_have_text("lamp−4+")
    await bert.context.set_offline(False)

    await expect(bert.get_by_role("status")).to_have_text("saved")
    for page in (anna, bert):
        await expect(page.get_by_role("listitem")).to_have_text("lamp−6+")
    assert answers.count(412) >= 1, "it was counted on an older row"
    await bert.get_by_label("article").fill("chair")
    await bert.keyboard.press("Enter")
    await expect(anna.get_by_role("listitem")).to_have_text(["chair−1+", "lamp−6+"])
    async with httpx.AsyncClient(base_url=f"{gateway.url}/v1/") as http:
        row = (await http.get("streams/stock/table/lamp")).json()
    assert row["fields"] == {"sku": "lamp", "count": "6", "hall": "3"}
    assert errors == []


async def run(gateway: Gateway, *words: str, folder: Path) -> str:
    """Run a program of Python until it ends; returns what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        cwd=folder,
        env={**os.environ, "HEADGATE_URL": gateway.url},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(WITHIN_S):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_jobs_of_a_customer_are_done_in_order_and_a_worker_ends_well(
    gateway: Gateway, tmp_path: Path
) -> None:
    program = str(EXAMPLES / "jobs.py")
    added = await run(gateway, program, "add", str(JOBS), folder=tmp_path)
    assert len(added.splitlines()) == JOBS
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, program, "work"),
        env={**os.environ, "HEADGATE_URL": gateway.url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with httpx.AsyncClient(base_url=f"{gateway.url}/v1/") as http:

        async def is_done() -> bool:
            group = (await http.get("streams/jobs/groups/workers")).json()
            return (group["lag"], group["pending"]) == (0, 0)

        await eventually(is_done, bool)
        dead = (await http.get("streams/jobs.dead/entries")).json().get("entries", [])
    worker.send_signal(signal.SIGTERM)
    output, _ = await worker.communicate()
    assert worker.returncode == 0
    done = [line.split() for line in output.decode().splitlines() if " delivery " in line]
    done = [words for words in done if "failed:" not in words]
    assert len(done) + len(dead) == JOBS
    by_customer = Counter(customer for customer, *_ in done)
    for customer in by_customer:
        numbers = [int(number) for name, number, *_ in done if name == customer]
        assert numbers == sorted(numbers)
    again = await run(gateway, program, "retry", folder=tmp_path)
    assert again == f"{len(dead)} jobs again\n"


async def test_an_audit_log_is_asked_in_its_lake(gateway: Gateway, tmp_path: Path) -> None:
    program = str(EXAMPLES / "audit.py")
    await run(gateway, program, "note", "anna", "deleted", "invoice-7", folder=tmp_path)
    await run(gateway, program, "note", "bert", "read", "invoice-8", folder=tmp_path)
    pipeline = "from headgate.pipeline.cli import main; main()"
    archive = ("archive", "--streams", "audit", "--lake", "audit-lake")
    await run(gateway, "-c", pipeline, *archive, folder=tmp_path)
    shown = await run(gateway, program, "ask", "audit-lake", "anna", folder=tmp_path)
    assert "invoice-7" in shown
    assert "invoice-8" not in shown


@pytest.mark.parametrize(
    "name", ["audit.py", "chat.html", "cursors.html", "dashboard.html", "jobs.py", "stock.html"]
)
async def test_an_example_is_short_enough_to_be_copied(name: str) -> None:
    text = await asyncio.to_thread((EXAMPLES / name).read_text)
    assert text.count("\n") <= LINES_MAX
