"""Behind a proxy with a path of its own, URLs in answers and in requests have that path."""

from __future__ import annotations

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live

TEXT = {"Content-Type": "text/plain"}
PULL = {"type": "webhook", "pattern": "*", "webhook": {"url": "https://example.com/hook"}}


@pytest.fixture
def settings() -> Settings:
    return Settings(heartbeat_ms=200, root_path="/streams")


@pytest.mark.parametrize("before", ["/streams", ""])  # a proxy may leave it there, or not
async def test_urls_have_the_root_path(live: Live, before: str) -> None:
    root = f"{before}/v1/stream"
    made = await live.http.put(f"{root}/a/b", headers=TEXT, content=b"a")
    assert made.headers["location"] == f"{live.url}/streams/v1/stream/a/b"
    for number, source in enumerate(("/streams/v1/stream/a/b", "/v1/stream/a/b")):
        headers = {"Stream-Forked-From": source}
        fork = await live.http.put(f"{root}/fork{number}", headers=headers)
        assert fork.status_code == 201, fork.text
        assert (await live.http.get(f"{root}/fork{number}")).text == "a"
    answer = await live.http.put(f"{root}/__ds/subscriptions/s", json=PULL)
    url = answer.json()["webhook"]["signing"]["jwks_url"]
    assert url == f"{live.url}/streams/v1/stream/__ds/jwks.json"
    assert len((await live.http.get(url)).json()["keys"]) == 1
