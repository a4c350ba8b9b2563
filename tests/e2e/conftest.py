"""One browser and one gateway for all tests: they take longer to start than a test."""

import os
import shutil
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.conditions import WITHIN_S
from tests.processes.gateway import Gateway

WITHIN_MS = WITHIN_S * 1000
expect.set_options(timeout=WITHIN_MS)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """The system's Chromium, without a window."""
    if CHROMIUM is None:
        if "CI" in os.environ:
            pytest.fail("chromium is missing")
        pytest.skip("chromium is missing")
    arguments = ["--no-sandbox", "--host-resolver-rules=MAP gw.example 127.0.0.1"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        browser.on("context", lambda context: context.set_default_timeout(WITHIN_MS))
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def browser(chromium: Browser) -> AsyncIterator[Browser]:
    """The browser without a tab: those that a test has opened go on drawing until they close."""
    yield chromium
    for context in chromium.contexts:
        await context.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running(
    console_bundle: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    data_dir = tmp_path_factory.mktemp("console") / "data"
    started = await Gateway.start(data_dir, {"push_allow": "127.0.0.0/8"})
    Gateway.running.discard(started)  # or tests of other files would end it, as left behind
    yield started
    await started.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def client(running: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"{running.url}/v1/", timeout=WITHIN_S) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def gateway(running: Gateway, client: httpx.AsyncClient) -> Gateway:
    """A gateway without a stream."""
    await client.post("commands", json=["FLUSHALL"])
    return running
