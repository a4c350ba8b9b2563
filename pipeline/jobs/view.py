"""Streams of the lake as tables with typed columns, for any reader of Delta tables."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import partial
from typing import Any

import click
import pyarrow as pa
from deltalake.exceptions import DeltaError

from headgate.client.problems import HeadgateError
from headgate.pipeline.lake import Lake
from headgate.pipeline.rows.latest import RowFields, row_fields
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer
from headgate.pipeline.views.entry_schema import columns_of
from headgate.pipeline.views.latest import LatestView
from headgate.pipeline.views.table import ViewConflict, type_of
from headgate.pipeline.views.view import Choice, Update, View, folder_of

_TROUBLES = (HeadgateError, ViewConflict, DeltaError, pa.ArrowException, OSError, ValueError)


class _Column(click.ParamType[tuple[str, pa.DataType]]):
    name = "name=type"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, pa.DataType]:
        parts = value.split("=")
        reason = f"{value!r} should be a field and its type, as price=float64"
        for at in range(1, len(parts)):  # both a name and a type may have a sign of equality
            try:
                return "=".join(parts[:at]), type_of("=".join(parts[at:]))
            except ValueError as error:
                reason = str(error)
        raise click.BadParameter(reason, ctx, param)


@click.command(
    help="""Keep, for each stream of the lake, a table with a typed column for each field.

    The tables are Delta tables in a folder beside the lake. Any reader of Delta tables reads them:
    DuckDB, Polars, pandas by deltalake, Spark. A run adds what was archived since the last one.

    A column has the type that fits all its values. If others come it widens: whole numbers to
    numbers, to decimals, to text. A value that fits no wider type, or not the one that was chosen,
    stands in the column _rescued, as JSON by field. A field that is new becomes a new column. No
    Spark and no gateway are needed.

    With --latest a second table of each stream has only the latest entry of each key, by the column
    _key. Its first run asks the gateway for the stream's key_field, unless --key says it.

    \b
    Behind archive:   headgate-pipeline view --lake lake
    Latest by key:    headgate-pipeline view --lake lake --streams stock --latest
    With types:       headgate-pipeline view --lake lake --streams orders \\
                        --column 'price=decimal(10,2)' --column at=timestamp
    Those of schemas: headgate-pipeline view --lake lake --schema
    Two columns:      headgate-pipeline view --lake lake --streams orders --only sku,price
    """
)
@options("lake", "streams")
@click.option("--to", help="Folder of the tables.  [the lake's name and -views]")
@click.option(
    "--column",
    "columns",
    multiple=True,
    type=_Column(),
    help="A field and its type: price=float, at=timestamp. Others are inferred. May be repeated.",
)
@click.option("--only", multiple=True, help="Fields that become columns, separated by commas.")
@click.option(
    "--schema",
    "of_schema",
    is_flag=True,
    help="Ask the gateway for the schema of each stream, and take its types.",
)
@click.option("--latest", is_flag=True, help="Keep the latest entry of each key.")
@click.option("--key", help="(with --latest) The field of the key.  [that of the stream]")
@click.option(
    "--tombstone", help="(with --latest) A field that removes the row.  [that of the stream]"
)
@click.option("--anew", is_flag=True, help="Write the tables again, from all the lake has.")
def main(
    flags: Flags,
    *,
    to: str | None,
    columns: tuple[tuple[str, pa.DataType], ...],
    only: tuple[str, ...],
    of_schema: bool,
    latest: bool,
    key: str | None,
    tombstone: str | None,
    anew: bool,
) -> None:
    """Update views."""
    if not latest and (key, tombstone) != (None, None):
        raise click.UsageError("--key and --tombstone are for tables: give --latest as well")
    lake = Lake(flags.lake)
    streams = flags.names() if flags.streams else lake.streams()
    missing = [stream for stream in streams if lake.held(stream) is None]
    if missing:
        raise click.ClickException(f"{lake.path} holds nothing of the stream {missing[0]!r}")
    fields = frozenset(name for line in csv.reader(only) for name in line)
    progress = ProgressLine("view", None)
    rows: list[dict[str, object]] = []
    troubles: list[str] = []
    for stream in streams:
        folder = folder_of(lake, to)
        view = View(lake, stream, folder)
        if latest:
            ask = partial(_row_fields, flags, stream, key, tombstone)
            view = LatestView(lake, stream, folder, ask, key, tombstone)
        update = Update()
        try:
            types = (_schema_types(flags, stream) if of_schema else {}) | dict(columns)
            choice = Choice(types, fields or None) if types or fields else None
            update = view.update(choice, anew=anew, on_progress=progress.advance)
        except _TROUBLES as error:
            troubles.append(f"{stream}: {' '.join(str(error).split())}")
        row = {"stream": stream, **update._asdict(), "table": view.path}
        rows.append(row | {"widened": "; ".join(update.widened) or None})
    progress.finish()
    answer(rows, as_json=flags.as_json, nothing="the lake is empty")
    for trouble in troubles[:-1]:
        click.echo(f"Error: {trouble}", err=True)
    if troubles:
        raise click.ClickException(troubles[-1])


def _schema_types(flags: Flags, stream: str) -> dict[str, pa.DataType]:
    with flags.client() as client:
        schema = client.stream(stream).schema()
    return {} if schema is None else columns_of(schema)


def _row_fields(flags: Flags, stream: str, key: str | None, tombstone: str | None) -> RowFields:
    """Return the fields that a person chose; without a key those of the stream."""
    config: Mapping[str, Any] = {}
    if key is None:
        with flags.client() as client:
            config = client.stream(stream).info()["config"]
    fields = row_fields(config, key, tombstone)
    if fields is None:
        raise ValueError("the stream is no table, as it has no key_field: give --key")
    return fields
