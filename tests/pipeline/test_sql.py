"""SQL: tables and views of streams, and the words for statements that cannot be."""

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.pipeline.gateway import Gateway

ORDERS = [{"fields": {"sku": "a", "price": "1.5"}}, {"fields": {"sku": "b", "price": "2"}}]


class Sql:
    """Statements in which `{url}` is the gateway and `{stream}` a stream of two entries."""

    def __init__(self, spark: SparkSession, gateway: Gateway, stream: str) -> None:
        self._spark = spark
        self._names = {"url": gateway.url, "stream": stream}

    def __call__(self, statement: str) -> list[Row]:
        return self._spark.sql(statement.format(**self._names)).collect()

    def refusal_of(self, statement: str) -> str:
        with pytest.raises(PySparkException) as refused:
            self(statement)
        return str(refused.value)


@pytest.fixture
def sql(spark: SparkSession, gateway: Gateway, name: str) -> Iterator[Sql]:
    gateway.append_entries(name, ORDERS)
    statements = Sql(spark, gateway, name)
    yield statements
    for kind, made in (("TABLE", "t"), ("VIEW", "v")):
        spark.sql(f"DROP {kind} IF EXISTS {made}")


def fields_of(gateway: Gateway, stream: str) -> list[dict[str, str]]:
    return [entry["fields"] for entry in gateway.entries(stream)]


COLUMNS = "(sku STRING, price DOUBLE)"
READING = "OPTIONS (url '{url}', subscribe '{stream}')"


@pytest.mark.parametrize("columns", ["", COLUMNS], ids=["whole entries", "typed"])
def test_a_table_is_read_with_its_options_in_the_statement(sql: Sql, columns: str) -> None:
    sql(f"CREATE TABLE t {columns} USING headgate {READING}")

    rows = sql("SELECT * FROM t WITH (url='{url}', subscribe='{stream}')")

    skus = sorted(row["sku"] if columns else row["fields"]["sku"] for row in rows)
    assert skus == ["a", "b"]


def test_a_table_without_options_in_the_statement_says_what_to_write(sql: Sql) -> None:
    sql(f"CREATE TABLE t {COLUMNS} USING headgate {READING}")

    assert "SELECT … FROM t WITH (url='…', subscribe='…')" in sql.refusal_of("SELECT * FROM t")
    refusal = sql.refusal_of("INSERT INTO t VALUES ('c', 3.0)")
    assert "INSERT INTO t WITH (url='…', stream='…') …" in refusal


def test_a_table_is_written_with_its_options_in_the_statement(
    sql: Sql, gateway: Gateway, name: str
) -> None:
    sql(f"CREATE TABLE t {COLUMNS} USING headgate")

    sql("INSERT INTO t WITH (url='{url}', stream='{stream}') VALUES ('c', 3.5)")

    assert fields_of(gateway, name)[-1] == {"sku": "c", "price": "3.5"}


def test_a_view_is_read_and_written(sql: Sql, gateway: Gateway, name: str) -> None:
    sql(f"CREATE TEMPORARY VIEW v {COLUMNS} USING headgate {READING}")

    sql("INSERT INTO v SELECT sku, price + 1.25 FROM v WHERE sku = 'b'")

    assert fields_of(gateway, name)[-1] == {"sku": "b", "price": "3.25"}
    prices = "SELECT price FROM v ORDER BY price"
    assert [row["price"] for row in sql(prices)] == [1.5, 2.0]  # as of its first use
    sql(f"CREATE OR REPLACE TEMPORARY VIEW v {COLUMNS} USING headgate {READING}")
    assert [row["price"] for row in sql(prices)] == [1.5, 2.0, 3.25]


def test_a_view_of_several_streams_does_not_know_where_to_write(sql: Sql) -> None:
    options = "OPTIONS (url '{url}', subscribe '{stream},{stream}-b')"
    sql(f"CREATE TEMPORARY VIEW v {COLUMNS} USING headgate {options}")

    assert "which stream?" in sql.refusal_of("INSERT INTO v VALUES ('c', 3.0)")


def test_a_table_is_read_as_it_is_at_each_statement(sql: Sql, gateway: Gateway, name: str) -> None:
    sql("CREATE TABLE t USING headgate")
    count = "SELECT count(*) AS n FROM t WITH (url='{url}', subscribe='{stream}')"

    before = sql(count)[0]["n"]
    gateway.append_entries(name, ORDERS)

    assert (before, sql(count)[0]["n"]) == (len(ORDERS), 2 * len(ORDERS))


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("CREATE TABLE t USING headgate OPTIONS (subscrib 'a')", "did you mean subscribe?"),
        ("CREATE TABLE t USING headgate OPTIONS (valueFormat 'hex')", "valueFormat"),
        ("CREATE TABLE t USING headgate AS SELECT 'a' AS sku", "INSERT INTO t WITH"),
    ],
)
def test_what_cannot_be_is_refused_in_words(sql: Sql, statement: str, text: str) -> None:
    assert text in sql.refusal_of(statement)


def test_a_stream_only_grows(sql: Sql) -> None:
    sql(f"CREATE TABLE t {COLUMNS} USING headgate")

    refusal = sql.refusal_of(
        "INSERT OVERWRITE t WITH (url='{url}', stream='{stream}') VALUES ('c', 3.0)"
    )

    assert "a stream only grows" in refusal
