"""The Python client without asyncio: the same, in threads."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import headgate
from clients import generate_blocking, generate_settings
from headgate.client import problems
from headgate.client.commits import append
from tests.api.conftest import Live


@pytest.fixture
async def url(live: Live) -> str:
    return live.url


def test_it_is_what_is_generated_from_the_other() -> None:
    assert generate_blocking.TARGET.read_text() == generate_blocking.formatted(
        generate_blocking.generated()
    )


def test_the_settings_are_those_of_the_document() -> None:
    assert generate_settings.TARGET.read_text() == generate_settings.generated()


def script(url: str) -> Iterator[object]:
    with headgate.Client(url) as hg:
        orders, billing = hg.stream("orders"), hg.group("orders", "billing")
        yield orders.name
        ids = [orders.append({"n": "0"}), *orders.append_many([{"n": "1"}, {"n": "2"}])]
        yield [entry.id for entry in orders.scan(limit=2)] == ids
        with orders.follow(after="0") as entries:
            yield [entry.fields["n"] for _, entry in zip(range(3), entries, strict=False)]
        billing.create(start="0")
        with billing.consume(credit=1) as jobs:
            for job in jobs:
                with job:
                    yield job.fields["n"]
                    job.commit(append("bills", {"n": job.fields["n"]}))
                if job.id == ids[-1]:
                    break
        yield billing.info()["pending"]
        yield [entry.fields["n"] for entry in hg.stream("bills").scan()]
        with pytest.raises(problems.StreamNotFound):
            hg.stream("nothing").info()
        orders.append_many([{"n": str(number)} for number in range(3, 50)])
        stop, handled, failures = threading.Event(), list[str](), list[str]()

        def handle(job: headgate.BlockingJob) -> None:
            handled.append(job.id)
            if len(handled) == 5:
                raise ValueError("five")
            if len(handled) == 48:
                stop.set()

        def report(job: headgate.BlockingJob, error: Exception) -> None:
            failures.append(str(error))

        billing.work(handle, concurrency=4, stop=stop, on_error=report)
        yield failures, len(set(handled)), billing.info()["pending"]


async def test_a_program_without_asyncio(url: str) -> None:
    results = await asyncio.to_thread(lambda: list(script(url)))
    assert results == [
        "orders",
        True,
        ["0", "1", "2"],
        "0",
        "1",
        "2",
        0,
        ["0", "1", "2"],
        (["five"], 47, 0),
    ]


def is_of_client(thread: threading.Thread) -> bool:
    return "headgate" in thread.name


async def test_nothing_is_left_of_a_client(url: str) -> None:
    before = set(threading.enumerate())

    def use() -> set[threading.Thread]:
        with headgate.Client(url) as hg:
            hg.stream("orders").append({"n": "0"})
            during = {each for each in set(threading.enumerate()) - before if is_of_client(each)}
        assert not any(each.is_alive() for each in during)
        return during

    assert len(await asyncio.to_thread(use)) == 1
    assert not {each for each in set(threading.enumerate()) - before if is_of_client(each)}


async def test_loops_end_with_a_closed_stream(url: str) -> None:
    def use() -> tuple[list[Any], list[str], list[str]]:
        with headgate.Client(url) as hg:
            runs, group = hg.stream("runs"), hg.group("runs", "g")
            runs.append({"n": "0"})
            group.create(start="0")
            runs.close({"n": "last"})
            followed = [entry.fields["n"] for entry in runs.follow(after="0")]
            worked: list[str] = []
            group.work(lambda job: worked.append(job.id))
            return followed, worked, [job.id for job in group.consume()]

    followed, worked, left = await asyncio.to_thread(use)
    assert (followed, len(worked), left) == (["0", "last"], 2, [])
