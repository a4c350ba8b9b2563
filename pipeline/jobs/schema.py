"""The fields of entries: their types, how often they are missing, and examples."""

from __future__ import annotations

import click
import pyarrow as pa
import pyarrow.compute as pc

from headgate.pipeline.computing import extract
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import answer

_PIECES = 20
_EXAMPLES = 3


@click.command(
    help="""The fields of entries: a type that fits their values, the share of nulls, and examples.

    Of streams; with --lake of the lake, and with --view of a view. Types are those of the entries
    that are looked at: twenty pieces, spread over all. No Spark is needed, and for the lake and a
    view no gateway.

    \b
    What is in it:   headgate-pipeline schema --streams orders
    In the lake:     headgate-pipeline schema --lake lake --streams orders
    Of everything:   headgate-pipeline schema --view lake-views/orders --entries 100000000
    """
)
@options("streams", "pattern", "lake?", "view")
@click.option(
    *("--entries", "-n"), type=click.IntRange(_PIECES), default=10_000, show_default=True,
    help="Entries of each stream that are looked at.",
)  # fmt: skip
def main(flags: Flags, *, entries: int) -> None:
    """Show fields."""
    rows = []
    with flags.client() as client:
        for source in extract.sources(flags, client):
            positions = extract.spread(source, entries, _PIECES)
            click.echo(
                f"schema: {len(positions):,} of {source.count:,} entries of {source.name}", err=True
            )
            if positions:
                rows += fields_of(source.name, source.rows(positions))
    answer(rows, as_json=flags.as_json, nothing="no entries")


def fields_of(name: str, table: pa.Table) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for field, column in zip(table.column_names, table.columns, strict=True):
        examples = pc.unique(column.drop_null()).slice(0, _EXAMPLES).to_pylist()
        rows.append(
            {
                "stream": name,
                "field": field,
                "type": str(column.type),
                "nulls": column.null_count / len(table),
                "examples": ", ".join(extract.example_of(value) for value in examples),
            }
        )
    return rows
