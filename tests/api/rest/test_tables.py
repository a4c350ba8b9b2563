"""Tables: rows over REST, their conditions, pages, lines, waits and refusals."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx
import pyarrow as pa
import pytest
import pytest_asyncio

from tests.api.conftest import Live, refusal_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

STOCK = "/v1/streams/stock"
TABLE = f"{STOCK}/table"


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def stock(shared: Live) -> None:
    await shared.ask(f"PUT {STOCK}", {"key_field": "sku"})


async def put(live: Live, key: str, count: str, **headers: str) -> httpx.Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    fields = {"fields": {"count": count}}
    return await live.http.put(f"{TABLE}/{quote(key)}", json=fields, headers=names)


async def test_a_row_has_its_key_its_id_and_its_fields(shared: Live) -> None:
    written = await put(shared, "42", "3")
    entry_id = written.json()["id"]
    assert (written.status_code, written.json()) == (200, {"key": "42", "id": entry_id})
    row = await shared.http.get(f"{TABLE}/42")
    assert row.json() == {"key": "42", "id": entry_id, "fields": {"sku": "42", "count": "3"}}
    assert row.headers["ETag"] == written.headers["ETag"] == f'"{entry_id}"'
    described = await shared.ask(f"GET {STOCK}")
    assert described["table"] == {"rows": 1, "indexed_through": entry_id, "is_complete": True}


@pytest.mark.parametrize("key", ["eu/42", "a b%", "ü", "base64:x", "table/1"])
async def test_a_key_is_any_text(shared: Live, key: str) -> None:
    await shared.ask(f"POST {STOCK}/entries", {"fields": {"sku": key}})
    [row] = (await shared.ask(f"GET {TABLE}"))["rows"]
    for path in (quote(row["key"]), quote(row["key"], safe="")):
        assert (await shared.ask(f"GET {TABLE}/{path}"))["fields"] == {"sku": key}


@pytest.mark.parametrize("value", ["/w==", ""])
async def test_a_key_that_is_no_text_is_base64(shared: Live, value: str) -> None:
    entry = {"fields": {"sku": value}, "base64": ["sku"]}
    await shared.ask(f"POST {STOCK}/entries", entry)
    [row] = (await shared.ask(f"GET {TABLE}"))["rows"]
    assert row["key"] == f"base64:{value}"
    assert (await shared.ask(f"GET {TABLE}/{row['key']}"))["id"] == row["id"]


async def test_a_row_is_changed_only_as_it_was_seen(shared: Live) -> None:
    first = await put(shared, "42", "3", If_None_Match="*")
    second = await put(shared, "42", "4", If_Match=first.headers["ETag"])
    late = await put(shared, "42", "5", If_Match=first.headers["ETag"])
    assert refusal_of(late)[:2] == (412, "row_changed")
    row = {"key": "42", "id": second.json()["id"], "fields": {"sku": "42", "count": "4"}}
    assert late.json()["row"] == row
    deleted = await shared.http.delete(f"{TABLE}/42", headers={"If-Match": second.headers["ETag"]})
    assert deleted.status_code == 200
    gone = await put(shared, "42", "5", If_Match=second.headers["ETag"])
    assert (refusal_of(gone)[:2], "row" in gone.json()) == ((412, "row_changed"), False)


async def test_a_repeat_under_a_key_changes_nothing(shared: Live) -> None:
    key = {"Idempotency_Key": "k1"}
    first = await put(shared, "42", "3", **key, If_None_Match="*")
    again = await put(shared, "42", "3", **key, If_None_Match="*")
    assert again.json() == first.json()
    assert again.headers["Idempotent-Replayed"] == "true"
    assert refusal_of(await put(shared, "42", "4", **key))[:2] == (422, "idempotency_mismatch")
    assert refusal_of(await put(shared, "43", "3", **key))[:2] == (422, "idempotency_mismatch")


async def test_pages_and_lines_show_the_table_as_of_one_id(shared: Live) -> None:
    for key in ("a", "b", "c"):
        await put(shared, key, "1")
    page = await shared.ask(f"GET {TABLE}?limit=2&columns=count")
    assert [row["fields"] for row in page["rows"]] == [{"count": "1"}, {"count": "1"}]
    await put(shared, "c", "2")
    await put(shared, "d", "1")
    rest = await shared.ask(f"GET {TABLE}?after_key={page['next_after_key']}&as_of={page['as_of']}")
    assert [row["fields"]["count"] for row in rest["rows"]] == ["1"]
    assert rest["next_after_key"] is None
    lines = await shared.http.get(
        f"{TABLE}?limit=1000000", headers={"Accept": "application/x-ndjson"}
    )
    rows = [json.loads(line) for line in lines.text.splitlines()]
    assert [row["key"] for row in rows] == ["a", "b", "c", "d"]
    last_id = (await shared.ask(f"GET {STOCK}"))["last_id"]
    assert lines.headers["Headgate-As-Of"] == last_id
    wanted = quote('{"exact":{"count":"2"}}')
    some = await shared.ask(f"GET {TABLE}?filter={wanted}")
    assert [row["key"] for row in some["rows"]] == ["c"]
    assert [row["key"] for row in (await shared.ask(f"GET {TABLE}?prefix=d"))["rows"]] == ["d"]


async def test_rows_come_as_arrow(shared: Live) -> None:
    for key in ("c", "a", "b"):
        await put(shared, key, "1")
    headers = {"Accept": "application/vnd.apache.arrow.stream"}
    answer = await shared.http.get(f"{TABLE}?limit=1000&columns=count", headers=headers)
    rows = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert [(row["key"], row["fields"]) for row in rows] == [
        (key, [(b"count", b"1")]) for key in (b"a", b"b", b"c")
    ]
    last_id = (await shared.ask(f"GET {STOCK}"))["last_id"]
    assert (rows[1]["id"], answer.headers["Headgate-As-Of"]) == (last_id, last_id)


async def test_a_row_can_be_waited_for(shared: Live) -> None:
    await put(shared, "a", "1")
    first = (await put(shared, "b", "1")).json()["id"]
    asked = shared.ask(f"GET {TABLE}/b?after={first}&wait_ms=20000")
    waiting = asyncio.create_task(asked)
    await shared.until_waiting(1)
    await put(shared, "a", "2")
    second = (await put(shared, "b", "2")).json()["id"]
    assert (await waiting)["id"] == second
    at_once = await shared.ask(f"GET {TABLE}/b?after={first}&wait_ms=20000")
    assert at_once["id"] == second


async def test_a_row_that_is_deleted_ends_the_wait(shared: Live) -> None:
    first = (await put(shared, "b", "1")).json()["id"]
    asked = shared.http.get(f"{TABLE}/b?after={first}&wait_ms=20000")
    waiting = asyncio.create_task(asked)
    await shared.until_waiting(1)
    await shared.ask(f"DELETE {TABLE}/b")
    assert refusal_of(await waiting)[:2] == (404, "entry_not_found")


WRONG: list[tuple[str, Any, tuple[int, str, str]]] = [
    ("GET {}/42", None, (404, "entry_not_found", "/path/key")),
    ("DELETE {}/42", None, (404, "entry_not_found", "/path/key")),
    ("GET {}?as_of=1-0", None, (410, "gone", "")),
    ("GET {}?as_of=99999999999999-0", None, (410, "gone", "")),
    ("GET {}?limit=0", None, (422, "invalid_request", "/query/limit")),
    ("GET {}?limit=1000000", None, (422, "invalid_request", "/query/limit")),
    ("GET {}/42?wait_ms=1", None, (422, "invalid_request", "/query/wait_ms")),
    ("GET {}/base64:?", None, (422, "invalid_request", "/path/key")),
    ("PUT {}/42", {"fields": {"sku": "43"}}, (422, "invalid_request", "/body/fields")),
    ("PUT {}/42", {"fields": {"deleted": "1"}}, (422, "invalid_request", "/body/fields")),
    ("PUT {}/" + "k" * 1_025, {"fields": {}}, (422, "invalid_request", "/path/key")),
    ("PUT {}/42", {"id": "1-0"}, (422, "invalid_request", "/body/id")),
]


@pytest.mark.parametrize(("line", "body", "refusal"), WRONG)
async def test_what_makes_no_sense_is_refused(
    shared: Live, line: str, body: Any, refusal: tuple[int, str, str]
) -> None:
    await put(shared, "1", "1")
    method, path = line.format(TABLE).split(" ", 1)
    answer = await shared.http.request(method, path.replace("base64:?", "base64:%3F"), json=body)
    assert refusal_of(answer)[:3] == refusal
    assert len((await shared.ask(f"GET {TABLE}"))["rows"]) == 1


async def test_a_stream_without_a_key_field_is_no_table(shared: Live) -> None:
    await shared.append("orders", "1")
    answer = await shared.http.get("/v1/streams/orders/table")
    assert refusal_of(answer)[:2] == (409, "wrong_type")
    assert "key_field" in answer.json()["detail"]
