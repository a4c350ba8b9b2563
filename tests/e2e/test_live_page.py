"""The example page in a real browser: nothing is missed, and nothing is worked on twice."""

import asyncio
import functools
import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import jwt
import pytest
from playwright.async_api import Browser, BrowserContext, Page

from tests.processes.gateway import ROOT, Gateway, headgate

ENTRIES = 60

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def pages_url() -> Iterator[str]:
    """Serve the examples, as their comment says."""
    with served(ROOT / "examples") as url:
        yield url


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder; yields where."""
    handler = functools.partial(_Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


async def look(page: Page, visibility: str) -> None:
    """Let a page believe that it is `visible` or `hidden`: without a head, all of them are seen."""
    await page.evaluate(
        """(visibility) => {
          const get = () => visibility;
          Object.defineProperty(document, "visibilityState", { configurable: true, get });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        visibility,
    )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


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
    async with asyncio.timeout(40):
        while True:
            tailed = await noted(context, page, "tailed")
            group = (await client.get("/v1/streams/chat/groups/readers")).json()
            is_worked_on = (group["pending"], group["lag"]) == (0, 0)
            if [set(each) for each in tailed] == [set(ids)] * 2 and is_worked_on:
                return
            await asyncio.sleep(0.05)


async def test_two_tabs_see_everything_and_share_the_work(
    browser: Browser, pages_url: str, tmp_path: Path
) -> None:
    settings = {"port": free_port(), "allowed_origins": pages_url}
    gateway = await Gateway.start(tmp_path / "data", settings)
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


async def test_a_page_of_another_origin_renews_its_token_and_misses_nothing(
    browser: Browser, pages_url: str, tmp_path: Path
) -> None:
    secret = "a secret of the issuer and the gateway"
    settings = {"allowed_origins": pages_url, "jwt_secret": secret}
    gateway = await Gateway.start(tmp_path / "data", settings)
    tokens: asyncio.Queue[str] = asyncio.Queue()

    def token(ttl_s: int = 3) -> str:
        grant = {"streams": ["chat"], "do": ["read", "append", "consume", "manage"]}
        claims = {"sub": "me", "exp": time.time() + ttl_s, "headgate": [grant]}
        made = jwt.encode(claims, secret, "HS256")
        tokens.put_nowait(made)
        return made

    headers = {"Authorization": f"Bearer {token(600)}"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers) as client:
        await client.put("/v1/streams/chat")
        await client.put("/v1/streams/chat/groups/readers", json={"start": "0"})
        page = await browser.new_page()
        await page.expose_function("freshToken", token)
        await page.goto(f"{pages_url}/headgate-client.js")
        await page.evaluate(FOLLOWING, gateway.url)
        ids: list[str] = []
        async with asyncio.timeout(40):
            for _ in range(6):
                await tokens.get()
                answer = await client.post("/v1/streams/chat/entries", json={"fields": {"n": "1"}})
                ids.append(answer.json()["id"])
                await page.wait_for_function(HAS_SEEN, arg=len(ids))
        group = (await client.get("/v1/streams/chat/groups/readers")).json()

    seen = await page.evaluate("seen")
    assert seen["tailed"] == ids
    assert seen["acked"] == ids
    assert seen["states"] == ["connecting", "open"], "one connection, through all renewals"
    assert (group["pending"], group["lag"]) == (0, 0)
    await gateway.stop()


HAS_SEEN = "(count) => seen.tailed.length >= count && seen.acked.length >= count"
FOLLOWING = """async (gateway) => {
  const { createClient } = await import("./headgate-client.js");
  window.seen = { tailed: [], acked: [], states: [] };
  const hg = createClient({
    url: gateway,
    token: () => window.freshToken(),
    onState: (name) => seen.states.push(name),
  });
  hg.group("chat", "readers").work(async (job) => {
    if (await job.ack() === "acked") seen.acked.push(job.id);
  });
  async function tail() {
    const { ticket } = await hg.ticket({ stream: "chat", do: ["read"] });
    const query = new URLSearchParams({ after: seen.tailed.at(-1) ?? "0", ticket });
    const events = new EventSource(`${gateway}/v1/streams/chat/events?${query}`);
    events.addEventListener("entry", ({ lastEventId }) => seen.tailed.push(lastEventId));
    events.onerror = () => {
      if (events.readyState === EventSource.CLOSED) tail();
    };
  }
  await tail();
}"""
"""Follows by events with a ticket and works a group over a WebSocket; what it saw is in `seen`."""


def new_key(data_dir: Path, *grants: Mapping[str, object]) -> str:
    """Return a new key for the gateway of a directory."""
    words = [word for grant in grants for word in ("--grant", json.dumps(grant))]
    done = headgate("keys", "add", "test", *words, "--data-dir", data_dir)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


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
