"""Chunks that are staged: their bounds, their files, and what a restart leaves of them."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from blockbuster import BlockBuster

from headgate.app.settings import Settings
from tests.api.conftest import Live, problem_in, refusal_of, running
from tests.api.rest.bulk_requests import WRITER, commit, read_arrow, stage, values, values_in
from tests.arrow_bodies import FIELDS, HEADERS, arrow_of, body_of, rows
from tests.conditions import until


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", staged_bytes_max=4096, batch_entries_max=10)


async def test_a_batch_has_its_bounds(live: Live) -> None:
    url = "/v1/streams/out/entries/batch"
    none = arrow_of({"fields": pa.array([], FIELDS)})
    empty = await live.http.post(url, content=none, headers=HEADERS)
    assert refusal_of(empty) == (422, "invalid_request", "/body")
    many = await live.http.post(url, content=body_of(*"abcdefghijk"), headers=HEADERS)
    assert refusal_of(many) == (422, "invalid_request", "/body")
    large = b"x" * (live.gateway.limits.body_bytes_max + 1)
    assert refusal_of(await live.http.post(url, content=large, headers=HEADERS))[0] == 413
    assert refusal_of(await stage(live, large, (0, 0, "a", 0)))[0] == 413


async def test_an_empty_batch_is_one_and_batches_before_it_are_over(live: Live) -> None:
    assert (await commit(live, 7, [])).json() == {"repeated": False, "entries": 0, "streams": []}
    await stage(live, body_of("a"), (6, 0, "t", 0))
    assert (await commit(live, 6, [(0, "t", 1)])).json()["repeated"]
    await stage(live, arrow_of({"fields": pa.array([], FIELDS)}), (8, 0, "t", 0))
    assert (await commit(live, 8, [(0, "t", 1)])).json()["entries"] == 0
    assert (await live.http.get("/v1/streams")).json()["streams"] == []


async def test_rows_go_where_they_say(live: Live) -> None:
    x, y, z = names = ["{all}x", "{all}y", "{all}z"]  # in one slot of a cluster, as the tag is one
    body = arrow_of({"fields": rows(*"abc"), "stream": pa.array([x, y, x])})
    assert (await stage(live, body, (0, 0, "t", 0), "")).status_code == 200
    mixed = arrow_of({"fields": rows(*"de"), "stream": pa.array([y, None])})
    assert (await stage(live, mixed, (0, 0, "t", 1), f"stream={z}")).status_code == 200

    committed = (await commit(live, 0, [(0, "t", 2)])).json()

    assert [(stream["stream"], stream["entries"]) for stream in committed["streams"]] == [
        (x, 2), (y, 2), (z, 1),
    ]  # fmt: skip
    assert [await values(live, name) for name in names] == [["a", "c"], ["b", "d"], ["e"]]


async def test_a_row_must_say_where_it_goes(live: Live) -> None:
    nowhere = await stage(live, body_of("a"), (0, 0, "t", 0), "")
    assert refusal_of(nowhere) == (422, "invalid_request", "/body/0/stream")
    bad = arrow_of({"fields": rows("a", "b"), "stream": pa.array(["x", "x/y"])})
    assert refusal_of(await stage(live, bad, (0, 0, "t", 0), "")) == (
        422, "invalid_request", "/body/1/stream",
    )  # fmt: skip
    assert refusal_of(await stage(live, body_of("a"), (0, 0, "t", 0), "stream=a%01")) == (
        422, "invalid_request", "/query/stream",
    )  # fmt: skip


async def test_a_chunk_that_is_not_there_is_named_and_nothing_is_appended(live: Live) -> None:
    await stage(live, body_of("a"), (0, 0, "t", 0))
    missing = await commit(live, 0, [(0, "t", 2)])
    assert refusal_of(missing)[:2] == (409, "staged_missing")
    text = problem_in(missing)["detail"]
    assert all(word in text for word in ("partition 0", "'t'", "chunk 1"))
    assert (await live.http.get("/v1/streams")).json()["streams"] == []
    assert (await commit(live, 0, [(0, "t", 1)])).json()["entries"] == 1


async def test_a_commit_that_the_state_forbids_changes_nothing(live: Live) -> None:
    ids = await live.append("{out}", "a")  # in one slot with the other, as the tag is the same
    await stage(live, body_of("new"), (0, 0, "t", 0), "stream={out}fresh")
    await stage(live, body_of("b", ids=["5-1"]), (0, 1, "t", 0), "stream={out}")

    refused = await commit(live, 0, [(0, "t", 1), (1, "t", 1)])
    assert refusal_of(refused)[:2] == (409, "id_not_greater")
    problem = problem_in(refused)
    assert "'{out}'" in problem["detail"]
    assert problem["last_id"] == ids[0]
    missing = await commit(live, 0, [(0, "t", 1)], create_streams=False)
    assert refusal_of(missing)[:2] == (404, "stream_not_found")

    assert [
        stream["name"] for stream in (await live.http.get("/v1/streams")).json()["streams"]
    ] == ["{out}"]
    assert (await live.http.get(WRITER)).json()["last_batch"] is None
    assert (await commit(live, 0, [(0, "t", 1)])).json()["entries"] == 1


async def test_what_is_aborted_is_gone(live: Live) -> None:
    await stage(live, body_of("a"), (0, 0, "t", 0))
    await stage(live, body_of("b"), (1, 0, "t", 0))
    assert (await live.http.delete(f"{WRITER}/batches/0")).status_code == 204
    assert (await live.http.delete(f"{WRITER}/batches/0")).status_code == 204

    assert refusal_of(await commit(live, 0, [(0, "t", 1)]))[1] == "staged_missing"
    assert (await commit(live, 1, [(0, "t", 1)])).json()["entries"] == 1


async def test_staging_has_a_bound_that_commits_and_aborts_give_back(live: Live) -> None:
    chunk = body_of("x" * 1500)
    for number in (0, 1):
        assert (await stage(live, chunk, (0, 0, "t", number))).status_code == 200
    full = await stage(live, chunk, (0, 0, "t", 2))
    assert refusal_of(full) == (413, "too_large", "/body")
    assert "4096" in problem_in(full)["detail"]
    assert (await stage(live, chunk, (0, 0, "t", 1))).status_code == 200  # in place of itself

    assert (await commit(live, 0, [(0, "t", 2)])).json()["entries"] == 2
    for number in (0, 1):
        assert (await stage(live, chunk, (1, 0, "t", number))).status_code == 200
    await live.http.delete(f"{WRITER}/batches/1")
    assert (await stage(live, chunk, (2, 0, "t", 0))).status_code == 200


def staged_files(directory: Path) -> list[Path]:
    return [path for path in (directory / "staged").rglob("*") if path.is_file()]


@asynccontextmanager
async def life(settings: Settings, guard: BlockBuster) -> AsyncIterator[Live]:
    """Run a gateway that others come before or after: it waits for its threads as it stops."""
    guard.activate()
    async with running(settings) as live:
        yield live
        guard.deactivate()


@pytest.fixture
async def stopped(settings: Settings, no_blocking_calls: BlockBuster) -> Settings:
    """Settings of a gateway that has staged a chunk, and was stopped."""
    async with life(settings, no_blocking_calls) as live:
        await stage(live, body_of("a"), (0, 0, "t", 0))
    return settings


async def test_staged_chunks_survive(stopped: Settings, no_blocking_calls: BlockBuster) -> None:
    async with life(stopped, no_blocking_calls) as live:
        assert (await commit(live, 0, [(0, "t", 1)])).json()["entries"] == 1
    async with life(stopped, no_blocking_calls) as live:
        assert (await commit(live, 0, [(0, "t", 1)])).json()["repeated"]
        assert await values(live, "out") == ["a"]


async def test_a_damaged_chunk_is_missing(
    stopped: Settings, no_blocking_calls: BlockBuster
) -> None:
    [file] = await asyncio.to_thread(staged_files, stopped.data_dir)
    await asyncio.to_thread(file.write_bytes, bytes(file.stat().st_size))
    async with life(stopped, no_blocking_calls) as live:
        assert refusal_of(await commit(live, 0, [(0, "t", 1)]))[1] == "staged_missing"


async def test_what_is_too_old_goes(stopped: Settings, no_blocking_calls: BlockBuster) -> None:
    [file] = await asyncio.to_thread(staged_files, stopped.data_dir)
    old = file.stat().st_mtime - stopped.staged_ttl_ms / 1000 - 1
    os.utime(file, (old, old))
    async with life(stopped, no_blocking_calls) as live:
        await until(lambda: not file.exists())
        assert refusal_of(await commit(live, 0, [(0, "t", 1)]))[1] == "staged_missing"


async def test_what_is_sent_and_appended_is_counted(live: Live) -> None:
    await stage(live, body_of("a", "b"), (0, 0, "t", 0))
    await commit(live, 0, [(0, "t", 1)])
    await commit(live, 0, [(0, "t", 1)])
    values_in(await read_arrow(live, "out"))

    metrics = (await live.http.get("/metrics")).text
    assert "headgate_entries_appended_total 2.0" in metrics
    assert 'headgate_entries_delivered_total{transport="arrow"} 2.0' in metrics


async def test_a_committed_batch_has_the_times_that_were_staged(live: Live) -> None:
    hour_ms, until_ms = 3_600_000, 2**50
    begin_ms = time.time_ns() // 1_000_000
    columns = {
        "fields": rows("a", "b", "c"),
        "delay_ms": pa.array([hour_ms, None, None], pa.int64()),
        "expires_at_ms": pa.array([None, None, until_ms], pa.int64()),
    }
    assert (await stage(live, arrow_of(columns), (0, 0, "t", 0))).status_code == 200
    staged_ms = time.time_ns() // 1_000_000
    assert (await stage(live, body_of("d"), (0, 0, "t", 1))).status_code == 200

    assert (await commit(live, 0, [(0, "t", 2)])).json()["entries"] == 4

    first, *others = (await live.http.get("/v1/streams/out/entries")).json()["entries"]
    assert begin_ms <= first["deliver_at_ms"] - hour_ms <= staged_ms
    assert [each.get("expires_at_ms") for each in others] == [None, until_ms, None]
    assert not any("deliver_at_ms" in each for each in others)
