"""A React page with three hooks in many tabs: they show everything, and share the work."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import jwt
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.conditions import eventually, until
from tests.e2e.pages import look, served
from tests.processes.gateway import Gateway
from tests.sdk.typescript import app_folder, packages
from tests.sdk.workshop import output_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

TABS = int(os.environ.get("HEADGATE_TEST_TABS", "4"))  # by hand: 12
ENTRIES = 20
TOKEN_S = 10.0
SECRET = "a secret of the issuer and the gateway"

IDS = "[...document.querySelectorAll('li')].map((item) => item.dataset.id)"
OPENED = ["connecting", "open"]
HAS_SEEN = f"(count) => {IDS}.length >= count"


@pytest_asyncio.fixture(loop_scope="session")
async def app(tmp_path: Path) -> Path:
    """Return the page as Vite builds it of what `npm pack` makes."""
    folder = app_folder(tmp_path)
    await output_of(packages() / ".bin" / "vite", "build", folder=folder)
    return folder / "dist"


@pytest.fixture
def pages_url(app: Path) -> Iterator[str]:
    with served(app) as url:
        yield url


class Place:
    """A gateway that asks for tokens, and is stopped and started again."""

    def __init__(self, data_dir: Path, pages_url: str) -> None:
        self._data_dir = data_dir
        self._settings: dict[str, object] = {"allowed_origins": pages_url}
        self._settings |= {"jwt_secret": SECRET, "open_metrics": True}
        self._gateway: Gateway | None = None
        self.url = ""
        self.tokens_count = 0

    async def start(self) -> None:
        self._gateway = await Gateway.start(self._data_dir, self._settings)
        self.url, self._settings["port"] = self._gateway.url, self._gateway.port

    async def stop(self) -> None:
        if self._gateway is not None:
            await self._gateway.stop()
        self._gateway = None

    def token(self, ttl_s: float = TOKEN_S) -> str:
        self.tokens_count += 1
        verbs = ["read", "append", "consume", "manage"]
        grant = {"streams": ["orders"], "do": verbs, "create": True}
        claims = {"sub": "me", "exp": time.time() + ttl_s, "headgate": [grant]}
        return jwt.encode(claims, SECRET, "HS256")

    def client(self) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self.token(600)}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers)

    async def append(self, count: int = ENTRIES) -> list[str]:
        batch = [{"fields": {"n": str(number)}} for number in range(count)]
        async with self.client() as client:
            answer = await client.post("/v1/streams/orders/entries/batch", json=batch)
        ids: list[str] = answer.json()["ids"]
        return ids

    async def until_worked_off(self) -> None:
        async with self.client() as client:

            async def is_done() -> bool:
                group = (await client.get("/v1/streams/orders/groups/readers")).json()
                return (group["pending"], group["lag"]) == (0, 0)

            await eventually(is_done, bool)

    async def until_renewed(self, count: int) -> None:
        """Return once so many tokens were asked for."""
        wanted = self.tokens_count + count
        await until(lambda: self.tokens_count >= wanted)

    async def until_sockets(self, count: int) -> None:
        line = f'headgate_connections{{transport="websocket"}} {float(count)}'
        async with self.client() as client:

            async def are_open() -> bool:
                return line in (await client.get("/metrics")).text

            await eventually(are_open, bool)


@pytest_asyncio.fixture(loop_scope="session")
async def place(tmp_path: Path, pages_url: str) -> AsyncIterator[Place]:
    place = Place(tmp_path / "data", pages_url)
    await place.start()
    async with place.client() as client:
        body = {"start": "0", "create_stream": True}
        answer = await client.put("/v1/streams/orders/groups/readers", json=body)
        assert answer.status_code == 201, answer.text
    yield place
    await place.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def tabs(browser: Browser, place: Place, pages_url: str) -> AsyncIterator[list[Page]]:
    """Open the page in as many tabs; no error is left to the console in any of them."""
    context = await browser.new_context()
    await context.expose_function("freshToken", place.token)
    errors: list[str] = []
    context.on("weberror", lambda error: errors.append(str(error.error)))

    async def opened() -> Page:
        tab = await context.new_page()
        await tab.goto(f"{pages_url}/?url={place.url}")
        await tab.wait_for_selector("#stream[data-state=caught_up]")
        await tab.wait_for_selector("#group[data-state=caught_up]")
        return tab

    yield await asyncio.gather(*(opened() for _ in range(TABS)))
    assert errors == []


async def test_many_tabs_show_everything_and_share_the_work(place: Place, tabs: list[Page]) -> None:
    """Hidden ones have no connection; reload, offline and a restart cost nothing."""
    first, *others = tabs
    await place.until_sockets(TABS)
    await asyncio.gather(*(look(tab, "hidden") for tab in others))
    await place.until_sockets(1)
    ids = await place.append()
    await first.wait_for_function(HAS_SEEN, arg=len(ids))
    await asyncio.gather(*(look(tab, "visible") for tab in others))
    await place.until_sockets(TABS)
    assert await others[0].evaluate("states") == [*OPENED, "paused", *OPENED]

    await place.until_renewed(TABS)
    ids += await place.append()
    await until_shown(tabs, ids)
    assert await first.evaluate("states") == OPENED, "one connection, through all renewals"

    await first.reload()
    await first.context.set_offline(True)
    ids += await place.append()
    await first.context.set_offline(False)
    await place.stop()
    await place.start()
    ids += await place.append()
    await first.get_by_role("button", name="append").click()
    await first.wait_for_function(HAS_SEEN, arg=len(ids) + 1)
    ids.append((await first.evaluate(IDS))[-1])
    await until_shown(tabs, ids)
    await place.until_worked_off()
    assert await worked_in_all(first) == set(ids)


async def until_shown(tabs: list[Page], ids: list[str]) -> None:
    """Return once each tab shows each entry, once and in order."""
    await asyncio.gather(*(tab.wait_for_function(HAS_SEEN, arg=len(ids)) for tab in tabs))
    for tab in tabs:
        assert await tab.evaluate(IDS) == ids


async def worked_in_all(page: Page) -> set[str]:
    """Return the ids that the tabs have worked on."""
    stored: dict[str, str] = await page.evaluate("({...localStorage})")
    notes = [text for name, text in stored.items() if name.startswith("worked:")]
    return {entry_id for text in notes for entry_id in text.split()}
