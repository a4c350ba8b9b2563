"""The Delta table of a view: its position in the lake, and rows that leave it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from headgate.client import tables
from headgate.pipeline.lakefile import open_filesystem
from headgate.pipeline.location import is_bucket
from headgate.pipeline.offsets import Id, parse_id

Mask = Callable[[pa.Table], pa.Array]
"""Tells of rows with the columns `_id` and `_time` which are to leave."""

_APPS: Final = ("headgate/view/ms", "headgate/view/seq")
_NUMBERS: Final = 2**64  # of a part of an id; a transaction's version has a sign
_TRIES: Final = 5


class ViewConflict(RuntimeError):
    """The view does not take a change, and says why. Its own entries stay."""


def table_at(path: str) -> DeltaTable | None:
    """Return the table at a path, if there is one."""
    is_there = is_bucket(path) or Path(path).is_dir()
    return DeltaTable(path) if is_there and DeltaTable.is_deltatable(path) else None


def count_of(table: DeltaTable) -> int:
    """Return how many rows a table has."""
    counts = pa.table(table.get_add_actions(flatten=True))["num_records"]
    return int(pc.sum(counts).as_py() or 0)


def files_of(table: DeltaTable) -> set[str]:
    """Return the paths of the files that belong to a table."""
    paths = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
    return {unquote(path) for path in paths}


def position_of(table: DeltaTable) -> str:
    """Return the id up to which the lake is in the view."""
    ms, seq = (table.transaction_version(app) or 0 for app in _APPS)
    return str(Id(ms % _NUMBERS, seq % _NUMBERS))


def position_at(to: str) -> CommitProperties:
    """Return the properties of a commit with a position; of two at a moment one is refused."""
    now_ms = int(time.time() * 1000)
    signed = [number - _NUMBERS if number >= _NUMBERS // 2 else number for number in parse_id(to)]
    notes = [Transaction(app, n, now_ms) for app, n in zip(_APPS, signed, strict=True)]
    return CommitProperties(app_transactions=notes)


def remove_rows(path: str, is_removed: Mask, *, dry_run: bool = False) -> int:
    """Take rows out of the table at a path, in one commit; returns their number.

    Args:
        path: of the table; if there is none, it has no rows.
        is_removed: says which.
        dry_run: only count them.

    Raises:
        ViewConflict: others write without end.
    """
    for _ in range(_TRIES):
        table = table_at(path)
        if table is None:
            return 0
        actions: list[AddAction | RemoveAction] = []
        count = 0
        for file in pa.table(table.get_add_actions(flatten=True)).to_pylist():
            removed, written = _without(path, file, is_removed, dry_run=dry_run)
            count += removed
            actions += written
        if not actions:
            return count
        try:
            table.create_write_transaction(
                actions, "append", table.schema(), commit_properties=position_at(position_of(table))
            )
        except CommitFailedError:
            continue
        return count
    raise ViewConflict(f"others write {path} without end: try again")


def _without(
    path: str, file: dict[str, Any], is_removed: Mask, *, dry_run: bool
) -> tuple[int, list[AddAction | RemoveAction]]:
    """Write a file again without some of its rows; returns their number, and what to commit."""
    filesystem = open_filesystem(path)
    name = unquote(file["path"])
    now_ms = int(time.time() * 1000)
    with filesystem.open_input_file(name) as source:
        parquet = pq.ParquetFile(source)
        mask = is_removed(parquet.read(columns=[tables.ID, tables.TIME]))
        count = int(pc.sum(mask).as_py() or 0)
        if not count or dry_run:
            return count, []
        removal = RemoveAction(name, True, now_ms, file["size_bytes"], {})
        if count == len(mask):
            return count, [removal]
        new = f"part-{uuid.uuid4()}.parquet"
        begin = 0
        with (
            filesystem.open_output_stream(new) as out,
            pq.ParquetWriter(out, parquet.schema_arrow, compression="zstd") as writer,
        ):
            for batch in parquet.iter_batches():
                left = batch.filter(pc.invert(mask.slice(begin, len(batch))))
                writer.write_batch(left)
                begin += len(batch)
    stats = json.dumps({"numRecords": len(mask) - count})
    size = filesystem.get_file_info(new).size
    return count, [removal, AddAction(new, size, {}, now_ms, True, stats)]
