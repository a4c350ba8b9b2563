"""Steps with the Python client: what a handler has done is not done again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

import headgate
from headgate.client import problems
from headgate.client.commits import append
from headgate.client.steps import STEPS_MAX, milliseconds
from tests.api.conftest import Live
from tests.conditions import until

TABLE = "orders.billing.steps"


@pytest.fixture
def done() -> list[str]:
    """What the outside world has seen."""
    return []


async def ordered(hg: headgate.AsyncClient, count: int = 1) -> list[str]:
    await hg.group("orders", "billing").create(start="0")
    return await hg.stream("orders").append_many([{"n": str(number)} for number in range(count)])


@asynccontextmanager
async def next_job(hg: headgate.AsyncClient) -> AsyncIterator[headgate.Job]:
    async with hg.group("orders", "billing").consume() as jobs, await anext(jobs) as job:
        yield job


async def run(hg: headgate.AsyncClient, handle: Callable[[headgate.Job], Awaitable[None]]) -> None:
    async with next_job(hg) as job:
        await handle(job)


async def rows(hg: headgate.AsyncClient) -> list[str]:
    return [row.key async for row in hg.stream(TABLE).table().rows()]


async def test_a_step_is_not_done_again_by_the_next_worker(
    hg: headgate.AsyncClient, done: list[str]
) -> None:
    [entry_id] = await ordered(hg)

    async def charge() -> dict[str, str]:
        done.append("charge")
        return {"receipt": str(len(done))}

    async def die(job: headgate.Job) -> None:
        assert await job.step("charge", charge) == {"receipt": "1"}
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run(hg, die)
    assert await rows(hg) == [f"{entry_id}/step/charge"]
    async with next_job(hg) as job:
        assert await job.step("charge", charge) == {"receipt": "1"}
        assert await job.step("mail", lambda: done.append("mail")) is None
        await job.commit(append("bills", {"n": "1"}))
    assert (done, await rows(hg)) == (["charge", "mail"], [])
    assert (await hg.group("orders", "billing").info())["pending"] == 0


async def test_the_end_of_a_block_forgets_the_steps_with_the_acknowledgement(
    hg: headgate.AsyncClient,
) -> None:
    await ordered(hg)
    async with next_job(hg) as job:
        await job.step("charge", lambda: 1)
        with pytest.raises(ValueError, match="charge"):
            await job.step("charge", lambda: 2)
    assert await rows(hg) == []
    assert (await hg.group("orders", "billing").info())["pending"] == 0


async def test_who_has_lost_the_entry_remembers_nothing(
    hg: headgate.AsyncClient, done: list[str]
) -> None:
    [entry_id] = await ordered(hg)
    billing = hg.group("orders", "billing")

    async def lose(job: headgate.Job) -> None:
        await job.step("first", lambda: 1)
        await billing.claim([entry_id], consumer="ben")
        await job.step("second", lambda: done.append("second"))

    with pytest.raises(problems.NotYours):
        await run(hg, lose)
    assert (done, await rows(hg)) == (["second"], [f"{entry_id}/step/first"])


async def test_a_sleep_gives_the_entry_back_and_is_over_after_that_time(
    hg: headgate.AsyncClient, done: list[str]
) -> None:
    await ordered(hg)
    async with next_job(hg) as job:
        await job.sleep("1d")
        done.append("too soon")
    billing = hg.group("orders", "billing")
    [pending] = await billing.pending()
    assert (pending["consumer"], pending["deliveries"]) == (None, 0)
    assert 86_000_000 < pending["delay_ms"] <= 86_400_000

    await billing.nack([pending["id"]], delay_ms=0)  # somebody wakes it
    async with next_job(hg) as job:
        await job.sleep("1d")
        done.append("too soon")
    [pending] = await billing.pending()
    assert 86_000_000 < pending["delay_ms"] <= 86_400_000
    assert done == []


async def test_several_sleeps_are_slept_one_after_the_other(hg: headgate.AsyncClient) -> None:
    await ordered(hg)
    begun = 0
    for _ in range(3):
        async with next_job(hg) as job:
            begun += 1
            await job.sleep(0.01)
            await job.sleep("20ms")
            await job.commit(append("bills", {"n": "1"}))
    assert begun == 3
    assert await rows(hg) == []


async def test_a_wait_is_over_when_the_key_is_signalled(hg: headgate.AsyncClient) -> None:
    await ordered(hg, 2)
    billing = hg.group("orders", "billing")
    for _ in range(2):
        async with next_job(hg) as job:
            await job.wait_for("approved:42", "7d")
    await billing.signal("approved:42", {"by": "ana"})
    for _ in range(2):
        async with next_job(hg) as job:
            assert await job.wait_for("approved:42", "7d") == {"by": "ana"}
    assert [key async for key in _entry_rows(hg)] == []


async def _entry_rows(hg: headgate.AsyncClient) -> AsyncIterator[str]:
    for key in await rows(hg):
        if not key.startswith("signal/"):
            yield key


async def test_a_key_that_was_signalled_before_is_not_waited_for(hg: headgate.AsyncClient) -> None:
    await ordered(hg)
    await hg.group("orders", "billing").signal("approved:42", 7)
    async with next_job(hg) as job:
        assert await job.wait_for("approved:42", "7d") == 7


async def test_a_wait_that_takes_too_long_raises_each_time(hg: headgate.AsyncClient) -> None:
    await ordered(hg)
    async with next_job(hg) as job:
        await job.wait_for("approved:42", "1ms")

    async def wait(job: headgate.Job) -> None:
        await job.wait_for("approved:42", "1ms")

    for _ in range(2):
        with pytest.raises(TimeoutError, match="approved:42"):
            await run(hg, wait)


async def test_a_worker_goes_on_with_others_while_an_entry_sleeps(
    hg: headgate.AsyncClient, done: list[str]
) -> None:
    await ordered(hg, 3)
    stop = asyncio.Event()

    async def handle(job: headgate.Job) -> None:
        if job.fields["n"] == "1":
            await job.sleep("1d")
        done.append(str(job.fields["n"]))
        if len(done) == 2:
            stop.set()

    await hg.group("orders", "billing").work(handle, stop=stop)
    assert done == ["0", "2"]


class Late(httpx.AsyncHTTPTransport):
    """Holds the answer to the first commit that gives an entry back, until something holds."""

    def __init__(self, holds: Callable[[], object]) -> None:
        super().__init__()
        self._holds: Callable[[], object] | None = holds

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await super().handle_async_request(request)
        holds = self._holds
        if holds is not None and answer.is_success and b'"nack"' in request.content:
            self._holds = None
            await until(holds)
        return answer


async def test_an_entry_that_is_here_again_before_the_answer_is_worked_off(live: Live) -> None:
    begun: list[str] = []
    stop = asyncio.Event()

    async def handle(job: headgate.Job) -> None:
        begun.append(job.id)
        await job.sleep("1ms")
        await job.commit(append("bills", {"n": "1"}))
        stop.set()

    transport = Late(lambda: len(begun) == 2)
    async with headgate.AsyncClient(live.url, transport=transport) as hg:
        [entry_id] = await ordered(hg)
        billing = hg.group("orders", "billing")
        await billing.work(handle, concurrency=2, stop=stop)
        assert begun == [entry_id] * 2
        assert (await billing.info())["pending"] == 0
        assert await rows(hg) == []


async def test_an_entry_has_a_bounded_number_of_steps(hg: headgate.AsyncClient) -> None:
    await ordered(hg)

    async def do_much(job: headgate.Job) -> None:
        for number in range(STEPS_MAX + 1):
            await job.step(f"{number}", lambda: 1)

    with pytest.raises(ValueError, match="at most"):
        await run(hg, do_much)


@pytest.mark.parametrize("text", ["", "2", "d", "2w", "-1d"])
def test_a_time_is_refused_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        milliseconds(text)
