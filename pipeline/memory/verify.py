"""The lake against a stream, in memory: both are in order, so rows are compared with rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from headgate.pipeline.jobs.flags import Flags
from headgate.pipeline.lake import Lake
from headgate.pipeline.memory.entries import as_table, read_lake, read_range
from headgate.pipeline.offsets import parse_id


def compare(
    flags: Flags, lake: Lake, stream: str, after: str, to: str, *, width_ms: int
) -> tuple[int, str]:
    """Compare a range of a stream with the lake; returns its number of entries, and the result.

    Args:
        flags: say where the gateway is.
        lake: what it is compared with.
        stream: its name.
        after: exclusive.
        to: inclusive.
        width_ms: length of the spans of time of which the first that differs is named.
    """
    theirs = as_table(read_range(flags, stream, after, to))
    ours = as_table(read_lake(lake, stream, after=after, to=to))
    if theirs.equals(ours):
        return len(theirs), "equal"
    for there, held in _spans(theirs, ours, width_ms):
        if not there.equals(held):
            ids = [*there["id"].to_pylist(), *held["id"].to_pylist()]
            low, high = min(ids, key=parse_id), max(ids, key=parse_id)
            first = first_difference(there, held)
            return len(theirs), (
                f"differs from {low} to {high}: live {len(there)}, lake {len(held)}; {first}"
            )
    raise AssertionError("tables differ, and all of their spans are equal")


def first_difference(theirs: pa.Table, ours: pa.Table) -> str:
    """Return the first entry that differs between tables, with the difference."""
    there, held = ({row["id"]: row for row in table.to_pylist()} for table in (theirs, ours))
    for entry_id in sorted(there | held, key=parse_id):
        if entry_id not in held:
            return f"{entry_id} is not in the lake"
        if entry_id not in there:
            return f"{entry_id} is in the lake only"
        if there[entry_id] != held[entry_id]:
            return f"{entry_id} has other fields in the lake"
    return "an entry is in the lake twice"


def missing(flags: Flags, lake: Lake, stream: str, after: str, to: str) -> str | None:
    """Return the id of an entry of the range that the lake lacks, or has with other fields."""
    theirs = as_table(read_range(flags, stream, after, to))
    ours = as_table(read_lake(lake, stream, after=after, to=to))
    if theirs.equals(ours):
        return None
    held = {row["id"]: row for row in ours.to_pylist()}
    return next((row["id"] for row in theirs.to_pylist() if held.get(row["id"]) != row), None)


def _spans(theirs: pa.Table, ours: pa.Table, width_ms: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield the rows of both tables for each span of time with rows in one."""
    tables = (theirs, ours)
    spans = [table["ms"].to_numpy() // width_ms for table in tables]
    for span in np.union1d(*spans).tolist():
        begins, ends = (
            [int(np.searchsorted(of_table, span, side)) for of_table in spans]
            for side in ("left", "right")
        )
        there, held = (
            table.slice(begin, end - begin)
            for table, begin, end in zip(tables, begins, ends, strict=True)
        )
        yield there, held
