"""Writers: exactly once, in order, and together."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import pytest

from headgate.app.durable_streams.producers import PRODUCER, ProducerState
from headgate.engine.limits import ATTRIBUTES_BYTES_MAX
from headgate.engine.requests.attributes import AttributeChange, ChangeAttributes, GetAttributes
from tests.api.conftest import Live

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLACE = "/v1/stream/run"
JSON = {"Content-Type": "application/json"}


def producer(seq: int, epoch: int = 0, name: str = "p") -> dict[str, str]:
    return {"Producer-Id": name, "Producer-Epoch": str(epoch), "Producer-Seq": str(seq), **JSON}


async def append(live: Live, number: int, **headers: str) -> httpx.Response:
    return await live.http.post(PLACE, headers={**JSON, **headers}, json=number)


async def numbers(live: Live) -> list[int]:
    read: list[int] = (await live.http.get(PLACE)).json()
    return read


async def test_an_append_that_is_sent_ten_times_at_once_counts_once(shared: Live) -> None:
    await shared.http.put(PLACE, headers=JSON)
    answers = await asyncio.gather(
        *(shared.http.post(PLACE, headers=producer(0), json=7) for _ in range(10))
    )
    assert Counter(answer.status_code for answer in answers) == {200: 1, 204: 9}
    assert len({answer.headers["stream-next-offset"] for answer in answers}) == 1
    assert await numbers(shared) == [7]


async def test_producers_write_side_by_side_each_in_its_order(shared: Live) -> None:
    await shared.http.put(PLACE, headers=JSON)

    async def write(name: str, base: int) -> None:
        for seq in range(10):
            headers = producer(seq, name=name)
            answer = await shared.http.post(PLACE, headers=headers, json=base + seq)
            assert answer.status_code == 200, answer.text

    await asyncio.gather(*(write(f"p{each}", 100 * each) for each in range(5)))
    read = await numbers(shared)
    for base in range(0, 500, 100):
        assert [number for number in read if number // 100 * 100 == base] == [
            *range(base, base + 10)
        ]


async def test_one_order_of_all_writers_has_no_gap_and_no_repeat(shared: Live) -> None:
    await shared.http.put(PLACE, headers=JSON)
    answers = await asyncio.gather(
        *(append(shared, number, **{"Stream-Seq": f"{number:02}"}) for number in range(20))
    )
    accepted = [number for number in range(20) if answers[number].status_code == 204]
    assert await numbers(shared) == accepted
    refused = next(answer for answer in answers if answer.status_code != 204)
    assert (refused.status_code, refused.json()["code"]) == (409, "out_of_sequence")


async def test_a_stream_forgets_idle_producers_when_there_is_no_room(shared: Live) -> None:
    await shared.http.put(PLACE, headers=JSON)
    perform = shared.gateway.backend.perform
    padding = b"x" * (ATTRIBUTES_BYTES_MAX // 2 - 5_000)
    old, new = PRODUCER + b"old" + padding, PRODUCER + b"new" + padding
    now_ms = shared.gateway.auth.now_ms()
    values = {
        old: ProducerState(0, 5, now_ms - 90_000_000).encoded(),
        new: ProducerState(0, 5, now_ms - 80_000_000).encoded(),
    }
    await perform(ChangeAttributes(b"run", AttributeChange(values)))
    name = "n" * 200
    for number in range(40):
        headers = producer(0, name=f"{name}{number}")
        answer = await shared.http.post(PLACE, headers=headers, json=number)
        assert answer.status_code == 200, (number, answer.text)
    there = await perform(GetAttributes(b"run", [old, new]))
    assert [*there] == [new]
    assert await numbers(shared) == [*range(40)]


async def test_a_stream_full_of_producers_that_still_write_says_so(shared: Live) -> None:
    await shared.http.put(PLACE, headers=JSON)
    perform = shared.gateway.backend.perform
    now_ms = shared.gateway.auth.now_ms()
    names = [PRODUCER + f"{number:04}".encode() + b"x" * 100_000 for number in range(10)]
    state = ProducerState(0, 5, now_ms).encoded()
    await perform(ChangeAttributes(b"run", AttributeChange(dict.fromkeys(names, state))))
    answers = [
        await shared.http.post(PLACE, headers=producer(0, name=f"{number}" * 200), json=number)
        for number in range(10)
    ] + [
        await shared.http.post(PLACE, headers=producer(0, name=f"{number:03}" * 80), json=number)
        for number in range(100)
    ]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert {(each.status_code, each.json()["code"]) for each in refused} == {(409, "limit_reached")}
    assert len(await numbers(shared)) == len(answers) - len(refused)
    assert (await append(shared, 1)).status_code == 204


async def test_the_closing_append_of_a_producer_may_be_repeated_and_no_other(shared: Live) -> None:
    await shared.http.put(PLACE, headers=JSON)
    last = {**producer(0), "Stream-Closed": "true"}
    assert (await shared.http.post(PLACE, headers=last, json=1)).status_code == 200
    again = await shared.http.post(PLACE, headers=last, json=2)
    assert (again.status_code, again.headers["stream-closed"]) == (204, "true")
    for headers in (producer(1), producer(0, name="other"), JSON):
        refused = await shared.http.post(PLACE, headers=headers, json=3)
        assert (refused.status_code, refused.json()["code"]) == (409, "stream_closed")
        assert refused.headers["stream-next-offset"] == again.headers["stream-next-offset"]
    fenced = await shared.http.post(PLACE, headers=JSON)
    assert fenced.status_code == 400
    assert await numbers(shared) == [1]
