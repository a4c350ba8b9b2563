"""Groups: consumers, deliveries and the policy: asked for, shown, changed and refused."""

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


# Create and describe


async def test_a_group_begins_at_the_end_unless_told_otherwise(shared: Live) -> None:
    await shared.append_at("orders", "1-0", "2-0")
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
        "verdict": "ok",
        "reasons": [],
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


# Consumers


async def test_a_consumer_is_created_once(shared: Live) -> None:
    await shared.create_group("orders", "billing")

    answers = [await shared.http.put(f"{CONSUMERS}/w%C3%B6rker") for _ in range(2)]

    assert [answer.status_code for answer in answers] == [201, 200]
    made = answers[0].json()
    assert (made["name"], made["pending"], made["inactive_ms"]) == ("wörker", 0, None)
    assert (await shared.group("orders", "billing"))["consumers"] == 1


# How many there may be


EMBEDDED = pytest.mark.embedded("servers do not count the streams")


@pytest.mark.parametrize("counts_streams", [False, pytest.param(True, marks=EMBEDDED)])
async def test_one_too_many_is_answered_409_until_one_goes(counts_streams: bool) -> None:
    few = {"groups_max": 1, "consumers_max": 1, "producers_max": 1}
    few |= {"streams_max": 1} if counts_streams else {}
    async with running(Settings.model_validate(few)) as live:
        keyed = {"Idempotency-Key": "1", "Idempotency-Producer": "p"}
        entry = {"fields": {"v": "1"}}
        assert (await live.http.post(f"{ORDERS}/entries", json=entry, headers=keyed)).is_success
        await live.create_group("orders", "billing")
        await live.read_group("orders", "billing", "me")
        idle, consumers = {"min_idle_ms": 0}, "consumers in this group"
        asked: list[tuple[str, str, Any, str]] = [
            ("PUT", f"{ORDERS}/groups/other", None, "groups in this stream"),
            ("PUT", f"{CONSUMERS}/you", None, consumers),
            ("POST", f"{BILLING}/read?consumer=you", {}, consumers),
            ("POST", f"{BILLING}/claim?consumer=you", {"ids": ["1-0"], **idle}, consumers),
            ("POST", f"{BILLING}/autoclaim?consumer=you", idle, consumers),
            ("POST", f"{ORDERS}/entries", entry, "producers in this stream"),
        ]
        commands = [("XGROUP CREATE orders other $", "groups in this stream")]
        if counts_streams:
            commands = [("XADD other * k v", "streams")]
            asked = [
                ("PUT", "/v1/streams/other", None, "streams"),
                ("POST", "/v1/streams/other/entries", entry, "streams"),
                ("POST", "/v1/streams/other/entries/batch", [entry], "streams"),
            ]
        for method, path, body, what in asked:
            other = {**keyed, "Idempotency-Producer": "q"} if "producers" in what else {}
            problem = problem_in(await live.http.request(method, path, json=body, headers=other))
            assert (problem["status"], problem["code"]) == (409, "limit_reached")
            assert problem["detail"] == f"too many {what}: the limit is 1"
            assert not problem["retryable"]
        for words, what in commands:
            command = await live.http.post("/v1/commands", json=words.split())
            assert command.json() == {"error": f"ERR too many {what}: the limit is 1"}
        limits = await live.ask("GET /v1/limits")
        assert few.items() <= limits.items()
        await live.ask(f"DELETE {CONSUMERS}/me")
        assert (await live.http.put(f"{CONSUMERS}/you")).status_code == 201


async def prepare(live: Live, *ids: str) -> None:
    """Make a group that has all of these before it."""
    await live.create_group("orders", "billing")
    await live.append_at("orders", *ids)


async def read(live: Live, consumer: str, **body: Any) -> Any:
    return await live.read_group("orders", "billing", consumer, **body)


async def claim(live: Live, consumer: str, ids: list[str], **body: Any) -> Any:
    return await live.claim("orders", "billing", consumer, ids=ids, **body)


async def pending(live: Live, query: str = "") -> list[tuple[str, str | None, int]]:
    entries = (await live.ask(f"GET {BILLING}/pending?{query}"))["pending"]
    return [(entry["id"], entry["consumer"], entry["deliveries"]) for entry in entries]


# Who is asking


@pytest.mark.parametrize(
    ("query", "header"),
    [("worker", None), (None, "worker"), ("worker", "worker"), ("wörker", "wörker")],
)
async def test_a_consumer_is_named_by_query_or_by_header(
    shared: Live, query: str | None, header: str | None
) -> None:
    await prepare(shared, "1-0")

    answer = await shared.http.post(
        f"{BILLING}/read",
        params={} if query is None else {"consumer": query},
        headers={} if header is None else {b"Headgate-Consumer": header.encode()},
    )

    assert answer.status_code == 200, answer.text
    assert await pending(shared) == [("1-0", query or header, 1)]


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        *(("read", {}), ("ack", {"ids": ["1-0"]}), ("nack", {"ids": ["1-0"]})),
        *(("extend", {"ids": ["1-0"]}), ("autoclaim", {"min_idle_ms": 0})),
        ("claim", {"ids": ["1-0"], "min_idle_ms": 0}),
    ],
)
async def test_who_wants_entries_has_to_say_who_it_is(
    shared: Live, operation: str, body: dict[str, Any]
) -> None:
    await prepare(shared, "1-0")
    url = f"{BILLING}/{operation}"
    two = await shared.http.post(f"{url}?consumer=a", json=body, headers={"Headgate-Consumer": "b"})
    assert refusal_of(two) == (400, "consumer_conflict", "/query/consumer")
    if operation not in ("ack", "nack"):
        nobody = await shared.http.post(url, json=body)
        assert refusal_of(nobody) == (400, "consumer_required", "/query/consumer")
    assert await pending(shared) == []


# Read


async def test_a_read_needs_no_body(shared: Live) -> None:
    await prepare(shared, *(f"{ms}-0" for ms in range(1, 16)))

    reply = (await shared.http.post(f"{BILLING}/read?consumer=worker")).json()
    assert len(reply["entries"]) == 10
    assert reply["entries"][0] == {
        "id": "1-0",
        "fields": {"v": "1-0"},
        "deliveries": 1,
        "idle_ms": 0,
    }
    assert (reply["lag"], reply["pending"], reply["state"]) == (5, 10, "live")


async def test_a_claim_has_no_more_than_an_answer_may_have(tmp_path: Path) -> None:
    async with running(Settings(data_dir=tmp_path, read_bytes_max=65_536)) as live:
        await live.create_group("orders", "billing")
        ids = await live.append("orders", *["v" * 30_000] * 3)
        for _ in ids:
            await read(live, "crashed")
        claimed = await claim(live, "rescuer", ids)
        page = await autoclaim(live, "rescuer")
        held = await pending(live, "consumer=rescuer")

    assert claimed["ids"] == page["ids"] == [entry_id for entry_id, *_ in held] == ids[:2]
    assert page["next"] == ids[2]


async def autoclaim(live: Live, consumer: str) -> Any:
    return await live.ask(f"POST {BILLING}/autoclaim?consumer={consumer}", {"min_idle_ms": 0})


async def test_pending_entries_are_listed_by_id(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0", "3-0", "4-0")
    for consumer, limit in (("a", 2), ("b", 1), ("c", 1)):
        await read(shared, consumer, limit=limit)
    await shared.outcomes("nack", "orders", "billing", ["4-0"])
    await claim(shared, "a", ["1-0"], idle_ms=90_000)

    for params, expected in (
        ("", "1234"),
        ("limit=2", "12"),
        ("start=(2-0&end=%2B", "34"),
        ("start=-&end=(3-0", "12"),
        ("consumer=ghost", ""),
        ("min_idle_ms=30000", "14"),  # what nobody owns waits for nobody
        ("min_idle_ms=30000&consumer=a", "1"),
    ):
        listed = [entry[0] for entry in await pending(shared, params)]
        assert listed == [f"{digit}-0" for digit in expected], params


async def put(live: Live, policy: Any = None, **body: Any) -> httpx.Response:
    asked = {"start": "0", "create_stream": True, **body}
    return await live.http.put(
        BILLING, json=asked if policy is None else asked | {"policy": policy}
    )


async def prepare_under(live: Live, policy: Any, *ids: str) -> None:
    """Make a group under a policy that has all of these before it."""
    answer = await put(live, policy)
    assert answer.status_code == 201, answer.text
    await live.append_at("orders", *ids)


async def read_ids(live: Live, consumer: str = "worker", **body: Any) -> list[str]:
    reply = await live.read_group("orders", "billing", consumer, **body)
    return [entry["id"] for entry in reply["entries"]]


async def policy_of(live: Live) -> dict[str, Any]:
    policy: dict[str, Any] = (await live.group("orders", "billing"))["policy"]
    return policy


# Ask for one, see it, change it


async def test_a_group_is_created_with_its_policy(shared: Live) -> None:
    policy = {
        "claim_idle_ms": 30_000,
        "max_deliveries": 5,
        "dead_letter_stream": "dead ü",
        "backoff_ms": [1_000, 10_000],
        "max_pending": 100,
        "on_disconnect": "keep",
        "consumer_ttl_ms": 60_000,
    }

    answer = await put(shared, policy)

    assert (answer.status_code, answer.json()["policy"]) == (201, policy)
    assert await policy_of(shared) == policy
    listed = (await shared.http.get(f"{ORDERS}/groups")).json()["groups"]
    assert [group["policy"] for group in listed] == [policy]


async def test_dead_letters_are_sent_back_up_to_a_limit(shared: Live) -> None:
    once = {"max_deliveries": 1, "dead_letter_stream": "dead_letters"}
    await prepare_under(shared, once, "1-0", "2-0")
    await shared.outcomes("nack", "orders", "billing", await read_ids(shared))
    redriven = await shared.ask(f"POST {BILLING}/dead-letters/redrive", {"limit": 1})
    assert [each["entry_id"] for each in redriven["results"]] == ["1-0"]


async def test_filters_are_shown_as_they_were_written(shared: Live) -> None:
    filters = [{"exact": {"v": "2-0"}}, {"not": {"present": "orderId"}}]
    await prepare_under(shared, {"filters": filters}, "1-0", "2-0", "3-0")
    assert (await policy_of(shared))["filters"] == filters
    assert await read_ids(shared) == ["2-0"]


async def test_filters_that_are_nested_too_deep_are_refused(shared: Live) -> None:
    deep: dict[str, Any] = {"present": "x"}
    for _ in range(64):
        deep = {"not": deep}
    assert "at most 64 conditions" in problem_in(await put(shared, {"filters": [deep]}))["detail"]
