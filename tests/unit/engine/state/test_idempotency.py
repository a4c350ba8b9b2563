"""Idempotency keys: the digests that tell requests apart, and the traces of keys."""

from __future__ import annotations

import asyncio

import pytest

from headgate.app.http.idempotency import WriterKey
from headgate.app.wire.problems import GatewayError
from headgate.engine import threads
from headgate.engine.config import StreamConfig
from headgate.engine.entry import Draft, EntryId
from headgate.engine.requests.entries import Add
from headgate.engine.requests.idempotency import Digest, Idempotent
from headgate.engine.state.memory import Pieces
from tests.changes import configured
from tests.unit.driver import Driver, S

KEY = WriterKey(b"p", b"k")
FIELDS = [(b"k", b"v"), (b"a", b"1", b"b", b"")]


def test_a_digest_is_what_it_was_in_earlier_releases() -> None:
    digest = Digest()
    for fields in FIELDS:
        digest.add(fields)
    assert digest.value().hex() == "e2f069e1d8588d19d89261f266c2927d"


@pytest.mark.parametrize(
    ("many", "turns"), [(FIELDS, 2), ([(b"k", b"v" * (5 * 2**20 + 1), b"", b"")], 6)]
)
async def test_others_come_between_while_many_entries_or_a_long_value_are_read(
    many: list[tuple[bytes, ...]], turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "TURN_MS_MAX", 0)
    digest = Digest()
    for fields in many:
        digest.add(fields)
    drafts = [Draft(None, fields) for fields in many]
    working = asyncio.ensure_future(KEY.of(drafts, is_batch=len(many) > 1))
    others = 0
    while not working.done():
        await asyncio.sleep(0)
        others += 1
    assert others >= turns
    assert working.result().digest == digest.value()


async def test_an_id_of_its_own_has_no_entry_under_a_key() -> None:
    drafts = [Draft(None, FIELDS[0]), Draft(EntryId(1, 0), FIELDS[0])]
    with pytest.raises(GatewayError) as refused:
        await KEY.of(drafts, is_batch=True)
    assert refused.value.pointer == "/body/1/id"


async def test_keys_that_a_changed_configuration_wipes_are_freed_bit_by_bit() -> None:
    engine = Driver()
    for number in range(10):
        await engine.perform(Add(S, [Draft(None, FIELDS[0])], Idempotent(b"%d" % number, b"k")))
    pieces: list[Pieces] = []
    engine.keyspace.dispose = pieces.append

    await engine.perform(configured(S, StreamConfig(idempotency_max=5)))

    assert len(engine.keyspace.stream(S).keys) == 0
    [keys] = pieces
    assert sum(1 for _ in keys) == 10
