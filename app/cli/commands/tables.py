"""`headgate load` and `headgate dump`: tables as files."""

import json
from pathlib import Path

import click

from headgate.app.cli.declaration import CALL, argument, option
from headgate.app.cli.flags import PATIENT_S, gateway_command
from headgate.app.cli.output.listing import counted, progress_bar
from headgate.app.cli.output.table_file import (
    PORTION,
    TableFile,
    portions_of,
    row_count,
    write_table,
)
from headgate.client import tables
from headgate.client.client import AsyncClient

# `headgate load`.
#
# It is not a part of `import`, which copies whole keyspaces with their groups into a gateway that
# is stopped, and needs the gateway's own packages: this appends rows to a gateway that runs.


@gateway_command(
    "load",
    failed=f"{CALL}, or the file cannot be read",
    retry_s=PATIENT_S,
    short_help="Append the rows of CSV, JSON or Parquet.",
)
async def load_command(
    gateway: AsyncClient,
    stream: str,
    as_json: bool,
    file: Path = argument(TableFile(exists=True, dir_okay=False)),
    new_ids: bool = option("Let the gateway make the ids."),
) -> None:
    """Append the rows of a file to a stream: CSV, lines of JSON, or Parquet, as its name ends.

    Each column is a field, and a cell that is empty is none. A column `_id` has the ids of the
    entries, unless --new-ids is given, so that what `headgate dump` has written keeps them. Each
    ten thousand rows are appended as a whole or not at all. It needs the extra `tables`.

        headgate load readings readings.csv
        headgate load orders orders.parquet --new-ids
    """
    target, count = gateway.stream(stream), 0
    try:
        with progress_bar(row_count(file)) as bar:
            for portion in portions_of(file):
                names = [
                    name for name in portion.schema.names if not (new_ids and name == tables.ID)
                ]
                count += await target.write_arrow(portion.select(names), chunk=PORTION)
                bar.advance(portion.num_rows)
    except BaseException as error:
        if count:
            click.echo(f"{counted(count, 'row')} appended before that.", err=True)
        if isinstance(error, ValueError | OSError):
            raise click.ClickException(f"{file}: {error}") from None
        raise
    click.echo(json.dumps({"rows": count}) if as_json else f"{counted(count, 'row')} appended")


class _Column(click.ParamType[tuple[str, str]]):
    """A field and its type."""

    name = "name=type"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        field, equals, kind = value.rpartition("=")
        if not equals or not field:
            self.fail(f"{value!r} should be a field and its type, as price=float64", param, ctx)
        return field, kind


@gateway_command(
    "dump",
    failed=f"{CALL}, or the file cannot be written",
    retry_s=PATIENT_S,
    short_help="Write a stream as CSV, JSON or Parquet.",
)
async def dump_command(
    gateway: AsyncClient,
    stream: str,
    as_json: bool,
    file: Path = argument(TableFile(dir_okay=False, writable=True)),
    start: str = option("The lowest id.", default="-", metavar="ID"),
    end: str = option("The highest id.", default="+", metavar="ID"),
    columns: tuple[tuple[str, str], ...] = option(
        "A field and its type. May be repeated.", _Column(), "--column"
    ),
) -> None:
    """Write the entries of a stream to a file: CSV, lines of JSON, or Parquet, as its name ends.

    Each field becomes a column, after `_id` and `_time`. Its type is inferred from all values; or
    --column says which fields become columns, with their types in the words of Arrow. It needs the
    extra `tables`.

        headgate dump orders orders.parquet
        headgate dump orders orders.csv --column sku=string --column price=float64
    """
    tables.arrow()
    source = gateway.stream(stream)
    count = (await source.info())["length"] if (start, end) == ("-", "+") else None
    with progress_bar(count) as bar:
        batches = []
        async with await source.batches(start=start, end=end) as arriving:
            async for batch in arriving:
                batches.append(batch)
                bar.advance(batch.num_rows)
        try:  # a type is inferred from all values
            table = tables.columns_of(batches, dict(columns) or None)
            write_table(file, table)
        except (ValueError, OSError) as error:
            raise click.ClickException(f"{file}: {error}") from None
    count = table.num_rows
    click.echo(json.dumps({"rows": count}) if as_json else f"{counted(count, 'row')} written")
