"""Two gateways on one bucket: none acknowledges beside the other, and nothing is lost."""

import os

import pytest

from tests.buckets.rounds import Round

ROUNDS = int(os.environ.get("HEADGATE_TEST_ROUNDS", "40"))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of killed tasks
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
            for member in played.members:
                member.kill()
        answered_count += len(played.answered)
    assert answered_count > 100 * ROUNDS
