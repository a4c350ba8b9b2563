"""Periodic work goes on after every failure that somebody hears of."""

import asyncio
import errno

import pytest

from headgate.engine.periodic import repeat
from tests.failures import FAILURES

EACH = [*FAILURES, ExceptionGroup("several", [OSError(errno.EMFILE, "Too many open files")])]


class Work:
    """Rounds of a second each, of which some fail."""

    def __init__(self, failures: dict[int, BaseException]) -> None:
        self.failures = failures
        self.round_count = 0
        self.outcomes: list[Exception | None] = []

    async def do_round(self) -> None:
        self.round_count += 1
        if self.round_count in self.failures:
            raise self.failures[self.round_count]
        await asyncio.sleep(1)


async def done(work: Work, seconds: float) -> None:
    """Let some work be done for a while."""
    running = asyncio.create_task(repeat(work.do_round, work.outcomes.append))
    await asyncio.sleep(seconds)
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("failure", EACH, ids=lambda failure: type(failure).__name__)
async def test_a_round_that_fails_is_told_and_tried_again(failure: Exception) -> None:
    work = Work({2: failure, 3: failure})

    await done(work, 5)

    assert work.outcomes == [failure, failure, None]
    assert work.round_count > 4


async def test_work_that_fails_for_ever_is_tried_once_a_second() -> None:
    work = Work(dict.fromkeys(range(1, 1000), MemoryError()))

    await done(work, 60)

    assert 60 < work.round_count < 70
    assert None not in work.outcomes


async def test_what_a_round_waits_for_may_be_cancelled() -> None:
    work = Work({2: asyncio.CancelledError()})

    await done(work, 5)

    assert [type(each) for each in work.outcomes] == [RuntimeError, type(None)]


async def test_a_cancelled_work_ends_while_it_waits_to_try_again() -> None:
    work = Work(dict.fromkeys(range(1, 1000), ValueError()))

    await done(work, 30.5)


async def test_without_anybody_who_is_told_the_first_failure_is_raised() -> None:
    work = Work({2: ValueError("a fault")})

    with pytest.raises(ValueError, match="a fault"):
        await repeat(work.do_round, None)


async def test_an_end_of_the_program_is_no_failure() -> None:
    work = Work({2: SystemExit(3)})

    with pytest.raises(SystemExit):
        await repeat(work.do_round, work.outcomes.append)
    assert not work.outcomes
