"""The pages of the gateway look alike, by one stylesheet that the gateway serves itself."""

from pathlib import Path
from urllib.parse import urljoin

import pytest

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


def test_no_page_has_colours_of_its_own() -> None:
    pages = {page.name: page.read_text("utf-8") for page in APP.glob("*.html")}

    assert len(pages) == 3
    assert [name for name, text in pages.items() if "prefers-color-scheme" in text] == []
