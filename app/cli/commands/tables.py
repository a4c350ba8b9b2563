from __future__ import annotations

import base64
import csv
import json
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from headgate.app.cli.declaration import CALL, argument, option
from headgate.app.cli.durations import Parsed
from headgate.app.cli.flags import PATIENT_S, gateway_command
from headgate.app.cli.listing import counted, progress_bar
from headgate.client import tables
from headgate.client.client import AsyncClient

if TYPE_CHECKING:
    import pyarrow as pa

PORTION = 10_000
"""Rows that are read or written at once."""

_KINDS = {".csv": "csv", ".ndjson": "json", ".jsonl": "json", ".parquet": "parquet"}


class TableFile(click.Path):
    """The name of a file, whose ending is that of its format."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return it."""
        path = Path(str(super().convert(value, param, ctx)))
        if path.suffix.lower() not in _KINDS:
            self.fail(f"{path.name!r} does not end with one of {', '.join(_KINDS)}", param, ctx)
        return path


def row_count(path: Path) -> int | None:
    """Return how many rows a file has, if it says so."""
    if _kind(path) != "parquet":
        return None
    tables.arrow()
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    return int(parquet.read_metadata(path).num_rows)


def portions_of(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file.

    Raises:
        ValueError: it is no such file.
    """
    tables.arrow()
    read = {"csv": _csv_portions, "json": _json_portions, "parquet": _parquet_portions}
    yield from read[_kind(path)](path)


def write_table(path: Path, table: pa.Table) -> None:
    """Write rows to a file, which gets its name when it is complete."""
    part = path.with_name(f"{path.name}.part")
    write = {"csv": _write_csv, "json": _write_json, "parquet": _write_parquet}
    write[_kind(path)](part, table)
    part.replace(path)


def _kind(path: Path) -> str:
    return _KINDS[path.suffix.lower()]


def _csv_portions(path: Path) -> Iterator[pa.RecordBatch]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, strict=True)
        try:
            while portion := list(islice(rows, PORTION)):
                yield _batch([_checked(row, rows.line_num) for row in portion])
        except csv.Error as error:
            raise ValueError(f"line {rows.line_num}: {error}") from None


def _checked(row: dict[str, Any], number: int) -> dict[str, str | None]:
    """Return the cells of a row; those that are empty are no fields."""
    if None in row:
        raise ValueError(f"line {number} has more cells than the first line")
    return {name: value or None for name, value in row.items()}


def _json_portions(path: Path) -> Iterator[pa.RecordBatch]:
    with path.open(encoding="utf-8") as file:
        lines = enumerate(file, 1)
        while portion := list(islice(lines, PORTION)):
            yield _batch([_json_row(line, number) for number, line in portion if line.strip()])


def _json_row(line: str, number: int) -> dict[str, str | None]:
    try:
        row = json.loads(line, parse_int=str, parse_float=str)
    except ValueError:
        raise ValueError(f"line {number} is not valid JSON") from None
    if not isinstance(row, dict):
        raise ValueError(f"line {number} is not a JSON object")  # noqa: TRY004 the file is wrong
    return {name: _json_text(value) for name, value in row.items()}


def _json_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _parquet_portions(path: Path) -> Iterator[pa.RecordBatch]:
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    yield from parquet.ParquetFile(path).iter_batches(PORTION)


def _batch(rows: list[dict[str, str | None]]) -> pa.RecordBatch:
    pa = tables.arrow()
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.RecordBatch.from_pydict(
        {name: pa.array([row.get(name) for row in rows], pa.string()) for name in names}
    )


def _write_csv(path: Path, table: pa.Table) -> None:
    from pyarrow import csv as arrow_csv  # noqa: PLC0415 - an extra

    arrow_csv.write_csv(table, path)


def _write_parquet(path: Path, table: pa.Table) -> None:
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    parquet.write_table(table, path)


def _write_json(path: Path, table: pa.Table) -> None:
    with path.open("w", encoding="utf-8") as file:
        for batch in table.to_batches(PORTION):
            _write_rows(file, batch.to_pylist())


def _write_rows(file: TextIO, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        known = {name: value for name, value in row.items() if value is not None}
        file.write(f"{json.dumps(known, ensure_ascii=False, default=_plain)}\n")


def _plain(value: Any) -> str:
    """Return a value in a type of JSON: a time as text, or bytes as base64."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


# `headgate load`.
#
# It is not a part of `import`, which copies whole keyspaces with their groups into a gateway that
# is stopped, and needs the gateway's own packages: this appends rows to a gateway that runs.


@gateway_command(
    "load",
    failed=f"{CALL}, or the file cannot be read",
    retry_s=PATIENT_S,
    short_help="Append rows from a CSV, JSON or Parquet file.",
)
async def load_command(
    gateway: AsyncClient,
    stream: str,
    as_json: bool,
    file: Path = argument(TableFile(exists=True, dir_okay=False)),
    new_ids: bool = option("Ignore the column `_id`: the gateway makes the ids."),
) -> None:
    """Append the rows of a CSV, JSON or Parquet file to a stream.

    The file name ends with .csv, .ndjson, .jsonl or .parquet. Each column becomes a field; empty
    cells are skipped. The column `_id` contains the ids of the entries, so the entries of a file
    from `headgate dump` keep their ids. Rows are appended in batches of 10,000, and each batch as a
    whole or not at all. Requires the extra `tables`.

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
            click.echo(f"{counted(count, 'row')} appended before the error.", err=True)
        if isinstance(error, ValueError | OSError):
            raise click.ClickException(f"{file}: {error}") from None
        raise
    click.echo(json.dumps({"rows": count}) if as_json else f"{counted(count, 'row')} appended")


def _column(text: str) -> tuple[str, str]:
    """Return a field and its type."""
    field, equals, kind = text.rpartition("=")
    if not equals or not field:
        raise ValueError(f"{text!r} does not have the form NAME=TYPE, such as price=float64")
    return field, kind


@gateway_command(
    "dump",
    failed=f"{CALL}, or the file cannot be written",
    retry_s=PATIENT_S,
    short_help="Write a stream to a CSV, JSON or Parquet file.",
)
async def dump_command(
    gateway: AsyncClient,
    stream: str,
    as_json: bool,
    file: Path = argument(TableFile(dir_okay=False, writable=True)),
    start: str = option("Lowest id.", default="-", show_default=False, metavar="ID"),
    end: str = option("Highest id.", default="+", show_default=False, metavar="ID"),
    columns: tuple[tuple[str, str], ...] = option(
        "Field to write, and its Arrow type. May be repeated.",
        Parsed("name=type", _column),
        "--column",
    ),
) -> None:
    """Write the entries of a stream to a CSV, JSON or Parquet file.

    The file name ends with .csv, .ndjson, .jsonl or .parquet. The first columns are `_id` and
    `_time`. Each field becomes a column, and its type is inferred from all values. To choose the
    fields and their Arrow types, use --column. Requires the extra `tables`.

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
