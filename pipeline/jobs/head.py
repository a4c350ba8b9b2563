"""The first or the last entries, as a table."""

from __future__ import annotations

import click

from headgate.pipeline.computing import extract
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import answer


@click.command(
    help="""The first entries, or with --last the last ones, with a column for each field.

    Of streams; with --lake of the lake, and with --view of a view. No Spark is needed, and for the
    lake and a view no gateway.

    \b
    How it began:    headgate-pipeline head --streams orders
    What came last:  headgate-pipeline head --streams orders --last --entries 3
    In the lake:     headgate-pipeline head --lake lake --streams orders
    In a view:       headgate-pipeline head --view lake-views/orders
    """
)
@options("streams", "pattern", "lake?", "view")
@click.option(
    *("--entries", "-n"), type=click.IntRange(1, 10_000), default=10, show_default=True,
    help="Entries of each stream.",
)  # fmt: skip
@click.option("--last", "is_last", is_flag=True, help="The last ones.")
def main(flags: Flags, *, entries: int, is_last: bool) -> None:
    """Show entries."""
    with flags.client() as client:
        parts = [
            (source.name, source.last(entries) if is_last else source.first(entries))
            for source in extract.sources(flags, client)
        ]
    answer(extract.rows_of(parts), as_json=flags.as_json, nothing="no entries", is_data=True)
