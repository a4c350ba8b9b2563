"""Bulk: planned, split and read as Arrow; staged and committed exactly once."""

import asyncio
from typing import Any

import httpx
import pyarrow as pa
import pytest

from headgate.engine.entry import Draft, EntryId
from headgate.engine.limits import ENTRY_FIELDS_MAX, PACKED_COUNT_MIN
from headgate.engine.requests.entries import Add
from headgate.engine.requests.streams import DeleteStream
from tests.api.conftest import Live, refusal_of
from tests.api.rest.bulk_requests import (
    WRITER,
    commit,
    read_arrow,
    stage,
    table_in,
    values,
    values_in,
)
from tests.arrow_bodies import ARROW, FIELDS, HEADERS, arrow_of, body_of, rows

pytestmark = pytest.mark.asyncio(loop_scope="session")

U64_MAX = 2**64 - 1


async def plan(live: Live, *cursors: dict[str, Any], **body: Any) -> list[dict[str, Any]]:
    answer = await live.http.post("/v1/bulk/plan", json={"cursors": cursors, **body})
    assert answer.status_code == 200, answer.text
    plans: list[dict[str, Any]] = answer.json()["streams"]
    return plans


# What to read


async def test_a_plan_shares_what_may_be_read_in_proportion(shared: Live) -> None:
    ids = await shared.append("orders", *"abcdefgh")
    await shared.append("quiet", "a", "b")

    first, second, none = await plan(
        shared,
        {"stream": "orders", "after": ids[1]},
        {"stream": "quiet"},
        {"stream": "missing", "after": "5-0"},
        max_entries=4,
    )

    info = await shared.stream("orders")
    assert first == {
        "stream": "orders",
        "epoch": str(info["epoch"]),
        "after": ids[1],
        "end": ids[4],
        "entries": 3,
        "backlog": 6,
        "last_id": ids[-1],
        "first_id": ids[0],
        "gap": None,
    }
    assert (second["entries"], second["backlog"], second["after"]) == (1, 2, "0-0")
    assert none == {
        "stream": "missing",
        "epoch": None,
        "after": "5-0",
        "end": "5-0",
        "entries": 0,
        "backlog": 0,
        "last_id": "0-0",
        "first_id": None,
        "gap": None,
    }


async def test_a_plan_waits_for_entries_and_tells_what_trimming_took(shared: Live) -> None:
    ids = await shared.append("orders", *"abc")
    waiting = asyncio.create_task(
        plan(shared, {"stream": "orders", "after": "$"}, {"stream": "new"}, wait_ms=20_000)
    )
    await shared.until_waiting(1)
    await shared.append("new", "x")
    quiet, woken = await waiting
    assert (quiet["after"], quiet["end"], quiet["entries"]) == (ids[2], ids[2], 0)
    assert (woken["entries"], woken["after"]) == (1, "0-0")

    await shared.http.post("/v1/streams/orders/trim", json={"max_length": 1})
    [late] = await plan(shared, {"stream": "orders", "after": ids[0]})
    assert late["gap"] == {"from": ids[0], "to": ids[1]}
    assert (late["first_id"], late["entries"]) == (ids[2], 1)


async def test_a_stream_that_began_anew_is_planned_from_its_beginning(shared: Live) -> None:
    ids = await shared.append("orders", "a")
    epoch = str((await shared.stream("orders"))["epoch"])
    await shared.http.delete("/v1/streams/orders")
    again = await shared.append("orders", "b")

    [planned] = await plan(shared, {"stream": "orders", "after": ids[0], "epoch": epoch})

    assert planned["epoch"] not in (None, epoch)
    assert (planned["after"], planned["end"]) == ("0-0", again[0])


async def test_a_range_is_cut_into_equal_parts(shared: Live) -> None:
    ids = await shared.append("orders", *(str(number) for number in range(250)))
    url = "/v1/streams/orders/splits"

    cut = (await shared.http.get(f"{url}?parts=3")).json()
    info = await shared.stream("orders")
    assert (cut["stream"], cut["epoch"]) == ("orders", str(info["epoch"]))
    assert [split["entries"] for split in cut["splits"]] == [84, 83, 83]
    assert cut["splits"][0] == {"after": "0-0", "to": ids[83], "entries": 84}
    assert cut["splits"][1]["after"] == ids[83]
    assert cut["splits"][-1]["to"] == ids[-1]

    few = (await shared.http.get(f"{url}?parts=10000&after={ids[10]}&to={ids[12]}")).json()
    assert [split["to"] for split in few["splits"]] == ids[11:13]
    assert (await shared.http.get(f"{url}?after={ids[-1]}")).json()["splits"] == []
    many = (await shared.http.get(f"{url}?parts=200")).json()["splits"]
    assert sum(split["entries"] for split in many) == 250


# Read as Arrow


async def test_a_range_comes_as_arrow_with_all_its_bytes(shared: Live) -> None:
    backend = shared.gateway.backend
    drafts = [
        Draft(EntryId(5, 0), (b"v", b"\xff", b"v", b"2", b"", b"")),
        Draft(EntryId(5, U64_MAX), (b"v", b"x")),
        Draft(EntryId(6, 1), (b"\xfe", b"")),
    ]
    await backend.perform(Add(b"orders", drafts))

    table = table_in(await read_arrow(shared, "orders"))

    assert table.to_pylist() == [
        {"id": "5-0", "ms": 5, "seq": 0, "fields": [(b"v", b"\xff"), (b"v", b"2"), (b"", b"")]},
        {"id": f"5-{U64_MAX}", "ms": 5, "seq": None, "fields": [(b"v", b"x")]},
        {"id": "6-1", "ms": 6, "seq": 1, "fields": [(b"\xfe", b"")]},
    ]
    epoch = str((await shared.stream("orders"))["epoch"])
    assert table.schema.metadata[b"headgate.stream"] == b"orders"
    assert table.schema.metadata[b"headgate.epoch"] == epoch.encode()


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_many_batches_make_the_whole_range(shared: Live, compression: str) -> None:
    for _ in range(3):
        await shared.append("orders", *(str(number) for number in range(9_000)))

    whole = table_in(await read_arrow(shared, "orders", f"compression={compression}"))
    assert whole.num_rows == 27_000
    assert max(len(batch) for batch in whole.to_batches()) >= 4096
    ids = whole.column("id").to_pylist()
    part = await read_arrow(shared, "orders", f"start=({ids[9]}&end={ids[20_000]}&limit=15000")
    assert table_in(part).column("id").to_pylist() == ids[10:15_010]


async def test_an_arrow_answer_says_how_the_stream_is(shared: Live) -> None:
    ids = await shared.append("orders", *"abcde")
    await shared.http.delete(f"/v1/streams/orders/entries/{ids[3]}")
    await shared.http.post("/v1/streams/orders/trim", json={"max_length": 2})

    answer = await read_arrow(shared, "orders", f"start=({ids[0]}")

    assert values_in(answer) == ["c", "e"]
    heads = {name: text for name, text in answer.headers.items() if name.startswith("headgate-")}
    assert heads == {
        "headgate-epoch": str((await shared.stream("orders"))["epoch"]),
        "headgate-first-id": ids[2],
        "headgate-last-id": ids[4],
        "headgate-max-deleted-id": ids[3],
        "headgate-gap-to": ids[1],
    }
    assert "headgate-gap-to" not in (await read_arrow(shared, "orders")).headers

    await shared.http.post("/v1/streams/orders/trim", json={"max_length": 0})
    empty = await read_arrow(shared, "orders")
    assert values_in(empty) == []
    assert "headgate-first-id" not in empty.headers


async def test_a_cursor_reads_as_arrow_what_is_there(shared: Live) -> None:
    ids = await shared.append("orders", *"abc")
    for after, expected in ((ids[0], ["b", "c"]), ("$", []), ("%2B", ["c"]), ("0", list("abc"))):
        assert values_in(await read_arrow(shared, "orders", f"after={after}")) == expected
    assert values_in(await read_arrow(shared, "orders", "after=0&limit=2")) == ["a", "b"]


@pytest.mark.parametrize("what", ["delete", "trim", "begin anew"])
async def test_what_goes_in_the_middle_breaks_the_answer_off(shared: Live, what: str) -> None:
    for _ in range(4):
        await shared.append("orders", *("x" * 400 for _ in range(9_000)))
    backend = shared.gateway.backend

    async def read() -> bytes:
        parts: list[bytes] = []
        url = "/v1/streams/orders/entries"
        async with shared.http.stream("GET", url, headers={"Accept": ARROW}) as answer:
            async for part in answer.aiter_raw():
                if not parts:
                    if what == "trim":
                        await shared.http.post("/v1/streams/orders/trim", json={"max_length": 1})
                    else:
                        await backend.perform(DeleteStream(b"orders"))
                    if what == "begin anew":
                        await shared.append("orders", "y")
                parts.append(part)
        return b"".join(parts)

    with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
        await read()


async def test_what_comes_while_it_is_read_is_not_waited_for(shared: Live) -> None:
    await shared.append("orders", *("x" * 400 for _ in range(9_000)))
    url = "/v1/streams/orders/entries"
    parts: list[bytes] = []
    async with shared.http.stream("GET", url, headers={"Accept": ARROW}) as answer:
        async for part in answer.aiter_raw():
            if not parts:
                await shared.append("orders", "late")
            parts.append(part)
    assert pa.ipc.open_stream(b"".join(parts)).read_all().num_rows == 9_000


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("order=desc", (422, "invalid_request", "/query/order")),
        ("after=0&wait_ms=5", (422, "invalid_request", "/query/wait_ms")),
        ("after=0&start=-", (422, "invalid_request", "/query/after")),
        ("compression=lz4", (422, "invalid_request", "/query/compression")),
        ("limit=0", (422, "invalid_request", "/query/limit")),
        ("start=x", (400, "invalid_id", "/query/start")),
        ("after=x", (400, "invalid_id", "/query/after")),
        ("batch=1", (422, "invalid_request", "/query/batch")),
    ],
)
async def test_arrow_of_something_else_is_refused(
    shared: Live, query: str, expected: tuple[int, str, str]
) -> None:
    await shared.append("orders", "a")
    assert refusal_of(await read_arrow(shared, "orders", query)) == expected


async def test_only_arrow_is_compressed_and_only_streams_that_are_there_are_read(
    shared: Live,
) -> None:
    await shared.append("orders", "a")
    plain = await shared.http.get("/v1/streams/orders/entries?compression=none")
    assert refusal_of(plain) == (422, "invalid_request", "/query/compression")
    assert refusal_of(await read_arrow(shared, "missing")) == (404, "stream_not_found", "")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"cursors": []}, "/body/cursors"),
        ({"cursors": [{"stream": "a/b"}]}, "/body/cursors/0/stream"),
        ({"cursors": [{"stream": "a"}, {"stream": "a"}]}, "/body/cursors/1/stream"),
        ({"cursors": [{"stream": "a", "after": "+"}]}, "/body/cursors/0/after"),
        ({"cursors": [{"stream": "a", "after": "x"}]}, "/body/cursors/0/after"),
        ({"cursors": [{"stream": "a", "epoch": "x"}]}, "/body/cursors/0/epoch"),
        ({"cursors": [{"stream": "a"}], "max_entries": 0}, "/body/max_entries"),
        ({"cursors": [{"stream": "a"}], "wait_ms": 10**7}, "/body/wait_ms"),
        ({"cursors": [{"stream": f"s{n}"} for n in range(1001)]}, "/body/cursors"),
    ],
)
async def test_a_plan_of_nonsense_is_refused(
    shared: Live, body: dict[str, Any], pointer: str
) -> None:
    answer = await shared.http.post("/v1/bulk/plan", json=body)
    assert refusal_of(answer)[2] == pointer
    assert answer.status_code in (400, 422)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("parts=0", (422, "invalid_request", "/query/parts")),
        ("parts=10001", (422, "invalid_request", "/query/parts")),
        ("after=$", (400, "invalid_id", "/query/after")),
        ("to=x", (400, "invalid_id", "/query/to")),
    ],
)
async def test_a_split_into_nonsense_is_refused(
    shared: Live, query: str, expected: tuple[int, str, str]
) -> None:
    await shared.append("orders", "a")
    assert refusal_of(await shared.http.get(f"/v1/streams/orders/splits?{query}")) == expected
    missing = await shared.http.get("/v1/streams/missing/splits")
    assert refusal_of(missing) == (404, "stream_not_found", "")


# Append as Arrow


async def test_a_batch_is_appended_as_arrow(shared: Live) -> None:
    url = "/v1/streams/orders/entries/batch"
    first = await shared.http.post(url, content=body_of("a", "b"), headers=HEADERS)
    assert first.status_code == 201, first.text
    assert first.json()["count"] == 2

    ids = ["9999999999999-1", None, "9999999999999-5"]
    await shared.http.post(url, content=body_of("c", "d", "e", ids=ids), headers=HEADERS)

    entries = (await shared.http.get("/v1/streams/orders/entries")).json()["entries"]
    assert [entry["fields"]["v"] for entry in entries] == list("abcde")
    assert [entry["id"] for entry in entries[2:]] == [f"9999999999999-{seq}" for seq in (1, 2, 5)]


async def test_an_arrow_batch_keeps_the_promises_of_any_batch(shared: Live) -> None:
    url = "/v1/streams/orders/entries/batch"
    keyed = {**HEADERS, "Idempotency-Key": "k"}
    first = await shared.http.post(url, content=body_of("a"), headers=keyed)
    again = await shared.http.post(url, content=body_of("a"), headers=keyed)
    assert (again.status_code, again.json()) == (200, first.json())
    other = await shared.http.post(url, content=body_of("b"), headers=keyed)
    assert refusal_of(other)[1] == "idempotency_mismatch"
    matched = {**HEADERS, "If-Match": '"5-0"'}
    late = await shared.http.post(url, content=body_of("b"), headers=matched)
    assert refusal_of(late)[:2] == (412, "last_id_mismatch")
    low = await shared.http.post(url, content=body_of("b", "c", ids=[None, "1-1"]), headers=HEADERS)
    assert refusal_of(low) == (409, "id_not_greater", "/body/1/id")
    assert await values(shared, "orders") == ["a"]


@pytest.mark.parametrize("count", [2, PACKED_COUNT_MIN])
async def test_a_key_knows_a_batch_in_arrow_and_in_json(shared: Live, count: int) -> None:
    url, key = "/v1/streams/orders/entries/batch", {"Idempotency-Key": "k"}
    texts = [str(number) for number in range(count)]
    first = await shared.http.post(url, content=body_of(*texts), headers=HEADERS | key)
    assert first.status_code == 201, first.text
    entries = [{"fields": {"v": text}} for text in texts]
    again = await shared.http.post(url, json=entries, headers=key)
    assert (again.status_code, again.json()) == (200, first.json())
    assert values_in(await read_arrow(shared, "orders")) == texts


async def test_a_long_entry_is_named_among_many(shared: Live) -> None:
    long = [[("v", b"")] * (ENTRY_FIELDS_MAX + 1 if row == 7 else 1) for row in range(5000)]
    body = arrow_of({"fields": pa.array(long, FIELDS)})
    answer = await shared.http.post(
        "/v1/streams/orders/entries/batch", content=body, headers=HEADERS
    )
    assert refusal_of(answer)[2] == "/body/7/fields"


def cut(body: bytes, at: int) -> bytes:
    return body[:at]


GOOD = body_of("a", "b")
NO_FIELDS = pa.array([[("v", b"1")], []], FIELDS)
NULL_FIELDS = pa.array([[("v", b"1")], None], FIELDS)
NULL_VALUE = pa.array([[("v", b"1")], [("w", None)]], FIELDS)
ZSTD = pa.ipc.IpcWriteOptions(compression="zstd")

BAD_BODIES = {
    "empty": (b"", 400, "malformed", "/body"),
    "garbage": (b"ARROW1", 400, "malformed", "/body"),
    "json": (b'[{"fields": {"v": "1"}}]', 400, "malformed", "/body"),
    "half": (cut(GOOD, len(GOOD) // 2), 400, "malformed", "/body"),
    "no end": (cut(GOOD, -8), 400, "malformed", "/body"),
    "more behind": (GOOD + GOOD, 400, "malformed", "/body"),
    "compressed": (
        arrow_of({"fields": rows("a")}, options=ZSTD), 422, "invalid_request", "/body",
    ),
    "unknown column": (
        arrow_of({"fields": rows("a"), "x/y": pa.array([1])}),
        422, "invalid_request", "/body/x~1y",
    ),
    "column twice": (
        pa.ipc.new_stream, 422, "invalid_request", "/body/id",
    ),
    "no fields column": (
        arrow_of({"id": pa.array(["1-1"])}), 422, "invalid_request", "/body/fields",
    ),
    "fields of numbers": (
        arrow_of({"fields": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}),
        422, "invalid_request", "/body/fields",
    ),
    "fields of text": (
        arrow_of({"fields": pa.array(["a"])}), 422, "invalid_request", "/body/fields",
    ),
    "ids of numbers": (
        arrow_of({"fields": rows("a"), "id": pa.array([1])}), 422, "invalid_request", "/body/id",
    ),
    "an entry without fields": (
        arrow_of({"fields": NO_FIELDS}), 422, "invalid_request", "/body/1/fields",
    ),
    "an entry that is null": (
        arrow_of({"fields": NULL_FIELDS}), 422, "invalid_request", "/body/1/fields",
    ),
    "a value that is null": (
        arrow_of({"fields": NULL_VALUE}), 422, "invalid_request", "/body/1/fields",
    ),
    "an id that is none": (
        body_of("a", "b", ids=[None, "x"]), 400, "invalid_id", "/body/1/id",
    ),
}  # fmt: skip


def twice_named() -> bytes:
    batch = pa.RecordBatch.from_arrays(
        [rows("a"), pa.array(["1-1"]), pa.array(["2-1"])], names=["fields", "id", "id"]
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body: bytes = sink.getvalue().to_pybytes()
    return body


BAD_BODIES["column twice"] = (twice_named(), 422, "invalid_request", "/body/id")


@pytest.mark.parametrize("name", BAD_BODIES)
@pytest.mark.parametrize("is_staged", [False, True], ids=["batch", "chunk"])
async def test_a_bad_body_is_told_with_its_place_and_changes_nothing(
    shared: Live, name: str, is_staged: bool
) -> None:
    body, *expected = BAD_BODIES[name]
    if is_staged:
        answer = await stage(shared, body, (0, 0, "a", 0))
    else:
        url = "/v1/streams/out/entries/batch"
        answer = await shared.http.post(url, content=body, headers=HEADERS)
    assert list(refusal_of(answer)) == expected
    assert (await shared.http.get("/v1/streams")).json()["streams"] == []


# Write exactly once


async def test_what_is_staged_is_appended_once_in_order_with_the_commit(shared: Live) -> None:
    await stage(shared, body_of("3"), (0, 1, "good", 0))
    await stage(shared, body_of("wrong"), (0, 0, "good", 0))
    await stage(shared, body_of("dead"), (0, 0, "bad", 0))
    await stage(shared, body_of("2"), (0, 0, "good", 1))
    staged = await stage(shared, body_of("0", "1"), (0, 0, "good", 0))
    assert (staged.status_code, staged.json()["entries"]) == (200, 2)
    assert (await shared.http.get(WRITER)).json() == {
        "writer": "load", "last_batch": None, "committed_at_ms": None,
    }  # fmt: skip
    assert (await shared.http.get("/v1/streams")).json()["streams"] == []

    attempts = [(1, "good", 1), (0, "good", 2)]
    answer = (await commit(shared, 0, attempts)).json()

    info = await shared.stream("out")
    assert answer == {
        "repeated": False,
        "entries": 4,
        "streams": [
            {
                "stream": "out",
                "entries": 4,
                "first_id": info["first_id"],
                "last_id": info["last_id"],
            }
        ],
    }
    assert await values(shared, "out") == list("0123")
    assert (await commit(shared, 0, attempts)).json() == {
        "repeated": True, "entries": 0, "streams": [],
    }  # fmt: skip
    assert await values(shared, "out") == list("0123")
    known = (await shared.http.get(WRITER)).json()
    assert known["last_batch"] == 0
    assert known["committed_at_ms"] > 0


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("/batches/x/partitions/0/attempts/t/chunks/0", "/path/batch"),
        ("/batches/-1/partitions/0/attempts/t/chunks/0", "/path/batch"),
        (f"/batches/{2**63}/partitions/0/attempts/t/chunks/0", "/path/batch"),
        ("/batches/0/partitions/-1/attempts/t/chunks/0", "/path/partition"),
        ("/batches/0/partitions/0/attempts/a%20b/chunks/0", "/path/attempt"),
        (f"/batches/0/partitions/0/attempts/{'a' * 65}/chunks/0", "/path/attempt"),
        ("/batches/0/partitions/0/attempts/t/chunks/x", "/path/chunk"),
    ],
)
async def test_a_chunk_has_a_proper_place(shared: Live, path: str, pointer: str) -> None:
    url = f"{WRITER}{path}?stream=out"
    answer = await shared.http.put(url, content=GOOD, headers=HEADERS)
    assert refusal_of(answer) == (422, "invalid_request", pointer)


async def test_a_writer_has_a_proper_name_and_a_chunk_its_media_type(shared: Live) -> None:
    bad = await shared.http.get("/v1/bulk/writers/a%01")
    assert refusal_of(bad) == (422, "invalid_request", "/path/writer")
    long = await shared.http.get(f"/v1/bulk/writers/{'x' * 257}")
    assert refusal_of(long) == (422, "invalid_request", "/path/writer")
    url = f"{WRITER}/batches/0/partitions/0/attempts/t/chunks/0?stream=out"
    answer = await shared.http.put(url, json=[])
    assert refusal_of(answer) == (415, "unsupported_media_type", "/header/Content-Type")


@pytest.mark.parametrize(
    ("attempts", "pointer"),
    [
        ([(0, "t", 1), (0, "u", 1)], "/body/attempts/1/partition"),
        ([(0, "a b", 1)], "/body/attempts/0/attempt"),
        ([(-1, "t", 1)], "/body/attempts/0/partition"),
        ([(0, "t", 100_001)], "/body/attempts/0/chunks"),
        ([(0, "t", 60_000), (1, "t", 60_000)], "/body/attempts"),
    ],
)
async def test_a_commit_of_nonsense_is_refused(
    shared: Live, attempts: list[tuple[int, str, int]], pointer: str
) -> None:
    assert refusal_of(await commit(shared, 99, attempts)) == (422, "invalid_request", pointer)


# What is sent


async def test_only_what_is_asked_for_is_sent(shared: Live) -> None:
    for sku, price in [("a", "1"), ("b", "2.5"), ("a", "x")]:
        await shared.http.post(
            "/v1/streams/orders/entries", json={"fields": {"sku": sku, "price": price, "note": "n"}}
        )

    answer = await shared.http.get(
        "/v1/streams/orders/entries",
        params={"filter": '{"any": [{"exact": {"sku": "b"}}, {"range": {"price": {"lt": 2}}}]}'},
        headers={"Accept": ARROW},
    )
    prices = await shared.http.get(
        "/v1/streams/orders/entries", params={"columns": "price"}, headers={"Accept": ARROW}
    )

    assert [dict(row["fields"])[b"price"] for row in table_in(answer).to_pylist()] == [b"1", b"2.5"]
    assert [row["fields"] for row in table_in(prices).to_pylist()] == [
        [(b"price", b"1")],
        [(b"price", b"2.5")],
        [(b"price", b"x")],
    ]


@pytest.mark.parametrize(
    ("query", "accept", "place"),
    [
        ({"filter": '{"exact": {"sku": 1}}'}, ARROW, "/query/filter/exact/sku"),
        ({"filter": "{"}, ARROW, "/query/filter"),
        ({"filter": '{"present": "sku"}', "limit": "5"}, ARROW, "/query/limit"),
        ({"columns": "[1]"}, ARROW, "/query/columns"),
        ({"columns": "[1]"}, "application/json", "/query/columns"),
        ({"compression": "zstd"}, "application/json", "/query/compression"),
    ],
)
async def test_a_selection_that_makes_no_sense_is_refused(
    shared: Live, query: dict[str, str], accept: str, place: str
) -> None:
    await shared.append("orders", "a")

    answer = await shared.http.get(
        "/v1/streams/orders/entries", params=query, headers={"Accept": accept}
    )

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == place
