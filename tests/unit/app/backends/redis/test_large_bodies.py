"""Large requests that meet are sent one after the other, and all are carried out."""

from __future__ import annotations

import asyncio

from headgate.app.backends.redis.backend import RedisBackend
from headgate.engine.entry import Draft
from headgate.engine.requests.entries import Add
from headgate.engine.requests.streams import DescribeStream

TOGETHER = 30
VALUE = b"v" * 300_000


async def test_large_requests_that_meet_are_all_carried_out_in_order(
    backend: RedisBackend,
) -> None:
    added = await asyncio.gather(
        *(
            backend.perform(Add(b"orders", [Draft(None, (b"n", b"%d" % number, b"v", VALUE))]))
            for number in range(TOGETHER)
        )
    )
    ids = [entry_id for each in added for entry_id in each.ids]
    assert ids == sorted(ids)
    assert (await backend.perform(DescribeStream(b"orders"))).length == TOGETHER
