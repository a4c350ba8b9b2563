"""Entries as points in time: when they are, by their ids or by a field, and how large."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

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
