"""Closing a stream over REST, and what every append is answered then."""

import asyncio
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


async def test_a_last_entry_creates_the_stream_closed_unless_it_must_exist(shared: Live) -> None:
    missing = await shared.http.post(f"{ORDERS}/close")
    assert refusal_of(missing) == (404, "stream_not_found", "")
    must_exist = await shared.http.post(f"{ORDERS}/close", json={**ENTRY, "create_stream": False})
    assert refusal_of(must_exist) == (404, "stream_not_found", "")
    end = await closed(shared, ENTRY)
    assert (await shared.http.get(ORDERS)).json()["last_id"] == end["ids"][0]


async def test_a_repeat_with_the_key_answers_the_same(shared: Live) -> None:
    end = await closed(shared, ENTRY, **{"Idempotency-Key": "1"})
    answer = await shared.http.post(f"{ORDERS}/close", json=ENTRY, headers={"Idempotency-Key": "1"})
    assert answer.json() == end
    assert answer.headers["Idempotent-Replayed"] == "true"
    other = await shared.http.post(f"{ORDERS}/close", json=ENTRY)
    assert refusal_of(other) == (409, "stream_closed", "")


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


async def test_a_condition_holds_for_the_close(shared: Live) -> None:
    [last] = await shared.append("orders", "1")
    other = await shared.http.post(f"{ORDERS}/close", headers={"If-Match": '"1-1"'})
    assert refusal_of(other) == (412, "last_id_mismatch", "")
    await closed(shared, **{"If-Match": f'"{last}"'})


async def test_a_read_at_the_end_does_not_wait_and_says_why(shared: Live) -> None:
    [last] = await shared.append("orders", "1")
    url = f"{ORDERS}/entries?after={last}&wait_ms=30000"
    waiting = asyncio.create_task(shared.http.get(url))
    await shared.until_waiting(1)
    end = await closed(shared)
    async with asyncio.timeout(10):
        for answer in (await waiting, await shared.http.get(url)):
            assert answer.json()["entries"] == []
            assert answer.json()["closed_at_ms"] == end["closed_at_ms"]
    several = {"streams": [{"stream": "orders", "after": last}], "wait_ms": 30_000}
    async with asyncio.timeout(10):
        [read] = (await shared.http.post("/v1/read", json=several)).json()["streams"]
    assert read["closed_at_ms"] == end["closed_at_ms"]


async def test_a_group_read_does_not_wait_once_all_is_settled(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    end = await closed(shared, ENTRY)
    read = f"{ORDERS}/groups/billing/read?consumer=ana"
    first = (await shared.http.post(read, json={})).json()
    assert ([each["id"] for each in first["entries"]], first["state"]) == (end["ids"], "caught_up")
    async with asyncio.timeout(10):
        answer = await shared.http.post(read, json={"ack": end["ids"], "wait_ms": 30_000})
    assert (answer.json()["entries"], answer.json()["state"]) == ([], "closed")
