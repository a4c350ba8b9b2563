"""Long polls: their wake-ups, their order, and their traces."""

import asyncio

from headgate.app.settings import Settings
from tests.api.conftest import Live, refusal_of, running


async def test_entries_meant_for_a_client_that_left_go_to_the_next(live: Live) -> None:
    await live.create_group("orders", "billing")
    leaving = asyncio.create_task(live.read_group("orders", "billing", "gone", wait_ms=30_000))
    await live.until_waiting(1)
    leaving.cancel()
    [entry_id] = await live.append("orders", "42")  # perhaps before the gateway notices

    got = await live.read_group("orders", "billing", "here", wait_ms=5000)

    assert [(entry["id"], entry["deliveries"]) for entry in got["entries"]] == [(entry_id, 1)]
    await live.until_waiting(0)


async def test_a_read_that_is_refused_acknowledges_nothing() -> None:
    async with running(Settings(waiters_max=1)) as live:
        await live.create_group("orders", "billing")
        [entry_id] = await live.append("orders", "42")
        await live.read_group("orders", "billing", "c")
        waiting = asyncio.create_task(live.read_group("orders", "billing", "a", wait_ms=30_000))
        await live.until_waiting(1)

        url = "/v1/streams/orders/groups/billing/read?consumer=c"
        answer = await live.http.post(url, json={"wait_ms": 1000, "ack": [entry_id]})

        assert refusal_of(answer)[:2] == (429, "too_many_waiters")
        assert (await live.group("orders", "billing"))["pending"] == 1
        waiting.cancel()
        await live.until_waiting(0)


async def test_large_entries_come_in_answers_of_bounded_size(live: Live) -> None:
    ids = await live.append("orders", *["x" * 1_000_000] * 10)
    ids += await live.append("orders", *["x" * 1_000_000] * 10)

    answer = await live.http.get("/v1/streams/orders/entries?limit=100")
    got = [entry["id"] for entry in answer.json()["entries"]]
    second = await live.http.get(
        f"/v1/streams/orders/entries?limit=100&after={answer.json()['next_after']}"
    )

    assert 10 < len(got) < 20
    assert got + [entry["id"] for entry in second.json()["entries"]] == ids
