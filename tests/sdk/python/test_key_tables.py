"""Tables by key with the Python client: rows, conditions, and a view that stays current."""

import pandas as pd
import pytest
import pytest_asyncio

import headgate
from headgate.client import Table, problems


@pytest_asyncio.fixture
async def stock(hg: headgate.AsyncClient) -> Table:
    await hg.stream("stock").create(config={"key_field": "sku"})
    return hg.stream("stock").table()


async def test_a_row_is_put_read_and_deleted(stock: Table) -> None:
    first = await stock.put("eu/42", {"count": "3"}, if_absent=True)
    assert await stock.get("eu/42") == ("eu/42", first, {"sku": "eu/42", "count": "3"})
    with pytest.raises(problems.RowChanged) as error:
        await stock.put("eu/42", {"count": "5"}, if_absent=True)
    assert error.value.row is not None
    assert error.value.row["id"] == first
    second = await stock.put("eu/42", {"count": "4"}, if_match=first)
    row = await stock.wait("eu/42", after=first)
    assert row is not None
    assert row.id == second
    assert await stock.delete("eu/42", if_match=second)
    assert (await stock.get("eu/42"), await stock.delete("eu/42")) == (None, False)


async def test_all_rows_come_by_pages_and_by_filter(stock: Table) -> None:
    for key in "cabd":
        await stock.put(key, {"kind": "x" if key in "ab" else "y"})
    assert [row.key async for row in stock.rows(limit=2)] == ["a", "b", "c", "d"]
    wanted = {"exact": {"kind": "y"}}
    assert [row.key async for row in stock.rows(filter=wanted)] == ["c", "d"]
    assert [row.key async for row in stock.rows(prefix="b")] == ["b"]


async def test_rows_are_a_frame_of_pandas_as_of_an_id(
    hg: headgate.AsyncClient, stock: Table
) -> None:
    rows: list[dict[str, str | bytes]] = [
        {"sku": "b", "count": "4"},
        {"sku": "a", "count": "3", "id": "x"},
        {"sku": b"\xff"},
    ]
    ids = await hg.stream("stock").append_many(rows)
    frame = await stock.to_pandas()
    assert list(frame.index) == ["a", "b", "base64:/w=="]
    assert list(frame.columns) == ["_id", "_time", "sku", "count", "id"]
    assert frame["_id"].tolist() == [ids[1], ids[0], ids[2]]
    assert frame.loc["a", "count"] == 3
    assert frame.attrs["as_of"] == ids[-1]
    typed = await stock.to_pandas(schema={"count": "int32"})
    assert list(typed.columns) == ["_id", "_time", "count"]


async def test_a_frame_of_rows_as_they_were_is_there_for_as_long_as_the_gateway_knows(
    stock: Table,
) -> None:
    for n in range(1_001):
        await stock.put(str(n), {"n": "1"})
    before = await stock.to_pandas()
    await stock.put("0", {"n": "2"})
    again = await stock.to_pandas(as_of=before.attrs["as_of"])
    pd.testing.assert_frame_equal(again, before)
    assert (await stock.to_pandas()).loc["0", "n"] == 2
    with pytest.raises(problems.Gone):
        await stock.to_pandas(as_of="1-0")


async def test_a_table_without_rows_is_a_frame_without_rows(stock: Table) -> None:
    assert (await stock.to_pandas()).empty


async def test_changes_begin_with_the_rows_and_go_on(stock: Table) -> None:
    await stock.put("a", {"n": "1"})
    await stock.put("b", {"n": "1"})
    seen = []
    async for change in stock.changes():
        seen.append((change.key, change.fields and change.fields["n"]))
        if len(seen) == 2:
            await stock.put("a", {"n": "2"})
            await stock.delete("b")
        if len(seen) == 4:
            break
    assert seen == [("a", "1"), ("b", "1"), ("a", "2"), ("b", None)]


async def test_a_change_has_the_key_of_its_row(hg: headgate.AsyncClient, stock: Table) -> None:
    keys: list[str | bytes] = [b"\xff", "base64:x", "", "k" * 1_025, "ü"]
    await stock.put("a", {"n": "1"})
    seen = []
    async for change in stock.changes():
        seen.append(change.key)
        if len(seen) == 1:
            await hg.stream("stock").append_many([{"sku": key} for key in keys])
        if change.key == "ü":
            break
    rows = [row.key async for row in stock.rows()]
    assert sorted(seen) == sorted(rows)
    assert len(rows) == 5


async def test_what_was_trimmed_unseen_is_seen_by_its_rows(
    hg: headgate.AsyncClient, stock: Table
) -> None:
    for key in "abc":
        await stock.put(key, {"n": "1"})
    view: dict[str, object] = {}
    async for change in stock.changes(credit=2):
        view[change.key] = change.fields and change.fields["n"]
        if len(view) == 1:  # the others are on the way, and d and e are not
            await stock.put("d", {"n": "1"})
            await stock.put("e", {"n": "1"})
            await hg.stream("stock").trim(max_length=1)
        if view.get("e") and not any(view.get(key) for key in "abc"):
            break
    assert "d" not in view


async def test_changes_of_some_rows_are_followed(stock: Table) -> None:
    for key in ("de-1", "eu-1"):
        await stock.put(key, {"n": "1"})
    seen = []
    async for change in stock.changes(prefix="eu-"):
        seen.append(change.key)
        if len(seen) == 1:
            await stock.put("de-1", {"n": "2"})
            await stock.put("eu-2", {"n": "1"})
        if len(seen) == 2:
            break
    assert seen == ["eu-1", "eu-2"]
