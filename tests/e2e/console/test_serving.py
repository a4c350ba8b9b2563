"""Serving of the console: offline, at any depth, and nothing against its policy."""

import gzip
import re
from pathlib import Path

import httpx
import pytest

from headgate.app.main import create_app
from headgate.app.routes import pages
from headgate.app.settings import MEMORY, Settings
from tests.processes.gateway import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")

SIZE_BYTES_MAX = 75_000
"""Of gzip, of all that a page loads."""


@pytest.mark.parametrize(
    ("place", "base"),
    [
        ("/console", "console/"),
        ("/console/", "./"),
        ("/console/connections", "./"),
        ("/console/streams/a%20b", "../"),
        ("/console/streams/a/groups/b/dead-letters", "../../../../"),
    ],
)
@pytest.mark.parametrize("root_path", ["", "/behind/it"])
async def test_every_place_finds_its_files(
    console_bundle: None, place: str, base: str, root_path: str
) -> None:
    app = create_app(Settings(data_dir=MEMORY, root_path=root_path))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        page = await client.get(root_path + place)
        assert f'<base href="{base}">' in page.text
        [script] = re.findall(r'<script type="module" crossorigin src="(.*?)">', page.text)
        file = await client.get(page.url.join(base).join(script))

    assert file.headers["content-type"].startswith("text/javascript")
    assert "immutable" in file.headers["cache-control"]


async def test_nothing_else_is_loaded_and_little_of_it(running: Gateway) -> None:
    async with httpx.AsyncClient(base_url=f"{running.url}/console/") as client:
        page = await client.get("")
        files = re.findall(r'(?:src|href)="\./(assets/.*?)"', page.text)
        answers = [await client.get(file) for file in files]

    policy = page.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert not re.search(r"<script>|<style>| style=| on\w+=|https?://(?!www\.w3\.org)", page.text)
    assert len(files) == 4  # the script, what its views share (two), and the style
    assert all(answer.headers["content-encoding"] == "gzip" for answer in answers)
    assert sum(len(gzip.compress(answer.content)) for answer in answers) < SIZE_BYTES_MAX


async def test_where_it_is_not_built_the_gateway_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pages, "_PLACE", tmp_path)
    app = create_app(Settings(data_dir=MEMORY))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/console/streams/orders")

    assert answer.status_code == 404
    assert "run `make console`" in answer.json()["detail"]


async def test_a_file_that_is_not_there_is_no_page(running: Gateway) -> None:
    async with httpx.AsyncClient(base_url=running.url) as client:
        answer = await client.get("/console/assets/..%2f..%2fmain.py")
    assert answer.status_code == 404
