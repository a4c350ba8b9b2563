"""Long polls: their wake-ups, their order, and their traces."""

import asyncio
import json
from typing import Any

from headgate.app.settings import Settings
from tests.api.conftest import Live, running


class Poll:
    """One long poll on a connection of its own: httpx's pool is too slow for thousands."""

    def __init__(self, live: Live, request: str, body: dict[str, Any] | None = None) -> None:
        self._address = live.url.removeprefix("http://")
        content = json.dumps(body) if body is not None else ""
        self._request = (
            f"{request} HTTP/1.1\r\nHost: {self._address}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n{content}"
        )

    async def send(self) -> "Poll":
        host, port = self._address.split(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        self._writer.write(self._request.encode())
        return self

    async def entries(self) -> list[str]:
        """Wait for the answer; returns the ids of its entries."""
        answer = await self._reader.read()
        self._writer.close()
        body = answer.partition(b"\r\n\r\n")[2]
        return [entry["id"] for entry in json.loads(body)["entries"]]

    @property
    def is_answered(self) -> bool:
        return self._reader.at_eof()

    async def leave(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def group_poll(live: Live, consumer: str, **body: Any) -> Poll:
    path = f"/v1/streams/orders/groups/billing/read?consumer={consumer}"
    return Poll(live, f"POST {path}", {"wait_ms": 30_000, **body})


async def test_an_append_wakes_the_first_waiter_of_a_group_and_every_plain_one(live: Live) -> None:
    await live.create_group("orders", "billing")
    first = await group_poll(live, "first").send()
    await live.until_waiting(1)
    crowd = [await group_poll(live, f"c{index}").send() for index in range(999)]
    plain = [
        await Poll(live, "GET /v1/streams/orders/entries?after=$&wait_ms=30000").send()
        for _ in range(1000)
    ]
    await live.until_waiting(2000)

    [entry_id] = await live.append("orders", "42")

    assert await first.entries() == [entry_id]
    assert await asyncio.gather(*(poll.entries() for poll in plain)) == [[entry_id]] * 1000
    assert live.waiter_count == 999
    assert not any(poll.is_answered for poll in crowd)
    await asyncio.gather(*(poll.leave() for poll in crowd))
    await live.until_waiting(0)


async def test_waiters_of_a_group_are_served_in_the_order_they_came(live: Live) -> None:
    await live.create_group("orders", "billing")
    polls = []
    for index in range(5):
        polls.append(await group_poll(live, f"c{index}", limit=1).send())
        await live.until_waiting(index + 1)

    ids = await live.append("orders", *"abcde")

    assert [await poll.entries() for poll in polls] == [[entry_id] for entry_id in ids]


async def test_entries_meant_for_a_client_that_left_go_to_the_next(live: Live) -> None:
    await live.create_group("orders", "billing")
    leaving = await group_poll(live, "gone").send()
    await live.until_waiting(1)

    await leaving.leave()
    [entry_id] = await live.append("orders", "42")  # perhaps before the gateway notices
    got = await live.read_group("orders", "billing", "here", wait_ms=5000)

    assert [entry["id"] for entry in got["entries"]] == [entry_id]
    assert got["entries"][0]["deliveries"] == 1
    await live.until_waiting(0)


async def test_a_poll_is_woken_when_a_pending_entry_has_been_idle_long_enough(live: Live) -> None:
    await live.create_group("orders", "billing")
    [entry_id] = await live.append("orders", "42")
    await live.read_group("orders", "billing", "crashed")

    got = await live.read_group("orders", "billing", "rescuer", wait_ms=10_000, claim_idle_ms=150)

    [delivery] = got["entries"]
    assert delivery["id"] == entry_id
    assert delivery["claimed_from"] == "crashed"
    assert delivery["deliveries"] == 2
    assert delivery["idle_ms"] >= 150


async def test_a_nacked_entry_reaches_a_blocked_reader_at_once(live: Live) -> None:
    await live.create_group("orders", "billing")
    [entry_id] = await live.append("orders", "42")
    await live.read_group("orders", "billing", "unwilling")
    waiting = await group_poll(live, "willing").send()
    await live.until_waiting(1)

    url = "/v1/streams/orders/groups/billing/nack?consumer=unwilling"
    answer = await live.http.post(url, json={"ids": [entry_id]})

    assert answer.json()["results"] == [{"id": entry_id, "outcome": "released"}]
    assert await waiting.entries() == [entry_id]


async def test_deleting_the_group_answers_its_waiters(live: Live) -> None:
    await live.create_group("orders", "billing")
    url = "/v1/streams/orders/groups/billing/read?consumer=c"
    waiting = asyncio.create_task(live.http.post(url, json={"wait_ms": 30_000}))
    await live.until_waiting(1)

    await live.http.delete("/v1/streams/orders/groups/billing")
    answer = await waiting

    assert answer.status_code == 404
    assert answer.json()["code"] == "group_not_found"


async def test_deleting_the_stream_answers_readers_of_both_kinds(live: Live) -> None:
    await live.create_group("orders", "billing")
    url = "/v1/streams/orders"
    group = asyncio.create_task(
        live.http.post(f"{url}/groups/billing/read?consumer=c", json={"wait_ms": 30_000})
    )
    plain = asyncio.create_task(live.http.get(f"{url}/entries?after=$&wait_ms=30000"))
    await live.until_waiting(2)

    await live.http.delete(url)

    assert [(await task).json()["code"] for task in (group, plain)] == ["stream_not_found"] * 2


async def test_a_wait_ends_empty_when_its_time_is_over(live: Live) -> None:
    await live.create_group("orders", "billing")

    got = await live.read_group("orders", "billing", "c", wait_ms=50)
    plain = await live.http.get("/v1/streams/orders/entries?after=$&wait_ms=50")

    assert (got["entries"], got["lag"], got["pending"], got["state"]) == ([], 0, 0, "caught_up")
    assert plain.json()["entries"] == []


async def test_a_read_that_is_refused_acknowledges_nothing() -> None:
    async with running(Settings(waiters_max=1)) as live:
        await live.create_group("orders", "billing")
        [entry_id] = await live.append("orders", "42")
        await live.read_group("orders", "billing", "c")
        waiting = await group_poll(live, "first").send()
        await live.until_waiting(1)

        url = "/v1/streams/orders/groups/billing/read?consumer=c"
        answer = await live.http.post(url, json={"wait_ms": 1000, "ack": [entry_id]})

        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_waiters")
        assert (await live.group("orders", "billing"))["pending"] == 1
        await waiting.leave()
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
