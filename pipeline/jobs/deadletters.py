"""Dead letters: which entries no consumer could settle, and back with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from headgate.client import Plan
from headgate.client.blocking import Client
from headgate.pipeline.jobs.entries import count, pairs, read, texts, value
from headgate.pipeline.memory import deadletters as in_memory
from headgate.pipeline.memory import entries as in_memory_entries
from headgate.pipeline.memory.entries import check_out, rows_of, write
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REDRIVEN_AT_ONCE = 1000
_SHOWN_MAX = 10_000
_ORIGIN = ("_stream", "_id", "_group", "_deliveries", "_reason", "_error")


@click.command(
    help="""Dead letters as a table: what they were, where they came from and why they are here.

    --streams names the streams that dead letters went to (a group's policy says which). With
    --redrive each goes back to the group it came from, which gets it as if it were new.

    \b
    What is there:   headgate-pipeline deadletters --streams orders-dead
    As a table:      headgate-pipeline deadletters --pattern '.*-dead' --out dead.parquet
    Back with them:  headgate-pipeline deadletters --streams orders-dead --redrive
    """
)
@options("streams", "pattern", "master", "verbose", "on_spark", "dry_run")
@click.option("--redrive", is_flag=True, help="Send them back to where they came from.")
@click.option("--out", help="Write Parquet here instead of saying the rows.")
def main(flags: Flags, *, redrive: bool, out: str | None) -> None:
    """Say dead letters, or send them back."""
    if out is not None:
        check_out(out)
    with flags.client() as client:
        streams = flags.chosen(client)
        plans = flags.plans(client, streams)
        total = count(client, flags, plans)
        dead_letters = _dead_letters(flags, plans, total, redrive=redrive, out=out)
        if redrive:
            rows = _redriven(client, dead_letters, total, dry_run=flags.dry_run)
        elif out is not None:
            rows = [{"dead_letters": total, "out": out}]
        else:
            rows = rows_of(dead_letters.slice(0, _SHOWN_MAX))
    answer(rows, as_json=flags.as_json, nothing="no dead letters")


def _dead_letters(
    flags: Flags, plans: Mapping[str, Plan], total: int, *, redrive: bool, out: str | None
) -> pa.Table:
    """Return dead letters, or only their origins; write them, if they are to be written."""
    progress = ProgressLine("deadletters", total)
    if flags.fits_into_memory("deadletters", total):
        batches = progress.counted(in_memory_entries.read(flags, plans))
        table = in_memory.transform(batches, _ORIGIN)
        if out is not None:
            write(table, out)
    else:
        spark = flags.spark("deadletters")
        dead_letters = transform(read(spark, flags, plans))
        with progress.watching(spark):
            if out is not None:
                dead_letters.write.mode("overwrite").parquet(out)
            origins = dead_letters.select("origin", "group").distinct()
            shown = dead_letters.orderBy("timestamp", "id").limit(_SHOWN_MAX)
            table = (origins if redrive else shown).toArrow()
        progress.advance(total)
    progress.finish()
    return table


def _redriven(
    client: Client, dead_letters: pa.Table, total: int, *, dry_run: bool
) -> list[dict[str, object]]:
    """Send dead letters back, and return how many of each group."""
    origins = dead_letters.group_by(["origin", "group"]).aggregate([])
    origins = origins.sort_by([("origin", "ascending"), ("group", "ascending")])
    progress = ProgressLine("deadletters", total, "redriven")
    rows = [
        row | {"redriven": 0 if dry_run else _redrive(client, **row, progress=progress)}
        for row in origins.to_pylist()
    ]
    progress.finish()
    return rows


def transform(entries: DataFrame) -> DataFrame:
    """Return dead letters with their origin in columns, and the fields they came with.

    Args:
        entries: rows of streams that dead letters went to; others are left out.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    every = pairs(entries)
    own = F.filter(every, lambda pair: ~pair["name"].isin(*_ORIGIN))
    return entries.select(
        "stream",
        "id",
        "timestamp",
        value(every, "_stream").alias("origin"),
        value(every, "_id").alias("origin_id"),
        value(every, "_group").alias("group"),
        value(every, "_deliveries").try_cast("bigint").alias("deliveries"),
        value(every, "_reason").alias("reason"),
        value(every, "_error").alias("error"),
        texts(own).alias("fields"),
    ).where("origin IS NOT NULL AND `group` IS NOT NULL")


def _redrive(client: Client, origin: str, group: str, progress: ProgressLine) -> int:
    """Send all dead letters of a group back, a thousand at a time."""
    count = 0
    while True:
        results = client.group(origin, group).redrive(limit=_REDRIVEN_AT_ONCE)
        count += len(results)
        progress.advance(len(results))
        if len(results) < _REDRIVEN_AT_ONCE:
            return count
