"""Tables on Spark: the latest entry of each key, as the gateway has it at an id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headgate.pipeline.rows.latest import Latest
from tests.pipeline.gateway import Gateway
from tests.pipeline.test_cold_tier import archive

Table = dict[str, tuple[str, dict[str, str]]]
"""Id and fields, by key."""


class Stock:
    """A stream that is a table, as the gateway and as Spark show it."""

    def __init__(self, spark: SparkSession, gateway: Gateway, stream: str) -> None:
        self.gateway = gateway
        self.stream = stream
        self._spark = spark
        answer = gateway.http.put(f"/v1/streams/{stream}", json={"key_field": "sku"})
        assert answer.is_success, answer.text

    def append(self, *entries: dict[str, str]) -> list[str]:
        return self.gateway.append(self.stream, entries)

    def frame(self, ddl: str | None = None, **options: Any) -> DataFrame:
        reading = self._spark.read.format("headgate").options(url=self.gateway.url, view="table")
        if ddl is not None:
            reading = reading.schema(ddl)
        return reading.options(**{"stream": self.stream, **options}).load()

    def on_spark(self, **options: Any) -> Table:
        return {row["key"]: (row["id"], row["fields"]) for row in self.frame(**options).collect()}

    def in_the_gateway(self) -> Table:
        rows = self.gateway.http.get(f"/v1/streams/{self.stream}/table").json()["rows"]
        return {row["key"]: (row["id"], row["fields"]) for row in rows}


@pytest.fixture
def stock(spark: SparkSession, gateway: Gateway, name: str) -> Stock:
    return Stock(spark, gateway, name)


def test_rows_are_those_of_the_gateway(stock: Stock) -> None:
    stock.append(
        *({"sku": key, "n": str(n)} for n in range(3) for key in "abc"),
        {"sku": "b", "deleted": ""},
        {"n": "in no row"},
        {"sku": ""},
        {"sku": "base64:x"},
        {"sku": "k" * 1_024},
        {"sku": "k" * 1_025},
    )
    stock.gateway.append_pairs(stock.stream, [("sku", "a"), ("sku", "c"), ("n", "last of two")])
    rows = stock.on_spark()
    assert rows == stock.in_the_gateway()
    assert len(rows) == 5
    assert rows["c"][1] == {"sku": "c", "n": "last of two"}


def test_rows_are_as_of_an_id(stock: Stock) -> None:
    first, second, gone = stock.append(
        {"sku": "a", "n": "1"}, {"sku": "a", "n": "2"}, {"sku": "a", "deleted": "yes"}
    )
    assert stock.on_spark(asOf=first) == {"a": (first, {"sku": "a", "n": "1"})}
    assert stock.on_spark(asOf=second) == {"a": (second, {"sku": "a", "n": "2"})}
    assert stock.on_spark(asOf=gone) == {}
    with pytest.raises(PySparkException, match="its rows may change until then"):
        stock.frame(asOf="9999999999999-0").count()


def test_columns_are_fields_and_need_not_have_the_key(stock: Stock) -> None:
    stock.append({"sku": "a", "n": "1"}, {"sku": "b", "n": "2"}, {"sku": "a", "deleted": "yes"})
    assert [tuple(row) for row in stock.frame("n int").collect()] == [(2,)]


def test_fields_of_key_and_tombstone_can_be_chosen(stock: Stock) -> None:
    stock.append({"at": "x", "n": "1"}, {"at": "y"}, {"at": "x", "end": ""}, {"at": "z"})
    assert stock.on_spark(keyField="at", tombstoneField="end").keys() == {"y", "z"}
    stock.gateway.append(f"{stock.stream}-plain", [{"n": "1"}])
    with pytest.raises(PySparkException, match="is no table, as it has no key_field"):
        stock.frame(stream=f"{stock.stream}-plain").count()


def test_keys_that_are_no_text_are_written_as_the_gateway_does(stock: Stock) -> None:
    stock.gateway.append_pairs(stock.stream, [("sku", b"\xff")])
    [row] = stock.frame(valueFormat="binary").collect()
    assert (row["key"], row["fields"]) == ("base64:/w==", {"sku": b"\xff"})


def test_what_the_stream_lost_comes_from_the_lake(stock: Stock, tmp_path: Path) -> None:
    ids = stock.append(*({"sku": key, "n": str(n)} for n in range(4) for key in "abc"))
    archive(stock.gateway, stock.stream, ids[7], tmp_path / "lake")
    before, now = stock.on_spark(asOf=ids[6]), stock.on_spark()
    stock.gateway.trim(stock.stream, min_id=ids[5])
    stock.gateway.http.delete(f"/v1/streams/{stock.stream}/entries/{ids[6]}").raise_for_status()
    with pytest.raises(PySparkException, match="may have been others"):
        stock.frame(asOf=ids[6]).count()
    assert stock.on_spark(asOf=ids[6], coldTier=tmp_path / "lake") == before
    assert stock.on_spark(coldTier=tmp_path / "lake") == now


def test_a_view_in_sql_takes_what_is_put_into_it(stock: Stock, spark: SparkSession) -> None:
    options = f"url '{stock.gateway.url}', stream '{stock.stream}', view 'table'"
    spark.sql(f"CREATE TEMPORARY VIEW stock (sku STRING, n INT) USING headgate OPTIONS ({options})")
    spark.sql("INSERT INTO stock VALUES ('a', 1), ('a', 2)")
    assert [tuple(row) for row in spark.sql("SELECT * FROM stock").collect()] == [("a", 2)]


def test_entries_with_newer_ones_are_dropped_on_the_way() -> None:
    latest = Latest("sku", "deleted")
    for first in range(0, 1_000_000, 10_000):
        pairs = [[(b"sku", b"%d" % (n % 7))] for n in range(first, first + 10_000)]
        fields = pa.array(pairs, pa.map_(pa.binary(), pa.binary()))
        numbers = pa.array(range(first, first + 10_000))
        latest.add(
            pa.RecordBatch.from_pydict(
                {"id": numbers.cast(pa.string()), "ms": numbers, "seq": numbers, "fields": fields}
            )
        )
        assert len(latest) <= 210_000
    rows = pa.Table.from_batches(latest.rows())
    assert rows["ms"].to_pylist() == list(range(999_993, 1_000_000))
