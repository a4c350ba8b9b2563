"""The figures of benchmarks: percentiles, and sizes as people write them."""

import pytest

from tests.bench.table import p50_p99, size_of


def test_a_percentile_lies_within_the_values() -> None:
    assert p50_p99(range(101)) == (50, 99)
    assert p50_p99([1, 2]) == (1.5, 1.99)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("20_000_000_000", 20_000_000_000),
        ("20GB", 20_000_000_000),
        ("512MiB", 512 * 2**20),
        ("1.5k", 1_500),
        ("100M", 100_000_000),
    ],
)
def test_a_size_is_read(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "3 parsecs"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no size"):
        size_of(text)
