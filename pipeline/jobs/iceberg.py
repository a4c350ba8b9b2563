"""The files of the lake as an Iceberg table: metadata beside them, and no copy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.pipeline.lake import Lake
from headgate.pipeline.lakefile import COLUMNS
from headgate.pipeline.location import is_bucket
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import answer

if TYPE_CHECKING:
    from pyiceberg.table import Table

_TABLE = ("lake", "entries")


@click.command(
    help="""Keep an Iceberg table of the files that the lake has, for engines that read no Delta.

    Nothing is copied: the table is metadata in a folder beside the lake, with a catalog in SQLite.
    A run adds the files that are new and takes out those that compact has replaced. Run it behind
    compact: files that were deleted are missing from an older state of the table.

    \b
    Behind compact:   headgate-pipeline iceberg --lake lake
    In Python:        polars.scan_iceberg('lake-iceberg/lake/entries/metadata/….metadata.json')
    """
)
@options("lake", "dry_run")
@click.option("--to", help="Folder of the metadata.  [the lake's name and -iceberg]")
def main(flags: Flags, *, to: str | None) -> None:
    """Update the Iceberg table."""
    lake = Lake(flags.lake)
    folder = to or f"{lake.path}-iceberg"
    if is_bucket(folder):
        raise click.ClickException(f"{folder}: the catalog is a file, so --to is a local folder")
    table = open_table(Path(folder).resolve())
    there = {task.file.file_path: task.file for task in table.scan().plan_files()}
    wanted = {lake.uri(file) for file in lake.files()}
    new, gone = sorted(wanted - there.keys()), sorted(there.keys() - wanted)
    if not flags.dry_run and (new or gone):
        with table.transaction() as transaction:  # both or neither
            if gone:
                with transaction.update_snapshot().overwrite() as overwrite:
                    for path in gone:
                        overwrite.delete_data_file(there[path])
            if new:
                transaction.add_files(new, check_duplicate_files=False)
    row: dict[str, object] = {"files": len(wanted), "added": len(new), "removed": len(gone)}
    if flags.as_json:
        row["metadata"] = table.metadata_location
    else:
        click.echo(f"iceberg: {table.metadata_location}", err=True)
    answer([row], as_json=flags.as_json)


def open_table(folder: Path) -> Table:
    """Return the table of a folder, creating an empty one if needed."""
    try:
        from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - of an extra
    except ImportError:
        raise click.ClickException(
            "pyiceberg is missing: pip install -e '.[spark,iceberg]'"
        ) from None
    folder.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog(
        "headgate", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=folder.as_uri()
    )
    catalog.create_namespace_if_not_exists(_TABLE[0])
    return catalog.create_table_if_not_exists(_TABLE, COLUMNS)
