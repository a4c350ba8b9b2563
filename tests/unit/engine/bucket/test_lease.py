"""Leases: one holder, whatever the clocks show and whichever answers get lost."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.engine.bucket.bucket import BucketError
from headgate.engine.bucket.lease import LeaseKeeper, newest_lease
from headgate.engine.bucket.manifest import LEASES
from headgate.engine.errors import Unavailable
from tests.buckets.directory import LocalBucket
from tests.virtual_time import VirtualClock, now_ms

LEASE_MS = 9_000


def keeper(bucket: LocalBucket, holder: str, events: list[str] | None = None) -> LeaseKeeper:
    noted = [] if events is None else events
    return LeaseKeeper(
        bucket,
        VirtualClock(),
        holder=holder,
        address=f"http://{holder}",
        lease_ms=LEASE_MS,
        is_durable=False,
        on_event=lambda event, facts: noted.append(event),
    )


@pytest.fixture
def bucket(tmp_path: Path) -> LocalBucket:
    return LocalBucket(tmp_path)


async def test_a_lease_is_taken_over_once_it_has_stood_for_its_time(bucket: LocalBucket) -> None:
    first, second = keeper(bucket, "a"), keeper(bucket, "b")
    await first.take()
    began_ms = now_ms()
    term = await second.take()
    assert LEASE_MS <= now_ms() - began_ms <= LEASE_MS + 2_000
    assert (term, first.is_valid, second.is_valid) == (2, False, True)
    assert second.replaced is not None
    assert second.replaced.address == "http://a"


async def test_a_lease_that_is_renewed_is_not_taken(bucket: LocalBucket) -> None:
    first, second = keeper(bucket, "a"), keeper(bucket, "b")
    await first.take()
    keeping = asyncio.create_task(first.keep())
    with pytest.raises(Unavailable, match=r"another gateway at http://a writes .* \(term 1\)"):
        await second.take(patience_ms=10 * LEASE_MS)
    assert first.is_valid
    keeping.cancel()


async def test_a_lease_that_is_released_is_free(bucket: LocalBucket) -> None:
    first, second = keeper(bucket, "a"), keeper(bucket, "b")
    await first.take()
    await first.release()
    began_ms = now_ms()
    await second.take()
    assert now_ms() == began_ms
    assert not first.is_valid


async def test_the_same_holder_takes_its_lease_again_at_once(bucket: LocalBucket) -> None:
    await keeper(bucket, "a").take()
    again = keeper(bucket, "a")
    assert await again.take() == 2
    assert now_ms() == 0


@pytest.mark.parametrize(("away_s", "is_taken"), [(20, True), (60, False)])
async def test_a_start_waits_for_a_store_that_does_not_answer(
    bucket: LocalBucket, away_s: float, is_taken: bool
) -> None:
    bucket.fault = refused
    taking = asyncio.create_task(keeper(bucket, "a").take(patience_ms=2000))
    await asyncio.sleep(away_s)
    bucket.fault = None
    await asyncio.wait([taking], timeout=LEASE_MS / 1000)
    if is_taken:
        assert taking.result() == 1
    else:
        assert isinstance(taking.exception(), Unavailable)
        assert "does not answer" in str(taking.exception())


def refused(act: Callable[[], Any]) -> Any:
    raise BucketError("no connection")


async def test_a_renewal_without_an_answer_counts_from_its_first_try(bucket: LocalBucket) -> None:
    """Others have seen it when it was put, and count from then on."""

    first = keeper(bucket, "a")
    await first.take()

    def lose_answer(act: Callable[[], Any]) -> Any:
        act()
        raise BucketError("the answer got lost")

    bucket.fault = lose_answer
    keeping = asyncio.create_task(first.keep())
    await asyncio.sleep(LEASE_MS / 3000 + 0.1)  # the first renewal was carried out
    put = newest_lease(bucket)
    bucket.fault = None
    await asyncio.sleep(LEASE_MS / 3000)
    assert put is not None
    assert first.seen is not None
    assert first.seen.number > put.number  # it was not taken for a renewal of that moment
    assert first.is_valid
    keeping.cancel()


async def test_old_leases_go(bucket: LocalBucket) -> None:
    first = keeper(bucket, "a")
    await first.take()
    keeping = asyncio.create_task(first.keep())
    await asyncio.sleep(100 * LEASE_MS / 3000)
    assert 20 <= len(bucket.objects(LEASES)) <= 40
    keeping.cancel()
