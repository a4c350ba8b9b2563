"""Tables whose entries are on disk alone: their rows are read from there, however they lie."""

import asyncio

from headgate.engine.config import FieldName, Patch, StreamConfig
from headgate.engine.entry import EntryId
from headgate.engine.requests.entries import Delete, Range
from headgate.engine.requests.streams import UpdateStream
from headgate.engine.requests.tables import DeleteRow, PutRow, ReadRow, ReadTable, RowCondition
from tests.journals.life import living
from tests.journals.memory_disk import MemoryDisk
from tests.unit.driver import kept

KEY = FieldName(b"n")
TABLE = UpdateStream(b"s", Patch.of(StreamConfig, key_field=KEY))
KEYS = sorted(b"%d" % number for number in range(1, 251))


async def test_rows_are_read_from_the_disk() -> None:
    async with living(MemoryDisk()) as life:
        await life.fill(250)
        await life.perform(TABLE)
        await life.freeze()
        assert life.lines()
        page = await life.perform(ReadTable(b"s", limit=1_000))
        assert [row.key for row in page.rows] == KEYS
        read = await life.perform(ReadRow(b"s", b"7"))
        assert read.row.id == EntryId(7, 0)
        await life.perform(PutRow(b"s", b"7", (), RowCondition(EntryId(7, 0))))
        await life.perform(DeleteRow(b"s", b"8"))
        await life.perform(Delete(b"s", [EntryId(9, 0)]))
        left = await life.perform(ReadTable(b"s", limit=1_000))
        assert [row.key for row in left.rows] == [key for key in KEYS if key not in (b"8", b"9")]


async def test_a_table_is_built_of_what_is_on_the_disk_and_is_there_after_a_start() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.fill(250)
        await life.freeze()
        await life.perform(TABLE)
        first = await life.perform(ReadTable(b"s", limit=2))
        assert [row.key for row in first.rows] == KEYS[:2]
        await life.freeze()
    async with living(disk) as life:
        page = await life.perform(ReadTable(b"s", after_key=b"1", limit=1_000, as_of=first.as_of))
        assert [row.key for row in page.rows] == KEYS[1:]


async def test_superseded_entries_go_from_the_disk() -> None:
    async with living(MemoryDisk()) as life, kept(life.engine):
        await life.fill(250)
        latest = Patch.of(StreamConfig, key_field=KEY, retain=True, compact_after_ms=0)
        await life.perform(UpdateStream(b"s", latest))
        for key in (b"7", b"8", b"100"):
            await life.perform(PutRow(b"s", key, ()))
        await life.freeze()
        assert life.lines()
        await asyncio.sleep(60)
        [*old, a, b, c] = await life.perform(Range(b"s"))
        assert [entry.id.ms for entry in old] == [n for n in range(1, 251) if n not in (7, 8, 100)]
        assert [entry.fields[1] for entry in (a, b, c)] == [b"7", b"8", b"100"]
