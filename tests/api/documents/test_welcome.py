"""The first page: instructions for curl, and restrictions for a browser."""

import html

import pytest
from pydantic import SecretStr

from headgate.app.settings import Settings
from tests.api.conftest import Live, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


async def test_who_is_no_browser_is_told_what_to_do(console_bundle: None, shared: Live) -> None:
    for accept in ("*/*", "text/plain", "application/json", ""):
        answer = await shared.http.get("/", headers={"accept": accept})
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["vary"] == "Accept"
        assert f"curl {shared.url}/v1/streams/orders/entries " in answer.text
    lines = (await shared.http.get("/")).text.splitlines()
    pages = [line.split()[0] for line in lines if line.startswith("  http")]
    assert [page.removeprefix(shared.url) for page in pages] == [
        "/console", "/guide", "/docs", "/openapi.json", "/asyncapi.json", "/problems", "/metrics",
    ]  # fmt: skip
    for page in pages:
        assert (await shared.http.get(page)).status_code == 200


async def test_a_page_runs_its_own_script_and_no_other(shared: Live) -> None:
    answer = await shared.http.get("/", headers=HTML)
    head = await shared.http.head("/", headers=HTML)

    assert (head.status_code, head.content) == (200, b"")
    for headers in (answer.headers, head.headers):
        assert headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    for word in ("unsafe", "http"):
        assert word not in policy
    page = answer.text.replace("http://www.w3.org/2000/svg", "")
    page = page.replace("http://localhost:8080", "")
    for text in ("http://", "https://"):
        assert text not in page, "it needs no internet"


@pytest.mark.parametrize(
    ("trusted", "scheme"), [(["127.0.0.0/8"], "https"), ([], "http"), (["10.0.0.1"], "http")]
)
async def test_behind_a_proxy_it_is_as_that_was_asked(trusted: list[str], scheme: str) -> None:
    headers = {"host": "gate.localhost", "x-forwarded-proto": "https"}
    async with running(Settings(trusted_proxies=trusted)) as live:
        answer = await live.http.get("/", headers=headers)

    assert f"curl {scheme}://gate.localhost/v1/streams/orders/entries " in answer.text


@pytest.mark.parametrize("accept", ["*/*", "text/html"])
async def test_where_a_key_is_needed_the_commands_have_it(accept: str) -> None:
    settings = Settings(jwt_secret=SecretStr("a secret of the issuer and the gateway"))
    async with running(settings) as live:
        answer = await live.http.get("/", headers={"accept": accept})

    text = html.unescape(answer.text)
    bearer = 'curl -H "Authorization: Bearer $HEADGATE_TOKEN" '
    assert text.count("curl ") == text.count(bearer)
    assert "read -rs HEADGATE_TOKEN; export HEADGATE_TOKEN" in text
