"""Following a table whose changes are conflated: what comes, when, and in how large batches."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from headgate.app.auth.access import Access
from headgate.app.auth.audit import Audit
from headgate.app.auth.principal import home
from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.live import followed
from headgate.app.live.table_subscription import TableSubscription
from headgate.engine.config import FieldName, StreamConfig
from headgate.engine.entry import Draft
from headgate.engine.requests.entries import Add, Trim, TrimTo
from headgate.engine.requests.streams import CreateStream
from tests.unit.driver import Driver, S, entry_id
from tests.virtual_time import in_virtual_time

CONFLATE_MS = 10_000


@asynccontextmanager
async def changes_after(
    engine: Driver, at_ms: int, *, conflate_ms: int | None = CONFLATE_MS
) -> AsyncIterator[AsyncGenerator[followed.Followed, None]]:
    access = Access(EmbeddedBackend(engine), home(), Audit(lambda: 0.0))
    subscription = TableSubscription(access, S, entry_id(at_ms), conflate_ms=conflate_ms)
    await subscription.open()
    async with aclosing(subscription.follow()) as coming:
        yield coming


async def put(engine: Driver, *keys: bytes, first_ms: int = 1, value: bytes = b"") -> None:
    drafts = [
        Draft(entry_id(first_ms + at), (b"k", key, b"v", value)) for at, key in enumerate(keys)
    ]
    await engine.perform(Add(S, drafts))


async def table() -> Driver:
    engine = Driver()
    await engine.perform(CreateStream(S, StreamConfig(key_field=FieldName(b"k"))))
    return engine


async def rows(coming: AsyncGenerator[followed.Followed, None]) -> list[Any]:
    """Return the rows of the next batch that has any."""
    async for item in coming:
        if isinstance(item, followed.StreamBatch) and item.read.entries:
            return [(entry.id.ms, entry.fields[1]) for entry in item.read.entries]
    raise AssertionError("it has ended")


@in_virtual_time
async def test_more_rows_than_a_batch_takes_are_not_held_back_again_and_again() -> None:
    engine = await table()
    await put(engine, b"0", *[b"%d" % at for at in range(600)])
    async with changes_after(engine, 1) as coming:
        keys = [key for _ in range(3) for _, key in await rows(coming)]
        assert keys == [b"%d" % at for at in range(600)]
        assert asyncio.get_running_loop().time() == 0


@in_virtual_time
async def test_what_comes_later_is_held_back_and_only_the_newest_change_of_a_row_comes() -> None:
    engine = await table()
    await put(engine, b"a")
    async with changes_after(engine, 1) as coming:
        assert await anext(coming) == followed.State("caught_up")
        next_rows = asyncio.create_task(rows(coming))
        await asyncio.sleep(1)
        await put(engine, *[b"a", b"b"] * 1_000, b"a", first_ms=2)
        assert await next_rows == [(2_001, b"b"), (2_002, b"a")]
        assert asyncio.get_running_loop().time() == 1 + CONFLATE_MS / 1_000


@in_virtual_time
async def test_a_batch_of_large_rows_ends_at_its_size() -> None:
    engine = await table()
    for at in range(6):
        await put(engine, b"%d" % (at % 3), first_ms=at + 2, value=b"x" * 600_000)
    async with changes_after(engine, 1) as coming:
        batches = [await rows(coming) for _ in range(2)]
    assert max(map(len, batches)) == 1


async def test_it_has_caught_up_again_once_all_rows_have_come_again() -> None:
    engine = await table()
    await put(engine, b"a")
    async with changes_after(engine, 1, conflate_ms=None) as coming:
        assert await anext(coming) == followed.State("caught_up")
        await put(engine, b"a", b"b", b"b", first_ms=2)
        assert await rows(coming) == [(2, b"a"), (3, b"b"), (4, b"b")]
        await put(engine, b"c", b"d", first_ms=5)
        await engine.perform(Trim(S, TrimTo(max_length=1)))
        again = await anext(coming)
        assert isinstance(again, followed.RowsBatch)
        assert again.is_again
        assert await anext(coming) == followed.State("caught_up")
