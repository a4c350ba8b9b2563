"""Groups and consumers: create, describe, move, delete."""

from pathlib import Path
from typing import Any

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
    ("kind", "path"), [("groups", f"{ORDERS}/groups"), ("consumers", CONSUMERS)]
)
async def test_groups_and_consumers_are_listed_a_page_at_a_time(
    shared: Live, kind: str, path: str
) -> None:
    await shared.create_group("orders", "billing")
    names = ["a", "b", "billing", "c", "ü"]
    for name in reversed(names):
        await shared.http.put(f"{path}/{name}")
    listed: list[list[str]] = []
    params: dict[str, Any] = {"limit": 2}
    while params.setdefault("cursor", "") is not None:
        page = (await shared.http.get(path, params=params)).json()
        listed.append([item["name"] for item in page[kind]])
        params["cursor"] = page["next_cursor"]
    whole = (await shared.http.get(path)).json()
    assert listed == [names[:2], names[2:4], names[4:]]
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
async def test_what_is_missing_is_named(shared: Live, method: str, path: str, body: Any) -> None:
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


# How many there may be


@pytest.mark.embedded("servers do not count the streams")
async def test_one_too_many_is_answered_409_until_one_goes() -> None:
    few = Settings(streams_max=1, groups_max=1, consumers_max=1, producers_max=1)
    async with running(few) as live:
        keyed = {"Idempotency-Key": "1", "Idempotency-Producer": "p"}
        entry = {"fields": {"v": "1"}}
        assert (await live.http.post(f"{ORDERS}/entries", json=entry, headers=keyed)).is_success
        await live.create_group("orders", "billing")
        await live.read_group("orders", "billing", "me")
        idle, consumers = {"min_idle_ms": 0}, "consumers in this group"
        for method, path, body, what in (
            ("PUT", "/v1/streams/other", None, "streams"),
            ("POST", "/v1/streams/other/entries", entry, "streams"),
            ("POST", "/v1/streams/other/entries/batch", [entry], "streams"),
            ("PUT", f"{ORDERS}/groups/other", None, "groups in this stream"),
            ("PUT", f"{CONSUMERS}/you", None, consumers),
            ("POST", f"{BILLING}/read?consumer=you", {}, consumers),
            ("POST", f"{BILLING}/claim?consumer=you", {"ids": ["1-0"], **idle}, consumers),
            ("POST", f"{BILLING}/autoclaim?consumer=you", idle, consumers),
            ("POST", f"{ORDERS}/entries", entry, "producers in this stream"),
        ):
            other = {**keyed, "Idempotency-Producer": "q"} if "producers" in what else {}
            problem = problem_in(await live.http.request(method, path, json=body, headers=other))
            assert (problem["status"], problem["code"]) == (409, "limit_reached")
            assert problem["detail"] == f"too many {what}: the limit is 1"
            assert not problem["retryable"]
        command = await live.http.post("/v1/commands", json=["XADD", "other", "*", "k", "v"])
        assert command.json() == {"error": "ERR too many streams: the limit is 1"}
        limits = (await live.http.get("/v1/limits")).json()
        assert (limits["streams_max"], limits["groups_max"]) == (1, 1)
        assert (await live.http.delete(f"{CONSUMERS}/me")).is_success
        assert (await live.http.put(f"{CONSUMERS}/you")).status_code == 201
