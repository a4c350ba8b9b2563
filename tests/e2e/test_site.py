"""The guide as files: a browser reads and searches it without a gateway."""

import asyncio
import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect
from playwright.async_api import Error as PlaywrightError

from deploy.local_cluster.server import free_ports
from deploy.site.__main__ import write_site
from headgate.app.routes import guide
from tests.conditions import WITHIN_S


def test_each_link_leads_to_a_file(tmp_path: Path) -> None:
    write_site(tmp_path, "/docs")
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(guide.TASKS)
    for page in pages:
        text = re.sub(r'<a class="live".*?</a>', "", page.read_text())
        assert "<!--" not in text
        for link in re.findall(r"""(?:href|src)="(/[^"#]*)\"""", text):
            if link in ("/docs/console", "/docs/docs", "/docs/openapi.json"):
                continue  # they are of a gateway, and the site has none
            path = tmp_path / link.removeprefix("/docs/")
            assert path.is_file() or (path / "index.html").is_file(), (page, link)


@pytest.mark.asyncio(loop_scope="session")
async def test_it_is_searched_and_names_the_usual_address(browser: Browser, tmp_path: Path) -> None:
    write_site(tmp_path)
    [port] = free_ports(1)
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    server = await asyncio.create_subprocess_exec(
        *command, "--directory", tmp_path, stderr=asyncio.subprocess.DEVNULL
    )
    page = await browser.new_page()
    try:
        await until_served(page, f"http://127.0.0.1:{port}/guide/append/")
        await expect(page.locator("pre").first).to_contain_text(
            "curl -X POST http://localhost:8080/"
        )
        await expect(page.locator("pre.answer").first).to_contain_text('"id":')
        await expect(page.get_by_role("button", name="try it")).to_have_count(0)
        await expect(page.get_by_role("link", name="Console")).to_be_hidden()
        await page.goto(f"http://127.0.0.1:{port}/guide/browser/")
        program = page.locator("pre").first
        await expect(program).to_contain_text('createClient({ url: "http://localhost:8080" })')
        await page.get_by_role("searchbox").fill("memory_full")
        await page.keyboard.press("Enter")
        await expect(page).to_have_title("memory_full · Headgate")
    finally:
        await page.close()
        server.terminate()
        await server.wait()


async def until_served(page: Page, url: str) -> None:
    """Open a page, once its server answers."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                await page.goto(url)
            except PlaywrightError:
                await asyncio.sleep(0.05)
            else:
                return
