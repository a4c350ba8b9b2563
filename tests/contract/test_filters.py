"""Reads with a filter: matches come, and the cursor passes by all other entries."""

import asyncio
import json
from typing import Any

import pytest

from headgate.app.backends.port import Backend
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, Entry, EntryId
from headgate.engine.replies import StreamRead
from headgate.engine.requests.entries import (
    Add,
    Delete,
    From,
    Range,
    RangeMatching,
    Read,
    StreamCursor,
)
from tests.contract.calls import S, blocked, entry_id, ids
from tests.filter_cases import holds

SALES = {"exact": {"kind": "sale"}}
FILTERS: list[Any] = [
    SALES,
    {"not": SALES},
    [{"range": {"n": {"ge": 1_200}}}, SALES],
    {"present": "other"},
    [],
]


def of_kind(kind: str, *numbers: int) -> list[Draft]:
    """Return entries of a kind."""
    name = b"kind", kind.encode()
    return [Draft(entry_id(number), (*name, b"n", b"%d" % number)) for number in numbers]


def read_of(condition: Any, after: EntryId | From, **options: Any) -> Read:
    """Return a read of the entries for which a filter holds."""
    return Read([StreamCursor(S, after)], filters=json.dumps(condition), **options)


async def read(
    backend: Backend, condition: Any, after: EntryId | From, **options: Any
) -> StreamRead:
    [only] = await backend.perform(read_of(condition, after, **options))
    return only


async def arrivals(backend: Backend, request: Read) -> list[int]:
    """Read, and return the ids that came, with the place where to go on."""
    [only] = await backend.perform(request)
    return [*(entry.id.ms for entry in only.entries), only.next_after.ms]


async def many(backend: Backend) -> list[Entry]:
    """Append entries, more than are looked at in one go, and return them."""
    for start in range(1, 2_401, 800):
        numbers = range(start, start + 800)
        await backend.perform(
            Add(S, [each for n in numbers for each in of_kind("sale" if n % 7 else "gift", n)])
        )
    await backend.perform(Delete(S, ids(5, 700, 2_400)))
    return await backend.perform(Range(S))


@pytest.mark.parametrize("condition", FILTERS)
@pytest.mark.parametrize("limit", [1, 300, None])
async def test_ranges_and_reads_have_what_a_filter_lets_through(
    backend: Backend, condition: Any, limit: int | None
) -> None:
    entries = await many(backend)
    wanted = [
        entry
        for entry in entries
        if holds(condition, dict(zip(entry.fields[::2], entry.fields[1::2], strict=True)))
    ]
    if limit == 1:
        wanted = wanted[:5]
    low, high = entries[0].id, wanted[-1].id if limit == 1 and wanted else MAX_ID

    up, next_id = list[Entry](), low
    while next_id <= high:
        request = RangeMatching(S, json.dumps(condition), next_id, high, limit, 2**20)
        page = await backend.perform(request)
        assert len(page.entries) <= (limit or 5_000)
        up += page.entries
        assert page.last_id >= next_id
        next_id = page.last_id.next() if page.last_id < MAX_ID else MAX_ID
        if page.last_id == high:
            break
    assert up == wanted

    down, last_id = list[Entry](), high
    while True:
        request = RangeMatching(S, json.dumps(condition), low, last_id, limit, 2**20, reverse=True)
        page = await backend.perform(request)
        down += page.entries
        if page.last_id == low:
            break
        assert page.last_id <= last_id
        last_id = page.last_id.previous()
    assert down == wanted[::-1]

    after, came = MIN_ID, list[Entry]()
    while (part := await read(backend, condition, after, limit=limit)).next_after < part.last_id:
        assert part.next_after > after
        came, after = came + part.entries, part.next_after
        if limit == 1 and after >= high:
            break
    came += part.entries if part.next_after >= part.last_id else []
    assert came == wanted


async def test_readers_alike_are_served_alike(backend: Backend) -> None:
    await backend.perform(Add(S, of_kind("gift", 1)))
    request = read_of(SALES, MIN_ID, wait_ms=None, size_bytes_max=2**20)
    tasks = await blocked(backend, *(arrivals(backend, request) for _ in range(3)))
    for number in range(2, 10):
        await backend.perform(Add(S, of_kind("gift", number)))
    await backend.perform(Add(S, of_kind("sale", 10)))
    assert await asyncio.gather(*tasks) == [[10, 10]] * 3


async def test_a_wait_that_is_over_has_passed_by_what_came(backend: Backend) -> None:
    await backend.perform(Add(S, of_kind("gift", 1)))
    request = read_of(SALES, MIN_ID, wait_ms=300, size_bytes_max=2**20)
    [task] = await blocked(backend, arrivals(backend, request))
    await backend.perform(Add(S, of_kind("gift", 2)))
    await backend.perform(Add(S, of_kind("gift", 3)))
    assert await task == [3]


async def test_several_streams_have_one_filter(backend: Backend) -> None:
    other = b"others"
    await backend.perform(Add(S, [*of_kind("gift", 1), *of_kind("sale", 2)]))
    await backend.perform(Add(other, of_kind("gift", 1, 2)))
    cursors = [StreamCursor(S, MIN_ID), StreamCursor(other, MIN_ID)]
    reads = await backend.perform(Read(cursors, filters=json.dumps(SALES), size_bytes_max=2**20))
    assert [[entry.id.ms for entry in each.entries] for each in reads] == [[2], []]
