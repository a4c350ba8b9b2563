"""Streaming queries: each entry once, in order, through restarts of the query and the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from deploy.local_cluster.waiting import until
from tests.pipeline.gateway import Gateway

WAIT_S_MAX = 60.0


class Runs:
    """Starts queries that collect their rows, and stops the remaining ones."""

    def __init__(self, spark: SparkSession, gateway: Gateway, checkpoint: Path) -> None:
        self.spark = spark
        self.url = gateway.url
        self.checkpoint = checkpoint
        self._batches: dict[int, list[str]] = {}
        self.running: list[StreamingQuery] = []

    def start(self, *, is_once: bool = True, **options: Any) -> StreamingQuery:
        reading = self.spark.readStream.format("headgate").option("url", self.url)
        rows = reading.options(**options).load()

        def collect(batch: DataFrame, number: int) -> None:
            rows = batch.selectExpr("stream", "fields['n'] as n", "ms", "seq").collect()
            rows.sort(key=lambda row: (row["stream"], row["ms"], row["seq"]))
            if rows:
                # One that was done when its query was stopped may come once more.
                self._batches[number] = [row["n"] for row in rows]

        writing = rows.writeStream.option("checkpointLocation", str(self.checkpoint))
        writing = writing.foreachBatch(collect)
        if is_once:
            writing = writing.trigger(availableNow=True)
        query = writing.start()
        self.running.append(query)
        return query

    def once(self, **options: Any) -> list[str]:
        """Read the present entries; returns the entries of this run."""
        already = len(self.batches)
        query = self.start(**options)
        assert query.awaitTermination(int(WAIT_S_MAX))
        return [n for batch in self.batches[already:] for n in batch]

    @property
    def batches(self) -> list[list[str]]:
        """Of each micro-batch the values of n, in order."""
        return [self._batches[number] for number in sorted(self._batches)]

    @property
    def values(self) -> list[str]:
        return [n for batch in self.batches for n in batch]


@pytest.fixture
def runs(spark: SparkSession, gateway: Gateway, tmp_path: Path) -> Iterator[Runs]:
    started = Runs(spark, gateway, tmp_path / "checkpoint")
    yield started
    for query in started.running:
        query.stop()


def numbered(begin: int, end: int) -> list[dict[str, str]]:
    return [{"n": str(at)} for at in range(begin, end)]


def values(begin: int, end: int) -> list[str]:
    return [str(at) for at in range(begin, end)]


def until_read(runs: Runs, expected: list[str], query: StreamingQuery) -> None:
    """Return once a query that goes on has read these, and nothing else."""

    def is_read() -> bool:
        assert query.isActive, query.exception()
        return runs.values == expected

    until(is_read, WAIT_S_MAX, "the entries are read")


def test_available_now_reads_each_entry_once_over_several_runs(
    runs: Runs, gateway: Gateway, name: str
) -> None:
    gateway.append(name, numbered(0, 250))
    options = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 100}
    assert runs.once(**options) == values(0, 250)
    assert [len(batch) for batch in runs.batches] == [100, 100, 50]
    gateway.append(name, numbered(250, 300))
    assert runs.once(**options) == values(250, 300)


def test_a_query_reads_what_comes_and_goes_on_from_its_checkpoint(
    runs: Runs, gateway: Gateway, name: str
) -> None:
    gateway.append(name, numbered(0, 3))
    options: dict[str, Any] = {"subscribe": name, "startingOffsets": "earliest"}
    query = runs.start(is_once=False, **options)
    until_read(runs, values(0, 3), query)
    gateway.append(name, numbered(3, 6))
    until_read(runs, values(0, 6), query)
    query.stop()
    gateway.append(name, numbered(6, 9))
    query = runs.start(is_once=False, **options)
    until_read(runs, values(0, 9), query)


def test_a_query_begins_with_what_comes_after_its_start(
    runs: Runs, gateway: Gateway, name: str
) -> None:
    gateway.append(name, numbered(0, 3))
    assert runs.once(subscribe=name) == []
    gateway.append(name, numbered(3, 5))
    assert runs.once(subscribe=name) == values(3, 5)


def test_a_new_stream_of_a_pattern_is_read_from_its_beginning(
    runs: Runs, gateway: Gateway, name: str
) -> None:
    gateway.append(f"{name}-a", numbered(0, 2))
    query = runs.start(is_once=False, subscribePattern=f"{name}-.*", startingOffsets="earliest")
    until_read(runs, values(0, 2), query)
    gateway.append(f"{name}-b", numbered(2, 5))
    until_read(runs, values(0, 5), query)


def test_trimmed_entries_fail_the_query_and_say_which_they_were(
    runs: Runs, gateway: Gateway, name: str
) -> None:
    gateway.append(name, numbered(0, 2))
    options: dict[str, Any] = {"subscribe": name, "startingOffsets": "earliest"}
    runs.once(**options)
    ids = gateway.append(name, numbered(2, 400))
    gateway.trim(name, min_id=ids[-100])
    query = runs.start(**options)
    with pytest.raises(StreamingQueryException, match="were trimmed before they were read"):
        query.awaitTermination(int(WAIT_S_MAX))
    assert runs.once(failOnDataLoss="false", **options) == values(300, 400)


def test_a_stream_begun_anew_fails_the_query(runs: Runs, gateway: Gateway, name: str) -> None:
    gateway.append(name, numbered(0, 2))
    options: dict[str, Any] = {"subscribe": name, "startingOffsets": "earliest"}
    runs.once(**options)
    assert gateway.http.delete(f"/v1/streams/{name}").status_code == 204
    gateway.append(name, numbered(5, 7))
    query = runs.start(**options)
    with pytest.raises(StreamingQueryException, match="was deleted and begun anew"):
        query.awaitTermination(int(WAIT_S_MAX))
    assert runs.once(failOnDataLoss="false", **options) == values(5, 7)


def test_a_gateway_that_is_killed_and_comes_back_loses_the_query_nothing(
    runs: Runs, name: str, tmp_path: Path
) -> None:
    own = Gateway(tmp_path / "data")
    try:
        runs.url = own.url
        own.append(name, numbered(0, 10))
        query = runs.start(is_once=False, subscribe=name, startingOffsets="earliest")
        until_read(runs, values(0, 10), query)
        own.kill()
        own.start()
        own.append(name, numbered(10, 20))
        until_read(runs, values(0, 20), query)
        query.stop()
    finally:
        own.stop()
