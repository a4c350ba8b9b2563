"""Tables in and out of streams, and a load of one's own."""

import json
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.api.commands.command_line import separately
from tests.api.conftest import Live

CSV = 'sku,price,note\n007,1.50,\n8,2,"two\nlines"\n'
ROWS = [{"sku": "007", "price": "1.50"}, {"sku": "8", "price": "2", "note": "two\nlines"}]
LINES = (
    '{"sku": "007", "price": 1.50, "note": null}\n'
    '\n{"sku": "8", "price": 2, "note": "two\\nlines"}\n'
)


async def fields_in(live: Live, stream: str) -> list[dict[str, str]]:
    entries = (await live.http.get(f"/v1/streams/{stream}/entries")).json()["entries"]
    return [entry["fields"] for entry in entries]


@pytest.mark.parametrize(("name", "text"), [("rows.csv", CSV), ("rows.ndjson", LINES)])
async def test_text_is_appended_as_it_is(live: Live, tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)

    assert await separately(live.url, "load", "readings", str(file)) == (0, "2 rows appended\n", "")
    assert await fields_in(live, "readings") == ROWS


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
async def test_a_dump_is_loaded_under_its_ids(live: Live, tmp_path: Path, ending: str) -> None:
    ids = await live.append("orders", "1", "2", "3")
    file = str(tmp_path / f"orders.{ending}")

    dumped = await separately(live.url, "dump", "orders", file, "--json")
    loaded = await separately(live.url, "load", "copies", file)

    assert json.loads(dumped.output) == {"rows": 3}
    assert (loaded.code, loaded.error) == (0, "")
    entries = (await live.http.get("/v1/streams/copies/entries")).json()["entries"]
    assert [(entry["id"], entry["fields"]["v"]) for entry in entries] == [
        (ids[0], "1"),
        (ids[1], "2"),
        (ids[2], "3"),
    ]


async def test_columns_have_types(live: Live, tmp_path: Path) -> None:
    await live.append("orders", "1", "2")
    file = tmp_path / "orders.parquet"

    await separately(live.url, "dump", "orders", str(file))
    inferred = parquet.read_schema(file)
    await separately(live.url, "dump", "orders", str(file), "--column", "v=float64")
    chosen = parquet.read_schema(file)

    assert [str(inferred.field(name).type) for name in ("_id", "v")] == ["string", "int64"]
    assert str(chosen.field("v").type) == "double"


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("rows.csv", "a,b\n1,2,3\n", "line 2 has more cells than the first line"),
        ("rows.ndjson", "[]\n", "line 1 is not a JSON object"),
        ("rows.ndjson", "{\n", "line 1 is not valid JSON"),
        ("rows.parquet", "no", "Parquet"),
    ],
)
async def test_what_is_wrong_with_a_file_is_one_line(
    live: Live, tmp_path: Path, name: str, text: str, fault: str
) -> None:
    file = tmp_path / name
    file.write_text(text)

    ended = await separately(live.url, "load", "readings", str(file))

    assert (ended.code, ended.output) == (1, "")
    assert fault in ended.error
    assert ended.error.startswith("Error: ")


async def test_a_bench_measures_and_leaves_nothing(live: Live) -> None:
    words = ["--for", "100ms", "--batch", "10", "--writers", "2"]

    report = json.loads((await separately(live.url, "bench", *words, "--json")).output)
    assert report["appended"]["entries"] == report["delivered"]["entries"] > 0
    assert report["delivered"]["p50_ms"] <= report["delivered"]["p99_ms"]
    assert (await live.http.get("/v1/streams")).json()["streams"] == []
