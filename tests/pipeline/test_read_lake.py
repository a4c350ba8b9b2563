"""`headgate.read_lake`: archived entries, as a table with types; no gateway, no Spark."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate
from headgate.client.lake import NotInLake
from headgate.client.tables import PackageMissing
from headgate.pipeline.lake import Held, Lake
from headgate.pipeline.lakefile import files_of, write_rows

Pairs = Sequence[tuple[str, bytes]]


def archive(lake: Lake, stream: str, entries: Sequence[tuple[str, Pairs]], batch: int) -> None:
    """Commit entries to a lake, as `archive` does."""
    ids = [entry_id for entry_id, _ in entries]
    parts = [[int(part) for part in entry_id.split("-")] for entry_id in ids]
    columns: dict[str, Any] = {
        "stream": pa.array([stream] * len(ids)),
        "id": pa.array(ids),
        "ms": pa.array([ms for ms, _ in parts]),
        "seq": pa.array([seq if seq < 2**63 else None for _, seq in parts], pa.int64()),
        "timestamp": pa.array(
            [ms * 1000 if ms < 2**53 else None for ms, _ in parts], pa.timestamp("us", "UTC")
        ),
        "fields": pa.array([pairs for _, pairs in entries], pa.map_(pa.string(), pa.binary())),
    }
    files = files_of(write_rows([pa.RecordBatch.from_pydict(columns)], lake.path, {}))
    held = Held("1", "0-0", ids[-1])
    assert lake.commit(files, query=f"test/{stream}", batch=batch, ranges={stream: held})


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A lake of two streams, written in two commits."""
    lake = Lake.open_or_create(tmp_path / "lake")
    first = [
        ("1000-0", [("sku", b"a"), ("price", b"1.5"), ("n", b"1")]),
        ("1000-3", [("sku", b"b"), ("price", b"2"), ("n", b"2"), ("n", b"3")]),
    ]
    archive(lake, "orders", first, 0)
    late = f"1000-{2**64 - 1}"
    second = [(late, [("sku", b"c")]), ("90000000-0", [("sku", b"d"), ("price", b"-4")])]
    archive(lake, "orders", second, 1)
    archive(lake, "blobs", [("7-0", [("data", b"\xff")])], 0)
    return lake.path


def test_fields_are_columns_of_their_types_in_the_order_of_the_ids(lake: str) -> None:
    table = headgate.read_lake(lake, "orders")
    assert table["_id"].to_pylist() == ["1000-0", "1000-3", f"1000-{2**64 - 1}", "90000000-0"]
    assert table["sku"].to_pylist() == ["a", "b", "c", "d"]
    assert table["price"].to_pylist() == [1.5, 2.0, None, -4.0]
    assert table["n"].to_pylist() == [1, 3, None, None]
    assert str(table["_time"][0].as_py()) == "1970-01-01 00:00:01+00:00"
    assert headgate.read_lake(lake, "blobs")["data"].to_pylist() == [b"\xff"]


def test_a_schema_says_the_columns_and_bounds_the_rows(lake: str) -> None:
    table = headgate.read_lake(
        lake, "orders", start="1000-1", end="1000", schema={"price": "float32", "missing": "string"}
    )
    assert table.column_names == ["_id", "_time", "price", "missing"]
    assert table["_id"].to_pylist() == ["1000-3", f"1000-{2**64 - 1}"]
    assert table.schema.field("price").type == pa.float32()
    assert len(headgate.read_lake(lake, "orders", start="1001", end="2000")) == 0
    with pytest.raises(ValueError, match="'sku' is not always int64"):
        headgate.read_lake(lake, "orders", schema={"sku": "int64"})
    with pytest.raises(ValueError, match="'soon' is not an id"):
        headgate.read_lake(lake, "orders", start="soon")


def test_what_is_not_there_is_named(lake: str, tmp_path: Path) -> None:
    with pytest.raises(NotInLake, match="holds nothing of the stream 'order'"):
        headgate.read_lake(lake, "order")
    with pytest.raises(NotInLake, match="is not a lake"):
        headgate.read_lake(tmp_path, "orders")


def test_a_missing_package_is_named(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(PackageMissing, match=r"extra headgate\[lake\]"):
        headgate.read_lake(lake, "orders")
