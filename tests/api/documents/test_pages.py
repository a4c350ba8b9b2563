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

pytestmark = pytest.mark.asyncio(loop_scope="session")

APP = Path(__file__).parents[3] / "app"
LINK = '<link rel="stylesheet" href="'


async def test_each_page_has_the_stylesheet_of_all(shared: Live) -> None:
    for path in ("/", "/guide", "/guide/work", "/problems", "/problems/draining"):
        page = await shared.http.get(path, headers={"Accept": "text/html"})
        href = page.text.partition(LINK)[2].partition('"')[0]
        stylesheet = await shared.http.get(urljoin(str(page.url), href))
        assert stylesheet.headers["content-type"].startswith("text/css"), path
        assert stylesheet.headers["x-content-type-options"] == "nosniff"
        assert stylesheet.text == (APP / "page.css").read_text("utf-8")
        assert " style-src 'self' 'sha256-" in page.headers["content-security-policy"]


async def test_each_page_says_what_it_may_load(shared: Live) -> None:
    app = await asyncio.to_thread(create_app, Settings(data_dir=MEMORY))
    routes = [route for route in app.routes if isinstance(route, Route)]
    names = {"task": "work", "code": "draining", "path": "streams"}
    paths = {re.sub(r"{(\w+)[^}]*}", lambda name: names.get(name[1], "x"), r.path) for r in routes}
    pages = set()
    for path in sorted(paths | {"/nothing", "/static-offline-docs/", "/docs/oauth2-redirect"}):
        async with shared.http.stream("GET", path, headers={"Accept": "text/html"}) as page:
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


async def test_what_the_documentation_loads_is_taken_for_nothing_else(shared: Live) -> None:
    page = await shared.http.get("/docs")
    for asset in re.findall(r"""(?:src|href)=["']([^"']+)["']""", page.text):
        answer = await shared.http.get(asset)
        assert answer.headers["x-content-type-options"] == "nosniff"
