"""Long polls: who is woken, in which order, and what is left behind."""

import asyncio
from typing import Any

import httpx

from tests.api.conftest import Live


async def test_an_append_wakes_the_first_waiter_of_a_group_and_every_plain_one(live: Live) -> None:
    await live.create_group("orders", "billing")
    in_order: list[asyncio.Task[dict[str, Any]]] = []
    for index in range(1000):
        read = live.read_group("orders", "billing", f"c{index}", wait_ms=30_000)
        in_order.append(asyncio.create_task(read))
        if index < 3:  # the first ones in a known order, the crowd behind them as it comes
            await live.until_waiting(index + 1)
    plain = [
        asyncio.create_task(live.http.get("/v1/streams/orders/entries?after=$&wait_ms=30000"))
        for _ in range(1000)
    ]
    await live.until_waiting(2000)

    [entry_id] = await live.append("orders", "42")
    answers = await asyncio.gather(*plain)
    first = await in_order[0]

    assert [entry["id"] for entry in first["entries"]] == [entry_id]
    assert all([e["id"] for e in a.json()["entries"]] == [entry_id] for a in answers)
    assert live.waiter_count == 999
    assert not any(task.done() for task in in_order[1:])
    for task in in_order[1:]:
        task.cancel()
    await live.until_waiting(0)


async def test_entries_handed_to_a_client_that_left_go_to_the_next(live: Live) -> None:
    await live.create_group("orders", "billing")
    async with httpx.AsyncClient(base_url=live.url, timeout=30) as leaving:
        read = leaving.post(
            "/v1/streams/orders/groups/billing/read?consumer=gone", json={"wait_ms": 30_000}
        )
        task = asyncio.create_task(read)
        await live.until_waiting(1)
        task.cancel()
    await live.until_waiting(0)

    [entry_id] = await live.append("orders", "42")
    got = await live.read_group("orders", "billing", "here")

    assert [entry["id"] for entry in got["entries"]] == [entry_id]
    assert got["entries"][0]["deliveries"] == 1
