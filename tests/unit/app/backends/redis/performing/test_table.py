"""The table of ways of requests is true at the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headgate.app.backends.port import Way
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.node import Words
from headgate.app.backends.redis.performing.table import PERFORMERS
from headgate.engine.entry import Draft
from headgate.engine.requests import Request, keyspace
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.groups import ListGroups
from headgate.engine.requests.streams import DescribeStream

S = b"orders"

REQUESTS: list[Request[Any]] = [
    keyspace.CountStreams(),
    keyspace.DescribeKeyspace(),
    keyspace.GetDefaults(),
    keyspace.GetExpiry(S),
    keyspace.ListNames(),
    keyspace.PickName(0),
    keyspace.ScanNames(0, 10),
    keyspace.TellTime(),
    keyspace.TimeToLive(S),
    DescribeStream(S),
    ListGroups(S),
    Range(S),
]


async def test_a_native_request_calls_no_function_and_others_do(backend: RedisBackend) -> None:
    await backend.perform(Add(S, [Draft(None, (b"n", b"1"))]))
    client, names = backend.client, list[bytes | str | int]()

    async def send(slot: int, make: Callable[[], Sequence[Words]], changes: bool) -> list[Any]:
        commands = make()
        names.extend(words[0] for words in commands)
        return await client.send(slot, lambda: commands, changes)

    for request in REQUESTS:
        names.clear()
        way, perform = PERFORMERS[type(request)]
        await perform(client.sending(send), request)
        assert (request, b"FCALL" in names) == (request, way is Way.BY_FUNCTION)
