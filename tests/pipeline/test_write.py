"""Writes: every row is in its stream once, whatever is killed, tried again or sent twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.pipeline.copies import Copies
from tests.pipeline.gateway import Gateway

START_S_MAX = 180  # of another Java, on a machine with much else to do


class Writes:
    def __init__(self, spark: SparkSession, gateway: Gateway) -> None:
        self.spark = spark
        self.url = gateway.url

    def __call__(self, rows: DataFrame, stream: str | None, **options: Any) -> None:
        writing = rows.write.format("headgate").mode("append").option("url", self.url)
        if stream is not None:
            writing = writing.option("stream", stream)
        writing.options(**options).save()


@pytest.fixture
def write(spark: SparkSession, gateway: Gateway) -> Writes:
    return Writes(spark, gateway)


def numbers_in(gateway: Gateway, stream: str) -> list[int]:
    return [int(entry["fields"]["n"]) for entry in gateway.entries(stream)]


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_columns_say_when_groups_deliver_an_entry(
    write: Writes, spark: SparkSession, gateway: Gateway, name: str, guarantee: str
) -> None:
    begin_ms, until_ms = time.time_ns() // 1_000_000, 2**50
    rows = spark.range(0, 2, 1, 1).selectExpr(
        "id as n", "if(id = 0, 3600000, null) as delay_ms", f"{until_ms} as expires_at_ms"
    )
    write(rows, name, deliveryGuarantee=guarantee)
    first, second = gateway.entries(name)
    assert (first["fields"], second["fields"]) == ({"n": "0"}, {"n": "1"})
    assert first["deliver_at_ms"] - 3_600_000 >= begin_ms
    assert "deliver_at_ms" not in second
    assert first["expires_at_ms"] == second["expires_at_ms"] == until_ms


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_every_row_is_written_in_the_order_of_its_partition(
    write: Writes, spark: SparkSession, gateway: Gateway, name: str, guarantee: str
) -> None:
    rows = spark.range(0, 25_000, 1, 2).selectExpr("id as n")
    write(rows, name, deliveryGuarantee=guarantee)
    numbers = numbers_in(gateway, name)
    assert sorted(numbers) == list(range(25_000))
    for begin, end in ((0, 12_500), (12_500, 25_000)):
        part = [n for n in numbers if begin <= n < end]
        assert part == sorted(part)
    if guarantee == "exactly-once":
        assert numbers == sorted(numbers)


def test_the_same_job_once_more_changes_nothing(
    write: Writes, spark: SparkSession, gateway: Gateway, name: str
) -> None:
    rows = spark.range(100).selectExpr("id as n")
    write(rows, name, jobId=name)
    write(rows, name, jobId=name)
    assert len(numbers_in(gateway, name)) == 100
    write(rows, name, jobId=name, jobBatch=1)
    assert len(numbers_in(gateway, name)) == 200


def test_a_column_says_which_stream_and_which_id(
    write: Writes, spark: SparkSession, gateway: Gateway, name: str
) -> None:
    rows = spark.sql(
        f"select concat('{name}-', n % 2) as stream, concat(n + 1, '-7') as id, n"
        " from (select explode(sequence(0, 9)) as n)"
    ).coalesce(1)
    write(rows, None)
    assert [entry["id"] for entry in gateway.entries(f"{name}-1")] == [
        f"{n + 1}-7" for n in (1, 3, 5, 7, 9)
    ]


def test_what_was_read_can_be_written_elsewhere_with_its_ids(
    write: Writes, spark: SparkSession, gateway: Gateway, name: str
) -> None:
    gateway.append(name, [{"n": str(at), "é": "ü"} for at in range(50)])
    options = {"url": gateway.url, "subscribe": name, "fieldsFormat": "array"}
    write(spark.read.format("headgate").options(**options).load(), f"{name}-copy")
    assert gateway.entries(f"{name}-copy") == gateway.entries(name)


def test_a_task_that_fails_leaves_nothing(
    write: Writes, spark: SparkSession, gateway: Gateway, name: str
) -> None:
    rows = spark.range(0, 20_000, 1, 2).selectExpr(
        "if(id = 19999, cast(raise_error('no') as bigint), id) as n"
    )
    with pytest.raises(PySparkException, match="no"):
        write(rows, name, jobId=name)
    assert gateway.entries(name) == []
    write(spark.range(10).selectExpr("id as n"), name, jobId=name)
    assert sorted(numbers_in(gateway, name)) == list(range(10))


def test_a_stream_is_not_overwritten(write: Writes, spark: SparkSession, name: str) -> None:
    writing = spark.range(1).selectExpr("id as n").write.format("headgate").option("stream", name)
    with pytest.raises(PySparkException, match="a stream only grows"):
        writing.mode("overwrite").save()


def test_nested_columns_are_written_as_spark_writes_json(
    write: Writes, spark: SparkSession, gateway: Gateway, name: str
) -> None:
    columns = {
        "tags": "array('a', null, 'é')",
        "point": "named_struct('x', id, 'none', cast(null as int), 'label', concat('p', id))",
        "prices": "map('a', cast(1.50 as decimal(5, 2)), 'b', null)",
        "points": "array(named_struct('day', date'2024-01-31', 'raw', x'ff', 'ok', id > 0))",
    }
    rows = spark.range(3).selectExpr("id", *(f"{text} as {it}" for it, text in columns.items()))
    expected = rows.selectExpr(*(f"to_json({it}) as {it}" for it in columns)).collect()
    write(rows.drop("id"), name, nestedFormat="json")
    assert [entry["fields"] for entry in gateway.entries(name)] == [
        row.asDict() for row in expected
    ]


@pytest.fixture
def copies(spark: SparkSession, gateway: Gateway, name: str, tmp_path: Path) -> Copies:
    return Copies(spark, gateway.url, name, tmp_path / "checkpoint")


def test_a_query_writes_each_entry_once_though_its_batch_comes_again(
    copies: Copies, gateway: Gateway
) -> None:
    gateway.append(copies.name, [{"n": str(at)} for at in range(250)])
    copies.run()
    assert numbers_in(gateway, f"{copies.name}-copy") == list(range(250))
    copies.forget_commits(1)
    gateway.append(copies.name, [{"n": str(at)} for at in range(250, 300)])
    copies.run()
    assert numbers_in(gateway, f"{copies.name}-copy") == list(range(300))


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Gateway]:
    started = Gateway(tmp_path / "data")
    yield started
    started.stop()


def test_what_a_gateway_committed_before_it_was_killed_is_not_written_again(
    spark: SparkSession, own: Gateway, tmp_path: Path
) -> None:
    copies = Copies(spark, own.url, "orders", tmp_path / "checkpoint")
    own.append("orders", [{"n": str(at)} for at in range(150)])
    copies.run()
    own.kill()
    own.start()
    copies.forget_commits(1)
    own.append("orders", [{"n": str(at)} for at in range(150, 200)])
    copies.run()
    assert numbers_in(own, "orders-copy") == list(range(200))


def test_nothing_is_left_staged(
    write: Writes, spark: SparkSession, gateway: Gateway, name: str
) -> None:
    write(spark.range(100).selectExpr("id as n"), name, jobId=name)
    writer = httpx.get(f"{gateway.url}/v1/bulk/writers/{name}").json()
    assert (writer["writer"], writer["last_batch"]) == (name, 0)
