"""Deliveries: read as a group, acknowledge, give back, claim, and see what is pending."""

from pathlib import Path
from typing import Any

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, refusal_of, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
BILLING = f"{ORDERS}/groups/billing"


async def prepare(live: Live, *ids: str) -> None:
    """Make a group that has all of these before it."""
    await live.create_group("orders", "billing")
    batch = [{"id": entry_id, "fields": {"v": entry_id}} for entry_id in ids]
    answer = await live.http.post(f"{ORDERS}/entries/batch", json=batch)
    assert answer.status_code == 201, answer.text


async def read(live: Live, consumer: str, **body: Any) -> dict[str, Any]:
    return await live.read_group("orders", "billing", consumer, **body)


async def nack(live: Live, ids: list[str], consumer: str = "", **body: Any) -> list[str]:
    return await live.outcomes("nack", "orders", "billing", ids, consumer, **body)


async def claim(live: Live, consumer: str, ids: list[str], **body: Any) -> dict[str, Any]:
    return await live.claim("orders", "billing", consumer, ids=ids, **body)


async def pending(live: Live, **params: str | int) -> list[tuple[str, str | None, int]]:
    answer = await live.http.get(f"{BILLING}/pending", params=params)
    assert answer.status_code == 200, answer.text
    entries = answer.json()["pending"]
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


@pytest.mark.parametrize("operation", ["read", "ack", "nack", "extend", "claim", "autoclaim"])
async def test_two_names_for_one_consumer_are_a_conflict(shared: Live, operation: str) -> None:
    await prepare(shared, "1-0")
    body = {"ids": ["1-0"], "min_idle_ms": 0}
    wanted = {"read": [], "claim": ["ids", "min_idle_ms"], "autoclaim": ["min_idle_ms"]}

    answer = await shared.http.post(
        f"{BILLING}/{operation}?consumer=a",
        json={name: body[name] for name in wanted.get(operation, ["ids"])},
        headers={"Headgate-Consumer": "b"},
    )

    assert refusal_of(answer) == (400, "consumer_conflict", "/query/consumer")


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("read", {}),
        ("extend", {"ids": ["1-0"]}),
        ("claim", {"ids": ["1-0"], "min_idle_ms": 0}),
        ("autoclaim", {"min_idle_ms": 0}),
    ],
)
async def test_who_wants_entries_has_to_say_who_it_is(
    shared: Live, operation: str, body: dict[str, Any]
) -> None:
    await prepare(shared, "1-0")

    answer = await shared.http.post(f"{BILLING}/{operation}", json=body)

    assert refusal_of(answer) == (400, "consumer_required", "/query/consumer")
    assert await pending(shared) == []


# Read


async def test_a_read_needs_no_body(shared: Live) -> None:
    await prepare(shared, *(f"{ms}-0" for ms in range(1, 16)))

    answer = await shared.http.post(f"{BILLING}/read?consumer=worker")

    reply = answer.json()
    assert len(reply["entries"]) == 10
    assert reply["entries"][0] == {
        "id": "1-0",
        "fields": {"v": "1-0"},
        "deliveries": 1,
        "idle_ms": 0,
    }
    assert (reply["lag"], reply["pending"], reply["state"]) == (5, 10, "live")


async def test_binary_fields_are_delivered_as_they_are(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    wire = {"fields": {"blob": "/wA="}, "base64": ["blob"]}
    await shared.http.post(f"{ORDERS}/entries", json=wire)

    [delivery] = (await read(shared, "worker"))["entries"]

    assert (delivery["fields"], delivery["base64"]) == ({"blob": "/wA="}, ["blob"])


# Acknowledge


# Give back


# Extend


# Claim


async def test_a_claim_of_ids_only_does_not_count(shared: Live) -> None:
    await prepare(shared, "1-0")
    await read(shared, "a")

    claimed = await claim(shared, "b", ["1-0"], just_id=True)

    assert claimed == {"ids": ["1-0"], "deleted_ids": []}
    assert await pending(shared) == [("1-0", "b", 1)]


async def test_a_claim_has_no_more_than_an_answer_may_have(tmp_path: Path) -> None:
    async with running(Settings(data_dir=tmp_path, read_bytes_max=65_536)) as live:
        await live.create_group("orders", "billing")
        ids = await live.append("orders", *["v" * 30_000] * 3)
        for _ in ids:
            await read(live, "crashed")
        claimed = await claim(live, "rescuer", ids)
        page = await autoclaim(live, "rescuer")
        held = await pending(live, consumer="rescuer")

    assert claimed["ids"] == page["ids"] == [entry_id for entry_id, *_ in held] == ids[:2]
    assert page["next"] == ids[2]


# Autoclaim


async def autoclaim(live: Live, consumer: str, **body: Any) -> dict[str, Any]:
    answer = await live.http.post(
        f"{BILLING}/autoclaim?consumer={consumer}", json={"min_idle_ms": 0, **body}
    )
    assert answer.status_code == 200, answer.text
    reply: dict[str, Any] = answer.json()
    return reply


# What is pending


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ["1-0", "2-0", "3-0", "4-0"]),
        ({"limit": 2}, ["1-0", "2-0"]),
        ({"start": "2-0", "end": "3-0"}, ["2-0", "3-0"]),
        ({"start": "(2-0"}, ["3-0", "4-0"]),
        ({"end": "(3-0"}, ["1-0", "2-0"]),
        ({"start": "-", "end": "+"}, ["1-0", "2-0", "3-0", "4-0"]),
        ({"consumer": "b"}, ["3-0"]),
        ({"consumer": "ghost"}, []),
        ({"min_idle_ms": 30_000}, ["1-0", "4-0"]),  # what nobody owns waits for nobody
        ({"min_idle_ms": 30_000, "consumer": "a"}, ["1-0"]),
    ],
)
async def test_pending_entries_are_listed_by_id(
    shared: Live, params: dict[str, str | int], expected: list[str]
) -> None:
    await prepare(shared, "1-0", "2-0", "3-0", "4-0")
    await read(shared, "a", limit=2)
    await read(shared, "b", limit=1)
    await read(shared, "c", limit=1)
    await nack(shared, ["4-0"])
    await claim(shared, "a", ["1-0"], idle_ms=90_000)

    assert [entry[0] for entry in await pending(shared, **params)] == expected


# Together
