"""While a slot moves key by key, a stream and its side keys may be at different servers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headgate.app.backends.redis.address import read_url
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.client import ClientOptions
from headgate.engine.config import StreamConfig
from headgate.engine.entry import Draft
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.streams import CreateStream, DescribeStream
from tests.conditions import until
from tests.running import running
from tests.servers.failures import FailingCluster, SlotMove

S = b"orders"
ENTRY = [Draft(None, (b"n", b"1"))]
KEY = Idempotent(b"shop", b"1")
CONFIG = StreamConfig(max_length=3)


async def test_what_is_asked_while_a_slot_moves_is_done_once_it_has_moved(
    valkey_cluster: FailingCluster, prefix: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ClientOptions(read_url(valkey_cluster.url), prefix=prefix, patience_ms=60_000)
    async with running(RedisBackend(options)) as backend:
        await backend.perform(CreateStream(S, CONFIG))
        await backend.perform(Add(S, ENTRY, KEY))
        await backend.perform(CommitBatch(b"loader", 1, {S: ENTRY}))
        before = await backend.perform(DescribeStream(S))
        outcomes, tries = backend.client._outcomes, 0

        async def counted(*args: Any, **options: Any) -> list[Any]:
            nonlocal tries
            tries += 1
            return await outcomes(*args, **options)

        monkeypatch.setattr(backend.client, "_outcomes", counted)
        slot = backend.client.names.of(S).slot
        source = valkey_cluster.owner_of(slot)
        move = SlotMove(valkey_cluster, slot, valkey_cluster.other_primary(source))
        await asyncio.to_thread(move.begin)
        for count in (1, 2, None):
            await asyncio.to_thread(move.move_keys, count)
            repeat = asyncio.create_task(backend.perform(Add(S, ENTRY, KEY)))
            append = asyncio.create_task(backend.perform(Add(S, ENTRY)))
            tries_before = tries
            await until(lambda: tries >= tries_before + 6)  # noqa: B023
            assert not repeat.done()
            assert not append.done()
            if count is None:
                await asyncio.to_thread(move.end)
                assert (await repeat).is_repeat
                assert not (await append).is_repeat
            repeat.cancel()
            append.cancel()
            await asyncio.wait({repeat, append})
        after = await backend.perform(DescribeStream(S))
        assert after == before._replace(length=3, last_id=after.last_id, entries_added=3)
        assert len(await backend.perform(Range(S))) == 3
        assert (await backend.perform(CommitBatch(b"loader", 1, {S: ENTRY}))).is_repeat
