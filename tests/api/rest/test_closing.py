"""Closing a stream over REST, and what every append is answered then."""

from typing import Any

import httpx
import pytest

from tests.api.conftest import Live, problem_in, refusal_of

ORDERS = "/v1/streams/orders"
ENTRY = {"fields": {"v": "last"}}

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def closed(shared: Live, entry: object = None, **headers: str) -> dict[str, Any]:
    answer = await shared.http.post(f"{ORDERS}/close", json=entry, headers=headers)
    assert answer.status_code == 200, answer.text
    end: dict[str, Any] = answer.json()
    return end


async def test_a_stream_is_closed_and_says_since_when(shared: Live) -> None:
    await shared.append("orders", "1")
    before = (await shared.http.get(ORDERS)).json()
    end = await closed(shared)
    after = (await shared.http.get(ORDERS)).json()
    assert (before["closed_at_ms"], after["closed_at_ms"]) == (None, end["closed_at_ms"])
    assert end == {"ids": [], "epoch": after["epoch"], "closed_at_ms": after["closed_at_ms"]}
    assert await closed(shared) == end
    listed = (await shared.http.get("/v1/streams")).json()["streams"]
    assert [each["closed_at_ms"] for each in listed] == [end["closed_at_ms"]]


async def test_every_append_is_refused(shared: Live) -> None:
    await shared.append("orders", "1")
    await closed(shared)

    async def post(path: str, **options: Any) -> httpx.Response:
        return await shared.http.post(path, **options)

    answers = [
        await post(f"{ORDERS}/entries", json=ENTRY),
        await post(f"{ORDERS}/entries/batch", json=[ENTRY, ENTRY]),
        await post(
            f"{ORDERS}/entries/batch",
            content=b'{"fields":{"v":"1"}}\n',
            headers={"Content-Type": "application/x-ndjson"},
        ),
    ]
    assert [refusal_of(answer) for answer in answers] == [(409, "stream_closed", "")] * 3
    assert "'orders'" in problem_in(answers[0])["detail"]
    assert not problem_in(answers[0])["retryable"]
    command = await post("/v1/commands/XADD/orders/*/v/1")
    assert command.json()["error"] == "ERR stream 'orders' is closed, and takes no entries any more"
