"""Entries: append one or many, read a range or after a cursor, read several streams, delete."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from headgate.engine.limits import ENTRY_FIELDS_MAX
from tests.api.conftest import Live, refusal_of
from tests.arrow_bodies import ARROW

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
ENTRIES = f"{ORDERS}/entries"
NDJSON = {"Content-Type": "application/x-ndjson"}
LINES = {"Accept": "application/x-ndjson"}


async def append_at(live: Live, *ids: str) -> None:
    batch = [{"id": entry_id, "fields": {"v": entry_id}} for entry_id in ids]
    answer = await live.http.post(f"{ENTRIES}/batch", json=batch)
    assert answer.status_code == 201, answer.text


async def read(live: Live, **params: str | int) -> dict[str, Any]:
    answer = await live.http.get(ENTRIES, params=params)
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


async def ids(live: Live, **params: str | int) -> list[str]:
    return [entry["id"] for entry in (await read(live, **params))["entries"]]


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
    entry = await shared.http.get(answer.headers["Location"])
    assert entry.json()["fields"] == {"a": "b"}
    assert (await shared.stream(quote(name)))["name"] == name


@pytest.mark.parametrize(
    ("wanted", "got"),
    [
        ("5-1", "5-1"),
        ("6", "6-0"),
        ("5-*", "5-1"),
        ("7-*", "7-0"),
        ("18446744073709551615-18446744073709551615",) * 2,
    ],
)
async def test_an_entry_gets_the_id_it_asks_for(shared: Live, wanted: str, got: str) -> None:
    await append_at(shared, "5-0")

    answer = await shared.http.post(ENTRIES, json={"id": wanted, "fields": {"a": "b"}})

    assert answer.json() == {"id": got}


# Append only if nothing came between


async def test_if_match_of_the_empty_stream_creates_it_once(shared: Live) -> None:
    answers = [
        await shared.http.post(ENTRIES, json={"fields": {"a": "b"}}, headers={"If-Match": '"0-0"'})
        for _ in range(2)
    ]

    assert [answer.status_code for answer in answers] == [201, 412]


# Append once


async def append_once(live: Live, key: str, value: str = "1", **headers: str) -> httpx.Response:
    headers = {"Idempotency-Key": key, **headers}
    return await live.http.post(ENTRIES, json={"fields": {"n": value}}, headers=headers)


async def test_a_repeat_answers_what_the_first_made(shared: Live) -> None:
    first = await append_once(shared, "k")
    repeat = await append_once(shared, "k")
    other = await append_once(shared, "another")

    assert (first.status_code, repeat.status_code, other.status_code) == (201, 200, 201)
    assert "Idempotent-Replayed" not in first.headers
    assert repeat.headers["Idempotent-Replayed"] == "true"
    assert repeat.headers["Location"] == first.headers["Location"]
    assert repeat.json() == first.json()
    assert await ids(shared) == [first.json()["id"], other.json()["id"]]


async def test_each_producer_has_its_own_keys(shared: Live) -> None:
    mine = {"Idempotency-Producer": "me"}

    answers = [
        await append_once(shared, "k"),
        await append_once(shared, "k", **mine),
        await append_once(shared, "k", "1", **mine),
    ]

    assert [answer.status_code for answer in answers] == [201, 201, 200]
    assert answers[2].json() == answers[1].json() != answers[0].json()


@pytest.mark.parametrize("path", [ENTRIES, f"{ENTRIES}/batch"])
async def test_a_keyed_append_leaves_the_id_to_the_stream(shared: Live, path: str) -> None:
    entry: Any = {"fields": {"a": "b"}, "id": "1-0"}

    answer = await shared.http.post(
        path, json=entry if path == ENTRIES else [entry], headers={"Idempotency-Key": "k"}
    )

    pointer = "/body/id" if path == ENTRIES else "/body/0/id"
    assert refusal_of(answer) == (422, "invalid_request", pointer)
    assert (await shared.http.get(ORDERS)).status_code == 404


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"Idempotency-Producer": "p"}, "Idempotency-Producer"),
        ({"Idempotency-Key": ""}, "Idempotency-Key"),
        ({"Idempotency-Key": "k" * 257}, "Idempotency-Key"),
        ({"Idempotency-Key": "k", "Idempotency-Producer": "p" * 257}, "Idempotency-Producer"),
    ],
)
async def test_a_key_that_protects_nothing_is_refused(
    shared: Live, headers: dict[str, str], name: str
) -> None:
    answer = await shared.http.post(ENTRIES, json={"fields": {"a": "b"}}, headers=headers)

    assert refusal_of(answer) == (422, "invalid_request", f"/header/{name}")
    assert (await shared.http.get(ORDERS)).status_code == 404


# Append many


async def test_a_batch_is_appended_in_order(shared: Live) -> None:
    batch = [{"fields": {"n": str(number)}} for number in range(1000)]

    answer = await shared.http.post(f"{ENTRIES}/batch", json=batch)

    assert answer.status_code == 201
    made = answer.json()
    assert (made["count"], len(made["ids"])) == (1000, 1000)
    assert (made["first_id"], made["last_id"]) == (made["ids"][0], made["ids"][-1])
    entries = (await read(shared, limit=1000))["entries"]
    assert [(entry["id"], entry["fields"]["n"]) for entry in entries] == [
        (entry_id, str(number)) for number, entry_id in enumerate(made["ids"])
    ]


@pytest.mark.parametrize("end_of_line", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n"])
async def test_a_batch_may_come_as_lines(shared: Live, end_of_line: str, last: str) -> None:
    lines = ['{"id":"1-0","fields":{"a":"1"}}', '{"id":"2-0","pairs":[["a","1"],["a","2"]]}']

    answer = await shared.http.post(
        f"{ENTRIES}/batch", content=end_of_line.join(lines) + last, headers=NDJSON
    )

    expected = {"count": 2, "first_id": "1-0", "last_id": "2-0", "ids": ["1-0", "2-0"]}
    assert answer.json() == expected
    assert (await read(shared))["entries"][1]["pairs"] == [["a", "1"], ["a", "2"]]


async def test_a_batch_is_appended_as_a_whole_or_not_at_all(shared: Live) -> None:
    batch = [{"id": entry_id, "fields": {"a": "b"}} for entry_id in ("1-0", "2-0", "2-0", "3-0")]

    answer = await shared.http.post(f"{ENTRIES}/batch", json=batch)

    assert refusal_of(answer) == (409, "id_not_greater", "/body/2/id")
    assert answer.json()["last_id"] == "2-0"
    assert (await shared.http.get(ORDERS)).status_code == 404


async def test_what_is_written_as_lines_reads_as_lines(shared: Live) -> None:
    batch = b"".join(b'{"id":"%d-0","fields":{"n":"%d"}}\n' % (ms, ms) for ms in range(1, 2501))

    await shared.http.post(f"{ENTRIES}/batch", content=batch, headers=NDJSON)
    answer = await shared.http.get(ENTRIES, params={"limit": 10_000_000}, headers=LINES)

    assert answer.content == batch


# Fields are never lossy


@pytest.mark.parametrize(
    "wire",
    [
        {"fields": {"b": "1", "a": "2"}},
        {"fields": {"blob": "/wA=", "text": "/wA="}, "base64": ["blob"]},
        {"fields": {"k": "3", "j": "2"}, "pairs": [["k", "1"], ["j", "2"], ["k", "3"]]},
        {"fields": {"/w==": "a"}, "names_base64": True},
        {
            "fields": {"/w==": "/w==", "YQ==": "b"},
            "base64": ["/w=="],
            "names_base64": True,
        },
        {
            "fields": {"k": "YQ=="},
            "pairs": [["k", "/w=="], ["k", "YQ=="]],
            "base64": ["k"],
        },
    ],
)
async def test_an_entry_reads_as_it_was_written(shared: Live, wire: dict[str, Any]) -> None:
    written = {name: part for name, part in wire.items() if name != "fields" or "pairs" not in wire}

    answer = await shared.http.post(ENTRIES, json=written)

    assert answer.status_code == 201, answer.text
    entry_id = answer.json()["id"]
    expected = {"id": entry_id, **wire}
    assert (await shared.http.get(f"{ENTRIES}/{entry_id}")).json() == expected
    assert (await read(shared))["entries"] == [expected]
    assert entries_of_lines(await shared.http.get(ENTRIES, headers=LINES)) == [expected]
    assert list((await read(shared))["entries"][0]["fields"]) == list(wire["fields"])


async def test_an_entry_is_told_in_the_same_bytes_wherever_it_is_read(shared: Live) -> None:
    wire = {"fields": {"a": "/w==", "/\x7f\x00": "é\u2028\U0001f600</script>"}, "base64": ["a"]}
    await shared.http.post(ENTRIES, json=wire)
    [entry_id] = await ids(shared, start="-")

    encoded = (await shared.http.get(f"{ENTRIES}/{entry_id}")).content

    lines = (await shared.http.get(ENTRIES, headers=LINES)).content
    pages = [await shared.http.get(path) for path in (ENTRIES, ORDERS, f"{ORDERS}?full=true")]
    assert lines == encoded.replace("\u2028".encode(), rb"\u2028") + b"\n"  # it would end a line
    assert [page.content.count(encoded) for page in pages] == [1, 2, 3]


# Read a range


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ["1-0", "2-0", "2-1", "3-0"]),
        ({"start": "-", "end": "+"}, ["1-0", "2-0", "2-1", "3-0"]),
        ({"start": "2"}, ["2-0", "2-1", "3-0"]),
        ({"start": "2-1"}, ["2-1", "3-0"]),
        ({"start": "(2-0"}, ["2-1", "3-0"]),
        ({"start": "(2"}, ["2-1", "3-0"]),
        ({"end": "2"}, ["1-0", "2-0", "2-1"]),
        ({"end": "2-0"}, ["1-0", "2-0"]),
        ({"end": "(2-1"}, ["1-0", "2-0"]),
        ({"end": "(2"}, ["1-0"]),
        ({"start": "2", "end": "2"}, ["2-0", "2-1"]),
        ({"start": "(1-0", "end": "(3-0", "limit": 1}, ["2-0"]),
        ({"start": "3", "end": "1"}, []),
        ({"start": "+"}, []),
        ({"order": "asc", "limit": 2}, ["1-0", "2-0"]),
        ({"order": "desc"}, ["3-0", "2-1", "2-0", "1-0"]),
        ({"order": "desc", "limit": 2}, ["3-0", "2-1"]),
        ({"order": "desc", "start": "2", "end": "(3"}, ["2-1", "2-0"]),
    ],
)
async def test_a_range_has_what_lies_between_its_bounds(
    shared: Live, params: dict[str, str | int], expected: list[str]
) -> None:
    await append_at(shared, "1-0", "2-0", "2-1", "3-0")

    lines = await shared.http.get(ENTRIES, params=params, headers=LINES)

    assert await ids(shared, **params) == expected
    assert [entry["id"] for entry in entries_of_lines(lines)] == expected


async def test_a_plus_that_was_not_encoded_is_a_plus(shared: Live) -> None:
    await append_at(shared, "1-0")

    answer = await shared.http.get(f"{ENTRIES}?start=-&end=+")

    assert len(answer.json()["entries"]) == 1


async def test_a_range_tells_where_to_read_on(shared: Live) -> None:
    await append_at(shared, "1-0", "2-0", "3-0")

    up = await read(shared, limit=2)
    down = await read(shared, limit=2, order="desc")
    none = await read(shared, start="4")

    assert (up["next_after"], up["last_id"], up["gap"]) == ("2-0", "3-0", None)
    assert (down["next_after"], down["last_id"]) == (None, "3-0")
    assert (none["entries"], none["next_after"], none["last_id"]) == ([], None, "3-0")


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_a_streamed_range_may_be_larger_than_any_page(shared: Live, order: str) -> None:
    expected = [f"{ms}-0" for ms in range(1, 3001)]
    await append_at(shared, *expected)
    if order == "desc":
        expected.reverse()

    everything = await shared.http.get(
        ENTRIES, params={"order": order, "limit": 10**30}, headers=LINES
    )
    part = await shared.http.get(ENTRIES, params={"order": order, "limit": 1500}, headers=LINES)

    assert [entry["id"] for entry in entries_of_lines(everything)] == expected
    assert [entry["id"] for entry in entries_of_lines(part)] == expected[:1500]


async def test_an_empty_stream_has_no_entries(shared: Live) -> None:
    await shared.http.put(ORDERS)

    page = await read(shared)
    lines = await shared.http.get(ENTRIES, headers=LINES)

    assert page == {"entries": [], "next_after": None, "last_id": "0-0", "gap": None}
    assert entries_of_lines(lines) == []


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


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("0", ["1-0", "2-0", "3-0"]),
        ("1", ["2-0", "3-0"]),
        ("1-5", ["2-0", "3-0"]),
        ("3-0", []),
        ("9", []),
        ("$", []),
        ("+", ["3-0"]),
    ],
)
async def test_a_cursor_reads_what_comes_after_it(
    shared: Live, after: str, expected: list[str]
) -> None:
    await append_at(shared, "1-0", "2-0", "3-0")

    lines = await shared.http.get(ENTRIES, params={"after": after}, headers=LINES)

    assert await ids(shared, after=after) == expected
    assert [entry["id"] for entry in entries_of_lines(lines)] == expected


async def test_a_long_poll_as_lines_ends_with_the_next_entry(shared: Live) -> None:
    await shared.http.put(ORDERS)
    waiting = asyncio.create_task(
        shared.http.get(ENTRIES, params={"after": "$", "wait_ms": 30_000}, headers=LINES)
    )
    await shared.until_waiting(1)

    await append_at(shared, "2-0")

    assert [entry["id"] for entry in entries_of_lines(await waiting)] == ["2-0"]


# Read several streams


async def read_streams(live: Live, *cursors: tuple[str, str], **body: Any) -> list[dict[str, Any]]:
    streams = [{"stream": stream, "after": after} for stream, after in cursors]
    answer = await live.http.post("/v1/read", json={"streams": streams, **body})
    assert answer.status_code == 200, answer.text
    reads: list[dict[str, Any]] = answer.json()["streams"]
    return reads


async def test_several_streams_are_read_each_after_its_cursor(shared: Live) -> None:
    [a1, a2] = await shared.append("a", "1", "2")
    [b1] = await shared.append("b", "1")

    reads = await read_streams(shared, ("a", a1), ("b", "$"), ("a", "0"))

    assert [read["stream"] for read in reads] == ["a", "b", "a"]
    assert [[entry["id"] for entry in read["entries"]] for read in reads] == [[a2], [], [a1, a2]]
    assert [read["next_after"] for read in reads] == [a2, b1, a2]
    assert [read["last_id"] for read in reads] == [a2, b1, a2]


async def test_a_long_poll_of_several_streams_ends_with_an_entry_in_any(shared: Live) -> None:
    [a1] = await shared.append("a", "1")
    await shared.append("b", "1")
    waiting = asyncio.create_task(read_streams(shared, ("a", "$"), ("b", "$"), wait_ms=30_000))
    await shared.until_waiting(1)

    [b2] = await shared.append("b", "2")

    reads = await waiting
    assert [[entry["id"] for entry in read["entries"]] for read in reads] == [[], [b2]]
    assert reads[0]["next_after"] == a1


async def test_a_long_poll_of_several_streams_ends_when_one_is_deleted(shared: Live) -> None:
    await shared.append("a", "1")
    await shared.append("b", "1")
    body = {"streams": [{"stream": name, "after": "$"} for name in "ab"], "wait_ms": 30_000}
    waiting = asyncio.create_task(shared.http.post("/v1/read", json=body))
    await shared.until_waiting(1)

    await shared.http.delete("/v1/streams/b")

    assert refusal_of(await waiting) == (404, "stream_not_found", "")


# Delete


async def test_a_deleted_entry_is_gone(shared: Live) -> None:
    await append_at(shared, "1-0", "2-0", "3-0")

    deleted = await shared.http.delete(f"{ENTRIES}/2-0")
    again = await shared.http.delete(f"{ENTRIES}/2-0")
    got = await shared.http.get(f"{ENTRIES}/2-0")

    assert (deleted.status_code, deleted.content) == (204, b"")
    assert refusal_of(again) == refusal_of(got) == (404, "entry_not_found", "")
    assert await ids(shared) == ["1-0", "3-0"]


async def test_a_delete_spares_what_a_group_still_needs(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    await append_at(shared, "1-0", "2-0", "3-0")
    await shared.read_group("orders", "billing", "worker", limit=2)
    await shared.http.post("/v1/streams/orders/groups/billing/ack", json={"ids": ["1-0"]})

    deleted = await shared.http.delete(f"{ENTRIES}/2-0?references=acked")
    many = await shared.http.post(
        f"{ENTRIES}/delete", json={"ids": ["1-0", "2-0", "3-0"], "references": "acked"}
    )

    assert refusal_of(deleted) == (409, "entry_referenced", "")
    outcomes = [result["outcome"] for result in many.json()["results"]]
    assert outcomes == ["deleted", "referenced", "referenced"]
    assert await ids(shared) == ["2-0", "3-0"]


@pytest.mark.parametrize("many", [False, True])
async def test_an_entry_of_too_many_fields_is_pointed_at(shared: Live, many: bool) -> None:
    wide = {"fields": {f"n{number}": "" for number in range(ENTRY_FIELDS_MAX + 1)}}

    if many:
        answer = await shared.http.post(f"{ENTRIES}/batch", json=[{"fields": {"a": "b"}}, wide])
    else:
        answer = await shared.http.post(ENTRIES, json=wide)

    assert refusal_of(answer) == (
        422,
        "invalid_request",
        "/body/1/fields" if many else "/body/fields",
    )
