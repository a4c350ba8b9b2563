"""Quantiles from buckets are where values spread evenly would be."""

from __future__ import annotations

import pytest

from headgate.app.measuring.quantiles import quantile

BOUNDS = (1.0, 2.0, 4.0)


@pytest.mark.parametrize(
    ("counts", "share", "value"),
    [
        ([0, 0, 0, 0], 0.5, None),
        ([10, 0, 0, 0], 0.5, 0.5),
        ([5, 5, 0, 0], 0.99, 1.98),
        ([0, 0, 4, 0], 0.5, 3.0),
        ([0, 0, 0, 4], 0.5, 4.0),  # nobody knows how much more
        ([98, 0, 0, 2], 0.99, 4.0),
    ],
)
def test_a_quantile_lies_in_its_bucket(
    counts: list[int], share: float, value: float | None
) -> None:
    assert quantile(BOUNDS, counts, share) == (value if value is None else pytest.approx(value))
