"""Names and types of the columns of a view."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.client import tables
from headgate.pipeline.views.table import (
    TIMESTAMP,
    Kind,
    column_name,
    common,
    field_name,
    text_of_type,
    type_of,
)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), unique=True))
def test_each_field_has_a_column_of_its_own_that_says_its_name(fields: list[str]) -> None:
    columns: list[str] = []
    for field in fields:
        columns.append(column_name(field, columns))
    assert [field_name(column) for column in columns] == fields
    assert len({column.lower() for column in columns}) == len(fields)
    assert not any(set(column) & set(" ,;{}()\n\t=") or not column for column in columns)


@pytest.mark.parametrize(
    ("field", "taken", "column"),
    [
        ("price", [], "price"),
        ("unit price", [], "unit~20price"),
        ("\u00fc", [], "\u00fc"),
        ("", [], "~"),
        ("Price", ["price"], "~50rice"),
        ("price", ["Price"], "~70rice"),
        ("PRICE", ["price", "~50rice"], "~50~52~49~43~45"),
        ("_id", ["_id"], "~5Fid"),
    ],
)
def test_a_name_stays_readable(field: str, taken: Sequence[str], column: str) -> None:
    assert column_name(field, taken) == column
    assert field_name(column) == field


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("timestamp[us, tz=UTC]", TIMESTAMP),
        ("Timestamp", TIMESTAMP),
        ("timestamp[ms]", TIMESTAMP),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("numeric(5)", pa.decimal128(5, 0)),
        ("decimal128(38, 18)", pa.decimal128(38, 18)),
        ("int", pa.int64()),
        ("smallint", pa.int16()),
        ("double", pa.float64()),
        ("string", pa.string()),
        (" text ", pa.string()),
        ("date32[day]", pa.date32()),
        ("boolean", pa.bool_()),
        ("binary", pa.binary()),
    ],
)
def test_types_have_their_usual_spellings(text: str, kind: pa.DataType) -> None:
    assert type_of(text) == kind
    assert type_of(text_of_type(kind)) == kind


@pytest.mark.parametrize("text", ["money", "", "decimal(39,2)", "decimal(2,3)", "uint64", "time"])
def test_a_type_that_is_none_is_told_with_those_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="is no type: there are text, bytes, int"):
        type_of(text)


def kind_of(*parts: Sequence[str]) -> Kind | None:
    """Return the kind of the values of all parts."""
    kind = None
    for part in parts:
        raw = pa.array([value.encode() for value in part], pa.binary())
        kind = common(kind, Kind.of(tables.inferred(raw)))
    return kind


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2.5"], "float"),
        (["1", "9007199254740993"], "int"),
        (["2.5", "9007199254740993"], "decimal(38,1)"),
        (["2.5", "18446744073709551616"], "decimal(38,1)"),
        (["9" * 38, "0.1"], "text"),
        (["0.30000000000000004", "1"], "float"),
        (["1.5", "nan"], "float"),
        (["1.50", "nan"], "text"),
        (["nan", "18446744073709551616"], "text"),
        (["1", "007"], "text"),
        (["true", "1"], "text"),
        (["true", "false"], "bool"),
        (["2024-01-31T12:00:00Z", "2024-01-31T12:00:00.5+0100"], "timestamp"),
        (["2024-01-31T12:00:00", "2024-01-31T12:00Z"], "timestamp"),
        (["2024-01-31T12:00:00.123456789Z", "2024-01-31T12:00:00Z"], "text"),
        (["2024-01-31T12:00:00Z", "1"], "text"),
        (["2024-01-31", "2024-02-01"], "text"),
        ([""], "text"),
    ],
)
def test_the_kind_of_values_is_the_same_in_any_order_and_parts(
    values: Sequence[str], kind: str
) -> None:
    for ordered in (values, values[::-1]):
        for parts in ([ordered], [[value] for value in ordered]):
            common_kind = kind_of(*parts)
            assert common_kind is not None
            assert text_of_type(common_kind.type) == kind
    assert kind_of([]) is None
