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


async def claim(live: Live, consumer: str, ids: list[str], **body: Any) -> dict[str, Any]:
    return await live.claim("orders", "billing", consumer, ids=ids, **body)


async def pending(live: Live, query: str = "") -> list[tuple[str, str | None, int]]:
    answer = await live.http.get(f"{BILLING}/pending?{query}")
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


async def autoclaim(live: Live, consumer: str, **body: Any) -> dict[str, Any]:
    answer = await live.http.post(
        f"{BILLING}/autoclaim?consumer={consumer}", json={"min_idle_ms": 0, **body}
    )
    assert answer.status_code == 200, answer.text
    reply: dict[str, Any] = answer.json()
    return reply


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
