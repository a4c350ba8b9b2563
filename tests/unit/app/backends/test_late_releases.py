"""Entries of connections that ended while changes were refused go back later."""

from __future__ import annotations

import asyncio
from typing import Any

from headgate.app.backends.port import Holding
from headgate.app.backends.releasing import LateReleases
from headgate.engine.entry import EntryId
from headgate.engine.errors import GroupNotFound, Unavailable
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import GiveBack
from headgate.engine.requests.groups import DeleteConsumer
from tests.virtual_time import in_virtual_time


@in_virtual_time
async def test_releases_are_tried_until_changes_are_accepted() -> None:
    asked: list[type[Request[Any]]] = []
    refusal: list[Exception] = [Unavailable("the lease is over")]

    async def perform(request: Request[Any]) -> None:
        if refusal:
            raise refusal[0]
        asked.append(type(request))

    late = LateReleases(perform)
    running = asyncio.create_task(late.run())
    late.release_later(Holding(b"s", b"g", b"temporary-1", is_temporary=True), {EntryId(1, 0): 1})
    late.release_later(Holding(b"s", b"g", b"ana", is_temporary=False), {EntryId(2, 0): 1})
    await asyncio.sleep(10)
    assert asked == []
    refusal.clear()
    await asyncio.sleep(2)
    assert asked == [GiveBack, DeleteConsumer, GiveBack]
    running.cancel()


@in_virtual_time
async def test_what_is_gone_holds_up_nothing() -> None:
    asked: list[bytes] = []

    async def perform(request: Request[Any]) -> None:
        assert isinstance(request, GiveBack)
        asked.append(request.consumer)
        if request.consumer == b"ana":
            raise GroupNotFound(b"s", b"g", stream_exists=True)

    late = LateReleases(perform)
    running = asyncio.create_task(late.run())
    for name in (b"ana", b"ben"):
        late.release_later(Holding(b"s", b"g", name, is_temporary=False), {EntryId(1, 0): 1})
    await asyncio.sleep(2)
    assert asked == [b"ana", b"ben"]
    running.cancel()
