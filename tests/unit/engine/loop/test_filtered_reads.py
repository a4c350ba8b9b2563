"""Reads with filters: many of them share the time of a turn, and those that wait do nothing."""

from __future__ import annotations

import asyncio

import pytest

from headgate.engine import threads
from headgate.engine.decisions import entries
from headgate.engine.requests.entries import Read, StreamCursor
from tests.unit.driver import Driver, S, entry_id
from tests.virtual_time import VirtualClock


def filtered(number: int, wait_ms: int | None) -> Read:
    text = f'{{"exact":{{"n":"{number}"}}}}'
    return Read([StreamCursor(S, entry_id(1))], wait_ms=wait_ms, filters=text)


async def test_a_filter_is_not_made_ready_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Driver(VirtualClock())
    await engine.put(1)
    made: list[str] = []
    monkeypatch.setattr(entries, "matcher_of", made.append)

    for number in range(20):
        await engine.perform(filtered(number, wait_ms=15_000))

    assert made == []


async def test_many_reads_with_filters_begin_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Driver()
    await engine.put(1, 2)
    monkeypatch.setattr(threads, "TURN_MS_MAX", 0)
    reads = [asyncio.ensure_future(engine.perform(filtered(n, wait_ms=0))) for n in range(40)]
    turn_count = 0
    while not all(read.done() for read in reads):
        await asyncio.sleep(0)
        turn_count += 1

    assert turn_count >= len(reads)
    assert [len(read.result()[0].entries) for read in reads][:4] == [0, 0, 1, 0]
