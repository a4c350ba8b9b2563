"""Quantiles: estimated from counts by bucket, so that they can be told of a sum of processes."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """Return below which value such a share lies; None: nothing was counted.

    Within a bucket the values are taken to be spread evenly, as Prometheus does.

    Args:
        bounds: of the buckets; the last bucket has none.
        counts: by bucket.
        share: between 0 and 1.
    """
    total = sum(counts)
    if not total:
        return None
    rank, below = share * total, 0
    for at, count in enumerate(counts):
        if below + count >= rank and count:
            if at == len(bounds):
                return bounds[-1]
            low = bounds[at - 1] if at else 0.0
            return low + (bounds[at] - low) * (rank - below) / count
        below += count
    return bounds[-1]
