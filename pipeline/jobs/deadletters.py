"""Dead letters: which entries no consumer could settle, and back with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headgate.client.blocking import Client
from headgate.pipeline.jobs.entries import count, pairs, read, texts, value
from headgate.pipeline.jobs.flags import Flags, options
from headgate.pipeline.jobs.report import ProgressLine, answer

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
@options("streams", "pattern", "master", "verbose", "dry_run")
@click.option("--redrive", is_flag=True, help="Send them back to where they came from.")
@click.option("--out", help="Write Parquet here instead of saying the rows.")
def main(flags: Flags, *, redrive: bool, out: str | None) -> None:
    """Say dead letters, or send them back."""
    with flags.client() as client:
        streams = flags.chosen(client)
        plans = flags.plans(client, streams)
        total = count(client, flags, plans)
        spark = flags.spark("deadletters")
        table = transform(read(spark, flags, plans))
        if out is not None:
            table.write.mode("overwrite").parquet(out)
        if redrive:
            origins = table.select("origin", "group").distinct().orderBy("origin", "group")
            progress = ProgressLine("deadletters", total)
            rows = [
                {
                    "origin": row["origin"],
                    "group": row["group"],
                    "redriven": 0
                    if flags.dry_run
                    else _redrive(client, row["origin"], row["group"], progress),
                }
                for row in origins.collect()
            ]
            progress.finish()
        elif out is not None:
            rows = [{"dead_letters": total, "out": out}]
        else:
            shown = table.orderBy("timestamp", "id").limit(_SHOWN_MAX).collect()
            rows = [row.asDict() for row in shown]
    answer(rows, as_json=flags.as_json, nothing="no dead letters")


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


def _redrive(client: Client, stream: str, group: str, progress: ProgressLine) -> int:
    """Send all dead letters of a group back, a thousand at a time."""
    count = 0
    while True:
        results = client.group(stream, group).redrive(limit=_REDRIVEN_AT_ONCE)
        count += len(results)
        progress.advance(len(results))
        if len(results) < _REDRIVEN_AT_ONCE:
            return count
