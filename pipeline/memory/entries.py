"""Entries in memory, as batches: read by the connector, and without Spark around it.

Batches have the columns that Spark would have: `stream`, `id`, `ms`, `seq`, `timestamp`, and
`fields` as an array of (name, value).
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector

from headgate.client import Plan
from headgate.pipeline.lake import Lake
from headgate.pipeline.lakefile import open_filesystem
from headgate.pipeline.offsets import BEGINNING, parse_id
from headgate.pipeline.options import read_options
from headgate.pipeline.reader import BatchReader
from headgate.pipeline.rows.schema import Rows, behind, entry_schema, up_to
from headgate.pipeline.terminal.flags import Flags

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


COLUMNS = ("stream", "id", "ms", "seq", "timestamp", "fields")

_SCHEMA = entry_schema(is_binary=True, is_array=True)


def read(flags: Flags, plans: Mapping[str, Plan]) -> Iterator[pa.RecordBatch]:
    """Yield entries of streams: all they have, and with --lake all they ever had.

    Args:
        flags: say where the gateway and the lake are.
        plans: how each stream stands, by its name.
    """
    start = start_of(flags, plans)
    if flags.lake:
        lake = Lake(flags.lake)
        for stream, after in start.items():
            yield from read_lake(lake, stream, to=None if after == BEGINNING else after)
    options = flags.source_options()
    if any(after != BEGINNING for after in start.values()):
        options["startingOffsets"] = json.dumps(start)
    yield from read_live(options)


def start_of(flags: Flags, plans: Mapping[str, Plan]) -> dict[str, str]:
    """Return per stream the id behind which the stream itself is read: the lake has the others."""
    start = dict.fromkeys(plans, BEGINNING)
    if flags.lake:
        lake = Lake(flags.lake)
        for stream, plan in plans.items():
            held = lake.held(stream)
            if held is not None and held.epoch == plan.epoch:
                start[stream] = held.to
    return start


def read_range(flags: Flags, stream: str, after: str, to: str) -> Iterator[pa.RecordBatch]:
    """Yield entries that a stream has: behind `after`, up to and with `to`."""
    ends = {
        "startingOffsets": json.dumps({stream: after}),
        "endingOffsets": json.dumps({stream: to}),
    }
    return read_live(flags.source_options(stream) | ends)


def read_lake(
    lake: Lake, stream: str, *, after: str | None = None, to: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield entries that the lake has: behind `after`, up to and with `to`."""
    for batch in lake.arrow(stream, after=after, to=to):
        rows = batch if after is None else behind(batch, parse_id(after))
        rows = rows if to is None else up_to(rows, parse_id(to))
        fields = rows.column("fields")
        pairs = pa.StructArray.from_arrays([fields.keys, fields.items], ["name", "value"])
        columns = {name: rows.column(name) for name in COLUMNS}
        columns["fields"] = pa.ListArray.from_arrays(fields.offsets, pairs)
        yield pa.RecordBatch.from_pydict(columns)


def sizes_of(fields: pa.ListArray) -> np.ndarray:
    """Return for each entry how many bytes its names and values have."""
    names, values = names_and_values(fields)
    lengths = pc.binary_length(names).to_numpy().astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(lengths + pc.binary_length(values).to_numpy())])
    offsets = fields.offsets.to_numpy()
    sizes: np.ndarray = ends[offsets[1:]] - ends[offsets[:-1]]
    return sizes


def names_and_values(fields: pa.ListArray) -> tuple[pa.Array, pa.Array]:
    """Return the pairs that the offsets of the fields point into, in two columns."""
    return fields.values.field(0), fields.values.field(1)


def values_of(fields: pa.ListArray, name: str) -> pa.Array:
    """Return the value of a field in each entry, its last one; null where there is none."""
    names, values = names_and_values(fields)
    offsets = fields.offsets.to_numpy()
    places = np.flatnonzero(pc.equal(names, name).to_numpy(zero_copy_only=False))
    places = places[(places >= offsets[0]) & (places < offsets[-1])]
    at = np.full(len(fields), -1, np.int64)
    at[np.searchsorted(offsets, places, side="right") - 1] = places
    return values.take(pa.array(at, mask=at < 0))


def texts_of(fields: pa.ListArray) -> pa.MapArray:
    """Return fields as a map of text: of a repeated name the last one."""
    names, values = names_and_values(fields)
    offsets = fields.offsets.to_numpy()
    begin, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    names, values = names.slice(begin, length), values.slice(begin, length)
    rows = np.repeat(np.arange(len(fields)), np.diff(offsets))
    coded = names.dictionary_encode()
    codes = rows * len(coded.dictionary) + coded.indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    _, from_end = np.unique(codes[::-1], return_index=True)
    order = np.argsort(first)
    first, last = first[order], (length - 1 - from_end)[order]
    counts = np.bincount(rows[first], minlength=len(fields))
    return pa.MapArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32()),
        names.take(pa.array(first)).cast(pa.string()),
        text_of(values.take(pa.array(last))),
    )


def as_table(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return ids and fields as bytes, in the order of the ids."""
    table = pa.Table.from_batches((_bare(batch) for batch in batches), _BARE).combine_chunks()
    ms = table["ms"].to_numpy()
    seq = table["seq"].fill_null(2**63 - 1).to_numpy()
    is_later = (ms[1:] > ms[:-1]) | ((ms[1:] == ms[:-1]) & (seq[1:] >= seq[:-1]))
    return table if is_later.all() else table.take(pa.array(np.lexsort((seq, ms))))


_BARE = pa.schema(
    [
        ("id", pa.string()),
        ("ms", pa.int64()),
        ("seq", pa.int64()),
        ("names", pa.list_(pa.binary())),
        ("values", pa.list_(pa.binary())),
    ]
)


def _bare(batch: pa.RecordBatch) -> pa.RecordBatch:
    fields = batch.column("fields")
    parts = [part.cast(pa.binary()) for part in names_and_values(fields)]
    lists = [pa.ListArray.from_arrays(fields.offsets, part) for part in parts]
    columns = [batch.column(name) for name in ("id", "ms", "seq")]
    return pa.RecordBatch.from_arrays([*columns, *lists], schema=_BARE)


def read_live(options: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of the connector with these options, task after task."""
    given = {name.lower(): value for name, value in options.items()}
    reader = BatchReader(read_options(given, is_query=False), Rows(_SCHEMA))
    with closing(reader):
        for task in reader.partitions():
            yield from reader.read(task)
