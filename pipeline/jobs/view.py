"""Streams of the lake as tables with typed columns, for any reader of Delta tables."""

from __future__ import annotations

import click
import pyarrow as pa

from headgate.pipeline.jobs.flags import Flags, options
from headgate.pipeline.jobs.report import ProgressLine, answer
from headgate.pipeline.lake import Lake
from headgate.pipeline.view import View, ViewConflict


class _Column(click.ParamType[tuple[str, str]]):
    """A field and its type."""

    name = "name=type"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        field, _, kind = value.rpartition("=")
        try:
            pa.type_for_alias(kind)
        except ValueError:
            field = ""
        if not field:
            self.fail(f"{value!r} should be a field and its type, as price=float64", param, ctx)
        return field, kind


@click.command(
    help="""Keep, for each stream of the lake, a table with a typed column for each field.

    The tables are Delta tables in a folder beside the lake. Any reader of Delta tables reads them:
    DuckDB, Polars, pandas by deltalake, Spark. A run adds what was archived since the last one.

    A column has the type that fits all values there were when it came to be; a field that is new
    becomes a new column. If a value does not fit its column any more, the job says so and changes
    nothing: --anew writes the table again. No Spark and no gateway are needed.

    \b
    Behind archive:   headgate-pipeline view --lake lake
    With types:       headgate-pipeline view --lake lake --streams orders --column price=float64
    """
)
@options("lake", "streams")
@click.option("--to", help="Folder of the tables.  [the lake's name and -views]")
@click.option(
    "--column",
    "columns",
    multiple=True,
    type=_Column(),
    help="A field and its type, in the words of Arrow; only these are columns. May be repeated.",
)
@click.option("--anew", is_flag=True, help="Write the tables again, from all the lake has.")
def main(flags: Flags, *, to: str | None, columns: tuple[tuple[str, str], ...], anew: bool) -> None:
    """Update views."""
    lake = Lake(flags.lake)
    streams = flags.names() if flags.streams else lake.streams()
    missing = [stream for stream in streams if lake.held(stream) is None]
    if missing:
        raise click.ClickException(f"{lake.path} holds nothing of the stream {missing[0]!r}")
    progress = ProgressLine("view", None)
    rows: list[dict[str, object]] = []
    for stream in streams:
        view = View(lake, stream, (to or f"{lake.path}-views").rstrip("/"))
        try:
            added = view.update(dict(columns) or None, anew=anew, on_progress=progress.advance)
        except ViewConflict as conflict:
            raise click.ClickException(f"{stream}: {conflict}") from None
        rows.append({"stream": stream, "added": added, "table": view.path})
    progress.finish()
    answer(rows, as_json=flags.as_json, nothing="the lake is empty")
