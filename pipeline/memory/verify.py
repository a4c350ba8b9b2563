"""The lake against a stream, in memory: both are in order, so rows are compared with rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.pipeline.comparison import Comparison, Deletions
from headgate.pipeline.erasure import forgotten
from headgate.pipeline.lake import Lake
from headgate.pipeline.memory.entries import as_table, read_lake, read_range
from headgate.pipeline.offsets import parse_id
from headgate.pipeline.terminal.flags import Flags


def compare(
    flags: Flags,
    lake: Lake,
    stream: str,
    after: str,
    to: str,
    *,
    width_ms: int,
    deleted: Callable[[], Deletions] | None = None,
) -> Comparison:
    """Compare a range of a stream with the lake; see `jobs.verify.compare`."""
    theirs, forgotten_count = _remembered(lake, stream, read_range(flags, stream, after, to))
    ours, _ = _remembered(lake, stream, read_lake(lake, stream, after=after, to=to))
    deleted_count = 0
    if deleted is not None:
        is_live = pc.is_in(ours["id"], theirs["id"])
        gone = ours["id"].filter(pc.invert(is_live)).to_pylist()
        deleted_count = len(gone)
        if gone and (refusal := deleted().refusal(deleted_count, max(gone, key=parse_id))):
            return Comparison(len(theirs), f"differs: {refusal}", 0, forgotten_count)
        ours = ours.filter(is_live)
    if theirs.equals(ours):
        return Comparison(len(theirs), "equal", deleted_count, forgotten_count)
    for there, held in _spans(theirs, ours, width_ms):
        if not there.equals(held):
            ids = [*there["id"].to_pylist(), *held["id"].to_pylist()]
            low, high = min(ids, key=parse_id), max(ids, key=parse_id)
            first = first_difference(there, held)
            verdict = f"differs from {low} to {high}: live {len(there)}, lake {len(held)}; {first}"
            return Comparison(len(theirs), verdict, deleted_count, forgotten_count)
    raise AssertionError("tables differ, and all of their spans are equal")


def _remembered(lake: Lake, stream: str, batches: Iterable[pa.RecordBatch]) -> tuple[pa.Table, int]:
    """Return entries without those that the lake has forgotten, and the number of these."""
    table = as_table(batches)
    is_forgotten = pc.is_in(table["id"], forgotten(lake, stream))
    return table.filter(pc.invert(is_forgotten)), int(pc.sum(is_forgotten).as_py() or 0)


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
    """Return the id of an entry that the lake lacks; see `jobs.verify.missing`."""
    theirs, _ = _remembered(lake, stream, read_range(flags, stream, after, to))
    ours, _ = _remembered(lake, stream, read_lake(lake, stream, after=after, to=to))
    ours = ours.filter(pc.is_in(ours["id"], theirs["id"]))  # others were deleted in the stream
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
