"""Groups and consumers: create, describe, move, delete."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.app.settings import Settings
from headgate.engine.requests.groups import CreateConsumer
from tests.api.conftest import Live, problem_in, refusal_of, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
BILLING = f"{ORDERS}/groups/billing"
CONSUMERS = f"{BILLING}/consumers"


async def append_at(live: Live, *ids: str) -> None:
    batch = [{"id": entry_id, "fields": {"v": entry_id}} for entry_id in ids]
    answer = await live.http.post(f"{ORDERS}/entries/batch", json=batch)
    assert answer.status_code == 201, answer.text


async def read_ids(live: Live, consumer: str, **body: Any) -> list[str]:
    reply = await live.read_group("orders", "billing", consumer, **body)
    return [entry["id"] for entry in reply["entries"]]


async def consumers(live: Live) -> dict[str, int]:
    listed = (await live.http.get(CONSUMERS)).json()["consumers"]
    return {consumer["name"]: consumer["pending"] for consumer in listed}


# Create and describe


async def test_a_group_begins_at_the_end_unless_told_otherwise(shared: Live) -> None:
    await append_at(shared, "1-0", "2-0")

    answer = await shared.http.put(BILLING)

    assert answer.status_code == 201
    assert answer.json() == {
        "name": "billing",
        "last_id": "2-0",
        "entries_read": None,
        "lag": 0,
        "pending": 0,
        "released": 0,
        "delayed": 0,
        "consumers": 0,
        "policy": {},
    }


@pytest.mark.parametrize(
    ("start", "expected"),
    [("0", ["1-0", "2-0", "3-0"]), ("1", ["2-0", "3-0"]), ("2-0", ["3-0"]), ("$", []), ("9", [])],
)
async def test_a_group_reads_after_its_start(shared: Live, start: str, expected: list[str]) -> None:
    await append_at(shared, "1-0", "2-0", "3-0")

    await shared.http.put(BILLING, json={"start": start})

    assert await read_ids(shared, "worker") == expected


@pytest.mark.parametrize(
    ("kind", "path"), [("groups", f"{ORDERS}/groups"), ("consumers", CONSUMERS)]
)
async def test_groups_and_consumers_are_listed_a_page_at_a_time(
    shared: Live, kind: str, path: str
) -> None:
    await shared.create_group("orders", "billing")
    names = ["a", "b", "billing", "c", "ü"]
    for name in names:
        await shared.http.put(f"{path}/{name}")
    if kind == "groups":
        await shared.http.delete(f"{path}/c")
        await shared.http.put(f"{path}/c")

    listed, pages, cursor = [], 0, None
    while pages == 0 or cursor is not None:
        page = await shared.http.get(
            path, params={"limit": 2} | ({"cursor": cursor} if cursor else {})
        )
        listed += [item["name"] for item in page.json()[kind]]
        pages, cursor = pages + 1, page.json()["next_cursor"]
    whole = (await shared.http.get(path)).json()

    assert (listed, pages) == (names, 3)
    assert [item["name"] for item in whole[kind]] == names
    assert whole["next_cursor"] is None


async def test_a_list_as_long_as_allowed_says_that_there_is_more(tmp_path: Path) -> None:
    async with running(Settings(data_dir=tmp_path, read_entries_max=100)) as live:
        await live.create_group("orders", "billing")
        for number in range(101):
            await live.gateway.backend.perform(
                CreateConsumer(b"orders", b"billing", b"%03d" % number)
            )
        page = (await live.http.get(CONSUMERS)).json()
        next_page = (await live.http.get(CONSUMERS, params={"cursor": page["next_cursor"]})).json()

    assert len(page["consumers"]) == 100
    assert [consumer["name"] for consumer in next_page["consumers"]] == ["100"]
    assert next_page["next_cursor"] is None


# Move


# Delete


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("DELETE", "", None),
        ("PATCH", "", {"start": "0"}),
        ("GET", "/consumers", None),
        ("PUT", "/consumers/c", None),
        ("DELETE", "/consumers/c", None),
        ("POST", "/read?consumer=c", {}),
        ("POST", "/ack", {"ids": ["1-0"]}),
        ("POST", "/nack", {"ids": ["1-0"]}),
        ("POST", "/dead-letters/redrive", None),
        ("POST", "/extend?consumer=c", {"ids": ["1-0"]}),
        ("POST", "/claim?consumer=c", {"ids": ["1-0"], "min_idle_ms": 0}),
        ("POST", "/autoclaim?consumer=c", {"min_idle_ms": 0}),
        ("GET", "/pending", None),
        ("GET", "/pending/summary", None),
        ("GET", "/events", None),
    ],
)
async def test_what_is_missing_is_named_stream_or_group(
    shared: Live, method: str, path: str, body: Any
) -> None:
    no_stream = await shared.http.request(method, BILLING + path, json=body)
    await shared.http.put(ORDERS)
    no_group = await shared.http.request(method, BILLING + path, json=body)

    assert refusal_of(no_stream) == (404, "stream_not_found", "")
    assert problem_in(no_stream)["detail"] == "There is no stream 'orders'."
    assert refusal_of(no_group) == (404, "group_not_found", "")
    assert problem_in(no_group)["detail"] == "Stream 'orders' has no group 'billing'."
    assert (await shared.stream("orders"))["groups"] == 0


# Consumers


async def test_a_consumer_is_created_once(shared: Live) -> None:
    await shared.create_group("orders", "billing")

    answers = [await shared.http.put(f"{CONSUMERS}/w%C3%B6rker") for _ in range(2)]

    assert [answer.status_code for answer in answers] == [201, 200]
    made = answers[0].json()
    assert (made["name"], made["pending"], made["inactive_ms"]) == ("wörker", 0, None)
    assert (await shared.group("orders", "billing"))["consumers"] == 1


async def test_nobody_is_made_by_asking_what_is_pending(shared: Live) -> None:
    await shared.create_group("orders", "billing")

    await shared.http.get(f"{BILLING}/pending?consumer=ghost")
    await shared.http.post(f"{BILLING}/ack?consumer=ghost", json={"ids": ["1-0"]})

    assert await consumers(shared) == {}


# How many there may be


def check_too_many(what: str, refused: Iterable[httpx.Response]) -> None:
    for answer in refused:
        problem = problem_in(answer)
        assert (answer.status_code, problem["code"]) == (409, "limit_reached")
        assert problem["detail"] == f"too many {what}: the limit is 1"
        assert not problem["retryable"]


@pytest.mark.embedded("servers do not count the streams")
async def test_one_stream_too_many_is_answered_409() -> None:
    entry = {"fields": {"v": "1"}}
    async with running(Settings(streams_max=1)) as live:
        await live.append("orders", "1")
        refused = [
            await live.http.put("/v1/streams/other"),
            await live.http.post("/v1/streams/other/entries", json=entry),
            await live.http.post("/v1/streams/other/entries/batch", json=[entry]),
        ]
        check_too_many("streams", refused)
        command = await live.http.post("/v1/commands", json=["XADD", "other", "*", "k", "v"])
        assert command.json() == {"error": "ERR too many streams: the limit is 1"}
        assert (await live.http.get("/v1/limits")).json()["streams_max"] == 1


async def test_one_too_many_is_answered_409_until_one_goes() -> None:
    few = Settings(groups_max=1, consumers_max=1, producers_max=1)
    async with running(few) as live:
        keyed = {"Idempotency-Key": "1", "Idempotency-Producer": "p"}
        entry = {"fields": {"v": "1"}}
        assert (await live.http.post(f"{ORDERS}/entries", json=entry, headers=keyed)).is_success
        await live.create_group("orders", "billing")
        await live.read_group("orders", "billing", "me")

        other = {**keyed, "Idempotency-Producer": "q"}
        answers = {
            "groups in this stream": [await live.http.put(f"{ORDERS}/groups/other")],
            "consumers in this group": [
                await live.http.put(f"{CONSUMERS}/you"),
                await live.http.post(f"{BILLING}/read?consumer=you", json={}),
                await live.http.post(
                    f"{BILLING}/claim?consumer=you", json={"ids": ["1-0"], "min_idle_ms": 0}
                ),
                await live.http.post(f"{BILLING}/autoclaim?consumer=you", json={"min_idle_ms": 0}),
            ],
            "producers in this stream": [
                await live.http.post(f"{ORDERS}/entries", json=entry, headers=other)
            ],
        }
        for what, refused in answers.items():
            check_too_many(what, refused)
        command = await live.http.post(
            "/v1/commands", json=["XGROUP", "CREATE", "orders", "other", "$"]
        )
        assert command.json() == {"error": "ERR too many groups in this stream: the limit is 1"}
        assert (await live.http.get("/v1/limits")).json()["groups_max"] == 1

        assert (await live.http.delete(f"{CONSUMERS}/me")).is_success
        assert (await live.http.put(f"{CONSUMERS}/you")).status_code == 201
