"""Subscribers that follow side by side cost the servers hardly more than one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from deploy.local_cluster.server import Server
from headgate.app.auth.access import Access
from headgate.app.auth.audit import Audit
from headgate.app.auth.principal import home
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.live.followed import StreamBatch
from headgate.app.live.subscription import BATCH_ENTRIES_MAX, StreamSubscription
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.requests.entries import Add, StreamCursor

S = b"orders"
SUBSCRIBERS = 20
BATCHES = 10


async def test_subscribers_that_are_behind_read_each_batch_together(
    backend: RedisBackend, server: Server
) -> None:
    count = BATCHES * BATCH_ENTRIES_MAX
    await backend.perform(Add(S, [Draft(None, (b"n", b"1"))] * count))

    async def follow() -> None:
        access = Access(backend, home(), Audit(lambda: 0.0))
        subscription = StreamSubscription(access, StreamCursor(S, MIN_ID), beat_ms=10_000)
        await subscription.open()
        left = count
        async with aclosing(subscription.follow()) as coming:
            async for what in coming:
                left -= len(what.read.entries) if isinstance(what, StreamBatch) else 0
                if not left:
                    return

    before = calls(server)
    await asyncio.gather(*(follow() for _ in range(SUBSCRIBERS)))
    # Each subscriber reads the first batch by itself: what is there is to be known for sure.
    assert calls(server) - before < SUBSCRIBERS + 2 * BATCHES


def calls(server: Server) -> int:
    """Return how many of our operations a server has run."""
    about = server.info("commandstats")["cmdstat_fcall"]
    assert isinstance(about, dict)
    return int(about["calls"])
