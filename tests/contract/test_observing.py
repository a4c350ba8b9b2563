"""Streams and groups are measured, at most so many, by name."""

from __future__ import annotations

from headgate.app.backends.port import Backend
from headgate.app.backends.remote.backend import RemoteBackend
from headgate.engine.entry import MIN_ID
from headgate.engine.requests.deliveries import Ack
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.keyspace import NameFilter
from headgate.engine.requests.streams import DescribeStream, Observe
from tests.contract.backends import Kind
from tests.contract.calls import ANA, G, S, drafts, entry_id, filled, take, taken


async def test_a_stream_and_its_group_are_measured(backend: Backend) -> None:
    await filled(backend, 1, 2, 3, 4)
    await taken(backend, take(ANA, 3))
    await backend.perform(Ack(S, G, [entry_id(1)]))

    [stream], left_out = await backend.perform(Observe(10))
    [group] = stream.groups
    assert (stream.name, stream.length, stream.added_count, left_out) == (S, 4, 4, 0)
    assert (group.name, group.lag, group.pending_count) == (G, 1, 2)
    assert group.oldest_pending_ms is not None
    assert (group.delivered_count, group.acked_count) == (3, 1)


async def test_a_stream_tells_its_size_unless_servers_keep_it(kind: Kind, backend: Backend) -> None:
    await filled(backend, 1, 2, 3)
    info = await backend.perform(DescribeStream(S))
    [stream], _ = await backend.perform(Observe(10))
    assert (stream.hot_bytes, stream.cold_bytes) == (info.hot_bytes, info.cold_bytes)
    if kind.servers:
        assert (info.hot_bytes, info.cold_bytes) == (None, None)
    else:
        assert info.hot_bytes is not None
        assert (info.hot_bytes > 100, info.cold_bytes) == (True, 0)


async def test_only_so_many_are_measured_and_the_others_are_counted(backend: Backend) -> None:
    for name in (b"a", b"b", b"c"):
        await backend.perform(Add(name, drafts(1)))
        for group in (b"g1", b"g2"):
            await backend.perform(CreateGroup(name, group, GroupStart(MIN_ID)))

    streams, left_out = await backend.perform(Observe(5))
    assert [(each.name, len(each.groups)) for each in streams] == [(b"a", 2), (b"b", 1)]
    assert ([each.groups_left_out for each in streams], left_out) == ([0, 1], 1)

    only = NameFilter(frozenset({b"c"}), (b"b",))
    streams, left_out = await backend.perform(Observe(5, only=only))
    assert ([each.name for each in streams], left_out) == ([b"b", b"c"], 0)


async def test_a_backend_counts_what_was_appended_and_acknowledged(backend: Backend) -> None:
    before = backend.activity
    await filled(backend, 1, 2)
    await taken(backend, take(ANA))
    await backend.perform(Ack(S, G, [entry_id(1), entry_id(9)]))
    after = backend.activity
    counted = after.appended_count - before.appended_count, after.acked_count - before.acked_count
    # Behind a socket the engine's process counts.
    assert counted == ((0, 0) if isinstance(backend, RemoteBackend) else (2, 1))
