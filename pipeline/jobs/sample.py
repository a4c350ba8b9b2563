"""Random entries, as a table."""

from __future__ import annotations

import click

from headgate.pipeline.computing import extract
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import answer


@click.command(
    help="""Random entries, each as likely as any other, in their order.

    Of streams; with --lake of the lake, and with --view of a view. No Spark is needed, and for the
    lake and a view no gateway. Only what is shown is read, and what lies close to it.

    \b
    A look at it:    headgate-pipeline sample --streams orders
    The same again:  headgate-pipeline sample --lake lake --streams orders --seed 7 --json
    """
)
@options("streams", "pattern", "lake?", "view")
@click.option(
    *("--entries", "-n"), type=click.IntRange(1, 10_000), default=10, show_default=True,
    help="Entries of each stream.",
)  # fmt: skip
@click.option("--seed", type=int, help="The same number chooses the same of the same entries.")
def main(flags: Flags, *, entries: int, seed: int | None) -> None:
    """Show entries."""
    with flags.client() as client:
        parts = [
            (source.name, source.rows(extract.at_random(source, entries, seed)))
            for source in extract.sources(flags, client)
        ]
    answer(extract.rows_of(parts), as_json=flags.as_json, nothing="no entries", is_data=True)
