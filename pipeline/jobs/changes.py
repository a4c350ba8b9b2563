"""The latest state by key, from a stream of changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from headgate.pipeline.jobs.entries import count, pairs, read, texts, value
from headgate.pipeline.memory import changes as in_memory
from headgate.pipeline.memory import entries as in_memory_entries
from headgate.pipeline.memory.entries import check_out, rows_of, write
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHOWN_MAX = 10_000


@click.command(
    help="""The latest entry of each key: the state that a stream of changes leads to.

    \b
    The price now:   headgate-pipeline changes --streams stocks --key symbol
    As a table:      headgate-pipeline changes --streams users --key id --deleted op=delete \\
                       --lake lake --out users.parquet
    """
)
@options("streams", "pattern", "lake?", "master", "verbose", "on_spark")
@click.option("--key", required=True, help="Fields that say whose state it is, by comma.")
@click.option("--deleted", metavar="FIELD=VALUE", help="An entry with this value ends its key.")
@click.option("--out", help="Write Parquet here instead of saying the rows.")
def main(flags: Flags, *, key: str, deleted: str | None, out: str | None) -> None:
    """Say the latest state."""
    names = [name.strip() for name in key.split(",")]
    if not all(names):
        raise click.BadParameter("names of fields, separated by commas", param_hint="--key")
    ending = None if deleted is None else tuple(deleted.partition("=")[::2])
    if ending is not None and not all(ending):
        raise click.BadParameter("a field and its value, as op=delete", param_hint="--deleted")
    if out is not None:
        check_out(out)
    with flags.client() as client:
        streams = flags.chosen(client)
        plans = flags.plans(client, streams)
        total = count(client, flags, plans)
    progress = ProgressLine("changes", total)
    if flags.fits_into_memory("changes", total):
        batches = progress.counted(in_memory_entries.read(flags, plans))
        table = in_memory.transform(batches, names, own_columns(names), ending)
        if out is not None:
            write(table, out)
            table = pa.table({"keys": [len(table)], "out": [out]})
    else:
        spark = flags.spark("changes")
        latest = transform(read(spark, flags, plans), names, ending)
        with progress.watching(spark):
            if out is not None:
                latest.write.mode("overwrite").parquet(out)
                table = pa.table({"keys": [spark.read.parquet(out).count()], "out": [out]})
            else:
                table = latest.orderBy(*names).limit(_SHOWN_MAX).toArrow()
        progress.advance(total)
    progress.finish()
    rows = rows_of(table.slice(0, _SHOWN_MAX))
    answer(rows, as_json=flags.as_json, nothing="no entry has this key")


def own_columns(key: Sequence[str]) -> list[str]:
    """Return the names of the columns of the entry itself: one of a key has an underscore more."""
    return [f"_{name}" if name in key else name for name in ("stream", "id", "timestamp", "fields")]


def transform(
    entries: DataFrame, key: Sequence[str], deleted: tuple[str, ...] | None = None
) -> DataFrame:
    """Return the latest entry of each key: the key's fields, `stream`, `id`, `timestamp`, `fields`.

    If the key has a field of such a name, the entry's own column has an underscore before it.

    Args:
        entries: rows of the lake or of a stream, in any order; those without the key are left out.
        key: names of fields.
        deleted: field and value that end a key.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    keyed = entries.select(
        *(value(pairs(entries), name).alias(name) for name in key),
        F.struct(
            *("ms", F.coalesce("seq", F.lit(2**63 - 1)).alias("seq")),
            *(F.length("id").alias("id_length"), "id", "stream"),
        ).alias("_at"),
        F.struct("stream", "id", "timestamp", texts(pairs(entries)).alias("fields")).alias(
            "_entry"
        ),
    ).dropna(subset=list(key))
    latest = keyed.groupBy(*key).agg(F.max_by("_entry", "_at").alias("_entry"))
    if deleted is not None:
        name, text = deleted
        latest = latest.where(~F.coalesce(F.col("_entry.fields")[name] == text, F.lit(False)))
    own = zip(("stream", "id", "timestamp", "fields"), own_columns(key), strict=True)
    return latest.select(*key, *(F.col(f"_entry.{name}").alias(column) for name, column in own))
