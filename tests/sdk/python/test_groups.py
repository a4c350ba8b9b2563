"""Groups with the Python client: each entry is worked off once, whatever becomes of connections."""

import asyncio
import contextlib
import os
import signal
from collections import Counter

import pytest

import headgate
from headgate.client import problems
from headgate.client.entries import Entry
from headgate.client.shapes.settings import Policy
from tests.api.conftest import Live
from tests.conditions import WITHIN_S, eventually, until


async def filled(hg: headgate.AsyncClient, count: int, policy: Policy | None = None) -> list[str]:
    """Append entries to the stream `orders`, and create the group `billing` before them."""
    await hg.group("orders", "billing").create(start="0", policy=policy)
    return await hg.stream("orders").append_many([{"n": str(number)} for number in range(count)])


async def test_a_block_acknowledges_and_an_error_gives_back(hg: headgate.AsyncClient) -> None:
    ids = await filled(hg, 3)
    billing = hg.group("orders", "billing")
    handled: list[tuple[str, str | None]] = []
    async with billing.consume(credit=1) as jobs:
        async for job in jobs:
            handled.append((job.id, job.last_error))
            with contextlib.suppress(ZeroDivisionError):
                async with job:
                    assert 1 / (job.id != ids[0] or job.deliveries > 1)
            if len(handled) == 4:
                break
    again = (ids[0], "ZeroDivisionError: division by zero")
    assert Counter(handled) == Counter([*((each, None) for each in ids), again])
    assert (await billing.info())["pending"] == 0


async def test_any_error_is_kept(hg: headgate.AsyncClient) -> None:
    ids = await filled(hg, 5)
    billing = hg.group("orders", "billing")
    async with billing.consume() as jobs:
        for error in (ValueError("x" * 2_000), KeyError(), "no\udcff\nSKU", None):
            (await anext(jobs)).nack(error)
        (await anext(jobs)).nack(mode="silent")
    errors = [entry.get("last_error") for entry in await billing.pending()]
    assert errors == ["ValueError: " + "x" * 988, "KeyError", "no?\nSKU", None, None]

    await billing.read("me")
    await billing.nack(ids[:1], consumer="me", error=RuntimeError("again"))
    [entry] = await billing.read("other", limit=1)
    assert (entry.id, entry.last_error) == (ids[0], "RuntimeError: again")


async def entries_of(hg: headgate.AsyncClient, stream: str) -> list[Entry]:
    """Return the entries of a stream that may not be there yet."""
    try:
        return [entry async for entry in hg.stream(stream).scan()]
    except problems.StreamNotFound:
        return []


async def test_work_reports_errors_and_dead_letters_are_redriven(hg: headgate.AsyncClient) -> None:
    ids = await filled(hg, 20, {"max_deliveries": 2, "dead_letter_stream": "dead"})
    billing, stop = hg.group("orders", "billing"), asyncio.Event()
    done: set[str] = set()
    failures: list[tuple[str, str]] = []
    is_mended = False

    async def handle(job: headgate.Job) -> None:
        if job.fields["n"] == "7" and not is_mended:
            raise ValueError("seven")
        done.add(job.id)
        if len(done) == (20 if is_mended else 19) and len(failures) == 2:
            stop.set()

    def report(job: headgate.Job, error: Exception) -> None:
        failures.append((job.id, str(error)))
        if len(failures) == 2 and len(done) == 19:
            stop.set()

    async with asyncio.timeout(WITHIN_S):
        await billing.work(handle, concurrency=4, on_error=report, stop=stop)
    assert failures == [(ids[7], "seven")] * 2
    [dead_letter] = await eventually(lambda: entries_of(hg, "dead"), bool)
    assert dead_letter.fields["_error"] == "ValueError: seven"
    is_mended = True
    stop.clear()
    assert [each["outcome"] for each in await billing.redrive()] == ["released"]
    async with asyncio.timeout(WITHIN_S):
        await billing.work(handle, stop=stop)
    assert len(done) == 20


async def test_work_ends_with_a_signal_when_handlers_have_ended(hg: headgate.AsyncClient) -> None:
    await filled(hg, 100)
    billing, may_end = hg.group("orders", "billing"), asyncio.Event()
    begun: list[str] = []

    async def handle(job: headgate.Job) -> None:
        begun.append(job.id)
        await may_end.wait()

    working = asyncio.ensure_future(billing.work(handle, concurrency=3))
    await until(lambda: len(begun) == 3)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait([working], timeout=0.1)
    assert not working.done()
    may_end.set()
    async with asyncio.timeout(WITHIN_S):
        await working
    assert len(begun) == 3
    assert (await billing.info())["lag"] == 100 - len(begun) - (await billing.info())["pending"]
    assert (await billing.pending_summary())["consumers"] == []


async def test_a_claimed_job_is_reported_and_not_settled(hg: headgate.AsyncClient) -> None:
    [entry_id] = await filled(hg, 1)
    billing = hg.group("orders", "billing")
    taken: list[tuple[str, str]] = []
    async with billing.consume(on_claimed=lambda id_, by: taken.append((id_, by))) as jobs:
        job = await anext(jobs)
        await billing.claim([entry_id], consumer="thief")
        await until(lambda: bool(taken))
        assert job.is_lost
        job.ack()
    assert taken == [(entry_id, "thief")]
    assert (await billing.pending_summary())["consumers"] == [{"name": "thief", "pending": 1}]


async def test_many_subscriptions_share_one_connection(
    hg: headgate.AsyncClient, live: Live
) -> None:
    await filled(hg, 0)
    tasks = [asyncio.ensure_future(anext(hg.stream("orders").follow(after="0"))) for _ in range(20)]
    await until(lambda: live.waiter_count == 20)
    assert live.gateway.sockets.count() == 2  # and that of requests
    await hg.stream("orders").append({"n": "1"})
    assert {(await task).fields["n"] for task in tasks} == {"1"}


@pytest.mark.parametrize("concurrency", [1, 8])
async def test_work_ends_with_the_problem_of_its_group(
    hg: headgate.AsyncClient, concurrency: int
) -> None:
    await filled(hg, 50)
    billing = hg.group("orders", "billing")

    async def handle(job: headgate.Job) -> None:
        if job.fields["n"] == "20":
            await billing.delete()

    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(problems.GroupNotFound):
            await billing.work(handle, concurrency=concurrency)
        with pytest.raises(problems.GroupNotFound):
            await billing.work(handle, concurrency=concurrency)


async def test_a_stopped_worker_takes_no_entries_that_come_meanwhile(
    hg: headgate.AsyncClient,
) -> None:
    await filled(hg, 10)
    billing, stop, may_end = hg.group("orders", "billing"), asyncio.Event(), asyncio.Event()
    handled: list[str] = []

    async def handle(job: headgate.Job) -> None:
        handled.append(job.id)
        await may_end.wait()

    working = asyncio.ensure_future(billing.work(handle, concurrency=2, credit=4, stop=stop))
    await until(lambda: len(handled) == 2)
    stop.set()
    await hg.stream("orders").append_many([{"n": "late"}] * 10)
    may_end.set()
    async with asyncio.timeout(WITHIN_S):
        await working
    assert len(handled) == 2
    info = await billing.info()
    assert info["pending"] == info["released"]


async def test_a_job_is_extended_on_a_connection_that_was_there_before(
    hg: headgate.AsyncClient,
) -> None:
    await filled(hg, 1, {"claim_idle_ms": 1_500})
    billing = hg.group("orders", "billing")

    seen: list[int] = []

    async def idle_ms() -> list[int]:
        seen.extend(held["idle_ms"] or 0 for held in await billing.pending())
        return seen

    async with hg.stream("orders").follow(after="0") as entries:
        await anext(entries)  # the connection is open, and nothing has to be extended
        async with billing.consume() as jobs:
            job = await anext(jobs)
            await eventually(idle_ms, lambda seen: seen[-1] < max(seen))
            job.ack()


async def test_lists_have_all_their_items_however_long_a_page_is(hg: headgate.AsyncClient) -> None:
    names = [f"c{number}" for number in range(5)]
    for name in names:
        await hg.group(name, "billing").create()
        await hg.group("orders", name).create()
        await hg.group("orders", "c0").read(name)

    streams = [stream["name"] async for stream in hg.streams(prefix="c", limit=2)]
    groups = [group["name"] async for group in hg.stream("orders").groups(limit=2)]
    consumers = [item["name"] async for item in hg.group("orders", "c0").consumers(limit=2)]

    assert streams == groups == consumers == names


async def test_work_ends_with_a_closed_stream(hg: headgate.AsyncClient) -> None:
    ids = await filled(hg, 10)
    billing, done = hg.group("orders", "billing"), list[str]()

    async def charge(job: headgate.Job) -> None:
        done.append(job.id)
        if len(done) == 1:
            await hg.stream("orders").close()

    async with asyncio.timeout(WITHIN_S):
        await billing.work(charge, concurrency=3, stop=asyncio.Event())
        await billing.work(charge, concurrency=3, stop=asyncio.Event())  # nothing is left
    assert sorted(done) == ids
    assert [job.id async for job in billing.consume()] == []
