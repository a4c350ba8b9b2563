"""Random histories of a table, beside a dictionary: rows and walks are the same."""

import random
from pathlib import Path

import pytest

from headgate.app.backends.port import Backend
from headgate.engine.config import FieldName, Patch, StreamConfig
from headgate.engine.entry import Draft, EntryId
from headgate.engine.errors import RowChanged, WalkOver
from headgate.engine.requests.entries import Add, Delete, Trim, TrimTo
from headgate.engine.requests.streams import CreateStream, UpdateStream
from headgate.engine.requests.tables import DeleteRow, PutRow, ReadRow, ReadTable, RowCondition
from tests.contract.backends import KINDS
from tests.contract.calls import S, entry_id

STEPS = 100
SKU = FieldName(b"sku")
KEYS = [
    b"",
    b"\0",
    b"\0\1",
    b"\1",
    b"a",
    b"a\0b",
    b"ab",
    b"b",
    *(b"k%03d" % at for at in range(300)),
]


class TableModel:
    """A dictionary, and the entries that it was made of."""

    def __init__(self) -> None:
        self.rows: dict[bytes, EntryId] = {}
        self.entries: dict[EntryId, tuple[bytes | None, bool]] = {}

    def append(self, entry_id: EntryId, key: bytes | None, *, is_removed: bool) -> None:
        self.entries[entry_id] = key, is_removed
        if key is not None:
            self.rows.pop(key, None)
            if not is_removed:
                self.rows[key] = entry_id

    def remove(self, entry_id: EntryId) -> None:
        key, _ = self.entries.pop(entry_id)
        if key is not None and self.rows.get(key) == entry_id:
            del self.rows[key]


class Walking:
    """A walk: what it is to show, and how far it is."""

    def __init__(
        self, rows: dict[bytes, EntryId], as_of: EntryId, after_key: bytes, life: int
    ) -> None:
        self.rows, self.as_of, self.after_key, self.life = rows, as_of, after_key, life


class TableHistory:
    """What happens to a table and to its model."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.keys = self.random.sample(KEYS, self.random.choice([3, 20, len(KEYS)]))
        self.model = TableModel()
        self.last = 0
        self.walks: list[Walking] = []
        self.life = 0

    async def step(self, backend: Backend) -> None:
        steps = [self.append, self.append, self.put, self.look, self.go_on]
        rare = [self.delete, self.trim, self.delete_row, self.walk, self.compare, self.rebuild]
        await self.random.choice(steps if self.random.random() < 0.7 else rare)(backend)

    async def append(self, backend: Backend) -> None:
        drafts = []
        for _ in range(self.random.choice([1, 3, 40, 700])):
            self.last += 1
            key = self.random.choice([*self.keys, None])
            is_removed = self.random.random() < 0.2
            self.model.append(entry_id(self.last), key, is_removed=is_removed)
            fields = [b"n", b"%d" % self.last] if key is None else [b"sku", key]
            fields += [b"deleted", b""] if is_removed else []
            drafts.append(Draft(entry_id(self.last), tuple(fields)))
        await backend.perform(Add(S, drafts))

    async def put(self, backend: Backend) -> None:
        key = self.random.choice(self.keys)
        there = self.model.rows.get(key)
        wanted = self.random.choice([there, None, entry_id(1)])
        request = PutRow(S, key, (b"n", b"1"), RowCondition(wanted))
        if wanted != there:
            with pytest.raises(RowChanged):
                await backend.perform(request)
            return
        # Ids of the clock would be far above those of this history.
        self.last += 1
        self.model.append(entry_id(self.last), key, is_removed=False)
        await backend.perform(Add(S, [Draft(entry_id(self.last), (b"sku", key))]))

    async def delete_row(self, backend: Backend) -> None:
        gone = next((key for key in self.keys if key not in self.model.rows), None)
        if gone is not None:
            assert await backend.perform(DeleteRow(S, gone)) is None

    async def look(self, backend: Backend) -> None:
        for key in self.random.sample(self.keys, 3):
            reply = await backend.perform(ReadRow(S, key))
            assert (None if reply.row is None else reply.row.id) == self.model.rows.get(key)

    async def walk(self, backend: Backend) -> None:
        page = await backend.perform(ReadTable(S, limit=self.random.choice([1, 3, 50])))
        rows = dict(sorted(self.model.rows.items()))
        assert {row.key: row.id for row in page.rows} == dict(list(rows.items())[: len(page.rows)])
        if page.after_key is not None:
            self.walks.append(Walking(rows, page.as_of, page.after_key, self.life))

    async def go_on(self, backend: Backend) -> None:
        """Go on with a walk; what was deleted since is not shown, or ends it."""
        if not self.walks:
            return
        walk = self.walks.pop()
        limit = self.random.choice([1, 10, 1_000])
        request = ReadTable(S, after_key=walk.after_key, limit=limit, as_of=walk.as_of)
        left = {key: each for key, each in walk.rows.items() if key > walk.after_key}
        alive = {key: each for key, each in left.items() if each in self.model.entries}
        try:
            page = await backend.perform(request)
        except WalkOver:  # what it is to show is not known after a start, or is gone
            assert walk.life < self.life or len(alive) < len(left)
            return
        found = {row.key: row.id for row in page.rows}
        assert found == dict(list(alive.items())[: len(found)])
        assert len(found) == min(limit, len(alive))
        if page.after_key is not None:
            self.walks.append(Walking(walk.rows, walk.as_of, page.after_key, walk.life))

    async def compare(self, backend: Backend) -> None:
        found: dict[bytes, EntryId] = {}
        after = None
        while True:
            page = await backend.perform(ReadTable(S, after_key=after, limit=100))
            found |= {row.key: row.id for row in page.rows}
            if (after := page.after_key) is None:
                break
        assert list(found.items()) == sorted(self.model.rows.items())

    async def delete(self, backend: Backend) -> None:
        if self.model.entries:
            chosen = self.random.choice([*self.model.entries])
            self.model.remove(chosen)
            await backend.perform(Delete(S, [chosen]))

    async def trim(self, backend: Backend) -> None:
        first = entry_id(self.random.randint(1, max(self.last // 2, 1)))
        for each in [each for each in self.model.entries if each < first]:
            self.model.remove(each)
        await backend.perform(Trim(S, TrimTo(min_id=first)))

    async def rebuild(self, backend: Backend) -> None:
        """Make another table of it, and the same again: entries that are left make the rows."""
        self.walks.clear()
        for key_field in (None, SKU):
            await backend.perform(UpdateStream(S, Patch.of(StreamConfig, key_field=key_field)))
        left, self.model.rows = self.model.entries, {}
        for each, (key, is_removed) in left.items():
            self.model.append(each, key, is_removed=is_removed)


async def run(seed: int, place: Path) -> None:
    """Run a history; the backend is opened anew now and then."""
    history = TableHistory(seed)
    [kind] = [each for each in KINDS if each.name == "disk"]
    for life in range(4):
        history.life = life
        async with kind.running(place) as backend:
            if not life:
                await backend.perform(CreateStream(S, StreamConfig(key_field=SKU)))
            for _ in range(STEPS // 4):
                await history.step(backend)
            await history.compare(backend)


@pytest.mark.parametrize("seed", range(20))
async def test_a_table_is_as_its_model(seed: int, tmp_path: Path) -> None:
    await run(seed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 1_100, 100))
async def test_many_tables_are_as_their_models(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 100):
        await run(seed, tmp_path / str(seed))
