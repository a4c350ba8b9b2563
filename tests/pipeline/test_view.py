"""Views: what any reader of Delta tables sees of a stream, with nothing of ours to read it."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from headgate.pipeline.cli import main
from headgate.pipeline.lake import Lake
from headgate.pipeline.offsets import parse_id
from headgate.pipeline.views.table import ViewConflict, field_name
from headgate.pipeline.views.view import View
from tests.pipeline.gateway import Gateway
from tests.pipeline.test_cold_tier import archive as archive_stream
from tests.pipeline.test_read_lake import Pairs, archive

FIRST: list[tuple[str, Pairs]] = [
    ("1000-0", [("sku", b"007"), ("price", b"1.5"), ("n", b"1"), ("paid", b"true")]),
    ("1000-3", [("sku", b"b"), ("price", b"2"), ("n", b"2"), ("n", b"3"), ("paid", b"false")]),
]
SECOND: list[tuple[str, Pairs]] = [
    (f"1000-{2**64 - 1}", [("sku", b"c"), ("n", b"4")]),
    ("90000000-0", [("sku", b"d"), ("price", b"-4"), ("region", b"eu")]),
]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open_or_create(tmp_path / "lake")
    archive(lake, "orders", FIRST, 0)
    return lake


def view(lake: Lake, *words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, ["view", "--lake", lake.path, "--json", *words])
    assert done.exit_code == 0, done.output
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def refusal(lake: Lake, *words: str) -> str:
    done = CliRunner().invoke(main, ["view", "--lake", lake.path, *words])
    assert done.exit_code == 1
    return done.stderr.splitlines()[-1]


def seen(lake: Lake, stream: str = "orders") -> pd.DataFrame:
    frame: pd.DataFrame = DeltaTable(f"{lake.path}-views/{stream}").to_pandas()
    order = frame["_id"].map(parse_id)
    return frame.loc[order.sort_values().index].reset_index(drop=True)


def test_any_reader_sees_typed_columns(lake: Lake) -> None:
    [row] = view(lake)
    table = f"{lake.path}-views/orders"
    done = {"stream": "orders", "added": 2, "rescued": 0, "widened": None, "table": table}
    assert row == done
    frame = seen(lake)
    assert frame["_id"].tolist() == ["1000-0", "1000-3"]
    assert frame["_time"][0] == pd.Timestamp("1970-01-01T00:00:01Z")
    assert frame["sku"].tolist() == ["007", "b"]
    assert frame["price"].tolist() == [1.5, 2.0]
    assert (frame["n"].tolist(), str(frame["n"].dtype)) == ([1, 3], "int64")
    assert (frame["paid"].tolist(), str(frame["paid"].dtype)) == ([True, False], "bool")
    assert DeltaTable(row["table"]).protocol().min_reader_version == 1
    assert pl.read_delta(row["table"])["price"].sum() == 3.5


def test_a_run_adds_what_was_archived_since_and_nothing_twice(lake: Lake) -> None:
    view(lake)
    archive(lake, "orders", SECOND, 1)
    archive(lake, "blobs", [("7-0", [("data", b"\xff")])], 0)
    assert [row["added"] for row in view(lake)] == [1, 2]
    version = DeltaTable(f"{lake.path}-views/orders").version()
    assert [row["added"] for row in view(lake)] == [0, 0]
    assert DeltaTable(f"{lake.path}-views/orders").version() == version
    frame = seen(lake)
    assert frame["_id"].tolist() == ["1000-0", "1000-3", f"1000-{2**64 - 1}", "90000000-0"]
    assert frame["n"].tolist()[:3] == [1, 3, 4]
    assert frame["region"].tolist() == [None, None, None, "eu"]
    assert seen(lake, "blobs")["data"].tolist() == [b"\xff"]


def test_a_column_widens_in_one_commit_and_old_rows_stay_what_they_were(lake: Lake) -> None:
    view(lake)
    before, version = seen(lake), DeltaTable(f"{lake.path}-views/orders").version()
    archive(lake, "orders", [("2000-0", [("n", b"2.5"), ("price", b"many")])], 1)
    [row] = view(lake)
    assert (row["added"], row["rescued"]) == (1, 0)
    assert row["widened"] == "n: int to float; price: float to text"
    frame = seen(lake)
    assert frame["n"].tolist() == [1.0, 3.0, 2.5]
    assert frame["price"].tolist() == ["1.5", "2", "many"]
    assert frame["sku"].tolist()[:2] == before["sku"].tolist()
    table = DeltaTable(f"{lake.path}-views/orders")
    assert table.protocol().min_reader_version == 1
    assert pl.read_delta(table.table_uri)["n"].sum() == 6.5
    assert [entry["version"] for entry in table.history() if entry["operation"] == "WRITE"] == [
        version + 1,
        version,
    ]
    table.load_as_version(version)  # as somebody reads who began before
    assert table.to_pandas()["n"].sort_values().tolist() == before["n"].tolist()


VALUES = {
    "int": b"3",
    "exact to 64 bits": b"9007199254740993",
    "beyond 64 bits": b"18446744073709551616",
    "39 digits": b"9" * 39,
    "float": b"3.50",
    "longer than a float": b"0.12345678901234567890",
    "nan": b"nan",
    "NaN": b"NaN",
    "zeros": b"007",
    "bool": b"true",
    "time": b"2024-02-29T12:00:00.25+02:00",
    "no time": b"2024-02-30T12:00:00Z",
    "text": "\u00fc".encode(),
    "bytes": b"\xff\x00",
}


def is_kept(value: bytes, column: object, rescued: str | None) -> bool:
    """Return whether a row says what its entry says."""
    if rescued is not None:
        text = json.loads(rescued)["v"]
        return column is None and text.encode() in (value, b"base64:" + base64.b64encode(value))
    if isinstance(column, bytes):
        return column == value
    text = value.decode()
    if isinstance(column, str):
        return column == text
    if isinstance(column, bool):
        return text == str(column).lower()
    if isinstance(column, dt.datetime):
        moment = dt.datetime.fromisoformat(text)
        return column == (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC))
    if isinstance(column, float) and math.isnan(column):
        return text == "nan"
    assert isinstance(column, int | float | Decimal)
    return Decimal(repr(column) if isinstance(column, float) else column) == Decimal(text)


@pytest.mark.parametrize("first", VALUES)
def test_whatever_comes_later_no_value_is_lost(tmp_path: Path, first: str) -> None:
    lake = Lake.open_or_create(tmp_path / "lake")
    streams = {f"{number}": value for number, value in enumerate(VALUES.values())}
    for stream, later in streams.items():
        view = View(lake, stream, f"{lake.path}-views")
        archive(lake, stream, [("1-0", [("v", VALUES[first])]), ("2-0", [("w", b"")])], 0)
        view.update()
        archive(lake, stream, [("3-0", [("v", later)])], 1)
        assert view.update().added == 1
        table = DeltaTable(view.path).to_pyarrow_table()
        rows = {row["_id"]: row for row in table.sort_by("_id").to_pylist()}
        assert is_kept(VALUES[first], rows["1-0"]["v"], rows["1-0"]["_rescued"])
        assert is_kept(later, rows["3-0"]["v"], rows["3-0"]["_rescued"])
        assert (rows["2-0"]["v"], rows["2-0"]["w"]) == (None, "")


def test_bytes_among_text_are_rescued_and_text_among_bytes_is_bytes(lake: Lake) -> None:
    archive(lake, "blobs", [("7-0", [("data", b"\xff")])], 0)
    view(lake)
    archive(lake, "orders", [("2000-0", [("n", b"\xfe"), ("sku", b"\xff")])], 1)
    archive(lake, "blobs", [("8-0", [("data", b"text")])], 1)
    [blobs, orders] = view(lake)
    assert (blobs["rescued"], orders["rescued"], orders["widened"]) == (0, 1, None)
    assert seen(lake, "blobs")["data"].tolist() == [b"\xff", b"text"]
    frame = seen(lake)
    assert frame["sku"].tolist() == ["007", "b", None]
    assert json.loads(frame["_rescued"][2]) == {"n": "base64:/g==", "sku": "base64:/w=="}


def test_a_field_that_is_gone_leaves_its_column(lake: Lake) -> None:
    view(lake)
    archive(lake, "orders", [("2000-0", [("sku", b"e")]), ("2001-0", [("n", b"9")])], 1)
    assert view(lake)[0]["widened"] is None
    assert seen(lake)["price"].isna().tolist() == [False, False, True, True]


def test_a_view_that_has_more_than_the_lake_rescues_and_loses_nothing(
    lake: Lake, tmp_path: Path
) -> None:
    views = str(tmp_path / "views")
    view(lake, "--to", views)
    less = Lake.open_or_create(tmp_path / "less")
    archive(less, "orders", [*FIRST[1:], ("2000-0", [("n", b"many")])], 0)
    [row] = view(less, "--to", views)
    assert (row["added"], row["rescued"], row["widened"]) == (1, 1, None)
    frame = DeltaTable(f"{views}/orders").to_pandas().set_index("_id")
    assert frame["n"].to_dict() == pytest.approx({"1000-0": 1, "1000-3": 3, "2000-0": float("nan")},
                                                 nan_ok=True)  # fmt: skip
    assert json.loads(frame["_rescued"]["2000-0"]) == {"n": "many"}


def test_a_type_can_be_chosen_and_the_others_are_inferred(lake: Lake) -> None:
    words = ["--column", "price=decimal(4,2)", "--column", "missing=timestamp[us, tz=UTC]"]
    view(lake, *words)
    frame = seen(lake)
    columns = ["_id", "_time", "_rescued", "price", "missing", "sku", "n", "paid"]
    assert list(frame.columns) == columns
    assert frame["price"].tolist() == [Decimal("1.50"), Decimal("2.00")]
    archive(lake, "orders", [("2000-0", [("price", b"123.45"), ("n", b"1.5")])], 1)
    assert "has other columns" in refusal(lake, "--column", "price=int64")
    [row] = view(lake)  # it knows what was chosen
    assert (row["rescued"], row["widened"]) == (1, "n: int to float")
    assert json.loads(seen(lake)["_rescued"][2]) == {"price": "123.45"}
    assert view(lake, *words)[0]["added"] == 0
    assert view(lake, "--column", "price=text", "--anew")[0]["added"] == 3
    assert seen(lake)["price"].tolist() == ["1.5", "2", "123.45"]


def test_types_can_be_those_of_the_schema_of_the_stream(
    gateway: Gateway, name: str, tmp_path: Path
) -> None:
    kinds: dict[str, Any] = {
        "sku": {"type": "string"},
        "price": {"$ref": "#/$defs/amount"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array"},
        "any": {},
    }
    amount = {"type": ["number", "integer", "null"]}
    schema = {"properties": kinds, "$defs": {"amount": amount}}
    url = f"/v1/streams/{name}/schema"
    gateway.http.put(url, json={"schema": schema}).raise_for_status()
    row = {"sku": "007", "price": "2", "at": "2026-11-30T08:00:00Z", "tags": "[1]", "any": "1"}
    [entry_id] = gateway.append(name, [row])
    archive_stream(gateway, name, entry_id, tmp_path / "lake")
    lake = Lake(tmp_path / "lake")

    view(lake, "--schema", "--url", gateway.url)

    [seen_row] = seen(lake, name).to_dict("records")
    assert [seen_row[each] for each in ("sku", "price", "tags", "any")] == ["007", 2.0, "[1]", 1]
    assert seen_row["at"].isoformat() == "2026-11-30T08:00:00+00:00"
    assert view(lake, "--schema", "--url", gateway.url)[0]["added"] == 0


def test_fields_can_be_chosen(lake: Lake) -> None:
    archive(lake, "orders", [("2000-0", [("a,b", b"x"), ("c", b"y")])], 1)
    words = ["--only", 'n,"a,b"', "--column", "price=float"]
    view(lake, *words)
    assert list(seen(lake).columns) == ["_id", "_time", "_rescued", "price", "n", "a~2Cb"]
    archive(lake, "orders", [("3000-0", [("d", b"z")])], 2)
    assert view(lake)[0]["added"] == 1
    assert "d" not in seen(lake).columns
    assert view(lake, *words)[0]["added"] == 0
    assert "has other columns" in refusal(lake, "--only", "n")


NAMES = [
    *("unit price", "a,b", "a;b", "", "\t", "\n", "{}", "()", "a=b", "~", "~20", "a~20b", "a b"),
    *("Price", "price", "PRICE", "\u00c4", "\u00e4", "_id", "_time", "_rescued", "a.b", "`a`", '"'),
]


def test_fields_of_any_name_are_columns_that_say_their_field(lake: Lake) -> None:
    archive(lake, "names", [("1-0", [(name, name.encode()) for name in NAMES[:12]])], 0)
    view(lake, "--streams", "names")
    archive(lake, "names", [("2-0", [(name, name.encode()) for name in NAMES])], 1)
    view(lake, "--streams", "names")
    table = DeltaTable(f"{lake.path}-views/names")
    row = next(row for row in table.to_pyarrow_table().to_pylist() if row["_id"] == "2-0")
    assert {field_name(name): value for name, value in row.items() if name[0] != "_"} == {
        name: name for name in NAMES
    }
    assert row["unit~20price"] == "unit price"
    names = [column.name for column in table.schema().fields]
    assert len({name.lower() for name in names}) == len(names) == len(NAMES) + 3
    notes = {column.metadata.get("headgate.field"): column.name for column in table.schema().fields}
    assert notes["unit price"] == "unit~20price"
    assert len(pl.read_delta(table.table_uri)) == 2


def test_the_trouble_of_one_stream_stops_no_other(lake: Lake) -> None:
    archive(lake, "blobs", [("7-0", [("data", b"\xff")])], 0)
    archive(lake, "zebras", [("7-0", [("data", b"1")])], 0)
    Path(f"{lake.path}-views").mkdir()
    for stream in ("blobs", "orders"):
        Path(f"{lake.path}-views/{stream}").write_text("no folder")
    done = CliRunner().invoke(main, ["view", "--lake", lake.path, "--json"])
    assert done.exit_code == 1
    assert [row["added"] for row in json.loads(done.stdout)] == [0, 0, 1]
    troubles = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert [line.split(":")[1] for line in troubles] == [" blobs", " orders"]


def test_what_the_lake_lacks_and_what_is_no_column_are_told(lake: Lake) -> None:
    assert "holds nothing of the stream 'order'" in refusal(lake, "--streams", "order")
    words = ["view", "--lake", lake.path, "--column", "price"]
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, "as price=float64" in done.stderr) == (2, True)
    done = CliRunner().invoke(main, [*words[:-1], "price=money"])
    assert done.exit_code == 2
    assert "'money' is no type: there are text, bytes, int" in done.stderr.splitlines()[-1]


def test_a_run_that_was_killed_goes_on(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(lake, "orders", SECOND, 1)
    monkeypatch.setattr("headgate.pipeline.views.view.PORTION_ENTRIES", 1)
    views = f"{lake.path}-views"

    def end(_count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        View(lake, "orders", views).update(on_progress=end)
    assert View(lake, "orders", views).update().added == 2
    assert len(seen(lake)) == 4


def test_a_run_that_was_killed_while_a_column_widened_changed_nothing(lake: Lake) -> None:
    view(lake)
    before = seen(lake)
    archive(lake, "orders", [("2000-0", [("n", b"many")])], 1)

    def end(_count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, DeltaError)):
        View(lake, "orders", f"{lake.path}-views").update(on_progress=end)
    assert seen(lake).equals(before)
    assert view(lake)[0]["added"] == 1
    assert seen(lake)["n"].tolist() == ["1", "3", "many"]


def test_of_two_runs_at_the_same_moment_the_second_adds_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(lake, "orders", SECOND, 1)
    monkeypatch.setattr("headgate.pipeline.views.view.PORTION_ENTRIES", 1)
    views = f"{lake.path}-views"

    def run_another(_count: int) -> None:
        View(lake, "orders", views).update()

    with pytest.raises(ViewConflict, match="another one wrote"):
        View(lake, "orders", views).update(on_progress=run_another)
    assert len(seen(lake)) == 4
