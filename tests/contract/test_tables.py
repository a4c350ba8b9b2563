"""Tables: the latest entry of each key, one row or a walk over all, as of an id."""

import pytest
from msgspec.structs import replace

from headgate.app.backends.port import Ability, Backend
from headgate.engine.config import FieldName, Patch, StreamConfig
from headgate.engine.entry import Draft, EntryId, Fields
from headgate.engine.errors import Invalid, NotATable, RowChanged, StreamNotFound, WalkOver
from headgate.engine.requests.entries import Add, Delete, Range, Trim, TrimTo
from headgate.engine.requests.keyspace import CopyStream, RenameStream
from headgate.engine.requests.streams import CreateStream, DescribeStream, UpdateStream
from headgate.engine.requests.tables import DeleteRow, PutRow, ReadRow, ReadTable, RowCondition
from tests.contract.calls import S, entry_id, ids

pytestmark = pytest.mark.needs(Ability.PATTERNS)

STOCK = StreamConfig(key_field=FieldName(b"sku"))


def stock(text: str, first: int = 1) -> list[Draft]:
    """Return an entry for each letter, its key; that of an upper-case letter removes the row."""
    return [
        Draft(entry_id(at), (b"sku", key.lower().encode(), *((b"deleted", b"1") * key.isupper())))
        for at, key in enumerate(text, first)
    ]


async def table_of(backend: Backend, text: str) -> None:
    await backend.perform(CreateStream(S, STOCK))
    await backend.perform(Add(S, stock(text)))


async def rows(backend: Backend, stream: bytes = S, **asked: object) -> dict[str, int]:
    page = await backend.perform(ReadTable(stream, **asked))  # type: ignore[arg-type]
    return {row.key.decode(): row.id.ms for row in page.rows}


async def row(backend: Backend, key: bytes) -> int | None:
    reply = await backend.perform(ReadRow(S, key))
    return None if reply.row is None else reply.row.id.ms


async def test_the_latest_entry_of_a_key_is_its_row(backend: Backend) -> None:
    await table_of(backend, "abcab")
    assert await rows(backend) == {"a": 4, "b": 5, "c": 3}
    assert (await row(backend, b"a"), await row(backend, b"d")) == (4, None)


async def test_a_tombstone_removes_the_row_and_a_later_entry_makes_it_again(
    backend: Backend,
) -> None:
    await table_of(backend, "abA")
    assert await rows(backend) == {"b": 2}
    await backend.perform(Add(S, stock("a", 4)))
    assert await rows(backend) == {"a": 4, "b": 2}


async def test_another_field_may_be_the_tombstone(backend: Backend) -> None:
    await backend.perform(
        CreateStream(
            S, StreamConfig(key_field=FieldName(b"sku"), tombstone_field=FieldName(b"gone"))
        )
    )
    await backend.perform(Add(S, [*stock("aB"), Draft(entry_id(3), (b"sku", b"a", b"gone", b""))]))
    assert await rows(backend) == {"b": 2}


async def test_pages_go_by_key_and_prefix(backend: Backend) -> None:
    await table_of(backend, "")
    keys = [b"a", b"a\0", b"a\0b", b"a\1", b"ab", b"b", b""]
    await backend.perform(Add(S, [Draft(None, (b"sku", key)) for key in keys]))
    found, after = [], None
    while True:
        page = await backend.perform(ReadTable(S, after_key=after, limit=2))
        found += [each.key for each in page.rows]
        if (after := page.after_key) is None:
            break
    assert found == sorted(keys)
    page = await backend.perform(ReadTable(S, prefix=b"a\0"))
    assert [each.key for each in page.rows] == [b"a\0", b"a\0b"]


async def test_a_walk_is_as_of_the_id_that_its_first_page_tells(backend: Backend) -> None:
    await table_of(backend, "abcde")
    first = await backend.perform(ReadTable(S, limit=2))
    assert (first.after_key, first.as_of) == (b"b", entry_id(5))
    await backend.perform(Add(S, stock("cDdfC", 6)))
    assert await rows(backend, after_key=b"b", as_of=first.as_of) == {"c": 3, "d": 4, "e": 5}
    assert await rows(backend) == {"a": 1, "b": 2, "d": 8, "e": 5, "f": 9}


async def test_a_walk_ends_when_what_it_is_to_show_is_gone(backend: Backend) -> None:
    await table_of(backend, "abc")
    first = await backend.perform(ReadTable(S, limit=1))
    await backend.perform(Add(S, stock("c", 4)))
    await backend.perform(Delete(S, ids(3)))
    with pytest.raises(WalkOver):
        await backend.perform(ReadTable(S, after_key=b"a", as_of=first.as_of))
    with pytest.raises(WalkOver):
        await backend.perform(ReadTable(S, as_of=entry_id(1)))


async def test_a_page_may_have_the_rows_that_match_a_filter(backend: Backend) -> None:
    await table_of(backend, "abcb")
    assert await rows(backend, filters='{"any":[{"exact":{"sku":"b"}},{"exact":{"sku":"c"}}]}') == {
        "b": 4,
        "c": 3,
    }


async def test_a_row_goes_with_its_entry(backend: Backend) -> None:
    await table_of(backend, "abcac")
    await backend.perform(Delete(S, ids(4)))
    assert await rows(backend) == {"b": 2, "c": 5}
    await backend.perform(Trim(S, TrimTo(min_id=entry_id(3))))
    assert await rows(backend) == {"c": 5}
    assert await row(backend, b"b") is None


async def put(backend: Backend, key: bytes, *fields: bytes, **more: object) -> EntryId:
    added = await backend.perform(PutRow(S, key, fields, **more))  # type: ignore[arg-type]
    return added.ids[0]


async def test_a_row_is_put_with_its_key_and_deleted_by_a_tombstone(backend: Backend) -> None:
    await table_of(backend, "")
    first = await put(backend, b"a", b"count", b"3")
    assert (await backend.perform(ReadRow(S, b"a"))).row == (
        b"a",
        first,
        (b"sku", b"a", b"count", b"3"),
    )
    deleted = await backend.perform(DeleteRow(S, b"a"))
    assert deleted is not None
    assert await row(backend, b"a") is None
    assert await backend.perform(DeleteRow(S, b"a")) is None
    written: list[Fields] = [each.fields for each in await backend.perform(Range(S))]
    assert written[1:] == [(b"sku", b"a", b"deleted", b"1")]


async def test_a_row_is_put_only_if_it_is_as_expected(backend: Backend) -> None:
    await table_of(backend, "")
    first = await put(backend, b"a", condition=RowCondition())
    with pytest.raises(RowChanged) as error:
        await put(backend, b"a", condition=RowCondition())
    assert error.value.row_id == first
    second = await put(backend, b"a", condition=RowCondition(first))
    for request in (
        PutRow(S, b"a", (), RowCondition(first)),
        DeleteRow(S, b"a", RowCondition(first)),
        PutRow(S, b"b", (), RowCondition(first)),
    ):
        with pytest.raises(RowChanged):
            await backend.perform(request)
    assert await backend.perform(DeleteRow(S, b"a", RowCondition(second)))


@pytest.mark.parametrize(
    ("key", "fields", "place"),
    [
        (b"a", (b"sku", b"b"), "fields"),
        (b"a", (b"deleted", b"0"), "fields"),
        (b"k" * 1_025, (), "key"),
        (b"a", (b"odd",), "drafts"),
    ],
)
async def test_what_makes_no_row_is_refused(
    key: bytes, fields: Fields, place: str, backend: Backend
) -> None:
    await table_of(backend, "")
    with pytest.raises(Invalid) as error:
        await put(backend, key, *fields)
    assert error.value.location[0] == place
    assert await rows(backend) == {}


async def test_only_a_table_has_rows(backend: Backend) -> None:
    with pytest.raises(StreamNotFound):
        await backend.perform(ReadTable(S))
    await backend.perform(Add(S, stock("a")))
    with pytest.raises(NotATable):
        await put(backend, b"a")


async def test_a_stream_becomes_a_table_later_and_another_one(backend: Backend) -> None:
    many = [
        Draft(entry_id(at), (b"sku", b"%d" % (at % 700), b"n", b"%d" % (at % 3)))
        for at in range(1, 3_001)
    ]
    await backend.perform(Add(S, many))
    await backend.perform(UpdateStream(S, Patch.of(StreamConfig, key_field=FieldName(b"sku"))))
    assert len(await rows(backend, limit=1_000)) == 700
    info = await backend.perform(DescribeStream(S))
    assert info.table == (700, entry_id(3_000), True)
    await backend.perform(UpdateStream(S, Patch.of(StreamConfig, key_field=FieldName(b"n"))))
    assert await rows(backend) == {"0": 3_000, "1": 2_998, "2": 2_999}
    await backend.perform(UpdateStream(S, Patch.of(StreamConfig, key_field=None)))
    assert (await backend.perform(DescribeStream(S))).table is None


async def test_a_table_goes_with_its_stream(backend: Backend) -> None:
    await table_of(backend, "abA")
    await backend.perform(RenameStream(S, b"{orders}.2"))
    assert await rows(backend, b"{orders}.2") == {"b": 2}
    await backend.perform(CopyStream(b"{orders}.2", S))
    await backend.perform(Add(S, stock("c", 9)))
    assert await rows(backend) == {"b": 2, "c": 9}
    assert await rows(backend, b"{orders}.2") == {"b": 2}


async def test_a_long_append_is_in_the_table_once_it_is_answered(backend: Backend) -> None:
    await backend.perform(CreateStream(S, replace(STOCK, max_length=20_000)))
    for count in (501, 5_000, 12_000):
        drafts = [Draft(None, (b"sku", b"%d" % at)) for at in range(count)]
        await backend.perform(Add(S, drafts))
        info = (await backend.perform(DescribeStream(S))).table
        assert info is not None
        assert (info.row_count, info.is_complete) == (count, True)
