"""Problem pages: whoever follows the `type` of a problem reads what to do."""

from typing import get_args

import pytest

from headgate.app.wire.explanations import EXPLANATIONS
from headgate.app.wire.problems import Code
from tests.api.conftest import Live

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_each_code_is_explained() -> None:
    assert list(EXPLANATIONS) == list(get_args(Code))
    for code, explanation in EXPLANATIONS.items():
        for text in (explanation.meaning, *explanation.causes, explanation.remedy):
            assert text.endswith((".", ":")), f"{code}: {text}"
            assert text.count("`") % 2 == 0, f"{code}: {text}"


async def test_the_type_of_a_problem_leads_to_its_page(shared: Live) -> None:
    problem = (await shared.http.get("/v1/streams/nothing")).json()
    text = await shared.http.get(problem["type"])
    assert text.status_code == 200
    assert text.headers["content-type"].startswith("text/plain")
    assert text.text.startswith("stream_not_found (404)\n  The stream does not exist.\n")
    page = await shared.http.get(problem["type"], headers={"Accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    assert "<code>stream_not_found</code>" in page.text
    assert "script-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["vary"] == "Accept"


@pytest.mark.parametrize("accept", ["*/*", "text/html"])
async def test_all_problems_are_on_a_page(shared: Live, accept: str) -> None:
    page = (await shared.http.get("/problems", headers={"Accept": accept})).text
    assert all(code in page for code in get_args(Code))
    assert "<!--" not in page
    assert accept == "*/*" or "`" not in page


async def test_what_is_no_code_is_not_found(shared: Live) -> None:
    answer = await shared.http.get("/problems/" + "<b>" * 100, headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"
