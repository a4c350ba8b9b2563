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
