import datetime as dt
import decimal
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from headgate.pipeline.lakefile import are_behind
from headgate.pipeline.offsets import SEQ_MAX, Id
from headgate.pipeline.rows.schema import (
    WIRE_FIELDS,
    Drafts,
    RowError,
    Rows,
    chunks_of,
    entry_schema,
)

Pairs = list[tuple[bytes, bytes]]
pairs = st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=4)), min_size=1, max_size=5)
words = st.sampled_from([b"a", b"b", b"c"])


def entries(*fields: Pairs, ids: Sequence[Id] | None = None) -> pa.RecordBatch:
    """Entries as the gateway sends them."""
    ids = ids or [Id(1_700_000_000_000, at) for at in range(len(fields))]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([str(entry_id) for entry_id in ids], pa.string()),
            pa.array([entry_id.ms for entry_id in ids], pa.int64()),
            pa.array(
                [entry_id.seq if entry_id.seq < 2**63 else None for entry_id in ids], pa.int64()
            ),
            pa.array(list(fields), WIRE_FIELDS),
        ],
        names=["id", "ms", "seq", "fields"],
    )


TYPES: dict[str, DataType] = {
    "array<int>": ArrayType(IntegerType()),
    "array<string>": ArrayType(StringType()),
    "array<struct<name:string,value:binary>>": ArrayType(
        StructType().add("name", StringType()).add("value", BinaryType())
    ),
    "array<struct<at:timestamp,raw:binary,flags:array<boolean>>>": ArrayType(
        StructType()
        .add("at", TimestampType())
        .add("raw", BinaryType())
        .add("flags", ArrayType(BooleanType()))
    ),
    "bigint": LongType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "decimal(6,2)": DecimalType(6, 2),
    "decimal(38,0)": DecimalType(38, 0),
    "double": DoubleType(),
    "float": FloatType(),
    "int": IntegerType(),
    "map<string,array<int>>": MapType(StringType(), ArrayType(IntegerType())),
    "map<string,string>": MapType(StringType(), StringType()),
    "string": StringType(),
    "struct<x:double,y:decimal(6,2)>": StructType()
    .add("x", DoubleType())
    .add("y", DecimalType(6, 2)),
    "timestamp": TimestampType(),
}


def schema(ddl: str) -> StructType:
    """Spark's own parser is in the JVM, which these tests do without."""
    built = StructType()
    for column in ddl.split(", "):
        name, kind = column.split()
        built.add(name, TYPES[kind])
    return built


def typed(ddl: str, *fields: Pairs) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = Rows(schema(ddl)).of("s", entries(*fields)).to_pylist()
    return rows


@given(st.lists(pairs, max_size=6))
def test_an_array_of_bytes_keeps_all_fields_in_order(fields: list[Pairs]) -> None:
    if any(name != name.decode(errors="replace").encode() for pairs in fields for name, _ in pairs):
        fields = [[(name.hex().encode(), value) for name, value in pairs] for pairs in fields]
    rows = Rows(entry_schema(is_binary=True, is_array=True)).of("s", entries(*fields))
    kept = [
        [(pair["name"].encode(), pair["value"]) for pair in row]
        for row in rows["fields"].to_pylist()
    ]
    assert kept == fields


@given(
    st.lists(st.lists(st.tuples(words, words), min_size=1, max_size=5), max_size=6),
    st.integers(0, 3),
)
def test_of_a_repeated_name_a_map_has_the_last_value(fields: list[Pairs], begin: int) -> None:
    rows = Rows(entry_schema()).of("s", entries(*fields).slice(begin))
    kept = [dict(row) for row in rows["fields"].to_pylist()]
    assert kept == [{n.decode(): v.decode() for n, v in pairs} for pairs in fields[begin:]]
    assert all(len(row) == len(dict(row)) for row in rows["fields"].to_pylist())


def test_a_schema_without_fields_asks_for_none() -> None:
    assert Rows(StructType().add("_id", StringType())).fields == {}
    assert Rows(entry_schema()).fields is None


@pytest.mark.parametrize("names", [("a", "b", "a"), ("a", "bb", "c"), ("", "b", "c")])
def test_a_column_is_found_by_its_place_in_entries_that_are_alike(names: Sequence[str]) -> None:
    fields = [
        [(name.encode(), b"%d" % (10 * row + at)) for at, name in enumerate(names)]
        for row in range(4)
    ]
    schema = StructType().add("a", StringType()).add("c", StringType()).add("b", LongType())

    rows = Rows(schema).of("orders", entries(*fields).slice(1, 2))

    expected = [dict(pairs) for pairs in fields[1:3]]
    for name in "abc":
        raw = [each.get(name.encode()) for each in expected]
        values = [None if text is None else text.decode() for text in raw]
        assert rows.column(name).cast(pa.string()).to_pylist() == values


@given(
    st.lists(st.lists(st.tuples(words, words), min_size=1, max_size=5), max_size=6),
    st.integers(0, 3),
)
def test_a_column_is_the_last_field_of_its_name(fields: list[Pairs], begin: int) -> None:
    rows = Rows(schema("b string, z string")).of("s", entries(*fields).slice(begin)).to_pylist()
    wanted = [dict(pairs).get(b"b") for pairs in fields[begin:]]
    assert [row["b"] for row in rows] == [None if it is None else it.decode() for it in wanted]
    assert all(row["z"] is None for row in rows)


def test_a_row_says_stream_id_and_time() -> None:
    batch = entries([(b"a", b"1")], ids=[Id(1_700_000_000_123, SEQ_MAX)])
    (row,) = Rows(entry_schema()).of("orders", batch).to_pylist()
    assert row == {
        "stream": "orders",
        "id": f"1700000000123-{SEQ_MAX}",
        "ms": 1_700_000_000_123,
        "seq": None,  # does not fit; the id says it
        "timestamp": dt.datetime(2023, 11, 14, 22, 13, 20, 123000, dt.UTC),
        "fields": [("a", "1")],
    }


def test_an_id_beyond_the_calendar_has_no_timestamp() -> None:
    batch = entries([(b"a", b"1")], [(b"a", b"1")], ids=[Id(5, 0), Id(2**62, 0)])
    rows = Rows(entry_schema()).of("s", batch)
    assert rows["timestamp"].is_null().to_pylist() == [False, True]


@pytest.mark.parametrize("is_array", [False, True])
def test_what_is_no_text_fails_and_says_what_to_do(is_array: bool) -> None:
    batch = entries([(b"a", b"1")], [(b"a", b"\xff")])
    with pytest.raises(RowError, match=r"1700000000000-1 of 's' is no UTF-8.*valueFormat=binary"):
        Rows(entry_schema(is_array=is_array)).of("s", batch)
    rows = Rows(entry_schema(is_binary=True, is_array=is_array)).of("s", batch)
    assert rows.num_rows == 2


def test_columns_are_cast_one_by_one() -> None:
    ddl = (
        "i int, l bigint, d double, f float, m decimal(6,2), b boolean, t timestamp,"
        " day date, s string, raw binary, _id string, _stream string, _timestamp timestamp"
    )
    whole = [
        (b"i", b"-5"), (b"l", b"9000000000"), (b"d", b"1e3"), (b"f", b"0.5"), (b"m", b"12.5"),
        (b"b", b"true"), (b"t", b"2024-01-31T12:00:00.25Z"), (b"day", b"2024-01-31"),
        (b"s", "ü".encode()), (b"raw", b"\xff"),
    ]  # fmt: skip
    noon = dt.datetime(2024, 1, 31, 12, 0, 0, 250000, dt.UTC)
    full, without = typed(ddl, whole, [(b"other", b"1")])
    assert full == {
        "i": -5, "l": 9_000_000_000, "d": 1000.0, "f": 0.5, "m": decimal.Decimal("12.50"),
        "b": True, "t": noon, "day": dt.date(2024, 1, 31), "s": "ü", "raw": b"\xff",
        "_id": "1700000000000-0", "_stream": "s",
        "_timestamp": dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC),
    }  # fmt: skip
    assert {name for name, it in without.items() if it is not None} == {
        "_id",
        "_stream",
        "_timestamp",
    }


def test_times_with_and_without_a_zone_are_both_read() -> None:
    rows = typed("t timestamp", [(b"t", b"2024-01-31T12:00:00Z")], [(b"t", b"2024-01-31 12:00:00")])
    assert rows[0] == rows[1]


def test_what_does_not_fit_is_rescued_and_everything_else_stays() -> None:
    rows = typed(
        "user string, amount double, n int, _rescued string",
        [(b"user", b"u1"), (b"amount", b"1.5"), (b"n", b"1")],
        [(b"user", b"u2"), (b"amount", b"lots"), (b"n", b"1.5")],
        [(b"user", b"\xff"), (b"amount", b"2")],
    )
    assert [row["amount"] for row in rows] == [1.5, None, 2.0]
    assert [row["n"] for row in rows] == [1, None, None]
    assert rows[0]["_rescued"] is None
    assert json.loads(rows[1]["_rescued"]) == {"amount": "lots", "n": "1.5"}
    assert json.loads(rows[2]["_rescued"]) == {"user": "base64:/w=="}


def test_numbers_beyond_those_of_their_type_do_not_fit() -> None:
    rows = typed(
        "d decimal(38,0), f double, _rescued string",
        [(b"d", b"9" * 38), (b"f", b"inf")],
        [(b"d", b"9" * 39), (b"f", b"1e400")],
    )
    assert (rows[0]["d"], rows[0]["f"], rows[0]["_rescued"]) == (10**38 - 1, float("inf"), None)
    assert json.loads(rows[1]["_rescued"]) == {"d": "9" * 39, "f": "1e400"}


def test_without_a_column_to_rescue_it_what_does_not_fit_fails() -> None:
    with pytest.raises(RowError, match="amount of the entry 1700000000000-1 of 's' is 'lots'"):
        typed("amount double", [(b"amount", b"1")], [(b"amount", b"lots")])


@given(st.lists(st.one_of(st.integers(-(2**31), 2**31 - 1).map(str), st.text(max_size=3))))
def test_each_value_is_in_its_column_or_rescued(values: list[str]) -> None:
    rows = typed("n int, _rescued string", *([(b"n", value.encode())] for value in values))
    for value, row in zip(values, rows, strict=True):
        if row["_rescued"] is None:
            assert int(value, 0) == row["n"]
        else:
            assert row["n"] is None
            assert json.loads(row["_rescued"]) == {"n": value}


@pytest.mark.parametrize(
    "ddl", ["a array<int>", "a map<string,string>", "_id int", "_rescued map<string,string>"]
)
def test_a_column_no_field_can_be_is_refused_by_name(ddl: str) -> None:
    with pytest.raises(RowError, match=ddl.split(maxsplit=1)[0]):
        Rows(schema(ddl))


def drafts(
    ddl: str, rows: list[dict[str, Any]], stream: str | None = "s", **options: bool
) -> list[dict[str, Any]]:
    arrow = to_arrow_schema(schema(ddl), timezone="UTC")
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow)
    listed: list[dict[str, Any]] = Drafts(schema(ddl), stream, **options).of(batch).to_pylist()
    return listed


def test_columns_become_fields_and_null_is_left_out() -> None:
    noon = dt.datetime(2024, 1, 31, 12, 0, tzinfo=dt.UTC)
    rows: list[dict[str, Any]] = [
        {"user": "u", "n": 5, "d": 1.5, "b": True, "t": noon, "raw": b"\xff"},
        {"user": None, "n": 6, "d": None, "b": None, "t": None, "raw": None},
    ]
    first, second = drafts("user string, n int, d double, b boolean, t timestamp, raw binary", rows)
    assert first["fields"] == [
        (b"user", b"u"),
        (b"n", b"5"),
        (b"d", b"1.5"),
        (b"b", b"true"),
        (b"t", b"2024-01-31T12:00:00.000000Z"),
        (b"raw", b"\xff"),
    ]
    assert second["fields"] == [(b"n", b"6")]


def test_a_column_of_fields_is_written_as_it_is() -> None:
    row = {"fields": [("a", "1"), ("b", None)], "id": "5-0", "stream": "t"}
    (draft,) = drafts("fields map<string,string>, id string, stream string", [row], None)
    assert draft == {"fields": [(b"a", b"1")], "id": "5-0", "stream": "t"}
    both: dict[str, Any] = {"fields": [{"name": "a", "value": b"1"}, {"name": "a", "value": b"2"}]}
    (draft,) = drafts("fields array<struct<name:string,value:binary>>", [both])
    assert draft == {"fields": [(b"a", b"1"), (b"a", b"2")]}


def test_columns_of_times_are_no_fields() -> None:
    rows: list[dict[str, Any]] = [{"n": 1, "ttl_ms": 5, "delay_ms": None}, {"n": 2, "delay_ms": 7}]
    first, second = drafts("n int, ttl_ms int, delay_ms bigint", rows)
    assert first == {"fields": [(b"n", b"1")], "ttl_ms": 5, "delay_ms": None}
    assert second == {"fields": [(b"n", b"2")], "ttl_ms": None, "delay_ms": 7}
    ddl = "fields map<string,string>, expires_at_ms bigint"
    (draft,) = drafts(ddl, [{"fields": [("a", "1")], "expires_at_ms": 9}])
    assert draft == {"fields": [(b"a", b"1")], "expires_at_ms": 9}


@given(st.lists(pairs, min_size=1, max_size=6))
def test_entries_that_are_read_can_be_written_as_they_were(fields: list[Pairs]) -> None:
    fields = [[(name.hex().encode(), value) for name, value in pairs] for pairs in fields]
    kind = entry_schema(is_binary=True, is_array=True)
    rows = Rows(kind).of("s", entries(*fields))
    assert Drafts(kind, "t").of(rows)["fields"].to_pylist() == fields
    assert Drafts(kind, "t").of(rows.slice(1))["fields"].to_pylist() == fields[1:]


@pytest.mark.parametrize(
    ("ddl", "stream"),
    [
        ("user string", None),  # nothing says which stream
        ("id string", "s"),  # no field
        ("tags array<string>", "s"),
        ("n int, fields map<string,string>", "s"),
        ("id int, user string", "s"),
        ("ttl_ms string, user string", "s"),
        ("ttl_ms bigint", "s"),
    ],
)
def test_rows_that_are_no_entries_are_refused(ddl: str, stream: str | None) -> None:
    with pytest.raises(RowError):
        Drafts(schema(ddl), stream)


def test_a_row_without_a_field_is_refused() -> None:
    with pytest.raises(RowError, match=r"no field.*emptyRows=skip"):
        drafts("user string", [{"user": None}])


def test_rows_without_a_field_are_left_out_by_option() -> None:
    columns: list[dict[str, Any]] = [
        {"user": None, "id": "1-0"},
        {"user": "u", "id": "2-0"},
        {"user": None, "id": "3-0"},
    ]
    kept = drafts("user string, id string", columns, skip_empty=True)
    assert kept == [{"fields": [(b"user", b"u")], "id": "2-0"}]
    whole: list[dict[str, Any]] = [
        {"fields": []},
        {"fields": [("a", None)]},
        {"fields": [("a", "1")]},
    ]
    kept = drafts("fields map<string,string>", whole, skip_empty=True)
    assert kept == [{"fields": [(b"a", b"1")]}]
    assert drafts("user string", [{"user": None}], skip_empty=True) == []


def test_arrays_structs_and_maps_are_json_by_option() -> None:
    ddl = "n int, tags array<string>, at struct<x:double,y:decimal(6,2)>, m map<string,array<int>>"
    rows: list[dict[str, Any]] = [
        {
            "n": 1,
            "tags": ["a", None, 'é"'],
            "at": {"x": float("nan"), "y": decimal.Decimal("1.50")},
            "m": [("k", [1, None]), ("l", None)],
        },
        {"n": 2, "tags": None, "at": {"x": 1.5, "y": None}, "m": []},
        {"n": 3, "tags": [], "at": None, "m": None},
    ]
    with pytest.raises(RowError, match=r"tags is array<string>.*nestedFormat=json"):
        drafts(ddl, rows)
    written = [
        {name.decode(): json.loads(value) for name, value in row["fields"]}
        for row in drafts(ddl, rows, nested_as_json=True)
    ]
    assert written == [
        {
            "n": 1,
            "tags": ["a", None, 'é"'],
            "at": {"x": "NaN", "y": 1.5},
            "m": {"k": [1, None], "l": None},
        },
        {"n": 2, "at": {"x": 1.5}, "m": {}},
        {"n": 3, "tags": []},
    ]


def test_a_part_of_rows_has_its_own_json() -> None:
    ddl = "deep array<struct<at:timestamp,raw:binary,flags:array<boolean>>>"
    noon = dt.datetime(2024, 1, 31, 12, tzinfo=dt.UTC)
    item = {"at": noon, "raw": b"\xff", "flags": [True, None]}
    arrow = to_arrow_schema(schema(ddl), timezone="UTC")
    rows = [{"deep": []}, {"deep": [item, None]}, {"deep": None}, {"deep": [item]}]
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow).slice(1)
    made = Drafts(schema(ddl), "s", nested_as_json=True, skip_empty=True).of(batch).to_pylist()
    text = '{"at":"2024-01-31T12:00:00.000000Z","raw":"/w==","flags":[true,null]}'
    values = [row["fields"][0][1].decode() for row in made]
    assert values == [f"[{text},null]", f"[{text}]"]


@given(st.integers(0, 50), st.integers(1, 20), st.integers(1, 5000))
def test_chunks_are_bounded_and_hold_everything(count: int, rows_max: int, size: int) -> None:
    batch = entries(*([(b"a", b"x" * 50)] for _ in range(count)))
    chunks = chunks_of(batch, entries_max=rows_max, size_bytes_max=size)
    assert [row for chunk in chunks for row in chunk.to_pylist()] == batch.to_pylist()
    assert all(0 < len(chunk) <= rows_max for chunk in chunks)


numbers = st.integers(0, 3) | st.just(SEQ_MAX) | st.just(2**63)


@given(
    st.lists(st.builds(Id, st.integers(0, 3), numbers), max_size=9), st.builds(Id, numbers, numbers)
)
def test_a_range_of_rows_is_that_of_their_ids(ids: list[Id], bound: Id) -> None:
    batch = entries(*([(b"a", b"1")] for _ in ids), ids=ids or None)
    assert batch.filter(are_behind(batch, bound))["id"].to_pylist() == [
        str(it) for it in ids if it > bound
    ]
