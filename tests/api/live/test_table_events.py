"""A table as events: all rows as of one id, and then each change of them."""

from typing import Any

import pytest
import pytest_asyncio

from tests.api.conftest import Live, refusal_of
from tests.api.live.event_source import events_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

STOCK = "/v1/streams/stock"
VIEW = f"{STOCK}/events?view=table"


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def stock(shared: Live) -> None:
    await shared.ask(f"PUT {STOCK}", {"key_field": "sku"})


async def put(live: Live, *keys: str) -> list[str]:
    return [
        (await live.ask(f"PUT {STOCK}/table/{key}", {"fields": {"n": "1"}}))["id"] for key in keys
    ]


def row(key: str, entry_id: str) -> dict[str, Any]:
    return {"key": key, "id": entry_id, "fields": {"sku": key, "n": "1"}}


async def test_rows_come_first_and_then_their_changes(shared: Live) -> None:
    _, b, a = await put(shared, "a", "b", "a")
    async with events_of(shared, VIEW) as events:
        assert await events.next("ready") == {"position": a, "resumed": False, "gap": None}
        assert [await events.next("row") for _ in range(2)] == [row("a", a), row("b", b)]
        assert await events.next("caught_up") == {"at": a}
        [c] = await put(shared, "c")
        assert await events.next("row") == row("c", c)
        gone = (await shared.ask(f"DELETE {STOCK}/table/a"))["id"]
        assert await events.next("row") == {"key": "a", "id": gone, "fields": None}


async def test_a_view_is_continued_by_its_last_event_id(shared: Live) -> None:
    ids = await put(shared, "a", "b")
    async with events_of(shared, VIEW, **{"Last-Event-ID": ids[0]}) as events:
        assert (await events.next("ready"))["resumed"] is True
        assert await events.next("row") == row("b", ids[1])
        assert await events.next("caught_up") == {"at": ids[1]}


async def test_rows_come_again_where_changes_were_trimmed_unseen(shared: Live) -> None:
    ids = await put(shared, "a", "b", "c", "b")
    await shared.ask(f"POST {STOCK}/trim", {"max_length": 2})
    async with events_of(shared, VIEW, **{"Last-Event-ID": ids[0]}) as events:
        ready = await events.next("ready")
        assert ready["gap"] == {"from": ids[0], "to": ids[1]}
        assert [await events.next("row") for _ in range(2)] == [row("b", ids[3]), row("c", ids[2])]
        assert await events.next("caught_up") == {"at": ids[3]}


async def test_many_rows_come_as_of_one_id(shared: Live) -> None:
    entries = [{"fields": {"sku": f"{at:04}"}} for at in range(600)]
    await shared.ask(f"POST {STOCK}/entries/batch", entries)
    async with events_of(shared, VIEW) as events:
        await events.next("ready")
        rows = [await events.next("row") for _ in range(600)]
        await events.next("caught_up")
    assert [each["key"] for each in rows] == [f"{at:04}" for at in range(600)]


async def test_rows_of_a_prefix_are_followed(shared: Live) -> None:
    await put(shared, "de-1", "eu-1")
    async with events_of(shared, f"{VIEW}&prefix=eu-") as events:
        await events.next("ready")
        assert (await events.next("row"))["key"] == "eu-1"
        await events.next("caught_up")
        [_, changed] = await put(shared, "de-1", "eu-2")
        assert await events.next("row") == row("eu-2", changed)
        gone = (await shared.ask(f"DELETE {STOCK}/table/eu-1"))["id"]
        assert await events.next("row") == {"key": "eu-1", "id": gone, "fields": None}
    answer = await shared.http.get(f"{STOCK}/events?prefix=eu-")
    assert refusal_of(answer) == (422, "invalid_request", "/query/prefix")


async def test_what_is_no_table_has_no_view_of_rows(shared: Live) -> None:
    await shared.append("orders", "1")
    answer = await shared.http.get("/v1/streams/orders/events?view=table")
    assert refusal_of(answer)[:2] == (409, "wrong_type")
    answer = await shared.http.get(f'{VIEW}&filter={{"exact":{{"n":"1"}}}}')
    assert refusal_of(answer) == (422, "invalid_request", "/query/filter")


async def test_rows_of_a_closed_table_come_again_behind_a_gap(shared: Live) -> None:
    ids = await put(shared, "a", "b", "c")
    await shared.ask(f"POST {STOCK}/trim", {"max_length": 1})
    await shared.ask(f"POST {STOCK}/close")
    async with events_of(shared, VIEW, **{"Last-Event-ID": ids[0]}) as events:
        assert (await events.next("ready"))["gap"] == {"from": ids[0], "to": ids[1]}
        assert await events.next("row") == row("c", ids[2])
        await events.next("caught_up")
        await events.next("closed")
