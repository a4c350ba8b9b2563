"""Trimmed entries are read from the lake, as if they had never been trimmed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headgate.client.blocking import Client
from headgate.pipeline.lake import Held, Lake
from headgate.pipeline.lakefile import files_of, write_rows
from headgate.pipeline.rows.schema import Rows, entry_schema
from tests.pipeline.gateway import Gateway

FIRST_MS = 1_700_000_000_000


def archive(gateway: Gateway, stream: str, to: str, path: Path) -> None:
    """Put the entries up to and with an id into a lake."""
    lake = Lake.open_or_create(path)
    rows = Rows(entry_schema(is_binary=True, is_array=True))
    with Client(gateway.url) as client, client.stream(stream).batches(end=to) as answer:
        files = files_of(write_rows([rows.of(stream, part) for part in answer], lake.path, {}))
        held = Held(answer.epoch, "0-0", to)
    assert lake.commit(files, query="test", batch=0, ranges={stream: held})


@pytest.fixture
def ids(gateway: Gateway, name: str) -> list[str]:
    entries = [{"id": f"{FIRST_MS + at}-0", "fields": {"n": str(at)}} for at in range(300)]
    return gateway.append_entries(name, entries)


def read(spark: SparkSession, gateway: Gateway, stream: str, **options: Any) -> list[str]:
    reading = spark.read.format("headgate").options(url=gateway.url, subscribe=stream)
    return sorted(row["id"] for row in reading.options(**options).load().collect())


def queried(
    spark: SparkSession, gateway: Gateway, stream: str, checkpoint: Path, **options: Any
) -> list[str]:
    """Read the present entries by a query."""
    reading = spark.readStream.format("headgate").options(url=gateway.url, subscribe=stream)
    ids: list[str] = []
    query = (
        reading.options(**options)
        .load()
        .writeStream.foreachBatch(lambda batch, _: ids.extend(row["id"] for row in batch.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    return sorted(ids)


def test_a_batch_reads_the_missing_beginning_from_the_lake(
    spark: SparkSession, gateway: Gateway, name: str, ids: list[str], tmp_path: Path
) -> None:
    archive(gateway, name, ids[249], tmp_path / "lake")
    gateway.trim(name, min_id=ids[200])
    cold = str(tmp_path / "lake")
    assert read(spark, gateway, name) == ids[200:]
    assert read(spark, gateway, name, coldTier=cold) == ids
    after, to = json.dumps({name: ids[50]}), json.dumps({name: ids[150]})
    options = {"coldTier": cold, "startingOffsets": after, "endingOffsets": to}
    assert read(spark, gateway, name, **options) == ids[51:151]


@pytest.mark.parametrize("is_query", [False, True])
@pytest.mark.parametrize("kept", [0, 50])
def test_a_query_or_a_batch_from_the_beginning_begins_in_the_lake(
    spark: SparkSession,
    gateway: Gateway,
    name: str,
    ids: list[str],
    tmp_path: Path,
    is_query: bool,
    kept: int,
) -> None:
    archive(gateway, name, ids[-1], tmp_path / "lake")
    gateway.trim(name, max_length=kept)
    assert len(read(spark, gateway, name)) == kept
    options = {"coldTier": str(tmp_path / "lake"), "startingOffsets": "earliest"}
    if is_query:
        numbers_read = queried(spark, gateway, name, tmp_path / "checkpoint", **options)
    else:
        numbers_read = read(spark, gateway, name, **options)
    assert numbers_read == ids


def test_a_lake_that_ends_too_early_is_data_loss(
    spark: SparkSession, gateway: Gateway, name: str, ids: list[str], tmp_path: Path
) -> None:
    archive(gateway, name, ids[99], tmp_path / "lake")
    gateway.trim(name, min_id=ids[200])
    with pytest.raises(PySparkException, match=f"the lake ends at {ids[99]}"):
        read(spark, gateway, name, coldTier=tmp_path / "lake")


def test_a_query_that_fell_behind_catches_up_from_the_lake(
    spark: SparkSession, gateway: Gateway, name: str, ids: list[str], tmp_path: Path
) -> None:
    archive(gateway, name, ids[249], tmp_path / "lake")
    gateway.trim(name, min_id=ids[200])
    options = {"startingOffsets": json.dumps({name: ids[99]}), "coldTier": str(tmp_path / "lake")}
    read = queried(spark, gateway, name, tmp_path / "checkpoint", **options)
    assert read == ids[100:]
