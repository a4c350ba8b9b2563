"""Revisions of streams: what changes them, and that none comes twice."""

from __future__ import annotations

from itertools import pairwise

import pytest

from headgate.engine.clock import SystemClock
from headgate.engine.commands import StreamCreated, StreamDeleted
from headgate.engine.config import StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests.keyspace import GetRevisions
from headgate.engine.state import revisions
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.revisions import Revisions


def of(keyspace: Keyspace, name: bytes) -> bytes:
    return keyspace.revisions.of(name, keyspace.find(name))


def come_and_go(keyspace: Keyspace, name: bytes) -> None:
    keyspace.apply(StreamCreated(name, 1, StreamConfig()))
    keyspace.apply(StreamDeleted(name))


def test_a_name_that_came_and_went_has_another_revision() -> None:
    keyspace = Keyspace()
    seen = [of(keyspace, b"s")]
    for _ in range(3):
        keyspace.apply(StreamCreated(b"s", 1, StreamConfig()))
        seen.append(of(keyspace, b"s"))
        keyspace.apply(StreamDeleted(b"s"))
        seen.append(of(keyspace, b"s"))
    assert len(set(seen)) == len(seen)


def test_names_of_many_streams_that_went_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "GONE_MAX", 2)
    keyspace = Keyspace()
    before = of(keyspace, b"a")
    seen = []
    for name in (b"a", b"b", b"c", b"d"):
        come_and_go(keyspace, name)
        seen.append(of(keyspace, b"a"))
    assert before not in seen
    assert all(earlier <= later for earlier, later in pairwise(seen))


def test_streams_that_went_all_together_are_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "GONE_MAX", 2)
    known = Revisions()
    before = known.of(b"a", None)
    known.note_all_gone([b"a", b"b", b"c"])
    assert known.of(b"a", None) != before


async def test_another_run_has_other_revisions() -> None:
    seen = set()
    for _ in range(2):
        clock = SystemClock()
        engine = Engine(MemoryStorage(0), clock=clock)
        seen.add(tuple(await engine.perform(GetRevisions([b"s"]))))
        now_ms = clock.monotonic_ms()
        while clock.monotonic_ms() == now_ms:  # a millisecond is what tells them apart
            pass
    assert len(seen) == 2
