"""Rates, sizes and values of fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headgate.pipeline.jobs.archive import until_end
from headgate.pipeline.jobs.entries import count, pairs, read
from headgate.pipeline.jobs.flags import Flags, options
from headgate.pipeline.jobs.report import ProgressLine, answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WINDOWS_MAX = 100_000


@click.command(
    help="""Entries, rates and sizes by window of time; with --fields, what their values are.

    With --trigger 5s it goes on and says a window once it is over: --watermark after its end by
    the time in the ids. With --lake the time before the stream begins is counted from the lake.

    \b
    By the minute:   headgate-pipeline stats --streams orders --window '1 minute'
    What is in it:   headgate-pipeline stats --streams orders --fields
    As it comes:     headgate-pipeline stats --streams orders --window '10 seconds' --trigger 5s
    """
)
@options("streams", "pattern", "lake?", "checkpoint", "trigger", "max_offsets", "master")
@click.option("--window", default="1 minute", show_default=True, help="Length of a window.")
@click.option("--watermark", default="10 seconds", show_default=True, help="How late is too late.")
@click.option("--fields", "is_fields", is_flag=True, help="Per field instead of per window.")
def main(flags: Flags, *, window: str, watermark: str, is_fields: bool) -> None:
    """Say rates, sizes and values."""
    with flags.client() as client:
        streams = flags.chosen(client)
        plans = flags.plans(client, streams)
        total = count(client, flags, plans)
    spark = flags.spark("stats")
    if flags.trigger != "once":
        if is_fields:
            raise click.UsageError("--fields: for --trigger once only")
        reader = flags.source(spark.readStream).option("startingOffsets", "earliest")
        if flags.max_offsets is not None:
            reader = reader.option("maxOffsetsPerTrigger", flags.max_offsets)
        _follow(flags, transform(reader.load(), window=window, watermark=watermark))
        return
    progress = ProgressLine("stats", total)
    entries = read(spark, flags, plans)
    table = cardinalities(entries) if is_fields else transform(entries, window=window)
    rows = table.orderBy(*table.columns[:2]).limit(_WINDOWS_MAX).collect()
    progress.advance(total)
    progress.finish()
    answer([row.asDict() for row in rows], as_json=flags.as_json, nothing="no entries")


def transform(entries: DataFrame, *, window: str, watermark: str | None = None) -> DataFrame:
    """Return for each stream and window: entries, entries a second, bytes, and bytes of an entry.

    Args:
        entries: rows of the lake or of a stream; a query or not.
        window: length, such as 1 minute.
        watermark: how late an entry may be; needed for a query.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    if watermark is not None:
        entries = entries.withWatermark("timestamp", watermark)
    sizes = F.transform(
        pairs(entries), lambda pair: F.octet_length(pair["name"]) + F.octet_length(pair["value"])
    )
    size = F.aggregate(sizes, F.lit(0).cast("bigint"), lambda total, value: total + value)
    span = F.window("timestamp", window)
    length_s = F.unix_millis(F.col("window.end")) - F.unix_millis(F.col("window.start"))
    return (
        entries.withColumn("size_bytes", size)
        .groupBy("stream", span)
        .agg(
            F.count("*").alias("entries"),
            F.sum("size_bytes").alias("size_bytes"),
            F.max("size_bytes").alias("entry_bytes_max"),
        )
        .select(
            "stream",
            F.col("window.start").alias("start"),
            "entries",
            (F.col("entries") * 1000 / length_s).alias("entries_per_s"),
            "size_bytes",
            (F.col("size_bytes") / F.col("entries")).alias("entry_bytes_avg"),
            "entry_bytes_max",
        )
    )


def cardinalities(entries: DataFrame) -> DataFrame:
    """Return for each stream and field: in how many entries, how many different values, sizes."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    return (
        entries.select("stream", F.explode(pairs(entries)).alias("pair"))
        .groupBy("stream", F.col("pair.name").alias("field"))
        .agg(
            F.count("*").alias("entries"),
            F.approx_count_distinct("pair.value").alias("values_about"),
            F.min(F.octet_length("pair.value")).alias("value_bytes_min"),
            F.avg(F.octet_length("pair.value")).alias("value_bytes_avg"),
            F.max(F.octet_length("pair.value")).alias("value_bytes_max"),
        )
    )


def _follow(flags: Flags, table: DataFrame) -> None:
    """Say windows as they close, until somebody stops it."""

    def say(rows: DataFrame, _batch: int) -> None:
        windows = [row.asDict() for row in rows.orderBy("start", "stream").collect()]
        if windows:
            answer(windows, as_json=flags.as_json)

    writer = table.writeStream.foreachBatch(say).outputMode("append")
    if flags.checkpoint is not None:
        writer = writer.option("checkpointLocation", flags.checkpoint)
    until_end(flags.triggered(writer).start())
