"""The entries of a benchmark follow from their numbers."""

import pyarrow as pa
import pytest

from tests.bench.seeded import KINDS, LARGE, SHORT, VALUE_BYTES, Kind
from tests.bench.volume import differing_count


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_entry_is_the_same_in_every_batch(kind: Kind) -> None:
    together = kind.rows(1_000, 30)
    assert together == [kind.rows(number, 1)[0] for number in range(1_000, 1_030)]
    assert len(set(together)) > 25


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_record_batch_has_the_rows_as_fields(kind: Kind) -> None:
    [fields] = kind.record_batch(7, 3).columns
    names = [name.encode() for name in kind.fields]
    wanted = [list(zip(names, row, strict=True)) for row in kind.rows(7, 3)]
    assert fields.to_pylist() == wanted


def test_values_have_the_size_that_is_said() -> None:
    assert {len(value) for [value] in LARGE.rows(0, 20)} == {VALUE_BYTES}
    sizes = [sum(map(len, row)) for row in SHORT.rows(0, 5_000)]
    assert sum(sizes) / len(sizes) == pytest.approx(SHORT.entry_bytes, rel=0.02)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_entries_that_differ_are_counted(kind: Kind) -> None:
    batch = kind.record_batch(40, 6)
    assert differing_count(kind, 40, batch) == 0
    assert differing_count(kind, 41, batch) == 6
    torn = pa.Table.from_batches([batch.slice(0, 5), kind.record_batch(50, 1)]).combine_chunks()
    assert differing_count(kind, 40, torn.to_batches()[0]) == 1
