"""DUMP and RESTORE in pipelines, and what no server says in the same words."""

from __future__ import annotations

import pytest

from headgate.app.rdb.source import checksum_of
from headgate.app.redis_syntax.errors import error_text
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.redis_syntax.words import Bounds
from headgate.engine.engine import Engine
from headgate.engine.errors import StreamError
from headgate.engine.journal.storage import MemoryStorage

ADD = [b"XADD", b"s", b"1-1", b"a", b"b"]


def runner(bounds: Bounds | None = None) -> CommandRunner:
    return CommandRunner(Engine(MemoryStorage()), bounds)


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
        0,
        "OK",
        1,
        "BUSYKEY Target key name already exists.",
        "OK",
        "ERR DUMP payload version or checksum are wrong",
        b"2-1",
        2,
    ]


async def test_what_is_no_stream_is_not_restored() -> None:
    body = b"\x00\x01x\x0a\x00"
    payload = body + checksum_of(body).to_bytes(8, "little")
    [reply] = await pipelined(runner(), [b"RESTORE", b"t", b"0", payload])
    assert reply == "ERR Bad data format: only streams can be restored"


async def test_a_dump_has_a_bound() -> None:
    commands = runner(Bounds(size_bytes_max=100))
    await commands.run([b"XADD", b"s", b"1-1", b"a", b"b" * 200])
    with pytest.raises(StreamError, match=r"bytes in one dump.*use `headgate export`"):
        await commands.run([b"DUMP", b"s"])
