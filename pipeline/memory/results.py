"""Results of jobs: text, rows of an answer, and Parquet in a folder as Spark writes it."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector

from headgate.pipeline.lakefile import open_filesystem

_OF_A_JOB = re.compile(r"\.?(part-|_SUCCESS|_committed_|_started_).*")


def text_of(values: pa.Array) -> pa.Array:
    """Return bytes as text; what is no UTF-8 has replacement characters."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        coded = values.dictionary_encode()
        texts = [value.decode(errors="replace") for value in coded.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(coded.indices)


def rows_of(table: pa.Table) -> list[dict[str, object]]:
    """Return rows with maps as dictionaries."""
    rows: list[dict[str, object]] = table.to_pylist(maps_as_pydicts="lossy")
    return rows


def check_out(out: str) -> None:
    """Check that nothing is lost where results are to be: the result of a job is replaced.

    Raises:
        click.ClickException: there is something else.
    """
    folder = Path(out)
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    others = [name for name in names if not _OF_A_JOB.fullmatch(name)]
    if others:
        raise click.ClickException(f"--out {out} has {others[0]}, which no job wrote")


def write(table: pa.Table, out: str) -> None:
    """Write a table as Parquet into a folder, in the place of an earlier result."""
    if "://" not in out:
        path = Path(out)
        if path.is_file():
            path.unlink()
        path.mkdir(parents=True, exist_ok=True)
        out = str(path.resolve())
    filesystem = open_filesystem(out)
    for file in filesystem.get_file_info(FileSelector("", allow_not_found=True)):
        if _OF_A_JOB.fullmatch(file.base_name):
            filesystem.delete_file(file.path)
    with filesystem.open_output_stream(f"part-{uuid.uuid4()}.parquet") as sink:
        pq.write_table(table, sink, compression="zstd")
