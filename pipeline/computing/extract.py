"""Extract: a few entries by their positions, as rows with a column for each field.

A stream, the lake and a view are looked at alike. Nothing but what is shown is read, and Spark and
the connector are not imported.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from headgate.client import Split, tables
from headgate.client.blocking import BlockingStream, Client
from headgate.pipeline.lake import Lake
from headgate.pipeline.lakefile import directory_name, open_filesystem
from headgate.pipeline.rows.casts import decoded
from headgate.pipeline.terminal.flags import Flags
from headgate.pipeline.views.table import field_name, plain

_PARTS = 100  # that a range of a stream is cut into, to come closer to a position
_READ_MIN = 1000  # a part of so many entries is read, and not cut again
_ORDER = ["time", "length", "id"]  # of two ids in a millisecond the longer one is later
_SHOWN = 24  # characters of an example
_MS_MAX = 253_402_300_799_999  # of the year 9999


class Source:
    """Entries that have positions, in the order of their ids unless a source says otherwise.

    Attributes:
        name: of the stream, or of the view's folder.
        count: of the entries.
    """

    name: str
    count: int

    def rows(self, positions: Sequence[int]) -> pa.Table:
        """Return the entries at positions, which grow: `_id`, `_time` and the fields."""
        raise NotImplementedError

    def first(self, count: int) -> pa.Table:
        """Return the first entries by their ids."""
        return self.rows(range(min(count, self.count)))

    def last(self, count: int) -> pa.Table:
        """Return the last entries by their ids."""
        return self.rows(range(max(0, self.count - count), self.count))


def sources(flags: Flags, client: Client) -> Iterator[Source]:
    """Yield the chosen streams, with --lake those of the lake, and with --view views instead.

    Raises:
        click.ClickException: there is no such view, or the lake holds nothing of a stream.
    """
    if flags.view is not None:
        yield from _views(flags)
    elif flags.lake:
        lake = Lake(flags.lake)
        for stream in flags.names() if flags.streams else lake.streams():
            if lake.held(stream) is None:
                raise click.ClickException(f"{lake.path} holds nothing of the stream {stream!r}")
            yield _LakeSource(lake, stream)
    else:
        for stream in flags.chosen(client):
            yield _StreamSource(client.stream(stream))


def at_random(source: Source, count: int, seed: int | None) -> list[int]:
    """Return random positions, each once."""
    return sorted(random.Random(seed).sample(range(source.count), min(count, source.count)))


def spread(source: Source, count: int, pieces: int) -> list[int]:
    """Return the positions of pieces of neighbours, which are spread over all entries."""
    if source.count <= count:
        return list(range(source.count))
    length = count // pieces
    begins = np.linspace(0, source.count - length, pieces).astype(int)
    return sorted({int(begin) + at for begin in begins for at in range(length)})


class _StreamSource(Source):
    """The entries that a stream has now; parts of it are known by their counts."""

    def __init__(self, stream: BlockingStream) -> None:
        self.name = stream.name
        self._stream = stream
        info = stream.info()
        self.count = info["length"]
        self._whole = Split("0-0", info["last_id"], self.count)

    def rows(self, positions: Sequence[int]) -> pa.Table:
        """Return the entries at positions."""
        return _columns(self._read(self._whole, positions))

    def _read(self, part: Split, positions: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield the entries at positions in a part, which is cut until little of it is left."""
        if not positions:
            return
        if part.entries <= max(_READ_MIN, 2 * len(positions)):
            with self._stream.batches(start=f"({part.after}", end=part.to) as batches:
                yield from _taken(batches, positions)
            return
        begin = 0
        for cut in self._stream.splits(after=part.after, to=part.to, parts=_PARTS):
            yield from self._read(cut, _within(positions, begin, cut.entries))
            begin += cut.entries


class _Files:
    """The rows of Parquet files, one file after the other."""

    def __init__(self, path: str, files: Sequence[tuple[str, int]]) -> None:
        self._filesystem = open_filesystem(path)
        self._files = files

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Return whole columns."""
        return pa.concat_tables(self._read_whole(path, names) for path, _ in self._files)

    def rows(
        self, positions: Sequence[int], names: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows at positions; of a file only the row groups that have some are read."""
        begin = 0
        for path, count in self._files:
            wanted = _within(positions, begin, count)
            begin += count
            if wanted:
                with self._filesystem.open_input_file(path) as source:
                    yield from _of_file(pq.ParquetFile(source), wanted, names)

    def _read_whole(self, path: str, names: Sequence[str]) -> pa.Table:
        with self._filesystem.open_input_file(path) as source:
            return plain(pq.ParquetFile(source).read(names))


class _LakeSource(Source):
    """The entries of a stream in the lake."""

    def __init__(self, lake: Lake, stream: str) -> None:
        self.name = stream
        files = lake.files_in_order(stream)
        self.count = sum(file.row_count for file in files)
        self._files = _Files(lake.path, [(file.path, file.row_count) for file in files])

    def rows(self, positions: Sequence[int]) -> pa.Table:
        """Return the entries at positions, with a column for each field."""
        return _columns(self._files.rows(positions, ["id", "ms", "fields"]))


class _ViewSource(Source):
    """The rows of a view, whose files are in no order."""

    def __init__(self, path: str) -> None:
        self.name = unquote(path.rsplit("/", 1)[-1].replace("~", "%"))
        table = DeltaTable(path)
        self._names = [field.name for field in table.schema().fields]
        files = pa.table(table.get_add_actions(flatten=True)).select(["path", "num_records"])
        self.count = sum(files["num_records"].to_pylist())
        paths = [unquote(file) for file in files["path"].to_pylist()]
        folder = path if "://" in path else str(Path(path).resolve())
        counts = files["num_records"].to_pylist()
        self._files = _Files(folder, list(zip(paths, counts, strict=True)))

    def rows(self, positions: Sequence[int]) -> pa.Table:
        """Return the entries at positions, in the order of their ids."""
        parts = [pa.Table.from_batches([batch]) for batch in self._files.rows(positions)]
        rows = pa.concat_tables(parts, promote_options="permissive") if parts else pa.table({})
        if self._has_ids and parts:
            rows = rows.take(pc.sort_indices(_order_of(rows), _keys("ascending")))
        rows = rows.select([name for name in self._names if name in rows.column_names])
        return rows.rename_columns([field_name(name) for name in rows.column_names])

    def first(self, count: int) -> pa.Table:
        """Return the first entries."""
        return self._end(count, "ascending")

    def last(self, count: int) -> pa.Table:
        """Return the last entries."""
        return self._end(count, "descending")

    def _end(self, count: int, order: str) -> pa.Table:
        if not self._has_ids or not self.count:
            return self.rows(range(min(count, self.count)))
        ids = _order_of(self._files.columns([tables.ID, tables.TIME]))
        return self.rows(sorted(pc.select_k_unstable(ids, count, _keys(order)).to_pylist()))

    @property
    def _has_ids(self) -> bool:
        return {tables.ID, tables.TIME} <= set(self._names)


def _order_of(rows: pa.Table) -> pa.Table:
    """Return columns by which rows are in the order of their ids."""
    ids = rows[tables.ID]
    return pa.table([rows[tables.TIME], pc.utf8_length(ids), ids], names=_ORDER)


def _keys(order: str) -> list[tuple[str, str]]:
    return [(name, order) for name in _ORDER]


def _views(flags: Flags) -> Iterator[Source]:
    """Yield the view at a path, or those in a folder of views."""
    view = (flags.view or "").rstrip("/")
    if DeltaTable.is_deltatable(view):
        yield _ViewSource(view)
        return
    if flags.streams:
        paths = [f"{view}/{directory_name(stream)}" for stream in flags.names()]
    else:
        folder = Path(view)
        paths = sorted(str(path) for path in folder.iterdir()) if folder.is_dir() else []
        paths = [path for path in paths if DeltaTable.is_deltatable(path)]
    for path in paths or [view]:
        if not DeltaTable.is_deltatable(path):
            raise click.ClickException(f"{path} is no view: there is no Delta table in it")
        yield _ViewSource(path)


def _of_file(
    file: pq.ParquetFile, positions: Sequence[int], names: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows at positions of a file."""
    begin = 0
    for group in range(file.num_row_groups):
        count = file.metadata.row_group(group).num_rows
        wanted = _within(positions, begin, count)
        begin += count
        if wanted:
            rows = plain(file.read_row_group(group, names))
            yield from rows.take(pa.array(wanted)).to_batches()


def _within(positions: Sequence[int], begin: int, count: int) -> list[int]:
    """Return the positions of a part, counted from its begin."""
    low, high = bisect_left(positions, begin), bisect_left(positions, begin + count)
    return [at - begin for at in positions[low:high]]


def _taken(batches: Iterable[pa.RecordBatch], positions: Sequence[int]) -> Iterator[pa.RecordBatch]:
    begin = 0
    for batch in batches:
        yield batch.take(pa.array(_within(positions, begin, len(batch)), pa.int64()))
        begin += len(batch)


def _columns(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return entries with a column for each field, of the type that its values have."""
    entries = []
    for batch in batches:
        ids, ms, fields = (batch.column(name) for name in ("id", "ms", "fields"))
        names = decoded(fields.keys).cast(pa.binary())
        fields = pa.MapArray.from_arrays(fields.offsets, names, fields.items.cast(pa.binary()))
        ms = pc.if_else(pc.less_equal(ms, _MS_MAX), ms, None)
        entries.append(pa.RecordBatch.from_arrays([ids, ms, fields], ["id", "ms", "fields"]))
    return tables.columns_of(entries, None)


def rows_of(parts: Sequence[tuple[str, pa.Table]]) -> list[dict[str, object]]:
    """Return the rows of tables, each with its name as `_stream`; all have all columns."""
    columns = dict.fromkeys(name for _, table in parts for name in table.column_names)
    return [
        {"_stream": name, **columns, **row} for name, table in parts for row in table.to_pylist()
    ]


def example_of(value: object) -> str:
    """Return a value in a few characters."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
