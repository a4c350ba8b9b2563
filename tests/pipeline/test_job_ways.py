"""Jobs in memory say the same as on Spark, and start no Spark."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from vega_datasets import local_data

from headgate.pipeline.computing.entries import milliseconds_of
from headgate.pipeline.lake import Lake
from headgate.pipeline.terminal import flags
from tests.pipeline.command import Command, command
from tests.pipeline.gateway import Gateway

__all__ = ["command"]

DAY_MS = 86_400_000


@pytest.fixture
def prices(gateway: Gateway, command: Command, name: str, tmp_path: Path) -> tuple[str, str, str]:
    """A stream of real records and some odd ones, half of it in the lake only; words of both."""
    stocks = local_data.stocks()
    entries: list[dict[str, Any]] = [
        {
            "id": f"{number // 3 * DAY_MS // 7 + 1}-{number}",
            "fields": {k: str(v) for k, v in row.items()},
        }
        for number, row in enumerate(stocks.to_dict("records"))
    ]
    entries.insert(
        9, {"id": f"{2 * DAY_MS // 7 + 1}-77", "pairs": [["a", ""], ["a", "é"], ["a", ""]]}
    )
    entries.append(
        {"id": f"{2**63 - 1}-{2**64 - 2}", "fields": {"blob": "/wA="}, "base64": ["blob"]}
    )
    gateway.append_entries(name, entries[:300])
    lake = str(tmp_path / "lake")
    command.run("archive", "--streams", name, "--lake", lake)
    gateway.trim(name, max_length=100)
    gateway.append_entries(name, entries[300:])
    return "--streams", name, lake


def test_stats_in_memory_are_those_of_spark(command: Command, prices: tuple[str, str, str]) -> None:
    streams, name, lake = prices
    for words in (
        ("--window", "7d"),
        ("--window", "36h", "--lake", lake),
        ("--fields", "--lake", lake),
    ):
        ask = ("stats", streams, name, *words)
        in_memory, on_spark = command.rows(*ask), command.rows(*ask, "--spark")
        counts, estimates = (
            [row.pop("values_about", 0) for row in rows] for rows in (in_memory, on_spark)
        )
        assert len(in_memory) >= 3
        assert in_memory == on_spark
        assert counts == pytest.approx(estimates, rel=0.1)  # Spark does not count them all


def test_a_way_is_told_and_spark_is_for_much(
    command: Command, prices: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ("stats", *prices[:2], "--fields")
    _, progress = command.run(*ask)
    assert "stats: 362 entries in memory, without Spark\n" in progress
    monkeypatch.setattr(flags, "IN_MEMORY_ENTRIES_MAX", 361)
    _, progress = command.run(*ask)
    assert "stats: 362 entries on Spark, as there are many\n" in progress


def test_an_entry_that_cannot_be_read_is_named_either_way(
    gateway: Gateway, command: Command, name: str
) -> None:
    gateway.append_pairs(name, [(b"\xff", "1")])
    errors = {
        command.run("stats", "--streams", name, *way, code=1)[1].splitlines()[-1]
        for way in ((), ("--spark",))
    }
    [error] = errors
    assert error.startswith("Error: the name b'\\xff' in the entry ")
    assert error.endswith(" is no UTF-8: rename it")


def both(command: Command, *words: str) -> list[list[dict[str, Any]]]:
    """Run a job in both ways; returns its answers."""
    return [command.rows(*words), command.rows(*words, "--spark")]


@pytest.mark.parametrize(
    "words",
    [
        ("--key", "symbol"),
        ("--key", "symbol,date"),
        ("--key", "symbol", "--deleted", "symbol=AAPL"),
        ("--key", "symbol", "--deleted", "nothing=1"),
        ("--key", "a"),
        ("--key", "blob"),
        ("--key", "id"),
        ("--key", "nobody"),
    ],
)
def test_changes_in_memory_are_those_of_spark(
    command: Command, prices: tuple[str, str, str], words: Sequence[str]
) -> None:
    streams, name, lake = prices
    in_memory, on_spark = both(command, "changes", streams, name, "--lake", lake, *words)
    assert in_memory == on_spark


def test_of_ids_in_one_millisecond_the_greatest_number_is_the_latest(
    gateway: Gateway, command: Command, name: str
) -> None:
    seqs = (5, 2**63 - 1, 2**63, 9_999_999_999_999_999_999, 2**64 - 1)
    entries = [{"id": f"7-{seq}", "fields": {"id": "k", "n": str(seq)}} for seq in seqs]
    gateway.append_entries(name, entries)
    [[row], [same]] = both(command, "changes", "--streams", name, "--key", "id")
    assert (row["id"], row["_id"], row["fields"]["n"]) == ("k", f"7-{2**64 - 1}", str(2**64 - 1))
    assert row == same


def test_changes_are_written_the_same_way(
    command: Command, prices: tuple[str, str, str], tmp_path: Path
) -> None:
    words = ("changes", *prices[:2], "--key", "date", "--out")
    out = tmp_path / "state.parquet"
    tables = []
    for way in ((), ("--spark",), ()):  # each replaces what the other wrote
        [answer] = command.rows(*words, str(out), *way)
        table = pq.read_table(out).sort_by("date").replace_schema_metadata()
        assert answer["keys"] == len(table) > 50
        tables.append(table.to_pylist())
    assert tables[0] == tables[1] == tables[2]
    (out / "letters.txt").write_text("dear")
    _, error = command.run(*words, str(out), code=1)
    assert f"--out {out} has letters.txt, which no job wrote" in error


def test_a_lake_compacted_in_memory_is_that_of_spark(
    gateway: Gateway, command: Command, prices: tuple[str, str, str], tmp_path: Path
) -> None:
    streams, name, lake = prices
    command.run("archive", streams, name, "--lake", lake)
    other = f"{lake}-2"
    shutil.copytree(lake, other)
    rows = []
    for path, way in ((lake, ()), (other, ("--spark",))):
        [answer] = command.rows("compact", "--lake", path, *way)
        assert answer["files_merged"] >= 2
        batches = list(Lake(path).arrow(name))
        rows.append([row for batch in batches for row in batch.to_pylist()])
        assert command.rows("verify", streams, name, "--lake", path)[0]["verdict"] == "equal"
    assert rows[0] == rows[1]
    assert len(rows[0]) == 562
    files = [
        [(it.first_id, it.row_count, it.ms_max) for it in Lake(p).files()] for p in (lake, other)
    ]
    assert sorted(files[0]) == sorted(files[1])


def test_dead_letters_in_memory_are_those_of_spark(
    gateway: Gateway, command: Command, name: str, tmp_path: Path
) -> None:
    origin = [("_stream", "orders"), ("_id", "1-0"), ("_group", "g"), ("_reason", "expired")]
    gateway.append_pairs(name, [*origin, ("_deliveries", "3"), ("n", "1"), ("n", "2")])
    gateway.append_pairs(name, [*origin, ("_deliveries", "often"), ("_error", b"\xff\xfe!")])
    gateway.append_pairs(name, [("n", "no dead letter")])
    words = ("deadletters", "--streams", name)
    in_memory, on_spark = both(command, *words)
    assert in_memory == on_spark
    assert [(row["deliveries"], row["fields"]) for row in in_memory] == [
        (3, {"n": "2"}),
        (None, {}),
    ]
    for way in ((), ("--spark",)):
        command.run(*words, "--out", str(tmp_path / "dead"), *way)
        assert pq.read_table(tmp_path / "dead").num_rows == 2
    for redriven in both(command, *words, "--redrive", "--dry-run"):
        assert redriven == [{"origin": "orders", "group": "g", "redriven": 0}]


@pytest.mark.parametrize("ids", ["new", "same"])
def test_a_replay_in_memory_is_that_of_spark(
    gateway: Gateway, command: Command, prices: tuple[str, str, str], ids: str
) -> None:
    streams, name, lake = prices
    first_id = gateway.entries(name)[0]["id"]
    for source in (("--lake", lake), ("--start", first_id, "--rate", "1000")):
        copies = []
        for way in ((), ("--spark",)):
            target = f"{name}-{len(source)}-{len(way)}"
            words = ("replay", streams, name, *source, "--to", target, "--ids", ids)
            command.run(*words, "--rename", "symbol=sku", "--rename", "a=ä", *way)
            copies.append(gateway.entries(target))
        if ids == "new":
            for entry in (*copies[0], *copies[1]):
                del entry["id"]
        assert copies[0] == copies[1]
        assert len(copies[0]) == (300 if "--lake" in source else len(gateway.entries(name)))


def test_a_plot_in_memory_is_that_of_spark(
    command: Command, prices: tuple[str, str, str], tmp_path: Path
) -> None:
    streams, name, lake = prices

    def page(*words: str) -> str:
        out = tmp_path / "plot.html"
        command.run("plot", streams, name, "--lake", lake, "--out", str(out), *words)
        drawn = out.read_text().partition("</script>")[2]
        return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "id", drawn)

    by_time = page("--time", "date")
    assert by_time == page("--time", "date", "--spark")
    assert "560 entries, 14 day a point" in by_time
    assert "2 entries without a date in date are left out" in by_time
    assert "1999-12-23T00:00:00" in by_time  # fourteen days, counted from 1970
    by_id = page()
    assert by_id == page("--spark")
    assert "1 entries without a date in their ids are left out" in by_id


def test_a_plot_by_a_field_that_has_no_time_is_refused(
    gateway: Gateway, command: Command, name: str
) -> None:
    gateway.append(name, [{"sku": "a1"}])
    _, error = command.run("plot", "--streams", name, "--time", "sku", code=1)
    assert f"{name}: there is no entry with a date in 'sku'" in error


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-02", DAY_MS),
        ("1970-01-01T01:00:00+01:00", 0),
        (" 1970-01-01 00:00:00.0015 ", 1),
        ("1969-12-31T23:59:59Z", -1000),
        ("1970", 0),
        ("1700000000", 1_700_000_000_000),
        ("1700000000.5", 1_700_000_000_500),
        ("1700000000123", 1_700_000_000_123),
        ("9999999999999999999", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_times_as_people_and_programs_write_them(text: str, ms: int | None) -> None:
    assert milliseconds_of(text) == ms
