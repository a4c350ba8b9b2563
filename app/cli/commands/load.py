"""`headgate load`.

It is not a part of `import`, which copies whole keyspaces with their groups into a gateway that is
stopped, and needs the gateway's own packages: this appends rows to a gateway that runs.
"""

import json
from pathlib import Path

import click

from headgate.app.cli.flags import json_option, patient_gateway_options, stream_argument
from headgate.app.cli.manual import CALL, epilog
from headgate.app.cli.output.counts import counted
from headgate.app.cli.output.screen import progress_bar
from headgate.app.cli.output.table_file import PORTION, TableFile, portions_of, row_count
from headgate.client import tables
from headgate.client.client import AsyncClient

_HELP = """\
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
    help=_HELP,
    short_help="Append the rows of CSV, JSON or Parquet.",
    epilog=epilog(failed=f"{CALL}, or the file cannot be read"),
)
@stream_argument
@click.argument("file", type=TableFile(exists=True, dir_okay=False))
@click.option("--new-ids", is_flag=True, help="Let the gateway make the ids.")
@json_option
@patient_gateway_options
async def command(
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
