"""The first page: instructions for curl, and restrictions for a browser."""

import html

import pytest
from pydantic import SecretStr

from headgate.app.settings import Settings
from tests.api.conftest import Live, running

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize("accept", ["*/*", "text/plain", "application/json", ""])
async def test_who_is_no_browser_is_told_what_to_do_next(
    console_bundle: None, live: Live, accept: str
) -> None:
    answer = await live.http.get("/", headers={"accept": accept})

    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["vary"] == "Accept"
    assert f"curl {live.url}/v1/streams/orders/entries " in answer.text
    pages = [line.split()[0] for line in answer.text.splitlines() if line.startswith("  http")]
    assert [page.removeprefix(live.url) for page in pages] == [
        "/console", "/guide", "/docs", "/openapi.json", "/asyncapi.json", "/problems", "/metrics",
    ]  # fmt: skip
    for page in pages:
        assert (await live.http.get(page)).status_code == 200


async def test_a_page_runs_its_own_script_and_no_other(live: Live) -> None:
    answer = await live.http.get("/", headers=HTML)

    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    for text in ("http://", "https://"):
        page = answer.text.replace("http://www.w3.org/2000/svg", "")
        assert text not in page.replace("http://localhost:8080", ""), "it needs no internet"


async def test_it_is_told_under_the_name_it_was_asked_by(live: Live) -> None:
    answer = await live.http.get("/", headers={"host": "gate.localhost:9"})

    assert "curl http://gate.localhost:9/v1/streams/orders/entries " in answer.text


@pytest.mark.parametrize(
    ("trusted", "scheme"), [(["127.0.0.0/8"], "https"), ([], "http"), (["10.0.0.1"], "http")]
)
async def test_behind_a_named_proxy_it_is_told_as_the_proxy_was_asked(
    trusted: list[str], scheme: str
) -> None:
    headers = {"host": "gate.localhost", "x-forwarded-proto": "https"}
    async with running(Settings(trusted_proxies=trusted)) as live:
        answer = await live.http.get("/", headers=headers)

    assert f"curl {scheme}://gate.localhost/v1/streams/orders/entries " in answer.text


async def test_head_has_the_same_headers_and_no_body(live: Live) -> None:
    answer = await live.http.head("/", headers=HTML)

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("accept", ["*/*", "text/html"])
async def test_where_a_key_is_needed_the_commands_have_it(accept: str) -> None:
    settings = Settings(jwt_secret=SecretStr("a secret of the issuer and the gateway"))
    async with running(settings) as live:
        answer = await live.http.get("/", headers={"accept": accept})

    text = html.unescape(answer.text)
    bearer = 'curl -H "Authorization: Bearer $HEADGATE_TOKEN" '
    assert text.count("curl ") == text.count(bearer)
    assert "read -rs HEADGATE_TOKEN; export HEADGATE_TOKEN" in text
