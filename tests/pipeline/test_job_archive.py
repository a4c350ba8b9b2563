"""The way of real records: archived as they come, compacted, verified, trimmed, read as one."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from vega_datasets import local_data

from headgate.pipeline.jobs import archive
from headgate.pipeline.lake import Held, Lake
from headgate.pipeline.offsets import Position
from headgate.pipeline.terminal.flags import Flags
from headgate.pipeline.terminal.report import ProgressLine
from tests.pipeline.command import Command, command
from tests.pipeline.gateway import Gateway

__all__ = ["command"]

PATIENCE_S = 300


class Count(ProgressLine):
    """The number of archived entries, for a test that waits for them."""

    def __init__(self) -> None:
        super().__init__("archive", None)
        self._condition = threading.Condition()
        self._count = 0

    def advance(self, count: int) -> None:
        with self._condition:
            self._count += count
            self._condition.notify_all()

    def wait_for(self, count: int) -> None:
        with self._condition:
            assert self._condition.wait_for(lambda: self._count >= count, PATIENCE_S), self._count


@contextmanager
def archiving(spark: SparkSession, flags: Flags) -> Iterator[Count]:
    """An archive that goes on meanwhile."""
    count = Count()
    failures: list[BaseException] = []
    lake = Lake.open_or_create(flags.lake)

    def run() -> None:
        try:
            archive.run(flags, lake, {}, allow_gap=False, progress=count)
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield count
    finally:
        for query in spark.streams.active:
            query.stop()
        thread.join(PATIENCE_S)
    assert not failures, failures


def records(frame: pd.DataFrame) -> list[dict[str, str]]:
    return [{str(k): str(v) for k, v in row.items()} for row in frame.to_dict("records")]


def test_the_way_of_real_records(
    spark: SparkSession, gateway: Gateway, command: Command, name: str, tmp_path: Path
) -> None:
    data = {
        f"{name}-seattle": records(local_data.seattle_temps()),
        f"{name}-sf": records(local_data.sf_temps()),
        f"{name}-stocks": records(local_data.stocks()),
    }
    lake_path = str(tmp_path / "lake")
    flags = Flags(url=gateway.url, pattern=f"{name}-.*", lake=lake_path, trigger="200ms")
    with archiving(spark, flags) as archived:
        for begin in range(0, 9000, 3000):
            for stream, entries in data.items():
                if entries[begin : begin + 3000]:
                    gateway.append(stream, entries[begin : begin + 3000])
        archived.wait_for(sum(len(entries) for entries in data.values()))
    lake = Lake(lake_path)
    originals = {stream: gateway.entries(stream) for stream in data}

    # Small files become large ones; the rows stay.
    here = ("--lake", lake_path, "--pattern", f"{name}-.*")
    small = len(lake.files())
    [compacted] = command.rows("compact", "--lake", lake_path)
    assert compacted["files_before"] == small >= 3
    assert len(lake.files()) == compacted["files_after"] <= small
    for way in ((), ("--spark",)):
        for row in command.rows("verify", *here, *way):
            assert (row["verdict"], row["entries"]) == ("equal", len(data[row["stream"]]))

    # What came later stays, what is archived goes, and one read finds both.
    later = [{"symbol": "MSFT", "date": "2010-04-01", "price": "1.5"}]
    gateway.append(f"{name}-stocks", later)
    trimmed = {row["stream"]: row["removed"] for row in command.rows("trim", *here)}
    assert trimmed == {stream: len(entries) for stream, entries in data.items()}
    stocks = f"{name}-stocks"
    assert len(gateway.entries(stocks)) == 1
    both = (
        spark.read.format("headgate")
        .options(url=gateway.url, subscribe=stocks, coldTier=lake_path)
        .load()
        .orderBy("ms", "seq")
        .collect()
    )
    assert [row["fields"] for row in both] == data[stocks] + later
    assert [row["id"] for row in both[:-1]] == [entry["id"] for entry in originals[stocks]]

    # Statistics are those of the original table.
    fields = command.rows("stats", "--streams", stocks, "--lake", lake_path, "--fields")
    frame = local_data.stocks()
    of_symbol = next(row for row in fields if row["field"] == "symbol")
    assert of_symbol["entries"] == len(frame) + 1
    assert of_symbol["values_about"] == frame["symbol"].nunique()
    windows = command.rows("stats", *here, "--window", "1d")
    sizes = {
        stream: sum(len(k) + len(v) for entry in entries for k, v in entry.items())
        for stream, entries in data.items()
    }
    sizes[stocks] += sum(len(k) + len(v) for k, v in later[0].items())
    for stream, size in sizes.items():
        of_stream = [row for row in windows if row["stream"] == stream]
        assert sum(row["size_bytes"] for row in of_stream) == size

    # The latest price of each symbol.
    latest = command.rows("changes", "--streams", stocks, "--lake", lake_path, "--key", "symbol")
    wanted = frame.groupby("symbol")["price"].last().astype(str).to_dict() | {"MSFT": "1.5"}
    assert {row["symbol"]: row["fields"]["price"] for row in latest} == wanted


def test_a_second_run_goes_on_and_a_lost_checkpoint_doubles_nothing(
    gateway: Gateway, command: Command, name: str, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    words = ("archive", "--streams", name, "--lake", lake)
    gateway.append(name, [{"n": str(number)} for number in range(10)])
    command.run(*words, "--max-offsets", "4")
    ids = [entry["id"] for entry in gateway.entries(name)]
    ids += gateway.append(name, [{"n": "10"}])
    command.run(*words)
    command.run(*words, "--checkpoint", str(tmp_path / "another"))
    archived = [
        entry_id for batch in Lake(lake).arrow(name) for entry_id in batch["id"].to_pylist()
    ]
    assert archived == ids
    held = Lake(lake).held(name)
    assert held is not None
    assert (held.after, held.to) == ("0-0", ids[-1])


def test_runs_in_memory_and_on_spark_go_on_after_each_other(
    gateway: Gateway, command: Command, name: str, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    words = ("archive", "--streams", f"{name},{name}-empty", "--lake", lake)
    gateway.http.put(f"/v1/streams/{name}-empty").raise_for_status()
    ids: list[str] = []
    for at, way in enumerate([(), (), ("--spark",), ()]):
        ids += gateway.append(name, [{"n": str(at)}] * 3)
        _, progress = command.run(*words, *way)
        assert "3 of 3 entries" in progress
        assert ("without Spark" in progress) == (at < 2)  # a checkpoint of Spark is gone on with
    _, progress = command.run(*words)
    archived = [
        entry_id for batch in Lake(lake).arrow(name) for entry_id in batch["id"].to_pylist()
    ]
    assert archived == ids
    held = Lake(lake).held(name)
    assert held is not None
    assert (held.after, held.to) == ("0-0", ids[-1])


def test_a_checkpoint_of_another_query_is_refused(
    gateway: Gateway, command: Command, name: str, tmp_path: Path
) -> None:
    gateway.append(name, [{"n": "1"}])
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "metadata").write_text('{"id":"6a6f"}')
    words = ("archive", "--streams", name, "--lake", str(tmp_path / "lake"), "--checkpoint")
    _, error = command.run(*words, str(foreign), code=1)
    assert f"Error: the checkpoint {foreign} belongs to another query" in error
    command.run(*words, str(tmp_path / "ours"))
    other = ("archive", "--streams", name, "--lake", str(tmp_path / "other"), "--checkpoint")
    _, error = command.run(*other, str(tmp_path / "ours"), code=1)
    assert "belongs to another query: its lake is" in error


@pytest.mark.parametrize("way", [(), ("--spark",)], ids=["in memory", "on Spark"])
def test_what_was_trimmed_before_it_was_archived_is_said(
    gateway: Gateway, command: Command, name: str, tmp_path: Path, way: tuple[str, ...]
) -> None:
    words = ("archive", "--streams", name, "--lake", str(tmp_path / "lake"), *way)
    gateway.append(name, [{"n": "1"}])
    command.run(*words)
    [lost, last] = gateway.append(name, [{"n": "2"}, {"n": "3"}])
    gateway.trim(name, max_length=1)
    _, error = command.run(*words, code=1)
    assert "trimmed" in error.splitlines()[-1]
    command.run(*words, "--allow-gap")
    lake = Lake(tmp_path / "lake")
    assert sum(file.row_count for file in lake.files()) == 2
    held = lake.held(name)
    assert held is not None
    assert (held.after, held.to) == (lost, last)


@pytest.mark.parametrize(
    ("begins", "ends", "ranges"),
    [
        ({}, {"a": ("5-0", "7")}, {"a": Held("7", "0-0", "5-0")}),
        ({"a": ("5-0", "7")}, {"a": ("5-0", "7")}, {}),
        ({"a": ("5-0", "7")}, {"a": ("6-0", "7")}, {"a": Held("7", "5-0", "6-0")}),
        ({"a": ("5-0", "7")}, {"a": ("6-0", "8")}, {"a": Held("8", "0-0", "6-0")}),
        ({"a": ("5-0", None)}, {"a": ("6-0", "8")}, {"a": Held("8", "5-0", "6-0")}),
        ({}, {"a": ("0-0", None)}, {}),
    ],
)
def test_ranges_of_a_batch(
    begins: dict[str, Sequence[Any]], ends: dict[str, Sequence[Any]], ranges: dict[str, Held]
) -> None:
    actual = archive.ranges_of(
        {stream: Position(*position) for stream, position in begins.items()},
        {stream: Position(*position) for stream, position in ends.items()},
    )
    assert actual == ranges
