"""Views: what any reader of Delta tables sees of a stream, with nothing of ours to read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from headgate.pipeline.cli import main
from headgate.pipeline.lake import Lake
from headgate.pipeline.offsets import parse_id
from headgate.pipeline.view import View, ViewConflict
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
    assert (done.exit_code, done.stdout) == (1, "")
    return done.stderr.splitlines()[-1]


def seen(lake: Lake, stream: str = "orders") -> pd.DataFrame:
    frame: pd.DataFrame = DeltaTable(f"{lake.path}-views/{stream}").to_pandas()
    order = frame["_id"].map(parse_id)
    return frame.loc[order.sort_values().index].reset_index(drop=True)


def test_any_reader_sees_typed_columns(lake: Lake) -> None:
    [row] = view(lake)
    assert row == {"stream": "orders", "added": 2, "table": f"{lake.path}-views/orders"}
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


def test_a_value_that_does_not_fit_is_named_and_nothing_changes(lake: Lake) -> None:
    view(lake)
    archive(lake, "orders", [("2000-0", [("sku", b"e"), ("n", b"many")])], 1)
    text = refusal(lake)
    assert text.startswith("Error: orders: the field 'n' is not always int64")
    assert text.endswith("--anew finds types that fit")
    assert len(seen(lake)) == 2
    assert view(lake, "--anew")[0]["added"] == 3
    assert seen(lake)["n"].tolist() == ["1", "3", "many"]


def test_columns_can_be_chosen_with_their_types(lake: Lake) -> None:
    words = ["--streams", "orders", "--column", "n=float64", "--column", "missing=string"]
    view(lake, *words)
    frame = seen(lake)
    assert list(frame.columns) == ["_id", "_time", "n", "missing"]
    assert str(frame["n"].dtype) == "float64"
    archive(lake, "orders", SECOND, 1)
    assert "has other columns" in refusal(lake, "--column", "n=int64")
    assert view(lake, *words)[0]["added"] == 2
    assert view(lake, "--column", "n=int64", "--anew")[0]["added"] == 4
    assert list(seen(lake).columns) == ["_id", "_time", "n"]


def test_names_that_no_table_can_have_are_refused(lake: Lake) -> None:
    archive(lake, "orders", [("2000-0", [("unit price", b"1")])], 1)
    assert "no column 'unit price'" in refusal(lake)
    assert view(lake, "--column", "sku=string")[0]["added"] == 3


def test_what_the_lake_lacks_and_what_is_no_column_are_told(lake: Lake) -> None:
    assert "holds nothing of the stream 'order'" in refusal(lake, "--streams", "order")
    words = ["view", "--lake", lake.path, "--column", "price"]
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, "as price=float64" in done.stderr) == (2, True)


def test_a_run_that_was_killed_goes_on(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(lake, "orders", SECOND, 1)
    monkeypatch.setattr("headgate.pipeline.view.PORTION_ENTRIES", 1)
    views = f"{lake.path}-views"

    def end(_count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        View(lake, "orders", views).update(on_progress=end)
    assert View(lake, "orders", views).update() == 2
    assert len(seen(lake)) == 4


def test_of_two_runs_at_the_same_moment_the_second_adds_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(lake, "orders", SECOND, 1)
    monkeypatch.setattr("headgate.pipeline.view.PORTION_ENTRIES", 1)
    views = f"{lake.path}-views"

    def run_another(_count: int) -> None:
        View(lake, "orders", views).update()

    with pytest.raises(ViewConflict, match="another one wrote"):
        View(lake, "orders", views).update(on_progress=run_another)
    assert len(seen(lake)) == 4
