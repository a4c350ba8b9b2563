"""Latest views: the latest entry of each key of a stream of the lake, as a Delta table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from headgate.pipeline.cli import main
from headgate.pipeline.lake import Lake
from tests.pipeline.gateway import Gateway
from tests.pipeline.test_cold_tier import archive as archive_stream
from tests.pipeline.test_read_lake import Pairs, archive

FIRST: list[tuple[str, Pairs]] = [
    ("1-0", [("sku", b"a"), ("n", b"1")]),
    ("2-0", [("sku", b"b"), ("n", b"1")]),
    ("3-0", [("n", b"0")]),
    ("4-0", [("sku", b"a"), ("n", b"2")]),
    ("5-0", [("sku", b"c"), ("n", b"1"), ("unit price", b"1.5"), ('"quoted".name', b"x")]),
]
SECOND: list[tuple[str, Pairs]] = [
    ("6-0", [("sku", b"b"), ("deleted", b"")]),
    ("7-0", [("sku", b"a"), ("n", b"3"), ("Region", b"eu")]),
    ("8-0", [("sku", b"d"), ("deleted", b"")]),
    ("9-0", [("sku", b"\xff"), ("n", b"1")]),
    ("10-0", [("sku", b"k" * 1_025), ("n", b"1")]),
]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open_or_create(tmp_path / "lake")
    archive(lake, "stock", FIRST, 0)
    return lake


def run(lake: Lake, *words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, [*words, "--lake", lake.path, "--json"])
    assert done.exit_code == 0, done.output
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def view(lake: Lake, *words: str) -> dict[str, Any]:
    [row] = run(lake, "view", "--latest", "--key", "sku", *words)
    return row


def table(lake: Lake, stream: str = "stock") -> DeltaTable:
    return DeltaTable(f"{lake.path}-views/{stream}~latest")


def seen(lake: Lake, *columns: str) -> dict[str, Any]:
    rows = table(lake).to_pyarrow_table().to_pylist()
    return {row["_key"]: tuple(row[name] for name in columns) for row in rows}


def test_new_entries_replace_the_rows_of_their_keys_once(lake: Lake) -> None:
    assert view(lake)["added"] == 5
    assert seen(lake, "_id", "n") == {"a": ("4-0", 2), "b": ("2-0", 1), "c": ("5-0", 1)}
    archive(lake, "stock", SECOND, 1)
    assert view(lake)["added"] == 5
    rows = {"a": ("7-0", 3, "eu"), "c": ("5-0", 1, None), "base64:/w==": ("9-0", 1, None)}
    assert seen(lake, "_id", "n", "Region") == rows
    version = table(lake).version()
    assert view(lake)["added"] == 0
    assert table(lake).version() == version
    assert pl.read_delta(table(lake).table_uri)["unit~20price"].sum() == 1.5


def test_portions_without_rows_are_taken_in(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    view(lake)
    monkeypatch.setattr("headgate.pipeline.views.view.PORTION_ENTRIES", 1)
    archive(lake, "stock", [("6-0", [("n", b"0")]), ("7-0", [("n", b"0")])], 1)
    archive(lake, "stock", [("8-0", [("sku", b"b"), ("deleted", b"")])], 2)
    archive(lake, "stock", [("9-0", [("sku", b"b"), ("n", b"4")])], 3)
    assert view(lake)["added"] == 4
    assert seen(lake, "_id").keys() == {"a", "b", "c"}
    assert view(lake)["added"] == 0


def test_a_column_widens_and_rows_stay_the_latest(lake: Lake) -> None:
    view(lake)
    archive(lake, "stock", [("6-0", [("sku", b"b"), ("n", b"many")])], 1)
    assert view(lake)["widened"] == "n: int to text"
    assert seen(lake, "n") == {"a": ("2",), "b": ("many",), "c": ("1",)}
    assert view(lake, "--anew")["added"] == 6
    assert seen(lake, "n") == {"a": ("2",), "b": ("many",), "c": ("1",)}


def test_what_is_forgotten_or_too_old_is_in_no_row(lake: Lake) -> None:
    view(lake)
    [row] = run(lake, "forget", "--where", "sku=a", "--url", "http://127.0.0.1:1")
    assert row["of_view"] == 1
    assert seen(lake, "_id").keys() == {"b", "c"}
    archive(lake, "stock", [("6-0", [("sku", b"d")])], 1)
    view(lake)
    assert seen(lake, "_id").keys() == {"b", "c", "d"}
    run(lake, "retention", "--older-than", "1d")
    assert seen(lake, "_id") == {}


def test_the_table_notes_its_key(lake: Lake) -> None:
    view(lake)
    archive(lake, "stock", SECOND, 1)
    assert run(lake, "view", "--latest", "--url", "http://127.0.0.1:1")[0]["added"] == 5
    archive(lake, "stock", [("11-0", [("sku", b"z")])], 2)
    done = CliRunner().invoke(main, ["view", "--lake", lake.path, "--latest", "--key", "n"])
    assert "has rows by sku, which end by deleted: --anew writes it again" in done.stderr
    assert view(lake, "--tombstone", "Region", "--anew")["added"] == 11
    assert seen(lake, "_id").keys() == {"b", "c", "d", "base64:/w==", "z"}


def test_a_first_run_asks_the_gateway_for_the_key(
    gateway: Gateway, name: str, tmp_path: Path
) -> None:
    config = {"key_field": "at", "tombstone_field": "gone"}
    gateway.http.put(f"/v1/streams/{name}", json=config).raise_for_status()
    ids = gateway.append(name, [{"at": "x", "n": "1"}, {"at": "y"}, {"at": "y", "gone": ""}])
    archive_stream(gateway, name, ids[-1], tmp_path / "lake")
    lake = Lake(tmp_path / "lake")
    run(lake, "view", "--latest", "--url", gateway.url)
    [row] = table(lake, name).to_pyarrow_table().to_pylist()
    assert (row["_key"], row["_id"]) == ("x", ids[0])


def test_a_look_at_the_table_shows_its_rows(lake: Lake) -> None:
    view(lake)
    path = table(lake).table_uri
    done = CliRunner().invoke(main, ["sample", "--view", path, "--json", "--seed", "1"])
    assert done.exit_code == 0, done.output
    assert {row["_key"] for row in json.loads(done.stdout)} == {"a", "b", "c"}
