"""Two gateways on one bucket: none acknowledges beside the other, and nothing is lost."""

import os

import pytest

from tests.buckets.rounds import Round

SEEDS = int(os.environ.get("HEADGATE_TEST_ROUNDS", "40"))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of killed tasks
@pytest.mark.parametrize("is_durable", [True, False], ids=["bucket", "disk"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_to_two_gateways_one_leads(seed: int, is_durable: bool) -> None:  # noqa: FBT001
    played = Round(seed, is_durable=is_durable)
    played.run()
    try:
        played.check()
        assert any(member.leads for member in played.members)
        assert played.answered
    except AssertionError:
        print("\n".join(played.world.trace))
        raise
