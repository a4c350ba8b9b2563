"""One browser for all tests: it takes longer to start than a test."""

import os
import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """The system's Chromium, without a window."""
    if CHROMIUM is None:
        if "CI" in os.environ:
            pytest.fail("chromium is missing")
        pytest.skip("chromium is missing")
    async with async_playwright() as playwright:
        yield await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest_asyncio.fixture(loop_scope="session")
async def browser(chromium: Browser) -> AsyncIterator[Browser]:
    """The browser without a tab: those that a test has opened go on drawing until they close."""
    yield chromium
    for context in chromium.contexts:
        await context.close()
