"""The observer measures so many streams, and goes on with those that it has measured."""

from __future__ import annotations

import asyncio

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.measuring.observer import Observer, ObserverOptions
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.streams import DeleteStream
from tests.virtual_time import VirtualClock, in_virtual_time


@in_virtual_time
async def test_streams_that_are_measured_stay_so_whatever_is_created_before_them_by_name() -> None:
    clock = VirtualClock()
    backend = EmbeddedBackend(Engine(MemoryStorage(), clock=clock))
    observer = Observer(backend, ObserverOptions(limit=4), clock)
    observer.want(is_wanted=True)
    running = asyncio.create_task(observer.run())

    async def add(*names: bytes) -> None:
        for name in names:
            await backend.perform(Add(name, [Draft(None, (b"f", b"v"))]))

    async def observed() -> tuple[list[bytes], int]:
        await asyncio.sleep(1.5)
        news = observer.take()
        assert news is not None
        return sorted(stream.name for stream in news.streams), news.streams_left_out

    await add(b"orders", b"users")
    await backend.perform(CreateGroup(b"orders", b"g", GroupStart(MIN_ID)))
    assert await observed() == ([b"orders", b"users"], 0)
    await add(b"!0", b"!1", b"!2", b"__push:0")
    assert await observed() == ([b"!0", b"orders", b"users"], 2)
    assert await observed() == ([b"!0", b"orders", b"users"], 2)
    await backend.perform(DeleteStream(b"orders"))
    assert await observed() == ([b"!0", b"!1", b"!2", b"users"], 0)
    running.cancel()
