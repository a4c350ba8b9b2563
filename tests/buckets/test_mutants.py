"""The rounds notice what is wrong: each of these changes of the program breaks a promise."""

from collections.abc import Callable

import pytest

from headgate.engine.bucket import parts
from headgate.engine.bucket.bucket import Bucket
from headgate.engine.bucket.lease import LeaseKeeper, SeenLease
from headgate.engine.bucket.parts import Part
from headgate.engine.bucket.replication import Replication
from headgate.engine.bucket.shipper import Shipper
from headgate.engine.journal.records import Records
from headgate.engine.journal.storage import Holder
from tests.buckets.rounds import Round, killed_tasks_collected
from tests.buckets.world import WorldBucket

__all__ = ["killed_tasks_collected"]

ROUNDS_MAX = 400

Patch = pytest.MonkeyPatch


def parts_replace_others(patch: Patch) -> None:
    """Put a part whether there is one of its number or not."""

    def put(bucket: Bucket, part: Part) -> bool:
        assert isinstance(bucket, WorldBucket)
        name = parts.part_name(part.number)
        bucket._asked(lambda: bucket._store.objects.update({name: parts.packed(part)}), "put")
        return True

    patch.setattr(parts, "put", put)


def leases_go_by_the_wall_clock(patch: Patch) -> None:
    """Compare a lease with a clock that somebody may set."""

    def is_valid(keeper: LeaseKeeper) -> bool:
        return keeper._clock.wall_ms() - 1_700_000_000_000 < keeper._valid_until_ms

    patch.setattr(LeaseKeeper, "is_valid", property(is_valid))


def leases_count_from_the_answer(patch: Patch) -> None:
    """Let a lease hold from the moment at which the store has answered."""

    def note(keeper: LeaseKeeper, seen: SeenLease, sent_ms: int) -> None:
        del sent_ms
        keeper.seen = seen
        keeper._valid_until_ms = keeper._clock.monotonic_ms() + 2 * keeper._lease_ms

    patch.setattr(LeaseKeeper, "_note", note)


def nobody_looks_at_the_lease(patch: Patch) -> None:
    """Answer without a valid lease."""
    patch.setattr(LeaseKeeper, "is_valid", property(lambda keeper: not keeper.is_lost))


def leaders_put_no_fence(patch: Patch) -> None:
    """Begin to lead without a part that ends the leader before."""

    async def fence(shipper: Shipper, number: int) -> None:
        shipper.next_number = number

    patch.setattr(Shipper, "fence", fence)
    patch.setattr(LeaseKeeper, "is_valid", property(lambda keeper: not keeper.is_lost))


def answers_do_not_wait_for_the_bucket(patch: Patch) -> None:
    """Answer records that are on the disk alone."""
    patch.setattr(Records, "release", lambda records: _release(records, records.written_position))


def _release(records: Records, position: int) -> None:
    before, records.gate = records.gate, lambda _: position
    try:
        _RELEASE(records)
    finally:
        records.gate = before


_RELEASE = Records.release


def nobody_is_warned_of_losses(patch: Patch) -> None:
    """Record nothing of what a leader before may have lost."""

    def note_lost(replication: Replication, holder: Holder) -> None:
        del replication, holder

    patch.setattr(Replication, "_note_lost", note_lost)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of killed tasks
@pytest.mark.parametrize(
    ("mutate", "is_durable"),
    [
        (parts_replace_others, True),
        (leases_go_by_the_wall_clock, False),
        (leases_count_from_the_answer, False),
        (nobody_looks_at_the_lease, False),
        (leaders_put_no_fence, True),
        (answers_do_not_wait_for_the_bucket, True),
        (nobody_is_warned_of_losses, False),
    ],
)
def test_the_rounds_find_what_is_wrong(
    mutate: Callable[[Patch], None], is_durable: bool, monkeypatch: Patch
) -> None:
    mutate(monkeypatch)
    assert any(fails(Round(seed, is_durable=is_durable)) for seed in range(ROUNDS_MAX))


def fails(played: Round) -> bool:
    try:
        played.run()
        played.check()
    except Exception:  # noqa: BLE001  whatever it is
        return True
    finally:
        for member in played.members:
            member.kill()
    return False
