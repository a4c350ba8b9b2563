"""Erasures: entries that leave the lake for good.

An entry is forgotten in three steps. A repeated run redoes those that are missing:

1. Its id is noted in `lake/_forgotten`, a Delta table that `verify` and `trim` respect.
2. One commit replaces the files that have the entry by files without it.
3. Files that have the entry, and belong to no table any more, are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from headgate.pipeline.lake import Lake, LakeConflict
from headgate.pipeline.lakefile import (
    LakeFile,
    directory_name,
    open_filesystem,
    rows_of,
    write_without,
)
from headgate.pipeline.offsets import before_ms, earlier, parse_id

FORGOTTEN: Final = "_forgotten"

_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Selection:
    """The entries to forget: with one of `ids` (None: any) and all of the field `values`."""

    ids: frozenset[str] | None = None
    values: Mapping[str, bytes] = field(default_factory=dict)

    def may_be_in(self, file: LakeFile) -> bool:
        return self.ids is None or any(
            file.ms_min <= parse_id(entry_id).ms <= file.ms_max for entry_id in self.ids
        )

    def __call__(self, entries: pa.RecordBatch) -> np.ndarray:
        """Return a mask over entries with columns `id` and `fields`, of a lake or a gateway."""
        mask = np.ones(len(entries), bool)
        if self.ids is not None:
            ids = pa.array(self.ids, pa.string())
            mask &= pc.is_in(entries.column("id"), ids).to_numpy(zero_copy_only=False)
        for name, value in self.values.items():
            mask &= _have(entries.column("fields"), name, value)
        return mask


def forgotten(lake: Lake, stream: str) -> pa.Array:
    notes = _notes(lake)
    return pc.unique(notes["id"].filter(pc.equal(notes["stream"], stream)))


def forgetful_streams(lake: Lake) -> set[str]:
    """Return the names of the streams of which the lake has, or had, entries."""
    return {*lake.streams(), *_notes(lake)["stream"].to_pylist()}


def forget(
    lake: Lake, stream: str, selection: Selection, *, dry_run: bool = False
) -> Sequence[str]:
    """Remove entries of a stream from the lake in one commit; return their ids."""
    for _ in range(_TRIES):
        files, ids = [], []
        for file in lake.files([stream]):
            if selection.may_be_in(file):
                taken = [
                    id_ for rows in rows_of(lake.path, file.path) for id_ in _ids(rows, selection)
                ]
                ids += taken
                files += [file] if taken else []
        if dry_run or not ids:
            return ids
        _note(lake, stream, ids)
        if _took_out(lake, files, files, selection, len(ids)):
            return ids
    raise LakeConflict(f"others change {lake.path} without end: try again")


def retire(lake: Lake, stream: str, end_ms: int, *, dry_run: bool = False) -> tuple[int, int]:
    """Remove entries older than a time in one commit; the held range then begins there.

    Returns the number of entries, and of files that had them.
    """

    def is_old(rows: pa.RecordBatch) -> np.ndarray:
        mask: np.ndarray = rows.column("ms").to_numpy() < end_ms
        return mask

    for _ in range(_TRIES):
        held = lake.held(stream)
        files = [file for file in lake.files([stream]) if file.ms_min < end_ms]
        whole = [file for file in files if file.ms_max < end_ms]
        cut = [file for file in files if file.ms_max >= end_ms]
        count = sum(file.row_count for file in whole)
        count += sum(
            int(is_old(rows).sum()) for file in cut for rows in rows_of(lake.path, file.path)
        )
        if dry_run or not files or held is None:
            return count, len(files)
        retired = {stream: earlier(before_ms(end_ms), held.to)}
        if _took_out(lake, files, cut, is_old, count, retired=retired):
            return count, len(files)
    raise LakeConflict(f"others change {lake.path} without end: try again")


def purge(
    path: str, folder: str, column: str, listed: Collection[str], ids: pa.Array
) -> tuple[int, int]:
    """Delete files that belong to no table and have one of these entries.

    `folder` below `path` is searched; `listed` are the files of the table; `column` holds the ids.
    Returns how many were deleted, and how many cannot be read: they are being written.
    """
    filesystem = open_filesystem(path)
    selector = pyarrow.fs.FileSelector(folder, recursive=True, allow_not_found=True)
    deleted = unread = 0
    for info in filesystem.get_file_info(selector):
        if not info.path.endswith(".parquet") or info.path in listed or info.path[0] == "_":
            continue
        try:
            with filesystem.open_input_file(info.path) as source:
                batches = pq.ParquetFile(source).iter_batches(columns=[column])
                columns = (rows.column(0).cast(ids.type) for rows in batches)
                has_any = any(pc.any(pc.is_in(column, ids)).as_py() for column in columns)
        except (OSError, pa.ArrowInvalid):
            unread += 1
            continue
        if has_any:
            filesystem.delete_file(info.path)
            deleted += 1
    return deleted, unread


def purge_lake(lake: Lake, stream: str) -> tuple[int, int]:
    listed = {file.path for file in lake.files([stream])}
    folder = f"stream={directory_name(stream)}"
    return purge(lake.path, folder, "id", listed, forgotten(lake, stream))


def _took_out(
    lake: Lake,
    files: Sequence[LakeFile],
    cut: Sequence[LakeFile],
    is_removed: Callable[[pa.RecordBatch], np.ndarray],
    count: int,
    *,
    retired: Mapping[str, str] | None = None,
) -> bool:
    """Replace `files` by those in `cut` without some rows; False if others compacted meanwhile."""
    try:
        written = write_without(cut, lake.path, is_removed)
        lake.replace(files, written, without=count, retired=retired)
    except (LakeConflict, FileNotFoundError):  # compacted meanwhile
        return False
    return True


def _note(lake: Lake, stream: str, ids: Sequence[str]) -> None:
    noted = set(forgotten(lake, stream).to_pylist())
    new = [entry_id for entry_id in ids if entry_id not in noted]
    if new:
        rows = pa.table({"stream": [stream] * len(new), "id": new})
        write_deltalake(f"{lake.path}/{FORGOTTEN}", rows, mode="append")


def _notes(lake: Lake) -> pa.Table:
    path = f"{lake.path}/{FORGOTTEN}"
    if not DeltaTable.is_deltatable(path):
        return pa.schema([("stream", pa.string()), ("id", pa.string())]).empty_table()
    return DeltaTable(path).to_pyarrow_table()


def _ids(rows: pa.RecordBatch, selection: Selection) -> list[str]:
    ids: list[str] = rows.column("id").filter(pa.array(selection(rows))).to_pylist()
    return ids


def _have(fields: pa.Array, name: str, value: bytes) -> np.ndarray:
    if pa.types.is_map(fields.type):
        names, values = fields.keys, fields.items
    else:
        names, values = fields.values.field(0), fields.values.field(1)
    is_pair = pc.and_(
        pc.equal(names.cast(pa.binary()), name.encode()), pc.equal(values.cast(pa.binary()), value)
    )
    ends = np.concatenate([[0], np.cumsum(is_pair.to_numpy(zero_copy_only=False))])
    offsets = fields.offsets.to_numpy()
    has: np.ndarray = ends[offsets[1:]] > ends[offsets[:-1]]
    return has
