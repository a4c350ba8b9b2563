"""The lake in readers of others, as the README writes them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from headgate.pipeline.cli import main
from headgate.pipeline.lake import Lake
from tests.pipeline.gateway import ROOT
from tests.pipeline.test_read_lake import archive

ODD = "a b=ü~"
LATE = 2**63 - 1  # no calendar has a date for it
IDS = {*(f"{n}-0" for n in range(1, 7)), "90000000-0", f"{LATE}-0"}
PRICES = [f"{n}.5" for n in range(1, 7)]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lake that was compacted, and whose replaced files are there still."""
    lake = Lake.open_or_create(tmp_path / "lake")
    for n in range(1, 7):
        archive(lake, "orders", [(f"{n}-0", [("price", f"{n}.5".encode())])], n)
    archive(lake, ODD, [("90000000-0", [("blob", b"\xff")])], 0)
    archive(lake, "late", [(f"{LATE}-0", [("price", b"1")])], 0)
    [answer] = job("compact", "--lake", lake.path)
    assert answer["files_merged"] == 6
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # which is installed
    return lake.path


def job(*words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == 0, done.output
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def test_what_the_readme_says_reads_each_entry_once(lake: str) -> None:
    page = (ROOT / "pipeline" / "README.md").read_text("utf-8")
    section = page.partition("### Other readers")[2].partition("\n### ")[0]
    match = re.search(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert match is not None
    names: dict[str, Any] = {}
    exec(match[1], names)
    tables = {
        "pandas": pa.Table.from_pandas(names["by_pandas"][["stream", "id"]]),
        "polars": names["by_polars"].select("stream", "id").to_arrow(),
        "polars, lazily": names["by_polars_lazily"].select("stream", "id").collect().to_arrow(),
        "arrow": names["by_arrow"].to_table(["stream", "id"]),
        "duckdb": names["by_duckdb"].select("stream", "id").to_arrow_table(),
    }
    for reader, table in tables.items():
        assert len(table) == len(IDS), reader
        assert set(table["id"].to_pylist()) == IDS, reader
        assert set(table["stream"].to_pylist()) == {"orders", ODD, "late"}, reader
    assert sorted(names["prices"].fetchall()) == list(
        zip([f"{n}-0" for n in range(1, 7)], PRICES, strict=True)
    )


def test_values_are_bytes_for_each_reader(lake: str) -> None:
    files = [uri for uri in DeltaTable(lake).file_uris() if "stream=a" in uri]
    [by_pandas] = pd.read_parquet(files, partitioning=None)["fields"]
    assert list(by_pandas) == [("blob", b"\xff")]
    [by_polars] = pl.read_parquet(files, hive_partitioning=False)["fields"].to_list()
    assert dict(by_polars) == {"blob": b"\xff"}
    [[by_duckdb]] = duckdb.read_parquet(files, hive_partitioning=False).select("fields").fetchall()
    assert by_duckdb == {"blob": b"\xff"}


def test_the_readme_tells_what_goes_wrong_otherwise(lake: str) -> None:
    with pytest.raises(pa.ArrowTypeError, match="Field stream has incompatible types"):
        pd.read_parquet(lake)
    assert len(pd.read_parquet(lake, partitioning=None)) == len(IDS) + 6  # entries twice
    by_folder = {"orders", "a~20b~3D~C3~BC~7E", "late"}
    assert set(pl.scan_delta(lake).collect()["stream"].to_list()) == by_folder
    columns = duckdb.read_parquet(f"{lake}/**/*.parquet", hive_partitioning=True).select("stream")
    assert {name for (name,) in columns.fetchall()} == by_folder


def test_a_view_is_read_as_any_table(lake: str) -> None:
    job("view", "--lake", lake, "--streams", "orders")
    files = DeltaTable(f"{lake}-views/orders").file_uris()
    rows = duckdb.read_parquet(files).select("_id", "price").order("_id").fetchall()
    assert rows == [(f"{n}-0", n + 0.5) for n in range(1, 7)]


def test_an_iceberg_table_has_the_files_of_the_lake(lake: str) -> None:
    metadata = check_iceberg(lake, IDS, added=3, removed=0)
    [again] = job("iceberg", "--lake", lake)
    assert again == {"files": 3, "added": 0, "removed": 0, "metadata": metadata}
    opened = Lake(lake)
    for n in (7, 8):
        archive(opened, "orders", [(f"{n}-0", [("price", b"1")])], n)
    later = IDS | {"7-0", "8-0"}
    [foretold] = job("iceberg", "--lake", lake, "--dry-run")
    assert (foretold["added"], foretold["metadata"]) == (2, metadata)
    check_iceberg(lake, later, added=2, removed=0)
    job("compact", "--lake", lake)
    check_iceberg(lake, later, added=1, removed=3)


def check_iceberg(lake: str, ids: set[str], *, added: int, removed: int) -> str:
    """Update the Iceberg table and read it; returns where its metadata are."""
    [answer] = job("iceberg", "--lake", lake)
    assert (answer["added"], answer["removed"]) == (added, removed)
    metadata = str(answer["metadata"])
    table = StaticTable.from_metadata(metadata)
    rows = table.scan().to_arrow()
    assert len(rows) == len(ids)
    assert set(rows["id"].to_pylist()) == ids
    [odd] = table.scan(f"stream == '{ODD}'").to_arrow().to_pylist()
    assert odd["fields"] == [("blob", b"\xff")]
    by_polars = pl.scan_iceberg(metadata).filter(pl.col("stream") == "orders").collect()
    assert len(by_polars) == len(ids) - 2
    return metadata


def test_where_pyiceberg_is_missing_the_job_says_so(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.sql", None)
    done = CliRunner().invoke(main, ["iceberg", "--lake", lake])
    assert done.exit_code == 1
    assert done.stderr == "Error: pyiceberg is missing: pip install -e '.[spark,iceberg]'\n"
