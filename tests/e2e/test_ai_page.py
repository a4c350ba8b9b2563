"""The page of an answer in a real browser: it survives reloads, and a button ends the answer."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Page, expect

from deploy.local_cluster.server import free_ports
from examples.ai.model import words_of
from tests.conditions import WITHIN_S
from tests.e2e.pages import new_key, program
from tests.processes.gateway import ROOT, Gateway, no_gateway_left
from tests.sdk.workshop import node_modules, output_of, tool

__all__ = ["no_gateway_left"]

EXAMPLE = ROOT / "examples" / "ai"
QUESTION = "Is it there?"
ANSWER = " ".join(words_of(QUESTION))
GRANT = {"streams": ["chat:*"], "do": ["read", "append", "manage"], "create": True}

SLOW, QUICK = 5.0, 50.0
"""Words a second: an answer lasts half a minute, or a few seconds."""

pytestmark = pytest.mark.asyncio(loop_scope="session")


def model(
    url: str, port: int, words_per_s: float, **variables: str
) -> AbstractAsyncContextManager[str]:
    """Run the model beside a gateway; yields where its page is."""
    words = ("--url", url, "--port", str(port), "--words-per-second", str(words_per_s))
    return program(sys.executable, EXAMPLE / "model.py", *words, **variables)


async def ask(page: Page, url: str) -> str:
    """Ask the model in a page; returns the id of the answer."""
    await page.goto(url)
    await page.fill("#text", QUESTION)
    await page.press("#text", "Enter")
    await page.wait_for_function("location.hash")
    return page.url.split("#")[1]


async def shown(page: Page, *, words_min: int) -> str:
    """Return the answer that a page shows, once it has so many words."""
    script = "(count) => document.querySelector('#answer').textContent.split(' ').length > count"
    await page.wait_for_function(script, arg=words_min)
    return await page.locator("#answer").text_content() or ""


async def test_a_reload_and_a_second_tab_show_the_answer_and_a_button_ends_it(
    browser: Browser, tmp_path: Path
) -> None:
    [port] = free_ports(1)
    gateway = await Gateway.start(tmp_path, {"allowed_origins": f"http://localhost:{port}"})
    async with model(gateway.url, port, SLOW) as url:
        first = await browser.new_page()
        answer = await ask(first, url)
        before = await shown(first, words_min=10)
        await first.reload()
        after = await shown(first, words_min=1)
        await expect(first.locator("#question")).to_have_text(QUESTION)
        await shown(first, words_min=len(after.split()) + 3)  # it goes on
        async with first.expect_popup() as opening:
            await first.click("#again")
        second = await opening.value
        await shown(second, words_min=len(after.split()) + 3)
        await second.click("#stop")
        for page in (first, second):
            await expect(page.locator("#state")).to_have_text("Stopped.")
            await expect(page.locator("#stop")).to_be_hidden()
        texts = [await shown(page, words_min=1) for page in (first, second)]

        async with httpx.AsyncClient(base_url=gateway.url) as client:
            stream = await client.get(f"/v1/streams/chat:{answer}")
            read = await client.get(f"/v1/streams/chat:{answer}/entries", params={"start": "-"})
        fields = [entry["fields"] for entry in read.json()["entries"]]
        assert after.startswith(before), "what came before the reload was there at once"
        assert texts[0] == texts[1] == "".join(each.get("text", "") for each in fields)
        assert ANSWER.startswith(texts[0].strip()), "no word is missing, or comes twice"
        assert len(texts[0]) < len(ANSWER), "it was stopped in the middle"
        assert (fields[0], fields[-1]) == ({"question": QUESTION}, {"end": "stopped"})
        assert stream.json()["closed_at_ms"] is not None
    await gateway.stop()


async def test_with_a_key_the_page_has_a_ticket_and_our_client_reads_the_same(
    browser: Browser, tmp_path: Path
) -> None:
    key, [port] = new_key(tmp_path, GRANT), free_ports(1)
    gateway = await Gateway.start(tmp_path, {"allowed_origins": f"http://localhost:{port}"})
    async with model(gateway.url, port, QUICK, HEADGATE_TOKEN=key) as url:
        page = await browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        answer = await ask(page, url)
        following = await asyncio.create_subprocess_exec(
            *(sys.executable, EXAMPLE / "follow.py", answer),
            env={**os.environ, "HEADGATE_URL": gateway.url, "HEADGATE_TOKEN": key},
            stdout=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(WITHIN_S):
            output, _ = await following.communicate()
        await expect(page.locator("#state")).to_have_text("Done.")

        assert (await shown(page, words_min=1)).strip() == ANSWER
        assert output.decode() == f"> {QUESTION}\n\n{ANSWER} \n\n(done)\n"
        assert any("&ticket=" in each for each in asked)
        assert not any(key in each for each in asked)
        await page.goto(f"{url}/#{'0' * 32}")
        await expect(page.locator("#state")).to_have_text("There is no such answer.")
    await gateway.stop()


async def test_a_chat_of_the_ai_sdk_survives_a_reload_and_a_kill_and_a_button_ends_the_answer(
    browser: Browser, tmp_path: Path
) -> None:
    sdk, [port] = EXAMPLE / "sdk", free_ports(1)
    await asyncio.to_thread(node_modules, sdk)
    await output_of(tool("npm"), "run", "build", folder=sdk)
    settings = {"allowed_origins": f"http://localhost:{port}"}
    gateway = await Gateway.start(tmp_path, settings)
    variables = {"HEADGATE_URL": gateway.url, "PORT": str(port), "WORD_MS": "1000"}
    async with program(tool("node"), sdk / "server.js", **variables) as url:
        first = await browser.new_page()
        await first.goto(url)
        await first.fill("input", QUESTION)
        await first.press("input", "Enter")
        await said(first, words_min=3)
        second = await browser.new_page()
        await second.goto(first.url)
        await first.reload()
        before = [await said(page, words_min=4) for page in (first, second)]

        await gateway.kill()
        gateway = await Gateway.start(tmp_path, settings | {"port": gateway.port})
        for page in (first, second):
            await said(page, words_min=len(before[1].split()) + 2)
        await second.click("text=Stop")
        for page in (first, second):
            await expect(page.get_by_role("status")).to_have_text("ready")
        texts = [await said(page, words_min=1) for page in (first, second)]

        [answer] = re.findall(r"const ANSWER =\n((?: +\".*\n)+)", (sdk / "server.js").read_text())
        whole = "".join(re.findall(r'"(.*)"', answer))
        assert texts[0] == texts[1], "both tabs have seen the end"
        assert whole.startswith(texts[0].strip()), "no word is missing, or comes twice"
        assert len(texts[0]) < len(whole), "it was stopped in the middle"
        await first.reload()
        assert await said(first, words_min=1) == texts[0], "nothing is resumed"
    await gateway.stop()


async def said(page: Page, *, words_min: int) -> str:
    """Return the answer that a page of the AI SDK shows, once it has so many words."""
    script = (
        "(count) => document.querySelector('.assistant')?.textContent.split(' ').length > count"
    )
    await page.wait_for_function(script, arg=words_min)
    return await page.locator(".assistant").text_content() or ""
