"""Foreign values under keys of the gateway: a request that meets one fails and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import redis

from deploy.local_cluster.server import HOST, Server
from headgate.app.backends.redis.backend import RedisBackend
from headgate.engine.config import GroupPolicy, Patch, StreamConfig
from headgate.engine.entry import MAX_ID, MIN_ID, Draft
from headgate.engine.errors import WrongSideKey
from headgate.engine.requests import Request, bulk, deliveries, entries, groups, keyspace, streams
from headgate.engine.requests.entries import CountByTime
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import CopyStream, DumpStream, MeasureStream
from tests.contract.calls import ANA, BEN, G, S, entry_id, filled, ids, take

DEAD = b"dead"
CONFIG = StreamConfig(max_length=50, max_age_ms=10**15, idempotency_max=3)
POLICY = GroupPolicy(max_deliveries=3, dead_letter_stream=DEAD, consumer_ttl_ms=10**9)
KEY = Idempotent(b"shop", b"1")
OTHER_KEY = Idempotent(b"shop", b"2")
ENTRY = [Draft(None, (b"n", b"1"))]
HOUR_MS = 3_600_000

TYPES = {
    "string": ("SET", "garbage"),
    "list": ("RPUSH", "garbage"),
    "set": ("SADD", "garbage"),
    "hash": ("HSET", "garbage", "garbage"),
    "zset": ("ZADD", "7", "garbage"),
    "stream": ("XADD", "*", "garbage", "garbage"),
}

SIDE_KEYS = {
    "meta": "hash",
    "writers": "hash",
    "writer_times": "zset",
    "producers": "zset",
    "keys:shop": "hash",
    "key_times:shop": "zset",
    "claims": "stream",
    "outbox": "stream",
    "relayed": "hash",
    "renamed": "string",
    "group:billing": "hash",
    "released:billing": "zset",
    "errors:billing": "hash",
    "oldest:billing": "string",
    "walk:billing": "hash",
}
"""The kinds of side keys, and what they should be."""

REQUESTS: list[Request[Any]] = [
    *(entries.Add(S, ENTRY), entries.Add(S, ENTRY * 3), entries.Add(S, ENTRY, KEY)),
    entries.Add(S, ENTRY, OTHER_KEY),
    entries.Add(S, ENTRY * 2, OTHER_KEY, trim=entries.TrimTo(max_length=2)),
    *(bulk.CommitBatch(b"loader", 9, {S: ENTRY}), bulk.CommitBatch(b"loader", 3, {S: ENTRY})),
    *(bulk.LastCommit(b"loader"), bulk.PlanRead([bulk.BulkCursor(S, MIN_ID)])),
    *(bulk.SplitRange(S, MIN_ID, MAX_ID, 2), CountByTime(S), entries.Range(S)),
    *(entries.Read([entries.StreamCursor(S, MIN_ID)]), entries.Delete(S, ids(6))),
    entries.Delete(S, ids(1), entries.References.DELETE),
    entries.Delete(S, ids(1), entries.References.ACKED),
    entries.Trim(S, entries.TrimTo(max_length=3)),
    entries.Trim(S, entries.TrimTo(max_length=2, references=entries.References.DELETE)),
    entries.Trim(S, entries.TrimTo(max_length=2, references=entries.References.ACKED)),
    deliveries.ReadGroup(G, BEN, [deliveries.GroupCursor(S)], 1),
    deliveries.ReadGroup(G, BEN, [deliveries.GroupCursor(S)], 1, claim_idle_ms=0),
    deliveries.ReadGroup(
        G, BEN, [deliveries.GroupCursor(S)], 1, claim_idle_ms=HOUR_MS, acked=ids(4)
    ),
    deliveries.ReadGroup(G, ANA, [deliveries.GroupCursor(S, MIN_ID)]),
    *(deliveries.Ack(S, G, ids(1)), deliveries.AckThrough(S, G, ANA, entry_id(2))),
    deliveries.AckAndDelete(S, G, ids(1), entries.References.DELETE),
    deliveries.Nack(S, G, ids(1), deliveries.NackMode.FAIL, error=b"no"),
    deliveries.Nack(S, G, ids(1), deliveries.NackMode.FATAL),
    deliveries.Nack(S, G, ids(3), deliveries.NackMode.SILENT, force=True),
    *(deliveries.GiveBack(S, G, ANA, {entry_id(1): 1}), deliveries.Extend(S, G, ids(1), ANA)),
    deliveries.Claim(S, G, BEN, ids(1), 0),
    deliveries.Claim(S, G, BEN, ids(1, 3), 0, idle_ms=5, force=True),
    *(deliveries.Autoclaim(S, G, BEN, 0), deliveries.ListPending(S, G)),
    *(deliveries.SumPending(S, G), deliveries.Redrive(S, G)),
    groups.CreateGroup(S, G, groups.GroupStart(MIN_ID)),
    groups.CreateGroup(S, b"new", groups.GroupStart(MIN_ID), policy=POLICY),
    groups.UpdateGroup(S, G, MIN_ID, policy=Patch.of(GroupPolicy, max_pending=5)),
    *(groups.DescribeGroup(S, G), groups.ListGroups(S), groups.CreateConsumer(S, G, b"new")),
    *(groups.DescribeConsumer(S, G, ANA), groups.ListConsumers(S, G)),
    groups.DeleteConsumer(S, G, ANA, release=True),
    *(groups.DeleteConsumer(S, G, ANA, release=False), groups.DestroyGroup(S, G)),
    streams.CreateStream(S, CONFIG),
    streams.UpdateStream(S, Patch.of(StreamConfig, max_length=9, idempotency_max=2)),
    *(streams.DescribeStream(S), streams.DetailStream(S), keyspace.InspectStream(S)),
    *(keyspace.ExpireStream(S, HOUR_MS), keyspace.PersistStream(S), keyspace.TimeToLive(S)),
    *(keyspace.GetExpiry(S), keyspace.SetCounters(S, entry_id(9_000_000_000_000))),
    *(DumpStream(S, 10**9), MeasureStream(S), CopyStream(S, b"{orders}2")),
    *(keyspace.RenameStream(S, b"{orders}2"), streams.CloseStream(S)),
    *(streams.CloseStream(S, ENTRY, KEY), streams.DeleteStream(S)),
]


CONTENTS: dict[str, list[tuple[object, ...]]] = {
    "meta": [
        *(("HSET", "epoch", "garbage"), ("HSET", "max_length", "-1")),
        *(("HSET", "max_length", "9" * 40), ("HSET", "max_age_ms", b"\xff")),
        *(("HSET", "closed_at_ms", "garbage"), ("HSET", "trimmed", "garbage")),
        *(("HSET", "trimmed", "9" * 40 + "-1"), ("HSET", "keys_added", "garbage")),
        *(("HSET", "idempotency_max", "1e3"), ("HSET", b"group:\xff", "garbage")),
    ],
    "writers": [("HSET", "loader", "garbage"), ("HSET", "loader", "9" * 40)],
    "writer_times": [("ZADD", "-inf", b"\xff")],
    "producers": [("ZADD", "inf", b"\xff")],
    "keys:shop": [
        *(("HSET", "1", "garbage"), ("HSET", "1", "9999999999999 garbage 1 ")),
        *(("HSET", "1", "9999999999999 1-0 99999999999 "), ("HSET", "2", b"\xff")),
    ],
    "key_times:shop": [("ZADD", "inf", b"\xff")],
    "claims": [("XADD", "*", "garbage", "garbage")],
    "outbox": [("XADD", "*", "garbage", "garbage"), ("XADD", "*", "to", DEAD, "fields", b"\xff")],
    "relayed": [("HSET", "garbage", "garbage")],
    "group:billing": [
        *(("HSET", "max_deliveries", "garbage"), ("HSET", "backoff_ms", ",,")),
        *(("HSET", "claim_idle_ms", "9" * 40), ("HSET", "consumer_ttl_ms", b"\xff")),
        *(("HSET", "max_pending", ""), ("HSET", "dead_letter_stream", "")),
    ],
    "released:billing": [("ZADD", "-inf", "garbage"), ("ZADD", "inf", "1-0"), ("ZADD", 0, b"\xff")],
    "errors:billing": [("HSET", "garbage", "garbage"), ("HSET", "1-0", b"\xff" * 100_000)],
    "oldest:billing": [("SET", "garbage"), ("SET", "9" * 19)],
    "walk:billing": [("HSET", "next", "garbage"), ("HSET", "not_before_ms", "9" * 19)],
}
"""Foreign values for a side key of the right type."""


async def furnished(backend: RedisBackend) -> None:
    """Make a stream that has something in most of its side keys."""
    policy = Patch.of(GroupPolicy, max_deliveries=3, dead_letter_stream=DEAD)
    await backend.perform(streams.CreateStream(S, CONFIG))
    await filled(backend, 1, 2, 3, 4, 5, 6)
    await backend.perform(groups.UpdateGroup(S, G, policy=policy))
    await backend.perform(entries.Add(S, ENTRY, KEY))
    await backend.perform(bulk.CommitBatch(b"loader", 3, {S: ENTRY}))
    await backend.perform(take(ANA, 4))
    await backend.perform(deliveries.Nack(S, G, ids(3), deliveries.NackMode.FAIL, error=b"no"))


class Keys:
    """The keys of a test, as another client has them."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client: Any = client  # it has no types
        self._prefix = prefix

    def side(self, kind: str) -> bytes:
        """Return a side key of the stream: its kind, and the name of a group or a producer."""
        kind, _, name = kind.partition(":")
        tail = f":{{{self._prefix}orders}}"
        return f"hg:{self._prefix}{kind}{tail}{':' + name if name else ''}".encode()

    def run(self, key: bytes, command: str, *args: object) -> None:
        """Run a command on a key."""
        self._client.execute_command(command, key, *args)

    def all(self) -> dict[bytes, bytes]:
        """Return all keys that a request may change that is refused, as one value each."""
        pattern = self._prefix.replace("[", "?").replace("]", "?")
        own = (b":writer:", b":governed", b":lease:", b":housekeeping", b":gateways")
        names = [
            key for key in self._client.keys(f"*{pattern}*") if not any(kind in key for kind in own)
        ]
        with self._client.pipeline(transaction=False) as pipeline:
            for name in names:
                pipeline.dump(name)
            return dict(zip(names, pipeline.execute(), strict=True))

    def restore(self, state: dict[bytes, bytes]) -> None:
        """Put all keys back."""
        with self._client.pipeline(transaction=False) as pipeline:
            for key in self.all().keys() - state.keys():
                pipeline.delete(key)
            for key, dump in state.items():
                pipeline.restore(key, 0, dump, replace=True)
            pipeline.execute()


@pytest.fixture
def keys(server: Server, tmp_path: Path) -> Iterator[Keys]:
    """Look at the server past the backend."""
    with redis.Redis(HOST, server.port) as client:
        yield Keys(client, f"{tmp_path}:")


async def assert_refused_or_done(
    backend: RedisBackend, keys: Keys, key: bytes, request: Request[Any]
) -> None:
    """A request is carried out; or it names the key, and has changed nothing."""
    before, refusals = keys.all(), list[WrongSideKey]()
    try:
        await backend.perform(request)
    except WrongSideKey as error:
        refusals.append(error)
    if refusals:
        assert keys.all() == before
    keys.restore(before)
    assert all(key.decode() in str(refusal) for refusal in refusals)


@pytest.mark.parametrize("kind", SIDE_KEYS)
async def test_a_key_of_another_type_is_named(quiet: RedisBackend, keys: Keys, kind: str) -> None:
    """Every request meets every key, and every type each key."""
    await furnished(quiet)
    key, types = keys.side(kind), cycle(type_ for type_ in TYPES if type_ != SIDE_KEYS[kind])
    for request, type_ in zip(REQUESTS, types, strict=False):
        keys.run(key, "DEL")
        keys.run(key, *TYPES[type_])
        await assert_refused_or_done(quiet, keys, key, request)


@pytest.mark.parametrize("kind", CONTENTS)
async def test_a_key_of_other_contents_is_named(quiet: RedisBackend, keys: Keys, kind: str) -> None:
    await furnished(quiet)
    key, good = keys.side(kind), keys.all()
    for request, garbage in zip(REQUESTS * 2, cycle(CONTENTS[kind]), strict=False):
        keys.restore(good)
        keys.run(key, str(garbage[0]), *garbage[1:])
        await assert_refused_or_done(quiet, keys, key, request)


async def test_other_streams_are_listed_and_observed(quiet: RedisBackend, keys: Keys) -> None:
    await furnished(quiet)
    await quiet.perform(entries.Add(b"others", ENTRY))
    keys.run(keys.side("meta"), "HSET", "epoch", "garbage")
    assert [info.name for info in await quiet.perform(streams.ListStreams())] == [b"others"]
    observed = (await quiet.perform(streams.Observe(10))).streams
    assert [stream.name for stream in observed] == [b"others"]
