"""Streams with the Python client: what is appended is read, and followed through every loss."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import headgate
from headgate.client import AnswerLost, problems
from headgate.client.entries import Fields, Pairs
from headgate.client.shapes import answers
from tests.api.conftest import Live


async def test_a_stream_is_scanned_page_by_page(hg: headgate.AsyncClient) -> None:
    orders = hg.stream("a b")
    ids = await orders.append_many([{"n": str(number)} for number in range(25)])
    assert [entry.id async for entry in orders.scan(limit=10)] == ids
    assert [entry.id async for entry in orders.scan(after=ids[9], limit=7)] == ids[10:]
    page = await orders.read(start="-", end="+", reverse=True, limit=2)
    assert [entry.id for entry in page.entries] == ids[:-3:-1]
    assert [stream["name"] async for stream in hg.streams(prefix="a", limit=1)] == ["a b"]


async def test_all_streams_that_match_are_followed(hg: headgate.AsyncClient) -> None:
    await hg.stream("orders.a").append({"n": "1"})
    async with hg.follow("orders.*", after="0", filter={"present": "n"}) as entries:
        first = await anext(entries)
        assert (first.stream, first.fields) == ("orders.a", {"n": "1"})
        await hg.stream("bills").append({"n": "2"})
        await hg.stream("orders.new").append({"m": "3"})
        await hg.stream("orders.new").append({"n": "4"})
        later = await anext(entries)
        assert (later.stream, later.fields) == ("orders.new", {"n": "4"})


async def test_a_filter_leaves_what_it_lets_through(hg: headgate.AsyncClient) -> None:
    orders = hg.stream("orders")
    ids = await orders.append_many([{"n": str(number), "v": "x"} for number in range(5_000)])
    wanted = ids[999::1000]
    nines = {"suffix": {"n": "999"}}
    assert [entry.id async for entry in orders.scan(filter=nines, limit=2)] == wanted
    assert [entry.id async for entry in orders.scan(filter={"exact": {"n": "no"}})] == []

    page = await orders.read(start="-", limit=1, filter=[nines], columns=["n"])
    assert [(entry.id, entry.fields) for entry in page.entries] == [(wanted[0], {"n": "999"})]
    assert page.next_after is not None
    down = await orders.read(end="+", reverse=True, limit=1, filter=nines)
    assert down.next_before is not None
    below = await orders.read(end=f"({down.next_before}", reverse=True, limit=1, filter=nines)
    assert [entry.id for entry in (*down.entries, *below.entries)] == wanted[:-3:-1]


async def test_a_stream_is_followed_with_a_filter(live: Live, hg: headgate.AsyncClient) -> None:
    orders = hg.stream("orders")
    await orders.append_many([{"n": "1"}] * 3_000)
    first_id = await orders.append({"n": "2"})
    states: list[str] = []
    async with orders.follow(
        after="0", filter={"exact": {"n": "2"}}, on_state=lambda state, _: states.append(state)
    ) as following:
        assert (await anext(following)).id == first_id
        await live.until_waiting(1)
        await orders.append({"n": "1"})
        second_id = await orders.append({"n": "2"})
        assert (await anext(following)).id == second_id
    assert "caught_up" in states


async def test_a_problem_is_an_exception_of_its_code(hg: headgate.AsyncClient) -> None:
    orders = hg.stream("orders")
    first_id = await orders.append({"n": "1"})
    last_id = await orders.append({"n": "2"})
    with pytest.raises(problems.LastIdMismatch) as mismatch:
        await orders.append({"n": "3"}, if_last_id=first_id)
    assert mismatch.value.last_id == last_id
    with pytest.raises(problems.StreamNotFound, match="stream_not_found"):
        await hg.stream("nothing").info()
    with pytest.raises(problems.InvalidRequest) as invalid:
        await orders.append({})
    assert invalid.value.errors
    with pytest.raises(problems.StreamExists):
        await orders.create({"max_length": 5})


def test_each_code_has_an_exception() -> None:
    document = json.loads(DOCUMENT.read_text())
    schemas = document["components"]["schemas"]
    codes = schemas["Problem"]["properties"]["code"]["enum"]
    own = [schemas[each]["properties"]["code"]["const"] for each in OWN]
    assert sorted(problems.PROBLEMS) == sorted([*codes, *own])
    assert type(problems.problem_of({"code": "of tomorrow"})) is problems.Problem


OWN = ("RowProblem", "FenceProblem", "KeyProblem")
"""Problems of a few operations."""

DOCUMENT = Path(__file__).parents[3] / "openapi/openapi.json"


class Losing(httpx.AsyncHTTPTransport):
    """Loses the answers to the first requests, which the gateway has carried out."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.left = count

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await super().handle_async_request(request)
        if self.left:
            self.left -= 1
            await answer.aclose()
            raise httpx.ReadError("the network is gone", request=request)
        return answer


async def test_a_lost_answer_is_an_error_unless_the_append_may_be_repeated(live: Live) -> None:
    async with headgate.AsyncClient(live.url, transport=Losing(1)) as careless:
        with pytest.raises(AnswerLost):
            await careless.stream("orders").append({"n": "1"})
    async with headgate.AsyncClient(live.url, transport=Losing(2), producer="till 7") as careful:
        entry_id = await careful.stream("orders").append({"n": "2"})
        page = await careful.stream("orders").read(after="0")
    assert [entry.fields["n"] for entry in page.entries] == ["1", "2"]
    assert page.entries[-1].id == entry_id


async def test_what_nobody_hears_is_unreachable() -> None:
    async with headgate.AsyncClient("http://127.0.0.1:1", retry_s=0.2) as hg:
        with pytest.raises(headgate.HeadgateError, match="no gateway at"):
            await hg.stream("orders").info()


async def test_a_stream_is_followed_from_an_id_and_from_now_on(hg: headgate.AsyncClient) -> None:
    orders = hg.stream("orders")
    old = await orders.append_many([{"n": str(number)} for number in range(600)])
    async with orders.follow(after="0", credit=16) as all_entries, orders.follow() as new_ones:
        assert [(await anext(all_entries)).id for _ in old] == old
        waiting = asyncio.ensure_future(anext(new_ones))
        await asyncio.wait([waiting], timeout=0.1)
        new = [await orders.append({"n": "new"}) for _ in range(3)]
        assert (await waiting).id in new
        assert (await anext(all_entries)).id == new[0]


async def test_trimming_takes_what_a_follower_has_not_read(hg: headgate.AsyncClient) -> None:
    orders = hg.stream("orders")
    ids = await orders.append_many([{"n": str(number)} for number in range(10)])
    assert await orders.trim(max_length=3) == 7
    async with orders.follow(after=ids[0]) as entries:
        assert (await anext(entries)).id == ids[7]
        assert entries.gap is not None
        assert (await anext(entries)).id == ids[8]
        assert entries.gap is None


async def test_a_token_is_sent_where_nobody_can_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="Use https"):
        headgate.AsyncClient("http://gateway.example", token="secret")
    monkeypatch.setenv("HEADGATE_TOKEN", "secret")
    with pytest.raises(ValueError, match="Use https"):
        headgate.AsyncClient("http://gateway.example")
    headgate.AsyncClient("https://gateway.example")
    for url in ("ftp://a", "http://user:pass@a", "http://"):
        with pytest.raises(ValueError, match="URL"):
            headgate.AsyncClient(url)


def shape(name: str) -> dict[str, Any]:
    document = json.loads(DOCUMENT.read_text())
    properties: dict[str, Any] = document["components"]["schemas"][name]["properties"]
    return properties


def test_shapes_are_those_of_the_document() -> None:
    renamed = {"StreamInfo": "Stream", "GroupInfo": "Group", "ConsumerInfo": "GroupConsumer"}
    same = (
        "StreamConfig",
        "Policy",
        "PendingEntry",
        "ConsumerPending",
        "PendingSummary",
        "Redriven",
        "Ticket",
    )
    for ours, theirs in (renamed | dict(zip(same, same, strict=True))).items():
        assert set(getattr(answers, ours).__annotations__) == set(shape(theirs))


async def test_a_loop_ends_with_a_closed_stream(hg: headgate.AsyncClient) -> None:
    orders = hg.stream("orders")
    states: list[str] = []
    await orders.append({"n": "1"})
    async with orders.follow(after="0", on_state=lambda state, _: states.append(state)) as entries:
        assert (await anext(entries)).fields == {"n": "1"}
        end = await orders.close({"n": "last"}, idempotency_key="1")
        assert [entry.fields["n"] async for entry in entries] == ["last"]
        assert states[-1] == "closed"
        with pytest.raises(StopAsyncIteration):
            await anext(entries)
    assert await orders.close({"n": "last"}, idempotency_key="1") == end
    assert await orders.close() == {**end, "ids": []}
    assert (await orders.info())["closed_at_ms"] == end["closed_at_ms"]
    assert [entry.fields["n"] async for entry in orders.follow(after="0")] == ["1", "last"]


async def test_an_entry_comes_back_as_it_was(hg: headgate.AsyncClient) -> None:
    orders = hg.stream("orders")
    given: list[Fields] = [{"sku": "42", "name": "čaj"}, {"blob": b"\xff\x00", "text": "a"}]
    for fields in given:
        entry = await orders.get(await orders.append(fields))
        assert (entry.fields, entry.pairs) == (fields, None)
    entry = await orders.get(await orders.append({"text": b"abc"}))
    assert entry.fields == {"text": "abc"}  # bytes that are UTF-8 are text
    pairs: Pairs = [("a", "1"), ("b", b"\xfe"), ("a", b"\xff")]
    assert (await orders.get(await orders.append(pairs))).pairs == pairs
