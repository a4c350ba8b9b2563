"""Streams may have any name, and lists show them as they are."""

from __future__ import annotations

import pytest

from headgate.app.backends.redis.backend import RedisBackend
from headgate.engine.requests.keyspace import CountStreams, ListNames, ScanNames
from headgate.engine.requests.names import NameFilter
from headgate.engine.requests.streams import CreateStream, DeleteStream, ListStreams
from tests.unit.app.backends.redis.conftest import Keys

ODD = [b"", b"*", b"?[a-z]\\", b"{}", b"{tag}x", b"}{", b"a%7Bb", b"hg:meta", b"\0\xff", b" \r\n"]


async def test_a_stream_may_have_any_name(backend: RedisBackend) -> None:
    for name in ODD:
        await backend.perform(CreateStream(name))
    infos = await backend.perform(ListStreams())
    assert [info.name for info in infos] == sorted(ODD)
    for name in ODD:
        expected = sorted(each for each in ODD if each.startswith(name))
        shown = NameFilter(frozenset(), (name,))
        assert await backend.perform(ListNames(shown)) == expected
        assert [info.name for info in await backend.perform(ListStreams(name))] == expected
        assert await backend.perform(ListNames(NameFilter(frozenset({name})))) == [name]
    for name in ODD:
        assert await backend.perform(DeleteStream(name))
    assert await backend.perform(ListNames()) == []


async def test_what_is_no_stream_is_not_listed(backend: RedisBackend, keys: Keys) -> None:
    await backend.perform(CreateStream(b"orders"))
    keys.run("SET", b"$text", 1)
    assert await backend.perform(ListNames()) == [b"orders"]
    assert await backend.perform(CountStreams()) == 1
    assert await backend.perform(CountStreams([b"text", b"orders"])) == 1
    assert await backend.perform(ListNames(NameFilter(frozenset({b"text", b"orders"})))) == [
        b"orders"
    ]


@pytest.mark.parametrize("limit", [1, 7, 100])
async def test_lists_of_a_cluster_are_in_order(over_cluster: RedisBackend, limit: int) -> None:
    names = [b"%03d" % number for number in range(40)]
    for name in names:
        await over_cluster.perform(CreateStream(name))
    listed: list[bytes] = []
    while page := await over_cluster.perform(
        ListStreams(after=listed[-1] if listed else None, limit=limit)
    ):
        listed += [info.name for info in page]
    assert listed == names
    scanned, cursor = await over_cluster.perform(ScanNames(0, limit))
    while cursor:
        page_names, cursor = await over_cluster.perform(ScanNames(cursor, limit))
        scanned += page_names
    assert sorted(scanned) == names
