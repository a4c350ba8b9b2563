"""Reads over HTTP with a filter, and with the fields that are wanted."""

import json
from typing import Any

import httpx
import pytest

from tests.api.conftest import Live

pytestmark = pytest.mark.asyncio(loop_scope="session")

ENTRIES = "/v1/streams/orders/entries"
LINES = {"Accept": "application/x-ndjson"}
EVEN = json.dumps({"suffix": {"n": "0"}})


async def append(live: Live, *numbers: int) -> list[str]:
    """Append entries whose ids are these numbers."""
    batch = [{"id": f"{n}-0", "fields": {"n": str(n), "kind": "x", "n2": "y"}} for n in numbers]
    return list((await live.ask(f"POST {ENTRIES}/batch", batch))["ids"])


async def read(live: Live, **params: str | int) -> dict[str, Any]:
    answer = await live.http.get(ENTRIES, params=params)
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


def ids_in(page: dict[str, Any]) -> list[str]:
    return [entry["id"] for entry in page["entries"]]


def ids_of_lines(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line)["id"] for line in answer.text.splitlines()]


async def test_a_range_has_what_matches_and_says_where_to_go_on(shared: Live) -> None:
    await append(shared, *range(1, 3_000))

    page = await read(shared, start="1", filter=EVEN, limit=3)
    assert ids_in(page) == ["10-0", "20-0", "30-0"]
    assert page["last_id"] == "2999-0"
    following = await read(shared, start=f"({page['next_after']}", end="45", filter=EVEN)
    assert (ids_in(following), following["next_after"]) == (["40-0"], None)

    down = await read(shared, order="desc", end="2985", filter=EVEN, limit=2)
    assert (ids_in(down), down["next_after"]) == (["2980-0", "2970-0"], None)
    down = await read(shared, order="desc", end=f"({down['next_before']}", filter=EVEN, limit=1)
    assert ids_in(down) == ["2960-0"]


async def test_lines_have_all_that_matches(shared: Live) -> None:
    await append(shared, *range(1, 5_001))
    wanted = [f"{n}-0" for n in range(10, 5_001, 10)]

    async def lines(**params: str | int) -> httpx.Response:
        return await shared.http.get(ENTRIES, params=params, headers=LINES)

    everything = await lines(filter=EVEN, limit=100_000)
    down = await lines(filter=EVEN, limit=100_000, order="desc")
    few = await lines(filter=EVEN, limit=7)
    behind = await lines(filter=EVEN, after="4979", limit=1_000)

    assert ids_of_lines(everything) == wanted
    assert ids_of_lines(down) == wanted[::-1]
    assert ids_of_lines(few) == wanted[:7]
    assert ids_of_lines(behind) == wanted[-3:]
    assert behind.headers["Headgate-Next-After"] == "5000-0"


@pytest.mark.parametrize("params", [{}, {"start": "1"}, {"after": "0"}, {"filter": EVEN}])
@pytest.mark.parametrize("headers", [{}, LINES])
async def test_only_the_fields_that_are_wanted_are_sent(
    shared: Live, params: dict[str, str], headers: dict[str, str]
) -> None:
    await append(shared, 10)
    answer = await shared.http.get(
        ENTRIES, params={**params, "columns": "n2,n,none"}, headers=headers
    )
    lines = answer.text.splitlines()
    [entry] = map(json.loads, lines) if headers else answer.json()["entries"]
    assert entry == {"id": "10-0", "fields": {"n": "10", "n2": "y"}}


async def test_several_streams_are_read_with_one_filter(shared: Live) -> None:
    await append(shared, 9, 10)
    await shared.append("others", "10", "20")
    streams = [{"stream": "orders"}, {"stream": "others"}]
    body = {"streams": streams, "filter": {"suffix": {"n": "0"}}}
    answer = await shared.http.post("/v1/read", json=body)
    assert [ids_in(each) for each in answer.json()["streams"]] == [["10-0"], []]
