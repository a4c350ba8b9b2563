"""Rates, sizes and times of streams, in memory: the points and the table of jobs/plot.py."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.pipeline.memory.entries import sizes_of, values_of

POINTS = pa.schema([("stream", pa.string()), ("ms", pa.int64()), ("size_bytes", pa.int64())])
POINTS_TEXT = "stream string, ms bigint, size_bytes bigint"
"""The same schema as Spark writes it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"-?[0-9]{1,19}(\.[0-9]+)?", re.ASCII)
_YEAR = re.compile(r"[0-9]{4}", re.ASCII)
_MS_MIN, _MS_MAX = -62_135_596_800_000, 253_402_300_799_999  # of the years 1 to 9999
_SECONDS_MAX = 10**11  # of the year 5138; as milliseconds, of March 1973


def points_of(batches: Iterable[pa.RecordBatch], time: str | None) -> Iterator[pa.RecordBatch]:
    """Yield when entries are, and how large; entries without a date are left out.

    Args:
        batches: of entries, see `memory/entries.py`.
        time: field that says when; None: the id does.
    """
    for batch in batches:
        fields = batch.column("fields")
        ms = batch.column("ms") if time is None else _times(fields, time)
        columns = [batch.column("stream"), ms, pa.array(sizes_of(fields))]
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


def transform(points: pa.Table, width_ms: int) -> pa.Table:
    """Return for each stream and span of time: rate, sizes, and times between entries.

    1. Entries are ordered by stream and time, and cut where a stream or a span ends.
    2. The gap of an entry is the time since the one before it in its stream; the first has none.
    3. In each span gaps are ordered, and their percentiles are members of them.

    Args:
        points: columns as `points.POINTS`; one at least.
        width_ms: length of a span.
    """
    streams = points["stream"].combine_chunks().dictionary_encode()
    codes = streams.indices.to_numpy()
    order = np.lexsort((points["ms"].to_numpy(), codes))
    codes, ms = codes[order], points["ms"].to_numpy()[order]
    sizes = points["size_bytes"].to_numpy()[order]
    begin_ms = ms - ms % width_ms
    is_first = np.diff(codes, prepend=-1) != 0
    begins = np.flatnonzero(is_first | (np.diff(begin_ms, prepend=0) != 0))
    counts = np.diff(begins, append=len(ms))

    gaps = np.where(
        is_first, np.iinfo(np.int64).max, np.diff(ms, prepend=0)
    )  # the last of its span
    spans = np.repeat(np.arange(len(begins)), counts)
    gaps = gaps[np.lexsort((gaps, spans))]
    gap_counts = counts - is_first[begins]

    def percentile(share: float) -> pa.Array:
        rank = np.ceil(share * gap_counts).astype(np.int64)
        at = np.where(gap_counts, begins + rank - 1, 0)
        return pa.array(gaps[at], mask=gap_counts == 0)

    size_sums = np.add.reduceat(sizes, begins)
    table = pa.table(
        {
            "stream": streams.dictionary.take(pa.array(codes[begins])),
            "begin_ms": begin_ms[begins],
            "entries_per_s": counts * 1000 / width_ms,
            "bytes_per_s": size_sums * 1000 / width_ms,
            "entry_bytes": size_sums / counts,
            "gap_p50_ms": percentile(0.5),
            "gap_p99_ms": percentile(0.99),
        }
    )
    return table.sort_by([("begin_ms", "ascending"), ("stream", "ascending")])
