"""Decisions about idempotency keys."""

from headgate.engine.commands import KeysForgotten
from headgate.engine.decisions import keys
from headgate.engine.entry import Draft
from headgate.engine.limits import FORGOTTEN_KEYS_MS
from headgate.engine.requests.entries import Add
from headgate.engine.requests.idempotency import Idempotent
from tests.unit.driver import Driver, S

DRAFT = Draft(None, (b"k", b"v"))


async def test_keys_of_some_moments_are_forgotten_at_once() -> None:
    engine = Driver()
    for number in range(10):
        await engine.perform(Add(S, [DRAFT], Idempotent(b"p", b"%d" % number)))
        engine.clock.now_ms += FORGOTTEN_KEYS_MS
    engine.clock.now_ms += 1_000_000

    left = []
    while (decision := keys.forget_keys(engine.keyspace, S, engine.clock.wall_ms())).commands:
        [command] = decision.commands
        assert isinstance(command, KeysForgotten)
        engine.keyspace.apply(command)
        left.append(len(engine.keyspace.stream(S).keys))

    assert left == list(range(9, -1, -1))
