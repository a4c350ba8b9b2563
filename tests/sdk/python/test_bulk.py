"""The Python client in bulk: plans, splits, batches as they come, and exactly-once writes."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pyarrow as pa
import pytest

import headgate
from headgate.client import AnswerLost, Attempt, Cursor, problems
from headgate.client.bulk import Batches, Compression
from tests.api.conftest import Live
from tests.sdk.cut_way import Proxy

COUNT = 10_000
DIGITS = 1_000
"""Of a number in the stream: all of them take more than one batch."""


def rows(*numbers: int, digits: int = 1) -> pa.RecordBatch:
    fields = [[("n", f"{number:0{digits}}")] for number in numbers]
    return pa.RecordBatch.from_pydict({"fields": pa.array(fields, pa.map_("string", "string"))})


def numbers_in(batch: pa.RecordBatch) -> list[int]:
    return [int(value) for value in batch["fields"].items.cast(pa.string()).to_pylist()]


@pytest.fixture
async def stream(hg: headgate.AsyncClient) -> str:
    ids = await hg.stream("bulk").append_batch(rows(*range(COUNT), digits=DIGITS))
    assert len(ids) == COUNT
    return "bulk"


async def test_a_range_is_planned_cut_and_read(hg: headgate.AsyncClient, stream: str) -> None:
    bulk = hg.stream(stream)
    plan, missing = await hg.plan([Cursor(stream), Cursor("missing")], max_entries=9_000)
    assert (plan.entries, plan.backlog, plan.gap) == (9_000, COUNT, None)
    assert (missing.epoch, missing.entries) == (None, 0)
    parts = await bulk.splits(after=plan.after, to=plan.end, parts=2)
    assert [part.entries for part in parts] == [4_500, 4_500]
    numbers: list[int] = []
    for part in parts:
        async with await bulk.batches(start=f"({part.after}", end=part.to) as batches:
            assert (batches.epoch, batches.last_id) == (plan.epoch, plan.last_id)
            async for batch in batches:
                numbers += numbers_in(batch)
    assert numbers == list(range(9_000))


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_batches_are_those_that_arrow_reads(
    live: Live, hg: headgate.AsyncClient, stream: str, compression: Compression
) -> None:
    answer = await live.http.get(
        f"/v1/streams/{stream}/entries?start=-&compression={compression}",
        headers={"Accept": "application/vnd.apache.arrow.stream"},
    )
    expected = pa.ipc.open_stream(answer.content).read_all().to_batches()
    async with await hg.stream(stream).batches(compression=compression) as batches:
        batches_read = [batch async for batch in batches]
    assert len(batches_read) > 2
    assert batches_read == expected


async def test_batches_tell_what_was_trimmed(hg: headgate.AsyncClient, stream: str) -> None:
    bulk = hg.stream(stream)
    last = (await bulk.read(limit=100)).entries[-1].id
    await bulk.trim(min_id=last)
    async with await bulk.batches(start="(0-1") as batches:
        first = await anext(batches)
        assert batches.gap_to is not None
        assert batches.gap_to < first["id"][0].as_py() == last


@pytest.fixture
async def proxy(live: Live) -> AsyncIterator[Proxy]:
    async with Proxy().open() as proxy:
        proxy.carried_max = COUNT * DIGITS // 2  # the end of an answer waits for the cut
        proxy.target = "127.0.0.1", int(live.url.rpartition(":")[2])
        yield proxy


async def test_an_answer_that_is_cut_goes_on(proxy: Proxy, stream: str) -> None:
    async with (
        headgate.AsyncClient(f"127.0.0.1:{proxy.port}") as hg,
        await hg.stream(stream).batches() as batches,
    ):
        numbers = numbers_in(await anext(batches))
        assert len(numbers) < COUNT
        proxy.cut()
        async for batch in batches:
            numbers += numbers_in(batch)
    assert numbers == list(range(COUNT))


@pytest.mark.parametrize("is_trimmed", [True, False])
async def test_an_answer_does_not_go_on_elsewhere(
    hg: headgate.AsyncClient, proxy: Proxy, stream: str, is_trimmed: bool
) -> None:
    async with (
        headgate.AsyncClient(f"127.0.0.1:{proxy.port}") as by_proxy,
        await by_proxy.stream(stream).batches() as batches,
    ):
        await anext(batches)
        proxy.cut()
        if is_trimmed:
            await hg.stream(stream).trim(max_length=1)
        else:
            await hg.stream(stream).delete()
            await hg.stream(stream).append({"n": "0"})
        with pytest.raises(AnswerLost, match="were trimmed" if is_trimmed else "created again"):
            _ = [batch async for batch in batches]


async def test_an_answer_that_comes_byte_by_byte_is_read(live: Live, stream: str) -> None:
    answer = await live.http.get(
        f"/v1/streams/{stream}/entries?start=-&limit=3",
        headers={"Accept": "application/vnd.apache.arrow.stream"},
    )

    async def read(content: bytes) -> list[int]:
        async def pieces() -> AsyncIterator[bytes]:
            for at in range(len(content)):
                yield content[at : at + 1]

        drip = httpx.Response(200, headers=answer.headers, content=pieces())
        batches = Batches(drip, ask_behind=lambda _: pytest.fail("it is asked for again"))
        return [number async for batch in batches for number in numbers_in(batch)]

    assert await read(answer.content) == [0, 1, 2]
    with pytest.raises(AnswerLost, match="ended before the entries did"):
        await read(answer.content[:100])


async def test_a_batch_is_appended_once(hg: headgate.AsyncClient) -> None:
    writer = hg.writer("load 1")
    assert await writer.last_batch() is None
    for chunk, numbers in enumerate([(1, 2), (3,)]):
        await writer.stage(
            0, partition=0, attempt="a", chunk=chunk, rows=rows(*numbers), stream="copy"
        )
    await writer.stage(0, partition=0, attempt="b", chunk=0, rows=rows(9), stream="copy")
    with pytest.raises(problems.StagedMissing):
        await writer.commit(0, [Attempt(0, "a", 3)])
    done = await writer.commit(0, [Attempt(0, "a", 2)])
    again = await writer.commit(0, [Attempt(0, "a", 2)])
    assert (done["repeated"], done["entries"]) == (False, 3)
    assert (again["repeated"], again["entries"]) == (True, 0)
    assert await writer.last_batch() == 0
    await writer.stage(1, partition=0, attempt="a", chunk=0, rows=rows(4), stream="copy")
    await writer.abort(1)
    with pytest.raises(problems.StagedMissing):
        await writer.commit(1, [Attempt(0, "a", 1)])
    async with await hg.stream("copy").batches() as batches:
        assert [number async for batch in batches for number in numbers_in(batch)] == [1, 2, 3]


async def test_without_asyncio_it_is_the_same(live: Live, stream: str) -> None:
    def read() -> list[int]:
        with headgate.Client(live.url) as hg, hg.stream(stream).batches() as batches:
            assert batches.gap_to is None
            return [number for batch in batches for number in numbers_in(batch)]

    assert await asyncio.to_thread(read) == list(range(COUNT))
