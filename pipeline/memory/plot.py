"""Rates, sizes and times of streams, in memory: the table of jobs/plot.py."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


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
