"""The pages of the gateway look alike, by one stylesheet that the gateway serves itself."""

import asyncio
import re
from pathlib import Path
from urllib.parse import urljoin

import pytest
from starlette.routing import Route

from headgate.app.main import create_app
from headgate.app.settings import MEMORY, Settings
from tests.api.conftest import Live

APP = Path(__file__).parents[3] / "app"
LINK = '<link rel="stylesheet" href="'


@pytest.mark.parametrize("path", ["/", "/guide", "/guide/work", "/problems", "/problems/draining"])
async def test_each_page_has_the_stylesheet_of_all(live: Live, path: str) -> None:
    page = await live.http.get(path, headers={"Accept": "text/html"})
    href = page.text.partition(LINK)[2].partition('"')[0]

    stylesheet = await live.http.get(urljoin(str(page.url), href))

    assert stylesheet.headers["content-type"].startswith("text/css")
    assert stylesheet.headers["x-content-type-options"] == "nosniff"
    assert stylesheet.text == (APP / "page.css").read_text("utf-8")
    assert " style-src 'self' 'sha256-" in page.headers["content-security-policy"]


@pytest.fixture
async def routes() -> list[Route]:
    app = await asyncio.to_thread(create_app, Settings(data_dir=MEMORY))
    return [route for route in app.routes if isinstance(route, Route)]


async def test_each_page_says_what_it_may_load(live: Live, routes: list[Route]) -> None:
    names = {"task": "work", "code": "draining", "path": "streams"}
    paths = {re.sub(r"{(\w+)[^}]*}", lambda name: names.get(name[1], "x"), r.path) for r in routes}
    pages = set()
    for path in sorted(paths | {"/nothing", "/static-offline-docs/", "/docs/oauth2-redirect"}):
        async with live.http.stream("GET", path, headers={"Accept": "text/html"}) as page:
            is_page = "html" in page.headers.get("content-type", "")
            if is_page:
                pages.add(path)
                policy = page.headers["content-security-policy"]
                assert policy.startswith("default-src 'none'; script-src "), path
                assert "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy
                assert page.headers["referrer-policy"] == "no-referrer"
                assert page.headers["x-content-type-options"] == "nosniff"
    assert pages - {"/console", "/console/streams"} == {
        *("/", "/docs", "/guide", "/guide/work", "/problems", "/problems/draining")
    }


async def test_what_the_documentation_loads_is_taken_for_nothing_else(live: Live) -> None:
    page = await live.http.get("/docs")
    for asset in re.findall(r"""(?:src|href)=["']([^"']+)["']""", page.text):
        answer = await live.http.get(asset)
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_no_page_has_colours_of_its_own() -> None:
    pages = {page.name: page.read_text("utf-8") for page in APP.glob("*.html")}

    assert len(pages) == 3
    assert [name for name, text in pages.items() if "prefers-color-scheme" in text] == []
