"""Streams move from one backend to another, and nobody who uses them notices."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest

from headgate.app.backends.copying.contents import MARK, differences, settings_of
from headgate.app.backends.copying.moving import Move, MoveOutcome, MoveState, Summary
from headgate.app.backends.port import Ability, Backend
from headgate.engine.config import GroupPolicy, StreamConfig
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, Timing
from headgate.engine.errors import Unavailable
from headgate.engine.replies import PendingItem
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import Ack, Claim, ListPending, Nack, NackMode
from headgate.engine.requests.entries import Add, Delete, FindTimes, Range, Trim, TrimTo
from headgate.engine.requests.groups import CreateConsumer, CreateGroup, GroupStart, ListGroups
from headgate.engine.requests.keyspace import ExpireStream, GetExpiry, ListNames
from headgate.engine.requests.streams import (
    AttributeChange,
    ChangeAttributes,
    CloseStream,
    CreateStream,
    DescribeStream,
    GetAttributes,
)
from tests.contract.backends import KINDS, Kind
from tests.contract.calls import ANA, BEN, G, S, drafts, entry_id, filled, got, ids, numbers, take

pytestmark = pytest.mark.needs(Ability.POLICIES)

T = TypeVar("T")

HOUR_MS = 3_600_000
DEAD = b"orders-dead"
POLICY = GroupPolicy(max_deliveries=9, dead_letter_stream=DEAD, backoff_ms=(50, 100))


class Notes:
    """The notes of a move."""

    def __init__(self) -> None:
        self.outcomes: dict[bytes, MoveOutcome] = {}
        self.total = (0, 0)
        self.entries = 0

    def began(self, streams: int, entries: int) -> None:
        self.total = streams, entries

    def copied(self, entries: int) -> None:
        self.entries += entries

    def ended(self, outcome: MoveOutcome) -> None:
        self.outcomes[outcome.stream] = outcome

    def states(self) -> dict[bytes, MoveState]:
        return {stream: outcome.state for stream, outcome in self.outcomes.items()}


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[Backend]:
    """Run a second backend, which keeps its streams in memory."""
    [memory] = [kind for kind in KINDS if kind.name == "memory"]
    async with memory.running(tmp_path) as running:
        yield running


@pytest.fixture(params=["there", "back"])
def ends(request: pytest.FixtureRequest, backend: Backend, other: Backend) -> list[Backend]:
    """Return a source and a target; the backend of the suite is either."""
    return [backend, other] if request.param == "there" else [other, backend]


class Breaking:
    """A backend that can be lost: it carries out so many requests, and then no more."""

    def __init__(self, backend: Backend, requests: int) -> None:
        self._backend = backend
        self.left = requests

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def perform(self, request: Request[T]) -> T:
        if self.left == 0:
            raise Unavailable("lost")
        self.left -= 1
        return await self._backend.perform(request)


class Growing(Breaking):
    """A backend that gets an entry while it is copied."""

    async def perform(self, request: Request[T]) -> T:
        if isinstance(request, ListPending) and self.left:
            self.left -= 1
            await self._backend.perform(Add(S, drafts(2**62)))
        return await self._backend.perform(request)


async def moved(
    source: Backend, target: Backend, notes: Notes | None = None, **choices: Any
) -> Summary:
    return await Move(source, target, notes or Notes(), **choices).run()


async def is_done(move: Awaitable[Summary]) -> bool:
    """Wait for a move; tells whether it was not broken off."""
    with suppress(Unavailable):
        await move
        return True
    return False


async def used(backend: Backend) -> None:
    """Make streams as they are when they have been used for a while."""
    config = StreamConfig(max_length=1000, max_age_ms=100 * 365 * 24 * HOUR_MS, idempotency_max=7)
    await backend.perform(CreateStream(S, config))
    await filled(backend, *range(1_900_000_000_000, 1_900_000_000_020))
    every = [entry.id for entry in await backend.perform(Range(S))]
    await backend.perform(Add(S, [Draft(MAX_ID._replace(seq=7), (b"\xff", b"", b"\xff", b"2"))]))
    assert len(await got(backend, take(ANA, 12))) == 12
    assert len(await got(backend, take(BEN, 3))) == 3
    await backend.perform(CreateConsumer(S, G, b"idle"))
    await backend.perform(Ack(S, G, every[:1]))
    await backend.perform(Nack(S, G, every[4:6], NackMode.FAIL, error=b"timeout"))
    await backend.perform(Nack(S, G, every[8:9], NackMode.FAIL, error=b"refused"))
    await backend.perform(Claim(S, G, ANA, every[8:9], 0))
    await backend.perform(Nack(S, G, every[6:7], NackMode.FAIL, delay_ms=HOUR_MS))
    await backend.perform(Nack(S, G, every[7:8], NackMode.SILENT, retry_count=5))
    await backend.perform(Delete(S, [every[5], every[10], every[17]]))
    await backend.perform(Trim(S, TrimTo(min_id=every[3])))
    await backend.perform(CreateGroup(S, b"late", GroupStart(every[12]), policy=POLICY))
    await backend.perform(CreateGroup(S, b"new", GroupStart(None, 3)))
    await backend.perform(Add(DEAD, drafts(1, 2)))
    await backend.perform(Delete(DEAD, ids(1, 2)))
    await backend.perform(CreateStream(b"expiring"))
    await backend.perform(ExpireStream(b"expiring", HOUR_MS))
    attributes = AttributeChange({b"kind": b"\x00\xff", b"empty": b""})
    await backend.perform(ChangeAttributes(b"expiring", attributes))
    await backend.perform(CloseStream(b"expiring"))


async def other_stream(backend: Backend, stream: bytes, number: int) -> None:
    """Make a stream that is no copy, even of a stream that was made at this moment."""
    await backend.perform(CreateStream(stream, epoch=1))
    await backend.perform(Add(stream, drafts(number)))


async def pending(backend: Backend) -> list[PendingItem]:
    return await backend.perform(ListPending(S, G))


async def assert_same(source: Backend, target: Backend) -> None:
    for stream in await source.perform(ListNames()):
        assert await differences(source, target, stream) == []
        assert await settings_of(source, stream) == await settings_of(target, stream)
    assert await target.perform(ListNames()) == await source.perform(ListNames())


async def test_a_stream_is_moved_with_all_that_it_is_made_of(ends: list[Backend]) -> None:
    source, target = ends
    await used(source)
    notes = Notes()
    summary = await moved(source, target, notes)
    assert summary.is_complete
    assert notes.states() == dict.fromkeys([S, DEAD, b"expiring"], MoveState.COPIED)
    assert (notes.total, notes.entries, summary.entries) == ((3, 15), 15, 15)
    await assert_same(source, target)
    assert await target.perform(Range(S)) == await source.perform(Range(S))
    before, after = [await backend.perform(DescribeStream(S)) for backend in ends]
    chunks, hot, cold = before.chunk_count, before.hot_bytes, before.cold_bytes
    assert after._replace(chunk_count=chunks, hot_bytes=hot, cold_bytes=cold) == before
    listed, moved_groups = [
        # Servers do not know since when a group has been idle.
        [group._replace(waiting_since_ms=None, idle_since_ms=None) for group in infos]
        for infos in [await backend.perform(ListGroups(S)) for backend in ends]
    ]
    assert moved_groups == listed
    attributes = await target.perform(GetAttributes(b"expiring"))
    assert attributes == {b"kind": b"\x00\xff", b"empty": b""}
    at_ms = await source.perform(GetExpiry(b"expiring"))
    assert at_ms is not None
    assert await target.perform(GetExpiry(b"expiring")) == at_ms


async def test_what_is_pending_stays_with_its_consumer_for_its_time(ends: list[Backend]) -> None:
    source, target = ends
    await used(source)
    await moved(source, target)
    items = list(zip(await pending(source), await pending(target), strict=True))
    assert len(items) == 14
    for before, after in items:
        assert after[:2] == before[:2]
        assert after.delivery_count == before.delivery_count
        assert after.last_error == before.last_error
        assert (after.idle_ms is None) == (before.idle_ms is None)
        assert abs((after.idle_ms or 0) - (before.idle_ms or 0)) < 60_000
        assert (after.delay_ms > HOUR_MS - 60_000) == (before.delay_ms > 0)
    with_gone = {item.id for item in await pending(source)}
    with_gone -= {entry.id for entry in await source.perform(Range(S))}
    assert len(with_gone) == 4  # two trimmed, two deleted


async def test_entries_keep_their_times(ends: list[Backend]) -> None:
    source, target = ends
    at_ms = time.time_ns() // 1_000_000 + HOUR_MS
    late, brief = Timing(deliver_at_ms=at_ms), Timing(delay_ms=HOUR_MS, ttl_ms=2 * HOUR_MS)
    timings = (late, None, brief)
    fields = (b"n", b"1")
    given = [Draft(entry_id(n), fields, timing) for n, timing in enumerate(timings, 1)]
    await source.perform(CreateGroup(S, G, GroupStart(MIN_ID), create_stream=True))
    await source.perform(Add(S, given))
    await filled(source, *range(4, 2_000))
    times = await source.perform(FindTimes(S, ids(1, 2, 3)))
    assert list(times) == ids(1, 3)
    assert await got(source, take(ANA, 1)) == [2]  # the group has passed by the first one

    summary = await moved(source, target)

    assert (summary.is_complete, summary.untimed) == (True, 0)
    assert await target.perform(FindTimes(S, ids(1, 2, 3))) == times
    assert await got(target, take(ANA, 1)) == [4]
    assert (await moved(source, target)).untimed == 0


async def test_pages_have_bounds(ends: list[Backend], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.app.backends.copying.contents.PAGE", 2)
    source, target = ends
    await used(source)
    assert (await moved(source, target)).is_complete
    await assert_same(source, target)


async def test_a_second_run_finds_all_there(ends: list[Backend]) -> None:
    source, target = ends
    await used(source)
    await moved(source, target)
    notes = Notes()
    summary = await moved(source, target, notes)
    assert summary.is_complete
    assert summary.entries == 0
    assert notes.states()[S] is MoveState.SAME


async def test_a_copy_that_was_used_is_not_overwritten(ends: list[Backend]) -> None:
    source, target = ends
    await filled(source, 1, 2)
    await moved(source, target)
    await target.perform(Add(S, drafts(3)))
    notes = Notes()
    summary = await moved(source, target, notes)
    assert not summary.is_complete
    assert notes.outcomes[S] == MoveOutcome(
        S, MoveState.CHANGED, "they differ in length, last id, entries added, entries"
    )
    assert await numbers(target) == [1, 2, 3]


async def test_another_stream_of_the_name_is_refused_or_replaced(ends: list[Backend]) -> None:
    source, target = ends
    await filled(source, 1, 2)
    await source.perform(Add(b"fine", drafts(1)))
    await other_stream(target, S, 7)
    notes = Notes()
    summary = await moved(source, target, notes)
    assert notes.states() == {S: MoveState.REFUSED, b"fine": MoveState.COPIED}
    assert not summary.is_in_force  # what is there waits for what is missing
    assert await numbers(target) == [7]
    assert MARK in [group.name for group in await target.perform(ListGroups(b"fine"))]
    assert (await moved(source, target, replaces=True)).is_complete
    await assert_same(source, target)


async def test_only_chosen_streams_are_moved(ends: list[Backend]) -> None:
    source, target = ends
    for name in (b"a", b"b"):
        await source.perform(Add(name, drafts(1)))
    assert (await moved(source, target, is_chosen=lambda name: name == b"b")).is_complete
    assert await target.perform(ListNames()) == [b"b"]


async def test_an_incomplete_copy_is_no_source(ends: list[Backend]) -> None:
    source, target = ends
    await filled(source, 1)
    await source.perform(CreateGroup(S, MARK, GroupStart(MIN_ID)))
    notes = Notes()
    await moved(source, target, notes)
    assert notes.states() == {S: MoveState.REFUSED}


async def test_a_copy_that_others_append_to_is_refused(backend: Backend, other: Backend) -> None:
    await filled(other, 1, 2)
    await other_stream(backend, b"blocks", 1)
    await other.perform(Add(b"blocks", drafts(1)))
    await moved(other, backend)
    await backend.perform(Add(S, drafts(3)))
    notes = Notes()
    await moved(other, backend, notes)
    assert notes.outcomes[S].why == "other clients have appended to the incomplete copy"
    assert await numbers(backend) == [1, 2, 3]


async def test_a_move_that_broke_off_anywhere_is_completed_by_the_next(
    kind: Kind, url: str | None, tmp_path: Path
) -> None:
    """Lose the target after every single request, and move again."""
    [memory] = [each for each in KINDS if each.name == "memory"]
    async with memory.running(tmp_path) as source:
        await used(source)
        for requests in count(0, 1 if kind is memory else 7):
            async with kind.running(tmp_path / str(requests), url) as target:
                is_over = await is_done(moved(source, Breaking(target, requests)))
                assert (await moved(source, target)).is_complete, requests
                await assert_same(source, target)
            if is_over:
                break


async def test_a_run_goes_on_after_the_stream_has_changed_meanwhile(ends: list[Backend]) -> None:
    source, target = ends
    await filled(source, *range(1, 50))
    assert len(await got(source, take(ANA, 30))) == 30
    await source.perform(Delete(S, ids(3, 7)))
    notes = Notes()
    await moved(Growing(source, 1), target, notes)
    assert notes.outcomes[S] == MoveOutcome(S, MoveState.FAILED, "it changed during the copy")
    summary = await moved(source, target)
    assert (summary.is_complete, summary.entries) == (True, 1)
    await assert_same(source, target)


async def test_entries_that_came_since_are_added_to_a_copy(ends: list[Backend]) -> None:
    source, target = ends
    await filled(source, 1, 2)
    await other_stream(target, b"blocks", 1)
    await source.perform(Add(b"blocks", drafts(1)))
    await moved(source, target)
    await source.perform(Add(S, drafts(3)))
    assert await got(source, take(ANA)) == [1, 2, 3]
    await source.perform(Delete(S, ids(1)))
    assert (await moved(source, target, replaces=True)).is_complete
    await assert_same(source, target)
