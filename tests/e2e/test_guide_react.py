"""The React program of the guide, as its reader builds it: it shows what it appends."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from deploy.local_cluster.server import free_ports
from tests.api.documents.snippets import snippets
from tests.e2e.pages import served
from tests.processes.gateway import Gateway
from tests.sdk.typescript import app_folder, packages
from tests.sdk.workshop import output_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

MAIN = """
import { createRoot } from "react-dom/client";
import App from "./guide.js";
createRoot(document.getElementById("root")!).render(<App />);
"""


async def test_the_program_shows_what_it_appends(browser: Browser, tmp_path: Path) -> None:
    [program] = snippets("browser", "tsx")
    [port] = free_ports(1)
    app = app_folder(tmp_path)
    (app / "guide.tsx").write_text(program.at(f"http://127.0.0.1:{port}"))
    (app / "main.tsx").write_text(MAIN)
    await output_of(packages() / ".bin" / "vite", "build", folder=app)
    with served(app / "dist") as url:
        settings = {"port": port, "allowed_origins": url}
        gateway = await Gateway.start(tmp_path / "data", settings)
        page = await browser.new_page()
        await page.goto(url)
        await page.get_by_role("button", name="order").click()
        await expect(page.locator("li")).to_have_text(["42"])
        await page.close()
        await gateway.stop()
