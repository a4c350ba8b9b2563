"""Rates, sizes and values of fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from headgate.pipeline.checkpoint import Checkpoint
from headgate.pipeline.computing.entries import POINTS, chosen_by, flattened, points_of
from headgate.pipeline.computing.ways import way_of
from headgate.pipeline.jobs.archive import until_end
from headgate.pipeline.terminal.flags import Duration, Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WINDOWS_MAX = 100_000
_PAIRS = pa.schema([("stream", pa.string()), ("field", pa.string()), ("value", pa.binary())])
_WINDOWS = """
    SELECT
        stream,
        {start} AS start,
        count(*) AS entries,
        count(*) * 1000 / {window_ms} AS entries_per_s,
        CAST(sum(size_bytes) AS bigint) AS size_bytes,
        sum(size_bytes) / count(*) AS entry_bytes_avg,
        max(size_bytes) AS entry_bytes_max
    FROM {rows} GROUP BY stream, {window} {order}
"""
_FIELDS = """
    SELECT
        stream,
        field,
        count(*) AS entries,
        approx_count_distinct(value) AS values_about,
        min(octet_length(value)) AS value_bytes_min,
        avg(octet_length(value)) AS value_bytes_avg,
        max(octet_length(value)) AS value_bytes_max
    FROM {rows} GROUP BY stream, field ORDER BY stream, field
"""


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
        _, total, places = chosen_by(flags, client)
    if flags.trigger != "once":
        if is_fields:
            raise click.UsageError("--fields: for --trigger once only")
        _follow(flags, window, watermark)
        return
    progress = ProgressLine("stats", total)
    way = way_of(flags, "stats", total, progress)
    if is_fields:
        rows = way.rows(places, _pairs_of, _PAIRS)
        table = way.table(_FIELDS, limit=_WINDOWS_MAX, rows=rows)
    else:
        rows = way.rows(places, points_of, POINTS)
        start = f"timestamp_millis(ms - ms % {window})"
        given = {"start": start, "window": start, "order": "ORDER BY stream, start"}
        table = way.table(_WINDOWS, limit=_WINDOWS_MAX, window_ms=window, rows=rows, **given)
    progress.finish()
    answer(table.to_pylist(), as_json=flags.as_json, nothing="no entries")


def _pairs_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the fields of entries, each with the stream."""
    for batch in batches:
        entries, names, values = flattened(batch.column("fields"))
        streams = batch.column("stream").take(pa.array(entries))
        yield pa.RecordBatch.from_arrays([streams, names, values], schema=_PAIRS)


def _follow(flags: Flags, window_ms: int, watermark_ms: int) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

    spark = flags.spark("stats")
    reader = flags.source(spark.readStream).option("startingOffsets", "earliest")
    if flags.max_offsets is not None:
        reader = reader.option("maxOffsetsPerTrigger", flags.max_offsets)
    points = reader.load().mapInArrow(points_of, from_arrow_schema(POINTS))
    points = points.withWatermark("timestamp", f"{watermark_ms} milliseconds")
    span = f"window(timestamp, '{window_ms} milliseconds')"
    given = {"start": "window.start", "window": span, "order": "", "rows": "{rows}"}
    table = spark.sql(_WINDOWS.format(window_ms=window_ms, **given), rows=points)

    def say(rows: DataFrame, _batch: int) -> None:
        windows = rows.orderBy("start", "stream").toArrow().to_pylist()
        if windows:
            answer(windows, as_json=flags.as_json)

    writer = table.writeStream.foreachBatch(say).outputMode("append")
    if flags.checkpoint is not None:
        Checkpoint(flags.checkpoint).check()
        writer = writer.option("checkpointLocation", flags.checkpoint)
    until_end("stats", flags, flags.triggered(writer).start())
