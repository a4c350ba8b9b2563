"""A table over a WebSocket: rows, their changes, credit, and what is conflated."""

from typing import Any

import pytest
import pytest_asyncio

from tests.api.conftest import Live
from tests.api.live.frames import Frames, frames_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

URL = "/v1/ws"
STOCK = "/v1/streams/stock"
VIEW = {"type": "subscribe", "sub": "t", "stream": "stock", "view": "table"}


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def stock(shared: Live) -> None:
    await shared.ask(f"PUT {STOCK}", {"key_field": "sku"})


async def put(live: Live, *keys: str) -> list[str]:
    return [
        (await live.ask(f"PUT {STOCK}/table/{key}", {"fields": {"n": "1"}}))["id"] for key in keys
    ]


def row(key: str, entry_id: str) -> dict[str, Any]:
    return {"key": key, "id": entry_id, "fields": {"sku": key, "n": "1"}}


async def subscribed(frames: Frames, **more: Any) -> dict[str, Any]:
    await frames.send(**VIEW, **more)
    return await frames.next("subscribed")


async def test_rows_come_first_and_then_their_changes(shared: Live) -> None:
    a, b = await put(shared, "a", "b")
    async with frames_of(shared, URL) as frames:
        assert (await subscribed(frames))["position"] == b
        assert (await frames.next("rows"))["rows"] == [row("a", a), row("b", b)]
        assert (await frames.next("state"))["state"] == "caught_up"
        [c] = await put(shared, "c")
        changed = await frames.next("rows")
        assert (changed["rows"], changed["position"]) == ([row("c", c)], c)
        gone = (await shared.ask(f"DELETE {STOCK}/table/a"))["id"]
        changed = await frames.next("rows")
        assert changed["rows"] == [{"key": "a", "id": gone, "fields": None}]


async def test_rows_need_credit(shared: Live) -> None:
    await put(shared, *"abcde")
    async with frames_of(shared, URL) as frames:
        await subscribed(frames, credit=2)
        first = await frames.next("rows")
        assert ([each["key"] for each in first["rows"]], first["credit_left"]) == (["a", "b"], 0)
        await frames.send(type="credit", sub="t", entries=4)
        assert [each["key"] for each in (await frames.next("rows"))["rows"]] == ["c", "d", "e"]
        assert (await frames.next("state"))["state"] == "caught_up"


async def test_entries_that_change_no_row_take_no_credit(shared: Live) -> None:
    await put(shared, "a")
    async with frames_of(shared, URL) as frames:
        await subscribed(frames, credit=3)
        await frames.next("rows", "state")
        for key in "bc":
            await batch(shared, [{"fields": {"no": "key"}}] * 2)
            await put(shared, key)
        keys, credit_left = list[str](), None
        while "c" not in keys:
            changed = await frames.next("rows")
            keys += [each["key"] for each in changed["rows"]]
            credit_left = changed["credit_left"]
        assert (keys, credit_left) == (["b", "c"], 0)


async def test_a_view_goes_on_after_an_id_or_begins_again_behind_a_gap(shared: Live) -> None:
    ids = await put(shared, "a", "b", "c", "b")
    async with frames_of(shared, URL) as frames:
        assert (await subscribed(frames, after=ids[2]))["position"] == ids[2]
        assert (await frames.next("rows"))["rows"] == [row("b", ids[3])]
    await shared.ask(f"POST {STOCK}/trim", {"max_length": 2})
    async with frames_of(shared, URL) as frames:
        assert (await subscribed(frames, after=ids[0]))["gap"] == {"from": ids[0], "to": ids[1]}
        assert (await frames.next("rows"))["rows"] == [row("b", ids[3]), row("c", ids[2])]


async def test_only_the_newest_change_of_a_row_comes_if_they_are_conflated(shared: Live) -> None:
    await put(shared, "eu-1")
    async with frames_of(shared, URL) as frames:
        await subscribed(frames, conflate_ms=300, prefix="eu-")
        await frames.next("rows", "state")
        entries = [{"fields": {"sku": key}} for key in ["eu-1", "eu-2", "us-1"] * 700]
        ids = [each["id"] for each in (await batch(shared, entries))]
        changed = await frames.next("rows")
        assert [(each["key"], each["id"]) for each in changed["rows"]] == [
            ("eu-1", ids[-3]),
            ("eu-2", ids[-2]),
        ]
        assert changed["credit_left"] == 64 - 1 - 2


async def batch(live: Live, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answer = await live.ask(f"POST {STOCK}/entries/batch", entries)
    return [{"id": entry_id} for entry_id in answer["ids"]]


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"group": "g"}, "/body/group"),
        ({"filter": {"exact": {"n": "1"}}}, "/body/filter"),
        ({"after": "$"}, "/body/after"),
        ({"view": "entries", "prefix": "eu-"}, "/body/prefix"),
        ({"view": "entries", "conflate_ms": 5}, "/body/conflate_ms"),
        ({"conflate_ms": 10_001}, "/body/conflate_ms"),
    ],
)
async def test_what_a_view_cannot_have_is_refused(
    shared: Live, more: dict[str, Any], pointer: str
) -> None:
    async with frames_of(shared, URL) as frames:
        await frames.send(**{**VIEW, **more})
        problem = (await frames.next("problem"))["problem"]
        assert problem["code"] == "invalid_request"
        assert problem["errors"][0]["pointer"] == pointer


async def test_rows_come_again_behind_a_gap_without_more_credit(shared: Live) -> None:
    await put(shared, "a")
    async with frames_of(shared, URL) as frames:
        await subscribed(frames, credit=1)
        await frames.next("rows")
        ids = await put(shared, "b", "c", "a", "b")
        await shared.ask(f"POST {STOCK}/trim", {"max_length": 2})
        await frames.send(type="credit", sub="t", entries=2)
        again = await frames.next("rows")
        assert (again["again"], again["rows"]) == (True, [row("a", ids[2]), row("b", ids[3])])
