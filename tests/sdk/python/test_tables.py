"""Entries as tables: Arrow, pandas and polars, with types."""

import pandas as pd
import pyarrow as pa
import pytest

import headgate

READINGS = [
    {"site": "s1", "temp": "39.5", "count": "7", "ok": "true", "zip": "007"},
    {"site": "s2", "temp": "-4", "count": "-1", "ok": "false", "zip": "10115"},
    {"site": "s1", "count": "0", "ok": "true", "zip": "1"},
]


async def test_types_are_inferred(hg: headgate.AsyncClient) -> None:
    ids = await hg.stream("readings").append_many(READINGS)
    frame = await hg.stream("readings").read_pandas()
    assert list(frame.index) == ids
    assert frame["site"].tolist() == ["s1", "s2", "s1"]
    assert frame["temp"].tolist()[:2] == [39.5, -4.0]
    assert pd.isna(frame["temp"].iloc[2])
    assert frame["count"].dtype == "int64"
    assert frame["ok"].tolist() == [True, False, True]
    assert frame["zip"].tolist() == ["007", "10115", "1"]
    assert (frame["_time"].astype("int64") // 10**3 > 1_600_000_000).all()


async def test_a_schema_chooses_columns_and_types(hg: headgate.AsyncClient) -> None:
    readings = hg.stream("readings")
    await readings.append_many(READINGS)
    schema = {"count": pa.int32(), "zip": "int64", "missing": "string"}
    table = await readings.read_arrow(schema=schema)
    assert table.column_names == ["_id", "_time", "count", "zip", "missing"]
    assert table["zip"].to_pylist() == [7, 10115, 1]
    assert table["missing"].null_count == 3
    assert table.schema.field("count").type == pa.int32()
    with pytest.raises(ValueError, match="'site' is not always int64"):
        await readings.read_arrow(schema={"site": "int64"})


async def test_bytes_stay_bytes_and_the_last_of_a_name_counts(hg: headgate.AsyncClient) -> None:
    odd = hg.stream("odd")
    await odd.append([("a", "1"), ("b", b"\xff"), ("a", "2")])
    await odd.append({"b": "text"})
    table = await odd.read_arrow()
    assert table["a"].to_pylist() == [2, None]
    assert table["b"].to_pylist() == [b"\xff", b"text"]


async def test_an_empty_range_is_an_empty_table(hg: headgate.AsyncClient) -> None:
    await hg.stream("readings").append({"n": "1"})
    table = await hg.stream("readings").read_arrow(start="99999999999999")
    assert (len(table), table.column_names) == (0, ["_id", "_time"])


async def test_a_frame_is_appended_and_comes_back(hg: headgate.AsyncClient) -> None:
    frame = pd.DataFrame({"n": range(2_500), "x": [0.5, None] * 1_250, "name": ["a", "ü"] * 1_250})
    copies = hg.stream("copies")
    assert await copies.write_pandas(frame, chunk=1_000) == 2_500
    back = await copies.read_pandas()
    pd.testing.assert_frame_equal(back.drop(columns="_time").reset_index(drop=True), frame)
    assert await hg.stream("copies 2").write_pandas(back) == 2_500
    pd.testing.assert_frame_equal(await hg.stream("copies 2").read_pandas(), back)
    assert (await copies.read_polars())["n"].sum() == sum(range(2_500))


async def test_rows_without_a_field_are_refused(hg: headgate.AsyncClient) -> None:
    with pytest.raises(ValueError, match="row 1 has no field"):
        await hg.stream("s").write_arrow(pa.table({"a": [1, None]}))
    with pytest.raises(ValueError, match="has no text form"):
        await hg.stream("s").write_arrow(pa.table({"a": [[1]]}))
