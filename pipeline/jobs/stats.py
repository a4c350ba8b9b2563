"""Rates, sizes and values of fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headgate.pipeline.checkpoint import Checkpoint
from headgate.pipeline.jobs.archive import until_end
from headgate.pipeline.jobs.entries import count, pairs, read
from headgate.pipeline.memory import entries as in_memory
from headgate.pipeline.memory import stats as stats_in_memory
from headgate.pipeline.terminal.flags import Duration, Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WINDOWS_MAX = 100_000


@click.command(
    help="""Entries, rates and sizes by window of time; with --fields, what their values are.

    With --trigger 5s it goes on and says a window once it is over: --watermark after its end by
    the time in the ids. With --lake the time before the stream begins is counted from the lake.

    \b
    By the minute:   headgate-pipeline stats --streams orders --window 1m
    What is in it:   headgate-pipeline stats --streams orders --fields
    As it comes:     headgate-pipeline stats --streams orders --window 10s --trigger 5s
    """
)
@options(
    *(
        "streams",
        "pattern",
        "lake?",
        "checkpoint",
        "trigger",
        "outage",
        "max_offsets",
        "master",
        "verbose",
        "on_spark",
    )
)
@click.option(
    "--window", type=Duration(), default="1m", show_default=True, help="Length of a window."
)
@click.option(
    "--watermark",
    type=Duration(),
    default="10s",
    show_default=True,
    help="Delay from which an entry is too late.",
)
@click.option("--fields", "is_fields", is_flag=True, help="Per field instead of per window.")
def main(flags: Flags, *, window: int, watermark: int, is_fields: bool) -> None:
    """Say rates, sizes and values."""
    with flags.client() as client:
        streams = flags.chosen(client)
        plans = flags.plans(client, streams)
        total = count(client, flags, plans)
    if flags.trigger != "once":
        if is_fields:
            raise click.UsageError("--fields: for --trigger once only")
        _follow(flags, window, watermark)
        return
    progress = ProgressLine("stats", total)
    if flags.fits_into_memory("stats", total):
        batches = progress.counted(in_memory.read(flags, plans))
        table = (
            stats_in_memory.cardinalities(batches)
            if is_fields
            else stats_in_memory.windows(batches, window_ms=window)
        )
    else:
        spark = flags.spark("stats")
        entries = read(spark, flags, plans)
        rows = cardinalities(entries) if is_fields else transform(entries, window_ms=window)
        with progress.watching(spark):
            table = rows.orderBy(*rows.columns[:2]).limit(_WINDOWS_MAX).toArrow()
        progress.advance(total)
    progress.finish()
    answer(table.slice(0, _WINDOWS_MAX).to_pylist(), as_json=flags.as_json, nothing="no entries")


def transform(entries: DataFrame, *, window_ms: int, watermark_ms: int | None = None) -> DataFrame:
    """Return for each stream and window: entries, entries a second, bytes, and bytes of an entry.

    Args:
        entries: rows of the lake or of a stream; a query or not.
        window_ms: length of a window.
        watermark_ms: how late an entry may be; needed for a query.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    if watermark_ms is not None:
        entries = entries.withWatermark("timestamp", f"{watermark_ms} milliseconds")
    sizes = F.transform(
        pairs(entries), lambda pair: F.octet_length(pair["name"]) + F.octet_length(pair["value"])
    )
    size = F.aggregate(sizes, F.lit(0).cast("bigint"), lambda total, value: total + value)
    span = F.window("timestamp", f"{window_ms} milliseconds")
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
            (F.col("entries") * 1000 / window_ms).alias("entries_per_s"),
            "size_bytes",
            (F.col("size_bytes") / F.col("entries")).alias("entry_bytes_avg"),
            "entry_bytes_max",
        )
    )


def cardinalities(entries: DataFrame) -> DataFrame:
    """Return for each stream and field: the counts of entries and of different values, sizes."""
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


def _follow(flags: Flags, window_ms: int, watermark_ms: int) -> None:
    """Say windows as they close, until somebody stops it."""
    reader = flags.source(flags.spark("stats").readStream).option("startingOffsets", "earliest")
    if flags.max_offsets is not None:
        reader = reader.option("maxOffsetsPerTrigger", flags.max_offsets)
    table = transform(reader.load(), window_ms=window_ms, watermark_ms=watermark_ms)

    def say(rows: DataFrame, _batch: int) -> None:
        windows = rows.orderBy("start", "stream").toArrow().to_pylist()
        if windows:
            answer(windows, as_json=flags.as_json)

    writer = table.writeStream.foreachBatch(say).outputMode("append")
    if flags.checkpoint is not None:
        Checkpoint(flags.checkpoint).check()
        writer = writer.option("checkpointLocation", flags.checkpoint)
    until_end("stats", flags, flags.triggered(writer).start())
