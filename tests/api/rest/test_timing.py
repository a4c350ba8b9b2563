"""Delays and deadlines of entries: given with an append, told by whatever reads the entries."""

import json
import time
from collections.abc import Mapping
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.api.conftest import Live, problem_in, refusal_of
from tests.api.live.event_source import events_of
from tests.api.live.frames import frames_of
from tests.api.rest.bulk_requests import stage
from tests.arrow_bodies import HEADERS, arrow_of, rows

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
ENTRIES = f"{ORDERS}/entries"
BATCH = f"{ENTRIES}/batch"
NDJSON = {"Content-Type": "application/x-ndjson"}

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
AT_MS = time.time_ns() // 1_000_000 + DAY_MS
UNTIL_MS = AT_MS + DAY_MS
TIMES = {"deliver_at_ms": AT_MS, "expires_at_ms": UNTIL_MS}
TIMED = {"fields": {"v": "1"}, **TIMES}
PLAIN = {"fields": {"v": "2"}}


def times_in(entry: dict[str, Any]) -> dict[str, int]:
    return {name: entry[name] for name in TIMES if name in entry}


async def entries_in(live: Live, **params: str | int) -> list[dict[str, Any]]:
    answer = await live.http.get(ENTRIES, params=params)
    assert answer.status_code == 200, answer.text
    entries: list[dict[str, Any]] = answer.json()["entries"]
    return entries


async def append(live: Live, *entries: Any) -> list[str]:
    return list((await live.ask(f"POST {BATCH}", entries))["ids"])


@pytest.mark.parametrize("id_", [None, "*"], ids=["plain", "not plain"])
async def test_a_duration_becomes_a_time(shared: Live, id_: str | None) -> None:
    begin_ms = time.time_ns() // 1_000_000
    body = {"fields": {"v": "1"}, "delay_ms": HOUR_MS, "ttl_ms": DAY_MS}
    answer = await shared.http.post(ENTRIES, json=body if id_ is None else {**body, "id": id_})
    end_ms = time.time_ns() // 1_000_000

    entry = (await shared.http.get(answer.headers["Location"])).json()
    assert begin_ms <= entry["deliver_at_ms"] - HOUR_MS <= end_ms
    assert begin_ms <= entry["expires_at_ms"] - DAY_MS <= end_ms
    assert entry["fields"] == {"v": "1"}


async def test_every_way_of_reading_tells_the_times(shared: Live) -> None:
    ids = await append(shared, TIMED, PLAIN)
    expected = [TIMES, {}]

    for params in ({}, {"after": "0"}, {"columns": "v"}, {"after": "0", "columns": "v"}):
        assert list(map(times_in, await entries_in(shared, **params))) == expected
    lines = await shared.http.get(ENTRIES, headers={"Accept": "application/x-ndjson"})
    assert [times_in(json.loads(line)) for line in lines.text.splitlines()] == expected
    body = {"streams": [{"stream": "orders", "after": "0"}]}
    several = (await shared.http.post("/v1/read", json=body)).json()
    assert list(map(times_in, several["streams"][0]["entries"])) == expected
    assert times_in((await shared.http.get(f"{ENTRIES}/{ids[0]}")).json()) == TIMES


async def test_events_and_sockets_tell_the_times(shared: Live) -> None:
    await append(shared, TIMED, PLAIN)
    async with events_of(shared, f"{ORDERS}/events?after=0") as events:
        await events.next("ready")
        assert [times_in(await events.next("entry")) for _ in "ab"] == [TIMES, {}]
    async with frames_of(shared, "/v1/ws") as frames:
        entries = [{"fields": {"v": "3"}, "expires_at_ms": UNTIL_MS}]
        await frames.send(type="append", rid="1", stream="orders", entries=entries)
        await frames.next("appended")
        await frames.subscribe("s", after="0")
        expected = [TIMES, {}, {"expires_at_ms": UNTIL_MS}]
        assert list(map(times_in, await frames.entries(3))) == expected


@pytest.mark.parametrize(
    ("times", "name"),
    [
        ({"ttl_ms": -1}, "ttl_ms"),
        ({"delay_ms": "1h"}, "delay_ms"),
        ({"delay_ms": 91 * DAY_MS}, "delay_ms"),
        ({"deliver_at_ms": AT_MS + 90 * DAY_MS}, "deliver_at_ms"),
        ({"delay_ms": 1, "deliver_at_ms": AT_MS}, "deliver_at_ms"),
        ({"ttl_ms": 1, "expires_at_ms": AT_MS}, "expires_at_ms"),
        ({"delay_ms": 2000, "ttl_ms": 1000}, "ttl_ms"),
        ({"deliver_at_ms": AT_MS, "expires_at_ms": AT_MS}, "expires_at_ms"),
    ],
)
async def test_the_wrong_time_is_named(shared: Live, times: dict[str, Any], name: str) -> None:
    bad = {**PLAIN, **times}
    lines = "\n".join(map(json.dumps, [PLAIN, PLAIN, PLAIN, bad]))
    answers = [
        (await shared.http.post(ENTRIES, json=bad), f"/body/{name}"),
        (await shared.http.post(BATCH, json=[PLAIN, PLAIN, PLAIN, bad]), f"/body/3/{name}"),
        (await shared.http.post(BATCH, content=lines, headers=NDJSON), f"/body/3/{name}"),
    ]
    for answer, pointer in answers:
        assert refusal_of(answer) == (422, "invalid_request", pointer)
    async with frames_of(shared, "/v1/ws") as frames:
        await frames.send(type="append", rid="1", stream="orders", entries=[PLAIN, bad])
        problem = (await frames.next("problem"))["problem"]
    assert problem["errors"][0]["pointer"] == f"/body/entries/1/{name}"
    assert (await shared.http.get(ORDERS)).status_code == 404  # nothing was appended


@pytest.mark.parametrize("kind", ["one", "many", "arrow"])
async def test_a_repeat_with_another_delay_is_a_mismatch(shared: Live, kind: str) -> None:
    async def post(**times: int) -> httpx.Response:
        headers = {"Idempotency-Key": "k"}
        if kind == "arrow":
            body = timed_rows(times, {}) if times else arrow_of({"fields": rows("0", "1")})
            return await post_arrow(shared, body, **headers)
        entry: Any = {**PLAIN, **times}
        if kind == "one":
            return await shared.http.post(ENTRIES, json=entry, headers=headers)
        return await shared.http.post(BATCH, json=[entry], headers=headers)

    assert (await post(delay_ms=1000)).status_code == 201
    assert (await post(delay_ms=1000)).headers["Idempotent-Replayed"] == "true"
    for other in ({"delay_ms": 1001}, {"ttl_ms": 1000}, {}):
        assert problem_in(await post(**other))["code"] == "idempotency_mismatch"


# Arrow


def timed_rows(*times: Mapping[str, int | None]) -> bytes:
    """Return rows with columns of times."""
    columns = {"fields": rows(*(str(row) for row in range(len(times))))}
    for name in dict.fromkeys(name for each in times for name in each):
        columns[name] = pa.array([each.get(name) for each in times], pa.int64())
    return arrow_of(columns)


async def post_arrow(live: Live, body: bytes, **headers: str) -> httpx.Response:
    return await live.http.post(BATCH, content=body, headers={**HEADERS, **headers})


@pytest.mark.parametrize("count", [0, 2000], ids=["few", "many"])
async def test_arrow_has_columns_for_times(shared: Live, count: int) -> None:
    body = timed_rows(TIMES, {}, {"ttl_ms": DAY_MS}, *[{}] * count)
    assert (await post_arrow(shared, body)).status_code == 201

    first, second, third = await entries_in(shared, limit=3)
    assert (times_in(first), times_in(second)) == (TIMES, {})
    assert abs(third["expires_at_ms"] - AT_MS) < HOUR_MS


async def test_the_row_whose_time_is_wrong_is_named(shared: Live) -> None:
    texts = arrow_of({"fields": rows("a"), "ttl_ms": pa.array(["1h"])})
    for body, pointer in (
        (timed_rows({}, {}, {"ttl_ms": -1}), "/body/2/ttl_ms"),
        (timed_rows({}, {}, {"delay_ms": 2, "ttl_ms": 1}), "/body/2/ttl_ms"),
        (texts, "/body/ttl_ms"),
    ):
        for answer in (await post_arrow(shared, body), await stage(shared, body, (0, 0, "t", 0))):
            assert refusal_of(answer) == (422, "invalid_request", pointer)
