"""DUMP and RESTORE in pipelines, and what no server says in the same words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event

import pytest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.backends.payloads import PAYLOADS, Payloads, PayloadsBusy, PayloadTooLarge
from headgate.app.rdb.payload import write_payload
from headgate.app.rdb.source import KEYS_VERSION, WIDEST_VERSION, StreamType
from headgate.app.redis_syntax.command import error_text
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.redis_syntax.words import Bounds
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.errors import StreamError, Unavailable
from headgate.engine.images import CountersImage
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.limits import UNPACKED_BYTES_MAX
from tests.unit.app.rdb.images import stream_of

ADD = [b"XADD", b"s", b"1-1", b"a", b"b"]


def runner(bounds: Bounds | None = None) -> CommandRunner:
    return CommandRunner(EmbeddedBackend(Engine(MemoryStorage())), bounds)


async def pipelined(commands: CommandRunner, *lines: list[bytes]) -> list[object]:
    """Run commands as a pipeline does: each batch goes on where the one before has stopped."""
    replies: list[object] = []
    while len(replies) < len(lines):
        batch = await commands.run_each(lines[len(replies) :])
        assert batch
        replies += [error_text(each) if isinstance(each, StreamError) else each for each in batch]
    return replies


async def test_a_pipeline_dumps_and_restores_in_order() -> None:
    commands = runner()
    _, payload = await pipelined(commands, ADD, [b"DUMP", b"s"])
    assert isinstance(payload, bytes)
    restore = [b"RESTORE", b"t", b"0", payload]
    assert await pipelined(
        commands,
        [b"EXISTS", b"t"],
        restore,
        [b"XLEN", b"t"],
        restore,
        [*restore, b"REPLACE"],
        [b"RESTORE", b"u", b"0", b"x"],
        [b"XADD", b"t", b"2-1", b"a", b"b"],
        [b"XLEN", b"t"],
    ) == [
        *(0, "OK", 1, "BUSYKEY Target key name already exists.", "OK"),
        *("ERR DUMP payload version or checksum are wrong", b"2-1", 2),
    ]


async def test_a_dump_has_a_bound() -> None:
    commands = runner(Bounds(size_bytes_max=100))
    await commands.run([*ADD[:4], b"b" * 200])
    with pytest.raises(StreamError, match=r"bytes in one dump.*use `headgate export`"):
        await commands.run([b"DUMP", b"s"])


# The room that payloads share


def payload_of(size_bytes: int) -> bytes:
    """Return a payload of one entry with so many bytes."""
    entries = [Entry(EntryId(1, 1), (b"a", bytes(size_bytes)))]
    stream = stream_of(entries, CountersImage(EntryId(1, 1), MIN_ID, 1), [])
    return b"".join(write_payload(stream, WIDEST_VERSION))


async def test_the_payloads_of_a_transaction_share_one_bound() -> None:
    payload = payload_of(UNPACKED_BYTES_MAX // 20)
    lines = [[b"RESTORE", b"t%d" % at, b"0", payload] for at in range(21)]
    commands = runner()
    with pytest.raises(StreamError, match=r"EXECABORT.*payload is too large") as raised:
        await commands.run_all(lines)
    assert isinstance(raised.value, PayloadTooLarge)
    assert await commands.run([b"DBSIZE"]) == 0
    assert await commands.run_all([[*lines[0][:3], payload_of(1_000)]]) == ["OK"]
    assert PAYLOADS.size_bytes == 0


async def test_who_finds_no_room_may_try_again() -> None:
    commands = runner()
    line = [b"RESTORE", b"t", b"0", payload_of(1_000)]
    with PAYLOADS.share() as others:
        others.take(UNPACKED_BYTES_MAX - 500)
        for run in (commands.run(line), commands.run_all([line])):
            with pytest.raises(Unavailable) as raised:
                await run
            assert "TRYAGAIN Payloads of other clients" in error_text(raised.value)
        [refusal] = await pipelined(commands, line)
        assert str(refusal).startswith("TRYAGAIN ")
    assert await commands.run(line) == "OK"
    assert PAYLOADS.size_bytes == 0


@asynccontextmanager
async def busy(payloads: Payloads) -> AsyncIterator[None]:
    """Keep the thread of payloads busy, so that others have to wait."""
    has_begun, may_end = Event(), Event()

    def hold() -> None:
        has_begun.set()
        may_end.wait()

    holding = asyncio.create_task(payloads.run(hold))
    await asyncio.to_thread(has_begun.wait)
    yield
    may_end.set()
    await holding


async def test_a_client_that_gives_up_frees_what_it_holds() -> None:
    commands, payload = runner(), payload_of(100_000)
    async with busy(PAYLOADS):
        restoring = asyncio.create_task(commands.run([b"RESTORE", b"t", b"0", payload]))
        while not PAYLOADS.size_bytes:
            await asyncio.sleep(0)
        assert PAYLOADS.size_bytes == len(payload)
        restoring.cancel()
        with pytest.raises(asyncio.CancelledError):
            await restoring
        assert PAYLOADS.size_bytes == 0
    assert await commands.run([b"EXISTS", b"t"]) == 0


async def test_no_more_wait_than_may() -> None:
    payloads = Payloads(waiting_max=1)
    async with busy(payloads):
        with pytest.raises(PayloadsBusy):
            await payloads.run(lambda: None)
    await payloads.run(lambda: None)


async def test_a_dump_keeps_idempotency_keys() -> None:
    commands = runner()
    add = [b"XADD", b"s", b"IDMP", b"p", b"i", b"*", b"a", b"b"]
    first = await commands.run(add)
    payload = await commands.run([b"DUMP", b"s"])
    assert isinstance(payload, bytes)
    assert (payload[0], payload[-10]) == (StreamType.LISTPACKS_4, KEYS_VERSION)
    assert await commands.run([b"RESTORE", b"t", b"0", payload]) == "OK"
    assert await commands.run([b"XADD", b"t", *add[2:]]) == first
    assert await commands.run([b"XLEN", b"t"]) == 1
    assert await commands.run([b"DUMP", b"t"]) != payload  # it has a repeat
