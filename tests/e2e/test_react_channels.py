"""React pages with `useChannel` and `usePresence`: they hear each other, and nobody flickers."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.e2e.pages import served
from tests.processes.gateway import Gateway
from tests.sdk.typescript import app_folder, packages
from tests.sdk.workshop import output_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

MAIN = """
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import App from "./room.js";
createRoot(document.getElementById("root")!).render(<StrictMode><App /></StrictMode>);
"""


def frames_of(page: Page) -> list[dict[str, Any]]:
    """Return the frames that a page sends and gets from now on, as they pass."""
    frames: list[dict[str, Any]] = []

    def note(text: str | bytes) -> None:
        frames.append(json.loads(text))

    def listen(socket: Any) -> None:
        socket.on("framesent", note)
        socket.on("framereceived", note)

    page.on("websocket", listen)
    return frames


def changes(frames: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return what a page was told of others: what happened, and their names."""
    told = [frame for frame in frames if frame["type"] == "presence" and "event" in frame]
    of = [(frame["event"], frame["member"]["connections"]) for frame in told]
    return [(event, " ".join(each["data"]["name"] for each in there)) for event, there in of]


async def test_pages_hear_each_other_and_a_reload_is_not_seen(
    browser: Browser, tmp_path: Path
) -> None:
    app = app_folder(tmp_path)
    (app / "main.tsx").write_text(MAIN)
    await output_of(packages() / ".bin" / "vite", "build", folder=app)
    with served(app / "dist") as pages_url:
        settings = {"allowed_origins": pages_url, "presence_ttl_ms": 15_000}
        gateway = await Gateway.start(tmp_path / "data", settings)
        url = f"{pages_url}/?url={gateway.url}"
        anna = await browser.new_page()
        frames = frames_of(anna)
        await anna.goto(f"{url}&name=anna")
        await expect(anna.locator("#here")).to_have_text("anna with me")
        assert [frame["type"] for frame in frames].count("subscribe") == 1, "one for all hooks"

        ben = await browser.new_page()
        await ben.goto(f"{url}&name=ben")
        for page in (anna, ben):
            await expect(page.locator("#here")).to_have_text("anna, ben with me")
        await ben.locator("#first button").click()
        for place in ("first", "second"):
            await expect(anna.locator(f"#{place} li")).to_have_text(["ben 0"])
        for _ in range(2):
            await anna.locator("#second button").click()
        await expect(ben.locator("#second li")).to_have_count(2)

        await ben.locator("#me").click()
        await expect(anna.locator("#here")).to_have_text("anna, ben! with me")
        await expect(ben.locator("#me")).to_have_text("ben!")
        await ben.reload()
        await expect(anna.locator("#here")).to_have_text("anna, ben with me")
        assert changes(frames)[-3:] == [("joined", "ben"), ("updated", "ben!"), ("updated", "ben")]
        await gateway.stop()
