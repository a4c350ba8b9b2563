"""Errors of Spark: each has its cause in one line, and none is the call that failed."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.pipeline.terminal.report import message_of
from tests.pipeline.gateway import Gateway


class Failing:
    """Ways in which Spark fails."""

    def __init__(self, spark: SparkSession, gateway: Gateway, folder: Path, stream: str) -> None:
        self._spark = spark
        self._url = gateway.url
        self._folder = folder
        self._stream = stream

    def a_stream_that_is_not_there(self) -> None:
        self._read("no-such-stream").collect()

    def a_value_that_does_not_fit(self) -> None:
        self._read(self._stream, "n int").collect()

    def a_bucket_that_hadoop_does_not_know(self) -> None:
        self._spark.read.parquet("s3://bucket/lake").collect()

    def a_file_system_that_is_not_installed(self) -> None:
        self._spark.read.parquet("s3a://bucket/lake").collect()

    def a_path_that_is_not_there(self) -> None:
        self._spark.read.parquet(str(self._folder / "missing")).collect()

    def a_file_that_is_no_parquet(self) -> None:
        (self._folder / "bad.parquet").write_bytes(b"PAR1 and then nothing of it")
        self._spark.read.schema("a int").parquet(str(self._folder / "bad.parquet")).collect()

    def a_folder_that_is_there(self) -> None:
        self._spark.range(1).write.parquet(str(self._folder))

    def an_error_in_python(self) -> None:
        self._spark.range(1).mapInArrow(_divide, "a int").collect()

    def a_checkpoint_that_is_a_file(self) -> None:
        (self._folder / "file").write_text("x")
        query = self._spark.readStream.format("rate").load().writeStream.format("noop")
        query.option("checkpointLocation", str(self._folder / "file" / "below")).start()

    def a_query_that_fails(self) -> None:
        rows = self._spark.readStream.format("headgate").option("url", self._url)
        rows = rows.option("subscribe", self._stream).option("startingOffsets", "earliest")
        query = rows.schema("n int").load().writeStream.format("noop").trigger(availableNow=True)
        query.option("checkpointLocation", str(self._folder / "query")).start().awaitTermination()

    def a_column_that_is_not_there(self) -> None:
        self._spark.range(1).select("nothing").collect()

    def a_cast_that_fails(self) -> None:
        self._spark.sql("SELECT CAST('x' AS INT)").collect()

    def _read(self, stream: str, columns: str | None = None):  # type: ignore[no-untyped-def]
        rows = self._spark.read.format("headgate").option("url", self._url)
        rows = rows.option("subscribe", stream)
        return (rows if columns is None else rows.schema(columns)).load()


def _divide(batches):  # type: ignore[no-untyped-def]
    for batch in batches:
        yield batch.num_rows / 0


CAUSES: dict[Callable[[Failing], None], str] = {
    Failing.a_stream_that_is_not_there: "no such stream: no-such-stream",
    Failing.a_value_that_does_not_fit: "does not fit",
    Failing.a_bucket_that_hadoop_does_not_know: 'No FileSystem for scheme "s3"',
    Failing.a_file_system_that_is_not_installed: "S3AFileSystem",
    Failing.a_path_that_is_not_there: "missing",
    Failing.a_file_that_is_no_parquet: "bad.parquet",
    Failing.a_folder_that_is_there: "already exists",
    Failing.an_error_in_python: "division by zero",
    Failing.a_checkpoint_that_is_a_file: "file",
    Failing.a_query_that_fails: "does not fit",
    Failing.a_column_that_is_not_there: "nothing",
    Failing.a_cast_that_fails: "'x'",
}


@pytest.mark.parametrize("failing", CAUSES, ids=lambda failing: failing.__name__)
def test_the_cause_is_said_in_one_line(
    failing: Callable[[Failing], None],
    spark: SparkSession,
    gateway: Gateway,
    name: str,
    tmp_path: Path,
) -> None:
    gateway.append(name, [{"n": "x"}])

    with pytest.raises(Exception) as failed:  # noqa: PT011  of Spark, Java or Python
        partial(failing, Failing(spark, gateway, tmp_path, name))()

    message = message_of(failed.value)
    assert CAUSES[failing] in message, message
    assert "\n" not in message
    assert not re.search(r"\bo\d+\.|An error occurred while calling|Traceback", message), message
