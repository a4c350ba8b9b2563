"""Two gateways on one bucket: none acknowledges beside the other, and nothing is lost."""

import os

import pytest

from headgate.engine.entry import Draft
from headgate.engine.errors import NotLeader
from headgate.engine.requests.entries import Add
from tests.buckets.rounds import LEASE_MS, STREAM, Round

ROUNDS = int(os.environ.get("HEADGATE_TEST_ROUNDS", "40"))


@pytest.mark.parametrize("is_durable", [True, False], ids=["bucket", "disk"])
def test_whatever_happens_to_two_gateways_one_leads_and_nothing_is_lost(is_durable: bool) -> None:
    answered_count = 0
    for seed in range(ROUNDS):
        played = Round(seed, is_durable=is_durable)
        played.run()
        try:
            played.check()
            assert any(member.leads for member in played.members)
        except Exception as error:
            error.add_note("\n".join([f"seed {seed}", *played.world.trace[-200:]]))
            raise
        finally:
            played.close()
        answered_count += len(played.answered)
    assert answered_count > 100 * ROUNDS


def test_a_leader_that_is_cut_off_says_that_it_does_not_lead_any_more() -> None:
    played = Round(1, is_durable=False, error_chance=0.0)
    world, members = played.world, played.members
    for member in members:
        member.start()
    world.run(world.now_s + 60, lambda: any(member.leads for member in members))
    [leader] = [member for member in members if member.leads]
    [other] = [member for member in members if member is not leader]

    played.store.away.add(leader.name)
    world.run(world.now_s + 2 * LEASE_MS / 1000, lambda: other.leads)
    assert leader.host is not None
    assert leader.engine is not None
    draft = Draft(None, (b"v", b"1"))
    asked = leader.host.loop.create_task(leader.engine.perform(Add(STREAM, [draft])))
    world.run(world.now_s + 1, asked.done)

    assert isinstance(asked.exception(), NotLeader)  # so a client asks the other one
    assert other.leads
    played.close()
