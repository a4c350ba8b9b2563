"""The files of the lake: rows become Parquet, and small files become large ones.

This code runs on the executors: Arrow in, Parquet out, no table and no session. A file holds
entries of one stream and one date, in order; it has these two columns as well, so that it can be
read without the table.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler

from headgate.pipeline.offsets import Id, parse_id

COLUMNS = pa.schema(
    [
        ("stream", pa.string()),
        ("id", pa.string()),
        ("ms", pa.int64()),
        ("seq", pa.int64()),  # null beyond 63 bits; the id is the truth
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("fields", pa.map_(pa.string(), pa.binary())),
        ("date", pa.date32()),
    ]
)
"""Row of the lake. Values are bytes, as in a stream: nothing is lost; order and repeated
names stay as they are in the pairs of the map."""

WRITTEN = pa.schema(
    [
        ("path", pa.string()),
        ("stream", pa.string()),
        ("date", pa.date32()),
        ("row_count", pa.int64()),
        ("size_bytes", pa.int64()),
        ("ms_min", pa.int64()),
        ("ms_max", pa.int64()),
    ]
)
"""A task's report of the files it wrote: `LakeFile`, one row each."""

NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""Null in the name of a folder, to readers that look there."""

FILE_BYTES_MAX = 128 * 2**20
_BATCH_ROWS = 65_536
_NAME_CHARS_MAX = 160  # file systems take 255 bytes


class LakeFile(NamedTuple):
    """A Parquet file of the lake; `path` is relative to it.

    `date` is in UTC, and None beyond the calendar.
    """

    path: str
    stream: str
    date: dt.date | None
    row_count: int
    size_bytes: int
    ms_min: int
    ms_max: int

    @property
    def first_id(self) -> str:
        return self.path.rsplit("/", 1)[-1].partition("_")[0]


def files_of(written: Iterable[pa.RecordBatch]) -> list[LakeFile]:
    return [LakeFile(**row) for batch in written for row in batch.to_pylist()]


def rows_of(
    lake: str,
    path: str,
    *,
    after: str | None = None,
    to: str | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file.

    Args:
        lake: where it is.
        path: of the file, below the lake.
        after: behind this id only.
        to: up to and with this id only.
        columns: that are wanted; with a range `id`, `ms` and `seq` have to be among them.
    """
    with open_filesystem(lake).open_input_file(path) as source:
        for batch in pq.ParquetFile(source).iter_batches(_BATCH_ROWS, columns=columns):
            rows = batch if after is None else batch.filter(are_behind(batch, parse_id(after)))
            if to is not None:
                rows = rows.filter(pc.invert(are_behind(rows, parse_id(to))))
            if len(rows):
                yield rows


def are_behind(rows: pa.RecordBatch | pa.Table, bound: Id) -> pa.Array:
    """Return of each row whether its id comes behind another one."""
    ms = rows["ms"].to_numpy(zero_copy_only=False).astype(np.uint64)
    seqs = rows["seq"]
    seq = seqs.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
    for row in np.flatnonzero(seqs.is_null().to_numpy(zero_copy_only=False)).tolist():
        seq[row] = parse_id(rows["id"][row].as_py()).seq
    at_ms, at_seq = np.uint64(bound.ms), np.uint64(bound.seq)
    return pa.array((ms > at_ms) | ((ms == at_ms) & (seq > at_seq)))


def write_rows(
    batches: Iterable[pa.RecordBatch], lake: str, held_to: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Write rows into new files, except those up to `held_to`; yield what was written."""
    writer = _Writer(lake, FILE_BYTES_MAX)
    for batch in batches:
        writer.write(_without_held(_conform(batch), held_to))
    yield writer.finish()


def merge_files(
    bins: Iterable[pa.RecordBatch], lake: str, file_bytes_max: int
) -> Iterator[pa.RecordBatch]:
    """Merge each bin's `paths` into files of up to about `file_bytes_max`.

    A bin is of one stream and date, its files in the order of their ids.
    """
    for batch in bins:
        for paths in batch.column("paths").to_pylist():
            writer = _Writer(lake, file_bytes_max)
            for path in paths:
                for rows in rows_of(lake, path):
                    writer.write(_conform(rows))
            yield writer.finish()


def write_without(
    files: Iterable[LakeFile], lake: str, is_removed: Callable[[pa.RecordBatch], np.ndarray]
) -> list[LakeFile]:
    written: list[LakeFile] = []
    for file in files:
        writer = _Writer(lake, FILE_BYTES_MAX)
        for rows in rows_of(lake, file.path):
            writer.write(_conform(rows.filter(pa.array(~is_removed(rows)))))
        written += files_of([writer.finish()])
    return written


def open_filesystem(lake: str) -> pyarrow.fs.FileSystem:
    return pyarrow.fs.PyFileSystem(DeltaStorageHandler(lake))


def directory_name(stream: str) -> str:
    """Return a directory name for a stream that every file system and Hadoop accept."""
    safe = re.sub(
        r"[^A-Za-z0-9._-]",
        lambda match: "".join(f"~{byte:02X}" for byte in match[0].encode()),
        stream,
    )
    if len(safe) <= _NAME_CHARS_MAX:
        return safe
    digest = hashlib.sha256(stream.encode()).hexdigest()[:16]
    return f"{safe[:_NAME_CHARS_MAX]}~~{digest}"


def _without_held(rows: pa.Table, held_to: Mapping[str, str]) -> pa.Table:
    """Return the rows of streams behind their held ranges."""
    for stream, to in held_to.items():
        is_other = pc.not_equal(rows["stream"], stream)
        rows = rows.filter(pc.or_(is_other, are_behind(rows, parse_id(to))))
    return rows


def _conform(batch: pa.RecordBatch) -> pa.Table:
    rows = pa.Table.from_batches([batch])
    if "date" not in rows.column_names:
        rows = rows.append_column("date", pc.cast(rows["timestamp"], pa.date32()))
    if not pa.types.is_map(rows["fields"].type):
        rows = rows.set_column(
            rows.column_names.index("fields"), "fields", _map_of(rows["fields"].combine_chunks())
        )
    return rows.select(COLUMNS.names).cast(COLUMNS)


def _map_of(fields: pa.ListArray) -> pa.MapArray:
    pairs = fields.flatten()
    begins = np.concatenate([[0], np.cumsum(pc.list_value_length(fields).to_numpy())])
    return pa.MapArray.from_arrays(
        pa.array(begins, pa.int32()), pc.struct_field(pairs, 0), pc.struct_field(pairs, 1)
    )


def _runs(rows: pa.Table) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of runs of one stream and date with ascending ids."""
    if rows.num_rows == 0:
        return
    stream = rows["stream"].to_numpy()
    day = rows["date"].cast(pa.int32()).fill_null(-(2**31)).to_numpy()
    ms = rows["ms"].to_numpy()
    seq = rows["seq"].fill_null(2**63 - 1).to_numpy()  # beyond: taken to be in order
    breaks = (stream[1:] != stream[:-1]) | (day[1:] != day[:-1]) | (ms[1:] < ms[:-1])
    breaks |= (ms[1:] == ms[:-1]) & (seq[1:] < seq[:-1])
    edges = [0, *(int(edge) + 1 for edge in np.flatnonzero(breaks)), rows.num_rows]
    yield from pairwise(edges)


class _Writer:
    def __init__(self, lake: str, file_bytes_max: int) -> None:
        self._filesystem = open_filesystem(lake)
        self._file_bytes_max = file_bytes_max
        self._written: list[LakeFile] = []
        self._open: _OpenFile | None = None

    def write(self, rows: pa.Table) -> None:
        for begin, end in _runs(rows):
            self._write(rows.slice(begin, end - begin))

    def _write(self, rows: pa.Table) -> None:
        if self._open is not None and not (
            self._open.goes_on(rows) and self._open.size_bytes < self._file_bytes_max
        ):
            self._close()
        if self._open is None:
            self._open = _OpenFile(self._filesystem, rows)
        self._open.write(rows)

    def finish(self) -> pa.RecordBatch:
        self._close()
        return pa.RecordBatch.from_pylist([file._asdict() for file in self._written], WRITTEN)

    def _close(self) -> None:
        if self._open is not None:
            self._written.append(self._open.close())
            self._open = None


class _OpenFile:
    def __init__(self, filesystem: pyarrow.fs.FileSystem, rows: pa.Table) -> None:
        self._stream: str = rows["stream"][0].as_py()
        self._date: dt.date | None = rows["date"][0].as_py()
        self._ms_min = self._ms_max = _ms(rows, 0)
        self._last = rows["id"][0].as_py()
        self._row_count = 0
        # A name of its own, so that a task that is tried twice never writes where the first did.
        self._path = (
            f"stream={directory_name(self._stream)}/date={self._date or NO_DATE}/"
            f"{rows['id'][0].as_py()}_{uuid.uuid4().hex}.parquet"
        )
        self._out = filesystem.open_output_stream(self._path)
        self._parquet = pq.ParquetWriter(self._out, COLUMNS, compression="zstd")

    @property
    def size_bytes(self) -> int:
        return int(self._out.tell())

    def goes_on(self, rows: pa.Table) -> bool:
        return (
            rows["stream"][0].as_py() == self._stream
            and rows["date"][0].as_py() == self._date
            and parse_id(rows["id"][0].as_py()) > parse_id(self._last)
        )

    def write(self, rows: pa.Table) -> None:
        self._parquet.write_table(rows)
        self._row_count += rows.num_rows
        self._last = rows["id"][-1].as_py()
        self._ms_max = _ms(rows, -1)

    def close(self) -> LakeFile:
        self._parquet.close()
        size_bytes = self.size_bytes
        self._out.close()
        return LakeFile(
            self._path,
            self._stream,
            self._date,
            self._row_count,
            size_bytes,
            self._ms_min,
            self._ms_max,
        )


def _ms(rows: pa.Table, index: int) -> int:
    ms: int = rows["ms"][index].as_py()
    return ms


def bins_of(files: Sequence[LakeFile], file_bytes_max: int) -> list[list[LakeFile]]:
    """Return groups of neighbours to merge, out of files of one stream and date.

    Files of half of `file_bytes_max` or more stay as they are.
    """
    bins: list[list[LakeFile]] = [[]]
    size_bytes = 0
    for file in sorted(files, key=lambda file: (file.ms_min, parse_id(file.first_id))):
        if file.size_bytes * 2 >= file_bytes_max:
            bins.append([])
            size_bytes = 0
            continue
        if size_bytes + file.size_bytes > file_bytes_max:
            bins.append([])
            size_bytes = 0
        bins[-1].append(file)
        size_bytes += file.size_bytes
    return [files for files in bins if len(files) > 1]
