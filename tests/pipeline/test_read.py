"""Batch reads: Spark sees the appended entries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headgate.pipeline.filters import bounds_of
from tests.pipeline.gateway import Gateway

FIRST_MS = 1_700_000_000_000


class Reads:
    def __init__(self, spark: SparkSession, gateway: Gateway) -> None:
        self.spark = spark
        self.gateway = gateway

    def __call__(self, stream: str | None, *, ddl: str | None = None, **options: Any) -> DataFrame:
        reading = self.spark.read.format("headgate").option("url", self.gateway.url)
        if stream is not None:
            reading = reading.option("subscribe", stream)
        if ddl is not None:
            reading = reading.schema(ddl)
        return reading.options(**options).load()


@pytest.fixture
def read(spark: SparkSession, gateway: Gateway) -> Reads:
    return Reads(spark, gateway)


def append(gateway: Gateway, stream: str, count: int) -> list[str]:
    """Append entries a millisecond apart."""
    return gateway.append_entries(
        stream, [{"id": f"{FIRST_MS + at}-0", "fields": {"n": str(at)}} for at in range(count)]
    )


def ids_of(rows: DataFrame) -> list[str]:
    return sorted(row["id"] for row in rows.select("id").collect())


def test_rows_are_the_entries(read: Reads, gateway: Gateway, name: str) -> None:
    append(gateway, name, 3)
    rows = read(name).orderBy("ms", "seq").collect()
    assert [row.asDict() for row in rows] == [
        {
            "stream": name,
            "id": f"{FIRST_MS + at}-0",
            "ms": FIRST_MS + at,
            "seq": 0,
            "timestamp": row["timestamp"],
            "fields": {"n": str(at)},
        }
        for at, row in enumerate(rows)
    ]
    shown = read(name).selectExpr("date_format(timestamp, 'yyyy-MM-dd HH:mm:ss.SSS')").first()
    assert shown is not None
    assert shown[0] == "2023-11-14 22:13:20.000"


def test_tasks_share_the_entries_by_count(read: Reads, gateway: Gateway, name: str) -> None:
    ids = append(gateway, name, 1000)
    rows = read(name, maxRecordsPerPartition=300)
    assert rows.rdd.getNumPartitions() == 4
    assert ids_of(rows) == ids
    assert read(name, minPartitions=7).rdd.getNumPartitions() == 7


def test_streams_are_chosen_by_list_name_or_pattern(
    read: Reads, gateway: Gateway, name: str
) -> None:
    append(gateway, f"{name}-a", 2)
    append(gateway, f"{name}-b", 3)
    append(gateway, f"{name}-b,c", 4)
    assert read(f"{name}-a, {name}-b").count() == 5
    assert read(None, subscribePattern=f"{name}-[ab]").count() == 5
    assert read(None, assign=json.dumps([f"{name}-b,c"])).count() == 4
    assert read(None, subscribePattern=f"{name}-x.*").count() == 0


def test_a_stream_that_is_not_there_is_named(read: Reads, name: str) -> None:
    with pytest.raises(PySparkException, match=f"no such stream: {name}"):
        read(name).count()


def test_a_range_is_read_from_its_start_to_its_end(
    read: Reads, gateway: Gateway, name: str
) -> None:
    ids = append(gateway, name, 10)
    after, to = json.dumps({name: ids[2]}), json.dumps({name: ids[5]})
    assert ids_of(read(name, startingOffsets=after, endingOffsets=to)) == ids[3:6]
    assert ids_of(read(name, startingTimestamp=FIRST_MS + 4)) == ids[4:]
    assert ids_of(read(name, endingTimestamp=FIRST_MS + 4)) == ids[:4]


def test_filters_narrow_what_is_asked_of_the_gateway(
    read: Reads, gateway: Gateway, name: str
) -> None:
    ids = append(gateway, name, 100)
    append(gateway, f"{name}-b", 10)

    def both() -> DataFrame:
        return read(f"{name}, {name}-b", maxRecordsPerPartition=10, pushFilters="true")

    assert both().rdd.getNumPartitions() == 11
    few = both().where(f"stream = '{name}' and ms >= {FIRST_MS + 10} and ms <= {FIRST_MS + 19}")
    assert few.rdd.getNumPartitions() == 1
    assert ids_of(few) == ids[10:20]
    by_id = both().where(f"stream = '{name}' and id > '{ids[89]}'")
    assert by_id.rdd.getNumPartitions() <= 2
    assert ids_of(by_id) == ids[90:]
    by_time = both().where("timestamp < timestamp'2023-11-14 22:13:20.005'")
    assert by_time.rdd.getNumPartitions() <= 2
    assert sorted(ids_of(by_time)) == sorted(ids[:5] * 2)


ODD = ["1", "2.5", "-3", "0x10", "x", "", "1e2", "9007199254740993", "007", "nan", " 1"]


@pytest.mark.parametrize(
    "where",
    [
        "s = 'x'",
        "s IN ('x', '1', 'absent')",
        "s LIKE '0%' OR s LIKE '%5'",
        "s LIKE '1%'",
        "s LIKE '%x'",
        "s <> 'x'",
        "s IS NULL",
        "n > 1",
        "n <= 16 AND s IS NOT NULL",
        "n = 9007199254740993",
        "d >= 2.5",
        "d < 0",
        "n IS NULL",
    ],
)
def test_filters_on_fields_leave_what_they_leave_here(
    read: Reads, gateway: Gateway, name: str, where: str
) -> None:
    entries: list[dict[str, Any]] = [{"fields": {"s": text, "n": text, "d": text}} for text in ODD]
    gateway.append_entries(name, [*entries, {"fields": {"other": "x"}}])
    ddl = "_id string, s string, n bigint, d double, _rescued string"

    ways = [read(name, ddl=ddl, pushFilters=pushes).where(where) for pushes in ("true", "false")]

    pushed, plain = ([tuple(row) for row in rows.orderBy("_id").collect()] for rows in ways)
    assert str(pushed) == str(plain)  # as NaN is not NaN


def test_ids_are_filtered_as_the_text_they_are(read: Reads, gateway: Gateway, name: str) -> None:
    gateway.append_entries(name, [{"id": f"{at}-0", "fields": {"a": "1"}} for at in (5, 10, 100)])
    for pushes in ("true", "false"):
        assert ids_of(read(name, pushFilters=pushes).where("id > '2-0'")) == ["5-0"]
        assert ids_of(read(name, pushFilters=pushes).where("id <= '10-0'")) == ["10-0"]
    assert bounds_of([], is_entries=True).narrowed("0-0", "9-0", "5-0", "9-0") == ("0-0", "9-0")


def test_trimmed_entries_are_lost_only_if_they_were_asked_for(
    read: Reads, gateway: Gateway, name: str
) -> None:
    ids = append(gateway, name, 300)
    gateway.trim(name, min_id=ids[200])
    assert ids_of(read(name)) == ids[200:]
    after = json.dumps({name: ids[10]})
    with pytest.raises(PySparkException, match=f"behind {ids[10]} up to .* were trimmed"):
        read(name, startingOffsets=after).count()
    assert ids_of(read(name, startingOffsets=after, failOnDataLoss="false")) == ids[200:]


def test_an_unknown_option_is_refused(read: Reads, name: str) -> None:
    with pytest.raises(PySparkException, match="did you mean minPartitions"):
        read(name, minPartition=5).count()


def test_a_gateway_that_is_not_there_is_named(spark: SparkSession, name: str) -> None:
    options = {"url": "http://127.0.0.1:9", "retryTimeoutMs": "300", "subscribe": name}
    with pytest.raises(PySparkException, match=r"no gateway at http://127\.0\.0\.1:9"):
        spark.read.format("headgate").options(**options).load().count()
