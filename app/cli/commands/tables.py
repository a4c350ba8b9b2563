"""`headgate load` and `headgate dump`: tables as files."""

import json
from pathlib import Path

import click

from headgate.app.cli.flags import Utf8, json_option, patient_gateway_options, stream_argument
from headgate.app.cli.manual import CALL, epilog
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

_LOAD_HELP = """\
Append the rows of a file to a stream: CSV, lines of JSON, or Parquet, as its name ends.

Each column is a field, and a cell that is empty is none. A column `_id` has the ids of the entries,
unless --new-ids is given, so that what `headgate dump` has written keeps them. Each ten thousand
rows are appended as a whole or not at all. It needs the extra `tables`.

\b
headgate load readings readings.csv
headgate load orders orders.parquet --new-ids
"""


@click.command(
    "load",
    help=_LOAD_HELP,
    short_help="Append the rows of CSV, JSON or Parquet.",
    epilog=epilog(failed=f"{CALL}, or the file cannot be read"),
)
@stream_argument
@click.argument("file", type=TableFile(exists=True, dir_okay=False))
@click.option("--new-ids", is_flag=True, help="Let the gateway make the ids.")
@json_option
@patient_gateway_options
async def load_command(
    stream: str, file: Path, new_ids: bool, as_json: bool, gateway: AsyncClient
) -> None:
    """Append the rows of a file."""
    target, count = gateway.stream(stream), 0
    try:
        with progress_bar(row_count(file)) as advance:
            for portion in portions_of(file):
                names = [
                    name for name in portion.schema.names if not (new_ids and name == tables.ID)
                ]
                count += await target.write_arrow(portion.select(names), chunk=PORTION)
                advance(portion.num_rows)
    except BaseException as error:
        if count:
            click.echo(f"{counted(count, 'row')} appended before that.", err=True)
        if isinstance(error, ValueError | OSError):
            raise click.ClickException(f"{file}: {error}") from None
        raise
    click.echo(json.dumps({"rows": count}) if as_json else f"{counted(count, 'row')} appended")


_DUMP_HELP = """\
Write the entries of a stream to a file: CSV, lines of JSON, or Parquet, as its name ends.

Each field becomes a column, after `_id` and `_time`. Its type is inferred from all values; or
--column says which fields become columns, with their types in the words of Arrow. It needs the
extra `tables`.

\b
headgate dump orders orders.parquet
headgate dump orders orders.csv --column sku=string --column price=float64
"""


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


@click.command(
    "dump",
    help=_DUMP_HELP,
    short_help="Write a stream as CSV, JSON or Parquet.",
    epilog=epilog(failed=f"{CALL}, or the file cannot be written"),
)
@stream_argument
@click.argument("file", type=TableFile(dir_okay=False, writable=True))
@click.option("--start", type=Utf8(), default="-", metavar="ID", help="The lowest id.")
@click.option("--end", type=Utf8(), default="+", metavar="ID", help="The highest id.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    type=_Column(),
    help="A field and its type. May be repeated.",
)
@json_option
@patient_gateway_options
async def dump_command(
    stream: str,
    file: Path,
    start: str,
    end: str,
    columns: tuple[tuple[str, str], ...],
    as_json: bool,
    gateway: AsyncClient,
) -> None:
    """Write the entries of a stream."""
    tables.arrow()
    source = gateway.stream(stream)
    count = (await source.info())["length"] if (start, end) == ("-", "+") else None
    with progress_bar(count) as advance:
        batches = []
        async with await source.batches(start=start, end=end) as arriving:
            async for batch in arriving:
                batches.append(batch)
                advance(batch.num_rows)
        try:  # a type is inferred from all values
            table = tables.columns_of(batches, dict(columns) or None)
            write_table(file, table)
        except (ValueError, OSError) as error:
            raise click.ClickException(f"{file}: {error}") from None
    count = table.num_rows
    click.echo(json.dumps({"rows": count}) if as_json else f"{counted(count, 'row')} written")
