"""Blocked reads: their order, and what they leave; answered changes are there after a restart."""

import asyncio
from pathlib import Path

import pytest

from headgate.app.backends.port import Ability, Backend
from headgate.app.redis_syntax.command import error_text
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.engine.errors import Draining, StreamError
from headgate.engine.requests.deliveries import Ack, ListPending, Nack, NackMode
from headgate.engine.requests.entries import Add
from headgate.engine.requests.streams import DescribeStream
from tests.conditions import eventually
from tests.contract.backends import SURVIVES, Kind
from tests.contract.calls import (
    ANA,
    BEN,
    G,
    S,
    blocked,
    drafts,
    entry_id,
    filled,
    got,
    held,
    ids,
    numbers,
    take,
)


async def test_who_comes_later_waits_behind_those_who_wait(backend: Backend) -> None:
    await filled(backend)
    [first] = await blocked(backend, got(backend, take(ANA, 1), None))
    append = asyncio.create_task(backend.perform(Add(S, drafts(1))))
    assert await got(backend, take(BEN, 1)) == []
    await append
    assert await first == [1]


async def test_a_reader_that_is_cancelled_leaves_what_comes_to_the_next(backend: Backend) -> None:
    await filled(backend)
    first, second = await blocked(
        backend, got(backend, take(ANA), None), got(backend, take(BEN), None)
    )
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await backend.perform(Add(S, drafts(1)))
    assert await second == [1]
    assert (await held(backend), backend.waiter_count) == ({1: BEN}, 0)


async def test_what_came_in_the_moment_of_a_cancel_goes_back(backend: Backend) -> None:
    await filled(backend)
    [task] = await blocked(backend, got(backend, take(ANA), None))
    append = asyncio.create_task(backend.perform(Add(S, drafts(1))))
    await asyncio.sleep(0)  # the append is decided, and nobody has been answered
    task.cancel()
    await asyncio.gather(task, append, return_exceptions=True)
    # A server may have answered the reader that has gone.
    await eventually(lambda: held(backend), lambda items: ANA not in items.values())
    [delivery] = (await backend.perform(take(BEN, claim_idle_ms=0)))[0].deliveries
    assert (delivery.id, delivery.delivered_before) == (entry_id(1), 0)


@pytest.mark.needs(SURVIVES)
async def test_what_was_answered_survives(kind: Kind, url: str | None, tmp_path: Path) -> None:
    async with kind.running(tmp_path, url) as backend:
        await filled(backend, 1, 2, 3)
        await backend.perform(take(ANA))
        await backend.perform(Ack(S, G, ids(2)))
        await backend.perform(Nack(S, G, ids(3), NackMode.FAIL, error=b"timeout"))
        before = await backend.perform(DescribeStream(S))
    async with kind.running(tmp_path, url) as backend:
        assert await numbers(backend) == [1, 2, 3]
        assert await held(backend) == {1: ANA, 3: None}
        items = await backend.perform(ListPending(S, G))
        assert [item.last_error for item in items] == [None, b"timeout"]
        assert await backend.perform(DescribeStream(S)) == before
        await backend.perform(Add(S, drafts(4)))
        assert await got(backend, take(ANA, claim_idle_ms=3_600_000)) == [3, 4]


async def test_a_backend_that_drains_ends_its_reads_and_answers_on(backend: Backend) -> None:
    await filled(backend)
    [task] = await blocked(backend, got(backend, take(ANA), None))
    backend.drain()
    with pytest.raises(Draining):
        await task
    with pytest.raises(Draining):
        await got(backend, take(ANA), None)
    await backend.perform(Add(S, drafts(1)))
    assert await got(backend, take(ANA)) == [1]
    assert (backend.is_draining, backend.waiter_count) == (True, 0)


@pytest.mark.needs(Ability.COMMANDS)
async def test_a_client_waits_for_what_is_known(backend: Backend, kind: Kind) -> None:
    commands = CommandRunner(backend)
    await commands.run([b"XADD", S, b"*", b"a", b"b"])
    replicas = (0, 1) if kind.name == "cluster" else (0,)  # that have it by then
    assert await commands.run([b"WAIT", b"0", b"0"]) in replicas
    assert await commands.run([b"WAIT", b"1", b"10"]) in replicas
    wait = [b"WAITAOF", b"1", b"0", b"0"]
    if kind.name in ("memory", "remote", "redis"):  # no disk, or a server older than 7.2
        with pytest.raises(StreamError) as raised:
            await commands.run(wait)
        assert error_text(raised.value).startswith("ERR ")
    else:
        assert await commands.run(wait) in [[1, count] for count in replicas]
