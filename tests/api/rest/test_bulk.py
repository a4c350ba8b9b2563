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
ORDERS = "/v1/streams/orders"


async def plan(live: Live, *cursors: dict[str, Any], **body: Any) -> Any:
    return (await live.ask("POST /v1/bulk/plan", {"cursors": cursors, **body}))["streams"]


# What to read


async def test_a_plan_shares_what_may_be_read_in_proportion(shared: Live) -> None:
    ids = await shared.append("orders", *"abcdefgh")
    await shared.append("quiet", "a", "b")
    epoch = str((await shared.stream("orders"))["epoch"])
    asked = {"orders": ids[1], "quiet": "0-0", "missing": "5-0"}
    cursors = [{"stream": name, "after": after} for name, after in asked.items()]

    first, second, none = await plan(shared, *cursors, max_entries=4)

    assert first == {
        "stream": "orders",
        "epoch": epoch,
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
        await shared.append("orders", *map(str, range(9_000)))
    whole = table_in(await read_arrow(shared, "orders", f"compression={compression}"))
    assert whole.num_rows == 27_000
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


@pytest.mark.parametrize("what", ["append", "trim", "delete", "begin anew"])
async def test_what_goes_in_the_middle_breaks_the_answer_off(shared: Live, what: str) -> None:
    for _ in range(4):
        await shared.append("orders", *["x" * 400] * 9_000)

    async def read() -> bytes:
        parts: list[bytes] = []
        headers = {"Accept": ARROW}
        async with shared.http.stream("GET", f"{ORDERS}/entries", headers=headers) as answer:
            async for part in answer.aiter_raw():
                if not parts:
                    await change()
                parts.append(part)
        return b"".join(parts)

    async def change() -> None:
        if what == "trim":
            await shared.http.post(f"{ORDERS}/trim", json={"max_length": 1})
        if what in ("delete", "begin anew"):
            await shared.gateway.backend.perform(DeleteStream(b"orders"))
        if what in ("append", "begin anew"):
            await shared.append("orders", "late")

    if what == "append":  # what comes is not waited for
        assert pa.ipc.open_stream(await read()).read_all().num_rows == 36_000
    else:
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            await read()


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


GOOD = body_of("a", "b")
ZSTD = pa.ipc.IpcWriteOptions(compression="zstd")


def columns_twice() -> bytes:
    names = ["fields", "id", "id"]
    columns = [rows("a"), pa.array(["1-1"]), pa.array(["2-1"])]
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def second(row: list[tuple[str, bytes | None]] | None) -> bytes:
    return arrow_of({"fields": pa.array([[("v", b"1")], row], FIELDS)})


MALFORMED, INVALID = (400, "malformed"), (422, "invalid_request")
BAD_BODIES = {
    "empty": (b"", MALFORMED, ""),
    "json": (b'[{"fields": {"v": "1"}}]', MALFORMED, ""),
    "half": (GOOD[: len(GOOD) // 2], MALFORMED, ""),
    "no end": (GOOD[:-8], MALFORMED, ""),
    "more behind": (GOOD + GOOD, MALFORMED, ""),
    "compressed": (arrow_of({"fields": rows("a")}, options=ZSTD), INVALID, ""),
    "unknown": (arrow_of({"fields": rows("a"), "x/y": pa.array([1])}), INVALID, "/x~1y"),
    "column twice": (columns_twice(), INVALID, "/id"),
    "no fields column": (arrow_of({"id": pa.array(["1-1"])}), INVALID, "/fields"),
    "fields of text": (arrow_of({"fields": pa.array(["a"])}), INVALID, "/fields"),
    "ids of numbers": (arrow_of({"fields": rows("a"), "id": pa.array([1])}), INVALID, "/id"),
    "an entry without fields": (second([]), INVALID, "/1/fields"),
    "an entry that is null": (second(None), INVALID, "/1/fields"),
    "a value that is null": (second([("w", None)]), INVALID, "/1/fields"),
    "an id that is none": (body_of("a", "b", ids=[None, "x"]), (400, "invalid_id"), "/1/id"),
}


@pytest.mark.parametrize("name", BAD_BODIES)
@pytest.mark.parametrize("is_staged", [False, True], ids=["batch", "chunk"])
async def test_a_bad_body_is_told_with_its_place_and_changes_nothing(
    shared: Live, name: str, is_staged: bool
) -> None:
    body, problem, pointer = BAD_BODIES[name]
    if is_staged:
        answer = await stage(shared, body, (0, 0, "a", 0))
    else:
        url = "/v1/streams/out/entries/batch"
        answer = await shared.http.post(url, content=body, headers=HEADERS)
    assert refusal_of(answer) == (*problem, f"/body{pointer}")
    assert (await shared.http.get("/v1/streams")).json()["streams"] == []


# Write exactly once


async def test_what_is_staged_is_appended_once_in_order_with_the_commit(shared: Live) -> None:
    await stage(shared, body_of("3"), (0, 1, "good", 0))
    await stage(shared, body_of("wrong"), (0, 0, "good", 0))
    await stage(shared, body_of("dead"), (0, 0, "bad", 0))
    await stage(shared, body_of("2"), (0, 0, "good", 1))
    staged = await stage(shared, body_of("0", "1"), (0, 0, "good", 0))
    assert (staged.status_code, staged.json()["entries"]) == (200, 2)
    unknown = {"writer": "load", "last_batch": None, "committed_at_ms": None}
    assert (await shared.http.get(WRITER)).json() == unknown
    assert (await shared.http.get("/v1/streams")).json()["streams"] == []

    attempts = [(1, "good", 1), (0, "good", 2)]
    answer = (await commit(shared, 0, attempts)).json()
    info = await shared.stream("out")
    ends = {name: info[name] for name in ("first_id", "last_id")}
    appended = [{"stream": "out", "entries": 4, **ends}]
    assert answer == {"repeated": False, "entries": 4, "streams": appended}
    again = (await commit(shared, 0, attempts)).json()
    assert again == {"repeated": True, "entries": 0, "streams": []}
    assert await values(shared, "out") == list("0123")
    known = (await shared.http.get(WRITER)).json()
    assert known["last_batch"] == 0
    assert known["committed_at_ms"] > 0


async def test_chunks_writers_and_commits_that_make_no_sense_are_refused(shared: Live) -> None:
    for path, pointer in (
        ("/batches/-1/partitions/0/attempts/t/chunks/0", "batch"),
        (f"/batches/{2**63}/partitions/0/attempts/t/chunks/0", "batch"),
        ("/batches/0/partitions/-1/attempts/t/chunks/0", "partition"),
        ("/batches/0/partitions/0/attempts/a%20b/chunks/0", "attempt"),
        (f"/batches/0/partitions/0/attempts/{'a' * 65}/chunks/0", "attempt"),
        ("/batches/0/partitions/0/attempts/t/chunks/x", "chunk"),
    ):
        answer = await shared.http.put(f"{WRITER}{path}?stream=out", content=GOOD, headers=HEADERS)
        assert refusal_of(answer) == (*INVALID, f"/path/{pointer}")
    for name in ("a%01", "x" * 257):
        bad = await shared.http.get(f"/v1/bulk/writers/{name}")
        assert refusal_of(bad) == (*INVALID, "/path/writer")
    url = f"{WRITER}/batches/0/partitions/0/attempts/t/chunks/0?stream=out"
    answer = await shared.http.put(url, json=[])
    assert refusal_of(answer) == (415, "unsupported_media_type", "/header/Content-Type")
    for attempts, pointer in (
        ([(0, "t", 1), (0, "u", 1)], "/1/partition"),
        ([(0, "a b", 1)], "/0/attempt"),
        ([(0, "t", 60_000), (1, "t", 60_000)], ""),
    ):
        refused = await commit(shared, 99, attempts)
        assert refusal_of(refused) == (*INVALID, f"/body/attempts{pointer}")


# What is sent


async def test_only_what_is_asked_for_is_sent(shared: Live) -> None:
    for sku, price in [("a", "1"), ("b", "2.5"), ("a", "x")]:
        entry = {"fields": {"sku": sku, "price": price, "note": "n"}}
        await shared.http.post(f"{ORDERS}/entries", json=entry)

    wanted = '{"any": [{"exact": {"sku": "b"}}, {"range": {"price": {"lt": 2}}}]}'
    answer = await read_arrow(shared, "orders", f"columns=price&filter={wanted}")

    fields = [row["fields"] for row in table_in(answer).to_pylist()]
    assert fields == [[(b"price", b"1")], [(b"price", b"2.5")]]
