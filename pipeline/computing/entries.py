"""Entries as Arrow batches: the places they are read from, and what their fields say.

Batches have the columns that Spark has: `stream`, `id`, `ms`, `seq`, `timestamp`, and `fields` as
an array of (name, value).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.client import Cursor
from headgate.client.blocking import Client
from headgate.pipeline.lake import Lake
from headgate.pipeline.lakefile import FILE_BYTES_MAX, LakeFile, rows_of
from headgate.pipeline.offsets import BEGINNING, earlier, later
from headgate.pipeline.options import read_options
from headgate.pipeline.reader import BatchReader
from headgate.pipeline.rows.casts import decoded
from headgate.pipeline.rows.schema import ENTRY_COLUMNS, Rows, entry_schema
from headgate.pipeline.terminal.flags import Flags

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Makes columns of entries, batch by batch: in this process, or in one of Spark's."""

PAIRS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
TEXTS = pa.map_(pa.string(), pa.string())
TIME = pa.timestamp("us", "UTC")
POINTS = pa.schema(
    [("stream", pa.string()), ("timestamp", TIME), ("ms", pa.int64()), ("size_bytes", pa.int64())]
)

_SCHEMA = entry_schema(is_binary=True, is_array=True)
_TASKS_MIN = 64  # for files of the lake that are not full
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"-?[0-9]{1,19}(\.[0-9]+)?", re.ASCII)
_YEAR = re.compile(r"[0-9]{4}", re.ASCII)
_MS_MIN, _MS_MAX = -62_135_596_800_000, 253_402_300_799_999  # of the years 1 to 9999
_SECONDS_MAX = 10**11  # of the year 5138; as milliseconds, of March 1973


@dataclass(frozen=True, slots=True)
class Live:
    """Entries that streams have.

    Attributes:
        options: of the connector.
    """

    options: Mapping[str, str]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the entries, task after task."""
        given = {name.lower(): value for name, value in self.options.items()}
        reader = BatchReader(read_options(given, is_query=False), Rows(_SCHEMA))
        with closing(reader):
            for task in reader.partitions():
                yield from reader.read(task)

    def frame(self, spark: SparkSession, task: Task, schema: StructType) -> DataFrame:
        """Return what a task makes of the entries."""
        entries = spark.read.format("headgate").options(**self.options).load()
        return entries.mapInArrow(task, schema)


@dataclass(frozen=True, slots=True)
class Archived:
    """Entries that the lake has.

    Attributes:
        lake: where they are.
        ranges: per stream the id behind which they are, and their last one; None: there is none.
    """

    lake: Lake
    ranges: Mapping[str, tuple[str | None, str | None]]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the entries, stream after stream in the order of their ids."""
        for file, after, to in self._files():
            yield from _rows_of(self.lake.path, file.path, after, to)

    def frame(self, spark: SparkSession, task: Task, schema: StructType) -> DataFrame:
        """Return what a task makes of the entries of the files that there are now."""
        files = self._files()
        rows = [(file.path, after, to) for file, after, to in files]
        paths = spark.createDataFrame(rows, "path string, first string, last string")
        full = sum(file.size_bytes for file, _, _ in files) // FILE_BYTES_MAX
        paths = paths.repartition(max(1, min(len(files), _TASKS_MIN + full)))
        return paths.mapInArrow(partial(_of_files, lake=self.lake.path, task=task), schema)

    def _files(self) -> list[tuple[LakeFile, str | None, str | None]]:
        return [
            (file, after, to)
            for stream, (after, to) in self.ranges.items()
            for file in self.lake.files_in_order(stream, after=after, to=to)
        ]


Place = Live | Archived


class Chosen(NamedTuple):
    """The entries that a job is to read.

    Attributes:
        streams: whose they are.
        total: how many.
        places: where they are.
    """

    streams: list[str]
    total: int
    places: list[Place]


def chosen_by(
    flags: Flags, client: Client, after: str = BEGINNING, to: str | None = None
) -> Chosen:
    """Return the entries of the chosen streams: all there are, and with --lake all there were.

    Only those behind the id `after`, up to and with `to`.
    """
    streams = flags.chosen(client)
    plans = flags.plans(client, streams)
    start = dict.fromkeys(plans, after)  # the id behind which the stream itself is read
    places: list[Place] = []
    held_count = 0
    if flags.lake:
        lake = Lake(flags.lake)
        for stream, plan in plans.items():
            held = lake.held(stream)
            if held is not None and held.epoch == plan.epoch:
                start[stream] = later(after, held.to if to is None else earlier(held.to, to))
        # An archive may go on meanwhile: only up to there.
        ranges = {name: (_bound(after), _bound(end)) for name, end in start.items()}
        places.append(Archived(lake, ranges))
        held_count = sum(file.row_count for file in lake.files(plans, after=after, to=to))
    options = flags.source_options()
    if any(begin != BEGINNING for begin in start.values()):
        options["startingOffsets"] = json.dumps(start)
    cursors = [Cursor(stream, begin) for stream, begin in start.items()]
    live_count = sum(plan.backlog for plan in client.plan(cursors))
    if to is not None:
        options["endingOffsets"] = json.dumps(dict.fromkeys(plans, to))
        behind = [Cursor(stream, to) for stream in plans]
        live_count = max(0, live_count - sum(plan.backlog for plan in client.plan(behind)))
    return Chosen(streams, held_count + live_count, [*places, Live(options)])


def _bound(entry_id: str) -> str | None:
    return None if entry_id == BEGINNING else entry_id


def range_of(flags: Flags, stream: str, after: str, to: str) -> Live:
    """Return where entries are that a stream has: behind `after`, up to and with `to`."""
    ends = {
        "startingOffsets": json.dumps({stream: after}),
        "endingOffsets": json.dumps({stream: to}),
    }
    return Live(flags.source_options(stream) | ends)


def _of_files(files: Iterable[pa.RecordBatch], lake: str, task: Task) -> Iterator[pa.RecordBatch]:
    """Yield what a task makes of the entries of files.

    Args:
        files: columns `path`, `first` and `last`, as of `Archived`.
        lake: where they are.
        task: takes the entries.
    """
    return task(
        rows
        for batch in files
        for file in batch.to_pylist()
        for rows in _rows_of(lake, file["path"], file["first"], file["last"])
    )


def _rows_of(lake: str, path: str, after: str | None, to: str | None) -> Iterator[pa.RecordBatch]:
    for rows in rows_of(lake, path, after=after, to=to):
        fields = rows.column("fields")
        pairs = pa.StructArray.from_arrays([fields.keys, fields.items], ["name", "value"])
        columns = {name: rows.column(name) for name in ENTRY_COLUMNS}
        columns["fields"] = pa.ListArray.from_arrays(fields.offsets, pairs)
        yield pa.RecordBatch.from_pydict(columns)


def flattened(fields: pa.ListArray) -> tuple[np.ndarray, pa.Array, pa.Array]:
    """Return the pairs of entries in columns: the entry's number, name and value."""
    offsets = fields.offsets.to_numpy()
    begin, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    names, values = (fields.values.field(at).slice(begin, length) for at in range(2))
    return np.repeat(np.arange(len(fields)), np.diff(offsets)), names, values


def places_of(ids: pa.Array) -> pa.Array:
    """Return ids as text that sorts as they do, also beyond 63 bits."""
    numbers = pc.utf8_lpad(pc.split_pattern(ids, "-").flatten(), 20, "0")
    return pc.binary_join_element_wise(numbers[::2], numbers[1::2], "-")


def id_of(place: str) -> str:
    """Return the id of a place."""
    ms, seq = map(int, place.split("-"))
    return f"{ms}-{seq}"


def sizes_of(fields: pa.ListArray) -> np.ndarray:
    """Return for each entry how many bytes its names and values have."""
    entries, names, values = flattened(fields)
    lengths = pc.add(pc.binary_length(names), pc.binary_length(values)).to_numpy()
    return np.bincount(entries, lengths, len(fields)).astype(np.int64)


def values_of(fields: pa.ListArray, name: str) -> pa.Array:
    """Return the value of a field in each entry, its last one; null where there is none."""
    entries, names, values = flattened(fields)
    places = np.flatnonzero(pc.equal(names, name).to_numpy(zero_copy_only=False))
    at = np.full(len(fields), -1, np.int64)
    at[entries[places]] = places
    return values.take(pa.array(at, mask=at < 0))


def texts_of(fields: pa.ListArray, left_out: Sequence[str] = ()) -> pa.MapArray:
    """Return fields as a map of text: of a repeated name the last one.

    Args:
        fields: of entries.
        left_out: names of fields that are not wanted.
    """
    entries, names, values = flattened(fields)
    is_kept = pc.invert(pc.is_in(names, pa.array(left_out, names.type)))
    names, values = names.filter(is_kept), values.filter(is_kept)
    entries = entries[is_kept.to_numpy(zero_copy_only=False)]
    coded = names.dictionary_encode()
    codes = entries * len(coded.dictionary) + coded.indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    _, from_end = np.unique(codes[::-1], return_index=True)
    order = np.argsort(first)
    first, last = first[order], (len(codes) - 1 - from_end)[order]
    counts = np.bincount(entries[first], minlength=len(fields))
    return pa.MapArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32()),
        names.take(pa.array(first)).cast(pa.string()),
        decoded(values.take(pa.array(last))),
    )


def points_of(
    batches: Iterable[pa.RecordBatch], time: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield when entries are, and how large; entries without a date are left out.

    Args:
        batches: of entries.
        time: field that says when; None: the id does.
    """
    for batch in batches:
        fields = batch.column("fields")
        ms = batch.column("ms") if time is None else _times(fields, time)
        sizes = pa.array(sizes_of(fields))
        columns = [batch.column("stream"), batch.column("timestamp"), ms, sizes]
        is_date = pc.and_(pc.greater_equal(ms, _MS_MIN), pc.less_equal(ms, _MS_MAX))
        yield pa.RecordBatch.from_arrays(columns, schema=POINTS).filter(is_date)


def milliseconds_of(text: str) -> int | None:
    """Return a time as people and programs write it: ISO 8601, a year, seconds, milliseconds.

    Returns:
        milliseconds since 1970, in UTC where no zone is said; None if it is no time.
    """
    text = text.strip()
    if _NUMBER.fullmatch(text) and not _YEAR.fullmatch(text):
        number = float(text)
        ms = round(number * 1000 if abs(number) < _SECONDS_MAX else number)
        return ms if _MS_MIN <= ms <= _MS_MAX else None
    try:
        moment = datetime.fromisoformat(f"{text}-01-01" if _YEAR.fullmatch(text) else text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _times(fields: pa.ListArray, name: str) -> pa.Array:
    """Return the time in a field of each entry, its last one; null where there is none."""
    raw = values_of(fields, name).dictionary_encode()  # days repeat
    known = [
        milliseconds_of(value.decode(errors="replace")) for value in raw.dictionary.to_pylist()
    ]
    return pa.array(known, pa.int64()).take(raw.indices)
