"""Entries: append one or many, read a range or after a cursor, with a filter, and delete."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.api.conftest import Live, refusal_of
from tests.arrow_bodies import ARROW

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
ENTRIES = f"{ORDERS}/entries"
NDJSON = {"Content-Type": "application/x-ndjson"}
LINES = {"Accept": "application/x-ndjson"}


async def read(live: Live, query: str = "") -> Any:
    return await live.ask(f"GET {ENTRIES}?{query}")


async def ids(live: Live, query: str = "") -> list[str]:
    return ids_in(await read(live, query))


def ids_in(page: dict[str, Any]) -> list[str]:
    return [entry["id"] for entry in page["entries"]]


def entries_of_lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.headers["Content-Type"].startswith("application/x-ndjson")
    assert answer.text == "" or answer.text.endswith("\n")
    return [json.loads(line) for line in answer.text.splitlines()]


# Append one


async def test_an_appended_entry_is_where_its_location_says(shared: Live) -> None:
    answer = await shared.http.post(ENTRIES, json={"fields": {"sku": "42", "": "no name"}})

    assert answer.status_code == 201
    entry_id = answer.json()["id"]
    assert answer.json() == {"id": entry_id}
    assert answer.headers["Location"] == f"{ENTRIES}/{entry_id}"
    entry = await shared.http.get(answer.headers["Location"])
    assert entry.json() == {"id": entry_id, "fields": {"sku": "42", "": "no name"}}


@pytest.mark.parametrize("name", ["käse", "日本€", "a b?c#d%e", "-", "[x]"])
async def test_the_location_is_right_whatever_the_stream_is_called(shared: Live, name: str) -> None:
    answer = await shared.http.post(
        f"/v1/streams/{quote(name)}/entries", json={"fields": {"a": "b"}}
    )

    assert answer.status_code == 201
    assert (await shared.http.get(answer.headers["Location"])).json()["fields"] == {"a": "b"}
    assert (await shared.stream(quote(name)))["name"] == name


# Append only if nothing came between


# Append once


async def append_once(live: Live, key: str, value: str = "1", **headers: str) -> httpx.Response:
    headers = {"Idempotency-Key": key, **headers}
    return await live.http.post(ENTRIES, json={"fields": {"n": value}}, headers=headers)


async def test_a_repeat_answers_what_the_first_made(shared: Live) -> None:
    mine = {"Idempotency-Producer": "me"}
    first = await append_once(shared, "k")
    repeat = await append_once(shared, "k")
    others = [await append_once(shared, "k", **mine), await append_once(shared, "another")]

    assert [answer.status_code for answer in (first, repeat, *others)] == [201, 200, 201, 201]
    assert "Idempotent-Replayed" not in first.headers
    assert repeat.headers["Idempotent-Replayed"] == "true"
    assert repeat.headers["Location"] == first.headers["Location"]
    assert repeat.json() == first.json()
    assert await ids(shared) == [answer.json()["id"] for answer in (first, *others)]


# Append many


@pytest.mark.parametrize("end_of_line", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n"])
async def test_a_batch_may_come_as_lines(shared: Live, end_of_line: str, last: str) -> None:
    lines = ['{"id":"1-0","fields":{"a":"1"}}', '{"id":"2-0","pairs":[["a","1"],["a","2"]]}']

    answer = await shared.http.post(
        f"{ENTRIES}/batch", content=end_of_line.join(lines) + last, headers=NDJSON
    )

    assert answer.json() == {"count": 2, "first_id": "1-0", "last_id": "2-0", "ids": ["1-0", "2-0"]}
    assert (await read(shared))["entries"][1]["pairs"] == [["a", "1"], ["a", "2"]]


async def test_what_is_written_as_lines_reads_as_lines(shared: Live) -> None:
    batch = b"".join(b'{"id":"%d-0","fields":{"n":"%d"}}\n' % (ms, ms) for ms in range(1, 2501))

    await shared.http.post(f"{ENTRIES}/batch", content=batch, headers=NDJSON)
    answer = await shared.http.get(ENTRIES, params={"limit": 10**30}, headers=LINES)

    assert answer.content == batch
    newest = await shared.http.get(ENTRIES, params={"limit": 1500, "order": "desc"}, headers=LINES)
    assert newest.text.splitlines() == batch.decode().splitlines()[:-1501:-1]


# Fields are never lossy


@pytest.mark.parametrize(
    "wire",
    [
        {"fields": {"b": "1", "a": "2"}},
        {"fields": {"blob": "/wA=", "text": "/wA="}, "base64": ["blob"]},
        {"fields": {"k": "3", "j": "2"}, "pairs": [["k", "1"], ["j", "2"], ["k", "3"]]},
        {"fields": {"/w==": "a"}, "names_base64": True},
        {"fields": {"/w==": "/w==", "YQ==": "b"}, "base64": ["/w=="], "names_base64": True},
        {"fields": {"k": "YQ=="}, "pairs": [["k", "/w=="], ["k", "YQ=="]], "base64": ["k"]},
    ],
)
async def test_an_entry_reads_as_it_was_written(shared: Live, wire: dict[str, Any]) -> None:
    written = {name: part for name, part in wire.items() if name != "fields" or "pairs" not in wire}

    entry_id = (await shared.ask(f"POST {ENTRIES}", written))["id"]
    expected = {"id": entry_id, **wire}
    assert (await shared.http.get(f"{ENTRIES}/{entry_id}")).json() == expected
    assert (await read(shared))["entries"] == [expected]
    assert entries_of_lines(await shared.http.get(ENTRIES, headers=LINES)) == [expected]
    assert list((await read(shared))["entries"][0]["fields"]) == list(wire["fields"])


async def test_an_entry_is_told_in_the_same_bytes_wherever_it_is_read(shared: Live) -> None:
    wire = {"fields": {"a": "/w==", "/\x7f\x00": "é\u2028\U0001f600</script>"}, "base64": ["a"]}
    await shared.http.post(ENTRIES, json=wire)
    [entry_id] = await ids(shared, "start=-")

    encoded = (await shared.http.get(f"{ENTRIES}/{entry_id}")).content

    lines = (await shared.http.get(ENTRIES, headers=LINES)).content
    pages = [await shared.http.get(path) for path in (ENTRIES, ORDERS, f"{ORDERS}?full=true")]
    assert lines == encoded.replace("\u2028".encode(), rb"\u2028") + b"\n"  # it would end a line
    assert [page.content.count(encoded) for page in pages] == [1, 2, 3]


# Read a range


async def test_a_range_has_what_lies_between_its_bounds(shared: Live) -> None:
    await shared.append_at("orders", "1-0", "2-0", "2-1", "3-0")
    for query, expected in (
        ("start=-&end=+", ["1-0", "2-0", "2-1", "3-0"]),  # a plus that was not encoded is one
        ("start=2", ["2-0", "2-1", "3-0"]),
        ("start=(2", ["2-1", "3-0"]),
        ("end=2", ["1-0", "2-0", "2-1"]),
        ("end=(2", ["1-0"]),
        ("start=(1-0&end=(3-0&limit=1", ["2-0"]),
        ("order=desc&start=2&end=(3", ["2-1", "2-0"]),
    ):
        lines = await shared.http.get(f"{ENTRIES}?{query}", headers=LINES)
        page = (await shared.http.get(f"{ENTRIES}?{query}")).json()
        assert [entry["id"] for entry in page["entries"]] == expected, query
        assert [entry["id"] for entry in entries_of_lines(lines)] == expected, query
        assert page["next_after"] == (None if "desc" in query else expected[-1])
        assert page["last_id"] == "3-0"


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "application/json"),
        ("application/x-ndjson", "application/x-ndjson"),
        (f"text/html, {ARROW}, application/json", ARROW),
    ],
)
async def test_accept_chooses_how_entries_are_told(
    shared: Live, accept: str, media_type: str
) -> None:
    await shared.append("orders", "1")

    answer = await shared.http.get(ENTRIES, headers={"Accept": accept})

    assert answer.headers["Content-Type"].partition(";")[0] == media_type


# Read after a cursor


async def test_a_long_poll_as_lines_ends_with_the_next_entry(shared: Live) -> None:
    await shared.http.put(ORDERS)
    waiting = asyncio.create_task(
        shared.http.get(ENTRIES, params={"after": "$", "wait_ms": 30_000}, headers=LINES)
    )
    await shared.until_waiting(1)

    await shared.append_at("orders", "2-0")

    assert [entry["id"] for entry in entries_of_lines(await waiting)] == ["2-0"]


# Read several streams


async def read_streams(live: Live, *cursors: tuple[str, str], **body: Any) -> Any:
    streams = [{"stream": stream, "after": after} for stream, after in cursors]
    return (await live.ask("POST /v1/read", {"streams": streams, **body}))["streams"]


async def test_several_streams_are_read_each_after_its_cursor(shared: Live) -> None:
    [a1, a2] = await shared.append("a", "1", "2")
    [b1] = await shared.append("b", "1")

    reads = await read_streams(shared, ("a", a1), ("b", "$"), ("a", "0"))

    told = [(each["stream"], ids_in(each), each["next_after"], each["last_id"]) for each in reads]
    assert told == [("a", [a2], a2, a2), ("b", [], b1, b1), ("a", [a1, a2], a2, a2)]


async def test_a_long_poll_of_several_streams_ends_with_an_entry_in_any(shared: Live) -> None:
    [a1] = await shared.append("a", "1")
    await shared.append("b", "1")
    waiting = asyncio.create_task(read_streams(shared, ("a", "$"), ("b", "$"), wait_ms=30_000))
    await shared.until_waiting(1)
    [b2] = await shared.append("b", "2")
    reads = await waiting
    assert [(ids_in(each), each["next_after"]) for each in reads] == [([], a1), ([b2], b2)]


# Delete


async def test_a_delete_spares_what_a_group_still_needs(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    await shared.append_at("orders", "1-0", "2-0")
    await shared.read_group("orders", "billing", "worker", limit=2)

    spared = await shared.http.delete(f"{ENTRIES}/2-0?references=acked")
    deleted = await shared.http.delete(f"{ENTRIES}/1-0")

    assert refusal_of(spared) == (409, "entry_referenced", "")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert await ids(shared) == ["2-0"]


EVEN = json.dumps({"suffix": {"n": "0"}})


async def append_numbers(live: Live, *numbers: int) -> list[str]:
    """Append entries whose ids are these numbers."""
    batch = [{"id": f"{n}-0", "fields": {"n": str(n), "kind": "x", "n2": "y"}} for n in numbers]
    return list((await live.ask(f"POST {ENTRIES}/batch", batch))["ids"])


async def read_by(live: Live, **params: str | int) -> dict[str, Any]:
    answer = await live.http.get(ENTRIES, params=params)
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


def ids_of_lines(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line)["id"] for line in answer.text.splitlines()]


async def test_a_range_has_what_matches_and_says_where_to_go_on(shared: Live) -> None:
    await append_numbers(shared, *range(1, 3_000))

    page = await read_by(shared, start="1", filter=EVEN, limit=3)
    assert ids_in(page) == ["10-0", "20-0", "30-0"]
    assert page["last_id"] == "2999-0"
    following = await read_by(shared, start=f"({page['next_after']}", end="45", filter=EVEN)
    assert (ids_in(following), following["next_after"]) == (["40-0"], None)

    down = await read_by(shared, order="desc", end="2985", filter=EVEN, limit=2)
    assert (ids_in(down), down["next_after"]) == (["2980-0", "2970-0"], None)
    down = await read_by(shared, order="desc", end=f"({down['next_before']}", filter=EVEN, limit=1)
    assert ids_in(down) == ["2960-0"]


async def test_lines_have_all_that_matches(shared: Live) -> None:
    await append_numbers(shared, *range(1, 5_001))
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
    await append_numbers(shared, 10)
    answer = await shared.http.get(
        ENTRIES, params={**params, "columns": "n2,n,none"}, headers=headers
    )
    [entry] = map(json.loads, answer.text.splitlines()) if headers else answer.json()["entries"]
    assert entry == {"id": "10-0", "fields": {"n": "10", "n2": "y"}}


async def test_several_streams_are_read_with_one_filter(shared: Live) -> None:
    await append_numbers(shared, 9, 10)
    await shared.append("others", "10", "20")
    streams = [{"stream": "orders"}, {"stream": "others"}]
    body = {"streams": streams, "filter": {"suffix": {"n": "0"}}}
    answer = await shared.http.post("/v1/read", json=body)
    assert [ids_in(each) for each in answer.json()["streams"]] == [["10-0"], []]
